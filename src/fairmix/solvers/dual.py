"""Our solver: posterior-regularised EM with one tilt per group and cluster.

For fixed components the best assignment that meets a bound on the rates is a tilted softmax::

    q_ik  proportional to  pi_k f_k(x_i) exp(sum_g rho_g(i) v[g, k])

with v[g, k] = -lambda[g, k] / share_g, and lambda solves a convex problem (the dual); it adds up
to zero over the groups where a gap is bounded, and need not where ratios are. rho is the indicator
of the row's group for an aware map, and P(group | x) for a blind one.

Each iteration is one pass. It gives the sums for the closed-form M-step, the rates, and the
curvature of the dual, hence a Newton step for lambda. The rates are those of the real groups also
for a blind map: its fixed point then meets the bound on the data, whatever the propensity says.

For hard labels the tilt is cooled down with the components fixed, then polished on the rates of
the labels themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import ClassVar, NamedTuple, Self, cast

import numpy as np

from fairmix.criteria import Criterion, Seminorm
from fairmix.criteria.aggregates import SumOverClusters
from fairmix.criteria.bounds import within
from fairmix.kernels import LogitMap, Sweep
from fairmix.kernels.totals import FEW_GROUPS, FloatArray, Logits
from fairmix.mixture.mixture import Mixture
from fairmix.solvers._base import (
    Beginning,
    Callback,
    ClimbOnly,
    Iteration,
    Solution,
    Status,
    Task,
    enough,
)
from fairmix.solvers.carrying import carried_over
from fairmix.solvers.levelling import Levelling
from fairmix.solvers.objective import Objective, Point
from fairmix.solvers.polish import Labelled, Labelling, Polish
from fairmix.solvers.quadratic import Bound, Constraint, Strength
from fairmix.solvers.recorder import Recorder
from fairmix.solvers.spending import spent
from fairmix.solvers.stride import LARGEST, Stride
from fairmix.solvers.tilt import Tilt
from fairmix.tables import Rowlike

# Components wait until the rates are this close to allowed; before, only the tilt moves. A fifth of
# the default bound: components that learn from unfair responsibilities have to be led back.
READY = 2e-3
# EM has converged only when the multipliers solve the dual this well, in units of rates. No better
# than what components wait for: the rest is for `finish`, whose components are fixed.
CLOSE = 2e-3
# EM ends when the objective changes by less than this share of `tol`: it gains ever less per
# iteration, so what is left is several times its last gain.
FINISHED = 0.3
# A Newton step may move a row's tilt by at most this many temperatures. With 4, tilts of blind maps
# take up to 30 steps to where rates are allowed, with 40 those of three groups never get there.
REACH = 8.0
# Temperatures at which the tilt is cooled down to labels, and the accuracy needed at each. About
# half of the one before each time, so that its solution is a good start; on the way the solution
# need only be near. At 0.05 responsibilities all but agree with labels, and colder ones have
# hardly a row left in between that a Newton step could see.
COOLING = ((0.5, 3e-3), (0.2, 3e-3), (0.1, 3e-3), (0.05, 5e-4))
# Newton's steps are few or do not help: the polish that follows has steps of its own.
COOLING_STEPS = 8
# Times as many where a cluster is far from all rows that it does not have.
LONGEST = 3
# Steps at most before it is cooled down. Each moves a row's tilt by `REACH` temperatures, so they
# lead about as far as the logits of rows differ.
WARM_STEPS = 40
LABEL_TEMPERATURE = COOLING[-1][0]
# Labels are polished at most so often until those that `predict` rounds meet the bound, too: a row
# that rounding moves is rare, and one that moves twice all the more.
LABEL_CHECKS = 3
# Of more rows each look takes long, and the carry-over from a sample leaves little to spend.
SPENT_ROWS = 100_000
# Passes that estimate the weights of the density when the map ignores them. No label depends on
# them: the offsets take back what they add.
WEIGHT_PASSES = 3
# Iterations in a row without allowed rates, after which a climb that had them ends: the components
# have moved away from where a tilt could follow, as small clusters far from all others may.
LOST = 30
# Iterations of a climb at most: of few groups, and the least of many, of which each takes longer.
# The product of groups and iterations stays, until fewer iterations would not be a fit.
ITERATIONS, LEAST_ITERATIONS = 200, 40
# Of the E-step where labels count. At temperature 1 no tilt met a small bound on the labels of Bank
# and Credit afterwards: their gaps stayed at 0.014 and 0.05.
COOL = 0.3
# Of that of the last climb, which brings components nearer to those of labels: from eight starts of
# Credit, blind, at 0.01, costs are 5.0 % above the best one known after a climb at 0.3, and 3.8 %
# after another at 0.15. A search at 0.15 finds poorer optima (decision record 0019).
CLOSING, CLOSING_PATIENCE = 0.15, 10


class Goal(NamedTuple):
    """How well the dual is to be solved, in units of rates, and in how many steps at most."""

    accuracy: float
    steps: int


@dataclass(frozen=True)
class Dual(ClimbOnly):
    """Posterior-regularised EM.

    Parameters
    ----------
    measure : Criterion
        The measure of fairness that is recorded.
    constraint : Constraint
        What the rates must fulfil.
    labels : bool
        Whether the constraint is on hard labels, or on the responsibilities.
    temperature : float
        Of the E-step.
    equal_weights : bool
        Whether the map ignores mixture weights. With learned weights the larger clusters of a
        blind map swallow the others.
    max_iter : int
        EM iterations, of one pass each; with mini-batches a pass over one batch and the rows
        whose rates count.
    tol : float
        Gain of the objective per row below which EM has converged.
    patience : int
        Allowed points in a row that are no better after which EM ends, too: tilt and components
        may chase each other.
    """

    measure: Criterion
    constraint: Constraint
    labels: bool = True
    temperature: float = 0.3
    equal_weights: bool = True
    max_iter: int = 40
    tol: float = 1e-5
    patience: int = 5

    screens: ClassVar[bool] = True

    @classmethod
    def of(cls, task: Task) -> Self:
        """For a task with groups to compare."""
        iterations = ITERATIONS * FEW_GROUPS // max(task.n_groups, FEW_GROUPS)
        iterations = max(LEAST_ITERATIONS, iterations) * task.n_batches
        return cls(
            task.measure,
            Bound(task.criterion, task.bound)
            if task.strength is None
            else Strength(cast(Seminorm, task.criterion), task.strength),
            labels=task.labels,
            temperature=COOL if task.labels else 1.0,
            equal_weights=task.labels or not task.aware,
            max_iter=iterations if task.max_iter is None else task.max_iter,
            tol=task.tol,
            patience=cls.patience if task.patience is None else task.patience,
        )

    def limited(self, max_iter: int, *, settle: bool = True) -> Self:
        """The same with other ``max_iter``; without ``settle`` it takes all of them."""
        return replace(self, max_iter=max_iter, tol=self.tol if settle else 0.0)

    def closing(self) -> Self:
        """The same, nearer to labels where these count."""
        if not self.labels:
            return self
        patience = max(self.patience, CLOSING_PATIENCE)
        return replace(self, temperature=min(self.temperature, CLOSING), patience=patience)

    def coldest(self) -> Self:
        """The same, at the temperature of labels where these count."""
        return replace(self, temperature=self._final_temperature)

    def finish(self, mixture: Mixture, rough: Solution, near: Rowlike, table: Rowlike) -> Solution:
        """The tilt that meets the constraint on all rows of a table, components fixed.

        ``near``: the table or a sample of it, on which most of the work is done.
        """
        theta = rough.theta
        logits = mixture.logits(theta)
        tilt = self._tilt(near, rough.multipliers, mixture)
        if self.labels:
            tilt = self._cooled(tilt, logits, table)
        bound = self.constraint.bound
        polish = Polish(self.constraint.criterion, bound, self.labels, self._final_temperature)
        if table is near:
            look = polish.look(tilt, logits)
        else:
            look = carried_over(polish, tilt, logits, table)
        if self.equal_weights:
            theta = _density_weights(mixture, near, theta)
        # The offsets take back what the density's weights add to the logits of the map. A row has
        # one offset of each attribute, so each takes its share.
        taken = mixture.log_weights(rough.theta) - mixture.log_weights(theta)
        taken /= 1 if table.membership is None else len(table.membership.counts)
        beyond, worth = 0.0, None
        for _ in range(LABEL_CHECKS):
            best = polish.run(logits, look)
            if table.n_rows <= SPENT_ROWS:
                best = spent(polish, logits, best)
            offsets = best.tilt.offsets + taken
            if not self.labels:
                break
            labelling = Labelling(LogitMap(mixture.logits(theta), offsets))
            labelled = reduce(Labelled.plus, table.each(labelling))
            worth, beyond = self._worth(mixture, labelled.sums), polish.beyond(best, labelled)
            if beyond <= 0:
                break
            polish = replace(polish, bound=max(0.0, polish.bound - beyond))
            look = best
        value = best.tilt.value(best.totals)
        return Solution(
            theta=theta,
            objective=value if worth is None else worth,
            climbed=value,
            status=rough.status,
            history=rough.history,
            multipliers=best.tilt.multipliers,
            offsets=offsets,
            temperature=self._final_temperature,
            gap=best.gap,
            # By the labels of the final map, too, or ends that keep the bound were not preferred.
            met=beyond <= 0
            and within(
                best.gap,
                enough(self.constraint.criterion, bound, best.rates, table, labels=self.labels),
            ),
            filled=best.filled,
        )

    def _worth(self, mixture: Mixture, sums: Logits) -> float:
        """Mean log-density of rows and labels at the components that the labels make.

        Those of the map are of responsibilities, whose variances differ from those of labels by
        more than one solution from another.
        """
        theta = self._levelled(mixture, mixture.maximize(sums))
        return mixture.logits(theta).dot(sums) / float(sums.b.sum())

    @property
    def _longest_stride(self) -> float:
        """None where clusters add up: all are at one bound, so none can be moved by itself."""
        return 0.0 if isinstance(self.constraint.criterion, SumOverClusters) else LARGEST

    @property
    def _final_temperature(self) -> float:
        return LABEL_TEMPERATURE if self.labels else self.temperature

    def expect(self, objective: Objective, at: Beginning) -> Logits:
        """Sums of the tilted E-step."""
        mixture = objective.mixture
        logits = mixture.logits(self._levelled(mixture, at.theta))
        tilt = self._tilt(objective.fair, at.multipliers, mixture)
        return objective.table.softmax_pass(tilt.e_step(logits, self.temperature)).sums

    def climb(
        self, objective: Objective, start: Beginning, callback: Callback | None = None
    ) -> Solution:
        """EM alone: one pass per iteration for the components and the tilt."""
        mixture, table = objective.mixture, objective.table
        tilt = self._tilt(objective.fair, start.multipliers, mixture)
        one_pass = objective.fair_table is None
        steps = objective.n_batches
        theta = self._levelled(mixture, start.theta)
        logits = mixture.logits(theta)
        levelling = Levelling.of(tilt, logits.W.shape[1])
        if start.multipliers is None and start.level:
            tilt = levelling.level(tilt, logits)
        recorder = Recorder(self.measure, tilt.table, self.tol, 1, callback)
        status = Status.MAX_ITER
        best: Beginning | None = None
        reached = highest = -np.inf
        waited = lost = 0
        # Batches differ, and with them the values that follow.
        close = self.tol * (FINISHED if steps == 1 else 1.0)
        reach, stride = REACH, Stride(mixture.n_components, min(1.0, self._longest_stride))
        for iteration in range(1, self.max_iter + 1):
            totals = tilt.table.softmax_pass(
                tilt.sweep(logits, self.temperature, alpha=1.0 if one_pass else 0.0)
            )
            rates = tilt.rates(totals)
            allowed = self._allowed(rates)
            missing = float(np.abs(rates - allowed).max())
            # Less the price of what is missing, or points beyond the bound would look best. A tilt
            # that went too far has the other sign, and must not look better for it.
            value = tilt.value(totals) - self.constraint.penalty(rates)
            value -= abs(float(np.vdot(tilt.multipliers, rates - allowed)))
            recorder.record(Point(theta, logits, rates, np.nan, value))
            lost = 0 if missing < READY or best is None else lost + 1
            if missing < READY:
                waited = 0 if value > highest + self.tol else waited + 1
                # Values are those of the rows whose rates count. Where components learn from
                # others, a start that was fitted to these rows would look best for ever.
                if value > highest or not one_pass:
                    best, reached = Beginning(theta, tilt.multipliers), value
                highest = max(highest, value)
            past, before = _ago(recorder.rows, steps), _ago(recorder.rows, 2 * steps)
            residual = tilt.residual(rates, totals, self.temperature, self.constraint)
            settled = residual < CLOSE and abs(value - past) < close
            if settled or waited >= self.patience * steps or lost > LOST * steps:
                status = Status.CONVERGED
                break
            if abs(value - before) < close < abs(value - past):
                # Of few rows, a cold step may overshoot and the next one lead back, for ever.
                reach /= 2
            stride.look(tilt, rates)
            last = tilt
            tilt = tilt.step(
                rates, totals, self.temperature, self.constraint, reach, stride.factors
            )
            stride.taken(last, tilt, reach * self.temperature)
            # After the last point there is no other, and a pass for it over all rows takes long.
            if missing < READY and iteration < self.max_iter:
                if not one_pass:
                    totals = table.softmax_pass(tilt.e_step(logits, self.temperature))
                theta = self._levelled(mixture, mixture.maximize(totals.sums))
                old, logits = logits, mixture.logits(theta)
                tilt = levelling.follow(tilt, old, logits)
        if best is None or not np.isfinite(reached):
            # Nothing was allowed, and what came last is closest to it.
            best = Beginning(theta, tilt.multipliers)
        return Solution(best.theta, reached, status, recorder.rows, best.multipliers)

    def _tilt(self, table: Rowlike, multipliers: FloatArray | None, mixture: Mixture) -> Tilt:
        """Of a table, from multipliers or from none."""
        free = self.constraint.criterion.conic
        return Tilt.of(table, mixture.n_components, multipliers, free=free)

    def _allowed(self, rates: FloatArray) -> FloatArray:
        """The nearest rates within the bound."""
        return rates if np.isinf(self.constraint.bound) else self.constraint.nearest(rates, 0.0)

    def _levelled(self, mixture: Mixture, theta: FloatArray) -> FloatArray:
        """Parameters as the map sees them, with equal weights where it ignores them."""
        return mixture.with_equal_weights(theta) if self.equal_weights else theta

    def solved(
        self,
        tilt: Tilt,
        logits: Logits,
        temperature: float,
        goal: Goal,
        error: FloatArray | float = 0.0,
    ) -> Tilt:
        """The tilt that solves the dual for fixed components, by Newton steps.

        ``error`` (M, K) is added to the rates: where the rows of the tilt are a sample, what those
        of all rows have more.
        """
        stride, last, left = Stride(len(logits.b), self._longest_stride), tilt, goal.steps
        for _ in range(LONGEST * goal.steps):
            totals = tilt.table.softmax_pass(tilt.sweep(logits, temperature, alpha=0.0))
            rates = tilt.rates(totals) + error
            if stride.look(tilt, rates):
                tilt = last
                continue
            # Steps towards a first row do not count.
            left -= not stride.growing
            if tilt.residual(rates, totals, temperature, self.constraint) < goal.accuracy:
                break
            if left < 0:
                break
            last, factors = tilt, stride.factors
            tilt = tilt.step(rates, totals, temperature, self.constraint, REACH, factors)
            stride.taken(last, tilt, REACH * temperature)
        return tilt

    def _cooled(self, tilt: Tilt, logits: Logits, table: Rowlike) -> Tilt:
        """Follow the solution of the dual down to the temperature of labels.

        For all rows of a table, of which those of the tilt may be a sample.
        """
        # Nearly always there after a climb; but components that were given may need a long way.
        tilt = self.solved(tilt, logits, self.temperature, Goal(COOLING[0][1], WARM_STEPS))
        error: FloatArray | float = 0.0
        if tilt.table is not table:
            # Warm, because a cold tilt that has to change the rates by the sampling error finds few
            # rows near a boundary, and moves those that are dear.
            error = self._sampling_error(tilt, logits, table)
            goal = Goal(COOLING[-1][1], WARM_STEPS)
            tilt = self.solved(tilt, logits, self.temperature, goal, error)
        for temperature, accuracy in COOLING:
            if temperature < self.temperature:
                tilt = self.solved(tilt, logits, temperature, Goal(accuracy, COOLING_STEPS), error)
        return tilt

    def _sampling_error(self, tilt: Tilt, logits: Logits, table: Rowlike) -> FloatArray:
        """What the rates of all rows have more than those of the tilt, (M, K)."""
        sweep = tilt.sweep(logits, self.temperature, alpha=0.0, curved=False)
        near, wide = (one.rates(one.table.softmax_pass(sweep)) for one in (tilt, tilt.on(table)))
        return np.asarray(wide - near)


def _density_weights(mixture: Mixture, table: Rowlike, theta: FloatArray) -> FloatArray:
    """Maximum-likelihood weights for given components, by a few EM steps."""
    for _ in range(WEIGHT_PASSES):
        mass = table.softmax_pass(Sweep(mixture.logits(theta), alpha=0.0)).mass.sum(axis=0)
        theta = mixture.with_weights(theta, mass / mass.sum())
    return theta


def _ago(rows: Sequence[Iteration], iterations: int) -> float:
    """The objective so many iterations ago."""
    return rows[-1 - iterations].objective if len(rows) > iterations else np.inf
