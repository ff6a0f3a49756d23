"""``fairmix audit``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from fairmix.cli import options as o
from fairmix.cli.screen import Screen


def audit(
    data: o.Data,
    labels: o.Labels,
    sensitive: o.Sensitive,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Report to write, an HTML file.")
    ] = None,
    max_gap: Annotated[
        float | None, typer.Option(metavar="GAP", help="Bound to judge the gap by.")
    ] = None,
    min_ratio: Annotated[
        float | None, typer.Option(metavar="RATIO", help="Or the ratio; 0.8 is four fifths.")
    ] = None,
    min_balance: Annotated[
        float | None, typer.Option(metavar="BALANCE", help="Or the Balance.")
    ] = None,
    criterion: o.Criterion = "gap",
    min_group_size: o.MinGroupSize = None,
    attributes: o.Attributes = "intersect",
    drop: o.Drop = None,
    missing: o.Incomplete = "error",
    missing_groups: o.MissingGroups = "error",
    *,
    text: o.TextOptions,
    seed: o.Seed = 0,
    jobs: o.Jobs = -1,
    force: o.Force = False,
    strict: o.Strict = False,
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Measure how evenly groups are spread over any clusters.

    The clusters may come from any tool. --out writes a report to share.
    """
    from math import inf

    from fairmix.cli.auditing import (
        audited,
        least_of_all,
        profile_of,
        verdict_on_all,
        write_report,
    )
    from fairmix.cli.opening import Choice, open_for_audit
    from fairmix.cli.outputs import refuse_existing, refuse_inputs
    from fairmix.cli.texts import (
        attribute_text,
        figures_text,
        gaps_text,
        ratio_text,
        reach_text,
        shares_text,
        verdict_text,
    )
    from fairmix.criteria import MaxGap

    screen = Screen(quiet, json)
    smallest = o.read_min_group_size(min_group_size)
    # Without a bound the verdict is "no bound", which passes: a check that cannot fail.
    limit = o.read_limit(max_gap, min_ratio, min_balance, criterion)
    if strict and limit is None:
        raise typer.BadParameter(
            "--strict needs a bound: give --max-gap, --min-ratio or --min-balance."
        )
    # Before the data are read: after a pass over large files a refusal would come late.
    if out is not None:
        refuse_existing([out], force)
    choice = Choice.of(sensitive=sensitive, labels=[labels], drop=drop)
    with screen.guarded():
        if out is not None:
            refuse_inputs([out], data, labels)
        rows = open_for_audit(
            data,
            choice,
            missing=missing,
            missing_groups=missing_groups,
            # Other columns only describe clusters in the report, so
            # without one they are not even read.
            all_columns=out is not None,
            seed=seed,
            n_jobs=jobs,
            verbose=bool(screen.bars),
            dialect=text.dialect(),
        )
        screen.note(gaps_text(rows))
        profile = profile_of(rows, each=attributes == "each")
        asked = MaxGap(inf, criterion) if limit is None else limit
        found = audited(rows, profile, asked, smallest, seed)
        for own in found.values():
            screen.note(reach_text(limit, own.profile, own.verdict))
        verdicts = {title: own.verdict for title, own in found.items()}
        if out is not None:
            write_report(rows, profile, verdicts, criterion, out)
    for own in found.values():
        screen.say(figures_text(own.profile, own.figures))
        screen.say(f"{shares_text(own.profile)}\n")
    if profile.attributes:
        verdict, least = verdict_on_all(verdicts), least_of_all(found)
        # Without a bound there is nothing to say of all.
        if limit is not None:
            screen.say(verdict_text(verdict, criterion))
        for title, own in found.items():
            screen.say(attribute_text(title, own.verdict, own.least))
    else:
        verdict, least = own.verdict, own.least
        screen.say(verdict_text(verdict, criterion))
        screen.say(ratio_text(verdict, least))
    if out is not None:
        screen.say(f"\nWrote {out}")
    document = {
        "data": rows.name,
        "rows": profile.n_rows,
        "criterion": criterion,
        "max_gap": max_gap,
        "min_ratio": min_ratio,
        "min_balance": min_balance,
        "clusters": profile.clusters,
    }
    if profile.attributes:
        document |= {
            **verdict.figures,
            "smallest_ratio": None if least is None else asdict(least),
            "attributes": {title: own.document for title, own in found.items()},
        }
    else:
        document |= own.document
    screen.result(document)
    # Last, so that a missed bound still prints its figures and leaves its report.
    if strict:
        o.be_strict(screen, verdict, min_group_size)
