"""Fairlets: small sets of near rows in which neither of two groups outweighs the other too much.

A set with R rows of one group and B of the other is balanced for p <= q when p R <= q B and
p B <= q R. A fairlet is a balanced set of at most p + q rows; every balanced set splits into
fairlets. The tree is a randomly shifted grid whose cells are halved one coordinate after the
other. From the root down, each cell hands balanced counts to its two halves and keeps as few rows
as it can; the rows that it keeps become fairlets, whose diameter is at most the cell's.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from fairmix.kernels.totals import FloatArray, IntArray

# Halvings of each coordinate: cells of the last level are 2^-24 of the data wide.
# Rows that share such a cell differ by 2^-48 of the data's squared width, nothing beside a cost.
LEVELS = 24
WORD = 63  # binary digits that one sort key holds: those of an int64 but for its sign

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Ratio:
    """p and q of fairlets: p rows of one group to at most q of the other."""

    p: int
    q: int

    def holds(self, first: IntArray, second: IntArray) -> Mask:
        """Whether counts are balanced."""
        return np.asarray((self.p * first <= self.q * second) & (self.p * second <= self.q * first))


def simplest_ratio(low: Fraction, high: Fraction) -> Ratio:
    """The ratio from low to high with the smallest p and q."""
    # Walk down the tree of Stern and Brocot: the first fraction inside is the simplest.
    left, right = (0, 1), (1, 0)
    while True:
        p, q = left[0] + right[0], left[1] + right[1]
        if Fraction(p, q) < low:
            left = _last_below(left, right, low)
        elif Fraction(p, q) > high:
            right = _last_above(left, right, high)
        else:
            return Ratio(p, q)


def _last_below(left: tuple[int, int], right: tuple[int, int], low: Fraction) -> tuple[int, int]:
    """Furthest of left, left + right, left + 2 right, ... that is below low."""
    # All steps in one direction at once: one by one, a balance of 1 : n would take n steps.
    below = low * left[1] - left[0]
    above = right[0] - low * right[1]
    steps = max(-(-below // above) - 1, 1)
    return left[0] + steps * right[0], left[1] + steps * right[1]


def _last_above(left: tuple[int, int], right: tuple[int, int], high: Fraction) -> tuple[int, int]:
    """Furthest of right, right + left, right + 2 left, ... that is above high."""
    above = right[0] - high * right[1]
    below = high * left[1] - left[0]
    steps = max(-(-above // below) - 1, 1)
    return right[0] + steps * left[0], right[1] + steps * left[1]


def decompose(
    X: FloatArray, first: Mask, ratio: Ratio, rng: np.random.Generator
) -> tuple[IntArray, int]:
    """Fairlet of each row, and the number of fairlets.

    Parameters
    ----------
    X : (N, d) array
        Rows.
    first : (N,) array of bool
        Whether a row is of the first group; the groups as a whole are balanced.
    ratio : Ratio
        p and q.
    rng : Generator
        For the shift of the grid and the order of the coordinates.
    """
    cells = _cells(X, rng)
    # The coordinates have a new order on each level, so that none is always cut first.
    splits = [
        (LEVELS - 1 - level, column)
        for level in range(LEVELS)
        for column in rng.permutation(X.shape[1]).tolist()
    ]
    rows = _tree_order(cells, splits)
    fairlets, n_fairlets = np.empty(len(X), dtype=np.intp), 0
    node = np.zeros(len(X), dtype=np.intp)
    for shift, column in splits:
        if not len(rows):
            break
        # Rows are in the order of the tree, so the last one is in the last cell.
        n_nodes = int(node[-1]) + 1
        child = 2 * node + ((cells[column][rows] >> shift) & 1)
        kept = _kept(child, first[rows], n_nodes, ratio)
        if kept.any():
            formed, n_formed = form(node[kept], first[rows[kept]], n_nodes, ratio)
            fairlets[rows[kept]] = n_fairlets + formed
            n_fairlets += n_formed
            rows, child = rows[~kept], child[~kept]
        # Numbered anew, without gaps: numbers that double at each split would soon overflow, and
        # counts by cell would be as long as the largest number.
        node = np.cumsum(np.diff(child, prepend=child[:1]) > 0)
    if len(rows):
        # Cells that are never split: rows that agree in every digit.
        formed, n_formed = form(node, first[rows], int(node[-1]) + 1, ratio)
        fairlets[rows] = n_fairlets + formed
        n_fairlets += n_formed
    return fairlets, n_fairlets


def _cells(X: FloatArray, rng: np.random.Generator) -> NDArray[np.int64]:
    """Digits (d, N) of the rows in a cube twice as wide as the data, moved at random."""
    low = X.min(axis=0)
    side = float((X.max(axis=0) - low).max()) or 1.0
    # The theorem of the paper needs a random shift; the cube is twice as wide so that the data
    # stay inside however far they are moved.
    unit = ((X - low) / side + rng.random(X.shape[1])) / 2
    # A largest value with a shift next to 1 may round up to the far end of the cube.
    digits = np.minimum((unit * 2**LEVELS).astype(np.int64), 2**LEVELS - 1)
    return np.ascontiguousarray(digits.T)


def _tree_order(cells: NDArray[np.int64], splits: list[tuple[int, int]]) -> IntArray:
    """Rows in the order of the leaves, so that every cell is one stretch of rows."""
    keys = []
    for start in range(0, len(splits), WORD):
        key = np.zeros(cells.shape[1], dtype=np.int64)
        for shift, column in splits[start : start + WORD]:
            key = 2 * key + ((cells[column] >> shift) & 1)
        keys.append(key)
    # lexsort takes its last key first.
    return np.lexsort(keys[::-1])


def _kept(child: IntArray, first: Mask, n_nodes: int, ratio: Ratio) -> Mask:
    """Which rows a cell keeps, so that what its halves get is balanced."""
    counts = np.stack(
        [np.bincount(child[mask], minlength=2 * n_nodes) for mask in (first, ~first)]
    ).reshape(2, n_nodes, 2)
    quota = kept_counts(counts[0], counts[1], ratio)
    kept = np.zeros(len(child), dtype=bool)
    for mask, keep in zip((first, ~first), quota, strict=True):
        # The first ones in the order of the tree, which are near each other.
        kept[mask] = _rank(child[mask]) < keep.ravel()[child[mask]]
    return kept


def kept_counts(R: IntArray, B: IntArray, ratio: Ratio) -> tuple[IntArray, IntArray]:
    """How many rows of each group cells keep of their halves.

    Parameters
    ----------
    R, B : (n, 2) arrays of int
        Rows of the groups in the halves of n cells; the sums over halves are balanced.
    ratio : Ratio
        p and q.

    Returns
    -------
    X, Y : (n, 2) arrays of int
        Such that ``(R - X, B - Y)`` and the sums of ``(X, Y)`` over halves are balanced.
    """
    # At least the rows that a half has too many of must stay, whatever else is kept.
    X = np.maximum(R - ratio.q * B // ratio.p, 0)
    Y = np.maximum(B - ratio.q * R // ratio.p, 0)
    _complete(R, B, X, Y, ratio)
    _complete(B, R, Y, X, ratio)
    return X, Y


def _complete(R: IntArray, B: IntArray, X: IntArray, Y: IntArray, ratio: Ratio) -> None:
    """Where too many of the first group are kept, keep more of the second, in place."""
    p, q = ratio.p, ratio.q
    need = np.maximum(-(-p * X.sum(axis=1) // q) - Y.sum(axis=1), 0)
    for half in (0, 1):
        spare = (B - Y)[:, half] + (-p * (R - X)[:, half] // q)
        more = np.minimum(np.maximum(spare, 0), need)
        Y[:, half] += more
        need -= more
    for half in (0, 1):
        # No half can spare a whole row more. Leave it q to p exactly and keep the rest of it:
        # over both halves these fractions of a row make up for what is missing.
        short = p * X.sum(axis=1) > q * Y.sum(axis=1)
        left, other = (R - X)[:, half], (B - Y)[:, half]
        X[:, half] += np.where(short, left % q, 0)
        Y[:, half] += np.where(short, other - p * (left // q), 0)


def form(node: IntArray, first: Mask, n_nodes: int, ratio: Ratio) -> tuple[IntArray, int]:
    """Split the rows of each node, a balanced set, into fairlets.

    As many fairlets of q to p as the excess of the larger group asks for, one that takes up the
    rest of the excess, and pairs.

    Parameters
    ----------
    node : (n,) array of int
        Node of each row, not decreasing.
    first : (n,) array of bool
        Whether a row is of the first group.
    n_nodes : int
        Number of nodes.
    ratio : Ratio
        p and q.

    Returns
    -------
    fairlets : (n,) array of int
        Number of the fairlet of each row.
    n_fairlets : int
        How many there are.
    """
    p, q = ratio.p, ratio.q
    R, B = (np.bincount(node[mask], minlength=n_nodes) for mask in (first, ~first))
    small, excess = np.minimum(R, B), np.abs(R - B)
    # Each fairlet of q to p takes up q - p of the excess; with p = q there is none.
    full = excess // (q - p) if q > p else np.zeros_like(excess)
    rest = excess - full * (q - p)
    some = np.where(rest > 0, np.minimum(small - full * p, p), 0)
    pairs = small - full * p - some
    n_fairlets = full + (rest > 0) + pairs
    rank = np.empty(len(node), dtype=np.intp)
    for mask in (first, ~first):
        rank[mask] = _rank(node[mask])
    larger = first == (R >= B)[node]
    each = np.where(larger, q, p)
    in_full = full[node] * each
    in_some = some[node] + np.where(larger, rest[node], 0)
    place = np.where(
        rank < in_full,
        rank // each,
        full[node] + np.maximum(rank - in_full - in_some + (rest > 0)[node], 0),
    )
    offset = np.cumsum(n_fairlets) - n_fairlets
    return offset[node] + place, int(n_fairlets.sum())


def _rank(ids: IntArray) -> IntArray:
    """Position of each entry among the equal ones, for ids that do not decrease."""
    sizes = np.bincount(ids)
    return np.arange(len(ids)) - (np.cumsum(sizes) - sizes)[ids]
