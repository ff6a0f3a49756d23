"""The small problem inside the dual solver: a quadratic plus a support function, no data.

Minimises over multipliers lambda (M x K)::

    -<r, d> + <d, H d> / 2 + h(lambda),    d = lambda - lambda_0

where h is the support function of the rates that a constraint allows. The method is an augmented
Lagrangian in the rates c: with w = c + sigma lambda, the inner problem

    Phi(lambda) = quadratic + (|w|^2 - |w - P(w)|^2) / (2 sigma)

is smooth and convex, P being the projection on the allowed rates. Newton steps with backtracking
solve it; both loops end after a few steps because everything is piecewise quadratic.

This is for few groups, whose H is a matrix; ``many`` has the same for more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from fairmix.criteria import Criterion, Face, Seminorm
from fairmix.kernels.totals import FEW_GROUPS, FloatArray
from fairmix.solvers.cone import cone_multipliers
from fairmix.solvers.local_model import FewGroups, State, backtrack
from fairmix.solvers.many import HIGHEST_PRICE, Accuracy, ManyGroups, damping_of, many_multipliers
from fairmix.solvers.sparse import sparse_multipliers


class Constraint(Protocol):
    """What the rates must fulfil, through its multipliers."""

    @property
    def criterion(self) -> Criterion:
        """The measure of the rates."""

    @property
    def bound(self) -> float:
        """What the criterion may be; infinite where any rates are allowed."""

    def nearest(self, rates: FloatArray, sigma: float) -> FloatArray:
        """``argmin_x |x - rates|^2 / 2 + sigma h*(x)`` with h* the conjugate of the support."""

    def face(self, rates: FloatArray, nearest: FloatArray) -> Face:
        """The derivative of ``nearest``."""

    def missing(self, rates: FloatArray) -> float:
        """How far the rates are from being allowed, entry by entry."""

    def penalty(self, rates: FloatArray) -> float:
        """What is subtracted from the objective."""

    def multipliers(self, model: FewGroups | ManyGroups) -> FloatArray:
        """Minimum of the local model of the dual: see ``newton_multipliers``."""


@dataclass(frozen=True)
class Bound:
    """``criterion(rates) <= bound``."""

    criterion: Criterion
    bound: float

    def nearest(self, rates: FloatArray, sigma: float) -> FloatArray:
        """Projection."""
        return self.criterion.project(rates, self.bound)

    def face(self, rates: FloatArray, nearest: FloatArray) -> Face:
        """That of the projection."""
        return self.criterion.face(rates, nearest)

    def missing(self, rates: FloatArray) -> float:
        """Distance to the projection."""
        return float(np.abs(rates - self.criterion.project(rates, self.bound)).max())

    def penalty(self, rates: FloatArray) -> float:
        """Nothing."""
        return 0.0

    def multipliers(self, model: FewGroups | ManyGroups) -> FloatArray:
        """Minimum of the local model, as exact as a step on changing rates needs."""
        if isinstance(model, FewGroups):
            cone = self.criterion.cone(self.bound)
            if cone is not None and len(cone) * model.rates.shape[1] <= MOST_EDGES:
                return cone_multipliers(model, cone)
            return newton_multipliers(model, self.criterion, self.bound, STEP.tol)
        if self.bound == 0 and not self.criterion.conic:
            curvature = model.curvature
            return model.multipliers + curvature.equalise(curvature.along(model.rates))
        return many_multipliers(model, self, STEP)


@dataclass(frozen=True)
class Strength:
    """``strength * criterion(rates)`` is subtracted from the objective; any rates are allowed.

    Its multipliers are those of the bound at which their dual norm is the strength.
    """

    criterion: Seminorm
    strength: float

    @property
    def bound(self) -> float:
        """None."""
        return np.inf

    def nearest(self, rates: FloatArray, sigma: float) -> FloatArray:
        """Shrunken rates."""
        return self.criterion.shrink(rates, sigma * self.strength)

    def face(self, rates: FloatArray, nearest: FloatArray) -> Face:
        """That of shrinking."""
        return self.criterion.shrink_face(rates, nearest)

    def missing(self, rates: FloatArray) -> float:
        """Nothing."""
        return 0.0

    def penalty(self, rates: FloatArray) -> float:
        """``strength * criterion``."""
        return self.strength * self.criterion.value(rates)

    def multipliers(self, model: FewGroups | ManyGroups) -> FloatArray:
        """Minimum of the local model; of few groups by bisection on the bound."""
        if isinstance(model, ManyGroups):
            return many_multipliers(model, self, STEP)
        rates = model.rates
        untilted = rates + (model.curvature @ model.multipliers.ravel()).reshape(rates.shape)
        low, high = 0.0, self.criterion.value(untilted)
        found = newton_multipliers(model, self.criterion, low)
        if self.criterion.support(found) <= self.strength:
            return found
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            found = newton_multipliers(model, self.criterion, middle)
            norm = self.criterion.support(found)
            if abs(norm / self.strength - 1) < NORM_ACCURACY:
                break
            low, high = (middle, high) if norm > self.strength else (low, middle)
        return found


# Multipliers of a cone that least squares find, one for each pair of groups and cluster. Three
# groups and twenty clusters have 120; with several hundred, the method below is quicker.
MOST_EDGES = 400
# Of the bound at which the multipliers have a given norm. Twenty halve it to a millionth; a norm
# within a thousandth of the strength, which a user hardly means more exactly, ends them sooner.
BISECTIONS = 20
NORM_ACCURACY = 1e-3
# What a step on changing rates needs. Of many groups, where it takes long, the last fifth of the
# way, and more than 12 projections, change neither the number of passes nor the end of a fit; with
# 8, multipliers can stay far from a solution whose rates they have.
STEP = Accuracy(tol=2e-6, share=0.2, evaluations=12)
# Caps against rounding: both loops end after a few steps, for everything is piecewise quadratic.
OUTER_STEPS = 40
INNER_STEPS = 30
# The share of a step's slope that a value must fall by to be called straight; of a quadratic one
# it falls by half.
STRAIGHT = 0.75
# The price of leaving the allowed rates, in units of H. It starts at the scale of H, where Newton's
# matrix is best conditioned, and doubles from round to round: a higher one needs fewer rounds.
FIRST_PRICE = 3.0
# Added to H as a share of its mean: far above rounding, far below what rates could show.
RIDGE = 1e-9
# The mean of H is at least this, for rows that are all certain of their cluster have none.
LEAST_UNIT = 1e-12


def newton_multipliers(
    model: FewGroups, criterion: Criterion, bound: float, tol: float = 1e-7
) -> FloatArray:
    """Multipliers that minimise the local model, to an accuracy in rates.

    h is the support function of the rates within the bound.
    """
    multipliers, rates, curvature = model.multipliers, model.rates, model.curvature
    if bound == 0 and criterion.contrasting:
        return _equal_rates(model)
    factor = criterion.absolute(len(rates))
    if factor is not None and len(rates) <= FEW_GROUPS:
        return sparse_multipliers(model, factor * bound, tol)
    size = rates.size
    start, slope = multipliers.ravel(), rates.ravel()
    unit = max(model.unit, LEAST_UNIT)
    # Adding a constant over clusters to a group changes nothing, so H alone is singular.
    H = curvature + RIDGE * unit * np.eye(size)
    sigma = FIRST_PRICE * unit
    c = criterion.project(rates, bound).ravel()
    now = start.copy()

    def evaluate(point: FloatArray) -> State:
        d = point - start
        w = c + sigma * point
        nearest = criterion.project(w.reshape(rates.shape), bound).ravel()
        gap = w - nearest
        value = -slope @ d + 0.5 * d @ (H @ d) + (w @ w - gap @ gap) / (2 * sigma)
        return State(float(value), H @ d - slope + nearest, nearest, w)

    ease = 1.0
    for _ in range(OUTER_STEPS):
        state = evaluate(now)
        for _ in range(INNER_STEPS):
            steepest = np.abs(state.gradient).max()
            # Closer than the rates need be, so that the outer loop sees where they end.
            if steepest < 0.1 * tol:
                break
            D = criterion.project_slope(
                state.w.reshape(rates.shape), state.nearest.reshape(rates.shape)
            )
            damping = ease * damping_of(sigma, float(steepest))
            matrix = H + sigma * D.reshape(size, size) + damping * np.eye(size)
            step = -np.linalg.solve(matrix, state.gradient)
            decrease, before = float(state.gradient @ step), state.value
            now, state = backtrack(evaluate, now, state, step, decrease)
            if -decrease < 1e-17:
                break
            # A value that falls as if it were linear says that the damping makes steps too short.
            ease = ease / 4 if before - state.value > STRAIGHT * -decrease else min(1.0, 4 * ease)
        moved = np.abs(state.nearest - c).max()
        c = state.nearest
        if moved < tol and np.abs(state.gradient).max() < tol:
            break
        sigma = min(2 * sigma, HIGHEST_PRICE * unit)
    out = now.reshape(rates.shape)
    # What the ridge has left in the gauge.
    return np.asarray(out - out.mean(axis=0)) if criterion.contrasting else out


def _equal_rates(model: FewGroups) -> FloatArray:
    """The same for a bound of 0: h is zero for multipliers that add up to zero over the groups."""
    multipliers, rates, curvature = model.multipliers, model.rates, model.curvature
    n_groups, n_clusters = rates.shape
    unit = max(model.unit, LEAST_UNIT)
    lowest = float(np.linalg.eigvalsh(curvature)[0])
    # H acts on contrasts between groups, this on their mean alone, so it keeps the step a contrast.
    mean = np.kron(np.full((n_groups, n_groups), unit / n_groups), np.eye(n_clusters))
    H = curvature + mean + (RIDGE * unit + 2 * max(0.0, -lowest)) * np.eye(rates.size)
    step = np.linalg.solve(H, (rates - rates.mean(axis=0)).ravel())
    return np.asarray(multipliers + step.reshape(rates.shape))
