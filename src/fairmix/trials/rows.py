"""Rows: the figures of one fit among several, and which of the fits are dominated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, isnan, nan

from fairmix.criteria import LIMITS
from fairmix.results.verdict import MISSED, met_of

__all__ = [
    "INFORMATION",
    "FrontRow",
    "SelectionRow",
    "best_row",
    "dominated_points",
    "dominated_rows",
    "figure_of",
    "mark_dominated",
]

INFORMATION = ("bic", "aic", "icl")  # the criteria of a selection, and its columns


@dataclass(frozen=True)
class FrontRow:
    """One bound of a `fairmix.studies.ParetoFront`.

    Attributes
    ----------
    max_gap : float
        The bound on the gap; ``inf`` where the front is of another rule, and for the plain
        mixture.
    gap, label_gap, soft_gap, balance, ratio : float
        As in `FairMixture`: ``gap`` is the one that ``gap_of`` names.
    cost : float
        Squared distances of the rows to the means of the hard clusters, of the values that they
        have; numbers are standardised if the model does so, and a category counts as columns of
        0 and 1.
    nll : float
        Minus the mean log-likelihood of the untilted mixture.
    non_empty : int
        Clusters with members.
    verdict : str
        Whether the bound is met: one of the five words of ``FairMixture.verdict_``.
    dominated : bool
        Whether another point is at least as good in what the rule bounds (gap, ratio or balance)
        and in cost (NLL without one), and better in one of them.
    seconds : float
        Of all fits for this bound.
    warnings : tuple of str
        What the kept fit warned of.
    min_ratio, min_balance : float or None
        The bound of a front of ratios, or of Balance; 0 is the plain mixture. None where the front
        is of another rule.

    Examples
    --------
    >>> row = FrontRow(0.01, 0.009, 0.009, 0.02, 0.7, 120.0, 2.5, 3, "met")
    >>> row.met, row.rule, row.bound
    (True, 'max_gap', 0.01)
    """

    max_gap: float
    gap: float
    label_gap: float
    soft_gap: float
    balance: float
    cost: float
    nll: float
    non_empty: int
    verdict: str
    dominated: bool = False
    seconds: float = 0.0
    warnings: tuple[str, ...] = ()
    ratio: float = nan
    min_ratio: float | None = None
    min_balance: float | None = None

    @property
    def rule(self) -> str:
        """The parameter that the front walks over."""
        ratios = (name for name in ("min_ratio", "min_balance") if getattr(self, name) is not None)
        return next(ratios, "max_gap")

    @property
    def bound(self) -> float:
        """Its number."""
        return float(getattr(self, self.rule))

    @property
    def plain(self) -> bool:
        """Whether this is the plain mixture, which has no bound."""
        return self.bound == (0 if LIMITS[self.rule].at_least else inf)

    @property
    def met(self) -> bool | None:
        """Whether the bound is met; None where there is none, or nothing is judged."""
        return met_of(self.verdict)


@dataclass(frozen=True)
class SelectionRow:
    """One number of clusters of a `fairmix.studies.Selection`.

    Fields are as in `FrontRow`. The criteria are those of the plain mixture of as many clusters.

    Examples
    --------
    >>> SelectionRow(3, 900.0, 880.0, 950.0, 0.01, 0.01, 0.02, 0.7, 3, "met").bic
    900.0
    """

    n_components: int
    bic: float
    aic: float
    icl: float
    gap: float
    label_gap: float
    soft_gap: float
    balance: float
    non_empty: int
    verdict: str
    seconds: float = 0.0
    warnings: tuple[str, ...] = ()
    ratio: float = nan

    @property
    def met(self) -> bool | None:
        """As in `FrontRow`."""
        return met_of(self.verdict)


def mark_dominated(rows: Sequence[FrontRow]) -> tuple[FrontRow, ...]:
    """The rows with ``dominated`` set, by what their rule bounds and cost, or likelihood.

    Examples
    --------
    >>> rows = [FrontRow(g, g, g, g, 1.0, c, 0.0, 3, "met") for g, c in [(0.0, 9.0), (0.1, 9.5)]]
    >>> [row.dominated for row in mark_dominated(rows)]
    [False, True]
    """
    if not rows:
        return ()
    # A cost is there in all rows or in none, since all are of the same data; so is the rule.
    first = rows[0]
    beaten = dominated_rows(rows, figure_of(first), "nll" if isnan(first.cost) else "cost")
    return tuple(replace(row, dominated=found) for row, found in zip(rows, beaten, strict=True))


def figure_of(row: FrontRow) -> str:
    """The column of what the rule of a row bounds.

    Examples
    --------
    >>> figure_of(FrontRow(0.01, 0.009, 0.009, 0.02, 0.7, 120.0, 2.5, 3, "met"))
    'gap'
    """
    return LIMITS[row.rule].noun


def dominated_rows(rows: Sequence[FrontRow], x: str, y: str) -> list[bool]:
    """Whether another row is at least as good in both columns, and better in one, for each.

    Examples
    --------
    >>> rows = [FrontRow(g, g, g, g, 1.0, c, 0.0, 3, "met") for g, c in [(0.0, 9.0), (0.1, 9.5)]]
    >>> dominated_rows(rows, "gap", "cost")
    [False, True]
    """
    return dominated_points([(_sign(x) * getattr(row, x), getattr(row, y)) for row in rows])


def _sign(name: str) -> int:
    # Of all columns only these are better when they are higher.
    return -1 if name in ("ratio", "balance", "min_ratio", "min_balance") else 1


def dominated_points(points: Sequence[tuple[float, float]]) -> list[bool]:
    """Whether another point is nowhere higher and somewhere lower, for each."""
    # Equal points do not dominate each other, or both would vanish; NaN dominates nothing.
    return [any(a <= x and b <= y and (a, b) != (x, y) for a, b in points) for x, y in points]


def best_row(rows: Sequence[SelectionRow], criterion: str) -> int:
    """Position of the lowest criterion among the rows that do not miss the bound, or of all.

    Examples
    --------
    >>> rows = [
    ...     SelectionRow(k, bic, bic, bic, 0.0, 0.0, 0.0, 0.7, k, "met")
    ...     for k, bic in [(2, 910.0), (3, 900.0)]
    ... ]
    >>> best_row(rows, "bic")
    1
    """
    # False comes before True: a row that misses the bound wins only where all do.
    ranks = [(row.verdict == MISSED, getattr(row, criterion)) for row in rows]
    return ranks.index(min(ranks))
