"""Mini-batches: fixed sets of blocks, taken in turn, with the totals of all of them kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from fairmix.kernels import Sweep
from fairmix.kernels.totals import Block, FloatArray, Totals, add_up
from fairmix.tables._base import OneBatch, Result
from fairmix.tables.table import Table


class Part(OneBatch):
    """The rows of some blocks of a table, as a table of its own."""

    def __init__(self, table: Table, blocks: Sequence[int]) -> None:
        self.table = table
        self.blocks = blocks
        counts = table.store.summary.block_counts[list(blocks)].sum(axis=0)
        self.n_rows = int(counts.sum())
        # Rows stand for weights; what needs the exact weight has it from the pass.
        scale = table.group_sizes / np.maximum(table.by_group(table.store.group_counts), 1)
        self.group_sizes: FloatArray = table.by_group(counts) * scale
        self.rate_steps: FloatArray = table.rate_steps * (table.n_rows / self.n_rows)
        self.weight_sum = table.weight_sum * self.n_rows / table.n_rows
        self.membership = table.membership

    @property
    def passes(self) -> float:
        """Passes over the whole table so far."""
        return self.table.passes

    def softmax_pass(self, sweep: Sweep) -> Totals:
        """Totals of the rows of the part."""
        return self.table.softmax_pass(sweep, self.blocks)

    def each(self, work: Callable[[Block], Result]) -> Iterator[Result]:
        """What ``work`` makes of every block."""
        return self.table.each(work, self.blocks)


class Batches:
    """A table whose E-steps visit one batch at a time (the paper's Algorithm 3).

    Every E-step makes new totals of the next batch, takes its old ones from the sum and adds the
    new ones: Neal and Hinton's incremental EM, exact for any cut of the data. The batches are
    fixed sets of blocks in a new random order for each round over all of them; the first E-step
    visits all. Other passes are over all rows.

    Parameters
    ----------
    table : Table
        All rows.
    n_batches : int
        How many. `block_rows_of` makes blocks of which each batch has the same number.
    rng : Generator
        Shuffles.
    """

    def __init__(self, table: Table, n_batches: int, rng: np.random.Generator) -> None:
        self.table = table
        self.n_rows, self.weight_sum = table.n_rows, table.weight_sum
        self.group_sizes, self.rate_steps = table.group_sizes, table.rate_steps
        self.membership = table.membership
        self.n_batches = n_batches
        self._rng = rng
        shuffled = rng.permutation(table.n_blocks)
        # Sorted, because files are read in one direction.
        self.parts = [
            Part(table, sorted(numbers.tolist())) for numbers in np.array_split(shuffled, n_batches)
        ]
        self._turns: list[int] = []
        self._totals: list[Totals] = []
        self._sum: Totals | None = None

    @property
    def passes(self) -> float:
        """Passes over the whole table so far."""
        return self.table.passes

    def fresh(self) -> Batches:
        """New batches of the same table."""
        return Batches(self.table, self.n_batches, self._rng)

    def next_batch(self) -> Part:
        """The next batch; every batch once in each round."""
        return self.parts[self._next_number()]

    def _next_number(self) -> int:
        if not self._turns:
            self._turns = self._rng.permutation(self.n_batches).tolist()
            # Rounding of many subtractions and additions ends with each round.
            self._sum = add_up(self._totals) if self._totals else None
        return self._turns.pop()

    def softmax_pass(self, sweep: Sweep) -> Totals:
        """Totals of all rows, of which an E-step has made those of one batch anew."""
        # Rates and gradients are of one point, so old totals of other batches are of no use.
        if not sweep.is_e_step:
            return self.table.softmax_pass(sweep)
        if not self._totals:
            self._totals = [part.softmax_pass(sweep) for part in self.parts]
            self._sum = add_up(self._totals)
            return self._sum
        number = self._next_number()
        assert self._sum is not None
        new = self.parts[number].softmax_pass(sweep)
        self._sum = self._sum - self._totals[number] + new
        self._totals[number] = new
        return self._sum

    def each(self, work: Callable[[Block], Result]) -> Iterator[Result]:
        """What ``work`` makes of every block, in the order of the rows."""
        return self.table.each(work)
