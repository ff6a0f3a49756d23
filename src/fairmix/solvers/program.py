"""The last rows of several attributes: an integer program of counts, and the offsets of its labels.

A row has a group of each attribute, so the rows of a group cannot be counted without those of
another. But labels are the largest logits after one number for each group and cluster is added if
and only if no others with the same counts of groups in clusters, not even parts of rows, have a
larger sum of logits: duality of linear programs. So:

1. A linear program of parts of rows gives the boundaries. Rows near one have columns; where its
   prices let other rows cross, these get columns, too.
2. An integer program of the columns nearest to these boundaries gives whole counts that meet the
   rules. It branches on counts, not on rows.
3. The linear program with these counts gives labels and prices. Where the labels are whole, as they
   nearly always are, there are offsets for them: those with the most slack, so that rounding moves
   no row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

from fairmix.criteria import Edges
from fairmix.kernels.totals import FloatArray, IntArray, Logits
from fairmix.solvers.boundary import gather
from fairmix.tables import Rowlike

BoolArray = NDArray[np.bool_]
# Rules, of all clusters together, up to which programs are solved: with two attributes of three
# groups each and ten clusters there are 120. Of 220 and more an integer program rarely ends.
MOST_RULES = 150
# Columns that the first linear program has, the nearest ones: more where these cannot meet the
# rules. And rounds after which all rows should have the columns that they need: two or three do.
COLUMNS = (500, 4_000, 20_000)
ROUNDS = 12
# The same of the integer program, which takes longer.
INTEGER_COLUMNS = (60, 300)
# Columns of each group and cluster beside them, and rows of a cluster that get all columns.
SOME = 3
SMALL = 40
# It ends when it is so near to the best, in units of log-density for each row of the table, or
# after so many nodes: a count, because seconds would give other labels on another machine.
NEAR_ENOUGH = 5e-4
NODES = 40
# Pairs of a row and a cluster whose order must stay, when offsets get slack, and the least slack.
PAIRS = 1_500
LEAST_SLACK = 1e-9
# A part of a row below this is rounding; so are prices.
ROUNDING = 1e-7


class Parts(NamedTuple):
    """Parts of rows (n, K) in clusters, and prices (M, K) that make them the largest scores."""

    parts: FloatArray
    prices: FloatArray

    @property
    def labels(self) -> IntArray:
        """The largest part of each row."""
        return np.asarray(self.parts.argmax(axis=1))

    @property
    def whole(self) -> bool:
        """Whether no row is divided."""
        return bool(self.parts.max(axis=1).min(initial=1.0) > 1 - ROUNDING)


@dataclass(frozen=True, eq=False)
class Program:
    """Rows near a boundary, and what is asked of the labels of all.

    Attributes
    ----------
    worth : (n, K) array
        Logits of the rows.
    members : (n, M) array
        One where a row belongs to a group.
    rest : (M, K) array
        Counts of all other rows.
    edges : Edges
        The rules.
    sizes : (M,) array
        Rows of each group.
    filled : (K,) bool array
        Clusters that must not be empty.
    n_rows : int
        Rows of the table.
    """

    worth: FloatArray
    members: FloatArray
    rest: FloatArray
    edges: Edges
    sizes: FloatArray
    filled: BoolArray
    n_rows: int

    def run(self, labels: IntArray, offsets: FloatArray) -> FloatArray | None:
        """Offsets (M, K) whose labels meet the rules, from ones that are near; None if it fails."""
        for size in np.minimum(COLUMNS, self.worth.size - 1):
            columns = self._nearest(labels, offsets, size)
            found = self._parts(columns, labels)
            if found is not None:
                break
        else:
            return None
        sizes = np.minimum(INTEGER_COLUMNS, self.worth.size - 1)
        # A cluster is left empty only where no rows nearby can fill it.
        for size, filled in [*((size, self.filled) for size in sizes), (sizes[-1], None)]:
            own = self._nearest(found.labels, found.prices, size)
            counts = _Model.of(self, own, found.labels).whole_counts(filled)
            if counts is not None:
                break
        else:
            return None
        whole = self._parts(columns | own, labels, counts)
        if whole is None or not whole.whole:
            return None
        return self._slackest(whole)

    def _scores(self, offsets: FloatArray) -> FloatArray:
        return np.asarray(self.worth + self.members @ offsets)

    def _nearest(self, labels: IntArray, offsets: FloatArray, size: int) -> BoolArray:
        """The label of each row, and the clusters that come closest to being one, (n, K).

        Some for each group and cluster, for the boundaries of a cluster that few rows are near. And
        all of a cluster that is so small that whole rows may have to leave it.
        """
        scores = self._scores(offsets)
        own = np.arange(scores.shape[1]) == labels[:, None]
        behind = np.where(own, np.inf, scores.max(axis=1, keepdims=True) - scores)
        out = own | (behind <= np.partition(behind, size, axis=None)[size])
        for group in self.members.T:
            rows = np.flatnonzero(group)
            few = min(SOME, len(rows) - 1)
            out[rows] |= behind[rows] <= np.partition(behind[rows], few, axis=0)[few]
        small = np.bincount(labels, minlength=len(own[0])) <= SMALL
        return np.asarray(out | small[labels][:, None])

    def _parts(
        self, columns: BoolArray, labels: IntArray, counts: FloatArray | None = None
    ) -> Parts | None:
        """The best parts of all rows, of given counts or of any that meet the rules.

        ``columns`` are those to begin with; the others follow where prices ask for them.
        """
        rows = np.arange(len(labels))
        for _ in range(ROUNDS):
            model = _Model.of(self, columns, labels)
            solved = model.parts(counts)
            if solved is None:
                return None
            scores = self._scores(solved.prices)
            best = scores.argmax(axis=1)
            reached = np.where(columns, scores, -np.inf).max(axis=1)
            missing = scores[rows, best] > reached + ROUNDING
            if not missing.any():
                return solved
            columns[missing, best[missing]] = True
        return None

    def _slackest(self, whole: Parts) -> FloatArray | None:
        """Offsets with the labels of whole parts, as far from all boundaries as can be."""
        labels, scores = whole.labels, self._scores(whole.prices)
        (n_groups, n_clusters), rows = self.rest.shape, np.arange(len(labels))
        lead = scores[rows, labels][:, None] - scores
        lead[rows, labels] = np.inf
        size = min(PAIRS, lead.size - 1)
        most = float(np.partition(lead, size, axis=None)[size])
        row, other = np.nonzero(lead < most)
        at, group = np.nonzero(self.members[row])
        moves: Any = 0
        for sign, cluster in ((1.0, labels[row]), (-1.0, other)):
            where = at, group * n_clusters + cluster[at]
            moves = moves + sparse.csr_array(
                (np.full(len(at), sign), where), shape=(len(row), n_groups * n_clusters)
            )
        # So short that all other pairs stay as they are, too.
        longest = most / (2 * self.members.sum(axis=1).max())
        slack: Any = sparse.csr_array(np.ones((len(row), 1)))
        found = linprog(
            np.append(np.zeros(n_groups * n_clusters), -1.0),
            sparse.hstack([-moves, slack], format="csr"),
            lead[row, other],
            bounds=[(-longest, longest)] * (n_groups * n_clusters) + [(None, None)],
            method="highs-ds",
        )
        if found.status != 0 or found.x is None or found.x[-1] <= LEAST_SLACK:
            return None
        return np.asarray(whole.prices + found.x[:-1].reshape(n_groups, n_clusters))


@dataclass(frozen=True, eq=False)
class _Model:
    """Matrices of a program: parts of the rows that are open, then counts of groups in clusters.

    Attributes
    ----------
    program : Program
        Whose rows they are.
    labels : (n,) int array
        Of all rows; those with one column keep theirs.
    open_rows : (R,) int array
        Rows with more.
    pairs : two (C,) int arrays
        Which of them, and the cluster, for each column.
    equal : (R + M K, C + M K) sparse array
        Parts of a row add up to one, and those of a group to its counts.
    total : (R + M K,) array
        What they add up to.
    """

    program: Program
    labels: IntArray
    open_rows: IntArray
    pairs: tuple[IntArray, IntArray]
    equal: Any
    total: FloatArray

    @classmethod
    def of(cls, program: Program, columns: BoolArray, labels: IntArray) -> _Model:
        """With these columns, (n, K)."""
        n_clusters = columns.shape[1]
        is_open = columns.sum(axis=1) > 1
        kept = (labels[:, None] == np.arange(n_clusters)) & ~is_open[:, None]
        fixed = program.rest + program.members.T @ kept
        open_rows = np.flatnonzero(is_open)
        row, cluster = np.nonzero(columns[open_rows])
        column = np.arange(len(row))
        each = sparse.csr_array(
            (np.ones(len(row)), (row, column)), shape=(len(open_rows), len(row))
        )
        at, group = np.nonzero(program.members[open_rows[row]])
        counted = sparse.csr_array(
            (np.ones(len(at)), (group * n_clusters + cluster[at], at)),
            shape=(fixed.size, len(row)),
        )
        equal = sparse.block_array(
            [[each, None], [-counted, sparse.eye_array(fixed.size)]], format="csr"
        )
        total = np.concatenate([np.ones(len(open_rows)), fixed.ravel()])
        return cls(program, labels, open_rows, (row, cluster), equal, total)

    @property
    def costs(self) -> FloatArray:
        """What the logits of a column are below those of the best one of its row."""
        row, cluster = self.pairs
        worth = self.program.worth[self.open_rows]
        costs = worth.max(axis=1)[row] - worth[row, cluster]
        return np.concatenate([costs, np.zeros(self.program.rest.size)])

    @property
    def rules(self) -> tuple[Any, FloatArray]:
        """``<A, counts> <= b``, in rows of a group of mean size."""
        program, n_clusters = self.program, self.program.rest.shape[1]
        unit = program.sizes.mean()
        rates = program.edges.rows / program.sizes * unit
        counts = sparse.kron(rates, sparse.eye_array(n_clusters))
        parts = sparse.csr_array((counts.shape[0], len(self.pairs[0])))
        bounds = np.repeat(program.edges.bounds * unit, n_clusters)
        return sparse.hstack([parts, counts], format="csr"), bounds

    def parts(self, counts: FloatArray | None) -> Parts | None:
        """The best parts of rows."""
        n_parts, program = len(self.pairs[0]), self.program
        low = np.zeros(len(self.costs))
        high = np.append(np.ones(n_parts), np.full(program.rest.size, np.inf))
        rules: Any = None
        bounds: FloatArray | None = None
        if counts is None:
            rules, bounds = self.rules
        else:
            low[n_parts:] = high[n_parts:] = counts.ravel()
        limits: Any = np.column_stack([low, high])
        found = linprog(
            self.costs, rules, bounds, self.equal, self.total, bounds=limits, method="highs-ds"
        )
        if found.status != 0 or found.x is None:
            return None
        parts = (self.labels[:, None] == np.arange(program.rest.shape[1])).astype(np.float64)
        parts[self.open_rows] = 0.0
        row, cluster = self.pairs
        parts[self.open_rows[row], cluster] = found.x[:n_parts]
        prices = -found.eqlin.marginals[len(self.open_rows) :]
        return Parts(parts, prices.reshape(program.rest.shape))

    def whole_counts(self, filled: BoolArray | None) -> FloatArray | None:
        """Whole counts (M, K) that meet the rules, about the best; ``filled``: see `Program`."""
        program, n_parts = self.program, len(self.pairs[0])
        n_groups, n_clusters = program.rest.shape
        rules, bounds = self.rules
        # A row in each cluster that must not be empty.
        inside: Any = sparse.kron(np.ones((1, n_groups)), sparse.eye_array(n_clusters))
        inside = sparse.hstack([sparse.csr_array((n_clusters, n_parts)), inside])
        least = np.zeros(n_clusters) if filled is None else filled.astype(np.float64)
        left: Any = sparse.vstack([self.equal, rules, inside])
        low = [self.total, np.full(len(bounds), -np.inf), least]
        high = [self.total, bounds, np.full(n_clusters, np.inf)]
        # A constant for all rows, so that the accuracy, a share of the value, is one for each row.
        left = sparse.hstack([left, sparse.csr_array((left.shape[0], 1))], format="csr")
        size = len(self.costs) + 1
        whole = np.zeros(size, dtype=np.intp)
        whole[n_parts:-1] = 1
        top = np.full(size, np.inf)
        top[:n_parts] = top[-1] = 1.0
        bottom = np.zeros(size)
        bottom[-1] = 1.0
        found = milp(
            np.append(self.costs, program.n_rows),
            integrality=whole,
            bounds=Bounds(bottom, top),
            constraints=LinearConstraint(left, np.concatenate(low), np.concatenate(high)),
            options={"mip_rel_gap": NEAR_ENOUGH, "node_limit": NODES},
        )
        if found.x is None:
            return None
        return np.asarray(found.x[n_parts:-1].round().reshape(n_groups, n_clusters))


def program_offsets(
    table: Rowlike, logits: Logits, offsets: FloatArray, mass: FloatArray, edges: Edges
) -> FloatArray | None:
    """What to add to the offsets (M, K) of an aware map, so that its labels meet the rules.

    ``mass`` (M, K) are the counts of groups in clusters by the labels. None where the rows near the
    boundaries cannot meet the rules, equal rows are in the way, or there are too many rules.
    """
    if len(edges.bounds) * offsets.shape[1] > MOST_RULES:
        return None
    near, _ = gather(table, logits, offsets)
    near = near.take(np.flatnonzero(near.members.any(axis=1)))
    if not np.array_equal(near.rho, near.members):
        return None
    labels = near.scores.argmax(axis=1)
    rest = mass - near.members.T @ (labels[:, None] == np.arange(offsets.shape[1]))
    worth = near.scores - near.members @ offsets
    program = Program(
        worth, near.members, rest, edges, table.group_sizes, mass.sum(axis=0) > 0, table.n_rows
    )
    found = program.run(labels, offsets)
    return None if found is None else found - offsets
