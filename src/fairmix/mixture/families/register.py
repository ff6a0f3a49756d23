"""The register of families: which one the kinds of columns and ``covariance_type`` call for."""

from __future__ import annotations

import numpy as np

from fairmix.kernels.totals import FloatArray
from fairmix.mixture.families._base import Family, NumericFamily
from fairmix.mixture.families.categorical import Categorical
from fairmix.mixture.families.gaussian import COVARIANCE_TYPES, Gaussian
from fairmix.mixture.families.product import Product

# Families of numeric columns, by the ``covariance_type`` that names each. All who list or choose
# one read this when they need it, so a class of your own counts from the line that adds it.
FAMILIES: dict[str, type[NumericFamily]] = dict.fromkeys(COVARIANCE_TYPES, Gaussian)


def make_family(
    n_components: int,
    levels: tuple[int, ...],
    center: FloatArray,
    covariance_type: str,
    reg_covar: float,
) -> Family:
    """The family that the kinds of columns call for.

    Parameters
    ----------
    n_components : int
        K.
    levels : tuple of int
        Number of categories of each categorical column.
    center : (d,) array
        About the mean of each numeric column.
    covariance_type : str
        A name in ``FAMILIES``, of which only numeric columns make use.
    reg_covar : float
        Lower bound of variances, likewise.

    Examples
    --------
    >>> make_family(2, (3,), np.zeros(0), "diag", 1e-6)
    Categorical(n_components=2, levels=(3,))
    """
    if not len(center):
        return Categorical(n_components, levels)
    numeric = FAMILIES[covariance_type](n_components, center, covariance_type, reg_covar)
    return joined(numeric, levels)


def joined(numeric: NumericFamily, levels: tuple[int, ...]) -> Family:
    """A family of numbers, times that of categories if there are any."""
    return Product(numeric, Categorical(numeric.n_components, levels)) if levels else numeric


def takes_missing(covariance_type: str) -> bool:
    """Whether a family integrates out missing numbers.

    Examples
    --------
    >>> takes_missing("diag"), takes_missing("full")
    (True, False)
    """
    # Estimators are asked before their parameters are checked, so a name may be none.
    if covariance_type not in tuple(FAMILIES):
        return False
    # And before there are columns: what holds for one holds for any number of them.
    return FAMILIES[covariance_type](1, np.zeros(1), covariance_type, 0.0).takes_missing
