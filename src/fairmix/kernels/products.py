"""Products of matrices with many rows and few columns, in pieces that suit a BLAS.

Rows lie along the last axis: ``columns`` is (p, n), ``weights`` (K, p), ``values`` (K, n).

A large product first copies its matrices into another order, which takes longer than the few
multiplications of each row. OpenBLAS leaves that out where a product has at most a million of them,
so a block is multiplied piece by piece: two to three times as fast with ten clusters and columns.
Pieces depend on shapes and precision alone, so the same rows give the same bits everywhere.
"""

from __future__ import annotations

import numpy as np

from fairmix.kernels.totals import FloatArray

# Rows of a piece, and multiplications times bytes of a product that is still small. In double
# precision half as many pay off: 20 x 33 takes as long either way.
PIECE = 1024
SMALL = 4_000_000


def product(weights: FloatArray, columns: FloatArray) -> FloatArray:
    """``weights @ columns``, (K, n)."""
    whole = _whole_pieces(len(weights), columns)
    if not whole or weights.dtype != columns.dtype:
        return np.asarray(weights @ columns)
    out = np.empty((len(weights), columns.shape[1]), dtype=columns.dtype)
    np.matmul(weights, _pieces(columns, whole), out=_pieces(out, whole))
    if whole < columns.shape[1]:
        out[:, whole:] = weights @ columns[:, whole:]
    return out


def sums(values: FloatArray, columns: FloatArray) -> FloatArray:
    """``values @ columns.T`` in double precision, (K, p)."""
    whole = _whole_pieces(len(values), columns)
    # At once, or each piece would be.
    values = values.astype(columns.dtype, copy=False)
    if not whole:
        return (values @ columns.T).astype(np.float64)
    parts = _pieces(values, whole) @ _pieces(columns, whole).transpose(0, 2, 1)
    out: FloatArray = parts.sum(axis=0, dtype=np.float64)
    if whole < columns.shape[1]:
        out += values[:, whole:] @ columns[:, whole:].T
    return out


def _whole_pieces(height: int, columns: FloatArray) -> int:
    """Rows that are multiplied in pieces; none if these would be large."""
    width, n_rows = columns.shape
    small = height * width * PIECE * columns.itemsize <= SMALL
    return n_rows - n_rows % PIECE if small else 0


def _pieces(columns: FloatArray, n_rows: int) -> FloatArray:
    """The first rows as pieces, (pieces, p, PIECE); a view."""
    cut: FloatArray = columns[:, :n_rows].reshape(len(columns), -1, PIECE)
    return cut.transpose(1, 0, 2)
