"""Ratios: the smallest one of every group, against the line of the four-fifths rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, isfinite

import numpy as np
from numpy.typing import NDArray

from fairmix.criteria.bounds import ROUNDING
from fairmix.report.disclosure import SafeCounts
from fairmix.report.figures import HIDDEN, cut, percent
from fairmix.report.shares import COLOURS
from fairmix.results.fairness import FOUR_FIFTHS
from fairmix.results.profile import Profile
from fairmix.results.verdict import Verdict

__all__ = ["GroupRatio", "Ratios", "down", "group_ratios", "ratio_notes", "smallest_ratio_text"]

FloatArray = NDArray[np.float64]

ROWS = 40  # groups that have a line; more are not read
SMALLEST = "The smallest ratio of two groups' rates"
# What the verdict of a group says.
PASSES, FAILS = f"at least {FOUR_FIFTHS:g}", f"below {FOUR_FIFTHS:g}"


@dataclass(frozen=True)
class GroupRatio:
    """The smallest ratio of one group to the largest rate of a cluster; None where hidden."""

    group: str
    colour: int
    ratio: float | None
    text: str
    word: str
    place: str


@dataclass(frozen=True)
class Ratios:
    """A line for each group, the number of groups without one, and where the line is drawn."""

    groups: tuple[GroupRatio, ...]
    left_out: int
    line: float = FOUR_FIFTHS

    @property
    def wide(self) -> bool:
        """Whether the names of the groups need room."""
        return any(len(row.group) > 12 for row in self.groups)


def group_ratios(safe: SafeCounts, clusters: Sequence[object], groups: Sequence[str]) -> Ratios:
    """How every group fares in the cluster where it fares worst.

    Examples
    --------
    >>> safe = SafeCounts.of(np.array([[30.0, 20.0], [20.0, 30.0]]))
    >>> [(row.text, row.word) for row in group_ratios(safe, ["0", "1"], ["f", "m"]).groups]
    [('0.666', 'below 0.8'), ('0.666', 'below 0.8')]
    """
    texts = safe.tell_each(lambda table: [down(low) for low in _lowest(table)[0]])
    words = safe.tell_each(lambda table: [_word(low) for low in _lowest(table)[0]])
    places = safe.tell_each(lambda table: list(zip(*_lowest(table)[1:], strict=True)))
    rows = []
    for g, name in enumerate(groups[:ROWS]):
        text, place = texts[g], places[g]
        rows.append(
            GroupRatio(
                group=cut(name),
                colour=g % COLOURS,
                ratio=None if text is None else float(text),
                text=text or HIDDEN,
                word=words[g] or HIDDEN,
                place="" if place is None else _place(safe, g, *place, clusters, groups),
            )
        )
    return Ratios(tuple(rows), len(groups) - len(rows))


def smallest_ratio_text(safe: SafeCounts) -> str:
    """The smallest ratio of all groups and clusters."""
    return safe.tell(lambda table: down(_lowest(table)[0].min())) or HIDDEN


def ratio_notes(
    profile: Profile,
    safe: SafeCounts,
    verdict: Verdict,
    told: tuple[int, int, int] | None = None,
) -> tuple[str, ...]:
    """The smallest ratio and where it is; and whether a rule that is met allows it to be small.

    ``told`` are a cluster and two groups whose ratio the reader knows.
    """

    def where(table: FloatArray) -> tuple[int, int, int]:
        lowest, cluster, other = _lowest(table)
        g = int(lowest.argmin())
        return g, int(cluster[g]), int(other[g])

    text = smallest_ratio_text(safe)
    word = safe.tell(lambda table: _word(_lowest(table)[0].min()))
    place = safe.tell(where)
    if place is None or safe.pool[place[1]]:
        known = "" if word is None else f" It is {word}."
        cluster = "a cluster" if place is None else f"cluster {cut(profile.clusters[place[1]])},"
        notes = [f"{SMALLEST} is in {cluster} whose counts are hidden.{known}"]
        if text != HIDDEN:
            notes = [f"{SMALLEST} is {text}."]
    else:
        g, k, other = place
        notes = []
        if told != (k, g, other):
            there = _place(safe, *place, profile.clusters, profile.groups)
            notes = [f"{SMALLEST} is {text}, in {there}."]
        if word == FAILS:
            notes.append(
                f"Cluster {cut(str(profile.clusters[k]))} has "
                f"{percent(safe.sizes[k] / safe.counts.sum())} of the rows; "
                f"{percent(safe.counts[g, k] / safe.sizes[k])} of them are "
                f"{cut(profile.groups[g])}, against "
                f"{percent(safe.group_sizes[g] / safe.counts.sum())} of all rows."
            )
    if verdict.holds and verdict.parameter != "min_ratio" and word == FAILS:
        notes.append(
            f"A bound on the {verdict.noun} allows that. The four-fifths rule does not: "
            f"min_ratio={FOUR_FIFTHS:g}, or --min-ratio {FOUR_FIFTHS:g}."
        )
    return tuple(notes)


def down(ratio: float) -> str:
    """A ratio with three decimals, rounded down: it never looks better than it is.

    Examples
    --------
    >>> down(0.79999), down(0.8)
    ('0.799', '0.800')
    """
    return f"{floor(ratio * 1e3 + 1e-9) / 1e3:.3f}" if isfinite(ratio) else "none"


def _lowest(table: FloatArray) -> tuple[FloatArray, NDArray[np.intp], NDArray[np.intp]]:
    """Smallest ratio of each group to any other, its cluster, and the other group, (M,) each."""
    filled = np.flatnonzero(table.sum(axis=0) > 0)
    rates = table[:, filled] / table.sum(axis=1, keepdims=True)
    ratios = rates / rates.max(axis=0)
    k = ratios.argmin(axis=1)
    return ratios.min(axis=1), filled[k], rates[:, k].argmax(axis=0)


def _word(ratio: float) -> str:
    return PASSES if ratio >= FOUR_FIFTHS - ROUNDING else FAILS


def _place(
    safe: SafeCounts, g: int, k: int, h: int, clusters: Sequence[object], groups: Sequence[str]
) -> str:
    """The cluster, and the two rates where they are shown."""
    place = f"cluster {cut(str(clusters[k]))}"
    if g == h or safe.pool[k]:
        return place
    rates = safe.counts[:, k] / safe.group_sizes
    return (
        f"{place}, which holds {percent(rates[g])} of {cut(groups[g])} and {percent(rates[h])} of "
        f"{cut(groups[h])}"
    )
