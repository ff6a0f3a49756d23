"""Criteria of group fairness: functions of the rates r[g, k], the share of group g in cluster k.

A criterion never sees X. It is a measure of one cluster's column of rates (how far apart are the
groups?) and an aggregate over clusters. For two groups both measures are ``|r[0, k] - r[1, k]|``.

==================== ============================== ==========
criterion            measure of a cluster           aggregate
==================== ============================== ==========
``gap``              mean over pairs of groups      largest
``additive_gap``     mean over pairs of groups      sum
``worst_pair_gap``   largest pair (the range)       largest
==================== ============================== ==========

Every measure g is a seminorm, and everything that solvers need follows from its *shrink path*:
``shrink(z, t) = argmin_x |x - z|^2 / 2 + t g(x)`` and the value g of it, which falls piecewise
linearly in t until it is zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from scipy.optimize import isotonic_regression

from fairmix.totals import FloatArray


class Path(NamedTuple):
    """Break points of the value of ``shrink(z, t)``: t rises from 0, the value falls to 0."""

    amounts: FloatArray
    values: FloatArray


class Measure(Protocol):
    """How far apart the groups are within each cluster."""

    def values(self, rates: FloatArray) -> FloatArray:
        """One number per cluster, (K,)."""

    def slopes(self, rates: FloatArray) -> FloatArray:
        """A subgradient of each cluster's value, (M, K)."""

    def path(self, column: FloatArray) -> Path:
        """Shrink path of one cluster's rates (M,), M > 2."""

    def shrink(self, column: FloatArray, amount: float) -> FloatArray:
        """``argmin_x |x - column|^2 / 2 + amount * g(x)`` for one cluster's rates, M > 2."""

    def dual_norms(self, multipliers: FloatArray) -> FloatArray:
        """Largest ``<multipliers[:, k], x>`` over g(x) <= 1; each column must add up to zero."""


class MeanPair:
    """Mean over unordered pairs of groups of ``|r_a - r_b|``.

    Sorting avoids the M^2 pairs: in ascending order the j-th of M rates enters the sum over pairs
    with the coefficient 2j - M + 1.
    """

    @staticmethod
    def _coefficients(n_groups: int) -> FloatArray:
        pairs = max(n_groups * (n_groups - 1) / 2, 1)
        return (2 * np.arange(n_groups) - n_groups + 1) / pairs

    def values(self, rates: FloatArray) -> FloatArray:
        """One number per cluster.

        The step from the i-th to the next larger rate lies between i (M - i) of the pairs: terms
        that never cancel, so that equal rates give exactly zero.
        """
        n_groups = len(rates)
        below = np.arange(1, n_groups)
        pairs = max(n_groups * (n_groups - 1) / 2, 1)
        steps = np.diff(np.sort(rates, axis=0), axis=0)
        return np.asarray((below * (n_groups - below)) @ steps / pairs)

    def slopes(self, rates: FloatArray) -> FloatArray:
        """Coefficient of each rate."""
        order = np.argsort(rates, axis=0, kind="stable")
        out = np.empty_like(rates)
        coefficients = self._coefficients(len(rates))[:, None]
        np.put_along_axis(out, order, np.broadcast_to(coefficients, rates.shape), axis=0)
        return out

    def path(self, column: FloatArray) -> Path:
        """Sorted rates move with the speed of their coefficients, stick when they meet."""
        position: FloatArray = np.sort(column)
        speed: FloatArray = self._coefficients(len(column))
        size: FloatArray = np.ones(len(column))
        amounts, values = [0.0], [float(speed @ position)]
        while len(position) > 1:
            meet = np.diff(position) / np.diff(speed)
            first = int(meet.argmin())
            now = max(float(meet[first]), amounts[-1])
            pair = slice(first, first + 2)
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
        scale = n_groups * (n_groups - 1) / (2 * m * (n_groups - m))
        return np.asarray((largest * scale).max(axis=0))


class WorstPair:
    """Range of the rates: the largest difference between two groups."""

    def values(self, rates: FloatArray) -> FloatArray:
        """One number per cluster."""
        return np.asarray(np.ptp(rates, axis=0))

    def slopes(self, rates: FloatArray) -> FloatArray:
        """Plus one at the largest rate, minus one at the smallest."""
        out = np.zeros_like(rates)
        clusters = np.arange(rates.shape[1])
        out[rates.argmax(axis=0), clusters] += 1
        out[rates.argmin(axis=0), clusters] -= 1
        return out

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
        amounts = amounts[amounts <= last]
        values = np.interp(amounts, top_amounts, top) + np.interp(amounts, low_amounts, low)
        return Path(amounts, np.maximum(values, 0.0))

    def shrink(self, column: FloatArray, amount: float) -> FloatArray:
        """Cut the top and the bottom by ``amount`` each."""
        if amount >= np.maximum(column - column.mean(), 0).sum():
            return np.full_like(column, column.mean())
        high = np.interp(amount, *self._levels(column))
        low = -np.interp(amount, *self._levels(-column))
        return np.asarray(np.clip(column, low, high))

    def dual_norms(self, multipliers: FloatArray) -> FloatArray:
        """Half the sum of absolute values."""
        return np.asarray(0.5 * np.abs(multipliers).sum(axis=0))


class Criterion(Protocol):
    """A seminorm of the rates, zero when all groups have the same rates."""

    def value(self, rates: FloatArray) -> float:
        """Value at rates (M, K)."""

    def gradient(self, rates: FloatArray) -> FloatArray:
        """A subgradient, (M, K)."""

    def project(self, rates: FloatArray, bound: float) -> FloatArray:
        """Nearest rates whose value is at most ``bound``."""

    def shrink(self, rates: FloatArray, amount: float) -> FloatArray:
        """``argmin_x |x - rates|^2 / 2 + amount * value(x)``."""

    def project_slope(self, rates: FloatArray, projected: FloatArray) -> FloatArray:
        """Derivative of ``project`` at rates whose projection is known, (M, K, M, K)."""

    def shrink_slope(self, rates: FloatArray, shrunk: FloatArray) -> FloatArray:
        """Derivative of ``shrink`` at rates whose result is known, (M, K, M, K)."""

    def support(self, multipliers: FloatArray) -> float:
        """The dual norm: largest ``<multipliers, x>`` over value(x) <= 1."""


@dataclass(frozen=True)
class LargestOverClusters:
    """The cluster whose groups are farthest apart counts."""

    measure: Measure

    def value(self, rates: FloatArray) -> float:
        """Value at rates."""
        return float(self.measure.values(rates).max())

    def gradient(self, rates: FloatArray) -> FloatArray:
        """Slopes of the worst cluster."""
        out = np.zeros_like(rates)
        worst = self.measure.values(rates).argmax()
        out[:, worst] = self.measure.slopes(rates)[:, worst]
        return out

    def project(self, rates: FloatArray, bound: float) -> FloatArray:
        """Every cluster on its own."""
        return self._cut(rates, _paths(self.measure, rates), bound)

    def shrink(self, rates: FloatArray, amount: float) -> FloatArray:
        """All clusters above a common level come down to it; their amounts add up to ``amount``."""
        paths = _paths(self.measure, rates)
        levels = np.unique(np.concatenate([path.values for path in paths]))
        spent = np.sum([_amount(path, levels) for path in paths], axis=0)
        level = float(np.interp(-amount, -spent, levels)) if spent[0] > amount else 0.0
        return self._cut(rates, paths, level)

    def _cut(self, rates: FloatArray, paths: list[Path], level: float) -> FloatArray:
        return _shrink(self.measure, rates, np.array([_amount(path, level) for path in paths]))

    def project_slope(self, rates: FloatArray, projected: FloatArray) -> FloatArray:
        """Each cluster that was cut keeps its value: no movement along its slopes."""
        slope, moves = _cut_slope(self.measure, rates, projected)
        squares = np.einsum("gk,gk->k", moves, moves)
        scaled = moves / np.where(squares > 0, squares, 1)
        return slope - _per_cluster(moves, scaled)

    def shrink_slope(self, rates: FloatArray, shrunk: FloatArray) -> FloatArray:
        """All clusters that were cut keep a common value and a common total amount."""
        slope, moves = _cut_slope(self.measure, rates, shrunk)
        squares = np.einsum("gk,gk->k", moves, moves)
        scaled = moves / np.where(squares > 0, squares, 1)
        total = np.sum(1 / squares[squares > 0])
        common = np.einsum("gk,hl->gkhl", scaled, scaled) / total if total > 0 else 0.0
        return np.asarray(slope - _per_cluster(moves, scaled) + common)

    def support(self, multipliers: FloatArray) -> float:
        """Sum over clusters."""
        return float(self.measure.dual_norms(multipliers).sum())


@dataclass(frozen=True)
class SumOverClusters:
    """All clusters count."""

    measure: Measure

    def value(self, rates: FloatArray) -> float:
        """Value at rates."""
        return float(self.measure.values(rates).sum())

    def gradient(self, rates: FloatArray) -> FloatArray:
        """Slopes of all clusters."""
        return self.measure.slopes(rates)

    def project(self, rates: FloatArray, bound: float) -> FloatArray:
        """The same amount for every cluster."""
        paths = _paths(self.measure, rates)
        amounts = np.unique(np.concatenate([path.amounts for path in paths]))
        left = np.sum([np.interp(amounts, path.amounts, path.values) for path in paths], axis=0)
        if left[0] <= bound:
            return rates.copy()
        return self.shrink(rates, float(np.interp(-bound, -left, amounts)))

    def shrink(self, rates: FloatArray, amount: float) -> FloatArray:
        """Every cluster on its own."""
        return _shrink(self.measure, rates, np.full(rates.shape[1], amount))

    def project_slope(self, rates: FloatArray, projected: FloatArray) -> FloatArray:
        """The sum over all clusters keeps its value."""
        slope, moves = _cut_slope(self.measure, rates, projected)
        square = np.vdot(moves, moves)
        return slope - np.einsum("gk,hl->gkhl", moves, moves) / square if square > 0 else slope

    def shrink_slope(self, rates: FloatArray, shrunk: FloatArray) -> FloatArray:
        """Rates that have met move together."""
        return _cut_slope(self.measure, rates, shrunk)[0]

    def support(self, multipliers: FloatArray) -> float:
        """Largest over clusters."""
        return float(self.measure.dual_norms(multipliers).max())


def smallest_ratio(values: FloatArray) -> float:
    """Smallest ratio of two groups' entries within a non-empty cluster.

    Balance when ``values`` are masses (M, K), the rate ratio when they are rates.
    """
    largest = values.max(axis=0)
    filled = largest > 0
    return float((values.min(axis=0)[filled] / largest[filled]).min()) if filled.any() else 1.0


def _paths(measure: Measure, rates: FloatArray) -> list[Path]:
    """Shrink path of every cluster. Two groups move towards each other, in every measure."""
    if len(rates) > 2:
        return [measure.path(column) for column in rates.T]
    gaps = np.ptp(rates, axis=0)
    zeros = np.zeros_like(gaps)
    amounts, values = np.stack([zeros, gaps / 2], axis=1), np.stack([gaps, zeros], axis=1)
    return [Path(*pair) for pair in zip(amounts, values, strict=True)]


def _shrink(measure: Measure, rates: FloatArray, amounts: FloatArray) -> FloatArray:
    """Every cluster by its own amount."""
    if len(rates) > 2:
        columns = zip(rates.T, amounts, strict=True)
        return np.stack([measure.shrink(column, amount) for column, amount in columns], axis=1)
    middle = rates.mean(axis=0)
    away = rates - middle
    return np.asarray(middle + np.sign(away) * np.maximum(np.abs(away) - amounts, 0))


def _cut_slope(
    measure: Measure, rates: FloatArray, cut: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """How the cut rates follow the rates at fixed amounts, and how they follow the amounts.

    In a cluster that was cut, rates that have met move together, so the derivative is the average
    over equal entries. A cluster that was not cut is left alone.

    Returns
    -------
    slope : (M, K, M, K) array
    moves : (M, K) array
        Minus the derivative with respect to each cluster's amount; zero where it was not cut.
    """
    n_groups, n_clusters = rates.shape
    was_cut = (cut != rates).any(axis=0)
    met = np.abs(cut.T[:, :, None] - cut.T[:, None, :]) <= 1e-13
    average = np.where(was_cut[:, None, None], met, np.eye(n_groups, dtype=bool))
    average = average / average.sum(axis=2, keepdims=True)
    slope = np.zeros((n_groups, n_clusters, n_groups, n_clusters))
    clusters = np.arange(n_clusters)
    slope[:, clusters, :, clusters] = average
    moves = np.einsum("kgh,hk->gk", average, measure.slopes(rates)) * was_cut
    moves[np.abs(moves) < 1e-13] = 0.0
    return slope, moves


def _per_cluster(first: FloatArray, second: FloatArray) -> FloatArray:
    """Outer products within each cluster, (M, K, M, K)."""
    n_groups, n_clusters = first.shape
    out = np.zeros((n_groups, n_clusters, n_groups, n_clusters))
    clusters = np.arange(n_clusters)
    out[:, clusters, :, clusters] = np.einsum("gk,hk->kgh", first, second)
    return out


def _amount(path: Path, level: FloatArray | float) -> FloatArray:
    """How much a cluster must shrink to come down to ``level``."""
    return np.asarray(np.interp(-np.asarray(level), -path.values, path.amounts, left=0.0))


CRITERIA: dict[str, Criterion] = {
    "additive_gap": SumOverClusters(MeanPair()),
    "gap": LargestOverClusters(MeanPair()),
    "worst_pair_gap": LargestOverClusters(WorstPair()),
}
