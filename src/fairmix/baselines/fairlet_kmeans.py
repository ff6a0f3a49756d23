"""SFC: fairlets on a random tree, then k-means of the fairlets."""

from __future__ import annotations

import time
from collections.abc import Sequence
from fractions import Fraction
from numbers import Integral
from typing import Any, cast

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import StrOptions

from fairmix.baselines._base import (
    COUNT,
    DISTANCES,
    Clustering,
    HistoryRow,
    MatchedClusterer,
    TrainingRows,
    fairness,
)
from fairmix.baselines._centers import Objective, costs, hard, move
from fairmix.baselines._fairlets import Ratio, decompose, simplest_ratio
from fairmix.kernels.totals import FloatArray, IntArray
from fairmix.system.progress import progress

# "auto" asks for this share of the balance of the data: a little less than all of it makes
# fairlets far smaller, because p and q are then small numbers.
AUTO_SHARE = Fraction(995, 1000)


class FairletKMeans(MatchedClusterer):
    """Scalable fair clustering: k-means of fairlets (SFC).

    Implements "Scalable Fair Clustering" (Backurs, Indyk, Onak, Schieber, Vakilian and Wagner,
    ICML 2019). Rows of two groups are put into fairlets, small sets with at least p rows of one
    group to q of the other, along a randomly shifted grid tree. The fairlets are then clustered
    as wholes, so every cluster has a balance of at least p / q. Ratios of rates are not bounded:
    measure them.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters, K.
    fairlet_ratio : "auto" or (p, q), default="auto"
        Two whole numbers, p at most q, such that p / q is at most the balance of the data.
        ``"auto"``: the smallest ones that give 99.5 % of the balance of the data or more.
    objective : {"kmeans", "kmedian"}, default="kmeans"
        Squared distances to means, or distances to geometric medians.
    n_trees : int, default=10
        Random trees to try; the least cost wins.
    n_init : int, default=10
        Starts of k-means on the fairlets.
    tol : float, default=1e-4
        k-median has converged when an iteration gains less than this share of the cost.
    random_state : int, RandomState or None, default=None
        Seed of trees and starts.
    verbose : int, default=0
        1 shows a progress bar on stderr.

    Attributes
    ----------
    labels_ : ndarray of shape (n_rows,)
        Cluster of each row.
    cluster_centers_ : ndarray of shape (n_clusters, n_features)
        Means (or geometric medians) of the clusters.
    fairlets_ : ndarray of shape (n_rows,)
        Fairlet of each row, of those with weight; without groups each row is its own.
    fairlet_ratio_ : tuple of int
        p and q in use; (0, 1) without groups.
    gap_, balance_ : float
        Of ``labels_``; see `fairmix.metrics`. NaN without two groups.
    groups_ : ndarray of str
        Names of the groups.
    n_iter_ : int
        Iterations of k-means on the fairlets.
    history_ : structured ndarray
        One row per tree: objective (the cost of the rows), gap, balance, seconds.
    n_features_in_, feature_names_in_ : int and ndarray of str
        As in scikit-learn.

    Notes
    -----
    The theorem is about two groups of rows that count alike, so more groups and unequal weights
    are errors. ``predict`` works after a fit without groups only.

    Examples
    --------
    >>> from fairmix.baselines import FairletKMeans
    >>> from fairmix.datasets import make_grouped_blobs
    >>> X, groups, _ = make_grouped_blobs(600, 3, 2, random_state=0)
    >>> model = FairletKMeans(3, fairlet_ratio=(1, 2), random_state=0)
    >>> model.fit(X, sensitive_features=groups).balance_ >= 1 / 2
    True
    """

    fairlets_: IntArray

    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012
        **MatchedClusterer._parameter_constraints,
        "fairlet_ratio": [StrOptions({"auto"}), tuple, list],
        "objective": [DISTANCES],
        "n_trees": [COUNT],
    }

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        fairlet_ratio: str | Sequence[int] = "auto",
        objective: str = "kmeans",
        n_trees: int = 10,
        n_init: int = 10,
        tol: float = 1e-4,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.fairlet_ratio = fairlet_ratio
        self.objective = objective
        self.n_trees = n_trees
        self.n_init = n_init
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose

    def _plain(self, training: TrainingRows, seed: Any) -> Clustering:
        self.fairlets_ = np.arange(len(training.X))
        self.fairlet_ratio_ = (0, 1)
        return super()._plain(training, seed)

    def _fit_groups(self, training: TrainingRows) -> Clustering:
        _check_weights(training.weight)
        sizes = np.bincount(training.codes, minlength=training.n_groups).tolist()
        ratio = self._ratio(sizes, self.groups_.tolist())
        first = training.codes == 0
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        # One generator for all trees: more trees then begin with the same ones, and cost no more.
        rng = np.random.default_rng(seed)
        started = time.perf_counter()
        history: list[HistoryRow] = []
        best: Clustering | None = None
        with progress("fairlets", self.n_trees, shown=bool(self.verbose)) as tick:
            for _ in range(self.n_trees):
                fairlets, n_fairlets = decompose(training.X, first, ratio, rng)
                labels, centers, n_iter = self._cluster(training.X, fairlets, n_fairlets)
                each = costs(training.X, centers, cast(Objective, self.objective))
                cost = float(each[np.arange(len(labels)), labels].sum())
                gap, balance = fairness(training.mass(labels, self.n_clusters))
                seconds = time.perf_counter() - started
                history.append(HistoryRow(cost, gap, balance, seconds))
                tick(f"cost {cost:.6g}")
                # Every tree promises the same balance, so the cost alone decides.
                if best is None or cost < min(row.objective for row in history[:-1]):
                    # The list is shared, so the trees that follow are in it too.
                    best = Clustering(labels, centers, history, n_iter)
                    self.fairlets_ = fairlets
        assert best is not None
        self.fairlet_ratio_ = (ratio.p, ratio.q)
        return best

    def _ratio(self, sizes: list[int], names: list[str]) -> Ratio:
        if len(sizes) != 2:
            raise ValueError(
                f"sensitive_features holds {len(sizes)} groups: {', '.join(names)}. Fairlets are "
                "defined for two. Merge groups, or use VariationalFairKMeans or AlignedFairKMeans."
            )
        largest = Fraction(min(sizes), max(sizes))
        if isinstance(self.fairlet_ratio, str):
            return simplest_ratio(AUTO_SHARE * largest, largest)
        pair = list(self.fairlet_ratio)
        if len(pair) != 2 or not all(isinstance(n, Integral) for n in pair):
            raise ValueError(
                f"fairlet_ratio={self.fairlet_ratio!r} is not a pair of whole numbers. Give "
                "(p, q), for example (1, 2), or 'auto'."
            )
        if not 1 <= pair[0] <= pair[1]:
            raise ValueError(
                f"fairlet_ratio={self.fairlet_ratio!r} must be (p, q) with 1 <= p <= q. Swap or "
                "raise them."
            )
        wanted = Fraction(int(pair[0]), int(pair[1]))
        if wanted > largest:
            raise ValueError(
                f"fairlet_ratio={self.fairlet_ratio!r} asks for a balance of {float(wanted):.4g}, "
                f"but the groups have {sizes[0]} and {sizes[1]} rows, a balance of "
                f"{float(largest):.4g}. Give a smaller p / q, or 'auto'."
            )
        # In lowest terms: (2, 4) promises what (1, 2) does, with fairlets twice as large.
        return Ratio(wanted.numerator, wanted.denominator)

    def _cluster(
        self, X: FloatArray, fairlets: IntArray, n_fairlets: int
    ) -> tuple[IntArray, FloatArray, int]:
        """Labels of the rows and centres: cluster the fairlets' centres, weighted by size."""
        if n_fairlets < self.n_clusters:
            raise ValueError(
                f"n_clusters={self.n_clusters} is more than the {n_fairlets} fairlets of these "
                f"{len(X)} rows. Lower n_clusters, or give a fairlet_ratio of smaller numbers."
            )
        sizes = np.bincount(fairlets, minlength=n_fairlets).astype(np.float64)
        membership = hard(fairlets, np.ones(len(X)), n_fairlets)
        points = np.asarray(membership.T @ X) / sizes[:, None]
        labels, centers, n_iter = self._plain_clusters(points, sizes, self.random_state)
        # The mean of the fairlets' means, weighted by size, is the mean of their rows. For medians
        # there is no such rule, so they are found from the rows.
        if self.objective == "kmedian":
            centers = move(
                X, hard(labels[fairlets], np.ones(len(X)), len(centers)), centers, "kmedian"
            )
        return labels[fairlets], centers, n_iter


def _check_weights(weight: FloatArray | None) -> None:
    if weight is not None and weight.min() != weight.max():
        raise ValueError(
            f"sample_weight holds values from {weight.min():.4g} to {weight.max():.4g}. Fairlets "
            "count rows, so with sensitive_features the weights must be equal. Leave "
            "sample_weight out, repeat rows, or use AlignedFairKMeans."
        )
