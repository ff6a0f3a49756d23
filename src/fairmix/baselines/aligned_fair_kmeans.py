"""FCA: optimal transport between groups, and k-means of what it joins."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval

from fairmix.baselines._alignment import (
    Alignment,
    align,
    count_batches,
    import_transport,
    make_batches,
    row_masses,
)
from fairmix.baselines._base import (
    COUNT,
    Clustering,
    HistoryRow,
    MatchedClusterer,
    TrainingRows,
    fairness,
    warn,
)
from fairmix.baselines._centers import costs
from fairmix.baselines._rounding import keep_bound
from fairmix.kernels.totals import FloatArray, IntArray
from fairmix.system.progress import progress


class AlignedFairKMeans(MatchedClusterer):
    """Fair clustering via alignment: k-means of matched rows (FCA, FCA-C).

    Implements "Fair Clustering via Alignment" (Kim, Lee, Park and Kim, ICML 2025). Optimal
    transport joins rows of different groups; joined rows share a cluster, so all groups have the
    same rates. k-means of the joined rows (their means, weighted by the groups' shares) and
    transport for its centres take turns, and the cost never rises for two groups. It bounds the
    gap; ratios and Balance are not bounded: measure them.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters, K.
    max_gap : float, default=0.0
        Share of each group that need not be joined (FCA-C's epsilon), and a bound for every pair
        of groups in every cluster. Each row gets one cluster, the one with most of its mass; where
        the rates then differ by more than this, rows move to another cluster at the least cost.
        Rows are whole: below one row of a pair's larger group (of each, if neither is the smallest
        group of all) a bound is met up to that.
    batch_size : int, default=2048
        Rows of one transport problem. Time grows with its square, memory too; the cost falls.
    max_iter : int, default=20
        Largest number of turns.
    tol : float, default=1e-3
        The fit has converged when a turn gains less than this share of the cost.
    n_init : int, default=10
        Starts of k-means on the rows, whose centres are where the turns begin.
    random_state : int, RandomState or None, default=None
        Seed of starts and batches.
    verbose : int, default=0
        1 shows a progress bar on stderr.

    Attributes
    ----------
    labels_ : ndarray of shape (n_rows,)
        Cluster of each row: where most of its mass goes, as far as ``max_gap`` allows.
    cluster_centers_ : ndarray of shape (n_clusters, n_features)
        Centres of the joined rows.
    groups_ : ndarray of str
        Names of the groups.
    gap_, balance_ : float
        Of ``labels_``; see `fairmix.metrics`. NaN without two groups.
    n_iter_ : int
        Turns.
    history_ : structured ndarray
        One row per turn: objective (the cost of the fractional assignment), gap and balance of
        its labels, seconds.
    n_features_in_, feature_names_in_ : int and ndarray of str
        As in scikit-learn.

    Notes
    -----
    Batches are drawn once. Each holds the same share of every group; a row at the border of two
    batches is in both with parts of its mass, so the sums of the matching are exact. Three groups
    or more are joined one after the other, which is no longer the best joint matching.

    Transport needs POT: ``pip install 'fairmix[baselines]'``. ``predict`` works after a fit
    without groups only.

    Examples
    --------
    >>> from fairmix.baselines import AlignedFairKMeans
    >>> from fairmix.datasets import make_grouped_blobs
    >>> X, groups, _ = make_grouped_blobs(600, 3, 2, random_state=0)
    >>> model = AlignedFairKMeans(3, random_state=0).fit(X, sensitive_features=groups)
    >>> model.gap_ < 0.01
    True
    """

    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012
        **MatchedClusterer._parameter_constraints,
        "max_gap": [Interval(Real, 0, 1, closed="both")],
        "batch_size": [Interval(Integral, 2, None, closed="left")],
        "max_iter": [COUNT],
    }

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        max_gap: float = 0.0,
        # With two groups at most 1024 by 1024 costs, 8 MB for each transport.
        batch_size: int = 2048,
        max_iter: int = 20,
        tol: float = 1e-3,
        n_init: int = 10,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.max_gap = max_gap
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.tol = tol
        self.n_init = n_init
        self.random_state = random_state
        self.verbose = verbose

    def _fit_groups(self, training: TrainingRows) -> Clustering:
        # Before k-means: a missing package should not be found after minutes.
        import_transport()
        start = self._kmeans(training.X, training.weight, self.random_state)
        centers = start.cluster_centers_
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))
        n_batches = count_batches(len(training.X), self.batch_size)
        masses = row_masses(training.codes, training.n_groups, training.weight, n_batches)
        # Drawn once: with other batches each turn would solve another
        # problem, and its cost could rise.
        batches = make_batches(training.codes, masses, training.n_groups, n_batches, rng)
        # Every group has the same mass in a matching, so its share brings it back to its size.
        share = training.shares[training.codes][:, None]
        started = time.perf_counter()
        history: list[HistoryRow] = []
        labels: IntArray = np.empty(0, dtype=np.intp)
        last = gain = np.inf
        with progress("alignment", self.max_iter, shown=bool(self.verbose)) as tick:
            for _ in range(self.max_iter):
                alignment = align(
                    batches, share * costs(training.X, centers, "kmeans"), self.max_gap
                )
                turn = _turn(training, alignment, centers)
                if turn.cost > last:  # three groups or more: no better matching found
                    break
                gain, last, centers = last - turn.cost, turn.cost, turn.centers
                labels = _labels(training, alignment, turn, self.max_gap)
                gap, balance = fairness(training.mass(labels, self.n_clusters))
                history.append(HistoryRow(last, gap, balance, time.perf_counter() - started))
                tick(f"cost {last:.6g}, gap {gap:.4g}")
                if gain <= self.tol * last:
                    break
            else:
                if self.max_iter > 1:  # a single turn has no gain to speak of
                    warn(
                        f"max_iter={self.max_iter} turns are done and the last one gained "
                        f"{gain / last:.2g} of the cost, more than tol={self.tol:g}. Raise "
                        "max_iter or tol."
                    )
        return Clustering(labels, centers, history, len(history))


@dataclass(frozen=True, eq=False)
class _Turn:
    """k-means of an alignment: its cost, centres, and clusters of atoms, then free rows."""

    cost: float
    centers: FloatArray
    clusters: IntArray


def _turn(training: TrainingRows, alignment: Alignment, centers: FloatArray) -> _Turn:
    X, shares = training.X, training.shares
    squares = np.einsum("ij,ij->i", X, X)
    joined = sum(share * X[rows] for share, rows in zip(shares, alignment.atoms.T, strict=True))
    unit = float(training.weights.sum()) / alignment.total
    # What the rows of an atom cost wherever its centre lies: their spread about their mean.
    spread = squares[alignment.atoms] @ shares - np.einsum("ij,ij->i", joined, joined)
    free_share = shares[training.codes[alignment.free_rows]]
    weight = unit * np.concatenate([alignment.mass, free_share * alignment.free_mass])
    points = np.concatenate([joined, X[alignment.free_rows]])
    with warnings.catch_warnings():
        # Fewer distinct points than clusters: fit says at the end how many clusters are left.
        warnings.simplefilter("ignore", ConvergenceWarning)
        # From the centres of the last turn, because a new start could end at a higher cost.
        model = KMeans(len(centers), init=centers, n_init=1).fit(points, sample_weight=weight)
    cost = float(model.inertia_) + unit * float(alignment.mass @ spread)
    return _Turn(cost, model.cluster_centers_, model.labels_)


def _labels(training: TrainingRows, alignment: Alignment, turn: _Turn, max_gap: float) -> IntArray:
    """Cluster of each row in which most of its mass is, but for rows that the bound moves."""
    n_clusters, n_atoms = len(turn.centers), len(alignment.mass)
    rows = np.concatenate([alignment.atoms.ravel(), alignment.free_rows])
    clusters = np.concatenate(
        [np.repeat(turn.clusters[:n_atoms], training.n_groups), turn.clusters[n_atoms:]]
    )
    mass = np.concatenate([np.repeat(alignment.mass, training.n_groups), alignment.free_mass])
    cells = np.bincount(
        rows * n_clusters + clusters, weights=mass, minlength=len(training.X) * n_clusters
    )
    cells = cells.reshape(-1, n_clusters)
    distances = costs(training.X, turn.centers, "kmeans")
    # A row of next to no weight has no mass anywhere, and goes to the nearest centre.
    labels = np.where(cells.any(axis=1), cells.argmax(axis=1), distances.argmin(axis=1))
    rates = np.stack(
        [cells[training.codes == group].sum(axis=0) for group in range(training.n_groups)]
    )
    rates /= alignment.total
    return keep_bound(labels, rates, distances, training.codes, training.weights, max_gap)
