"""The small problem inside the dual solver: a quadratic plus a support function, no data.

Minimises over multipliers lambda (M x K)::

    -<r, d> + <d, H d> / 2 + h(lambda),    d = lambda - lambda_0

where h is the support function of the rates that a constraint allows. The method is an augmented
Lagrangian in the rates c: with w = c + sigma lambda, the inner problem

    Phi(lambda) = quadratic + (|w|^2 - |w - P(w)|^2) / (2 sigma)

is smooth and convex, P being the projection on the allowed rates. Newton steps with backtracking
solve it; both loops end after a few steps because everything is piecewise quadratic.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from fairmix.criteria import Criterion
from fairmix.totals import FloatArray


class Constraint(Protocol):
    """What the rates must fulfil, through its multipliers."""

    def nearest(self, rates: FloatArray, sigma: float) -> FloatArray:
        """``argmin_x |x - rates|^2 / 2 + sigma h*(x)`` with h* the conjugate of the support."""

    def missing(self, rates: FloatArray) -> float:
        """How far the rates are from being allowed, entry by entry."""

    def penalty(self, rates: FloatArray) -> float:
        """What is subtracted from the objective."""

    def multipliers(
        self, start: FloatArray, rates: FloatArray, curvature: FloatArray
    ) -> FloatArray:
        """Minimum of the local model of the dual: see ``newton_multipliers``."""


@dataclass(frozen=True)
class Bound:
    """``criterion(rates) <= bound``."""

    criterion: Criterion
    bound: float

    def nearest(self, rates: FloatArray, sigma: float) -> FloatArray:
        """Projection."""
        return self.criterion.project(rates, self.bound)

    def missing(self, rates: FloatArray) -> float:
        """Distance to the projection."""
        return float(np.abs(rates - self.criterion.project(rates, self.bound)).max())

    def penalty(self, rates: FloatArray) -> float:
        """Nothing."""
        return 0.0

    def multipliers(
        self, start: FloatArray, rates: FloatArray, curvature: FloatArray
    ) -> FloatArray:
        """Minimum of the local model, as exact as a step on changing rates needs."""
        return newton_multipliers(start, rates, curvature, self.criterion, self.bound, STEP_TOL)


@dataclass(frozen=True)
class Strength:
    """``strength * criterion(rates)`` is subtracted from the objective; any rates are allowed.

    Its multipliers are those of the bound at which their dual norm is the strength.
    """

    criterion: Criterion
    strength: float

    def nearest(self, rates: FloatArray, sigma: float) -> FloatArray:
        """Shrunken rates."""
        return self.criterion.shrink(rates, sigma * self.strength)

    def missing(self, rates: FloatArray) -> float:
        """Nothing."""
        return 0.0

    def penalty(self, rates: FloatArray) -> float:
        """``strength * criterion``."""
        return self.strength * self.criterion.value(rates)

    def multipliers(
        self, start: FloatArray, rates: FloatArray, curvature: FloatArray
    ) -> FloatArray:
        """Minimum of the local model, by bisection on the bound."""
        untilted = rates + (curvature @ start.ravel()).reshape(rates.shape)
        low, high = 0.0, self.criterion.value(untilted)
        found = newton_multipliers(start, rates, curvature, self.criterion, low)
        if self.criterion.support(found) <= self.strength:
            return found
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            found = newton_multipliers(start, rates, curvature, self.criterion, middle)
            norm = self.criterion.support(found)
            if abs(norm / self.strength - 1) < 1e-3:
                break
            low, high = (middle, high) if norm > self.strength else (low, middle)
        return found


class _State(NamedTuple):
    value: float
    gradient: FloatArray
    nearest: FloatArray
    w: FloatArray


BISECTIONS = 20
STEP_TOL = 2e-6
OUTER_STEPS = 40
INNER_STEPS = 30
SIGN_STEPS = 6


def newton_multipliers(
    multipliers: FloatArray,
    rates: FloatArray,
    curvature: FloatArray,
    criterion: Criterion,
    bound: float,
    tol: float = 1e-7,
) -> FloatArray:
    """Multipliers that minimise the local model of the dual.

    Parameters
    ----------
    multipliers : (M, K) array
        lambda_0.
    rates : (M, K) array
        Minus the gradient of the smooth part.
    curvature : (M K, M K) array
        H.
    criterion, bound : Criterion, float
        The rates that are allowed; h is their support function.
    tol : float
        Accuracy in rates.
    """
    if bound == 0:
        return _equal_rates(multipliers, rates, curvature)
    if len(rates) == 2 and criterion.separable:
        return _two_groups(multipliers, rates, curvature, bound, tol)
    size = rates.size
    start, slope = multipliers.ravel(), rates.ravel()
    # Rows that are all certain of their cluster have no curvature; the floor keeps H regular.
    unit = max(float(np.trace(curvature)) / size, 1e-12)
    # Adding a constant over clusters to a group changes nothing, so H alone is singular.
    H = curvature + 1e-9 * unit * np.eye(size)
    sigma = 3 * unit
    c = criterion.project(rates, bound).ravel()
    now = start.copy()

    def evaluate(point: FloatArray) -> _State:
        d = point - start
        w = c + sigma * point
        nearest = criterion.project(w.reshape(rates.shape), bound).ravel()
        gap = w - nearest
        value = -slope @ d + 0.5 * d @ (H @ d) + (w @ w - gap @ gap) / (2 * sigma)
        return _State(float(value), H @ d - slope + nearest, nearest, w)

    for _ in range(OUTER_STEPS):
        state = evaluate(now)
        for _ in range(INNER_STEPS):
            steepest = np.abs(state.gradient).max()
            if steepest < 0.1 * tol:
                break
            D = criterion.project_slope(
                state.w.reshape(rates.shape), state.nearest.reshape(rates.shape)
            )
            # Without damping a piecewise linear h lets Newton steps run off along the gauge.
            damping = sigma * min(0.1, 0.2 * float(steepest))
            matrix = H + sigma * D.reshape(size, size) + damping * np.eye(size)
            step = -np.linalg.solve(matrix, state.gradient)
            decrease = float(state.gradient @ step)
            now, state = _backtrack(evaluate, now, state, step, decrease)
            if -decrease < 1e-17:
                break
        moved = np.abs(state.nearest - c).max()
        c = state.nearest
        if moved < tol:
            break
        sigma = min(2 * sigma, 60 * unit)
    out = now.reshape(rates.shape)
    return np.asarray(out - out.mean(axis=0))


def _equal_rates(multipliers: FloatArray, rates: FloatArray, curvature: FloatArray) -> FloatArray:
    """The same for a bound of 0: h is zero for multipliers that add up to zero over the groups."""
    n_groups, n_clusters = rates.shape
    unit = max(float(np.trace(curvature)) / rates.size, 1e-12)
    lowest = float(np.linalg.eigvalsh(curvature)[0])
    # H acts on contrasts between groups, this on their mean alone, so it keeps the step a contrast.
    mean = np.kron(np.full((n_groups, n_groups), unit / n_groups), np.eye(n_clusters))
    H = curvature + mean + (1e-9 * unit + 2 * max(0.0, -lowest)) * np.eye(rates.size)
    step = np.linalg.solve(H, (rates - rates.mean(axis=0)).ravel())
    return np.asarray(multipliers + step.reshape(rates.shape))


def _two_groups(
    multipliers: FloatArray, rates: FloatArray, curvature: FloatArray, bound: float, tol: float
) -> FloatArray:
    """The same for two groups, whose multipliers are u and -u: h is ``bound * |u|_1``."""
    n_clusters = rates.shape[1]
    H = curvature.reshape(2, n_clusters, 2, n_clusters)
    A = H[0, :, 0] - H[0, :, 1] - H[1, :, 0] + H[1, :, 1]
    # Singular along the gauge and, in single precision, slightly indefinite.
    unit = max(float(np.trace(A)) / n_clusters, 1e-12)
    lowest = float(np.linalg.eigvalsh(A)[0])
    A = A + (1e-9 * unit + 2 * max(0.0, -lowest)) * np.eye(n_clusters)
    u = (multipliers[0] - multipliers[1]) / 2
    linear = A @ u + rates[0] - rates[1]
    u = _sparse(A, linear, bound, u, tol)
    return np.stack([u, -u])


def _sparse(
    A: FloatArray, linear: FloatArray, bound: float, u: FloatArray, tol: float
) -> FloatArray:
    """Minimum of ``u A u / 2 - linear u + bound |u|_1`` by feature-sign search (Lee et al. 2007).

    Exact steps on the entries that are not zero, up to the best place where one of them becomes
    zero; entries at zero join when their slope exceeds the bound: all of them or, where that is
    no gain, the steepest. The value falls in every step.
    """
    u = u.copy()
    for _ in range(SIGN_STEPS * len(u)):
        gradient, sign = A @ u - linear, np.sign(u)
        on = sign != 0
        if np.abs(gradient + bound * sign)[on].max(initial=0.0) >= tol:
            u, _ = _sign_step(A, linear, bound, u, sign)
            continue
        excess = np.where(on, -np.inf, np.abs(gradient) - bound)
        if excess.max() < tol:
            break
        joined = np.where(excess >= tol, -np.sign(gradient), sign)
        new, gain = _sign_step(A, linear, bound, u, joined)
        if gain <= 0:
            sign[excess.argmax()] = joined[excess.argmax()]
            new, _ = _sign_step(A, linear, bound, u, sign)
        u = new
    return u


def _sign_step(
    A: FloatArray, linear: FloatArray, bound: float, u: FloatArray, sign: FloatArray
) -> tuple[FloatArray, float]:
    """Best point on the way to the minimum for these signs, and by how much the value falls."""
    chosen = np.flatnonzero(sign)
    part, offset = A[np.ix_(chosen, chosen)], linear[chosen]
    now = u[chosen]
    step = np.linalg.solve(part, offset - bound * sign[chosen]) - now
    # An entry changes its sign within the step where it and its goal have other signs.
    crossing = np.flatnonzero(now * (now + step) < 0)
    lengths = np.concatenate([-now[crossing] / step[crossing], [1.0, 0.0]])
    points = now[:, None] + step[:, None] * lengths
    points[crossing, np.arange(len(crossing))] = 0.0
    values = 0.5 * (points * (part @ points)).sum(axis=0) - offset @ points
    values += bound * np.abs(points).sum(axis=0)
    best = values[:-1].argmin()
    out = np.zeros_like(u)
    out[chosen] = points[:, best]
    return out, float(values[-1] - values[best])


def _backtrack(
    evaluate: Callable[[FloatArray], _State],
    now: FloatArray,
    state: _State,
    step: FloatArray,
    decrease: float,
) -> tuple[FloatArray, _State]:
    """Halve the step until the value falls enough."""
    length = 1.0
    while True:
        new = evaluate(now + length * step)
        enough = state.value + 1e-4 * length * decrease + 1e-13 * abs(state.value)
        if new.value <= enough or length < 1e-6:
            return now + length * step, new
        length /= 2
