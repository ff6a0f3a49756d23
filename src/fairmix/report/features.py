"""What makes each cluster: where its columns differ most from all rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairmix.report.figures import amount, cut
from fairmix.report.suppression import SMALLEST
from fairmix.results.profile import Profile

__all__ = ["Feature", "Portrait", "portraits"]

IntArray = NDArray[np.int64]

TOP = 5  # features of each kind: what a reader keeps in mind of a cluster
LEAST = 0.1  # standard deviations; smaller differences are not worth a line
NEARLY_ALL = "nearly all"
SCALE = 2.0  # standard deviations at the end of a bar


@dataclass(frozen=True)
class Feature:
    """One column, or one category of it, in one cluster.

    ``difference`` is in standard deviations, of the column or of the category's indicator;
    ``reach`` is its length as a share of a bar.
    """

    column: str
    difference: float
    here: str
    overall: str
    category: str = ""
    lift: str = ""

    @property
    def reach(self) -> float:
        """Length of the bar, from -1 to 1."""
        return float(np.clip(self.difference / SCALE, -1, 1))


@dataclass(frozen=True)
class Portrait:
    """The features of one cluster; ``hidden`` when it has too few rows."""

    cluster: str
    hidden: bool
    numbers: tuple[Feature, ...]
    categories: tuple[Feature, ...]


def portraits(profile: Profile, clusters: Sequence[int]) -> list[Portrait]:
    """The features of the chosen clusters that have rows.

    Examples
    --------
    >>> import pandas as pd
    >>> people = pd.DataFrame({"age": [20.0] * 9 + [60.0] * 9})
    >>> profile = Profile.from_frame(people, [0] * 9 + [1] * 9, ["f", "m"] * 9)
    >>> portraits(profile, [0])[0].numbers[0].difference
    -1.0
    """
    sizes = profile.counts.sum(axis=0)
    return [
        Portrait(
            cluster=cut(profile.clusters[k]),
            hidden=bool(sizes[k] < SMALLEST),
            numbers=_top(_numbers(profile, k)),
            categories=_top(_categories(profile, k)),
        )
        for k in clusters
        if sizes[k] > 0
    ]


def _top(features: list[Feature]) -> tuple[Feature, ...]:
    worth = [feature for feature in features if abs(feature.difference) >= LEAST]
    # sorted is stable: equal differences keep the order of the columns.
    return tuple(sorted(worth, key=lambda feature: -abs(feature.difference))[:TOP])


def _numbers(profile: Profile, k: int) -> list[Feature]:
    out = []
    for name, column in profile.numbers.items():
        # A mean of so few values is nearly one of them. The second test also catches NaN.
        if column.counts[k] < SMALLEST or not column.std > 0:
            continue
        difference = float((column.means[k] - column.mean) / column.std)
        out.append(Feature(cut(name), difference, amount(column.means[k]), amount(column.mean)))
    return out


def _categories(profile: Profile, k: int) -> list[Feature]:
    out = []
    for name, column in profile.categories.items():
        totals = column.rest + sum(column.counts.values(), np.zeros_like(column.rest))
        found = [
            _category(name, category, counts, totals, k)
            for category, counts in column.counts.items()
            # A category that all rows have tells no cluster apart.
            if counts[k] >= SMALLEST and counts.sum() < totals.sum()
        ]
        # Of two categories one says it all: the one that is more frequent here.
        both = len(column.counts) == 2 and not column.rest.any()
        out += [feature for feature in found if feature.difference > 0] if both else found
    return out


def _category(name: str, category: str, counts: IntArray, totals: IntArray, k: int) -> Feature:
    here, few_others = _share(int(counts[k]), int(totals[k]))
    overall, few_elsewhere = _share(int(counts.sum()), int(totals.sum()))
    # Differences and lifts are of the rounded shares: exact ones would tell how few the others are.
    spread = np.sqrt(max(overall * (1 - overall), 1 / float(totals.sum())))
    lift = here / overall
    return Feature(
        column=cut(name),
        difference=float((here - overall) / spread),
        here=NEARLY_ALL if few_others else f"{100 * here:.0f}%",
        overall=NEARLY_ALL if few_elsewhere else f"{100 * overall:.0f}%",
        category=cut(category),
        lift=f"× {lift:.1f}" if lift > 1 else f"× {lift:.2f}",
    )


def _share(inside: int, rows: int) -> tuple[float, bool]:
    """The share to show, and whether it stands for nearly all: too few rows are outside."""
    # The rows outside are as few people as those of a small cell.
    few = 0 < rows - inside < SMALLEST
    return 1.0 if few else inside / rows, few
