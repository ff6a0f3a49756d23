"""``fairmix repair``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from fairmix.cli import options as o
from fairmix.cli.screen import Screen, json_text

BEFORE, AFTER, METRICS = "before.html", "after.html", "metrics.json"


def repair(
    data: o.Data,
    labels: o.Labels,
    sensitive: o.Sensitive,
    max_gap: Annotated[
        float | None, typer.Option(metavar="GAP", help="Largest gap allowed.")
    ] = None,
    min_ratio: o.MinRatio = None,
    min_balance: o.MinBalance = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to write.")] = Path("repaired"),
    force: o.Force = False,
    id_column: Annotated[
        str | None,
        typer.Option("--id", metavar="NAME", help="Column to copy, and to match a file of labels."),
    ] = None,
    min_group_size: o.MinGroupSize = None,
    attributes: o.Attributes = "intersect",
    ties: Annotated[
        Literal["split", "together"],
        typer.Option(metavar="HOW", help="Or equal rows together."),
    ] = "split",
    drop: o.Drop = None,
    missing: o.Incomplete = "error",
    missing_groups: o.MissingGroups = "error",
    labels_format: Annotated[
        Literal["parquet", "csv"], typer.Option(show_default=False, help="Format of the labels.")
    ] = "csv",
    *,
    text: o.TextOptions,
    strict: o.Strict = False,
    seed: o.Seed = 0,
    jobs: o.Jobs = -1,
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Change labels of any clusters until a rule is met, at the least cost.

    The clusters stay: what a row costs in one follows from the means, spreads and
    categories of its rows. Labels of noise (-1) stay, too.
    """
    from fairmix.cli.opening import Choice, open_for_audit
    from fairmix.cli.outputs import folder_of, refuse_existing, refuse_inputs
    from fairmix.cli.repairing import repair_data
    from fairmix.cli.texts import gaps_text

    screen = Screen(quiet, json)
    smallest = o.read_min_group_size(min_group_size)
    limit = o.read_limit(max_gap, min_ratio, min_balance, "gap")
    if limit is None:
        raise typer.BadParameter("Give a rule: --max-gap, --min-ratio or --min-balance.")
    files = [f"labels.{labels_format}", BEFORE, AFTER, METRICS]
    refuse_existing([out / name for name in files], force)
    choice = Choice.of(sensitive=sensitive, labels=[labels], drop=drop)
    with screen.guarded():
        refuse_inputs([out / name for name in files], data, labels)
    with screen.guarded(), folder_of(out) as folder:
        rows = open_for_audit(
            data,
            choice,
            missing=missing,
            missing_groups=missing_groups,
            all_columns=True,
            id_column=id_column,
            seed=seed,
            n_jobs=jobs,
            verbose=bool(screen.bars),
            dialect=text.dialect(),
        )
        screen.note(gaps_text(rows))
        found = repair_data(
            rows,
            limit,
            attributes=attributes,
            min_group_size=smallest,
            ties=ties,
            id_column=id_column,
            n_jobs=jobs,
        )
        found.write_labels(folder / files[0])
        found.write_reports(folder / BEFORE, folder / AFTER)
        (folder / METRICS).write_text(json_text(found.metrics()) + "\n", encoding="utf-8")
    screen.say(found.text())
    screen.say(f"\nWrote {', '.join(files)} in {o.display_path(out)}")
    screen.result(found.metrics())
    # Last, so that a missed bound still prints its figures and leaves its files.
    if strict:
        o.be_strict(screen, found.after.verdict, min_group_size)
