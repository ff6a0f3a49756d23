"""Ties: rows that are equal, and a number for each by which they share labels out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from fairmix.kernels.totals import IntArray, Rows
from fairmix.tables._base import BLOCK_ROWS

ALONE = -1


@dataclass(frozen=True)
class Ties:
    """Finds equal rows, each run of ``BLOCK_ROWS`` rows of the user's table on its own.

    Runs are what files and clusters have in common with memory. No run needs to know another.

    Parameters
    ----------
    by_group : bool
        Whether rows of different groups are never equal, as for an aware map.
    """

    by_group: bool

    def __call__(self, rows: Rows, groups: IntArray) -> IntArray:
        """A number for each row that has equals, -1 for a row alone, (N,).

        In each run they count up from 0: first the rows equal to the first one that has equals, in
        their order, then those of the next kind.
        """
        starts = range(0, rows.n_rows, BLOCK_ROWS)
        runs = [slice(start, start + BLOCK_ROWS) for start in starts]
        return np.concatenate([self._run(rows.take(run), groups[run]) for run in runs])

    def _run(self, rows: Rows, groups: IntArray) -> IntArray:
        sets = equal_rows(rows, groups if self.by_group else None)
        out = np.full(len(sets), ALONE, dtype=np.int32)
        tied = np.flatnonzero(np.bincount(sets)[sets] > 1)
        out[tied[np.argsort(sets[tied], kind="stable")]] = np.arange(len(tied))
        return out


def equal_rows(rows: Rows, groups: IntArray | None = None) -> IntArray:
    """A number for each row, the same for equal rows; they count up in order of appearance.

    What is missing is equal to what is missing. With groups, only rows of one group are equal.
    """
    parts = []
    if rows.numeric is not None:
        # Zero has two signs and NaN many bits.
        parts.append(np.where(np.isnan(rows.numeric), np.nan, rows.numeric + 0.0))
    if rows.codes is not None:
        parts.append(rows.codes)
    if groups is not None:
        parts.append(groups[:, None])
    raw = np.hstack([np.ascontiguousarray(part).view(np.uint8) for part in parts])
    # Arrow finds equal bytes by their hash: several times as fast as sorting them.
    cells = pa.Array.from_buffers(
        pa.binary(raw.shape[1]), len(raw), [None, pa.py_buffer(np.ascontiguousarray(raw))]
    )
    return np.asarray(cells.dictionary_encode().indices)
