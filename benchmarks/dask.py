"""A fit on two Dask workers of one thread against the same fit in memory with ``n_jobs=2``.

``FAIRMIX_DASK_ROWS`` census-like rows, 10 million if not set. Both fits must give the same bits.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from distributed import Client, LocalCluster

from benchmarks.harness import Ratio, medians, quietly
from fairmix import FairMixture
from fairmix.datasets import make_census_like, write_census_like
from fairmix.input.sources import FileSource

# A cluster reads the file, which the fit in memory need not, and sends totals between processes.
BOUND = 1.3
ROWS = int(os.environ.get("FAIRMIX_DASK_ROWS", 10_000_000))
# Twenty iterations are enough to weigh a pass, and both fits make the same ones.
SETTINGS: dict[str, Any] = {
    "standardize": True,
    "assignment": "aware",
    "max_iter": 20,
    "random_state": 0,
}


def run(repeats: int) -> list[Ratio]:
    """The ratio; the start of the workers is not part of it, the reading of the file is."""
    census = make_census_like(ROWS)
    found: dict[str, FairMixture] = {}

    def fit(name: str, X: Any, groups: Any, **settings: Any) -> None:
        model = FairMixture(10, **SETTINGS, **settings)
        with quietly():
            found[name] = model.fit(X, sensitive_features=groups)

    with (
        tempfile.TemporaryDirectory() as folder,
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        path = Path(folder) / "census.parquet"
        write_census_like(path, ROWS)
        far = FileSource(path, client)
        # Workers import the package when they first need it.
        client.run(__import__, "fairmix.estimator")
        seconds = medians(
            {
                "memory": lambda: fit("memory", census.X, census.sex, n_jobs=2),
                "dask": lambda: fit("dask", far, "SEX"),
            },
            repeats,
        )
    if not np.array_equal(found["memory"].means_, found["dask"].means_):
        raise RuntimeError("The fits in memory and on Dask differ in their bits.")
    return [Ratio(f"dask {ROWS:,} rows", seconds["dask"], "memory", seconds["memory"], BOUND)]
