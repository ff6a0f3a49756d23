"""Online learning: solvers on batches of rows that never come back.

What went by is remembered in two ways.

1. *Sums.* The likelihood of past rows enters EM through s, the mean of ``q_ik`` and ``q_ik T(x_i)``
   alone. `Running` puts the s of the past and the rows of a batch side by side, as one table::

       s <- (1 - eta) s + eta s_batch,    eta = (weight of the batch / weight so far)^kappa

   which is stepwise EM (Cappé and Moulines 2009): eta = t^-kappa for the t-th of equal batches.
2. *A sample.* Rates need rows, because the tilt and the components move. `Reservoir` keeps a
   uniform sample of each group.

So a solver that knows nothing of streams climbs ``Objective(mixture, running, fair_table=sample)``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from fairmix.criteria import Criterion, smallest_ratio
from fairmix.kernels import Sweep
from fairmix.kernels.totals import Block, FloatArray, IntArray, Logits, Rows, Totals
from fairmix.mixture.mixture import Mixture
from fairmix.solvers._base import Beginning, Callback, Iteration, Solution, Solver, Status, Task
from fairmix.solvers.dual import CLOSE, Dual, Goal
from fairmix.solvers.objective import Objective, Penalty
from fairmix.solvers.tilt import Tilt
from fairmix.tables import MemoryStore, OneBatch, Result, Table
from fairmix.tables.store import allocate, concatenate_rows

# Forgetting, between 0.5 and 1, where stepwise EM converges. One keeps all rows alike, whatever
# parameters they were seen with; one half forgets fastest, and follows the noise of each batch.
KAPPA = 0.8
# M-steps of the dual solver at each batch, and Newton steps of the tilt before each: at most, for
# the tilt of the batch before is a good start.
M_STEPS = 2
TILT_STEPS = 6


@dataclass(eq=False)
class Reservoir:
    """A uniform sample without replacement of each group of a stream.

    Every row draws a key; a group keeps the rows with the smallest keys. Groups have their share
    of the sample, and a few rows in any case; weights make up for the difference.

    Parameters
    ----------
    size : int
        Rows, about.
    n_groups : int
        M.
    rng : Generator
        Draws the keys.
    """

    size: int
    n_groups: int
    rng: np.random.Generator
    rows: Rows | None = None
    groups: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    weight: FloatArray = field(default_factory=lambda: np.zeros(0))
    keys: FloatArray = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        self.counts = np.zeros(self.n_groups, dtype=np.int64)
        # A row that comes now is kept if its key is below that of every row dropped before.
        self.limits = np.ones(self.n_groups)
        self.seen_weight = 0.0

    def add(self, batch: MemoryStore) -> None:
        """Let the rows of a batch in, and others out."""
        keys = self.rng.random(batch.n_rows)
        self.counts += np.bincount(batch.groups, minlength=self.n_groups)
        weight = np.ones(batch.n_rows) if batch.weight is None else batch.weight
        self.seen_weight += float(weight.sum())
        old = [] if self.rows is None else [self.rows]
        self.rows = concatenate_rows([*old, batch.rows])
        self.groups = np.concatenate([self.groups, batch.groups])
        self.weight = np.concatenate([self.weight, weight])
        self.keys = np.concatenate([self.keys, keys])
        self._drop()

    def _drop(self) -> None:
        wanted = allocate(self.counts, self.size)
        for group, count in enumerate(wanted):
            keys = self.keys[self.groups == group]
            keys = keys[keys < self.limits[group]]
            if len(keys) > count:
                self.limits[group] = np.partition(keys, count)[count]
        kept = np.flatnonzero(self.keys < self.limits[self.groups])
        assert self.rows is not None
        self.rows, self.groups = self.rows.take(kept), self.groups[kept]
        self.weight, self.keys = self.weight[kept], self.keys[kept]

    @property
    def n_seen(self) -> int:
        """Rows of the stream so far."""
        return int(self.counts.sum())

    def store(self, n_jobs: int = 1) -> MemoryStore:
        """The sample, in the order in which it came."""
        assert self.rows is not None
        kept = np.bincount(self.groups, minlength=self.n_groups)
        scale = (self.counts / self.counts.sum()) / (kept / kept.sum())
        weight = self.weight * scale[self.groups]
        return MemoryStore(
            self.rows,
            groups=self.groups,
            n_groups=self.n_groups,
            weight=None if (weight == 1).all() else weight,
            n_jobs=n_jobs,
        )


class Running(OneBatch):
    """The rows of a batch and the sums of all rows before it, as a table.

    Its log-likelihood is that of the batch plus EM's lower bound for the past, up to a constant.

    Parameters
    ----------
    batch : Table
        The rows that are here.
    past : Logits
        s, mean sums of the E-steps of the rows before.
    step : float
        eta, the share of the batch.
    """

    def __init__(self, batch: Table, past: Logits, step: float) -> None:
        self.batch = batch
        self.n_rows = batch.n_rows
        self.group_sizes: FloatArray = batch.group_sizes / step
        self.weight_sum = batch.weight_sum / step
        self.rate_steps: FloatArray = batch.rate_steps * step
        self.membership = batch.membership
        self._past = past * ((1 - step) * self.weight_sum)
        self._step = step

    @property
    def passes(self) -> float:
        """Passes over the batch so far."""
        return self.batch.passes

    def softmax_pass(self, sweep: Sweep) -> Totals:
        """Totals of the batch, with the past added to sums and log-likelihood."""
        totals = self.batch.softmax_pass(sweep)
        return replace(
            totals,
            weight=totals.weight / self._step,
            log_likelihood=totals.log_likelihood + self._past.dot(sweep.logits),
            sums=totals.sums + self._past * sweep.alpha,
        )

    def each(self, work: Callable[[Block], Result]) -> Iterator[Result]:
        """What ``work`` makes of every block of the batch."""
        return self.batch.each(work)


@dataclass(frozen=True)
class StepwiseDual(Dual):
    """The dual solver at a batch of a stream: ``max_iter`` M-steps, whatever they gain."""

    @classmethod
    def of(cls, task: Task) -> Self:
        """For a task with groups to compare."""
        return super().of(task).limited(M_STEPS)

    def climb(
        self, objective: Objective, start: Beginning, callback: Callback | None = None
    ) -> Solution:
        """M-steps, the tilt solved for before each and at the end; none is just the tilt."""
        mixture = objective.mixture
        tilt = self._tilt(objective.fair, start.multipliers, mixture)
        theta = self._levelled(mixture, start.theta)
        for step in range(self.max_iter + 1):
            logits = mixture.logits(theta)
            tilt = self.solved(tilt, logits, self.temperature, Goal(CLOSE, TILT_STEPS))
            if step < self.max_iter:
                totals = objective.table.softmax_pass(tilt.e_step(logits, self.temperature))
                theta = self._levelled(mixture, mixture.maximize(totals.sums))
        return Solution(
            theta,
            np.nan,
            Status.CONVERGED,
            (),
            multipliers=tilt.multipliers,
            temperature=self.temperature,
        )


@dataclass(frozen=True, eq=False)
class OnlineState:
    """What a stream goes on from.

    Attributes
    ----------
    start : Beginning
        Parameters, and the multipliers of a tilt, that the next E-step starts from.
    sums : Logits
        s, mean sums of the E-steps so far.
    weight : float
        Of all rows so far.
    """

    start: Beginning
    sums: Logits
    weight: float


@dataclass(frozen=True)
class Online:
    """Takes a solver along a stream.

    Parameters
    ----------
    solver : Solver
        Climbs a few steps at each batch.
    penalty : Penalty or None
        What a solver without a tilt subtracts from the likelihood.
    """

    solver: Solver
    penalty: Penalty | None = None

    def begin(
        self, mixture: Mixture, sample: Table, weight: float, start: Beginning
    ) -> OnlineState:
        """From a fit of the sample, which stands for rows of some weight."""
        objective = Objective(mixture, sample, self.penalty)
        # No step: the parameters are those of the fit, the tilt is that of the climbs to come.
        still = self.solver.limited(0).climb(objective, start)
        return _state(objective, still, weight)

    def advance(
        self, mixture: Mixture, sample: Table, batch: Table, state: OnlineState
    ) -> tuple[OnlineState, Solution]:
        """Where a batch leads, and the solution to assign rows by.

        The sample knows of the batch already.
        """
        weight = state.weight + batch.weight_sum
        share = 1 - state.weight / weight
        running = Running(batch, state.sums, share**KAPPA)
        objective = Objective(mixture, running, self.penalty, fair_table=sample)
        rough = self.solver.climb(objective, state.start)
        solution = self.solver.finish(mixture, rough, sample, sample)
        if solution.offsets is None:
            # The climb saw the past through sums; what counts is the value on the sample.
            value = Objective(mixture, sample, self.penalty).evaluate(solution.theta).value
            solution = replace(solution, objective=value)
        # Steps that were not enough go on with the stream.
        solution = replace(solution, status=Status.CONVERGED, history=())
        return _state(objective, rough, weight), solution


def _state(objective: Objective, rough: Solution, weight: float) -> OnlineState:
    """After a climb, with the sums of one more E-step."""
    logits, table = objective.mixture.logits(rough.theta), objective.table
    if rough.multipliers is None:
        totals = table.softmax_pass(Sweep(logits))
    else:
        tilt = Tilt.of(objective.fair, len(logits.b), rough.multipliers)
        totals = table.softmax_pass(tilt.e_step(logits, rough.temperature))
    return OnlineState(Beginning.at(rough), totals.sums * (1 / totals.weight), weight)


def look(
    logits: Logits,
    sample: Table,
    objective: float,
    criterion: Criterion,
    offsets: FloatArray | None,
    temperature: float,
) -> Iteration:
    """A row of the history: how a map does on the sample, in no time and no pass of a whole."""
    totals = sample.softmax_pass(Sweep(logits, offsets=offsets, temperature=temperature, alpha=0.0))
    return Iteration(
        objective=objective,
        log_likelihood=totals.log_likelihood / totals.weight,
        gap=criterion.value(totals.mass / sample.group_sizes[:, None]),
        balance=smallest_ratio(totals.mass),
        seconds=0.0,
        passes=np.nan,
    )
