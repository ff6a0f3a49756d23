"""The verdict: is a bound on the rates of the groups met? Everybody who answers this asks here.

Labels move by whole rows, so a bound may be finer than they can follow. A value counts as met when
it is at most the bound, or at most the *resolution*: what whole rows can be asked to reach (see
``Criterion.resolution``). Nothing is added to a bound above it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from fairmix.criteria import CRITERIA

__all__ = [
    "MET",
    "MET_FOR_JUDGED",
    "MISSED",
    "NOT_JUDGED",
    "NO_BOUND",
    "SOFT_RESOLUTION",
    "WORDS",
    "Verdict",
    "judge",
    "label_resolution",
    "verdict_of",
]

MET = "met"
MISSED = "missed"
MET_FOR_JUDGED = "met for the judged groups"
NOT_JUDGED = "not judged"
NO_BOUND = "no bound"
WORDS = (MET, MISSED, MET_FOR_JUDGED, NOT_JUDGED, NO_BOUND)

# Probabilities are not made of rows; their rates are sums of rounded numbers.
SOFT_RESOLUTION = 1e-6
# Rates are quotients of floats: two ways to compute the same one differ by this at most.
ROUNDING = 1e-12


@dataclass(frozen=True)
class Verdict:
    """Whether a bound is met.

    Attributes
    ----------
    word : str
        One of the five `WORDS`.
    value : float
        What was measured, NaN without two groups that are judged.
    bound : float
        What was asked for, infinite where nothing was.
    resolution : float
        What whole rows can resolve.
    unjudged : dict of str to int
        Groups that are too small to be judged, and their rows.
    """

    word: str
    value: float
    bound: float = math.inf
    resolution: float = 0.0
    unjudged: dict[str, int] = field(default_factory=dict)

    @property
    def holds(self) -> bool:
        """Whether the bound is met for every group that is judged."""
        return self.word in (MET, MET_FOR_JUDGED)

    @property
    def allowed(self) -> float:
        """The largest value that counts as met."""
        return max(self.bound, self.resolution)

    @property
    def rows(self) -> int:
        """How many rows too many a missed value is, about; 0 if that is not known."""
        if self.word != MISSED or math.isnan(self.value):
            return 0
        return math.ceil((self.value - self.bound) / max(self.resolution, ROUNDING))


def judge(
    value: float,
    bound: float,
    *,
    resolution: float,
    n_judged: int,
    unjudged: Mapping[str, int] | None = None,
) -> Verdict:
    """The verdict on a value.

    Parameters
    ----------
    value : float
        The criterion on the rates of the groups that are judged.
    bound : float
        What it may be; infinite for none.
    resolution : float
        See `label_resolution`; ``SOFT_RESOLUTION`` for probabilities.
    n_judged : int
        How many groups are judged.
    unjudged : mapping of str to int, optional
        The groups that are too small to be judged, and their rows.

    Examples
    --------
    >>> judge(0.0102, 0.01, resolution=0.0003, n_judged=2).word
    'missed'
    >>> judge(0.0002, 0.0, resolution=0.0003, n_judged=2).word
    'met'
    """
    small = dict(unjudged or {})
    if math.isinf(bound) or n_judged + len(small) == 0:
        return Verdict(NO_BOUND, value, bound, resolution, small)
    if n_judged < 2:
        return Verdict(NOT_JUDGED, math.nan, bound, resolution, small)
    # A NaN is not met.
    met = value <= max(bound, resolution) + ROUNDING
    word = (MET_FOR_JUDGED if small else MET) if met else MISSED
    return Verdict(word, value, bound, resolution, small)


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
    return CRITERIA[criterion].resolution(totals, moves, n_clusters)


class FittedBound(Protocol):
    """What a fitted `fairmix.FairMixture` says of its bound."""

    max_gap: float
    fairness_strength: float | str
    gap_: float
    resolution_: float
    groups_: Any
    unjudged_groups_: dict[str, int]


def verdict_of(model: FittedBound) -> Verdict:
    """The verdict on a fit, for its training rows."""
    bounded = model.fairness_strength == "auto"
    return judge(
        float(model.gap_),
        float(model.max_gap) if bounded else math.inf,
        resolution=float(model.resolution_),
        n_judged=len(model.groups_),
        unjudged=model.unjudged_groups_,
    )
