"""What rows cost in the clusters of a clusterer, by whatever it says of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fairmix.kernels.totals import FloatArray, IntArray, Rows

Array = NDArray[np.float64]

# Below it, log-probabilities are the same: so improbable a cluster is no choice.
SMALLEST = 1e-300
# A column that is constant within a cluster keeps this share of its variance among all rows, and a
# constant column this variance, so that densities stay finite.
LEAST_SHARE, LEAST = 1e-3, 1e-12
# A cluster that no row was in costs so many times the width of the costs of a row more than its
# dearest one: finite, and never worth it.
ABSENT = 1e3


class Clusters(Protocol):
    """Clusters that stay as they are."""

    def cost(self, X: Any, rows: Rows) -> Array:
        """What each row costs in each cluster, (n, K); ``X`` as a clusterer itself takes it."""

    def moved(self, rows: Rows, labels: IntArray, weight: FloatArray) -> Clusters:
        """Where rows with these labels have them."""


@dataclass(frozen=True, eq=False)
class Centres:
    """Squared distances to centres, (K, d)."""

    centres: Array

    def cost(self, X: Any, rows: Rows) -> Array:
        """Squared distances."""
        # Cluster by cluster: differences of squares would lose digits far from zero.
        numeric = _numbers(rows)
        return np.column_stack([((numeric - centre) ** 2).sum(axis=1) for centre in self.centres])

    def moved(self, rows: Rows, labels: IntArray, weight: FloatArray) -> Clusters:
        """Means of the rows; an empty cluster stays."""
        means, mass = _means(_numbers(rows), labels, weight, len(self.centres))
        return Centres(np.where(mass[:, None] > 0, means, self.centres))


@dataclass(frozen=True, eq=False)
class Normals:
    """Negative log-densities of a Gaussian mixture, with its weights.

    ``factors`` has one for each cluster, whose square is the inverse of the covariance: (d, d), or
    (d,) where columns are independent.
    """

    means: Array
    factors: tuple[Array, ...]
    weights: Array
    name: str

    @classmethod
    def of(cls, mixture: Any, n_columns: int) -> Normals:
        """Of a fitted mixture with scikit-learn's attributes."""
        means = np.asarray(mixture.means_, dtype=np.float64)
        given = np.asarray(mixture.precisions_cholesky_, dtype=np.float64)
        n_clusters = len(means)
        if str(mixture.covariance_type).startswith("tied"):
            factors = [np.broadcast_to(given, given.shape or (n_columns,))] * n_clusters
        else:
            factors = [np.broadcast_to(one, one.shape or (n_columns,)) for one in given]
        weights = np.asarray(mixture.weights_, dtype=np.float64)
        return cls(means, tuple(factors), weights, type(mixture).__name__)

    def cost(self, X: Any, rows: Rows) -> Array:
        """Minus the logarithms of the weighted densities, but for a constant."""
        numeric, out = _numbers(rows), []
        for mean, factor, weight in zip(self.means, self.factors, self.weights, strict=True):
            whole = factor.ndim == 2
            scaled = (numeric - mean) @ factor if whole else (numeric - mean) * factor
            # The determinant of a triangle is the product of its diagonal.
            logs = np.log(np.diagonal(factor) if whole else factor).sum()
            out.append(0.5 * (scaled**2).sum(axis=1) - logs - np.log(max(weight, SMALLEST)))
        return np.column_stack(out)

    def moved(self, rows: Rows, labels: IntArray, weight: FloatArray) -> Clusters:
        """Not done: its covariances would be those of rows that were moved by a rule."""
        raise ValueError(
            f"refine moves centres, and {self.name} has densities. Set refine=0, or fit a "
            "FairMixture that starts from it (init_params)."
        )


@dataclass(frozen=True, eq=False)
class Asked:
    """What a clusterer itself says: probabilities, or distances."""

    clusterer: Any
    method: str

    def cost(self, X: Any, rows: Rows) -> Array:
        """Negative log-probabilities, which differ from log-densities by a constant of the row."""
        said = np.asarray(getattr(self.clusterer, self.method)(X), dtype=np.float64)
        return said if self.method == "transform" else -np.log(np.maximum(said, SMALLEST))

    def moved(self, rows: Rows, labels: IntArray, weight: FloatArray) -> Clusters:
        """Not known."""
        raise ValueError(
            f"refine moves centres, and {type(self.clusterer).__name__} gives "
            f"{'distances' if self.method == 'transform' else 'probabilities'} only. Set refine=0."
        )


@dataclass(frozen=True, eq=False)
class Described:
    """Normal columns and categories that are independent within a cluster, as a product family.

    ``means`` and ``variances`` (K, d) are those of the numeric columns, ``logs`` the
    log-probabilities of each categorical one (K, categories + 1), whose last entry is that of a
    missing category, 0. ``there`` (K,) are the clusters that have rows.
    """

    means: Array
    variances: Array
    logs: tuple[Array, ...]
    there: NDArray[np.bool_]

    @classmethod
    def of(cls, rows: Rows, labels: IntArray, weight: FloatArray, n_clusters: int) -> Described:
        """Of rows with labels; those below 0 are noise and take no part."""
        placed = np.flatnonzero((labels >= 0) & (weight > 0))
        own, mass = labels[placed], weight[placed]
        there = np.bincount(own, minlength=n_clusters) > 0
        logs = []
        for codes in () if rows.codes is None else rows.codes.T:
            shape = (n_clusters, int(codes.max()) + 1)
            known = codes[placed] >= 0
            counts = np.zeros(shape)
            np.add.at(counts, (own[known], codes[placed][known]), mass[known])
            # As one more row that is like all rows: what a cluster lacks stays possible.
            counts += counts.sum(axis=0) / max(counts.sum(), LEAST) + LEAST
            shares = counts / counts.sum(axis=1, keepdims=True)
            logs.append(np.column_stack([np.log(shares), np.zeros(n_clusters)]))
        numeric = np.zeros((len(placed), 0)) if rows.numeric is None else _numbers(rows)[placed]
        if not numeric.shape[1] and not logs:
            raise ValueError(
                "No column is left that describes the clusters. Leave fewer columns out."
            )
        means, _ = _means(numeric, own, mass, n_clusters)
        squares, _ = _means((numeric - means[own]) ** 2, own, mass, n_clusters)
        overall = np.average((numeric - np.average(numeric, 0, mass)) ** 2, 0, mass)
        floor = np.maximum(LEAST_SHARE * overall, LEAST)
        return cls(means, np.maximum(squares, floor), tuple(logs), there)

    def cost(self, X: Any, rows: Rows) -> Array:
        """Negative log-densities, (n, K), but for a constant."""
        out = np.zeros((rows.n_rows, len(self.means)))
        if rows.numeric is not None:
            numeric = _numbers(rows)
            for k, (mean, variance) in enumerate(zip(self.means, self.variances, strict=True)):
                out[:, k] = 0.5 * (((numeric - mean) ** 2 / variance) + np.log(variance)).sum(
                    axis=1
                )
        for logs, codes in zip(self.logs, () if rows.codes is None else rows.codes.T, strict=True):
            # The code of what is missing, -1, is the last entry.
            out -= logs[:, codes].T
        known = out[:, self.there]
        width = np.ptp(known, axis=1) + 1.0
        out[:, ~self.there] = (known.max(axis=1) + ABSENT * width)[:, None]
        return out

    def moved(self, rows: Rows, labels: IntArray, weight: FloatArray) -> Clusters:
        """As described by rows with these labels; an empty cluster stays."""
        new = Described.of(rows, labels, weight, len(self.means))
        own = new.there[:, None]
        logs = zip(new.logs, self.logs, strict=True)
        return Described(
            np.where(own, new.means, self.means),
            np.where(own, new.variances, self.variances),
            tuple(np.where(own, a, b) for a, b in logs),
            self.there | new.there,
        )


def clusters_of(clusterer: Any, X: Any, rows: Rows, weight: FloatArray) -> Clusters:
    """The clusters of a fitted clusterer; ``X`` as it was given to it, or of labels themselves."""
    if not hasattr(clusterer, "fit"):
        return _described(clusterer, rows, weight)
    n_columns = 0 if rows.numeric is None or rows.codes is not None else rows.numeric.shape[1]
    # A Bayesian mixture has more than one density for a cluster, and says so here.
    known = ("means_", "precisions_cholesky_", "weights_", "covariance_type")
    exact = all(hasattr(clusterer, name) for name in known)
    if n_columns and exact and not hasattr(clusterer, "degrees_of_freedom_"):
        return Normals.of(clusterer, n_columns)
    for method in ("responsibilities", "predict_proba"):
        # The former are those of a FairMixture, before its own rule.
        if hasattr(clusterer, method):
            return Asked(clusterer, method)
    for name in ("cluster_centers_", "means_"):
        centres: Any = getattr(clusterer, name, None)
        if n_columns and np.shape(centres)[1:] == (n_columns,):
            return Centres(np.asarray(centres, dtype=np.float64))
    if hasattr(clusterer, "transform"):
        return Asked(clusterer, "transform")
    labels = getattr(clusterer, "labels_", None)
    if labels is None:
        raise ValueError(
            f"clusterer={type(clusterer).__name__} has neither centres, predict_proba, transform "
            "nor labels_ after its fit. Give another clusterer, or costs to fairmix.fair_labels."
        )
    return _described(labels, rows, weight)


def labels_of(clusterer: Any) -> NDArray[Any] | None:
    """Labels of a clusterer, or those that stand for one; None where there are none."""
    labels = getattr(clusterer, "labels_", None) if hasattr(clusterer, "fit") else clusterer
    return None if labels is None else np.asarray(labels)


def _described(labels: Any, rows: Rows, weight: FloatArray) -> Described:
    """Clusters that are known by their labels alone; below 0 is noise."""
    codes = np.asarray(labels)
    if codes.shape != (rows.n_rows,):
        raise ValueError(
            f"The clusterer has labels of shape {codes.shape}, X has {rows.n_rows} rows. Fit it to "
            "the same rows, or leave prefit=False."
        )
    if codes.dtype.kind not in "iu":
        raise ValueError(
            f"The labels of the clusterer have type {codes.dtype}. Number the clusters from 0; -1 "
            "is noise."
        )
    if not ((codes >= 0) & (weight > 0)).any():
        raise ValueError("The clusterer calls all rows noise (-1), so there are no clusters.")
    return Described.of(rows, codes, weight, int(codes.max()) + 1)


def _numbers(rows: Rows) -> Array:
    assert rows.numeric is not None
    return rows.numeric.astype(np.float64, copy=False)


def _means(
    X: Array, labels: IntArray, weight: FloatArray, n_clusters: int
) -> tuple[Array, FloatArray]:
    mass = np.bincount(labels, weight, n_clusters).astype(np.float64)
    sums = np.zeros((n_clusters, X.shape[1]))
    np.add.at(sums, labels, X * weight[:, None])
    return sums / np.where(mass > 0, mass, 1.0)[:, None], mass
