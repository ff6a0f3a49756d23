"""Fits of 2.4 million census-like rows against k-means and GaussianMixture, with equal threads."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from statistics import median
from typing import Any, Self

import numpy as np
from sklearn.cluster import KMeans
from sklearn.mixture import GaussianMixture

from benchmarks.harness import Array, Ratio, Tiny, medians, n_threads, quietly
from fairmix import FairMixture
from fairmix.datasets import make_census_like, paper_preprocessing
from fairmix.metrics import clustering_cost

N_ROWS = 2_458_285  # of the Census
K = 20  # clusters
MAX_GAP = 0.01
# What is learned from, and how many times as long as k-means it may take. These are goals, not
# records: blind fits miss the first two, as the page says.
WAYS: dict[str, tuple[dict[str, Any], float]] = {
    "sub-sample 5 %": ({"subsample": 0.05}, 0.5),
    "mini-batch 10 %": ({"batch_size": 0.1}, 1.0),
    "full EM": ({}, 3.0),
}
# Of the time of GaussianMixture to the same likelihood: the goal is to be four times as fast.
PLAIN_BOUND = 0.25
COVARIANCES = ("spherical", "diag")
TINY: Tiny = {"n_rows": 300, "n_clusters": 3, "max_iter": 5}
# (seconds since the start, mean log-likelihood) of each iteration.
Course = list[tuple[float, float]]


def run(
    repeats: int, n_rows: int = N_ROWS, n_clusters: int = K, max_iter: int | None = None
) -> Iterator[Ratio]:
    """Fair fits, each with its bound checked on all rows; plain ones to the same likelihood."""
    data = make_census_like(n_rows)
    X = paper_preprocessing(data.X).astype(np.float32)
    with quietly():
        yield from _fair(X, data.sex, n_clusters, max_iter, repeats)
        for kind in COVARIANCES:
            yield _plain(X, kind, n_clusters, repeats)


def _fair(X: Array, sex: Array, n_clusters: int, max_iter: int | None, repeats: int) -> list[Ratio]:
    found: dict[str, dict[str, Any]] = {}

    def kmeans() -> None:
        model = KMeans(n_clusters, n_init=1, random_state=0).fit(X)
        found["k-means"] = {"iterations": model.n_iter_, "cost": float(model.inertia_)}

    def fit(key: str, settings: dict[str, Any]) -> None:
        model = FairMixture(
            n_clusters,
            max_gap=MAX_GAP,
            max_iter=max_iter,
            random_state=0,
            n_jobs=n_threads(),
            **settings,
        )
        model.fit(X, sensitive_features=sex)
        if key not in found:
            cost = clustering_cost(X, model.labels_)
            found[key] = {"gap": model.gap_, "iterations": model.n_iter_, "cost": cost}

    work: dict[str, Callable[[], None]] = {"k-means": kmeans}
    for assignment in ("blind", "aware"):
        for name, (settings, _) in WAYS.items():
            key = f"{assignment} {name}"
            work[key] = partial(fit, key, {"assignment": assignment, **settings})
    seconds = medians(work, repeats)
    floor = seconds.pop("k-means")
    unit = f"KMeans({n_clusters}), {found['k-means']['iterations']} iterations"
    return [
        Ratio(key, value, unit, floor, WAYS[key.split(" ", 1)[1]][1], details=found[key])
        for key, value in seconds.items()
    ]


def _plain(X: Array, kind: str, n_clusters: int, repeats: int) -> Ratio:
    """Seconds until both have the lower one of the two final likelihoods."""
    times = []
    for _ in range(repeats):
        ours, theirs = _our_course(X, kind, n_clusters), _their_course(X, kind, n_clusters)
        target = min(ours[-1][1], theirs[-1][1])
        times.append((_reached(ours, target), _reached(theirs, target)))
    details = {
        "log_likelihood": ours[-1][1],
        "GaussianMixture": {"log_likelihood": theirs[-1][1], "iterations": len(theirs)},
        "iterations": len(ours),
    }
    own, other = (median(column) for column in zip(*times, strict=True))
    unit = f"GaussianMixture({n_clusters}, {kind!r})"
    return Ratio(f"plain {kind}", own, unit, other, PLAIN_BOUND, details=details)


def _reached(course: Course, target: float) -> float:
    return next(seconds for seconds, value in course if value >= target)


def _our_course(X: Array, kind: Any, n_clusters: int) -> Course:
    started = time.perf_counter()
    model = FairMixture(n_clusters, covariance_type=kind, fairness_strength=0, random_state=0)
    history = model.set_params(n_jobs=n_threads()).fit(X).history_
    # Whatever a fit does besides its iterations counts from the first of them on.
    besides = time.perf_counter() - started - history["seconds"][-1]
    seconds = (history["seconds"] + besides).tolist()
    return list(zip(seconds, history["log_likelihood"].tolist(), strict=True))


def _their_course(X: Array, kind: str, n_clusters: int) -> Course:
    model = Watched(n_clusters, covariance_type=kind, random_state=0)
    model.fit(X)
    return model.course


class Watched(GaussianMixture):
    """GaussianMixture that notes when it had which likelihood."""

    def fit(self, X: Array, y: None = None) -> Self:
        """Fit, and note the course."""
        self.course: Course = []
        self.started = time.perf_counter()
        super().fit(X)
        return self

    def _e_step(self, X: Array, **how: Any) -> tuple[float, Array]:
        value, responsibilities = super()._e_step(X, **how)
        self.course.append((time.perf_counter() - self.started, float(value)))
        return value, responsibilities
