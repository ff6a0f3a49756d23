"""Labels of whole rows near the best parts of rows, by integer programs.

Rows of a group that count alike are exchanged freely, and one box of whole counts is chosen for
each cluster (`boxes`). Where rows have weights of their own, or no box is found, counts or rows are
branched on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations, cycle, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp

from fairmix.criteria.bounds import ROUNDING
from fairmix.kernels.totals import FloatArray, IntArray
from fairmix.repair.boxes import BEYOND, KEPT, NEARER, Choice, Menu, Near, Prices
from fairmix.repair.program import Array, Columns, Demand, Ints, Program, Rowset, Solved

# Rows that an integer program may move from a cluster to another, of each group: the cheapest ones.
# Tried in this order until one meets the rule.
MOVES = (3, 8, 20)
# The same of a program of boxes, and how often it begins anew where its mixture is.
BOX_MOVES, CENTRES = 4, 4
# Columns up to which all rows may move, not only those that the linear program had open; and up to
# which all rows are decided at once.
ALL_COLUMNS, FEW_COLUMNS = 40_000, 600
# An integer program ends when it is this near to the best, as a share of its cost and of what all
# rows cost (a unit of the scale each). Or after so many nodes, fewer where a node has many columns
# and takes long: a count, because seconds would give other labels on another machine.
NEAR_ENOUGH, NODES, NODE_COLUMNS = 1e-4, 40, 30_000
# What is left to gain of a row, in units of the scale, below which it is not worth a program.
MUCH = 1e-5
# What an integer program takes for met may be missed by its tolerance, in rows.
TOLERANCES = (0.0, 1e-5)


# A program of boxes has no moves that cost more than this beyond the multipliers, in units of the
# scale. Those of good labels cost 0.4 at most in the hardest problems that were looked at, and two
# attributes have twice as many columns without the limit, and take twice as long. Where nothing is
# found with it, there is none.
DEAREST = (0.5, np.inf)
# What must be left to gain, as a share of what all rows cost, for pairs of clusters to exchange
# rows while all others stay; boxes of each and moves of rows, as many as take about a tenth of a
# second; and pairs at most.
MUCH_LEFT, PAIR_BOXES, PAIR_MOVES, MOST_PAIRS = 5e-4, 30, 6, 60
# How far labels are above the linear program, as a share of what all rows cost, where all clusters
# are decided once more together (0.3 % of the costs were 0.38 % of this or more), and the least
# gain that is looked for: a smaller one takes longer to rule out than it is worth.
FAR, WORTH = 3e-3, 1e-4
# What moves cost at most beyond the multipliers, and boxes of each attribute, in the first of these
# programs and in the second: the first mostly finds what there is, but whole rows of a small group
# may need moves that cost more, which take longer, so fewer boxes. 40 boxes take twice as long and
# end 0.005 % lower. And nodes.
LOOKS, LOOK_NODES = ((0.15, 25), (0.6, 10)), 500


@dataclass(frozen=True, eq=False)
class Decision:
    """An integer program of the open rows of a program.

    Attributes
    ----------
    program : Program
        Rows whose labels are open.
    filled : (K,) bool array
        Clusters that must not be empty.
    alike : bool
        Whether all rows have the same weight.
    """

    program: Program
    filled: NDArray[np.bool_]
    alike: bool

    def run(self, *, tolerance: float, beyond: bool, rest: float) -> NDArray[np.int32] | None:
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
        rules = demand.rules(demand.parts, whole=True)
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
        # Parts, counts, differences, rows beyond, and a constant.
        sizes = [n_parts, n_counts, rules.n_differences, missed.shape[1], 1]
        ends = np.cumsum([0, *sizes])
        left: list[list[Any]] = [
            [counted, -sparse.eye_array(n_counts), None, None, None],
            [each, None, None, None, sparse.csr_array((n_open, 1))],
            [None, rules.A @ masses, rules.B, missed, None],
            [None, total, None, None, None],
        ]
        low = [np.zeros(n_counts), np.ones(n_open), none, inside]
        high = [np.zeros(n_counts), np.ones(n_open), limits, np.full(n_clusters, np.inf)]
        cost, top, integral = np.zeros(ends[-1]), np.full(ends[-1], np.inf), np.zeros(ends[-1])
        cost[:n_parts], top[:n_parts] = program.costs, 1.0
        cost[ends[3] : ends[4]] = max(float(program.costs.sum()), 1.0)
        # A constant, so that the accuracy is a share of all costs.
        cost[-1] = rest
        bottom = np.zeros(ends[-1])
        bottom[-1] = top[-1] = 1.0
        integral[slice(ends[1], ends[2]) if self.alike else slice(n_parts)] = 1
        found = milp(
            cost,
            integrality=integral,
            bounds=Bounds(bottom, top),
            constraints=LinearConstraint(
                sparse.block_array(left, format="csr"), np.concatenate(low), np.concatenate(high)
            ),
            options={
                "mip_rel_gap": NEAR_ENOUGH,
                "node_limit": min(NODES, max(1, NODE_COLUMNS // len(cost))),
            },
        )
        if found.x is None:
            return None
        parts = np.zeros(program.columns.costs.shape)
        parts[program.pairs] = found.x[:n_parts]
        return np.asarray(parts.argmax(axis=1), dtype=np.int32)


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
        every = self._every(columns)
        none = np.zeros_like(filled)
        if len(labels) * self.demand.n_clusters <= FEW_COLUMNS:
            # So few rows cannot always fill a cluster, but all of them can be decided at once.
            tries = [(every, none)]
        else:
            if solved.beyond > BEYOND and not self._sharp:
                # Not even parts of rows meet the rules.
                few = self._moves(columns, labels, MOVES[0])
                return self._nearest(
                    labels, Program.of(self.demand, self.rowset, few, labels, mass)
                )
            found = self._boxed(labels, every, Near(parts, filled)) if self._boxable else None
            if found is not None:
                return found
            tries = [(self._moves(columns, labels, most), filled) for most in MOVES]
            tries.append((tries[-1][0], none))
        for chosen, some in tries:
            program = Program.of(self.demand, self.rowset, chosen, labels, mass)
            decision = Decision(program, some, self._alike)
            for tolerance in TOLERANCES:
                new = self._decided(decision, labels, tolerance=tolerance)
                if new is None:
                    break
                if self._met(new):
                    return new
        return self._nearest(labels, program)

    def _nearest(self, labels: NDArray[np.int32], program: Program) -> NDArray[np.int32]:
        """Where nothing meets the rules: labels with the fewest rows beyond them."""
        decision = Decision(program, np.zeros(self.demand.n_clusters, dtype=bool), self._alike)
        new = self._decided(decision, labels, beyond=True)
        return labels if new is None else new

    def _decided(
        self,
        decision: Decision,
        labels: NDArray[np.int32],
        *,
        tolerance: float = 0.0,
        beyond: bool = False,
    ) -> NDArray[np.int32] | None:
        """Labels of all rows, where the open ones have new ones."""
        rows = decision.program.columns.rows
        rest = self.rowset.cost(labels, rows) + self._units
        found = decision.run(tolerance=tolerance, beyond=beyond, rest=rest)
        return None if found is None else _changed(labels, rows, found)

    def _boxed(
        self, labels: NDArray[np.int32], every: Columns, near: Near
    ) -> NDArray[np.int32] | None:
        """Labels whose counts are in one box for each cluster; None where none are found.

        First the mixtures of boxes: their parts may be far from those of the linear program, so
        rows around them are opened until that gains no more.
        """
        menu = Menu.of(self.demand, near, self._row)
        if menu is None:
            return None
        for dearest in DEAREST:
            found = self._chosen(labels, every, near, menu, dearest)
            if found is not None:
                return found
        return None

    def _chosen(
        self,
        labels: NDArray[np.int32],
        every: Columns,
        near: Near,
        menu: Menu,
        dearest: float,
    ) -> NDArray[np.int32] | None:
        """The same of moves that are not too dear."""
        boxes, least = menu.nearest(near.mass), np.inf
        for _ in range(CENTRES):
            chosen = self._moves(every, labels, BOX_MOVES, dearest=dearest)
            mass = self.rowset.mass(self.demand, labels)
            choice = Choice(Program.of(self.demand, self.rowset, chosen, labels, mass), self._row)
            relaxed, boxes = choice.mixed(menu, boxes)
            rest = self.rowset.cost(labels, chosen.rows)
            labels = _changed(labels, chosen.rows, relaxed.parts.argmax(axis=1))
            if relaxed.cost + rest > least - MUCH * self._units:
                break
            least = relaxed.cost + rest
        if relaxed.beyond > BEYOND:
            return None
        for most in KEPT:
            few = menu.promising(relaxed.prices, choice.counts(relaxed.parts), most)
            parts = choice.whole(few, rest + self._units)
            if parts is not None:
                new = _changed(labels, chosen.rows, parts.argmax(axis=1))
                if self._met(new):
                    return self._improved(new, every, menu, relaxed.prices, relaxed.cost + rest)
        return None

    def _improved(
        self, labels: NDArray[np.int32], every: Columns, menu: Menu, prices: Prices, least: float
    ) -> NDArray[np.int32]:
        """Labels that pairs of clusters find better; ``least`` is the cost of the mixture."""
        n_clusters = self.demand.n_clusters
        if len(labels) * n_clusters > ALL_COLUMNS:
            # Of so many rows, whole ones cost next to nothing.
            return labels
        cost, in_vain = self.rowset.cost(labels), 0
        pairs = list(combinations(range(n_clusters), 2))
        for pair in islice(cycle(pairs), MOST_PAIRS):
            if in_vain == len(pairs) or cost - least < MUCH_LEFT * (least + self._units):
                break
            new = self._exchanged(labels, every, menu, prices, pair)
            new_cost = np.inf if new is None else self.rowset.cost(new)
            if new is not None and new_cost < cost - MUCH * self._units:
                labels, cost, in_vain = new, new_cost, 0
            else:
                in_vain += 1
        return self._together(labels, every, menu, prices, least)

    def _together(
        self, labels: NDArray[np.int32], every: Columns, menu: Menu, prices: Prices, least: float
    ) -> NDArray[np.int32]:
        """Labels far from the linear program, after one look or two at all clusters together.

        Boxes of each attribute are chosen by themselves, and all counts are whole: two attributes
        have many more pairs of boxes than a menu holds.
        """
        every_row = self.proved + self._units
        gain = WORTH * every_row
        for dearest, most in LOOKS:
            cost = self.rowset.cost(labels)
            if cost - self.proved < FAR * every_row or cost - least < gain:
                break
            chosen = self._moves(every, labels, len(labels), dearest=dearest)
            mass = self.rowset.mass(self.demand, labels)
            choice = Choice(Program.of(self.demand, self.rowset, chosen, labels, mass), self._row)
            boxes = menu.around(prices, np.asarray(mass / self._row), most)
            rest = self.rowset.cost(labels, chosen.rows) + self._units
            parts = choice.counted(boxes, rest, cost - gain + self._units, LOOK_NODES)
            if parts is not None:
                new = _changed(labels, chosen.rows, parts.argmax(axis=1))
                labels = new if self._met(new) else labels
        return labels

    def _exchanged(
        self,
        labels: NDArray[np.int32],
        every: Columns,
        menu: Menu,
        prices: Prices,
        pair: Sequence[int],
    ) -> NDArray[np.int32] | None:
        """Labels after a pair of clusters has exchanged rows; None where none meet the rules."""
        own = every.only(np.flatnonzero(np.isin(labels[every.rows], pair)))
        chosen = self._moves(own, labels, PAIR_MOVES, dearest=DEAREST[0], to=pair)
        mass = self.rowset.mass(self.demand, labels)
        choice = Choice(Program.of(self.demand, self.rowset, chosen, labels, mass), self._row)
        boxes = menu.of_pair(pair, prices, np.asarray(mass / self._row), PAIR_BOXES)
        rest = self.rowset.cost(labels, chosen.rows) + self._units
        parts = choice.whole(boxes, rest, NEARER)
        if parts is None:
            return None
        new = _changed(labels, chosen.rows, parts.argmax(axis=1))
        return new if self._met(new) else None

    def _met(self, labels: IntArray) -> bool:
        return self.demand.excess(self.rowset.mass(self.demand, labels)) == 0

    @property
    def _alike(self) -> bool:
        """Whether all rows have the same weight."""
        return len(np.unique(self.rowset.weight[self.rowset.weight > 0])) == 1

    @property
    def _sharp(self) -> bool:
        """Whether a row is forgiven (a ratio of 1), which depends on two groups."""
        return any(p.criterion.conic and p.level <= ROUNDING for p in self.demand.parts)

    @property
    def _boxable(self) -> bool:
        """Whether boxes can be had."""
        return self._alike and not self._sharp

    def _every(self, columns: Columns) -> Columns:
        """All rows and clusters; of many, only the open ones."""
        rows = np.flatnonzero(self.rowset.weight > 0)
        if len(rows) * self.demand.n_clusters > ALL_COLUMNS:
            return columns
        return Columns.of(self.rowset, rows, np.ones((len(rows), self.demand.n_clusters), bool))

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

    def _moves(
        self,
        columns: Columns,
        labels: IntArray,
        most: int,
        *,
        dearest: float = np.inf,
        to: Sequence[int] | None = None,
    ) -> Columns:
        """The cheapest moves of rows of each code from each cluster to each other one, or some.

        None has a cluster that costs more than ``dearest`` beyond the multipliers.
        """
        own, each = labels[columns.rows], np.arange(len(columns.rows))
        codes = self.rowset.codes[columns.rows]
        costs = columns.costs + self.demand.offsets(self.multipliers)[codes]
        dearer = costs - costs[each, own][:, None]
        beyond = costs - costs.min(axis=1)[:, None]
        cells = codes.astype(np.intp) * self.demand.n_clusters + own
        allowed = np.zeros(costs.shape, dtype=bool)
        for k in range(self.demand.n_clusters) if to is None else to:
            order = np.lexsort((dearer[:, k], cells))
            _, first, sizes = np.unique(cells[order], return_index=True, return_counts=True)
            # The place of each row among those of its cell.
            place = np.arange(len(order)) - np.repeat(first, sizes)
            allowed[order[(place < most) & (beyond[order, k] <= dearest)], k] = True
        allowed[each, own] = True
        open_rows = np.flatnonzero(allowed.sum(axis=1) > 1)
        return replace(columns, allowed=allowed).only(open_rows)


def _changed(labels: NDArray[np.int32], rows: Ints, new: IntArray) -> NDArray[np.int32]:
    """Labels, some of them new."""
    out = labels.copy()
    out[rows] = new
    return out
