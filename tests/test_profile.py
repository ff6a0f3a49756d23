"""A profile is exact, whatever the blocks, and holds no row."""

from itertools import pairwise

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from fairmix.metrics import group_counts
from fairmix.results import profile as module
from fairmix.results.profile import Profile

RNG = np.random.default_rng(0)
N = 1000
PEOPLE = pd.DataFrame(
    {
        "age": RNG.normal(40, 12, N),
        "wage": RNG.lognormal(8, 1, N) + 1e8,
        "children": RNG.integers(0, 5, N),
        "town": RNG.choice(["A", "B", "C & D"], N),
        "owner": RNG.random(N) < 0.3,
        "sex": RNG.choice(["f", "m"], N),
        "race": RNG.choice(["x", "y", "z"], N),
    }
)
PEOPLE.loc[::7, "age"] = np.nan
PEOPLE.loc[::11, "town"] = None
LABELS = RNG.choice(["low", "mid", "top"], N)


def check(profile: Profile, frame: pd.DataFrame = PEOPLE) -> None:
    """The moments and counts are those of pandas."""
    by_cluster = frame.groupby(LABELS)
    for name in ("age", "wage", "children"):
        column, found = frame[name], profile.numbers[name]
        np.testing.assert_allclose(found.means, by_cluster[name].mean(), rtol=1e-14)
        np.testing.assert_allclose(found.stds, by_cluster[name].std(ddof=0), rtol=1e-9)
        np.testing.assert_array_equal(found.counts, by_cluster[name].count())
        np.testing.assert_array_equal(found.missing, column.isna().groupby(LABELS).sum())
        assert found.mean == pytest.approx(column.mean(), rel=1e-14)
        assert found.std == pytest.approx(column.std(ddof=0), rel=1e-9)
    for name in ("town", "owner"):
        expected = pd.crosstab(frame[name].map(str, na_action="ignore"), LABELS)
        found = profile.categories[name]
        assert {key: row.tolist() for key, row in found.counts.items()} == {
            key: row.tolist() for key, row in zip(expected.index, expected.values, strict=True)
        }
        np.testing.assert_array_equal(found.missing, frame[name].isna().groupby(LABELS).sum())
    np.testing.assert_array_equal(profile.counts, group_counts(LABELS, frame[["sex", "race"]]))


@pytest.mark.parametrize("convert", [lambda frame: frame, pl.from_pandas, pa.Table.from_pandas])
def test_a_table_of_any_library_gives_the_figures_of_pandas(convert):
    profile = Profile.from_frame(convert(PEOPLE), LABELS, ["sex", "race"])
    assert profile.clusters == ("low", "mid", "top")
    assert profile.groups[0] == "f & x"
    assert profile.title == "sex & race"
    assert profile.n_rows == N
    assert "sex" not in profile.categories
    check(profile)


@pytest.mark.parametrize("cuts", [[1], [3, 500], [0, 1, 2, 999]])
def test_blocks_give_the_figures_of_the_whole(cuts):
    whole = Profile.from_frame(PEOPLE, LABELS, ["sex", "race"])
    parts = Profile(
        numeric=["age", "wage", "children"],
        categorical=["town", "owner"],
        groups=whole.groups,
        n_clusters=3,
        clusters=whole.clusters,
    )
    edges = [0, *cuts, N]
    for start, end in pairwise(edges):
        if start < end:
            block = PEOPLE.iloc[start:end]
            parts.add(block, LABELS[start:end], block[["sex", "race"]])
    check(parts)


def test_missing_and_infinite_values_are_counted_apart():
    frame = pl.DataFrame({"v": [1.0, float("nan"), None, float("inf"), 5.0], "c": [None] * 5})
    profile = Profile.from_frame(
        frame, [0, 0, 0, 1, 1], ["a", "b"] * 2 + ["a"], categorical=["c"], numeric=["v"]
    )
    assert profile.numbers["v"].missing.tolist() == [2, 1]
    assert profile.numbers["v"].means.tolist() == [1.0, 5.0]
    assert profile.categories["c"].missing.tolist() == [3, 2]
    assert profile.categories["c"].counts == {}


def test_numbers_as_categories_leave_nan_out():
    frame = pl.DataFrame({"c": [1.0, float("nan"), 1.0]})
    profile = Profile.from_frame(frame, [0, 0, 1], ["a", "b", "a"], categorical=["c"], numeric=[])
    assert {k: v.tolist() for k, v in profile.categories["c"].counts.items()} == {"1.0": [1, 1]}
    assert profile.categories["c"].missing.tolist() == [1, 0]


def test_columns_of_an_array_have_the_names_of_the_estimator():
    profile = Profile.from_frame(np.array([[1.0, 2.0], [3.0, 4.0]]), [0, 1], ["a", "b"])
    assert list(profile.numbers) == ["x0", "x1"]
    assert profile.numbers["x1"].mean == 3.0


def test_dates_are_left_out_and_an_empty_cluster_stays():
    frame = pd.DataFrame({"day": pd.to_datetime(["2024-01-01", "2024-01-02"]), "v": [1.0, 2.0]})
    profile = Profile.from_frame(frame, [0, 2], ["a", "b"], clusters=["0", "1", "2"])
    assert list(profile.numbers) == ["v"]
    assert not profile.categories
    assert profile.counts.sum(axis=0).tolist() == [1, 0, 1]


def test_categories_past_the_limit_are_counted_together(monkeypatch):
    monkeypatch.setattr(module, "LEVELS", 2)
    frame = pd.DataFrame({"c": ["a", "b", "c", "a", "d"]})
    column = Profile.from_frame(frame, [0, 0, 0, 1, 1], ["x", "y"] * 2 + ["x"]).categories["c"]
    assert {name: row.tolist() for name, row in column.counts.items()} == {
        "a": [1, 1],
        "b": [1, 0],
    }
    assert column.rest.tolist() == [1, 1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": [0, 3]}, "labels holds clusters that the model has not seen: '3'"),
        ({"groups": ["a", "?"]}, r"groups holds groups that the model has not seen: '\?'"),
        ({"groups": ["a"]}, "groups has 1 rows, the data has 2"),
        ({"block": pd.DataFrame({"w": [1.0, 2.0]})}, "no column 'v'. It has 'w'"),
        ({"block": pd.DataFrame({"v": [1.0, 2.0, 3.0]})}, "labels has 2 rows, the block has 3"),
        ({"block": pd.DataFrame({"v": ["one", "two"]})}, "Column 'v' has type String, not numbers"),
        ({"block": [1.0, 2.0]}, "list of 1 dimensions"),
    ],
)
def test_errors_say_what_is_wrong(change, message):
    profile = Profile(numeric=["v"], groups=["a", "b"], n_clusters=2)
    given = {"block": pd.DataFrame({"v": [1.0, 2.0]}), "labels": [0, 1], "groups": ["a", "b"]}
    with pytest.raises(ValueError, match=message):
        profile.add(**(given | change))
    assert profile.n_rows == 0


def test_unknown_sensitive_column_and_wrong_names_are_named():
    with pytest.raises(ValueError, match="sensitive='gender' is not a column"):
        Profile.from_frame(PEOPLE, LABELS, "gender")
    with pytest.raises(ValueError, match="clusters has 1 names, n_clusters=2"):
        Profile(groups=["a"], n_clusters=2, clusters=["x"])
