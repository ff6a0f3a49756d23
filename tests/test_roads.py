"""The same rows by every road: the labels have the same bits, and everything has the same names."""

import gzip
import warnings
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from sklearn.exceptions import ConvergenceWarning

from fairmix import FairMixture, FileSource, pareto_front
from fairmix.tables import find_files
from repetition import every_other, one_in, times

# Two blocks, the second one short.
N_ROWS = 20_000
GROUPS = ["sex", "race"]
REGIONS = ["east", "north", "south", "west"]


def make_people():
    """Rows sorted by region, with missing numbers, categories and letters beyond ASCII."""
    rng = np.random.default_rng(0)
    cluster = rng.integers(3, size=N_ROWS)
    often = np.where(rng.random(N_ROWS) < 0.8, cluster, rng.integers(3, size=N_ROWS))
    people = pd.DataFrame(
        {
            "income": 2000 + 1500 * cluster + 300 * rng.normal(size=N_ROWS),
            "age": rng.integers(18, 90, size=N_ROWS),
            "share": 20 + 10 * cluster + rng.normal(size=N_ROWS),
            "town": np.array(["Århus", "Oslo", "São Paulo"], dtype=object)[often],
            "sex": np.where(rng.random(N_ROWS) < 0.3 + 0.2 * cluster, "f", "m").astype(object),
            "race": np.array(["black", "white"], dtype=object)[rng.integers(2, size=N_ROWS)],
            "w": rng.uniform(0.5, 2, size=N_ROWS),
            "region": np.array(REGIONS, dtype=object)[np.sort(rng.integers(4, size=N_ROWS))],
        }
    )
    people.loc[rng.random(N_ROWS) < 0.05, "income"] = np.nan
    people.loc[rng.random(N_ROWS) < 0.05, "town"] = None
    return people


def new_model(**settings):
    # Few iterations: bits that differ do so from the first pass on.
    short = {"solver": "em", "fairness_strength": 0.5, "max_iter": 2}
    given = times(short, {"max_gap": 0.1, "max_iter": 8}) | settings
    return FairMixture(3, standardize=True, random_state=0, **given)


@contextmanager
def unsettled():
    """Too few iterations are meant; nothing else may be said."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


@pytest.fixture(scope="module")
def people():
    return make_people()


@pytest.fixture(scope="module")
def expected(people):
    with unsettled():
        model = new_model().fit(people, sensitive_features=GROUPS, sample_weight="w")
    assert model.groups_.tolist() == ["f & black", "f & white", "m & black", "m & white"]
    return model


def check_names(model, expected):
    assert model.feature_names_in_.tolist() == ["income", "age", "share", "town", "region"]
    assert [names.tolist() for names in model.categories_] == [
        ["Oslo", "São Paulo", "Århus"],
        REGIONS,
    ]
    assert model.groups_.tolist() == expected.groups_.tolist()


# Tables in memory


def modin(people):
    module = pytest.importorskip("modin.pandas")
    return module.DataFrame(people)


def with_index(people):
    """As ``pq.read_table`` gives a frame of pandas back: the index is a column."""
    table = pa.Table.from_pandas(people.set_index(np.arange(N_ROWS) % 777))
    assert "__index_level_0__" in table.column_names
    return table


def arrow(people):
    return pa.Table.from_pandas(people, preserve_index=False).replace_schema_metadata()


MEMORY = {
    "pandas": lambda people: people.copy(),
    "pandas of Arrow": lambda people: people.convert_dtypes(dtype_backend="pyarrow"),
    "modin": modin,
    "Polars": pl.from_pandas,
    "Arrow table": arrow,
    "Arrow table of pandas": with_index,
    "record batch": lambda people: arrow(people).to_batches()[0],
}


@pytest.mark.parametrize("road", MEMORY)
def test_tables(road, people, expected):
    X = MEMORY[road](people)
    with unsettled():
        model = new_model().fit(X, sensitive_features=GROUPS, sample_weight="w")
    assert np.array_equal(model.labels_, expected.labels_)
    assert np.array_equal(model.predict(X), expected.labels_)
    check_names(model, expected)
    assert model.score(X, sample_weight="w") == expected.score(people, sample_weight="w")


def test_numpy(people, expected):
    X = people[["income", "age", "share", "town", "region"]].to_numpy(object)
    groups = people[GROUPS].to_numpy(object)
    model = new_model(categorical_features=[3, 4])
    with unsettled():
        model.fit(X, sensitive_features=groups, sample_weight=people["w"].to_numpy())
    assert np.array_equal(model.labels_, expected.labels_)
    assert np.array_equal(model.predict(X), expected.labels_)
    assert model.groups_.tolist() == expected.groups_.tolist()
    for mine, theirs in zip(model.categories_, expected.categories_, strict=True):
        assert mine.tolist() == theirs.tolist()


# Streams, which are made anew for each use


def write_parts(people, folder):
    for number, part in enumerate(np.array_split(np.arange(len(people)), 3)):
        table = arrow(people).slice(part[0], len(part))
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=5000)
    return folder


def reader(people, folder):
    return pa.RecordBatchReader.from_batches(
        arrow(people).schema, iter(arrow(people).to_batches(max_chunksize=3000))
    )


def changing_dictionaries(people, folder):
    """Batches that number the same towns differently."""
    tables = [arrow(people).slice(a, 4000) for a in range(0, N_ROWS, 4000)]
    at = tables[0].column_names.index("town")
    coded = [t.set_column(at, "town", t["town"].dictionary_encode()) for t in tables]
    batches = [batch for table in coded for batch in table.to_batches()]
    return pa.RecordBatchReader.from_batches(batches[0].schema, iter(batches))


class Stream:
    """Anything that speaks Arrow."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


def duckdb(people, folder):
    module = pytest.importorskip("duckdb")
    return module.read_parquet(str(write_parts(people, folder) / "*.parquet"))


def filtered(people, folder):
    """A data set that leaves rows out of files: they cannot be read where they are."""
    more = pd.concat([people, people.assign(age=-1)])
    return ds.dataset(write_parts(more, folder)).filter(ds.field("age") >= 0)


STREAMS = {
    "Polars lazy": lambda people, folder: pl.from_pandas(people).lazy(),
    "Polars scan": lambda people, folder: pl.scan_parquet(write_parts(people, folder)),
    "reader": reader,
    "reader of dictionaries": changing_dictionaries,
    "any Arrow stream": lambda people, folder: Stream(with_index(people)),
    "data set": lambda people, folder: ds.dataset(write_parts(people, folder)),
    "data set in memory": lambda people, folder: ds.dataset(arrow(people)),
    "data set with a filter": filtered,
    "data set of a hive": lambda people, folder: ds.dataset(
        hive_by_polars(people, folder, include_key=False), partitioning="hive"
    ),
    "DuckDB": duckdb,
}


@pytest.mark.parametrize("road", every_other(STREAMS))
def test_streams(road, people, expected, tmp_path, monkeypatch):
    spool = tmp_path / "spool"
    for folder in ("rows", "spool"):
        (tmp_path / folder).mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(spool))
    with unsettled():
        model = new_model().fit(
            STREAMS[road](people, tmp_path / "rows"), sensitive_features=GROUPS, sample_weight="w"
        )
    check_names(model, expected)
    again = STREAMS[road](people, tmp_path / "rows")
    labels = read_labels(model.predict(again, output=tmp_path / "labels.parquet"))
    assert np.array_equal(labels, expected.labels_)
    assert list(spool.iterdir()) == []


def read_labels(path):
    return pq.read_table(path)["cluster"].to_numpy()


# Files


def by_dask(people, folder):
    dd = pytest.importorskip("dask.dataframe")
    with warnings.catch_warnings():
        # Dask and pandas are not of one mind.
        warnings.simplefilter("ignore", DeprecationWarning)
        dd.from_pandas(people, npartitions=3).to_parquet(folder / "rows")
    assert "__null_dask_index__" in pq.read_schema(folder / "rows/part.0.parquet").names
    return folder / "rows"


def hive_by_polars(people, folder, include_key=True):
    path = folder / "hive"
    frame = pl.from_pandas(people)
    for (region,), part in frame.group_by("region", maintain_order=True):
        (path / f"region={region}").mkdir(parents=True, exist_ok=True)
        part = part if include_key else part.drop("region")
        part.write_parquet(path / f"region={region}" / "0.parquet")
    return path


def hive_by_dask(people, folder):
    dd = pytest.importorskip("dask.dataframe")
    frame = dd.from_pandas(people.reset_index(drop=True), npartitions=1)
    frame.to_parquet(folder / "hive", partition_on=["region"], write_index=False)
    return folder / "hive"


def hive_by_duckdb(people, folder):
    module = pytest.importorskip("duckdb")
    rows = arrow(people)  # noqa: F841, DuckDB finds it by its name
    module.sql(f"COPY (FROM rows) TO '{folder}/hive' (FORMAT parquet, PARTITION_BY (region))")
    return folder / "hive"


def saved(write):
    """A road that writes one file."""

    def make(people, folder):
        path = folder / write.__name__.replace("_", ".")
        write(people, path)
        return path

    return make


def pandas_parquet(people, path):
    # A filter leaves an index behind, which is stored as a column.
    people.set_axis([*range(N_ROWS - 1), N_ROWS]).to_parquet(path)
    assert "__index_level_0__" in pq.read_schema(path).names


def named_parquet(people, path):
    people.set_index(pd.Index(np.arange(N_ROWS)[::-1] ** 2, name="id")).to_parquet(path)
    assert "id" in pq.read_schema(path).names


def polars_parquet(people, path):
    pl.from_pandas(people).with_columns(pl.col("town").cast(pl.Categorical)).write_parquet(path)


def pandas_feather(people, path):
    feather.write_feather(people, path, compression="lz4", chunksize=3000)


def polars_arrow(people, path):
    pl.from_pandas(people).with_columns(pl.col("town").cast(pl.Categorical)).write_ipc(path)


def comma_csv(people, path):
    people.to_csv(path, index=False)


def semicolon_csv(people, path):
    people.to_csv(path, index=False, sep=";", decimal=",", na_rep="?")


def tab_tsv(people, path):
    text = people.to_csv(None, index=False, sep="\t", na_rep="NULL")
    path.with_suffix(".tsv.gz").write_bytes(gzip.compress(text.encode("utf-8")))


def money_csv(people, path):
    """As a spreadsheet of Western Europe saves it."""
    odd = people.astype(object)
    odd["income"] = [
        "-" if np.isnan(value) else f"{repr(value)[0]}.{repr(value)[1:].replace('.', ',')} €"
        for value in people["income"].tolist()
    ]
    odd["share"] = [f"{value!r} %".replace(".", ",") for value in people["share"].tolist()]
    odd["w"] = [repr(value).replace(".", ",") for value in people["w"].tolist()]
    odd.to_csv(path, index=False, sep=";", encoding="cp1252")


def wide_csv(people, path):
    people.to_csv(path, index=False, sep="|", encoding="utf-16")


FILES = {
    "Parquet by pandas": saved(pandas_parquet),
    "Parquet by pandas with a named index": saved(named_parquet),
    "Parquet by Polars": saved(polars_parquet),
    "Parquet by Dask": by_dask,
    "folder": write_parts,
    "file://": lambda people, folder: write_parts(people, folder).as_uri(),
    "hive by Polars": hive_by_polars,
    "hive by Polars without the key": lambda p, folder: hive_by_polars(p, folder, False),
    "hive by Dask": hive_by_dask,
    "hive by DuckDB": hive_by_duckdb,
    "hive by a pattern": lambda p, folder: f"{hive_by_dask(p, folder)}/region=*/*.parquet",
    "Feather by pandas": saved(pandas_feather),
    "Arrow by Polars": saved(polars_arrow),
    "CSV": saved(comma_csv),
    "CSV with decimal commas and ?": saved(semicolon_csv),
    "TSV, packed": lambda people, folder: saved(tab_tsv)(people, folder).with_suffix(".tsv.gz"),
    "CSV with money": saved(money_csv),
    "CSV in UTF-16": saved(wide_csv),
}
# What a person is told.
NOTES = {
    "CSV with decimal commas and ?": ["texts were read as numbers"],
    "CSV with money": ["texts were read as numbers", "not UTF-8 and was read as cp1252"],
}


@pytest.mark.parametrize("road", one_in(4, FILES))
def test_files(road, people, expected, tmp_path):
    paths = FILES[road](people, tmp_path)
    model = new_model()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(paths, sensitive_features=GROUPS, sample_weight="w")
        labels = read_labels(model.predict(paths, output=tmp_path / "labels"))
    said = [str(warning.message) for warning in caught]
    notes = NOTES.get(road, []) * 2
    assert len(said) == len(notes)
    assert all(note in text for note, text in zip(notes, said, strict=True))
    check_names(model, expected)
    assert np.array_equal(labels, expected.labels_)


def test_a_distant_address(people, expected, tmp_path, monkeypatch):
    """What ``s3://`` gives, with a folder in the place of a bucket."""
    from pyarrow import fs

    hive_by_polars(people, tmp_path, include_key=False)

    def from_uri(uri):
        assert uri.startswith("s3://")
        return fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem()), uri[5:]

    with monkeypatch.context() as patch:
        patch.setattr("fairmix.tables.locations.file_system", from_uri)
        for address in ("s3://hive", "s3://hive/region=*/*.parquet", "s3://hive/**/*.parquet"):
            model = new_model()
            with unsettled():
                model.fit(address, sensitive_features=GROUPS, sample_weight="w")
            check_names(model, expected)
            assert model.lower_bound_ == expected.lower_bound_
        labels = read_labels(model.predict("s3://hive", output=tmp_path / "labels"))
        assert np.array_equal(labels, expected.labels_)
        with pytest.raises(FileNotFoundError, match="'s3://nothing' matches no file"):
            model.fit("s3://nothing")
    with pytest.raises(ValueError, match=r"'foo://a' cannot be opened: Unrecognized filesystem"):
        model.fit("foo://a")


def test_a_bucket(people, expected, tmp_path, monkeypatch):
    """By the protocol of S3, from a server on this machine: scripts/test --neighbours."""
    server = pytest.importorskip("moto.server", reason="moto is not installed")
    from pyarrow import fs

    running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    try:
        bucket, _ = fs.FileSystem.from_uri("s3://bucket?allow_bucket_creation=true")
        bucket.create_dir("bucket")
        hive_by_polars(people, tmp_path, include_key=False)
        fs.copy_files(str(tmp_path / "hive"), "bucket/hive", destination_filesystem=bucket)
        with unsettled():
            model = new_model().fit(
                "s3://bucket/hive", sensitive_features=GROUPS, sample_weight="w"
            )
        check_names(model, expected)
        assert model.lower_bound_ == expected.lower_bound_
        told = f"s3://bucket/hive?endpoint_override={host}:{port}&scheme=http"
        labels = read_labels(model.predict(told, output=tmp_path / "labels"))
        assert np.array_equal(labels, expected.labels_)
        files = [f"bucket/hive/region={region}/0.parquet" for region in REGIONS]
        assert [file.path for file in find_files("s3://bucket/hive/region=*/*.parquet")] == files
        with pytest.raises(FileNotFoundError, match="'s3://bucket/nothing' matches no file"):
            model.fit("s3://bucket/nothing")
    finally:
        running.stop()


# A cluster


def test_dask_frame(people, expected, cluster):
    import dask.dataframe as dd

    X = dd.from_pandas(people, npartitions=3)
    with unsettled():
        model = new_model().fit(X, sensitive_features=GROUPS, sample_weight="w")
    check_names(model, expected)
    assert np.array_equal(model.predict(X).compute(), expected.labels_)


def test_dask_array(people, cluster):
    import dask.array as da

    numbers = people[["income", "age", "share"]].to_numpy(np.float64)
    groups, weight = people["sex"].to_numpy(str), people["w"].to_numpy()
    X, beside = da.from_array(numbers, chunks=(7000, 2)), {}
    beside = {"sensitive_features": groups, "sample_weight": weight}
    with unsettled():
        memory = new_model().fit(numbers, **beside)
        model = new_model().fit(
            X, **{name: da.from_array(values, chunks=7000) for name, values in beside.items()}
        )
    assert np.array_equal(model.predict(X).compute(), memory.labels_)
    assert model.groups_.tolist() == memory.groups_.tolist()


# What people have in their columns


def odd(people):
    """Few rows with one more column, which the test makes."""
    return people[["age", "share", "sex"]][:300]


def fitted_to(X):
    return FairMixture(2, fairness_strength=0, random_state=0).fit(X, sensitive_features="sex")


def test_amounts_of_money(people, tmp_path):
    amounts = pa.array([Decimal("1.25") * (i % 9) for i in range(300)], pa.decimal128(12, 2))
    table = arrow(odd(people)).append_column("owed", amounts)
    pq.write_table(table, tmp_path / "owed.parquet")
    floats = fitted_to(table.set_column(3, "owed", amounts.cast(pa.float64())))
    objects = odd(people).assign(owed=amounts.to_pylist())
    assert objects["owed"].dtype == object
    for X in (table, tmp_path / "owed.parquet", pl.from_arrow(table), objects):
        assert np.array_equal(fitted_to(X).means_, floats.means_)


def test_amounts_that_hardly_come_back_are_numbers(people):
    """As texts they would be left out; some may be missing."""
    amounts = [None if i % 9 == 4 else Decimal(i * i % 997) / 100 for i in range(300)]
    model = fitted_to(odd(people).assign(owed=amounts))
    floats = fitted_to(
        odd(people).assign(owed=[np.nan if a is None else float(a) for a in amounts])
    )
    assert model.feature_names_in_.tolist() == ["age", "share", "owed"]
    assert np.array_equal(model.means_, floats.means_)


def test_a_column_without_a_value_is_refused_for_that(people, tmp_path):
    table = arrow(odd(people)).append_column("gone", pa.nulls(300))
    pq.write_table(table, tmp_path / "gone.parquet")
    frame = pl.from_arrow(table)
    for X in (table, tmp_path / "gone.parquet", frame, frame.lazy(), table.to_pandas()):
        with pytest.raises(ValueError, match=r"Column '(gone|x2)' of X has no value, all are"):
            fitted_to(X)


def test_whole_numbers_beyond_the_digits_of_a_float(people, tmp_path):
    numbers = odd(people).assign(id=np.arange(300).astype(np.uint64) + np.uint64(2**63))
    numbers.to_parquet(tmp_path / "ids.parquet", index=False)
    expected = fitted_to(numbers)
    assert expected.means_[0, 2] == 2.0**63
    assert np.array_equal(fitted_to(tmp_path / "ids.parquet").means_, expected.means_)


def test_names_of_rows_in_a_text_file_are_no_feature(people, tmp_path):
    odd(people).to_csv(tmp_path / "people.csv")
    with pytest.warns(UserWarning, match=r"has no name and was left out: pandas and R write"):
        model = fitted_to(tmp_path / "people.csv")
    assert model.feature_names_in_.tolist() == ["age", "share"]
    assert np.array_equal(model.means_, fitted_to(odd(people)).means_)


def test_a_folder_of_spark(people, tmp_path):
    """Markers and checksums beside the rows; a missing key, and one with odd letters."""
    rows = odd(people).assign(year=2020, region=np.where(np.arange(300) % 3, "a b/ü", None))
    pq.write_to_dataset(arrow(rows), str(tmp_path), partition_cols=["year", "region"])
    for part in list(tmp_path.rglob("*.parquet")):
        part.with_name(f".{part.name}.crc").write_bytes(b"crc")
    for marker in ("_SUCCESS", "._SUCCESS.crc"):
        (tmp_path / marker).write_bytes(b"")
    model = FairMixture(2, fairness_strength=0, missing_groups="group", random_state=0)
    model.fit(tmp_path, sensitive_features="region")
    assert model.groups_.tolist() == ["a b/ü", "missing"]
    assert model.group_sizes_.tolist() == [200, 100]
    assert model.feature_names_in_.tolist() == ["age", "share", "sex", "year"]


# What cannot be taken


def test_a_delta_folder_is_refused_by_name(people, tmp_path):
    write_parts(people, tmp_path)
    (tmp_path / "_delta_log").mkdir()
    with pytest.raises(ValueError, match="is a Delta table: its folder also holds rows of older"):
        FairMixture(2).fit(tmp_path)


def test_a_spreadsheet_gets_a_hint(tmp_path):
    (tmp_path / "people.xlsx").write_bytes(b"PK")
    with pytest.raises(ValueError, match=r"is a spreadsheet. .* pandas.read_excel"):
        FairMixture(2).fit(tmp_path / "people.xlsx")


def test_nothing_is_left_after_an_error(people, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def broken():
        batches = arrow(people).to_batches(max_chunksize=3000)
        yield batches[0]
        raise pa.ArrowInvalid("the line is cut")

    def stream():
        return pa.RecordBatchReader.from_batches(arrow(people).schema, broken())

    with pytest.raises(ValueError, match=r"X cannot be read: the line is cut"):
        FairMixture(2).fit(stream())
    # After the rows are kept: one group only.
    lazy = pl.from_pandas(people.assign(sex="f")).lazy()
    with pytest.raises(ValueError, match="one group only"):
        FairMixture(2).fit(lazy, sensitive_features="sex")
    with unsettled():
        model = new_model().fit(people[["age"]])
    with pytest.raises(ValueError, match=r"is not in memory.*Give output"):
        model.predict(pl.from_pandas(people[["age"]]).lazy())
    assert list(tmp_path.iterdir()) == []


def test_a_source_without_order_is_read_once(people, tmp_path):
    """The second time it gives the rows in another order, or not at all."""
    calls = []

    def shuffled(frame):
        calls.append(len(frame))
        return frame.sample(fraction=1.0, shuffle=True)

    lazy = pl.from_pandas(people[["age", "share"]]).lazy().map_batches(shuffled)
    FairMixture(2, max_iter=5, tol=1).fit(lazy)
    assert calls == [N_ROWS]


def test_rows_beside_a_stream_are_refused(people):
    with pytest.raises(ValueError, match="sensitive_features is a RecordBatchReader beside X"):
        FairMixture(2).fit(reader(people, None), sensitive_features=reader(people, None))
    with pytest.raises(ValueError, match="sensitive_features is a ndarray, but X is not in memory"):
        FairMixture(2).fit(reader(people, None), sensitive_features=np.zeros(N_ROWS))


def test_names_are_one_rule(people):
    model = new_model()
    numbers = people[["age", "share", "sex", "race", "w"]]
    with unsettled():
        model.fit(numbers, sensitive_features=("sex", "race", "sex"), sample_weight="w")
    assert model.groups_.tolist() == ["f & black", "f & white", "m & black", "m & white"]
    assert model.feature_names_in_.tolist() == ["age", "share"]
    report = model.fairness_report(numbers, GROUPS, sample_weight="w", n_boot=5)
    plain = model.fairness_report(numbers, GROUPS, sample_weight=numbers["w"], n_boot=5)
    assert report.summary["gap"].value == plain.summary["gap"].value
    with pytest.raises(ValueError, match=r"sample_weight='weight' names a column of X, but X has"):
        model.fit(numbers, sample_weight="weight")
    with pytest.raises(ValueError, match=r"sample_weight='w' names a column .* not a data frame"):
        model.fit(numbers[["age"]].to_numpy(), sample_weight="w")
    with pytest.raises(ValueError, match=r"sensitive_features='rce' names a column of X, but X"):
        model.fit(numbers, sensitive_features=["sex", "rce"])


def test_weights_by_name_in_a_front(people):
    numbers = people[["age", "share", "sex", "w"]][:500]
    model = FairMixture(2, random_state=0)
    one = pareto_front(model, numbers, sensitive_features="sex", sample_weight="w", max_gaps=[0.1])
    other = pareto_front(
        model,
        numbers.drop(columns="w"),
        sensitive_features="sex",
        sample_weight=numbers["w"],
        max_gaps=[0.1],
    )
    assert one.rows[0].cost == other.rows[0].cost


def test_weights_by_name_in_a_stream_of_batches(people):
    numbers = people[["age", "share", "sex", "w"]]
    one, other = (FairMixture(2, max_gap=0.2, random_state=0) for _ in range(2))
    for part in (numbers[:3000], numbers[3000:6000]):
        one.partial_fit(part, sensitive_features="sex", sample_weight="w")
        inner = part.drop(columns="w")
        other.partial_fit(inner, sensitive_features="sex", sample_weight=part["w"])
    assert np.array_equal(one.means_, other.means_)


def test_a_source_of_files_takes_a_list(people, expected, tmp_path):
    folder = write_parts(people, tmp_path)
    paths = sorted(map(str, Path(folder).glob("*.parquet")))
    with unsettled():
        model = new_model().fit(FileSource(paths), sensitive_features=GROUPS, sample_weight="w")
    assert model.lower_bound_ == expected.lower_bound_
