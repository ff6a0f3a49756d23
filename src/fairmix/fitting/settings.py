"""Settings of a fit: the choices of the user, and what the rooms below make of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

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
from fairmix.fitting.starts import Start
from fairmix.input.columns import Columns
from fairmix.input.groups import MissingGroups
from fairmix.kernels.totals import FloatArray, Membership
from fairmix.mixture import families
from fairmix.mixture.families import Family
from fairmix.mixture.mixture import Mixture
from fairmix.results.fitted import Rule
from fairmix.solvers import SOLVERS, Task
from fairmix.solvers.objective import Scaled
from fairmix.solvers.online import Online
from fairmix.tables import Moments, Rowlike, Store

# Probability with which as many fresh rows as those of the fit keep the rule, where the margin is
# that of chance and the map of the population is just within the rule.
CHANCE = 0.95

# How far from the mean, in standard deviations, the centre of a column may be. So small a shift
# adds a millionth of the variance to the mean square, so squares lose no digits.
CENTRED = 1e-3


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
