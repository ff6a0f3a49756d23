"""``fairmix predict``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fairmix.cli import options as o
from fairmix.cli.screen import Screen

if TYPE_CHECKING:
    from fairmix import FairMixture
    from fairmix.cli.files import InputFiles
    from fairmix.kernels.totals import IntArray


def predict(
    model: o.Model,
    data: o.Data,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="File to write, .parquet or .csv.")
    ] = Path("labels.parquet"),
    sensitive: Annotated[
        list[str] | None,
        typer.Option("--sensitive", "-s", metavar="NAME", help="Groups, for an aware model."),
    ] = None,
    missing: o.Missing = "integrate",
    append: o.Append = False,
    probabilities: o.Probabilities = False,
    *,
    text: o.TextOptions,
    force: o.Force = False,
    jobs: o.Jobs = -1,
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Assign new rows to the clusters of a fitted model.

    Writes one label per row, in the order of the rows, beside the column that
    told the rows of the fit apart, if the new ones have it.
    """
    from fairmix import load
    from fairmix.cli.opening import open_for_model
    from fairmix.cli.outputs import check_label_suffix, file_of, refuse_existing, refuse_inputs
    from fairmix.cli.roles import identifier_of, sensitive_of
    from fairmix.cli.texts import gaps_text
    from fairmix.results.text import aligned

    screen = Screen(quiet, json)
    check_label_suffix(out)
    refuse_existing([out], force)
    with screen.guarded():
        refuse_inputs([out], data, model)
        fitted = load(model)
        if not hasattr(fitted, "feature_names_in_"):
            raise ValueError(f"{model} was fitted on an array, so it knows no column names.")
        # An option first: the columns of new files may have other names than those of the fit.
        names = tuple(sensitive or sensitive_of(fitted.metadata_))
        if fitted.fitted_.model.aware and not names:
            raise typer.BadParameter("The model is aware of groups. Give their column: --sensitive")
        rows = open_for_model(
            data,
            fitted,
            # A blind map needs no groups, so the file may lack their columns.
            names if fitted.fitted_.model.aware else (),
            missing=missing,
            n_jobs=jobs,
            verbose=bool(screen.bars),
            dialect=text.dialect(),
            append=append,
            identifier=identifier_of(fitted.metadata_),
        )
        screen.note(gaps_text(rows))
        with file_of(out) as part:
            sizes = _label(fitted, rows, part, probabilities)
    table = [["cluster", "rows"], *([str(k), f"{n:,}"] for k, n in enumerate(sizes.tolist()))]
    screen.say(aligned(table))
    screen.say(f"\nWrote {out}: {rows.n_rows:,} rows, {int(sizes.sum()):,} with a label.")
    screen.result({"rows": rows.n_rows, "labelled": int(sizes.sum()), "sizes": sizes.tolist()})


def _label(model: FairMixture, data: InputFiles, path: Path, probabilities: bool) -> IntArray:
    """Write the labels, and count them."""
    import numpy as np

    from fairmix.cli.fitting import beside_labels, label_file, labelled_blocks

    features = tuple(model.feature_names_in_.tolist())
    sizes = np.zeros(model.fitted_.n_components, dtype=np.int64)
    with label_file(path, model, data, probabilities=probabilities) as file:
        for block, table, labels in labelled_blocks(model, data, features):
            more = beside_labels(model, data, block, table, features, probabilities)
            file.add(labels, block.kept, **more)
            sizes += np.bincount(labels, minlength=len(sizes))
    return sizes
