"""``fairmix audit``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from fairmix.cli import options as o
from fairmix.cli.screen import BOUND_MISSED, Screen


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
    from fairmix.cli.auditing import figures_of, profile_of, write_report
    from fairmix.cli.opening import Choice, open_for_audit
    from fairmix.cli.outputs import refuse_existing
    from fairmix.cli.views import figures_text, gaps_text, shares_text

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
            n_jobs=jobs,
            verbose=bool(screen.bars),
        )
        if rows.gaps:
            screen.note(gaps_text(rows))
        profile = profile_of(rows)
        figures = figures_of(rows, profile, seed)
        if out is not None:
            write_report(rows, profile, out, verbose=bool(screen.bars))
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
