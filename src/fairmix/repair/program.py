"""The linear program of the best labels, and how few of its columns are needed.

Of n rows, almost all have the same label in every good solution. So the program is solved with a
few columns, the labels of rows near a boundary, and the rest as it is. Its multipliers say for
every row which label is cheapest; where that has no column yet it gets one, until none is missing.
The value is then that of the program with all columns, and the multipliers prove it.

At most as many rows as there are rules have parts in two clusters. They and the rows around them
are decided by an integer program.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, linprog, milp, nnls

from fairmix.criteria import Criterion, EachAttribute, SmallestRatio
from fairmix.criteria.bounds import ROUNDING
from fairmix.kernels.totals import Block, FloatArray, IntArray
from fairmix.repair.costs import Costs, smallest
from fairmix.tables import Table

Array = NDArray[np.float64]
Ints = NDArray[np.intp]

# Columns of the first program: rows nearest to a boundary, of all and at least of each group, and
# clusters of each. Enough that most programs need only a round or two more; more of them would take
# longer than the rounds that they save.
NEAR_ROWS, NEAR_OF_GROUP = 1500, 40
NEAR_CLUSTERS = 3
# Rows that get a column in one round at most, and rounds. Each round closes much of what is left,
# and whatever remains is part of the excess that the user sees.
NEW_ROWS = 3000
ROUNDS = 30
# The program is solved when its value is proved this well, as a share of it, and no more rows than
# this are beyond a rule, which is the tolerance of HiGHS.
PROVED, BEYOND = 1e-7, 1e-7
# Price of a row beyond a rule, in units of the scale, and the factor by which it grows while some
# is. It keeps multipliers of the first rounds, which have too few columns, from running away.
PRICE, DEARER, MOST_PRICE = 30.0, 10.0, 1e7
# Rows that an integer program may move from a cluster to another, of each group: the cheapest ones.
# Tried in this order until one meets the rule.
MOVES = (3, 8, 20)
# Columns up to which all rows are decided by it.
FEW_COLUMNS = 600
# An integer program ends when it is this near to the best, as a share of its cost and of what all
# rows cost (a unit of the scale each), or after so many nodes: a count, because seconds would give
# other labels on another machine. Of the cost of k-means this is below a hundredth of a percent.
NEAR_ENOUGH, NODES = 1e-4, 500
# Programs of some clusters, their clusters and moves, and what is left to gain of a row, in units
# of the scale, below which they are not worth their time: about a thousandth of what a row costs.
SOME_ROUNDS, SOME_CLUSTERS, SOME_MOVES, MUCH = 12, 4, 6, 2e-3
# What an integer program takes for met may be missed by its tolerance, in rows.
TOLERANCES = (0.0, 1e-5)


@dataclass(frozen=True, eq=False)
class Part:
    """Groups that are compared with each other, and the rule that they must meet."""

    groups: slice
    criterion: Criterion
    level: float


@dataclass(frozen=True, eq=False)
class Demand:
    """Rules on the rates of groups.

    Attributes
    ----------
    parts : tuple of Part
        One for each attribute.
    matrix : (M, C) array
        One where rows of a code belong to a group.
    sizes, steps : (M,) array
        Weight of each group, and by how much one row moves its rate.
    n_clusters : int
        K.
    """

    parts: tuple[Part, ...]
    matrix: FloatArray
    sizes: FloatArray
    steps: FloatArray
    n_clusters: int

    def allowed(self, multipliers: FloatArray) -> tuple[FloatArray, float]:
        """The nearest multipliers that bound costs from below, and their support.

        The support is the largest ``<multipliers, r>`` of rates that the rules allow.
        """
        out, support = np.empty_like(multipliers), 0.0
        for part in self.parts:
            own = multipliers[part.groups]
            if part.criterion.conic and part.level <= ROUNDING:
                out[part.groups], more = self._allowed_but_one_row(part, own)
                support += more
            elif part.criterion.conic:
                # What a projection to a cone leaves out is in the polar cone, where it is zero.
                out[part.groups] = own - part.criterion.project(own, part.level)
            else:
                out[part.groups] = own = own - own.mean(axis=0)
                support += self._level(part) * _seminorm(part.criterion).support(own)
        return out, support

    def _allowed_but_one_row(self, part: Part, own: FloatArray) -> tuple[FloatArray, float]:
        """The same of a cone that forgives a row: each edge may be missed by the largest one."""
        cone = part.criterion.cone(part.level)
        assert cone is not None
        assert isinstance(part.criterion, SmallestRatio)
        forgiven = _forgiven(cone, self.sizes[part.groups], self.steps[part.groups])
        # What the two groups that differ most are forgiven bounds what any two miss. Edges have
        # length one, so back to the units of the scales of the groups.
        low = cone.argmin(axis=1)
        lengths = part.criterion.scales[low] / -cone[np.arange(len(cone)), low]
        largest = (forgiven * lengths).max() / lengths
        mu = np.column_stack([nnls(cone.T, column)[0] for column in own.T])
        return cone.T @ mu, float(largest @ mu.sum(axis=1))

    def _level(self, part: Part) -> float:
        """The bound on a gap, or what whole rows can resolve where that is more."""
        sizes, steps = self.sizes[part.groups], self.steps[part.groups]
        even = np.full((len(sizes), self.n_clusters), 1 / self.n_clusters)
        return part.criterion.enough(part.level, even, sizes, steps)

    def offsets(self, multipliers: FloatArray) -> FloatArray:
        """What multipliers add to the cost of a row, by its code, (C, K)."""
        return np.asarray(self.matrix.T @ (multipliers / self.sizes[:, None]))

    def excess(self, mass: FloatArray) -> float:
        """How far labels with these weights of groups in clusters, (M, K), are from the rules."""
        rates = mass / self.sizes[:, None]
        beyond = 0.0
        for part in self.parts:
            own, groups = rates[part.groups], part.groups
            enough = part.criterion.enough(part.level, own, self.sizes[groups], self.steps[groups])
            beyond = max(beyond, part.criterion.value(own) - enough)
        return beyond if beyond > ROUNDING else 0.0

    @cached_property
    def exact(self) -> Rules:
        """The rules for parts of rows."""
        return self._rules(whole=False)

    @cached_property
    def whole(self) -> Rules:
        """The rules for whole rows, with what is forgiven them."""
        return self._rules(whole=True)

    def _rules(self, *, whole: bool) -> Rules:
        """Rows of ``<A, mass> + <B, differences> <= b``, in units of rows of the smaller group."""
        found = _Builder(len(self.sizes), self.n_clusters)
        for part in self.parts:
            sizes, steps = self.sizes[part.groups], self.steps[part.groups]
            cone = part.criterion.cone(part.level)
            if cone is None:
                found.gap(part.groups.start or 0, sizes, self._level(part))
            else:
                forgiven: FloatArray = np.zeros(len(cone))
                if whole and part.level <= ROUNDING:
                    forgiven = _forgiven(cone, sizes, steps)
                found.cone(part.groups.start or 0, sizes, cone, forgiven)
        return found.rules()


def _seminorm(criterion: Criterion) -> Any:
    return criterion


def _forgiven(cone: FloatArray, sizes: FloatArray, steps: FloatArray) -> FloatArray:
    """One row of the larger of the two groups of each edge, as in `SmallestRatio.enough`."""
    low, high = cone.argmin(axis=1), cone.argmax(axis=1)
    larger = np.where(sizes[low] > sizes[high], low, high)
    return np.asarray(np.abs(cone[np.arange(len(cone)), larger]) * steps[larger])


class Rules(NamedTuple):
    """``mass @ A.T + differences @ B.T <= bound``; both (rules, ...) sparse."""

    A: Any
    B: Any
    bound: Array

    @property
    def n_differences(self) -> int:
        """Absolute differences between rates."""
        return int(self.B.shape[1])


class _Builder:
    """Collects rules, cluster by cluster."""

    def __init__(self, n_groups: int, n_clusters: int) -> None:
        self.shape = (n_groups, n_clusters)
        self.mass: list[tuple[int, int, float]] = []
        self.differences: list[tuple[int, int, float]] = []
        self.bound: list[float] = []
        self.n_differences = 0

    def _row(self, groups: Any, values: Any, cluster: int, bound: float) -> int:
        row = len(self.bound)
        for group, value in zip(groups, values, strict=True):
            self.mass.append((row, int(group) * self.shape[1] + cluster, float(value)))
        self.bound.append(bound)
        return row

    def cone(self, first: int, sizes: FloatArray, cone: FloatArray, forgiven: FloatArray) -> None:
        """``cone @ rates <= forgiven``."""
        for edge, spare in zip(cone, forgiven, strict=True):
            there = np.flatnonzero(edge)
            unit = sizes[there].min()
            for k in range(self.shape[1]):
                self._row(first + there, edge[there] / sizes[there] * unit, k, spare * unit)

    def gap(self, first: int, sizes: FloatArray, level: float) -> None:
        """Mean of absolute differences between rates at most a level."""
        pairs = list(combinations(range(len(sizes)), 2))
        unit = float(sizes.min())
        for k in range(self.shape[1]):
            numbers = []
            for g, h in pairs:
                values = np.array([1 / sizes[g], -1 / sizes[h]]) * unit
                for sign in (1.0, -1.0):
                    bound = level * unit if len(pairs) == 1 else 0.0
                    row = self._row((first + g, first + h), sign * values, k, bound)
                    if len(pairs) > 1:
                        self.differences.append((row, self.n_differences, -1.0))
                numbers.append(self.n_differences)
                self.n_differences += len(pairs) > 1
            if len(pairs) > 1:
                row = self._row((), (), k, level * unit * len(pairs))
                self.differences += [(row, number, 1.0) for number in numbers]

    def rules(self) -> Rules:
        """All of them."""
        size = len(self.bound)
        n_mass = self.shape[0] * self.shape[1]
        return Rules(
            _matrix(self.mass, (size, n_mass)),
            _matrix(self.differences, (size, self.n_differences)),
            np.array(self.bound),
        )


def _matrix(entries: list[tuple[int, int, float]], shape: tuple[int, int]) -> Any:
    rows, columns, values = np.array(entries, dtype=np.float64).reshape(-1, 3).T
    where = rows.astype(np.intp), columns.astype(np.intp)
    return sparse.coo_array((values, where), shape=shape).tocsr()


# ------------------------------------------------------------------------------------ passes
class Look(NamedTuple):
    """What a pass at some multipliers tells.

    ``labels`` (N,) are the cheapest clusters, ``mass`` (C, K) their weight by code, ``lead`` (N,)
    by how much they are cheaper than the next, ``value`` the sum of their costs with multipliers.
    """

    labels: NDArray[np.int32]
    lead: Array
    mass: FloatArray
    value: float


@dataclass(frozen=True, eq=False)
class Cheapest:
    """The cheapest cluster of each row of a block, given what is added by code, (C, K)."""

    offsets: FloatArray

    def __call__(self, block: Block) -> Look:
        """Of a block."""
        assert block.features.dense is not None
        costs = block.features.dense + self.offsets[block.groups]
        rows = np.arange(len(costs))
        labels = costs.argmin(axis=1)
        best = costs[rows, labels]
        costs[rows, labels] = np.inf
        shape = self.offsets.shape
        cells = block.groups.astype(np.intp) * shape[1] + labels
        mass = np.bincount(cells, block.weight, shape[0] * shape[1]).reshape(shape)
        value = best.sum() if block.weight is None else best @ block.weight
        return Look(
            labels.astype(np.int32), smallest(costs) - best, mass.astype(float), float(value)
        )


class Rowset(NamedTuple):
    """Rows of a table: its passes, and the costs, codes and weights of some rows."""

    table: Table
    costs: Costs
    codes: IntArray
    weight: Array

    def look(self, offsets: FloatArray) -> Look:
        """One pass."""
        parts: Iterator[Look] = self.table.each(Cheapest(offsets))
        labels, lead, mass, value = zip(*parts, strict=True)
        return Look(
            np.concatenate(labels), np.concatenate(lead), np.sum(mass, axis=0), float(sum(value))
        )


# ----------------------------------------------------------------------------------- programs
@dataclass(frozen=True, eq=False)
class Columns:
    """Rows whose label is open, in increasing order, and the clusters that each may have."""

    rows: Ints
    costs: Array
    allowed: NDArray[np.bool_]

    @classmethod
    def of(cls, rowset: Rowset, rows: Ints, allowed: NDArray[np.bool_]) -> Columns:
        """With the costs of the rows."""
        return cls(rows, rowset.costs.take(rows), allowed)

    def widened(self, rowset: Rowset, rows: Ints, allowed: NDArray[np.bool_]) -> Columns:
        """With more rows, or more clusters of them."""
        every = np.union1d(self.rows, rows)
        new = np.setdiff1d(rows, self.rows)
        costs = np.empty((len(every), self.costs.shape[1]))
        marks = np.zeros(costs.shape, dtype=bool)
        at = np.searchsorted(every, self.rows)
        costs[at], marks[at] = self.costs, self.allowed
        costs[np.searchsorted(every, new)] = rowset.costs.take(new)
        marks[np.searchsorted(every, rows)] |= allowed
        return Columns(every, costs, marks)

    def only(self, where: Ints) -> Columns:
        """Some of the rows."""
        return Columns(self.rows[where], self.costs[where], self.allowed[where])


class Solved(NamedTuple):
    """Parts of the open rows in clusters (F, K), multipliers (M, K), and rows beyond the rules."""

    parts: Array
    multipliers: Array
    beyond: float


@dataclass(frozen=True, eq=False)
class Program:
    """The labels of some rows, all others fixed.

    Attributes
    ----------
    demand : Demand
        The rules.
    columns : Columns
        The rows whose labels are open.
    fixed : (M, K) array
        Weight of each group in each cluster, of all other rows.
    codes, weight : (F,) array
        Of the open rows.
    """

    demand: Demand
    columns: Columns
    fixed: FloatArray
    codes: IntArray
    weight: Array

    @classmethod
    def of(
        cls, demand: Demand, rowset: Rowset, columns: Columns, labels: IntArray, mass: FloatArray
    ) -> Program:
        """Of all rows but the open ones with these labels; ``mass`` (M, K) is that of all."""
        rows = columns.rows
        codes, weight = rowset.codes[rows], rowset.weight[rows]
        taken = np.zeros_like(mass)
        np.add.at(taken.T, labels[rows], (demand.matrix[:, codes] * weight).T)
        return cls(demand, columns, mass - taken, codes, weight)

    @cached_property
    def _pairs(self) -> tuple[Ints, Ints]:
        rows, clusters = np.nonzero(self.columns.allowed)
        return rows, clusters

    @cached_property
    def _costs(self) -> Array:
        rows, clusters = self._pairs
        return np.asarray(self.columns.costs[rows, clusters] * self.weight[rows])

    def _equalities(self, n_more: int) -> tuple[Any, Array]:
        """Masses are those of the parts, and the parts of a row add up to one."""
        rows, clusters = self._pairs
        n_mass, n_open, n_parts = self.fixed.size, len(self.columns.rows), len(rows)
        member = self.demand.matrix[:, self.codes[rows]]
        group, column = np.nonzero(member)
        masses = sparse.csr_array(
            (
                self.weight[rows[column]],
                (group * self.demand.n_clusters + clusters[column], column),
            ),
            shape=(n_mass, n_parts),
        )
        ones = sparse.csr_array(
            (np.ones(n_parts), (rows, np.arange(n_parts))), shape=(n_open, n_parts)
        )
        top = sparse.hstack([masses, -sparse.eye_array(n_mass), sparse.csr_array((n_mass, n_more))])
        low = sparse.hstack([ones, sparse.csr_array((n_open, n_mass + n_more))])
        right = np.concatenate([np.zeros(n_mass), np.ones(n_open)])
        return sparse.csr_array(sparse.vstack([top, low])), right

    def _inequalities(self, rules: Rules, *, beyond: bool) -> tuple[Any, Array]:
        n_rules = len(rules.bound)
        blocks = [sparse.csr_array((n_rules, len(self._costs))), rules.A, rules.B]
        if beyond:
            blocks.append(-sparse.eye_array(n_rules))
        return sparse.hstack(blocks).tocsr(), rules.bound - rules.A @ self.fixed.ravel()

    def solve(self, price: float) -> Solved:
        """Parts of rows, with a price for each row beyond a rule."""
        rules = self.demand.exact
        n_rules = len(rules.bound)
        n_more = rules.n_differences + n_rules
        left, right = self._inequalities(rules, beyond=True)
        equal, sums = self._equalities(n_more)
        cost = np.concatenate(
            [self._costs, np.zeros(self.fixed.size + rules.n_differences), np.full(n_rules, price)]
        )
        # Masses are free: a bound of zero would have a price of its own, of clusters in which a
        # group has no open row, and that is no price of a rule.
        bounds: Any = np.tile([0.0, np.inf], (len(cost), 1))
        bounds[len(self._costs) : len(self._costs) + self.fixed.size, 0] = -np.inf
        found = linprog(cost, left, right, equal, sums, bounds=bounds, method="highs")
        if found.x is None:
            raise RuntimeError(f"The linear program of the labels ended with: {found.message}")
        parts = np.zeros(self.columns.costs.shape)
        parts[self._pairs] = found.x[: len(self._costs)]
        prices = -found.eqlin.marginals[: self.fixed.size].reshape(self.fixed.shape)
        return Solved(parts, prices * self.demand.sizes[:, None], float(found.x[-n_rules:].sum()))

    def decide(self, *, tolerance: float, beyond: bool, rest: float) -> IntArray | None:
        """Labels of whole rows, (F,); None where the rules cannot be met.

        ``beyond`` asks for the fewest rows beyond the rules instead, ``rest`` is the cost of all
        other rows.
        """
        rules, n_clusters = self.demand.whole, self.demand.n_clusters
        rows, clusters = self._pairs
        # Counts of each code in each cluster. Rows of a code that count alike are exchanged freely:
        # where the counts are whole, the cheapest parts of rows are whole, too (transportation), so
        # that a few counts are branched on instead of many rows.
        codes, own = np.unique(self.codes, return_inverse=True)
        alike = bool(np.ptp(self.weight) == 0)
        n_parts, n_counts = len(rows), len(codes) * n_clusters
        n_more = rules.n_differences + (len(rules.bound) if beyond else 0)
        weight = self.weight[0] if alike else 1.0
        counted = sparse.csr_array(
            (
                self.weight[rows] / weight,
                (own[rows] * n_clusters + clusters, np.arange(n_parts)),
            ),
            shape=(n_counts, n_parts),
        )
        masses = weight * sparse.kron(self.demand.matrix[:, codes], sparse.eye_array(n_clusters))
        blocks = [sparse.csr_array((len(rules.bound), n_parts)), rules.A @ masses, rules.B]
        if beyond:
            blocks.append(-sparse.eye_array(len(rules.bound)))
        right = rules.bound - rules.A @ self.fixed.ravel() - tolerance
        price = max(float(self._costs.sum()), 1.0)
        cost = np.concatenate(
            [
                self._costs,
                np.zeros(n_counts + rules.n_differences),
                np.full(n_more - rules.n_differences, price),
                # A constant, so that the accuracy is a share of all costs.
                [rest],
            ]
        )
        n_all = len(cost)
        low, high = np.zeros(n_all), np.full(n_all, np.inf)
        high[:n_parts] = 1.0
        low[-1] = high[-1] = 1.0
        integral: Ints = np.zeros(n_all, dtype=np.intp)
        integral[slice(n_parts, n_parts + n_counts) if alike else slice(n_parts)] = 1
        left = sparse.hstack([*blocks, sparse.csr_array((len(right), 1))])
        top = sparse.hstack(
            [counted, -sparse.eye_array(n_counts), sparse.csr_array((n_counts, n_more + 1))]
        )
        n_open = len(self.columns.rows)
        each = sparse.csr_array(
            (np.ones(n_parts), (rows, np.arange(n_parts))), shape=(n_open, n_all)
        )
        sums = np.concatenate([np.zeros(n_counts), np.ones(n_open)])
        found = milp(
            cost,
            integrality=integral,
            bounds=Bounds(low, high),
            constraints=[
                LinearConstraint(left, -np.inf, right),
                LinearConstraint(sparse.vstack([top, each]), sums, sums),
            ],
            options={"mip_rel_gap": NEAR_ENOUGH, "node_limit": NODES},
        )
        if found.x is None:
            return None
        parts = np.zeros(self.columns.costs.shape)
        parts[self._pairs] = found.x[:n_parts]
        return np.asarray(parts.argmax(axis=1))


# ------------------------------------------------------------------------------------ the search
@dataclass(frozen=True, eq=False)
class Best:
    """Labels (N,), their multipliers (M, K) and a bound on the cost of any labels, both scaled."""

    labels: NDArray[np.int32]
    multipliers: FloatArray
    lower_bound: float


class Pricing:
    """Labels that meet rules at the least cost.

    Parameters
    ----------
    demand : Demand
        The rules.
    rowset : Rowset
        The rows.
    """

    def __init__(self, demand: Demand, rowset: Rowset) -> None:
        self.demand, self.rowset = demand, rowset
        self.proved = -np.inf
        self.multipliers: FloatArray = np.zeros((len(demand.sizes), demand.n_clusters))

    def look(self, multipliers: FloatArray) -> Look:
        """A pass at multipliers, and what it proves."""
        allowed, support = self.demand.allowed(multipliers)
        found = self.rowset.look(self.demand.offsets(allowed))
        if found.value - support > self.proved:
            self.proved, self.multipliers = found.value - support, allowed
        return found

    def run(self, multipliers: FloatArray) -> Best:
        """From multipliers that may be far from the best ones."""
        look = self.look(multipliers)
        mass = self._mass(look)
        if not np.any(multipliers) and self.demand.excess(mass) == 0:
            # The cheapest clusters meet the rules, and nothing costs less.
            return Best(look.labels, self.multipliers, self.proved)
        labels = look.labels
        columns, solved = self._columns(look, mass)
        labels = self._whole(labels, mass, columns, solved)
        idle = self.rowset.weight == 0
        if idle.any():
            # They count for nothing, and get what others of their group at their place have.
            labels[idle] = self.look(self.multipliers).labels[idle]
        return Best(labels, self.multipliers, self.proved)

    @property
    def _units(self) -> float:
        """A unit of the scale for each row."""
        return float(self.rowset.weight.sum())

    def _mass(self, look: Look) -> FloatArray:
        return np.asarray(self.demand.matrix @ look.mass)

    def _nearest(self, lead: Array, most: int, of_code: int) -> Ints:
        """Rows with the smallest lead: of all, and some of each code."""
        picked = [np.argsort(lead, kind="stable")[:most]] if len(lead) <= most else []
        if not picked:
            picked.append(np.argpartition(lead, most)[:most])
            for code in np.unique(self.rowset.codes):
                own = np.flatnonzero(self.rowset.codes == code)
                few = min(of_code, len(own) - 1)
                picked.append(own[np.argpartition(lead[own], few)[: few + 1]])
        # Rows without weight count for nothing.
        found = np.unique(np.concatenate(picked))
        return found[self.rowset.weight[found] > 0]

    def _candidates(self, rows: Ints, multipliers: FloatArray) -> Columns:
        """The cheapest few clusters of rows."""
        columns = Columns.of(self.rowset, rows, np.ones((len(rows), self.demand.n_clusters), bool))
        few = min(NEAR_CLUSTERS, self.demand.n_clusters)
        costs = columns.costs + self.demand.offsets(multipliers)[self.rowset.codes[rows]]
        limit = np.partition(costs, few - 1, axis=1)[:, few - 1]
        return replace(columns, allowed=costs <= limit[:, None])

    def _columns(self, look: Look, mass: FloatArray) -> tuple[Columns, Solved]:
        """Columns that suffice, and the parts of rows that are best."""
        labels = look.labels
        columns = self._candidates(
            self._nearest(look.lead, NEAR_ROWS, NEAR_OF_GROUP), self.multipliers
        )
        # A row may keep its label, whatever else it may have.
        columns.allowed[np.arange(len(columns.rows)), labels[columns.rows]] = True
        price = PRICE
        for _ in range(ROUNDS):
            program = Program.of(self.demand, self.rowset, columns, labels, mass)
            solved = program.solve(price)
            look = self.look(solved.multipliers)
            within = solved.beyond <= BEYOND
            value = self._value(columns, labels, solved)
            if within and value - self.proved <= PROVED * max(abs(value), 1.0):
                break
            rows, allowed = self._wider(columns, labels, look)
            if len(rows):
                columns = columns.widened(self.rowset, rows, allowed)
            elif within or price >= MOST_PRICE:
                break
            else:
                price *= DEARER
        return columns, solved

    def _value(self, columns: Columns, labels: IntArray, solved: Solved) -> float:
        """Cost of the program's labels, of all rows."""
        open_cost = (columns.costs * solved.parts).sum(axis=1) @ self.rowset.weight[columns.rows]
        return float(open_cost + self._cost(labels, columns.rows))

    def _cost(self, labels: IntArray, but: Ints) -> float:
        """Scaled cost of labels, but of some rows."""
        start, total = 0, 0.0
        skip = np.zeros(len(labels), dtype=bool)
        skip[but] = True
        parts: Iterator[Any] = self.rowset.table.each(lambda block: block.features.dense)
        for costs in parts:
            part = slice(start, start + len(costs))
            own = costs[np.arange(len(costs)), labels[part]]
            weight = np.where(skip[part], 0.0, self.rowset.weight[part])
            total += float(own @ weight)
            start += len(costs)
        return total

    def _wider(
        self, columns: Columns, labels: IntArray, look: Look
    ) -> tuple[Ints, NDArray[np.bool_]]:
        """Rows whose cheapest label has no column yet, and their columns."""
        known = np.zeros(len(labels), dtype=bool)
        at = columns.rows
        known[at] = columns.allowed[np.arange(len(at)), look.labels[at]]
        rest = np.ones(len(labels), dtype=bool)
        rest[at] = False
        known[rest] = look.labels[rest] == labels[rest]
        missing = np.flatnonzero(~known & (self.rowset.weight > 0))
        if len(missing) > NEW_ROWS:
            # Those that gain most.
            missing = missing[np.argsort(-look.lead[missing], kind="stable")[:NEW_ROWS]]
            missing.sort()
        allowed = np.zeros((len(missing), self.demand.n_clusters), dtype=bool)
        each = np.arange(len(missing))
        allowed[each, look.labels[missing]] = True
        allowed[each, labels[missing]] = True
        return missing, allowed

    def _whole(
        self, labels: NDArray[np.int32], mass: FloatArray, columns: Columns, solved: Solved
    ) -> NDArray[np.int32]:
        """Labels of whole rows near parts of rows."""
        labels = labels.copy()
        divided = columns.rows[solved.parts.max(axis=1) < 1 - 1e-6]
        labels[columns.rows] = solved.parts.argmax(axis=1)
        mass = self._mass_of(labels)
        if not len(divided) and self.demand.excess(mass) == 0:
            return labels
        few = len(labels) * self.demand.n_clusters <= FEW_COLUMNS
        for most in MOVES:
            if few:
                rows = np.flatnonzero(self.rowset.weight > 0)
                every = np.ones((len(rows), self.demand.n_clusters), dtype=bool)
                chosen = Columns.of(self.rowset, rows, every)
            else:
                chosen = self._moves(columns, labels, most)
                rows = chosen.rows
            program = Program.of(self.demand, self.rowset, chosen, labels, mass)
            rest = self._cost(labels, rows) + self._units
            for tolerance in TOLERANCES:
                found = program.decide(tolerance=tolerance, beyond=False, rest=rest)
                if found is None:
                    break
                new = labels.copy()
                new[rows] = found
                if self.demand.excess(self._mass_of(new)) == 0:
                    return self._improved(new, columns)
            if few:
                break
        found = program.decide(tolerance=0.0, beyond=True, rest=rest)
        if found is not None:
            labels[rows] = found
        return labels

    def _improved(self, labels: NDArray[np.int32], columns: Columns) -> NDArray[np.int32]:
        """Labels after integer programs of a few clusters each, as long as there is much to gain.

        Of many counts, one program of all clusters ends by its nodes far from the best; one of four
        clusters is solved.
        """
        n_clusters, rng = self.demand.n_clusters, np.random.default_rng(0)
        much = MUCH * self._units
        mass, cost = self._mass_of(labels), self._cost(labels, np.zeros(0, dtype=np.intp))
        for _ in range(SOME_ROUNDS):
            if n_clusters <= SOME_CLUSTERS or cost - self.proved <= much:
                break
            some = np.zeros(n_clusters, dtype=bool)
            some[rng.choice(n_clusters, SOME_CLUSTERS, replace=False)] = True
            chosen = self._moves(columns, labels, SOME_MOVES, some)
            program = Program.of(self.demand, self.rowset, chosen, labels, mass)
            rest = self._cost(labels, chosen.rows) + self._units
            found = program.decide(tolerance=0.0, beyond=False, rest=rest)
            if found is None:
                continue
            new = labels.copy()
            new[chosen.rows] = found
            new_mass, new_cost = self._mass_of(new), self._cost(new, np.zeros(0, dtype=np.intp))
            if new_cost < cost and self.demand.excess(new_mass) == 0:
                labels, mass, cost = new, new_mass, new_cost
        return labels

    def _moves(
        self,
        columns: Columns,
        labels: IntArray,
        most: int,
        some: NDArray[np.bool_] | None = None,
    ) -> Columns:
        """The cheapest moves of rows of each code from each cluster to each other one, or of some.

        ``some`` (K,) are the clusters that rows may leave and enter.
        """
        own, each = labels[columns.rows], np.arange(len(columns.rows))
        codes = self.rowset.codes[columns.rows]
        costs = columns.costs + self.demand.offsets(self.multipliers)[codes]
        dearer = costs - costs[each, own][:, None]
        cells = codes.astype(np.intp) * self.demand.n_clusters + own
        allowed = np.zeros(costs.shape, dtype=bool)
        for k in range(self.demand.n_clusters):
            order = np.lexsort((dearer[:, k], cells))
            _, first, sizes = np.unique(cells[order], return_index=True, return_counts=True)
            # The place of each row among those of its cell.
            place = np.arange(len(order)) - np.repeat(first, sizes)
            allowed[order[place < most], k] = True
        if some is not None:
            allowed[~some[own]] = False
            allowed[:, ~some] = False
        allowed[each, own] = True
        open_rows = np.flatnonzero(allowed.sum(axis=1) > 1)
        return replace(columns, allowed=allowed).only(open_rows)

    def _mass_of(self, labels: IntArray) -> FloatArray:
        n_codes, n_clusters = self.demand.matrix.shape[1], self.demand.n_clusters
        cells = self.rowset.codes.astype(np.intp) * n_clusters + labels
        counts = np.bincount(cells, self.rowset.weight, n_codes * n_clusters)
        return np.asarray(self.demand.matrix @ counts.reshape(n_codes, n_clusters))


def parts_of(criterion: Criterion, level: float) -> tuple[Part, ...]:
    """The rules of a criterion, one for each attribute."""
    if not isinstance(criterion, EachAttribute):
        return (Part(slice(0, None), criterion, level),)
    return tuple(Part(part.groups, part.criterion, part.bound(level)) for part in criterion.parts)
