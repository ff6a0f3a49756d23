"""The cost of a clustering: squared distances to the means of its clusters.

Two passes in row blocks. The first finds the means, the second sums squared differences from them
and corrects for what rounding left in the means, so a large offset of the data costs no digits.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from fairmix.metrics.assignment import Assignment, Labels, read_assignment, read_weights

Array = NDArray[np.float64]

BLOCK = 8192  # rows at a time: a block of 25 columns stays in cache


def clustering_cost(
    X: ArrayLike, assignment: object, *, sample_weight: ArrayLike | None = None
) -> float:
    """Sum of squared distances of the rows to the means of their clusters.

    With probabilities p it is the analogue: the sum over rows i and clusters k of
    ``p[i, k] * |x_i - mu_k|^2``, where mu_k is the mean of the rows weighted by ``p[:, k]``.

    Parameters
    ----------
    X : array-like of shape (n_rows, n_features)
        Finite numbers; the sums are kept in float64 whatever the type of X.
    assignment : array-like of shape (n_rows,) or (n_rows, n_clusters)
        Hard labels of any kind, or probabilities whose rows sum to 1.
    sample_weight : array-like of shape (n_rows,), optional
        Weights of at least 0. A weight of 2 counts as two equal rows.

    Returns
    -------
    float
        An empty cluster adds 0.

    Examples
    --------
    >>> clustering_cost([[0.0], [2.0], [5.0]], [0, 0, 1])
    2.0
    """
    data = _read_data(X)
    clusters = read_assignment(assignment, n_rows=len(data))
    weights = read_weights(sample_weight, len(data))
    with np.errstate(over="ignore", invalid="ignore"):  # told below
        cost = _cost(data, clusters, weights)
    if not np.isfinite(cost):
        raise ValueError(
            "X holds numbers so large that squared distances overflow. Divide them by a constant."
        )
    return cost


def _cost(data: NDArray[Any], clusters: Assignment, weights: Array | None) -> float:
    mass, means = _means(data, clusters, weights)
    squares = 0.0
    # Differences from the exact mean add up to 0. What is left tells how far the rounded mean is
    # off, and squares about a point that is off by e are too large by mass times e^2.
    left_over = np.zeros_like(means)
    for rows in _blocks(len(data)):
        block = data[rows].astype(np.float64)
        square, difference = _deviations(block, clusters, _part(weights, rows), rows, means)
        squares += square
        left_over += difference
    correction = np.divide(left_over**2, mass, out=np.zeros_like(means), where=mass > 0)
    # Not by max(., 0), which would turn NaN into 0.
    return float(np.maximum(squares - correction.sum(), 0.0))


def _read_data(X: ArrayLike) -> NDArray[Any]:
    if isinstance(X, np.ma.MaskedArray) and np.ma.is_masked(X):
        raise ValueError("X is a masked array. Drop the rows with masked values, or fill them.")
    data = np.asarray(X)
    if data.ndim != 2 or 0 in data.shape or data.dtype.kind not in "biuf":
        raise ValueError(
            f"X has shape {data.shape} and type {data.dtype}. Give numbers of shape "
            "(n_rows, n_features), both at least 1."
        )
    return data


def _blocks(n_rows: int) -> Iterator[slice]:
    for start in range(0, n_rows, BLOCK):
        yield slice(start, min(start + BLOCK, n_rows))


def _part(weights: Array | None, rows: slice) -> Array:
    return np.ones(rows.stop - rows.start) if weights is None else weights[rows]


def _means(data: NDArray[Any], clusters: Assignment, weights: Array | None) -> tuple[Array, Array]:
    """Mass (n_clusters, 1) and mean (n_clusters, n_features) of each cluster; 0 where empty."""
    mass: Array | float = 0.0
    sums: Array | float = 0.0
    for rows in _blocks(len(data)):
        block = data[rows].astype(np.float64)
        # Here, where each block is in cache anyway: a check of its own
        # would read all of X once more.
        if not np.isfinite(block).all():
            bad = rows.start + int(np.flatnonzero(~np.isfinite(block).all(axis=1))[0])
            raise ValueError(
                f"X holds NaN or infinity, first in row {bad}. Drop or fill such rows first."
            )
        membership = _membership(clusters, rows, _part(weights, rows))
        # By the same product as the sums, whatever kind of matrix the memberships are.
        mass = mass + membership @ np.ones((len(block), 1))
        sums = sums + membership @ block
    totals, per_cluster = np.asarray(sums), np.asarray(mass)
    means = np.divide(totals, per_cluster, out=np.zeros_like(totals), where=per_cluster > 0)
    return per_cluster, means


def _membership(clusters: Assignment, rows: slice, weights: Array) -> Any:
    """Weights of the rows of a block in each cluster, (n_clusters, n_block)."""
    if isinstance(clusters, Labels):
        # Sparse with one entry per row: a dense one would be K times the work for hard labels.
        pointers = np.arange(len(weights) + 1)
        shape = (len(weights), clusters.n_clusters)
        return csr_array((weights, clusters.codes[rows], pointers), shape=shape).T
    return clusters.values[rows].astype(np.float64).T * weights


def _deviations(
    block: Array, clusters: Assignment, weights: Array, rows: slice, means: Array
) -> tuple[float, Array]:
    """Weighted sum of squared differences from the means, and sum of differences per cluster."""
    membership = _membership(clusters, rows, weights)
    if isinstance(clusters, Labels):
        block -= means[clusters.codes[rows]]
        return float(weights @ np.einsum("ij,ij->i", block, block)), membership @ block
    square = 0.0
    differences = np.empty_like(means)
    # One cluster at a time: all differences of a block together would be K times its size.
    for k, mean in enumerate(means):
        difference = block - mean
        square += float(membership[k] @ np.einsum("ij,ij->i", difference, difference))
        differences[k] = membership[k] @ difference
    return square, differences
