"""Ties: rows that are equal, and a number for each by which they share labels out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairmix.kernels.totals import IntArray, Rows
from fairmix.tables._base import BLOCK_ROWS
from fairmix.tables.hashes import row_hashes

ALONE = -1
# Numbers of rows have 32 bits; they begin anew after so many, a multiple of ``BLOCK_ROWS``.
MOST_NUMBERS = 2**31


@dataclass(frozen=True)
class Ties:
    """Finds equal rows, each run of ``BLOCK_ROWS`` rows of the user's table on its own.

    Runs are what files and clusters have in common with memory. No run needs to know another, only
    its place in the table.

    Parameters
    ----------
    by_group : bool
        Whether rows of different groups are never equal, as for an aware map.
    """

    by_group: bool

    def __call__(self, rows: Rows, groups: IntArray, first_run: int = 0) -> IntArray:
        """A number for each row that has equals, -1 for a row alone, (N,).

        In each run they count up: first the rows equal to the first one that has equals, in their
        order, then those of the next kind. No two runs have a number in common, for equal rows of
        the same number would cross every boundary together. ``first_run`` is the place of the first
        row in the table, in runs.
        """
        starts = range(0, rows.n_rows, BLOCK_ROWS)
        runs = [slice(start, start + BLOCK_ROWS) for start in starts]
        return np.concatenate(
            [self._run(n, rows.take(run), groups[run]) for n, run in enumerate(runs, first_run)]
        )

    def _run(self, number: int, rows: Rows, groups: IntArray) -> IntArray:
        sets = equal_rows(rows, groups if self.by_group else None)
        out = np.full(len(sets), ALONE, dtype=np.int32)
        tied = np.flatnonzero(np.bincount(sets)[sets] > 1)
        first = number * BLOCK_ROWS % MOST_NUMBERS
        out[tied[np.argsort(sets[tied], kind="stable")]] = first + np.arange(len(tied))
        return out


def equal_rows(rows: Rows, groups: IntArray | None = None) -> IntArray:
    """A number for each row, the same for equal rows; they count up in order of appearance.

    What is missing is equal to what is missing. With groups, only rows of one group are equal.
    """
    hashes = row_hashes(rows, groups)
    order = np.argsort(hashes)
    in_order = hashes[order]
    other = np.append(True, in_order[1:] != in_order[:-1])
    if other.all():
        return np.arange(len(hashes))
    # Sets of equal rows, numbered by their first rows instead of their hashes.
    first = np.minimum.reduceat(order, np.flatnonzero(other))
    number = np.empty(len(first), dtype=np.intp)
    number[np.argsort(first)] = np.arange(len(first))
    out = np.empty(len(hashes), dtype=np.intp)
    out[order] = number[np.cumsum(other) - 1]
    return out
