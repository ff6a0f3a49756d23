"""The seam between solvers and data: blocks of rows, wherever they live."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Generic, Protocol, Self, TypeVar

from fairmix.kernels import Sweep
from fairmix.kernels.totals import Block, FloatArray, Membership, Totals

Item = TypeVar("Item")
Result = TypeVar("Result")

# Rows per block. Fixed in global row order in every back end, so that the order of all sums, and
# with it every bit of a result, depends on the data alone. Smaller blocks would fit into caches,
# but their many calls cost more than that saves (decision record 0013).
BLOCK_ROWS = 16384
# Rows per block, exactly: whole numbers of rows cannot cut most tables into equal batches, so a
# block of 325.61 rows has 325 or 326.
BlockRows = int | Fraction


def count_rows(size: float, n_rows: int) -> int:
    """Rows that a number of rows, or a share of all, means."""
    return max(1, round(size * n_rows)) if size < 1 else min(int(size), n_rows)


def count_batches(size: float, n_rows: int) -> int:
    """How many equal batches come nearest to a size, in rows or as a share of all."""
    rows = count_rows(size, n_rows)
    few = n_rows // rows
    return min(few, few + 1, key=lambda n_batches: abs(n_rows / n_batches - rows))


def block_rows_of(n_rows: int, batch_size: float | None) -> BlockRows:
    """Rows per block, such that each batch is the same number of blocks."""
    if batch_size is None:
        return BLOCK_ROWS
    n_batches = count_batches(batch_size, n_rows)
    # As few blocks for a batch as keep each of them within `BLOCK_ROWS`.
    return Fraction(n_rows, n_batches * math.ceil(n_rows / n_batches / BLOCK_ROWS))


def count_blocks(n_rows: int, block_rows: BlockRows) -> int:
    """Blocks of all rows."""
    return math.ceil(Fraction(n_rows) / block_rows)


def block_start(number: int, block_rows: BlockRows) -> int:
    """First row of a block."""
    return math.floor(number * block_rows)


class Rowlike(Protocol):
    """What solvers need of rows: passes over them.

    Rows that are visited batch by batch answer for themselves; all others are one batch
    (`OneBatch`), and solvers need not know which they have.
    """

    @property
    def n_rows(self) -> int:
        """N."""

    @property
    def group_sizes(self) -> FloatArray:
        """Weight of each group that is compared, (M,)."""

    @property
    def membership(self) -> Membership | None:
        """The groups of several attributes, where a row has one of each."""

    @property
    def weight_sum(self) -> float:
        """Weight of all rows."""

    @property
    def rate_steps(self) -> FloatArray:
        """By how much one row can move the rate of its group, (M,)."""

    @property
    def passes(self) -> float:
        """Passes over all rows of a fit so far; one over some of them counts by their share."""

    @property
    def n_batches(self) -> int:
        """E-steps that visit all rows."""

    def fresh(self) -> Rowlike:
        """The same rows, with nothing kept of earlier E-steps."""

    def next_batch(self) -> Rowlike:
        """The rows of the next batch."""

    def softmax_pass(self, sweep: Sweep) -> Totals:
        """Totals of the rows."""

    def each(self, work: Callable[[Block], Result]) -> Iterator[Result]:
        """What ``work`` makes of every block, in the order of the rows."""


class OneBatch:
    """Rows that every E-step visits."""

    n_batches = 1

    def fresh(self) -> Self:
        """These rows: they keep nothing that a result depends on."""
        return self

    def next_batch(self) -> Self:
        """All of them."""
        return self


class Blocks(ABC, Generic[Item]):
    """Things, one for each run of rows, in the order of the rows. A back end is one of these.

    The things may be read when they are needed, or be far away: only what a function makes of
    them comes back.
    """

    n_blocks: int
    # Whether the things are in this process and stay there.
    local: bool
    # Whether those that are kept take the memory of this process.
    kept_here = True

    @abstractmethod
    def each(
        self, work: Callable[[Item], Result], numbers: Sequence[int] | None = None
    ) -> Iterator[Result]:
        """What ``work`` makes of the things with these increasing numbers, None for all."""

    @abstractmethod
    def map(self, function: Callable[[Item], Result], *, keep: int) -> Blocks[Result]:
        """What a function makes of each, as blocks; so many of them, the first ones, are kept.

        Where they are elsewhere, any number means all.
        """
