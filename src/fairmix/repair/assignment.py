"""`FairAssignment`: fair labels around any clusterer, also for new rows."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral, Real
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClusterMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, has_fit_parameter, validate_data

from fairmix.criteria import limit_of
from fairmix.input.columns import Columns, as_frame, check_types, column_title, has_categories
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
from fairmix.repair.clusters import Clusters, clusters_of, labels_of
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
        log-density (`FairMixture` and scikit-learn's ``GaussianMixture``), its negative
        log-probability (``predict_proba``), its squared distance to a centre
        (``cluster_centers_``), its distance (``transform``) or, where there are only ``labels_``,
        the negative log-density of independent columns with the means and spreads of the cluster,
        and its shares of categories. Labels themselves, an array with a number from 0 for each row
        of X (-1: noise), stand for a clusterer that has only them.
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
        Whether the clusterer is fitted already, and is used as it is. So are a
        ``FrozenEstimator`` and labels.
    n_jobs : int, default=None
        Threads; labels do not depend on it. None: as many as ``KMeans`` takes.

    Attributes
    ----------
    labels_ : ndarray of shape (n_rows,)
        Cluster of each row, numbered as by the clusterer. Rows that it calls noise, with labels
        below 0, keep these and take no part.
    clusterer_ : clusterer
        The fitted clusterer, or the labels.
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
        "clusterer": [HasMethods(["fit"]), "array-like"],
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
            As the clusterer takes it: finite numbers, and categories in the columns of a data
            frame that have such a type. A missing category says nothing about its row.
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
        rows = self._rows(X, reset=True)
        n_rows = rows.n_rows
        weight = read_weights(sample_weight, X)
        weights = np.ones(n_rows) if weight is None else np.asarray(weight, dtype=np.float64)
        self.clusterer_ = self._fitted_clusterer(X, sample_weight)
        clusters = clusters_of(self.clusterer_, X, rows, weights)
        before = labels_of(self.clusterer_)
        if before is None or before.shape != (n_rows,):
            before = np.zeros(n_rows, dtype=np.int32)
        noise = before < 0
        self._groups: Groups | None = None
        self._propensity: Propensity | None = None
        if sensitive_features is not None:
            groups = encode_groups(
                sensitive_features,
                n_rows=n_rows,
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
                            rows.take(placed), self.result_.labels[placed], weights[placed]
                        )
            self._groups = groups.without_rows()
            self._multipliers = self.result_.multipliers
            self.verdict_: Verdict = self.result_.verdict
            labels = self.result_.labels
        else:
            labels = clusters.cost(X, rows).argmin(axis=1)
        self._clusters = clusters
        self.labels_ = np.where(noise, before, labels).astype(np.int32)
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
        rows = self._rows(X, reset=False)
        cost = self._clusters.cost(X, rows)
        groups = self._groups
        if groups is not None and groups.compared:
            if self._propensity is not None:
                cost = cost + self._propensity(rows).T @ self._multipliers
            else:
                cost = cost + self._offsets(groups, sensitive_features, rows.n_rows)
        return np.asarray(cost.argmin(axis=1), dtype=np.int32)

    def _rows(self, X: Any, *, reset: bool) -> Rows:
        """Numbers and categories of X, which must be those of the fit unless this is one."""
        frame = as_frame(X)
        if frame is None or not has_categories(frame, "from_dtype"):
            least = 2 if reset else 1
            with as_floats("X"):
                numbers = validate_data(
                    self, X, dtype=np.float64, reset=reset, ensure_min_samples=least
                )
            if reset:
                self._columns: Columns | None = None
            elif self._columns is not None:
                raise ValueError(
                    f"X has no categories, and the fit had the columns "
                    f"{[self._columns.names[j] for j in self._columns.categorical]}. Give a data "
                    "frame with the types of the fit."
                )
            return Rows(numbers, None)
        check_types(frame, "from_dtype")
        validate_data(self, X, reset=reset, skip_check_array=True)
        if reset:
            # Categories of new rows that the fit has not seen say nothing about a row.
            learned = Columns.learn(frame, "from_dtype")
            self._columns = replace(learned, ignore_unknown=True)
        elif self._columns is None:
            raise ValueError("X has categories, and the fit had numbers only. Give numbers.")
        rows = self._columns.rows(frame)
        if rows.numeric is not None and np.isnan(rows.numeric).any():
            j = int(np.isnan(rows.numeric).any(axis=0).argmax())
            name = self._columns.names[self._columns.numeric[j]]
            raise ValueError(
                f"{column_title(name)} has missing values (NaN). Drop or impute them: the costs of "
                "clusters need complete numbers."
            )
        return rows

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
        kept = isinstance(self.clusterer, FrozenEstimator) or not hasattr(self.clusterer, "fit")
        if self.prefit or kept:
            return self.clusterer
        clusterer = clone(self.clusterer)
        weighs = sample_weight is not None and has_fit_parameter(clusterer, "sample_weight")
        with without_autologging():
            return clusterer.fit(X, **({"sample_weight": sample_weight} if weighs else {}))

    def _repaired(
        self,
        clusters: Clusters,
        X: Any,
        rows: Rows,
        groups: Groups,
        weight: FloatArray | None,
        limit: Any,
    ) -> FairLabels:
        costs = Costs(clusters.cost(X, rows), rows.n_rows)
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
                rows.take(which),
                codes[which],
                seats.n_groups,
                weight=None if own is None else own[which],
                membership=seats.membership,
            )
        return Blind(repair, self._propensity(rows).T).run()
