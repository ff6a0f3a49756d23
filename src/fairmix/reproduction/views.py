"""Views: rows and columns of a data set as the paper prepares them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairmix.datasets import (
    CensusData,
    Dataset,
    fetch_bank,
    fetch_census,
    fetch_credit,
    load_adult,
    make_census_like,
    paper_preprocessing,
)

# Group columns by data set and number of groups.
GROUPS = {
    ("adult", 2): "sex",
    ("bank", 2): "married",
    ("bank", 3): "marital",
    ("credit", 2): "education2",
    ("credit", 3): "education",
    ("census", 2): "sex",
    ("census-like", 2): "sex",
}
OUTCOMES = {"adult": "income"}
TITLES = {
    "adult": "Adult",
    "bank": "Bank",
    "credit": "Credit",
    "census": "Census",
    "census-like": "census-like (synthetic)",
}
SAMPLE_SEED = 0  # of the rows of a view that has fewer than its data set
# What `fetch_census` finds in the folder FAIRMIX_DATA; anything else would be a long download.
CENSUS_FILES = (
    "census.parquet",
    "USCensus1990raw.data.txt",
    "USCensus1990raw.data.txt.gz",
    "USCensus1990raw.data.txt.zip",
)


@dataclass(frozen=True)
class View:
    """Which rows and columns of which data set.

    Attributes
    ----------
    data : str
        Data set.
    columns : {"continuous", "categorical", "mixed"}
        Which of its columns.
    unit_length : bool
        Whether rows are scaled to length 1 after the columns are standardised (L2).
    groups : int
        Two or three groups.
    rows : int or None
        Rows of a random sample, None for all.
    """

    data: str
    columns: str = "continuous"
    unit_length: bool = True
    groups: int = 2
    rows: int | None = None


@dataclass(frozen=True, eq=False)
class Prepared:
    """A view, ready for a fit.

    Attributes
    ----------
    X : ndarray or pyarrow.Table
        What a method is fitted to.
    numeric : ndarray or None
        Its continuous columns, prepared.
    groups : ndarray of str
        Group of each row.
    outcome : ndarray of str or None
        Label of each row, for evaluation only.
    """

    X: Any
    numeric: NDArray[np.float64] | None
    groups: NDArray[Any]
    outcome: NDArray[Any] | None


# Units come view by view, so a few are enough.
@lru_cache(maxsize=4)
def prepare(view: View) -> Prepared:
    """Load, sample and prepare."""
    data = _load(view.data, view.rows)
    groups = np.asarray(data.sensitive[GROUPS[view.data, view.groups]])
    # Sampled before anything is standardised, as if the sample were the data set.
    rows = _sample(len(groups), view.rows)
    outcome = None
    if view.data in OUTCOMES and isinstance(data, Dataset):
        outcome = np.asarray(data.outcomes[OUTCOMES[view.data]])[rows]
    if view.columns == "categorical":
        assert isinstance(data, Dataset)
        table = data.mixed().select(data.category_names).take(pa.array(rows))
        return Prepared(table, None, groups[rows], outcome)
    numeric = _standardised(data.X[rows], view.unit_length)
    X: Any = numeric
    if view.columns == "mixed":
        assert isinstance(data, Dataset)
        X = data.mixed().take(pa.array(rows))
        for j, name in enumerate(data.feature_names):
            # The prepared numbers in place of the raw ones; numeric columns come first in the
            # table.
            X = X.set_column(j, name, pa.array(numeric[:, j]))
    return Prepared(X, numeric, groups[rows], outcome)


def best_balance(view: View) -> float:
    """Balance of all rows: the best that any clustering reaches."""
    # No cluster can have a better ratio than all rows without another that has a worse one.
    sizes = np.unique(prepare(view).groups, return_counts=True)[1]
    return float(sizes.min() / sizes.max())


def describe(view: View) -> str:
    """Rows, columns and preparation in words."""
    words = [TITLES[view.data], f"{view.rows:,} rows" if view.rows else "all rows", view.columns]
    if view.columns != "categorical":
        words.append("standardised, rows of length 1" if view.unit_length else "standardised")
    return ", ".join([*words, f"{view.groups} groups"])


def sample_notes(view: View) -> list[str]:
    """A sentence where a view has not all rows of its data set, else nothing."""
    if view.rows is None:
        return []
    return [
        f"This run uses a random sample of {view.rows:,} rows from each data set; a full run uses "
        "all rows."
    ]


def census_source() -> str:
    """The Census data where its file is, else the synthetic rows."""
    folder = os.environ.get("FAIRMIX_DATA")
    # Only looks for the file: choosing the settings of a run must not start a download.
    held = folder and any((Path(folder) / name).is_file() for name in CENSUS_FILES)
    return "census" if held else "census-like"


def _load(name: str, rows: int | None) -> Dataset | CensusData:
    if name == "census-like":
        # Row i depends on i only, so the first rows are as good as any.
        return make_census_like() if rows is None else make_census_like(rows)
    return _whole(name)


@lru_cache(maxsize=2)
def _whole(name: str) -> Dataset | CensusData:
    loaders: dict[str, Callable[[], Dataset | CensusData]] = {
        "adult": load_adult,
        "bank": fetch_bank,
        "credit": fetch_credit,
        "census": fetch_census,
    }
    return loaders[name]()


def _sample(n_rows: int, wanted: int | None) -> NDArray[np.intp]:
    if wanted is None or wanted >= n_rows:
        return np.arange(n_rows)
    rng = np.random.default_rng(SAMPLE_SEED)
    # Sorted, so that a sample keeps the order of the file.
    return np.sort(rng.choice(n_rows, wanted, replace=False))


def _standardised(X: NDArray[Any], unit_length: bool) -> NDArray[np.float64]:
    if unit_length:
        return paper_preprocessing(X)
    data = np.asarray(X, dtype=np.float64)
    deviation = data.std(axis=0)
    # A constant column becomes zero, not NaN.
    scaled: NDArray[np.float64] = (data - data.mean(axis=0)) / np.where(deviation > 0, deviation, 1)
    return scaled
