"""Fits of 2.4 million census-like rows against k-means and GaussianMixture, with equal threads."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from functools import partial
from statistics import median
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.mixture import GaussianMixture

from benchmarks.harness import Ratio, medians, n_threads
from fairmix import FairMixture
from fairmix.datasets import make_census_like, paper_preprocessing
from fairmix.metrics import clustering_cost

N_ROWS = 2_458_285
K = 20
MAX_GAP = 0.01
# What is learned from, and how many times as long as k-means it may take.
WAYS: dict[str, tuple[dict[str, Any], float]] = {
    "sub-sample 5 %": ({"subsample": 0.05}, 0.5),
    "mini-batch 10 %": ({"batch_size": 0.1}, 1.0),
    "full EM": ({}, 3.0),
}
PLAIN_BOUND = 0.25
COVARIANCES = ("spherical", "diag")
TINY = {"n_rows": 3_000}
# (seconds since the start, mean log-likelihood) of each iteration.
Course = list[tuple[float, float]]


def run(repeats: int, n_rows: int = N_ROWS) -> Iterator[Ratio]:
    """Fair fits, each with its bound checked on all rows; plain ones to the same likelihood."""
    data = make_census_like(n_rows)
    X = paper_preprocessing(data.X).astype(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a fit may reach its most iterations
        yield from _fair(X, data.sex, repeats)
        for kind in COVARIANCES:
            yield _plain(X, kind, repeats)


def _fair(X, sex, repeats: int) -> list[Ratio]:
    found: dict[str, dict[str, Any]] = {}
    work = {"k-means": partial(_kmeans, found, X)}
    for assignment in ("blind", "aware"):
        for name, (settings, _) in WAYS.items():
            key = f"{assignment} {name}"
            work[key] = partial(_fit, found, key, X, sex, {"assignment": assignment, **settings})
    seconds = medians(work, repeats)
    floor = seconds.pop("k-means")
    unit = f"KMeans({K}), {found['k-means']['iterations']} iterations"
    return [
        Ratio(key, value, unit, floor, WAYS[key.split(" ", 1)[1]][1], details=found[key])
        for key, value in seconds.items()
    ]


def _kmeans(found: dict[str, Any], X) -> None:
    model = KMeans(K, n_init=1, random_state=0).fit(X)
    found["k-means"] = {"iterations": model.n_iter_, "cost": float(model.inertia_)}


def _fit(found: dict[str, Any], key: str, X, sex, settings: dict[str, Any]) -> None:
    model = FairMixture(K, max_gap=MAX_GAP, random_state=0, n_jobs=n_threads(), **settings)
    model.fit(X, sensitive_features=sex)
    if key not in found:
        cost = clustering_cost(X, model.labels_)
        found[key] = {"gap": model.gap_, "iterations": model.n_iter_, "cost": cost}


def _plain(X, kind: str, repeats: int) -> Ratio:
    """Seconds until both have the lower one of the two final likelihoods."""
    times = []
    for _ in range(repeats):
        ours, theirs = _our_course(X, kind), _their_course(X, kind)
        target = min(ours[-1][1], theirs[-1][1])
        times.append((_reached(ours, target), _reached(theirs, target)))
    details = {
        "log_likelihood": ours[-1][1],
        "GaussianMixture": {"log_likelihood": theirs[-1][1], "iterations": len(theirs)},
        "iterations": len(ours),
    }
    own, other = (median(column) for column in zip(*times, strict=True))
    unit = f"GaussianMixture({K}, {kind!r})"
    return Ratio(f"plain {kind}", own, unit, other, PLAIN_BOUND, details=details)


def _reached(course: Course, target: float) -> float:
    return next(seconds for seconds, value in course if value >= target)


def _our_course(X, kind: str) -> Course:
    started = time.perf_counter()
    model = FairMixture(K, covariance_type=kind, fairness_strength=0, random_state=0)
    history = model.set_params(n_jobs=n_threads()).fit(X).history_
    # Whatever a fit does besides its iterations counts from the first of them on.
    besides = time.perf_counter() - started - history["seconds"][-1]
    seconds = (history["seconds"] + besides).tolist()
    return list(zip(seconds, history["log_likelihood"].tolist(), strict=True))


def _their_course(X, kind: str) -> Course:
    model = Watched(K, covariance_type=kind, random_state=0)
    model.fit(X)
    return model.course


class Watched(GaussianMixture):
    """GaussianMixture that notes when it had which likelihood."""

    def fit(self, X, y=None):
        """Fit, and note the course."""
        self.course: Course = []
        self.started = time.perf_counter()
        return super().fit(X)

    def _e_step(self, X, **how):
        value, responsibilities = super()._e_step(X, **how)
        self.course.append((time.perf_counter() - self.started, float(value)))
        return value, responsibilities
