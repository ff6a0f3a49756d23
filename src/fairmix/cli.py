"""The command line: argument parsing over the public API, and the only place that prints."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(help="Fair model-based clustering.", no_args_is_help=True, add_completion=False)


@app.callback(invoke_without_command=True)
def main(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Fair model-based clustering: clusters that hold every group in its overall share."""
    if version:
        from fairmix import __version__

        typer.echo(f"fairmix {__version__}")
        raise typer.Exit


@dataclass(frozen=True)
class DemoRow:
    """One line of the demo's table."""

    method: str
    cost: float
    gap: float
    balance: float
    seconds: float


@app.command()
def demo(
    clusters: Annotated[int, typer.Option("--clusters", "-k", min=2, help="Clusters.")] = 10,
    max_gap: Annotated[float, typer.Option(min=0, help="Largest gap allowed.")] = 0.01,
    seed: Annotated[int, typer.Option(help="Seed of the starts.")] = 0,
) -> None:
    """Cluster the bundled Adult data with and without fairness towards sex."""
    # Imported here: `fairmix --help` should not wait for scikit-learn.
    from fairmix import FairMixture
    from fairmix.datasets import load_adult, paper_preprocessing
    from fairmix.initialization import kmeans_labels
    from fairmix.metrics import balance, clustering_cost, gap
    from fairmix.totals import IntArray

    adult = load_adult()
    X = paper_preprocessing(adult.X)
    typer.echo(
        f"Adult: {len(X):,} people, {X.shape[1]} numeric columns, {clusters} clusters.\n"
        "How evenly do the clusters hold women and men?\n"
    )

    def measure(method: str, labels: IntArray, started: float) -> DemoRow:
        seconds = time.perf_counter() - started
        fairness = gap(labels, adult.sex), balance(labels, adult.sex)
        return DemoRow(method, clustering_cost(X, labels), *fairness, seconds)

    started = time.perf_counter()
    rows = [measure("K-means", kmeans_labels(X, clusters, seed), started)]
    plain = FairMixture(clusters, fairness_strength=0, random_state=seed, verbose=1, n_jobs=-1)
    fair = FairMixture(clusters, max_gap=max_gap, random_state=seed, verbose=1, n_jobs=-1)
    aware = FairMixture(
        clusters, max_gap=max_gap, assignment="aware", random_state=seed, verbose=1, n_jobs=-1
    )
    for method, model in (
        ("plain mixture", plain),
        ("fair mixture, blind", fair),
        ("fair mixture, aware", aware),
    ):
        started = time.perf_counter()
        model.fit(X, sensitive_features=adult.sex)
        rows.append(measure(method, model.labels_, started))
    _print_demo(rows, best_balance=balance([0] * len(X), adult.sex))


def _print_demo(rows: list[DemoRow], best_balance: float) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column("method")
    for name in ("cost", "gap", "balance", "seconds"):
        table.add_column(name, justify="right")
    for row in rows:
        cells = f"{row.cost:,.0f}", f"{row.gap:.4f}", f"{row.balance:.3f}", f"{row.seconds:.1f}"
        table.add_row(row.method, *cells)
    console = Console()
    console.print(table)
    console.print(
        "\ncost     squared distance to the cluster means (lower is tighter)\n"
        "gap      largest difference between the share of women and of men in a cluster\n"
        "balance  smallest ratio of women to men in a cluster; "
        f"{best_balance:.3f} in the whole data\n"
        "blind    clusters depend on the columns only; aware: also on each person's sex"
    )


@app.command()
def compare(
    data: Annotated[
        Path | None, typer.Argument(help="CSV or Parquet file; the bundled Adult data if left out.")
    ] = None,
    sensitive: Annotated[str, typer.Option(help="Column that holds the groups.")] = "sex",
    clusters: Annotated[int, typer.Option("--clusters", "-k", min=2, help="Clusters.")] = 10,
    test_size: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Share of rows to hold out, between 0 and 1."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the split and of the starts.")] = 0,
) -> None:
    """Compare K-means, mixtures and fair clustering methods on the same rows."""
    from fairmix.compare import compare as compare_methods

    try:
        X, groups = _bundled(sensitive) if data is None else _read_table(data, sensitive)
        found = compare_methods(
            None,
            X,
            sensitive_features=groups,
            n_clusters=clusters,
            test_size=test_size,
            random_state=seed,
            verbose=1,
        )
    except (ValueError, OSError) as error:
        raise typer.BadParameter(str(error)) from error
    typer.echo(str(found))


def _bundled(sensitive: str) -> tuple[Any, Any]:
    """Adult as the demo has it."""
    from fairmix.datasets import load_adult, paper_preprocessing

    adult = load_adult()
    _check_column(sensitive, list(adult.sensitive), "the bundled Adult data")
    typer.echo(f"Adult: {len(adult.X):,} people, {adult.X.shape[1]} numeric columns.\n")
    return paper_preprocessing(adult.X), adult.sensitive[sensitive]


def _read_table(path: Path, sensitive: str) -> tuple[Any, Any]:
    """Standardised numeric columns of a file, and its groups."""
    import narwhals as nw
    import numpy as np
    from pyarrow import csv, parquet

    readers = {".csv": csv.read_csv, ".parquet": parquet.read_table, ".pq": parquet.read_table}
    if path.suffix not in readers:
        raise ValueError(f"{str(path)!r} is no file to read. Give one of {', '.join(readers)}.")
    frame = nw.from_native(readers[path.suffix](path), eager_only=True)
    _check_column(sensitive, frame.columns, f"{str(path)!r}")
    features = [name for name in frame.columns if name != sensitive]
    numeric = [name for name in features if frame.schema[name].is_numeric()]
    left_out = [name for name in features if name not in numeric]
    if not numeric:
        raise ValueError(f"{str(path)!r} has no numeric column besides {sensitive!r}. Add some.")
    if left_out:
        typer.echo(f"Left out, because they are not numeric: {', '.join(left_out)}.")
    typer.echo(f"{path.name}: {len(frame):,} rows, {len(numeric)} numeric columns, standardised.\n")
    X = frame.select(numeric).to_numpy().astype(np.float64)
    scale = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(scale > 0, scale, 1), frame[sensitive].to_native()


def _check_column(name: str, known: list[str], where: str) -> None:
    if name not in known:
        raise ValueError(f"--sensitive {name}: {where} has no such column, only {known}.")
