"""An audit: clusters and groups of files, counted block by block, and what is measured of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from fairmix.cli.files import InputFiles, fit_rows, present
from fairmix.cli.fitting import facts_of
from fairmix.cli.outputs import file_of
from fairmix.criteria import CRITERIA, Limit, smallest_ratio
from fairmix.input.groups import MissingGroups, encode_groups
from fairmix.kernels.totals import FloatArray
from fairmix.results.fairness import Figure, fairness_table
from fairmix.results.profile import Profile
from fairmix.results.ratio import LeastRatio, least_ratio
from fairmix.results.verdict import Verdict, judge_counts, worst_of
from fairmix.tables.values import table_by_value

if TYPE_CHECKING:
    from fairmix.report.moves import Moves

# More rows need no intervals: those of a share are then narrower than 0.002.
BOOTSTRAP_ROWS = 1_000_000


def profile_of(data: InputFiles, *, each: bool = False) -> Profile:
    """Clusters and groups of all rows, by two passes; ``each``: of each attribute by itself."""
    seen: pa.Table | None = None
    # The names must be known before anything is counted: a profile has fixed rows and columns. Only
    # distinct combinations are kept, so memory does not grow with the rows.
    keys = [*data.labels, *data.sensitive]
    for block in data.marked_blocks():
        # Dictionaries differ between blocks, so such tables cannot be put together.
        table = table_by_value(block.table.filter(pa.array(block.kept)).select(keys))
        both = table if seen is None else pa.concat_tables([seen, table])
        seen = both.group_by(keys).aggregate([])
    assert seen is not None
    profile = Profile(
        numeric=data.numeric,
        categorical=data.categorical,
        groups=_groups_of(seen.select(data.sensitive), data.missing_groups, each),
        clusters=(names := _cluster_names(seen[data.labels[0]])),
        n_clusters=len(names),
        title=" & ".join(data.sensitive),
        missing_groups=data.missing_groups,
    )
    for block in data.marked_blocks():
        table = block.table.filter(pa.array(block.kept))
        # A block whose rows are all left out has no groups to read, which would be an error.
        if len(table):
            profile.add(table, table[data.labels[0]], table.select(data.sensitive))
    return profile


def _groups_of(
    seen: pa.Table, missing: MissingGroups, each: bool
) -> Sequence[str] | dict[str, Sequence[str]]:
    """Names of the groups; by attribute, where several columns are compared each by itself."""
    found = encode_groups(seen, missing=missing, each=each)
    return {own.title: own.names for own in found.attributes} or found.names


def _cluster_names(labels: pa.ChunkedArray) -> list[str]:
    """Names of the clusters; numbers in their order, also where a file holds them as text."""
    names = list(encode_groups(labels, argument="labels").names)
    # As text, cluster 10 would stand before cluster 2.
    return sorted(names, key=int) if all(name.isdecimal() for name in names) else names


def figures_of(
    data: InputFiles,
    profile: Profile,
    min_group_size: int,
    seed: int,
    columns: Sequence[str],
) -> dict[str, Figure]:
    """The criteria, the balance and the ratio of the groups that are judged.

    With intervals unless there are very many rows.
    """
    if profile.n_rows <= BOOTSTRAP_ROWS:
        table = data.gather(fit_rows)
        if data.missing_groups == "drop":
            # A row that lacks the group of one attribute counts for none.
            given = [present(table[name]) for name in data.sensitive]
            table = table.filter(pa.array(np.all(given, axis=0)))
        found = fairness_table(
            table[data.labels[0]],
            table.select(columns),
            min_group_size=min_group_size,
            missing_groups=data.missing_groups,
            random_state=seed,
        )
        return found.summary
    # The figures of fairness_table, from counts alone: so many rows need not fit in memory.
    counts = profile.counts[profile.counts.sum(axis=1) >= min_group_size].astype(np.float64)
    exact = dict.fromkeys((*CRITERIA, "balance", "rate_ratio"), np.nan)
    if len(counts) > 1:
        rates = counts / counts.sum(axis=1, keepdims=True)
        exact = {name: criterion.value(rates) for name, criterion in CRITERIA.items()}
        exact["balance"], exact["rate_ratio"] = smallest_ratio(counts), smallest_ratio(rates)
    return {name: Figure(value, np.nan, np.nan) for name, value in exact.items()}


def judged_counts(profile: Profile, verdict: Verdict) -> tuple[FloatArray, list[str]]:
    """Rows of the groups that are judged in each cluster, and the names of the groups."""
    counts = profile.counts.astype(np.float64)
    judged = [
        g
        for g, name in enumerate(profile.groups)
        if name not in verdict.unjudged and counts[g].sum()
    ]
    return counts[judged], [profile.groups[g] for g in judged]


def least_of(profile: Profile, verdict: Verdict) -> LeastRatio | None:
    """The smallest ratio of the groups that are judged."""
    counts, groups = judged_counts(profile, verdict)
    return least_ratio(counts / counts.sum(axis=1, keepdims=True), groups, profile.clusters)


@dataclass(frozen=True)
class Audited:
    """What is found of the groups of one attribute."""

    profile: Profile
    verdict: Verdict
    least: LeastRatio | None
    figures: dict[str, Figure]

    @property
    def document(self) -> dict[str, Any]:
        """For programs."""
        counts = zip(self.profile.groups, self.profile.counts.tolist(), strict=True)
        return {
            **self.verdict.figures,
            "smallest_ratio": None if self.least is None else asdict(self.least),
            "figures": {name: asdict(figure) for name, figure in self.figures.items()},
            "counts": dict(counts),
        }


def audited(
    data: InputFiles, profile: Profile, limit: Limit, min_group_size: int, seed: int
) -> dict[str, Audited]:
    """What is found of the groups, by attribute: all are judged by the same rule."""
    found = {}
    for title, own in profile.by_attribute.items():
        verdict = judge_counts(own.counts, own.groups, limit, min_group_size=min_group_size)
        columns = [title] if profile.attributes else data.sensitive
        figures = figures_of(data, own, min_group_size, seed, columns)
        found[title] = Audited(own, verdict, least_of(own, verdict), figures)
    return found


def verdict_on_all(found: Mapping[str, Verdict]) -> Verdict:
    """The verdict on several attributes: that of the worst, with what is not judged in any."""
    small = {
        f"{title}: {name}": n for title, own in found.items() for name, n in own.unjudged.items()
    }
    return replace(worst_of(list(found.values())), unjudged=small)


def least_of_all(found: Mapping[str, Audited]) -> LeastRatio | None:
    """The smallest ratio of several attributes."""
    known = [
        replace(own.least, group=f"{title}: {own.least.group}", other=f"{title}: {own.least.other}")
        for title, own in found.items()
        if own.least is not None
    ]
    return min(known, key=lambda one: one.value, default=None)


def write_report(
    data: InputFiles,
    profile: Profile,
    verdict: Verdict | Mapping[str, Verdict],
    criterion: str,
    out: Path,
    moves: Moves | None = None,
) -> None:
    """Write what the clusters are made of; with the ``moves`` of a repair."""
    from fairmix.report import render

    facts = facts_of(data, data.digest(), profile.counts.sum(axis=1).tolist())
    page = render(profile, verdict=verdict, criterion=criterion, facts=facts, moves=moves)
    with file_of(out) as part:
        part.write_text(page, encoding="utf-8")
