"""Fairness of an assignment towards groups. See the package docstring for the edge cases."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairmix.criteria import CRITERIA, smallest_ratio
from fairmix.metrics._assignment import group_mass

Array = NDArray[np.float64]


def group_counts(
    assignment: object, sensitive_features: object, *, sample_weight: ArrayLike | None = None
) -> Array:
    """Mass of each group in each cluster.

    Parameters
    ----------
    assignment : array-like of shape (n_rows,) or (n_rows, n_clusters)
        Hard labels of any kind, or probabilities whose rows sum to 1.
    sensitive_features : array-like or table
        The group of each row, as in `fairmix.FairMixture.fit`. Several columns form their
        intersections.
    sample_weight : array-like of shape (n_rows,), optional
        Weights of at least 0. A weight of 2 counts as two equal rows.

    Returns
    -------
    ndarray of shape (n_groups, n_clusters)
        Rows follow the sorted groups, columns the sorted labels or the columns of probabilities.

    Examples
    --------
    >>> group_counts([0, 0, 1, 1, 1], ["a", "b", "a", "a", "b"])
    array([[1., 2.],
           [1., 1.]])
    """
    return group_mass(assignment, sensitive_features, sample_weight)


def group_rates(
    assignment: object, sensitive_features: object, *, sample_weight: ArrayLike | None = None
) -> Array:
    """Share of each group that is in each cluster, P(cluster | group).

    Parameters
    ----------
    assignment, sensitive_features, sample_weight
        As in `group_counts`.

    Returns
    -------
    ndarray of shape (n_groups, n_clusters)
        Each row sums to 1. A group whose weights are all 0 has no rates: its row is NaN. (The
        figures of this package leave such a group out.)

    Examples
    --------
    >>> group_rates([0, 0, 1, 1], ["a", "b", "a", "b"])
    array([[0.5, 0.5],
           [0.5, 0.5]])
    """
    mass = group_mass(assignment, sensitive_features, sample_weight)
    sizes = mass.sum(axis=1, keepdims=True)
    rates = np.full_like(mass, np.nan)
    np.divide(mass, sizes, out=rates, where=sizes > 0)
    return rates


def gap(
    assignment: object, sensitive_features: object, *, sample_weight: ArrayLike | None = None
) -> float:
    """Largest over clusters of the mean, over pairs of groups, of the difference of rates.

    With two groups this is the Delta of the paper: max over k of ``|r[0, k] - r[1, k]|``. It is 0
    when every cluster holds the same share of each group, and at most 1.

    Parameters
    ----------
    assignment, sensitive_features, sample_weight
        As in `group_counts`.

    Returns
    -------
    float
        0.0 with one group only. An empty cluster adds nothing.

    Examples
    --------
    >>> gap([0, 0, 1, 1, 1, 1], ["a", "a", "a", "a", "b", "b"])
    0.5
    """
    return CRITERIA["gap"].value(_rates(group_mass(assignment, sensitive_features, sample_weight)))


def additive_gap(
    assignment: object, sensitive_features: object, *, sample_weight: ArrayLike | None = None
) -> float:
    """Sum over clusters of the mean, over pairs of groups, of the difference of rates.

    Parameters
    ----------
    assignment, sensitive_features, sample_weight
        As in `group_counts`.

    Returns
    -------
    float
        From 0.0 (also with one group only) to 2.0. An empty cluster adds nothing.

    Examples
    --------
    >>> additive_gap([0, 0, 1, 1, 1, 1], ["a", "a", "a", "a", "b", "b"])
    1.0
    """
    return CRITERIA["additive_gap"].value(
        _rates(group_mass(assignment, sensitive_features, sample_weight))
    )


def worst_pair_gap(
    assignment: object, sensitive_features: object, *, sample_weight: ArrayLike | None = None
) -> float:
    """Largest difference of rates over clusters and pairs of groups.

    Parameters
    ----------
    assignment, sensitive_features, sample_weight
        As in `group_counts`.

    Returns
    -------
    float
        0.0 with one group only. An empty cluster adds nothing.

    Examples
    --------
    >>> worst_pair_gap([0, 1, 0, 1, 1, 1], ["a", "a", "b", "b", "c", "c"])
    0.5
    """
    return CRITERIA["worst_pair_gap"].value(
        _rates(group_mass(assignment, sensitive_features, sample_weight))
    )


def balance(
    assignment: object, sensitive_features: object, *, sample_weight: ArrayLike | None = None
) -> float:
    """Smallest ratio of the mass of two groups in one cluster.

    The best that any assignment can reach is the ratio of the smallest to the largest group.

    Parameters
    ----------
    assignment, sensitive_features, sample_weight
        As in `group_counts`.

    Returns
    -------
    float
        1.0 with one group only, 0.0 when some cluster lacks a group. Empty clusters are skipped.

    Examples
    --------
    >>> balance([0, 0, 0, 1, 1], ["a", "a", "b", "a", "b"])
    0.5
    """
    return smallest_ratio(_present(group_mass(assignment, sensitive_features, sample_weight)))


def rate_ratio(
    assignment: object, sensitive_features: object, *, sample_weight: ArrayLike | None = None
) -> float:
    """Smallest ratio of the rates of two groups in one cluster.

    Unlike `balance` it does not depend on the sizes of the groups: 1 means equal rates everywhere.

    Parameters
    ----------
    assignment, sensitive_features, sample_weight
        As in `group_counts`.

    Returns
    -------
    float
        1.0 with one group only, 0.0 when some cluster lacks a group. Empty clusters are skipped.

    Examples
    --------
    >>> rate_ratio([0, 0, 0, 1, 1, 1], ["a", "a", "b", "a", "a", "b"])
    1.0
    """
    return smallest_ratio(_rates(group_mass(assignment, sensitive_features, sample_weight)))


def _present(mass: Array) -> Array:
    """Only the groups that have any mass: a row of weight 0 is as good as absent."""
    present: Array = mass[mass.sum(axis=1) > 0]
    return present


def _rates(mass: Array) -> Array:
    present = _present(mass)
    rates: Array = present / present.sum(axis=1, keepdims=True)
    return rates
