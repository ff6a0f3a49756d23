"""Families of component densities."""

from fairmix.mixture.families._base import (
    Centers,
    Family,
    GraphBuilder,
    NumericFamily,
    RowNames,
    Stored,
)
from fairmix.mixture.families.categorical import Categorical
from fairmix.mixture.families.gaussian import (
    COVARIANCE_TYPES,
    Gaussian,
    precision_factors,
    precisions,
    shape_of,
)
from fairmix.mixture.families.product import Product
from fairmix.mixture.families.register import FAMILIES, joined, make_family, takes_missing

__all__ = [
    "COVARIANCE_TYPES",
    "FAMILIES",
    "Categorical",
    "Centers",
    "Family",
    "Gaussian",
    "GraphBuilder",
    "NumericFamily",
    "Product",
    "RowNames",
    "Stored",
    "joined",
    "make_family",
    "precision_factors",
    "precisions",
    "shape_of",
    "takes_missing",
]
