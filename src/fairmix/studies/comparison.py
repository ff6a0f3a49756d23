"""Comparison: several clustering methods on the same rows, by the same measures."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from inspect import signature
from math import inf, nan
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import DensityMixin, clone
from sklearn.cluster import KMeans
from sklearn.model_selection import train_test_split
from sklearn.utils import check_array

from fairmix import metrics
from fairmix.baselines import AlignedFairKMeans, FairletKMeans, VariationalFairKMeans
from fairmix.criteria import CRITERIA, criterion_named
from fairmix.estimator import FairMixture
from fairmix.input.groups import MissingGroups
from fairmix.results.verdict import MIN_GROUP_SIZE, Verdict, judge_counts
from fairmix.studies.comparison_table import HELD_OUT, Comparison, MethodRow, mark_beaten
from fairmix.system.memory import PeakMemory
from fairmix.system.progress import progress

__all__ = ["Comparison", "MethodRow", "compare", "default_methods"]


def compare(
    methods: Mapping[str, Any] | None,
    X: Any,
    *,
    sensitive_features: Any,
    n_clusters: int | None = None,
    test_size: float | None = None,
    criterion: str = "gap",
    min_group_size: int = MIN_GROUP_SIZE,
    missing_groups: MissingGroups = "error",
    random_state: int = 0,
    verbose: int = 0,
) -> Comparison:
    """Fit several clustering methods to the same rows and measure them alike.

    A method that fails on the data has a row that says why; the others go on.

    Parameters
    ----------
    methods : mapping of str to clusterer, or None
        Unfitted scikit-learn clusterers by name, which are themselves left as they are. Those
        whose ``fit`` has a parameter ``sensitive_features`` get the groups. None: those of
        `default_methods`, with ``n_clusters``.
    X : array-like or data frame of shape (n_rows, n_features)
        Finite numbers; every method gets the same array.
    sensitive_features : str, array-like or table
        As in `FairMixture.fit`: the group of each row, or the name of a column of X.
    n_clusters : int, default=None
        Clusters of the default methods; only for ``methods=None``.
    test_size : float or int, default=None
        Share or number of random rows that no method learns from. Methods that assign unseen rows
        are measured on them too, without rows of a group that no row of the fit has.
    criterion : {"gap", "additive_gap", "worst_pair_gap"}, default="gap"
        What the gaps are; see `fairmix.metrics`.
    min_group_size : int, default=30
        Groups of fewer rows of the fit, or of the held-out rows, are not judged: gaps, balances
        and verdicts are of the others. Every method gets all rows.
    missing_groups : {"error", "drop", "group"}, default="error"
        What a missing value in ``sensitive_features`` is: an error, a row that no method gets, or
        the group "missing".
    random_state : int, default=0
        Seed of the split and of the default methods.
    verbose : int, default=0
        1 shows a progress bar on stderr.

    Returns
    -------
    Comparison

    Notes
    -----
    The verdict of a method is on its own bound: ``max_gap`` of a `FairMixture` with
    ``fairness_strength="auto"``, by its own criterion, and ``max_gap`` of `AlignedFairKMeans`,
    which is for every pair of groups. Other methods have no bound.

    ``peak_mb`` is the highest resident memory of the process during ``fit`` less that right before
    it, as the kernel counts it: memory of compiled code is in it, that of other processes is not.
    It is an estimate: pages that an allocator kept from earlier work are used again unseen, and
    libraries loaded during ``fit`` count. It is NaN where the kernel does not tell, that is, other
    than on Linux. ``seconds`` are of one run, with the threads that each method uses.

    Examples
    --------
    >>> from sklearn.cluster import KMeans
    >>> from fairmix import FairMixture, compare
    >>> from fairmix.datasets import make_grouped_blobs
    >>> X, groups, _ = make_grouped_blobs(300, 2, separation=3.0, random_state=0)
    >>> methods = {
    ...     "K-means": KMeans(2, n_init=1, random_state=0),
    ...     "fair mixture": FairMixture(2, assignment="aware", random_state=0),
    ... }
    >>> table = compare(methods, X, sensitive_features=groups)
    >>> [(row.method, row.needs_group) for row in table.rows]
    [('K-means', 'never'), ('fair mixture', 'yes')]
    """
    criterion_named(criterion)
    chosen = _read_methods(methods, n_clusters, criterion, min_group_size, random_state)
    # The same door as that of the model, which takes names of columns.
    door = FairMixture(min_group_size=min_group_size, missing_groups=missing_groups)
    door._validate_params()
    X, groups = door._take_groups(X, sensitive_features)
    if groups is None:
        raise ValueError(
            "sensitive_features=None: a comparison tells how groups fare under several methods. "
            "Give the group of each row."
        )
    data = check_array(X, dtype=(np.float64, np.float32), order="C", input_name="X")
    known = groups.codes >= 0
    names = np.asarray(groups.names)[groups.codes[known]]
    train = _Rows(data[known], names, criterion, min_group_size)
    test = None
    if test_size is not None:
        parts = train_test_split(
            np.arange(len(train.X)), test_size=test_size, random_state=random_state
        )
        train, test = train.take(parts[0]), train.take(parts[1])
        # A group may be so small that none of its rows is in the fit: no map can place it.
        test = test.take(np.flatnonzero(np.isin(test.groups, train.groups)))
        test = replace(test, among=train.judged)
    rows, models = [], {}
    with progress("compare", len(chosen), shown=bool(verbose)) as tick:
        for name, method in chosen.items():
            row, model = _measure(name, method, train, test)
            rows.append(row)
            if model is not None:
                models[name] = model
            tick(f"{name}  gap {row.gap:.4f}")
    n_test = 0 if test is None else len(test.X)
    return Comparison(mark_beaten(rows), models, criterion, len(train.X), n_test, train.unjudged)


def default_methods(
    n_clusters: int,
    *,
    criterion: str = "gap",
    min_group_size: int = MIN_GROUP_SIZE,
    random_state: int = 0,
) -> dict[str, Any]:
    """K-means, the plain mixture, the fair mixtures and the baselines, with their defaults.

    Parameters
    ----------
    n_clusters : int
        Clusters of each.
    criterion : {"gap", "additive_gap", "worst_pair_gap"}, default="gap"
        What the fair mixtures bound.
    min_group_size : int, default=30
        Of the mixtures.
    random_state : int, default=0
        Seed of each.

    Returns
    -------
    dict of str to clusterer

    Examples
    --------
    >>> from fairmix.studies.comparison import default_methods
    >>> len(default_methods(3))
    7
    """
    fair: dict[str, Any] = {
        "criterion": criterion,
        "min_group_size": min_group_size,
        "random_state": random_state,
    }
    return {
        # As many starts as the baselines have.
        "K-means": KMeans(n_clusters, n_init=10, random_state=random_state),
        "plain mixture": FairMixture(n_clusters, fairness_strength=0, **fair),
        "fair mixture, blind": FairMixture(n_clusters, assignment="blind", **fair),
        "fair mixture, aware": FairMixture(n_clusters, assignment="aware", **fair),
        "FairletKMeans": FairletKMeans(n_clusters, random_state=random_state),
        "VariationalFairKMeans": VariationalFairKMeans(n_clusters, random_state=random_state),
        "AlignedFairKMeans": AlignedFairKMeans(n_clusters, random_state=random_state),
    }


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows, the name of the group of each, and what their gap is.

    ``among`` are the groups that may be judged; None: all.
    """

    X: NDArray[Any]
    groups: NDArray[Any]
    criterion: str
    min_group_size: int
    among: tuple[str, ...] | None = None

    def take(self, rows: NDArray[np.intp]) -> _Rows:
        return replace(self, X=self.X[rows], groups=self.groups[rows])

    @property
    def unjudged(self) -> dict[str, int]:
        """Groups that are too small, or too small in the fit, and their rows."""
        return self._judge(np.zeros(len(self.groups), dtype=int), inf, self.criterion).unjudged

    @property
    def judged(self) -> tuple[str, ...]:
        small = self.unjudged
        return tuple(name for name in np.unique(self.groups).tolist() if name not in small)

    def figures(self, model: Any, labels: Any, before: str = "") -> dict[str, Any]:
        """Figures of a fitted method, by their names in the table."""
        soft, soft_gap = None, nan
        if hasattr(model, "predict_proba"):
            soft = _ask(model.predict_proba, self)
            soft_gap = self._fairness(self._gap, soft)
        # Other methods have a score too, but it is no likelihood.
        density = isinstance(model, DensityMixin) and hasattr(model, "score_samples")
        bound, criterion, of = _bound(model)
        found = {
            "cost": metrics.clustering_cost(self.X, labels),
            "gap": self._fairness(self._gap, labels),
            "soft_gap": soft_gap,
            "balance": self._fairness(metrics.balance, labels),
            "nll": -float(np.mean(model.score_samples(self.X))) if density else nan,
            "verdict": self._judge(
                soft if of == "probabilities" else labels, bound, criterion, of
            ).word,
        }
        return {before + name: value for name, value in found.items()}

    def _gap(self, assignment: Any, groups: NDArray[Any]) -> float:
        """The criterion, which need not be one of those in `fairmix.metrics`."""
        return CRITERIA[self.criterion].value(metrics.group_rates(assignment, groups))

    def _fairness(self, metric: Callable[..., float], assignment: Any) -> float:
        """A metric of the groups that are judged; NaN where they are fewer than two."""
        judged = self.judged
        if len(judged) < 2:
            return nan
        rows = np.isin(self.groups, judged)
        return metric(np.asarray(assignment)[rows], self.groups[rows])

    def _judge(self, assignment: Any, bound: float, criterion: str, of: str = "labels") -> Verdict:
        return judge_counts(
            metrics.group_counts(assignment, self.groups),
            np.unique(self.groups).tolist(),
            bound,
            criterion=criterion,
            min_group_size=self.min_group_size,
            among=self.among,
            of=of,
        )


def _bound(model: Any) -> tuple[float, str, str]:
    """The bound that a method keeps by its own account, its criterion, and what it is of."""
    if isinstance(model, FairMixture) and model.fairness_strength == "auto":
        return model.max_gap, model.criterion, model.gap_of
    if isinstance(model, AlignedFairKMeans):
        return model.max_gap, "worst_pair_gap", "labels"
    return inf, "gap", "labels"


def _measure(name: str, method: Any, train: _Rows, test: _Rows | None) -> tuple[MethodRow, Any]:
    """The row of a method, and the fitted model, None if it failed."""
    row = MethodRow(name)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        # Whatever goes wrong in one method must not cost the results of the others.
        try:
            model, row = _fit(row, clone(method), train)
        except Exception as error:
            model, row = None, replace(MethodRow(name), error=f"{type(error).__name__}: {error}")
        said = []
        if test is not None and row.assigns_unseen:
            try:
                labels = _ask(model.predict, test)
                row = replace(row, **test.figures(model, labels, HELD_OUT))
            except Exception as error:
                said = [f"no figures of held-out rows: {error}"]
    said = [*(str(warning.message) for warning in caught), *said]
    return replace(row, warnings=tuple(dict.fromkeys(said))), model


def _fit(row: MethodRow, model: Any, train: _Rows) -> tuple[Any, MethodRow]:
    memory = PeakMemory()
    began = time.perf_counter()
    _ask(model.fit, train)
    seconds, peak = time.perf_counter() - began, memory.growth()
    needs_group = _needs_group(model, train)
    # Mixtures of scikit-learn have no labels_.
    labels = model.labels_ if hasattr(model, "labels_") else _ask(model.predict, train)
    row = replace(
        row,
        clusters=len(np.unique(labels)),
        seconds=seconds,
        peak_mb=peak,
        assigns_unseen=needs_group is not None,
        needs_group=needs_group,
        max_gap=_bound(model)[0],
        **train.figures(model, labels),
    )
    return model, row


def _ask(method: Any, rows: _Rows) -> Any:
    """Call with the rows, and with their groups if it takes them."""
    return method(rows.X, **({"sensitive_features": rows.groups} if _takes_groups(method) else {}))


def _takes_groups(method: Any) -> bool:
    return "sensitive_features" in signature(method).parameters


def _needs_group(model: Any, train: _Rows) -> Literal["yes", "no", "never"] | None:
    """What predict asks for, found by asking it; None if it gives no labels."""
    if not hasattr(model, "predict"):
        return None
    one = train.take(np.arange(1))
    with suppress(Exception):
        model.predict(one.X)
        return "no" if _takes_groups(model.fit) else "never"
    with suppress(Exception):
        _ask(model.predict, one)
        return "yes"
    return None


def _read_methods(
    methods: Mapping[str, Any] | None,
    n_clusters: int | None,
    criterion: str,
    min_group_size: int,
    random_state: int,
) -> Mapping[str, Any]:
    if methods is None:
        if n_clusters is None:
            raise ValueError(
                "methods=None asks for the default methods, which need n_clusters. Give it."
            )
        return default_methods(
            n_clusters,
            criterion=criterion,
            min_group_size=min_group_size,
            random_state=random_state,
        )
    if n_clusters is not None:
        raise ValueError(
            f"n_clusters={n_clusters!r} is for methods=None. Set the number in each method."
        )
    if not isinstance(methods, Mapping) or not methods:
        raise TypeError(f"methods={methods!r}. Give a dict of names and clusterers, or None.")
    for name, method in methods.items():
        if not hasattr(method, "fit") or not hasattr(method, "get_params"):
            raise TypeError(
                f"methods[{name!r}]={method!r} is no scikit-learn clusterer. Give an object with "
                "fit and get_params, such as KMeans(3)."
            )
    return methods
