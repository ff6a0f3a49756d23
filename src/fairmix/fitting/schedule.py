"""Fitting: from rows and settings to a solution. Wires families, tables, starts and solvers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from fairmix.criteria import CRITERIA, Criterion
from fairmix.fitting.starts import Start, start
from fairmix.input.columns import Columns
from fairmix.input.groups import MissingGroups
from fairmix.kernels.totals import FEW_GROUPS, FloatArray
from fairmix.mixture import families
from fairmix.mixture.families import Family
from fairmix.mixture.mixture import Mixture
from fairmix.mixture.propensity import Propensity, fit_propensity
from fairmix.results.fitted import Rule
from fairmix.results.verdict import SOFT_RESOLUTION, within
from fairmix.solvers import (
    EM,
    Bound,
    Callback,
    Constrained,
    Dual,
    GradientDescent,
    Iteration,
    Solution,
    Status,
    Strength,
)
from fairmix.solvers.objective import Objective, Scaled
from fairmix.system.progress import progress
from fairmix.tables import Batches, Moments, Rowlike, Store, Table, count_batches, count_rows

# Parameters and, where they are known, multipliers.
Beginning = tuple[FloatArray, FloatArray | None]
# Entered for a climb with the most iterations, if that is known; gets each iteration.
Watch = Callable[[int | None], AbstractContextManager[Callback | None]]

# How sharply the multipliers of a penalty follow the rates, in units of the strength: the value
# at which fits of the paper's data sets neither stall nor lose clusters.
SHARPNESS = 100.0
# Starts of the dual solver are compared by short fits of a sample: rows, starts per full fit (and
# as many once more), and rounds of iterations, each with the better half of the round before. A
# blind map needs more before its starts differ.
SCREEN_ROWS = 16_384
SCREEN_STARTS = 3
SCREEN_ROUNDS = {"aware": (8,), "blind": (10, 15)}
# Iterations of a climb at most: of few groups, and the least of many, of which each takes longer.
DUAL_ITERATIONS = (200, 40)
# Rows on which most of a climb and of the cooling down is done, where there are twice as many, and
# the patience that so few rows allow.
NEAR_ROWS = 50_000
NEAR_PATIENCE = 15
# Rows that starts and the propensity see, and those of a fairness sample of no given size: at most.
START_ROWS = 100_000
PROPENSITY_ROWS = 50_000
FAIRNESS_ROWS = 50_000
# How far from the mean, in standard deviations, the centre of a column may be.
CENTRED = 1e-3


@dataclass(frozen=True)
class Settings:
    """Choices of the user that shape a fit; `FairMixture` documents each."""

    n_components: int
    max_gap: float
    fairness_strength: float | Literal["auto"]
    gap_of: Literal["labels", "probabilities"]
    assignment: Literal["blind", "aware"]
    ties: Literal["together", "split"]
    solver: Literal["dual", "em", "gd"]
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
    def measure(self) -> Criterion:
        """The criterion itself."""
        return CRITERIA[self.criterion]

    @property
    def rule(self) -> Rule:
        """What is asked for."""
        bound = float(self.max_gap) if self.fairness_strength == "auto" else np.inf
        return Rule(self.criterion, bound, self.gap_of, self.min_group_size, self.missing_groups)

    @property
    def on_labels(self) -> bool:
        """Whether the bound is on hard labels."""
        return self.gap_of == "labels"

    @property
    def start(self) -> Start:
        """The paper's start for the paper's solvers, k-means clusters for ours."""
        if self.init_params is not None:
            return self.init_params
        return "kmeans" if self.solver == "dual" else "paper"


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


def make_propensity(settings: Settings, store: Store, seed: int) -> Propensity | None:
    """P(group | x), for a blind map of the dual solver, which the bounded ones start from."""
    fair = settings.fairness_strength != 0 and store.n_groups > 1
    dual = settings.solver == "dual" or settings.fairness_strength == "auto"
    # An aware map needs it for rows of no group that is judged.
    known = settings.assignment == "aware" and not store.aside
    if not fair or not dual or known:
        return None
    sample = store.sample(PROPENSITY_ROWS, np.random.default_rng(seed))
    judged = np.flatnonzero(sample.groups < store.n_groups)
    if len(judged) < sample.n_rows:
        sample = sample.take(judged)
    weight, mean = sample.weight, float(store.group_sizes.sum() / store.group_counts.sum())
    if weight is not None and mean < 1 and not np.isclose(mean, 1):
        # Shares of a whole, not counts of rows, which the penalty of a regression is weighed by.
        weight = weight / mean
    return fit_propensity(sample.rows, sample.groups, store.n_groups, weight=weight)


def solve(
    settings: Settings,
    mixture: Mixture,
    table: Table,
    seed: int,
    warm: FloatArray | None = None,
    watch: Watch = lambda _: nullcontext(),
) -> Solution:
    """The best solution of ``n_init`` starts, or the one from a warm start.

    ``watch`` is entered for each of them, with the most iterations if that is known.
    """
    rng = np.random.default_rng(seed)
    fair = settings.fairness_strength != 0 and table.n_groups > 1
    learn = _learner(settings, mixture, table, rng)
    if fair and settings.solver == "dual":
        return _solve_dual(settings, learn, table, rng, warm, watch)
    climber = make_climber(settings, learn.n_batches)
    if not fair:
        return _solve_starts(settings, climber, learn, rng, warm, watch)
    if settings.fairness_strength == "auto":
        bounded = Constrained(
            climber, settings.measure, _target(settings, learn, table), settings.on_labels
        )
        return _solve_starts(settings, bounded, learn, rng, warm, watch)
    strength = float(settings.fairness_strength)
    zeros = np.zeros((table.n_groups, mixture.n_components))
    penalty = Scaled(settings.measure, strength, SHARPNESS * strength, zeros)
    return _solve_starts(settings, climber, replace(learn, penalty=penalty), rng, warm, watch)


def _learner(
    settings: Settings, mixture: Mixture, table: Table, rng: np.random.Generator
) -> Objective:
    """What is climbed: all rows, a sample of them, or mini-batches beside a fairness sample."""
    n_rows = table.n_rows
    if settings.subsample is not None:
        return Objective(mixture, table.sample(count_rows(settings.subsample, n_rows), rng))
    if settings.batch_size is None and settings.fairness_sample_size is None:
        return Objective(mixture, table)
    wanted = settings.fairness_sample_size
    wanted = FAIRNESS_ROWS if wanted is None else count_rows(wanted, n_rows)
    sample = table.sample(wanted, rng, replace=settings.fairness_sample_replace)
    if settings.batch_size is None:
        return Objective(mixture, table, fair_table=sample)
    batches = Batches(table, count_batches(settings.batch_size, n_rows), rng)
    return Objective(mixture, batches, fair_table=sample)


def _target(settings: Settings, learn: Objective, table: Table) -> float:
    """The bound that the paper's solvers aim at.

    Labels move by whole rows, so less than that cannot be asked of them. A map that meets the bound
    on a sample misses it on all rows by the sampling error, which is taken off beforehand.
    """
    bound = settings.max_gap
    if learn.fair.n_rows < table.n_rows:
        sizes = table.group_sizes / table.group_sizes.sum() * learn.fair.n_rows
        rate = 1 / settings.n_components
        bound -= float(np.sqrt(rate * (1 - rate) * (1 / sizes).sum()))
    return max(bound, resolution(settings, learn.fair) if settings.on_labels else 0.0)


def make_climber(settings: Settings, n_batches: int) -> EM | GradientDescent:
    """The paper's solver, or EM for a plain mixture, with its own defaults where none are set."""
    given = {"max_iter": settings.max_iter, "learning_rate": settings.learning_rate}
    chosen: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if settings.solver == "gd":
        # One of EM's iterations is ten steps of ten times the length.
        return GradientDescent(settings.measure, tol=settings.tol / 100, **chosen)
    chosen.setdefault("max_iter", EM.max_iter * n_batches)
    return EM(settings.measure, tol=settings.tol, inner_iter=settings.inner_iter, **chosen)


def _solve_starts(
    settings: Settings,
    solver: EM | GradientDescent | Constrained,
    objective: Objective,
    rng: np.random.Generator,
    warm: FloatArray | None,
    watch: Watch,
) -> Solution:
    """Every start to its end."""
    solutions = []
    for _ in range(1 if warm is not None else settings.n_init):
        theta = warm
        if theta is None and objective.penalty is None and isinstance(solver, EM):
            theta = _plain_start(settings, solver, objective, rng)
        elif theta is None:
            theta = _start(settings, objective, rng)
        # Rounds under a bound are as many as it takes.
        most = None if isinstance(solver, Constrained) else solver.max_iter
        compared = len(objective.table.group_sizes) > 1
        with (
            watch(most) as seen,
            _shown(settings, solver.max_iter, seen, compared=compared) as callback,
        ):
            solutions.append(solver.solve(objective.fresh(), theta, callback=callback))
    return max(
        solutions, key=lambda s: (s.status is not Status.BOUND_MISSED, s.filled, s.objective)
    )


def _plain_start(
    settings: Settings, solver: EM, objective: Objective, rng: np.random.Generator
) -> FloatArray:
    """A start of a plain mixture; of many rows, samples find it and do most of the climb."""
    table = objective.table
    if not isinstance(table, Table) or table.n_rows <= 2 * NEAR_ROWS:
        return _start(settings, objective, rng)
    near = table.sample(NEAR_ROWS, rng)
    small = Objective(objective.mixture, near.sample(SCREEN_ROWS, rng))
    starts = [_start(settings, small, rng, runs=1) for _ in range(2 * SCREEN_STARTS)]
    tried = [solver.solve(small, theta) for theta in starts]
    best = max(tried, key=lambda solution: solution.objective)
    return solver.solve(Objective(objective.mixture, near), best.theta).theta


def _start(
    settings: Settings, objective: Objective, rng: np.random.Generator, **how: int
) -> FloatArray:
    """A start, from the rows that are in memory."""
    table = objective.fair if isinstance(objective.table, Batches) else objective.table
    assert isinstance(table, Table)
    store = table.store.sample(START_ROWS, rng)
    return start(
        objective.mixture, store.rows, how=settings.start, rng=rng, weight=store.weight, **how
    )


def _solve_dual(
    settings: Settings,
    learn: Objective,
    table: Table,
    rng: np.random.Generator,
    warm: FloatArray | None,
    watch: Watch,
) -> Solution:
    """Short fits of a sample find the starts; the best of them are fitted.

    Only the tilt is then solved for on all rows.
    """
    bounded = settings.fairness_strength == "auto"
    solver = make_dual(settings, learn.n_batches, table.n_groups)
    starts: list[Beginning] = [] if warm is None else [(warm, None)]
    levels = []
    if warm is None:
        levels = [_rates_table(learn).sample(SCREEN_ROWS, rng)]
        starts = _screen(settings, solver, Objective(learn.mixture, levels[0]), rng)
    near = _near(learn, rng)
    if learn.table.n_rows > 2 * NEAR_ROWS:
        # Most of a climb needs few rows.
        short = make_dual(settings, n_batches=1, n_groups=table.n_groups)
        short = replace(short, patience=NEAR_PATIENCE)
        for level in [*levels, near]:
            rows = Objective(learn.mixture, level)
            approached = [short.climb(rows, theta, multipliers=start) for theta, start in starts]
            starts = [(solution.theta, solution.multipliers) for solution in approached]
        learn = learn if learn.fair_table is not None else replace(learn, fair_table=near)
    climbed = []
    for theta, multipliers in starts:
        most = solver.max_iter
        with watch(most) as seen, _shown(settings, most, seen) as callback:
            climbed.append(
                solver.climb(learn.fresh(), theta, callback=callback, multipliers=multipliers)
            )
    bound, finest = settings.max_gap if bounded else np.inf, resolution(settings, table)
    done = [solver.finish(learn.mixture, rough, near, table) for rough in climbed]
    return max(done, key=lambda s: (within(s.gap, bound, finest), s.filled, s.objective))


def _near(objective: Objective, rng: np.random.Generator) -> Table:
    """The rows whose rates count, or where there are many more than it takes, a sample."""
    table = _rates_table(objective)
    return table.sample(NEAR_ROWS, rng) if table.n_rows > 2 * NEAR_ROWS else table


def _rates_table(objective: Objective) -> Table:
    table = objective.fair
    assert isinstance(table, Table)
    return table


def make_dual(settings: Settings, n_batches: int, n_groups: int) -> Dual:
    """Our solver."""
    most, least = DUAL_ITERATIONS
    iterations = max(least, most * FEW_GROUPS // max(n_groups, FEW_GROUPS))
    blind = settings.assignment == "blind"
    return Dual(
        settings.measure,
        Bound(settings.measure, settings.max_gap)
        if settings.fairness_strength == "auto"
        else Strength(settings.measure, float(settings.fairness_strength)),
        labels=settings.on_labels,
        temperature=0.3 if settings.on_labels else 1.0,
        equal_weights=settings.on_labels or blind,
        max_iter=settings.max_iter or iterations * n_batches,
        tol=settings.tol,
    )


def _screen(
    settings: Settings, solver: Dual, small: Objective, rng: np.random.Generator
) -> list[Beginning]:
    """Starts and their multipliers, the most promising first."""
    starts: list[Beginning] = [
        (_start(settings, small, rng, runs=1), None)
        for _ in range(SCREEN_STARTS * (settings.n_init + 1))
    ]
    for iterations in SCREEN_ROUNDS[settings.assignment]:
        short = replace(solver, max_iter=min(iterations, solver.max_iter))
        tried = [short.climb(small, theta, multipliers=tilt) for theta, tilt in starts]
        tried.sort(key=lambda solution: (-solution.objective, -solution.history[-1].objective))
        starts = [(solution.theta, solution.multipliers) for solution in tried]
        starts = starts[: max(settings.n_init, len(starts) // 2)]
    return starts[: settings.n_init]


def resolution(settings: Settings, table: Rowlike) -> float:
    """The gap below which a fit cannot be asked to go."""
    if not settings.on_labels:
        return SOFT_RESOLUTION
    return settings.measure.resolution(table.group_sizes, table.rate_steps, settings.n_components)


@contextmanager
def _shown(
    settings: Settings, total: int, seen: Callback | None, *, compared: bool = True
) -> Iterator[Callback]:
    """A callback that moves a progress bar, when the user wants one, and calls another.

    Where no groups are ``compared``, the bar tells no gap.
    """
    with progress(f"fit {settings.solver}", total, shown=bool(settings.verbose)) as tick:

        def callback(row: Iteration) -> None:
            gap = f"  gap {row.gap:.4f}" if compared else ""
            tick(f"objective {row.objective:.4f}{gap}")
            if seen is not None:
                seen(row)

        yield callback
