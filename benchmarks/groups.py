"""Fits of many groups on one thread: processor seconds against targets, and growth."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from statistics import median
from typing import Any

import numpy as np

from benchmarks.harness import Array, Ratio, Tiny, exponent, quietly, timed
from fairmix import FairMixture

K = 5  # clusters; groups are what grows here
# Rows, groups, and the seconds that a fit may take on one core of today: what a user waits for.
SIZES = ((300, 10, 3.0), (5_000, 50, 20.0), (300, 300, 10.0))
# Rows of a table with two and with four groups, and how much longer the latter may take.
FEW = (7_000, 3.0)
# Growth: the time of the small problems and passes, at the same number of rows.
GROWTH_ROWS = 4_000
GROWTH_GROUPS = (5, 10, 20, 40)
# The curvature of an aware tilt is one block per group, that of a blind one a matrix of all groups.
EXPONENTS = {"aware": 1.0, "blind": 2.0}
TINY: Tiny = {
    "sizes": ((60, 3, 3.0),),
    "few_rows": 60,
    "growth_groups": (2, 4),
    "growth_rows": 60,
    "max_iter": 5,
}


def run(
    repeats: int,
    sizes: Sequence[tuple[int, int, float]] = SIZES,
    few_rows: int = FEW[0],
    growth_groups: Sequence[int] = GROWTH_GROUPS,
    growth_rows: int = GROWTH_ROWS,
    max_iter: int | None = None,
) -> list[Ratio]:
    """Default fits with every group judged, blind and aware."""
    out = []
    with quietly(threads=1):
        for assignment in EXPONENTS:
            fit = partial(_seconds, repeats, assignment, max_iter)
            for n_rows, n_groups, allowed in sizes:
                seconds, details = fit(n_rows, n_groups)
                name = f"{n_rows:,} rows, {n_groups} groups, {assignment}"
                out.append(Ratio(name, seconds, "the target", allowed, 1, details=details))
            two, four = (fit(few_rows, n_groups)[0] for n_groups in (2, 4))
            name = f"{few_rows:,} rows, four groups, {assignment}"
            out.append(Ratio(name, four, "two groups", two, FEW[1]))
            times = [fit(growth_rows, n_groups)[0] for n_groups in growth_groups]
            details = {"groups": list(growth_groups), "seconds": times}
            bound = EXPONENTS[assignment]
            name = f"exponent in groups, {assignment}"
            slope = exponent(growth_groups, times)
            out.append(Ratio(name, slope, "one", 1.0, bound, unit="", details=details))
    return out


def _seconds(
    repeats: int, assignment: Any, max_iter: int | None, n_rows: int, n_groups: int
) -> tuple[float, dict[str, object]]:
    """Processor seconds of a fit, and how it ended."""
    X, groups = _people(n_rows, n_groups)
    model = FairMixture(
        K, assignment=assignment, min_group_size=1, max_iter=max_iter, random_state=0, n_jobs=1
    )
    fit = partial(model.fit, X, sensitive_features=groups)
    seconds = median(timed(fit, time.process_time) for _ in range(repeats))
    # A bound that is missed is told by the verdict.
    return seconds, {"gap": float(model.gap_), "verdict": model.verdict_}


def _people(n_rows: int, n_groups: int) -> tuple[Array, Array]:
    """Three columns whose means differ from group to group."""
    rng = np.random.default_rng(0)
    groups = rng.permutation(np.arange(n_rows) % n_groups)
    X = rng.normal(size=(n_rows, 3)) + 0.6 * rng.normal(size=(n_groups, 3))[groups]
    X[rng.random(n_rows) < 0.4] += 2.5
    return X, groups
