"""Tables of every kind go in, and tables come out in the kind that is asked for."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from fairmix import FairMixture
from fairmix.datasets import make_grouped_blobs

N_ROWS = 300


@pytest.fixture(scope="module")
def people():
    """A complete pandas table and groups in two columns."""
    X, groups, components = make_grouped_blobs(
        N_ROWS, 3, 2, imbalance=0.3, separation=2, random_state=1
    )
    rng = np.random.default_rng(0)
    noisy = np.where(rng.random(N_ROWS) < 0.8, components, rng.integers(3, size=N_ROWS))
    table = pd.DataFrame(
        {
            "number": X[:, 0],
            "count": np.round(10 * X[:, 1]).astype(np.int64),
            "size": np.array(["low", "mid", "top"])[noisy],
            "member": rng.random(N_ROWS) < 0.2 + 0.3 * noisy,
        }
    )
    sensitive = pd.DataFrame(
        {"sex": np.where(np.asarray(groups) == np.unique(groups)[0], "f", "m")}
    )
    sensitive["old"] = rng.random(N_ROWS) < 0.4
    return table, sensitive


@pytest.fixture(scope="module")
def expected(people):
    table, sensitive = people
    return fit(table, sensitive["sex"])


def fit(X, sensitive, **settings):
    model = FairMixture(3, max_gap=0.05, standardize=True, random_state=0, **settings)
    return model.fit(X, sensitive_features=sensitive)


ORDERED = pd.CategoricalDtype(["low", "mid", "top"], ordered=True)
SPARE = pd.CategoricalDtype(["top", "never", "mid", "low"])
PANDAS = {
    "object": {"size": object, "member": object},
    "category": {"size": "category", "member": "category"},
    "ordered": {"size": ORDERED},
    "unused category": {"size": SPARE},
    "nullable": {"number": "Float64", "count": "Int64", "size": "string", "member": "boolean"},
    "arrow-backed": {
        "number": "double[pyarrow]",
        "count": "int32[pyarrow]",
        "size": "string[pyarrow]",
        "member": "bool[pyarrow]",
    },
}


@pytest.mark.parametrize("types", PANDAS.values(), ids=PANDAS)
def test_pandas_types(people, expected, types):
    table, sensitive = people
    typed = table.astype(types)
    model = fit(typed, sensitive["sex"])
    assert np.array_equal(model.labels_, expected.labels_)
    assert np.array_equal(expected.predict(typed), expected.labels_)
    assert [names.tolist() for names in model.categories_] == [
        ["low", "mid", "top"],
        ["False", "True"],
    ]


@pytest.mark.parametrize("types", PANDAS.values(), ids=PANDAS)
def test_pandas_types_with_gaps(people, types):
    table, sensitive = people
    gaps = np.random.default_rng(0).random(table.shape) < 0.1
    plain = fit(table.astype({"count": float, "member": object}).mask(gaps), sensitive["sex"])
    typed = table.astype(types)
    for j, name in enumerate(table):
        if typed[name].dtype == np.int64:
            typed[name] = typed[name].astype(float)
        if typed[name].dtype == bool:
            typed[name] = typed[name].astype(object)
        typed.loc[gaps[:, j], name] = None
    assert typed.isna().to_numpy().sum() == gaps.sum()
    assert np.array_equal(fit(typed, sensitive["sex"]).labels_, plain.labels_)


def polars_kinds(table):
    frame = pl.from_pandas(table)
    yield "plain", frame
    yield "categorical", frame.with_columns(pl.col("size").cast(pl.Categorical))
    yield "enum", frame.with_columns(pl.col("size").cast(pl.Enum(["top", "low", "mid"])))


def arrow_kinds(table):
    arrow = pa.Table.from_pandas(table, preserve_index=False)
    yield "plain", arrow
    at = arrow.column_names.index("size")
    yield "dictionary", arrow.set_column(at, "size", arrow["size"].dictionary_encode())
    pieces = [arrow.slice(0, 200), arrow.slice(200)]
    encoded = [p.set_column(at, "size", p["size"].dictionary_encode()) for p in pieces]
    yield "a dictionary for each chunk", pa.concat_tables(encoded)
    yield "large strings", arrow.set_column(at, "size", arrow["size"].cast(pa.large_string()))


@pytest.mark.parametrize("kinds", [polars_kinds, arrow_kinds])
def test_polars_and_arrow(people, expected, kinds):
    table, sensitive = people
    for name, frame in kinds(table):
        model = fit(frame, sensitive["sex"])
        assert np.array_equal(model.labels_, expected.labels_), name
        assert np.array_equal(expected.predict(frame), expected.labels_), name


@pytest.mark.parametrize("kinds", [polars_kinds, arrow_kinds])
def test_polars_and_arrow_with_nulls(people, kinds):
    table, sensitive = people
    gaps = np.random.default_rng(0).random(table.shape) < 0.1
    typed = table.astype({"count": "Int64", "size": "string", "member": "boolean"}).mask(gaps)
    plain = fit(typed, sensitive["sex"])
    for name, frame in kinds(typed):
        assert np.array_equal(fit(frame, sensitive["sex"]).labels_, plain.labels_), name


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
def test_numbers_alone_with_nulls(people, missing):
    table, sensitive = people
    numbers = table[["number", "count"]].astype({"count": "Int64"})
    numbers.loc[::7, "count"] = missing
    as_floats = numbers["count"].to_numpy(np.float64, na_value=np.nan)
    plain = fit(np.column_stack([numbers["number"], as_floats]), sensitive["sex"])
    kinds = (numbers, pl.from_pandas(numbers), pa.Table.from_pandas(numbers))
    for frame in kinds:
        assert np.array_equal(fit(frame, sensitive["sex"]).labels_, plain.labels_)


ONE_COLUMN = {
    "list": list,
    "tuple": tuple,
    "array": np.asarray,
    "object array": lambda s: s.to_numpy(object),
    "array of one column": lambda s: s.to_numpy()[:, None],
    "series": lambda s: s,
    "series with another index": lambda s: s.set_axis(range(7, 7 + len(s))),
    "category": lambda s: s.astype("category"),
    "table": lambda s: s.to_frame(),
    "polars series": lambda s: pl.Series("sex", s.tolist()),
    "polars table": lambda s: pl.DataFrame({"sex": s.tolist()}),
    "arrow array": lambda s: pa.array(s.tolist()),
    "arrow chunks": lambda s: pa.chunked_array([s.tolist()[:100], s.tolist()[100:]]),
    "arrow dictionary": lambda s: pa.array(s.tolist()).dictionary_encode(),
    "arrow table": lambda s: pa.table({"sex": s.tolist()}),
}


@pytest.mark.parametrize("make", ONE_COLUMN.values(), ids=ONE_COLUMN)
def test_groups_of_every_kind(people, expected, make):
    table, sensitive = people
    given = make(sensitive["sex"])
    model = fit(table, given)
    assert np.array_equal(model.labels_, expected.labels_)
    assert model.groups_.tolist() == ["f", "m"]
    report = model.fairness_report(table, given, n_boot=5)
    assert report.summary["gap"].value == pytest.approx(model.gap_, abs=1e-12)
    with pytest.warns(UserWarning, match="rows that the model was fitted to"):
        assert model.certify(table, given) == expected.certify(table, sensitive["sex"])


TWO_COLUMNS = {
    "table": lambda t: t,
    "array": lambda t: t.to_numpy(object),
    "list of tuples": lambda t: list(t.itertuples(index=False, name=None)),
    "polars": pl.from_pandas,
    "arrow": pa.Table.from_pandas,
}


@pytest.mark.parametrize("make", TWO_COLUMNS.values(), ids=TWO_COLUMNS)
def test_several_columns_are_their_intersections(people, make):
    table, sensitive = people
    model = fit(table, make(sensitive), assignment="aware")
    assert model.groups_.tolist() == ["f & False", "f & True", "m & False", "m & True"]
    assert model.gap_ <= 0.05
    again = model.predict(table, sensitive_features=make(sensitive))
    assert np.array_equal(again, model.labels_)


def test_report_comes_out_in_each_kind(people, expected):
    table, sensitive = people
    report = expected.fairness_report(table, sensitive["sex"], n_boot=5)
    assert isinstance(report.to_pandas(), pd.DataFrame)
    assert isinstance(report.to_polars(), pl.DataFrame)
    assert report.to_pandas().shape == report.to_polars().shape
    assert list(report.to_pandas().columns) == report.to_polars().columns


@pytest.mark.parametrize("change", [lambda t: t.rename(columns={"count": "n"}), lambda t: t[::-1]])
def test_names_are_checked(people, expected, change):
    table, _ = people
    with pytest.raises(ValueError, match="feature names should match"):
        expected.predict(change(table[["count", "number", "size", "member"]]))
