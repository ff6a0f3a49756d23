"""Fits of many groups on one thread: processor seconds against targets, and growth."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from functools import partial
from statistics import median

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.harness import Ratio
from fairmix import FairMixture

K = 5
# Rows, groups, and the seconds that a fit may take.
SIZES = ((300, 10, 3.0), (5_000, 50, 20.0), (300, 300, 10.0))
# Rows of a table with two and with four groups, and how much longer the latter may take.
FEW = (7_000, 3.0)
# Growth: the time of the small problems and passes, at the same number of rows.
GROWTH_ROWS = 4_000
GROWTH_GROUPS = (5, 10, 20, 40)
EXPONENTS = {"aware": 1.0, "blind": 2.0}
TINY = {"sizes": ((60, 3, 3.0),), "few_rows": 200, "growth_groups": (2, 4), "growth_rows": 200}


def run(
    repeats: int,
    sizes: Sequence[tuple[int, int, float]] = SIZES,
    few_rows: int = FEW[0],
    growth_groups: Sequence[int] = GROWTH_GROUPS,
    growth_rows: int = GROWTH_ROWS,
) -> list[Ratio]:
    """Default fits with every group judged, blind and aware."""
    out = []
    with threadpool_limits(1):
        for assignment in EXPONENTS:
            fit = partial(_seconds, repeats, assignment)
            for n_rows, n_groups, allowed in sizes:
                seconds, details = fit(n_rows, n_groups)
                name = f"{n_rows:,} rows, {n_groups} groups, {assignment}"
                out.append(Ratio(name, seconds, "the target", allowed, 1, details=details))
            two, four = (fit(few_rows, n_groups)[0] for n_groups in (2, 4))
            name = f"{few_rows:,} rows, four groups, {assignment}"
            out.append(Ratio(name, four, "two groups", two, FEW[1]))
            times = [fit(growth_rows, n_groups)[0] for n_groups in growth_groups]
            exponent = float(np.polyfit(np.log(growth_groups), np.log(times), 1)[0])
            details = {"groups": list(growth_groups), "seconds": times}
            bound = EXPONENTS[assignment]
            name = f"exponent in groups, {assignment}"
            out.append(Ratio(name, exponent, "one", 1.0, bound, unit="", details=details))
    return out


def _seconds(
    repeats: int, assignment: str, n_rows: int, n_groups: int
) -> tuple[float, dict[str, object]]:
    """Processor seconds of a fit, and how it ended."""
    X, groups = _people(n_rows, n_groups)
    times = []
    for _ in range(repeats):
        model = FairMixture(K, assignment=assignment, min_group_size=1, random_state=0, n_jobs=1)
        started = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # A bound that is missed is in the details.
            model.fit(X, sensitive_features=groups)
        times.append(time.process_time() - started)
    return median(times), {"gap": float(model.gap_), "verdict": model.verdict_}


def _people(n_rows: int, n_groups: int) -> tuple[np.ndarray, np.ndarray]:
    """Three columns whose means differ from group to group."""
    rng = np.random.default_rng(0)
    groups = rng.permutation(np.arange(n_rows) % n_groups)
    X = rng.normal(size=(n_rows, 3)) + 0.6 * rng.normal(size=(n_groups, 3))[groups]
    X[rng.random(n_rows) < 0.4] += 2.5
    return X, groups
