"""The bits of fits: record those of many fits in a file, or compare with such a file.

A change that only moves code must not change a bit: ``python -m benchmarks.bits record FILE``
before it and ``python -m benchmarks.bits compare FILE`` after it, on one machine. Only the public
side is used, so that both versions can be run. Every family, solver and back end is there.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq

from fairmix import FairMixture
from fairmix.datasets import make_grouped_blobs

ATTRIBUTES = (
    "weights_",
    "means_",
    "covariances_",
    "probabilities_",
    "labels_",
    "rates_",
    "gap_",
    "label_gap_",
    "soft_gap_",
    "balance_",
    "resolution_",
    "lower_bound_",
    "fairness_strength_",
    "n_iter_",
    "n_passes_",
    "verdict_",
)

N_ROWS = 1_500  # small enough that all fits take less than a minute
COVARIANCES = ("tied-spherical", "spherical", "tied-diag", "diag", "tied", "full")


class People:
    """Small tables of several kinds, with groups of unequal means."""

    def __init__(self, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        blobs = make_grouped_blobs(N_ROWS, 4, 3, separation=2.0, random_state=seed)
        self.X, groups = np.asarray(blobs[0], dtype=np.float64), np.asarray(blobs[1])
        self.two = np.array(["a", "b"])[groups % 2]
        self.four = np.array(list("pqrs"))[(groups % 2) + 2 * (rng.random(N_ROWS) < 0.3)]
        self.rare = self.two.copy()
        self.rare[rng.choice(N_ROWS, 5, replace=False)] = "z"
        town = np.array(["rome", "oslo", "lima"])[
            np.clip(np.rint(self.X[:, 0] - self.X[:, 0].mean()), -1, 1).astype(int) + 1
        ]
        flag = np.where(self.X[:, 1] + rng.normal(size=N_ROWS) > 0, "yes", "no")
        self.categories = pa.table({"town": town, "flag": flag, "third": np.roll(town, 1)})
        numbers = {f"n{j}": self.X[:, j] for j in range(self.X.shape[1])}
        self.mixed = pa.table({**numbers, "town": town, "flag": flag})
        self.weight = rng.integers(1, 4, N_ROWS).astype(np.float64)
        self.weight[:10] = 0.0
        self.gaps = self.X.copy()
        self.gaps[rng.random(self.X.shape) < 0.05] = np.nan
        self.repeated = np.round(self.X)

    @property
    def frame(self) -> pa.Table:
        """Mixed columns, groups and positive weights, as a file has them."""
        return self.mixed.append_column("sex", pa.array(self.two)).append_column(
            "w", pa.array(self.weight + 1.0)
        )


def fits(people: People, folder: Path, client: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Names of fits, and what makes them."""

    def fit(X: Any, groups: Any = None, weight: Any = None, **settings: Any) -> Callable[[], Any]:
        def run() -> Any:
            model = FairMixture(4, random_state=0, **settings)
            return model.fit(X, sensitive_features=groups, sample_weight=weight)

        return run

    two, four = people.two, people.four
    for kind in COVARIANCES:
        yield f"{kind} blind", fit(people.X, two, covariance_type=kind)
    yield "aware", fit(people.X, two, assignment="aware")
    yield "float32 aware", fit(people.X.astype(np.float32), two, assignment="aware")
    yield "four groups blind", fit(people.X, four, max_gap=0.03)
    yield "four groups aware", fit(people.X, four, assignment="aware")
    yield "rare group aware", fit(people.X, people.rare, assignment="aware")
    yield "categories blind", fit(people.categories, two, max_gap=0.05)
    yield "categories split", fit(people.categories, two, assignment="aware", ties="split")
    yield "repeated split", fit(people.repeated, two, ties="split")
    yield "mixed aware", fit(people.mixed, two, assignment="aware", standardize=True)
    yield "mixed blind", fit(people.mixed, two, standardize=True)
    yield "weights", fit(people.X, two, people.weight, assignment="aware")
    yield "missing values", fit(people.gaps, two, covariance_type="diag")
    yield "plain", fit(people.X, None, covariance_type="full")
    yield "plain categories", fit(people.categories)
    yield "strength dual", fit(people.X, two, fairness_strength=2.0)
    yield "probabilities", fit(people.X, two, gap_of="probabilities", assignment="aware")
    yield "additive", fit(people.X, four, criterion="additive_gap", max_gap=0.1)
    yield "worst pair", fit(people.X, four, criterion="worst_pair_gap", assignment="aware")
    yield "em strength", fit(people.X, two, solver="em", fairness_strength=3.0)
    yield "em bound", fit(people.X, two, solver="em", max_gap=0.05, gap_of="probabilities")
    yield "gd strength", fit(people.X, two, solver="gd", fairness_strength=3.0, max_iter=300)
    yield "gd mixed", fit(people.mixed, two, solver="gd", fairness_strength=1.0, max_iter=200)
    yield "batches dual", fit(people.X, two, batch_size=500, max_gap=0.02)
    yield "batches em", fit(people.X, two, solver="em", fairness_strength=2.0, batch_size=0.5)
    yield "subsample", fit(people.X, two, subsample=0.5, assignment="aware")
    yield "three starts", fit(people.X, two, n_init=3, n_jobs=2)
    parquet, text = folder / "people.parquet", folder / "people.csv"
    pq.write_table(people.frame, parquet, row_group_size=400)
    pcsv.write_csv(people.frame, text)
    yield "parquet aware", fit(str(parquet), "sex", "w", assignment="aware", standardize=True)
    yield "csv blind", fit(str(text), "sex", "w", standardize=True)
    yield "parquet batches", fit(str(parquet), "sex", "w", batch_size=300, max_gap=0.05)
    if client is not None:
        import dask.dataframe as dd

        frame = dd.from_pandas(people.frame.to_pandas(), npartitions=3)
        frame = frame.astype({"town": "category", "flag": "category"}).categorize()
        yield "dask frame aware", fit(frame, "sex", "w", assignment="aware", standardize=True)
        import dask.array as da

        array = da.from_array(people.X, chunks=(400, -1))
        groups = da.from_array(two, chunks=400)
        yield "dask array blind", fit(array, groups)

    def stream() -> Any:
        model = FairMixture(4, random_state=0, assignment="aware", standardize=True)
        for rows in np.array_split(np.arange(N_ROWS), 4):
            model.partial_fit(people.X[rows], sensitive_features=two[rows])
        return model

    def blind_stream() -> Any:
        model = FairMixture(3, random_state=1, max_gap=0.03)
        for rows in np.array_split(np.arange(N_ROWS), 3):
            model.partial_fit(people.X[rows], sensitive_features=people.rare[rows])
        return model

    yield "stream aware", stream
    yield "stream blind, rare group", blind_stream

    def warm() -> Any:
        model = FairMixture(4, random_state=0, warm_start=True, max_gap=0.0)
        model.fit(people.X, sensitive_features=two)
        return model.set_params(max_gap=0.05).fit(people.X, sensitive_features=two)

    yield "warm start", warm


def digest(model: Any) -> str:
    """A hash of all that was fitted."""
    check = hashlib.sha256()

    def add(value: Any) -> None:
        if isinstance(value, list | tuple):
            for part in value:
                add(part)
        elif value is not None:
            array = np.asarray(value)
            check.update(f"{array.dtype.kind}{array.shape}".encode())
            check.update(
                array.tobytes() if array.dtype.kind != "U" else repr(array.tolist()).encode()
            )

    for name in ATTRIBUTES:
        check.update(name.encode())
        add(getattr(model, name, None))
    history = model.history_
    for name in history.dtype.names:
        if name != "seconds":
            add(history[name])
    return check.hexdigest()


def main() -> None:
    """Record or compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["record", "compare"])
    parser.add_argument("file", type=Path)
    parser.add_argument("--no-dask", action="store_true", help="leave a cluster out")
    arguments = parser.parse_args()
    known = json.loads(arguments.file.read_text()) if arguments.what == "compare" else {}
    found: dict[str, str] = {}
    different = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        client = None
        if not arguments.no_dask:
            from distributed import Client

            client = stack.enter_context(
                Client(n_workers=2, threads_per_worker=1, dashboard_address=":0")
            )
        people = People()
        for name, make in fits(people, folder, client):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found[name] = digest(make())
            same = known.get(name, found[name]) == found[name]
            different += [] if same else [name]
            print(f"{name:30} {found[name][:16]} {'' if same else 'DIFFERENT'}", flush=True)
    if arguments.what == "record":
        arguments.file.write_text(json.dumps(found, indent=1) + "\n")
    elif different or known.keys() - found.keys() - set(different):
        missing = sorted(known.keys() - found.keys())
        raise SystemExit(
            f"{len(different)} of {len(found)} differ: {different}; not run: {missing}"
        )
    print(f"{len(found)} fits")


if __name__ == "__main__":
    main()
