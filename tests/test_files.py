"""Files: the bits of a fit in memory, from Parquet and CSV, in constant memory."""

import gzip
import pickle
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fairmix import FairMixture
from fairmix.estimator.validation import EstimatorCheck
from fairmix.input.opening import Reading, open_data
from fairmix.system.progress import progress
from fairmix.tables import BLOCK_ROWS, FileBlocks
from repetition import long

N_ROWS = 2 * BLOCK_ROWS + 1234
# Bits tell after a few iterations.
pytestmark = pytest.mark.filterwarnings("ignore:`max_iter` was reached")


def make_frame(n_rows=N_ROWS, seed=0):
    """Two numeric and two categorical columns, two sensitive ones and a weight."""
    rng = np.random.default_rng(seed)
    cluster = rng.integers(3, size=n_rows)
    often = np.where(rng.random(n_rows) < 0.8, cluster, rng.integers(3, size=n_rows))
    return pd.DataFrame(
        {
            "a": rng.normal(size=n_rows) + 3 * cluster,
            "b": 100 * rng.normal(size=n_rows) - 250 * cluster,
            "colour": np.array(["red", "green", "blue"])[often],
            "open": rng.random(n_rows) < 0.2 + 0.3 * cluster,
            "sex": np.where(rng.random(n_rows) < 0.3 + 0.2 * cluster, "f", "m"),
            "age": rng.integers(9, 11, size=n_rows),
            "w": rng.uniform(0.5, 2, size=n_rows),
        }
    )


def write_parts(table, folder, sizes=(1000, 5000)):
    """Two Parquet files of unequal lengths and small row groups."""
    cut = len(table) // 3
    pq.write_table(table.slice(0, cut), folder / "part-0.parquet", row_group_size=sizes[0])
    pq.write_table(table.slice(cut), folder / "part-1.parquet", row_group_size=sizes[1])
    return str(folder / "*.parquet")


def write_csv(frame, folder):
    path = folder / "rows.csv"
    frame.to_csv(path, index=False)
    return str(path)


@pytest.fixture(scope="module")
def frame():
    return make_frame()


@pytest.fixture(scope="module")
def parts(frame, tmp_path_factory):
    table = pa.Table.from_pandas(frame, preserve_index=False)
    return write_parts(table, tmp_path_factory.mktemp("parts"))


@pytest.fixture(scope="module")
def csv(frame, tmp_path_factory):
    return write_csv(frame, tmp_path_factory.mktemp("csv"))


def assert_same_model(a, b):
    np.testing.assert_array_equal(a.fitted_.model.theta, b.fitted_.model.theta)
    assert (a.fitted_.model.offsets is None) == (b.fitted_.model.offsets is None)
    if a.fitted_.model.offsets is not None:
        np.testing.assert_array_equal(a.fitted_.model.offsets, b.fitted_.model.offsets)
    np.testing.assert_array_equal(a.rates_, b.rates_)
    np.testing.assert_array_equal(a.history_["objective"], b.history_["objective"])
    assert a.gap_ == b.gap_
    assert a.balance_ == b.balance_
    assert a.groups_.tolist() == b.groups_.tolist()
    assert a.group_sizes_.tolist() == b.group_sizes_.tolist()
    assert [c.tolist() for c in a.categories_] == [c.tolist() for c in b.categories_]
    assert a.feature_names_in_.tolist() == b.feature_names_in_.tolist()
    assert a.n_features_in_ == b.n_features_in_


def read_labels(path):
    table = pq.read_table(path)
    assert table.schema == pa.schema([pa.field("cluster", pa.int32(), nullable=False)])
    return table["cluster"].to_numpy()


# These lose a cluster on the way when they are stopped early.
UNHURRIED = {"max_iter": 200, "tol": 1e-4}
# What is fitted: settings, features, weights.
FITS = {
    "mixed-blind": ({"standardize": True}, ["a", "b", "colour", "open"], False),
    "mixed-aware": ({"assignment": "aware"}, ["a", "b", "colour", "open"], True),
    "numeric-blind": ({"covariance_type": "diag", **UNHURRIED}, ["a", "b"], True),
    "numeric-aware": ({"standardize": True, "assignment": "aware"}, ["a", "b"], False),
    "categorical": ({"gap_of": "probabilities", **UNHURRIED}, ["colour", "open"], False),
    "subsample": ({"subsample": 4000, "standardize": True}, ["a", "b", "colour"], True),
}


@pytest.mark.parametrize(
    ("fit", "kind"),
    [
        *[(fit, "parquet") for fit in FITS],
        # Once read, rows of text are those of Parquet.
        ("mixed-aware", "csv"),
        *[long(fit, "csv") for fit in FITS if fit != "mixed-aware"],
    ],
)
def test_files_give_the_bits_of_memory(fit, kind, frame, tmp_path):
    settings, features, weighted = FITS[fit]
    frame = frame[[*features, "sex", *(["w"] if weighted else [])]]
    if kind == "csv":
        path = write_csv(frame, tmp_path)
    else:
        path = write_parts(pa.Table.from_pandas(frame, preserve_index=False), tmp_path)

    def model(n_jobs):
        limits = {"max_gap": 0.05, "max_iter": 8, "tol": 0.02}
        return FairMixture(3, random_state=0, n_jobs=n_jobs, **{**limits, **settings})

    inside = frame[[*features, "sex"]]
    memory = model(1).fit(
        inside, sensitive_features="sex", sample_weight=frame["w"] if weighted else None
    )
    files = model(2).fit(path, sensitive_features="sex", sample_weight="w" if weighted else None)
    assert_same_model(files, memory)
    assert not hasattr(files, "labels_")
    aware = {"sensitive_features": "sex"} if settings.get("assignment") == "aware" else {}
    output = files.predict(path, output=tmp_path / "labels.out", **aware)
    assert output == tmp_path / "labels.out"
    np.testing.assert_array_equal(read_labels(output), memory.labels_)
    np.testing.assert_array_equal(files.predict(inside, **aware), memory.labels_)


@pytest.mark.parametrize(
    "settings", [long({"solver": "em"}), {"batch_size": 3000}, long({"batch_size": 0.1})]
)
def test_draws_from_files_are_those_from_memory(settings, frame, tmp_path):
    model = {"fairness_strength": 1, "max_iter": 3, "tol": 0.5, "random_state": 0, **settings}
    frame = frame[["a", "b", "colour", "sex"]]
    path = write_parts(pa.Table.from_pandas(frame, preserve_index=False), tmp_path, (700, 9000))
    memory = FairMixture(3, **model).fit(frame, sensitive_features="sex")
    assert_same_model(FairMixture(3, **model).fit(path, sensitive_features="sex"), memory)


def test_several_sensitive_columns_form_intersections(frame, parts):
    model = FairMixture(3, max_gap=0.1, max_iter=3, tol=0.5, random_state=0, subsample=3000)
    inside = frame[["a", "b", "colour", "open"]]
    memory = FairMixture(**model.get_params()).fit(
        inside, sensitive_features=frame[["sex", "age"]], sample_weight=frame["w"]
    )
    assert memory.groups_.tolist() == ["f & 9", "f & 10", "m & 9", "m & 10"]
    model.fit(parts, sensitive_features=["sex", "age"], sample_weight="w")
    assert_same_model(model, memory)


def opened(X, groups, weight=None):
    """Data as a fit has it."""
    reading = Reading("from_dtype", complete=False, missing_groups="error", min_group_size=30)
    check = EstimatorCheck(FairMixture(), "from_dtype", reset=True)
    return open_data(X, groups, weight, reading, check)


def test_files_have_the_checksum_of_a_table(frame, parts):
    """So a checkpoint of one goes on with the other."""
    inside = frame.drop(columns="w")
    digests = set()
    for X, weight in (
        (inside, frame["w"]),
        (parts, "w"),
        (pa.Table.from_pandas(inside), frame["w"]),
    ):
        with opened(X, "sex", weight) as data:
            digests.add(data.store(data.columns).summary.digest)
    assert len(digests) == 1


def test_single_precision_stays_when_all_numbers_have_it(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(500, 2)).astype(np.float32), columns=["a", "b"])
    frame["n"] = rng.integers(5, size=500).astype(np.int16)
    frame["g"] = rng.choice(["x", "y"], 500)
    settings = {"max_gap": 0.2, "max_iter": 3, "tol": 1, "random_state": 0}
    for columns, dtype in ((["a", "b"], np.float32), (["a", "b", "n"], np.float64)):
        path = tmp_path / "some.parquet"
        pq.write_table(pa.Table.from_pandas(frame[[*columns, "g"]], preserve_index=False), path)
        files = FairMixture(2, **settings).fit(path, sensitive_features="g")
        memory = FairMixture(2, **settings).fit(frame[[*columns, "g"]], sensitive_features="g")
        assert_same_model(files, memory)
        with opened(path, "g") as data:
            chunk = next(data.store(data.columns).blocks.each(lambda chunk: chunk))
        assert chunk.rows.numeric.dtype == dtype


# Blocks


def numbered(n_rows):
    return pa.table({"i": np.arange(n_rows), "s": [f"row {i}" for i in range(n_rows)]})


@pytest.fixture(scope="module")
def row_numbers(tmp_path_factory):
    """Files whose column i counts the rows, in every format."""
    folder = tmp_path_factory.mktemp("numbers")
    table = numbered(1050)
    parquet = write_parts(table, folder, sizes=(7, 120))
    table.to_pandas().to_csv(folder / "rows.csv", index=False)
    table.to_pandas().to_csv(folder / "rows.tsv", index=False, sep="\t")
    with gzip.open(folder / "rows.csv.gz", "wb") as file:
        file.write((folder / "rows.csv").read_bytes())
    return {
        "parquet": parquet,
        "folder": folder,
        "list": [folder / "part-0.parquet", str(folder / "part-1.parquet")],
        "csv": str(folder / "rows.csv"),
        "tsv": folder / "rows.tsv",
        "gz": folder / "rows.csv.gz",
    }


def row_list(frame):
    return frame.number, frame.table["i"].to_pylist()


@pytest.mark.parametrize("kind", ["parquet", "list", "csv", "tsv", "gz"])
@pytest.mark.parametrize("numbers", [None, [0], [3, 4, 9], [10], [0, 2, 10], range(2, 8)])
def test_blocks_are_runs_of_rows(kind, numbers, row_numbers):
    blocks = FileBlocks(row_numbers[kind], block_rows=100, n_jobs=2)
    assert (blocks.n_rows, blocks.n_blocks, blocks.local) == (1050, 11, False)
    wanted = range(11) if numbers is None else numbers
    expected = [(k, list(range(100 * k, min(100 * k + 100, 1050)))) for k in wanted]
    assert list(blocks.each(row_list, numbers)) == expected
    again = pickle.loads(pickle.dumps(blocks))
    assert list(map(row_list, again.frames(wanted))) == expected


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_a_run_of_blocks_as_one_table(kind, row_numbers):
    blocks = FileBlocks(row_numbers[kind], block_rows=100).select(["i"])
    table = blocks.read(3, 6)
    assert table.column_names == ["i"]
    assert table["i"].to_pylist() == list(range(300, 600))
    assert len(blocks.read(10, 99)) == 50


def test_functions_are_chained(row_numbers):
    blocks = FileBlocks(row_numbers["parquet"], block_rows=100, n_jobs=2)
    sums = blocks.map(lambda frame: frame.table["i"].to_numpy(), keep=True).map(np.sum, keep=True)
    assert (sums.n_blocks, sums.n_jobs, sums.local) == (11, 2, False)
    assert sum(sums.each(int)) == 1050 * 1049 // 2
    assert list(sums.each(int, [0, 10])) == [4950, sum(range(1000, 1050))]


@pytest.mark.parametrize("keep", [0, 4, 99])
def test_the_first_blocks_are_kept(keep, row_numbers):
    made = []

    def summed(frame):
        made.append(frame.number)
        return frame.table["i"].to_numpy().sum()

    sums = FileBlocks(row_numbers["parquet"], block_rows=100, n_jobs=2).map(summed, keep=keep)
    expected = [sum(range(100 * k, min(100 * k + 100, 1050))) for k in range(11)]
    for wanted in ([1, 3, 9], None, [0, 4, 10], None):
        numbers = range(11) if wanted is None else wanted
        assert list(sums.each(int, wanted)) == [expected[k] for k in numbers]
    again = 2 * [*range(min(keep, 11), 11)] + [k for k in (1, 3, 9, 0, 4, 10) if k >= keep]
    assert sorted(made) == sorted([*range(min(keep, 11)), *again])


def test_a_file_whose_rows_are_all_kept_must_stay_as_it_is(tmp_path):
    path = tmp_path / "rows.parquet"
    pq.write_table(numbered(300), path)
    sums = FileBlocks(path, block_rows=100).map(lambda frame: len(frame.table), keep=3)
    assert list(sums.each(int)) == [100, 100, 100]
    pq.write_table(numbered(400), path)
    with pytest.raises(ValueError, match="was changed or replaced"):
        list(sums.each(int))


def test_other_row_groups_are_not_read(tmp_path):
    path = tmp_path / "rows.parquet"
    pq.write_table(numbered(3000), path, row_group_size=500, compression="zstd")
    column = pq.ParquetFile(path).metadata.row_group(3).column(0)
    start = column.dictionary_page_offset or column.data_page_offset
    content = bytearray(path.read_bytes())
    content[start : start + column.total_compressed_size] = bytes(column.total_compressed_size)
    path.write_bytes(content)
    blocks = FileBlocks(path, block_rows=100)
    fine = [0, 14, 20, 29]
    assert [number for number, _ in blocks.each(row_list, fine)] == fine
    with pytest.raises(ValueError, match=r"rows\.parquet' cannot be read"):
        list(blocks.each(row_list))


def test_errors_of_work_come_through_and_readers_may_leave(row_numbers):
    blocks = FileBlocks(row_numbers["parquet"], block_rows=10, n_jobs=2)
    results = blocks.each(row_list)
    assert next(results)[0] == 0
    results.close()

    def work(frame):
        if frame.number == 50:
            raise RuntimeError("block 50")
        return frame.number

    with pytest.raises(RuntimeError, match="block 50"):
        list(blocks.each(work))


# Types


def test_a_float_after_300_000_integers_stays_a_number(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("a,b,zip\n" + "1,2,007\n" * 300_000 + "1.5,,x1\n", encoding="utf-8")
    blocks = FileBlocks(path)
    assert blocks.n_rows == 300_001
    assert [str(field.type) for field in blocks.schema] == ["double", "double", "string"]
    last = blocks.read(blocks.n_blocks - 1, blocks.n_blocks).to_pydict()
    assert (last["a"][-1], last["b"][-1]) == (1.5, None)
    assert last["zip"][-2:] == ["007", "x1"]


def test_text_in_one_file_makes_the_column_text_in_all(tmp_path):
    (tmp_path / "1.csv").write_text("a,g\n 1.50,1\n2,2\n", encoding="utf-8")
    (tmp_path / "2.csv").write_text('a,g\n"x, y\nz",1\n', encoding="utf-8")
    (tmp_path / "3.csv").write_text("a,g\n", encoding="utf-8")
    table = FileBlocks(tmp_path, text=["g"]).read(0, 1)
    assert table.to_pydict() == {"a": ["1.50", "2", "x, y\nz"], "g": ["1", "2", "1"]}


def test_categories_and_strings_go_together(tmp_path):
    strings = pa.table({"s": ["b", "a"]})
    pq.write_table(strings, tmp_path / "1.parquet")
    pq.write_table(pa.table({"s": strings["s"].dictionary_encode()}), tmp_path / "2.parquet")
    table = FileBlocks(tmp_path).read(0, 1)
    assert table.to_pydict() == {"s": ["b", "a", "b", "a"]}


def test_named_categories_of_csv_keep_their_text(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=300), "zip": rng.choice(["01", "1"], 300)})
    frame["g"] = rng.choice(["x", "y"], 300)
    path = write_csv(frame, tmp_path)
    model = FairMixture(
        2, categorical_features=["zip"], max_gap=0.2, max_iter=3, tol=1, random_state=0
    )
    model.fit(path, sensitive_features="g")
    assert [c.tolist() for c in model.categories_] == [["01", "1"]]
    (tmp_path / "new.csv").write_text("a,zip\n0.5,01\n-1,01\n", encoding="utf-8")
    labels = read_labels(model.predict(tmp_path / "new.csv", output=tmp_path / "labels"))
    new = pd.DataFrame({"a": [0.5, -1.0], "zip": ["01", "01"]})
    np.testing.assert_array_equal(labels, model.predict(new))


# Refusals


def refused_files(folder):
    table = pa.table({"a": [1.0, 2.0], "g": ["x", "y"]})
    pq.write_table(table, folder / "good.parquet")
    whole = (folder / "good.parquet").read_bytes()
    (folder / "cut.parquet").write_bytes(whole[:-20])
    (folder / "void.parquet").write_bytes(b"")
    pq.write_table(table.slice(0, 0), folder / "none.parquet")
    pq.write_table(pa.table([table["a"], table["g"]], names=["a", "a"]), folder / "twice.parquet")
    (folder / "void.csv").write_text("", encoding="utf-8")
    (folder / "none.csv").write_text("a,g\n", encoding="utf-8")
    (folder / "ragged.csv").write_text("a,g\n1,x\n2\n3,y\n", encoding="utf-8")
    (folder / "twice.csv").write_text("a,a\n1,x\n", encoding="utf-8")
    (folder / "broken.csv.gz").write_bytes(gzip.compress(b"a,g\n1,x\n" * 999)[:-30])
    (folder / "rows.json").write_text("{}", encoding="utf-8")


REFUSALS = {
    "cut.parquet": "cannot be read",
    "void.parquet": "cannot be read",
    "none.parquet": "has no rows",
    "twice.parquet": "more than one column 'a'",
    "void.csv": "cannot be read",
    "none.csv": "has no rows",
    "ragged.csv": "cannot be read",
    "twice.csv": "more than one column 'a'",
    "broken.csv.gz": "cannot be read",
    "rows.json": "Give files that end in .parquet",
}


@pytest.mark.parametrize("name", list(REFUSALS))
def test_refused_files_are_named(name, tmp_path):
    refused_files(tmp_path)
    with pytest.raises(ValueError, match=f"{re.escape(name)}'.*{re.escape(REFUSALS[name])}"):
        FairMixture(2).fit(tmp_path / name, sensitive_features="g")


def test_no_file_and_mixed_files(tmp_path):
    refused_files(tmp_path)
    for missing in ("nothing/*.parquet", "absent.csv"):
        with pytest.raises(FileNotFoundError, match="matches no file"):
            FairMixture(2).fit(str(tmp_path / missing))
    good = tmp_path / "good.parquet"
    with pytest.raises(ValueError, match=r"none\.csv' cannot be read with the others"):
        FileBlocks([good, tmp_path / "none.csv"])
    with pytest.raises(ValueError, match=r"good\.parquet' more than once"):
        FileBlocks([good, str(good)])


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"a": [1.0]}, "has other columns than .*'g'"),
        ({"g": ["x"], "a": [1.0]}, "has other columns than .*another order"),
        ({"a": [1], "g": ["x"]}, "'a' as int64, .* as double"),
    ],
)
def test_files_of_other_schemas_are_refused(other, message, tmp_path):
    pq.write_table(pa.table({"a": [1.0], "g": ["x"]}), tmp_path / "1.parquet")
    pq.write_table(pa.table(other), tmp_path / "2.parquet")
    with pytest.raises(ValueError, match=f"(?s)2.parquet' has .*{message[4:]}"):
        FileBlocks(tmp_path)


def test_a_file_that_changes_is_refused(tmp_path):
    for name in ("rows.parquet", "rows.csv"):
        path = tmp_path / name
        blocks = []
        for n_rows in (50, 60):
            if path.suffix == ".csv":
                numbered(n_rows).to_pandas().to_csv(path, index=False)
            else:
                pq.write_table(numbered(n_rows), path)
            blocks.append(FileBlocks(path))
        with pytest.raises(ValueError, match="was changed or replaced while it was read"):
            list(blocks[0].each(row_list))


BAD_VALUES = {
    "missing group": ({"g": [None, "x"] * 5}, "sensitive_features has 5 missing labels in 10 rows"),
    "no category": ({"c": pd.Series([None] * 10, dtype="string")}, "Column 'c' of X has no value"),
    "no number": ({"a": [np.nan] * 10}, "Column 'a' of X has no value"),
    "infinity": ({"a": [1.0] * 9 + [np.inf]}, "In rows 0 to 9: Column 'a' of X has 1 values"),
    "date": ({"a": pd.date_range("2020-01-01", periods=10)}, "Column 'a' of X has type datetime"),
    "negative weight": ({"w": [1.0] * 9 + [-1.0]}, "sample_weight='w' has 1 values that are neg"),
    "zero weight": ({"w": [1.0] * 7 + [0.0] * 3}, "sample_weight='w' has 3 weights of 0"),
    "text weight": ({"w": ["1"] * 10}, "sample_weight='w' has type .*string, not numbers"),
    "one group": ({"g": ["x"] * 10}, "holds one group only, 'x'"),
}


@pytest.mark.parametrize("case", list(BAD_VALUES))
@pytest.mark.filterwarnings("ignore:Not judged")
def test_bad_values_are_refused(case, tmp_path):
    changed, message = BAD_VALUES[case]
    good = {"a": np.arange(10.0), "c": ["x", "y"] * 5, "g": ["x", "y"] * 5, "w": [1.0] * 10}
    frame = pd.DataFrame({**good, **changed})
    pq.write_table(pa.Table.from_pandas(frame), tmp_path / "rows.parquet")
    with pytest.raises(ValueError, match=message):
        FairMixture(2).fit(tmp_path / "rows.parquet", sensitive_features="g", sample_weight="w")


def test_arguments_that_do_not_fit_files_are_refused(frame, parts, tmp_path):
    model = FairMixture(2, max_gap=0.2, max_iter=3, tol=1, random_state=0, subsample=2000)
    for given, message in (
        (
            {"sensitive_features": frame["sex"]},
            "sensitive_features is a Series, but X is not in memory",
        ),
        ({"sensitive_features": "gender"}, "names 'gender', which is not a column of X"),
        ({"sample_weight": ["w", "a"]}, "names several columns"),
        ({"sensitive_features": list(frame.columns)}, "none of which is left as a feature"),
    ):
        with pytest.raises(ValueError, match=message):
            model.fit(parts, **given)
    model.fit(parts, sensitive_features=["sex", "age"], sample_weight="w")
    with pytest.raises(ValueError, match="Give output, a Parquet file"):
        model.predict(parts)
    with pytest.raises(ValueError, match="output='labels' is for files"):
        model.predict(frame, output="labels")
    first = parts.replace("*", "part-0")
    with pytest.raises(ValueError, match="is one of the files of X"):
        model.predict(parts, output=first)
    with pytest.raises(ValueError, match="its probabilities need not fit there"):
        model.predict_proba(parts)
    other = tmp_path / "other.parquet"
    pq.write_table(pa.table({"a": [1.0]}), other)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(other, output=tmp_path / "labels")


def test_nothing_is_left_of_labels_after_an_error(frame, tmp_path):
    folder = tmp_path / "rows"
    folder.mkdir()
    frame = frame[["a", "b"]]
    path = write_parts(pa.Table.from_pandas(frame, preserve_index=False), folder)
    model = FairMixture(2, max_iter=3, tol=1, random_state=0, subsample=2000).fit(path)
    late = frame.copy()
    late.loc[N_ROWS - 1, "b"] = np.inf
    bad = tmp_path / "bad.parquet"
    pq.write_table(pa.Table.from_pandas(late, preserve_index=False), bad)
    output = tmp_path / "labels"
    output.write_text("old", encoding="utf-8")
    before = sorted(tmp_path.iterdir())
    with pytest.raises(
        ValueError, match=f"In rows {2 * BLOCK_ROWS} to {N_ROWS - 1}: Column 'b' of X has 1"
    ):
        model.predict(bad, output=output)
    assert sorted(tmp_path.iterdir()) == before
    assert output.read_text(encoding="utf-8") == "old"


# What users see while they wait, and what it takes


def test_progress_tells_rows_per_second(parts, capsys, monkeypatch):
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    FairMixture(2, verbose=1, max_gap=0.2, max_iter=3, tol=1, random_state=0, subsample=2000).fit(
        parts, sensitive_features=["sex", "age"], sample_weight="w"
    )
    shown = capsys.readouterr().err
    assert "read" in shown
    assert re.search(r"[\d,]+ rows/s", shown)


def test_bars_nest(capsys):
    with progress("outer", 2, shown=True) as outer, progress("inner", 5, shown=True) as inner:
        outer()
        inner(steps=5)
    with progress("again", None, shown=True, unit="rows") as tick:
        tick(steps=3)
    assert capsys.readouterr().out == ""


PEAK = """
import sys
from pathlib import Path
from fairmix import FairMixture
model = FairMixture(
    3, fairness_strength=1, subsample=5000, standardize=True, tol=0.1, random_state=0
)
model.fit(sys.argv[1], sensitive_features="sex")
model.predict(sys.argv[1], output=sys.argv[2])
import resource
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="has no resource module")
def test_memory_does_not_grow_with_rows(tmp_path):
    rng = np.random.default_rng(0)
    peaks = []
    for n_rows in (30_000, 300_000):
        path = tmp_path / f"{n_rows}.parquet"
        columns = {f"x{j}": rng.normal(size=n_rows).astype(np.float32) for j in range(25)}
        table = pa.table({**columns, "sex": rng.choice(["f", "m"], n_rows)})
        pq.write_table(table, path, row_group_size=50_000)
        run = subprocess.run(
            [sys.executable, "-c", PEAK, str(path), str(tmp_path / "labels")],
            capture_output=True,
            text=True,
            check=True,
        )
        # Kilobytes on Linux, bytes on macOS.
        peaks.append(int(run.stdout) / (2**20 if sys.platform == "darwin" else 2**10))
    assert peaks[1] < peaks[0] + 100


@pytest.mark.filterwarnings("ignore::fairmix.ColumnWarning")  # a census has codes and weights
def test_the_page_on_large_data_runs(tmp_path, monkeypatch):
    text = (Path(__file__).parents[1] / "docs" / "how-to" / "large-data.md").read_text("utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec("\n".join(blocks), names)
    assert len(blocks) == 5
    assert names["model"].gap_ <= 0.01
    assert pq.read_table(tmp_path / "labels.parquet").num_rows == 20_000
    assert not (tmp_path / "census.checkpoint").exists()
