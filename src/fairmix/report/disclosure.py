"""Disclosure: the one room that every number about rows passes on its way to the page.

The page is one release, so what it says as a whole must leave every hidden count open. The unit of
hiding is the cluster: those with a small count, and at least one more, make the *pool*. The page
shows the sum of the pool and no number of a cluster in it. A verdict says how groups compare within
clusters and not how large these are, so rows of all groups can move from one cluster of the pool to
another while everything that the page says stays true.

Such tables are *worlds*. They differ from the true table in the pool only, and every count of the
pool has worlds in which it is another number. A figure is printed as far as it is the same in all
worlds. Whoever reads the page cannot tell them apart, so he does not know which one is true.

Sizes of groups count as known: several tables of a page share them. Hence a row moves only within
its group. Tables of the same clusters by several attributes share the sizes of the clusters as
well: they have one pool, and what moves in one of them moves in all.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import ceil, floor, inf, log, sqrt
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairmix.criteria import CRITERIA, smallest_ratio
from fairmix.report.figures import HIDDEN, amount, at_most, value
from fairmix.results.certificate import Certificate

__all__ = [
    "FEWEST",
    "MANY",
    "SMALLEST",
    "SafeCounts",
    "SaysOfAll",
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
Tables = tuple[FloatArray, ...]  # one for each attribute
Says = Callable[[FloatArray], Hashable]
SaysOfAll = Callable[[Sequence[FloatArray]], Hashable]
T = TypeVar("T", bound=Hashable)

SMALLEST = 5  # a count of fewer rows is hidden
FEWEST = 10  # a group or a cluster of fewer rows has no counts, means or shares at all
# A gap with four decimals fits one in ten of the counts of groups with so many rows; with fewer
# rows the decimals would tell the counts.
MANY = 1000
TRIES = 4  # clusters that are tried to make up for another; the first nearly always does
# What a count is changed by until it is open over 5 rows, the most telling first.
CHANGES = (5, -5, 4, 3, 2, 1, -1, -2, -3, -4)
STEPS = (0.001, 0.01, 0.02, 0.05, 0.1, 0.2)  # what shares are rounded to multiples of
# Decimals of a percentage that say themselves that it is rounded to such a step.
DIGITS = {0.01: 0, 0.001: 1}


@dataclass(frozen=True, eq=False)
class SafeCounts:
    """Counts of groups in clusters, which clusters are pooled, and the worlds that prove it safe.

    Parameters
    ----------
    counts : ndarray of shape (n_groups, n_clusters)
        Rows, or sums of probabilities.
    pool : ndarray of bool of shape (n_clusters,)
        Clusters of which only the sum is shown.
    worlds : tuple of ndarray of shape (n_groups, n_clusters)
        Other tables that a reader must hold possible.
    closed : bool
        Whether nothing is told at all: neither a count nor a figure.
    silent : bool
        Whether even what is said in any case, the verdict, would tell a count.

    Examples
    --------
    >>> safe = SafeCounts.of(np.array([[3.0, 40.0, 50.0], [60.0, 70.0, 80.0]]))
    >>> safe.pool.tolist()
    [True, True, False]
    """

    counts: FloatArray
    pool: BoolArray
    worlds: Tables = ()
    closed: bool = False
    silent: bool = False

    @classmethod
    def of(cls, counts: ArrayLike, says: Says | None = None) -> SafeCounts:
        """Pool clusters until what the page shows, and ``says`` in any case, leaves them open.

        ``says`` gives what is said of the table whatever happens, such as a verdict.
        """
        return safe_attributes([counts], None if says is None else lambda all_: says(all_[0]))[0]

    @classmethod
    def nothing(cls, counts: ArrayLike, *, silent: bool = False) -> SafeCounts:
        """Counts of which nothing is told, but for the verdict on them."""
        table = np.asarray(counts, dtype=np.float64)
        return cls(table, np.ones(table.shape[1], dtype=bool), closed=True, silent=silent)

    def first(self, n_groups: int) -> SafeCounts:
        """Those of the first groups; others are on no page."""
        if n_groups == len(self.counts):
            return self
        worlds = tuple(world[:n_groups] for world in self.worlds)
        return SafeCounts(self.counts[:n_groups], self.pool, worlds, self.closed, self.silent)

    @property
    def has_cells(self) -> bool:
        """Whether a count is shown: a pool of all clusters has the sizes of the groups only."""
        return not self.closed and not self.pool[self.sizes > 0].all()

    @property
    def sizes(self) -> FloatArray:
        """Rows of each cluster, not for showing."""
        return np.asarray(self.counts.sum(axis=0))

    @property
    def group_sizes(self) -> FloatArray:
        """Rows of each group."""
        return np.asarray(self.counts.sum(axis=1))

    @property
    def fewest(self) -> FloatArray:
        """Rows that a reader knows each cluster to have."""
        if self.closed:
            return np.zeros_like(self.sizes)
        every = [self.sizes, *(world.sum(axis=0) for world in self.worlds)]
        return np.asarray(np.min(every, axis=0), dtype=np.float64)

    @property
    def columns(self) -> list[tuple[list[int], FloatArray]]:
        """What is shown: the counts of each cluster by itself, and of the pool together."""
        found = [([k], self.counts[:, k]) for k in np.flatnonzero(~self.pool).tolist()]
        pooled = np.flatnonzero(self.pool & (self.sizes > 0)).tolist()
        return [*found, (pooled, self.counts[:, pooled].sum(axis=1))] if pooled else found

    @property
    def estimate(self) -> FloatArray:
        """The counts as far as they are shown: the clusters of the pool share it evenly."""
        table = self.counts.copy()
        for clusters, rows in self.columns:
            table[:, clusters] = rows[:, None] / len(clusters)
        return table

    def tell(self, figure: Callable[[FloatArray], T]) -> T | None:
        """A figure of the table, as it is printed, if every world has the same; None otherwise.

        Every number that is not of a cluster outside the pool comes from here.
        """
        return self.tell_each(lambda table: [figure(table)])[0]

    def tell_each(self, figures: Callable[[FloatArray], Sequence[T]]) -> list[T | None]:
        """As `tell`, for a figure of each group: each is told or not by itself."""
        if not self.has_cells:
            return [None] * max(1, len(self.counts))
        found = zip(*(figures(table) for table in (self.counts, *self.worlds)), strict=True)
        return [said if all(other == said for other in others) else None for said, *others in found]

    def gap(self, criterion: str, *, cap: float = inf) -> str:
        """The criterion: exact, as an upper bound, or hidden.

        A gap that rests on the pool is rounded up to whole rows of the smallest group, never to
        the nearest: "at most" must stay true. ``cap`` is known to be no less than it.
        """
        if self.closed:
            return HIDDEN if self.silent or cap == inf else at_most(cap)
        measure, smallest = CRITERIA[criterion], float(self.group_sizes.min())
        exact = [measure.value(_rates(table)) for table in (self.counts, *self.worlds)]
        said = {value(gap) for gap in exact}
        for n_rows in (1, 2, 5, 10, 20):
            if len(said) == 1:
                return said.pop()
            said = {at_most(min(_up(gap, n_rows / smallest), cap)) for gap in exact}
        if len(said) > 1:
            return HIDDEN if cap == inf else at_most(cap)
        return said.pop()

    def balance(self) -> str:
        """Smallest ratio of two groups in a cluster."""
        return self.tell(lambda table: value(smallest_ratio(table))) or HIDDEN


def safe_tables(
    pages: Sequence[tuple[Sequence[FloatArray], SaysOfAll | None]],
) -> list[list[SafeCounts]]:
    """The tables of one page, by attribute, with what is said of them in any case.

    Equal tables, such as those of two bounds that are met alike, have the same pool, so that none
    shows what another hides.
    """
    keys = [tuple(np.asarray(t, dtype=np.float64).tobytes() for t in ts) for ts, _ in pages]
    said: dict[tuple[bytes, ...], list[SaysOfAll]] = {key: [] for key in keys}
    for key, (_, says) in zip(keys, pages, strict=True):
        said[key] += [says] if says else []
    found = {
        key: safe_attributes(tables, _together(said[key]))
        for key, (tables, _) in dict(zip(keys, pages, strict=True)).items()
    }
    return [found[key] for key in keys]


def _together(every: Sequence[SaysOfAll]) -> SaysOfAll:
    """All that is said of the same tables."""

    def said(tables: Sequence[FloatArray]) -> Hashable:
        return tuple(says(tables) for says in every)

    return said


def safe_attributes(counts: Sequence[ArrayLike], says: SaysOfAll | None = None) -> list[SafeCounts]:
    """Tables of the same rows and clusters, one for each attribute.

    The columns of all tables add up to the same: rows of groups that are not shown are a row, too.
    ``says`` gives what is said of all tables whatever happens.

    Examples
    --------
    >>> sex, region = [[3.0, 40.0, 57.0], [60.0, 70.0, 80.0]], [[63.0, 110.0, 137.0]]
    >>> [safe.pool.tolist() for safe in safe_attributes([sex, region])]
    [[True, True, False], [True, True, False]]
    """
    tables = tuple(np.asarray(table, dtype=np.float64) for table in counts)
    # Sums of probabilities are whole only up to rounding. If one attribute has too few rows to
    # show, what others show of the clusters would tell its counts.
    shown = all((np.rint(table.sum(axis=1)) >= FEWEST).all() for table in tables)
    found = _pooled(tables, says or (lambda _: None)) if shown else None
    if found is None:
        return [SafeCounts.nothing(table, silent=shown) for table in tables]
    pool, worlds = found
    return [
        SafeCounts(table, pool, tuple(world[a] for world in worlds))
        for a, table in enumerate(tables)
    ]


def _pooled(tables: Tables, says: SaysOfAll) -> tuple[BoolArray, list[Tables]] | None:
    """The smallest pool that is safe, and its worlds; None where not even all clusters are."""
    cells = np.vstack(tables)
    filled = cells.sum(axis=0) > 0  # an empty cluster hides nobody
    small = filled & (cells < SMALLEST).any(axis=0)
    pool = np.zeros(len(filled), dtype=bool)
    if not small.any():
        return pool, []
    # The smallest first, after those that must be in it. The place breaks ties: pages repeat.
    order = sorted(
        np.flatnonzero(filled).tolist(), key=lambda k: (not small[k], cells[:, k].sum(), k)
    )
    for n_pooled in _growing(int(small.sum()), len(order)):
        chosen = order[:n_pooled]
        if (cells[:, chosen].sum(axis=1) < FEWEST).any():
            continue
        worlds = _worlds(tables, chosen, says)
        if worlds is not None:
            pool[chosen] = True
            return pool, worlds
    return None


def _growing(first: int, last: int) -> Iterator[int]:
    """Sizes of pools to try, at least two clusters: by one, two, four, ..., and all."""
    size, step = max(2, first), 1
    while size < last:
        yield size
        size, step = size + step, 2 * step
    if last > 1:
        yield last


def _worlds(tables: Tables, pool: Sequence[int], says: SaysOfAll) -> list[Tables] | None:
    """Tables that a reader must hold possible; None where a count of the pool is not open."""
    worlds, said = _Worlds(tables), says(tables)
    for a, table in enumerate(tables):
        for cell in product(range(len(table)), pool):
            rows = float(table[cell])
            # A small count may be any small count; one beside it is open over as many rows.
            wanted = [float(n) for n in range(1, SMALLEST)] if rows < SMALLEST else []
            for n in (*wanted, *(rows + change for change in CHANGES)):
                if n not in wanted and worlds.leave_open(a, cell):
                    break
                if not worlds.have(a, cell, n):
                    worlds.add(_world(tables, a, cell, n, pool, lambda w: says(w) == said))
            if not worlds.leave_open(a, cell):
                return None
    return worlds.found


class _Worlds:
    """Worlds, and the numbers that each count is in them."""

    def __init__(self, tables: Tables) -> None:
        self.found: list[Tables] = []
        self._least, self._most = [t.copy() for t in tables], [t.copy() for t in tables]
        self._small = [np.stack([t == n for n in range(1, SMALLEST)]) for t in tables]

    def add(self, world: Tables | None) -> None:
        if world is None:
            return
        self.found.append(world)
        for a, table in enumerate(world):
            np.minimum(self._least[a], table, out=self._least[a])
            np.maximum(self._most[a], table, out=self._most[a])
            for n, seen in enumerate(self._small[a], 1):
                seen |= table == n

    def have(self, a: int, cell: tuple[int, int], rows: float) -> bool:
        return rows in range(1, SMALLEST) and bool(self._small[a][int(rows) - 1][cell])

    def leave_open(self, a: int, cell: tuple[int, int]) -> bool:
        spread = self._most[a][cell] - self._least[a][cell]
        return bool(spread >= SMALLEST or all(seen[cell] for seen in self._small[a]))


def _world(
    tables: Tables,
    a: int,
    cell: tuple[int, int],
    rows: float,
    pool: Sequence[int],
    is_said: Callable[[Tables], bool],
) -> Tables | None:
    """Tables with another number in one cell; None where the page would say something else."""
    own, (g, k) = tables[a], cell
    sizes = own.sum(axis=1)
    others = sorted((c for c in pool if c != k), key=lambda c: -own[g, c])
    for partner in others[:TRIES] if rows >= 0 else ():
        moves = _moves(own[g], rows - own[g, k], sorted(others, key=lambda c: c != partner))
        # The other groups follow in proportion, or to the same rate, or stay where they are.
        ways = [
            [np.rint(n * sizes / sizes[g]) for _, n in moves],
            [np.zeros(len(sizes)) for _ in moves],
        ]
        if len(moves) == 1:
            ways.insert(1, [np.rint(rows * sizes / sizes[g]) - own[:, k]])
        for way in ways if moves else ():
            for amounts, (_, n) in zip(way, moves, strict=True):
                amounts[g] = n
            world = _moved(tables, a, k, [c for c, _ in moves], way)
            if world is not None and is_said(world):
                return world
    return None


def _moves(row: FloatArray, change: float, others: Sequence[int]) -> list[tuple[int, float]]:
    """Clusters that so many rows of a group come from, or go to; none where these have too few."""
    moves = []
    for cluster in others:
        n_rows = min(change, float(row[cluster]))
        moves.append((cluster, n_rows))
        change -= n_rows
        if change <= 0:
            return moves
    return []


def _moved(
    tables: Tables, a: int, k: int, sources: Sequence[int], way: Sequence[FloatArray]
) -> Tables | None:
    """Tables after rows of each group of attribute ``a`` have moved; None where there are none."""
    world = tuple(table.copy() for table in tables)
    for source, amounts in zip(sources, way, strict=True):
        for b, table in enumerate(world):
            moved = amounts if b == a else _split(float(amounts.sum()), table.sum(axis=1))
            table[:, k] += moved
            table[:, source] -= moved
    if any((table < 0).any() for table in world):
        return None
    # How many clusters have rows is on the page.
    same = ((world[0].sum(axis=0) > 0) == (tables[0].sum(axis=0) > 0)).all()
    return world if same else None


def _split(rows: float, sizes: FloatArray) -> FloatArray:
    """A number of rows as whole parts in proportion to sizes."""
    ends = np.rint(rows * np.cumsum(sizes) / sizes.sum())
    ends[-1] = rows
    return np.diff(ends, prepend=0.0)


def _rates(table: FloatArray) -> FloatArray:
    return np.asarray(table / table.sum(axis=1, keepdims=True))


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
        """In percent, with half a step on either side, unless that is what the digits say."""
        half = amount(50 * self.step)
        if self.shown == 0:
            return f"below {half}%"
        if self.shown == 1:
            return f"above {amount(100 - 50 * self.step)}%"
        if self.step in DIGITS:
            return f"{100 * self.shown:.{DIGITS[self.step]}f}%"
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


def _up(number: float, step: float) -> float:
    # The small amount keeps a multiple that is off in its last digit from going up a whole step.
    return ceil(number / step - 1e-9) * step
