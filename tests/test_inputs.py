"""Odd and wrong input to ``fit``: it works and says what it did, or one clear error says why not.

One test per row. In no row is an input changed, and nothing that comes out is NaN.
"""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp

from fairmix import FairMixture
from inputs import EMPTY, Bad, G, N, Odd, Row, X, assert_sound, frozen, matrix, refuse, warned

DAYS = pd.date_range("2020-01-01", periods=N)


def frame(**columns):
    """A data frame with one more numeric column."""
    return pd.DataFrame({**columns, "b": X[:, 1]})


def clusters(count):
    """The check that so many clusters have members."""

    def check(model):
        assert len(np.unique(model.labels_)) == count

    return check


def same_as_array(model):
    """The check that a fit is that of the plain array."""
    expected = FairMixture(2, max_gap=0.2, random_state=0).fit(X, sensitive_features=G)
    np.testing.assert_array_equal(model.labels_, expected.labels_)


def read_only():
    array = X.copy()
    array.setflags(write=False)
    return array


TYPES: dict[str, Row] = {
    "list of lists": Odd(lambda: X.tolist(), check=same_as_array),
    "tuple of tuples": Odd(lambda: tuple(map(tuple, X)), check=same_as_array),
    "whole numbers": Odd(lambda: (10 * X).astype(int)),
    "unsigned bytes": Odd(lambda: np.abs(10 * X).astype(np.uint8)),
    "bools": Odd(lambda: X > 0),
    "half precision": Odd(lambda: X.astype(np.float16)),
    "long double": Odd(lambda: X.astype(np.longdouble), check=same_as_array),
    "big-endian": Odd(lambda: X.astype(">f8"), check=same_as_array),
    "objects that are numbers": Odd(lambda: X.astype(object), check=same_as_array),
    "texts that are numbers": Odd(lambda: X.astype(str), check=same_as_array),
    "read-only": Odd(read_only, check=same_as_array),
    "Fortran order": Odd(lambda: np.asfortranarray(X), check=same_as_array),
    "every second row of an array": Odd(lambda: np.repeat(X, 2, axis=0)[::2], check=same_as_array),
    "columns of a wider array": Odd(lambda: np.c_[X, X][:, 2:], check=same_as_array),
    "an unmasked masked array": Odd(lambda: np.ma.array(X), check=same_as_array),
    "complex": Bad(lambda: X.astype(complex), "Complex data not supported"),
    "dates": Bad(lambda: X.astype("datetime64[s]"), r"type datetime64\[s\], not numbers"),
    "durations": Bad(lambda: X.astype("timedelta64[s]"), r"type timedelta64\[s\], not numbers"),
    "bytes": Bad(lambda: np.array([[b"a", b"b"]] * N), "could not convert string to float"),
    "words": Bad(lambda: np.array([["a", "b"]] * N), "could not convert string to float"),
    "records": Bad(lambda: np.zeros(N, [("a", float), ("b", int)]), "Cannot cast", TypeError),
    "masked values": Bad(lambda: np.ma.masked_greater(X, 1), "masked array with .* masked values"),
    "sparse matrix": Bad(lambda: sp.csr_matrix(X), "Sparse data was passed", TypeError),
    "sparse array": Bad(lambda: sp.coo_array(X), "Sparse data was passed", TypeError),
    "None": Bad(lambda: None, "Expected sequence or array-like", TypeError),
    "a number": Bad(lambda: 3, "Expected sequence or array-like", TypeError),
    "a generator": Bad(lambda: (x for x in [1]), "Expected sequence or array-like", TypeError),
    "an object": Bad(object, "Expected sequence or array-like", TypeError),
    "a name of no file": Bad(lambda: "no.csv", "'no.csv' matches no file", FileNotFoundError),
    "a folder without data": Bad(lambda: "/proc/self/fd", "no file", FileNotFoundError),
}

SHAPES: dict[str, Row] = {
    "one dimension": Bad(lambda: X[:, 0], "Expected 2D array, got 1D array"),
    "no dimension": Bad(lambda: np.float64(1), "at least 1 dimension", TypeError),
    "three dimensions": Bad(lambda: X[:, :, None], "Found array with dim 3"),
    "ragged rows": Bad(lambda: [[1.0, 2.0]] * (N - 1) + [[3.0]], "inhomogeneous shape"),
    "no column": Bad(lambda: np.empty((N, 0)), r"0 feature\(s\)"),
    "fewer rows than groups": Bad(lambda: X[:5], "has 60 rows, the data has 5"),
    "one column": Odd(lambda: X[:, :1]),
    "more columns than rows": Odd(
        lambda: np.random.default_rng(0).normal(size=(N, 80)), settings={"covariance_type": "diag"}
    ),
}

NUMBERS: dict[str, Row] = {
    "NaN": Odd(lambda: np.where(X > 2, np.nan, X)),
    "NaN beside matrices": Bad(
        lambda: np.where(X > 2, np.nan, X),
        r"missing \(NaN\), and this covariance_type needs complete rows",
        settings={"covariance_type": "full"},
    ),
    "a column of NaN": Bad(lambda: np.c_[X, np.full(N, np.nan)], "'x2' of X has no value"),
    "infinity": Bad(lambda: np.where(X > 2, np.inf, X), "infinity"),
    "minus infinity": Bad(lambda: np.where(X > 2, -np.inf, X), "infinity"),
    "1e300": Bad(lambda: 1e300 * X, "squares overflow in float64, first in numeric column 0"),
    "1e300 standardised": Bad(
        lambda: 1e300 * X, "squares overflow in float64", settings={"standardize": True}
    ),
    "one value of 1e300": Bad(
        lambda: np.where(np.arange(2 * N).reshape(N, 2) == 7, 1e300, X), "numeric column 1"
    ),
    "1e30 in single precision": Bad(
        lambda: (1e30 * X).astype(np.float32), "squares overflow in float32"
    ),
    "1e140": Odd(lambda: 1e140 * X, check=clusters(2)),
    "1e10 in single precision": Odd(lambda: (1e10 * X).astype(np.float32), check=clusters(2)),
    # On so few rows rounding may lead the search to another optimum; `test_numerics` has more.
    "an offset of 1e8": Odd(lambda: X + 1e8, check=clusters(2)),
    "1e-160 below the least variance": Odd(lambda: 1e-160 * X, (EMPTY,), clusters(1)),
    "1e-100 standardised": Odd(
        lambda: 1e-100 * X, check=clusters(2), settings={"standardize": True}
    ),
    "denormal": Odd(lambda: 1e-320 * X, (EMPTY,), clusters(1)),
    "negative zero": Odd(lambda: np.where(X > 0, X, -0.0)),
}

DEGENERATE: dict[str, Row] = {
    "a constant column": Odd(lambda: np.c_[X, np.ones(N)], check=clusters(2)),
    "a constant column standardised": Odd(
        lambda: np.c_[X, np.ones(N)], check=clusters(2), settings={"standardize": True}
    ),
    "constant columns only": Odd(lambda: np.ones((N, 2)), (EMPTY,), clusters(1)),
    "duplicate columns with matrices": Odd(
        lambda: np.c_[X, X], settings={"covariance_type": "full"}
    ),
    "duplicate columns without regularisation": Bad(
        lambda: np.c_[X, X],
        "'tied' meets a singular covariance .* Raise reg_covar",
        settings={"covariance_type": "tied", "reg_covar": 0},
    ),
    "duplicate rows only": Odd(lambda: np.repeat(X[:2], N // 2, axis=0), check=clusters(2)),
    "one row many times": Odd(lambda: np.repeat(X[:1], N, axis=0), (EMPTY,), clusters(1)),
    "duplicate rows without regularisation": Bad(
        lambda: np.repeat(X[:2], N // 2, axis=0),
        "'full' meets a singular covariance .* Raise reg_covar",
        settings={"covariance_type": "full", "reg_covar": 0, "fairness_strength": 0},
    ),
    "more clusters than different rows": Odd(
        lambda: np.repeat(X[:2], N // 2, axis=0),
        (EMPTY,),
        settings={"n_components": 3, "fairness_strength": 0},
    ),
}

FRAMES: dict[str, Row] = {
    "pandas": Odd(lambda: pd.DataFrame(X, columns=["a", "b"]), check=same_as_array),
    "polars": Odd(lambda: pl.DataFrame(X, schema=["a", "b"]), check=same_as_array),
    "arrow": Odd(lambda: pa.table({"a": X[:, 0], "b": X[:, 1]}), check=same_as_array),
    "nullable numbers": Odd(lambda: frame(a=pd.array(X[:, 0], dtype="Float64"))),
    "nullable whole numbers": Odd(lambda: frame(a=pd.array([*range(N // 2)] * 2, dtype="Int64"))),
    "a missing category": Odd(lambda: frame(a=["u", None, "v"] * (N // 3))),
    "a missing number": Odd(lambda: frame(a=np.where(X[:, 0] > 1, np.nan, X[:, 0]))),
    "nullable bools": Odd(lambda: frame(a=pd.array(X[:, 0] > 0, dtype="boolean"))),
    "categories, one unused": Odd(
        lambda: frame(a=pd.Categorical(["u", "v"] * (N // 2), categories=["u", "v", "w"])),
        check=lambda model: model.categories_[0].tolist() == ["u", "v"],
    ),
    "one category only": Odd(lambda: frame(a=["u"] * N)),
    "empty text as a category": Odd(lambda: frame(a=["", "v"] * (N // 2))),
    "unicode names and categories": Odd(
        lambda: pd.DataFrame({"größe\u202e": X[:, 0], "名前\n": ["ä", "名"] * (N // 2)}),
        check=lambda model: model.feature_names_in_.tolist() == ["größe\u202e", "名前\n"],
    ),
    "an empty column name": Odd(lambda: pd.DataFrame(X, columns=["", "b"]), check=same_as_array),
    "numbers as column names": Odd(lambda: pd.DataFrame(X), check=same_as_array),
    "the same name twice": Bad(
        lambda: pd.DataFrame(X, columns=["a", "a"]), "X has more than one column 'a'"
    ),
    "an index that repeats": Odd(lambda: pd.DataFrame(X, index=[7] * N), check=same_as_array),
    "names of two kinds": Bad(
        lambda: pd.DataFrame(X, columns=[0, "b"]), "all input features have string names", TypeError
    ),
    "no row": Bad(lambda: pd.DataFrame({"a": [], "b": []}), "60 rows, the data has 0"),
    "no column": Bad(lambda: pd.DataFrame(index=range(N)), r"0 feature\(s\)"),
    "dates": Bad(lambda: frame(a=DAYS), "'a' of X has type Datetime.*not numbers"),
    "dates beside categories": Bad(lambda: frame(a=DAYS, c=["u"] * N), "'a' .*not numbers"),
    "durations": Bad(lambda: frame(a=DAYS - DAYS[0]), "'a' of X has type Duration.*not numbers"),
    "complex": Bad(lambda: frame(a=X[:, 0] + 1j), "'a' of X has type .*not numbers"),
    "periods": Bad(lambda: frame(a=DAYS.to_period()), "'a' of X has type .*not numbers"),
    "sparse columns": Odd(
        lambda: pd.DataFrame(X, columns=["a", "b"]).astype(pd.SparseDtype(float)),
        check=same_as_array,
    ),
    "lists in cells": Bad(lambda: frame(a=[[1], [2]] * (N // 2)), "'a'"),
    "dicts in cells": Bad(lambda: frame(a=[{1: 2}] * N), "'a'"),
    "structs": Bad(lambda: pl.DataFrame({"a": [{"u": 1}] * N, "b": X[:, 0]}), "not numbers"),
    "nothing but null": Bad(lambda: pl.DataFrame({"a": [None] * N, "b": X[:, 0]}), "."),
    "no category": Bad(lambda: frame(a=pd.Series([None] * N, dtype="string")), "has no value"),
    "a lazy frame": Bad(lambda: pl.DataFrame({"a": X[:, 0]}).lazy(), ".", Exception),
    "a series": Bad(lambda: pd.Series(X[:, 0]), "Expected.*2D|1D|2-dimensional"),
}


@matrix(
    {f"type: {name}": row for name, row in TYPES.items()}
    | {f"shape: {name}": row for name, row in SHAPES.items()}
    | {f"numbers: {name}": row for name, row in NUMBERS.items()}
    | {f"degenerate: {name}": row for name, row in DEGENERATE.items()}
    | {f"frame: {name}": row for name, row in FRAMES.items()}
)
def test_fit_on_odd_or_wrong_rows(row):
    table, groups = row.make(), G.copy()
    before = frozen((table, groups))
    settings = {"n_components": 2, "max_gap": 0.2, "random_state": 0} | row.settings
    model = FairMixture(**settings)
    if isinstance(row, Bad):
        refuse(lambda: model.fit(table, sensitive_features=groups), row)
        assert not hasattr(model, "weights_")
    else:
        with warned(*row.warns):
            model.fit(table, sensitive_features=groups)
        assert_sound(model, N)
        if row.check is not None:
            assert row.check(model) in (None, True)
        again = model.predict(table)
        np.testing.assert_array_equal(again, model.labels_)
    assert frozen((table, groups)) == before


@pytest.mark.parametrize("mode", ["r", "r+", "c"])
def test_a_memory_map_is_read_and_not_written(mode, tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, X)
    content = path.read_bytes()
    table = np.load(path, mmap_mode=mode)
    with warned():
        model = FairMixture(2, max_gap=0.2, random_state=0).fit(table, sensitive_features=G)
        found = model.predict(table)
    same_as_array(model)
    np.testing.assert_array_equal(found, model.labels_)
    np.testing.assert_array_equal(table, X)
    assert path.read_bytes() == content


def test_one_row_is_one_cluster():
    with warned():
        model = FairMixture(1, random_state=0).fit(X[:1])
    assert_sound(model, 1)
    np.testing.assert_allclose(model.means_, X[:1])
    assert model.predict_proba(X[:1]).tolist() == [[1.0]]


@pytest.mark.parametrize(("n_rows", "message"), [(1, "X has n_samples=1"), (0, r"0 sample\(s\)")])
def test_too_few_rows_for_two_clusters(n_rows, message):
    with pytest.raises(ValueError, match=message):
        FairMixture(2, random_state=0).fit(X[:n_rows])
