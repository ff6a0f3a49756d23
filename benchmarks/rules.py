"""Fits with a rule on ratios or Balance against fits of a gap, of the same table, on one thread."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from statistics import median
from typing import Any

import numpy as np

from benchmarks.harness import Array, Ratio, Tiny, quietly, timed
from fairmix import FairMixture
from fairmix.criteria import best_balance

K = 10  # clusters
N_ROWS = 5_000
GROUPS = (2, 3, 6)
RATIOS = (0.8, 0.95)
# A share of the best possible Balance.
SHARE = 0.8
MOST = 1.5  # times a fit with the default gap
TINY: Tiny = {"n_rows": 120, "groups": (2,), "max_iter": 3}


def run(
    repeats: int,
    n_rows: int = N_ROWS,
    groups: Sequence[int] = GROUPS,
    max_iter: int | None = None,
) -> list[Ratio]:
    """Default fits, in turn, blind and aware."""
    out = []
    with quietly(threads=1):
        for n_groups in groups:
            X, people = _people(n_rows, n_groups)
            balance = SHARE * best_balance(np.bincount(people).astype(float))
            rules: dict[str, dict[str, Any]] = {"gap": {}}
            rules |= {f"ratio {ratio}": {"min_ratio": ratio} for ratio in RATIOS}
            rules["Balance"] = {"min_balance": balance}
            for assignment in ("aware", "blind"):
                how: dict[str, Any] = {"assignment": assignment, "max_iter": max_iter, "n_jobs": 1}
                times: dict[str, list[float]] = {name: [] for name in rules}
                # In turn, so that a busy machine slows all of them down.
                for seed in range(repeats):
                    for name, rule in rules.items():
                        model = FairMixture(K, random_state=seed, **how, **rule)
                        fit = partial(model.fit, X, sensitive_features=people)
                        times[name].append(timed(fit, time.process_time))
                gap = median(times.pop("gap"))
                for name, seconds in times.items():
                    title = f"{name}, {n_groups} groups, {assignment}"
                    out.append(Ratio(title, median(seconds), "a gap of 0.01", gap, MOST))
    return out


def _people(n_rows: int, n_groups: int) -> tuple[Array, Array]:
    """Clumps that groups of different sizes have different shares of."""
    rng = np.random.default_rng(n_groups)
    sizes = np.arange(n_groups, 0, -1)
    groups = rng.choice(n_groups, size=n_rows, p=sizes / sizes.sum())
    shares = rng.dirichlet(np.ones(6), size=n_groups)
    clumps = (rng.random((n_rows, 1)) > shares.cumsum(axis=1)[groups]).sum(axis=1).clip(max=5)
    return rng.normal(2 * rng.normal(size=(6, 4))[clumps]), groups
