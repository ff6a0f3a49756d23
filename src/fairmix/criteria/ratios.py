"""Ratios inside every cluster: the four-fifths rule and Balance.

For rates r[g, k] and a scale a_g of each group, the smallest ratio of a cluster is

    min_g a_g r[g, k] / max_h a_h r[h, k]

With a = 1 it compares rates; with the sizes of the groups it is Balance (Chierichetti et al. 2017).
Equal rates have the largest ratio that all clusters can have at once, ``best``: 1 for rates, the
smallest over the largest group for Balance. The value of the criterion is one less the smallest
ratio over the best one, so it is 0 for equal rates like that of every criterion.

The rates within a bound are a cone in each cluster::

    a_g r_g >= rho a_h r_h   for all g, h,     rho = (1 - bound) best

or, with a level t, ``rho t <= a_g r_g <= t``. A projection clips each rate to its interval at the
best level.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairmix.criteria._base import BoolArray, Face, OwnBound
from fairmix.criteria.bounds import ROUNDING
from fairmix.kernels.totals import FEW_GROUPS, FloatArray


@dataclass(frozen=True, eq=False)
class SmallestRatio:
    """How far the smallest ratio of two groups within a cluster is from the best possible.

    Attributes
    ----------
    scales : (M,) array
        a, by which rates are compared.
    sizes, steps : (M,) array
        Weight of each group, and by how much one row moves its rate.
    what : str
        What is compared, for sentences.
    """

    scales: FloatArray
    sizes: FloatArray
    steps: FloatArray
    what: str = "shares"

    @property
    def best(self) -> float:
        """The largest ratio that all clusters can have at once: that of equal rates."""
        return float(self.scales.min() / self.scales.max())

    def least(self, bound: float) -> float:
        """rho, the smallest ratio that a bound allows."""
        return self.best * (1.0 - min(max(bound, 0.0), 1.0))

    def ratios(self, rates: FloatArray) -> FloatArray:
        """Smallest ratio of each cluster, (..., K); the best one where a cluster is empty."""
        scaled = rates * self.scales[:, None]
        largest = scaled.max(axis=-2)
        filled = largest > 0
        ratio = scaled.min(axis=-2) / np.where(filled, largest, 1.0)
        return np.where(filled, ratio, self.best)

    def value(self, rates: FloatArray) -> float:
        """Value at rates: in [0, 1], or below 0 by rounding alone."""
        return float(1.0 - self.ratios(rates).min() / self.best)

    def gradient(self, rates: FloatArray) -> FloatArray:
        """Of the worst cluster, where the value is differentiable."""
        out = np.zeros_like(rates)
        k = int(self.ratios(rates).argmin())
        scaled = rates[:, k] * self.scales
        low, high = int(scaled.argmin()), int(scaled.argmax())
        if scaled[high] > 0:
            out[low, k] -= self.scales[low] / scaled[high] / self.best
            out[high, k] += scaled[low] * self.scales[high] / scaled[high] ** 2 / self.best
        return out

    def decisive(self, values: FloatArray) -> BoolArray:
        """The worst cluster, or several that are equally bad."""
        return np.asarray(values >= values.max())

    def resolution(self, rates: FloatArray, sizes: FloatArray, steps: FloatArray) -> float:
        """What one row of the larger group changes, in the cluster that decides.

        A matter of the rows of the cluster, not of the group: where all clusters are within it,
        that of the cluster with the largest value, else that of one which is not.
        """
        scaled = rates * self.scales[:, None]
        top = scaled.max(axis=0)
        filled = np.flatnonzero(top > 0)
        if not len(filled):
            return 0.0
        values = 1.0 - self.ratios(rates)[filled] / self.best
        low, high = scaled.argmin(axis=0)[filled], scaled.argmax(axis=0)[filled]
        # The group with more rows moves by finer steps, whichever of the two is short of rows.
        larger = np.where(sizes[low] > sizes[high], low, high)
        row = self.scales[larger] * steps[larger]
        forgiven = row / np.where(larger == high, scaled[high, filled], self.best * top[filled])
        beyond = values - forgiven
        if beyond.max() > ROUNDING:
            return float(forgiven[beyond.argmax()])
        # No less than the value there: a row that is just enough is enough, however it is rounded.
        return float(max(forgiven[values.argmax()], values.max()))

    def enough(
        self, bound: float, rates: FloatArray, sizes: FloatArray, steps: FloatArray
    ) -> float:
        """The bound itself; only where it asks for the best possible is one row forgiven."""
        return bound if bound > ROUNDING else self.resolution(rates, sizes, steps)

    def noise(self, sizes: FloatArray, n_clusters: int) -> float:
        """Standard error of the ratio of even rates, for clusters of equal size.

        That of the two smallest groups, which decide.
        """
        few = np.sort(sizes)[:2]
        return float(np.sqrt((n_clusters - 1) * (1 / few).sum()))

    # ------------------------------------------------------------------------ the set of a bound
    def project(self, rates: FloatArray, bound: float) -> FloatArray:
        """Clip each cluster to its best level."""
        rho, level = self._level(rates, bound)
        top = level / self.scales[:, None]
        scaled = rates * self.scales[:, None]
        inside = scaled.min(axis=0) >= np.maximum(rho * scaled.max(axis=0), 0.0)
        # Rates within the cone keep their bits: `_clipped` asks which of them have changed.
        return np.where(inside, rates, np.clip(rates, rho * top, top))

    def _level(self, rates: FloatArray, bound: float) -> tuple[float, FloatArray]:
        """rho, and the level of each cluster whose interval is nearest to its rates, (K,).

        The squared distance is convex in the level, and its slope rises in pieces that are linear,
        ``steep * level - pull``, between the levels at which a rate enters or leaves its interval.
        """
        rho = self.least(bound)
        if len(rates) <= FEW_GROUPS:
            return rho, self._level_of_few(rates, rho)
        scaled = rates * self.scales[:, None]
        clusters = np.arange(rates.shape[1])
        # A rate is above its interval until it enters at the top, and below it once it has left at
        # the bottom. There is no level below zero, so those below zero are below from the start.
        weight = np.where(scaled > 0, (self.scales**-2.0)[:, None], 0.0)
        pull, below = weight * scaled, (self.scales**-2.0)[:, None] - weight
        knots = np.maximum(np.concatenate([scaled, scaled / max(rho, ROUNDING)]), 0.0)
        order = knots.argsort(axis=0), clusters
        knots = knots[order]
        steeper = np.concatenate([-weight, rho**2 * weight])[order]
        pulled = np.concatenate([-pull, rho * pull])[order]
        steep = (weight + rho**2 * below).sum(axis=0) + steeper.cumsum(axis=0)
        pull = (pull + rho * below * scaled).sum(axis=0) + pulled.cumsum(axis=0)
        # The last piece that begins with a slope that is not positive holds the zero.
        last = (steep * knots <= pull).sum(axis=0) - 1
        piece, after = (np.maximum(last, 0), clusters), np.minimum(last + 1, len(knots) - 1)
        start, end = knots[piece], knots[after, clusters]
        # Where all rates are inside, the slope is zero but for rounding, and any level is right.
        level = np.clip(pull[piece] / np.where(steep[piece] > 0, steep[piece], np.inf), start, end)
        # A positive slope at zero: the nearest point is the tip of the cone.
        return rho, np.where(last < 0, 0.0, level)

    def _level_of_few(self, rates: FloatArray, rho: float) -> FloatArray:
        """The same for two or three groups.

        The largest is at the top of its interval and the smallest at the bottom. One between them,
        if any, is inside, or else at the end that is near it.
        """
        scaled = rates * self.scales[:, None]
        order = scaled.argsort(axis=0, kind="stable")
        clusters = np.arange(rates.shape[1])
        sorted_, weight = scaled[order, clusters], (self.scales**-2.0)[order]
        # The slope of the squared distance is `steep * level - pull`.
        pull = weight[-1] * sorted_[-1] + rho * weight[0] * sorted_[0]
        steep = weight[-1] + rho**2 * weight[0]
        level = pull / steep
        if len(rates) == 3:
            middle, own = sorted_[1], weight[1]
            at_top = (pull + own * middle) / (steep + own)
            at_bottom = (pull + rho * own * middle) / (steep + rho**2 * own)
            level = np.where(
                middle > level, at_top, np.where(middle < rho * level, at_bottom, level)
            )
        # Below zero the nearest point is the tip of the cone.
        return np.asarray(np.maximum(level, 0.0))

    def _directions(self, rates: FloatArray, projected: FloatArray) -> tuple[BoolArray, FloatArray]:
        """Which rates were clipped, and how they move together along an edge of the cone.

        Of length one in each cluster; zero at the tip, from which nothing moves.
        """
        clipped = projected != rates
        # On the edge, clipped rates stay in proportion to where they are.
        along = np.where(clipped, projected, 0.0)
        length = np.sqrt((along * along).sum(axis=0))
        return clipped, along / np.where(length > 0, length, 1.0)

    def project_slope(self, rates: FloatArray, projected: FloatArray) -> FloatArray:
        """One where a rate is free, a product of directions where rates were clipped."""
        n_groups, n_clusters = rates.shape
        clipped, along = self._directions(rates, projected)
        out = np.zeros((n_groups, n_clusters, n_groups, n_clusters))
        clusters = np.arange(n_clusters)
        out[:, clusters, :, clusters] = np.einsum("gk,hk->kgh", along, along)
        g, k = np.nonzero(~clipped)
        out[g, k, g, k] = 1.0
        return out

    def face(self, rates: FloatArray, projected: FloatArray) -> Face:
        """Clipped rates of a cluster are one pool; nothing else keeps its value."""
        clipped, along = self._directions(rates, projected)
        by_cluster = clipped.T
        # A number for each free rate, and one for all that are clipped in a cluster, in the order
        # of the clusters.
        first = by_cluster & (np.cumsum(by_cluster, axis=1) == 1)
        new = ~by_cluster | first
        numbers = np.cumsum(new.ravel()).reshape(new.shape) - 1
        pool = np.where(first, numbers, 0).max(axis=1)
        pools = np.where(by_cluster, pool[:, None], numbers).T
        sizes = np.bincount(pools.ravel(), minlength=int(new.sum()))
        directions = np.where(clipped, along, 1.0)
        return Face(pools, sizes, np.zeros((0, *rates.shape)), directions)

    def excess(self, rates: FloatArray, bound: float) -> FloatArray:
        """Added up over clusters, in units of rates."""
        rho = self.least(bound)
        scaled = rates * (self.scales / self.scales.mean())[:, None]
        short = rho * scaled.max(axis=1) - scaled.min(axis=1)
        if bound <= ROUNDING:
            # One row of the larger of the two groups is forgiven, as in `enough`.
            low, high = scaled.argmin(axis=1), scaled.argmax(axis=1)
            larger = np.where(self.sizes[low] > self.sizes[high], low, high)
            row = (self.scales * self.steps / self.scales.mean())[larger]
            short = short - np.where(larger == high, rho * row, row)
        return np.asarray(np.where(short > ROUNDING, short, 0.0).sum(axis=1))

    @property
    def conic(self) -> bool:
        """In every cluster."""
        return True

    @property
    def contrasting(self) -> bool:
        """A change of all groups alike changes their ratio."""
        return False

    def cone(self, bound: float) -> FloatArray:
        """Rows A of length one with ``A r <= 0`` for the allowed rates of a cluster, (J, M)."""
        n_groups = len(self.scales)
        g, h = np.nonzero(~np.eye(n_groups, dtype=bool))
        out = np.zeros((len(g), n_groups))
        out[np.arange(len(g)), g] = -self.scales[g]
        out[np.arange(len(g)), h] = self.least(bound) * self.scales[h]
        return np.asarray(out / np.linalg.norm(out, axis=1, keepdims=True))

    def absolute(self, n_groups: int) -> None:
        """A cone has no dual norm."""

    # ------------------------------------------------------------------ certificates and words
    def largest(self, low: FloatArray, high: FloatArray) -> float:
        """One group at its bottom, another one at its top."""
        bottom, top = low * self.scales[:, None], high * self.scales[:, None]
        order = np.sort(top, axis=0)[::-1]
        # A group is not compared with itself, whose interval may be the widest.
        own = top.argmax(axis=0)
        others = np.where(np.arange(len(top))[:, None] == own, order[1], order[0])
        ratios = bottom / np.where(others > 0, others, 1.0)
        smallest = np.where(others > 0, ratios, self.best).min()
        return float(np.clip(1.0 - smallest / self.best, 0.0, 1.0))

    def own_bounds(self, n_clusters: int) -> dict[str, OwnBound]:
        """None."""
        return {}

    @property
    def words(self) -> str:
        """What the value is."""
        return f"the smallest ratio between the {self.what} of two groups in one cluster"

    def note(self, n_groups: int) -> str:
        """Nothing."""
        return ""


def forgiven_rows(cone: FloatArray, sizes: FloatArray, steps: FloatArray) -> FloatArray:
    """One row of the larger of the two groups of each edge, as in `SmallestRatio.enough`."""
    low, high = cone.argmin(axis=1), cone.argmax(axis=1)
    larger = np.where(sizes[low] > sizes[high], low, high)
    return np.asarray(np.abs(cone[np.arange(len(cone)), larger]) * steps[larger])
