"""``fairmix demo``."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Annotated

import typer


@dataclass(frozen=True)
class DemoRow:
    """One line of the demo's table."""

    method: str
    cost: float
    gap: float
    balance: float
    seconds: float


def demo(
    clusters: Annotated[
        int, typer.Option("--clusters", "-k", min=2, metavar="N", help="Number of clusters.")
    ] = 10,
    max_gap: Annotated[
        float, typer.Option(min=0, metavar="GAP", help="Largest gap allowed.")
    ] = 0.01,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of the starts.")] = 0,
) -> None:
    """Cluster the bundled Adult data with and without a bound."""
    from fairmix import FairMixture
    from fairmix.datasets import load_adult, paper_preprocessing
    from fairmix.fitting.starts import kmeans_labels
    from fairmix.kernels.totals import IntArray
    from fairmix.metrics import balance, clustering_cost, gap

    adult = load_adult()
    X = paper_preprocessing(adult.X)
    typer.echo(
        f"Adult: {len(X):,} people, {X.shape[1]} numeric columns, {clusters} clusters.\n"
        "How evenly do the clusters hold women and men?\n"
    )

    def measure(method: str, labels: IntArray, started: float) -> DemoRow:
        # First, so that the time of the figures below is not in it.
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
    # One cluster of all rows has the balance of the data, and no clustering has a better one.
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
    # Rich colours every number it finds unless told otherwise.
    console = Console(highlight=False)
    console.print(table)
    console.print(
        "\ncost     squared distance to the cluster means (lower is tighter)\n"
        "gap      largest difference between the share of women and of men in a cluster\n"
        "balance  smallest ratio of women to men in a cluster; "
        f"{best_balance:.3f} in the whole data\n"
        "blind    clusters depend on the columns only; aware: also on each person's sex"
    )
