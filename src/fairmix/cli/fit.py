"""``fairmix fit``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from fairmix._version import __version__
from fairmix.cli import options as o
from fairmix.cli.screen import Screen, json_text

if TYPE_CHECKING:
    from fairmix.cli.fitting import Fit

MODEL, REPORT, METRICS = "model.fairmix", "report.html", "metrics.json"
MEGABYTE = 2**20
# A hint, not a default: fewer rows give another model, and that is for the user to choose.
FASTER = (
    "The rows stay in files and are read in every pass. --subsample 100000 learns the clusters "
    "from so many rows, which is faster, and meets the bound on all."
)


def fit(
    data: o.Data,
    sensitive: o.Sensitive,
    clusters: o.Clusters = "10",
    *,
    rule: o.RuleOptions,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to write.")] = Path("results"),
    force: o.Force = False,
    columns: o.ColumnOptions,
    text: o.TextOptions,
    unknown: o.Unknown = None,
    hold_out: Annotated[
        float, typer.Option(metavar="SHARE", help="Rows kept for a certificate.")
    ] = 0.0,
    model: o.ModelOptions,
    subsample: o.Subsample = None,
    batch_size: o.BatchSize = None,
    no_front: Annotated[
        bool, typer.Option("--no-front", help="Do not try other bounds for the report.")
    ] = False,
    labels_format: Annotated[
        Literal["parquet", "csv"], typer.Option(show_default=False, help="Format of the labels.")
    ] = "parquet",
    append: o.Append = False,
    probabilities: o.Probabilities = False,
    # Not a matter of results: from files the fit has the same bits, only more reading.
    memory: Annotated[int, typer.Option(metavar="MB", help="Larger data stay in files.")] = 512,
    seed: o.Seed = 0,
    jobs: o.Jobs = -1,
    strict: o.Strict = False,
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Cluster a table under a rule on how its groups are spread.

    A gap bounds differences of shares: a small cluster may hold hardly any of a
    group and meet it. A ratio bounds the mix inside every cluster.
    """
    from fairmix.cli.fitting import fit_data
    from fairmix.cli.outputs import folder_of, refuse_existing, refuse_inputs
    from fairmix.cli.texts import fit_text, model_text

    screen = Screen(quiet, json)
    if not 0 <= hold_out < 1:
        raise typer.BadParameter(f"--hold-out {hold_out:g}: give a share from 0 to below 1.")
    if hold_out and model.ties == "split":
        raise typer.BadParameter(
            "--hold-out is for a certificate of a map of rows, and with --ties split a label "
            "depends on the rows beside it. Choose one."
        )
    count, dialect = o.read_clusters(clusters), text.dialect()
    # Settings and outputs are checked before the data are opened: a pass over large files is slow.
    estimator = model.estimator(
        count,
        **rule.settings(),
        missing_groups=columns.missing_groups,
        handle_unknown=o.read_unknown(unknown, hold_out),
        seed=seed,
        verbose=screen.bars,
        n_jobs=jobs,
        subsample=subsample,
        batch_size=batch_size,
    )
    labels = f"labels.{labels_format}"
    files = [labels, MODEL, REPORT, METRICS]
    refuse_existing([out / name for name in files], force)
    # Everything is written to a folder of its own first, so a failure
    # leaves no half of the results.
    with screen.guarded(), folder_of(out) as folder:
        refuse_inputs([out / name for name in files], data)
        rows = columns.open(
            data,
            sensitive,
            screen,
            hold_out=hold_out,
            seed=seed,
            n_jobs=jobs,
            dialect=dialect,
            memory=memory * MEGABYTE,
            append=append,
        )
        screen.say(model_text(estimator, count))
        if rows.n_bytes > memory * MEGABYTE and subsample is None and batch_size is None:
            screen.note(FASTER)
        found = fit_data(
            estimator,
            rows,
            folder,
            labels,
            choose=count is None,
            draw_front=not no_front,
            memory=memory * MEGABYTE,
            probabilities=probabilities,
        )
        _write(found, folder)
    # Only now, when the files are in place: what is said to be written can be relied on.
    screen.say(fit_text(found))
    screen.say(f"Wrote {', '.join(files)} in {o.display_path(out)}")
    screen.result(found.metrics())
    if strict:
        o.be_strict(screen, found.verdict, model.min_group_size)


def _write(found: Fit, folder: Path) -> None:
    """The model, the report and the figures."""
    from fairmix.report import render

    data = found.data
    found.model.save(
        folder / MODEL,
        # The roles of the columns, so that predict and info need not be told them again.
        metadata={
            "sensitive": list(data.sensitive),
            "identifier": list(data.identifier),
            "numeric": list(data.numeric),
            "categorical": list(data.categorical),
            "facts": {
                **found.facts(),
                "seed": str(found.model.random_state),
                "fairmix": __version__,
            },
        },
    )
    page = render(
        found.profile,
        model=found.model,
        front=found.front,
        certificate=found.certificate,
        facts=found.facts(),
        columns=data.guesses,
        proxies=found.proxies,
        choice=None if found.choice is None else found.choice.totals,
        why="" if found.choice is None else found.choice.reason,
    )
    (folder / REPORT).write_text(page, encoding="utf-8")
    (folder / METRICS).write_text(json_text(found.metrics()) + "\n", encoding="utf-8")
