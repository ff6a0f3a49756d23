"""``fairmix audit``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import numpy as np
import pyarrow as pa
import typer
from joblib import effective_n_jobs

from fairmix.cli import options as o
from fairmix.cli.data import Data, fit_rows
from fairmix.cli.fitting import facts_of
from fairmix.cli.opening import Choice, open_for_audit
from fairmix.cli.outputs import file_of, refuse_existing
from fairmix.cli.screen import BOUND_MISSED, Screen
from fairmix.cli.views import figures_text, gaps_text, shares_text
from fairmix.criteria import CRITERIA, smallest_ratio
from fairmix.fairness_table import Figure, fairness_table
from fairmix.groups import encode_groups
from fairmix.profile import Profile

# More rows need no intervals: those of a share are then narrower than 0.002.
BOOTSTRAP_ROWS = 1_000_000


def audit(
    data: o.Data,
    labels: Annotated[
        str, typer.Option("--labels", "-l", metavar="NAME", help="Column of cluster labels.")
    ],
    sensitive: o.Sensitive,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Report to write, an HTML file.")
    ] = None,
    max_gap: Annotated[
        float | None, typer.Option(min=0, metavar="GAP", help="Bound to judge the gap by.")
    ] = None,
    criterion: o.Criterion = "gap",
    drop: o.Drop = None,
    missing: o.Incomplete = "error",
    seed: o.Seed = 0,
    jobs: o.Jobs = -1,
    force: o.Force = False,
    strict: o.Strict = False,
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Measure how evenly clusters from any tool hold groups.

    With --out also what the clusters are made of, as a report to hand over.
    """
    screen = Screen(quiet, json)
    if strict and max_gap is None:
        raise typer.BadParameter("--strict needs a bound: give --max-gap.")
    if out is not None:
        refuse_existing([out], force)
    choice = Choice.of(sensitive=sensitive, labels=[labels], drop=drop)
    with screen.guarded():
        rows = open_for_audit(
            data,
            choice,
            missing=missing,
            all_columns=out is not None,
            seed=seed,
            n_jobs=effective_n_jobs(jobs),
            verbose=bool(screen.bars),
        )
        if rows.gaps:
            screen.note(gaps_text(rows))
        profile = _profile(rows)
        figures = _figures(rows, profile, seed)
        if out is not None:
            _write(rows, profile, out, verbose=bool(screen.bars))
    value = figures[criterion].value
    met = max_gap is None or value <= max_gap
    screen.say(figures_text(profile, figures))
    screen.say(shares_text(profile))
    if max_gap is not None:
        word = "at most" if met else "above"
        screen.say(f"\nThe {criterion.replace('_', ' ')} is {value:.4f}, {word} {max_gap:g}.")
    if out is not None:
        screen.say(f"\nWrote {out}")
    screen.result(
        {
            "data": rows.name,
            "rows": profile.n_rows,
            "criterion": criterion,
            "max_gap": max_gap,
            "met": met,
            "figures": {name: asdict(figure) for name, figure in figures.items()},
            "clusters": profile.clusters,
            "counts": dict(zip(profile.groups, profile.counts.tolist(), strict=True)),
        }
    )
    if strict and not met:
        raise typer.Exit(BOUND_MISSED)


def _profile(data: Data) -> Profile:
    """Clusters and groups of all rows, by two passes."""
    seen: pa.Table | None = None
    keys = [*data.labels, *data.sensitive]
    for part in data.parts():
        block = _plain(part.table.filter(pa.array(part.kept)).select(keys))
        both = block if seen is None else pa.concat_tables([seen, block])
        seen = both.group_by(keys).aggregate([])
    assert seen is not None
    profile = Profile(
        numeric=data.numeric,
        categorical=data.categorical,
        groups=encode_groups(seen.select(data.sensitive)).names,
        clusters=(names := _cluster_names(seen[data.labels[0]])),
        n_clusters=len(names),
        title=" & ".join(data.sensitive),
    )
    for part in data.parts():
        block = part.table.filter(pa.array(part.kept))
        if len(block):
            profile.add(block, block[data.labels[0]], block.select(data.sensitive))
    return profile


def _plain(table: pa.Table) -> pa.Table:
    """Categories by their values: dictionaries differ from block to block."""
    kinds = [f.type.value_type if pa.types.is_dictionary(f.type) else f.type for f in table.schema]
    return table.cast(pa.schema(list(zip(table.schema.names, kinds, strict=True))))


def _cluster_names(labels: pa.ChunkedArray) -> list[str]:
    """Names of the clusters; numbers in their order, also where a file holds them as text."""
    names = list(encode_groups(labels, argument="labels").names)
    return sorted(names, key=int) if all(name.isdecimal() for name in names) else names


def _figures(data: Data, profile: Profile, seed: int) -> dict[str, Figure]:
    """The criteria and the balance; with intervals unless there are very many rows."""
    if profile.n_rows <= BOOTSTRAP_ROWS:
        table = data.gather(fit_rows)
        found = fairness_table(
            table[data.labels[0]], table.select(data.sensitive), random_state=seed
        )
        return found.summary
    rates = profile.counts / profile.counts.sum(axis=1, keepdims=True)
    exact = {name: criterion.value(rates) for name, criterion in CRITERIA.items()}
    exact["balance"] = smallest_ratio(profile.counts.astype(np.float64))
    return {name: Figure(value, np.nan, np.nan) for name, value in exact.items()}


def _write(data: Data, profile: Profile, out: Path, *, verbose: bool) -> None:
    from fairmix.report import render

    page = render(profile, facts=facts_of(data, data.digest(shown=verbose)))
    with file_of(out) as part:
        part.write_text(page, encoding="utf-8")
