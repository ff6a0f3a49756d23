"""FairMixture: validates, wires and publishes. What it does is in the rooms below."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from importlib import import_module
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Literal, Self, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClusterMixin, DensityMixin
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import _num_samples, check_is_fitted

from fairmix._version import __version__
from fairmix.criteria import CRITERIA, MinRatio
from fairmix.estimator.audits import (
    Fit,
    Judged,
    fit_of,
    judged_rows,
    near,
    table_fit,
    write_densities,
    write_probabilities,
)
from fairmix.estimator.callbacks import CallbackSupport, climbing, task, with_callbacks
from fairmix.estimator.labels import (
    check_groups_given,
    collection_labels,
    collection_values,
    file_labels,
)
from fairmix.estimator.picture import measured
from fairmix.estimator.starting import own_start
from fairmix.estimator.validation import (
    EstimatorCheck,
    check_checkpoint,
    check_numbers,
    check_parameters,
    check_stream,
)
from fairmix.export.model_file import ModelFileError, Snapshot, read_model, write_model
from fairmix.fitting.learn import Checkpoint, learn
from fairmix.fitting.settings import Settings
from fairmix.fitting.stream import Stream, counted_rows
from fairmix.input.columns import Columns
from fairmix.input.fit_predict import FitPredict
from fairmix.input.groups import (
    MissingGroups,
    attribute_columns,
    match_groups,
    seated_groups,
    warn_of_target,
)
from fairmix.input.naming import group_columns, group_values, weight_values
from fairmix.input.opening import (
    Reading,
    check_judged,
    drop_missing_groups,
    open_data,
    open_table,
    read_weights,
    take_groups,
)
from fairmix.input.sources import CollectionSource, DaskArray, DaskCollection, in_blocks
from fairmix.kernels.totals import FloatArray, IntArray, Rows
from fairmix.mixture.families import FAMILIES, precision_factors, precisions, takes_missing
from fairmix.mixture.model import Model
from fairmix.results.certificate import Certificate
from fairmix.results.fairness import (
    FOUR_FIFTHS,
    AttributeTables,
    FairnessTable,
    fairness_table,
)
from fairmix.results.fitted import Fitted
from fairmix.results.held_out import certify_held_out
from fairmix.solvers import SOLVERS
from fairmix.system.autologging import without_autologging
from fairmix.system.files import replacing
from fairmix.system.notices import notify
from fairmix.system.threads import n_threads, one_blas_thread
from fairmix.tables import MemoryStore, PathLike, Ties, is_path, row_hashes

# One for each row, or the name of a column; None: all rows count alike.
Weight = ArrayLike | str | None
# Names of the registers; a type checker does not know those that users add.
Solver = Literal["dual", "em", "gd"]
Criterion = Literal["gap", "additive_gap", "worst_pair_gap"]
CovarianceType = Literal["tied-spherical", "spherical", "tied-diag", "diag", "tied", "full"]
# Some rows, or a share of all.
COUNT = Interval(Integral, 1, None, closed="left")
SHARE = Interval(Real, 0, 1, closed="neither")
# Parameters of a fit that do not change its result, once its seeds are drawn: a checkpoint keeps
# the seeds instead of `random_state`.
SILENT = {"verbose", "n_jobs", "checkpoint", "random_state"}
# Parameters that a stream cannot change on its way.
FIXED = (
    "n_components",
    "covariance_type",
    "reg_covar",
    "categorical_features",
    "standardize",
    "solver",
    "assignment",
    "fairness_sample_size",
)
# What is large in a fitted estimator and of no use to predict.
HEAVY = ("labels_", "history_", "_stream")


class FairMixture(CallbackSupport, FitPredict, ClusterMixin, DensityMixin, BaseEstimator):
    """Mixture model for clustering, under a rule on how groups are spread over the clusters.

    Implements and extends "Fair Model-Based Clustering" (Park, Kim, Lee and Kim, AAAI 2026). The
    rule is a bound on the gap (``max_gap``, the default), the ratio (``min_ratio``) or Balance
    (``min_balance``) of the training rows. The gap is how far apart the groups' shares of a
    cluster are, in the worst cluster. It says little about a small cluster: one with 0.6 % of the
    women and 1.6 % of the men meets ``max_gap=0.01``. A ratio is about the mix in every cluster,
    whatever its size.

    The objective is a lower bound of the likelihood, over assignments that keep the rule. For
    labels, the default, it is that of a likelihood at a lower temperature, which is closer to hard
    clusters, and the last steps go by the labels themselves.

    Missing values (NaN in a numeric column; None, NaN or null in a categorical one) are integrated
    out of the likelihood, in ``fit`` and for new rows. ``covariance_type="tied"`` and ``"full"``
    need complete numbers. k-means starts and P(group | x) see the mean instead, P(group | x) also
    an indicator of each column with gaps.

    Parameters
    ----------
    n_components : int, default=2
        Number of clusters, K.
    max_gap : float or "auto", default="auto"
        The paper's epsilon: ``gap_ <= max_gap`` on the training data, or a warning says what was
        reached. Hard labels move by whole rows, so a bound below ``resolution_`` counts as met
        within that. ``"auto"``: 0.01, or no bound on the gap when ``min_ratio`` or
        ``min_balance`` is given. A gap compares shares of groups, so a cluster of few rows may
        meet it with hardly a member of one group; a ratio does not allow that.
    min_ratio : float, default=None
        In every cluster the rate of each group, its share that falls into the cluster, is at
        least this share of any other group's: ``ratio_ >= min_ratio``. 0.8 is the four-fifths
        rule. Above 0, at most 1; nothing is forgiven, except at 1 one row of the larger group.
    min_balance : float, default=None
        Balance as the papers define it: in every cluster, the rows of each group are at least
        this share of any other group's, ``balance_ >= min_balance``. At most the best possible,
        the size of the smallest judged group over that of the largest. Balance lets a small group
        be over-represented without limit; ``min_ratio`` does not.
    margin : float or "chance", default=0.0
        How much stricter the fit is than the rule, in the rule's units, so that unseen rows keep
        it, too. ``"chance"``: by what sampling explains on as many fresh rows.
    fairness_strength : "auto" or float, default="auto"
        ``"auto"``: found so that the rule holds. A number: the paper's lambda, with ``max_gap``
        unused; 1 to 10 spans the range from hardly to nearly perfectly fair on standardised
        data. 0: a plain mixture.
    gap_of : {"labels", "probabilities"}, default="labels"
        What the bound is on: the hard labels that ``predict`` gives, or the responsibilities
        (the paper's Delta). With a numeric strength and ``"em"`` or ``"gd"`` the penalty is on
        the responsibilities, and this only picks what ``gap_`` reports.
    assignment : {"blind", "aware"}, default="blind"
        ``"blind"``: ``predict`` sees X only. ``"aware"``: it sees X and the row's group, which
        costs far less in cluster quality; ``predict`` then needs ``sensitive_features``.
    ties : {"together", "split"}, default="together"
        ``"together"``: equal rows get equal labels. ``"split"``: rows that are equal, for
        ``"aware"`` also in their group, are shared out between clusters where that is needed to
        meet ``max_gap``; tables with many equal rows cannot meet it otherwise. Two equal people
        may then get different clusters, by their place in the table alone: labels depend on the
        table that ``predict`` is given and on its order, a row alone gets its first choice, and a
        weight of 2 is not the same as two rows. Needs ``gap_of="labels"``; without a bound nothing
        is shared out. Equal rows are looked for among each 16,384 in a row. There is no
        ``partial_fit``, no ONNX graph and no certificate of such a model.
    solver : {"dual", "em", "gd"}, default="dual"
        ``"dual"``: posterior-regularised EM, ours. ``"em"``: the paper's Algorithm 2, generalised
        EM. ``"gd"``: Algorithm 1, gradient steps. The last two are always blind.
    criterion : {"gap", "additive_gap", "worst_pair_gap"}, default="gap"
        The measure of fairness; see `fairmix.metrics`.
    min_group_size : int, default=30
        Groups of fewer rows are not judged: they take no part in the bound and do not loosen it
        for others, and a warning names them. Their rows are assigned like rows of unknown group,
        by an aware map through P(group | x) of the judged groups. 1 judges every group.
    missing_groups : {"error", "drop", "group"}, default="error"
        What a missing value in ``sensitive_features`` is: an error; ``"drop"``: such rows count
        for nothing while learning, and get a label like rows of unknown group; ``"group"``: the
        group "missing".
    attributes : {"intersect", "each"}, default="intersect"
        What several columns of ``sensitive_features`` are. ``"intersect"``: their intersections
        are the groups. ``"each"``: every column is an attribute with groups and a bound of its
        own, women against men and one race against another, without the small groups of
        intersections. ``max_gap``, ``min_ratio`` and ``min_balance`` may then be a dict of numbers
        by the name of the attribute, and ``min_group_size`` counts within an attribute. ``gap_``,
        ``ratio_`` and ``balance_`` are those of the worst attribute. There is no ``partial_fit``.
    covariance_type : str, default="tied-spherical"
        ``"tied-spherical"`` (the paper's sigma^2 I), ``"spherical"``, ``"tied-diag"``,
        ``"diag"``, ``"tied"`` or ``"full"``.
    categorical_features : "from_dtype", None or array-like, default="from_dtype"
        Categorical columns of X: by their type in a data frame (categories, strings, bools), or
        a mask, names or positions. None categorical gives a Gaussian mixture, all a multinoulli
        mixture, some the product of both.
    handle_unknown : {"error", "ignore"}, default="error"
        What a category that ``fit`` has not seen is in new rows: an error, or missing.
    standardize : bool, default=False
        Standardise numeric columns first. The model keeps the scale; fitted parameters and
        densities are then in standardised units. Starts of your own are in the units of X.
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
        Number of starts; the best objective wins. A start of your own is the only one.
    init_params : {"paper", "kmeans", "random"}, labels, clusterer or None, default=None
        None: ``"kmeans"`` for ``"dual"``, else ``"paper"``. ``"paper"``: k-means centres, equal
        weights, unit variances, random category probabilities; for standardised columns.
        ``"kmeans"``: all parameters from the k-means clusters. ``"random"``: from random centres.
        Labels from 0 to K - 1 (-1: no cluster), or a fitted clusterer, which is asked for
        ``predict_proba``, ``predict`` or ``labels_``: the fit starts from these clusters, and
        they keep their numbers. X is then in memory.
    weights_init : array-like of shape (n_components,), default=None
        Weights to start from. A start of your own, by any of these four or by ``init_params``, is
        the only one: nothing is searched for, and clusters keep its numbers. What it leaves open
        comes from the clusters that ``means_init`` and ``probabilities_init`` make of the rows;
        without these two, from ``init_params``.
    means_init : array-like of shape (n_components, n_numeric), default=None
        Means of the numeric columns to start from, in the units of X also with ``standardize``.
    precisions_init : array-like, default=None
        Inverses of covariances to start from, in the units of X, in scikit-learn's shapes:
        (K, d, d) for ``"full"``, (d, d) for ``"tied"``, (K, d) for ``"diag"``, (K,) for
        ``"spherical"``; (d,) for ``"tied-diag"``, a number for ``"tied-spherical"``.
    probabilities_init : list of array-like of shape (n_components, n_categories), default=None
        Probabilities of the categories of each categorical column to start from, in the order of
        ``categories_``.
    reg_covar : float, default=1e-6
        Added to variances, and their lower bound.
    random_state : int, RandomState or None, default=None
        Seed of the starts.
    warm_start : bool, default=False
        Start from the last fit; ``n_init`` is then unused.
    verbose : int, default=0
        1 shows a progress bar on stderr.
    n_jobs : int, default=None
        Threads; -1 for all cores. None: as many as ``KMeans`` takes, which ``OMP_NUM_THREADS``,
        threadpoolctl and joblib limit. The result is the same for any number.
    batch_size : int or float, default=None
        Mini-batch learning (the paper's Algorithm 3): rows of a batch, or their share of all.
        Each iteration visits one batch; the sums of the others stay from their last visit. All
        batches are of one size, the nearest to this: 0.3 gives three of a third.
    fairness_sample_size : int or float, default=None
        Rows, or their share of all, on which fairness is measured while learning (the paper's
        D_n). None: all rows, or with ``batch_size`` 50,000 rows. With ``"dual"`` the tilt is then
        solved for on all rows; ``"em"`` and ``"gd"`` aim below ``max_gap`` by the sampling error.
        ``partial_fit`` keeps so many rows (None: 50,000).
    fairness_sample_replace : bool, default=False
        Draw the fairness sample with replacement.
    subsample : int or float, default=None
        Sub-sample learning: learn the components from this many rows, or this share of all; then
        assign all rows. ``"dual"`` solves for the tilt on all rows.
    checkpoint : path, default=None
        A file that keeps the state of an unfinished fit, written every few seconds and removed at
        the end. The same ``fit`` in a new process goes on from there, to the same bits.

    Attributes
    ----------
    weights_ : ndarray of shape (n_components,)
        Mixture weights. Clusters are numbered by decreasing weight, or as a start of your own
        has them.
    means_, covariances_ : ndarray
        Of the numeric columns, when there are any. ``covariances_`` has scikit-learn's shapes;
        tied ones have no component axis.
    precisions_, precisions_cholesky_ : ndarray
        Inverses of ``covariances_``, and factors of these, as in scikit-learn's
        ``GaussianMixture``.
    probabilities_ : list of ndarray of shape (n_components, n_categories)
        Of each categorical column, when there are any.
    categories_ : list of ndarray
        Categories of each categorical column.
    labels_ : ndarray of shape (n_rows,)
        Cluster of each training row, as ``predict`` gives it. Not kept for files.
    gap_ : float
        The criterion on what ``gap_of`` names; ``label_gap_`` and ``soft_gap_`` always exist. All
        are NaN where fewer than two groups are judged.
    verdict_ : {"met", "missed", "met for the judged groups", "not judged", "no bound"}
        Whether the rule is met on the training data: ``max_gap``, ``min_ratio`` or
        ``min_balance``.
    resolution_ : float
        What whole rows can resolve: a pair of groups can be asked to agree to within one row of
        its larger group, and where neither is the smallest group, to within one row of each.
    rates_ : ndarray of shape (n_groups, n_components) or None
        Share of each group in each cluster, of what ``gap_of`` names. None where fewer than two
        groups are judged.
    ratio_ : float
        Smallest ratio of two groups' rates within a cluster, of what ``gap_of`` names. NaN where
        fewer than two groups are judged.
    balance_ : float
        Smallest ratio of two groups' sizes within a cluster, of what ``gap_of`` names. NaN where
        fewer than two groups are judged.
    fairness_strength_ : float
        The strength used; for ``"dual"`` the multipliers' dual norm, which is the strength whose
        fit this is. 0 without groups.
    lower_bound_ : float
        The objective reached. Where a rule is on labels, the mean log-density of rows and labels at
        the components that the labels make, each cluster with the same weight: of two fits with one
        variance for all, the higher has the lower cost.
    lower_bounds_ : ndarray of shape (`n_iter_`,)
        The objective at each iteration.
    history_ : structured ndarray
        One row per iteration: objective, log_likelihood, gap and balance (of the
        responsibilities; NaN where no groups are compared), seconds, and passes over the data
        since the fit began. A pass over some of the rows counts by their share. A stream has no
        passes (NaN).
    n_passes_ : float
        Passes over the data of the whole fit. Not there after ``partial_fit``.
    n_iter_ : int
        Iterations of the best start.
    converged_ : bool
        Whether it ended before ``max_iter``.
    groups_ : ndarray of str
        Names of the groups that are judged, without groups empty. With ``attributes="each"`` and
        several attributes, a list with those of each, as ``group_sizes_`` is; ``rates_`` stacks
        them.
    attributes_ : list of str
        The attributes of ``attributes="each"``, where there are several; else empty.
    group_sizes_ : ndarray of int
        Rows of each of them.
    unjudged_groups_ : dict of str to int
        Groups that are too small to be judged, and their rows.
    n_features_in_ : int
        Columns of X.
    feature_names_in_ : ndarray of str
        Their names, when X has string names.
    fitted_ : Fitted
        All that the fit has found, as one value: what reports, files and pictures read.
    metadata_ : dict
        What ``save`` was given, in a model that `fairmix.load` has read.

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

    weights_: NDArray[Any]
    means_: NDArray[Any]
    covariances_: NDArray[Any]
    probabilities_: list[NDArray[Any]]
    categories_: list[NDArray[Any]]
    labels_: IntArray
    gap_: float
    label_gap_: float
    soft_gap_: float
    ratio_: float
    balance_: float
    rates_: NDArray[Any] | None
    resolution_: float
    verdict_: str
    fairness_strength_: float
    lower_bound_: float
    history_: NDArray[Any]
    n_passes_: float
    n_iter_: int
    converged_: bool
    groups_: Any  # an array, or a list of them where attributes are compared each by itself
    group_sizes_: Any
    attributes_: list[str]
    unjudged_groups_: dict[str, int]
    n_features_in_: int
    feature_names_in_: NDArray[Any]
    fitted_: Fitted
    metadata_: Mapping[str, Any]

    # Pipelines and searches with metadata routing pass groups on without `set_fit_request`.
    __metadata_request__fit = {"sensitive_features": True}  # noqa: RUF012
    __metadata_request__predict = {"sensitive_features": True}  # noqa: RUF012
    __metadata_request__predict_proba = {"sensitive_features": True}  # noqa: RUF012
    __metadata_request__score = {"sensitive_features": True}  # noqa: RUF012

    # Keys of a register are a view of it: what is added later is allowed from then on.
    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "max_gap": [StrOptions({"auto"}), Interval(Real, 0, None, closed="left"), dict],
        "min_ratio": [Interval(Real, 0, 1, closed="right"), None, dict],
        "min_balance": [Interval(Real, 0, 1, closed="right"), None, dict],
        "margin": [StrOptions({"chance"}), Interval(Real, 0, 1, closed="left")],
        "fairness_strength": [StrOptions({"auto"}), Interval(Real, 0, None, closed="left")],
        "gap_of": [StrOptions({"labels", "probabilities"})],
        "assignment": [StrOptions({"blind", "aware"})],
        "ties": [StrOptions({"together", "split"})],
        "solver": [StrOptions(SOLVERS.keys())],
        "criterion": [StrOptions(CRITERIA.keys())],
        "min_group_size": [Interval(Integral, 1, None, closed="left")],
        "missing_groups": [StrOptions({"error", "drop", "group"})],
        "attributes": [StrOptions({"intersect", "each"})],
        "covariance_type": [StrOptions(FAMILIES.keys())],
        "categorical_features": ["array-like", StrOptions({"from_dtype"}), None],
        "handle_unknown": [StrOptions({"error", "ignore"})],
        "standardize": ["boolean"],
        "max_iter": [Interval(Integral, 1, None, closed="left"), None],
        "inner_iter": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither"), None],
        "tol": [Interval(Real, 0, None, closed="left")],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "init_params": [
            StrOptions({"paper", "kmeans", "random"}),
            HasMethods(["fit"]),
            "array-like",
            None,
        ],
        "weights_init": ["array-like", None],
        "means_init": ["array-like", None],
        "precisions_init": ["array-like", Interval(Real, 0, None, closed="neither"), None],
        "probabilities_init": [list, tuple, None],
        "reg_covar": [Interval(Real, 0, None, closed="left")],
        "random_state": ["random_state"],
        "warm_start": ["boolean"],
        "verbose": ["verbose"],
        "n_jobs": [Integral, None],
        "batch_size": [COUNT, SHARE, None],
        "fairness_sample_size": [COUNT, SHARE, None],
        "fairness_sample_replace": ["boolean"],
        "subsample": [COUNT, SHARE, None],
        "checkpoint": [str, os.PathLike, None],
    }

    def __init__(
        self,
        n_components: int = 2,
        *,
        max_gap: float | Literal["auto"] | Mapping[str, float] = "auto",
        min_ratio: float | Mapping[str, float] | None = None,
        min_balance: float | Mapping[str, float] | None = None,
        margin: float | Literal["chance"] = 0.0,
        fairness_strength: float | Literal["auto"] = "auto",
        gap_of: Literal["labels", "probabilities"] = "labels",
        assignment: Literal["blind", "aware"] = "blind",
        ties: Literal["together", "split"] = "together",
        solver: Solver = "dual",
        criterion: Criterion = "gap",
        min_group_size: int = 30,
        missing_groups: MissingGroups = "error",
        attributes: Literal["intersect", "each"] = "intersect",
        covariance_type: CovarianceType = "tied-spherical",
        categorical_features: object = "from_dtype",
        handle_unknown: Literal["error", "ignore"] = "error",
        standardize: bool = False,
        max_iter: int | None = None,
        inner_iter: int = 10,
        learning_rate: float | None = None,
        tol: float = 1e-4,
        n_init: int = 1,
        init_params: Any = None,
        weights_init: ArrayLike | None = None,
        means_init: ArrayLike | None = None,
        precisions_init: ArrayLike | None = None,
        probabilities_init: Sequence[ArrayLike] | None = None,
        reg_covar: float = 1e-6,
        random_state: Any = None,
        warm_start: bool = False,
        verbose: int = 0,
        n_jobs: int | None = None,
        batch_size: float | None = None,
        fairness_sample_size: float | None = None,
        fairness_sample_replace: bool = False,
        subsample: float | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> None:
        self.n_components = n_components
        self.max_gap = max_gap
        self.min_ratio = min_ratio
        self.min_balance = min_balance
        self.margin = margin
        self.fairness_strength = fairness_strength
        self.gap_of = gap_of
        self.assignment = assignment
        self.ties = ties
        self.solver = solver
        self.criterion = criterion
        self.min_group_size = min_group_size
        self.missing_groups = missing_groups
        self.attributes = attributes
        self.covariance_type = covariance_type
        self.categorical_features = categorical_features
        self.handle_unknown = handle_unknown
        self.standardize = standardize
        self.max_iter = max_iter
        self.inner_iter = inner_iter
        self.learning_rate = learning_rate
        self.tol = tol
        self.n_init = n_init
        self.init_params = init_params
        self.weights_init = weights_init
        self.means_init = means_init
        self.precisions_init = precisions_init
        self.probabilities_init = probabilities_init
        self.reg_covar = reg_covar
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose
        self.n_jobs = n_jobs
        self.batch_size = batch_size
        self.fairness_sample_size = fairness_sample_size
        self.fairness_sample_replace = fairness_sample_replace
        self.subsample = subsample
        self.checkpoint = checkpoint

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # By covariance, because scikit-learn's checks try what a tag promises.
        tags.input_tags.allow_nan = not self._complete
        return tags

    # ------------------------------------------------------------------------------ fitting
    @with_callbacks
    def fit(
        self, X: Any, y: Any = None, *, sensitive_features: Any = None, sample_weight: Weight = None
    ) -> Self:
        """Fit the mixture.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features), or path
            NumPy array, pandas, Polars or Arrow table. Or files: a path, a pattern such as
            ``"data/*.parquet"``, a folder, an address such as ``"s3://..."``, a list of these, or
            a `FileSource`; Parquet, Feather, CSV or TSV, the last two also with ``.gz``. Files are
            read block by block in every pass, in constant memory, and give the bits of the same
            rows in a table. A column of a text file is numeric when all its values are numbers.
            Or a Polars ``LazyFrame``, a DuckDB relation, an Arrow reader or data set, and other
            streams of Arrow: read once, and kept in a temporary file. Or a Dask array or data
            frame, fitted on the workers of the active ``distributed.Client``.
        y : ignored
            For scikit-learn's conventions. Groups are ``sensitive_features``: a ``y`` without them
            is an `IgnoredTargetWarning`.
        sensitive_features : str, array-like or table, default=None
            Group of each row; several columns form their intersections. A str names a column of
            X, and a list of names several, which are then not features. None fits a plain
            mixture.
        sample_weight : array-like of shape (n_rows,) or str, default=None
            Weights of at least 0. A weight of 2 counts as two equal rows, so scale weights that
            are shares to a mean of 1. A str names a column of X, which is then not a feature; in
            files the weights are above 0.

        Returns
        -------
        FairMixture
            The fitted model.
        """
        warn_of_target(y, sensitive_features)
        settings = self._settings()
        check_checkpoint(self.checkpoint)
        metadata = {"sensitive_features": sensitive_features, "sample_weight": sample_weight}
        with without_autologging(), task(self, X=X, y=y, metadata=metadata):
            check = self._check(reset=True)
            with open_data(X, sensitive_features, sample_weight, self._reading(), check) as data:
                fitted = learn(
                    settings,
                    data,
                    self._seeds(2),
                    warm=self._warm,
                    own=own_start(self, X, sensitive_features, data),
                    checkpoint=self._checkpoint(),
                    watch=climbing(self),
                )
                data.check_unchanged()
            # A new fit ends a stream; one that fails does not come here, and leaves it.
            self.__dict__.pop("_stream", None)
            self._publish(fitted)
        return self

    def partial_fit(
        self, X: Any, y: Any = None, *, sensitive_features: Any = None, sample_weight: Weight = None
    ) -> Self:
        """Learn from one more batch of a stream.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            NumPy array, pandas, Polars or Arrow table. The first batch of a stream must hold
            every category and every group, and at least ``n_components`` rows.
        y : ignored
            As in ``fit``.
        sensitive_features : str, array-like or table, default=None
            Group of each row, as in ``fit``: with every batch of a stream, or with none.
        sample_weight : array-like of shape (n_rows,) or str, default=None
            Weights of at least 0, or the column of X that holds them. A weight of 2 counts as two
            equal rows.

        Returns
        -------
        FairMixture
            The model of all rows so far. The gaps, rates and the balance are those of a sample
            of ``fairness_sample_size`` rows (None: 50,000). There are no ``labels_``;
            ``history_`` has a row and ``n_iter_`` a count for each call.
        """
        started = time.perf_counter()
        warn_of_target(y, sensitive_features)
        if is_path(X):
            raise ValueError(
                f"X={X!r} names files, a batch of a stream is a table. Read it first, or use fit, "
                "which reads files in constant memory."
            )
        stream: Stream | None = getattr(self, "_stream", None)
        check_stream(self, stream)
        settings = self._settings()
        if self.missing_groups == "drop":
            # In `fit` such rows still get a label; a stream has no labels to give.
            X, sensitive_features, sample_weight = drop_missing_groups(
                X, sensitive_features, sample_weight
            )
        with without_autologging():
            if stream is None:
                stream = self._begin_stream(settings, X, sensitive_features, sample_weight)
            else:
                batch = self._batch(stream, X, sensitive_features, sample_weight)
                groups = stream.add(batch, self.min_group_size)
                if groups is not None:
                    check_judged(groups, self._reading())
                stream.advance(settings, batch)
        self._publish(stream.record(settings, started, self._n_threads))
        self._stream = stream
        return self

    def _begin_stream(
        self,
        settings: Settings,
        X: Any,
        sensitive_features: Any,
        sample_weight: ArrayLike | str | None,
    ) -> Stream:
        """Fit the first batch."""
        reading, check = self._reading(), self._check(reset=True)
        data = open_table(X, sensitive_features, sample_weight, reading, check)
        bounded = data.groups is not None and self.fairness_strength == "auto"
        if bounded and not SOLVERS[self.solver].tilts:
            raise ValueError(
                f"solver={self.solver!r} with fairness_strength='auto' meets a bound in many "
                "rounds over all rows, which a stream does not allow. Set fairness_strength to a "
                "number, or solver='dual'."
            )
        # All of them: groups that are too small now may grow.
        groups = take_groups(X, sensitive_features, self.missing_groups)[1]
        # The first two are those that `fit` would draw.
        seeds = self._seeds(3)
        own = own_start(self, X, sensitive_features, data)
        fitted = learn(settings, data, seeds[:2], warm=self._warm, own=own, streamed=True)
        return Stream.begin(
            settings,
            fitted,
            fitted.model.columns.rows(data.table),
            groups,
            data.weight,
            seeds[2],
            {name: repr(getattr(self, name)) for name in FIXED},
        )

    def _batch(
        self,
        stream: Stream,
        X: Any,
        sensitive_features: Any,
        sample_weight: ArrayLike | str | None,
    ) -> MemoryStore:
        """The rows of a later batch that count."""
        names = stream.group_names
        if (sensitive_features is None) == bool(names):
            here, before = ("no", "some") if names else ("some", "none")
            raise ValueError(
                f"This batch has {here} sensitive_features, the stream began with {before}. Give "
                "them with every batch of a stream, or with none."
            )
        groups = None
        if names:
            values, n_rows = group_values(X, sensitive_features), _num_samples(X)
            # The first batch names all groups of a stream, so a new one is refused.
            groups = match_groups(values, names, n_rows=n_rows, missing=self.missing_groups)
        weight = read_weights(sample_weight, X)
        n_groups = max(1, len(names))
        return counted_rows(self._rows(X), groups, weight, n_groups, self._n_threads)

    def fit_predict(self, X: Any, y: object = None, **settings: Any) -> IntArray:
        """Fit, then the cluster of each row; X is a table. Parameters as in ``fit``."""
        if in_blocks(X):
            raise ValueError(
                "fit_predict gives the labels in memory, but X is not in memory. Call fit, then "
                "predict (for files with output, a Parquet file to write)."
            )
        return super().fit_predict(X, y, **settings)

    # --------------------------------------------------------------------------- prediction
    @overload
    def predict(
        self, X: DaskCollection, *, sensitive_features: Any = None, output: None = None
    ) -> DaskArray: ...

    @overload
    def predict(
        self, X: Any, *, sensitive_features: Any = None, output: None = None
    ) -> IntArray: ...

    @overload
    def predict(self, X: Any, *, sensitive_features: Any = None, output: PathLike) -> Path: ...

    def predict(
        self, X: Any, *, sensitive_features: Any = None, output: PathLike | None = None
    ) -> Any:
        """Cluster of each row.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features), path or Dask collection
            Columns as in ``fit``. Files and streams as in ``fit`` are read block by block.
        sensitive_features : str, array-like or table, default=None
            Group of each row, needed with ``assignment="aware"`` only. A blind map sees X only.
            For files the name of a column, or names.
        output : path, default=None
            For files: a Parquet file to write, with one column ``cluster``. It appears when it is
            complete.

        Returns
        -------
        ndarray of shape (n_rows,), or the path of the file; for a Dask collection a Dask array
        """
        # Before other sources: labels of a collection stay on the cluster and need no output.
        if CollectionSource.takes(X):
            check_is_fitted(self)
            # A light copy, because it travels to every worker.
            return collection_labels(self._light(), self.fitted_, X, sensitive_features)
        if in_blocks(X):
            check_is_fitted(self)
            return file_labels(self.fitted_, X, sensitive_features, output, **self._far)
        _refuse_output(X, output, "labels")
        return self._labels(X, sensitive_features)

    @overload
    def predict_proba(
        self, X: DaskCollection, *, sensitive_features: Any = None, output: None = None
    ) -> DaskArray: ...

    @overload
    def predict_proba(
        self, X: Any, *, sensitive_features: Any = None, output: None = None
    ) -> NDArray[Any]: ...

    @overload
    def predict_proba(
        self, X: Any, *, sensitive_features: Any = None, output: PathLike
    ) -> Path: ...

    def predict_proba(
        self, X: Any, *, sensitive_features: Any = None, output: PathLike | None = None
    ) -> Any:
        """Probabilities of the map from rows to clusters, of which the largest is the label.

        They are a softmax of the tilted log-densities at the temperature of the fit: 0.05 with
        ``gap_of="labels"``, the default, so nearly all are close to 0 or 1. The posterior of the
        mixture, which says how sure a cluster is, is `responsibilities`.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features), path or Dask collection
            Columns as in ``fit``. Files and streams as in ``fit`` are read block by block.
        sensitive_features : str, array-like or table, default=None
            Group of each row, needed with ``assignment="aware"`` only. A blind map sees X only.
        output : path, default=None
            For files: a Parquet file to write, with the columns ``cluster_0``, ``cluster_1`` ...

        Returns
        -------
        ndarray of shape (n_rows, n_components), or the path; for a Dask collection a Dask array
            At the temperature of the fit; the largest entry of a row is its label, unless it is
            one of several equal rows that ``ties="split"`` shares out.
        """
        if in_blocks(X):
            check_is_fitted(self)
            fitted = self.fitted_
            if CollectionSource.takes(X):
                return collection_values(
                    self._light(), fitted, X, sensitive_features, "predict_proba"
                )
            return write_probabilities(fitted, X, sensitive_features, output, **self._far)
        _refuse_output(X, output, "probabilities")
        rows, groups = self._seated_rows(X, sensitive_features)
        with one_blas_thread():
            return self.fitted_.model.probabilities(rows, groups, n_jobs=self._n_threads)

    def responsibilities(self, X: Any) -> NDArray[Any]:
        """The posterior of the mixture: probability that a row comes from each component.

        By Bayes' rule from the fitted weights and densities, at temperature 1 and without the
        tilt that keeps the rule of fairness; so the largest entry need not be the label.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            Columns as in ``fit``.

        Returns
        -------
        ndarray of shape (n_rows, n_components)
            Each row adds up to 1.

        Examples
        --------
        >>> from fairmix import FairMixture
        >>> X = [[0.0], [0.2], [5.0], [5.1]]
        >>> model = FairMixture(2, random_state=0).fit(X)
        >>> model.responsibilities(X).sum(axis=1).round(6).tolist()
        [1.0, 1.0, 1.0, 1.0]
        """
        rows = self._near_rows(X)
        with one_blas_thread():
            return self.fitted_.model.posterior(rows, n_jobs=self._n_threads)

    def assign(
        self,
        X: Any,
        *,
        how: Literal["argmax", "random"] = "argmax",
        sensitive_features: Any = None,
        random_state: Any = None,
    ) -> IntArray:
        """Cluster of each row: the most probable one, or one drawn at random.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            Columns as in ``fit``.
        how : {"argmax", "random"}, default="argmax"
            ``"argmax"``: as ``predict``. ``"random"``: the paper's random assignment, cluster k
            with the probability that ``predict_proba`` gives it. The rates of the draws are those
            of the probabilities in expectation, so it belongs to ``gap_of="probabilities"``. With
            ``gap_of="labels"`` the probabilities are those of a cold map, close to 0 and 1.
        sensitive_features : str, array-like or table, default=None
            Group of each row, needed with ``assignment="aware"`` only.
        random_state : int, RandomState or None, default=None
            Seed of the draws. None: that of the estimator.

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        if how not in ("argmax", "random"):
            raise ValueError(f"how={how!r}. Give 'argmax' or 'random'.")
        if is_path(X):
            raise ValueError(
                f"X={X!r} names files, assign needs a table. Read it first, or give predict an "
                "output."
            )
        if how == "argmax":
            return self._labels(X, sensitive_features)
        probabilities = self.predict_proba(X, sensitive_features=sensitive_features)
        rng = self._rng(self.random_state if random_state is None else random_state)
        # The first cluster at which the distribution function exceeds a uniform number.
        below = probabilities.cumsum(axis=1, dtype=np.float64)
        # Times the last sum, because rounding leaves it a little off one.
        passed = rng.random((len(below), 1)) * below[:, -1:] >= below
        return np.asarray(passed[:, :-1].sum(axis=1))

    @overload
    def score_samples(self, X: DaskCollection, *, output: None = None) -> DaskArray: ...

    @overload
    def score_samples(self, X: Any, *, output: None = None) -> NDArray[Any]: ...

    @overload
    def score_samples(self, X: Any, *, output: PathLike) -> Path: ...

    def score_samples(self, X: Any, *, output: PathLike | None = None) -> Any:
        """Log-density of each row.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features), path or Dask collection
            Columns as in ``fit``. Files and streams as in ``fit`` are read block by block.
        output : path, default=None
            For files: a Parquet file to write, with one column ``log_density``.

        Returns
        -------
        ndarray of shape (n_rows,), or the path of the file; for a Dask collection a Dask array
        """
        if in_blocks(X):
            check_is_fitted(self)
            if CollectionSource.takes(X):
                return collection_values(self._light(), self.fitted_, X, None, "score_samples")
            return write_densities(self.fitted_, X, output, **self._far)
        _refuse_output(X, output, "densities")
        rows = self._near_rows(X)
        with one_blas_thread():
            return self.fitted_.model.log_densities(rows, n_jobs=self._n_threads)

    def score(
        self, X: Any, y: Any = None, *, sensitive_features: Any = None, sample_weight: Weight = None
    ) -> float:
        """Mean log-density of the rows.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features), path or Dask collection
            Columns as in ``fit``. Files and streams as in ``fit`` are read block by block.
        y, sensitive_features : ignored
            For scikit-learn's conventions.
        sample_weight : array-like of shape (n_rows,) or str, default=None
            Weights of the mean, or the column of X that holds them.

        Returns
        -------
        float
        """
        fit = self._fit_of(X, sample_weight)
        return fit.log_density / fit.weight

    def bic(self, X: Any) -> float:
        """Bayesian information criterion; lower is better. X as in ``score``."""
        return self._bic(self._fit_of(X))

    def aic(self, X: Any) -> float:
        """Akaike information criterion; lower is better. X as in ``score``."""
        fit = self._fit_of(X)
        return -2.0 * fit.log_density + 2.0 * self.fitted_.model.mixture.n_parameters

    def icl(self, X: Any) -> float:
        """Integrated completed likelihood: BIC plus twice the entropy of the posterior."""
        fit = self._fit_of(X, entropy=True)
        return self._bic(fit) + 2.0 * fit.entropy

    def _bic(self, fit: Fit) -> float:
        n_parameters = self.fitted_.model.mixture.n_parameters
        return -2.0 * fit.log_density + n_parameters * float(np.log(fit.n_rows))

    def _fit_of(self, X: Any, sample_weight: Weight = None, *, entropy: bool = False) -> Fit:
        """How well the mixture fits some rows, wherever they are."""
        if in_blocks(X):
            check_is_fitted(self)
            how = {"sample_weight": sample_weight, **self._far}
            return fit_of(self.fitted_, X, entropy=entropy, **how)
        named = (sample_weight,) if isinstance(sample_weight, str) else ()
        rows, weight = self._near_rows(X, *named), read_weights(sample_weight, X)
        with one_blas_thread():
            return table_fit(
                self.fitted_.model, rows, weight, entropy=entropy, n_jobs=self._n_threads
            )

    def sample(self, n_samples: int = 1) -> tuple[NDArray[Any], IntArray]:
        """Random rows from the fitted density.

        Parameters
        ----------
        n_samples : int, default=1
            Rows to draw.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
            In the units and with the categories of the training data.
        labels : ndarray of shape (n_samples,)
            Component of each row.
        """
        check_is_fitted(self)
        if not isinstance(n_samples, Integral) or n_samples < 1:
            raise ValueError(f"n_samples={n_samples!r}. Give a whole number of at least 1.")
        model = self.fitted_.model
        rows, labels = model.draw(n_samples, self._rng(self.random_state))
        return model.columns.table(rows), labels

    # ------------------------------------------------------------------------------ results
    def fairness_report(
        self,
        X: Any,
        sensitive_features: Any,
        *,
        sample_weight: ArrayLike | str | None = None,
        n_boot: int = 200,
        confidence: float = 0.95,
    ) -> FairnessTable | AttributeTables:
        """Counts, rates, ratios and gaps of the labels of some rows, with bootstrap intervals.

        Groups with fewer of these rows than ``min_group_size`` are listed apart: gaps and ratios
        are of the others. Each group has a verdict: whether its rate is at least ``min_ratio`` of
        the largest in every cluster, or four fifths of it where the model has no ``min_ratio``.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features), path or Dask collection
            Columns as in ``fit``. Of files, streams and Dask collections, which are read block by
            block, the label and the groups of each row stay in memory.
        sensitive_features : str, array-like or table
            Group of each row.
        sample_weight : array-like of shape (n_rows,) or str, default=None
            Weights of at least 0, or the column of X that holds them.
        n_boot : int, default=200
            Bootstrap samples.
        confidence : float, default=0.95
            Of the intervals.

        Returns
        -------
        FairnessTable
            Prints as a table; ``to_pandas()``, ``to_polars()``, ``to_dict()``. With several
            attributes `AttributeTables`, a mapping of their names to a table each, which has the
            same methods.
        """
        found = self._judged(X, sensitive_features, sample_weight)
        labels, values, sample_weight = found.assignment, found.groups, found.weight
        seed = self._seeds(1)[0]
        if self.fitted_.groups.attributes:
            columns = attribute_columns(values, self.fitted_.groups)
            return AttributeTables(
                {
                    title: self._fairness_table(
                        labels, column, title, sample_weight, n_boot, confidence, seed
                    )
                    for title, column in columns.items()
                }
            )
        return self._fairness_table(labels, values, "", sample_weight, n_boot, confidence, seed)

    def _fairness_table(
        self,
        labels: IntArray,
        groups: Any,
        attribute: str,
        sample_weight: Any,
        n_boot: int,
        confidence: float,
        seed: int,
    ) -> FairnessTable:
        """Of the groups of one attribute."""
        limit = self.fitted_.rule.limit
        own = None if limit is None else limit.of(attribute)
        table = fairness_table(
            labels,
            groups,
            sample_weight=sample_weight,
            min_group_size=self.min_group_size,
            missing_groups=self.missing_groups,
            min_ratio=own.bound if isinstance(own, MinRatio) else FOUR_FIFTHS,
            n_boot=n_boot,
            confidence=confidence,
            random_state=seed,
        )
        # Columns of arrays and Arrow tables do not know their name.
        return replace(table, title=attribute) if attribute else table

    def certify(self, X: Any, sensitive_features: Any, *, confidence: float = 0.95) -> Certificate:
        """A bound on the population gap or ratio of this fitted map, and a verdict on fresh rows.

        With probability ``confidence`` over the draw of the rows, the criterion of this map in
        the population that the rows come from is at most ``upper_bound``. Of a model with
        ``min_ratio`` or ``min_balance``, the ratio or the Balance is at least ``lower_bound``;
        that of Balance allows for the error of the groups' shares, too. The statement is about
        the groups that ``fit`` has judged; where these are fewer than two, about all that it knew.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features), path or Dask collection
            Fresh rows: independent of each other and of those in ``fit``. Rows of the fit get a
            warning, where they are recognised.
        sensitive_features : str, array-like or table
            Group of each row.
        confidence : float, default=0.95
            Probability that the bound holds.

        Returns
        -------
        Certificate
            ``verdict`` says whether these rows meet the rule, for groups that ``fit`` has judged
            and that have ``min_group_size`` of these rows; ``chance`` how large a gap, or how
            small a ratio, on them sampling explains.
        """
        check_is_fitted(self)
        if self.fitted_.model.split:
            raise ValueError(
                "This model was fitted with ties='split': a label depends on the rows beside it, "
                "so there is no map of single rows whose gap in a population could be bounded. "
                "Fit with ties='together'."
            )
        known = self.fitted_.training_rows
        soft = self.gap_of == "probabilities"
        found = self._judged(X, sensitive_features, soft=soft, hashed=known is not None)
        if known is not None and found.hashes is not None and known.hold(found.hashes):
            notify(
                "X holds rows that the model was fitted to. A certificate is valid for fresh rows "
                "only: the fit has made the gap of its own rows small. Hold rows out before you "
                "fit, and certify those."
            )
        # The bound may have been set anew since the fit.
        rule = self._settings().rule
        return certify_held_out(
            self.fitted_, rule, found.assignment, found.groups, confidence=confidence
        )

    def _judged(
        self,
        X: Any,
        sensitive_features: Any,
        sample_weight: Weight = None,
        *,
        soft: bool = False,
        hashed: bool = False,
    ) -> Judged:
        """Labels, or responsibilities, and groups of rows, wherever they are."""
        check_is_fitted(self)
        if in_blocks(X):
            how = {"soft": soft, "hashed": hashed, "sample_weight": sample_weight, **self._far}
            return judged_rows(self.fitted_, X, sensitive_features, **how)
        groups, weight = group_values(X, sensitive_features), weight_values(X, sample_weight)
        named = (*group_columns(X, sensitive_features), sample_weight)
        features = self.fitted_.features(X, [name for name in named if isinstance(name, str)])
        if soft:
            assignment: NDArray[Any] = self.predict_proba(features, sensitive_features=groups)
        else:
            assignment = self._labels(features, groups)
        hashes = None
        if hashed:
            table = self._check(reset=False).table(features)
            # Without the scale, because `learn` keeps what it remembers of rows in their own units.
            hashes = row_hashes(replace(self._columns, mean=None, scale=None).rows(table))
        return Judged(assignment, groups, weight, hashes)

    def report(
        self,
        path: str | os.PathLike[str],
        X: Any,
        sensitive_features: Any,
        *,
        front: object = None,
        certificate: Certificate | None = None,
    ) -> Path:
        """Write what was measured as one HTML page, for people: see `fairmix.report.render`.

        Parameters
        ----------
        path : path
            The file, by custom ``*.html``. It replaces an existing one in one step.
        X : data frame, or array of shape (n_rows, n_features)
            The rows of the report, with the columns of ``fit``.
        sensitive_features : str, list of str, array-like or table
            Group of each row, or the names of columns of X.
        front : ParetoFront, default=None
            Of `fairmix.pareto_front`: adds what other bounds would cost.
        certificate : Certificate, default=None
            Of `certify` on held-out rows.

        Returns
        -------
        Path
            The file.
        """
        check_is_fitted(self)
        # By name: the report is a room above this one, and reads a fit as others do.
        page = import_module("fairmix.report").report_of(
            self, X, sensitive_features, front=front, certificate=certificate
        )
        target = Path(path)
        with replacing(target) as part:
            part.write_text(page, encoding="utf-8")
        return target

    def save(
        self, path: str | os.PathLike[str], *, metadata: Mapping[str, Any] | None = None
    ) -> Path:
        """Write the fitted model to a file, for `fairmix.load`.

        The file holds parameters and what was learned from the data; no code, no ``labels_``, no
        row and no row's group. It replaces an existing one in one step. ``checkpoint``, ``n_jobs``
        and ``verbose`` belong to a machine and stay behind, as does the sample of a stream, and
        labels or a clusterer in ``init_params``.

        Parameters
        ----------
        path : path
            The file, by custom ``*.fairmix``.
        metadata : dict, default=None
            Anything that JSON can hold; comes back as ``metadata_``.

        Returns
        -------
        Path
            The file.
        """
        check_is_fitted(self)
        # Parameters may have been set since the fit, and `load` would refuse a bad one.
        check_parameters(self)
        return write_model(
            path,
            Snapshot(
                __version__,
                self.get_params(deep=False),
                self.fitted_,
                getattr(self, "feature_names_in_", None),
                {} if metadata is None else metadata,
            ),
        )

    # ------------------------------------------------------------------ what the rooms need
    def _seated_rows(self, X: Any, sensitive_features: Any = None) -> tuple[Rows, IntArray | None]:
        """Rows of a table, and their seats, which an aware map needs."""
        rows = self._near_rows(X, *group_columns(X, sensitive_features))
        fitted = self.fitted_
        # A blind map must not depend on groups, so it does not even read them.
        if not fitted.model.aware:
            return rows, None
        check_groups_given(sensitive_features)
        codes = seated_groups(
            group_values(X, sensitive_features),
            fitted.groups,
            n_rows=_num_samples(X),
            missing=self.missing_groups,
        )
        return rows, fitted.seats.codes(codes)

    def _labels(self, X: Any, sensitive_features: Any, first_run: int = 0) -> IntArray:
        rows, groups = self._seated_rows(X, sensitive_features)
        with one_blas_thread():
            return self.fitted_.model.labels(
                rows, groups, n_jobs=self._n_threads, first_run=first_run
            )

    def _rows(self, X: Any, *named: str) -> Rows:
        """Rows of the fit's columns; ``named`` are columns of groups and weights."""
        check_is_fitted(self)
        table = self._check(reset=False).table(self.fitted_.features(X, named))
        return self._columns.rows(table)

    def _near_rows(self, X: Any, *named: str) -> Rows:
        """Rows that are near enough to the model for finite densities."""
        with np.errstate(over="ignore"):  # a tiny scale; what overflows is refused
            rows = self._rows(X, *named)
        return near(self.fitted_.model, rows)

    def _settings(self) -> Settings:
        """The parameters that shape a fit, checked."""
        check_parameters(self)
        given = {field.name: getattr(self, field.name) for field in fields(Settings)}
        # A start of the user's own is no choice between ours.
        how = self.init_params if isinstance(self.init_params, str) else None
        return Settings(**given | {"init_params": how})

    def _reading(self) -> Reading:
        """The parameters that shape how input is read."""
        # Without a bound nothing has to be shared out.
        split = self.ties == "split" and self.fairness_strength == "auto"
        return Reading(
            categorical_features=self.categorical_features,
            complete=self._complete,
            missing_groups=self.missing_groups,
            min_group_size=self.min_group_size,
            compares=self.fairness_strength != 0,
            each=self.attributes == "each",
            ties=Ties(by_group=self.assignment == "aware") if split else None,
            batch_size=self.batch_size,
            n_jobs=self._n_threads,
            verbose=bool(self.verbose),
        )

    @property
    def _far(self) -> dict[str, Any]:
        """How rows that are not in memory are opened."""
        return {
            "reading": self._reading(),
            "check": self._check(reset=False),
            "ignore_unknown": self._ignores_unknown,
        }

    def _check(self, *, reset: bool) -> EstimatorCheck:
        return EstimatorCheck(self, self.categorical_features, reset)

    def _checkpoint(self) -> Checkpoint | None:
        if self.checkpoint is None:
            return None
        given = sorted(self.get_params().items())
        # As text, because JSON does not hold arrays and paths.
        parameters = {name: repr(value) for name, value in given if name not in SILENT}
        # Anything else may give other seeds next time, and those of the file are as good.
        seeded = isinstance(self.random_state, int | np.integer)
        return Checkpoint(Path(self.checkpoint), parameters, seeded)

    def _seeds(self, count: int) -> list[int]:
        seeds: list[int] = (
            check_random_state(self.random_state).randint(2**31 - 1, size=count).tolist()
        )
        return seeds

    @staticmethod
    def _rng(random_state: Any) -> np.random.Generator:
        return np.random.default_rng(check_random_state(random_state).randint(2**31 - 1))

    @property
    def _warm(self) -> Model | None:
        """The model to start from."""
        return self.fitted_.model if self.warm_start and hasattr(self, "fitted_") else None

    # ------------------------------------------------- where a GaussianMixture has them, too
    # Worked out when asked for: covariances of many columns are large.
    @property
    def precisions_(self) -> FloatArray:
        """Inverses of the covariances, in their shape."""
        return precisions(self.covariances_, self.fitted_.model.mixture.family)

    @property
    def precisions_cholesky_(self) -> FloatArray:
        """Upper factors F of the precisions, F F^T; square roots where columns are independent."""
        return precision_factors(self.covariances_, self.fitted_.model.mixture.family)

    @property
    def lower_bounds_(self) -> NDArray[np.float64]:
        """The objective at each iteration."""
        return np.asarray(self.history_["objective"])

    def _publish(self, fitted: Fitted) -> None:
        """Attributes of a fit, and none of the one before."""
        before: Fitted | None = getattr(self, "fitted_", None)
        # A fit without categories must not keep the `probabilities_` of one with them.
        for name in () if before is None else before.attributes():
            self.__dict__.pop(name, None)
        self.fitted_ = fitted
        self.__dict__.update(fitted.attributes())

    def _light(self) -> Self:
        """A copy to send to workers, without what they do not need."""
        light = type(self)(**self.get_params(deep=False))
        light.__dict__.update(
            {name: value for name, value in self.__dict__.items() if name not in HEAVY}
        )
        # An empty history keeps its type.
        light.fitted_ = replace(self.fitted_, labels=None, history=self.fitted_.history[:0])
        return light

    @property
    def _columns(self) -> Columns:
        """Columns of the fit, for new rows."""
        return replace(self.fitted_.model.columns, ignore_unknown=self._ignores_unknown)

    @property
    def _ignores_unknown(self) -> bool:
        return self.handle_unknown == "ignore"

    @property
    def _complete(self) -> bool:
        """Whether the covariances need all numbers of a row."""
        return not takes_missing(self.covariance_type)

    @property
    def _n_threads(self) -> int:
        return n_threads(self.n_jobs)

    # ------------------------------------------------------------------- in a notebook
    # It depends on the notebook which of the two it asks for.
    def _repr_html_inner(self) -> str:
        return f"{super()._repr_html_inner()}{measured(self)}"

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        if "text/html" in bundle:
            bundle["text/html"] += measured(self)
        return bundle


def _refuse_output(X: Any, output: PathLike | None, what: str) -> None:
    if output is not None:
        raise ValueError(
            f"output={str(output)!r} is for files, but X is a {type(X).__name__}. Leave output "
            f"out: the {what} are returned."
        )


def load(path: str | os.PathLike[str]) -> FairMixture:
    """Read a model that ``FairMixture.save`` wrote.

    A file cannot run code, and every value in it is checked. One that is damaged, altered, too
    large or not a model raises a ``ValueError`` that says so.

    Parameters
    ----------
    path : path
        The file.

    Returns
    -------
    FairMixture
        Fitted: all methods and attributes as before, except ``labels_``, and ``metadata_``.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from fairmix import FairMixture, load
    >>> from fairmix.datasets import make_grouped_blobs
    >>> X, groups, _ = make_grouped_blobs(300, 3, 2, random_state=0)
    >>> model = FairMixture(3, max_gap=0.05, random_state=0).fit(X, sensitive_features=groups)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     again = load(model.save(Path(folder, "blobs.fairmix"), metadata={"data": "blobs"}))
    >>> bool((again.predict(X) == model.labels_).all()), again.metadata_
    (True, {'data': 'blobs'})
    """
    snapshot = read_model(path)
    try:
        # Said here, because the constructor would raise a TypeError that names no file.
        unknown = snapshot.parameters.keys() - FairMixture().get_params()
        if unknown:
            raise ValueError(f"model.json: parameters: {min(unknown)!r} is unknown.")
        model = FairMixture(**snapshot.parameters)
        # Types and ranges, as for any input: a file may come from anybody.
        model._validate_params()
        check_numbers(snapshot.parameters)
    except ValueError as error:
        raise ModelFileError(f"{os.fspath(path)!r} cannot be loaded: {error}") from None
    model.n_features_in_ = len(snapshot.fitted.model.columns.names)
    if snapshot.feature_names is not None:
        model.feature_names_in_ = snapshot.feature_names
    model._publish(snapshot.fitted)
    model.metadata_ = snapshot.metadata
    return model
