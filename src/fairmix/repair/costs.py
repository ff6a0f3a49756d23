"""Costs of rows in clusters, read block by block and put on one scale."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from fairmix.input.floats import as_floats
from fairmix.kernels.totals import FloatArray, IntArray, Rows
from fairmix.tables import BLOCK_ROWS, equal_rows

Array = NDArray[np.float64]
# Makes the costs of the rows from a first to before a last one, (last - first, K).
MakeBlock = Callable[[int, int], Any]

# Rows by which the scale is measured: a median of so many is known to about one percent.
SCALE_ROWS = 16384
# Costs are multiples of this, so that a factor of all costs or a constant of a row, which round
# them, change no label, and equal rows stay equal. Far above that rounding, far below what matters
# to a label; a power of two, so that plain numbers never lie between two steps.
GRAIN = 2.0**-30


class Costs:
    """An n x K matrix of costs, of which only blocks of rows are ever in memory as floats.

    A row of it is what a cluster costs more than the cheapest one, in units of ``scale``. So
    neither a constant that is added to a row nor a factor of all costs changes what is read here.

    Parameters
    ----------
    given : array-like, memory map or callable
        What a user gave.
    n_rows : int
        Rows that there must be.
    """

    def __init__(self, given: Any, n_rows: int) -> None:
        self._make: MakeBlock = given if callable(given) else _from_array(given)
        self.n_rows = n_rows
        self.scale = 1.0
        self._checked = False
        if not callable(given) and _length(given) != n_rows:
            raise ValueError(
                f"cost has {_length(given)} rows, sensitive_features has {n_rows}. Give one row of "
                "costs for each label."
            )
        self.n_clusters = self._block(0, 1).shape[1]
        if self.n_clusters < 2:
            raise ValueError(
                "cost has one column, and with one cluster there is nothing to choose. Give a "
                "column for each of two clusters or more."
            )
        if self.n_clusters > n_rows:
            raise ValueError(
                f"cost has {self.n_clusters} columns and {n_rows} rows. Give at least as many rows "
                "as clusters."
            )
        self.scale = self._scale()
        # That was a look at all rows. What a function makes may be other numbers the next time.
        self._checked = not callable(given)

    def _block(self, start: int, stop: int) -> Array:
        with as_floats("cost"):
            block = np.asarray(self._make(start, stop), dtype=np.float64)
        known = getattr(self, "n_clusters", None)
        if block.ndim != 2 or len(block) != stop - start or known not in (None, block.shape[1]):
            raise ValueError(
                f"cost gave an array of shape {block.shape} for the rows {start} to {stop - 1}. "
                "Give a row for each of them, and in it the cost of each cluster."
            )
        return block

    def raw(self, start: int, stop: int) -> Array:
        """The costs of a run of rows as they were given."""
        block = self._block(start, stop)
        if self._checked:
            return block
        bad = ~np.isfinite(block)
        if bad.any():
            i, k = np.argwhere(bad)[0]
            raise ValueError(
                f"cost[{start + i}, {k}] is {block[i, k]}. Give finite costs: drop the row, or set "
                "a cost that is larger than all others."
            )
        return block

    def _scale(self) -> float:
        """A typical difference between the two cheapest clusters of a row."""
        step = max(1, self.n_rows // SCALE_ROWS)
        leads, widths = [], []
        for start, stop in self.runs():
            block = np.sort(self.raw(start, stop)[-start % step :: step], axis=1)
            leads.append(block[:, 1] - block[:, 0])
            widths.append(block[:, -1] - block[:, 0])
        for differences in (np.concatenate(leads), np.concatenate(widths)):
            positive = differences[differences > 0]
            if len(positive):
                return float(np.median(positive))
        # All clusters cost the same in every row.
        return 1.0

    def runs(self) -> list[tuple[int, int]]:
        """First row, and the one after the last, of each block."""
        starts = range(0, self.n_rows, BLOCK_ROWS)
        return [(start, min(start + BLOCK_ROWS, self.n_rows)) for start in starts]

    def scaled(self, start: int, stop: int) -> Array:
        """What each cluster costs more than the cheapest one, on the common scale."""
        block = self.raw(start, stop)
        # A copy also where the block is a view of what the user gave.
        out = block - smallest(block)[:, None]
        out /= self.scale * GRAIN
        np.rint(out, out=out)
        out *= GRAIN
        return np.asarray(out)

    def take(self, rows: IntArray) -> Array:
        """The same of rows in increasing order."""
        return self.only(rows).scaled(0, len(rows))

    def only(self, rows: IntArray) -> Costs:
        """Some of the rows, in increasing order, on the same scale."""
        out = copy(self)

        def make(start: int, stop: int) -> Array:
            wanted = rows[start:stop]
            block = np.empty((len(wanted), self.n_clusters))
            for begin, end in self.runs():
                first, last = np.searchsorted(wanted, [begin, end])
                if last > first:
                    block[first:last] = self.raw(begin, end)[wanted[first:last] - begin]
            return block

        out._make, out.n_rows = make, len(rows)
        return out

    def as_rows(self) -> Rows:
        """For a table, which takes slices of them."""
        return Rows(cast(FloatArray, _Slices(self)), None)

    def equal(self, codes: IntArray) -> tuple[IntArray, IntArray]:
        """Sets of rows with the same costs and the same code: the first of each, and that of all.

        ``codes`` (N,) are those of the groups. Gives the rows (S,) that stand for a set, and the
        number of the set of each row, (N,).
        """
        firsts: list[NDArray[np.intp]] = []
        values: list[Array] = []
        sets = np.empty(self.n_rows, dtype=np.intp)
        found = 0
        for start, stop in self.runs():
            costs = self.scaled(start, stop)
            own = equal_rows(Rows(costs, None), codes[start:stop])
            # The numbers count up in order of appearance.
            first = np.unique(own, return_index=True)[1]
            sets[start:stop] = own + found
            firsts.append(first + start)
            values.append(costs[first])
            found += len(first)
        first = np.concatenate(firsts)
        across = equal_rows(Rows(np.concatenate(values), None), codes[first])
        return first[np.unique(across, return_index=True)[1]], across[sets]


def smallest(block: Array) -> Array:
    """The smallest number of each row, (n,).

    Column by column: several times as fast as NumPy along a short last axis.
    """
    out = block[:, 0].copy()
    for column in block.T[1:]:
        np.minimum(out, column, out=out)
    return out


class _Slices:
    """Scaled costs as far as a table needs an array: its length, and slices of rows."""

    dtype = np.dtype(np.float64)

    def __init__(self, costs: Costs) -> None:
        self._costs = costs

    def __len__(self) -> int:
        return self._costs.n_rows

    def __getitem__(self, rows: slice) -> Array:
        start, stop, _ = rows.indices(self._costs.n_rows)
        return self._costs.scaled(start, stop)


def _length(given: Any) -> int:
    try:
        return len(given)
    except TypeError:
        raise ValueError(
            f"cost is a {type(given).__name__}. Give an array with a row of costs for each label, "
            "or a function of the first and the last row that makes one."
        ) from None


def _from_array(given: Any) -> MakeBlock:
    # A memory map stays one: `np.asarray` of it is a view.
    array = given if isinstance(given, np.ndarray) else np.asarray(given)
    if array.ndim != 2:
        raise ValueError(
            f"cost has shape {array.shape}. Give a row for each label and a column for each "
            "cluster."
        )
    return lambda start, stop: array[start:stop]
