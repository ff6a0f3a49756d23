"""``fairmix compare``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from fairmix.cli import options as o
from fairmix.cli.screen import Screen

if TYPE_CHECKING:
    from fairmix.cli.opening import Choice


def compare(
    data: Annotated[
        str | None,
        typer.Argument(
            metavar="DATA", help="CSV, TSV or Parquet; the bundled Adult data if left out."
        ),
    ] = None,
    sensitive: Annotated[
        list[str] | None,
        typer.Option("--sensitive", "-s", metavar="NAME", help="Column of groups; repeatable."),
    ] = None,
    clusters: Annotated[
        int, typer.Option("--clusters", "-k", min=2, metavar="N", help="Number of clusters.")
    ] = 10,
    test_size: Annotated[
        float | None,
        typer.Option(min=0, max=1, metavar="SHARE", help="Rows to hold out, between 0 and 1."),
    ] = None,
    # The slowest baseline takes about 20 s for as many rows as the default (docs/baselines.md).
    rows: Annotated[
        int, typer.Option(min=1, metavar="N", help="Random rows to fit, if there are more.")
    ] = 100_000,
    numeric: o.Numeric = None,
    drop: o.Drop = None,
    missing: Annotated[
        Literal["error", "drop-rows"] | None,
        typer.Option(metavar="HOW", help="Rows without a value: drop-rows, or error."),
    ] = None,
    missing_groups: o.MissingGroups = "error",
    *,
    text: o.TextOptions,
    criterion: o.Criterion = "gap",
    min_group_size: o.MinGroupSize = None,
    seed: o.Seed = 0,
    json: o.Json = False,
    quiet: o.Quiet = False,
) -> None:
    """Compare clustering methods on the same rows.

    K-means, mixtures and fair methods, on the numeric columns, standardised.
    """
    from fairmix.cli.opening import Choice
    from fairmix.cli.texts import comparison_text
    from fairmix.studies import compare as compare_methods

    screen = Screen(quiet, json)
    smallest = o.read_min_group_size(min_group_size)
    if data is not None and not sensitive:
        raise typer.BadParameter("Name the column of groups of your data: --sensitive NAME")
    with screen.guarded():
        if data is None:
            X, groups = _bundled(screen, sensitive or ["sex"])
        else:
            choice = Choice.of(sensitive=sensitive, numeric=numeric, drop=drop)
            how: dict[str, Any] = {
                # The methods need complete rows. Rows without a group are another matter, which
                # is for the user to decide.
                "missing": missing or "drop-rows",
                "needs_groups": missing is None,
                "missing_groups": missing_groups,
                "dialect": text.dialect(),
            }
            X, groups = _read(screen, data, choice, how, rows, seed)
        found = compare_methods(
            None,
            X,
            sensitive_features=groups,
            n_clusters=clusters,
            test_size=test_size,
            criterion=criterion,
            min_group_size=smallest,
            missing_groups=missing_groups,
            random_state=seed,
            verbose=screen.bars,
        )
    screen.say(comparison_text(found))
    screen.result(found.to_dict())


def _bundled(screen: Screen, sensitive: list[str]) -> tuple[Any, Any]:
    """Adult as the demo has it."""
    from fairmix.datasets import load_adult, paper_preprocessing

    adult = load_adult()
    unknown = [name for name in sensitive if name not in adult.sensitive]
    if unknown:
        raise ValueError(
            f"--sensitive {unknown[0]}: the bundled Adult data has no such groups, only "
            f"{', '.join(adult.sensitive)}."
        )
    screen.say(f"Adult: {len(adult.X):,} people, {adult.X.shape[1]} numeric columns.\n")
    # Adult has one sensitive attribute, so a second name would only repeat the first.
    return paper_preprocessing(adult.X), adult.sensitive[sensitive[0]]


def _read(
    screen: Screen, path: str, choice: Choice, how: dict[str, Any], rows: int, seed: int
) -> tuple[Any, Any]:
    """Standardised numeric columns of files, and the groups."""
    import numpy as np

    from fairmix.cli.files import fit_rows
    from fairmix.cli.fitting import sampled
    from fairmix.cli.opening import open_to_fit
    from fairmix.cli.texts import columns_text, gaps_text

    data = open_to_fit(
        path,
        choice,
        seed=seed,
        n_jobs=-1,
        verbose=bool(screen.bars),
        **how,
    )
    if not data.numeric:
        raise ValueError(f"{path} has no numeric column, and the methods need some.")
    screen.say(columns_text(data))
    screen.note(gaps_text(data))
    if data.categorical:
        screen.note(f"Not used, the methods take numbers: {', '.join(data.categorical)}.")
    table, groups = sampled(data, fit_rows, rows)
    if len(table) < data.n_rows:
        screen.note(f"{len(table):,} of {data.n_rows:,} rows are compared.")
    X = np.column_stack([np.asarray(table[name], dtype=np.float64) for name in data.numeric])
    # Most methods use plain distances, in which the column with the largest numbers would decide
    # alone. The mixtures get the same numbers as the others, so that costs can be compared.
    scale = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(scale > 0, scale, 1), groups
