"""Stores: rows before they are encoded, their groups and weights, and samples of them."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairmix.kernels.totals import Chunk, FloatArray, IntArray, Rows
from fairmix.tables._base import BLOCK_ROWS, BlockRows, Blocks, block_start, count_blocks
from fairmix.tables.memory import MemoryBlocks

# A sample holds at least so many rows of every group, or all that there are (decision record 0007).
# It is also the size from which on a group is judged by default.
FEW = 30


@dataclass(frozen=True, eq=False)
class Moments:
    """Weight, mean and sum of squared deviations of each numeric column, where it has values.

    ``+`` merges two sets of rows without cancellation (Chan, Golub and LeVeque 1983).
    """

    weight: FloatArray
    mean: FloatArray
    squares: FloatArray

    @classmethod
    def of(cls, numeric: FloatArray | None, weight: FloatArray | None) -> Moments:
        """Moments of some rows."""
        if numeric is None:
            return cls(np.zeros(0), np.zeros(0), np.zeros(0))
        # A copy, which is overwritten. Row by row, because the order decides the last bits of sums.
        X = numeric.astype(np.float64, order="C")
        w = np.ones(len(X)) if weight is None else weight.astype(np.float64)
        # Threads do not inherit it. What overflows is infinite, and refused by who asks.
        with np.errstate(over="ignore", invalid="ignore"):
            return cls._of(X, w)

    @classmethod
    def _of(cls, X: NDArray[np.float64], w: NDArray[np.float64]) -> Moments:
        sums, total = w @ X, np.full(X.shape[1], w.sum())
        # The sums tell whether anything is missing; flags of all values are made only then.
        absent = np.isnan(X) if np.isnan(sums).any() else None
        if absent is not None:
            sums, total = w @ np.where(absent, 0.0, X), w @ ~absent
        mean = np.divide(sums, total, out=np.zeros_like(sums), where=total > 0)
        X -= mean
        X *= X
        if absent is not None:
            X[absent] = 0.0
        return cls(total, mean, w @ X)

    def __add__(self, other: Moments) -> Moments:
        total = self.weight + other.weight
        share = np.divide(other.weight, total, out=np.zeros_like(total), where=total > 0)
        step = other.mean - self.mean
        squares = self.squares + other.squares + self.weight * share * step**2
        return Moments(total, self.mean + share * step, squares)

    @property
    def variance(self) -> FloatArray:
        """Mean squared deviation."""
        return np.divide(
            self.squares, self.weight, out=np.zeros_like(self.squares), where=self.weight > 0
        )

    def standardized(self) -> Moments:
        """Moments after these columns were standardised."""
        return Moments(self.weight, np.zeros_like(self.mean), self.weight)


class Summary(NamedTuple):
    """What one sweep over the raw rows tells.

    ``block_counts`` (n_blocks, M), ``group_sizes`` (M,) and ``largest_weights`` (M,): rows of each
    group in each block, the weight of each group and that of its heaviest row; one entry more
    where rows stand aside. ``digest`` is a checksum of all values.
    """

    block_counts: IntArray
    group_sizes: FloatArray
    largest_weights: FloatArray
    moments: Moments
    digest: int


class Store:
    """Rows that can only be reached through blocks.

    Parameters
    ----------
    blocks : Blocks of Chunk
        The rows.
    n_groups : int
        M, groups that are compared.
    summary : Summary or None
        None: found by a sweep.
    block_rows : int or Fraction
        Rows per block.
    aside : bool
        Whether rows may have the code M: they are in no group that is compared.
    """

    def __init__(
        self,
        blocks: Blocks[Chunk],
        n_groups: int,
        summary: Summary | None = None,
        block_rows: BlockRows = BLOCK_ROWS,
        *,
        aside: bool = False,
    ) -> None:
        self.blocks = blocks
        self.n_groups = n_groups
        self.block_rows = block_rows
        self.aside = aside
        self._summary = summary

    @property
    def summary(self) -> Summary:
        """What one sweep tells; made when it is first needed."""
        if self._summary is None:
            self._summary = self._summarize()
        return self._summary

    def _summarize(self) -> Summary:
        n_codes = self.n_groups + self.aside

        def look(chunk: Chunk) -> tuple[IntArray, FloatArray, FloatArray, Moments, int]:
            counts = np.bincount(chunk.groups, minlength=n_codes)
            sizes = np.bincount(chunk.groups, chunk.weight, n_codes).astype(np.float64)
            heaviest = (counts > 0).astype(np.float64)
            if chunk.weight is not None:
                heaviest = np.zeros(n_codes)
                np.maximum.at(heaviest, chunk.groups, chunk.weight)
            moments = Moments.of(chunk.rows.numeric, chunk.weight)
            return counts, sizes, heaviest, moments, chunk.digest

        counts, sizes, heaviest, moments, digests = zip(*self.blocks.each(look), strict=True)
        return Summary(
            np.stack(counts),
            # In the order of the blocks, so that every back end gets the same bits.
            reduce(np.add, sizes),
            reduce(np.maximum, heaviest),
            reduce(Moments.__add__, moments),
            # A checksum of checksums: a sum of them would not see blocks change places.
            zlib.crc32(np.array(digests, np.uint32).tobytes()),
        )

    @property
    def group_sizes(self) -> FloatArray:
        """Weight of each group that is compared, (M,)."""
        return self.summary.group_sizes[: self.n_groups]

    @property
    def weight_sum(self) -> float:
        """Weight of all rows, those aside included."""
        return float(self.summary.group_sizes.sum())

    @property
    def rate_steps(self) -> FloatArray:
        """By how much one row can move the rate of its group, (M,)."""
        heaviest = self.summary.largest_weights[: self.n_groups]
        # A batch of a stream may lack a group.
        sizes = np.where(self.group_sizes > 0, self.group_sizes, 1.0)
        return np.asarray(heaviest / sizes)

    @property
    def group_counts(self) -> IntArray:
        """Rows of each group that is compared, (M,)."""
        return self._counts[: self.n_groups]

    @property
    def _counts(self) -> IntArray:
        return np.asarray(self.summary.block_counts.sum(axis=0))

    @property
    def n_rows(self) -> int:
        """N."""
        return int(self.summary.block_counts.sum())

    def sample(
        self, n_rows: int, rng: np.random.Generator, *, replace: bool = False
    ) -> MemoryStore:
        """Rows drawn at random within each group, in their order.

        Groups have their share of the sample, except that a small one has some rows in any case;
        weights then make up for it.
        """
        counts = self._counts
        wanted = allocate(counts, n_rows, replace=replace)
        block_rows: BlockRows = BLOCK_ROWS
        if n_rows >= self.n_rows and not replace:
            # As in memory: all rows are no draw, and keep their blocks.
            ranks = [np.arange(have) for have in counts]
            block_rows = self.block_rows
        else:
            ranks = [
                # By running number within each group, so that only blocks with chosen rows are
                # read.
                np.sort(rng.choice(int(have), int(want), replace=replace))
                for have, want in zip(counts, wanted, strict=True)
            ]
        picks = _picks(ranks, self.summary.block_counts)
        chunks = list(self.blocks.each(Picker(picks), sorted(picks)))
        weight = _joined(chunk.weight for chunk in chunks)
        groups = np.concatenate([chunk.groups for chunk in chunks])
        ratio = (counts / counts.sum()) / np.where(wanted > 0, wanted / wanted.sum(), 1.0)
        # Rounding to whole rows is left alone: weights are for small groups that got more than
        # their share.
        if np.abs(ratio[wanted > 0] - 1).max() > FEW / n_rows:
            weight = ratio[groups] * (1.0 if weight is None else weight)
        return MemoryStore(
            concatenate_rows([chunk.rows for chunk in chunks]),
            groups=groups,
            n_groups=self.n_groups,
            aside=self.aside,
            weight=weight,
            ties=_joined(chunk.ties for chunk in chunks),
            # A cluster has no threads in this process.
            n_jobs=getattr(self.blocks, "n_jobs", 1),
            block_rows=block_rows,
        )


class MemoryStore(Store):
    """Rows in memory.

    Parameters
    ----------
    rows : Rows
        Numeric and categorical columns.
    groups : (N,) int array or None
        Group codes; None puts all rows in one group.
    n_groups : int
        M.
    aside : bool
        Whether rows may have the code M.
    weight : (N,) array or None
        Row weights.
    ties : (N,) array or None
        What `Ties` finds in the table that the rows come from.
    n_jobs : int
        Threads of sweeps.
    block_rows : int or Fraction
        Rows per block.
    summary : Summary or None
        None: found by a sweep.
    """

    def __init__(
        self,
        rows: Rows,
        *,
        groups: IntArray | None = None,
        n_groups: int = 1,
        aside: bool = False,
        weight: FloatArray | None = None,
        ties: IntArray | None = None,
        n_jobs: int = 1,
        block_rows: BlockRows = BLOCK_ROWS,
        summary: Summary | None = None,
    ) -> None:
        self.rows = rows
        self.groups = np.zeros(rows.n_rows, dtype=np.intp) if groups is None else groups
        self.weight = weight
        self.ties = ties
        self.n_jobs = n_jobs
        n_blocks = count_blocks(rows.n_rows, block_rows)

        def chunk(number: int) -> Chunk:
            part = slice(block_start(number, block_rows), block_start(number + 1, block_rows))
            # Looked up when a block is made: `Model` adds ties to a store that is there already.
            weight = None if self.weight is None else self.weight[part]
            ties = None if self.ties is None else self.ties[part]
            return Chunk(number, self.rows.take(part), self.groups[part], weight, ties)

        blocks = MemoryBlocks(n_blocks, chunk, n_jobs=n_jobs)
        super().__init__(blocks, n_groups, summary, block_rows, aside=aside)

    @property
    def n_rows(self) -> int:
        """N."""
        return self.rows.n_rows

    def take(self, where: IntArray) -> MemoryStore:
        """Some of the rows."""
        return MemoryStore(
            self.rows.take(where),
            groups=self.groups[where],
            n_groups=self.n_groups,
            aside=self.aside,
            weight=None if self.weight is None else self.weight[where],
            ties=None if self.ties is None else self.ties[where],
            n_jobs=self.n_jobs,
        )

    def sample(
        self, n_rows: int, rng: np.random.Generator, *, replace: bool = False
    ) -> MemoryStore:
        """Rows drawn at random within each group; all of them when that many are asked for."""
        if n_rows >= self.n_rows and not replace:
            return self
        return super().sample(n_rows, rng, replace=replace)


@dataclass(frozen=True)
class Picker:
    """Takes rows of a chunk by the group's running numbers within the chunk."""

    picks: dict[int, list[IntArray]]

    def __call__(self, chunk: Chunk) -> Chunk:
        """The chosen rows, in their order."""
        chosen = [
            np.flatnonzero(chunk.groups == group)[ranks]
            for group, ranks in enumerate(self.picks[chunk.number])
            if len(ranks)
        ]
        return chunk.take(np.sort(np.concatenate(chosen)))


def _picks(ranks: list[IntArray], block_counts: IntArray) -> dict[int, list[IntArray]]:
    """From sorted ranks within each group to ranks within each block."""
    ends = np.cumsum(block_counts, axis=0)
    starts = ends - block_counts
    cuts = [np.searchsorted(r, edges) for r, edges in zip(ranks, ends.T, strict=True)]
    picks = {}
    for number, start in enumerate(starts):
        local = []
        for group, found in enumerate(ranks):
            first = cuts[group][number - 1] if number else 0
            local.append(found[first : cuts[group][number]] - start[group])
        if any(len(found) for found in local):
            picks[number] = local
    return picks


def allocate(counts: IntArray, n_rows: int, *, replace: bool = False) -> IntArray:
    """Rows of each group in a sample: proportional, and at least a few of each."""
    total = int(counts.sum())
    n_rows = n_rows if replace else min(n_rows, total)
    exact = counts * (n_rows / total)
    wanted = np.floor(exact).astype(np.int64)
    # Largest remainders first. Stable, so that equal ones go to the same groups on all machines.
    rest = np.argsort(wanted - exact, kind="stable")[: n_rows - int(wanted.sum())]
    wanted[rest] += 1
    return np.asarray(np.maximum(wanted, np.minimum(counts, FEW)))


def concatenate_rows(rows: list[Rows]) -> Rows:
    """Rows of several parts, one after the other."""
    return Rows(_joined(part.numeric for part in rows), _joined(part.codes for part in rows))


def _joined(parts: Iterable[NDArray[Any] | None]) -> Any:
    """Parts, of which all are None or none is, one after the other."""
    there = [part for part in parts if part is not None]
    # Row by row, however the parts lie in memory: the order decides the last bits of products.
    return np.ascontiguousarray(np.concatenate(there)) if there else None
