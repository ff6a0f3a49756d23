"""What rows cost in the clusters of a clusterer, by whatever it says of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from fairmix.kernels.totals import FloatArray, IntArray

Array = NDArray[np.float64]

NOISE = -1
# Below it, log-probabilities are the same: so improbable a cluster is no choice.
SMALLEST = 1e-300
# A column that is constant within a cluster keeps this share of its variance among all rows, and a
# constant column this variance, so that densities stay finite.
LEAST_SHARE, LEAST = 1e-3, 1e-12


class Clusters(Protocol):
    """Clusters that stay as they are."""

    @property
    def n_clusters(self) -> int:
        """K."""

    def cost(self, X: Any) -> Array:
        """What each row costs in each cluster, (n, K)."""

    def moved(self, X: Array, labels: IntArray, weight: FloatArray) -> Clusters:
        """Where rows with these labels have them."""


@dataclass(frozen=True, eq=False)
class Centres:
    """Squared distances to centres, (K, d)."""

    centres: Array

    @property
    def n_clusters(self) -> int:
        """K."""
        return len(self.centres)

    def cost(self, X: Any) -> Array:
        """Squared distances."""
        # Cluster by cluster: differences of squares would lose digits far from zero.
        rows = np.asarray(X, dtype=np.float64)
        return np.column_stack([((rows - centre) ** 2).sum(axis=1) for centre in self.centres])

    def moved(self, X: Array, labels: IntArray, weight: FloatArray) -> Clusters:
        """Means of the rows; an empty cluster stays."""
        means, mass = _means(X, labels, weight, self.n_clusters)
        return Centres(np.where(mass[:, None] > 0, means, self.centres))


@dataclass(frozen=True, eq=False)
class Spreads:
    """Negative log-densities of normal columns with means and variances of each cluster, (K, d)."""

    means: Array
    variances: Array

    @classmethod
    def of(cls, X: Array, labels: IntArray, weight: FloatArray, n_clusters: int) -> Spreads:
        """Of rows with labels."""
        means, mass = _means(X, labels, weight, n_clusters)
        squares, _ = _means((X - means[labels]) ** 2, labels, weight, n_clusters)
        overall = np.average((X - np.average(X, axis=0, weights=weight)) ** 2, 0, weights=weight)
        floor = np.maximum(LEAST_SHARE * overall, LEAST)
        return cls(means, np.where(mass[:, None] > 0, np.maximum(squares, floor), floor))

    @property
    def n_clusters(self) -> int:
        """K."""
        return len(self.means)

    def cost(self, X: Any) -> Array:
        """Half of what is minus twice the log-density, but for a constant."""
        rows = np.asarray(X, dtype=np.float64)
        return np.column_stack(
            [
                0.5 * (((rows - mean) ** 2 / variance) + np.log(variance)).sum(axis=1)
                for mean, variance in zip(self.means, self.variances, strict=True)
            ]
        )

    def moved(self, X: Array, labels: IntArray, weight: FloatArray) -> Clusters:
        """Means and variances of the rows; an empty cluster stays."""
        new = Spreads.of(X, labels, weight, self.n_clusters)
        there = (np.bincount(labels, weight, self.n_clusters) > 0)[:, None]
        return Spreads(
            np.where(there, new.means, self.means), np.where(there, new.variances, self.variances)
        )


@dataclass(frozen=True, eq=False)
class Asked:
    """What a clusterer itself says: log-probabilities, or distances."""

    clusterer: Any
    method: str
    n_clusters: int

    def cost(self, X: Any) -> Array:
        """Negative log-probabilities, which differ from log-densities by a constant of the row."""
        said = np.asarray(getattr(self.clusterer, self.method)(X), dtype=np.float64)
        return said if self.method == "transform" else -np.log(np.maximum(said, SMALLEST))

    def moved(self, X: Array, labels: IntArray, weight: FloatArray) -> Clusters:
        """Not known."""
        raise ValueError(
            f"refine moves centres, and {type(self.clusterer).__name__} gives "
            f"{'distances' if self.method == 'transform' else 'probabilities'} only. Set refine=0."
        )


@dataclass(frozen=True, eq=False)
class Described:
    """Normal columns and categories that are independent within a cluster, as a product family.

    ``numbers`` are the numeric columns, ``logs`` the log-probabilities of each categorical one,
    (K, categories).
    """

    numbers: Spreads | None
    logs: tuple[Array, ...]

    @classmethod
    def of(
        cls, numeric: Array, categories: list[NDArray[np.intp]], labels: IntArray, n_clusters: int
    ) -> Described:
        """Of rows with labels; those of noise, -1, take no part."""
        placed = np.flatnonzero(labels != NOISE)
        own, ones = labels[placed], np.ones(len(placed))
        logs = []
        for codes in categories:
            counts = np.zeros((n_clusters, int(codes.max()) + 1))
            np.add.at(counts, (own, codes[placed]), 1.0)
            # As one more row that is like all rows: what a cluster lacks stays possible.
            overall = np.bincount(codes, minlength=counts.shape[1]) / len(codes)
            counts += overall
            logs.append(np.log(counts / counts.sum(axis=1, keepdims=True)))
        numbers = None
        if numeric.shape[1]:
            numbers = Spreads.of(numeric[placed], own, ones, n_clusters)
        if numbers is None and not logs:
            raise ValueError(
                "No column is left that describes the clusters. Leave fewer columns out."
            )
        return cls(numbers, tuple(logs))

    def cost(self, numeric: Array, categories: list[NDArray[np.intp]]) -> Array:
        """Negative log-densities, (n, K)."""
        parts = [-logs[:, codes].T for logs, codes in zip(self.logs, categories, strict=True)]
        if self.numbers is not None:
            parts.append(self.numbers.cost(numeric))
        return np.asarray(np.sum(parts, axis=0))


def clusters_of(clusterer: Any, X: Any, rows: Array, weight: FloatArray) -> Clusters:
    """The clusters of a fitted clusterer; ``X`` as it was given to it, ``rows`` as floats."""
    if hasattr(clusterer, "predict_proba"):
        n_clusters = np.shape(clusterer.predict_proba(X[:1]))[1]
        return Asked(clusterer, "predict_proba", n_clusters)
    for name in ("cluster_centers_", "means_"):
        centres = getattr(clusterer, name, None)
        if centres is not None and np.ndim(centres) == 2 and np.shape(centres)[1] == rows.shape[1]:
            return Centres(np.asarray(centres, dtype=np.float64))
    if hasattr(clusterer, "transform"):
        return Asked(clusterer, "transform", np.shape(clusterer.transform(X[:1]))[1])
    labels = getattr(clusterer, "labels_", None)
    if labels is None:
        raise ValueError(
            f"clusterer={type(clusterer).__name__} has neither centres, predict_proba, transform "
            "nor labels_ after its fit. Give another clusterer, or costs to fairmix.fair_labels."
        )
    return spreads_of(labels, rows, weight)


def spreads_of(labels: Any, rows: Array, weight: FloatArray) -> Spreads:
    """Means and spreads of clusters that are known by their labels alone; -1 is noise."""
    codes = np.asarray(labels)
    if codes.shape != (len(rows),):
        raise ValueError(
            f"The clusterer has labels of shape {codes.shape}, X has {len(rows)} rows. Fit it to "
            "the same rows, or leave prefit=False."
        )
    placed = codes != NOISE
    if not placed.any():
        raise ValueError("The clusterer calls all rows noise (-1), so there are no clusters.")
    n_clusters = int(codes.max()) + 1
    return Spreads.of(rows[placed], codes[placed], weight[placed], n_clusters)


def _means(
    X: Array, labels: IntArray, weight: FloatArray, n_clusters: int
) -> tuple[Array, FloatArray]:
    mass = np.bincount(labels, weight, n_clusters).astype(np.float64)
    sums = np.zeros((n_clusters, X.shape[1]))
    np.add.at(sums, labels, X * weight[:, None])
    return sums / np.where(mass > 0, mass, 1.0)[:, None], mass
