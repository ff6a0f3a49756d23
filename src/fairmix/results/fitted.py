"""What a fit has found: the one thing that predictions, files, reports and pictures read."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fairmix.criteria import AnyLimit, ByAttribute, MaxGap
from fairmix.input.columns import as_frame
from fairmix.input.groups import Attribute, Groups, MissingGroups, Seats
from fairmix.kernels.totals import FloatArray, IntArray, Rows
from fairmix.mixture.model import Model
from fairmix.results.freshness import TrainingRows
from fairmix.results.ratio import LeastRatio, least_ratio
from fairmix.results.verdict import MET, MET_FOR_JUDGED, Verdict, judge, worst_of


@dataclass(frozen=True)
class Rule:
    """What a fit is asked for.

    Attributes
    ----------
    criterion : str
        Name of the measure that ``gap_`` reports.
    limit : Limit, ByAttribute or None
        What is bounded, and by how much; None where there is no bound.
    of : {"labels", "probabilities"}
        What the bound is on.
    min_group_size : int
        Groups of fewer rows are not judged.
    missing_groups : {"error", "drop", "group"}
        What a missing group is.
    """

    criterion: str
    limit: AnyLimit | None
    of: Literal["labels", "probabilities"]
    min_group_size: int
    missing_groups: MissingGroups

    @property
    def max_gap(self) -> float:
        """What the gap may be; infinite where something else is bounded, or nothing."""
        return self.limit.bound if isinstance(self.limit, MaxGap) else math.inf

    @property
    def metric(self) -> str:
        """What is bounded, or else what ``gap_`` reports, by its name in `fairmix.metrics`."""
        ratios = {"min_ratio": "rate_ratio", "min_balance": "balance"}
        parameter = "max_gap" if self.limit is None else self.limit.parameter
        return ratios.get(parameter, self.criterion)

    @property
    def text(self) -> str:
        """The parameter and its number."""
        if self.limit is None:
            return "no bound"
        if isinstance(self.limit, ByAttribute):
            bounds = (f"{limit.bound:g} for {name}" for name, limit in self.limit.limits.items())
            return f"{self.limit.parameter}={', '.join(bounds)}"
        return f"{self.limit.parameter}={self.limit.bound:g}"


@dataclass(frozen=True, eq=False)
class Fairness:
    """How groups fare on the rows of a fit; NaN and None where fewer than two are judged.

    Attributes
    ----------
    label_gap, soft_gap : float
        The criterion on hard labels and on responsibilities.
    ratio, balance : float
        Smallest ratio of two groups' rates, and of their sizes, within a cluster, of what the rule
        is on.
    rates : (M, K) array or None
        Share of each group in each cluster, of what the rule is on.
    resolution : float
        What whole rows can resolve.
    strength : float
        The strength of the penalty whose fit this is.
    attributes : tuple of Fairness
        Of each of several attributes; the figures here are then those of the worst. Else empty.
    """

    label_gap: float = math.nan
    soft_gap: float = math.nan
    ratio: float = math.nan
    balance: float = math.nan
    rates: FloatArray | None = None
    resolution: float = math.nan
    strength: float = 0.0
    attributes: tuple[Fairness, ...] = ()

    @classmethod
    def worst(cls, attributes: Sequence[Fairness], strength: float) -> Fairness:
        """Of several attributes: the worst figures, and the rates of all."""
        rates = [one.rates for one in attributes if one.rates is not None]
        return cls(
            label_gap=max(one.label_gap for one in attributes),
            soft_gap=max(one.soft_gap for one in attributes),
            ratio=min(one.ratio for one in attributes),
            balance=min(one.balance for one in attributes),
            rates=np.vstack(rates),
            resolution=max(one.resolution for one in attributes),
            strength=strength,
            attributes=tuple(attributes),
        )

    def gap(self, of: str) -> float:
        """The criterion on labels or probabilities."""
        return self.label_gap if of == "labels" else self.soft_gap


@dataclass(frozen=True, eq=False)
class Fitted:
    """All that a fit has found.

    Attributes
    ----------
    model : Model
        Assigns new rows: columns, mixture, parameters and tilt.
    rule : Rule
        What was asked for.
    groups : Groups
        The groups that are judged, their sizes, and those that are not; no codes of rows.
    fairness : Fairness
        How they fare.
    lower_bound : float
        The objective reached.
    history : structured array
        One row per iteration.
    converged : bool
        Whether it ended before the most iterations.
    filled : int
        Clusters with members.
    n_passes : float or None
        Passes over the data; None for a stream.
    labels : (N,) array or None
        Cluster of each row; None where the rows do not stay in memory.
    set_aside : tuple of str
        Columns that came with X and are not features: groups and weights.
    streamed : bool
        Whether the rows came in batches of a stream.
    training_rows : TrainingRows or None
        What is remembered of the rows, in this process only.
    """

    model: Model
    rule: Rule
    groups: Groups
    fairness: Fairness
    lower_bound: float
    history: NDArray[Any]
    converged: bool
    filled: int
    n_passes: float | None = None
    labels: IntArray | None = None
    set_aside: tuple[str, ...] = ()
    streamed: bool = False
    training_rows: TrainingRows | None = field(default=None, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        # Who has the hashes of training rows can ask for a person; see `freshness`.
        return {**self.__dict__, "training_rows": None}

    @property
    def gap(self) -> float:
        """The criterion on what the rule is on."""
        return self.fairness.gap(self.rule.of)

    @property
    def verdict(self) -> Verdict:
        """Whether the rows of the fit meet the rule; of several attributes, all of them."""
        worst = worst_of(list(self.verdicts.values()))
        # An attribute with too few judged groups is not among the verdicts.
        word = MET_FOR_JUDGED if worst.word == MET and self.groups.unjudged else worst.word
        return replace(worst, word=word, unjudged=self.groups.unjudged)

    @property
    def verdicts(self) -> dict[str, Verdict]:
        """The verdict on each attribute, by name."""
        groups = self.groups
        if not self.fairness.attributes:
            return {groups.title: self._judged("", groups, self.fairness)}
        pairs = zip(groups.attributes, self.fairness.attributes, strict=True)
        return {own.title: self._judged(own.title, own, fairness) for own, fairness in pairs}

    def _judged(self, title: str, groups: Groups | Attribute, fairness: Fairness) -> Verdict:
        # Worked out when asked for, so that word and numbers cannot disagree.
        limit = None if self.rule.limit is None else self.rule.limit.of(title)
        parameter = "max_gap" if limit is None else limit.parameter
        found = {
            "max_gap": fairness.gap(self.rule.of),
            "min_ratio": fairness.ratio,
            "min_balance": fairness.balance,
        }
        return judge(
            float(found[parameter]),
            math.inf if limit is None else limit.bound,
            resolution=float(fairness.resolution),
            n_judged=len(groups.names),
            unjudged=groups.unjudged,
            parameter=parameter,
        )

    @property
    def by_attribute(self) -> dict[str, Fitted]:
        """The fit as if each of several attributes were the only one, by name; else this one."""
        if not self.fairness.attributes:
            return {self.groups.title: self}
        rule, pairs = self.rule, zip(self.groups.attributes, self.fairness.attributes, strict=True)
        return {
            own.title: replace(
                self,
                rule=replace(rule, limit=None if rule.limit is None else rule.limit.of(own.title)),
                groups=replace(
                    Groups.none(),
                    names=own.names,
                    sizes=own.sizes,
                    title=own.title,
                    unjudged=own.unjudged,
                ),
                fairness=fairness,
            )
            for own, fairness in pairs
        }

    @property
    def least_ratio(self) -> LeastRatio | None:
        """The smallest ratio of two groups' rates, of what the rule is on, and where it is."""
        found = [
            least_ratio(
                one.fairness.rates,
                # With the attribute, where there are several.
                [f"{title}: {name}" for name in one.groups.names]
                if self.groups.attributes
                else one.groups.names,
            )
            for title, one in self.by_attribute.items()
        ]
        known = [one for one in found if one is not None]
        return min(known, key=lambda one: one.value) if known else None

    @property
    def n_components(self) -> int:
        """K."""
        return self.model.mixture.n_components

    @property
    def n_rows(self) -> int:
        """Rows of all groups, 0 where there are no groups."""
        return int(self.groups.sizes.sum()) + sum(self.groups.unjudged.values())

    @property
    def seats(self) -> Seats:
        """How new rows are seated: by their groups for an aware map only."""
        # A blind map must give the same answer whether or not groups are passed.
        if not self.model.aware:
            return Seats(1, aside=False)
        membership, aside = self.model.membership, self.model.places_aside
        n_codes = len(self.groups.names) if membership is None else membership.n_cells
        return Seats(n_codes, aside, membership)

    def features(self, X: Any, named: Sequence[str] = ()) -> Any:
        """X without columns that are not features: those of the fit, and others that are named."""
        # A column of groups may be a feature, too, where the fit had it as one.
        known = self.model.columns.names
        aside = (*self.set_aside, *(name for name in named if name not in known))
        frame = as_frame(X) if aside else None
        if frame is None:
            return X
        # Not strict: new rows need not bring their groups.
        return frame.drop(*dict.fromkeys(aside), strict=False).to_native()

    def rows(self, X: Any, *, ignore_unknown: bool = False) -> Rows:
        """Rows of a table as the model sees them.

        X is a data frame or an array whose columns are those of the fit.
        """
        features = self.features(X)
        frame = as_frame(features)
        # Passed in, because it is a choice for these rows and may change after the fit.
        columns = replace(self.model.columns, ignore_unknown=ignore_unknown)
        return columns.rows(np.asarray(features) if frame is None else frame)

    def attributes(self) -> dict[str, Any]:
        """What an estimator publishes, by public name."""
        fairness, groups = self.fairness, self.groups
        found: dict[str, Any] = {
            f"{name}_": value for name, value in self.model.parameters().items()
        }
        found |= {
            "categories_": [np.array(names) for names in self.model.columns.levels],
            "groups_": _published(groups, lambda own: np.array(own.names, dtype=str)),
            "group_sizes_": _published(groups, lambda own: own.sizes),
            "attributes_": [own.title for own in groups.attributes],
            "unjudged_groups_": dict(groups.unjudged),
            "gap_": self.gap,
            "label_gap_": fairness.label_gap,
            "soft_gap_": fairness.soft_gap,
            "ratio_": fairness.ratio,
            "balance_": fairness.balance,
            "rates_": fairness.rates,
            "resolution_": fairness.resolution,
            "verdict_": self.verdict.word,
            "fairness_strength_": fairness.strength,
            "lower_bound_": self.lower_bound,
            "history_": self.history,
            "n_iter_": len(self.history),
            "converged_": self.converged,
        }
        # Left out rather than None, because callers ask with `hasattr`, as with scikit-learn.
        if self.n_passes is not None:
            found["n_passes_"] = self.n_passes
        if self.labels is not None:
            found["labels_"] = self.labels
        return found


def _published(groups: Groups, what: Callable[[Groups | Attribute], Any]) -> Any:
    """Of all groups, or a list of those of each attribute."""
    return [what(own) for own in groups.attributes] if groups.attributes else what(groups)
