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
from fairmix.fitting import Settings, make_family, solve, solve_best
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
    The objective is the mean log-likelihood minus ``fairness_strength`` times the gap: how far
    apart the groups' shares of a cluster are, in the worst cluster.

    Parameters
    ----------
    n_components : int, default=2
        Number of clusters, K.
    solver : {"em", "gd"}, default="em"
        ``"em"``: the paper's Algorithm 2, generalised EM. ``"gd"``: Algorithm 1, gradient steps.
    fairness_strength : float, default=10.0
        The paper's lambda. 0 is a plain mixture. 1 to 10 spans the range from hardly to nearly
        perfectly fair on standardised data.
    gap_of : {"labels", "probabilities"}, default="labels"
        What ``gap_`` reports: the gap of the hard labels or of the responsibilities. The penalty
        is on the responsibilities in both cases.
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
        None: 200 for ``"em"``, 10,000 for ``"gd"``.
    inner_iter : int, default=10
        Steps between two E-steps of ``"em"``.
    learning_rate : float, default=None
        None: 1e-2 for ``"em"``, 1e-3 for ``"gd"``.
    tol : float, default=1e-4
        The fit has converged when an iteration gains less than this per row. For
        ``"gd"`` a hundredth of it: an iteration of EM is ten steps of ten times the length.
    n_init : int, default=1
        Number of starts; the best objective wins.
    init_params : {"paper", "kmeans", "random"}, default="paper"
        ``"paper"``: k-means centres, equal weights, unit variances, random category
        probabilities. ``"kmeans"``: all parameters from the k-means clusters; better for numeric
        columns that are not standardised. ``"random"``: from random centres.
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
        The strength used; 0 without groups.
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
    >>> fair = FairMixture(3, fairness_strength=0.5, random_state=0)
    >>> plain = plain.fit(X, sensitive_features=groups)
    >>> fair = fair.fit(X, sensitive_features=groups)
    >>> bool(fair.soft_gap_ < plain.soft_gap_)
    True
    >>> fair.predict(X[:4]).shape
    (4,)
    """

    __metadata_request__fit = {"sensitive_features": True}  # noqa: RUF012
    __metadata_request__score = {"sensitive_features": True}  # noqa: RUF012

    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "solver": [StrOptions({"em", "gd"})],
        "fairness_strength": [Interval(Real, 0, None, closed="left")],
        "gap_of": [StrOptions({"labels", "probabilities"})],
        "criterion": [StrOptions(set(CRITERIA))],
        "covariance_type": [StrOptions(set(COVARIANCE_TYPES))],
        "categorical_features": ["array-like", StrOptions({"from_dtype"}), None],
        "standardize": ["boolean"],
        "max_iter": [Interval(Integral, 1, None, closed="left"), None],
        "inner_iter": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither"), None],
        "tol": [Interval(Real, 0, None, closed="left")],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "init_params": [StrOptions({"paper", "kmeans", "random"})],
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
        solver: str = "em",
        fairness_strength: float = 10.0,
        gap_of: str = "labels",
        criterion: str = "gap",
        covariance_type: str = "tied-spherical",
        categorical_features: object = "from_dtype",
        standardize: bool = False,
        max_iter: int | None = None,
        inner_iter: int = 10,
        learning_rate: float | None = None,
        tol: float = 1e-4,
        n_init: int = 1,
        init_params: str = "paper",
        reg_covar: float = 1e-6,
        random_state: Any = None,
        warm_start: bool = False,
        verbose: int = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.n_components = n_components
        self.solver = solver
        self.fairness_strength = fairness_strength
        self.gap_of = gap_of
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
        self._warn(solution)
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
        mixture = Mixture(make_family(settings, columns, rows, weight))
        table = ArrayTable(
            rows,
            mixture.family.encode,
            groups=None if groups is None else groups.codes,
            n_groups=1 if groups is None else len(groups.names),
            weight=weight,
            n_jobs=effective_n_jobs(self.n_jobs),
        )
        if self.warm_start and hasattr(self, "_model"):
            solution = solve(settings, mixture, table, self._model.theta_for(mixture))
        else:
            random = check_random_state(self.random_state)
            seeds = random.randint(2**31 - 1, size=self.n_init).tolist()
            solution = solve_best(settings, mixture, table, seeds)
        order = np.argsort(-mixture.weights(solution.theta), kind="stable")
        self._model = Model(columns, mixture, mixture.reorder(solution.theta, order))
        return solution

    def _publish(
        self, solution: Solution, rows: Rows, groups: Groups | None, weight: FloatArray | None
    ) -> None:
        parameters = self._model.parameters()
        for name, value in parameters.items():
            setattr(self, f"{name}_", value)
        self.categories_ = [np.array(names) for names in self._model.columns.levels]
        self.labels_ = self._model.labels(rows, n_jobs=effective_n_jobs(self.n_jobs))
        self.groups_ = np.array(() if groups is None else groups.names, dtype=str)
        self.group_sizes_ = np.array((), dtype=np.intp) if groups is None else groups.sizes
        self._publish_fairness(rows, groups, weight)
        self.fairness_strength_ = 0.0 if groups is None else float(self.fairness_strength)
        self.lower_bound_ = solution.objective
        self.history_ = np.array([tuple(row) for row in solution.history], dtype=HISTORY_DTYPE)
        self.n_iter_ = len(solution.history)
        self.converged_ = solution.status is not Status.MAX_ITER

    def _publish_fairness(
        self, rows: Rows, groups: Groups | None, weight: FloatArray | None
    ) -> None:
        n_jobs = effective_n_jobs(self.n_jobs)
        codes = np.zeros(rows.n_rows, dtype=np.intp) if groups is None else groups.codes
        hard = np.zeros((codes.max() + 1, self.n_components))
        np.add.at(hard, (codes, self.labels_), 1.0 if weight is None else weight)
        soft = self._model.mass(rows, codes, weight, n_jobs=n_jobs)
        criterion = CRITERIA[self.criterion]
        rates = {"labels": _rates(hard), "probabilities": _rates(soft)}
        self.label_gap_ = criterion.value(rates["labels"])
        self.soft_gap_ = criterion.value(rates["probabilities"])
        self.rates_ = rates[self.gap_of]
        self.gap_ = self.label_gap_ if self.gap_of == "labels" else self.soft_gap_
        self.balance_ = smallest_ratio(hard if self.gap_of == "labels" else soft)

    def _warn(self, solution: Solution) -> None:
        filled = len(np.unique(self.labels_))
        if filled < self.n_components:
            warnings.warn(
                f"Only {filled} of n_components={self.n_components} clusters have members. Lower "
                "n_components or fairness_strength, or raise n_init.",
                ConvergenceWarning,
                stacklevel=3,
            )
        if not self.converged_:
            warnings.warn(solution.status.value, ConvergenceWarning, stacklevel=3)


def _rates(mass: FloatArray) -> FloatArray:
    return np.asarray(mass / mass.sum(axis=1, keepdims=True))
