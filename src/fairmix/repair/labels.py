"""Fair labels for given costs: `fair_labels`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning

from fairmix.criteria import LIMITS, AnyLimit, ByAttribute, Criterion, EachAttribute
from fairmix.input.groups import (
    Attribute,
    Groups,
    MissingGroups,
    Seats,
    encode_groups,
    listed_groups,
)
from fairmix.input.opening import read_weights
from fairmix.kernels.totals import Features, FloatArray, IntArray, Logits, Membership, Rows
from fairmix.repair.costs import GRAIN, Costs
from fairmix.repair.pricing import Best, Pricing
from fairmix.repair.program import Demand, Rowset, parts_of
from fairmix.results.verdict import MIN_GROUP_SIZE, Verdict, judge, measure, worst_of
from fairmix.solvers import Dual
from fairmix.solvers.dual import Goal
from fairmix.solvers.quadratic import Bound
from fairmix.solvers.tilt import Tilt
from fairmix.system.notices import notify
from fairmix.system.threads import n_threads, one_blas_thread
from fairmix.tables import MemoryStore, Table

Bounds = float | Mapping[str, float] | None

# Sums of costs in another order differ by less than this share.
ROUNDING = 1e-12
# Temperatures of the start, in units of a typical difference between two clusters, and Newton steps
# at each. About half of the one before, as for the labels of a fit; the linear program takes over
# where next to no rows are between two clusters.
TEMPERATURES = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02)
ACCURACY, STEPS = 1e-3, 8
# Rows on which the start is cooled down, and steps on all of them afterwards. The rates of so many
# rows are those of all to half a percent, and two Newton steps make up for that.
SAMPLE_ROWS, LAST_STEPS = 30_000, 3


@dataclass(frozen=True, eq=False)
class FairLabels:
    """Labels that meet a rule, what they cost, and how little any others could cost.

    Attributes
    ----------
    labels : ndarray of shape (n_rows,)
        Cluster of each row, the number of a column of the costs.
    met : bool or None
        Whether the labels meet the rule; None where fewer than two groups are judged.
    cost : float
        Sum of the costs of the labels, with weights.
    lower_bound : float
        No labels that meet the rule cost less, nor do parts of rows.
    excess : float
        ``cost - lower_bound``.
    relative_excess : float
        ``excess / lower_bound``; NaN where some cost is negative, or the bound is zero.
    price : float
        What the labels cost more than the cheapest cluster of each row.
    rates : ndarray of shape (n_groups, n_clusters)
        Share of each group in each cluster.
    multipliers : ndarray of shape (n_groups, n_clusters)
        What one more unit of a group's weight in a cluster costs, beyond its own cost. The cheapest
        cluster after these are added to the costs of the rows of each group gives the lower bound.
    groups : tuple of str
        Names of the groups that are compared, in the order of ``rates``.
    verdicts : dict of str to Verdict
        Whether the rule is met, for each attribute.
    """

    labels: NDArray[np.int32]
    met: bool | None
    cost: float
    lower_bound: float
    excess: float
    relative_excess: float
    price: float
    rates: FloatArray
    multipliers: FloatArray
    groups: tuple[str, ...]
    verdicts: dict[str, Verdict]

    @property
    def verdict(self) -> Verdict:
        """The worst one."""
        return worst_of(list(self.verdicts.values()))

    def __repr__(self) -> str:
        counts = np.bincount(self.labels, minlength=self.rates.shape[1]).tolist()
        return (
            f"FairLabels(met={self.met}, cost={self.cost:.6g}, lower_bound={self.lower_bound:.6g}, "
            f"price={self.price:.6g}, rows={counts})"
        )


def fair_labels(
    cost: Any,
    sensitive_features: Any,
    *,
    max_gap: Bounds = None,
    min_ratio: Bounds = None,
    min_balance: Bounds = None,
    attributes: Literal["intersect", "each"] = "intersect",
    min_group_size: int = MIN_GROUP_SIZE,
    missing_groups: MissingGroups = "error",
    sample_weight: ArrayLike | None = None,
    ties: Literal["split", "together"] = "split",
    n_jobs: int | None = None,
) -> FairLabels:
    """The cheapest labels whose groups meet a rule, for clusters that are there already.

    Parameters
    ----------
    cost : array-like of shape (n_rows, n_clusters), or callable
        What each row costs in each cluster: squared distances, negative log-densities, one minus a
        similarity. A memory map is read block by block; a callable takes the first row and the one
        after the last and gives the costs between them. Scaling all costs, or adding a constant to
        a row, changes no label.
    sensitive_features : array-like or table
        Group of each row; several columns form their intersections.
    max_gap, min_ratio, min_balance : float or dict of str to float, default=None
        The rule, exactly one of the three, as in `FairMixture`. With ``attributes="each"`` a dict
        has a number for each attribute.
    attributes : {"intersect", "each"}, default="intersect"
        Whether several columns form intersections, or are compared each by itself.
    min_group_size : int, default=30
        Groups of fewer rows take no part in the rule; their rows get the cheapest cluster.
    missing_groups : {"error", "drop", "group"}, default="error"
        What a missing label of a group is: an error, a row that gets the cheapest cluster and
        counts for nothing, or a group of its own.
    sample_weight : array-like of shape (n_rows,), default=None
        Weights of at least 0. A row of weight 0 gets the cluster that is the cheapest with the
        multipliers of its group.
    ties : {"split", "together"}, default="split"
        Whether rows of one group with equal costs may have different labels.
    n_jobs : int, default=None
        Threads; labels do not depend on it. None: as many as ``KMeans`` takes.

    Returns
    -------
    FairLabels

    Warns
    -----
    ConvergenceWarning
        If whole rows cannot meet the rule, or a cluster that is the cheapest of some row is empty.

    See Also
    --------
    FairAssignment : The same for a clusterer, with ``predict`` for new rows.

    Examples
    --------
    >>> import numpy as np
    >>> from fairmix import fair_labels
    >>> rng = np.random.default_rng(0)
    >>> groups = np.repeat(["a", "b"], 500)
    >>> x = rng.normal(np.where(groups == "a", 0.0, 1.0))
    >>> cost = (x[:, None] - np.array([-1.0, 0.5, 2.0])) ** 2
    >>> found = fair_labels(cost, groups, max_gap=0.05)
    >>> found.met, round(found.verdict.value, 6)
    (True, 0.05)
    >>> found.relative_excess < 0.001
    True
    """
    limit = rule_of({"max_gap": max_gap, "min_ratio": min_ratio, "min_balance": min_balance})
    _check_choice("attributes", attributes, ("intersect", "each"))
    _check_choice("missing_groups", missing_groups, ("error", "drop", "group"))
    _check_choice("ties", ties, ("split", "together"))
    n_rows = None if callable(cost) else _n_rows(cost)
    groups = encode_groups(
        sensitive_features, n_rows=n_rows, missing=missing_groups, each=attributes == "each"
    )
    costs = Costs(cost, len(groups.codes))
    weight = read_weights(sample_weight, groups.codes)
    groups = judged(groups.counted(weight), min_group_size)
    if isinstance(limit, ByAttribute):
        limit.check([own.title for own in groups.attributes])
    threads = n_threads(n_jobs)
    with one_blas_thread():
        return Repair(costs, groups, weight, limit, ties == "together", threads).run()


class Sums(NamedTuple):
    """Costs of labels and of the cheapest clusters, the least cost, and which clusters are chosen.

    ``chosen`` (K,) are those that are the cheapest of some row that counts.
    """

    labels: float
    cheapest: float
    least: float
    chosen: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Repair:
    """Costs, groups and a rule, all checked.

    Attributes
    ----------
    costs : Costs
        Of all rows.
    groups : Groups
        With small ones set aside.
    weight : (N,) array or None
        Of the rows.
    limit : AnyLimit
        The rule.
    together : bool
        Whether rows of one group with equal costs have the same label.
    n_jobs : int
        Threads.
    """

    costs: Costs
    groups: Groups
    weight: FloatArray | None
    limit: AnyLimit
    together: bool
    n_jobs: int

    def run(self) -> FairLabels:
        """Find the labels, and measure them."""
        seats = Seats.of(self.groups)
        codes = seats.codes(self.groups.codes)
        weight = seats.weight(self.groups.codes, self.weight)
        table = self._table(self.costs, codes, weight, seats)
        if seats.n_groups == 1:
            demand = Demand(
                (), np.ones((1, 1)), table.group_sizes, table.rate_steps, self._n_clusters
            )
            rowset = Rowset(table, self.costs, codes, _ones(weight, len(codes)))
            best = Pricing(demand, rowset).run(np.zeros((1, self._n_clusters)))
            return self.measured(best, rowset, demand)
        criterion, level = bounded(self.limit, table)
        demand = demand_of(criterion, level, table, seats, self._n_clusters)
        everybody = Rowset(table, self.costs, codes, _ones(weight, len(codes)))
        rowset, sets = everybody, None
        if self.together:
            first, sets = self.costs.equal(codes)
            if len(first) < len(codes):
                costs, own = self.costs.only(first), codes[first]
                mass = np.bincount(sets, everybody.weight, len(first)).astype(np.float64)
                rowset = Rowset(self._table(costs, own, mass, seats), costs, own, mass)
        start = cooled(rowset.table, criterion, level, self._n_clusters)
        best = Pricing(demand, rowset).run(start * table.weight_sum)
        if sets is not None and rowset is not everybody:
            best = Best(best.labels[sets], best.multipliers, best.lower_bound)
        return self.measured(best, everybody, demand)

    @property
    def _n_clusters(self) -> int:
        return int(self.costs.n_clusters)

    def _table(
        self, costs: Costs, codes: IntArray, weight: FloatArray | None, seats: Seats
    ) -> Table:
        store = MemoryStore(
            costs.as_rows(),
            groups=codes,
            n_groups=seats.n_groups,
            aside=seats.one_more,
            weight=weight,
            n_jobs=self.n_jobs,
        )
        return Table(store, _features, membership=seats.membership)

    def _verdicts(self, labels: IntArray, rowset: Rowset, demand: Demand) -> dict[str, Verdict]:
        rates = _rates(labels, rowset, demand)
        owners: Sequence[Attribute | Groups] = self.groups.attributes or (self.groups,)
        out = {}
        for own, part in zip(owners, demand.parts, strict=True):
            limit = self.limit.of(own.title)
            groups = part.groups
            value, resolution = measure(
                limit, rates[groups], demand.sizes[groups], demand.steps[groups], labels=True
            )
            out[own.title] = judge(
                value,
                limit.bound,
                resolution=resolution,
                n_judged=len(own.names),
                unjudged=own.unjudged,
                parameter=limit.parameter,
            )
        return out

    def measured(self, best: Best, rowset: Rowset, demand: Demand) -> FairLabels:
        """Costs, rates and verdicts of labels that were found."""
        verdicts = self._verdicts(best.labels, rowset, demand) if demand.parts else {}
        cost, cheapest, least, before = self._total(best.labels, rowset.weight)
        # The bound is on what clusters cost more than the cheapest ones.
        lower = cheapest + best.lower_bound * self.costs.scale
        grains = GRAIN * self.costs.scale * float(rowset.weight.sum())
        if abs(cost - lower) <= ROUNDING * abs(cost) + grains:
            lower = cost
        if not verdicts:
            word = self.limit.parameter
            one = self.limit if not isinstance(self.limit, ByAttribute) else None
            bound = np.nan if one is None else one.bound
            small = self.groups.unjudged
            verdicts = {
                self.groups.title: judge(
                    np.nan, bound, resolution=0.0, n_judged=1, unjudged=small, parameter=word
                )
            }
        worst = worst_of(list(verdicts.values()))
        met = worst.met
        here = np.bincount(best.labels[rowset.weight > 0], minlength=self._n_clusters) > 0
        self._warn(np.flatnonzero(before & ~here), met=met, worst=worst)
        return FairLabels(
            labels=best.labels,
            met=met,
            cost=cost,
            lower_bound=lower,
            excess=cost - lower,
            relative_excess=(cost - lower) / lower if least >= 0 and lower > 0 else np.nan,
            price=cost - cheapest,
            rates=_rates(best.labels, rowset, demand),
            multipliers=best.multipliers * (self.costs.scale / demand.sizes[:, None]),
            groups=self.groups.names,
            verdicts=verdicts,
        )

    def _total(self, labels: IntArray, weight: FloatArray) -> Sums:
        """Costs of the labels and of the cheapest clusters."""
        total = cheapest = 0.0
        least = np.inf
        before = np.zeros(self._n_clusters, dtype=bool)
        for start, stop in self.costs.runs():
            block, own = self.costs.raw(start, stop), weight[start:stop]
            rows, best = np.arange(len(block)), block.argmin(axis=1)
            low = block[rows, best]
            total += float(block[rows, labels[start:stop]] @ own)
            cheapest += float(low @ own)
            least = min(least, float(low.min()))
            before[best[own > 0]] = True
        return Sums(total, cheapest, least, before)

    @staticmethod
    def _warn(emptied: IntArray, *, met: bool | None, worst: Verdict) -> None:
        if met is False:
            notify(
                f"The labels miss {worst.parameter}={worst.bound:g}: the {worst.noun} is "
                f"{worst.value:.4g}. No labels near the best parts of rows meet the rule. Loosen "
                "it, merge small groups, or take fewer clusters.",
                ConvergenceWarning,
            )
        if len(emptied):
            notify(
                f"Clusters without rows, which were the cheapest of some: {emptied.tolist()}. A "
                "looser rule keeps them.",
                ConvergenceWarning,
            )


def _features(rows: Rows) -> Features:
    return Features(rows.numeric, None)


def _ones(weight: FloatArray | None, n_rows: int) -> NDArray[np.float64]:
    return np.ones(n_rows) if weight is None else weight.astype(np.float64)


def _rates(labels: IntArray, rowset: Rowset, demand: Demand) -> FloatArray:
    return np.asarray(rowset.mass(demand, labels) / demand.sizes[:, None])


def _matrix(table: Table, seats: Seats) -> FloatArray:
    """One where rows of a code of the store belong to a group, (M, codes)."""
    membership: Membership | None = seats.membership
    if membership is not None:
        return membership.matrix
    return np.eye(table.n_groups, table.n_groups + seats.one_more)


def demand_of(
    criterion: Criterion, level: float, table: Table, seats: Seats, n_clusters: int
) -> Demand:
    """The rules on the groups of a table."""
    return Demand(
        parts_of(criterion, level),
        _matrix(table, seats),
        table.group_sizes,
        table.rate_steps,
        n_clusters,
    )


def bounded(limit: AnyLimit, table: Table) -> tuple[Criterion, float]:
    """The criterion of a rule on the groups of a table, and what its value may be."""
    membership = table.membership
    titles = ("",) if membership is None else membership.titles
    parts = [slice(None)] if membership is None else membership.parts
    criteria, levels = [], []
    for title, part in zip(titles, parts, strict=True):
        sizes, own = table.group_sizes[part], limit.of(title)
        criteria.append(own.criterion(sizes, table.rate_steps[part]))
        levels.append(own.level(sizes))
    if membership is None:
        return criteria[0], levels[0]
    return EachAttribute.of(membership, criteria, levels), max(levels)


def cooled(table: Table, criterion: Criterion, level: float, n_clusters: int) -> FloatArray:
    """Multipliers (M, K) that almost solve the dual of the costs of a table, per unit of weight."""
    logits = Logits(np.zeros(n_clusters), -np.eye(n_clusters))
    solver = Dual(criterion, Bound(criterion, level))
    # Always the same sample: the labels must not depend on chance.
    near = table.sample(SAMPLE_ROWS, np.random.default_rng(0))
    tilt = Tilt.of(near, n_clusters, free=criterion.conic)
    for temperature in TEMPERATURES:
        tilt = solver.solved(tilt, logits, temperature, Goal(ACCURACY, STEPS))
    if near is not table:
        tilt = Tilt.of(table, n_clusters, tilt.multipliers, free=criterion.conic)
        tilt = solver.solved(tilt, logits, TEMPERATURES[-1], Goal(ACCURACY / 10, LAST_STEPS))
    return tilt.multipliers


def _n_rows(cost: Any) -> int:
    try:
        return len(cost)
    except TypeError:
        raise ValueError(
            f"cost is a {type(cost).__name__}. Give an array with a row for each label, or a "
            "function of a first and a last row that makes one."
        ) from None


def rule_of(rules: dict[str, Bounds]) -> AnyLimit:
    """The one rule that is given, checked."""
    given = {name: bound for name, bound in rules.items() if bound is not None}
    if len(given) != 1:
        said = " and ".join(f"{name}={bound}" for name, bound in given.items())
        raise ValueError(
            f"{said or 'No rule'} {'are several rules' if given else 'is given'}. Give exactly one "
            "of max_gap, min_ratio and min_balance."
        )
    (name, bounds), *_ = given.items()
    numbers = list(bounds.values()) if isinstance(bounds, Mapping) else [bounds]
    for number in numbers:
        fine = isinstance(number, int | float) and not isinstance(number, bool)
        if not fine or not (0 < number <= 1 if LIMITS[name].at_least else number >= 0):
            allowed = "above 0 and at most 1" if LIMITS[name].at_least else "from 0"
            raise ValueError(f"{name}={bounds!r}. Give a number {allowed}.")
    make = LIMITS[name]
    if isinstance(bounds, Mapping):
        return ByAttribute({title: make(float(bound)) for title, bound in bounds.items()})
    return make(float(bounds))


def _check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name}={value!r} is unknown. Choose one of {', '.join(choices)}.")


def judged(groups: Groups, min_group_size: int) -> Groups:
    """The groups, the small ones set aside and told."""
    if len(groups.known) == 1:
        raise ValueError(
            f"sensitive_features holds one group only, {groups.known[0]!r}. Give labels with two "
            "groups or more."
        )
    groups = groups.judged(min_group_size)
    if groups.unjudged:
        small = listed_groups({repr(name): n for name, n in groups.unjudged.items()})
        notify(
            f"Not judged: {small}. Groups of fewer than min_group_size={min_group_size} rows take "
            "no part in the rule. Merge them with others, or lower min_group_size."
        )
    return groups
