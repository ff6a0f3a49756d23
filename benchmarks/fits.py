"""Fair fits against k-means at every size and kind of rows, in processor seconds of one thread.

Each cell of the grid is one table and number of clusters; `scripts/bench fits --only 30,000` takes
some of them, `--resume` leaves out what the file has already, and `--minutes` ends in time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from statistics import median
from typing import Any

import numpy as np
from sklearn.cluster import KMeans

from benchmarks.harness import Array, Ratio, Tiny, quietly, timed
from benchmarks.tabular import DATA, names
from fairmix import FairMixture
from fairmix.datasets import make_census_like, make_grouped_blobs, paper_preprocessing
from fairmix.metrics import clustering_cost

MAX_GAP = 0.01
# Up to this many rows, people run k-means ten times.
SMALL = 100_000
SMALL_ROWS = (30_000, 100_000)
LARGE_ROWS = (300_000, 1_000_000, 2_458_285, 10_000_000)
# From so many rows on a sub-sample of this share is a choice.
SUBSAMPLED_ROWS, SUBSAMPLE, SUBSAMPLE_BOUND = 1_000_000, 0.05, 0.5
# Of ten runs of k-means, for two groups and for three; of one run, by rows.
SMALL_BOUNDS = {"aware": (0.8, 1.5), "blind": (1.5, 2.5)}
LARGE_BOUNDS = {"aware": (2.0, 1.0, 0.6, 0.5), "blind": (3.0, 1.3, 0.8, 0.6)}
# Fits of more rows are measured once: they take long, and vary little.
REPEATED_ROWS = 300_000
KINDS = ("normalised census-like", "standardised census-like", "overlapping blobs")
# Made with another seed and another number of columns: no constant was chosen on them.
FRESH = "fresh census-like"
FRESH_SEED, FRESH_COLUMNS = 101, 21
TINY: Tiny = {"n_rows": 300, "max_iter": 5}


@dataclass(frozen=True)
class Cell:
    """One table, and the number of clusters."""

    kind: str
    n_rows: int
    n_clusters: int
    column: str = ""

    @property
    def name(self) -> str:
        """What a line begins with."""
        if self.column:
            return f"{self.kind}, {self.column}, K={self.n_clusters}"
        return f"{self.n_rows:,} {self.kind}, K={self.n_clusters}"


def cells() -> Iterator[Cell]:
    """The grid, small tables first."""
    for kind in names():
        for column in DATA[kind][1]:
            yield Cell(kind, 0, 10, column)
    for n_rows in SMALL_ROWS:
        for kind in KINDS:
            yield Cell(kind, n_rows, 20)
    yield Cell(FRESH, 100_000, 20)
    for n_rows in LARGE_ROWS:
        for kind in KINDS:
            for n_clusters in (10, 20):
                yield Cell(kind, n_rows, n_clusters)
        if n_rows == SUBSAMPLED_ROWS:
            yield Cell(FRESH, n_rows, 20)


def run(repeats: int, **how: int) -> Iterator[Ratio]:
    """All cells."""
    for cell in cells():
        yield from measure(cell, repeats, **how)


def measure(
    cell: Cell, repeats: int, n_rows: int | None = None, max_iter: int | None = None
) -> list[Ratio]:
    """The lines of one cell."""
    X, groups = _rows(cell.kind, n_rows or cell.n_rows, cell.column)
    X, groups = X[:n_rows], groups[:n_rows]
    small = len(X) <= SMALL
    found: dict[str, dict[str, Any]] = {}

    def kmeans() -> None:
        model = KMeans(cell.n_clusters, n_init=10 if small else 1, random_state=0).fit(X)
        found["k-means"] = {"iterations": int(model.n_iter_), "cost": float(model.inertia_)}

    def fit(name: str, **settings: Any) -> Callable[[], None]:
        def run() -> None:
            model = FairMixture(
                cell.n_clusters,
                max_gap=MAX_GAP,
                max_iter=max_iter,
                random_state=0,
                n_jobs=1,
                **settings,
            ).fit(X, sensitive_features=groups)
            found[name] = {"gap": model.gap_, "passes": model.n_passes_, "labels": model.labels_}

        return run

    work: dict[str, Callable[[], None]] = {"k-means": kmeans}
    for how in ("aware", "blind"):
        work[how] = fit(how, assignment=how)
        if cell.n_rows >= SUBSAMPLED_ROWS:
            key = f"{how}, sub-sample 5 %"
            work[key] = fit(key, assignment=how, subsample=SUBSAMPLE)
    seconds: dict[str, list[float]] = {name: [] for name in work}
    with quietly(threads=1):
        for _ in range(repeats if len(X) <= REPEATED_ROWS else 1):
            for name, call in work.items():
                seconds[name].append(timed(call, time.process_time))
    floor = median(seconds.pop("k-means"))
    unit = f"KMeans(n_init={10 if small else 1}), {found['k-means']['iterations']} iterations"
    lines = []
    for name, taken in seconds.items():
        labels = found[name].pop("labels")
        costs = {"cost": clustering_cost(X, labels), "k-means": found["k-means"]["cost"]}
        details = found[name] | costs
        bound = _bound(cell, name, len(np.unique(groups)))
        lines.append(
            Ratio(f"{cell.name}, {name}", median(taken), unit, floor, bound, details=details)
        )
    return lines


def _bound(cell: Cell, name: str, n_groups: int) -> float:
    if "sub-sample" in name:
        return SUBSAMPLE_BOUND
    if cell.n_rows <= SMALL:
        return SMALL_BOUNDS[name][n_groups > 2]
    return LARGE_BOUNDS[name][LARGE_ROWS.index(cell.n_rows)]


@lru_cache(maxsize=1)
def _rows(kind: str, n_rows: int, column: str) -> tuple[Array, Array]:
    """Rows and groups; kept, because cells of one table follow each other."""
    if column:
        data = _table(kind)
        return paper_preprocessing(data.X), np.asarray(data.sensitive[column])
    if kind == "overlapping blobs":
        # So close that k-means takes twenty iterations or more.
        blobs, groups, _ = make_grouped_blobs(n_rows, 20, 10, separation=1.5, random_state=0)
        return blobs.astype(np.float32), groups
    seed = FRESH_SEED if kind == FRESH else 0
    census = make_census_like(n_rows, seed=seed)
    if kind == KINDS[0]:
        return paper_preprocessing(census.X).astype(np.float32), census.sex
    X = census.X[:, :FRESH_COLUMNS] if kind == FRESH else census.X
    X = np.ascontiguousarray(X)
    # In place and by column: 10 million rows in double precision would take 2 GB more.
    for j in range(X.shape[1]):
        values = X[:, j].astype(np.float64)
        X[:, j] = (values - values.mean()) / max(values.std(), 1e-12)
    return X, census.sex


@cache
def _table(name: str) -> Any:
    return DATA[name][0]()
