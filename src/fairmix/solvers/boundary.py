"""The rows near a boundary: a search for offsets whose labels meet a bound, in memory.

Newton steps see labels as if they moved smoothly. The last few rows do not, least of all where a
group is small: one of its rows moves its rates by much, many of a large group by little. Here the
rows that lie closest to a boundary between two clusters are gathered once. Along a line in the
offsets of one cluster each of them changes its label at a known crossing, so the best one on a line
is found exactly, and many lines can be tried for the price of one pass over all rows.

What is best is what comes closest to the bound. Where labels meet it already, it is what they are
worth, the sum of their logits, among labels that meet it still.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fairmix.criteria import Criterion
from fairmix.kernels import LogitMap, label_scores
from fairmix.kernels.totals import FEW_GROUPS, Block, FloatArray, IntArray, Logits
from fairmix.tables import Rowlike

# Rows that are gathered, of up to three groups, and at most: so few that a line is quick, so many
# that those of a small group are among them. With 20,000 of three groups, fewer lines are tried in
# the same time, and bounds of zero are met by two blind maps of Bank in eight, in place of seven.
# All lines together may look at so many rows, which is about the price of a few passes over a large
# table, and there are at most so many lines of up to three groups; of more groups fewer, because
# each line looks at the rates of all.
NEAR_ROWS, MOST_NEAR_ROWS = 5_000, 20_000
LINE_ROWS = 5_000_000
MOST_LINES = 800
# Lines where the bound is met, and labels are to be worth more: the first bring most of it.
WORTH_LINES = 400
# A cluster keeps at least this share of its rows: an empty one has no gap, and is no solution.
KEPT_SHARE = 0.5
# Crossings of a line that are compared, on each side, and the numbers that the rates after each of
# them may take in memory (16 MB). The best is rarely far: labels miss the bound by few rows.
CROSSINGS = 300
MOST_NUMBERS = 2_000_000
# Where no line helps, so many random moves lead away from the best offsets, each past so many rows:
# far enough to leave a local minimum, near enough that lines can make up for it.
KICKS = 3
# Rates are quotients, and values sums of them.
ROUNDING = 1e-12
KICK_ROWS = 12
NOTHING = np.zeros(0)


class Near(NamedTuple):
    """Rows: scores (n, K), rho and members (n, M), weights (n,) and the lead of their label.

    ``members`` is one where a row belongs to a group that is compared.
    """

    scores: FloatArray
    rho: FloatArray
    members: FloatArray
    weight: FloatArray
    lead: FloatArray

    def take(self, rows: IntArray) -> Near:
        """Some of the rows."""
        return Near(
            self.scores[rows],
            self.rho[rows],
            self.members[rows],
            self.weight[rows],
            self.lead[rows],
        )

    def joined(self, other: Near) -> Near:
        """These rows and others."""
        return Near(
            np.concatenate([self.scores, other.scores]),
            np.concatenate([self.rho, other.rho]),
            np.concatenate([self.members, other.members]),
            np.concatenate([self.weight, other.weight]),
            np.concatenate([self.lead, other.lead]),
        )


@dataclass(frozen=True, eq=False)
class Gather:
    """Finds the rows of a block with the smallest lead of their label over any other."""

    logit_map: LogitMap
    most: int

    def __call__(self, block: Block) -> Near:
        """The closest rows of the block."""
        scores = label_scores(block, self.logit_map).T
        lead = np.diff(np.partition(scores, -2, axis=1)[:, -2:], axis=1)[:, 0]
        rows: IntArray = np.arange(block.n_rows)
        if block.n_rows > self.most:
            rows = np.sort(np.argpartition(lead, self.most)[: self.most])
        members = block.members[rows].astype(np.float64)
        rho = members
        if block.propensity is not None:
            rho = block.propensity[:, rows].T.astype(np.float64)
        weight = np.ones(block.n_rows) if block.weight is None else block.weight
        return Near(scores[rows], rho, members, weight[rows].astype(np.float64), lead[rows])


def gather(
    table: Rowlike, logits: Logits, offsets: FloatArray, most: int | None = None
) -> tuple[Near, float]:
    """The rows closest to a boundary, at most so many, and a lead that all other rows have."""
    near: Near | None = None
    if most is None:
        most = min(NEAR_ROWS * max(len(offsets), FEW_GROUPS) // FEW_GROUPS, MOST_NEAR_ROWS)
    for part in table.each(Gather(LogitMap(logits, offsets), most)):
        near = part if near is None else near.joined(part)
        if len(near.lead) > most:
            near = near.take(np.sort(np.argpartition(near.lead, most)[:most]))
    assert near is not None
    return near, float(near.lead.max()) if table.n_rows > len(near.lead) else np.inf


class Line(NamedTuple):
    """A cluster whose offsets change, and the group whose offsets do; -1 for all groups."""

    cluster: int
    group: int


class Search:
    """Moves the offsets along lines, one cluster at a time.

    Parameters
    ----------
    near : Near
        Rows whose labels may change.
    limit : float
        No two clusters may be moved against each other by more: other rows would change, too.
    mass : (M, K) array
        Weight of each group in each cluster, of all rows.
    sizes : (M,) array
        Weight of each group.
    criterion, bound : Criterion, float
        What the labels shall meet.
    logits : (n, K) array, optional
        What labels of the rows are worth, for a search among labels that meet the bound. None: for
        one that comes closer to it.
    """

    def __init__(
        self,
        near: Near,
        limit: float,
        mass: FloatArray,
        sizes: FloatArray,
        criterion: Criterion,
        bound: float,
        logits: FloatArray | None = None,
    ) -> None:
        self.logits, self.lost = logits, 0.0
        self.near, self.limit, self.sizes = near, limit, sizes
        self.criterion, self.bound = criterion, bound
        self.scores, self.mass = near.scores.copy(), mass.copy()
        # The best two clusters of each row and their scores, until the scores change.
        self.best: tuple[IntArray, IntArray, FloatArray, FloatArray] | None = None
        self.least = KEPT_SHARE * mass.sum(axis=0)
        self.moved: FloatArray = np.zeros(mass.shape)
        self.n_groups = len(mass)
        self.rng = np.random.default_rng(0)
        lines = MOST_LINES if logits is None else WORTH_LINES
        most = lines * min(1.0, FEW_GROUPS / self.n_groups)
        self.lines_left = int(max(1, min(most, LINE_ROWS / max(len(near.lead), 1))))

    def excess(self) -> float:
        """How far the labels are from the bound."""
        return float(self.criterion.excess((self.mass / self.sizes[:, None])[None], self.bound)[0])

    def value(self) -> float:
        """What is to be least."""
        return self.excess() if self.logits is None else self.lost

    def run(self) -> FloatArray:
        """What to add to the offsets, (M, K)."""
        if self.logits is not None:
            self._descend()
            return self.moved
        best, least = self._state(), self.excess()
        while least > 0 and self.lines_left > 0:
            self._descend()
            if self.excess() < least:
                best, least = self._state(), self.excess()
            elif least > 0:
                self._restore(best)
                for _ in range(KICKS):
                    self._kick()
        self._restore(best)
        return self.moved

    def _state(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        return self.scores.copy(), self.mass.copy(), self.moved.copy()

    def _restore(self, state: tuple[FloatArray, FloatArray, FloatArray]) -> None:
        self.scores, self.mass, self.moved = (part.copy() for part in state)
        self.best = None

    def _lines(self) -> list[Line]:
        """All lines in random order; with two groups a line of all and one of a group suffice."""
        groups = [-1, *range(self.n_groups if self.n_groups > 2 else 1)]
        lines = [Line(k, g) for k in range(self.mass.shape[1]) for g in groups]
        return [lines[i] for i in self.rng.permutation(len(lines))]

    def _descend(self) -> None:
        """Line after line, until none of them helps."""
        helped = True
        while helped and self.lines_left > 0:
            helped = False
            for line in self._lines():
                self.lines_left -= 1
                helped |= self._best_on(line)
                if self.lines_left <= 0 or (self.logits is None and self.excess() == 0):
                    return

    def _speed(self, line: Line) -> FloatArray:
        if line.group < 0:
            # One, or as many as there are attributes, for the offsets of all groups change.
            return np.asarray(self.near.rho.sum(axis=1))
        return self.near.rho[:, line.group]

    def _crossings(self, line: Line) -> tuple[FloatArray, IntArray]:
        """Where along the line each row changes its label, and its label on the other side."""
        if self.best is None:
            rows = np.arange(len(self.scores))
            first, others = self.scores.argmax(axis=1), self.scores.copy()
            others[rows, first] = -np.inf
            second = others.argmax(axis=1)
            self.best = first, second, self.scores[rows, first], others[rows, second]
        first, second, highest, next_highest = self.best
        own = first == line.cluster
        rival = np.where(own, second, first)
        lead = np.where(own, next_highest, highest) - self.scores[:, line.cluster]
        speed = self._speed(line)
        with np.errstate(divide="ignore", invalid="ignore"):
            crossing = np.where(speed > 1e-9, lead / speed, np.inf)
        return crossing, rival

    def _best_on(self, line: Line) -> bool:
        """Go past the best crossing on the line; False if that is here."""
        crossing, rival = self._crossings(line)
        now = self.value()
        found: tuple[float, float, IntArray, float] = (now, 0.0, np.zeros(0, dtype=np.intp), 1.0)
        for side in (1.0, -1.0):
            rows = self._between(crossing, line, side)
            most = min(CROSSINGS, max(8, MOST_NUMBERS // self.mass.size))
            ahead = np.abs(crossing[rows])
            if len(rows) > most:
                nearest = np.argpartition(ahead, most)[: most + 1]
                rows = rows[nearest]
            rows = rows[np.argsort(np.abs(crossing[rows]), kind="stable")]
            if len(rows) < 2:
                continue
            ahead = np.abs(crossing[rows])
            # The last one only says where the step before it ends.
            values = self._values(line, rows[:-1], rival, side, found[0])
            if values is None:
                continue
            # Rows that change at one crossing change together.
            values[ahead[1:] - ahead[:-1] <= 1e-12 * (1 + ahead[1:])] = np.inf
            j = int(values.argmin())
            if values[j] < found[0] - ROUNDING:
                length = side * (ahead[j] + ahead[j + 1]) / 2
                found = (float(values[j]), length, rows[: j + 1], side)
        _, length, passed, side = found
        if not len(passed):
            return False
        self._move(line, length, passed, rival, side)
        return True

    def _between(self, crossing: FloatArray, line: Line, side: float) -> IntArray:
        """Rows that change on one side of the line, as far as it goes."""
        there = crossing > 0 if side > 0 else crossing <= 0
        there &= np.isfinite(crossing) & (np.abs(crossing) <= self._reach(line, side))
        return np.flatnonzero(there)

    def _reach(self, line: Line, side: float) -> float:
        """How far the cluster may move before rows beyond the limit change."""
        if np.isinf(self.limit):
            return np.inf
        groups = slice(None) if line.group < 0 else slice(line.group, line.group + 1)
        own = side * self.moved[groups, line.cluster]
        others = np.delete(side * self.moved, line.cluster, axis=1)[groups]
        return float((self.limit - (own[:, None] - others).max(axis=1)).min())

    def _values(
        self, line: Line, rows: IntArray, rival: IntArray, side: float, least: float
    ) -> FloatArray | None:
        """What is to be least after each of the rows has changed its label, one after the other.

        None where that is nowhere below ``least``.
        """
        lost: FloatArray = NOTHING
        if self.logits is not None:
            lost = self.lost + np.cumsum(self._losses(line, rows, rival, side))
            # On one side of most lines labels are worth less, and rates need no look there.
            if not lost.min() < least - ROUNDING:
                return None
        # Rows last in memory: sums and extremes over few groups or clusters are then quick.
        steps = np.zeros((*self.mass.shape, len(rows)))
        moved, each = self._moved(rows, side).T, np.arange(len(rows))
        steps[:, line.cluster] = moved
        steps[:, rival[rows], each] = -moved
        masses = np.moveaxis(self.mass[:, :, None] + np.cumsum(steps, axis=2), 2, 0)
        values = self.criterion.excess(masses / self.sizes[:, None], self.bound)
        if self.logits is not None:
            values = np.where(values > ROUNDING, np.inf, lost)
        return np.where((masses.sum(axis=1) < self.least).any(axis=1), np.inf, values)

    def _losses(self, line: Line, rows: IntArray, rival: IntArray, side: float) -> FloatArray:
        """What labels lose as each of the rows changes from one cluster to the other."""
        assert self.logits is not None
        gained = self.logits[rows, line.cluster] - self.logits[rows, rival[rows]]
        return np.asarray(-side * self.near.weight[rows] * gained)

    def _moved(self, rows: IntArray, side: float) -> FloatArray:
        """What each of the rows adds to its groups in the cluster of a line, (n, M)."""
        return (side * self.near.weight[rows])[:, None] * self.near.members[rows]

    def _move(
        self, line: Line, length: float, rows: IntArray, rival: IntArray, side: float
    ) -> None:
        self.scores[:, line.cluster] += length * self._speed(line)
        self.best = None
        groups = slice(None) if line.group < 0 else slice(line.group, line.group + 1)
        self.moved[groups, line.cluster] += length
        moved = self._moved(rows, side)
        self.mass[:, line.cluster] += moved.sum(axis=0)
        # Rows may have the same rival.
        np.subtract.at(self.mass.T, rival[rows], moved)
        if self.logits is not None:
            self.lost += float(self._losses(line, rows, rival, side).sum())

    def _kick(self) -> None:
        """A random line, past a few rows."""
        lines = self._lines()
        line = lines[0]
        crossing, rival = self._crossings(line)
        side = float(self.rng.choice([-1.0, 1.0]))
        rows = self._between(crossing, line, side)
        rows = rows[np.argsort(np.abs(crossing[rows]), kind="stable")][: KICK_ROWS + 1]
        if len(rows) < 2:
            return
        j = int(self.rng.integers(len(rows) - 1))
        ahead = np.abs(crossing[rows])
        self._move(line, side * (ahead[j] + ahead[j + 1]) / 2, rows[: j + 1], rival, side)


def boundary_offsets(
    table: Rowlike,
    logits: Logits,
    offsets: FloatArray,
    mass: FloatArray,
    criterion: Criterion,
    bound: float,
    *,
    met: bool = False,
) -> FloatArray:
    """What to add to the offsets (M, K) so that the labels come closer to the bound.

    Where they have ``met`` it already, so that they are worth more. ``mass`` (M, K) is the weight
    of each group in each cluster, by the labels.
    """
    near, limit = gather(table, logits, offsets)
    worth = near.scores - near.rho @ offsets if met else None
    return Search(near, limit, mass, table.group_sizes, criterion, bound, worth).run()
