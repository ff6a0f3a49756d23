"""Limits: what a user asks of the rates, in the units of the question.

A limit names a parameter of `FairMixture` and its number. For groups of known sizes it is a
criterion and a bound on its value, which is all that solvers see.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol, Self

import numpy as np

from fairmix.criteria._base import Criterion
from fairmix.criteria.ratios import SmallestRatio
from fairmix.criteria.register import CRITERIA
from fairmix.kernels.totals import FloatArray

# The paper's epsilon where the user names no rule: a gap that the eye takes for none.
MAX_GAP = 0.01


class Limit(Protocol):
    """A number that the rates of the groups must not exceed, or not fall below."""

    parameter: ClassVar[str]
    """The parameter that sets it."""
    noun: ClassVar[str]
    """What it limits, in a word."""
    at_least: ClassVar[bool]
    """Whether the figure must be at least the bound, or at most."""

    @property
    def bound(self) -> float:
        """The number."""

    def criterion(self, sizes: FloatArray, steps: FloatArray) -> Criterion:
        """Whose value is bounded, for groups of these weights (M,).

        ``steps`` (M,) is by how much one row moves the rate of its group.
        """

    def level(self, sizes: FloatArray) -> float:
        """What the value of the criterion may be."""

    def figure(self, value: float, sizes: FloatArray) -> float:
        """A value of the criterion in the units of the bound."""

    def width(self, value: float, sizes: FloatArray) -> float:
        """A difference between values in the units of the bound."""

    def tightened(self, margin: float, sizes: FloatArray) -> Self:
        """Stricter by so much, in the units of the bound, but not stricter than can be met."""

    def of(self, attribute: str) -> Limit:
        """That of an attribute, where there are several."""


@dataclass(frozen=True)
class MaxGap:
    """``max_gap``: a criterion of `CRITERIA` is at most the bound."""

    bound: float
    name: str = "gap"

    parameter: ClassVar[str] = "max_gap"
    noun: ClassVar[str] = "gap"
    at_least: ClassVar[bool] = False

    def criterion(self, sizes: FloatArray, steps: FloatArray) -> Criterion:
        """That of the name."""
        return CRITERIA[self.name]

    def level(self, sizes: FloatArray) -> float:
        """The bound."""
        return self.bound

    def figure(self, value: float, sizes: FloatArray) -> float:
        """The value."""
        return value

    def width(self, value: float, sizes: FloatArray) -> float:
        """The difference."""
        return value

    def tightened(self, margin: float, sizes: FloatArray) -> Self:
        """Smaller by the margin."""
        return replace(self, bound=max(0.0, self.bound - margin))

    def of(self, attribute: str) -> Limit:
        """The same for all."""
        return self


@dataclass(frozen=True)
class MinRatio:
    """``min_ratio``: in every cluster, each group's rate is at least this share of any other's.

    0.8 is the four-fifths rule.
    """

    bound: float

    parameter: ClassVar[str] = "min_ratio"
    noun: ClassVar[str] = "ratio"
    at_least: ClassVar[bool] = True

    def criterion(self, sizes: FloatArray, steps: FloatArray) -> Criterion:
        """Of rates as they are."""
        return SmallestRatio(np.ones(len(sizes)), sizes, steps)

    def level(self, sizes: FloatArray) -> float:
        """One less the ratio."""
        return 1.0 - self.bound

    def figure(self, value: float, sizes: FloatArray) -> float:
        """One less the value."""
        return 1.0 - value

    def width(self, value: float, sizes: FloatArray) -> float:
        """The difference."""
        return value

    def tightened(self, margin: float, sizes: FloatArray) -> Self:
        """Larger by the margin."""
        return replace(self, bound=min(1.0, self.bound + margin))

    def of(self, attribute: str) -> Limit:
        """The same for all."""
        return self


@dataclass(frozen=True)
class MinBalance:
    """``min_balance``: in every cluster, the smallest group is at least this share of the largest.

    Balance counts rows, so groups of different sizes cannot reach 1: see `best_balance`.
    """

    bound: float

    parameter: ClassVar[str] = "min_balance"
    noun: ClassVar[str] = "balance"
    at_least: ClassVar[bool] = True

    def criterion(self, sizes: FloatArray, steps: FloatArray) -> Criterion:
        """Of rates times the sizes of the groups."""
        return SmallestRatio(sizes / sizes.mean(), sizes, steps, what="rows")

    def level(self, sizes: FloatArray) -> float:
        """One less the share of the best possible."""
        return max(0.0, 1.0 - self.bound / best_balance(sizes))

    def figure(self, value: float, sizes: FloatArray) -> float:
        """The share of the best possible that the value leaves."""
        return best_balance(sizes) * (1.0 - value)

    def width(self, value: float, sizes: FloatArray) -> float:
        """The same share of the best possible."""
        return best_balance(sizes) * value

    def tightened(self, margin: float, sizes: FloatArray) -> Self:
        """Larger by the margin."""
        return replace(self, bound=min(best_balance(sizes), self.bound + margin))

    def of(self, attribute: str) -> Limit:
        """The same for all."""
        return self


def best_balance(sizes: FloatArray) -> float:
    """The largest Balance that all clusters can have at once, for groups of these sizes.

    Examples
    --------
    >>> best_balance(np.array([100.0, 400.0]))
    0.25
    """
    return float(np.min(sizes) / np.max(sizes))


@dataclass(frozen=True)
class ByAttribute:
    """A limit for each of several attributes, by name, all of one kind."""

    limits: Mapping[str, Limit]

    @property
    def parameter(self) -> str:
        """The parameter that sets them."""
        return next(iter(self.limits.values())).parameter

    @property
    def bound(self) -> dict[str, float]:
        """The numbers."""
        return {title: limit.bound for title, limit in self.limits.items()}

    def of(self, attribute: str) -> Limit:
        """That of an attribute."""
        return self.limits[attribute]

    def check(self, titles: Sequence[str]) -> None:
        """Refuse names that are not those of the attributes."""
        if set(titles) != set(self.limits):
            raise ValueError(
                f"{self.parameter} names the attributes {sorted(self.limits)}, but those that are "
                f"compared are {sorted(titles)}. Give a number for each of them, or one for all; "
                "attributes='each' compares several columns each by itself."
            )


AnyLimit = Limit | ByAttribute
# A parameter that sets a limit: a number, one for each attribute, or nothing of its own.
Bound = float | Mapping[str, float] | str | None


def limit_of(
    *,
    max_gap: Bound = "auto",
    min_ratio: Bound = None,
    min_balance: Bound = None,
    criterion: str = "gap",
    fairness_strength: float | str = "auto",
) -> AnyLimit | None:
    """The limit that the parameters of an estimator set.

    None where a strength takes the place of a bound. Which may go together, the estimator checks.

    Examples
    --------
    >>> limit_of(), limit_of(min_ratio=0.8)
    (MaxGap(bound=0.01, name='gap'), MinRatio(bound=0.8))
    """
    if fairness_strength != "auto":
        return None

    def gap(bound: float) -> Limit:
        return MaxGap(bound, criterion)

    given: list[tuple[Bound, Callable[[float], Limit]]] = [
        (min_ratio, MinRatio),
        (min_balance, MinBalance),
        (max_gap, gap),
    ]
    for bound, make in given:
        if isinstance(bound, Mapping):
            return ByAttribute({title: make(float(number)) for title, number in bound.items()})
        if bound is not None and bound != "auto":
            return make(float(bound))
    return gap(MAX_GAP)


#: Limits by the parameter that sets them.
LIMITS: dict[str, type[MaxGap] | type[MinRatio] | type[MinBalance]] = {
    limit.parameter: limit for limit in (MaxGap, MinRatio, MinBalance)
}
