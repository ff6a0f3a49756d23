"""FairMixture: validate, wire, publish. No numerics."""

from __future__ import annotations

import os
from collections.abc import Mapping
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Self

from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClusterMixin, DensityMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from fairmix._version import __version__
from fairmix.criteria import CRITERIA
from fairmix.estimator._callbacks import with_callbacks
from fairmix.estimator._picture import Pictured
from fairmix.estimator._streaming import Streaming
from fairmix.export.model_file import ModelFileError, Snapshot, read_model, write_model
from fairmix.input.groups import MissingGroups, warn_of_target
from fairmix.mixture.families import FAMILIES
from fairmix.results.verdict import verdict_of

# Some rows, or a share of all.
COUNT = Interval(Integral, 1, None, closed="left")
SHARE = Interval(Real, 0, 1, closed="neither")


class FairMixture(Streaming, Pictured, ClusterMixin, DensityMixin, BaseEstimator):
    """Mixture model whose clusters hold every group in its overall share.

    Implements and extends "Fair Model-Based Clustering" (Park, Kim, Lee and Kim, AAAI 2026).
    Maximises the likelihood subject to a bound on the gap: how far apart the groups' shares of a
    cluster are, in the worst cluster.

    Missing values (NaN in a numeric column; None, NaN or null in a categorical one) are integrated
    out of the likelihood, in ``fit`` and for new rows. ``covariance_type="tied"`` and ``"full"``
    need complete numbers. k-means starts and P(group | x) see the mean instead, P(group | x) also
    an indicator of each column with gaps.

    Parameters
    ----------
    n_components : int, default=2
        Number of clusters, K.
    max_gap : float, default=0.01
        The paper's epsilon: ``gap_ <= max_gap`` on the training data, or a warning says what was
        reached. Hard labels move by whole rows, so a bound below ``resolution_`` counts as met
        within that.
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
        Mixture weights. Clusters are numbered by decreasing weight.
    means_, covariances_ : ndarray
        Of the numeric columns, when there are any. ``covariances_`` has scikit-learn's shapes;
        tied ones have no component axis.
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
        Whether ``gap_`` is within the bound on the training data.
    resolution_ : float
        What whole rows can resolve: a pair of groups can be asked to agree to within one row of
        its larger group, and where neither is the smallest group, to within one row of each.
    rates_ : ndarray of shape (n_groups, n_components) or None
        Share of each group in each cluster, of what ``gap_of`` names. None where fewer than two
        groups are judged.
    balance_ : float
        Smallest ratio of two groups' sizes within a cluster, of what ``gap_of`` names. NaN where
        fewer than two groups are judged.
    fairness_strength_ : float
        The strength used; for ``"dual"`` the multipliers' dual norm, which is the strength whose
        fit this is. 0 without groups.
    lower_bound_ : float
        The objective reached.
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
        Names of the groups that are judged, without groups empty.
    group_sizes_ : ndarray of int
        Rows of each of them.
    unjudged_groups_ : dict of str to int
        Groups that are too small to be judged, and their rows.
    n_features_in_ : int
        Columns of X.
    feature_names_in_ : ndarray of str
        Their names, when X has string names.
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

    __metadata_request__fit = {"sensitive_features": True}  # noqa: RUF012
    __metadata_request__predict = {"sensitive_features": True}  # noqa: RUF012
    __metadata_request__predict_proba = {"sensitive_features": True}  # noqa: RUF012
    __metadata_request__score = {"sensitive_features": True}  # noqa: RUF012

    # Keys of a register are a view of it: what is added later is allowed from then on.
    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "max_gap": [Interval(Real, 0, None, closed="left")],
        "fairness_strength": [StrOptions({"auto"}), Interval(Real, 0, None, closed="left")],
        "gap_of": [StrOptions({"labels", "probabilities"})],
        "assignment": [StrOptions({"blind", "aware"})],
        "ties": [StrOptions({"together", "split"})],
        "solver": [StrOptions({"dual", "em", "gd"})],
        "criterion": [StrOptions(CRITERIA.keys())],
        "min_group_size": [Interval(Integral, 1, None, closed="left")],
        "missing_groups": [StrOptions({"error", "drop", "group"})],
        "covariance_type": [StrOptions(FAMILIES.keys())],
        "categorical_features": ["array-like", StrOptions({"from_dtype"}), None],
        "handle_unknown": [StrOptions({"error", "ignore"})],
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
        max_gap: float = 0.01,
        fairness_strength: float | str = "auto",
        gap_of: str = "labels",
        assignment: str = "blind",
        ties: str = "together",
        solver: str = "dual",
        criterion: str = "gap",
        min_group_size: int = 30,
        missing_groups: MissingGroups = "error",
        covariance_type: str = "tied-spherical",
        categorical_features: object = "from_dtype",
        handle_unknown: str = "error",
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
        batch_size: float | None = None,
        fairness_sample_size: float | None = None,
        fairness_sample_replace: bool = False,
        subsample: float | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> None:
        self.n_components = n_components
        self.max_gap = max_gap
        self.fairness_strength = fairness_strength
        self.gap_of = gap_of
        self.assignment = assignment
        self.ties = ties
        self.solver = solver
        self.criterion = criterion
        self.min_group_size = min_group_size
        self.missing_groups = missing_groups
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

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        # Who has the hashes of training rows can ask for a person; see `_freshness`.
        return {name: value for name, value in state.items() if name != "_seen"}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = not self._complete
        return tags

    @with_callbacks
    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        sensitive_features: Any = None,
        sample_weight: ArrayLike | str | None = None,
    ) -> Self:
        """Fit the mixture.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features), or path
            NumPy array, pandas, Polars or Arrow table. Or files: a path, a pattern such as
            ``"data/*.parquet"``, a folder, or a list of these; Parquet, CSV or TSV, the last two
            also with ``.gz``. Files are read block by block in every pass, in constant memory,
            and give the bits of the same rows in a table. A column of a CSV file is numeric when
            all its values are numbers. Or a Dask array or data frame, fitted on the workers of
            the active ``distributed.Client``.
        y : ignored
            For scikit-learn's conventions. Groups are ``sensitive_features``: a ``y`` without them
            is an `IgnoredTargetWarning`.
        sensitive_features : str, array-like or table, default=None
            Group of each row; several columns form their intersections. A str names a column of
            X, which is then no feature; for files also a list of names. None fits a plain
            mixture.
        sample_weight : array-like of shape (n_rows,) or str, default=None
            Weights of at least 0. A weight of 2 counts as two equal rows, so scale weights that
            are shares to a mean of 1. For files the name of a column, with weights above 0.

        Returns
        -------
        FairMixture
            The fitted model.
        """
        warn_of_target(y, sensitive_features)
        self._validate_params()
        self._check_settings()
        metadata = {"sensitive_features": sensitive_features, "sample_weight": sample_weight}
        with self._task(X=X, y=y, metadata=metadata):
            self._learn(self._source(X, sensitive_features, sample_weight))
        return self

    def save(
        self, path: str | os.PathLike[str], *, metadata: Mapping[str, Any] | None = None
    ) -> Path:
        """Write the fitted model to a file, for `fairmix.load`.

        The file holds parameters and what was learned from the data; no code, no ``labels_``, no
        row and no row's group. It replaces an existing one in one step. ``checkpoint``, ``n_jobs``
        and ``verbose`` belong to a machine and stay behind, as does the sample of a stream.

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
        self._validate_params()
        given = {} if metadata is None else metadata
        parameters = self.get_params(deep=False)
        return write_model(path, Snapshot(__version__, parameters, self.__dict__, given))


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
        unknown = snapshot.parameters.keys() - FairMixture().get_params()
        if unknown:
            raise ValueError(f"model.json: parameters: {min(unknown)!r} is unknown.")
        model = FairMixture(**snapshot.parameters)
        model._validate_params()
    except ValueError as error:
        raise ModelFileError(f"{os.fspath(path)!r} cannot be loaded: {error}") from None
    model.__dict__.update(snapshot.fitted, metadata_=snapshot.metadata)
    model.verdict_ = verdict_of(model).word
    return model
