"""Disclosure: which cells of a table of counts to hide, so that no small one can be computed.

A table here has its totals in the last row and column. A cell with fewer than 5 rows is hidden, and
then more cells, until neither one line and its total nor all lines together fix a hidden one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

__all__ = ["SMALLEST", "complete"]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

SMALLEST = 5  # rows that a shown cell holds at the least
TRIALS = 6  # random corners of what a reader must hold possible, before each cell is looked at


def complete(table: FloatArray, small: BoolArray) -> BoolArray:
    """Hide more cells until what is shown fixes no hidden one.

    Parameters
    ----------
    table : ndarray of shape (n_groups + 1, n_clusters + 1)
        Counts with their totals.
    small : ndarray of bool of the same shape
        Cells to hide in any case.

    Returns
    -------
    ndarray of bool of the same shape

    Examples
    --------
    >>> table = np.array([[3.0, 40.0, 43.0], [60.0, 70.0, 130.0], [63.0, 110.0, 173.0]])
    >>> complete(table, table < 5).tolist()
    [[True, True, False], [True, True, False], [False, False, False]]
    """
    hidden = small.copy()
    cells = np.arange(table.size).reshape(table.shape)
    lines = [*cells, *cells.T]
    # One cell at a time, because a cell is in two lines and may make both safe.
    while hidden.any():
        told = [line for line in lines if _tells(*(v.flat[line] for v in (table, small, hidden)))]
        if not told:
            # Each line alone is safe; all of them together are seldom not.
            told = [lines[cell // table.shape[1]] for cell in _fixed(table, small, hidden)]
            told += [line for line in lines if hidden.flat[line].any()] if told else []
        another = next((c for c in (_another(table, hidden, line) for line in told) if c >= 0), -1)
        if another < 0:
            break
        hidden.flat[another] = True
    return hidden


def _tells(values: FloatArray, small: BoolArray, hidden: BoolArray) -> bool:
    """Whether the total of a line and what is known of its cells fix a hidden one.

    The last value is the total. Of cells that are all known to be small, a sum of 0 or the largest
    possible sum fixes each.
    """
    n_hidden = int(hidden.sum())
    if n_hidden < 2:
        return n_hidden == 1
    if hidden[-1] or (hidden & ~small).any():
        return False
    total = values[hidden].sum()
    return not 0 < total < (SMALLEST - 1) * n_hidden


def _another(table: FloatArray, hidden: BoolArray, line: NDArray[np.intp]) -> int:
    """The cell of the line to hide next: best no total, crossed by a hidden one, and small.

    -1 when there is none.
    """
    n_rows, n_columns = table.shape
    ranks = []
    for cell in line.tolist():
        i, j = divmod(cell, n_columns)
        grand = (i, j) == (n_rows - 1, n_columns - 1)
        # A zero that is shown is that of an empty cluster or group, as everybody sees; to hide it
        # protects nobody. The grand total is in the report in any case.
        if hidden[i, j] or table[i, j] == 0 or grand:
            continue
        total = i == n_rows - 1 or j == n_columns - 1
        # Where another hidden cell is in the crossing line too, one more cell protects both lines.
        crossed = hidden[i].sum() + hidden[:, j].sum() > hidden.flat[line].sum()
        # Totals last: without one, no share in its line can be shown. The
        # place breaks ties, so that pages repeat.
        ranks.append((total, not crossed, table[i, j], cell))
    return int(min(ranks)[-1]) if ranks else -1


def _fixed(table: FloatArray, small: BoolArray, hidden: BoolArray) -> list[int]:
    """Hidden cells that all lines together fix, by linear programming."""
    cells = np.flatnonzero(hidden)
    sign = np.ones_like(table)
    sign[-1] *= -1
    sign[:, -1] *= -1  # a row is its cells minus its total, and so is a column
    index = np.arange(table.size).reshape(table.shape)
    lines = [line for line in (*index, *index.T) if hidden.flat[line].any()]
    matrix = np.array([np.isin(cells, line) * sign.flat[cells] for line in lines])
    shown = np.where(hidden, 0.0, table) * sign
    target = np.array([-shown.flat[line].sum() for line in lines])
    # Sums of probabilities are small up to 5, counts up to 4.
    limit = max(float(SMALLEST - 1), float(table[small].max()))
    bounds = [(0, limit) if small.flat[cell] else (SMALLEST, None) for cell in cells]

    def corner(direction: FloatArray) -> FloatArray:
        found = linprog(direction, A_eq=matrix, b_eq=target, bounds=bounds)
        # Without a lower end the cell is free, and any other value will do.
        return np.asarray(found.x if found.status == 0 else table.flat[cells] + 1.0)

    # A fixed seed: the same input must give the same page.
    rng = np.random.default_rng(0)
    corners = [corner(rng.uniform(0.5, 1.5, len(cells)) * rng.choice([-1, 1], len(cells)))]
    corners += [corner(rng.normal(size=len(cells))) for _ in range(TRIALS)]
    # Counts are whole, so a range below a half holds one value only. Cells that differ between
    # corners are not fixed, which spares two programs for each of them.
    still = np.flatnonzero(np.ptp([*corners, table.flat[cells]], axis=0) < 0.5)
    out = []
    for cell in still:
        direction = np.zeros(len(cells))
        direction[cell] = 1.0
        ends = [corner(direction)[cell], corner(-direction)[cell], table.flat[cells[cell]]]
        if np.ptp(ends) < 0.5:
            out.append(int(cells[cell]))
    return out
