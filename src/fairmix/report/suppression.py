"""Small cells: which counts a report may show, and which figures rest on hidden ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairmix.criteria import CRITERIA, smallest_ratio
from fairmix.report.disclosure import SMALLEST, complete

__all__ = ["SMALLEST", "SafeCounts"]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class SafeCounts:
    """Counts of groups in clusters, and which of them stay hidden.

    Parameters
    ----------
    counts : ndarray of shape (n_groups, n_clusters)
        Rows, or sums of probabilities.

    Attributes
    ----------
    small, hidden : ndarray of bool of shape (n_groups + 1, n_clusters + 1)
        Cells with too few rows, and all cells not to show. The last row holds the sizes of the
        clusters, the last column those of the groups. An empty cluster hides nobody.

    Examples
    --------
    >>> safe = SafeCounts.of(np.array([[3.0, 40.0, 50.0], [60.0, 70.0, 80.0]]))
    >>> safe.hidden[:-1, :-1].tolist()
    [[True, True, False], [True, True, False]]
    """

    counts: FloatArray
    small: BoolArray
    hidden: BoolArray

    @classmethod
    def of(cls, counts: ArrayLike) -> SafeCounts:
        """Find the cells to hide."""
        values = np.asarray(counts, dtype=np.float64)
        table = np.vstack([values, values.sum(axis=0)])
        table = np.hstack([table, table.sum(axis=1, keepdims=True)])
        small = table < SMALLEST
        small[:, table[-1] == 0] = False  # empty clusters
        small[table[:, -1] == 0] = False  # and groups
        # The number of all rows is in the report in any case.
        small[-1, -1] = False
        return cls(values, small, complete(table, small))

    @property
    def sizes(self) -> FloatArray:
        """Rows of each cluster."""
        return np.asarray(self.counts.sum(axis=0))

    @property
    def group_sizes(self) -> FloatArray:
        """Rows of each group."""
        return np.asarray(self.counts.sum(axis=1))

    @property
    def rates(self) -> FloatArray:
        """P(cluster | group) of the groups that have rows."""
        present = self.counts[self.group_sizes > 0]
        return np.asarray(present / present.sum(axis=1, keepdims=True))

    def cluster_gaps(self, criterion: str) -> FloatArray:
        """What each cluster adds to the criterion, (n_clusters,)."""
        rates = self.rates
        return np.array([CRITERIA[criterion].value(rates[:, [k]]) for k in range(rates.shape[1])])

    def exact_gap(self, criterion: str) -> float:
        """The criterion, not for showing."""
        return CRITERIA[criterion].value(self.rates)

    def gap(self, criterion: str) -> tuple[float, bool]:
        """The criterion to show, and whether it is exact.

        A gap that rests on hidden cells would give them away, so it is then rounded up to a
        multiple of what 5 rows of the smallest group make.
        """
        value = self.exact_gap(criterion)
        gaps = self.cluster_gaps(criterion)
        if not self._hides(CRITERIA[criterion].decisive(gaps)):
            return value, True
        # Rounded up, never to the nearest: "at most" must stay true. The small amount keeps a gap
        # that is a multiple but for its last digit from going up a whole step.
        step = SMALLEST / float(self.group_sizes[self.group_sizes > 0].min())
        # No rates at all have more than that, so rounding need not go beyond.
        most = CRITERIA[criterion].largest(np.zeros_like(self.rates), np.ones_like(self.rates))
        return min(most, float(np.ceil(value / step - 1e-9)) * step), False

    def balance(self) -> float | None:
        """Smallest ratio of two groups in a cluster; None where it rests on hidden cells."""
        least = smallest_ratio(self.counts)
        ratios = np.array([smallest_ratio(self.counts[:, [k]]) for k in self._filled])
        # Only the clusters that decide: hidden cells elsewhere do not show in the smallest ratio.
        worst = self._filled[ratios <= least]
        return None if self._hides(worst) else float(least)

    @property
    def _filled(self) -> NDArray[np.intp]:
        return np.flatnonzero(self.sizes > 0)

    def _hides(self, clusters: NDArray[np.intp] | BoolArray) -> bool:
        return bool(self.hidden[:, :-1][:, clusters].any() or self.hidden[:, -1].any())
