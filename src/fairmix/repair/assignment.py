"""`FairAssignment`: fair labels around any clusterer, also for new rows."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClusterMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, has_fit_parameter, validate_data

from fairmix.criteria import limit_of
from fairmix.input.fit_predict import FitPredict
from fairmix.input.floats import as_floats
from fairmix.input.groups import (
    Groups,
    MissingGroups,
    Seats,
    encode_groups,
    seated_groups,
    warn_of_target,
)
from fairmix.input.opening import read_weights
from fairmix.kernels.totals import FloatArray, IntArray, Rows
from fairmix.mixture.propensity import Propensity, fit_propensity
from fairmix.repair.blind import Blind
from fairmix.repair.clusters import NOISE, Clusters, clusters_of
from fairmix.repair.costs import Costs
from fairmix.repair.labels import Bounds, FairLabels, Repair, judged, rule_of
from fairmix.results.verdict import MIN_GROUP_SIZE, Verdict
from fairmix.system.autologging import without_autologging
from fairmix.system.threads import n_threads, one_blas_thread

RULE = [Interval(Real, 0, None, closed="left"), dict, None]

# One for each row; None: all rows count alike.
Weight = ArrayLike | None


class FairAssignment(FitPredict, ClusterMixin, BaseEstimator):
    """Clusters of another clusterer, with labels that meet a rule.

    The clusters stay what they are: only labels change, and only as many as the rule needs, at the
    least cost.

    Parameters
    ----------
    clusterer : clusterer
        Any clusterer of scikit-learn's kind. What a row costs in a cluster is its negative
        log-probability (``predict_proba``), its squared distance to a centre
        (``cluster_centers_``), its distance (``transform``) or, where there are only ``labels_``,
        the negative log-density of normal columns with the means and spreads of each cluster.
    max_gap, min_ratio, min_balance : float or dict of str to float, default=None
        The rule, as in `FairMixture`. At most one; without any, ``max_gap=0.01``.
    assignment : {"aware", "blind"}, default="aware"
        Whether labels may depend on the group of a row, or on P(group | x) only. ``predict`` of a
        blind assignment needs no groups; its lower bound is one on labels that meet the rule for
        that P(group | x).
    attributes : {"intersect", "each"}, default="intersect"
        Whether several columns of groups form intersections, or are compared each by itself.
    min_group_size : int, default=30
        Groups of fewer rows take no part in the rule.
    missing_groups : {"error", "drop", "group"}, default="error"
        What a missing group is, as in `FairMixture`.
    ties : {"together", "split"}, default="together"
        Whether equal rows of a group have the same label. Equal rows of a blind assignment always
        have.
    refine : int, default=0
        Rounds that move the centres to the means of their rows and find labels anew. With 0 the
        clusters keep their meaning.
    prefit : bool, default=False
        Whether the clusterer is fitted already, and is used as it is. So is a ``FrozenEstimator``.
    n_jobs : int, default=None
        Threads; labels do not depend on it. None: as many as ``KMeans`` takes.

    Attributes
    ----------
    labels_ : ndarray of shape (n_rows,)
        Cluster of each row, numbered as by the clusterer; -1 for rows that it calls noise, which
        take no part.
    clusterer_ : clusterer
        The fitted clusterer.
    result_ : FairLabels
        Cost, lower bound, price, rates and multipliers.
    verdict_ : Verdict
        Whether the rule is met; of the worst attribute, where there are more.
    n_features_in_ : int
        Columns of X.
    feature_names_in_ : ndarray of str
        Their names, where X has names.

    See Also
    --------
    fair_labels : The same for costs that you have already.

    Notes
    -----
    ``predict`` gives a row the cheapest cluster after the multipliers of its group are added. The
    few training rows that lie exactly on a boundary may have another label in ``labels_``, where
    they make up for whole rows.

    Examples
    --------
    >>> from sklearn.cluster import KMeans
    >>> from fairmix import FairAssignment
    >>> from fairmix.datasets import make_grouped_blobs
    >>> X, groups, _ = make_grouped_blobs(600, 3, 2, imbalance=0.4, random_state=0)
    >>> model = FairAssignment(KMeans(3, n_init=1, random_state=0), max_gap=0.02)
    >>> model = model.fit(X, sensitive_features=groups)
    >>> model.verdict_.word
    'met'
    >>> model.predict(X[:4], sensitive_features=groups[:4]).shape
    (4,)
    """

    __metadata_request__fit = {"sensitive_features": True}  # noqa: RUF012
    __metadata_request__predict = {"sensitive_features": True}  # noqa: RUF012

    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012
        "clusterer": [HasMethods(["fit"])],
        "max_gap": RULE,
        "min_ratio": RULE,
        "min_balance": RULE,
        "assignment": [StrOptions({"aware", "blind"})],
        "attributes": [StrOptions({"intersect", "each"})],
        "min_group_size": [Interval(Integral, 1, None, closed="left")],
        "missing_groups": [StrOptions({"error", "drop", "group"})],
        "ties": [StrOptions({"together", "split"})],
        "refine": [Interval(Integral, 0, None, closed="left")],
        "prefit": ["boolean"],
        "n_jobs": [Integral, None],
    }

    def __init__(
        self,
        clusterer: Any,
        *,
        max_gap: Bounds = None,
        min_ratio: Bounds = None,
        min_balance: Bounds = None,
        assignment: Literal["aware", "blind"] = "aware",
        attributes: Literal["intersect", "each"] = "intersect",
        min_group_size: int = MIN_GROUP_SIZE,
        missing_groups: MissingGroups = "error",
        ties: Literal["together", "split"] = "together",
        refine: int = 0,
        prefit: bool = False,
        n_jobs: int | None = None,
    ) -> None:
        self.clusterer = clusterer
        self.max_gap = max_gap
        self.min_ratio = min_ratio
        self.min_balance = min_balance
        self.assignment = assignment
        self.attributes = attributes
        self.min_group_size = min_group_size
        self.missing_groups = missing_groups
        self.ties = ties
        self.refine = refine
        self.prefit = prefit
        self.n_jobs = n_jobs

    def fit(
        self, X: Any, y: Any = None, *, sensitive_features: Any = None, sample_weight: Weight = None
    ) -> Self:
        """Fit the clusterer, unless it is, and find labels that meet the rule.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            Finite numbers, as the clusterer takes them.
        y : ignored
            As in `FairMixture.fit`.
        sensitive_features : array-like or table, default=None
            Group of each row. None: the cheapest cluster of each row, and no rule.
        sample_weight : array-like of shape (n_rows,), default=None
            Weights of at least 0, also for a clusterer that takes them.

        Returns
        -------
        self
            The fitted estimator.
        """
        warn_of_target(y, sensitive_features)
        self._validate_params()
        rules = {name: getattr(self, name) for name in ("max_gap", "min_ratio", "min_balance")}
        limit = rule_of(rules) if any(one is not None for one in rules.values()) else limit_of()
        assert limit is not None
        if self.assignment == "blind" and self.ties == "split":
            raise ValueError(
                "ties='split' parts equal rows of one group, and assignment='blind' does not know "
                "groups. Set ties='together' or assignment='aware'."
            )
        with as_floats("X"):
            rows = validate_data(self, X, dtype=np.float64, ensure_min_samples=2)
        weight = read_weights(sample_weight, rows)
        weights = np.ones(len(rows)) if weight is None else np.asarray(weight, dtype=np.float64)
        self.clusterer_ = self._fitted_clusterer(X, sample_weight)
        clusters = clusters_of(self.clusterer_, X, rows, weights)
        noise = self._noise(clusters, rows)
        self._groups: Groups | None = None
        self._propensity: Propensity | None = None
        if sensitive_features is not None:
            groups = encode_groups(
                sensitive_features,
                n_rows=len(rows),
                missing=self.missing_groups,
                each=self.attributes == "each",
            )
            counted = np.where(noise, 0.0, weights) if noise.any() or weight is not None else None
            groups = judged(groups.counted(counted), self.min_group_size)
            with one_blas_thread():
                for left in range(self.refine, -1, -1):
                    self.result_ = self._repaired(clusters, X, rows, groups, counted, limit)
                    if left:
                        placed = np.flatnonzero(~noise)
                        clusters = clusters.moved(
                            rows[placed], self.result_.labels[placed], weights[placed]
                        )
            self._groups = groups.without_rows()
            self._multipliers = self.result_.multipliers
            self.verdict_: Verdict = self.result_.verdict
            labels = self.result_.labels
        else:
            labels = clusters.cost(self._seen(clusters, X, rows)).argmin(axis=1)
        self._clusters = clusters
        self.labels_ = np.where(noise, NOISE, labels).astype(np.int32)
        return self

    def predict(self, X: Any, *, sensitive_features: Any = None) -> IntArray:
        """Cluster of each row: the cheapest one after the multipliers of the fit are added.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            Columns as in ``fit``.
        sensitive_features : array-like or table, default=None
            Group of each row, which an aware assignment needs.

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        check_is_fitted(self)
        with as_floats("X"):
            rows = validate_data(self, X, dtype=np.float64, reset=False)
        cost = self._clusters.cost(self._seen(self._clusters, X, rows))
        groups = self._groups
        if groups is not None and groups.compared:
            if self._propensity is not None:
                cost = cost + self._propensity(Rows(rows, None)).T @ self._multipliers
            else:
                cost = cost + self._offsets(groups, sensitive_features, len(rows))
        return np.asarray(cost.argmin(axis=1), dtype=np.int32)

    def _offsets(self, groups: Groups, sensitive_features: Any, n_rows: int) -> FloatArray:
        """What the groups of rows add to their costs, (n, K)."""
        if sensitive_features is None:
            raise ValueError(
                "assignment='aware' labels rows by their group. Give sensitive_features to "
                "predict, or fit with assignment='blind'."
            )
        missing = self.missing_groups
        codes = seated_groups(sensitive_features, groups, n_rows=n_rows, missing=missing)
        membership = groups.membership
        if membership is None:
            matrix: FloatArray = np.eye(len(groups.names), len(groups.names) + 1)
        else:
            matrix = membership.matrix
        # The last code is that of rows which stand aside, as those without a group do.
        aside = matrix.shape[1] - 1
        added = matrix.T @ self._multipliers
        return np.asarray(added[np.where(codes < 0, aside, codes)])

    def _fitted_clusterer(self, X: Any, sample_weight: ArrayLike | None) -> Any:
        if self.prefit or isinstance(self.clusterer, FrozenEstimator):
            return self.clusterer
        clusterer = clone(self.clusterer)
        weighs = sample_weight is not None and has_fit_parameter(clusterer, "sample_weight")
        with without_autologging():
            return clusterer.fit(X, **({"sample_weight": sample_weight} if weighs else {}))

    def _noise(self, clusters: Clusters, rows: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Rows that the clusterer calls noise."""
        labels = np.asarray(getattr(self.clusterer_, "labels_", ()))
        if labels.shape != (len(rows),):
            return np.zeros(len(rows), dtype=bool)
        return np.asarray(labels == NOISE)

    @staticmethod
    def _seen(clusters: Clusters, X: Any, rows: NDArray[np.float64]) -> Any:
        """X as a clusterer itself was given it, else as floats."""
        return X if hasattr(clusters, "clusterer") else rows

    def _repaired(
        self,
        clusters: Clusters,
        X: Any,
        rows: NDArray[np.float64],
        groups: Groups,
        weight: FloatArray | None,
        limit: Any,
    ) -> FairLabels:
        costs = Costs(clusters.cost(self._seen(clusters, X, rows)), len(rows))
        threads = n_threads(self.n_jobs)
        seats = Seats.of(groups)
        repair = Repair(costs, groups, weight, limit, self.ties == "together", threads)
        if self.assignment == "aware" or seats.n_groups == 1:
            return repair.run()
        codes = seats.codes(groups.codes)
        own = seats.weight(groups.codes, weight)
        # Rows aside say nothing of the groups that are compared.
        compared = codes < seats.n_groups if seats.membership is None else codes >= 0
        if own is not None:
            compared &= own > 0
        which = np.flatnonzero(compared)
        with without_autologging():
            self._propensity = fit_propensity(
                Rows(rows[which], None),
                codes[which],
                seats.n_groups,
                weight=None if own is None else own[which],
                membership=seats.membership,
            )
        return Blind(repair, self._propensity(Rows(rows, None)).T).run()
