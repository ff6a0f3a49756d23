"""Shares: how much of each cluster each group makes, against the population."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairmix.report.figures import TOO_FEW, count, cut, percent, value
from fairmix.report.suppression import SafeCounts
from fairmix.results.profile import share_interval

__all__ = ["Bar", "ClusterShares", "Panel", "panel"]

COLOURS = 7  # of the palette; more groups use them again, and every bar has its name
HIDDEN = "hidden"
LONG = 12  # characters of a name that fit beside a bar
# With this limit a page of 80 clusters and 12 groups is below 1.5 MB (decision 0011).
BARS = 360  # of one panel; the smallest clusters are left out of a longer one


@dataclass(frozen=True)
class Bar:
    """One group in one cluster; shares are of the cluster, and None where hidden."""

    group: str
    colour: int
    share: float | None
    low: float
    high: float
    population: float | None
    text: str
    interval: str
    count: str
    rate: str

    @property
    def overall(self) -> str:
        """The share of all rows."""
        return HIDDEN if self.population is None else percent(self.population)


@dataclass(frozen=True)
class ClusterShares:
    """One cluster: its size, what it adds to the gap, and a bar for each group."""

    name: str
    size: str
    share: str
    gap: str
    empty: bool
    bars: tuple[Bar, ...]


@dataclass(frozen=True)
class Panel:
    """Clusters in the order of their names, the number left out, and the end of the scale."""

    clusters: tuple[ClusterShares, ...]
    left_out: int
    scale: float

    @property
    def wide(self) -> bool:
        """Whether the names of the groups need room."""
        return any(len(bar.group) > LONG for row in self.clusters for bar in row.bars)


def panel(
    safe: SafeCounts,
    clusters: Sequence[object],
    groups: Sequence[str],
    criterion: str,
    *,
    bars: int = BARS,
) -> Panel:
    """Bars of all clusters, or of the largest ones when there are too many.

    Examples
    --------
    >>> safe = SafeCounts.of(np.array([[30.0, 20.0], [30.0, 20.0]]))
    >>> panel(safe, ["0", "1"], ["f", "m"], "gap").clusters[0].bars[0].text
    '50.0%'
    """
    shown = _largest(safe.sizes, max(1, bars // max(1, len(groups))))
    gaps = safe.cluster_gaps(criterion)
    rows = tuple(_cluster(safe, k, str(clusters[k]), groups, float(gaps[k])) for k in shown)
    highest = [bar.high for row in rows for bar in row.bars if bar.share is not None]
    highest += [bar.population for row in rows for bar in row.bars if bar.population is not None]
    # Up to the next tenth: with many small groups, bars on a scale to 1
    # would be too short to compare.
    scale = min(1.0, np.ceil(max(highest, default=1.0) * 10) / 10)
    return Panel(rows, len(clusters) - len(shown), float(scale))


def _largest(sizes: NDArray[np.float64], n_shown: int) -> list[int]:
    return sorted(np.argsort(-sizes, kind="stable")[:n_shown].tolist())


def _cluster(
    safe: SafeCounts, k: int, name: str, groups: Sequence[str], gap: float
) -> ClusterShares:
    size, total = safe.sizes[k], safe.counts.sum()
    covered = bool(safe.hidden[-1, k])
    # A difference of rates needs the cells of the cluster and the sizes of the groups.
    known = not safe.hidden[:, k].any() and not safe.hidden[:, -1].any()
    return ClusterShares(
        name=cut(name),
        size=_cell(safe, -1, k, size),
        share="" if covered else percent(size / total),
        gap=value(gap) if known else HIDDEN,
        empty=bool(size == 0),
        bars=tuple(_bar(safe, g, k, group) for g, group in enumerate(groups)),
    )


def _bar(safe: SafeCounts, g: int, k: int, group: str) -> Bar:
    inside, size, members = safe.counts[g, k], safe.sizes[k], safe.group_sizes[g]
    text = _cell(safe, g, k, inside)
    population = None if safe.hidden[g, -1] else float(members / safe.counts.sum())
    rate = text if safe.hidden[g, k] else HIDDEN
    if not (safe.hidden[g, k] or safe.hidden[g, -1]):
        rate = percent(inside / members) if members else "none"
    # A bar of any length would show the share, and so would an interval.
    if safe.hidden[g, k] or safe.hidden[-1, k] or size == 0:
        shown = text if safe.hidden[g, k] else HIDDEN
        return Bar(cut(group), g % COLOURS, None, 0, 0, population, shown, "", text, rate)
    low, high = (float(end) for end in share_interval(inside, size))
    return Bar(
        group=cut(group),
        colour=g % COLOURS,
        share=float(inside / size),
        low=low,
        high=high,
        population=population,
        text=percent(inside / size),
        interval=f"{100 * low:.1f} – {100 * high:.1f}",
        count=text,
        rate=rate,
    )


def _cell(safe: SafeCounts, g: int, k: int, rows: float) -> str:
    if safe.small[g, k]:
        return TOO_FEW
    return HIDDEN if safe.hidden[g, k] else count(rows)
