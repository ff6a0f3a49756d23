"""``fairmix pareto``."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fairmix.cli import options as o
from fairmix.cli.screen import Screen, json_text

if TYPE_CHECKING:
    from fairmix.studies import ParetoFront

TABLE, PICTURE = "front.json", "front.png"
# Sharp on paper of the width of a page, and still a small file.
DPI = 150


def pareto(
    data: o.Data,
    sensitive: o.Sensitive,
    clusters: Annotated[
        int, typer.Option("--clusters", "-k", min=1, metavar="N", help="Number of clusters.")
    ] = 10,
    max_gap: Annotated[
        list[float] | None,
        typer.Option("--max-gap", metavar="GAP", help="A bound to try; repeatable."),
    ] = None,
    min_ratio: Annotated[
        list[float] | None,
        typer.Option("--min-ratio", metavar="RATIO", help="Or bounds on the ratio."),
    ] = None,
    min_balance: Annotated[
        list[float] | None,
        typer.Option("--min-balance", metavar="BALANCE", help="Or bounds on Balance."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder for the table and a picture.")
    ] = None,
    # A bound takes up to two fits, one afresh and one from the bound
    # before, so the rows are limited.
    rows: Annotated[
        int, typer.Option(min=1, metavar="N", help="Random rows to fit, if there are more.")
    ] = 50_000,
    *,
    columns: o.ColumnOptions,
    text: o.TextOptions,
    model: o.ModelOptions,
    seed: o.Seed = 0,
    jobs: o.Jobs = -1,
    force: o.Force = False,
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Fit under several bounds, to see what they cost."""
    from fairmix import pareto_front
    from fairmix.cli.files import fit_rows
    from fairmix.cli.fitting import FRONT_GAPS, sampled
    from fairmix.cli.outputs import refuse_existing, refuse_inputs
    from fairmix.cli.texts import front_text

    screen = Screen(quiet, json)
    o.check_one_rule(max_gap=max_gap, min_ratio=min_ratio, min_balance=min_balance)
    rule = next(
        (name for name, given in (("min_ratio", min_ratio), ("min_balance", min_balance)) if given),
        "max_gap",
    )
    if out is not None:
        refuse_existing([out / TABLE, out / PICTURE], force)
        # Looked for, not imported: it is slow, and the answer is needed before the fits.
        if find_spec("matplotlib") is None:
            raise typer.BadParameter("--out draws a picture: pip install 'fairmix[plot]' first.")
    dialect = text.dialect()
    estimator = model.estimator(
        clusters, missing_groups=columns.missing_groups, seed=seed, n_jobs=jobs
    )
    with screen.guarded():
        if out is not None:
            refuse_inputs([out / TABLE, out / PICTURE], data)
        opened = columns.open(data, sensitive, screen, seed=seed, n_jobs=jobs, dialect=dialect)
        X, groups = sampled(opened, fit_rows, rows)
        if len(X) < opened.n_rows:
            screen.note(f"{len(X):,} of {opened.n_rows:,} rows are fitted.")
        front = pareto_front(
            estimator.set_params(categorical_features=list(opened.categorical) or None),
            X,
            sensitive_features=groups,
            **{f"{rule}s": max_gap or min_ratio or min_balance or FRONT_GAPS},
            verbose=screen.bars,
        )
        if out is not None:
            _write(front, out)
    screen.say(front_text(front))
    if out is not None:
        screen.say(f"\nWrote {TABLE}, {PICTURE} in {o.display_path(out)}")
    screen.result(front.to_dict())


def _write(front: ParetoFront, out: Path) -> None:
    """The table and the picture."""
    import matplotlib

    # Draws without a display, as on a server.
    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    from fairmix.cli.outputs import folder_of

    with folder_of(out) as folder:
        (folder / TABLE).write_text(json_text(front.to_dict()) + "\n", encoding="utf-8")
        _, ax = plt.subplots()
        front.plot(ax)
        plt.savefig(folder / PICTURE, dpi=DPI, bbox_inches="tight")
        plt.close()
