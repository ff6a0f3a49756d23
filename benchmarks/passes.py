"""Passes over Adult that a fit takes, by solver, against a budget: the same on all machines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.harness import Ratio, Tiny, quietly
from fairmix import FairMixture
from fairmix.datasets import load_adult, paper_preprocessing

K = 10  # as in the paper's tables
MAX_GAP = 0.01
STRENGTH = 5.0  # in the middle of the paper's range, 1 to 10
TINY: Tiny = {"n_rows": 100, "n_clusters": 2, "max_iter": 3}
# Settings and budget of each solver: what it takes, rounded up, so that a change that takes more
# is seen.
SOLVERS: dict[str, tuple[dict[str, Any], float]] = {
    "dual, aware": ({"assignment": "aware"}, 110),
    "dual, blind": ({}, 250),
    "dual, blind, sub-sample 10 %": ({"subsample": 0.1}, 100),
    "dual, blind, mini-batch 25 %": ({"batch_size": 0.25}, 400),
    "plain mixture": ({"fairness_strength": 0}, 10),
    "em, strength 5": ({"solver": "em", "fairness_strength": STRENGTH}, 2000),
    "em, max_gap": ({"solver": "em"}, 1100),
    "gd, strength 5": ({"solver": "gd", "fairness_strength": STRENGTH}, 8500),
}


def run(
    repeats: int, n_rows: int | None = None, n_clusters: int = K, max_iter: int | None = None
) -> Iterator[Ratio]:
    """One fit of each: a count needs no repeats."""
    adult = load_adult()
    X = paper_preprocessing(adult.X)[:n_rows]
    for name, (settings, budget) in SOLVERS.items():
        model = FairMixture(
            n_clusters, max_gap=MAX_GAP, max_iter=max_iter, random_state=0, **settings
        )
        with quietly():
            model.fit(X, sensitive_features=adult.sex[:n_rows])
        details = {"iterations": model.n_iter_, "gap": model.gap_}
        yield Ratio(name, model.n_passes_, "the budget", budget, 1, unit="passes", details=details)
