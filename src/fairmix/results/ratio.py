"""The smallest ratio of two groups' rates, and where it is: what a person asks after a verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from fairmix.criteria.bounds import ROUNDING
from fairmix.results.fairness import FOUR_FIFTHS

__all__ = ["LeastRatio", "least_ratio"]


@dataclass(frozen=True)
class LeastRatio:
    """The smallest ratio of the rates of two groups within a cluster.

    Attributes
    ----------
    value : float
        The rate of ``group`` over that of ``other``.
    cluster : str
        Name of the cluster.
    group, other : str
        The groups with the smallest and with the largest rate there.
    rate, other_rate : float
        P(cluster | group) of each.

    Examples
    --------
    >>> least_ratio([[0.5, 0.5], [0.8, 0.2]], ["f", "m"]).passes
    False
    """

    value: float
    cluster: str
    group: str
    other: str
    rate: float
    other_rate: float

    @property
    def passes(self) -> bool:
        """Whether it keeps the four-fifths rule."""
        return self.value >= FOUR_FIFTHS - ROUNDING


def least_ratio(
    rates: ArrayLike | None, groups: Sequence[str], clusters: Sequence[str] | None = None
) -> LeastRatio | None:
    """The smallest ratio and where it is; None where there is nothing to compare.

    Parameters
    ----------
    rates : array-like of shape (n_groups, n_clusters) or None
        P(cluster | group) of the groups that are judged. Empty clusters are skipped.
    groups : sequence of str
        Their names.
    clusters : sequence of str, optional
        Names of the clusters; numbers from 0 if left out.

    Examples
    --------
    >>> found = least_ratio([[0.9, 0.1], [0.8, 0.2]], ["f", "m"])
    >>> found.value, found.cluster, found.group, found.other
    (0.5, '1', 'f', 'm')
    """
    table = np.zeros((0, 0)) if rates is None else np.asarray(rates, dtype=np.float64)
    if len(table) < 2 or not (table > 0).any():
        return None
    largest = table.max(axis=0)
    filled = largest > 0
    ratios = np.where(filled, table.min(axis=0) / np.where(filled, largest, 1.0), np.inf)
    k = int(ratios.argmin())
    low = int(table[:, k].argmin())
    # Of equal rates both ends would be the same group.
    high = int(np.where(np.arange(len(table)) == low, -1.0, table[:, k]).argmax())
    return LeastRatio(
        value=float(ratios[k]),
        cluster=str(k if clusters is None else clusters[k]),
        group=str(groups[low]),
        other=str(groups[high]),
        rate=float(table[low, k]),
        other_rate=float(table[high, k]),
    )
