"""Many rows as few points: each stands for rows of one group that lie side by side.

A climb of a random sample finds the optimum of that sample. Its rates differ from those of all
rows by a sampling error, which a tilt multiplies by dozens where groups are easy to tell apart:
then it decides which optimum looks best. Points that every row is part of have no such error. What
they lose is where the rows of one point would part, which is little while points are small.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from fairmix.kernels.totals import Block, Features, FloatArray, IntArray, Rows
from fairmix.tables.memory import MemoryBlocks
from fairmix.tables.store import MemoryStore, allocate
from fairmix.tables.table import Table


class Cells(NamedTuple):
    """Which cell each row is in, (N,), numbered from 0, and how many cells there are."""

    numbers: IntArray
    n_cells: int


class Condensed(Table):
    """A table of points, each the mean of the features of the rows of a cell.

    Parameters
    ----------
    table : Table
        The rows, in memory.
    cells : Cells
        Which rows are one point; all of a cell belong to one group.
    single : bool
        Whether passes may be in single precision.
    """

    def __init__(self, table: Table, cells: Cells, *, single: bool) -> None:
        store = table.store
        assert isinstance(store, MemoryStore)
        assert store.rows.numeric is not None
        weight = np.ones(store.n_rows) if store.weight is None else store.weight
        total = np.bincount(cells.numbers, weight, cells.n_cells).astype(np.float64)
        # Where all rows of a cell weigh nothing, so does the point.
        share = weight / np.where(total > 0, total, 1.0)[cells.numbers]
        where = (cells.numbers, np.arange(store.n_rows))
        mean: csr_array[Any, Any] = csr_array((share, where), shape=(cells.n_cells, store.n_rows))
        groups = np.zeros(cells.n_cells, dtype=store.groups.dtype)
        groups[cells.numbers] = store.groups
        few = MemoryStore(
            Rows(mean @ store.rows.numeric.astype(np.float64), None),
            groups=groups,
            n_groups=store.n_groups,
            aside=store.aside,
            weight=total,
        )
        encoder = table.encoder
        super().__init__(
            few,
            encoder.encode,
            propensity=encoder.propensity,
            aware=encoder.aware,
            membership=encoder.membership,
            keep=False,
            whole=table._whole,
        )
        # The mean of T(x), not T of the mean: squares keep the spread within a cell.
        blocks = list(table.blocks.each(lambda block: block))
        parts = [block.features.dense for block in blocks]
        dense = mean @ np.vstack([part for part in parts if part is not None]).astype(np.float64)
        known = [block.propensity for block in blocks if block.propensity is not None]
        dtype = np.dtype(np.float32 if single else np.float64)
        block = Block(
            features=Features(dense, None),
            groups=groups,
            n_groups=encoder.n_groups,
            dtype=dtype,
            weight=total.astype(dtype),
            propensity=(mean @ np.hstack(known).T).T if known else None,
            aside=encoder.aside,
            membership=encoder.membership,
        )
        self.blocks = MemoryBlocks(1, lambda number: block, keep=1)


def find_cells(points: FloatArray, groups: IntArray, n_cells: int, n_lone: int = 0) -> Cells:
    """Cells of about equally many rows of one group, at most so many, and those of lone rows.

    ``points`` (N, d) tell rows apart. The rows of each group are halved again and again, at the
    median of the column in which they are spread most. So the cells of long tails are wide, and
    a small cluster out there would be lost in them: the ``n_lone`` rows farthest from the mean of
    their cell get cells of their own.
    """
    counts = np.bincount(groups)
    wanted = allocate(counts, n_cells)
    numbers: IntArray = np.empty(len(groups), dtype=np.intp)
    before = 0
    for group in np.flatnonzero(counts):
        own = np.flatnonzero(groups == group)
        depth = int(np.log2(wanted[group]))
        numbers[own] = before + _halved(points[own], depth)
        before += 2**depth
    return _parted(points, Cells(numbers, before), min(n_lone, len(points)))


def _parted(points: FloatArray, cells: Cells, n_lone: int) -> Cells:
    """The same, but for so many rows, those farthest from the mean of their cell."""
    if n_lone == 0:
        return cells
    sizes = np.bincount(cells.numbers, minlength=cells.n_cells)
    squares = np.zeros(len(points))
    for column in points.T:
        mean = np.bincount(cells.numbers, column, cells.n_cells) / np.maximum(sizes, 1)
        squares += (column - mean[cells.numbers]) ** 2
    numbers = cells.numbers.copy()
    numbers[np.argpartition(squares, -n_lone)[-n_lone:]] = cells.n_cells + np.arange(n_lone)
    # Some cells may have lost all of their rows.
    found, numbers = np.unique(numbers, return_inverse=True)
    return Cells(numbers, len(found))


def _halved(points: FloatArray, depth: int) -> IntArray:
    """Numbers below ``2**depth``, each of about equally many rows side by side."""
    n_rows, n_cells = len(points), 2**depth
    # Rows that are there twice make all cells equally large, so that all are halved in one go.
    size = -(-n_rows // n_cells) * n_cells
    rows: IntArray = np.arange(size) % n_rows
    rows = rows.reshape(1, size)
    # Around zero and of size one, so that single precision has digits enough for their spread.
    columns = (points - points.mean(axis=0)).T
    largest = np.abs(columns).max()
    columns = np.ascontiguousarray(columns / (largest if largest > 0 else 1.0), dtype=np.float32)
    for _ in range(depth):
        within = columns[:, rows.ravel()].reshape(len(columns), *rows.shape)
        mean = within.mean(axis=2)
        square = np.einsum("dcn,dcn->dc", within, within) / rows.shape[1]
        widest = (square - mean**2).argmax(axis=0)
        values = within[widest, np.arange(len(rows))]
        half = rows.shape[1] // 2
        order = np.argpartition(values, half, axis=1)
        rows = np.take_along_axis(rows, order, axis=1).reshape(-1, half)
    numbers: IntArray = np.empty(n_rows, dtype=np.intp)
    # A row that is there twice may be in two cells, and belongs to one of them.
    numbers[rows.ravel()] = np.repeat(np.arange(n_cells), rows.shape[1])
    return numbers


def spread_within(points: FloatArray, cells: Cells) -> float:
    """The share of the variance of points that is left within cells."""
    sizes = np.bincount(cells.numbers, minlength=cells.n_cells)
    total = between = 0.0
    for column in (points - points.mean(axis=0)).T:
        sums = np.bincount(cells.numbers, column, cells.n_cells)
        total += float(column @ column)
        between += float((sums**2 / np.maximum(sizes, 1)).sum())
    return 1 - between / total if total > 0 else 0.0
