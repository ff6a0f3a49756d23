"""What the tests of odd and wrong input share: a small data set, rows of the matrix, checks."""

from __future__ import annotations

import copy
import pickle
import re
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from fairmix.datasets import make_grouped_blobs

N = 60
X, G, _ = make_grouped_blobs(N, 2, 2, random_state=0)
FRAME = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": ["u", "v"] * (N // 2)})
NUMBERS = pd.DataFrame(X, columns=["a", "b"])

# Modules whose business it is to check input.
DOORS = r"src.fairmix|site-packages.fairmix|sklearn.utils.validation|sklearn.utils._param|narwhals"
# What a fit says of itself where it did not do all that was asked.
SMALL = "Not judged: .* Groups of fewer than min_group_size="
EMPTY = r"Only \d+ of n_components=\d+ clusters have members"
MISSED = "above max_gap"
UNSETTLED = "`max_iter` was reached"


@dataclass(frozen=True)
class Odd:
    """Input that works: what must be warned of, and a check of what came out."""

    make: Callable[[], Any]
    warns: tuple[str, ...] = ()
    check: Callable[[Any], object] | None = None
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Bad:
    """Input that is refused: what the one error says."""

    make: Callable[[], Any]
    message: str
    error: type[Exception] = ValueError
    settings: dict[str, Any] = field(default_factory=dict)


Row = Odd | Bad


def matrix(rows: dict[str, Row]) -> pytest.MarkDecorator:
    """One test per row; its id says what is odd or bad."""
    return pytest.mark.parametrize("row", rows.values(), ids=rows.keys())


def frozen(value: Any) -> Any:
    """A picture of an input, to see later that it is as it was."""
    if isinstance(value, np.ma.MaskedArray):
        return "masked", value.data.tobytes(), np.ma.getmaskarray(value).tobytes()
    if isinstance(value, np.ndarray):
        content = value.tolist() if value.dtype == object else value.tobytes()
        return value.dtype, value.shape, value.strides, value.flags.writeable, repr(content)
    if isinstance(value, pd.DataFrame):
        columns = [frozen(value.iloc[:, j]) for j in range(value.shape[1])]
        return list(value.columns), list(value.index), columns
    if isinstance(value, pd.Series):
        return str(value.dtype), repr(value.tolist())
    if isinstance(value, pa.Table | pa.RecordBatch):
        return value.schema, repr(value.to_pylist())
    if isinstance(value, pl.DataFrame):
        return repr(value.to_dict(as_series=False))
    if isinstance(value, tuple | list):
        return [frozen(entry) for entry in value[:100]]
    if isinstance(value, Path) or not hasattr(value, "__dict__"):
        return repr(value)
    try:
        return pickle.dumps(value)
    except (TypeError, AttributeError, pickle.PicklingError):
        return repr(copy.copy(value))


def refuse(call: Callable[[], Any], row: Bad) -> None:
    """The call raises the one error that the row names, at a door and not deep inside."""
    with warnings.catch_warnings():
        # Whatever is warned of on the way, the error is what counts; but never of arithmetic.
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RuntimeWarning)
        with pytest.raises(row.error, match=row.message) as caught:
            call()
    origin = type(caught.value).__module__.split(".")[0]
    assert origin in {"builtins", "fairmix", "sklearn", "narwhals"}, origin
    files = [frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert any(re.search(DOORS, name) for name in files[-4:]), files


@contextmanager
def warned(*expected: str) -> Iterator[None]:
    """Exactly these warnings come, in any order."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    # A library that is imported for the first time may be compiled, and its syntax warned of.
    caught = [warning for warning in caught if warning.category is not SyntaxWarning]
    messages = [str(warning.message) for warning in caught]
    for message in messages:
        assert any(re.search(pattern, message) for pattern in expected), message
    for pattern in expected:
        assert any(re.search(pattern, message) for message in messages), (pattern, messages)


def assert_sound(model: Any, n_rows: int) -> None:
    """A fitted model without a silent NaN: finite figures, labels in range, true counts."""
    n_components = model.n_components
    for name, value in vars(model).items():
        if name.endswith("_") and isinstance(value, np.ndarray) and value.dtype.kind == "f":
            assert np.isfinite(value).all(), (name, value)
    compared = len(model.groups_) > 1
    for name in ("gap_", "label_gap_", "soft_gap_", "balance_", "resolution_"):
        assert np.isfinite(getattr(model, name)) == compared, name
    assert np.isfinite(model.lower_bound_)
    assert model.weights_.shape == (n_components,)
    np.testing.assert_allclose(model.weights_.sum(), 1)
    assert np.isfinite(model.history_["objective"]).all()
    assert np.isfinite(model.history_["gap"]).all() or not compared
    assert model.labels_.shape == (n_rows,)
    assert model.labels_.dtype.kind == "i"
    assert ((model.labels_ >= 0) & (model.labels_ < n_components)).all()
    assert (model.rates_ is not None) == compared
    if compared:
        np.testing.assert_allclose(model.rates_.sum(axis=1), 1, rtol=1e-6)
    if hasattr(model, "covariances_"):
        covariances = np.asarray(model.covariances_)
        if model.covariance_type in ("tied", "full"):
            assert (np.linalg.eigvalsh(covariances) > 0).all()
        else:
            assert (covariances >= 0.999 * max(model.reg_covar, 1e-200)).all()
