"""Shares: how much of each cluster each group makes, against the population."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairmix.report.disclosure import SafeCounts
from fairmix.report.figures import HIDDEN, cut, percent, value
from fairmix.results.profile import share_interval

__all__ = ["Bar", "ClusterShares", "Panel", "panel"]

COLOURS = 7  # of the palette; more groups use them again, and every bar has its name
LONG = 12  # characters of a name that fit beside a bar
# With this limit a page of 80 clusters and 12 groups is below 1.5 MB (decision 0011).
BARS = 360  # of one panel; the smallest clusters are left out of a longer one


@dataclass(frozen=True)
class Bar:
    """One group in one cluster; ``share`` is of the cluster, and None where hidden."""

    group: str
    colour: int
    share: float | None
    population: float
    text: str
    count: str
    rate: str
    interval: tuple[float, float] | None = None

    @property
    def label(self) -> str:
        """What stands beside the bar: the share, or the count where only that is shown."""
        return f"{self.count} rows" if self.share is None and self.count != HIDDEN else self.text

    @property
    def overall(self) -> str:
        """The share of all rows."""
        return percent(self.population)

    @property
    def ends(self) -> str:
        """The interval as text."""
        return "" if self.interval is None else " – ".join(f"{100 * e:.1f}" for e in self.interval)


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
    """Clusters in the order of their names, the number left out, and the end of the scale.

    Without clusters where no count is shown.
    """

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
    if not safe.has_cells:
        return Panel((), 0, 1.0)
    # By what is shown of their sizes: the order by true sizes would tell more.
    shown = _largest(safe.estimate.sum(axis=0), max(1, bars // max(1, len(groups))))
    gaps = safe.cluster_gaps(criterion)
    rows = tuple(_cluster(safe, k, str(clusters[k]), groups, float(gaps[k])) for k in shown)
    highest = [bar.interval[1] for row in rows for bar in row.bars if bar.interval is not None]
    highest += [bar.share for row in rows for bar in row.bars if bar.share is not None]
    highest += [bar.population for row in rows for bar in row.bars]
    # Up to the next tenth: with many small groups, bars on a scale to 1
    # would be too short to compare.
    scale = min(1.0, np.ceil(max(highest, default=1.0) * 10) / 10)
    return Panel(rows, len(clusters) - len(shown), float(scale))


def _largest(sizes: NDArray[np.float64], n_shown: int) -> list[int]:
    return sorted(np.argsort(-sizes, kind="stable")[:n_shown].tolist())


def _cluster(
    safe: SafeCounts, k: int, name: str, groups: Sequence[str], gap: float
) -> ClusterShares:
    # A difference of rates needs all counts of the cluster.
    known = not safe.hidden[:, k].any()
    return ClusterShares(
        name=cut(name),
        size=safe.size(k),
        share=percent(safe.sizes[k] / safe.counts.sum()) if known else "",
        gap=value(gap) if known else HIDDEN,
        empty=bool(safe.sizes[k] == 0),
        bars=tuple(_bar(safe, g, k, group) for g, group in enumerate(groups)),
    )


def _bar(safe: SafeCounts, g: int, k: int, group: str) -> Bar:
    inside, size, members = safe.counts[g, k], safe.sizes[k], safe.group_sizes[g]
    share = safe.share(g, k)
    known = not safe.hidden[:, k].any()
    interval = None
    if known and size:
        low, high = (float(end) for end in share_interval(inside, size))
        interval = low, high
    digits = 1 if known else 0
    return Bar(
        group=cut(group),
        colour=g % COLOURS,
        # A bar must not be longer than its text says.
        share=None if share is None else (share if known else round(share)) / 100,
        population=float(members / safe.counts.sum()),
        text=HIDDEN if share is None else f"{share:.{digits}f}%",
        count=safe.count(g, k),
        rate=HIDDEN if safe.hidden[g, k] else percent(inside / members) if members else "none",
        interval=interval,
    )
