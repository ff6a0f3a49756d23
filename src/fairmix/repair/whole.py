"""Labels of whole rows near the best parts of rows, by integer programs.

Rows of a group that count alike are exchanged freely: where the counts of groups in clusters are
whole, the cheapest parts of rows are whole, too, as in any transportation problem. So a few counts
are branched on instead of many rows.

Under a ratio even that is not needed. With the largest scaled count t of a cluster known, each
group has a window of its own, from ``rho t`` to ``t``, and whole rows are at least the lower end
rounded up and at most the upper end rounded down. One of these windows is chosen for each cluster.
A mixture of them is a much better bound than parts of rows are, so that most such programs are
solved at the root, where counts end by their nodes far from a proof.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp

from fairmix.criteria import SmallestRatio
from fairmix.criteria.bounds import ROUNDING
from fairmix.kernels.totals import FloatArray, IntArray
from fairmix.repair.program import Array, Columns, Demand, Ints, Program, Rowset, Solved

# Rows that an integer program may move from a cluster to another, of each group: the cheapest ones.
# Tried in this order until one meets the rule.
MOVES = (3, 8, 20)
# Windows of a cluster for each such row, those nearest to where the parts of rows are: enough for
# clusters of 20 rows of a group, where whole rows cost most, and few enough for any table.
LEVELS = 16
# Ends of windows are counts, up to this rounding.
WHOLE = 1e-9
# Columns up to which all rows are decided by it.
FEW_COLUMNS = 600
# An integer program ends when it is this near to the best, as a share of its cost and of what all
# rows cost (a unit of the scale each); one of windows, whose last share takes most of its time, at
# a tenth of the 0.3 % that whole rows may cost. Or after so many nodes, fewer where a node has many
# columns and takes long: a count, because seconds would give other labels on another machine.
NEAR_ENOUGH, NEAR_OF_WINDOWS, NODES, NODE_COLUMNS = 1e-4, 3e-4, 40, 30_000
# Programs of some clusters, their clusters and moves, and what is left to gain of a row, in units
# of the scale, below which they are not worth their time: about a thousandth of what a row costs.
SOME_ROUNDS, SOME_CLUSTERS, SOME_MOVES, MUCH = 8, 4, 6, 2e-3
# What an integer program takes for met may be missed by its tolerance, in rows.
TOLERANCES = (0.0, 1e-5)


class Near(NamedTuple):
    """Masses (M, K) that whole rows should have about, and clusters (K,) that must not be empty."""

    mass: FloatArray
    filled: NDArray[np.bool_]


class Windows(NamedTuple):
    """Counts of groups in ``clusters`` (Z,), from ``low`` to ``high`` (Z, M)."""

    clusters: Ints
    low: Array
    high: Array

    @classmethod
    def of(cls, demand: Demand, near: Near, weight: float, most: int) -> Windows:
        """The ``most`` ones of each cluster around some masses, or fewer; of rows of a weight."""
        (part,) = demand.parts
        assert isinstance(part.criterion, SmallestRatio)
        # What a row adds to the scaled rate of its group.
        unit = part.criterion.scales / demand.sizes * weight
        rho = part.criterion.least(part.level)
        counts = near.mass / weight
        clusters, low, high = [], [], []
        for k, top in enumerate((counts * unit[:, None]).max(axis=0)):
            first = np.maximum(np.floor(top / unit) - most, 0.0)
            levels = np.unique((first[:, None] + np.arange(2 * most + 2)) * unit[:, None])
            levels = np.sort(levels[np.argsort(np.abs(levels - top), kind="stable")[:most]])
            bottom = np.ceil(rho * levels[:, None] / unit - WHOLE)
            roof = np.floor(levels[:, None] / unit + WHOLE)
            fits = (bottom <= roof).all(axis=1)
            if near.filled[k]:
                fits &= levels > 0
            keep = _largest(bottom[fits], roof[fits])
            clusters.append(np.full(keep.sum(), k))
            low.append(bottom[fits][keep])
            high.append(roof[fits][keep])
        return cls(np.concatenate(clusters), np.vstack(low), np.vstack(high))

    def ends(self, values: Array, n_clusters: int) -> Any:
        """An end of the windows as a matrix from the choice of windows to counts, (M * K, Z)."""
        n_windows, n_groups = values.shape
        cells = np.arange(n_groups) * n_clusters + self.clusters[:, None]
        choices = np.repeat(np.arange(n_windows), n_groups)
        shape = (n_groups * n_clusters, n_windows)
        return sparse.csr_array((values.ravel(), (cells.ravel(), choices)), shape=shape)


def _largest(low: Array, high: Array) -> NDArray[np.bool_]:
    """Windows that lie in no other one; of equal ones the first."""
    inside = ((low[:, None] >= low) & (high[:, None] <= high)).all(axis=2)
    first = np.tri(len(low), k=-1, dtype=bool)
    return np.asarray(~(inside & (~inside.T | first)).any(axis=1))


class Decided(NamedTuple):
    """Labels of the open rows (F,) or of all, and whether the integer program was solved."""

    labels: NDArray[np.int32]
    solved: bool


@dataclass(frozen=True, eq=False)
class Decision:
    """An integer program of the open rows of a program.

    Attributes
    ----------
    program : Program
        Rows whose labels are open.
    windows : Windows or None
        Instead of rules on counts.
    filled : (K,) bool array
        Clusters that must not be empty.
    alike : bool
        Whether all rows have the same weight.
    """

    program: Program
    windows: Windows | None
    filled: NDArray[np.bool_]
    alike: bool

    def run(self, *, tolerance: float, beyond: bool, rest: float) -> Decided | None:
        """Labels of whole rows; None where the rules cannot be met.

        ``beyond`` asks for the fewest rows beyond the rules instead, ``rest`` is the cost of all
        other rows.
        """
        program, demand = self.program, self.program.demand
        n_clusters, n_open = demand.n_clusters, len(program.columns.rows)
        rows, clusters = program.pairs
        weight = program.weight[0] if self.alike else 1.0
        codes, own = np.unique(program.codes, return_inverse=True)
        n_parts, n_counts = len(rows), len(codes) * n_clusters
        windows = self.windows
        rules = demand.rules(demand.parts if windows is None else (), whole=True)
        counted = sparse.csr_array(
            (
                program.weight[rows] / weight,
                (own[rows] * n_clusters + clusters, np.arange(n_parts)),
            ),
            shape=(n_counts, n_parts),
        )
        each = sparse.csr_array(
            (np.ones(n_parts), (rows, np.arange(n_parts))), shape=(n_open, n_parts)
        )
        masses = weight * sparse.kron(demand.matrix[:, codes], sparse.eye_array(n_clusters))
        limits = rules.bound - rules.A @ program.fixed.ravel() - tolerance
        missed = -sparse.eye_array(len(limits)) if beyond else sparse.csr_array((len(limits), 0))
        none = np.full(len(limits), -np.inf)
        # A row of each cluster that must not be empty.
        total = sparse.kron(np.ones((1, len(codes))), sparse.eye_array(n_clusters)).tocsr()
        inside = np.where(self.filled & (program.fixed.sum(axis=0) == 0), 1.0, 0.0)
        n_windows = 0 if windows is None else len(windows.clusters)
        # Parts, counts, differences, rows beyond, choices of windows, and a constant.
        sizes = [n_parts, n_counts, rules.n_differences, missed.shape[1], n_windows, 1]
        ends = np.cumsum([0, *sizes])
        left: list[list[Any]] = [
            [counted, -sparse.eye_array(n_counts), None, None, None, None],
            [each, None, None, None, None, sparse.csr_array((n_open, 1))],
            [
                None,
                rules.A @ masses,
                rules.B,
                missed,
                sparse.csr_array((len(limits), n_windows)),
                None,
            ],
            [None, total, None, None, None, None],
        ]
        low = [np.zeros(n_counts), np.ones(n_open), none, inside]
        high = [np.zeros(n_counts), np.ones(n_open), limits, np.full(n_clusters, np.inf)]
        if windows is not None:
            mine, fixed = masses / weight, program.fixed.ravel() / weight
            chosen = np.ones(n_windows), (windows.clusters, np.arange(n_windows))
            one = sparse.csr_array(chosen, shape=(n_clusters, n_windows))
            left += [
                [None, mine, None, None, -windows.ends(windows.high, n_clusters), None],
                [None, mine, None, None, -windows.ends(windows.low, n_clusters), None],
                [None, None, None, None, one, None],
            ]
            open_end = np.full(len(fixed), np.inf)
            low += [-open_end, -fixed, np.ones(n_clusters)]
            high += [-fixed, open_end, np.ones(n_clusters)]
        cost, top, integral = np.zeros(ends[-1]), np.full(ends[-1], np.inf), np.zeros(ends[-1])
        cost[:n_parts], top[:n_parts] = program.costs, 1.0
        cost[ends[3] : ends[4]] = max(float(program.costs.sum()), 1.0)
        # A constant, so that the accuracy is a share of all costs.
        cost[-1] = rest
        bottom = np.zeros(ends[-1])
        bottom[-1] = top[-1] = 1.0
        branched = slice(n_parts) if not self.alike else slice(ends[1], ends[2])
        integral[branched if windows is None else slice(ends[4], ends[5])] = 1
        found = milp(
            cost,
            integrality=integral,
            bounds=Bounds(bottom, top),
            constraints=LinearConstraint(
                sparse.block_array(left, format="csr"), np.concatenate(low), np.concatenate(high)
            ),
            options={
                "mip_rel_gap": NEAR_ENOUGH if windows is None else NEAR_OF_WINDOWS,
                "node_limit": min(NODES, max(1, NODE_COLUMNS // len(cost))),
            },
        )
        if found.x is None:
            return None
        parts = np.zeros(program.columns.costs.shape)
        parts[program.pairs] = found.x[:n_parts]
        return Decided(parts.argmax(axis=1).astype(np.int32), found.status == 0)


@dataclass(frozen=True, eq=False)
class Whole:
    """Whole rows where a linear program has parts.

    Attributes
    ----------
    demand : Demand
        The rules.
    rowset : Rowset
        The rows.
    multipliers : (M, K) array
        Of the linear program.
    proved : float
        Its value.
    """

    demand: Demand
    rowset: Rowset
    multipliers: FloatArray
    proved: float

    def run(self, labels: NDArray[np.int32], columns: Columns, solved: Solved) -> NDArray[np.int32]:
        """Labels near the parts of the open rows, from labels of all others."""
        labels = labels.copy()
        labels[columns.rows] = solved.parts.argmax(axis=1)
        mass = self.rowset.mass(self.demand, labels)
        if solved.parts.max(axis=1).min(initial=1.0) >= 1 - 1e-6 and self.demand.excess(mass) == 0:
            return labels
        parts = mass + self._change(columns, solved.parts)
        # What parts of rows fill, with a row or more, whole rows must not empty.
        filled = parts.sum(axis=0) > len(self.demand.parts) * self._row
        if len(labels) * self.demand.n_clusters <= FEW_COLUMNS:
            # So few rows cannot always fill a cluster, but all of them can be decided at once.
            rows = np.flatnonzero(self.rowset.weight > 0)
            every = np.ones((len(rows), self.demand.n_clusters), dtype=bool)
            chosen, none = Columns.of(self.rowset, rows, every), np.zeros_like(filled)
            tries = [(chosen, Near(parts, none), len(labels))]
        else:
            moves = [(self._moves(columns, labels, most), LEVELS * most) for most in MOVES]
            tries = [(chosen, Near(parts, filled), levels) for chosen, levels in moves]
            tries.append((moves[-1][0], Near(parts, np.zeros_like(filled)), moves[-1][1]))
        for chosen, near, levels in tries:
            program = Program.of(self.demand, self.rowset, chosen, labels, mass)
            decision = self._decision(program, near, levels)
            for tolerance in TOLERANCES:
                found = self._decided(decision, labels, tolerance=tolerance)
                if found is None:
                    break
                if self.demand.excess(self.rowset.mass(self.demand, found.labels)) == 0:
                    return self._improved(found, columns, near.filled)
        # Nothing meets the rules: the fewest rows beyond them, without windows.
        missed = Decision(program, None, near.filled, decision.alike)
        found = self._decided(missed, labels, beyond=True)
        return labels if found is None else found.labels

    def _decided(
        self,
        decision: Decision,
        labels: NDArray[np.int32],
        *,
        tolerance: float = 0.0,
        beyond: bool = False,
    ) -> Decided | None:
        """Labels of all rows, where the open ones have new ones."""
        rows = decision.program.columns.rows
        rest = self.rowset.cost(labels, rows) + self._units
        found = decision.run(tolerance=tolerance, beyond=beyond, rest=rest)
        if found is None:
            return None
        new = labels.copy()
        new[rows] = found.labels
        return Decided(new, found.solved)

    def _decision(self, program: Program, near: Near, levels: int) -> Decision:
        alike = len(np.unique(self.rowset.weight[self.rowset.weight > 0])) == 1
        part, *others = self.demand.parts
        # A row that is forgiven (level 0) depends on two groups, not on a level. And windows of
        # several attributes would not make the counts of their cells whole.
        ratio = part.criterion.conic and part.level > ROUNDING and not others
        windows = Windows.of(self.demand, near, self._row, levels) if alike and ratio else None
        return Decision(program, windows, near.filled, alike)

    @property
    def _row(self) -> float:
        """Weight of a row, as they are on average."""
        weight = self.rowset.weight
        return float(weight[weight > 0].mean())

    @property
    def _units(self) -> float:
        """A unit of the scale for each row."""
        return float(self.rowset.weight.sum())

    def _change(self, columns: Columns, parts: Array) -> FloatArray:
        """Masses of parts of rows, less those of their largest ones, (M, K)."""
        more = parts.copy()
        more[np.arange(len(parts)), parts.argmax(axis=1)] -= 1.0
        member = self.demand.matrix[:, self.rowset.codes[columns.rows]]
        return np.asarray((member * self.rowset.weight[columns.rows]) @ more)

    def _improved(
        self, found: Decided, columns: Columns, filled: NDArray[np.bool_]
    ) -> NDArray[np.int32]:
        """Labels after integer programs of a few clusters each, as long as there is much to gain.

        Of many counts, one program of all clusters ends by its nodes far from the best; one of four
        clusters is solved.
        """
        labels = found.labels
        n_clusters, rng = self.demand.n_clusters, np.random.default_rng(0)
        if found.solved or n_clusters <= SOME_CLUSTERS:
            return labels
        mass, cost = self.rowset.mass(self.demand, labels), self.rowset.cost(labels)
        for _ in range(SOME_ROUNDS):
            if cost - self.proved <= MUCH * self._units:
                break
            some = np.zeros(n_clusters, dtype=bool)
            some[rng.choice(n_clusters, SOME_CLUSTERS, replace=False)] = True
            chosen = self._moves(columns, labels, SOME_MOVES, some)
            program = Program.of(self.demand, self.rowset, chosen, labels, mass)
            decision = self._decision(program, Near(mass, filled), LEVELS * SOME_MOVES)
            new = self._decided(decision, labels)
            if new is None:
                continue
            new_mass = self.rowset.mass(self.demand, new.labels)
            new_cost = self.rowset.cost(new.labels)
            if new_cost < cost and self.demand.excess(new_mass) == 0:
                labels, mass, cost = new.labels, new_mass, new_cost
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
