"""The schedule of a fit: which rows see which starts, and how many of them go on.

A fit of many rows does most of its work on few of them. ``solve`` reads from top to bottom: the
rows that are climbed, the solver for the task, the starts, the climbs, and what is left to do for
all rows. How many rows and starts each step takes is `Schedule`, and how a start is searched for
`Search`; what a solver wants of these steps, it says itself (`Solver.screens`,
`Solver.samples_first`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import NormalDist
from typing import Literal, NamedTuple

import numpy as np

from fairmix.criteria import (
    CRITERIA,
    AnyLimit,
    Criterion,
    EachAttribute,
    Limit,
    Seminorm,
    limit_of,
)
from fairmix.criteria.bounds import ROUNDING
from fairmix.fitting.search import Search, Walk, few_rows, height
from fairmix.fitting.starts import KMEANS_RUNS, START_ROWS, Level, Start, start
from fairmix.input.columns import Columns
from fairmix.input.groups import MissingGroups, Seats
from fairmix.kernels.totals import FloatArray, Membership
from fairmix.mixture import families
from fairmix.mixture.families import Family
from fairmix.mixture.mixture import Mixture
from fairmix.mixture.propensity import Propensity, fit_propensity
from fairmix.results.fitted import Rule
from fairmix.solvers import SOLVERS, Beginning, Callback, Iteration, Recipe, Solution, Solver, Task
from fairmix.solvers.objective import Objective, Scaled
from fairmix.solvers.online import Online
from fairmix.system.progress import progress
from fairmix.tables import (
    Batches,
    Condensed,
    Moments,
    Rowlike,
    Store,
    Table,
    count_batches,
    count_rows,
)

# Probability with which as many fresh rows as those of the fit keep the rule, where the margin is
# that of chance and the map of the population is just within the rule.
CHANCE = 0.95

# Entered for a climb with the most iterations, if that is known; gets each iteration.
Watch = Callable[[int | None], AbstractContextManager[Callback | None]]

# How far from the mean, in standard deviations, the centre of a column may be. So small a shift
# adds a millionth of the variance to the mean square, so squares lose no digits.
CENTRED = 1e-3


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
    # These bound the time of k-means and of the regression, whatever the number of rows.
    start_rows: int = START_ROWS
    propensity_rows: int = 50_000
    # Of so many rows, a rate of one half has a standard error of 0.002.
    fairness_rows: int = 50_000

    def is_large(self, table: Rowlike) -> bool:
        """Whether a table is worth approaching on fewer rows."""
        return table.n_rows > 2 * self.near_rows


SCHEDULE = Schedule()


@dataclass(frozen=True)
class Settings:
    """Choices of the user that shape a fit; `FairMixture` documents each."""

    n_components: int
    max_gap: float | Literal["auto"] | Mapping[str, float]
    min_ratio: float | Mapping[str, float] | None
    min_balance: float | Mapping[str, float] | None
    margin: float | Literal["chance"]
    fairness_strength: float | Literal["auto"]
    gap_of: Literal["labels", "probabilities"]
    assignment: Literal["blind", "aware"]
    ties: Literal["together", "split"]
    solver: str
    criterion: str
    min_group_size: int
    missing_groups: MissingGroups
    covariance_type: str
    standardize: bool
    max_iter: int | None
    inner_iter: int
    learning_rate: float | None
    tol: float
    n_init: int
    init_params: Start | None
    reg_covar: float
    batch_size: float | None
    fairness_sample_size: float | None
    fairness_sample_replace: bool
    subsample: float | None
    verbose: int

    @property
    def measure(self) -> Seminorm:
        """The criterion of ``gap_``."""
        return CRITERIA[self.criterion]

    @property
    def limit(self) -> AnyLimit | None:
        """What is bounded; None where a strength takes the place of a bound."""
        return limit_of(
            max_gap=self.max_gap,
            min_ratio=self.min_ratio,
            min_balance=self.min_balance,
            criterion=self.criterion,
            fairness_strength=self.fairness_strength,
        )

    @property
    def rule(self) -> Rule:
        """What is asked for."""
        return Rule(
            self.criterion, self.limit, self.gap_of, self.min_group_size, self.missing_groups
        )

    def reported(self, membership: Membership | None) -> Criterion:
        """The measure of the groups of a fit: that of the worst attribute, where there are more."""
        return self.measure if membership is None else EachAttribute.same(membership, self.measure)

    def bounded(self, table: Rowlike) -> tuple[Criterion, float]:
        """What a solver bounds on the rows of a table, and its bound; infinite for none."""
        membership, limit = table.membership, self.limit
        if limit is None or self.strength(len(table.group_sizes)) is not None:
            return self.reported(membership), np.inf
        titles = ("",) if membership is None else membership.titles
        parts = [slice(None)] if membership is None else membership.parts
        criteria, levels = [], []
        for title, part in zip(titles, parts, strict=True):
            sizes = table.group_sizes[part]
            aim = self._aim(limit.of(title), sizes)
            criteria.append(aim.criterion(sizes, table.rate_steps[part]))
            levels.append(aim.level(sizes))
        if membership is None:
            equal = criteria[0].conic and levels[0] <= ROUNDING
            if equal and len(table.group_sizes) == 2 and self.on_labels:
                # Equal rates but for one row of the larger group, as a gap of zero asks for them.
                # Its multipliers add up to zero over the groups; those of ratios need not, and
                # drift away where a cluster is far from all rows.
                return CRITERIA["gap"], 0.0
            return criteria[0], levels[0]
        return EachAttribute.of(membership, criteria, levels), max(levels)

    def _aim(self, limit: Limit, sizes: FloatArray) -> Limit:
        """The limit of the solver, stricter than that of the user by the margin."""
        if self.margin == 0:
            return limit
        margin = self.margin
        if margin == "chance":
            criterion = limit.criterion(sizes, 1 / sizes)
            # Fresh rows differ from those of the fit by two errors, that of each; of K clusters the
            # worst one decides.
            worst = NormalDist().inv_cdf(CHANCE ** (1 / self.n_components))
            noise = np.sqrt(2) * worst * criterion.noise(sizes, self.n_components)
            margin = limit.width(float(noise), sizes)
        return limit.tightened(float(margin), sizes)

    @property
    def on_labels(self) -> bool:
        """Whether the bound is on hard labels."""
        return self.gap_of == "labels"

    @property
    def start(self) -> Start:
        """That of the user, else of the solver."""
        return SOLVERS[self.solver].start if self.init_params is None else self.init_params

    def strength(self, n_groups: int) -> float | None:
        """Weight of fairness in a fit of so many groups: none where nothing is compared.

        None: as much as a bound takes.
        """
        if n_groups < 2:
            return 0.0
        return None if self.fairness_strength == "auto" else float(self.fairness_strength)


def make_family(settings: Settings, columns: Columns, store: Store) -> Family:
    """The family that the kinds of columns call for."""
    return families.make_family(
        settings.n_components,
        tuple(len(names) for names in columns.levels),
        _center(store.summary.moments) if columns.numeric else np.empty(0),
        settings.covariance_type,
        settings.reg_covar,
    )


def _center(moments: Moments) -> FloatArray:
    """The mean, in single precision where that moves it by next to nothing.

    Subtracting it from rows in single precision then needs no double precision.
    """
    with np.errstate(over="ignore"):  # too large for single precision: infinite, so not near
        short: FloatArray = moments.mean.astype(np.float32).astype(np.float64)
    near = np.abs(short - moments.mean) <= CENTRED * np.sqrt(moments.variance)
    return np.where(near, short, moments.mean)


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
    watch: Watch = lambda _: nullcontext(),
) -> Solution:
    """The best solution of ``n_init`` starts, or the one from a warm start or the user's own.

    ``watch`` is entered for each of them, with the most iterations if that is known.
    """
    # All samples and starts come from one generator, in the order of the lines below: another order
    # would change the result of a seed.
    fit = Fit(settings, SCHEDULE, np.random.default_rng(seed))
    ground = fit.ground(mixture, table)
    task = make_task(settings, table, rates=ground.rates, n_batches=ground.objective.n_batches)
    recipe = SOLVERS[settings.solver]
    solver = recipe.make(task)
    penalty = make_penalty(settings, mixture.n_components, table.n_groups)
    objective, near = replace(ground.objective, penalty=penalty), table
    starts: Iterable[Beginning] = [] if warm is None else [Beginning(warm)]
    if solver.screens:
        near = fit.near(ground.rates)
        single = mixture.family.takes_single
        # What climbs see; the labels that follow are those of the rows as they are.
        seen = near.sample(near.n_rows, fit.rng, single=True) if single else near
        if objective.table is near:
            objective = replace(objective, table=seen)
        if objective.fair_table is None:
            # Cold rates of few rows say less and less of those of all.
            solver = solver.closing()
        levels = []
        if warm is None:
            levels = [few_rows(SCHEDULE.search, near, fit.rng, single=single)]
            large, search = SCHEDULE.is_large(table), SCHEDULE.search
            found = fit.searched(recipe, task, mixture, levels[0], large=large)
            kept, looks = search.raced, search.race_iterations
            if large:
                # Each look at all rows takes long.
                kept, looks = search.kept(table.n_rows), search.look_iterations
            found = fit.screened(solver.limited(looks), Objective(mixture, seen), found, kept)
            starts = [Beginning.at(end) for ends in found for end in ends]
        if SCHEDULE.is_large(objective.table):
            nearly = fit.approached(recipe, task, mixture, [*levels, seen], starts)
            # Each climb on all rows takes long.
            starts = [Beginning.at(end) for end in best_on(near, solver, mixture, nearly)]
            if objective.fair_table is None:
                # The rates of few rows are enough for the tilt; its last steps see all.
                objective = replace(objective, fair_table=seen)
    elif warm is None:
        starts = fit.starts(solver, objective, ground.starts)
    climbed = []
    for beginning in starts:
        most = None if solver.open_ended else solver.max_iter
        with watch(most) as told, _shown(settings, solver, table, told) as callback:
            # Fresh, because batches remember the totals of the climb before.
            climbed.append(solver.climb(objective.fresh(), beginning, callback))
    finish = partial(solver.finish, mixture, near=near, table=table)
    if not solver.screens:
        # Whether a bound is met on all rows may show only then.
        return max(map(finish, climbed), key=lambda end: end.rank)
    # Finished whatever their climbs are worth.
    certain: list[Solution] = []
    if warm is not None:
        # A climb may end where labels fare worse than at its start, which is a point seen, too.
        stayed = solver.limited(1).climb(objective.fresh(), Beginning(warm, climbed[0].multipliers))
        certain = [replace(climbed[0], theta=stayed.theta, multipliers=stayed.multipliers)]
    elif near.n_rows < table.n_rows:
        climbed = best_on(near, solver, mixture, climbed)
    elif task.aware:
        # As they are: most iterations of a climb would move them.
        certain = [solver.limited(1).climb(objective.fresh(), plain) for plain in fit.plain]
    _, best = best_labels(climbed, finish, mixture.n_components)
    return max(best, *map(finish, certain), key=lambda end: end.rank) if certain else best


def best_on(near: Table, solver: Solver, mixture: Mixture, ends: list[Solution]) -> list[Solution]:
    """The end whose labels are the best on few rows: each look at all of them takes long."""
    if len(ends) == 1:
        return ends
    finish = partial(solver.finish, mixture, near=near, table=near)
    return [best_labels(ends, finish, mixture.n_components)[0]]


def best_labels(
    ends: list[Solution], finish: Callable[[Solution], Solution], n_components: int
) -> tuple[Solution, Solution]:
    """The end of a climb whose labels are the best, and the solution that has these labels.

    Labels are hardly ever worth more than the climb that led to them, and less by amounts that
    nothing tells beforehand. So ends are finished, the highest first, until the next one is worth
    hardly more than labels that are known. Ends of the same worth are the same.
    """
    ranked = sorted(ends, key=height, reverse=True)
    found = [(ranked[0], finish(ranked[0]))]
    for before, end in itertools.pairwise(ranked):
        best = max((solution for _, solution in found), key=lambda solution: solution.rank)
        if best.met and best.filled == n_components:
            if end.objective <= best.objective + SCHEDULE.search.telling:
                break
            if before.objective - end.objective < SCHEDULE.search.least_gain:
                continue
        found.append((end, finish(end)))
    return max(found, key=lambda pair: pair[1].rank)


def make_task(
    settings: Settings,
    table: Rowlike,
    *,
    rates: Rowlike,
    n_batches: int = 1,
    online: bool = False,
) -> Task:
    """What the solver of a fit is made for; ``rates`` are the rows whose rates count."""
    sizes = table.group_sizes
    strength = settings.strength(len(sizes))
    criterion, bound = settings.bounded(table)
    return Task(
        measure=settings.reported(table.membership),
        strength=strength,
        criterion=criterion,
        bound=bound,
        target=_target(settings, criterion, bound, rates, table),
        labels=settings.on_labels,
        aware=settings.assignment == "aware",
        n_groups=len(sizes),
        n_batches=n_batches,
        max_iter=settings.max_iter,
        learning_rate=settings.learning_rate,
        inner_iter=settings.inner_iter,
        tol=settings.tol,
        online=online,
    )


def make_penalty(settings: Settings, n_components: int, n_groups: int) -> Scaled | None:
    """What a solver that does not tilt subtracts from the likelihood."""
    strength = settings.strength(n_groups)
    if not strength or SOLVERS[settings.solver].tilts:
        return None
    return Scaled.of(settings.measure, strength, (n_groups, n_components))


def _target(
    settings: Settings, criterion: Criterion, bound: float, rows: Rowlike, table: Rowlike
) -> float:
    """The bound to aim at where nothing is left to do for all rows after a climb.

    Labels move by whole rows, so less than that cannot be asked of them. A map that meets the bound
    on a sample misses it on all rows by the sampling error, which is taken off beforehand.
    """
    if np.isinf(bound):
        return np.inf
    if rows.n_rows < table.n_rows:
        sizes = table.group_sizes / table.group_sizes.sum() * rows.n_rows
        bound = max(0.0, bound - criterion.noise(sizes, settings.n_components))
    # The rates are not known yet, so clusters of equal size stand for them.
    even = np.full((len(rows.group_sizes), settings.n_components), 1 / settings.n_components)
    if not settings.on_labels:
        return bound
    return criterion.enough(bound, even, rows.group_sizes, rows.rate_steps)


def make_online(settings: Settings, mixture: Mixture, sample: Rowlike) -> Online:
    """What takes a fit along a stream, a few steps at each batch."""
    task = make_task(settings, sample, rates=sample, online=True)
    penalty = make_penalty(settings, mixture.n_components, task.n_groups)
    return Online(SOLVERS[settings.solver].make(task), penalty)


@dataclass(frozen=True, eq=False)
class Fit:
    """The steps of `solve`, which share the choices of the user and one source of chance."""

    settings: Settings
    schedule: Schedule
    rng: np.random.Generator
    # Starts of searches that have a tiny cluster.
    plain: list[Beginning] = field(default_factory=list)

    def ground(self, mixture: Mixture, table: Table) -> Ground:
        """All rows, a sample of them, or mini-batches beside a fairness sample."""
        settings, n_rows = self.settings, table.n_rows
        if settings.subsample is not None:
            table = table.sample(count_rows(settings.subsample, n_rows), self.rng)
            return Ground(Objective(mixture, table), table, table)
        if settings.batch_size is None and settings.fairness_sample_size is None:
            return Ground(Objective(mixture, table), table, table)
        wanted = settings.fairness_sample_size
        wanted = self.schedule.fairness_rows if wanted is None else count_rows(wanted, n_rows)
        sample = table.sample(wanted, self.rng, replace=settings.fairness_sample_replace)
        if settings.batch_size is None:
            return Ground(Objective(mixture, table, fair_table=sample), table, sample)
        batches = Batches(table, count_batches(settings.batch_size, n_rows), self.rng)
        # A start needs its rows at hand, and batches leave them where they are.
        return Ground(Objective(mixture, batches, fair_table=sample), sample, sample)

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

    def searched(
        self, recipe: Recipe, task: Task, mixture: Mixture, table: Table, *, large: bool
    ) -> list[list[Solution]]:
        """The ends of ``n_init`` searches on few rows, each of one or more walks.

        ``large``: for a table of many more rows.
        """
        search, small = self.schedule.search, Objective(mixture, table)
        # Points are few, and so are the rows of a small table.
        dear = large or table.n_rows > 2 * search.points
        walks = search.walks(aware=task.aware, dear=dear)
        # Each of the points counts: those of single rows are few, and far from the others.
        seen = table.n_rows if isinstance(table, Condensed) else search.start_rows

        def walk(turn: int) -> Solution:
            walk = Walk(search, walks, recipe, task, small, table, self.rng, turn)
            end = walk.run(
                lambda level: self.start(mixture, table, runs=walks.runs, level=level, seen=seen)
            )
            # The first walk begins from plain k-means, others from what is like it or levelled.
            if walk.plain is not None and turn == 0:
                smallest = np.exp(mixture.log_weights(walk.plain.theta).min())
                if smallest * mixture.n_components < search.tiny and table.n_rows >= search.tiny_of:
                    self.plain.append(walk.plain)
            return end

        return [[walk(turn) for turn in range(walks.number)] for _ in range(self.settings.n_init)]

    @staticmethod
    def screened(
        brief: Solver, objective: Objective, found: list[list[Solution]], kept: int
    ) -> list[list[Solution]]:
        """Of each search so many ends, those that are best after a brief climb on more rows."""
        firsts = []
        for ends in found:
            if len(ends) > kept:
                ends = [brief.climb(objective, Beginning.at(end)) for end in ends]
            firsts.append(sorted(ends, key=height, reverse=True)[:kept])
        return firsts

    def near(self, table: Table) -> Table:
        """The table or, where it has many more rows than it takes, a sample of it."""
        large = self.schedule.is_large(table)
        return table.sample(self.schedule.near_rows, self.rng) if large else table

    def approached(
        self,
        recipe: Recipe,
        task: Task,
        mixture: Mixture,
        levels: Iterable[Table],
        starts: Iterable[Beginning],
    ) -> list[Solution]:
        """Where climbs on few rows lead, level by level: most of a climb needs no more."""
        # A sample in memory is one batch, whatever the rows that follow.
        patient = recipe.make(replace(task, n_batches=1, patience=self.schedule.near_patience))
        ends: list[Solution] = []
        for level in levels:
            rows = Objective(mixture, level)
            ends = [patient.climb(rows, beginning) for beginning in starts]
            starts = [Beginning.at(end) for end in ends]
        return ends


@contextmanager
def _shown(
    settings: Settings, solver: Solver, table: Table, seen: Callback | None
) -> Iterator[Callback]:
    """A callback that moves a progress bar, when the user wants one, and calls another."""
    compared = table.n_groups > 1
    with progress(f"fit {settings.solver}", solver.max_iter, shown=bool(settings.verbose)) as tick:

        def callback(row: Iteration) -> None:
            gap = f"  gap {row.gap:.4f}" if compared else ""
            tick(f"objective {row.objective:.4f}{gap}")
            if seen is not None:
                seen(row)

        yield callback
