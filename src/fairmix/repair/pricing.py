"""The search for the columns that the linear program of the best labels needs.

Of n rows, almost all have the same label in every good solution. So the program is solved with a
few columns, the labels of rows near a boundary, and the rest as it is. Its multipliers say for
every row which label is cheapest; where that has no column yet it gets one, until none is missing.
The value is then that of the program with all columns, and the multipliers prove it.

At most as many rows as there are rules have parts in two clusters. They and the rows around them
are decided by an integer program.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fairmix.kernels.totals import FloatArray, IntArray
from fairmix.repair.program import Array, Columns, Demand, Ints, Look, Program, Rowset, Solved
from fairmix.repair.whole import Whole

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
        whole = Whole(self.demand, self.rowset, self.multipliers, self.proved)
        labels = whole.run(labels, columns, solved)
        idle = self.rowset.weight == 0
        if idle.any():
            # They count for nothing, and get what others of their group at their place have.
            labels[idle] = self.look(self.multipliers).labels[idle]
        return Best(labels, self.multipliers, self.proved)

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
        return float(open_cost + self.rowset.cost(labels, columns.rows))

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
