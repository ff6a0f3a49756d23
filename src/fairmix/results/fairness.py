"""A table of how groups and clusters meet, with bootstrap intervals."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairmix.criteria import CRITERIA, smallest_ratio
from fairmix.criteria.bounds import reaches
from fairmix.input.groups import Groups, MissingGroups, encode_groups, listed_groups
from fairmix.metrics.assignment import Assignment, Labels, read_assignment, read_weights
from fairmix.results.frames import Framed
from fairmix.results.text import aligned, shortened
from fairmix.results.verdict import MET, MISSED, NOT_JUDGED

__all__ = ["FOUR_FIFTHS", "ClusterRow", "FairnessTable", "Figure", "GroupRow", "fairness_table"]

Array = NDArray[np.float64]

BATCH = 16  # bootstrap samples at a time: one matrix product each, and 128 bytes per row
LINE = 100  # columns of the printed table; long names are cut
# The four-fifths rule of the Uniform Guidelines on Employee Selection Procedures (1978): a group
# whose rate is below this share of the largest stands out. Audit tools take it, too.
FOUR_FIFTHS = 0.8


@dataclass(frozen=True)
class Figure:
    """A number and its bootstrap interval.

    Examples
    --------
    >>> print(Figure(0.1234, 0.1, 0.15))
    0.1234 [0.1000, 0.1500]
    """

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        if np.isnan(self.value):
            return "-"
        known = "" if np.isnan(self.low) else f" [{self.low:.4f}, {self.high:.4f}]"
        return f"{self.value:.4f}{known}"


UNKNOWN = Figure(np.nan, np.nan, np.nan)


@dataclass(frozen=True)
class ClusterRow:
    """One cluster.

    Attributes
    ----------
    cluster : str
        Its label, or its column of probabilities.
    size : float
        Rows in the cluster: a sum of weights or of probabilities if there are any.
    balance, rate_ratio : Figure
        Smallest ratio of the counts, and of the rates, of two groups that are judged; NaN in an
        empty cluster.
    counts : dict of str to float
        Rows of each group in the cluster, counted as in ``size``.
    rates : dict of str to Figure
        P(cluster | group) of each group.
    shares : dict of str to float
        P(group | cluster) of each group; NaN in an empty cluster.
    relative_rates : dict of str to Figure
        Rate of each group that is judged, over the largest rate of one; NaN in an empty cluster.

    Examples
    --------
    >>> row = fairness_table([0, 0, 1], ["a", "b", "b"]).clusters[0]
    >>> row.shares
    {'a': 0.5, 'b': 0.5}
    >>> [figure.value for figure in row.relative_rates.values()]
    [1.0, 0.5]
    """

    cluster: str
    size: float
    balance: Figure
    rate_ratio: Figure
    counts: dict[str, float]
    rates: dict[str, Figure]
    shares: dict[str, float]
    relative_rates: dict[str, Figure]


@dataclass(frozen=True)
class GroupRow:
    """One group: how its rates compare with the largest rate of a group, cluster by cluster.

    Attributes
    ----------
    group : str
        Its name.
    ratio : Figure
        The smallest of its relative rates; NaN where it is not judged.
    cluster : str or None
        The cluster of that.
    below : tuple of str
        Clusters in which its rate is below ``min_ratio`` of the largest, the worst first.
    verdict : {"met", "missed", "not judged"}
        Whether there is no such cluster. Nothing is forgiven.

    Examples
    --------
    >>> table = fairness_table([0, 0, 0, 1, 1, 1], ["a", "a", "b", "a", "b", "b"])
    >>> [(row.group, row.ratio.value, row.cluster, row.verdict) for row in table.groups]
    [('a', 0.5, '1', 'missed'), ('b', 0.5, '0', 'missed')]
    """

    group: str
    ratio: Figure
    cluster: str | None
    below: tuple[str, ...]
    verdict: str


@dataclass(frozen=True)
class FairnessTable(Framed):
    """Result of `fairness_table`. ``str`` of it is an aligned text of at most 100 columns.

    ``to_pandas()`` and ``to_polars()`` have one row per cluster and group, with the columns
    ``cluster, group, judged, count, share, rate, rate_low, rate_high, relative_rate, ..., size,
    balance, ...``.

    Attributes
    ----------
    summary : dict of str to Figure
        ``gap``, ``additive_gap``, ``worst_pair_gap``, ``balance`` and ``rate_ratio`` of all
        clusters, as in `fairmix.metrics`, of the groups that are judged. NaN where groups are
        too small and fewer than two are left.
    clusters : tuple of ClusterRow
        One row per cluster.
    groups : tuple of GroupRow
        One row per group: its smallest ratio, and whether it is below ``min_ratio`` anywhere.
    min_ratio : float
        What the verdicts on groups ask for.
    title : str
        Name of the sensitive column or columns.
    n_rows : int
        Rows of data.
    confidence : float
        Level of the bootstrap intervals.
    n_boot : int
        Bootstrap samples behind them.
    unjudged : dict of str to int
        Groups that are too small to be judged, and their rows. They are the last of each cluster.

    Examples
    --------
    >>> table = fairness_table([0, 0, 1, 1], ["a", "b", "a", "b"])
    >>> table.to_dict()["summary"]["gap"]["value"]
    0.0
    >>> table.to_pandas()[["cluster", "group", "count"]].values.tolist()
    [['0', 'a', 1.0], ['0', 'b', 1.0], ['1', 'a', 1.0], ['1', 'b', 1.0]]
    """

    summary: dict[str, Figure]
    clusters: tuple[ClusterRow, ...]
    groups: tuple[GroupRow, ...]
    min_ratio: float
    title: str
    n_rows: int
    confidence: float
    n_boot: int
    unjudged: dict[str, int] = field(default_factory=dict)

    @property
    def lowest(self) -> GroupRow | None:
        """The group with the smallest ratio of all; None where nothing is compared."""
        compared = [row for row in self.groups if row.cluster is not None]
        return min(compared, key=lambda row: row.ratio.value, default=None)

    def __str__(self) -> str:
        n_groups = len(self.clusters[0].counts)
        head = (
            f"{len(self.clusters)} clusters, {n_groups} groups ({shortened(self.title, 30)}), "
            f"{self.n_rows:,} rows; [{100 * self.confidence:.4g}% bootstrap intervals]"
        )
        if self.unjudged:
            small = f"not judged: {listed_groups(self.unjudged)}"
            # Names of groups may have hyphens, and half a name would be another one.
            head += "\n" + textwrap.fill(small, LINE, break_on_hyphens=False)
        width = max(len(name) for name in self.summary)
        figures = [
            f"{name.replace('_', ' '):<{width}}  {figure}" for name, figure in self.summary.items()
        ]
        if self.lowest is not None:
            where = str(self.lowest.cluster)
            who = f"{shortened(self.lowest.group, 30)} in cluster {shortened(where, 12)}"
            figures[-1] += f"  ({who})"
        verdicts = _groups_text(self.groups, self.min_ratio)
        return "\n".join([head, "", *figures, "", verdicts, "", _clusters_text(self.clusters)])

    def to_dict(self) -> dict[str, Any]:
        """All attributes as dicts and tuples of plain numbers and strings, ready for JSON."""
        return asdict(self)

    def _columns(self) -> dict[str, list[Any]]:
        cells = [(row, group) for row in self.clusters for group in row.counts]
        return {
            "cluster": [row.cluster for row, _ in cells],
            "group": [group for _, group in cells],
            "judged": [group not in self.unjudged for _, group in cells],
            "count": [row.counts[group] for row, group in cells],
            "share": [row.shares[group] for row, group in cells],
            **_spread("rate", [row.rates[group] for row, group in cells]),
            **_spread(
                "relative_rate", [row.relative_rates.get(group, UNKNOWN) for row, group in cells]
            ),
            "size": [row.size for row, _ in cells],
            **_spread("balance", [row.balance for row, _ in cells]),
            **_spread("rate_ratio", [row.rate_ratio for row, _ in cells]),
        }


class AttributeTables(Framed, Mapping[str, FairnessTable]):
    """A `FairnessTable` for each of several attributes, by name. ``str`` of it shows all of them.

    ``to_pandas()`` and ``to_polars()`` have the rows of all, with a first column ``attribute``.

    Examples
    --------
    >>> table = fairness_table([0, 1, 0, 1], ["a", "a", "b", "b"], n_boot=2, min_group_size=1)
    >>> AttributeTables({"sex": table})["sex"].n_rows
    4
    """

    def __init__(self, tables: Mapping[str, FairnessTable]) -> None:
        self._tables = dict(tables)

    def __getitem__(self, attribute: str) -> FairnessTable:
        return self._tables[attribute]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)

    def __str__(self) -> str:
        return "\n\n".join(f"{name}\n{table}" for name, table in self.items())

    __repr__ = __str__

    def to_dict(self) -> dict[str, Any]:
        """The tables as `FairnessTable.to_dict` gives them, by attribute."""
        return {name: table.to_dict() for name, table in self.items()}

    def _columns(self) -> dict[str, list[Any]]:
        out: dict[str, list[Any]] = {"attribute": []}
        for name, table in self.items():
            columns = table._columns()
            out["attribute"] += [name] * len(columns["group"])
            for column, values in columns.items():
                out.setdefault(column, []).extend(values)
        return out


def fairness_table(
    assignment: object,
    sensitive_features: object,
    *,
    sample_weight: ArrayLike | None = None,
    min_group_size: int = 1,
    missing_groups: MissingGroups = "error",
    min_ratio: float = FOUR_FIFTHS,
    n_boot: int = 200,
    confidence: float = 0.95,
    random_state: int | np.random.Generator = 0,
) -> FairnessTable:
    """Count, rate and share of every group in every cluster, and the fairness of the whole.

    Each group has a verdict, too: in which clusters its rate is below four fifths of the largest.

    The intervals are percentiles over bootstrap samples of the rows: they say how much the figures
    would vary from sample to sample. They are approximate. A gap cannot be negative, so the
    interval of a gap near 0 lies too high, and may lie above the gap itself; for a bound that is
    guaranteed see `fairmix.results.certificate.certify`.

    Parameters
    ----------
    assignment : array-like of shape (n_rows,) or (n_rows, n_clusters)
        Hard labels of any kind, or probabilities whose rows sum to 1.
    sensitive_features : array-like or table
        The group of each row. Several columns form their intersections.
    sample_weight : array-like of shape (n_rows,), optional
        Weights of at least 0. A group whose weights are all 0 is left out.
    min_group_size : int, default=1
        Groups of fewer rows are not judged: they are listed, and take no part in gaps, balances
        and ratios.
    missing_groups : {"error", "drop", "group"}, default="error"
        What a missing value in ``sensitive_features`` is: an error, a row to leave out, or the
        group "missing".
    min_ratio : float, default=0.8
        What the verdicts on groups ask for: in every cluster, the rate of a group is at least this
        share of the largest. Above 0, at most 1.
    n_boot : int, default=200
        Bootstrap samples, at least 2.
    confidence : float, default=0.95
        Level of the intervals, above 0 and below 1.
    random_state : int or numpy.random.Generator, default=0
        Seed of the bootstrap.

    Returns
    -------
    FairnessTable

    Examples
    --------
    >>> table = fairness_table([0, 0, 0, 1, 1, 1], ["a", "a", "b", "a", "b", "b"])
    >>> round(table.summary["gap"].value, 4)
    0.3333
    """
    if not 0 < min_ratio <= 1:
        raise ValueError(f"min_ratio={min_ratio!r} is not above 0 and at most 1. Use 0.8, say.")
    if n_boot < 2:
        raise ValueError(f"n_boot={n_boot!r} gives no interval. Use at least 2.")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence={confidence!r} is not between 0 and 1. Use 0.95, say.")
    clusters = read_assignment(assignment)
    groups = encode_groups(sensitive_features, n_rows=len(clusters), missing=missing_groups)
    weights = read_weights(sample_weight, len(clusters))
    # Weights equal repetition of rows: a row of weight 0 is absent, and so may its group be.
    absent = groups.codes < 0 if weights is None else (groups.codes < 0) | (weights == 0)
    if absent.any():
        present = np.flatnonzero(~absent)
        groups, weights = groups.take(present), None if weights is None else weights[present]
        clusters = _take(clusters, present)
    mass = clusters.group_mass(groups, weights)
    names = _cluster_names(assignment, clusters)
    rng = np.random.default_rng(random_state)
    draws = _resampled(clusters, groups, weights, n_boot, rng)
    small = groups.judged(min_group_size).unjudged
    # Judged groups first: a slice then is all that is compared.
    order = [g for g, name in enumerate(groups.names) if name not in small]
    # One group that is left of several has nothing to be compared with.
    n_compared = 0 if small and len(order) < 2 else len(order)
    order += [g for g, name in enumerate(groups.names) if name in small]
    named = tuple(groups.names[g] for g in order)
    mass, draws = mass[order], draws[:, order]
    rows = _rows(mass, draws, confidence, names, named, n_compared)
    # The draws of a smallest ratio are the smallest of each draw, wherever they are.
    relative = _relative(_rates(draws[:, :n_compared]))
    return FairnessTable(
        summary=_summary(mass[:n_compared], draws[:, :n_compared], confidence),
        clusters=rows,
        groups=tuple(
            _group_row(name, rows, relative[:, g : g + 1], min_ratio, confidence)
            for g, name in enumerate(named)
        ),
        min_ratio=min_ratio,
        title=groups.title,
        n_rows=len(clusters),
        confidence=confidence,
        n_boot=n_boot,
        unjudged=small,
    )


def _take(clusters: Assignment, rows: NDArray[np.intp]) -> Assignment:
    """Some rows; clusters that have none of them stay."""
    if isinstance(clusters, Labels):
        # The number of clusters is passed on, because an empty cluster is still one of the map.
        return Labels(clusters.codes[rows], clusters.n_clusters)
    return type(clusters)(clusters.values[rows])


def _resampled(
    clusters: Assignment,
    groups: Groups,
    weights: Array | None,
    n_boot: int,
    rng: np.random.Generator,
) -> Array:
    """Mass of ``n_boot`` samples of the rows with replacement, (n_boot, M, K)."""
    n_rows = len(clusters)
    if isinstance(clusters, Labels):
        if weights is not None:
            # Rows of one cell differ in weight here, so rows must be drawn.
            samples = (_times(n_rows, rng) * weights for _ in range(n_boot))
            return np.stack([clusters.group_mass(groups, sample) for sample in samples])
        # Rows matter only through their cell, so the counts of the cells are drawn at once.
        mass = clusters.group_mass(groups, None)
        counts = rng.multinomial(n_rows, mass.ravel() / n_rows, size=n_boot)
        return counts.reshape(n_boot, *mass.shape).astype(np.float64)
    # Rows in the order of their groups, so that a group's masses are one matrix product.
    order = np.argsort(groups.codes, kind="stable")
    values = clusters.values[order].astype(np.float64)
    values *= 1.0 if weights is None else weights[order, None]
    ends = np.cumsum(groups.sizes)
    out = np.empty((n_boot, len(ends), values.shape[1]))
    for start in range(0, n_boot, BATCH):
        batch = out[start : start + BATCH]
        times = np.stack([_times(n_rows, rng) for _ in batch])
        for g, (end, size) in enumerate(zip(ends, groups.sizes, strict=True)):
            batch[:, g] = times[:, end - size : end] @ values[end - size : end]
    # Probabilities may be below 0 by rounding; a mass may not, or ratios of masses change sign.
    return np.maximum(out, 0.0)


def _times(n_rows: int, rng: np.random.Generator) -> Array:
    """How often each row is in a sample with replacement."""
    return np.bincount(rng.integers(n_rows, size=n_rows), minlength=n_rows).astype(np.float64)


def _summary(mass: Array, draws: Array, confidence: float) -> dict[str, Figure]:
    if len(mass) == 0:
        # The same keys as ever, so that readers of the table need no second case.
        return dict.fromkeys((*CRITERIA, "balance", "rate_ratio"), UNKNOWN)
    values = _overall(mass)
    spread = [_overall(draw) for draw in draws]
    out = {}
    for name, value in values.items():
        low, high = _interval(np.array([draw[name] for draw in spread]), confidence)
        out[name] = Figure(value, float(low), float(high))
    return out


def _overall(mass: Array) -> dict[str, float]:
    """The figures of `fairmix.metrics`, from the mass."""
    present = mass[mass.sum(axis=1) > 0]  # a bootstrap sample may miss a small group
    rates = _rates(present)
    return {
        **{name: criterion.value(rates) for name, criterion in CRITERIA.items()},
        "balance": smallest_ratio(present),
        "rate_ratio": smallest_ratio(rates),
    }


def _rows(
    mass: Array,
    draws: Array,
    confidence: float,
    names: tuple[str, ...],
    groups: tuple[str, ...],
    n_compared: int,
) -> tuple[ClusterRow, ...]:
    """Of all groups; ratios are of the first ones."""
    rates = _figures(_rates(mass), _rates(draws), confidence)
    judged, drawn = mass[:n_compared], draws[:, :n_compared]
    # NaN, not zero: a group that a sample misses would otherwise make every ratio zero.
    present = np.where(drawn.sum(axis=-1, keepdims=True) > 0, drawn, np.nan)
    balances = _figures(_ratios(judged), _ratios(present), confidence)
    ratios = _figures(_ratios(_rates(judged)), _ratios(_rates(drawn)), confidence)
    relative = _figures(_relative(_rates(judged)), _relative(_rates(drawn)), confidence)
    sizes = mass.sum(axis=0)
    shares = mass / np.where(sizes > 0, sizes, np.nan)
    return tuple(
        ClusterRow(
            cluster=name,
            size=float(sizes[k]),
            balance=Figure(*balances[k].tolist()),
            rate_ratio=Figure(*ratios[k].tolist()),
            counts=dict(zip(groups, mass[:, k].tolist(), strict=True)),
            rates={group: Figure(*rates[g, k].tolist()) for g, group in enumerate(groups)},
            shares=dict(zip(groups, shares[:, k].tolist(), strict=True)),
            relative_rates={
                group: Figure(*relative[g, k].tolist())
                for g, group in enumerate(groups[:n_compared])
            },
        )
        for k, name in enumerate(names)
    )


def _group_row(
    name: str,
    clusters: tuple[ClusterRow, ...],
    draws: Array,
    min_ratio: float,
    confidence: float,
) -> GroupRow:
    """A group over all clusters; draws of its relative rates (n_boot, 1, K), none: not judged."""
    if not draws.size:
        return GroupRow(name, UNKNOWN, None, (), NOT_JUDGED)
    found = sorted(
        (row.relative_rates[name].value, k)
        for k, row in enumerate(clusters)
        # An empty cluster has no rates to compare.
        if not np.isnan(row.relative_rates[name].value)
    )
    smallest, k = found[0]
    worst = np.where(np.isnan(draws), np.inf, draws).min(axis=(1, 2))
    # A bootstrap sample may miss the group.
    low, high = _interval(np.where(np.isinf(worst), np.nan, worst), confidence)
    below = tuple(clusters[j].cluster for value, j in found if not reaches(value, min_ratio))
    ratio = Figure(smallest, float(low), float(high))
    return GroupRow(name, ratio, clusters[k].cluster, below, MISSED if below else MET)


def _figures(values: Array, draws: Array, confidence: float) -> Array:
    """Value, low and high along a new last axis."""
    return np.stack([values, *_interval(draws, confidence)], axis=-1)


def _interval(draws: Array, confidence: float) -> Array:
    """Percentiles over the first axis of those draws that are numbers; NaN where none is."""
    known = ~np.isnan(draws)
    # np.nanquantile warns where all are NaN: give it one number there, and take it out again.
    filled = np.where(known.any(axis=0), draws, 0.0)
    tails = np.nanquantile(filled, [(1 - confidence) / 2, (1 + confidence) / 2], axis=0)
    return np.asarray(np.where(known.any(axis=0), tails, np.nan))


def _rates(mass: Array) -> Array:
    """P(cluster | group) from masses (..., M, K); NaN for a group without mass."""
    sizes = mass.sum(axis=-1, keepdims=True)
    return np.asarray(mass / np.where(sizes > 0, sizes, np.nan))


def _ratios(values: Array) -> Array:
    """Smallest ratio of two groups in each cluster, (..., K); NaN for an empty cluster.

    A group that a bootstrap sample misses is NaN and left out. Without groups there is no ratio.
    """
    least = np.where(np.isnan(values), np.inf, values).min(axis=-2, initial=np.inf)
    most = np.where(np.isnan(values), -np.inf, values).max(axis=-2, initial=-np.inf)
    return np.asarray(least / np.where(most > 0, most, np.nan))


def _relative(rates: Array) -> Array:
    """Rates (..., M, K) over the largest of the cluster; NaN for an empty cluster."""
    most = np.where(np.isnan(rates), -np.inf, rates).max(axis=-2, initial=-np.inf, keepdims=True)
    return np.asarray(rates / np.where(most > 0, most, np.nan))


def _cluster_names(assignment: object, clusters: Assignment) -> tuple[str, ...]:
    if isinstance(clusters, Labels):
        return encode_groups(assignment, argument="assignment").names
    return tuple(str(k) for k in range(clusters.values.shape[1]))


def _spread(name: str, figures: list[Figure]) -> dict[str, list[float]]:
    """Columns of a figure: its value and the ends of its interval."""
    ends = {"": "value", "_low": "low", "_high": "high"}
    return {name + end: [getattr(f, field) for f in figures] for end, field in ends.items()}


def _groups_text(groups: tuple[GroupRow, ...], min_ratio: float) -> str:
    """One line per group: its smallest ratio, where, and the verdict."""
    lines = [["group", "smallest ratio", "cluster", f"below {min_ratio:g} in", "verdict"]]
    for row in groups:
        where = "-" if row.cluster is None else shortened(row.cluster, 12)
        below = shortened(", ".join(row.below) or "-", 24)
        lines.append([row.group, str(row.ratio), where, below, row.verdict])
    return _within_line(lines, 0, words=range(5))


def _clusters_text(clusters: tuple[ClusterRow, ...]) -> str:
    """One line per cluster and group; the figures of a cluster on its first line."""
    head = ["cluster", "size", "balance", "rate ratio", "group", "count", "rate", "", "share"]
    lines = [head]
    for row in clusters:
        ratios = (f"{row.balance.value:.3f}", f"{row.rate_ratio.value:.3f}")
        first = [shortened(row.cluster, 12), f"{row.size:,.0f}", *ratios]
        for group, rate in row.rates.items():
            interval = f"[{rate.low:.3f}, {rate.high:.3f}]"
            numbers = (f"{row.counts[group]:,.0f}", f"{rate.value:.3f}", interval)
            lines.append([*first, group, *numbers, f"{row.shares[group]:.3f}"])
            first = [""] * len(first)
    place = head.index("group")
    return _within_line(lines, place, words=(0, place))


def _within_line(lines: list[list[str]], place: int, words: Collection[int]) -> str:
    """Cells in columns; the names at a place give way where the line would be too long."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    # Two blanks stand between columns: see `aligned`.
    left = LINE - sum(widths) + widths[place] - 2 * (len(widths) - 1)
    for line in lines:
        line[place] = shortened(line[place], left)
    return aligned(lines, words)
