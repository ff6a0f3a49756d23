"""FairMixture: validate, wire, publish. No numerics."""

from __future__ import annotations

import warnings
from dataclasses import fields
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClusterMixin, DensityMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from threadpoolctl import threadpool_limits

from fairmix.columns import Columns
from fairmix.criteria import CRITERIA, smallest_ratio
from fairmix.estimator._prediction import Prediction
from fairmix.families import COVARIANCE_TYPES
from fairmix.fitting import Settings, allowed_gap, make_family, make_propensity, solve
from fairmix.groups import Groups
from fairmix.mixture import Mixture
from fairmix.model import Model
from fairmix.solvers import Iteration, Solution, Status
from fairmix.tables import ArrayTable
from fairmix.totals import FloatArray, Rows

HISTORY_DTYPE = [(name, np.float64) for name in Iteration._fields]


class FairMixture(Prediction, ClusterMixin, DensityMixin, BaseEstimator):
    """Mixture model whose clusters hold every group in its overall share.

    Implements and extends "Fair Model-Based Clustering" (Park, Kim, Lee and Kim, AAAI 2026).
    Maximises the likelihood subject to a bound on the gap: how far apart the groups' shares of a
    cluster are, in the worst cluster.

    Parameters
    ----------
    n_components : int, default=2
        Number of clusters, K.
    max_gap : float, default=0.01
        The paper's epsilon: ``gap_ <= max_gap`` on the training data. Hard labels move by whole
        rows, so a smaller bound than 0.002, or than two rows of the smallest group, counts as
        met within that.
    fairness_strength : "auto" or float, default="auto"
        ``"auto"``: found so that ``max_gap`` holds. A number: the paper's lambda, with ``max_gap``
        unused; 1 to 10 spans the range from hardly to nearly perfectly fair on standardised
        data. 0: a plain mixture.
    gap_of : {"labels", "probabilities"}, default="labels"
        What the bound is on: the hard labels that ``predict`` gives, or the responsibilities
        (the paper's Delta). With a numeric strength and ``"em"`` or ``"gd"`` the penalty is on
        the responsibilities, and this only picks what ``gap_`` reports.
    assignment : {"blind", "aware"}, default="blind"
        ``"blind"``: ``predict`` sees X only. ``"aware"``: it sees X and the row's group, which
        costs far less in cluster quality; ``predict`` then needs ``sensitive_features``.
    solver : {"dual", "em", "gd"}, default="dual"
        ``"dual"``: posterior-regularised EM, ours. ``"em"``: the paper's Algorithm 2, generalised
        EM. ``"gd"``: Algorithm 1, gradient steps. The last two are always blind.
    criterion : {"gap", "additive_gap", "worst_pair_gap"}, default="gap"
        The measure of fairness; see `fairmix.metrics`.
    covariance_type : str, default="tied-spherical"
        ``"tied-spherical"`` (the paper's sigma^2 I), ``"spherical"``, ``"tied-diag"``,
        ``"diag"``, ``"tied"`` or ``"full"``.
    categorical_features : "from_dtype", None or array-like, default="from_dtype"
        Categorical columns of X: by their type in a data frame (categories, strings, bools), or
        a mask, names or positions. None categorical gives a Gaussian mixture, all a multinoulli
        mixture, some the product of both.
    standardize : bool, default=False
        Standardise numeric columns first. The model keeps the scale; fitted parameters and
        densities are then in standardised units.
    max_iter : int, default=None
        None: 200 for ``"dual"``, 200 for ``"em"``, 10,000 for ``"gd"``.
    inner_iter : int, default=10
        Steps between two E-steps of ``"em"``.
    learning_rate : float, default=None
        None: 1e-2 for ``"em"``, 1e-3 for ``"gd"``.
    tol : float, default=1e-4
        The fit has converged when an iteration gains less than this per row. For
        ``"gd"`` a hundredth of it: an iteration of EM is ten steps of ten times the length.
    n_init : int, default=1
        Number of starts; the best objective wins.
    init_params : {"paper", "kmeans", "random"} or None, default=None
        None: ``"kmeans"`` for ``"dual"``, else ``"paper"``. ``"paper"``: k-means centres, equal
        weights, unit variances, random category probabilities; for standardised columns.
        ``"kmeans"``: all parameters from the k-means clusters. ``"random"``: from random centres.
    reg_covar : float, default=1e-6
        Added to variances, and their lower bound.
    random_state : int, RandomState or None, default=None
        Seed of the starts.
    warm_start : bool, default=False
        Start from the last fit; ``n_init`` is then unused.
    verbose : int, default=0
        1 shows a progress bar on stderr.
    n_jobs : int, default=None
        Threads; -1 for all cores. The result is the same for any number.

    Attributes
    ----------
    weights_ : ndarray of shape (n_components,)
        Mixture weights. Clusters are numbered by decreasing weight.
    means_, covariances_ : ndarray
        Of the numeric columns, when there are any. ``covariances_`` has scikit-learn's shapes;
        tied ones have no component axis.
    probabilities_ : list of ndarray of shape (n_components, n_categories)
        Of each categorical column, when there are any.
    categories_ : list of ndarray
        Categories of each categorical column.
    labels_ : ndarray of shape (n_rows,)
        Cluster of each training row, as ``predict`` gives it.
    gap_ : float
        The criterion on what ``gap_of`` names; ``label_gap_`` and ``soft_gap_`` always exist.
    rates_ : ndarray of shape (n_groups, n_components)
        Share of each group in each cluster, of what ``gap_of`` names.
    balance_ : float
        Smallest ratio of two groups' sizes within a cluster, of what ``gap_of`` names.
    fairness_strength_ : float
        The strength used; for ``"dual"`` the multipliers' dual norm, which is the strength whose
        fit this is. 0 without groups.
    lower_bound_ : float
        The objective reached.
    history_ : structured ndarray
        One row per iteration: objective, log_likelihood, gap and balance (of the
        responsibilities), seconds.
    n_iter_ : int
        Iterations of the best start.
    converged_ : bool
        Whether it ended before ``max_iter``.
    groups_ : ndarray of str
        Names of the groups, without groups empty.
    group_sizes_ : ndarray of int
        Rows of each group.
    n_features_in_ : int
        Columns of X.
    feature_names_in_ : ndarray of str
        Their names, when X has string names.

    Examples
    --------
    >>> from fairmix import FairMixture
    >>> from fairmix.datasets import make_grouped_blobs
    >>> X, groups, _ = make_grouped_blobs(600, 3, 2, separation=1.5, random_state=0)
    >>> plain = FairMixture(3, fairness_strength=0, random_state=0)
    >>> plain = plain.fit(X, sensitive_features=groups)
    >>> fair = FairMixture(3, max_gap=0.02, random_state=0).fit(X, sensitive_features=groups)
    >>> bool(plain.gap_ > 0.1), bool(fair.gap_ <= 0.02)
    (True, True)
    >>> fair.predict(X[:4]).shape
    (4,)
    """

    __metadata_request__fit = {"sensitive_features": True}  # noqa: RUF012
    __metadata_request__predict = {"sensitive_features": True}  # noqa: RUF012
    __metadata_request__score = {"sensitive_features": True}  # noqa: RUF012

    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "max_gap": [Interval(Real, 0, None, closed="left")],
        "fairness_strength": [StrOptions({"auto"}), Interval(Real, 0, None, closed="left")],
        "gap_of": [StrOptions({"labels", "probabilities"})],
        "assignment": [StrOptions({"blind", "aware"})],
        "solver": [StrOptions({"dual", "em", "gd"})],
        "criterion": [StrOptions(set(CRITERIA))],
        "covariance_type": [StrOptions(set(COVARIANCE_TYPES))],
        "categorical_features": ["array-like", StrOptions({"from_dtype"}), None],
        "standardize": ["boolean"],
        "max_iter": [Interval(Integral, 1, None, closed="left"), None],
        "inner_iter": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither"), None],
        "tol": [Interval(Real, 0, None, closed="left")],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "init_params": [StrOptions({"paper", "kmeans", "random"}), None],
        "reg_covar": [Interval(Real, 0, None, closed="left")],
        "random_state": ["random_state"],
        "warm_start": ["boolean"],
        "verbose": ["verbose"],
        "n_jobs": [Integral, None],
    }

    def __init__(
        self,
        n_components: int = 2,
        *,
        max_gap: float = 0.01,
        fairness_strength: float | str = "auto",
        gap_of: str = "labels",
        assignment: str = "blind",
        solver: str = "dual",
        criterion: str = "gap",
        covariance_type: str = "tied-spherical",
        categorical_features: object = "from_dtype",
        standardize: bool = False,
        max_iter: int | None = None,
        inner_iter: int = 10,
        learning_rate: float | None = None,
        tol: float = 1e-4,
        n_init: int = 1,
        init_params: str | None = None,
        reg_covar: float = 1e-6,
        random_state: Any = None,
        warm_start: bool = False,
        verbose: int = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.max_gap = max_gap
        self.fairness_strength = fairness_strength
        self.gap_of = gap_of
        self.assignment = assignment
        self.solver = solver
        self.criterion = criterion
        self.covariance_type = covariance_type
        self.categorical_features = categorical_features
        self.standardize = standardize
        self.max_iter = max_iter
        self.inner_iter = inner_iter
        self.learning_rate = learning_rate
        self.tol = tol
        self.n_init = n_init
        self.init_params = init_params
        self.reg_covar = reg_covar
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose
        self.n_jobs = n_jobs

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        sensitive_features: Any = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Fit the mixture.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            NumPy array, pandas, Polars or Arrow table.
        y : ignored
            For scikit-learn's conventions.
        sensitive_features : str, array-like or table, default=None
            Group of each row; several columns form their intersections. A str names a column of
            X, which is then no feature. None fits a plain mixture.
        sample_weight : array-like of shape (n_rows,), default=None
            Weights of at least 0. A weight of 2 counts as two equal rows.

        Returns
        -------
        FairMixture
            The fitted model.
        """
        self._validate_params()
        if self.assignment == "aware" and self.solver != "dual":
            raise ValueError(
                f"assignment='aware' needs solver='dual', got solver={self.solver!r}: the paper's "
                "solvers have no tilt by group. Set solver='dual' or assignment='blind'."
            )
        X, groups = self._take_groups(X, sensitive_features)
        if groups is not None and len(groups.names) == 1 and self.fairness_strength:
            raise ValueError(
                f"sensitive_features holds one group only, {groups.names[0]!r}. Fairness compares "
                "groups: give labels with two or more, or leave sensitive_features out."
            )
        table = self._read(X, reset=True)
        columns = Columns.learn(table, self.categorical_features)
        rows = columns.rows(table)
        weight = self._weights(sample_weight, X)
        if rows.n_rows < self.n_components:
            raise ValueError(
                f"n_components={self.n_components} clusters need at least as many rows, X has "
                f"n_samples={rows.n_rows}. Lower n_components or give more rows."
            )
        if self.standardize:
            columns = columns.standardized(rows, weight)
            rows = columns.rows(table)
        with threadpool_limits(1, user_api="blas"):
            solution = self._fit_rows(columns, rows, groups, weight)
            self._publish(solution, rows, groups, weight)
        self._warn(solution, rows)
        return self

    def _settings(self) -> Settings:
        return Settings(**{field.name: getattr(self, field.name) for field in fields(Settings)})

    def _fit_rows(
        self, columns: Columns, rows: Rows, groups: Groups | None, weight: FloatArray | None
    ) -> Solution:
        if weight is not None and not weight.all():
            # A row without weight is no row: it must not reach starts or group sizes either.
            counted = np.flatnonzero(weight)
            rows, weight = rows.take(counted), weight[counted]
            groups = None if groups is None else groups.take(counted)
        settings = self._settings()
        seed, propensity_seed = check_random_state(self.random_state).randint(2**31 - 1, size=2)
        mixture = Mixture(make_family(settings, columns, rows, weight))
        codes = np.zeros(rows.n_rows, dtype=np.intp) if groups is None else groups.codes
        n_groups = 1 if groups is None else len(groups.names)
        propensity = make_propensity(settings, rows, codes, n_groups, weight, propensity_seed)
        table = ArrayTable(
            rows,
            mixture.family.encode,
            groups=codes,
            n_groups=n_groups,
            weight=weight,
            propensity=propensity,
            n_jobs=effective_n_jobs(self.n_jobs),
        )
        warm = self._model.theta_for(mixture) if self.warm_start and self._is_fitted() else None
        solution = solve(settings, mixture, table, seed, warm)
        order = np.argsort(-mixture.weights(solution.theta), kind="stable")
        offsets = None if solution.offsets is None else solution.offsets[:, order]
        theta = mixture.reorder(solution.theta, order)
        # Without a tilt the propensity was only for the start.
        kept = None if offsets is None else propensity
        self._model = Model(columns, mixture, theta, offsets, kept, solution.temperature)
        return solution

    def _is_fitted(self) -> bool:
        return hasattr(self, "_model")

    def _publish(
        self, solution: Solution, rows: Rows, groups: Groups | None, weight: FloatArray | None
    ) -> None:
        for name, value in self._model.parameters().items():
            setattr(self, f"{name}_", value)
        self.categories_ = [np.array(names) for names in self._model.columns.levels]
        self.groups_ = np.array(() if groups is None else groups.names, dtype=str)
        self.group_sizes_ = np.array((), dtype=np.intp) if groups is None else groups.sizes
        codes = np.zeros(rows.n_rows, dtype=np.intp) if groups is None else groups.codes
        n_jobs = effective_n_jobs(self.n_jobs)
        self.labels_ = self._model.labels(rows, codes, n_jobs=n_jobs)
        hard, soft = self._model.masses(
            rows, codes, max(len(self.groups_), 1), weight, n_jobs=n_jobs
        )
        self._publish_fairness(hard, soft, solution)
        self.lower_bound_ = solution.objective
        self.history_ = np.array([tuple(row) for row in solution.history], dtype=HISTORY_DTYPE)
        self.n_iter_ = len(solution.history)
        self.converged_ = solution.status in (Status.CONVERGED, Status.STALLED)

    def _publish_fairness(self, hard: FloatArray, soft: FloatArray, solution: Solution) -> None:
        criterion = CRITERIA[self.criterion]
        self.label_gap_ = criterion.value(_rates(hard))
        self.soft_gap_ = criterion.value(_rates(soft))
        mass = hard if self.gap_of == "labels" else soft
        self.rates_ = _rates(mass)
        self.gap_ = self.label_gap_ if self.gap_of == "labels" else self.soft_gap_
        self.balance_ = smallest_ratio(mass)
        if solution.multipliers is not None:
            self.fairness_strength_ = criterion.support(solution.multipliers)
        else:
            fair = len(self.groups_) > 0 and self.fairness_strength != "auto"
            self.fairness_strength_ = float(self.fairness_strength) if fair else 0.0

    def _warn(self, solution: Solution, rows: Rows) -> None:
        filled = len(np.unique(self.labels_))
        if filled < self.n_components:
            _warn(
                f"Only {filled} of n_components={self.n_components} clusters have members. Lower "
                "n_components, loosen max_gap (or fairness_strength), or raise n_init."
            )
        bounded = len(self.groups_) > 1 and self.fairness_strength == "auto"
        allowed = allowed_gap(self.max_gap, self.gap_of, self.group_sizes_) if bounded else np.inf
        if self.gap_ > allowed:
            _warn(
                f"The gap of the {self.gap_of} is {self.gap_:.4g}, above max_gap={self.max_gap:g}. "
                f"{_repeats(rows)}Loosen max_gap, raise n_init or max_iter, lower n_components, or "
                "try gap_of='probabilities'."
            )
        if solution.status is Status.MAX_ITER:
            _warn(solution.status.value)


def _repeats(rows: Rows) -> str:
    """Why hard labels of purely categorical rows may miss a bound: equal rows move together."""
    if rows.numeric is not None or rows.codes is None:
        return ""
    share = np.unique(rows.codes, axis=0, return_counts=True)[1].max() / rows.n_rows
    return f"Equal rows get equal labels, and the most frequent one is {share:.1%} of all. "


def _warn(message: str) -> None:
    warnings.warn(message, ConvergenceWarning, stacklevel=4)


def _rates(mass: FloatArray) -> FloatArray:
    return np.asarray(mass / mass.sum(axis=1, keepdims=True))
