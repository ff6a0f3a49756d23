"""Families of component densities."""

from fairmix.families._base import Family
from fairmix.families.categorical import Categorical
from fairmix.families.gaussian import COVARIANCE_TYPES, INDEPENDENT, Gaussian
from fairmix.families.product import Product

__all__ = ["COVARIANCE_TYPES", "INDEPENDENT", "Categorical", "Family", "Gaussian", "Product"]
