"""The verdict: is a bound on the rates of the groups met? Everybody who answers this asks here.

Labels move by whole rows, so a bound may be finer than they can follow. A value counts as met when
it is at most the bound, or at most the *resolution*: what whole rows can be asked to reach (see
``Criterion.resolution``). Nothing is added to a bound above it. A ratio or a Balance is met when it
is at least the bound; only where the best possible is asked for, one row is forgiven.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from fairmix.criteria import CRITERIA, LIMITS, Limit, MaxGap
from fairmix.criteria.bounds import ROUNDING, SOFT_RESOLUTION, reaches, within
from fairmix.kernels.totals import FloatArray

__all__ = ["Verdict", "judge", "judge_counts", "label_resolution", "verdict_of"]

# Words rather than numbers or flags: they stand in files, tables and reports as they are.
MET = "met"
MISSED = "missed"
MET_FOR_JUDGED = "met for the judged groups"
NOT_JUDGED = "not judged"
NO_BOUND = "no bound"

# Groups of fewer rows are not judged, unless the user says otherwise: below 30 rows one of them
# moves a rate by more than 0.03, which is more than the bounds that people ask for.
MIN_GROUP_SIZE = 30


@dataclass(frozen=True)
class Verdict:
    """Whether a bound is met.

    Attributes
    ----------
    word : str
        ``"met"``, ``"missed"``, ``"met for the judged groups"``, ``"not judged"``, ``"no bound"``.
    value : float
        What was measured: a gap, the smallest ratio or the Balance. NaN without two groups that
        are judged.
    bound : float
        What was asked for, infinite where nothing was.
    resolution : float
        What whole rows can resolve.
    unjudged : dict of str to int
        Groups that are too small to be judged, and their rows.
    parameter : {"max_gap", "min_ratio", "min_balance"}
        What the bound is on.
    """

    word: str
    value: float
    bound: float = math.inf
    resolution: float = 0.0
    unjudged: dict[str, int] = field(default_factory=dict)
    parameter: str = "max_gap"

    @property
    def noun(self) -> str:
        """What was measured, in a word."""
        return LIMITS[self.parameter].noun

    @property
    def at_least(self) -> bool:
        """Whether the value must be at least the bound, or at most."""
        return LIMITS[self.parameter].at_least

    @property
    def forgiven(self) -> bool:
        """Whether the bound is met only as closely as whole rows allow."""
        holds = reaches if self.at_least else within
        return self.holds and not holds(self.value, self.bound)

    @property
    def holds(self) -> bool:
        """Whether the bound is met for every group that is judged."""
        return self.word in (MET, MET_FOR_JUDGED)

    @property
    def met(self) -> bool | None:
        """Whether the bound is met; None where there is none, or nothing is judged."""
        return met_of(self.word)

    @property
    def figures(self) -> dict[str, Any]:
        """All of it, for programs."""
        return {
            "verdict": self.word,
            "met": self.met,
            self.noun: self.value,
            "resolution": self.resolution,
            "unjudged": dict(self.unjudged),
        }

    @property
    def rows(self) -> int:
        """How many rows too many a missed value is, about; 0 if that is not known."""
        if self.word != MISSED or math.isnan(self.value) or self.at_least:
            return 0
        # The resolution may be zero; the floor keeps the quotient finite.
        return math.ceil((self.value - self.bound) / max(self.resolution, ROUNDING))


def met_of(word: str) -> bool | None:
    """Whether a word of the five says that a bound is met; None where it says neither.

    Examples
    --------
    >>> met_of("met for the judged groups"), met_of("missed"), met_of("no bound")
    (True, False, None)
    """
    return {MET: True, MET_FOR_JUDGED: True, MISSED: False}.get(word)


def judge(
    value: float,
    bound: float,
    *,
    resolution: float,
    n_judged: int,
    unjudged: Mapping[str, int] | None = None,
    parameter: str = "max_gap",
) -> Verdict:
    """The verdict on a value.

    Parameters
    ----------
    value : float
        What the parameter limits, of the groups that are judged.
    bound : float
        What it may be; infinite for none.
    resolution : float
        See `label_resolution`; ``SOFT_RESOLUTION`` for probabilities.
    n_judged : int
        How many groups are judged.
    unjudged : mapping of str to int, optional
        The groups that are too small to be judged, and their rows.
    parameter : {"max_gap", "min_ratio", "min_balance"}, default="max_gap"
        What the bound is on.

    Examples
    --------
    >>> judge(0.0102, 0.01, resolution=0.0003, n_judged=2).word
    'missed'
    >>> judge(0.0002, 0.0, resolution=0.0003, n_judged=2).word
    'met'
    >>> judge(0.79, 0.8, resolution=0.0, n_judged=2, parameter="min_ratio").word
    'missed'
    """
    small = dict(unjudged or {})
    # First: where nothing was asked for, it is no news that groups are small.
    if math.isinf(bound) or n_judged + len(small) == 0:
        return Verdict(NO_BOUND, value, bound, resolution, small, parameter)
    if n_judged < 2:
        return Verdict(NOT_JUDGED, math.nan, bound, resolution, small, parameter)
    word = MISSED
    holds = reaches if LIMITS[parameter].at_least else within
    # A plain "met" would include the small groups, of which nothing is known.
    if holds(value, bound, resolution):
        word = MET_FOR_JUDGED if small else MET
    return Verdict(word, value, bound, resolution, small, parameter)


def farthest(verdicts: Sequence[Verdict]) -> int:
    """Which of several attributes under rules of one kind is the farthest beyond its bound.

    Where there is no bound, the one whose value is the worst.
    """

    def beyond(verdict: Verdict) -> tuple[bool, float, float]:
        sign = -1.0 if verdict.at_least else 1.0
        value = -math.inf if math.isnan(verdict.value) else sign * verdict.value
        return verdict.word == MISSED, value - sign * verdict.bound, value

    return max(range(len(verdicts)), key=lambda i: beyond(verdicts[i]))


def worst_of(verdicts: Sequence[Verdict]) -> Verdict:
    """The verdict on all of several attributes: that of the one farthest beyond its bound."""
    worst = verdicts[farthest(verdicts)]
    if worst.holds and any(verdict.word != MET for verdict in verdicts):
        return replace(worst, word=MET_FOR_JUDGED)
    return worst


def measure(
    limit: Limit, rates: FloatArray, sizes: FloatArray, steps: FloatArray, *, labels: bool
) -> tuple[float, float]:
    """What a limit is on, at the rates (M, K) of groups, and what is forgiven, in its own units.

    ``sizes`` (M,) are the weights of the groups, ``steps`` (M,) by how much one row moves the rate
    of its group.
    """
    criterion, level = limit.criterion(sizes, steps), limit.level(sizes)
    figure = limit.figure(criterion.value(rates), sizes)
    if not labels:
        return figure, SOFT_RESOLUTION
    if not criterion.conic:
        return figure, limit.width(criterion.resolution(rates, sizes, steps), sizes)
    enough = criterion.enough(level, rates, sizes, steps)
    return figure, limit.width(max(0.0, enough - level), sizes)


def label_resolution(
    criterion: str, sizes: ArrayLike, n_clusters: int, *, steps: ArrayLike | None = None
) -> float:
    """The value of a criterion below which labels of whole rows cannot be asked to go.

    Parameters
    ----------
    criterion : str
        Name of the criterion.
    sizes : array-like of shape (n_groups,)
        Rows, or weight, of each group that is judged.
    n_clusters : int
        Number of clusters.
    steps : array-like of shape (n_groups,), optional
        By how much one row can move the rate of its group: the largest weight over the sum of all.
        None: one over the size.

    Examples
    --------
    >>> round(label_resolution("gap", [50, 4000], 10), 6)
    0.00025
    """
    totals = np.asarray(sizes, dtype=np.float64)
    if len(totals) < 2:
        return 0.0
    moves = 1 / totals if steps is None else np.asarray(steps, dtype=np.float64)
    even = np.full((len(totals), n_clusters), 1 / n_clusters)
    return CRITERIA[criterion].resolution(even, totals, moves)


def judge_counts(
    counts: ArrayLike,
    groups: Sequence[str],
    bound: float | Limit,
    *,
    criterion: str = "gap",
    min_group_size: int = MIN_GROUP_SIZE,
    among: Collection[str] | None = None,
    of: str = "labels",
) -> Verdict:
    """The verdict on how rows of groups are spread over clusters.

    Parameters
    ----------
    counts : array-like of shape (n_groups, n_clusters)
        Rows of each group in each cluster, or the sums of their probabilities. Groups without
        rows take no part.
    groups : sequence of str
        Names of the groups.
    bound : float or Limit
        What the criterion may be; infinite for none. Or another limit, as `MinRatio` or
        `MinBalance` of `fairmix.criteria`.
    criterion : str, default="gap"
        Name of the criterion of a number.
    min_group_size : int, default=30
        Groups of fewer rows are not judged.
    among : collection of str, optional
        Groups that may be judged, where not all may: those that a fit has judged.
    of : {"labels", "probabilities"}, default="labels"
        What the counts are of.

    Examples
    --------
    >>> found = judge_counts([[50, 50], [40, 60], [2, 0]], ["a", "b", "c"], 0.2)
    >>> found.word, round(found.value, 2), found.unjudged
    ('met for the judged groups', 0.1, {'c': 2})
    """
    table = np.asarray(counts, dtype=np.float64)
    # Probabilities of a row add up to one but for rounding.
    rows = np.rint(table.sum(axis=1)).astype(int).tolist()
    small = {
        name: size
        for name, size in zip(groups, rows, strict=True)
        # A group that a fit has not judged is not judged here either, however many rows it has now:
        # the fit did nothing for it.
        if size and (size < min_group_size or (among is not None and name not in among))
    }
    judged = [g for g, name in enumerate(groups) if rows[g] and name not in small]
    limit = MaxGap(bound, criterion) if isinstance(bound, float | int) else bound
    value = resolution = math.nan
    if len(judged) > 1:
        sizes = table[judged].sum(axis=1)
        rates = table[judged] / sizes[:, None]
        value, resolution = measure(limit, rates, sizes, 1 / sizes, labels=of == "labels")
    return judge(
        value,
        limit.bound,
        resolution=resolution,
        n_judged=len(judged),
        unjudged=small,
        parameter=limit.parameter,
    )


# A protocol, because the estimator and what a fit has found are in rooms above this one.
class Judged(Protocol):
    """What a fit has found, as far as a verdict goes."""

    @property
    def verdict(self) -> Verdict:
        """Whether the rows of the fit meet the rule."""


class FittedModel(Protocol):
    """A fitted `fairmix.FairMixture`."""

    fitted_: Judged


def verdict_of(model: FittedModel) -> Verdict:
    """The verdict on a fit, for its training rows."""
    return model.fitted_.verdict
