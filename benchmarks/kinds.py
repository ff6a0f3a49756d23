"""Other rules and other columns against the default fit of the same shape, on one thread."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
from sklearn.mixture import GaussianMixture

from benchmarks.harness import Array, Ratio, Tiny, quietly, timed
from fairmix import FairMixture
from fairmix.datasets import make_grouped_blobs

N_ROWS, COLUMNS, K = 30_000, 10, 10
LEVELS = 8  # categories of a column
BOUND = 2.0
# Of an iteration of GaussianMixture, for a pass of a fit with full covariances. Its first ones have
# a start in them, so it is what a longer run takes more than a short one.
FULL_BOUND, SHORT, LONG = 1.0, 3, 13
TINY: Tiny = {"n_rows": 300, "max_iter": 5}


def run(repeats: int, n_rows: int = N_ROWS, max_iter: int | None = None) -> Iterator[Ratio]:
    """Aware and blind fits, in processor seconds."""
    X, groups, _ = make_grouped_blobs(n_rows, K, COLUMNS, separation=1.5, random_state=0)
    names = np.array([f"level {level}" for level in range(LEVELS)])
    codes = np.clip(np.rint(X * 1.2 + LEVELS / 2), 0, LEVELS - 1).astype(int)
    categories = {f"c{j}": names[codes[:, j]] for j in range(COLUMNS)}
    half = COLUMNS // 2
    numbers = {f"n{j}": X[:, j] for j in range(half)}
    mixed = numbers | {name: categories[name] for name in list(categories)[half:]}
    cases: dict[str, tuple[Any, dict[str, Any]]] = {
        "default": (X, {}),
        "gap_of='probabilities'": (X, {"gap_of": "probabilities"}),
        "min_ratio=0.8": (X, {"min_ratio": 0.8}),
        "categorical columns": (pa.table(categories), {}),
        "mixed columns": (pa.table(mixed), {}),
        "spherical": (X, {"covariance_type": "spherical"}),
        "diag": (X, {"covariance_type": "diag"}),
    }
    with quietly(threads=1):
        for how in ("aware", "blind"):
            yield from _kinds(cases, groups, repeats, assignment=how, max_iter=max_iter)
            yield _full(X, groups, repeats, assignment=how, max_iter=max_iter)


def _kinds(
    cases: dict[str, tuple[Any, dict[str, Any]]], groups: Array, repeats: int, **settings: Any
) -> Iterator[Ratio]:
    seconds: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(repeats):
        for name, (X, own) in cases.items():
            model = FairMixture(K, random_state=0, n_jobs=1, **settings, **own)
            fit = partial(model.fit, X, sensitive_features=groups)
            seconds[name].append(timed(fit, time.process_time))
    floor = median(seconds.pop("default"))
    for name, taken in seconds.items():
        title = f"{settings['assignment']}, {name}"
        yield Ratio(title, median(taken), "the default fit", floor, BOUND)


def _full(X: Array, groups: Array, repeats: int, **settings: Any) -> Ratio:
    """A pass of a fit with full covariances, all that the fit does besides included."""
    passes, iterations = [], []
    for _ in range(repeats):
        model = FairMixture(K, covariance_type="full", random_state=0, n_jobs=1, **settings)
        fit = partial(model.fit, X, sensitive_features=groups)
        passes.append(timed(fit, time.process_time) / model.n_passes_)
        short, long = (timed(partial(_plain, X, n), time.process_time) for n in (SHORT, LONG))
        iterations.append((long - short) / (LONG - SHORT))
    name = f"{settings['assignment']}, full, a pass"
    unit = "an iteration of GaussianMixture('full')"
    return Ratio(name, median(passes), unit, median(iterations), FULL_BOUND)


def _plain(X: Array, max_iter: int) -> None:
    start = {"init_params": "random_from_data", "random_state": 0}
    GaussianMixture(K, max_iter=max_iter, tol=0, **start).fit(X)
