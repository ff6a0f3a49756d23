"""Starts: where solvers begin."""

from __future__ import annotations

import warnings
from typing import Literal

import numpy as np
from scipy.sparse import csr_array
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

from fairmix.kernels.totals import FloatArray, IntArray, Logits, Rows
from fairmix.mixture.families import Family
from fairmix.mixture.mixture import Mixture
from fairmix.system.threads import one_thread

Start = Literal["paper", "kmeans", "random"]

# k-means keeps the best of this many runs, because single ones often end in a poor optimum.
KMEANS_RUNS = 10


def start(
    mixture: Mixture,
    rows: Rows,
    *,
    how: Start,
    rng: np.random.Generator,
    weight: FloatArray | None = None,
    runs: int = KMEANS_RUNS,
) -> FloatArray:
    """Initial theta.

    Parameters
    ----------
    mixture : Mixture
        Whose theta it is.
    rows : Rows
        Training rows, or a sample of them.
    how : {"paper", "kmeans", "random"}
        ``"paper"``: equal weights, k-means centres, unit variances, category probabilities from
        the softmax of uniform numbers. ``"kmeans"``: the maximum-likelihood parameters of the
        k-means clusters (numbers and indicators of categories side by side). ``"random"``: the
        same for rows assigned at random to the nearest of K random rows.
    rng : Generator
        Source of randomness.
    weight : (N,) array or None
        Row weights.
    runs : int
        k-means runs of which the best counts.
    """
    if how == "paper":
        return _paper_start(mixture, rows, weight, rng, runs)
    points = mixture.family.points(rows)
    runs = runs if how == "kmeans" else 1
    labels = _kmeans(points, mixture.n_components, rng, weight, runs, how == "random").labels_
    return mixture.maximize(_label_sums(mixture.family, rows, labels, weight))


def kmeans_labels(X: FloatArray, n_clusters: int, seed: int) -> IntArray:
    """Labels of plain k-means, for comparison."""
    return np.asarray(
        _kmeans(X, n_clusters, np.random.default_rng(seed), None, KMEANS_RUNS).labels_
    )


def _kmeans(
    points: FloatArray | csr_array,
    n_clusters: int,
    rng: np.random.Generator,
    weight: FloatArray | None,
    runs: int,
    random: bool = False,
) -> KMeans:
    # A seed, because scikit-learn takes no Generator.
    seed = int(rng.integers(2**31 - 1))
    kmeans = KMeans(
        n_clusters,
        n_init=runs,
        init="random" if random else "k-means++",
        # 300 is the default of scikit-learn. One is the least that it allows: centres are to stay
        # near the random rows.
        max_iter=1 if random else 300,
        random_state=seed,
    )
    # One thread: on the few rows of a start, more of them only wait for each other.
    with warnings.catch_warnings(), one_thread():
        # Fewer distinct rows than clusters: the estimator reports what is left at the end.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return kmeans.fit(points, sample_weight=weight)


def _paper_start(
    mixture: Mixture,
    rows: Rows,
    weight: FloatArray | None,
    rng: np.random.Generator,
    runs: int,
) -> FloatArray:
    n_components = mixture.n_components

    def centers(points: FloatArray) -> FloatArray:
        return np.asarray(_kmeans(points, n_components, rng, weight, runs).cluster_centers_)

    weights = {"weights": np.full(n_components, 1 / n_components)}
    return mixture.pack(weights | mixture.family.initial(rows, centers, rng))


def _label_sums(family: Family, rows: Rows, labels: IntArray, weight: FloatArray | None) -> Logits:
    """Sufficient statistics of hard labels, softened so that every component has some mass."""
    one_hot = (labels == np.arange(family.n_components)[:, None]).astype(np.float64)
    # A cluster without rows would have no covariance. The hundredth that is spread evenly gives it
    # that of all rows, and hardly moves the others.
    q = 0.99 * one_hot + 0.01 / family.n_components
    if weight is not None:
        q *= weight
    return Logits(q.sum(axis=1), _feature_sums(family, rows, q))


def row_sums(family: Family, row: Rows, width: int) -> FloatArray:
    """T(x) of one row, as a vector of a given width."""
    out = np.zeros(width)
    sums = _feature_sums(family, row, np.ones((1, 1)))[0, :width]
    # Columns that mark missing numbers are there only where there are any.
    out[: len(sums)] = sums
    return out


def _feature_sums(family: Family, rows: Rows, q: FloatArray) -> FloatArray:
    """Sums of T(x), weighted by each row of q."""
    features = family.encode(rows)
    parts = []
    # Summed by hand and not by a pass, which knows only the responsibilities of a mixture.
    if features.dense is not None:
        parts.append(q @ features.dense.astype(np.float64))
    if features.codes is not None:
        width = family.n_features - (0 if features.dense is None else features.dense.shape[1])
        sums = np.zeros((len(q), width))
        for column in features.codes.T:
            for k, share in enumerate(q):
                sums[k] += np.bincount(column, weights=share, minlength=width)
        parts.append(sums)
    return np.hstack(parts)
