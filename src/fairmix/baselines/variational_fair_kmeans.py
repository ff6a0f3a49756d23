"""VFC: k-means with a Kullback-Leibler penalty on unequal groups."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, cast

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval

from fairmix.baselines._base import (
    AMOUNT,
    COUNT,
    DISTANCES,
    Clustering,
    FairClusterer,
    HistoryRow,
    TrainingRows,
    fairness,
    warn,
)
from fairmix.baselines._centers import Objective, costs, move
from fairmix.baselines._relaxation import Descent, Relaxation, descend, unfairness
from fairmix.input.groups import match_groups
from fairmix.kernels.totals import FloatArray, IntArray
from fairmix.system.progress import progress


class VariationalFairKMeans(FairClusterer):
    """Variational fair clustering: k-means with a fairness term (VFC).

    Implements "Variational Fair Clustering" (Ziko, Yuan, Granger and Ben Ayed, AAAI 2021).
    Minimises the cost plus a strength times the sum over clusters of KL(U || P_k): the divergence
    of the groups' shares in the cluster, P_k, from those in all, U. Soft assignments (by bound
    updates) and centres take turns. It bounds neither a gap nor a ratio: measure them.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters, K.
    fairness_strength : float, default=1.0
        Weight of the fairness term in units of the cost of the plain start: the paper's lambda
        divided by that cost. So it means the same for any number of rows and any scale of X.
        0: plain k-means.
    objective : {"kmeans", "kmedian"}, default="kmeans"
        Squared distances to means, or distances to geometric medians.
    lipschitz_constant : float, default=8.0
        The paper's L at the first update, in units of the mean cost. It is doubled for as long
        as the energy would rise, and shrinks slowly otherwise.
    max_iter : int, default=100
        Largest number of moves of the centres.
    inner_iter : int, default=1000
        Largest number of bound updates between two of them.
    tol : float, default=1e-4
        Both have converged when they gain less than this share of the energy.
    n_starts : int, default=1
        Runs, each from a plain clustering of its own; the least objective wins.
    n_init : int, default=10
        Starts of each plain clustering.
    random_state : int, RandomState or None, default=None
        Seed of the starts.
    verbose : int, default=0
        1 shows a progress bar on stderr.

    Attributes
    ----------
    labels_ : ndarray of shape (n_rows,)
        Cluster of each row, as ``predict`` gives it.
    cluster_centers_ : ndarray of shape (n_clusters, n_features)
        Centres of the soft clusters.
    tilts_ : ndarray of shape (n_groups, n_clusters)
        What a row of the group pays for the cluster beside its distance; 0 without groups.
    gap_, balance_ : float
        Of ``labels_``; see `fairmix.metrics`. NaN without two groups.
    n_iter_ : int
        Moves of the centres.
    history_ : structured ndarray
        One row per move: objective (cost plus fairness term of the soft assignment, which never
        rises), gap and balance of the soft assignment, seconds.
    groups_ : ndarray of str
        Names of the groups.
    n_features_in_, feature_names_in_ : int and ndarray of str
        As in scikit-learn.

    Notes
    -----
    A strength that is too large for the data leaves clusters empty, or labels that are no better
    than those of the plain start in cost plus fairness term. The fit then gives the labels of
    the plain start, and warns.

    Examples
    --------
    >>> from fairmix.baselines import VariationalFairKMeans
    >>> from fairmix.datasets import make_grouped_blobs
    >>> X, groups, _ = make_grouped_blobs(600, 3, 2, separation=2, random_state=0)
    >>> weak, strong = (
    ...     VariationalFairKMeans(3, fairness_strength=s, random_state=0)
    ...     .fit(X, sensitive_features=groups) for s in (0.1, 2)
    ... )
    >>> strong.gap_ < weak.gap_
    True
    >>> strong.predict(X[:3], sensitive_features=groups[:3]).tolist() == strong.labels_[:3].tolist()
    True
    """

    tilts_: FloatArray

    __metadata_request__predict = {"sensitive_features": True}  # noqa: RUF012

    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012
        **FairClusterer._parameter_constraints,
        "fairness_strength": [AMOUNT],
        "objective": [DISTANCES],
        "lipschitz_constant": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [COUNT],
        "inner_iter": [COUNT],
        "n_starts": [COUNT],
    }

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        fairness_strength: float = 1.0,
        objective: str = "kmeans",
        lipschitz_constant: float = 8.0,
        max_iter: int = 100,
        inner_iter: int = 1000,
        tol: float = 1e-4,
        n_starts: int = 1,
        n_init: int = 10,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.fairness_strength = fairness_strength
        self.objective = objective
        self.lipschitz_constant = lipschitz_constant
        self.max_iter = max_iter
        self.inner_iter = inner_iter
        self.tol = tol
        self.n_starts = n_starts
        self.n_init = n_init
        self.random_state = random_state
        self.verbose = verbose

    def predict(self, X: Any, *, sensitive_features: Any = None) -> IntArray:
        """Cluster of each row: least cost plus tilt of the row's group.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            Columns as in ``fit``.
        sensitive_features : array-like or table, default=None
            Group of each row, needed after a fit with groups.

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        rows = self._read_new(X)
        if len(self.groups_) < 2:
            return np.asarray(self._new_costs(rows).argmin(axis=1))
        if sensitive_features is None:
            raise ValueError(
                "sensitive_features=None, but the labels of VariationalFairKMeans depend on the "
                "group of each row. Pass sensitive_features, or use fairmix.FairMixture, whose "
                "predict needs none."
            )
        codes = match_groups(sensitive_features, self.groups_.tolist(), n_rows=len(rows))
        return np.asarray((self._new_costs(rows) + self.tilts_[codes]).argmin(axis=1))

    def _plain(self, training: TrainingRows, seed: Any) -> Clustering:
        self.tilts_ = np.zeros((training.n_groups, self.n_clusters))
        return super()._plain(training, seed)

    def _fit_groups(self, training: TrainingRows) -> Clustering:
        # The first start is k-means with the user's own seed, which is what strength 0 must return.
        starts = [self._plain(training, self.random_state)]
        if self.fairness_strength == 0:
            return starts[0]
        seeds = check_random_state(self.random_state).randint(2**31 - 1, size=self.n_starts - 1)
        starts += [self._plain(training, int(seed)) for seed in seeds]
        plain = min(starts, key=lambda start: start.history[0].objective)
        # Costs are divided by this, so that the strength has no unit; 1
        # where every row is on its centre.
        mean_cost = plain.history[0].objective / float(training.weights.sum()) or 1.0
        runs = [self._alternate(training, start.centers, mean_cost) for start in starts]
        best = min(runs, key=lambda run: run.descent.state.energy)
        state, history = best.descent.state, best.history
        # The softmax is largest where cost plus this is least, so predict needs
        # neither the sharpness nor the mean cost.
        self.tilts_ = mean_cost * state.tilt / state.sharpness
        each = costs(training.X, best.centers, cast(Objective, self.objective))
        labels = (each + self.tilts_[training.codes]).argmin(axis=1)
        fair = Clustering(labels, best.centers, history, len(history))
        if self._collapsed(training, fair, plain, mean_cost):
            self.tilts_ = np.zeros_like(self.tilts_)
            return Clustering(plain.labels, plain.centers, history, len(history))
        if not best.descent.converged:
            warn(
                f"inner_iter={self.inner_iter} bound updates did not converge. Raise inner_iter "
                "or tol, or lower fairness_strength."
            )
        if not best.converged:
            warn(f"max_iter={self.max_iter} moves did not converge. Raise max_iter or tol.")
        if np.array_equal(labels, plain.labels):
            warn(
                f"fairness_strength={self.fairness_strength:g} moved no row: the labels are those "
                "of the plain start. Raise it; if that changes nothing, the clusters are too far "
                "apart for this method."
            )
        return fair

    def _collapsed(
        self, training: TrainingRows, fair: Clustering, plain: Clustering, mean_cost: float
    ) -> bool:
        """Whether the plain start is better than what was found; warns if so."""
        filled = len(np.unique(fair.labels))
        # Of hard labels: the soft energy never rises, but rounding to
        # labels may lose what it gained.
        worse = self._energy(training, fair, mean_cost) > self._energy(training, plain, mean_cost)
        if filled == self.n_clusters and not worse:
            return False
        warn(
            f"fairness_strength={self.fairness_strength:g} is too large for these data: {filled} "
            f"of n_clusters={self.n_clusters} clusters keep members, or cost plus fairness term "
            "are worse than before. The labels are those of the plain start, without fairness. "
            "Lower fairness_strength or raise inner_iter."
        )
        return True

    def _alternate(self, training: TrainingRows, centers: FloatArray, mean_cost: float) -> _Run:
        """Soft assignments and centres in turns, until neither gains."""
        objective = cast(Objective, self.objective)
        # The relaxation wants blocks of one group each.
        order = np.argsort(training.codes, kind="stable")
        X, codes, weights = training.X[order], training.codes[order], training.weights[order]
        started = time.perf_counter()
        run: _Run | None = None
        with progress("variational", self.max_iter, shown=bool(self.verbose)) as tick:
            for _ in range(self.max_iter):
                each = costs(X, centers, objective) / mean_cost
                relaxation = Relaxation.of(each, codes, weights, float(self.fairness_strength))
                descent = descend(
                    relaxation,
                    self.n_clusters,
                    # Only a first guess, which the updates double or relax as the energy asks.
                    lipschitz=self.lipschitz_constant,
                    max_iter=self.inner_iter,
                    tol=self.tol,
                )
                energy = descent.state.energy
                # The run before is returned: its centres and its soft assignment belong together.
                if run is not None and energy > (1 - self.tol) * run.descent.state.energy:
                    return replace(run, converged=True)
                total = energy * mean_cost * float(weights.sum())
                gap, balance = fairness(descent.state.mass)
                row = HistoryRow(total, gap, balance, time.perf_counter() - started)
                run = _Run(centers, descent, [*(run.history if run else ()), row], False)
                tick(f"objective {total:.6g}, gap {gap:.4g}")
                centers = move(X, relaxation.soft_assignments(descent.state), centers, objective)
        assert run is not None
        return run

    def _energy(self, training: TrainingRows, found: Clustering, mean_cost: float) -> float:
        """Cost plus fairness term of hard labels, per row and in units of the mean cost."""
        each = costs(training.X, found.centers, cast(Objective, self.objective))
        cost = np.average(each[np.arange(len(each)), found.labels], weights=training.weights)
        mass = training.mass(found.labels, self.n_clusters) / float(training.weights.sum())
        return float(cost) / mean_cost + self.fairness_strength * unfairness(mass, training.shares)


@dataclass(frozen=True, eq=False)
class _Run:
    """Centres and the soft assignment that is best for them, and how they were found."""

    centers: FloatArray
    descent: Descent
    history: list[HistoryRow]
    converged: bool
