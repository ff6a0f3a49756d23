"""Fits with a rule on ratios or Balance against fits of a gap, of the same table, on one thread."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product
from statistics import median
from typing import Any

import numpy as np

from benchmarks.harness import Array, Ratio, Tiny, quietly, timed
from benchmarks.optima import prepared
from fairmix import FairMixture
from fairmix.criteria import best_balance

K = 10  # clusters
TABLES = ("Adult", "Bank", "Credit", "Bank 3")
# Rows and groups of made tables.
SHAPES = ((1_000, 2), (5_000, 2), (5_000, 3), (5_000, 6))
RATIOS = (0.8, 0.9)
# A share of the best possible Balance.
SHARE = 0.8
MOST = 1.5  # times a fit with the default gap
TINY: Tiny = {"tables": (), "shapes": ((120, 2),), "max_iter": 3}


def run(
    repeats: int,
    tables: Sequence[str] = TABLES,
    shapes: Sequence[tuple[int, int]] = SHAPES,
    max_iter: int | None = None,
) -> Iterator[Ratio]:
    """Default fits, in turn, blind and aware; a repeat is a seed."""
    named = {name: partial(prepared, name) for name in tables}
    made = {f"{n:,} rows, {m} groups": partial(_people, n, m) for n, m in shapes}
    for name, load in (named | made).items():
        X, people = load()
        balance = SHARE * best_balance(np.unique(people, return_counts=True)[1].astype(float))
        rules: dict[str, dict[str, Any]] = {"gap": {}}
        rules |= {f"ratio {ratio}": {"min_ratio": ratio} for ratio in RATIOS}
        rules["Balance"] = {"min_balance": balance}
        for assignment in ("aware", "blind"):
            how: dict[str, Any] = {"assignment": assignment, "max_iter": max_iter, "n_jobs": 1}
            times: dict[str, list[float]] = {rule: [] for rule in rules}
            with quietly(threads=1):
                # In turn, so that a busy machine slows all of them down.
                for seed, (rule, bound) in product(range(repeats), rules.items()):
                    model = FairMixture(K, random_state=seed, **how, **bound)
                    fit = partial(model.fit, X, sensitive_features=people)
                    times[rule].append(timed(fit, time.process_time))
            gap = median(times.pop("gap"))
            for rule, seconds in times.items():
                title = f"{name}, {assignment}, {rule}"
                yield Ratio(title, median(seconds), "a gap of 0.01", gap, MOST)


def _people(n_rows: int, n_groups: int) -> tuple[Array, Array]:
    """Clumps that groups of different sizes have different shares of."""
    rng = np.random.default_rng(n_groups)
    sizes = np.arange(n_groups, 0, -1)
    groups = rng.choice(n_groups, size=n_rows, p=sizes / sizes.sum())
    shares = rng.dirichlet(np.ones(6), size=n_groups)
    clumps = (rng.random((n_rows, 1)) > shares.cumsum(axis=1)[groups]).sum(axis=1).clip(max=5)
    return rng.normal(2 * rng.normal(size=(6, 4))[clumps]), groups
