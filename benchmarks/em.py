"""FMC-EM on Adult against the same number of steps written plainly."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

from benchmarks.harness import Ratio, medians
from fairmix import FairMixture
from fairmix.datasets import load_adult, paper_preprocessing

STEPS = 2000


def naive_step(X, groups, weights, means, variance):
    """Logits, softmax and the gradient of the gap, in row-major NumPy on one thread."""
    distance = (X**2).sum(1)[:, None] - 2 * X @ means.T + (means**2).sum(1)
    logits = np.log(weights) - distance / (2 * variance)
    logits = logits - logits.max(axis=1, keepdims=True)
    psi = np.exp(logits)
    psi = psi / psi.sum(axis=1, keepdims=True)
    first, second = groups == 0, groups == 1
    difference = psi[first].mean(axis=0) - psi[second].mean(axis=0)
    worst = np.abs(difference).argmax()
    sign = np.sign(difference[worst])
    scale = np.where(first, sign / first.sum(), -sign / second.sum())
    inner = (np.arange(len(means)) == worst) - psi
    q = scale[:, None] * psi[:, [worst]] * inner
    return (q.T @ X - q.sum(axis=0)[:, None] * means) / variance


def run(repeats: int) -> list[Ratio]:
    """EM fits with the default tolerance, and with all 200 iterations."""
    adult = load_adult()
    X = paper_preprocessing(adult.X)
    groups = (adult.sex == "Male").astype(int)
    centers = KMeans(10, n_init=1, random_state=0).fit(X).cluster_centers_

    def naive() -> None:
        with threadpool_limits(1):
            for _ in range(STEPS // 10):
                naive_step(X, groups, np.full(10, 0.1), centers, 0.1)

    def fit(**settings: object) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            FairMixture(
                10, solver="em", fairness_strength=10, random_state=0, n_jobs=2, **settings
            ).fit(X, sensitive_features=adult.sex)

    seconds = medians({"naive": naive, "em": fit, "em, tol=0": lambda: fit(tol=0)}, repeats)
    floor = f"{STEPS} naive steps (a tenth of them timed)"
    return [
        Ratio(f"Adult {name}", seconds[name], floor, 10 * seconds["naive"], bound)
        for name, bound in (("em", 0.25), ("em, tol=0", None))
    ]
