"""Measures of one cluster: how far apart the groups' rates are.

Every measure g is a seminorm, and everything that solvers need follows from its *shrink path*:
``shrink(z, t) = argmin_x |x - z|^2 / 2 + t g(x)`` and the value g of it, which falls piecewise
linearly in t until it is zero.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple, Protocol

import numpy as np
from scipy.optimize import isotonic_regression, linear_sum_assignment

from fairmix.kernels.totals import FloatArray, IntArray


class Path(NamedTuple):
    """Break points of the value of ``shrink(z, t)``: t rises from 0, the value falls to 0."""

    amounts: FloatArray
    values: FloatArray


class Measure(Protocol):
    """How far apart the groups are within each cluster."""

    compared: ClassVar[str]
    """What is compared, for a sentence."""

    def values(self, rates: FloatArray) -> FloatArray:
        """One number per cluster, (K,)."""

    def slopes(self, rates: FloatArray) -> FloatArray:
        """A subgradient of each cluster's value, (M, K)."""

    def cut(self, rates: FloatArray, level: float) -> FloatArray:
        """Nearest rates at which every cluster's value is at most ``level`` > 0, M > 2."""

    def path(self, column: FloatArray) -> Path:
        """Shrink path of one cluster's rates (M,), M > 2."""

    def shrink(self, column: FloatArray, amount: float) -> FloatArray:
        """``argmin_x |x - column|^2 / 2 + amount * g(x)`` for one cluster's rates, M > 2."""

    def dual_norms(self, multipliers: FloatArray) -> FloatArray:
        """Largest ``<multipliers[:, k], x>`` over g(x) <= 1; each column must add up to zero."""

    def absolute(self, n_groups: int) -> float | None:
        """The factor c where the dual norm of a column is ``c * |column|_1``, else None."""

    def of_pairs(self, differences: FloatArray) -> float:
        """The value of a cluster in which each pair of groups differs by this much, (M, M)."""

    def largest(self, low: FloatArray, high: FloatArray) -> FloatArray:
        """Largest value of each cluster for rates between ``low`` and ``high``, (K,)."""

    def note(self, n_groups: int) -> str:
        """What else to know of it, as a sentence; may be empty."""


class MeanPair:
    """Mean over unordered pairs of groups of ``|r_a - r_b|``.

    Sorting avoids the M^2 pairs: in ascending order the j-th of M rates enters the sum over pairs
    with the coefficient 2j - M + 1.
    """

    compared: ClassVar[str] = "the groups"

    @staticmethod
    def _coefficients(n_groups: int) -> FloatArray:
        # At least 1, so that a single group has the value 0 and not 0 / 0.
        pairs = max(n_groups * (n_groups - 1) / 2, 1)
        return (2 * np.arange(n_groups) - n_groups + 1) / pairs

    def values(self, rates: FloatArray) -> FloatArray:
        """One number per cluster.

        The step from the i-th to the next larger rate lies between i (M - i) of the pairs: terms
        that never cancel, so that equal rates give exactly zero.
        """
        n_groups = len(rates)
        if n_groups == 2:
            return np.asarray(np.abs(rates[0] - rates[1]))
        if n_groups == 3:
            # Each step lies between two of the three pairs.
            return np.asarray(2 * np.ptp(rates, axis=0) / 3)
        below = np.arange(1, n_groups)
        pairs = max(n_groups * (n_groups - 1) / 2, 1)
        steps = np.diff(np.sort(rates, axis=0), axis=0)
        return np.asarray((below * (n_groups - below)) @ steps / pairs)

    def slopes(self, rates: FloatArray) -> FloatArray:
        """Coefficient of each rate."""
        out = np.empty_like(rates)
        # Any order of equal rates gives a subgradient; a stable one gives the same at each call.
        order = np.argsort(rates, axis=0, kind="stable")
        out[order, np.arange(rates.shape[1])] = self._coefficients(len(rates))[:, None]
        return out

    def cut(self, rates: FloatArray, level: float) -> FloatArray:
        """Every cluster by an amount of its own."""
        if len(rates) == 3:
            # The sum over the three pairs is twice the range.
            return WorstPair().cut(rates, 1.5 * level)
        return self._lowered(rates, level, together=False)

    def cut_sum(self, rates: FloatArray, level: float) -> FloatArray:
        """Nearest rates at which the values of all clusters add up to at most ``level`` > 0."""
        return self._lowered(rates, level, together=True)

    def _lowered(self, rates: FloatArray, level: float, *, together: bool) -> FloatArray:
        """Newton's method on the amounts: values are convex and piecewise linear in them.

        Sorted rates move by the amount times their coefficients; those that meet stay together, in
        pools. While the pools are the same, a value is a linear function of the amount.
        """
        n_groups, n_clusters = rates.shape
        most = level * n_groups * (n_groups - 1) / 2
        by_cluster = np.ascontiguousarray(rates.T)
        # Where the entries of all clusters stand, one cluster after the other, each sorted.
        order = by_cluster.argsort(axis=1, kind="stable")
        order += np.arange(0, rates.size, n_groups)[:, None]
        start = by_cluster.ravel()[order]
        # Whole numbers, whose sum over all groups is exactly zero.
        speeds = np.arange(1.0 - n_groups, n_groups, 2.0)
        excess = start @ speeds - most
        if together:
            # Of all clusters, at the mean of their slopes.
            excess = np.full(n_clusters, excess.mean() + (1 - 1 / n_clusters) * most)
        if excess.max() <= 0:
            return rates.copy()
        amounts = np.maximum(excess, 0) / (speeds @ speeds)
        # One regression for all clusters: farther apart than any two rates, they do not mix.
        away = start - start.sum(axis=1, keepdims=True) / n_groups
        apart = away + 1.5 * (away.max() - away.min()) * np.arange(n_clusters)[:, None]
        tiled, start = np.concatenate([speeds] * n_clusters), start.ravel()
        # Pools that rounding alone moves past each other have not met: they would merge for ever.
        rounding = 1e-15 * np.abs(rates).max()
        for _ in range(rates.size):
            pools = isotonic_regression((apart - amounts[:, None] * speeds).ravel())
            first, size = pools.blocks[:-1], pools.weights
            cluster = first // n_groups
            speed = np.add.reduceat(tiled, first)
            mean, position = speed / size, np.add.reduceat(start, first)
            excess = np.bincount(cluster, mean * position, n_clusters) - most
            slope = np.bincount(cluster, mean * speed, n_clusters)
            if together:
                excess = np.full(n_clusters, excess.sum() + (n_clusters - 1) * most)
                slope = np.full(n_clusters, slope.sum())
            # Amounts rise to the root from below. Slopes are whole numbers over sizes, or zero.
            amounts = np.maximum(amounts, excess / np.maximum(slope, 0.5 / n_groups))
            lowered = position / size - amounts[cluster] * mean
            # Where no two pools have met on the way, it ended at the root.
            met = (lowered[1:] < lowered[:-1] - rounding) & (cluster[1:] == cluster[:-1])
            if not met.any():
                break
        out = np.empty(rates.size)
        out[order.ravel()] = np.repeat(lowered, size.astype(np.intp))
        # Rates that need not move keep their bits: see `_met`, which asks whether anything differs.
        return np.where(amounts > 0, out.reshape(n_clusters, n_groups).T, rates)

    def path(self, column: FloatArray) -> Path:
        """Sorted rates move with the speed of their coefficients, stick when they meet."""
        position: FloatArray = np.sort(column)
        speed: FloatArray = self._coefficients(len(column))
        size: FloatArray = np.ones(len(column))
        amounts, values = [0.0], [float(speed @ position)]
        while len(position) > 1:
            meet = np.diff(position) / np.diff(speed)
            first = int(meet.argmin())
            # Three that meet at once may come apart by rounding, and time must not run back.
            now = max(float(meet[first]), amounts[-1])
            pair = slice(first, first + 2)
            # A pool moves with the mean speed of its members, as one body with their mass.
            share = size[pair] / size[pair].sum()
            position[first], speed[first] = share @ position[pair], share @ speed[pair]
            size[first] += size[first + 1]
            position, speed, size = (np.delete(a, first + 1) for a in (position, speed, size))
            amounts.append(now)
            values.append(max(float((size * speed) @ (position - now * speed)), 0.0))
        return Path(np.array(amounts), np.array(values))

    def shrink(self, column: FloatArray, amount: float) -> FloatArray:
        """Move each sorted rate by its coefficient, then restore the order."""
        order = np.argsort(column, kind="stable")
        moved = column[order] - amount * self._coefficients(len(column))
        out = np.empty_like(column)
        out[order] = isotonic_regression(moved).x
        return out

    def dual_norms(self, multipliers: FloatArray) -> FloatArray:
        """Largest scaled sum of the m largest entries."""
        n_groups = len(multipliers)
        if n_groups < 2:
            return np.zeros(multipliers.shape[1])
        m = np.arange(1, n_groups)[:, None]
        largest = np.sort(multipliers, axis=0)[::-1].cumsum(axis=0)[:-1]
        # The extreme points of the unit ball have m groups at one rate and the others at another;
        # the scale gives them the value 1.
        scale = n_groups * (n_groups - 1) / (2 * m * (n_groups - m))
        return np.asarray((largest * scale).max(axis=0))

    def absolute(self, n_groups: int) -> float | None:
        """Two groups: as for the range. Three: the mean over pairs is two thirds of the range."""
        return {2: 0.5, 3: 0.75}.get(n_groups)

    def of_pairs(self, differences: FloatArray) -> float:
        """Mean over the pairs."""
        return float(differences[np.triu_indices(len(differences), 1)].mean())

    def largest(self, low: FloatArray, high: FloatArray) -> FloatArray:
        """Exact, by an assignment problem; the corners of the box would be 2^M.

        The sum over pairs gives the j-th smallest of M rates the coefficient 2j - M + 1, and any
        other way to hand out the coefficients gives less. So the largest sum over rates is the
        largest sum over ways to hand them out, each rate being at the end that its coefficient
        likes.
        """
        n_groups = len(low)
        coefficients = 2 * np.arange(n_groups) - n_groups + 1
        pairs = n_groups * (n_groups - 1) / 2
        out = np.empty(low.shape[1])
        for k, (bottom, top) in enumerate(zip(low.T, high.T, strict=True)):
            gains = np.maximum(np.outer(bottom, coefficients), np.outer(top, coefficients))
            out[k] = gains[linear_sum_assignment(gains, maximize=True)].sum() / pairs
        return out

    def note(self, n_groups: int) -> str:
        """Two groups are one pair."""
        said = "With more than two groups the gap is a mean over their pairs."
        return said if n_groups > 2 else ""


class WorstPair:
    """Range of the rates: the largest difference between two groups."""

    compared: ClassVar[str] = "any two groups"

    def values(self, rates: FloatArray) -> FloatArray:
        """One number per cluster."""
        return np.asarray(rates.max(axis=0) - rates.min(axis=0))

    def slopes(self, rates: FloatArray) -> FloatArray:
        """Plus one at the largest rate, minus one at the smallest."""
        out = np.zeros_like(rates)
        clusters = np.arange(rates.shape[1])
        out[rates.argmax(axis=0), clusters] += 1
        out[rates.argmin(axis=0), clusters] -= 1
        return out

    def cut(self, rates: FloatArray, level: float) -> FloatArray:
        """Clip each cluster to [a, a + level]; a balances what is cut above and below.

        The imbalance is piecewise linear in a with knots at the rates and the rates less level.
        """
        if len(rates) == 3:
            return self._cut_three(rates, level)
        knots = np.sort(np.vstack([rates, rates - level]), axis=0)
        clusters = np.arange(rates.shape[1])

        def imbalance(knot: IntArray) -> FloatArray:
            a = knots[knot, clusters]
            below = np.maximum(a - rates, 0).sum(axis=0)
            return np.asarray(below - np.maximum(rates - level - a, 0).sum(axis=0))

        # It rises with a: halve the knots until the two around zero are left.
        left, right = np.zeros_like(clusters), np.full_like(clusters, len(knots) - 1)
        while (right - left > 1).any():
            middle = (left + right) // 2
            low = imbalance(middle) <= 0
            left, right = np.where(low, middle, left), np.where(low, right, middle)
        f0, f1 = imbalance(left), imbalance(right)
        a0, a1 = knots[left, clusters], knots[right, clusters]
        a = a0 - f0 * (a1 - a0) / np.where(f1 > f0, f1 - f0, 1)
        # To the bit: `_cut_slope` and `_met` take a cluster for cut where anything differs.
        inside = np.ptp(rates, axis=0) <= level
        return np.where(inside, rates, np.clip(rates, a, a + level))

    @staticmethod
    def _cut_three(rates: FloatArray, level: float) -> FloatArray:
        """The same for three groups, whose middle rate is within, or cut above, or below."""
        high, low, total = rates.max(axis=0), rates.min(axis=0), rates.sum(axis=0)
        a = np.maximum((high + low - level) / 2, (total - 2 * level) / 3)
        a = np.minimum(a, (total - level) / 3)
        cut = np.minimum(np.maximum(rates, a), a + level)
        return np.where(high - low <= level, rates, cut)

    @staticmethod
    def _levels(column: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Amounts cut off above each rate, and the rates, both from the largest down."""
        down = np.sort(column)[::-1]
        return np.concatenate([[0.0], np.cumsum(np.arange(1, len(down)) * -np.diff(down))]), down

    def path(self, column: FloatArray) -> Path:
        """The top and the bottom are cut by the same amount until they meet at the mean."""
        top_amounts, top = self._levels(column)
        low_amounts, low = self._levels(-column)
        last = float(np.maximum(column - column.mean(), 0).sum())
        amounts = np.unique(np.concatenate([top_amounts, low_amounts, [last]]))
        # Beyond this, the top would be cut below the bottom.
        amounts = amounts[amounts <= last]
        values = np.interp(amounts, top_amounts, top) + np.interp(amounts, low_amounts, low)
        return Path(amounts, np.maximum(values, 0.0))

    def shrink(self, column: FloatArray, amount: float) -> FloatArray:
        """Cut the top and the bottom by ``amount`` each."""
        # All that is above the mean is cut, and as much below it: nothing but the mean is left.
        if amount >= np.maximum(column - column.mean(), 0).sum():
            return np.full_like(column, column.mean())
        high = np.interp(amount, *self._levels(column))
        low = -np.interp(amount, *self._levels(-column))
        return np.asarray(np.clip(column, low, high))

    def dual_norms(self, multipliers: FloatArray) -> FloatArray:
        """Half the sum of absolute values."""
        return np.asarray(0.5 * np.abs(multipliers).sum(axis=0))

    def absolute(self, n_groups: int) -> float:
        """One half."""
        return 0.5

    def of_pairs(self, differences: FloatArray) -> float:
        """The largest of the pairs."""
        return float(differences[np.triu_indices(len(differences), 1)].max())

    def largest(self, low: FloatArray, high: FloatArray) -> FloatArray:
        """One group at its top, another one at its bottom."""
        reach = high[:, None, :] - low[None, :, :]
        # A group is not compared with itself, whose interval may be the widest.
        reach[np.arange(len(low)), np.arange(len(low))] = 0.0
        return np.asarray(reach.max(axis=(0, 1)))

    def note(self, n_groups: int) -> str:
        """Nothing."""
        return ""
