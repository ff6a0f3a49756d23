"""Our solver: posterior-regularised EM with one tilt per group and cluster.

For fixed components the best assignment that meets a bound on the rates is a tilted softmax::

    q_ik  proportional to  pi_k f_k(x_i) exp(sum_g rho_g(i) v[g, k])

with v[g, k] = -lambda[g, k] / share_g and sum_g lambda[g, k] = 0, and lambda solves a convex
problem (the dual). rho is the indicator of the row's group for an aware map, and P(group | x) for
a blind one.

Each iteration is one pass. It gives the sums for the closed-form M-step, the rates, and the
curvature of the dual, hence a Newton step for lambda. The rates are those of the real groups also
for a blind map: its fixed point then meets the bound on the data, whatever the propensity says.

For hard labels the tilt is cooled down with the components fixed, then polished on the rates of
the labels themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fairmix.criteria import Criterion
from fairmix.mixture import Mixture
from fairmix.objective import Objective, Point
from fairmix.solvers._base import Callback, Recorder, Solution, Status, resolution
from fairmix.solvers.quadratic import Bound, Constraint
from fairmix.solvers.tilt import Tilt
from fairmix.tables import Rowlike
from fairmix.totals import FloatArray, Logits, Totals

# Components wait until the rates are this close to allowed; before, only the tilt moves.
READY = 2e-3
# EM has converged only when the multipliers solve the dual this well, in units of rates.
CLOSE = 2e-3
# EM ends when the objective changes by less than this share of `tol`, or after so many allowed
# points in a row that are no better: tilt and components of a blind map may chase each other.
FINISHED = 0.3
PATIENCE = 5
# A Newton step may move a row's tilt by at most this many temperatures.
REACH = 4.0
POLISH_REACH = 2.0
# Temperatures at which the tilt is cooled down to labels, and the accuracy needed at each.
COOLING = ((0.5, 3e-3), (0.2, 3e-3), (0.1, 3e-3), (0.05, 5e-4))
COOLING_STEPS = 8
POLISH_STEPS = 40
POLISH_PATIENCE = 6
# Random moves at the end: as many as visit this many rows, within limits.
SEARCH_ROWS = 1_000_000
SEARCH_STEPS = (40, 400)
# Steps back from a gap below this share of the bound.
EASE_STEPS = 3
EASE = 0.9
LABEL_TEMPERATURE = COOLING[-1][0]
# Passes that estimate the weights of the density when the map ignores them.
WEIGHT_PASSES = 3


@dataclass(frozen=True)
class Dual:
    """Posterior-regularised EM.

    Parameters
    ----------
    criterion : Criterion
        The measure of fairness.
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
    """

    criterion: Criterion
    constraint: Constraint
    labels: bool = True
    temperature: float = 0.3
    equal_weights: bool = True
    max_iter: int = 40
    tol: float = 1e-5

    def solve(
        self,
        objective: Objective,
        theta: FloatArray,
        *,
        callback: Callback | None = None,
        multipliers: FloatArray | None = None,
    ) -> Solution:
        """Climb from theta, then make the labels (or responsibilities) meet the constraint."""
        rough = self.climb(objective, theta, callback=callback, multipliers=multipliers)
        return self.finish(objective, rough, objective.table)

    def finish(self, learned: Objective, rough: Solution, table: Rowlike) -> Solution:
        """The tilt that meets the constraint on all rows of a table, components fixed.

        ``learned`` is what the components were learned from; where it saw a sample only, the tilt
        is first cooled down on that.
        """
        mixture, theta = learned.mixture, rough.theta
        logits = mixture.logits(theta)
        tilt = Tilt(learned.fair, mixture.n_components, rough.multipliers)
        if self.labels:
            self._cool(tilt, logits)
        if table is not learned.fair:
            tilt = Tilt(table, mixture.n_components, tilt.multipliers)
        value, gap, filled = self._polish(tilt, logits)
        if self.equal_weights:
            theta = _density_weights(mixture, learned.fair, theta)
        return Solution(
            theta=theta,
            objective=value,
            status=rough.status,
            history=rough.history,
            multipliers=tilt.multipliers,
            # The offsets take back what the density's weights add to the logits of the map.
            offsets=tilt.offsets + mixture.log_weights(rough.theta) - mixture.log_weights(theta),
            temperature=self._final_temperature,
            gap=gap,
            filled=filled,
        )

    @property
    def _final_temperature(self) -> float:
        return LABEL_TEMPERATURE if self.labels else self.temperature

    def climb(
        self,
        objective: Objective,
        theta: FloatArray,
        *,
        callback: Callback | None = None,
        multipliers: FloatArray | None = None,
    ) -> Solution:
        """EM alone: one pass per iteration for the components and the tilt."""
        mixture, table = objective.mixture, objective.table
        tilt = Tilt(objective.fair, mixture.n_components, multipliers)
        one_pass = objective.fair_table is None
        steps = objective.n_batches
        theta = mixture.with_equal_weights(theta) if self.equal_weights else theta
        recorder = Recorder(self.criterion, tilt.table.group_sizes, self.tol, 1, callback)
        status = Status.MAX_ITER
        best, waited = (-np.inf, theta, tilt.multipliers), 0
        for _ in range(self.max_iter):
            logits = mixture.logits(theta)
            totals = tilt.measure(logits, self.temperature, alpha=1.0 if one_pass else 0.0)
            rates = tilt.rates(totals)
            value = tilt.value(totals) - self.constraint.penalty(rates)
            recorder.record(Point(theta, logits, rates, np.nan, value))
            missing = self.constraint.missing(rates)
            if missing < READY:
                waited = 0 if value > best[0] + self.tol else waited + 1
                best = max(best, (value, theta, tilt.multipliers), key=lambda point: point[0])
            past = recorder.rows[-1 - steps].objective if len(recorder.rows) > steps else np.inf
            residual = tilt.residual(rates, totals, self.temperature, self.constraint)
            settled = residual < CLOSE and abs(value - past) < FINISHED * self.tol
            if settled or waited >= PATIENCE * steps:
                status = Status.CONVERGED
                break
            tilt.step(rates, totals, self.temperature, self.constraint, REACH)
            if missing < READY:
                if not one_pass:
                    totals = tilt.expect(table, logits, self.temperature)
                theta = mixture.maximize(totals.sums)
                theta = mixture.with_equal_weights(theta) if self.equal_weights else theta
        value, *point = best
        theta, multipliers = point if np.isfinite(value) else (theta, tilt.multipliers)
        return Solution(theta, value, status, recorder.rows, multipliers)

    def _cool(self, tilt: Tilt, logits: Logits) -> None:
        """Follow the solution of the dual down to the temperature of labels."""
        for temperature, accuracy in COOLING:
            if temperature >= self.temperature:
                continue
            for _ in range(COOLING_STEPS):
                totals = tilt.measure(logits, temperature, alpha=0.0)
                rates = tilt.rates(totals)
                if tilt.residual(rates, totals, temperature, self.constraint) < accuracy:
                    break
                tilt.step(rates, totals, temperature, self.constraint, REACH)

    def _polish(self, tilt: Tilt, logits: Logits) -> tuple[float, float, int]:
        """Newton steps on the rates that count, to a target that shrinks by what is missing.

        Ends at the first tilt that meets the bound, else at the one that comes closest. Where few
        rows lie near a boundary, labels hardly move within a temperature, so steps grow; after one
        that leads clearly away they shrink, and the closest tilt is where they go on.
        Returns the objective, the gap, and how many clusters have members.
        """
        bounded = isinstance(self.constraint, Bound)
        bound = target = self.constraint.bound if isinstance(self.constraint, Bound) else np.inf
        half_a_row = 0.5 / float(tilt.table.group_sizes.min())
        best = now = short = self._look(tilt, logits)
        reach, waited = POLISH_REACH, 0
        # Labels move by whole rows: a bound of zero is met within two of the smallest group.
        enough = bound if bound > 0 or not self.labels else 4 * half_a_row
        counts_as_met = max(bound, resolution(tilt.table.group_sizes)) if self.labels else bound
        for _ in range(POLISH_STEPS):
            patience = POLISH_PATIENCE if best.gap <= counts_as_met else POLISH_STEPS
            if not bounded or best.gap <= enough or waited >= patience:
                break
            short = best
            target = max(0.0, target - max(0.5 * (best.gap - bound), half_a_row))
            tilt.multipliers = now.multipliers
            aim = Bound(self.criterion, target)
            tilt.step(now.rates, now.totals, self._final_temperature, aim, reach)
            now = self._look(tilt, logits)
            # A few rows more are no sign of a wrong direction.
            few_rows = min(6 * half_a_row, 2e-3)
            astray = now.gap > best.gap + max(0.5 * (best.gap - bound), few_rows)
            best, waited = (now, 0) if now.gap < best.gap else (best, waited + 1)
            now, reach = (best, reach / 2) if astray else (now, 1.5 * reach)
        if bounded and best.gap > counts_as_met:
            best = self._search(tilt, logits, best, enough)
        for _ in range(EASE_STEPS):
            # Fairer than asked costs quality: halve the way back to the last tilt that was not.
            if not best.gap < EASE * bound or short is best:
                break
            tilt.multipliers = (best.multipliers + short.multipliers) / 2
            now = self._look(tilt, logits)
            best, short = (now, short) if now.gap <= bound else (best, now)
        tilt.multipliers = best.multipliers
        filled = int((best.totals.hard_mass.sum(axis=0) > 0).sum())
        return tilt.value(best.totals), best.gap, filled

    def _search(self, tilt: Tilt, logits: Logits, best: _View, enough: float) -> _View:
        """Small random moves of the tilt: rows that jump together leave Newton steps just short."""
        rng = np.random.default_rng(0)
        for _ in range(int(np.clip(SEARCH_ROWS / tilt.table.n_rows, *SEARCH_STEPS))):
            noise = tilt.basis @ rng.normal(size=(tilt.basis.shape[1], len(logits.b)))
            length = rng.uniform(0, self._final_temperature) / tilt.movement(noise)
            tilt.multipliers = best.multipliers + length * noise
            now = self._look(tilt, logits)
            best = now if now.gap < best.gap else best
            if best.gap <= enough:
                break
        return best

    def _look(self, tilt: Tilt, logits: Logits) -> _View:
        totals = tilt.measure(logits, self._final_temperature, alpha=0.0, hard=True)
        rates = tilt.hard_rates(totals) if self.labels else tilt.rates(totals)
        return _View(tilt.multipliers, totals, rates, self.criterion.value(rates))


class _View(NamedTuple):
    """What the rates that count look like at some multipliers."""

    multipliers: FloatArray
    totals: Totals
    rates: FloatArray
    gap: float


def _density_weights(mixture: Mixture, table: Rowlike, theta: FloatArray) -> FloatArray:
    """Maximum-likelihood weights for given components, by a few EM steps."""
    for _ in range(WEIGHT_PASSES):
        mass = table.softmax_pass(mixture.logits(theta), alpha=0.0).mass.sum(axis=0)
        theta = mixture.with_weights(theta, mass / mass.sum())
    return theta
