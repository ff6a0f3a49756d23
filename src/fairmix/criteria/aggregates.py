"""Criteria that are a measure of each cluster's column of rates, and an aggregate over clusters.

The measure says how far apart the groups are. For two groups all of them are
``|r[0, k] - r[1, k]|``.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from fairmix.criteria._base import Ball, BoolArray, Face, OwnBound
from fairmix.criteria.measures import MeanPair, Measure, Path
from fairmix.kernels.totals import FEW_GROUPS, FloatArray, IntArray

# Rates that differ by less have met: a projection computes equal rates in several ways, which are
# some units of the last digit apart, and no two rates of rows are as near as this.
MET = 1e-13


@dataclass(frozen=True)
class LargestOverClusters(Ball):
    """The cluster whose groups are farthest apart counts."""

    measure: Measure

    def value(self, rates: FloatArray) -> float:
        """Value at rates."""
        return float(self.measure.values(rates).max())

    def gradient(self, rates: FloatArray) -> FloatArray:
        """Slopes of the worst cluster."""
        out = np.zeros_like(rates)
        # One of several that are equally bad is enough for a subgradient.
        worst = self.measure.values(rates).argmax()
        out[:, worst] = self.measure.slopes(rates)[:, worst]
        return out

    def project(self, rates: FloatArray, bound: float) -> FloatArray:
        """Every cluster on its own."""
        return _cut(self.measure, rates, bound)

    def shrink(self, rates: FloatArray, amount: float) -> FloatArray:
        """All clusters above a common level come down to it; their amounts add up to ``amount``."""
        # Paths of many groups are long; few groups keep them, and with them their bits (decision
        # record 0017).
        if len(rates) > FEW_GROUPS:
            return _levelled(self.measure, rates, amount)
        paths = _paths(self.measure, rates)
        levels = np.unique(np.concatenate([path.values for path in paths]))
        spent = np.sum([_amount(path, levels) for path in paths], axis=0)
        # Negated, because np.interp needs rising points and amounts fall as levels rise. At level
        # 0, the first, everything is spent.
        level = float(np.interp(-amount, -spent, levels)) if spent[0] > amount else 0.0
        return _cut(self.measure, rates, level)

    def project_slope(self, rates: FloatArray, projected: FloatArray) -> FloatArray:
        """Each cluster that was cut keeps its value: no movement along its slopes."""
        slope, moves = _cut_slope(self.measure, rates, projected)
        squares = np.einsum("gk,gk->k", moves, moves)
        scaled = moves / np.where(squares > 0, squares, 1)
        return slope - _per_cluster(moves, scaled)

    def face(self, rates: FloatArray, projected: FloatArray) -> Face:
        """A normal for each cluster that was cut."""
        return self._face(rates, projected)[0]

    def shrink_face(self, rates: FloatArray, shrunk: FloatArray) -> Face:
        """The same, but the level may move with all clusters that were cut."""
        face, lengths = self._face(rates, shrunk)
        if not len(lengths):
            return face
        # Moves that change all values alike are free: what is orthogonal to them remains.
        rest = np.linalg.qr(np.column_stack([1 / lengths, np.eye(len(lengths))]))[0][:, 1:]
        return face._replace(normals=np.tensordot(rest.T, face.normals, axes=1))

    def _face(self, rates: FloatArray, cut: FloatArray) -> tuple[Face, FloatArray]:
        pools, sizes, moves = _met(self.measure, rates, cut)
        lengths = np.sqrt(np.einsum("gk,gk->k", moves, moves))
        active = np.flatnonzero(lengths)
        normals = np.zeros((len(active), *rates.shape))
        normals[np.arange(len(active)), :, active] = (moves[:, active] / lengths[active]).T
        return Face.of_equals(pools, sizes, normals), lengths[active]

    def support(self, multipliers: FloatArray) -> float:
        """Sum over clusters."""
        return float(self.measure.dual_norms(multipliers).sum())

    def absolute(self, n_groups: int) -> float | None:
        """That of each cluster."""
        return self.measure.absolute(n_groups)

    def excess(self, rates: FloatArray, bound: float) -> FloatArray:
        """Added up over clusters: also what is not the worst cluster counts on the way."""
        return np.asarray(np.maximum(_values(self.measure, rates) - bound, 0.0).sum(axis=1))

    def decisive(self, values: FloatArray) -> BoolArray:
        """The worst one, or several that are equally bad."""
        return np.asarray(values >= values.max())

    def resolution(self, rates: FloatArray, sizes: FloatArray, steps: FloatArray) -> float:
        """That of one cluster."""
        return self.measure.of_pairs(_pair_steps(sizes, steps))

    def largest(self, low: FloatArray, high: FloatArray) -> float:
        """That of the cluster where it is largest."""
        return float(self.measure.largest(low, high).max())

    @property
    def words(self) -> str:
        """What the value is."""
        return (
            f"the largest difference between the shares of {self.measure.compared} that fall into "
            "one cluster"
        )

    def note(self, n_groups: int) -> str:
        """That of the measure."""
        return self.measure.note(n_groups)


@dataclass(frozen=True)
class SumOverClusters(Ball):
    """All clusters count."""

    # Not any measure: only this one can be cut to a sum over clusters.
    measure: MeanPair

    def value(self, rates: FloatArray) -> float:
        """Value at rates."""
        return float(self.measure.values(rates).sum())

    def gradient(self, rates: FloatArray) -> FloatArray:
        """Slopes of all clusters."""
        return self.measure.slopes(rates)

    def project(self, rates: FloatArray, bound: float) -> FloatArray:
        """The same amount for every cluster."""
        if len(rates) > FEW_GROUPS and bound > 0:
            return self.measure.cut_sum(rates, bound)
        paths = _paths(self.measure, rates)
        amounts = np.unique(np.concatenate([path.amounts for path in paths]))
        left = np.sum([np.interp(amounts, path.amounts, path.values) for path in paths], axis=0)
        if left[0] <= bound:
            return rates.copy()
        # Projecting onto a ball is shrinking by the right amount, and that amount is read off the
        # paths.
        return self.shrink(rates, float(np.interp(-bound, -left, amounts)))

    def shrink(self, rates: FloatArray, amount: float) -> FloatArray:
        """Every cluster on its own."""
        return _shrink(self.measure, rates, np.full(rates.shape[1], amount))

    def project_slope(self, rates: FloatArray, projected: FloatArray) -> FloatArray:
        """The sum over all clusters keeps its value."""
        slope, moves = _cut_slope(self.measure, rates, projected)
        square = np.vdot(moves, moves)
        # A full matrix: one bound on a sum ties all clusters to each other.
        return slope - np.einsum("gk,hl->gkhl", moves, moves) / square if square > 0 else slope

    def face(self, rates: FloatArray, projected: FloatArray) -> Face:
        """One normal for all clusters."""
        pools, sizes, moves = _met(self.measure, rates, projected)
        length = np.linalg.norm(moves)
        normals = moves[None] / length if length > 0 else np.zeros((0, *rates.shape))
        return Face.of_equals(pools, sizes, normals)

    def shrink_face(self, rates: FloatArray, shrunk: FloatArray) -> Face:
        """No value is kept."""
        pools, sizes, _ = _met(self.measure, rates, shrunk)
        return Face.of_equals(pools, sizes, np.zeros((0, *rates.shape)))

    def support(self, multipliers: FloatArray) -> float:
        """Largest over clusters."""
        return float(self.measure.dual_norms(multipliers).max())

    def absolute(self, n_groups: int) -> None:
        """A largest value is no sum."""

    def excess(self, rates: FloatArray, bound: float) -> FloatArray:
        """Of the sum."""
        return np.asarray(np.maximum(_values(self.measure, rates).sum(axis=1) - bound, 0.0))

    def resolution(self, rates: FloatArray, sizes: FloatArray, steps: FloatArray) -> float:
        """What one cluster has too much another one lacks, so half of them count on average."""
        return float(rates.shape[1] / 2 * self.measure.of_pairs(_pair_steps(sizes, steps)))

    def decisive(self, values: FloatArray) -> BoolArray:
        """All that add something."""
        return np.asarray(values > 0)

    def largest(self, low: FloatArray, high: FloatArray) -> float:
        """The sum of the largest values; rates of two groups differ by 2 in all at most."""
        return min(float(sum(self.measure.largest(low, high).tolist())), 2.0)

    def own_bounds(self, n_clusters: int) -> dict[str, OwnBound]:
        """``subsets``: of two clusters one says all, and there the intervals are sharper."""
        return {"subsets": _subsets} if n_clusters > 2 else {}

    @property
    def words(self) -> str:
        """What the value is."""
        return (
            f"the sum over clusters of the differences between the shares of "
            f"{self.measure.compared} that fall into it"
        )

    def note(self, n_groups: int) -> str:
        """That of the measure."""
        return self.measure.note(n_groups)


def smallest_ratio(values: FloatArray) -> float:
    """Smallest ratio of two groups' entries within a non-empty cluster.

    Balance when ``values`` are masses (M, K), the rate ratio when they are rates.
    """
    largest = values.max(axis=0)
    # Nearly always: without the indices below, which take longer than all else here.
    if largest.min() > 0:
        return float((values.min(axis=0) / largest).min())
    filled = largest > 0
    return float((values.min(axis=0)[filled] / largest[filled]).min()) if filled.any() else 1.0


def _subsets(means: FloatArray, sizes: FloatArray, error: float) -> float:
    """Bound the mean over pairs of groups of the sum over clusters of ``|r_a - r_b|``.

    That sum is twice the largest of ``r_a(S) - r_b(S)`` over the 2^K - 2 unions S of some, not all,
    clusters. Each is a difference of means of n_a and of n_b values in [0, 1], so Hoeffding's
    inequality exceeds t with probability at most ``exp(-2 t^2 / (1 / n_a + 1 / n_b))``.
    """
    n_groups, n_clusters = means.shape
    pairs = list(combinations(range(n_groups), 2))
    # log(2^K - 2), without 2^K, which overflows for large K.
    log_unions = n_clusters * np.log(2) + np.log1p(-(2.0 ** (1 - n_clusters)))
    log = log_unions + np.log(len(pairs) / error)
    total = 0.0
    for a, b in pairs:
        if min(sizes[a], sizes[b]) == 0:
            # The most that two groups can differ by: nothing is known of a group without rows.
            total += 2.0
            continue
        reach = np.sqrt((1 / sizes[a] + 1 / sizes[b]) * log / 2)
        observed = np.abs(means[a] - means[b]).sum()
        total += min(observed + 2 * reach, 2.0)
    return float(total / len(pairs))


def _values(measure: Measure, rates: FloatArray) -> FloatArray:
    """The measure of each cluster of many rates (n, M, K), (n, K)."""
    # Measures take clusters one by one, so many rates are a table of many clusters.
    flat = rates.transpose(1, 0, 2).reshape(rates.shape[1], -1)
    return measure.values(flat).reshape(len(rates), -1)


def _pair_steps(sizes: FloatArray, steps: FloatArray) -> FloatArray:
    """How far apart whole rows may have to leave each pair of groups, (M, M).

    All groups can follow the rates of the smallest one, each to within one row of its own. So a
    group is within one row of the smallest, and two others are within one row of each.
    """
    smallest = int(sizes.argmin())
    out: FloatArray = steps[:, None] + steps[None]
    out[smallest, :] = out[:, smallest] = steps
    return out


def _paths(measure: Measure, rates: FloatArray) -> list[Path]:
    """Shrink path of every cluster. Two groups move towards each other, in every measure."""
    if len(rates) > 2:
        return [measure.path(column) for column in rates.T]
    gaps = np.ptp(rates, axis=0)
    zeros = np.zeros_like(gaps)
    amounts, values = np.stack([zeros, gaps / 2], axis=1), np.stack([gaps, zeros], axis=1)
    return [Path(*pair) for pair in zip(amounts, values, strict=True)]


def _cut(measure: Measure, rates: FloatArray, level: float) -> FloatArray:
    """Bring the value of every cluster down to ``level``."""
    if level > 0 and len(rates) > 2:
        return measure.cut(rates, level)
    # Plain sums and comparisons: each iteration asks for this twice, and NumPy's `mean`, `clip` and
    # `ptp` take several times as long for so few numbers.
    middle = rates.sum(axis=0) / len(rates)
    # The same for all measures, whose `cut` is for positive levels.
    if level <= 0:
        return np.broadcast_to(middle, rates.shape).copy()
    away = np.minimum(np.maximum(rates - middle, -level / 2), level / 2)
    # Rates within the level keep their bits, since whoever differentiates asks which clusters
    # changed.
    return np.where(rates.max(axis=0) - rates.min(axis=0) <= level, rates, middle + away)


def _levelled(measure: Measure, rates: FloatArray, amount: float) -> FloatArray:
    """``shrink`` by Newton's method on the level: amounts fall with it, convex and in pieces."""
    middle = rates.mean(axis=0)
    # The amount pays for all that is above level 0, so only the means are left.
    if measure.dual_norms(rates - middle).sum() <= amount:
        return np.broadcast_to(middle, rates.shape).copy()
    values = measure.values(rates)
    top = float(values.max())
    # If the largest one alone came down, all of its rates by themselves.
    goal = top - amount * float((measure.slopes(rates)[:, values.argmax()] ** 2).sum())
    level = top
    # At most as many pieces as rates that can meet, after as many halves as a number has digits.
    for _ in range(rates.size + np.finfo(rates.dtype).nmant):
        if abs(goal - level) <= 1e-15 * top:  # a few units of the last digit
            break
        # Newton's step may overshoot 0, where `_cut` is of another form.
        level = goal if goal > 0 else level / 2
        cut = _cut(measure, rates, level)
        moves = _met(measure, rates, cut)[2]
        squares = (moves * moves).sum(axis=0)
        active = squares > 0
        spent = (((rates - cut) * moves).sum(axis=0)[active] / squares[active]).sum()
        goal = level + (spent - amount) / (1 / squares[active]).sum()
    return _cut(measure, rates, level)


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
    # M^2 comparisons per cluster: for few groups only, others use `_met`.
    met = np.abs(cut.T[:, :, None] - cut.T[:, None, :]) <= MET
    average = np.where(was_cut[:, None, None], met, np.eye(n_groups, dtype=bool))
    average = average / average.sum(axis=2, keepdims=True)
    slope = np.zeros((n_groups, n_clusters, n_groups, n_clusters))
    clusters = np.arange(n_clusters)
    slope[:, clusters, :, clusters] = average
    moves = np.einsum("kgh,hk->gk", average, measure.slopes(rates)) * was_cut
    moves[np.abs(moves) < MET] = 0.0
    return slope, moves


def _met(
    measure: Measure, rates: FloatArray, cut: FloatArray
) -> tuple[IntArray, IntArray, FloatArray]:
    """The pools of a `Face`, their sizes, and ``moves`` as those of ``_cut_slope``."""
    n_groups, n_clusters = rates.shape
    was_cut = (cut != rates).any(axis=0)
    by_cluster = np.ascontiguousarray(cut.T)
    order = by_cluster.argsort(axis=1)
    order += np.arange(0, rates.size, n_groups)[:, None]
    sorted_cut = by_cluster.ravel()[order]
    apart = np.ones((n_clusters, n_groups), dtype=bool)
    apart[:, 1:] = (sorted_cut[:, 1:] - sorted_cut[:, :-1] > MET) | ~was_cut[:, None]
    # Numbers go on from cluster to cluster.
    numbers = np.empty(rates.size, dtype=np.intp)
    numbers[order.ravel()] = apart.ravel().cumsum() - 1
    sizes = np.bincount(numbers)
    sums = np.bincount(numbers, measure.slopes(rates).T.ravel())
    moves = (sums / sizes)[numbers].reshape(n_clusters, n_groups).T * was_cut
    moves[np.abs(moves) < MET] = 0.0
    return numbers.reshape(n_clusters, n_groups).T, sizes, moves


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
