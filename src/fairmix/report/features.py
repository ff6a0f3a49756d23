"""What makes each cluster: where its columns differ most from the rows of all described clusters.

Clusters with few rows are not described, and take no part in what is said of all rows: their means
and shares could be computed from the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairmix.report.disclosure import FEWEST, SafeCounts, Share, safe_shares, share_of
from fairmix.report.figures import amount, cut
from fairmix.results.profile import Numbers, Profile

__all__ = ["Feature", "Portrait", "portraits"]

FloatArray = NDArray[np.float64]

TOP = 5  # features of each kind: what a reader keeps in mind of a cluster
LEAST = 0.1  # standard deviations; smaller differences are not worth a line
NAMED = 2  # features in the name of a cluster
STANDS_OUT = 0.4  # standard deviations from which on a feature names a cluster: a medium effect
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
    def words(self) -> str:
        """The feature in a few words."""
        if self.category:
            return (
                f"{self.column} {self.category}" if self.difference > 0 else f"few {self.category}"
            )
        return f"{'high' if self.difference > 0 else 'low'} {self.column}"

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

    @property
    def name(self) -> str:
        """What makes the cluster, in a few words; empty where nothing stands out.

        Examples
        --------
        >>> age = Feature("age", 0.9, "52", "38.6")
        >>> Portrait("3", False, (age,), ()).name
        'high age'
        """
        found = sorted((*self.numbers, *self.categories), key=lambda one: -abs(one.difference))
        return ", ".join(one.words for one in found[:NAMED] if abs(one.difference) >= STANDS_OUT)


def portraits(
    profile: Profile, tables: Sequence[SafeCounts], clusters: Sequence[int]
) -> list[Portrait]:
    """The features of the chosen clusters that have rows, by the tables of all attributes.

    Examples
    --------
    >>> import pandas as pd
    >>> people = pd.DataFrame({"age": [20.0] * 10 + [60.0] * 10})
    >>> profile = Profile.from_frame(people, [0] * 10 + [1] * 10, ["f", "m"] * 10)
    >>> portraits(profile, [SafeCounts.of(profile.counts)], [0])[0].numbers[0].difference
    -1.0
    """
    fewest = np.min([safe.fewest for safe in tables], axis=0)
    # All of them, chosen or not: "all" is the same for every choice.
    described = [k for k in range(profile.n_clusters) if fewest[k] >= FEWEST]
    numbers: dict[int, list[Feature]] = {k: [] for k in described}
    categories: dict[int, list[Feature]] = {k: [] for k in described}
    sizes = tables[0].estimate.sum(axis=0)
    for name, column in profile.numbers.items():
        if column.is_indicator:
            ones = {"1": column.counts * column.means}
            _add(categories, name, ones, column.counts.astype(float), described)
        else:
            _add_means(numbers, name, column, described, sizes)
    for name, levels in profile.categories.items():
        totals = levels.rest + sum(levels.counts.values(), np.zeros_like(levels.rest))
        counts = {category: found.astype(float) for category, found in levels.counts.items()}
        _add(categories, name, counts, totals.astype(float), described)
    return [
        Portrait(
            cluster=cut(profile.clusters[k]),
            hidden=k not in numbers,
            numbers=_top(numbers.get(k, [])),
            categories=_top(categories.get(k, [])),
        )
        for k in clusters
        if tables[0].sizes[k] > 0
    ]


def _top(features: list[Feature]) -> tuple[Feature, ...]:
    # sorted is stable: equal differences keep the order of the columns.
    return tuple(sorted(features, key=lambda feature: -abs(feature.difference))[:TOP])


def _add_means(
    features: dict[int, list[Feature]],
    name: str,
    column: Numbers,
    described: Sequence[int],
    sizes: FloatArray,
) -> None:
    """The means of a column in the clusters that have enough values of it."""
    shown = [k for k in described if column.counts[k] >= FEWEST]
    if not shown:
        return
    # Over these clusters only: the mean of all rows would give those of the others away. And by
    # their sizes as the page shows them: the mean would tell exact ones, and missing values.
    shares = sizes[shown] / sizes[shown].sum()
    mean = float(shares @ column.means[shown])
    around = np.square(column.stds[shown]) + np.square(column.means[shown] - mean)
    std = float(np.sqrt(shares @ around))
    if not std > 0:
        return
    for k in shown:
        difference = float((column.means[k] - mean) / std)
        if abs(difference) >= LEAST:
            feature = Feature(cut(name), difference, amount(column.means[k]), amount(mean))
            features[k].append(feature)


def _add(
    features: dict[int, list[Feature]],
    name: str,
    counts: dict[str, FloatArray],
    totals: FloatArray,
    described: Sequence[int],
) -> None:
    """The category of a column that tells each cluster apart most; two would add up to a third."""
    shown = [k for k in described if share_of(0.0, totals[k]) is not None]
    rows = float(totals[shown].sum())
    chosen: dict[str, dict[int, Share]] = {}
    for k in shown:
        found = []
        for place, (category, inside) in enumerate(counts.items()):
            here, overall = share_of(inside[k], totals[k]), share_of(inside[shown].sum(), rows)
            if here is not None and overall is not None and 0 < overall.shown < 1:
                # Of two that differ alike, the one that is more frequent here says it better.
                difference = _difference(here, overall)
                found.append((round(abs(difference), 9), difference, -place, category, here))
        if found:
            *_, category, here = max(found)
            chosen.setdefault(category, {})[k] = here
    for category, shares in chosen.items():
        inside = counts[category]
        overall = safe_shares(shares, float(inside[shown].sum()), rows, len(shown) - len(shares))
        if overall is None or not 0 < overall.shown < 1:
            continue
        for k, here in shares.items():
            difference, lift = _difference(here, overall), here.shown / overall.shown
            if abs(difference) >= LEAST:
                text = f"× {lift:.1f}" if lift > 1 else f"× {lift:.2f}" if lift > 0 else ""
                feature = Feature(
                    cut(name), difference, here.text, overall.text, cut(category), text
                )
                features[k].append(feature)


def _difference(here: Share, overall: Share) -> float:
    """In standard deviations, of the rounded shares: those of exact ones would tell counts."""
    spread = np.sqrt(overall.shown * (1 - overall.shown))
    return float((here.shown - overall.shown) / spread)
