"""The small problem inside the dual solver where its support function is a sum of absolute values.

Minimises over multipliers lambda (M x K) whose columns add up to zero::

    -<r, d> + <d, H d> / 2 + amount * |lambda|_1,    d = lambda - lambda_0

by feature-sign search (Lee et al. 2007), here with sums of zero: exact steps on the entries that
are not zero, up to the best place where one of them becomes zero; entries at zero join where their
slope exceeds the amount. The value falls in every step, and the end is exact.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fairmix.criteria.measures import WorstPair
from fairmix.kernels.totals import FloatArray, IntArray
from fairmix.solvers.local_model import FewGroups, definite, definite_solution

# Steps at most, for each entry. A fit of three groups takes about ten in all (decision record
# 0015); the cap is against rounding that would let entries join and leave for ever.
STEPS = 6
# Added to the curvature of two groups, as a share of its mean, which is at least `LEAST_UNIT`: far
# above rounding, far below what rates could show.
RIDGE = 1e-9
LEAST_UNIT = 1e-12
# Guesses of the signs before exact steps. In a fit, nine of ten are right by the third.
GUESSES = 4
# Differences of two of three groups, of which the last is that of the others.
PAIRS = np.array([[1.0, 0.0, -1.0], [0.0, 1.0, -1.0], [1.0, -1.0, 0.0]])


def sparse_multipliers(model: FewGroups, amount: float, tol: float) -> FloatArray:
    """Multipliers at the minimum, to an accuracy in rates; ``amount`` prices absolute values."""
    multipliers, rates = model.multipliers, model.rates
    if len(rates) == 2:
        return _of_two_groups(model, amount, tol)
    problem = Problem.of(model, amount)
    now = (multipliers - multipliers.mean(axis=0)) * (multipliers != 0).any(axis=0)
    # Guesses of all signs as long as the value falls, then the surer but shorter steps.
    for _ in range(GUESSES):
        sign, wrong = problem.guess(now)
        if wrong < tol:
            return np.asarray(now)
        step = problem.step(now, sign)
        if step.gain <= 0:
            break
        now = step.point
    for _ in range(STEPS * now.size):
        sign, slope = np.sign(now), problem.slope(now)
        priced = slope + amount * sign
        mean = _mean_where(priced, sign != 0)
        if np.abs(np.where(sign != 0, priced - mean, 0.0)).max() >= tol:
            now = problem.step(now, sign).point
            continue
        joining, excess = _joining(sign, slope, mean, amount)
        if excess.max() < tol:
            break
        step = problem.step(now, np.where(excess >= tol, joining, sign))
        if step.gain <= 0:
            # The worst entry, or the two ends of the worst column of zeros.
            worst = excess == excess.max()
            worst[:, np.arange(worst.shape[1]) != worst.any(axis=0).argmax()] = False
            step = problem.step(now, np.where(worst, joining, sign))
        now = step.point
    return np.asarray(now)


def _of_two_groups(model: FewGroups, amount: float, tol: float) -> FloatArray:
    """The same for lambda = (z, -z): no sums to keep, and half the numbers."""
    multipliers, rates = model.multipliers, model.rates
    n_clusters = rates.shape[1]
    parts = model.curvature.reshape(2, n_clusters, 2, n_clusters)
    H = parts[0, :, 0] - parts[0, :, 1] - parts[1, :, 0] + parts[1, :, 1]
    diagonal = H.ravel()[:: n_clusters + 1]
    # The ridge keeps H definite: it is singular where a constant is added to all clusters.
    diagonal += RIDGE * max(float(diagonal.sum()) / n_clusters, LEAST_UNIT)
    now = (multipliers[0] - multipliers[1]) / 2
    price, linear = 2 * amount, H @ now + (rates[0] - rates[1])
    tol = 2 * tol
    guess = _guessed(H, linear, price, now, tol)
    if guess is not None:
        return np.array([guess, -guess])
    for _ in range(STEPS * n_clusters):
        sign, slope = np.sign(now), H @ now - linear
        on = sign != 0
        if np.abs(slope + price * sign)[on].max(initial=0.0) < tol:
            excess = np.where(on, -np.inf, np.abs(slope) - price)
            if excess.max() < tol:
                break
            joins = excess >= tol
            new, gain = _towards(H, linear, price, now, np.where(joins, -np.sign(slope), sign))
            if gain <= 0:
                # Too many at once: the worst one by itself.
                joins = np.arange(n_clusters) == excess.argmax()
                new, gain = _towards(H, linear, price, now, np.where(joins, -np.sign(slope), sign))
            now = new
        else:
            now = _towards(H, linear, price, now, sign)[0]
    return np.array([now, -now])


def _guessed(
    H: FloatArray, linear: FloatArray, price: float, now: FloatArray, tol: float
) -> FloatArray | None:
    """The minimum, if guesses of its signs soon turn out right, else None.

    Each guess is that of a primal-dual active set method: where a step by this entry alone would
    lead. It changes all signs at once, where exact steps change one or two, but it may circle.
    """
    diagonal = H.diagonal()
    slope = linear - H @ now
    for _ in range(GUESSES):
        ahead = diagonal * now + slope
        sign = np.sign(ahead) * (np.abs(ahead) > price)
        if sign.all() and sign.sum():
            # A constant over clusters costs nothing but its price, so it is not the solution.
            middle = np.sort(now)[len(now) // 2]
            sign[np.abs(now - middle).argmin()] = 0.0
        on = sign.nonzero()[0]
        now = _solved(H, linear - price * sign, on)
        slope = linear - H @ now
        # Right if no entry has left its sign, and none of those at zero should join.
        if (now * sign).min() >= 0 and (np.abs(slope) * (sign == 0)).max() <= price + tol:
            return now
    return None


def _solved(H: FloatArray, linear: FloatArray, on: IntArray) -> FloatArray:
    """Where the entries that are on make the quadratic least, the others being zero."""
    if len(on) == len(H):
        return definite_solution(H, linear)
    out = np.zeros_like(linear)
    if len(on):
        out[on] = definite_solution(H[on[:, None], on], linear[on])
    return out


def _towards(
    H: FloatArray, linear: FloatArray, price: float, now: FloatArray, sign: FloatArray
) -> tuple[FloatArray, float]:
    """Best point on the way to the minimum for these signs, and by how much the value falls."""
    goal = _solved(H, linear - price * sign, np.flatnonzero(sign))
    step = goal - now
    crossing = np.flatnonzero(now * goal < 0)
    lengths = np.concatenate([-now[crossing] / step[crossing], [1.0, 0.0]])
    points = now + lengths[:, None] * step
    points[np.arange(len(crossing)), crossing] = 0.0
    values = ((0.5 * (points @ H) - linear) * points + price * np.abs(points)).sum(axis=1)
    best = values[:-1].argmin()
    return points[best], float(values[-1] - values[best])


def _mean_where(values: FloatArray, where: FloatArray) -> FloatArray:
    """Mean of the entries of each column that count, zero where none do."""
    count = where.sum(axis=0)
    return np.asarray(np.where(where, values, 0.0).sum(axis=0) / np.maximum(count, 1))


def _joining(
    sign: FloatArray, slope: FloatArray, mean: FloatArray, amount: float
) -> tuple[FloatArray, FloatArray]:
    """Signs with which entries at zero would join, and by how much their slope calls for it."""
    off, empty = sign == 0, ~sign.any(axis=0)
    clusters = np.arange(sign.shape[1])
    # In a column of zeros the two entries that are farthest apart join together.
    high, low = slope.argmax(axis=0), slope.argmin(axis=0)
    top, bottom = slope[high, clusters], slope[low, clusters]
    pulled = slope - np.where(empty, (top + bottom) / 2, mean)
    excess = np.where(off & ~empty, np.abs(pulled) - amount, -np.inf)
    for end in (high, low):
        excess[end[empty], clusters[empty]] = ((top - bottom) / 2 - amount)[empty]
    return np.where(off, -np.sign(pulled), sign), excess


class Step(NamedTuple):
    """Where a step leads, and by how much the value falls."""

    point: FloatArray
    gain: float


class Problem(NamedTuple):
    """``<x, H x> / 2 - <linear, x> + amount * |x|_1`` for x (3, K) with columns of sum zero.

    ``unit`` is the mean of the diagonal of H. ``between`` and ``pulls`` are H and the linear part
    along the differences of two groups (`PAIRS`) in each cluster, (3 K, 3 K) and (3, K).
    """

    H: FloatArray
    linear: FloatArray
    amount: float
    unit: float
    between: FloatArray
    pulls: FloatArray

    @classmethod
    def of(cls, model: FewGroups, amount: float) -> Problem:
        """That of a local model."""
        H = definite(model.curvature)
        n_groups, n_clusters = model.rates.shape
        linear = H @ model.multipliers.ravel() + model.rates.ravel()
        half = (PAIRS @ H.reshape(n_groups, -1)).reshape(len(PAIRS), n_clusters, n_groups, -1)
        between = (PAIRS @ half).reshape(len(PAIRS) * n_clusters, -1)
        pulls = PAIRS @ linear.reshape(n_groups, -1)
        return cls(H, linear, amount, max(model.unit, LEAST_UNIT), between, pulls)

    def slope(self, x: FloatArray) -> FloatArray:
        """Derivative of the smooth part."""
        return np.asarray((self.H @ x.ravel() - self.linear).reshape(x.shape))

    def guess(self, x: FloatArray) -> tuple[FloatArray, float]:
        """Signs of the minimum, as far as x can tell, and how far x is from it, in units of rates.

        Those of what a projection of the rates, moved along x, cuts off.
        """
        rates = -self.slope(x)
        moved = rates + self.unit * x
        cut = moved - WorstPair().cut(moved, 2 * self.amount)
        off = rates - moved + cut
        return np.sign(cut), float((off.max(axis=0) - off.min(axis=0)).max())

    def step(self, x: FloatArray, sign: FloatArray) -> Step:
        """Best point on the way to the minimum for these signs; other entries stay zero."""
        now, goal = x.ravel(), self._goal(sign).ravel()
        step = goal - now
        # An entry changes its sign within the step where it and its goal have other signs.
        crossing = (now * goal < 0).nonzero()[0]
        lengths = np.ones(len(crossing) + 2)
        lengths[:-2], lengths[-1] = -now[crossing] / step[crossing], 0.0
        points = now + lengths[:, None] * step
        points[np.arange(len(crossing)), crossing] = 0.0
        values = ((0.5 * (points @ self.H) - self.linear) * points).sum(axis=1)
        values += self.amount * np.abs(points).sum(axis=1)
        best = values[:-1].argmin()
        point = points[best].reshape(x.shape)
        # What is left alone in its column is zero but for rounding.
        alone = np.count_nonzero(point, axis=0) == 1
        if alone.any():
            point[:, alone] = 0.0
        return Step(point, float(values[-1] - values[best]))

    def _goal(self, sign: FloatArray) -> FloatArray:
        """The minimum where the value has these signs, and entries without one are zero."""
        # Three entries that add up to zero are two differences, and two of them are one.
        on = sign != 0
        third = on[2].copy()
        on[2] = on[0] & on[1] & ~third
        on[:2] &= third
        free = on.ravel().nonzero()[0]
        pulls = self.pulls - self.amount * (PAIRS @ sign)
        a, b, c = found = _solved(self.between, pulls.ravel(), free).reshape(sign.shape)
        out = np.empty_like(found)
        out[0], out[1], out[2] = a + c, b - c, -a - b
        return out
