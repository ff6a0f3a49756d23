"""Streams: learning from batches of rows that never come back."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
from scipy.optimize import linear_sum_assignment

from fairmix.fitting.learn import describe, history_of, warn_of
from fairmix.fitting.schedule import SCHEDULE, make_propensity, solve
from fairmix.fitting.settings import Settings, make_online
from fairmix.input.columns import Columns
from fairmix.input.groups import Groups, Seats
from fairmix.kernels.totals import FloatArray, IntArray, Rows
from fairmix.mixture.mixture import Mixture
from fairmix.mixture.model import Model
from fairmix.mixture.propensity import Propensity
from fairmix.results.fitted import Fitted
from fairmix.solvers import Beginning, Iteration, Solution, Status
from fairmix.solvers.online import Online, OnlineState, Reservoir, look
from fairmix.system.threads import one_blas_thread
from fairmix.tables import MemoryStore, Summary, Table

# The sample is fitted anew when the rows so far are this many times those of the last fit: a start
# from few rows is not the last word. And sooner, when its log-likelihood per row has fallen by so
# much since: a sorted stream brings rows of another kind.
# Doubling makes the number of fits grow with the logarithm of the rows. Also a surprise waits for a
# tenth more of them, or the noise of batches could make every call a fit.
GROWTH = 2.0
SURPRISING_GROWTH = 1.1
SURPRISE = 0.1


@dataclass(eq=False)
class Stream:
    """A stream so far: what is left of its rows, and where its solver has come to.

    The reservoir holds rows, so a pickled estimator does, too.

    Attributes
    ----------
    fitted : Fitted
        The model of all rows so far.
    group_names : tuple of str
        All groups, also those that are too small to be judged so far.
    reservoir : Reservoir
        A sample of the rows.
    rng : Generator
        Draws the sample, and seeds of its fits.
    parameters : dict of str to str
        Those that must not change on the way.
    """

    fitted: Fitted
    group_names: tuple[str, ...]
    propensity: Propensity | None
    aware: bool
    min_group_size: int
    reservoir: Reservoir
    rng: np.random.Generator
    parameters: dict[str, str]
    state: OnlineState | None = None
    # Rows so far, and the call, when the sample was last fitted.
    fitted_rows: int = 0
    fitted_call: int = 0
    # The groups that were judged then.
    fitted_groups: tuple[str, ...] = ()
    history: list[Iteration] = field(default_factory=list)
    in_memory = False  # labels are not kept: the rows are gone
    # Nor is there a table in which to look for equal rows.
    splits_ties = False

    @classmethod
    def begin(
        cls,
        settings: Settings,
        fitted: Fitted,
        rows: Rows,
        groups: Groups | None,
        weight: FloatArray | None,
        seed: int,
        parameters: dict[str, str],
    ) -> Self:
        """From the fit of a first batch: columns, scale and a start come from there.

        ``groups`` are all of them, also those that are not judged.
        """
        n_groups = 1 if groups is None else len(groups.names)
        codes = None if groups is None else groups.codes.astype(np.intp)
        store = counted_rows(rows, codes, weight, n_groups, 1)
        rng = np.random.default_rng(seed)
        size = int(settings.fairness_sample_size or SCHEDULE.fairness_rows)
        stream = cls(
            fitted,
            () if groups is None else groups.names,
            fitted.model.propensity,
            settings.assignment == "aware",
            settings.min_group_size,
            Reservoir(size, store.n_groups, rng),
            rng,
            parameters,
        )
        stream.reservoir.add(store)
        with one_blas_thread():
            stream._settle(settings, stream._sample(1), Beginning(fitted.model.theta))
        return stream

    # ------------------------------------------------------------------ the sample, as `Data`
    @property
    def columns(self) -> Columns:
        """Kinds of the columns, and their scale."""
        return self.fitted.model.columns

    @property
    def mixture(self) -> Mixture:
        """The mixture, whose parameters move."""
        return self.fitted.model.mixture

    @property
    def set_aside(self) -> tuple[str, ...]:
        """Columns that are not features."""
        return self.fitted.set_aside

    @property
    def groups(self) -> Groups | None:
        """The groups, judged by their rows so far; codes are those of the reservoir."""
        return self._judged(self.reservoir.groups) if self.group_names else None

    def store(self, columns: Columns, summary: Summary | None = None) -> MemoryStore:
        """The rows of the reservoir."""
        return self._seated(self.reservoir.store())

    def everybody(self, columns: Columns) -> None:
        """The store has all rows that are left."""

    def _judged(self, codes: IntArray) -> Groups:
        # By all rows so far, not by those of the sample, of which a small group has more than its
        # share.
        groups = Groups(codes.astype(np.intp), self.group_names, self.reservoir.counts, "")
        return groups.judged(self.min_group_size)

    def _seated(self, store: MemoryStore) -> MemoryStore:
        """The same rows in the groups that are judged now."""
        if not self.group_names:
            return store
        # The reservoir numbers all groups, so that one that grows can be judged later.
        groups = self._judged(store.groups)
        seats = Seats.of(groups)
        return MemoryStore(
            store.rows,
            groups=seats.codes(groups.codes),
            n_groups=seats.n_groups,
            aside=seats.aside,
            weight=store.weight,
            n_jobs=store.n_jobs,
        )

    def _table(self, store: MemoryStore) -> Table:
        """Rows as solvers see them."""
        encode = self.mixture.family.encode
        return Table(store, encode, propensity=self.propensity, aware=self.aware)

    def _sample(self, n_jobs: int) -> Table:
        return self._table(self._seated(self.reservoir.store(n_jobs)))

    def _seed(self) -> int:
        return int(self.rng.integers(2**31 - 1))

    # ------------------------------------------------------------------------------ learning
    def add(self, batch: MemoryStore, min_group_size: int) -> Groups | None:
        """Let the rows of a batch into the sample; the groups that are judged now."""
        self.reservoir.add(batch)
        self.min_group_size = min_group_size
        return self.groups

    def advance(self, settings: Settings, batch: MemoryStore) -> None:
        """Learn from a batch that the sample knows of already."""
        with one_blas_thread():
            sample = self._sample(batch.n_jobs)
            if self._outgrown(settings, sample):
                solution = self._fit_sample(settings, batch.n_jobs)
            else:
                assert self.state is not None
                self.state, solution = self._online(settings, sample).advance(
                    self.mixture, sample, self._table(self._seated(batch)), self.state
                )
            model = self._model_of(solution)
            table = model.table(sample.store)
            self.fitted = describe(settings, self, model, solution, table)
        warn_of(settings, self.fitted, solution.status, table)

    def record(self, settings: Settings, started: float, n_jobs: int) -> Fitted:
        """What the stream has found, after a call that started at some time."""
        with one_blas_thread():
            row = self._look(settings, self._sample(n_jobs))
        before = self.history[-1] if self.history else None
        passed = time.perf_counter() - started + (before.seconds if before else 0.0)
        self.history.append(row._replace(seconds=passed))
        close = before is not None and abs(row.objective - before.objective) < settings.tol
        self.fitted = replace(
            self.fitted,
            history=history_of(self.history, self.fitted.groups),
            converged=close,
            n_passes=None,
            labels=None,
            streamed=True,
        )
        return self.fitted

    def _outgrown(self, settings: Settings, sample: Table) -> bool:
        """Whether the sample says so much more than at its last fit that it needs another."""
        if self.groups is not None and self.groups.names != self.fitted_groups:
            return True  # others are judged now
        growth = self.reservoir.n_seen / self.fitted_rows
        if growth < SURPRISING_GROWTH:
            return False
        expected = self.history[self.fitted_call].log_likelihood
        return growth >= GROWTH or self._look(settings, sample).log_likelihood < expected - SURPRISE

    def _model_of(self, solution: Solution) -> Model:
        # Without a tilt the propensity was only for the start.
        propensity = None if solution.offsets is None else self.propensity
        return Model(
            self.columns,
            self.mixture,
            solution.theta,
            solution.offsets,
            propensity,
            solution.temperature,
            self.aware and solution.offsets is not None,
        )

    def _online(self, settings: Settings, sample: Table) -> Online:
        """The solver, for a few steps at a batch."""
        return make_online(whole_sample(settings), self.mixture, sample)

    def _settle(self, settings: Settings, sample: Table, start: Beginning) -> None:
        """Go on from the fit of a sample."""
        self.fitted_rows, self.fitted_call = self.reservoir.n_seen, len(self.history)
        self.fitted_groups = () if self.groups is None else self.groups.names
        self.state = self._online(settings, sample).begin(
            self.mixture, sample, self.reservoir.seen_weight, start
        )

    def _fit_sample(self, given: Settings, n_jobs: int) -> Solution:
        """Fit the sample, from where the stream has come to and from new starts."""
        settings = whole_sample(given)
        store = self._seated(self.reservoir.store(n_jobs))
        # Anew, because rows and perhaps the judged groups are others than at the last fit.
        self.propensity = make_propensity(settings, store, self._seed())
        sample, seed = self._table(store), self._seed()
        assert self.state is not None
        here = solve(settings, self.mixture, sample, seed, self.state.start.theta)
        new = solve(settings, self.mixture, sample, seed)

        # The gain counts for the objective alone: a bound that is met comes before any of it.
        # A new solution that is no better would only change what the clusters are.
        bar = replace(here, objective=here.objective + settings.tol)
        solution = new if new.rank > bar.rank else here
        solution = self._numbered(solution, store)
        self._settle(settings, sample, Beginning.at(solution))
        # Iterations that were not enough go on with the stream.
        return replace(solution, status=Status.CONVERGED)

    def _numbered(self, solution: Solution, store: MemoryStore) -> Solution:
        """Clusters with the numbers of those before that share most rows with them."""
        same = self.groups is None or self.groups.names == self.fitted_groups
        before, after = (
            # An aware map cannot place rows where it was made for other groups; its mixture can.
            model.labels(store.rows, store.groups)
            if same or not model.aware
            else model.posterior(store.rows).argmax(axis=1)
            for model in (self.fitted.model, self._model_of(solution))
        )
        shared = np.zeros((self.mixture.n_components,) * 2)
        np.add.at(shared, (before, after), 1.0)
        # All clusters at once: one by one, two of them could claim the same number.
        order: IntArray = linear_sum_assignment(shared, maximize=True)[1]
        multipliers, offsets = (
            None if part is None else part[:, order]
            for part in (solution.multipliers, solution.offsets)
        )
        theta = self.mixture.reorder(solution.theta, order)
        return replace(solution, theta=theta, multipliers=multipliers, offsets=offsets)

    def _look(self, settings: Settings, sample: Table) -> Iteration:
        """How the model does on the sample."""
        model = self.fitted.model
        return look(
            model.mixture.logits(model.theta),
            sample,
            self.fitted.lower_bound,
            settings.measure,
            model.offsets,
            model.temperature,
        )


def whole_sample(settings: Settings) -> Settings:
    """Settings for the sample of a stream, which is all that there is."""
    return replace(settings, fairness_sample_size=None)


def counted_rows(
    rows: Rows, groups: IntArray | None, weight: FloatArray | None, n_groups: int, n_jobs: int
) -> MemoryStore:
    """The rows of a batch that have a positive weight."""
    if weight is not None:
        # As in `fit`: a row without weight must reach neither the sample nor the sizes of groups.
        counted = np.flatnonzero(weight)
        rows, weight = rows.take(counted), weight[counted]
        groups = None if groups is None else groups[counted]
    return MemoryStore(rows, groups=groups, n_groups=n_groups, weight=weight, n_jobs=n_jobs)
