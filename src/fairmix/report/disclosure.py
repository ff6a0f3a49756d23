"""Disclosure: the one room that every number about rows passes on its way to the page.

The page is one release, so what it says as a whole must leave every hidden count open. That is
shown by *worlds*: tables that differ from the true one in hidden counts only. A figure is printed
as far as it is the same in all worlds, and a small count has worlds for values from 1 to 6. Whoever
reads the page cannot tell the worlds apart, so he does not know which of these values is true.

Sizes of groups count as known: several tables of a page share them. Hence a row moves only within
its group. Tables of the same clusters by several attributes share the sizes of the clusters as
well: what moves in one of them moves in all, and is hidden in all.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil, floor, inf, log, sqrt
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairmix.criteria import CRITERIA, smallest_ratio
from fairmix.report.figures import HIDDEN, amount, at_most, count, value
from fairmix.results.certificate import Certificate

__all__ = [
    "FEWEST",
    "MANY",
    "SMALLEST",
    "SafeCounts",
    "Share",
    "certified",
    "open_to_readers",
    "rounded_down",
    "rounded_up",
    "safe_attributes",
    "safe_shares",
    "safe_tables",
    "share_of",
]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
Says = Callable[[FloatArray], Hashable]
SaysOfAll = Callable[[Sequence[FloatArray]], Hashable]
T = TypeVar("T", bound=Hashable)

SMALLEST = 5  # a count of fewer rows is hidden
FEWEST = 10  # a group or a cluster of fewer rows has no counts, means or shares at all
# A small count may be any number from 1 to this, as far as the page tells. Two more than needed for
# the small one itself, so that a count beside it, which makes up for it, is open over 5 rows too.
REACH = 6
# A gap with four decimals fits one in ten of the counts of groups with so many rows; with fewer
# rows the decimals would tell the counts.
MANY = 1000
TRIES = 8  # counts that are tried to make up for another; the first nearly always does
STEPS = (0.001, 0.01, 0.02, 0.05, 0.1, 0.2)  # what shares are rounded to multiples of


@dataclass(frozen=True, eq=False)
class SafeCounts:
    """Counts of groups in clusters, which of them are hidden, and the worlds that keep them so.

    Parameters
    ----------
    counts : ndarray of shape (n_groups, n_clusters)
        Rows, or sums of probabilities.
    hidden : ndarray of bool of the same shape
        Counts not to show; sizes of groups are shown.
    changes : tuple of (int, ndarray of shape (n_clusters,))
        A group and another row of counts for it: each makes one world.
    has_cells : bool
        Whether any count is shown. If not, no figure but `gap` is told.

    Examples
    --------
    >>> safe = SafeCounts.of(np.array([[3.0, 40.0, 50.0], [60.0, 70.0, 80.0]]))
    >>> safe.hidden.tolist()
    [[True, True, False], [False, False, False]]
    """

    counts: FloatArray
    hidden: BoolArray
    changes: tuple[tuple[int, FloatArray], ...]
    has_cells: bool = True

    @classmethod
    def of(cls, counts: ArrayLike, says: Says | None = None) -> SafeCounts:
        """Hide counts until what the page shows, and ``says`` in any case, leaves them open.

        ``says`` gives what is said of the table whatever happens, such as a verdict.
        """
        table = np.asarray(counts, dtype=np.float64)
        hidden = np.zeros(table.shape, dtype=bool)
        changes: list[tuple[int, FloatArray]] = []
        for group, rows in enumerate(table.sum(axis=1)):
            # Sums of probabilities are whole only up to rounding.
            enough = round(rows) >= FEWEST
            found = _protected(table, group, says or (lambda _: None)) if enough else None
            if found is None:
                return cls.without_cells(table)
            hidden[group] = found[0]
            changes += [(group, row) for row in found[1]]
        if hidden[:, table.sum(axis=0) > 0].all():
            return cls.without_cells(table)
        return cls(table, hidden, tuple(changes))

    def first(self, n_groups: int) -> SafeCounts:
        """Those of the first groups; others are on no page."""
        if n_groups == len(self.counts):
            return self
        changes = tuple((group, row) for group, row in self.changes if group < n_groups)
        counts, hidden = self.counts[:n_groups], self.hidden[:n_groups]
        return SafeCounts(counts, hidden, changes, self.has_cells)

    @classmethod
    def without_cells(cls, counts: ArrayLike) -> SafeCounts:
        """Counts of which none is shown."""
        table = np.asarray(counts, dtype=np.float64)
        return cls(table, np.ones(table.shape, dtype=bool), (), has_cells=False)

    @property
    def worlds(self) -> Iterator[FloatArray]:
        """Tables that a reader must hold possible, the true one first."""
        yield self.counts
        for group, row in self.changes:
            yield _replaced(self.counts, group, row)

    @property
    def sizes(self) -> FloatArray:
        """Rows of each cluster, not for showing."""
        return np.asarray(self.counts.sum(axis=0))

    @property
    def group_sizes(self) -> FloatArray:
        """Rows of each group."""
        return np.asarray(self.counts.sum(axis=1))

    @cached_property
    def size_ends(self) -> tuple[FloatArray, FloatArray]:
        """Rows that each cluster has in any world, at the least and at the most."""
        least = most = self.sizes
        for group, row in self.changes:
            size = self.sizes + row - self.counts[group]
            least, most = np.minimum(least, size), np.maximum(most, size)
        return least, most

    @property
    def estimate(self) -> FloatArray:
        """The counts as far as they are shown: hidden ones of a group share what is left evenly."""
        table = self.counts.copy()
        for row, hidden in zip(table, self.hidden, strict=True):
            if hidden.any():
                row[hidden] = row[hidden].mean()
        return table

    def tell(self, figure: Callable[[FloatArray], T]) -> T | None:
        """A figure of the table, as it is printed, if every world has the same; None otherwise.

        Every number that is not a shown count, nor made of shown counts alone, comes from here.
        """
        if not self.has_cells:
            return None
        worlds = self.worlds
        said = figure(next(worlds))
        return said if all(figure(world) == said for world in worlds) else None

    def tell_each(self, figures: Callable[[FloatArray], Sequence[T]]) -> list[T | None]:
        """As `tell`, for a figure of each group: each is told or not by itself."""
        if not self.has_cells:
            return [None] * len(self.counts)
        worlds = self.worlds
        first = list(figures(next(worlds)))
        same = [True] * len(first)
        for world in worlds:
            found = figures(world)
            same = [s and a == b for s, a, b in zip(same, first, found, strict=True)]
        return [said if told else None for said, told in zip(first, same, strict=True)]

    def count(self, group: int, cluster: int) -> str:
        """The rows of a group in a cluster."""
        return HIDDEN if self.hidden[group, cluster] else count(self.counts[group, cluster])

    def size(self, cluster: int) -> str:
        """The rows of a cluster, rounded as far as it must be."""
        if not self.hidden[:, cluster].any():
            return count(self.sizes[cluster])
        if not self.has_cells:
            return HIDDEN
        ends = np.array([end[cluster] for end in self.size_ends])
        for base in (10, 20, 50, 100, 200, 500, 1000):
            # Where both ends are rounded to the same, so is all between them.
            low, high = np.rint(ends / base)
            # Below ten steps the half of one is more than 5 % of the size: nothing worth saying.
            if low == high >= 10:
                return f"{count(low * base)} ± {base // 2}"
        return HIDDEN

    def share(self, group: int, cluster: int) -> float | None:
        """The share of a group in a cluster, in percent with one decimal or none."""
        if self.hidden[group, cluster] or not self.has_cells or not self.sizes[cluster]:
            return None
        inside = float(self.counts[group, cluster])
        if not self.hidden[:, cluster].any():
            return 100 * inside / float(self.sizes[cluster])
        low, high = (round(100 * inside / float(end[cluster])) for end in self.size_ends)
        return low if low == high else None

    def gap(self, criterion: str, *, cap: float = inf) -> str:
        """The criterion: exact, as an upper bound, or hidden.

        A gap that rests on hidden counts is rounded up to whole rows of the smallest group, never
        to the nearest: "at most" must stay true. ``cap`` is known to be no less than it.
        """
        measure = CRITERIA[criterion]

        def exact(table: FloatArray) -> float:
            return measure.value(table / table.sum(axis=1, keepdims=True))

        if not self.has_cells:
            return rounded_up(exact(self.counts), self.group_sizes, cap=cap)
        said = self.tell(lambda table: value(exact(table)))
        for n_rows in (1, 2, 5, 10, 20):
            if said is not None:
                break
            step = n_rows / float(self.group_sizes.min())
            said = self.tell(lambda table, s=step: at_most(min(_up(exact(table), s), cap)))  # type: ignore[misc]
        return said or (HIDDEN if cap == inf else at_most(cap))

    def balance(self) -> str:
        """Smallest ratio of two groups in a cluster."""
        return self.tell(lambda table: value(smallest_ratio(table))) or HIDDEN

    def cluster_gaps(self, criterion: str) -> FloatArray:
        """What each cluster adds to the criterion, (n_clusters,), not for showing."""
        return _cluster_gaps(self.counts, criterion)


def safe_tables(
    pages: Sequence[tuple[Sequence[FloatArray], SaysOfAll | None]],
) -> list[list[SafeCounts]]:
    """The tables of one page, by attribute, with what is said of them in any case.

    Equal tables, such as those of two bounds that are met alike, hide the same counts, so that none
    shows what another hides.
    """
    keys = [tuple(np.asarray(t, dtype=np.float64).tobytes() for t in ts) for ts, _ in pages]
    found = {}
    for key, (tables, _) in zip(keys, pages, strict=True):
        if key not in found:
            every = [says for k, (_, says) in zip(keys, pages, strict=True) if k == key and says]
            found[key] = safe_attributes(tables, lambda t, e=every: tuple(s(t) for s in e))  # type: ignore[misc]
    return [found[key] for key in keys]


def safe_attributes(counts: Sequence[ArrayLike], says: SaysOfAll) -> list[SafeCounts]:
    """Tables of the same rows and clusters, one for each attribute.

    The columns of all tables add up to the same: rows of groups that are not shown are a row, too.
    ``says`` gives what is said of all tables whatever happens.

    Examples
    --------
    >>> sex, region = [[3.0, 40.0, 57.0], [60.0, 70.0, 80.0]], [[63.0, 110.0, 137.0]]
    >>> safe = safe_attributes([sex, region], lambda tables: None)
    >>> [one.hidden.tolist() for one in safe]
    [[[True, True, False], [False, False, False]], [[True, True, False]]]
    """
    tables = [np.asarray(table, dtype=np.float64) for table in counts]

    def said(own: int, world: FloatArray) -> Hashable:
        """Of all tables, where one is another and the others follow it."""
        change = world.sum(axis=0) - tables[own].sum(axis=0)
        worlds = []
        for other, table in enumerate(tables):
            found = _followed(table, change)
            if other != own and found is None:
                return object()  # equal to nothing: there is no such world
            worlds.append(world if other == own or found is None else _replaced(table, *found))
        return says(worlds)

    alone = [
        SafeCounts.of(table, lambda world, own=own: said(own, world))  # type: ignore[misc]
        for own, table in enumerate(tables)
    ]
    hidden = [safe.hidden.copy() for safe in alone]
    changes = [list(safe.changes) for safe in alone]
    for own, safe in enumerate(alone):
        for group, row in safe.changes:
            change = row - tables[own][group]
            for other, table in enumerate(tables):
                if other != own:
                    found = _followed(table, change)
                    assert found is not None  # `said` has asked
                    changes[other].append(found)
                    hidden[other][found[0], change != 0] = True
    return [
        SafeCounts(safe.counts, hides, tuple(worlds))
        if safe.has_cells and not hides[:, safe.sizes > 0].all()
        else SafeCounts.without_cells(safe.counts)
        for safe, hides, worlds in zip(alone, hidden, changes, strict=True)
    ]


def _followed(table: FloatArray, change: FloatArray) -> tuple[int, FloatArray] | None:
    """A group, and its row when the sizes of the clusters change; None where none can."""
    # The largest group first: always the same one, so that few counts are hidden for its sake.
    for group in np.argsort(-table.sum(axis=1), kind="stable").tolist():
        row = table[group] + change
        if (row >= 0).all():
            return group, row
    return None


def _replaced(table: FloatArray, group: int, row: FloatArray) -> FloatArray:
    world = table.copy()
    world[group] = row
    return world


def rounded_up(number: float, sizes: ArrayLike, *, rows: int = 1, cap: float = inf) -> str:
    """A gap of rows whose counts are not on the page, rounded up to rows of the smallest group.

    With ``rows=1`` any count of one group has a count of the other that gives the same text. A
    figure that comes beside another gap takes ``rows=5``.

    Examples
    --------
    >>> rounded_up(0.0312, [100, 300]), rounded_up(0.0312, [7, 300])
    ('at most 0.0400', 'hidden')
    """
    groups = np.asarray(sizes, dtype=np.float64)
    if not np.isfinite(number):
        return value(number)
    if not len(groups) or groups.min() < FEWEST:
        return HIDDEN
    if groups.min() >= MANY and rows == 1:
        return value(number)
    return at_most(min(_up(number, rows / float(groups.min())), cap))


def rounded_down(number: float, sizes: ArrayLike) -> str:
    """A ratio of rows whose counts are not on the page, rounded down.

    To hundredths where groups have many rows, else to tenths: a ratio is of the counts of one
    cluster, of which small ones have few ratios.

    Examples
    --------
    >>> rounded_down(0.7832, [5000, 3000]), rounded_down(0.7832, [50, 3000])
    ('at least 0.78', 'at least 0.70')
    """
    groups = np.asarray(sizes, dtype=np.float64)
    if not np.isfinite(number):
        return value(number)
    if not len(groups) or groups.min() < FEWEST:
        return HIDDEN
    step = 0.01 if groups.min() >= MANY else 0.1
    return f"at least {floor(number / step + 1e-9) * step:.2f}"


def certified(certificate: Certificate) -> str:
    """What held-out rows certify: an upper bound for the population, or hidden.

    An exact bound tells counts: it is the smaller, the closer rates are to 0 or 1. So with fewer
    than 1,000 rows in a group it is computed anew from the gap that is shown: each rate is within
    ``sqrt(log(2 / error) / (2 n))`` of the one in the population (Hoeffding 1963), with the error
    shared by all rates. That holds as well, and is weaker.
    """
    sizes = np.array(list(certificate.group_sizes.values()), dtype=np.float64)
    shown = rounded_up(certificate.value, sizes)
    if shown == HIDDEN or sizes.min() >= MANY:
        return rounded_up(certificate.bound, sizes, rows=5)
    measure = CRITERIA[certificate.criterion]
    error = (1 - certificate.confidence) / (len(sizes) * certificate.n_clusters)
    reach = np.array([[sqrt(log(2 / error) / (2 * n))] for n in sizes])
    reach = np.repeat(reach, certificate.n_clusters, axis=1)
    # Differences add up: the gap of the population is at most that of the rows and that of errors.
    most = measure.largest(np.zeros_like(reach), np.ones_like(reach))
    return at_most(min(float(shown.split()[-1]) + measure.largest(-reach, reach), most))


@dataclass(frozen=True)
class Share:
    """A rounded share of rows: what is shown, and how many rows it may be."""

    inside: float
    rows: float
    step: float

    @property
    def shown(self) -> float:
        """The share, a multiple of the step."""
        # Rounded, so that ten steps of 0.1 are one.
        return round(round(self.inside / self.rows / self.step) * self.step, 6)

    @property
    def text(self) -> str:
        """In percent, with half a step on either side."""
        half = amount(50 * self.step)
        if self.shown == 0:
            return f"below {half}%"
        if self.shown == 1:
            return f"above {amount(100 - 50 * self.step)}%"
        return f"{amount(100 * self.shown)} ± {half}%"

    @property
    def low(self) -> float:
        """Fewest rows that it may be."""
        return max(0.0, (self.shown - self.step / 2) * self.rows)

    @property
    def high(self) -> float:
        """Most rows."""
        return min(self.rows, (self.shown + self.step / 2) * self.rows)


def share_of(inside: float, rows: float, *, coarser: int = 0) -> Share | None:
    """A share, rounded to steps of at least 10 rows; None where there are too few for that.

    Examples
    --------
    >>> share_of(46, 100).text, share_of(6, 13)
    ('50 ± 5%', None)
    """
    steps = [step for step in STEPS if step * rows >= FEWEST][coarser:]
    return Share(inside, rows, steps[0]) if steps else None


def safe_shares(
    here: dict[int, Share], everywhere: float, rows: float, others: int
) -> Share | None:
    """The share of a category in all rows, so rounded that subtraction fixes no count of it.

    Parameters
    ----------
    here : dict of int to Share
        Its share in each cluster that shows it.
    everywhere, rows : float
        Rows with the category, and all rows.
    others : int
        Clusters that do not show it.
    """
    lows, highs = (sum(getattr(s, end) for s in here.values()) for end in ("low", "high"))
    for coarser in range(len(STEPS)):
        overall = share_of(everywhere, rows, coarser=coarser)
        if overall is None:
            return None
        # What all rows leave for each cluster, and for the clusters that do not show it, when the
        # others have as many or as few as they may.
        elsewhere = inf if others else 0.0
        ends = [
            (
                max(share.low, overall.low - (highs - share.high) - elsewhere),
                min(share.high, overall.high - (lows - share.low)),
            )
            for share in here.values()
        ]
        if others:
            ends.append((max(0.0, overall.low - highs), overall.high - lows))
        if all(open_to_readers(*pair) for pair in ends):
            return overall
    return None


def open_to_readers(low: float, high: float) -> bool:
    """Whether a count between two ends stays unknown: it may be 1 to 4, or is open over 5 rows."""
    # Counts are whole; the small amount is for ends that are whole but for rounding.
    low, high = ceil(low - 1e-6), floor(high + 1e-6)
    return (low <= 1 and high >= SMALLEST - 1) or high - low >= SMALLEST


def _protected(
    table: FloatArray, group: int, says: Says
) -> tuple[BoolArray, list[FloatArray]] | None:
    """Counts of a group to hide, and rows of other worlds; None where not even all are enough."""
    row = table[group]
    filled = np.flatnonzero(table.sum(axis=0) > 0)  # an empty cluster hides nobody
    hidden = np.zeros(len(row), dtype=bool)
    small = filled[row[filled] < SMALLEST]
    if not len(small):
        return hidden, []
    # The smallest are hidden first. The place breaks ties, so that pages repeat.
    order = filled[np.argsort(row[filled], kind="stable")]
    for n_hidden in range(max(2, len(small)), len(order) + 1):
        chosen = order[:n_hidden]
        if row[chosen].sum() < REACH:
            continue
        worlds = [row]
        for cell in small:
            for rows in range(1, REACH + 1):
                worlds += _with(table, group, cell, rows, chosen, says)
        # Most of the larger ones have made up for a small one by now.
        for cell in chosen:
            for more in (5, -5, 3, -3):
                if not _covered(worlds, cell):
                    worlds += _with(table, group, cell, row[cell] + more, chosen, says)
        if all(_covered(worlds, cell) for cell in chosen):
            hidden[chosen] = True
            return hidden, worlds[1:]
    return None


def _with(
    table: FloatArray,
    group: int,
    cell: np.intp,
    rows: float,
    chosen: NDArray[np.intp],
    says: Says,
) -> list[FloatArray]:
    """The row of a group with another count in one cell, made up for in other hidden ones.

    A list of one row, or of none where what the page says would differ.
    """
    if rows < 0 or table[group, cell] == rows:
        return []
    others = [int(c) for c in chosen[::-1] if c != cell]  # the largest first
    said = says(table)
    for first in others[:TRIES]:
        world = table.copy()
        left = rows - world[group, cell]
        world[group, cell] = rows
        for other in (first, *(c for c in others if c != first)):
            taken = min(left, world[group, other])
            world[group, other] -= taken
            left -= taken
            # How many clusters have rows is on the page.
            if left <= 0:
                break
        filled = ((world.sum(axis=0) > 0) == (table.sum(axis=0) > 0)).all()
        if left == 0 and filled and says(world) == said:
            return [world[group]]
    return []


def _covered(worlds: list[FloatArray], cell: np.intp) -> bool:
    values = {float(world[cell]) for world in worlds}
    return {1.0, 2.0, 3.0, 4.0} <= values or max(values) - min(values) >= SMALLEST


def _up(number: float, step: float) -> float:
    # The small amount keeps a multiple that is off in its last digit from going up a whole step.
    return ceil(number / step - 1e-9) * step


def _cluster_gaps(table: FloatArray, criterion: str) -> FloatArray:
    rates = table / table.sum(axis=1, keepdims=True)
    return np.array([CRITERIA[criterion].value(rates[:, [k]]) for k in range(rates.shape[1])])
