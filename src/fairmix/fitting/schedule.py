"""The schedule of a fit: which rows see which starts, and how many of them go on.

``solve`` is the way of most solvers: the rows that are climbed, the starts, a climb from each, and
what is left to do for all rows. A solver that tilts the assignment has more optima, so it takes
another (`Approach`): a search on few rows, and then more rows with ever fewer ends. How many rows
and starts each step takes is `Schedule`, and how a start is searched for `Search`; which way a
solver takes, it says itself (`Solver.screens`, `Solver.samples_first`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple, Self

import numpy as np

from fairmix.fitting.search import Search, Walk, few_rows, height
from fairmix.fitting.settings import Settings, make_penalty, make_task
from fairmix.fitting.starts import KMEANS_RUNS, START_ROWS, Level, start
from fairmix.input.groups import Seats
from fairmix.kernels.totals import FloatArray
from fairmix.mixture.mixture import Mixture
from fairmix.mixture.propensity import Propensity, fit_propensity
from fairmix.solvers import SOLVERS, Beginning, Callback, Iteration, Recipe, Solution, Solver, Task
from fairmix.solvers.objective import Objective
from fairmix.solvers.recorder import later
from fairmix.system.progress import progress
from fairmix.tables import Batches, Condensed, Rowlike, Store, Table, count_batches, count_rows

# Entered for a climb with the most iterations, if that is known; gets each iteration.
Watch = Callable[[int | None], AbstractContextManager[Callback | None]]


def unwatched(most: int | None) -> AbstractContextManager[Callback | None]:
    """Nobody looks on."""
    return nullcontext()


@dataclass(frozen=True)
class Schedule:
    """Rows, starts and iterations of the steps of a fit.

    Attributes
    ----------
    search : Search
        The search for a start under a bound.
    sample_rows, sample_starts : int
        Rows and starts of the short climbs of a plain mixture of many rows.
    near_rows : int
        Rows on which most of a climb and of the cooling down is done, where there are more than
        twice as many.
    near_patience : int
        Patience of these climbs: few rows allow more of it.
    wide_rows, last_iterations : int, int
        Where there are more than twice as many rows, the last climb is one of so many, and of all
        rows come so many iterations, of which the last only looks.
    start_rows : int
        Rows that k-means sees, at most.
    propensity_rows : int
        Rows that P(group | x) is fitted to, at most.
    fairness_rows : int
        Rows of a fairness sample whose size the user leaves open, at most.
    """

    search: Search = field(default_factory=Search)
    # One block (decision record 0005).
    sample_rows: int = 16_384
    sample_starts: int = 6
    # Three blocks. Records 0015 and 0034 have times and costs of fits with and without them.
    near_rows: int = 49_152
    near_patience: int = 15
    # Six blocks (decision record 0036).
    wide_rows: int = 98_304
    last_iterations: int = 5
    # These bound the time of k-means and of the regression, whatever the number of rows.
    start_rows: int = START_ROWS
    propensity_rows: int = 50_000
    # Of so many rows, a rate of one half has a standard error of 0.002.
    fairness_rows: int = 50_000

    def is_large(self, table: Rowlike) -> bool:
        """Whether a table is worth approaching on fewer rows."""
        return table.n_rows > 2 * self.near_rows

    def is_huge(self, table: Rowlike) -> bool:
        """Whether each of many iterations on all rows of a table takes too long."""
        return table.n_rows > 2 * self.wide_rows


SCHEDULE = Schedule()


def make_propensity(
    settings: Settings, store: Store, seed: int, seats: Seats | None = None
) -> Propensity | None:
    """P(group | x), for a blind map that is tilted or starts from one that is.

    ``seats`` are those of the rows, if they are of several attributes.
    """
    membership = None if seats is None else seats.membership
    aside = store.aside if membership is None or seats is None else seats.aside
    strength = settings.strength(store.n_groups)
    # Where there is no tilt, a bound is met from a tilted start.
    tilted = SOLVERS[settings.solver].tilts or strength is None
    # An aware map needs it for rows of no group that is judged.
    known = settings.assignment == "aware" and not aside
    if strength == 0 or not tilted or known:
        return None
    sample = store.sample(SCHEDULE.propensity_rows, np.random.default_rng(seed))
    judged = np.flatnonzero(sample.groups < store.n_groups)
    if len(judged) < sample.n_rows:
        sample = sample.take(judged)
    weight, mean = sample.weight, float(store.group_sizes.sum() / store.group_counts.sum())
    if weight is not None and mean < 1 and not np.isclose(mean, 1):
        # Shares of a whole, not counts of rows, which the penalty of a regression is weighed by.
        weight = weight / mean
    return fit_propensity(
        sample.rows, sample.groups, store.n_groups, weight=weight, membership=membership
    )


def drawn(settings: Settings, mixture: Mixture, store: Store, seed: int) -> FloatArray:
    """The one start that a start of the user's leaves open in part."""
    rng = np.random.default_rng(seed)
    sample = store.sample(SCHEDULE.start_rows, rng)
    return start(mixture, sample.rows, how=settings.start, rng=rng, weight=sample.weight)


class Ground(NamedTuple):
    """What is climbed, and on which rows.

    ``starts`` are the rows that starts are found on, ``rates`` those whose rates count.
    """

    objective: Objective
    starts: Table
    rates: Table


def solve(
    settings: Settings,
    mixture: Mixture,
    table: Table,
    seed: int,
    warm: FloatArray | None = None,
    watch: Watch = unwatched,
) -> Solution:
    """The best solution of ``n_init`` starts, or the one from a warm start or the user's own.

    ``watch`` is entered for each of them, with the most iterations if that is known.
    """
    # All samples and starts come from one generator, in the order in which they are needed: another
    # order would change the result of a seed.
    fit = Fit(settings, SCHEDULE, np.random.default_rng(seed), watch)
    ground = fit.ground(mixture, table)
    task = make_task(settings, table, rates=ground.rates, n_batches=ground.objective.n_batches)
    recipe = SOLVERS[settings.solver]
    given = None if warm is None else Beginning(warm)
    solver = recipe.make(task)
    if solver.screens:
        return Approach.of(fit, recipe, task, ground, table).solution(given)
    objective = ground.objective
    starts = [given] if given else fit.starts(solver, objective, ground.starts)
    ends = [fit.climb(solver, objective, at) for at in starts]
    # Whether a bound is met on all rows may show only then.
    found = [solver.finish(mixture, end, near=table, table=table) for end in ends]
    return max(found, key=lambda end: end.rank)


@dataclass(frozen=True, eq=False)
class Fit:
    """The steps of `solve`, which share the choices of the user and one source of chance."""

    settings: Settings
    schedule: Schedule
    rng: np.random.Generator
    watch: Watch = unwatched

    def ground(self, mixture: Mixture, table: Table) -> Ground:
        """All rows, a sample of them, or mini-batches beside a fairness sample."""
        settings, n_rows = self.settings, table.n_rows
        penalty = make_penalty(settings, mixture.n_components, table.n_groups)
        whole = Objective(mixture, table, penalty=penalty)
        if settings.subsample is not None:
            table = table.sample(count_rows(settings.subsample, n_rows), self.rng)
            return Ground(replace(whole, table=table), table, table)
        if settings.batch_size is None and settings.fairness_sample_size is None:
            return Ground(whole, table, table)
        wanted = settings.fairness_sample_size
        wanted = self.schedule.fairness_rows if wanted is None else count_rows(wanted, n_rows)
        sample = table.sample(wanted, self.rng, replace=settings.fairness_sample_replace)
        if settings.batch_size is None:
            return Ground(replace(whole, fair_table=sample), table, sample)
        batches = Batches(table, count_batches(settings.batch_size, n_rows), self.rng)
        # A start needs its rows at hand, and batches leave them where they are.
        return Ground(replace(whole, table=batches, fair_table=sample), sample, sample)

    def start(
        self,
        mixture: Mixture,
        table: Table,
        *,
        runs: int = KMEANS_RUNS,
        level: Level | None = None,
        seen: int = START_ROWS,
    ) -> FloatArray:
        """Parameters to begin with, from the rows of a table."""
        store = table.store.sample(self.schedule.start_rows, self.rng)
        return start(
            mixture,
            store.rows,
            how=self.settings.start,
            rng=self.rng,
            weight=store.weight,
            runs=runs,
            level=level,
            seen=seen,
        )

    def starts(self, solver: Solver, objective: Objective, table: Table) -> Iterator[Beginning]:
        """Starts that go to their end, one after the other."""
        # Only plain mixtures of all rows begin on samples (decision record 0015).
        plain = objective.penalty is None and objective.table is table
        sampled = solver.samples_first and plain and self.schedule.is_large(table)
        for _ in range(self.settings.n_init):
            if sampled:
                yield self.sampled_start(solver, objective.mixture, table)
            else:
                yield Beginning(self.start(objective.mixture, table))

    def sampled_start(self, solver: Solver, mixture: Mixture, table: Table) -> Beginning:
        """Where samples of many rows lead: a small one finds the start, a larger one climbs."""
        near = table.sample(self.schedule.near_rows, self.rng)
        few = near.sample(self.schedule.sample_rows, self.rng)
        small = Objective(mixture, few)
        n_starts = self.schedule.sample_starts
        # One run of k-means for each start: the climbs, not its inertia, choose between them.
        starts = [Beginning(self.start(mixture, few, runs=1)) for _ in range(n_starts)]
        tried = [solver.climb(small, beginning) for beginning in starts]
        best = max(tried, key=lambda end: end.objective)
        return Beginning.at(solver.climb(Objective(mixture, near), Beginning.at(best)))

    def climb(
        self, solver: Solver, objective: Objective, at: Beginning, wide: Table | None = None
    ) -> Solution:
        """A climb that the user may watch; ``wide`` are rows that most of it is done on."""
        most = None if solver.open_ended else solver.max_iter
        last = self.schedule.last_iterations
        # Fresh, because batches remember the totals of the climb before.
        objective = objective.fresh()
        with self.watch(most) as told, self._shown(solver, objective, told) as callback:
            if wide is None or solver.max_iter <= last:
                return solver.climb(objective, at, callback)
            first = solver.limited(solver.max_iter - last)
            end = first.climb(replace(objective, table=wide), at, callback)
            then = solver.limited(last).climb(objective, Beginning.at(end), callback)
        return _continued(end, then)

    @contextmanager
    def _shown(
        self, solver: Solver, objective: Objective, seen: Callback | None
    ) -> Iterator[Callback]:
        """A callback that moves a progress bar, when the user wants one, and calls another."""
        settings, compared = self.settings, len(objective.fair.group_sizes) > 1
        shown = bool(settings.verbose)
        with progress(f"fit {settings.solver}", solver.max_iter, shown=shown) as tick:

            def callback(row: Iteration) -> None:
                gap = f"  gap {row.gap:.4f}" if compared else ""
                tick(f"objective {row.objective:.4f}{gap}")
                if seen is not None:
                    seen(row)

            yield callback


@dataclass(frozen=True, eq=False)
class Approach:
    """The way of a solver that tilts: from few rows to all, with ever fewer ends.

    Attributes
    ----------
    fit : Fit
        Settings, schedule and chance.
    recipe, task : Recipe, Task
        What solvers are made of.
    table : Table
        All rows: the rule is met on them.
    objective : Objective
        Of the rows of the last climb.
    near, seen : Table, Table
        All rows whose rates count or, where these are many, a sample that most of the work is done
        on; and the same as climbs see them, who need less precision than labels.
    plain : list of Beginning
        Starts of searches that have a tiny cluster.
    """

    fit: Fit
    recipe: Recipe
    task: Task
    table: Table
    objective: Objective
    near: Table
    seen: Table
    plain: list[Beginning] = field(default_factory=list)

    @classmethod
    def of(cls, fit: Fit, recipe: Recipe, task: Task, ground: Ground, table: Table) -> Self:
        """To all rows of a table."""
        objective, rates = ground.objective, ground.rates
        large = fit.schedule.is_large(rates)
        near = rates.sample(fit.schedule.near_rows, fit.rng) if large else rates
        single = objective.mixture.family.takes_single
        seen = near.sample(near.n_rows, fit.rng, single=True) if single else near
        if objective.table is near:
            objective = replace(objective, table=seen)
        return cls(fit, recipe, task, table, objective, near, seen)

    @property
    def mixture(self) -> Mixture:
        """That of all climbs."""
        return self.objective.mixture

    @property
    def schedule(self) -> Schedule:
        """That of the fit."""
        return self.fit.schedule

    @property
    def solver(self) -> Solver:
        """That of the last climbs, and of what is left to do after them."""
        solver = self.recipe.make(self.task)
        # Cold rates of few rows say less and less of those of all.
        return solver.closing() if self.objective.fair_table is None else solver

    def solution(self, warm: Beginning | None) -> Solution:
        """The best of several searches, or what a warm start leads to."""
        levels: list[Table] = []
        starts = [] if warm is None else [warm]
        if warm is None:
            few = few_rows(self.schedule.search, self.near, self.fit.rng, single=self._single)
            starts, levels = self.screened(self.searched(few)), [few]
        objective, wide = self.objective, None
        if self.schedule.is_large(objective.table):
            # Each climb on all rows takes long.
            ends = self.approached([*levels, self.seen], starts)
            starts = [Beginning.at(self.best_near(ends))]
            if objective.fair_table is None:
                # The rates of few rows are enough for the tilt; its last steps see all.
                objective = replace(objective, fair_table=self.seen)
            whole = objective.table
            # Iterations of mini-batches are short.
            if isinstance(whole, Table) and self.schedule.is_huge(whole):
                rows = self.schedule.wide_rows
                wide = whole.sample(rows, self.fit.rng, single=self._single)
        ends = [self.fit.climb(self.solver, objective, at, wide) for at in starts]
        if self._sampled:
            ends = [self.best_near(ends)]
        finish = partial(self.solver.finish, self.mixture, near=self.near, table=self.table)
        rough, best = best_labels(self.schedule.search, self.mixture.n_components, ends, finish)
        more = [*self._as_begun(objective, warm, ends[0]), *self._cooled(objective, rough, best)]
        return max([best, *map(finish, more)], key=lambda end: end.rank)

    @property
    def _single(self) -> bool:
        return self.mixture.family.takes_single

    @property
    def _sampled(self) -> bool:
        return self.near.n_rows < self.table.n_rows

    @property
    def _large(self) -> bool:
        return self.schedule.is_large(self.table)

    def searched(self, few: Table) -> list[list[Solution]]:
        """The ends of ``n_init`` searches on few rows, each of one or more walks."""
        search, small = self.schedule.search, Objective(self.mixture, few)
        # Points are few, and so are the rows of a small table.
        dear = self._large or few.n_rows > 2 * search.points
        walks = search.walks(aware=self.task.aware, dear=dear)
        # Each of the points counts: those of single rows are few, and far from the others.
        seen = few.n_rows if isinstance(few, Condensed) else search.start_rows

        def begin(level: Level) -> FloatArray:
            return self.fit.start(self.mixture, few, runs=walks.runs, level=level, seen=seen)

        def walk(turn: int) -> Solution:
            walk = Walk(search, walks, self.recipe, self.task, small, few, self.fit.rng, turn)
            end = walk.run(begin)
            # The first walk begins from plain k-means, others from what is like it or levelled.
            if walk.plain is not None and turn == 0:
                smallest = np.exp(self.mixture.log_weights(walk.plain.theta).min())
                tiny = smallest * self.mixture.n_components < search.tiny
                if tiny and few.n_rows >= search.tiny_of:
                    self.plain.append(walk.plain)
            return end

        n_init = self.fit.settings.n_init
        return [[walk(turn) for turn in range(walks.number)] for _ in range(n_init)]

    def screened(self, found: list[list[Solution]]) -> list[Beginning]:
        """Of each search the ends that are best after a brief climb on more rows."""
        search = self.schedule.search
        kept, looks = search.raced, search.race_iterations
        if self._large:
            # Each look at all rows takes long.
            kept, looks = search.kept(self.table.n_rows), search.look_iterations
        brief, objective = self.solver.limited(looks), Objective(self.mixture, self.seen)
        firsts = []
        for ends in found:
            if len(ends) > kept:
                ends = [brief.climb(objective, Beginning.at(end)) for end in ends]
            firsts += sorted(ends, key=height, reverse=True)[:kept]
        return [Beginning.at(end) for end in firsts]

    def approached(self, levels: Iterable[Table], starts: Iterable[Beginning]) -> list[Solution]:
        """Where climbs on few rows lead, level by level: most of a climb needs no more."""
        # A sample in memory is one batch, whatever the rows that follow.
        task = replace(self.task, n_batches=1, patience=self.schedule.near_patience)
        patient = self.recipe.make(task)
        ends: list[Solution] = []
        for level in levels:
            rows = Objective(self.mixture, level)
            ends = [patient.climb(rows, beginning) for beginning in starts]
            starts = [Beginning.at(end) for end in ends]
        return ends

    def best_near(self, ends: list[Solution]) -> Solution:
        """The end whose labels are the best on few rows: each look at all of them takes long."""
        if len(ends) == 1:
            return ends[0]
        finish = partial(self.solver.finish, self.mixture, near=self.near, table=self.near)
        return best_labels(self.schedule.search, self.mixture.n_components, ends, finish)[0]

    def _cooled(self, objective: Objective, rough: Solution, best: Solution) -> list[Solution]:
        """The end of a climb after a few cold iterations, if its labels are worth much less."""
        search, solver = self.schedule.search, self.solver.coldest()
        left = min(search.cold_iterations, solver.max_iter - len(rough.history))
        lost = rough.objective - best.objective
        # Each iteration on very many rows takes long.
        if not (self.task.labels and lost >= search.telling and left > 0) or self._sampled:
            return []
        cold = self.fit.climb(solver.limited(left), objective, Beginning.at(rough))
        return [_continued(rough, cold)]

    def _as_begun(
        self, objective: Objective, warm: Beginning | None, end: Solution
    ) -> list[Solution]:
        """Starts as they are, which are finished whatever their climbs are worth."""
        brief = self.solver.limited(1)
        if warm is not None:
            # A climb may end where labels fare worse than at its start, a point that was seen, too.
            at = warm._replace(multipliers=end.multipliers)
            stayed = brief.climb(objective.fresh(), at)
            return [replace(end, theta=stayed.theta, multipliers=stayed.multipliers)]
        if self._sampled or not self.task.aware:
            return []
        # Most iterations of a climb would move a tiny cluster.
        return [brief.climb(objective.fresh(), plain) for plain in self.plain]


def best_labels(
    search: Search,
    n_components: int,
    ends: list[Solution],
    finish: Callable[[Solution], Solution],
) -> tuple[Solution, Solution]:
    """The end of a climb whose labels are the best, and the solution that has these labels.

    As a climb sees them, labels are hardly ever worth more than the one that led to them, and less
    by amounts that nothing tells beforehand. So ends are finished, the highest first, until the
    next one is worth hardly more than labels that are known. Ends of the same worth are the same.
    """
    ranked = sorted(ends, key=height, reverse=True)
    found = [(ranked[0], finish(ranked[0]))]
    for before, end in itertools.pairwise(ranked):
        best = max((solution for _, solution in found), key=lambda solution: solution.rank)
        if best.met and best.filled == n_components:
            if end.objective <= best.climbed + search.telling:
                break
            if before.objective - end.objective < search.least_gain:
                continue
        found.append((end, finish(end)))
    return max(found, key=lambda pair: pair[1].rank)


def _continued(first: Solution, then: Solution) -> Solution:
    """Where a few iterations have led from the end of a climb, as one climb with its status."""
    history = [*first.history, *later(then.history, first.history)]
    return replace(then, history=history, status=first.status)
