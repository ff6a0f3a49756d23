"""``fairmix demo``."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from fairmix.kernels.totals import IntArray


@dataclass(frozen=True)
class DemoRow:
    """One line of the demo's table."""

    method: str
    cost: float
    gap: float
    ratio: float
    balance: float
    seconds: float


@dataclass(frozen=True)
class DemoCluster:
    """The cluster with the smallest ratio of a fit that keeps its gap."""

    method: str
    cluster: int
    women: int
    people: int


def demo(
    clusters: Annotated[
        int, typer.Option("--clusters", "-k", min=2, metavar="N", help="Number of clusters.")
    ] = 10,
    max_gap: Annotated[
        float, typer.Option(min=0, metavar="GAP", help="Largest gap allowed.")
    ] = 0.01,
    min_ratio: Annotated[
        float, typer.Option(metavar="RATIO", help="Smallest ratio allowed; 0.8 is four fifths.")
    ] = 0.8,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of the starts.")] = 0,
) -> None:
    """Cluster the bundled Adult data with and without a bound."""
    import numpy as np

    from fairmix import FairMixture
    from fairmix.cli.options import read_limit
    from fairmix.datasets import load_adult, paper_preprocessing
    from fairmix.fitting.starts import kmeans_labels
    from fairmix.metrics import balance, clustering_cost, gap, rate_ratio

    # Before the first fit.
    read_limit(None, min_ratio, None, "gap")
    adult = load_adult()
    X = paper_preprocessing(adult.X)
    women = np.asarray(adult.sex) == "Female"
    typer.echo(head_text(len(X), X.shape[1], clusters))

    def measure(method: str, labels: IntArray, started: float) -> DemoRow:
        # First, so that the time of the figures below is not in it.
        seconds = time.perf_counter() - started
        return DemoRow(
            method,
            cost=clustering_cost(X, labels),
            gap=gap(labels, adult.sex),
            ratio=rate_ratio(labels, adult.sex),
            balance=balance(labels, adult.sex),
            seconds=seconds,
        )

    started = time.perf_counter()
    rows = [measure("K-means", kmeans_labels(X, clusters, seed), started)]
    small = None
    how: dict[str, Any] = {"random_state": seed, "verbose": 1, "n_jobs": -1}
    gaps, ratios = f"max_gap={max_gap:g}", f"min_ratio={min_ratio:g}"
    for method, model in (
        ("plain mixture", FairMixture(clusters, fairness_strength=0, **how)),
        (f"{gaps}, blind", FairMixture(clusters, max_gap=max_gap, **how)),
        (f"{gaps}, aware", FairMixture(clusters, max_gap=max_gap, assignment="aware", **how)),
        (f"{ratios}, blind", FairMixture(clusters, min_ratio=min_ratio, **how)),
        (f"{ratios}, aware", FairMixture(clusters, min_ratio=min_ratio, assignment="aware", **how)),
    ):
        started = time.perf_counter()
        model.fit(X, sensitive_features=adult.sex)
        rows.append(measure(method, model.labels_, started))
        least = model.fitted_.least_ratio
        poor = least is not None and least.group == "Female" and not least.passes
        # The first one: the lesson is the same for all.
        if small is None and method.startswith(gaps) and model.verdict_ == "met" and poor:
            assert least is not None
            inside = model.labels_ == int(least.cluster)
            small = DemoCluster(
                method, int(least.cluster), int((women & inside).sum()), int(inside.sum())
            )
    # One cluster of all rows has the balance of the data, and no clustering has a better one.
    best = balance([0] * len(X), adult.sex)
    typer.echo(table_text(rows, best))
    if small is not None:
        typer.echo(f"\n{cluster_text(small, float(women.mean()), min_ratio)}")


def head_text(n_rows: int, n_columns: int, clusters: int) -> str:
    """What is clustered."""
    return (
        f"Adult: {n_rows:,} people, {n_columns} numeric columns, {clusters} clusters.\n"
        "How evenly do the clusters hold women and men?\n"
    )


def table_text(rows: Sequence[DemoRow], best_balance: float) -> str:
    """The figures, and what they are."""
    from fairmix.results.text import aligned

    lines = [["method", "cost", "gap", "ratio", "balance", "seconds"]]
    for row in rows:
        figures = f"{row.gap:.4f}", f"{row.ratio:.3f}", f"{row.balance:.3f}"
        lines.append([row.method, f"{row.cost:,.0f}", *figures, f"{row.seconds:.1f}"])
    return (
        f"{aligned(lines, words=(0,))}\n\n"
        "cost     squared distance to the cluster means (lower is tighter)\n"
        "gap      largest difference between the share of women and of men in a cluster\n"
        "ratio    smallest ratio of these two shares in a cluster; 1 if they are equal\n"
        "balance  smallest ratio of women to men in a cluster, or of men to women;\n"
        f"         {best_balance:.3f} in the whole data\n"
        "blind    clusters depend on the columns only; aware: also on each person's sex"
    )


def cluster_text(found: DemoCluster, share: float, min_ratio: float) -> str:
    """What a bound on the gap allows."""
    from fairmix.cli.screen import wrapped

    return wrapped(
        f"{found.method} is met, and cluster {found.cluster} has {found.women:,} women among "
        f"{found.people:,} people: {found.women / found.people:.1%}, where {share:.1%} of all are "
        "women. The gap compares shares of all women and of all men, so it allows this in a "
        f"small cluster; min_ratio={min_ratio:g} does not."
    )
