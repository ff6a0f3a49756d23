"""Hashes: a number for each row by which equal rows are found."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairmix.kernels.totals import IntArray, Rows

Hashes = NDArray[np.uint64]

# Rows that are hashed at a time: their columns stay in the cache of a processor.
PART_ROWS = 2**13
# The finaliser of SplitMix64 (Steele, Lea and Flood 2014), which spreads every bit over all.
MULTIPLIERS = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
SHIFTS = np.uint64(30), np.uint64(27), np.uint64(31)


def row_hashes(rows: Rows, groups: IntArray | None = None) -> Hashes:
    """A number for each row, the same for equal rows only, but for a chance of 2^-64.

    What is missing is equal to what is missing. With groups, only rows of one group are equal.
    """
    out = np.zeros(rows.n_rows, dtype=np.uint64)
    for start in range(0, rows.n_rows, PART_ROWS):
        own = out[start : start + PART_ROWS]
        spare = np.empty_like(own)
        for column in _columns(rows, groups, slice(start, start + PART_ROWS)):
            # Mixed once per column, so that the order of the columns counts.
            own += column
            _mix(own, spare)
    return out


def _columns(rows: Rows, groups: IntArray | None, part: slice) -> list[Hashes]:
    """Columns of some rows as bits."""
    found: list[Hashes] = []
    if rows.numeric is not None:
        # A copy: bits can be viewed as another type only where they lie next to each other.
        values = np.array(rows.numeric[part].T, dtype=np.float64, order="C")
        # Zero and minus zero are equal, and so is everything that is missing.
        values += 0.0
        # The smallest tells whether anything is.
        if np.isnan(values.min(initial=0.0)):
            values[np.isnan(values)] = np.nan
        found += list(values.view(np.uint64))
    if rows.codes is not None:
        found += list(rows.codes[part].T.astype(np.int64).view(np.uint64))
    if groups is not None:
        found.append(groups[part].astype(np.int64).view(np.uint64))
    return found


def _mix(bits: Hashes, spare: Hashes) -> None:
    """In place; what ``spare`` holds is lost."""
    for shift, multiplier in zip(SHIFTS, (*MULTIPLIERS, None), strict=True):
        np.right_shift(bits, shift, out=spare)
        bits ^= spare
        if multiplier is not None:
            bits *= multiplier
