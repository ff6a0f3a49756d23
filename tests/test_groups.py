"""Groups: every kind of input gives the same codes, and wrong input says what is wrong."""

import datetime
import decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from cases import count_calls
from fairmix import FairMixture
from fairmix.input.groups import encode_groups, match_groups

WORDS = ["b", "a", "c", "a", "b", "b"]
WORD_CODES = [1, 0, 2, 0, 1, 1]

ONE_COLUMN = {
    "list": WORDS,
    "tuple": tuple(WORDS),
    "numpy str": np.array(WORDS),
    "numpy object": np.array(WORDS, dtype=object),
    "numpy one column": np.array(WORDS)[:, None],
    "pandas": pd.Series(WORDS, index=[3, 3, 1, 0, 9, 9]),
    "pandas object": pd.Series(WORDS, dtype=object),
    "pandas category": pd.Series(pd.Categorical(WORDS, categories=["c", "z", "b", "a"])),
    "pandas ordered": pd.Series(pd.Categorical(WORDS, categories=list("cba"), ordered=True)),
    "pandas Categorical": pd.Categorical(WORDS),
    "pandas index": pd.Index(WORDS),
    "pandas frame": pd.DataFrame({"word": WORDS}),
    "polars": pl.Series(WORDS),
    "polars categorical": pl.Series(WORDS, dtype=pl.Categorical),
    "polars enum": pl.Series(WORDS, dtype=pl.Enum(["c", "b", "a", "z"])),
    "arrow": pa.array(WORDS),
    "arrow view": pa.array(WORDS, pa.string_view()),
    "arrow dictionary": pa.array(WORDS).dictionary_encode(),
    "arrow chunked": pa.chunked_array([WORDS[:2], WORDS[2:]]),
    "arrow chunked dictionary": pa.chunked_array(
        [pa.array(WORDS[:2]).dictionary_encode(), pa.array(WORDS[2:]).dictionary_encode()]
    ),
    "arrow table": pa.table({"word": WORDS}),
    "arrow batch": pa.record_batch({"word": WORDS}),
}

SEX = ["Male", "Female", "Female", "Male"]
RACE = ["White", "Black", "White", "White"]

TWO_COLUMNS = {
    "numpy": np.array([SEX, RACE]).T,
    "numpy object": np.array([SEX, RACE], dtype=object).T,
    "rows": list(zip(SEX, RACE, strict=True)),
    "row arrays": list(np.array([SEX, RACE]).T),
    "pandas": pd.DataFrame({"sex": SEX, "race": RACE}, index=[7, 7, 7, 7]),
    "polars": pl.DataFrame({"sex": SEX, "race": RACE}),
    "arrow": pa.table({"sex": SEX, "race": RACE}),
}


@pytest.mark.parametrize("kind", ONE_COLUMN)
def test_every_kind_of_column_gives_the_same_codes(kind):
    groups = encode_groups(ONE_COLUMN[kind], n_rows=6)
    assert groups.names == ("a", "b", "c")
    assert groups.codes.tolist() == WORD_CODES
    assert groups.codes.dtype == np.intp
    assert groups.sizes.tolist() == [2, 3, 1]


@pytest.mark.parametrize("kind", TWO_COLUMNS)
def test_several_columns_become_the_intersections_that_occur(kind):
    groups = encode_groups(TWO_COLUMNS[kind])
    assert groups.names == ("Female & Black", "Female & White", "Male & White")
    assert groups.codes.tolist() == [2, 0, 1, 2]
    assert groups.sizes.tolist() == [1, 1, 2]


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        ([True, False, True], ("False", "True")),
        (np.array([True, False]), ("False", "True")),
        ([10, 9, 2], ("2", "9", "10")),
        (np.array([10, 9, 2], dtype=np.uint8), ("2", "9", "10")),
        ([1.0, 0.0, 0.5], ("0.0", "0.5", "1.0")),
        ([b"x", b"a"], ("b'a'", "b'x'")),
        (pd.Series([2, 10], dtype="Int64"), ("2", "10")),
        (pd.Series([True, False], dtype="boolean"), ("False", "True")),
        (pd.Series(pd.Categorical([10, 9, 10])), ("9", "10")),
        ([datetime.date(2020, 1, 2), datetime.date(2019, 1, 1)], ("2019-01-01", "2020-01-02")),
        ([decimal.Decimal("2.5"), decimal.Decimal("10")], ("2.5", "10.0")),
        ([1, "a", 2], ("1", "2", "a")),
        (np.array([1, "a", True], dtype=object), ("1", "a")),
        (np.array([True, 1.0, 1, 2], dtype=object), ("1.0", "2.0")),
        ([True, 1, 2], ("1", "2")),
        ([True, 1.0], ("1.0",)),
        (np.array([False, 0, -0.0], dtype=object), ("0.0",)),
        (np.array([False, "a", -0.0], dtype=object), ("0.0", "a")),
        (np.array([-0.0, 0.0, 1.5]), ("0.0", "1.5")),
        (np.array([0.0, -0.0, 1.5], dtype=np.float16), ("0.0", "1.5")),
        ([0.0, -0.0], ("0.0",)),
        (pa.array([-0.0, 0.0], pa.float32()), ("0.0",)),
        (pa.DictionaryArray.from_arrays([0, 1], pa.array([-0.0, 0.0])), ("0.0",)),
        (pd.Series([-0.0, 0.0, None]).iloc[:2], ("0.0",)),
        ([2**70, 1], ("1", str(2**70))),
        (["", "a"], ("", "a")),
        (["only"], ("only",)),
    ],
)
def test_names_are_sorted_by_value(labels, names):
    groups = encode_groups(labels)
    assert groups.names == names
    assert encode_groups(labels[::-1]).names == names


def test_codes_do_not_depend_on_the_order_of_the_rows():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.choice(list("xyz"), 200), "b": rng.integers(0, 20, 200)})
    order = rng.permutation(200)
    whole, shuffled = encode_groups(table), encode_groups(table.iloc[order])
    assert shuffled.names == whole.names
    np.testing.assert_array_equal(shuffled.codes, whole.codes[order])
    assert whole.sizes.sum() == 200


@pytest.mark.parametrize("n_kinds", [1, 2, 5, 6, 7, 300])
def test_text_arrays_of_few_and_of_many_kinds(n_kinds):
    words = [f"\u00e9{i * 7 % n_kinds}" for i in range(2 * n_kinds)]
    found, expected = encode_groups(np.array(words)), encode_groups(pa.array(words))
    assert found.names == expected.names
    assert found.codes.tolist() == expected.codes.tolist()


def test_many_sparse_columns_do_not_overflow():
    values = np.arange(300)[:, None] * np.ones(12, dtype=int)
    groups = encode_groups(values)  # 300**12 possible cells
    assert len(groups.names) == 300
    assert groups.codes.tolist() == list(range(300))


@pytest.mark.parametrize(
    ("data", "title"),
    [
        (WORDS, "group"),
        (pd.Series(WORDS), "group"),
        (pd.Series(WORDS, name="sex"), "sex"),
        (pl.Series(WORDS), "group"),
        (pl.Series("sex", WORDS), "sex"),
        (pd.DataFrame({"sex": SEX, "race": RACE}), "sex & race"),
        (pa.table({"sex": SEX, "race": RACE}), "sex & race"),
        (pd.DataFrame({0: SEX, 1: RACE}), "0 & 1"),
        (np.array([SEX, RACE]).T, "group"),
    ],
)
def test_title(data, title):
    assert encode_groups(data).title == title


@pytest.mark.parametrize(
    "labels",
    [
        ["a", None, "b", None],
        [1.0, float("nan"), 2.0, None],
        ["a", float("nan"), "b", np.nan],
        [1, "a", None, float("nan")],
        np.array([1.0, np.nan, np.nan]),
        np.array(["a", None, np.nan], dtype=object),
        np.array(["2020-01-01", "NaT", "NaT"], dtype="datetime64[D]"),
        np.ma.masked_array([1, 2, 3], mask=[0, 1, 1]),
        pd.Series(["a", None, pd.NA]),
        pd.Series([1, None, pd.NA], dtype="Int64"),
        pd.Series([pd.NaT, pd.NaT, pd.Timestamp("2020")]),
        pd.Series([1, "a", pd.NA, None], dtype=object),
        pd.Series(pd.Categorical(["a", None, None])),
        pl.Series(["a", None, None]),
        pl.Series([1.0, float("nan"), None]),
        pa.array(["a", None, None]),
        pa.array([None, None]),
        pa.DictionaryArray.from_arrays(pa.array([0, 1, None]), pa.array(["a", None])),
        pd.DataFrame({"a": ["x", None, "y"], "b": [np.nan, np.nan, 1.0]}),
    ],
)
def test_missing_labels_are_counted(labels):
    with pytest.raises(ValueError, match=r"sensitive_features has 2 missing labels in \d rows"):
        encode_groups(labels)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("sex", r"names a column, which works only where X is a table"),
        ([], r"0 rows"),
        (pd.DataFrame(index=[0, 1]), r"0 columns"),
        (np.empty((3, 0)), r"0 columns"),
        (3, r"int of 0 dimensions"),
        (np.zeros((2, 2, 2)), r"ndarray of 3 dimensions"),
        (pl.LazyFrame({"a": [1]}), r"LazyFrame of 0 dimensions.*collect"),
        ([("a", "b"), ("a",)], r"2 labels in row 0 and not in row 1"),
        ([1, {"a": 1}], r"label \{'a': 1\} in row 1, a dict"),
        ([1, "1"], r"different labels that read the same: '1'"),
        ([("a & b", "c"), ("a", "b & c")], r"read the same: 'a & b & c'"),
    ],
)
def test_wrong_input_says_what_is_wrong(data, message):
    with pytest.raises(ValueError, match=r"sensitive_features.*" + message):
        encode_groups(data)


def test_wrong_length_names_both_lengths_and_the_argument():
    with pytest.raises(ValueError, match=r"groups has 3 rows, the data has 5"):
        encode_groups(["a", "b", "a"], n_rows=5, argument="groups")


def test_match_groups_keeps_the_numbers_of_the_fit():
    names = encode_groups(["c", "a", "b"]).names
    assert match_groups(["c", "c", "b"], names).tolist() == [2, 2, 1]
    assert match_groups(pd.Series(["a"]), names, n_rows=1).tolist() == [0]
    both = encode_groups(TWO_COLUMNS["rows"]).names
    assert match_groups(pd.DataFrame({"s": ["Male"], "r": ["White"]}), both).tolist() == [2]


def test_match_groups_names_the_unseen_and_the_known():
    with pytest.raises(ValueError, match=r"not seen: 'x', 'y'. It knows 'a', 'b'"):
        match_groups(["y", "a", "x"], ["a", "b"])
    with pytest.raises(ValueError, match=r"'9' and 90 more"):
        match_groups(["x"], [str(i) for i in range(100)])
    with pytest.raises(ValueError, match=r"1 missing labels"):
        match_groups(["a", None], ["a", "b"])
    with pytest.raises(ValueError, match=r"has 1 rows, the data has 2"):
        match_groups(["a"], ["a", "b"], n_rows=2)


def test_a_million_rows_take_no_python_loop():
    def table(n_rows):
        rng = np.random.default_rng(0)
        races = rng.choice(list("abcde"), n_rows)
        return pd.DataFrame({"sex": rng.choice(["f", "m"], n_rows), "race": races})

    few, many = table(1000), table(10**6)
    assert count_calls(lambda: encode_groups(many)) < 1.1 * count_calls(lambda: encode_groups(few))
    groups = encode_groups(many)
    assert len(groups.names) == 10
    assert groups.sizes.sum() == 10**6


def test_zero_has_no_sign_in_files_either(tmp_path):
    X = np.repeat([[0.0], [5.0]], 20, axis=0) + np.linspace(0, 1, 40)[:, None]
    signs = np.where(np.arange(40) % 3, 0.0, -0.0)
    frame = pd.DataFrame({"x": X[:, 0], "g": np.where(np.arange(40) % 2, signs, 1.0)})
    frame.to_parquet(tmp_path / "rows.parquet")
    model = FairMixture(2, max_gap=0.5, min_group_size=1, random_state=0)
    for rows in (frame, tmp_path / "rows.parquet"):
        model.fit(rows, sensitive_features="g")
        assert model.groups_.tolist() == ["0.0", "1.0"]
        assert model.group_sizes_.tolist() == [20, 20]
