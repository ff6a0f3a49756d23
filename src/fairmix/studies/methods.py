"""Methods of a comparison: which there are, and what is measured of one on given rows."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from inspect import signature
from math import inf, nan
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import DensityMixin, clone
from sklearn.cluster import KMeans

from fairmix import metrics
from fairmix.baselines import AlignedFairKMeans, FairletKMeans, VariationalFairKMeans
from fairmix.criteria import CRITERIA, Limit, MaxGap
from fairmix.estimator import FairMixture
from fairmix.results.verdict import MIN_GROUP_SIZE, Verdict, judge_counts, met_of
from fairmix.system.autologging import without_autologging
from fairmix.system.memory import PeakMemory
from fairmix.trials.rows import dominated_points

__all__ = ["GroupedRows", "MethodRow", "default_methods", "mark_beaten", "measure", "read_methods"]

HELD_OUT = "test_"  # begins the names of figures of held-out rows


@dataclass(frozen=True)
class MethodRow:
    """One method of a `Comparison`. What is not defined is NaN or None.

    Attributes
    ----------
    method : str
        Its name.
    cost : float
        Squared distances of the rows to the means of their clusters.
    gap : float
        The criterion of the comparison, of the labels and of the groups that are judged.
    soft_gap : float
        The same of the probabilities, for methods that have some.
    ratio, balance : float
        Smallest ratio of two groups' rates, and of their sizes, within a cluster, of the labels.
        Measured of every method; only a `FairMixture` is judged by a bound on them.
    nll : float
        Minus the mean log-likelihood, for mixtures.
    test_cost, test_gap, test_soft_gap, test_ratio, test_balance, test_nll : float
        The same of the held-out rows, for methods that assign unseen rows.
    max_gap : float
        The method's own bound on the gap; infinite where it has none.
    min_ratio, min_balance : float or None
        The bound of a `FairMixture` on its ratio, or on its Balance, if it has one.
    verdict, test_verdict : str or None
        Whether the method's own bound is met, on the rows of the fit and on held-out rows: one of
        the five words of ``FairMixture.verdict_``.
    clusters : int
        Clusters with members.
    seconds : float
        Of ``fit``.
    peak_mb : float
        Most memory that ``fit`` added to the process, in MB of 10^6 bytes. Linux only.
    assigns_unseen : bool or None
        Whether rows that were not in ``fit`` get a label.
    needs_group : {"yes", "no", "never"} or None
        Whether such rows must come with their group. ``"never"``: ``fit`` takes no group either.
    dominated : bool
        Whether another method is at least as good in gap and cost, and better in one.
    error : str or None
        Why the method has no figures.
    warnings : tuple of str
        What it warned of.

    Examples
    --------
    >>> MethodRow("K-means", cost=120.0, gap=0.1).gap
    0.1
    """

    method: str
    cost: float = nan
    gap: float = nan
    soft_gap: float = nan
    balance: float = nan
    nll: float = nan
    test_cost: float = nan
    test_gap: float = nan
    test_soft_gap: float = nan
    test_balance: float = nan
    test_nll: float = nan
    max_gap: float = nan
    verdict: str | None = None
    test_verdict: str | None = None
    clusters: int = 0
    seconds: float = nan
    peak_mb: float = nan
    assigns_unseen: bool | None = None
    needs_group: Literal["yes", "no", "never"] | None = None
    dominated: bool = False
    error: str | None = None
    warnings: tuple[str, ...] = ()
    ratio: float = nan
    test_ratio: float = nan
    min_ratio: float | None = None
    min_balance: float | None = None

    @property
    def met(self) -> bool | None:
        """Whether the bound is met; None where there is none, or nothing is judged."""
        return None if self.verdict is None else met_of(self.verdict)


def mark_beaten(rows: Sequence[MethodRow]) -> tuple[MethodRow, ...]:
    """The rows with ``dominated`` set, by gap and cost of the rows of the fit.

    Examples
    --------
    >>> rows = [MethodRow("a", 9.0, 0.1), MethodRow("b", 9.5, 0.1), MethodRow("failed")]
    >>> [row.dominated for row in mark_beaten(rows)]
    [False, True, False]
    """
    beaten = dominated_points([(row.gap, row.cost) for row in rows])
    return tuple(replace(row, dominated=below) for row, below in zip(rows, beaten, strict=True))


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
    >>> from fairmix.studies import default_methods
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
        # Tells apart what the bound costs and what a mixture costs beside K-means.
        "plain mixture": FairMixture(n_clusters, fairness_strength=0, **fair),
        "fair mixture, blind": FairMixture(n_clusters, assignment="blind", **fair),
        "fair mixture, aware": FairMixture(n_clusters, assignment="aware", **fair),
        "FairletKMeans": FairletKMeans(n_clusters, random_state=random_state),
        "VariationalFairKMeans": VariationalFairKMeans(n_clusters, random_state=random_state),
        "AlignedFairKMeans": AlignedFairKMeans(n_clusters, random_state=random_state),
    }


def read_methods(
    methods: Mapping[str, Any] | None,
    n_clusters: int | None,
    criterion: str,
    min_group_size: int,
    random_state: int,
) -> Mapping[str, Any]:
    """The methods that the user gives, checked, or the default ones."""
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
        # By what is used, not by class: clone needs get_params and nothing more.
        if not hasattr(method, "fit") or not hasattr(method, "get_params"):
            raise TypeError(
                f"methods[{name!r}]={method!r} is not a scikit-learn clusterer. Give an object "
                "with fit and get_params, such as KMeans(3)."
            )
    return methods


@dataclass(frozen=True, eq=False)
class GroupedRows:
    """Rows, the name of the group of each, and what their gap is.

    ``among`` are the groups that may be judged; None: all.
    """

    X: NDArray[Any]
    groups: NDArray[Any]
    criterion: str
    min_group_size: int
    among: tuple[str, ...] | None = None

    def take(self, rows: NDArray[np.intp]) -> GroupedRows:
        """Some of the rows."""
        return replace(self, X=self.X[rows], groups=self.groups[rows])

    @property
    def unjudged(self) -> dict[str, int]:
        """Groups that are too small, or too small in the fit, and their rows."""
        # One cluster for all: who is judged depends on the sizes of groups only.
        return self._judge(np.zeros(len(self.groups), dtype=int), MaxGap(inf)).unjudged

    @property
    def judged(self) -> tuple[str, ...]:
        """Groups that are large enough."""
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
        limit, of = _limit(model)
        found = {
            "cost": metrics.clustering_cost(self.X, labels),
            "gap": self._fairness(self._gap, labels),
            "soft_gap": soft_gap,
            "ratio": self._fairness(metrics.rate_ratio, labels),
            "balance": self._fairness(metrics.balance, labels),
            "nll": -float(np.mean(model.score_samples(self.X))) if density else nan,
            "verdict": self._judge(soft if of == "probabilities" else labels, limit, of).word,
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
        # Figures of judged groups only, as the verdict is; the methods
        # themselves have had all rows.
        rows = np.isin(self.groups, judged)
        return metric(np.asarray(assignment)[rows], self.groups[rows])

    def _judge(self, assignment: Any, limit: Limit, of: str = "labels") -> Verdict:
        return judge_counts(
            metrics.group_counts(assignment, self.groups),
            np.unique(self.groups).tolist(),
            limit,
            min_group_size=self.min_group_size,
            among=self.among,
            of=of,
        )


def _limit(model: Any) -> tuple[Limit, str]:
    """The limit that a method keeps by its own account, and what it is of."""
    if isinstance(model, FairMixture):
        rule = model.fitted_.rule
        # Attributes that are each compared by themselves are not the groups of the comparison.
        if rule.limit is None or model.fitted_.groups.attributes:
            return MaxGap(inf, rule.criterion), rule.of
        return rule.limit.of(""), rule.of
    # Its bound is on every pair of groups, whatever the comparison measures.
    if isinstance(model, AlignedFairKMeans):
        return MaxGap(model.max_gap, "worst_pair_gap"), "labels"
    # Others have no bound to be judged by: fairlets have their Balance by construction.
    return MaxGap(inf), "labels"


def measure(
    name: str, method: Any, train: GroupedRows, test: GroupedRows | None
) -> tuple[MethodRow, Any]:
    """The row of a method, and the fitted model, None if it failed."""
    row = MethodRow(name)
    with warnings.catch_warnings(record=True) as caught:
        # Otherwise Python shows a warning once, and later methods would seem to have none.
        warnings.simplefilter("always")
        # Whatever goes wrong in one method must not cost the results of the others.
        try:
            # A clone, because the same object may be given to several comparisons.
            model, row = _fit(row, clone(method), train)
        except Exception as error:
            # A row of its own: half of the figures of a failed method would be misread.
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


def _fit(row: MethodRow, model: Any, train: GroupedRows) -> tuple[Any, MethodRow]:
    # Before the clock starts, because it collects garbage first.
    memory = PeakMemory()
    began = time.perf_counter()
    with without_autologging():
        _ask(model.fit, train)
    seconds, peak = time.perf_counter() - began, memory.growth()
    # After the clock is read: asking predict is no part of the fit.
    needs_group = _needs_group(model, train)
    # Mixtures of scikit-learn have no labels_.
    limit, _ = _limit(model)
    bounds: dict[str, Any] = {"max_gap": inf, limit.parameter: limit.bound}
    labels = model.labels_ if hasattr(model, "labels_") else _ask(model.predict, train)
    row = replace(
        row,
        clusters=len(np.unique(labels)),
        seconds=seconds,
        peak_mb=peak,
        assigns_unseen=needs_group is not None,
        needs_group=needs_group,
        **bounds,
        **train.figures(model, labels),
    )
    return model, row


def _ask(method: Any, rows: GroupedRows) -> Any:
    """Call with the rows, and with their groups if it takes them."""
    return method(rows.X, **({"sensitive_features": rows.groups} if _takes_groups(method) else {}))


def _takes_groups(method: Any) -> bool:
    return "sensitive_features" in signature(method).parameters


def _needs_group(model: Any, train: GroupedRows) -> Literal["yes", "no", "never"] | None:
    """What predict asks for, found by asking it; None if it gives no labels."""
    # Found by trying, because a signature does not tell: AlignedFairKMeans has a predict
    # that refuses rows after a fit with groups.
    if not hasattr(model, "predict"):
        return None
    # One row is enough to see whether predict raises, and takes no time.
    one = train.take(np.arange(1))
    with suppress(Exception):
        model.predict(one.X)
        return "no" if _takes_groups(model.fit) else "never"
    with suppress(Exception):
        _ask(model.predict, one)
        return "yes"
    return None
