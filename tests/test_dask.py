"""Dask: the bits of a fit in memory, on a real cluster of processes, even when they are killed."""

import os
import pickle
import signal
import subprocess
import sys
import warnings
from contextlib import contextmanager
from itertools import pairwise

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.exceptions import ConvergenceWarning

from fairmix import FairMixture
from fairmix.datasets import write_census_like
from fairmix.tables import BLOCK_ROWS, FileBlocks
from repetition import long

pytest.importorskip("distributed")
import dask
import dask.array as da
import dask.dataframe as dd
from distributed import Client, LocalCluster

import fairmix.tables.dask as on_dask
from fairmix.input.sources import FileSource

N_ROWS = 5 * BLOCK_ROWS + 1234
ARRAYS = ("weights_", "means_", "covariances_", "rates_", "group_sizes_")
# A process that a busy machine starts late, or leaves alone for a while, is not lost.
PATIENT = {
    "distributed.comm.timeouts.connect": "600s",
    "distributed.comm.timeouts.tcp": "600s",
    "distributed.scheduler.worker-ttl": None,
}
FITS = {
    "blind, mixed, standardised": {"standardize": True, "max_gap": 0.05},
    "aware, mixed": {"assignment": "aware"},
    "aware, ratio": {"assignment": "aware", "min_ratio": 0.9},
    "balance": {"min_balance": 0.5},
    "em, numeric": {"solver": "em", "covariance_type": "full", "fairness_strength": 2.0},
    "batches": {"batch_size": 10_000, "standardize": True, "fairness_strength": 0},
    "batches by share": {"batch_size": 0.3, "assignment": "aware"},
}


@contextmanager
def two_processes():
    """Two processes of one thread each, of which none is left at the end."""
    with (
        dask.config.set(PATIENT),
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client
        pids = processes(client)
    assert not any(map(alive, pids))


@pytest.fixture(scope="module")
def client():
    """A cluster for all tests that leave it whole."""
    with two_processes() as client:
        yield client


@pytest.fixture
def own_client():
    """A cluster for one test."""
    with two_processes() as client:
        yield client


@pytest.fixture(autouse=True)
def short_runs(monkeypatch):
    """Several runs in few rows."""
    monkeypatch.setattr(on_dask, "RUN_BLOCKS", 2)


def processes(client):
    """Process of each worker."""
    return list(client.run(os.getpid).values())


def alive(pid):
    """Whether a process runs."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def make_frame(n_rows=N_ROWS, seed=0):
    """Numeric and categorical columns, a sensitive one and a weight."""
    rng = np.random.default_rng(seed)
    cluster = rng.integers(3, size=n_rows)
    often = np.where(rng.random(n_rows) < 0.8, cluster, rng.integers(3, size=n_rows))
    return pd.DataFrame(
        {
            "a": rng.normal(size=n_rows) + 3 * cluster,
            "b": 100 * rng.normal(size=n_rows) - 250 * cluster,
            "colour": pd.Categorical(np.array(["red", "green", "blue"])[often]),
            "sex": np.where(rng.random(n_rows) < 0.3 + 0.2 * cluster, "f", "m"),
            "w": rng.uniform(0.5, 2, size=n_rows),
        }
    )


def collection(frame):
    """Partitions of uneven lengths, one of them empty, each with categories of its own."""
    cuts = [0, 100, 100, 3 * BLOCK_ROWS + 7, 4 * BLOCK_ROWS, len(frame)]
    parts = [frame.iloc[a:b].reset_index(drop=True) for a, b in pairwise(cuts)]
    parts = [part.assign(colour=part["colour"].cat.remove_unused_categories()) for part in parts]
    return dd.from_delayed(
        [dask.delayed(part) for part in parts], meta=frame.iloc[:0], verify_meta=False
    )


def fit(X, groups="sex", weight=None, **settings):
    """A short fit, whose warnings of too few iterations are of no interest."""
    model = FairMixture(3, random_state=0, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, sensitive_features=groups, sample_weight=weight)


def assert_same_bits(one, other):
    for name in ARRAYS:
        assert hasattr(one, name) == hasattr(other, name), name
        assert np.array_equal(getattr(one, name, 0), getattr(other, name, 0)), name
    tables = zip(
        getattr(one, "probabilities_", []), getattr(other, "probabilities_", []), strict=True
    )
    assert all(np.array_equal(mine, theirs) for mine, theirs in tables)
    for name in ("lower_bound_", "gap_", "n_iter_"):
        assert getattr(one, name) == getattr(other, name), name
    assert np.array_equal(one.history_["objective"], other.history_["objective"])


def test_a_collection_needs_a_client():
    with pytest.raises(ValueError, match=r"there is no cluster to work on. Open a client first"):
        FairMixture(2).fit(da.zeros((9, 2)))


def test_dask_is_not_imported_unless_used():
    script = (
        "import sys, numpy as np; from fairmix import FairMixture\n"
        "FairMixture(1, max_iter=9).fit(np.eye(4)).predict(np.eye(4))\n"
        "print(sorted({m.split('.')[0] for m in sys.modules} & {'dask', 'distributed'}))"
    )
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert run.stdout.strip() == "[]", run.stderr


def test_each_keeps_the_order_and_map_composes(client, tmp_path):
    make_frame().to_parquet(tmp_path / "rows.parquet", row_group_size=5000)
    blocks = on_dask.frames_from_files(FileBlocks(tmp_path / "rows.parquet"), client)
    assert blocks.n_blocks == 6
    assert not blocks.local
    assert list(blocks.each(lambda frame: frame.number)) == [0, 1, 2, 3, 4, 5]
    assert list(blocks.each(lambda frame: frame.number, [1, 4, 5])) == [1, 4, 5]
    assert list(blocks.each(lambda frame: frame.number, [])) == []
    kept = blocks.map(lambda frame: frame.number, keep=True)
    lazy = kept.map(lambda number: number + 10, keep=False)
    assert list(lazy.each(str, [0, 3])) == ["10", "13"]
    assert list(lazy.map(str, keep=True).each(len)) == [2] * 6


def test_large_work_is_never_that_of_another_call(client, tmp_path):
    make_frame().to_parquet(tmp_path / "rows.parquet")
    blocks = on_dask.frames_from_files(FileBlocks(tmp_path / "rows.parquet"), client)
    numbers = blocks.map(lambda frame: frame.number, keep=True)
    for start in (0, 1000):
        large = np.arange(start, start + on_dask.INLINE_BYTES)
        found = list(numbers.each(lambda number, large=large: int(large[number])))
        assert found == list(range(start, start + 6))


def test_kept_things_tell_their_size():
    run = on_dask.Run([np.zeros(1000), np.zeros(1000)])
    assert 16_000 <= sys.getsizeof(run) < 17_500
    assert sys.getsizeof(pickle.loads(pickle.dumps(run))) == sys.getsizeof(run)


def test_frames_of_collections_have_the_rows_in_order(client):
    frame = make_frame()
    beside = {"more": da.from_array(np.arange(N_ROWS), chunks=7777)}
    frames = on_dask.frames_from_collection(collection(frame), client, beside, 8000)
    assert frames.schema.names == [*frame.columns, "more"]
    tables = list(frames.select(["more", "sex"]).each(lambda block: block.table))
    edges = [number * N_ROWS // 10 for number in range(11)]
    assert [len(table) for table in tables] == np.diff(edges).tolist()
    assert tables[0].column_names == ["more", "sex"]
    assert np.concatenate([table["more"] for table in tables]).tolist() == list(range(N_ROWS))
    assert [v for table in tables for v in table["sex"].to_pylist()] == frame["sex"].tolist()
    with pytest.raises(ValueError, match="more has 10 rows, X has"):
        on_dask.frames_from_collection(collection(frame), client, {"more": da.zeros(10)})


@pytest.mark.parametrize(
    # ``test_solvers.py`` has one for every solver.
    "name",
    [name if name.startswith("blind") else long(name) for name in FITS],
)
def test_memory_files_and_dask_give_the_same_bits(client, tmp_path, name):
    settings = {"max_iter": 6} | FITS[name]
    columns = ["a", "b", "sex"] if "numeric" in name else ["a", "b", "colour", "sex"]
    frame = make_frame()
    frame[columns].to_parquet(tmp_path / "rows.parquet", row_group_size=5000)
    memory = fit(frame[columns], **settings)
    assert_same_bits(memory, fit(tmp_path / "rows.parquet", **settings))
    assert_same_bits(memory, fit(FileSource(tmp_path / "rows.parquet", client), **settings))
    far = fit(collection(frame)[columns], **settings)
    assert_same_bits(memory, far)
    assert not hasattr(far, "labels_")


def test_arrays_and_groups_and_weights_beside_them(client):
    frame = make_frame()
    X = frame[["a", "b"]].to_numpy(np.float32)
    settings = {"assignment": "aware", "max_iter": 5}
    memory = fit(X, frame["sex"], frame["w"], **settings)
    far = fit(
        da.from_array(X, chunks=(10_000, 1)),
        dd.from_pandas(frame, npartitions=3)["sex"],
        da.from_array(frame["w"].to_numpy(), chunks=9_999),
        **settings,
    )
    assert_same_bits(memory, far)
    assert not hasattr(far, "feature_names_in_")
    assert far.n_features_in_ == 2
    groups = da.from_array(frame["sex"].to_numpy().astype(str), chunks=4321)
    labels = far.predict(da.from_array(X, chunks=(4321, 2)), sensitive_features=groups)
    assert isinstance(labels, da.Array)
    assert labels.compute().tolist() == memory.labels_.tolist()


def test_predict_of_a_collection_is_lazy(client):
    frame = make_frame()
    blind = fit(frame, max_iter=5, fairness_strength=2.0)
    aware = fit(frame, max_iter=5, assignment="aware")
    far = dd.from_pandas(frame, npartitions=3)
    labels = blind.predict(far)
    assert isinstance(labels, da.Array)
    assert labels.compute().tolist() == blind.labels_.tolist()
    labels = aware.predict(far, sensitive_features="sex")
    assert labels.compute().tolist() == aware.labels_.tolist()
    with pytest.raises(ValueError, match=r"this method does not take. Give a table: X.compute"):
        blind.assign(far)


@pytest.mark.parametrize("assignment", ["aware", long("blind")])
def test_equal_rows_share_labels_out_as_in_memory(client, assignment):
    """Runs of rows in which equal ones are looked for cross partitions."""
    frame = make_frame(2 * BLOCK_ROWS + 1234)
    frame = frame[["a", "b", "colour", "sex"]].round({"a": 0, "b": -2})
    cuts = [0, 100, 100, BLOCK_ROWS + 7, len(frame)]
    parts = [frame.iloc[a:b] for a, b in pairwise(cuts)]
    far = dd.from_delayed([dask.delayed(part) for part in parts], meta=frame.iloc[:0])
    settings = {"assignment": assignment, "max_gap": 0.005, "standardize": True, "ties": "split"}
    memory = fit(frame, **settings)
    assert memory.gap_ <= 0.005
    assert_same_bits(memory, fit(far, **settings))
    given = {"sensitive_features": "sex"} if assignment == "aware" else {}
    labels = memory.predict(far, **given)
    assert isinstance(labels, da.Array)
    assert labels.chunks == ((100, BLOCK_ROWS - 93, len(frame) - BLOCK_ROWS - 7),)
    np.testing.assert_array_equal(labels, memory.labels_)
    assert (memory.predict_proba(frame, **given).argmax(axis=1) != memory.labels_).sum() > 10


def test_arrays_and_groups_beside_them_share_labels_out(client):
    frame = make_frame(BLOCK_ROWS + 1234).round({"a": 0, "b": -2})
    X, sex = frame[["a", "b"]].to_numpy(), frame["sex"].to_numpy().astype(str)
    memory = fit(X, sex, assignment="aware", ties="split")
    far = da.from_array(X, chunks=(5000, 1))
    groups = da.from_array(sex, chunks=4321)
    labels = memory.predict(far, sensitive_features=groups)
    np.testing.assert_array_equal(labels, memory.labels_)
    unknown = far[da.from_array(np.ones(len(X), dtype=bool), chunks=5000)]
    blind = fit(X, sex, ties="split")
    np.testing.assert_array_equal(blind.predict(unknown), blind.labels_)
    assert blind.predict(far[:0]).compute().tolist() == []
    whole = dd.from_pandas(frame[["a", "b"]], npartitions=3)
    with pytest.raises(ValueError, match="sensitive_features has 2 partitions, X has 3"):
        memory.predict(whole, sensitive_features=dd.from_pandas(frame["sex"], npartitions=2))


def test_errors_say_what_to_do(client, monkeypatch):
    frame = dd.from_pandas(make_frame(), npartitions=2)
    with pytest.raises(ValueError, match="names 'age', which is not a column of X"):
        FairMixture(2).fit(frame, sensitive_features="age")
    with pytest.raises(ValueError, match="is a Series, but X is not in memory"):
        FairMixture(2).fit(frame, sensitive_features=make_frame()["sex"])
    with pytest.raises(ValueError, match="Array of 3 dimensions"):
        FairMixture(2).fit(da.zeros((4, 4, 4)))
    with pytest.raises(ValueError, match="X has no rows"):
        FairMixture(2).fit(da.zeros((0, 4)))
    broken = make_frame()
    broken.loc[BLOCK_ROWS + 800, "a"] = np.inf
    broken = dd.from_pandas(broken, npartitions=2)
    place = f"In rows {BLOCK_ROWS} to {2 * BLOCK_ROWS - 1}"
    with pytest.raises(ValueError, match=f"{place}: Column 'a' of X has 1 values"):
        FairMixture(2).fit(broken, sensitive_features="sex")
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ImportError, match=r"fairmix\[dask\]"):
        FairMixture(2).fit(frame, sensitive_features="sex")


@pytest.mark.parametrize(("kind", "how_many"), [long("files", 1), long("frame", 2)])
def test_killed_workers_do_not_change_the_bits(own_client, tmp_path, monkeypatch, kind, how_many):
    """SIGKILL while the tasks of a pass are on the workers."""
    client = own_client
    frame = make_frame()[["a", "b", "colour", "sex"]]
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=5000)
    settings = {"standardize": True, "max_iter": 6, "max_gap": 0.05}
    memory = fit(frame, **settings)
    pids = processes(client)
    passes, gather = 0, client.gather

    def gather_and_kill(futures, **how):
        nonlocal passes
        passes += 1
        if passes == 10:
            for pid in pids[:how_many]:
                os.kill(pid, signal.SIGKILL)
        return gather(futures, **how)

    monkeypatch.setattr(client, "gather", gather_and_kill)
    files = FileSource(tmp_path / "rows.parquet", client)
    far = fit(files if kind == "files" else dd.read_parquet(files.paths), **settings)
    assert passes > 20
    assert_same_bits(memory, far)
    assert set(pids) & set(processes(client)) == set(pids[how_many:])


def prefixes(client):
    """Names of the tasks so far, as the dashboard shows them."""
    return set(client.run_on_scheduler(lambda dask_scheduler: [*dask_scheduler.task_prefixes]))


@pytest.mark.filterwarnings("ignore::fairmix.ColumnWarning")  # it has codes and weights
def test_a_census_written_by_polars(client, tmp_path, capfd):
    """Dictionaries without the metadata of pandas: Dask knows no categories."""
    # One file by `write_census_like`, the others by Polars, whose strings are longer ones.
    write_census_like(tmp_path / "0.parquet", 20_000)
    frame = pl.read_parquet(tmp_path / "0.parquet")
    for number in (1, 2):
        frame.slice(5000 * number, 5000).write_parquet(tmp_path / f"{number}.parquet")
    frame = pl.concat([frame, frame.slice(5000, 10_000)])
    X = dd.read_parquet(tmp_path)
    far, near = (fit(rows, "SEX", max_iter=2) for rows in (X, frame))
    assert_same_bits(far, near)
    assert far.groups_.tolist() == near.groups_.tolist() == ["female", "male"]
    assert far.feature_names_in_.tolist() == near.feature_names_in_.tolist()
    assert np.array_equal(far.predict(X).compute(), near.labels_)
    # So few rows are climbed at the client, in single precision; looks at labels are not.
    steps = ("read", "measure", "cut", "look", "encoder", "rates")
    assert {f"fairmix {step}" for step in steps} <= prefixes(client)
    assert "poorly aligned" not in capfd.readouterr().err


def test_types_are_those_of_the_partitions(client):
    """Some hold whole numbers, gaps only or no category; none of that is in Dask's description."""
    frame = make_frame(6000).astype({"sex": "category"})
    frame["a"] = frame["a"].round()
    frame.loc[:1999, "colour"] = None
    frame.loc[2000, "a"] = np.nan
    parts = [frame[i : i + 2000].reset_index(drop=True) for i in range(0, 6000, 2000)]
    parts = [p.assign(colour=p["colour"].cat.remove_unused_categories()) for p in parts]
    parts[0]["a"] = parts[0]["a"].astype(np.int64)
    X = dd.from_delayed([dask.delayed(p) for p in parts], meta=parts[2], verify_meta=False)
    assert_same_bits(fit(X, max_iter=3), fit(frame, max_iter=3))
    parts[1]["a"] = "many"
    X = dd.from_delayed([dask.delayed(p) for p in parts], meta=parts[2], verify_meta=False)
    with pytest.raises(ValueError, match=r"Column 'a' of X has double and .* Give it one type"):
        fit(X)


@pytest.mark.long
def test_messages_are_aligned(capfd):
    numbers = np.frombuffer(b"x" + np.arange(9.0).tobytes(), np.uint8)
    buffer = pa.py_buffer(numbers)[1:]
    assert buffer.address % 8
    odd = pa.Array.from_buffers(pa.float64(), 9, [None, buffer])
    names = pa.array(["a", "b", None] * 3).dictionary_encode()
    table = pa.table({"n": odd, "g": names})
    made = on_dask._aligned(table)
    assert made.equals(table)
    assert all(b.address % 8 == 0 for b in made["n"].chunk(0).buffers() if b is not None)
    made.group_by("n", use_threads=False).aggregate([([], "count_all")])
    assert "poorly aligned" not in capfd.readouterr().err
    table.group_by("n", use_threads=False).aggregate([([], "count_all")])
    assert "poorly aligned" in capfd.readouterr().err
    assert on_dask._aligned(made) is made
