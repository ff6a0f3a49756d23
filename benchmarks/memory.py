"""Peak memory of a fit beyond its data, for 10 million rows, each fit in a process of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from benchmarks.harness import Ratio, Tiny, in_fresh_process, n_threads

N_ROWS = 10_000_000
COLUMNS = 8
# 20 bytes per row, for labels and codes of groups; what else a fit keeps does not grow.
MEGABYTES = 200
# Fits of the numbers that users have: NumPy's own, and half as long.
CASES = (("float64", "blind"), ("float64", "aware"), ("float32", "blind"), ("float32", "aware"))
TINY: Tiny = {"n_rows": 2_000, "cases": CASES[:1]}
# The rows are made in place, so that nothing but them is there before the fit. A small fit comes
# first: what it loads and keeps does not grow with the rows.
FIT = """
import json, sys, warnings
import numpy as np
from fairmix import FairMixture
from fairmix.system.memory import PeakMemory

n_rows, columns, dtype, assignment, n_jobs = json.loads(sys.argv[1])
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
X = np.empty((n_rows, columns), dtype=dtype)
groups = np.empty(n_rows, dtype=np.int8)
for start in range(0, n_rows, 100_000):
    part = slice(start, min(n_rows, start + 100_000))
    X[part] = rng.normal(size=X[part].shape)
    groups[part] = X[part, 0] + rng.normal(size=len(X[part])) > 0
    X[part] += 3 * rng.integers(4, size=(len(X[part]), 1))
model = FairMixture(10, max_gap=0.01, assignment=assignment, random_state=0, n_jobs=n_jobs)
few = slice(0, min(n_rows, 10_000))
model.fit(X[few], sensitive_features=groups[few])
memory = PeakMemory()
model.fit(X, sensitive_features=groups)
print(json.dumps({"megabytes": memory.growth(), "gap": model.gap_, "iterations": model.n_iter_}))
"""


def run(
    repeats: int, n_rows: int = N_ROWS, cases: Sequence[tuple[str, str]] = CASES
) -> Iterator[Ratio]:
    """The largest peak of some fits."""
    for dtype, assignment in cases:
        fits = [_fit(n_rows, dtype, assignment) for _ in range(repeats)]
        worst = max(fits, key=lambda fit: fit["megabytes"])
        data = n_rows * COLUMNS * int(dtype.removeprefix("float")) // 8 / 1e6
        yield Ratio(
            f"{assignment}, {dtype}: beyond {data:,.0f} MB of data",
            worst["megabytes"],
            "the target",
            MEGABYTES,
            1,
            unit="MB",
            details=worst,
        )


def _fit(n_rows: int, dtype: str, assignment: str) -> dict[str, float]:
    given = json.dumps([n_rows, COLUMNS, dtype, assignment, n_threads()])
    return in_fresh_process(FIT, given)
