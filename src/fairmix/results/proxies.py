"""Proxies: how well columns tell the group, each alone and all together.

What is measured is how often a guess of the group is right, each group counted alike: 1 / M by
chance, with M groups. A column alone guesses by the shares of its categories, or of tenths of its
numbers; all together by P(group | x), the regression that a blind map has. Guesses are learned from
one half of the rows and tried on the other: on their own rows, many categories guess anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any

import numpy as np

from fairmix.input.groups import (
    UNKNOWN_TITLE,
    Attribute,
    Groups,
    MissingGroups,
    attribute_columns,
    judged_groups,
)
from fairmix.kernels.totals import FloatArray, IntArray, Rows
from fairmix.mixture.propensity import fit_propensity
from fairmix.results.fitted import Fitted

__all__ = ["Proxies", "find_proxies", "proxies_of"]

# Rows that guesses are learned from and tried on, at most. With 5,000 of each half, an error of a
# share is below 0.01, and the regression takes no time beside a fit.
ROWS = 10_000
# Cells of the table that the regression sees, so that tables of very many columns take no memory.
CELLS = 4_000_000
# Ranges of a number that guess alone: tenths, enough for two groups of people that overlap.
RANGES = 10
# Part of the way from chance to certainty from which on a column is worth a word, and from which on
# it nearly gives the group away.
WORTH, GIVEN_AWAY = 0.2, 0.9
# Standard errors above chance: below, it may be one of many columns that guess well by luck.
ERRORS = 4
LISTED = 5  # columns that are named


@dataclass(frozen=True)
class Proxies:
    """What columns say about the groups of one attribute.

    Attributes
    ----------
    title : str
        The attribute, such as ``"sex"``.
    columns : dict of str to float
        Columns that say something, the best first, and how often each alone guesses right.
    together : float
        How often all columns together do.
    chance : float
        How often a blind guess does.
    smallest : int
        Rows of the smallest group that guesses were tried on.

    Examples
    --------
    >>> Proxies("sex", {"title": 0.98, "hours": 0.61}, 0.99, 0.5, 400).given_away
    ('title',)
    """

    title: str
    columns: dict[str, float]
    together: float
    chance: float
    smallest: int

    @property
    def given_away(self) -> tuple[str, ...]:
        """Columns that nearly give the group away."""
        enough = self.chance + GIVEN_AWAY * (1 - self.chance)
        return tuple(name for name, right in self.columns.items() if right >= enough)


def proxies_of(
    fitted: Fitted,
    X: Any,
    sensitive_features: Any,
    *,
    title: str = UNKNOWN_TITLE,
    missing: MissingGroups = "error",
    names: Sequence[str] | None = None,
) -> dict[str, Proxies]:
    """What the columns of a table say about the groups of a fit, by attribute.

    Parameters
    ----------
    fitted : Fitted
        What a fit has found.
    X : data frame or array
        Rows with the columns of the fit.
    sensitive_features : array-like or table
        Group of each row.
    title : str, default="group"
        What the groups are of, where they are of one attribute.
    missing : {"error", "drop", "group"}, default="error"
        What a missing group is.
    names : sequence of str, default=None
        Of the columns, where they are not those that the fit has read.

    Returns
    -------
    dict of str to Proxies
        None of an attribute with fewer than two groups that have rows.
    """
    columns = fitted.model.columns
    every = columns.names if names is None else names
    used = [every[j] for j in (*columns.numeric, *columns.categorical)]
    rows = fitted.rows(X, ignore_unknown=True)
    groups = replace(fitted.groups, title=title)
    return find_proxies(used, rows, sensitive_features, groups, missing=missing)


def find_proxies(
    names: Sequence[str], rows: Rows, sensitive_features: Any, groups: Groups, **how: Any
) -> dict[str, Proxies]:
    """What the columns of some rows say about the judged groups, by attribute.

    Parameters
    ----------
    names : sequence of str
        Of the columns, the numeric ones first.
    rows : Rows
        Their values.
    sensitive_features : array-like or table
        Group of each row.
    groups : Groups
        Of the fit.
    **how
        ``missing``: what a missing group is.

    Examples
    --------
    >>> from fairmix.input.groups import encode_groups
    >>> x = np.arange(200.0).reshape(-1, 1)
    >>> sex = ["f"] * 100 + ["m"] * 100
    >>> find_proxies(["age"], Rows(x, None), sex, encode_groups(sex))["group"].given_away
    ('age',)
    """
    each: dict[str, tuple[Any, Groups | Attribute]] = {groups.title: (sensitive_features, groups)}
    if groups.attributes:
        columns = attribute_columns(sensitive_features, groups)
        each = {own.title: (columns[own.title], own) for own in groups.attributes}
    found = {}
    for title, (values, own) in each.items():
        codes = judged_groups(values, own.names, own.unjudged, **how)
        judged = np.flatnonzero((codes >= 0) & (codes < len(own.names)))
        proxies = _of(title, names, rows.take(judged), codes[judged], len(own.names))
        if proxies is not None:
            found[title] = proxies
    return found


def _of(
    title: str, names: Sequence[str], rows: Rows, codes: IntArray, n_groups: int
) -> Proxies | None:
    # In a random order that is the same each time: rows may be sorted by anything.
    order = np.random.default_rng(0).permutation(rows.n_rows)[: min(ROWS, CELLS // len(names))]
    halves = order[::2], order[1::2]
    sizes = np.array([np.bincount(codes[half], minlength=n_groups) for half in halves])
    if n_groups < 2 or sizes.min() < 2:
        return None
    right = dict(zip(names, _alone(rows, codes, n_groups, halves), strict=True))
    chance = 1 / n_groups
    # A mean over groups of shares, each of which has at most a variance of 1 / (4 n).
    error = sqrt((1 / (4 * sizes[1])).sum()) / n_groups
    worth = chance + max(WORTH * (1 - chance), ERRORS * error)
    best = sorted(right, key=lambda name: -right[name])[:LISTED]
    learned, tried = halves
    propensity = fit_propensity(rows.take(learned), codes[learned], n_groups, weight=None)
    # As if the groups were of one size: who guesses the largest is then no better than chance.
    scores = propensity(rows.take(tried)) / (sizes[0] / sizes[0].sum())[:, None]
    together = _balanced(scores.argmax(axis=0), codes[tried], n_groups)
    return Proxies(
        title,
        {name: right[name] for name in best if right[name] >= worth},
        max(together, chance),
        chance,
        int(sizes[1].min()),
    )


def _alone(
    rows: Rows, codes: IntArray, n_groups: int, halves: tuple[IntArray, IntArray]
) -> list[float]:
    """How often each column alone guesses right."""
    learned, tried = halves
    found = []
    numeric = np.empty((rows.n_rows, 0)) if rows.numeric is None else rows.numeric
    shares = np.arange(1, RANGES) / RANGES
    # Of all columns at once, because there may be very many; NaN for those with missing values.
    every = np.quantile(numeric[learned], shares, axis=0)
    for values, cuts in zip(numeric.T, every.T, strict=True):
        if np.isnan(cuts).any():
            present = values[learned][~np.isnan(values[learned])]
            cuts = np.quantile(present, shares) if len(present) else np.zeros(0)
        cells = np.where(np.isnan(values), RANGES, np.searchsorted(cuts, values, side="right"))
        found.append(_guessed(cells, RANGES + 1, codes, n_groups, learned, tried))
    for values in () if rows.codes is None else rows.codes.T:
        cells = values + 1  # a missing category is one, too
        found.append(_guessed(cells, int(cells.max()) + 1, codes, n_groups, learned, tried))
    return found


def _guessed(
    cells: IntArray,
    n_cells: int,
    codes: IntArray,
    n_groups: int,
    learned: IntArray,
    tried: IntArray,
) -> float:
    pairs = np.bincount(codes[learned] * n_cells + cells[learned], minlength=n_groups * n_cells)
    counts = pairs.reshape(n_groups, n_cells)
    guess = (counts / counts.sum(axis=1, keepdims=True)).argmax(axis=0)
    return _balanced(guess[cells[tried]], codes[tried], n_groups)


def _balanced(guess: IntArray, codes: IntArray, n_groups: int) -> float:
    """Share of right guesses, the mean over groups."""
    right = np.bincount(codes[guess == codes], minlength=n_groups)
    shares: FloatArray = right / np.bincount(codes, minlength=n_groups)
    return float(shares.mean())
