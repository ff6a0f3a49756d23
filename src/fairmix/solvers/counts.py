"""Whole counts: rows of each group in each cluster that meet a bound, near given rates.

Newton steps end at rates, and labels have counts. Where few rows decide, rounding alone misses the
bound or leaves much of it unused, so counts are changed by single rows: first until they meet the
bound, then as long as the objective gains and they still do.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairmix.criteria import Criterion
from fairmix.kernels.totals import FloatArray, IntArray

# Rows that are moved at most, each way: where more are wanted, Newton steps have failed.
MOVES = 100
# Numbers that the counts after each of the moves that are compared may take (16 MB); of more groups
# no row is moved for a gain.
MOST_NUMBERS = 2_000_000
# Shares of the differences to the smallest group that counts may keep, the first that meets the
# bound: all of them where single rows make up for rounding.
SHARES = (1.0, 0.99, 0.97, 0.9, 0.75, 0.5, 0.0)
# Rates are quotients: an excess below this is rounding, and so are differences between two.
ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Counts:
    """A bound on counts of rows, and what they are worth.

    Attributes
    ----------
    criterion, bound : Criterion, float
        What the rates of the counts must meet.
    sizes : (M,) array
        Rows of each group.
    losses : (M, K, K) array
        What the objective loses, at least, when a row of a group moves from one cluster to another:
        the lead that it has there, and the difference of the offsets.
    """

    criterion: Criterion
    bound: float
    sizes: FloatArray
    losses: FloatArray

    def near(self, rates: FloatArray) -> FloatArray:
        """Counts (M, K) for these rates, else for ones that are closer to the smallest group."""
        smallest = int(self.sizes.argmin())
        base = apportioned(self.sizes[smallest] * rates[smallest]) / self.sizes[smallest]
        for share in SHARES:
            aims = self.sizes[:, None] * (base + share * (rates - base))
            counts = self._allowed(np.array([apportioned(aim) for aim in aims]))
            if self._excess(counts[None])[0] <= ROUNDING:
                return self._cheaper(counts)
        return counts

    def _excess(self, counts: FloatArray) -> FloatArray:
        """How far many counts (n, M, K) are from the bound; infinite where one is negative."""
        found = self.criterion.excess(counts / self.sizes[:, None], self.bound)
        return np.where((counts < 0).any(axis=(1, 2)), np.inf, found)

    def _allowed(self, counts: FloatArray) -> FloatArray:
        """After moves of single rows, each as far towards the bound as one can, if that helps."""
        n_clusters = counts.shape[1]
        for _ in range(MOVES):
            now = self._excess(counts[None])[0]
            rates = counts / self.sizes[:, None]
            missing = self.criterion.project(rates, self.bound) - rates
            g, k = (np.repeat(found, n_clusters) for found in np.nonzero(missing))
            if now <= ROUNDING or not len(g):
                break
            # A row of each group that has too few in a cluster, or too many, from or to any other.
            other, joins = np.arange(len(g)) % n_clusters, missing[g, k] > 0
            start, end = np.where(joins, other, k), np.where(joins, k, other)
            values = self._excess(_moved(counts, g, start, end))
            if values.min() >= now - ROUNDING:
                break
            # What comes closer to the bound at the least price.
            closer = np.where(values < now - ROUNDING, now - values, np.nan)
            best = np.nanargmin(self.losses[g, start, end] / closer)
            counts = _moved(counts, g[[best]], start[[best]], end[[best]])[0]
        return counts

    def _cheaper(self, counts: FloatArray) -> FloatArray:
        """After moves of single rows for which the objective gains, the bound being met."""
        g, start, end = (place.ravel() for place in np.indices((*counts.shape, counts.shape[1])))
        gain = -self.losses[g, start, end]
        if len(g) * counts.size > MOST_NUMBERS:
            return counts
        for _ in range(MOVES):
            met = self._excess(_moved(counts, g, start, end)) <= ROUNDING
            gains = np.where(met, gain, 0.0)
            best = gains.argmax()
            if gains[best] <= 0:
                break
            counts = _moved(counts, g[[best]], start[[best]], end[[best]])[0]
        return counts


def _moved(counts: FloatArray, group: IntArray, start: IntArray, end: IntArray) -> FloatArray:
    """Counts after each of several moves of a row, (n, M, K)."""
    out, each = np.repeat(counts[None], len(group), axis=0), np.arange(len(group))
    out[each, group, start] -= 1
    out[each, group, end] += 1
    return out


def apportioned(counts: FloatArray) -> FloatArray:
    """Whole numbers with the same sum, each within one of its own."""
    # Counts are products of rates and sizes: a whole number may come out a little too small.
    whole = np.floor(counts + 1e-9)
    rest = round(float(counts.sum() - whole.sum()))
    whole[np.argsort(whole - counts, kind="stable")[:rest]] += 1
    return np.asarray(whole)
