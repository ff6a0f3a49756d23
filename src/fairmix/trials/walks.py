"""Walks over bounds, and over numbers of clusters: one fit, or two, at each step."""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import inf, isnan
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from fairmix.criteria import LIMITS, limit_of
from fairmix.estimator import FairMixture
from fairmix.input.naming import weight_values
from fairmix.kernels.totals import IntArray, Rows
from fairmix.metrics import clustering_cost
from fairmix.mixture.propensity import Propensity, learned_once
from fairmix.results.verdict import MISSED
from fairmix.system.progress import progress
from fairmix.trials.rows import INFORMATION, FrontRow, SelectionRow, mark_dominated

__all__ = [
    *("FREE", "MAX_GAPS", "MIN_RATIOS", "NUMBERS"),
    *("Trials", "at_bound", "label_cost", "read_bounds"),
]

# From exact to loose, about doubling, so that a picture shows the points apart.
MAX_GAPS = (0, 0.005, 0.01, 0.02, 0.05, 0.1)
# From even to loose, with the four-fifths rule among them.
MIN_RATIOS = (1, 0.95, 0.9, 0.8, 0.6, 0.4)
# A fit has one rule, so what the estimator asks for gives way to the rule of the walk.
NO_RULE = {"max_gap": "auto", "min_ratio": None, "min_balance": None}
# One cluster has no gap, and beyond ten a person no longer reads a table of clusters.
NUMBERS = range(2, 11)
# Parameters of a fit without a rule.
FREE = {**NO_RULE, "fairness_strength": 0}


@dataclass(frozen=True, eq=False)
class _Fit:
    """A fitted model, what it warned of, and how long it took."""

    model: FairMixture
    warnings: tuple[str, ...]
    seconds: float

    @property
    def non_empty(self) -> int:
        # Of the labels: a component may have weight and still be nobody's most probable one.
        if hasattr(self.model, "labels_"):
            return len(np.unique(self.model.labels_))
        # Labels of files are not kept; rates tell which clusters have rows.
        rates = self.model.rates_
        return 0 if rates is None else int((rates > 0).any(axis=0).sum())

    def rank(self) -> tuple[bool, int, float]:
        """Of two fits for one bound, the higher is kept."""
        # A bound that is kept by empty clusters is no success, so clusters count before likelihood.
        return self.model.verdict_ != MISSED, self.non_empty, self.model.lower_bound_

    @property
    def figures(self) -> dict[str, Any]:
        """What the rows of both tables have in common."""
        model = self.model
        return {
            "gap": float(model.gap_),
            "label_gap": float(model.label_gap_),
            "soft_gap": float(model.soft_gap_),
            "balance": float(model.balance_),
            "ratio": float(model.ratio_),
            "non_empty": self.non_empty,
            "verdict": model.verdict_,
            "warnings": self.warnings,
        }


@dataclass(eq=False)
class Trials:
    """Fits of copies of one estimator to one data set.

    Parameters
    ----------
    estimator : FairMixture
        The model; itself left as it is.
    X, sensitive_features, sample_weight
        As in `FairMixture.fit`.
    verbose : int, default=0
        1 shows a progress bar on stderr.
    """

    estimator: FairMixture
    X: Any
    sensitive_features: Any
    sample_weight: ArrayLike | None = None
    verbose: int = 0
    seen: set[str] = field(default_factory=set, init=False)
    known: dict[bytes, Propensity] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        # Here, so that a wrong estimator fails before the first fit.
        if not isinstance(self.estimator, FairMixture):
            raise TypeError(f"estimator={self.estimator!r} is not a FairMixture. Pass one.")

    def over_bounds(
        self, rule: str, given: Iterable[float]
    ) -> tuple[tuple[FrontRow, ...], tuple[FairMixture, ...]]:
        """Rows and models, from the tightest bound to the loosest: see `fairmix.pareto_front`.

        ``rule`` is the parameter that is walked over, ``given`` are its bounds.
        """
        bounds = _sorted_bounds(rule, given)
        self._check_bounded(rule)
        kept: list[_Fit] = []
        seconds = [0.0] * len(bounds)
        # Three fits per bound, but the first has no tighter neighbour and the last no looser one.
        with progress("front", 3 * len(bounds) - 2, shown=bool(self.verbose)) as tick:

            def offer(place: int, found: _Fit) -> None:
                seconds[place] += found.seconds
                tick(_said(rule, bounds[place], found))
                if place == len(kept):
                    kept.append(found)
                else:
                    kept[place] = max(kept[place], found, key=_Fit.rank)

            for place, bound in enumerate(bounds):
                # Off, whatever the user set: this one is the fit that owes nothing to the others.
                chosen = at_bound(rule, bound)
                offer(place, self._fit(clone(self.estimator), warm_start=False, **chosen))
                if place:
                    # The model of a tighter bound is feasible for this one, so a loose bound never
                    # ends worse than a tight one for want of a good start. A copy, not a clone,
                    # which would drop what was fitted.
                    tighter = copy.copy(kept[place - 1].model)
                    offer(place, self._fit(tighter, warm_start=True, **chosen))
            for place in reversed(range(len(bounds) - 1)):
                looser = copy.copy(kept[place + 1].model)
                offer(place, self._fit(looser, warm_start=True, **at_bound(rule, bounds[place])))
        rows = [self._front_row(rule, *row) for row in zip(bounds, kept, seconds, strict=True)]
        return mark_dominated(rows), tuple(fit.model for fit in kept)

    def around(
        self, model: FairMixture, rule: str, bounds: Sequence[float]
    ) -> tuple[tuple[FrontRow, ...], tuple[FairMixture, ...]]:
        """About what other bounds cost, beside a model that is there and has one of them.

        Each bound is fitted once, from this model, which is a point as it is; costs are those of
        the labels of the rows here, of which the model may have seen more.
        """
        limit = limit_of(
            max_gap=model.max_gap, min_ratio=model.min_ratio, min_balance=model.min_balance
        )
        own = None if limit is None else limit.of("").bound
        # Each fit scales columns by its own rows; distances are compared by those of one of them.
        scaled = model.fitted_.rows(self.X, ignore_unknown=True)
        rows, models = [], []
        with progress("other bounds", len(bounds) - 1, shown=bool(self.verbose)) as tick:
            for bound in bounds:
                found = _Fit(model, (), 0.0)
                if bound != own:
                    settings = self.estimator.get_params(deep=False) | at_bound(rule, bound)
                    found = self._fit(copy.copy(model), **settings | {"warm_start": True})
                    tick(_said(rule, bound, found))
                rows.append(self._front_row(rule, bound, found, found.seconds, scaled))
                models.append(found.model)
        return mark_dominated(rows), tuple(models)

    def over_numbers(
        self, n_components: Iterable[int], criterion: str
    ) -> tuple[tuple[SelectionRow, ...], tuple[FairMixture, ...]]:
        """Rows and models by number of clusters: see `fairmix.select_n_components`."""
        if criterion not in INFORMATION:
            raise ValueError(f"criterion={criterion!r}. Choose one of {', '.join(INFORMATION)}.")
        numbers = _read_numbers(n_components)
        plain = self.sensitive_features is None or self.estimator.fairness_strength == 0
        rows, models = [], []
        with progress("clusters", len(numbers), shown=bool(self.verbose)) as tick:
            for number in numbers:
                kept = self._fit(clone(self.estimator), n_components=number)
                # The number of clusters is a matter of the density. A bound moves components away
                # from where the likelihood wants them, and more of them then make up for it.
                free = kept
                if not plain:
                    free = self._fit(clone(self.estimator), n_components=number, **FREE)
                gap = "" if isnan(kept.model.gap_) else f"  gap {kept.model.gap_:.4f}"
                tick(f"n_components {number}{gap}")
                figures = {name: getattr(free.model, name)(self.X) for name in INFORMATION}
                figures |= {**kept.figures, "seconds": sum(fit.seconds for fit in {kept, free})}
                rows.append(SelectionRow(n_components=number, **figures))
                models.append(kept.model)
        return tuple(rows), tuple(models)

    def _fit(self, model: FairMixture, **chosen: Any) -> _Fit:
        """Fit; warnings that are not about convergence are shown, each once."""
        given = self.estimator.get_params(deep=False)
        # Two bars at once garble the terminal, so the outer one silences the inner one.
        model.set_params(**({"verbose": 0} if self.verbose else {}), **chosen)
        began = time.perf_counter()
        with warnings.catch_warnings(record=True) as caught, learned_once(self.known):
            warnings.simplefilter("always")
            model.fit(
                self.X,
                sensitive_features=self.sensitive_features,
                sample_weight=self.sample_weight,
            )
        seconds = time.perf_counter() - began
        # The model is given back as if the user had fitted it.
        model.set_params(verbose=given["verbose"], warm_start=given["warm_start"])
        # How well a fit converged belongs to its row; all else is about the data, and said at once.
        own = [str(w.message) for w in caught if issubclass(w.category, ConvergenceWarning)]
        for warning in caught:
            text = str(warning.message)
            if text not in own and text not in self.seen:
                self.seen.add(text)
                # At the line that called the study: above it stand the walk and this method.
                warnings.warn(text, warning.category, stacklevel=4)
        return _Fit(model, tuple(dict.fromkeys(own)), seconds)

    def _front_row(
        self, rule: str, bound: float, kept: _Fit, seconds: float, rows: Rows | None = None
    ) -> FrontRow:
        """The figures of a fit; ``rows`` are those that distances are of, its own if None."""
        model = kept.model
        weight = weight_values(self.X, self.sample_weight)
        labels = model.labels_ if hasattr(model, "labels_") else np.zeros(0, dtype=np.int32)
        if rows is None:
            rows = model.fitted_.rows(self.X, ignore_unknown=True)
        if len(labels) != rows.n_rows:
            # A model of other rows, of which these are a sample.
            aware = model.fitted_.model.aware
            labels = model.predict(
                self.X, sensitive_features=self.sensitive_features if aware else None
            )
        cost = label_cost(rows, labels, weight)
        nll = -model.score(self.X, sample_weight=self.sample_weight)
        bounds: dict[str, Any] = {"max_gap": inf, rule: bound}
        return FrontRow(**bounds, cost=cost, nll=nll, seconds=seconds, **kept.figures)

    def _check_bounded(self, rule: str) -> None:
        if self.sensitive_features is None:
            raise ValueError(
                "sensitive_features=None: a front compares how groups fare under several bounds. "
                "Give the group of each row."
            )
        strength = self.estimator.fairness_strength
        if strength != "auto":
            raise ValueError(
                f"fairness_strength={strength!r} leaves {rule} unused, and a front walks over "
                f"{rule}. Set fairness_strength='auto'."
            )


def at_bound(rule: str, bound: float) -> dict[str, Any]:
    """Parameters of a bound; without one they are those of the plain mixture."""
    # No bound at all: the gap may be anything, or the ratio.
    if bound == (0 if LIMITS[rule].at_least else inf):
        return FREE
    return {**NO_RULE, "fairness_strength": "auto", rule: bound}


def label_cost(rows: Rows, labels: IntArray, weight: ArrayLike | None = None) -> float:
    """Squared distances of rows to the means of their clusters, of the values that they have.

    A category counts as columns of 0 and 1, one for each, whose squares are then those of a
    column of numbers: about 1 where clusters tell nothing of it.

    Examples
    --------
    >>> codes = np.array([[0], [0], [1], [1]])
    >>> label_cost(Rows(None, codes), np.array([0, 0, 0, 1]))
    1.3333333333333333
    """
    numeric, cost = rows.numeric, 0.0
    if numeric is not None:
        # Column by column only where values are missing: each then has rows of its own.
        gaps = np.isnan(numeric)
        some = gaps.any(axis=0)
        if not some.all():
            cost += clustering_cost(numeric[:, ~some], labels, sample_weight=weight)
        for j in np.flatnonzero(some):
            here = ~gaps[:, j]
            own = None if weight is None else np.asarray(weight)[here]
            cost += clustering_cost(numeric[here, j : j + 1], labels[here], sample_weight=own)
    for codes in () if rows.codes is None else rows.codes.T:
        here = codes >= 0
        size = (int(labels.max()) + 1, int(codes.max()) + 1)
        cells = labels[here].astype(np.intp) * size[1] + codes[here]
        own = None if weight is None else np.asarray(weight, dtype=np.float64)[here]
        mass = np.bincount(cells, own, size[0] * size[1]).reshape(size)
        total = mass.sum(axis=1)
        # The sum of p (1 - p) over categories, times the rows.
        cost += float((total - np.square(mass).sum(axis=1) / np.where(total > 0, total, 1)).sum())
    return cost


def read_bounds(
    estimator: FairMixture,
    max_gaps: Iterable[float] | None = None,
    min_ratios: Iterable[float] | None = None,
    min_balances: Iterable[float] | None = None,
) -> tuple[str, Iterable[float]]:
    """The parameter to walk over, and its bounds: the list that is given, or usual values."""
    lists = {"max_gap": max_gaps, "min_ratio": min_ratios, "min_balance": min_balances}
    given = {name: bounds for name, bounds in lists.items() if bounds is not None}
    if len(given) > 1:
        names = " and ".join(f"{name}s" for name in given)
        raise ValueError(f"{names} are lists of two rules, and a front has one. Give one of them.")
    for name, bounds in given.items():
        return name, bounds
    if getattr(estimator, "min_balance", None) is not None:
        # What Balance can be depends on the sizes of the groups, so there are no usual values.
        raise ValueError(
            f"min_balance={estimator.min_balance}: a front of Balance needs min_balances, such as "
            "(0.4, 0.3, 0.2). Give it."
        )
    if getattr(estimator, "min_ratio", None) is not None:
        return "min_ratio", MIN_RATIOS
    return "max_gap", MAX_GAPS


def _said(rule: str, bound: float, kept: _Fit) -> str:
    noun = LIMITS[rule].noun
    return f"{rule} {bound:g}  {noun} {getattr(kept.model, f'{noun}_'):.4f}"


def _sorted_bounds(rule: str, bounds: Iterable[float]) -> list[float]:
    """The bounds, each once, from tight to loose."""
    given = np.asarray(list(bounds), dtype=np.float64)
    shaped = given.ndim == 1 and given.size > 0 and bool((given >= 0).all())
    if LIMITS[rule].at_least:
        if not shaped or (given > 1).any():
            raise ValueError(
                f"{rule}s={bounds!r}. Give one or more bounds from 0 to 1, such as (0.9, 0.8, 0)."
            )
        return [float(bound) for bound in np.unique(given)[::-1]]
    if not shaped:
        raise ValueError(
            f"{rule}s={bounds!r}. Give one or more bounds of at least 0, such as (0, 0.01, 0.1)."
        )
    # From tight to loose, because the model of each bound is a start for the next.
    return [float(bound) for bound in np.unique(given)]


def _read_numbers(n_components: Iterable[int]) -> list[int]:
    """Numbers of clusters, each once, in ascending order."""
    given = list(n_components)
    if not given or not all(isinstance(number, Integral) and number >= 1 for number in given):
        raise ValueError(
            f"n_components={n_components!r}. Give one or more whole numbers of at least 1, "
            "such as range(2, 11)."
        )
    return sorted({int(number) for number in given})
