"""The linear program of the best labels: rules on masses, passes over rows, some open columns.

`pricing` finds the columns that it needs, and `whole` makes whole rows of its parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import linprog, nnls

from fairmix.criteria import Criterion, EachAttribute, SmallestRatio, forgiven_rows
from fairmix.criteria.bounds import ROUNDING
from fairmix.kernels.totals import Block, FloatArray, IntArray
from fairmix.repair.costs import Costs, smallest
from fairmix.tables import Table

Array = NDArray[np.float64]
Ints = NDArray[np.intp]


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
        # Groups without a rule, as a single one, have no price.
        out, support = np.zeros_like(multipliers), 0.0
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
                support += self.level(part) * _seminorm(part.criterion).support(own)
        return out, support

    def _allowed_but_one_row(self, part: Part, own: FloatArray) -> tuple[FloatArray, float]:
        """The same of a cone that forgives a row: each edge may be missed by the largest one."""
        cone = part.criterion.cone(part.level)
        assert cone is not None
        assert isinstance(part.criterion, SmallestRatio)
        forgiven = forgiven_rows(cone, self.sizes[part.groups], self.steps[part.groups])
        # What the two groups that differ most are forgiven bounds what any two miss. Edges have
        # length one, so back to the units of the scales of the groups.
        low = cone.argmin(axis=1)
        lengths = part.criterion.scales[low] / -cone[np.arange(len(cone)), low]
        largest = (forgiven * lengths).max() / lengths
        mu = np.column_stack([nnls(cone.T, column)[0] for column in own.T])
        return cone.T @ mu, float(largest @ mu.sum(axis=1))

    def level(self, part: Part) -> float:
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
        """All rules, for parts of rows."""
        return self.rules(self.parts, whole=False)

    def rules(self, parts: Sequence[Part], *, whole: bool) -> Rules:
        """Rows of ``<A, mass> + <B, differences> <= b``, in units of rows of the smaller group.

        For ``whole`` rows with what is forgiven them.
        """
        found = _Builder(len(self.sizes), self.n_clusters)
        for part in parts:
            sizes, steps = self.sizes[part.groups], self.steps[part.groups]
            cone = part.criterion.cone(part.level)
            if cone is None:
                found.gap(part.groups.start or 0, sizes, self.level(part))
            else:
                forgiven: FloatArray = np.zeros(len(cone))
                if whole and part.level <= ROUNDING:
                    forgiven = forgiven_rows(cone, sizes, steps)
                found.cone(part.groups.start or 0, sizes, cone, forgiven)
        return found.rules()


def _seminorm(criterion: Criterion) -> Any:
    return criterion


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

    def mass(self, demand: Demand, labels: IntArray) -> FloatArray:
        """Weight of each group in each cluster, (M, K)."""
        n_codes, n_clusters = demand.matrix.shape[1], demand.n_clusters
        cells = self.codes.astype(np.intp) * n_clusters + labels
        counts = np.bincount(cells, self.weight, n_codes * n_clusters)
        return np.asarray(demand.matrix @ counts.reshape(n_codes, n_clusters))

    def cost(self, labels: IntArray, but: Ints | None = None) -> float:
        """Scaled cost of labels, but of some rows."""
        start, total = 0, 0.0
        weight = self.weight if but is None else self.weight.copy()
        if but is not None:
            weight[but] = 0.0
        parts: Iterator[Any] = self.table.each(lambda block: block.features.dense)
        for costs in parts:
            part = slice(start, start + len(costs))
            total += float(costs[np.arange(len(costs)), labels[part]] @ weight[part])
            start += len(costs)
        return total


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
    def pairs(self) -> tuple[Ints, Ints]:
        """Open rows and clusters that they may have, one pair for each column."""
        rows, clusters = np.nonzero(self.columns.allowed)
        return rows, clusters

    @cached_property
    def costs(self) -> Array:
        """What each column costs."""
        rows, clusters = self.pairs
        return np.asarray(self.columns.costs[rows, clusters] * self.weight[rows])

    def _equalities(self, n_more: int) -> tuple[Any, Array]:
        """Masses are those of the parts, and the parts of a row add up to one."""
        rows, clusters = self.pairs
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
        blocks = [sparse.csr_array((n_rules, len(self.costs))), rules.A, rules.B]
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
            [self.costs, np.zeros(self.fixed.size + rules.n_differences), np.full(n_rules, price)]
        )
        # Masses are free: a bound of zero would have a price of its own, of clusters in which a
        # group has no open row, and that is no price of a rule.
        bounds: Any = np.tile([0.0, np.inf], (len(cost), 1))
        bounds[len(self.costs) : len(self.costs) + self.fixed.size, 0] = -np.inf
        found = linprog(cost, left, right, equal, sums, bounds=bounds, method="highs")
        if found.x is None:
            raise RuntimeError(f"The linear program of the labels ended with: {found.message}")
        parts = np.zeros(self.columns.costs.shape)
        parts[self.pairs] = found.x[: len(self.costs)]
        prices = -found.eqlin.marginals[: self.fixed.size].reshape(self.fixed.shape)
        return Solved(parts, prices * self.demand.sizes[:, None], float(found.x[-n_rules:].sum()))


def parts_of(criterion: Criterion, level: float) -> tuple[Part, ...]:
    """The rules of a criterion, one for each attribute."""
    if not isinstance(criterion, EachAttribute):
        return (Part(slice(0, None), criterion, level),)
    return tuple(Part(part.groups, part.criterion, part.bound(level)) for part in criterion.parts)
