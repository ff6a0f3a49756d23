"""Groups: the one place that turns ``sensitive_features`` into integer codes.

A group is known by its name, the ``str`` of its label (several columns: the names joined by
``" & "``). Names are ordered by the value of the labels, never by the order of the rows, so the
same groups always get the same codes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import narwhals as nw
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

__all__ = ["Groups", "encode_groups", "encode_labels", "listed", "match_groups"]

Codes = NDArray[np.signedinteger[Any]]

SEPARATOR = " & "
PART_ROWS = 2**20
# Up to so many kinds of texts, a comparison with each is faster than Arrow.
FEW_TEXTS = 6
UNKNOWN_TITLE = "group"
MISSING = -1
SHOWN = 10  # names that an error message lists before it says how many more there are


@dataclass(frozen=True, eq=False)
class Groups:
    """The group of each row.

    Attributes
    ----------
    codes : ndarray of shape (n_rows,)
        The number of the group of each row, from 0 to ``len(names) - 1``.
    names : tuple of str
        The groups, sorted by the value of their labels.
    sizes : ndarray of shape (n_groups,)
        Rows per group; none is zero.
    title : str
        The name of the column or columns, ``"group"`` when there is none.

    Examples
    --------
    >>> encode_groups(["b", "a", "b"]).sizes.tolist()
    [1, 2]
    """

    codes: Codes
    names: tuple[str, ...]
    sizes: Codes
    title: str

    @property
    def titles(self) -> list[str]:
        """Names of the columns, one by one."""
        return self.title.split(SEPARATOR)

    def compact(self) -> Groups:
        """The same with the shortest integers that hold all codes. Do not calculate with them."""
        return replace(self, codes=self.codes.astype(np.min_scalar_type(-len(self.names))))

    def take(self, rows: Codes) -> Groups:
        """Groups of some rows; groups that have none of them are dropped."""
        occurring, codes = _renumber(self.codes[rows], len(self.names))
        names = tuple(self.names[code] for code in occurring)
        return Groups(codes, names, np.bincount(codes, minlength=len(names)), self.title)


def encode_groups(
    sensitive_features: object,
    *,
    n_rows: int | None = None,
    argument: str = "sensitive_features",
) -> Groups:
    """Number the groups of ``sensitive_features``.

    Parameters
    ----------
    sensitive_features : array-like or table
        One label per row (list, tuple, NumPy array, pandas, Polars or Arrow column), or several
        columns (2-D array, list of tuples, table). Several columns form their intersections,
        of which only those that occur become groups. The labels may be strings, numbers, bools
        or categories; a missing label is an error.
    n_rows : int, optional
        The number of rows that there must be.
    argument : str, default="sensitive_features"
        The name that error messages give to the input.

    Returns
    -------
    Groups

    Examples
    --------
    >>> groups = encode_groups([("Female", "Black"), ("Male", "White"), ("Female", "Black")])
    >>> groups.names
    ('Female & Black', 'Male & White')
    >>> groups.codes.tolist()
    [0, 1, 0]
    """
    columns = _columns(sensitive_features, argument)
    coded = [encode_labels(values, argument) for _, values in columns]
    _check_rows(coded, n_rows, argument)
    codes, labels = _intersect(coded)
    if len(codes) > PART_ROWS:
        # Arrow would keep what the labels took.
        pa.default_memory_pool().release_unused()
    names = tuple(SEPARATOR.join(label) for label in labels)
    _check_names(names, argument)
    titles = [str(name) for name, _ in columns if name not in (None, "")]
    return Groups(
        codes=codes,
        names=names,
        sizes=np.bincount(codes, minlength=len(names)),
        title=SEPARATOR.join(titles) if len(titles) == len(columns) else UNKNOWN_TITLE,
    )


def match_groups(
    sensitive_features: object,
    names: Sequence[str],
    *,
    n_rows: int | None = None,
    argument: str = "sensitive_features",
    noun: str = "groups",
) -> Codes:
    """Number the groups of new rows as they were numbered before.

    Parameters
    ----------
    sensitive_features : array-like or table
        As in `encode_groups`. Not all known groups need occur.
    names : sequence of str
        The known groups: ``Groups.names`` of the rows of the fit.
    n_rows : int, optional
        The number of rows that there must be.
    argument : str, default="sensitive_features"
        The name that error messages give to the input.
    noun : str, default="groups"
        What error messages call the labels.

    Returns
    -------
    ndarray of shape (n_rows,)
        The position in ``names`` of the group of each row.

    Examples
    --------
    >>> match_groups(["Male", "Male"], names=["Female", "Male"]).tolist()
    [1, 1]
    """
    groups = encode_groups(sensitive_features, n_rows=n_rows, argument=argument)
    position = {name: code for code, name in enumerate(names)}
    unseen = [name for name in groups.names if name not in position]
    if unseen:
        raise ValueError(
            f"{argument} holds {noun} that the model has not seen: {listed(unseen)}. "
            f"It knows {listed(names)}; give these rows one of the known {noun} or fit again "
            f"on data with all {noun}."
        )
    known = np.array([position[name] for name in groups.names], dtype=np.intp)
    return known[groups.codes]


def _columns(data: object, argument: str) -> list[tuple[object, Any]]:
    """Split the input into pairs of column name (None if unknown) and values."""
    if isinstance(data, str | bytes):
        raise ValueError(
            f"{argument}={data!r} names a column, which works only where X is a table or a path. "
            "Give one label per row here, for example the column itself."
        )
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    # Without narwhals: much faster for the small tables that files are read in.
    if isinstance(data, pa.Array | pa.ChunkedArray):
        return [(None, data)]
    if isinstance(data, pa.Table):
        return _nonempty(list(zip(data.column_names, data.columns, strict=True)), argument)
    native = nw.from_native(data, eager_only=True, allow_series=True, pass_through=True)
    if isinstance(native, nw.Series):
        return [(native.name, native)]
    if isinstance(native, nw.DataFrame):
        return _nonempty([(column.name, column) for column in native.iter_columns()], argument)
    if isinstance(data, list | tuple):
        return _list_columns(data, argument)
    return _array_columns(data, argument)


def _list_columns(data: Sequence[Any], argument: str) -> list[tuple[object, Any]]:
    """Columns of a list of labels, or of a list of rows that are themselves sequences."""
    if len(data) == 0 or not _is_row(data[0]):
        return [(None, data)]
    width = len(data[0])
    ragged = next((i for i, row in enumerate(data) if not _is_row(row) or len(row) != width), None)
    if ragged is not None:
        raise ValueError(
            f"{argument} has {width} labels in row 0 and not in row {ragged} ({data[ragged]!r}). "
            "Give every row the same number of labels."
        )
    return _nonempty([(None, [row[j] for row in data]) for j in range(width)], argument)


def _is_row(value: object) -> bool:
    return isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.ndim == 1)


def _array_columns(data: object, argument: str) -> list[tuple[object, Any]]:
    """Columns of a NumPy array, or of anything that NumPy can read as one."""
    if isinstance(data, np.ma.MaskedArray):
        # np.asarray alone would drop the mask in silence.
        array = np.array(data.data, dtype=object)
        array[np.ma.getmaskarray(data)] = None
    else:
        array = np.asarray(data)
    if array.ndim == 1:
        return [(None, array)]
    if array.ndim == 2:
        return _nonempty([(None, array[:, j]) for j in range(array.shape[1])], argument)
    raise ValueError(
        f"{argument} must be one label per row or a table of such columns, got "
        f"{type(data).__name__} of {array.ndim} dimensions. Pass a list, an array or a table "
        "(collect a lazy one first)."
    )


def _nonempty(columns: list[tuple[object, Any]], argument: str) -> list[tuple[object, Any]]:
    if not columns:
        raise ValueError(f"{argument} has 0 columns. Give at least one column of labels.")
    return columns


def encode_labels(values: Any, argument: str) -> tuple[Codes, tuple[str, ...]]:
    """Codes (-1 where missing) and sorted labels of one column."""
    try:
        codes, found = _factorize_arrow(_as_arrow(values))
    except (pa.ArrowException, OverflowError):
        # Arrow holds one type per column; mixed and exotic labels go through a dictionary.
        codes, found = _factorize_objects(values, argument)
    present = [i for i, value in enumerate(found) if not _is_missing(value)]
    order = _sorted_by_value(present, found)
    # The extra last entry is where the code -1 of a missing label points.
    rank = np.full(len(found) + 1, MISSING, dtype=np.intp)
    rank[order] = np.arange(len(order))
    labels = tuple(str(found[i]) for i in order)
    _check_names(labels, argument)
    return _translated(codes, rank), labels


def _as_arrow(values: Any) -> Any:
    if isinstance(values, nw.Series):
        values = values.to_arrow()
    if isinstance(values, np.ndarray) and values.dtype.kind == "U":
        values = _few_texts(values)
    if not isinstance(values, pa.Array | pa.ChunkedArray):
        values = pa.array(values, from_pandas=True)
    return values


def _few_texts(values: NDArray[np.str_]) -> Any:
    """Texts of few kinds, found one after the other; Arrow takes each text apart."""
    codes = np.full(len(values), MISSING, dtype=np.int8)
    found: list[str] = []
    for _ in range(min(FEW_TEXTS, len(values))):
        text = values[int(codes.argmin())]
        codes[values == text] = len(found)
        found.append(str(text))
        if codes.min() > MISSING:
            return pa.DictionaryArray.from_arrays(codes, found)
    return values


def _factorize_arrow(array: Any) -> tuple[NDArray[np.signedinteger[Any]], list[Any]]:
    known = pa.types.is_dictionary(array.type)
    encoded = array if known else array.dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.unify_dictionaries().combine_chunks()
    indices = encoded.indices
    codes = (indices.fill_null(MISSING) if indices.null_count else indices).to_numpy()
    if not known:
        return codes, encoded.dictionary.to_pylist()
    # A dictionary that came from outside may hold unused, repeated and missing values.
    seen = np.zeros(len(encoded.dictionary) - MISSING, dtype=bool)
    for part in _parts(codes):
        seen[codes[part].astype(np.intp) - MISSING] = True
    used = np.flatnonzero(seen[-MISSING:])
    again, found = _factorize_arrow(encoded.dictionary.take(pa.array(used)))
    # The extra last entry is where the code -1 of a missing label points.
    rank = np.full(len(encoded.dictionary) + 1, MISSING, dtype=np.intp)
    rank[used] = again
    return _translated(codes, rank), found


def _parts(codes: NDArray[Any]) -> Iterator[slice]:
    """Runs of rows, so that no more than one array of the length of all is made at a time."""
    return (slice(start, start + PART_ROWS) for start in range(0, len(codes), PART_ROWS))


def _translated(codes: NDArray[Any], rank: Codes) -> Codes:
    """``rank[codes]``."""
    out = np.empty(len(codes), dtype=rank.dtype)
    for part in _parts(codes):
        out[part] = rank[codes[part]]
    return out


def _factorize_objects(values: Any, argument: str) -> tuple[Codes, list[Any]]:
    # The type is part of the key because Python holds 1, 1.0 and True to be the same key, and
    # which of them would then name the group would depend on the order of the rows.
    seen: dict[tuple[type, Any], int] = {}
    codes = np.empty(len(values), dtype=np.intp)
    for i, value in enumerate(values):
        plain = value.item() if isinstance(value, np.generic) else value
        plain = plain.as_py() if isinstance(plain, pa.Scalar) else plain
        try:
            codes[i] = seen.setdefault((type(plain), plain), len(seen))
        except TypeError:
            raise ValueError(
                f"{argument} has the label {plain!r} in row {i}, a {type(plain).__name__}. "
                "Give labels that can be told apart: strings, numbers, bools or categories."
            ) from None
    return codes, [value for _, value in seen]


def _is_missing(value: Any) -> bool:
    # NaN and NaT differ from themselves; pandas.NA compares to neither True nor False.
    return value is None or (value == value) is not True


def _sorted_by_value(indices: list[int], found: list[Any]) -> list[int]:
    try:
        return sorted(indices, key=lambda i: found[i])
    except TypeError:  # labels of several types have no order of their own
        return sorted(indices, key=lambda i: (type(found[i]).__name__, str(found[i])))


def _check_rows(
    coded: list[tuple[Codes, tuple[str, ...]]], n_rows: int | None, argument: str
) -> None:
    length = len(coded[0][0])
    if n_rows is not None and length != n_rows:
        raise ValueError(
            f"{argument} has {length} rows, the data has {n_rows}. Give one label per row."
        )
    if length == 0:
        raise ValueError(f"{argument} has 0 rows. Give at least one label.")
    missing = np.zeros(length, dtype=bool)
    for codes, _ in coded:
        missing |= codes == MISSING
    check_missing(int(missing.sum()), length, argument)


def check_missing(n_missing: int, n_rows: int, argument: str) -> None:
    """Refuse missing labels."""
    if n_missing:
        raise ValueError(
            f"{argument} has {n_missing} missing labels in {n_rows} rows. Drop these rows, or "
            "give them a group of their own such as 'unknown'."
        )


def _intersect(
    coded: list[tuple[Codes, tuple[str, ...]]],
) -> tuple[Codes, list[tuple[str, ...]]]:
    """Cross the columns; renumber after each so that the codes never overflow."""
    codes, first = coded[0]
    labels: list[tuple[str, ...]] = [(label,) for label in first]
    for other, names in coded[1:]:
        occurring, codes = _renumber(codes * len(names) + other, len(labels) * len(names))
        labels = [(*labels[c // len(names)], names[c % len(names)]) for c in occurring.tolist()]
    return codes, labels


def _renumber(codes: Codes, bound: int) -> tuple[Codes, Codes]:
    """Codes that occur, in order, and each row's position among them."""
    if bound > 4 * len(codes) + 1024:  # a table of all possible codes would outgrow the rows
        occurring, position = np.unique(codes, return_inverse=True)
        return occurring, position.astype(np.intp, copy=False)
    present = np.bincount(codes, minlength=bound) > 0
    return np.flatnonzero(present), (np.cumsum(present) - 1)[codes].astype(np.intp, copy=False)


def _check_names(names: Sequence[str], argument: str) -> None:
    if len(set(names)) < len(names):
        twice = [name for name, times in Counter(names).items() if times > 1]
        raise ValueError(
            f"{argument} has different labels that read the same: {listed(twice)}. Rename them, "
            "for example so that all labels of a column are strings."
        )


def listed(names: Sequence[str]) -> str:
    """Names as error messages show them."""
    shown = ", ".join(repr(name) for name in names[:SHOWN])
    return shown if len(names) <= SHOWN else f"{shown} and {len(names) - SHOWN} more"
