"""Fairness of an assignment towards groups. See the package docstring for the edge cases."""

from __future__ import annotations

from collections.abc import Callable
from inspect import cleandoc
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairmix.criteria import CRITERIA, smallest_ratio
from fairmix.metrics.assignment import group_mass

Array = NDArray[np.float64]

# What the docstring of each figure says of its parameters and its value.
SECTIONS = """\
Parameters
----------
assignment, sensitive_features, sample_weight
    As in `group_counts`.

Returns
-------
float
    {value}

Examples"""


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
    # Rows must stay in the order of the groups, so an empty group keeps its place.
    rates = np.full_like(mass, np.nan)
    np.divide(mass, sizes, out=rates, where=sizes > 0)
    return rates


class Metric(Protocol):
    """A figure of an assignment, as users call it."""

    __name__: str

    def __call__(
        self,
        assignment: object,
        sensitive_features: object,
        *,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """The figure."""


def _metric(value: str) -> Callable[[Callable[[Array], float]], Metric]:
    """Make a figure of the masses of groups one of an assignment; ``value`` documents it."""

    def decorate(figure: Callable[[Array], float]) -> Metric:
        def metric(
            assignment: object,
            sensitive_features: object,
            *,
            sample_weight: ArrayLike | None = None,
        ) -> float:
            mass = group_mass(assignment, sensitive_features, sample_weight)
            # A row of weight 0 is as good as absent, and so may its whole group be.
            return figure(mass[mass.sum(axis=1) > 0])

        # Not by functools.wraps, which would show the signature of the figure.
        metric.__name__, metric.__qualname__ = figure.__name__, figure.__qualname__
        metric.__module__, doc = figure.__module__, cleandoc(figure.__doc__ or "")
        # The parameters are alike for all figures, so they are written
        # once and go before the examples.
        metric.__doc__ = doc.replace("Examples", SECTIONS.format(value=value), 1)
        return metric

    return decorate


@_metric("0.0 with one group only. An empty cluster adds nothing.")
def gap(mass: Array) -> float:
    """Largest over clusters of the mean, over pairs of groups, of the difference of rates.

    With two groups this is the Delta of the paper: max over k of ``|r[0, k] - r[1, k]|``. It is 0
    when every cluster holds the same share of each group, and at most 1.

    Examples
    --------
    >>> gap([0, 0, 1, 1, 1, 1], ["a", "a", "a", "a", "b", "b"])
    0.5
    """
    return CRITERIA["gap"].value(_rates(mass))


@_metric("From 0.0 (also with one group only) to 2.0. An empty cluster adds nothing.")
def additive_gap(mass: Array) -> float:
    """Sum over clusters of the mean, over pairs of groups, of the difference of rates.

    Examples
    --------
    >>> additive_gap([0, 0, 1, 1, 1, 1], ["a", "a", "a", "a", "b", "b"])
    1.0
    """
    return CRITERIA["additive_gap"].value(_rates(mass))


@_metric("0.0 with one group only. An empty cluster adds nothing.")
def worst_pair_gap(mass: Array) -> float:
    """Largest difference of rates over clusters and pairs of groups.

    Examples
    --------
    >>> worst_pair_gap([0, 1, 0, 1, 1, 1], ["a", "a", "b", "b", "c", "c"])
    0.5
    """
    return CRITERIA["worst_pair_gap"].value(_rates(mass))


@_metric(
    "1.0 with one group only, 0.0 when some cluster lacks a group. Empty clusters are skipped."
)
def balance(mass: Array) -> float:
    """Smallest ratio of the mass of two groups in one cluster.

    The best that any assignment can reach is the ratio of the smallest to the largest group. This
    is what ``FairMixture(min_balance=...)`` bounds.

    Examples
    --------
    >>> balance([0, 0, 0, 1, 1], ["a", "a", "b", "a", "b"])
    0.5
    """
    return smallest_ratio(mass)


@_metric(
    "1.0 with one group only, 0.0 when some cluster lacks a group. Empty clusters are skipped."
)
def rate_ratio(mass: Array) -> float:
    """Smallest ratio of the rates of two groups in one cluster.

    Unlike `balance` it does not depend on the sizes of the groups: 1 means equal rates everywhere,
    and 0.8 or more in every cluster is the four-fifths rule. This is what
    ``FairMixture(min_ratio=...)`` bounds, and its ``ratio_``.

    Examples
    --------
    >>> rate_ratio([0, 0, 0, 1, 1, 1], ["a", "a", "b", "a", "a", "b"])
    1.0
    """
    return smallest_ratio(_rates(mass))


def _rates(mass: Array) -> Array:
    rates: Array = mass / mass.sum(axis=1, keepdims=True)
    return rates
