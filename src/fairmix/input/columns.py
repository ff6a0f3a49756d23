"""Columns: which are numeric, which are categorical, and how new rows become ``Rows``.

The one place that reads the user's table. Inner rooms see float arrays and integer codes only,
with NaN and the code -1 for what is missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from fairmix.input.groups import MISSING, encode_labels, listed
from fairmix.kernels.totals import FloatArray, IntArray, Rows
from fairmix.system.arrow import is_arrow, pa
from fairmix.tables import index_columns

# Kinds of NumPy's types that are numbers.
NUMBERS = ("b", "i", "u", "f")
# A table as this room takes it: a data frame, or an array that has been checked.
Tabular = nw.DataFrame[Any] | NDArray[Any]

# Objects are what pandas makes of mixed values.
CATEGORICAL_DTYPES = (nw.Categorical, nw.Enum, nw.String, nw.Boolean, nw.Object)
# Rows that are standardised side by side: NumPy's loops over the few columns of one row are short.
TILE = 64


def as_frame(X: object) -> nw.DataFrame[Any] | None:
    """X as a data frame, or None when it is none."""
    if isinstance(X, np.ndarray):
        return None  # narwhals would say the same, after tens of microseconds
    if is_arrow(X) and isinstance(X, pa.RecordBatch):
        X = pa.Table.from_batches([X])
    if is_arrow(X) and isinstance(X, pa.Table) and (index := index_columns(X.schema)):
        # It came from pandas, where the index is no column.
        X = X.drop_columns([name for name in index if name in X.column_names])
    try:
        native = nw.from_native(X, eager_only=True, pass_through=True)
    except nw.exceptions.DuplicateError:
        # Its words do not say what to do.
        check_names(X, "X")
        raise
    if not isinstance(native, nw.DataFrame):
        return None
    # Arrow tables may have them, too, and narwhals lets them in.
    check_names(X, "X")
    return native


def check_names(table: Any, argument: str) -> None:
    """Refuse names that repeat, or that cannot be written."""
    names = list(table.column_names if is_arrow(table) else table.columns)
    if len(set(names)) < len(names):
        twice = [name for name, times in Counter(names).items() if times > 1]
        raise ValueError(
            f"{argument} has more than one column {twice[0]!r}. Rename one of them: nothing could "
            "tell them apart."
        )
    for name in names:
        if isinstance(name, str) and not name.isascii():
            try:
                name.encode("utf-8")
            except UnicodeEncodeError:
                raise ValueError(
                    f"{argument} has a column {name!r}, whose name holds half of a character. "
                    "Rename it."
                ) from None


def has_categories(frame: nw.DataFrame[Any] | None, categorical_features: object) -> bool:
    """Whether some column is to be read as categories."""
    if categorical_features is None:
        return False
    if isinstance(categorical_features, str):
        return frame is not None and bool(_coded(frame))
    return np.size(np.asarray(categorical_features)) > 0


@dataclass(frozen=True, eq=False)
class Columns:
    """Roles of the columns of a table.

    Attributes
    ----------
    names : tuple of str
        Names, ``x0, x1, ...`` for an array.
    categorical : tuple of int
        Positions of the categorical columns.
    levels : tuple of tuple of str
        Categories of each categorical column, sorted by value.
    mean, scale : (d,) arrays or None
        Standardisation of the numeric columns, when there is one.
    complete : bool
        Whether numbers must not be missing.
    ignore_unknown : bool
        Whether a category that was not learned counts as missing. It is an error otherwise.
    """

    names: tuple[str, ...]
    categorical: tuple[int, ...]
    levels: tuple[tuple[str, ...], ...]
    mean: FloatArray | None = None
    scale: FloatArray | None = None
    complete: bool = False
    ignore_unknown: bool = False

    @property
    def numeric(self) -> tuple[int, ...]:
        """Positions of the numeric columns."""
        categorical = set(self.categorical)
        return tuple(j for j in range(len(self.names)) if j not in categorical)

    @classmethod
    def learn(
        cls,
        X: Tabular,
        categorical_features: object,
        *,
        complete: bool = False,
    ) -> Columns:
        """Roles and categories from the training data."""
        if isinstance(X, nw.DataFrame):
            names = tuple(str(name) for name in X.columns)
        else:
            names = tuple(f"x{j}" for j in range(X.shape[1]))
        categorical = categorical_positions(categorical_features, X, names)
        levels = tuple(category_levels(_column(X, j), names[j]) for j in categorical)
        return cls(names, categorical, levels, complete=complete)

    def rows(self, X: Tabular, *, by_column: bool = False) -> Rows:
        """Numbers (standardised if so learned) and category codes of some rows.

        ``by_column``: numbers of a data frame lie column by column in memory, as they come.
        """
        numeric = self.numbers(X, by_column=by_column) if self.numeric else None
        if numeric is not None and self.mean is not None and self.scale is not None:
            numeric = _standardised(numeric, self.mean, self.scale)
        return Rows(numeric, self._codes(X) if self.categorical else None)

    def standardized(self, mean: FloatArray, variance: FloatArray) -> Columns:
        """The same roles with a scale for the numeric columns."""
        if not self.numeric:
            return self
        # A constant column has no scale; it becomes zero. Rounding leaves its deviation at about
        # 1e-16 of the mean, so zero alone would not find it.
        constant = variance <= (1e-14 * np.abs(mean)) ** 2
        return replace(self, mean=mean, scale=np.where(constant, 1.0, np.sqrt(variance)))

    def table(self, rows: Rows) -> NDArray[Any]:
        """Rows in the user's terms: numbers in their units, categories by name where needed."""
        n_rows = rows.n_rows
        numeric = rows.numeric
        if numeric is not None and self.mean is not None and self.scale is not None:
            numeric = numeric * self.scale + self.mean
        if rows.codes is None:
            assert numeric is not None
            return numeric
        out = np.empty((n_rows, len(self.names)), dtype=object)
        if numeric is not None:
            out[:, self.numeric] = numeric
        for j, codes, levels in zip(self.categorical, rows.codes.T, self.levels, strict=True):
            out[:, j] = np.array(levels, dtype=object)[codes]
        return out

    def numbers(self, X: Tabular, *, by_column: bool = False) -> FloatArray:
        """Numeric columns as they are, in single precision if all of them are.

        ``by_column`` as in `rows`.
        """
        if isinstance(X, np.ndarray) and X.dtype.kind == "f" and not self.categorical:
            # The usual case: no copy is made of an array that is contiguous.
            return self._finite(np.ascontiguousarray(X))
        columns = [_values(X, j) for j in self.numeric]
        for j, column in zip(self.numeric, columns, strict=True):
            if column.dtype.kind not in "biuf":
                raise ValueError(
                    f"{column_title(self.names[j])} has type {column.dtype}, not numbers. "
                    "Convert it, drop it, or name it in categorical_features."
                )
        # One precision for all, because a pass is one product; single only if no digits are lost.
        single = all(column.dtype == np.float32 for column in columns)
        dtype = np.float32 if single else np.float64
        out: NDArray[Any] = np.stack(columns, dtype=dtype).T
        # Turned as a whole: NumPy's `column_stack` writes number by number, five times as slow.
        return self._finite(out if by_column else np.ascontiguousarray(out))

    def _finite(self, out: FloatArray) -> FloatArray:
        """Refuse infinity and, where numbers must not be missing, NaN."""
        # One sweep without an array of flags: NaN and infinity spoil the sum. So do huge numbers,
        # which are looked at in full.
        with np.errstate(over="ignore", invalid="ignore"):
            total = out.sum()
        if not np.isfinite(total):
            self._refuse(np.isinf(out), "infinity", "Drop or replace them.")
            if self.complete:
                self._refuse(
                    np.isnan(out),
                    "missing (NaN), and this covariance_type needs complete rows",
                    "Drop or impute them, or choose a covariance_type that integrates them out, "
                    "such as 'diag'.",
                )
        return out

    def _refuse(self, bad: NDArray[np.bool_], what: str, remedy: str) -> None:
        counts = bad.sum(axis=0)
        if counts.any():
            first = int(np.flatnonzero(counts)[0])
            title = column_title(self.names[self.numeric[first]])
            raise ValueError(f"{title} has {counts[first]} values that are {what}. {remedy}")

    def check_observed(self, weight: FloatArray) -> None:
        """Refuse numeric columns without any value, given the weight of their values."""
        for j, observed in zip(self.numeric, weight, strict=True):
            if observed == 0:
                _refuse_empty(self.names[j])

    def _codes(self, X: Tabular) -> IntArray:
        codes = [
            _match(_column(X, j), levels, self.names[j], ignore_unknown=self.ignore_unknown)
            for j, levels in zip(self.categorical, self.levels, strict=True)
        ]
        return np.stack(codes, axis=1)


def _standardised(numeric: FloatArray, mean: FloatArray, scale: FloatArray) -> FloatArray:
    """Rows less the mean, in units of the scale, in their precision."""
    # In double precision, and rounded once at the end.
    if not numeric.flags.c_contiguous:
        out, spare = np.empty_like(numeric), np.empty(len(numeric))
        for column, to, middle, unit in zip(numeric.T, out.T, mean, scale, strict=True):
            np.subtract(column, middle, out=spare, dtype=np.float64)
            spare /= unit
            to[:] = spare
        return out
    n_rows, width = numeric.shape
    whole = n_rows - n_rows % TILE
    out = np.empty(numeric.shape)
    for part, times in ((slice(0, whole), TILE), (slice(whole, n_rows), 1)):
        own = out[part].reshape(-1, times * width)
        np.subtract(numeric[part].reshape(own.shape), np.tile(mean, times), out=own)
        own /= np.tile(scale, times)
    return out.astype(numeric.dtype, copy=False)


def column_title(name: str) -> str:
    """How error messages call a column."""
    return f"Column {name!r} of X"


def category_levels(values: object, name: str) -> tuple[str, ...]:
    """Categories of a column, given all its values or each of them once."""
    levels = encode_labels(values, column_title(name))[1]
    if not levels:
        _refuse_empty(name)
    return levels


def _match(values: object, levels: Sequence[str], name: str, *, ignore_unknown: bool) -> IntArray:
    """Position of each value among the levels, -1 where it is missing or to be ignored."""
    codes, found = encode_labels(values, column_title(name))
    position = {level: code for code, level in enumerate(levels)}
    unseen = [label for label in found if label not in position]
    if unseen and not ignore_unknown:
        raise ValueError(
            f"{column_title(name)} holds categories that the model has not seen: {listed(unseen)}. "
            f"It knows {listed(levels)}. Fit again on data with all categories, or set "
            "handle_unknown='ignore', which counts them as missing."
        )
    # The extra last entry is where the code -1 of a missing label points.
    known = [*(position.get(label, MISSING) for label in found), MISSING]
    return np.array(known, dtype=np.intp).take(codes)


def _refuse_empty(name: str) -> None:
    raise ValueError(f"{column_title(name)} has no value, all are missing (NaN). Drop it.")


def _column(X: Tabular, j: int) -> Any:
    # By position: names need be neither strings nor different from each other.
    if not isinstance(X, nw.DataFrame):
        return X[:, j]
    native = X.to_native()
    # Arrow itself is several times faster for the small tables that files are read in.
    return native.column(j) if is_arrow(native) else X[:, j]


def _values(X: Tabular, j: int) -> NDArray[Any]:
    column = _column(X, j)
    # NumPy would hold amounts of money as objects, and so it would what has no value at all.
    if is_arrow(column) and (pa.types.is_decimal(column.type) or pa.types.is_null(column.type)):
        column = column.cast(pa.float64())
    values = column.to_numpy() if isinstance(column, nw.Series) else np.asarray(column)
    if values.dtype.kind != "O":
        return values
    # Numbers may come as objects, with None or pandas.NA among them.
    try:
        found = pa.array(values, from_pandas=True)
    except pa.ArrowException:
        return values
    if pa.types.is_decimal(found.type) or (len(found) and pa.types.is_null(found.type)):
        found = found.cast(pa.float64())
    number = pa.types.is_integer(found.type) or pa.types.is_floating(found.type)
    return found.to_numpy(zero_copy_only=False) if number else values


def categorical_positions(
    chosen: object, X: Tabular | None, names: tuple[str, ...]
) -> tuple[int, ...]:
    """Categorical columns as sorted positions; X, if there is one, knows them by type."""
    if chosen is None:
        return ()
    if isinstance(chosen, str):
        if chosen != "from_dtype":
            raise ValueError(
                f"categorical_features={chosen!r}. Give 'from_dtype', a mask, names or positions; "
                "one name goes in a list."
            )
        if not isinstance(X, nw.DataFrame):
            return ()
        return _coded(X)
    given = np.asarray(chosen)
    if given.size == 0:
        return ()
    if given.dtype.kind == "b":
        if given.shape != (len(names),):
            raise ValueError(
                f"categorical_features is a mask of {given.size} entries, X has {len(names)} "
                "columns. Give one entry per column."
            )
        return tuple(np.flatnonzero(given).tolist())
    known = {name: j for j, name in enumerate(names)}
    positions = []
    for entry in given.tolist():
        position = known.get(entry) if isinstance(entry, str) else entry
        if not isinstance(position, int) or not -len(names) <= position < len(names):
            raise ValueError(
                f"categorical_features names {entry!r}, which is not a column of X. "
                f"Its {len(names)} columns are {', '.join(map(repr, names[:10]))}."
            )
        # Negative positions count from the end, as those of NumPy do.
        positions.append(position % len(names))
    return tuple(sorted(set(positions)))


def _coded(frame: nw.DataFrame[Any]) -> tuple[int, ...]:
    """Positions of the columns whose type says that they hold categories."""
    dtypes = list(frame.schema.values())
    # Of each type once: a table may have many columns, and has few types.
    coded = {dtype for dtype in set(dtypes) if dtype in CATEGORICAL_DTYPES}
    found = (j for j, dtype in enumerate(dtypes) if dtype in coded)
    return tuple(j for j in found if dtypes[j] != nw.Object or not _amounts(frame[:, j]))


def _amounts(column: nw.Series[Any]) -> bool:
    """Whether a column of objects holds amounts of money, as databases give them to pandas."""
    return any(isinstance(value, Decimal) for value in column.drop_nulls().head(1).to_list())


def check_types(frame: nw.DataFrame[Any], categorical_features: object) -> None:
    """Refuse columns of dates, lists and the like that are not named as categories."""
    names = tuple(map(str, frame.columns))
    categorical = set(categorical_positions(categorical_features, frame, names))
    dtypes = list(frame.schema.values())
    # Asked once for each type: a table may have many columns, and has few types.
    odd_types = {d for d in set(dtypes) if d.is_temporal() or d.is_nested() or d == nw.Binary}
    for j, dtype in enumerate(dtypes):
        odd = dtype in odd_types
        if dtype == nw.Unknown:
            column = frame[:, j]
            kind = getattr(getattr(column.to_native(), "dtype", None), "kind", "")
            # A column without any value has no type, and is refused for that.
            odd = kind not in NUMBERS and column.null_count() < len(column)
        if odd and j not in categorical:
            raise ValueError(
                f"{column_title(names[j])} has type {dtype}, not numbers. Convert it, drop it, or "
                "name it in categorical_features."
            )
