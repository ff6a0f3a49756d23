"""Families of component densities."""

from fairmix.mixture.families._base import Family
from fairmix.mixture.families.categorical import Categorical
from fairmix.mixture.families.gaussian import COVARIANCE_TYPES, INDEPENDENT, Gaussian
from fairmix.mixture.families.product import Product

__all__ = ["COVARIANCE_TYPES", "INDEPENDENT", "Categorical", "Family", "Gaussian", "Product"]
