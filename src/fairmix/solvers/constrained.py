"""The paper's objective under a bound on the criterion: an augmented Lagrangian around its solvers.

Maximises the mean log-likelihood subject to ``criterion(r) <= bound``, with r the rates (M x K) of
the responsibilities or of the hard labels. There is no tilt: responsibilities are those of the
mixture. Three parts take turns:

1. *A fair start.* The components of `Dual`; from unfair ones, clusters are emptied on the way.
2. *Rounds of the climber*, the paper's EM or gradient steps, on the log-likelihood minus
   `Bounded`, whose multipliers y are updated between rounds. For labels the rates are those of
   softmax(logits / tau), tau falling.
3. *Repair* after each round: Gauss-Newton steps that bring the rates that count within the bound,
   with the smallest loss of likelihood to second order. With J = dr / dtheta and h the curvature
   of EM's surrogate, a step is the shortest u with ``r + J (u / sqrt(h))`` within the bound. Hard
   labels jump, so steps may end just short of it; then steps to random rates near it follow.

All this happens on a plan. Where it misses the bound or empties a cluster, a second plan follows;
responsibilities try both for a few rounds and take the better one first.
The solution is the best repaired point: one that meets the bound, with the fewest empty clusters,
with the highest log-likelihood.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np

from fairmix.criteria import Criterion
from fairmix.kernels import Sweep
from fairmix.kernels.totals import FloatArray, Logits
from fairmix.mixture.mixture import Mixture
from fairmix.solvers._base import (
    Beginning,
    Callback,
    ClimbOnly,
    Iteration,
    Solution,
    Solver,
    Status,
)
from fairmix.solvers.dual import Dual
from fairmix.solvers.objective import Bounded, Objective
from fairmix.solvers.quadratic import Bound
from fairmix.solvers.recorder import later


class Plan(NamedTuple):
    """How to climb.

    ``start``: temperature of the dual start. ``rho``: weight of the augmented Lagrangian.
    ``temperatures``: tau of each round. ``at_least``: rounds after which a point within the bound
    is searched for, and ends the climb; None climbs on for likelihood. ``equal_weights``: whether
    the mixture weights stay equal.
    """

    start: float
    rho: float
    temperatures: tuple[float, ...]
    at_least: int | None
    equal_weights: bool


# A cool start with learned weights reaches the higher likelihood on Adult (-2.644 nats against
# -2.656), but loses a cluster on Bank, where a warm start with equal weights keeps all ten and
# gains more than a nat. Both are tried for a few rounds; the better one goes on.
PROBABILITIES = (
    Plan(0.3, 300.0, (1.0,) * 8, None, False),
    Plan(1.0, 1000.0, (1.0,) * 8, None, True),
)
TRIAL_ROUNDS = 2
# Labels pay for learned weights: small clusters lose their rows to large ones (cost 12,260 with
# equal weights, 12,730 with learned ones). Once labels are fair, more likelihood only comes from
# smaller clusters and a larger variance, and the cost rises again. From a warm start components
# that overlap may all but merge, and then no small step makes their labels fair; a cool one keeps
# them apart.
LABELS = (
    Plan(1.0, 1000.0, (0.5, 0.5, 0.5, 0.3, 0.3, 0.2, 0.2, 0.1, 0.1, 0.05), 2, True),
    Plan(0.3, 1000.0, (0.5, 0.3, 0.2, 0.1, 0.05), 1, True),
)
# Rounds of a plan and the trial of the other, over which the climber's iterations are shared out.
ROUNDS = 10
# A round that gains less than this share of `tol` per iteration is the last: most of what a round
# gains is lost again in the repair.
FINISHED = 0.1

# The repair measures labels at this temperature: the slope of hard rates is that of nearly hard.
REPAIR_TEMPERATURE = 0.1
REPAIR_STEPS = 12
LAST_REPAIR_STEPS = 60
# A step of the repair may cost this much log-likelihood per row, to second order.
REPAIR_LOSS = 0.02
# It aims below the bound by this share, so that curvature does not leave it just above, and gives
# way by this share of what a step still missed.
AIM = 0.9
GIVE_WAY = 0.1
# Directions of J weaker than this, relative to the strongest, are left alone.
WEAKEST = 1e-4
# Random directions that estimate the curvature, and the smallest share of its mean that counts.
# The estimate is that of Bekas, Kokiopoulou and Saad (2007), and a rough one: it is only a scale.
PROBES = 32
FLATTEST = 1e-3
# Half the distance of its central differences, whose error is of its square.
PROBE_WIDTH = 1e-4
# The search for labels: temperatures of its slopes, one after the other, and random aims for each.
# Components that overlap need cooler slopes, because their logits hardly differ.
SEARCH_TEMPERATURES = (0.3, 0.1, 0.03, 0.01, 0.003)
SEARCH_AIMS = 40
LAST_SEARCHES = 4
# Responsibilities are not asked for less: merged components alone have a gap of exactly zero.
FINEST = 1e-6


@dataclass(frozen=True, eq=False)
class Measured:
    """Parameters and what a pass says of the rates that count."""

    theta: FloatArray
    logits: Logits
    rates: FloatArray
    gap: float
    filled: int


class Candidate(NamedTuple):
    """Measured parameters in the order of preference."""

    met: bool
    filled: int
    log_likelihood: float
    measured: Measured

    @property
    def rank(self) -> tuple[bool, float, float]:
        """The better candidate has the higher one."""
        if not self.met:
            return False, -self.measured.gap, 0.0
        return True, self.filled, self.log_likelihood


class SteadyWeights(Mixture):
    """A mixture whose weights no gradient moves."""

    def pullback(self, theta: FloatArray, grad: Logits) -> FloatArray:
        """Gradient with respect to theta, zero for the weights."""
        out = super().pullback(theta, grad)
        out[: self.n_components] = 0.0
        return out


@dataclass(frozen=True)
class Constrained(ClimbOnly):
    """Augmented Lagrangian for a bound.

    Parameters
    ----------
    climber : Solver
        Climbs an objective with a penalty, as the paper's solvers do. Its ``max_iter`` is shared
        out over the rounds of a plan; a second plan has its own.
    criterion : Criterion
        Measures the rates.
    bound : float
        What the criterion must not exceed.
    labels : bool
        Whether the bound is on the hard labels or on the responsibilities.
    """

    climber: Solver
    criterion: Criterion
    bound: float
    labels: bool = True

    # Rounds are as many as the bound takes.
    open_ended: ClassVar[bool] = True

    @property
    def max_iter(self) -> int:
        """Iterations of the climber in all rounds, unless a second plan is needed."""
        return self.climber.max_iter

    @property
    def tol(self) -> float:
        """That of the climber."""
        return self.climber.tol

    def limited(self, max_iter: int, *, settle: bool = True) -> Constrained:
        """The same with a climber of other ``max_iter``."""
        return replace(self, climber=self.climber.limited(max_iter, settle=settle))

    def climb(
        self, objective: Objective, start: Beginning, callback: Callback | None = None
    ) -> Solution:
        """Climb on an objective without a penalty. The solution has no tilt."""
        history: list[Iteration] = []
        plans = LABELS if self.labels else PROBABILITIES
        climbs: Iterable[Climb] = (
            Climb(self, plan, objective, start, history, callback) for plan in plans
        )
        if not self.labels:
            climbs = list(climbs)
            for climb in climbs:
                climb.run(TRIAL_ROUNDS)
            climbs.sort(key=lambda climb: climb.found.rank, reverse=True)
        chosen: Climb | None = None
        for climb in climbs:
            climb.run(ROUNDS)
            if chosen is None or climb.found.rank > chosen.found.rank:
                chosen = climb
            if chosen.complete:
                break
        assert chosen is not None
        best = chosen.found
        if not best.met:
            best = chosen.judge(
                chosen.repair.search(best.measured.theta, LAST_REPAIR_STEPS, LAST_SEARCHES)
            )
        return Solution(
            theta=best.measured.theta,
            objective=best.log_likelihood,
            status=chosen.status if best.met else Status.BOUND_MISSED,
            history=history,
            gap=best.measured.gap,
            met=best.met,
            filled=best.filled,
        )


class Climb:
    """Rounds of a solver's climber on one plan, and the best point so far."""

    def __init__(
        self,
        solver: Constrained,
        plan: Plan,
        objective: Objective,
        start: Beginning,
        history: list[Iteration],
        callback: Callback | None,
    ) -> None:
        criterion, bound = solver.criterion, solver.bound
        bound = bound if solver.labels else max(bound, FINEST)
        if plan.equal_weights:
            objective = replace(objective, mixture=SteadyWeights(objective.mixture.family))
        self.plan, self.objective, self.bound, self.tol = plan, objective, bound, solver.climber.tol
        self.history, self.callback = history, callback
        steps = max(1, solver.climber.max_iter // ROUNDS)
        # Rounds never settle on their own: the multipliers move between them.
        self.climber = solver.climber.limited(steps, settle=False)
        self.repair = Repair(objective, criterion, bound, solver.labels)
        dual = Dual(criterion, Bound(criterion, bound), labels=False, temperature=plan.start)
        self.theta = dual.climb(objective, start).theta
        shape = (len(objective.table.group_sizes), objective.mixture.n_components)
        self.penalty = Bounded(criterion, bound, plan.rho, np.zeros(shape))
        self.best: Candidate | None = None
        self.rounds = 0
        self.status = Status.MAX_ITER

    @property
    def found(self) -> Candidate:
        """The best point so far; before the first round, the start."""
        return self.judge(self.repair(self.theta, 0)) if self.best is None else self.best

    @property
    def complete(self) -> bool:
        """Whether the best point meets the bound and has no empty cluster."""
        return self.found.met and self.found.filled == self.objective.mixture.n_components

    def run(self, until: int) -> None:
        """Climb until so many rounds are done, or the plan ends, or nothing more is gained."""
        for tau in self.plan.temperatures[self.rounds : until]:
            if self.status is Status.CONVERGED:
                return
            before = self.best
            self._round(tau)
            if self._finished(before):
                self.status = Status.CONVERGED

    def _round(self, tau: float) -> None:
        penalised = replace(self.objective, penalty=self.penalty, temperature=tau)
        climbed = self.climber.climb(penalised, Beginning(self.theta), self.callback)
        self.history += later(climbed.history, self.history)
        self.penalty = self.penalty.updated(penalised.evaluate(climbed.theta).rates)
        self.rounds += 1
        searching = self.plan.at_least is not None and self.rounds >= self.plan.at_least
        repair = self.repair.search if searching else self.repair
        new = self.judge(repair(climbed.theta, REPAIR_STEPS))
        self.theta = new.measured.theta if new.met else climbed.theta
        if self.best is None or new.rank > self.best.rank:
            self.best = new

    def judge(self, here: Measured) -> Candidate:
        """With the log-likelihood."""
        totals = self.objective.table.softmax_pass(Sweep(here.logits, alpha=0.0))
        log_likelihood = totals.log_likelihood / totals.weight
        return Candidate(here.gap <= self.bound, here.filled, log_likelihood, here)

    def _finished(self, before: Candidate | None) -> bool:
        """Whether the last round leaves nothing to gain."""
        best = self.found
        if not best.met:
            return False
        if self.plan.at_least is not None:
            return self.complete and self.rounds >= self.plan.at_least
        if before is None or not before.met or best.filled > before.filled:
            return False
        least = FINISHED * self.tol * self.climber.max_iter
        return best.log_likelihood - before.log_likelihood < least


@dataclass(frozen=True)
class Repair:
    """Gauss-Newton steps on the rates towards the bound."""

    objective: Objective
    criterion: Criterion
    bound: float
    labels: bool

    def __call__(self, theta: FloatArray, steps: int) -> Measured:
        """The first parameters within the bound, else those that come closest."""
        here = self._measure(theta)
        if here.gap <= self.bound:
            return here
        spread = 1 / np.sqrt(self._curvature(here))
        aim, length = AIM * self.bound, 1.0
        move = self._move(here, aim, spread)
        for _ in range(steps):
            new = self._moved(here, length * move)
            aim = max(0.0, aim - GIVE_WAY * max(new.gap - self.bound, 0.0))
            kept = new.filled >= here.filled
            if kept and new.gap <= self.bound:
                return new
            if kept and new.gap < here.gap:
                here, length = new, min(1.0, 2 * length)
                move = self._move(here, aim, spread)
            else:
                length /= 2
        return here

    def search(self, theta: FloatArray, steps: int, times: int = 1) -> Measured:
        """Steps and then, for labels that are still short of the bound, random ones."""
        here = self(theta, steps)
        if not self.labels:
            return here
        rng = np.random.default_rng(0)
        for temperature in times * SEARCH_TEMPERATURES:
            if here.gap <= self.bound:
                break
            here = self._scatter(here, temperature, rng)
        return here

    def _scatter(self, here: Measured, temperature: float, rng: np.random.Generator) -> Measured:
        """The best parameters after a step to random rates towards the bound, or around."""
        spread = 1 / np.sqrt(self._curvature(here))
        slopes = self._jacobian(here, temperature) * spread
        inverse = np.linalg.pinv(slopes, rcond=WEAKEST)
        missing = self.criterion.project(here.rates, 0.5 * self.bound) - here.rates
        one_row = 1 / float(self.objective.table.group_sizes.max())
        best = here
        for _ in range(SEARCH_AIMS):
            width = one_row * max(here.gap / one_row, 1.0) ** rng.random()
            aim = 2 * rng.random() * missing + rng.normal(scale=width, size=missing.shape)
            new = self._moved(here, spread * _short(inverse @ aim.ravel()))
            if new.filled >= best.filled and new.gap < best.gap:
                best = new
        return best

    def _moved(self, here: Measured, move: FloatArray) -> Measured:
        return self._measure(self.objective.mixture.clip(here.theta + move))

    def _measure(self, theta: FloatArray) -> Measured:
        logits = self.objective.mixture.logits(theta)
        totals = self.objective.table.softmax_pass(
            Sweep(logits, alpha=0.0, likelihood=False, hard=True)
        )
        soft, hard = totals.mass, totals.hard_mass
        rates = (hard if self.labels else soft) / self.objective.table.group_sizes[:, None]
        filled = int((hard.sum(axis=0) > 0).sum())
        return Measured(theta, logits, rates, self.criterion.value(rates), filled)

    def _move(self, here: Measured, aim: float, spread: FloatArray) -> FloatArray:
        """The step that should bring the rates to ``aim``."""
        missing = (self.criterion.project(here.rates, aim) - here.rates).ravel()
        temperature = REPAIR_TEMPERATURE if self.labels else 1.0
        jacobian = self._jacobian(here, temperature) * spread
        u = np.linalg.lstsq(jacobian, missing, rcond=WEAKEST)[0]
        return np.asarray(spread * _short(u))

    def _jacobian(self, here: Measured, temperature: float = 1.0) -> FloatArray:
        """Derivative of the rates of softmax(logits / temperature) in theta, (M K, P)."""
        sizes = self.objective.table.group_sizes
        rows = []
        for g, k in np.ndindex(*here.rates.shape):
            pull = np.zeros(here.rates.shape)
            pull[g, k] = 1 / sizes[g]
            totals = self.objective.table.softmax_pass(
                Sweep(here.logits, alpha=0.0, pull=pull, temperature=temperature, likelihood=False)
            )
            rows.append(self.objective.mixture.pullback(here.theta, totals.sums))
        return np.array(rows)

    def _curvature(self, here: Measured) -> FloatArray:
        """Minus the second derivatives of EM's surrogate, by random differences, in one pass."""
        objective, rng, width = self.objective, np.random.default_rng(0), PROBE_WIDTH
        sums = objective.expect(here.theta, here.logits)[0].sums
        diagonal = np.zeros(len(here.theta))
        for _ in range(PROBES):
            probe = rng.choice([-1.0, 1.0], size=len(diagonal))
            ahead = objective.mixture.pullback(here.theta + width * probe, sums)
            behind = objective.mixture.pullback(here.theta - width * probe, sums)
            diagonal -= probe * (ahead - behind) / (2 * width * PROBES)
        diagonal = np.abs(diagonal)
        return np.asarray(np.maximum(diagonal, FLATTEST * diagonal.mean()))


def _short(u: FloatArray) -> FloatArray:
    """A step in units of the curvature, cut to what the repair may cost."""
    longest = np.sqrt(2 * REPAIR_LOSS)
    return np.asarray(u * min(1.0, longest / max(np.linalg.norm(u), 1e-300)))
