"""Predictions against those of k-means, in processor seconds of one thread."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any, Literal

from sklearn.cluster import KMeans

from benchmarks.harness import Ratio, Tiny, quietly, timed
from fairmix import FairMixture
from fairmix.datasets import make_grouped_blobs

N_ROWS, COLUMNS, K = 1_000_000, 10, 10
TRAINING_ROWS = 20_000
# Of k-means, for all rows and for one.
BOUNDS: dict[Literal["aware", "blind"], tuple[float, float]] = {
    "aware": (3.0, 4.0),
    "blind": (4.0, 4.0),
}
# Predictions of one row take about a millisecond, so many of them count as one.
TIMES = 50
TINY: Tiny = {"n_rows": 300, "max_iter": 5}


def run(repeats: int, n_rows: int = N_ROWS, max_iter: int | None = None) -> Iterator[Ratio]:
    """All rows, then one row at a time."""
    X, groups, _ = make_grouped_blobs(n_rows, K, COLUMNS, random_state=0)
    few = slice(0, TRAINING_ROWS)
    with quietly(threads=1):
        peer = KMeans(K, n_init=1, random_state=0).fit(X[few])
        models = {
            how: FairMixture(K, assignment=how, max_iter=max_iter, random_state=0, n_jobs=1).fit(
                X[few], sensitive_features=groups[few]
            )
            for how in BOUNDS
        }
        for part, rows, times in (("all rows", slice(None), 1), ("one row", slice(0, 1), TIMES)):
            beside = {"aware": {"sensitive_features": groups[rows]}, "blind": {}}
            work = {"k-means": _again(peer.predict, X[rows], times)} | {
                how: _again(model.predict, X[rows], times, **beside[how])
                for how, model in models.items()
            }
            seconds: dict[str, list[float]] = {name: [] for name in work}
            for _ in range(repeats):
                for name, call in work.items():
                    seconds[name].append(timed(call, time.process_time) / times)
            floor = median(seconds["k-means"])
            for how, bounds in BOUNDS.items():
                taken, bound = median(seconds[how]), bounds[part == "one row"]
                yield Ratio(f"{how}, {part}", taken, "KMeans.predict", floor, bound)


def _again(predict: Callable[..., object], X: Any, times: int, **beside: Any) -> Callable[[], None]:
    def call() -> None:
        for _ in range(times):
            predict(X, **beside)

    return call
