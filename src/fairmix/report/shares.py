"""Shares: how much of each cluster each group makes, against the population."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairmix.criteria import CRITERIA
from fairmix.report.disclosure import SafeCounts
from fairmix.report.figures import count, cut, percent, value
from fairmix.results.profile import share_interval

__all__ = ["Bar", "ClusterShares", "Panel", "panel"]

FloatArray = NDArray[np.float64]

COLOURS = 7  # of the palette; more groups use them again, and every bar has its name
LISTED = 12  # names before "and 8 more"
LONG = 12  # characters of a name that fit beside a bar
# With this limit a page of 80 clusters and 12 groups is below 1.5 MB (decision 0011).
BARS = 360  # of one panel; the smallest clusters are left out of a longer one


@dataclass(frozen=True)
class Bar:
    """One group in one cluster; ``share`` is of the cluster, ``rate`` of the group."""

    group: str
    colour: int
    share: float
    population: float
    count: str
    rate: str
    interval: tuple[float, float]

    @property
    def text(self) -> str:
        """The share."""
        return percent(self.share)

    @property
    def overall(self) -> str:
        """The share of all rows."""
        return percent(self.population)

    @property
    def ends(self) -> str:
        """The interval as text."""
        return " – ".join(f"{100 * end:.1f}" for end in self.interval)


@dataclass(frozen=True)
class ClusterShares:
    """A cluster, or several together: the size, what it adds to the gap, a bar for each group."""

    label: str
    name: str
    size: str
    share: str
    gap: str
    bars: tuple[Bar, ...]

    @property
    def empty(self) -> bool:
        """Whether it has no rows."""
        return not self.bars


@dataclass(frozen=True)
class Panel:
    """Clusters in the order of their names, those that are shown together, and the scale's end.

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
    columns = safe.columns
    sizes = np.array([rows.sum() for _, rows in columns])
    shown = _largest(sizes, max(1, bars // max(1, len(groups))))
    rows = tuple(
        _cluster(safe, [str(clusters[k]) for k in columns[i][0]], columns[i][1], groups, criterion)
        for i in shown
    )
    highest = [max(bar.interval[1], bar.population) for row in rows for bar in row.bars]
    # Up to the next tenth: with many small groups, bars on a scale to 1
    # would be too short to compare.
    scale = min(1.0, np.ceil(max(highest, default=1.0) * 10) / 10)
    return Panel(rows, len(columns) - len(shown), float(scale))


def _largest(sizes: FloatArray, n_shown: int) -> list[int]:
    return sorted(np.argsort(-sizes, kind="stable")[:n_shown].tolist())


def _cluster(
    safe: SafeCounts,
    names: Sequence[str],
    counts: FloatArray,
    groups: Sequence[str],
    criterion: str,
) -> ClusterShares:
    size, rows = float(counts.sum()), float(safe.counts.sum())
    rates = counts / safe.group_sizes
    # How the groups compare in several clusters together is in no gap.
    gap = CRITERIA[criterion].value(rates[:, None]) if len(names) == 1 else None
    ends = zip(*share_interval(counts, np.full_like(counts, size)), strict=True) if size else ()
    return ClusterShares(
        label=_joined(names),
        name=f"Cluster {_joined(names)}"
        if len(names) == 1
        else f"Clusters {_joined(names)} together",
        size=count(size),
        share=percent(size / rows),
        gap="" if gap is None else value(gap),
        bars=tuple(
            Bar(
                group=cut(group),
                colour=g % COLOURS,
                share=float(counts[g] / size),
                population=float(safe.group_sizes[g] / rows),
                count=count(counts[g]),
                rate=percent(rates[g]),
                interval=(float(low), float(high)),
            )
            for g, (group, (low, high)) in enumerate(zip(groups, ends, strict=False))
        ),
    )


def _joined(names: Sequence[str]) -> str:
    """The name of a cluster, or of those that are shown together."""
    left = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return ", ".join(cut(name) for name in names[:LISTED]) + left
