"""Fits of files of growing size: seconds per pass and peak memory, each in a process of its own.

``FAIRMIX_FILE_ROWS`` names other sizes than 100 thousand, 1 million and 10 million rows.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from benchmarks.harness import Ratio, in_fresh_process
from fairmix.datasets import write_census_like

ROWS = os.environ.get("FAIRMIX_FILE_ROWS", "100_000,1_000_000,10_000_000")
# Seconds per pass may grow with this power of the rows, nearly in proportion: a larger file does
# not fit into the caches of the system. Of passes that keep no rows: 64 MB of them make a pass over
# a small file several times as fast, and one over a large file not.
EXPONENT = 1.05
# One bound for all sizes. From 100 thousand to 10 million rows fits take 428 to 476 MB; the rest is
# for other versions of the libraries, which are most of it.
MEGABYTES = 700
# A pass over a file of so many rows against one over the same rows in memory.
COMPARED, MEMORY_BOUND = 1_000_000, 2.0
FIT = """
import json, resource, sys, warnings
import numpy as np
import pyarrow.parquet as pq
from fairmix import FairMixture
from fairmix.tables import table

warnings.simplefilter("ignore")  # a few iterations are not its end
model = FairMixture(20, standardize=True, max_iter=8, random_state=0, n_jobs=2)
model.fit(sys.argv[1], sensitive_features="SEX")
megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
gap = model.gap_
# Each iteration of a plain mixture is a pass over the file.
model.set_params(fairness_strength=0, max_iter=4, tol=0).fit(sys.argv[1], sensitive_features="SEX")
seconds = float(np.median(np.diff(model.history_["seconds"])))
found = {"seconds": seconds, "megabytes": megabytes, "gap": gap}
if sys.argv[2] == "memory":
    model.fit(pq.read_table(sys.argv[1]), sensitive_features="SEX")
    found["in memory"] = float(np.median(np.diff(model.history_["seconds"])))
table.KEPT_BYTES = 0
model.fit(sys.argv[1], sensitive_features="SEX")
found["nothing kept"] = float(np.median(np.diff(model.history_["seconds"])))
print(json.dumps(found))
"""


def run(repeats: int) -> list[Ratio]:
    """Growth of the seconds per pass from the smallest file on, and peak memory of every fit."""
    sizes = [int(size) for size in ROWS.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        paths = {size: Path(folder) / f"{size}.parquet" for size in sizes}
        for size, path in paths.items():
            write_census_like(path, size)
        found = {size: [_fit(path) for _ in range(repeats)] for size, path in paths.items()}
    passes = {size: min(fit["nothing kept"] for fit in fits) for size, fits in found.items()}
    peaks = {size: max(fit["megabytes"] for fit in fits) for size, fits in found.items()}
    first, *larger = sizes
    out = [
        Ratio(f"peak of {size:,} rows", peak, f"{MEGABYTES} MB", MEGABYTES, 1, unit="MB")
        for size, peak in peaks.items()
    ]
    for size in larger:
        growth = size / first
        name, bound = f"pass over {size:,} rows, none kept", growth ** (EXPONENT - 1)
        out.append(Ratio(name, passes[size], "in proportion", growth * passes[first], bound))
    if COMPARED in found:
        name, inside = f"Parquet, {COMPARED:,} rows", [fit["in memory"] for fit in found[COMPARED]]
        own = min(fit["seconds"] for fit in found[COMPARED])
        out.append(Ratio(name, own, "a pass in memory", min(inside), MEMORY_BOUND))
    return out


def _fit(path: Path) -> dict[str, float]:
    where = "memory" if path.stem == str(COMPARED) else "file"
    found = in_fresh_process(FIT, str(path), where)
    print(path.stem, "rows:", found, flush=True)
    return found
