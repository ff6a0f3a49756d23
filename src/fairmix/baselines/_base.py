"""What the baselines share: input, plain clustering without groups, publishing."""

from __future__ import annotations

import time
import warnings
from abc import abstractmethod
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, NamedTuple, Self, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from fairmix.baselines._centers import Objective, costs, kmedian
from fairmix.criteria import CRITERIA, smallest_ratio
from fairmix.input.fit_predict import FitPredict
from fairmix.input.floats import as_floats
from fairmix.input.groups import Groups, encode_groups, warn_of_target
from fairmix.input.opening import read_weights
from fairmix.kernels.totals import FloatArray, IntArray
from fairmix.system.autologging import without_autologging
from fairmix.system.threads import one_thread


class HistoryRow(NamedTuple):
    """One row of ``history_``."""

    objective: float
    gap: float
    balance: float
    seconds: float


# What parameters may be: a whole number from 1 on, a number from 0 on, what distances are.
COUNT = Interval(Integral, 1, None, closed="left")
AMOUNT = Interval(Real, 0, None, closed="left")
DISTANCES = StrOptions({"kmeans", "kmedian"})

HISTORY_DTYPE = [(name, np.float64) for name in HistoryRow._fields]


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """Rows with weight, centred, and their groups."""

    X: FloatArray
    codes: IntArray
    n_groups: int
    weight: FloatArray | None

    @property
    def weights(self) -> FloatArray:
        """Weight of each row, 1 without weights."""
        return np.ones(len(self.X)) if self.weight is None else self.weight

    @property
    def shares(self) -> FloatArray:
        """Share of each group in all."""
        mass = np.bincount(self.codes, weights=self.weights, minlength=self.n_groups)
        return np.asarray(mass / mass.sum())

    def mass(self, labels: IntArray, n_clusters: int) -> FloatArray:
        """Mass of each group in each cluster, (M, K)."""
        cells = self.codes * n_clusters + labels
        mass = np.bincount(cells, weights=self.weights, minlength=self.n_groups * n_clusters)
        return mass.astype(np.float64).reshape(self.n_groups, n_clusters)


@dataclass(frozen=True, eq=False)
class Clustering:
    """What a method found."""

    labels: IntArray
    centers: FloatArray
    history: list[HistoryRow]
    n_iter: int


class FairClusterer(FitPredict, ClusterMixin, BaseEstimator):
    """Reads input, clusters plainly when there are no groups, publishes what was found."""

    # Requested by default, so that metadata routing passes the groups through a pipeline or a
    # search without a call of set_fit_request.
    __metadata_request__fit = {"sensitive_features": True}  # noqa: RUF012

    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012
        "n_clusters": [COUNT],
        "n_init": [COUNT],
        "tol": [AMOUNT],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    n_clusters: int
    n_init: int
    tol: float
    random_state: Any
    verbose: int
    # Not a parameter of every method; those without it use squared distances.
    objective: str = "kmeans"

    @abstractmethod
    def _fit_groups(self, training: TrainingRows) -> Clustering:
        """Cluster rows of two groups or more."""

    def fit(
        self,
        X: Any,
        y: object = None,
        *,
        sensitive_features: Any = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Cluster the rows.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            Finite numbers.
        y : ignored
            A ``y`` without ``sensitive_features`` is an `IgnoredTargetWarning`.
        sensitive_features : array-like or table, default=None
            Group of each row; several columns form their intersections. None, or one group
            only, is plain k-means (or k-median).
        sample_weight : array-like of shape (n_rows,), default=None
            Weights of at least 0. A weight of 2 counts as two equal rows. A row of weight 0 gets
            the label of the nearest centre.

        Returns
        -------
        self
            The fitted clusterer.
        """
        warn_of_target(y, sensitive_features)
        self._validate_params()
        # float32 is let through and widened later, only for the rows that count.
        with as_floats("X"):
            X = validate_data(self, X, dtype=(np.float64, np.float32), order="C")
        weight = read_weights(sample_weight, X)
        groups = None
        if sensitive_features is not None:
            groups = encode_groups(sensitive_features, n_rows=len(X))
        _check_squares(X)
        if len(X) < self.n_clusters:
            raise ValueError(
                f"n_clusters={self.n_clusters} clusters need at least as many rows, X has "
                f"n_samples={len(X)}. Lower n_clusters or give more rows."
            )
        # How many threads BLAS and k-means take may change the last bits of a sum; with
        # one, the same seed gives the same bits.
        with one_thread(), without_autologging():
            self._fit_rows(X, groups, weight)
        return self

    def _fit_rows(self, X: FloatArray, groups: Groups | None, weight: FloatArray | None) -> None:
        # A row of weight 0 must be as good as absent, also for starts, batches and fairlets.
        counted = np.arange(len(X)) if weight is None else np.flatnonzero(weight)
        kept = None if groups is None else groups.take(counted)
        self.groups_ = np.array(() if kept is None else kept.names, dtype=str)
        codes = np.zeros(len(counted), dtype=np.intp) if kept is None else kept.codes
        rows = X[counted].astype(np.float64)
        # Distances of centred rows keep their digits wherever the data lie.
        mean = rows.mean(axis=0)
        training = TrainingRows(
            rows - mean,
            codes,
            max(len(self.groups_), 1),
            None if weight is None else weight[counted],
        )
        if training.n_groups > 1:
            found = self._fit_groups(training)
        else:
            found = self._plain(training, self.random_state)
        labels = found.labels
        if len(counted) < len(X):
            # The nearest centre is the same for distances and their squares.
            labels = costs(X.astype(np.float64) - mean, found.centers, "kmeans").argmin(axis=1)
            labels[counted] = found.labels
        self.labels_ = labels.astype(np.intp, copy=False)
        # predict centres its rows as well, or their distances would lose the digits that fit keeps.
        self._mean, self._centers = mean, found.centers
        self.cluster_centers_ = found.centers + mean
        self.n_iter_ = found.n_iter
        self.history_ = np.array([tuple(row) for row in found.history], dtype=HISTORY_DTYPE)
        self.gap_, self.balance_ = fairness(training.mass(found.labels, self.n_clusters))
        filled = len(np.unique(found.labels))
        if filled < self.n_clusters:
            warn(
                f"Only {filled} of n_clusters={self.n_clusters} clusters have members. Lower "
                "n_clusters, or give more distinct rows."
            )

    def _kmeans(self, X: FloatArray, weight: FloatArray | None, seed: Any) -> KMeans:
        model = KMeans(self.n_clusters, n_init=self.n_init, random_state=seed)
        with warnings.catch_warnings():
            # Fewer distinct rows than clusters: fit says at the end how many clusters are left.
            warnings.simplefilter("ignore", ConvergenceWarning)
            return model.fit(X, sample_weight=weight)

    def _plain_clusters(
        self, X: FloatArray, weight: FloatArray | None, seed: Any
    ) -> tuple[IntArray, FloatArray, int]:
        """Labels, centres and iterations of k-means, or of k-median started from it."""
        model = self._kmeans(X, weight, seed)
        if self.objective == "kmeans":
            return model.labels_, model.cluster_centers_, model.n_iter_
        weights = np.ones(len(X)) if weight is None else weight
        return kmedian(X, weights, model.cluster_centers_, self.tol)

    def _plain(self, training: TrainingRows, seed: Any) -> Clustering:
        """Plain clustering, from the given random state."""
        started = time.perf_counter()
        labels, centers, n_iter = self._plain_clusters(training.X, training.weight, seed)
        each = costs(training.X, centers, cast(Objective, self.objective))
        total = float(training.weights @ each[np.arange(len(labels)), labels])
        gap, balance = fairness(training.mass(labels, self.n_clusters))
        row = HistoryRow(total, gap, balance, time.perf_counter() - started)
        return Clustering(labels, centers, [row], n_iter)

    def score(self, X: Any, y: object = None, *, sample_weight: ArrayLike | None = None) -> float:
        """Minus the cost of some rows, each at its nearest centre, as ``KMeans.score``.

        It says nothing about groups: for them see `fairmix.metrics.gap_scorer`.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            Columns as in ``fit``.
        y : ignored
            For scikit-learn's conventions.
        sample_weight : array-like of shape (n_rows,), default=None
            Weights of the rows.

        Returns
        -------
        float
        """
        rows = self._read_new(X)
        nearest, weight = self._new_costs(rows).min(axis=1), read_weights(sample_weight, rows)
        return -float(nearest.sum() if weight is None else weight @ nearest)

    def _read_new(self, X: Any) -> FloatArray:
        check_is_fitted(self)
        with as_floats("X"):
            X = validate_data(self, X, dtype=(np.float64, np.float32), order="C", reset=False)
        return np.asarray(X.astype(np.float64) - self._mean)

    def _new_costs(self, X: FloatArray) -> FloatArray:
        return costs(X, self._centers, cast(Objective, self.objective))


class MatchedClusterer(FairClusterer):
    """A clusterer whose fair labels come from a matching of the training rows."""

    def predict(self, X: Any) -> IntArray:
        """Nearest centre of each row, for a fit without groups only.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            Columns as in ``fit``.

        Returns
        -------
        ndarray of shape (n_rows,)

        Raises
        ------
        NotImplementedError
            After a fit with groups, where the method gives new rows no label.
        """
        rows = self._read_new(X)
        if len(self.groups_) > 1:
            raise NotImplementedError(
                f"{type(self).__name__} has no labels for new rows: labels_ follow from the "
                "matching of the training rows, and the nearest centre would not be fair. Use "
                "labels_, or fairmix.FairMixture, which assigns new rows."
            )
        return np.asarray(self._new_costs(rows).argmin(axis=1))


def _check_squares(X: FloatArray) -> None:
    """Refuse numbers whose squared distances cannot be added up."""
    with np.errstate(over="ignore"):
        # Two numbers are at most twice the largest one apart, so a square
        # is at most four times its own.
        largest = np.square(np.abs(X).max(initial=0.0), dtype=np.float64) * 4 * X.size
    if not np.isfinite(largest):
        raise ValueError(
            f"X holds numbers up to {np.abs(X).max():.3g}, so large that squared distances "
            "overflow. Divide them by a constant, or drop them."
        )


def fairness(mass: FloatArray) -> tuple[float, float]:
    """Gap and balance of masses (M, K); NaN where there are no two groups to compare."""
    if len(mass) < 2:
        return np.nan, np.nan
    rates = mass / mass.sum(axis=1, keepdims=True)
    return CRITERIA["gap"].value(rates), smallest_ratio(mass)


def warn(message: str) -> None:
    """Say that a fit did not reach what it was asked for."""
    warnings.warn(message, ConvergenceWarning, stacklevel=2)
