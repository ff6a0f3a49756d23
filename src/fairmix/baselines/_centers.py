"""Centres: distances to them and where they move, for k-means and k-median.

The cost of a row is its squared distance to the centre (k-means), or its distance (k-median). The
best centre of a cluster is then its mean, or its geometric median.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from scipy.sparse import csr_array

from fairmix.kernels.totals import FloatArray, IntArray

Objective = Literal["kmeans", "kmedian"]

# Steps towards a median; each lowers the cost, and alternation goes on from where they end.
MEDIAN_STEPS = 20
# Share of the largest distance below which a row counts as lying on a centre.
ON_CENTER = 1e-9
# As many as k-means of scikit-learn takes at most.
KMEDIAN_ITER = 300


def costs(X: FloatArray, centers: FloatArray, objective: Objective) -> FloatArray:
    """Cost of each row in each cluster, (N, K); X must be about centred, or digits are lost."""
    # |x|^2 - 2 x c + |c|^2 by one product of matrices: differences would take (N, K, d) numbers.
    squares = (-2.0 * X) @ centers.T
    squares += np.einsum("ij,ij->i", X, X)[:, None]
    squares += np.einsum("ij,ij->i", centers, centers)
    # Rounding may make the square of a row on a centre negative, and its root NaN.
    np.maximum(squares, 0.0, out=squares)
    return squares if objective == "kmeans" else np.sqrt(squares, out=squares)


def move(
    X: FloatArray, membership: FloatArray | csr_array, centers: FloatArray, objective: Objective
) -> FloatArray:
    """Centres of clusters with the given memberships (N, K), times weights; empty ones stay."""
    if objective == "kmeans":
        return _means(X, membership, centers)
    for _ in range(MEDIAN_STEPS):
        distances = costs(X, centers, objective)
        # Weiszfeld's step: a mean with weights of one over distance.
        # Without a floor, a row on a centre would hold it there with infinite weight.
        nearness = 1.0 / np.maximum(distances, ON_CENTER * float(distances.max() or 1.0))
        centers = _means(X, membership * nearness, centers)
    return centers


def _means(X: FloatArray, membership: Any, centers: FloatArray) -> FloatArray:
    mass = np.asarray(membership.sum(axis=0))[:, None]
    sums = np.asarray(membership.T @ X)
    return np.asarray(np.divide(sums, mass, out=centers.copy(), where=mass > 0))


def hard(labels: IntArray, weight: FloatArray, n_clusters: int) -> csr_array:
    """Memberships (N, K) of hard labels, times weights."""
    # Sparse, because fairlets are clusters here too, and N by N / 2 numbers would not fit.
    pointers = np.arange(len(labels) + 1)
    return csr_array((weight, labels, pointers), shape=(len(labels), n_clusters))


def kmedian(
    X: FloatArray, weight: FloatArray, centers: FloatArray, tol: float
) -> tuple[IntArray, FloatArray, int]:
    """Alternate nearest centres and medians: labels, centres and the number of iterations."""
    last, n_iter = np.inf, 0
    for _ in range(KMEDIAN_ITER):
        n_iter += 1
        distances = costs(X, centers, "kmedian")
        labels = distances.argmin(axis=1)
        total = float(weight @ distances[np.arange(len(X)), labels])
        # Before the centres move, so that the labels are those of the centres that are returned.
        if last - total <= tol * total:
            break
        last = total
        centers = move(X, hard(labels, weight, len(centers)), centers, "kmedian")
    return labels, centers, n_iter
