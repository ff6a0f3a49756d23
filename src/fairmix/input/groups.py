"""Groups: the one place that turns ``sensitive_features`` into integer codes.

A group is known by its name, the ``str`` of its label (several columns: the names joined by
``" & "``). Names are ordered by the value of the labels, never by the order of the rows, so the
same groups always get the same codes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Number
from typing import Any, Literal

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from fairmix.kernels.totals import Membership
from fairmix.system.arrow import is_arrow, pa, pc
from fairmix.system.notices import notify

__all__ = [
    "Attribute",
    "Groups",
    "IgnoredTargetWarning",
    "MissingGroups",
    "Seats",
    "attribute_columns",
    "encode_groups",
    "encode_labels",
    "judged_groups",
    "label_columns",
    "listed",
    "listed_groups",
    "match_groups",
    "seated_groups",
    "warn_of_target",
]

Codes = NDArray[np.signedinteger[Any]]
MissingGroups = Literal["error", "drop", "group"]

SEPARATOR = " & "
# Rows whose codes are translated at once: copies of all would add to the memory of a fit.
PART_ROWS = 2**20
# Up to so many kinds of texts, a comparison with each is faster than Arrow.
FEW_VALUES = 6
# Characters of a name in an error message: of a longer one its beginning says enough.
LONGEST = 80
UNKNOWN_TITLE = "group"
MISSING = -1
# Combinations of groups of several attributes, at most: samples have some rows of each.
MOST_CELLS = 5_000
# The label of what is missing, where that makes a group of its own.
MISSING_LABEL = "missing"
SHOWN = 10  # names that an error message lists before it says how many more there are


class IgnoredTargetWarning(UserWarning):
    """``fit`` was given ``y`` and no ``sensitive_features``, so it compares no groups.

    scikit-learn passes a target to every estimator, and clustering ignores it. Groups that are
    given in its place, ``fit(X, groups)``, would be ignored as well.

    Examples
    --------
    >>> import warnings
    >>> from fairmix import FairMixture, IgnoredTargetWarning
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", IgnoredTargetWarning)
    ...     model = FairMixture(1).fit([[0.0], [1.0]], ["a", "b"])
    >>> model.gap_
    nan
    """


def warn_of_target(y: object, sensitive_features: object) -> None:
    """Say where groups go, when there are none and there is a target."""
    if y is not None and sensitive_features is None:
        notify(
            "y is ignored, and without sensitive_features no groups are compared. If y holds the "
            "groups, give them by name: fit(X, sensitive_features=...).",
            IgnoredTargetWarning,
        )


@dataclass(frozen=True, eq=False)
class Attribute:
    """One of several attributes that each have groups of their own.

    Attributes
    ----------
    title : str
        The name of the column.
    names : tuple of str
        The groups that are judged, sorted by the value of their labels.
    sizes : ndarray of shape (n_groups,)
        Rows of each.
    unjudged : dict of str to int
        Groups that are too small to be judged, and their rows.
    """

    title: str
    names: tuple[str, ...]
    sizes: Codes
    unjudged: dict[str, int] = field(default_factory=dict)

    @property
    def known(self) -> tuple[str, ...]:
        """All groups, those that are judged first."""
        return (*self.names, *self.unjudged)

    def labelled(self, name: str) -> str:
        """A group, with the attribute that it is one of."""
        return f"{self.title}: {name}"


@dataclass(frozen=True, eq=False)
class Groups:
    """The group of each row, or its group of each of several attributes.

    Attributes
    ----------
    codes : ndarray of shape (n_rows,)
        The number of the group of each row, from 0 to ``len(names) - 1``; ``len(names)`` for a row
        of a group that is not judged, -1 for one whose group is missing.
    names : tuple of str
        The groups, sorted by the value of their labels.
    sizes : ndarray of shape (n_groups,)
        Rows per group; none is zero.
    title : str
        The name of the column or columns, ``"group"`` when there is none.
    unjudged : dict of str to int
        Groups that are too small to be judged, and their rows.
    n_missing : int
        Rows whose group is missing.
    attributes : tuple of Attribute
        Of several attributes that are compared each by itself; else empty. The codes of rows are
        then cells of `membership`, and names and sizes are those of all attributes, one after the
        other.

    Examples
    --------
    >>> encode_groups(["b", "a", "b"]).sizes.tolist()
    [1, 2]
    """

    codes: Codes
    names: tuple[str, ...]
    sizes: Codes
    title: str
    unjudged: dict[str, int] = field(default_factory=dict)
    n_missing: int = 0
    attributes: tuple[Attribute, ...] = ()

    @classmethod
    def of_attributes(
        cls, attributes: Sequence[Attribute], cells: Codes, sizes: Codes, n_missing: int
    ) -> Groups:
        """Of attributes with all their groups, cells of rows, and rows of each cell."""
        title = SEPARATOR.join(a.title for a in attributes)
        found = cls(cells, (), sizes, title, {}, n_missing, tuple(attributes))
        return found._resized(sizes)

    def _resized(self, cells: Codes) -> Groups:
        """With the rows of each cell counted, for all attributes."""
        membership = self.membership
        assert membership is not None
        sizes = (membership.matrix @ cells).astype(np.intp)
        attributes = tuple(
            replace(a, sizes=sizes[part])
            for a, part in zip(self.attributes, membership.parts, strict=True)
        )
        return replace(self, attributes=attributes)._stacked()

    def _stacked(self) -> Groups:
        """With the names, sizes and small groups of all attributes one after the other."""
        nothing: Codes = np.zeros(0, dtype=np.intp)
        small = {a.labelled(name): n for a in self.attributes for name, n in a.unjudged.items()}
        return replace(
            self,
            names=tuple(a.labelled(name) for a in self.attributes for name in a.names),
            sizes=np.concatenate([nothing, *(a.sizes for a in self.attributes)]),
            unjudged=self.unjudged | small,
        )

    @property
    def membership(self) -> Membership | None:
        """The cells of several attributes, and the groups of each."""
        if not self.attributes:
            return None
        counts = tuple(len(a.names) for a in self.attributes)
        return Membership(counts, tuple(a.title for a in self.attributes))

    @property
    def known(self) -> tuple[str, ...]:
        """All groups, those that are judged first."""
        return (*self.names, *self.unjudged)

    @property
    def compared(self) -> bool:
        """Whether there are two groups to compare: two of one attribute, where there are more."""
        return len(self.names) > 1

    def _judged_each(self, smallest: int) -> Groups:
        """The same, within each attribute; one with fewer than two groups left is set aside."""
        membership = self.membership
        assert membership is not None
        present = self.codes >= 0
        old = np.unravel_index(np.maximum(self.codes, 0), membership.shape)
        columns, attributes, alone = [], [], dict(self.unjudged)
        for codes, a in zip(old, self.attributes, strict=True):
            large = a.sizes >= smallest
            small = {a.names[g]: int(a.sizes[g]) for g in np.flatnonzero(~large)}
            names = tuple(a.names[g] for g in np.flatnonzero(large))
            if len(names) < 2:
                sizes = dict(zip(a.names, a.sizes.tolist(), strict=True))
                alone |= {a.labelled(name): n for name, n in sizes.items()}
                continue
            # The last code is that of standing aside.
            code = np.full(len(a.names) + 1, len(names), dtype=np.intp)
            code[:-1][large] = np.arange(len(names))
            columns.append(code[codes])
            attributes.append(Attribute(a.title, names, a.sizes[large], a.unjudged | small))
        found = replace(self, attributes=tuple(attributes), unjudged=alone)
        after = found.membership
        cells: Codes = np.zeros(len(present), dtype=np.intp)
        if after is not None:
            cells = np.ravel_multi_index(tuple(columns), after.shape)
        return replace(found, codes=np.where(present, cells, MISSING))._stacked()

    def judged(self, smallest: int) -> Groups:
        """With the groups of fewer rows than this set aside."""
        if self.attributes:
            return self._judged_each(smallest)
        large = self.sizes >= smallest
        if large.all():
            return self
        n_judged = int(large.sum())
        # The extra last entry is where the code -1 of a missing group points.
        code = np.full(len(self.names) + 1, n_judged, dtype=self.codes.dtype)
        code[-1] = MISSING
        code[:-1][large] = np.arange(n_judged)
        small = {self.names[g]: int(self.sizes[g]) for g in np.flatnonzero(~large)}
        names = tuple(self.names[g] for g in np.flatnonzero(large))
        return replace(
            self, codes=code[self.codes], names=names, sizes=self.sizes[large], unjudged=small
        )

    @property
    def titles(self) -> list[str]:
        """Names of the columns, one by one."""
        return self.title.split(SEPARATOR)

    @classmethod
    def none(cls) -> Groups:
        """No groups, of no rows."""
        nothing = np.zeros(0, dtype=np.intp)
        return cls(nothing, (), nothing, "")

    def without_rows(self) -> Groups:
        """Names and sizes alone, as a fitted model keeps them."""
        return replace(self, codes=np.zeros(0, dtype=np.intp), title="", n_missing=0)

    def compact(self) -> Groups:
        """The same with the shortest integers that hold all codes. Do not calculate with them."""
        membership = self.membership
        n_codes = len(self.names) if membership is None else membership.n_cells
        # One more, for rows of groups that are not judged.
        return replace(self, codes=self.codes.astype(np.min_scalar_type(-n_codes - 1)))

    def counted(self, weight: NDArray[np.floating[Any]] | None) -> Groups:
        """With the sizes of the rows that have a weight."""
        if weight is None or weight.all():
            return self
        if self.membership is not None:
            return self._resized(_count(self.codes[weight > 0], self.membership.n_cells))
        return replace(self, sizes=_count(self.codes[weight > 0], len(self.names)))

    def weighed(self, counts: Codes) -> Groups:
        """Of combinations that stand for so many rows each, with the sizes of all rows."""
        membership = self.membership
        assert membership is not None
        # The first entry is for the code -1 of what is missing.
        rows = np.bincount(self.codes + 1, counts, membership.n_cells + 1).astype(np.intp)
        return replace(self, n_missing=int(rows[0]))._resized(rows[1:])

    def take(self, rows: Codes) -> Groups:
        """Groups of some rows; groups that have none of them are dropped."""
        occurring, codes = _renumber(self.codes[rows], len(self.names))
        names = tuple(self.names[code] for code in occurring)
        return Groups(codes, names, np.bincount(codes, minlength=len(names)), self.title)


@dataclass(frozen=True)
class Seats:
    """How a store seats rows: in one of the groups that are compared, or aside.

    Groups that are not judged, and rows whose group is missing, stand aside; the latter count for
    nothing. With fewer than two groups to compare, all rows are in one. With several attributes the
    seats are their cells, of which the last one is aside in all.
    """

    n_groups: int
    aside: bool
    membership: Membership | None = None

    @property
    def one_more(self) -> bool:
        """Whether rows aside have a code of their own, after those of the groups."""
        return self.aside and self.membership is None

    @classmethod
    def of(cls, groups: Groups | None) -> Seats:
        """Seats for rows of these groups."""
        if groups is None or len(groups.names) < 2:
            return cls(1, aside=False)
        if groups.membership is not None:
            aside = groups.n_missing > 0 or any(a.unjudged for a in groups.attributes)
            return cls(groups.membership.n_cells, aside, groups.membership)
        return cls(len(groups.names), aside=bool(groups.unjudged) or groups.n_missing > 0)

    def codes(self, codes: Codes) -> Codes:
        """From the codes of `Groups` to those of a store."""
        if self.n_groups == 1:
            return np.zeros(len(codes), dtype=np.intp)
        missing = codes < 0
        if self.membership is not None:
            seated = np.where(missing, codes.dtype.type(self.n_groups - 1), codes)
            matrix = self.membership.matrix
            placed = matrix.sum(axis=0) == len(self.membership.counts)
            missing = ~placed[seated]
            if self.aside or not missing.any():
                return seated
        if not missing.any():
            return codes
        if not self.aside:
            raise ValueError(
                f"sensitive_features has {int(missing.sum())} missing labels. The fit had none, so "
                "an aware map cannot place these rows. Drop them, or fit with assignment='blind'."
            )
        # In the type of the codes, which may be short for the sake of memory.
        return np.where(missing, codes.dtype.type(self.n_groups), codes)

    @staticmethod
    def weight(
        codes: Codes, weight: NDArray[np.floating[Any]] | None
    ) -> NDArray[np.floating[Any]] | None:
        """Weights, zero where the group is missing."""
        if not len(codes) or codes.min() >= 0:
            return weight
        return np.where(codes < 0, 0.0, 1.0 if weight is None else weight)


def encode_groups(
    sensitive_features: object,
    *,
    n_rows: int | None = None,
    argument: str = "sensitive_features",
    missing: MissingGroups = "error",
    each: bool = False,
) -> Groups:
    """Number the groups of ``sensitive_features``.

    Parameters
    ----------
    sensitive_features : array-like or table
        One label per row (list, tuple, NumPy array, pandas, Polars or Arrow column), or several
        columns (2-D array, list of tuples, table). Several columns form their intersections,
        of which only those that occur become groups. The labels may be strings, numbers, bools
        or categories.
    n_rows : int, optional
        The number of rows that there must be.
    argument : str, default="sensitive_features"
        The name that error messages give to the input.
    missing : {"error", "drop", "group"}, default="error"
        What a missing label is: an error, no group (the code -1), or the label ``"missing"``.
    each : bool, default=False
        Whether several columns are attributes with groups of their own, not intersections.

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
    coded = [encode_labels(values, argument, missing) for _, values in columns]
    _check_rows(coded, n_rows, argument, missing)
    if each and len(columns) > 1:
        return _attributes([name for name, _ in columns], coded, argument)
    codes, labels = _intersect(coded)
    if len(codes) > PART_ROWS:
        # Arrow would keep what the labels took.
        pa.default_memory_pool().release_unused()
    names = tuple(SEPARATOR.join(label) for label in labels)
    # Joined names may meet where columns hold the separator: "a & b" and "c", "a" and "b & c".
    _check_names(names, argument)
    titles = [str(name) for name, _ in columns if name not in (None, "")]
    return Groups(
        codes=codes,
        names=names,
        sizes=_count(codes, len(names)),
        title=SEPARATOR.join(titles) if len(titles) == len(columns) else UNKNOWN_TITLE,
        n_missing=int((codes == MISSING).sum()) if missing == "drop" else 0,
    )


def _attributes(
    titles: Sequence[object], coded: list[tuple[Codes, tuple[str, ...]]], argument: str
) -> Groups:
    """Groups of several attributes; a row with a missing label has none."""
    attributes = [
        Attribute(f"attribute {j}" if name in (None, "") else str(name), labels, np.zeros(0, int))
        for j, (name, (_, labels)) in enumerate(zip(titles, coded, strict=True), 1)
    ]
    _check_names([a.title for a in attributes], argument)
    counts = tuple(len(a.names) for a in attributes)
    membership = Membership(counts, tuple(a.title for a in attributes))
    if membership.n_cells > MOST_CELLS:
        raise ValueError(
            f"{argument} has {len(attributes)} attributes with {membership.n_cells:,} combinations "
            f"of groups, and attributes='each' takes {MOST_CELLS:,}. Merge small groups, or give "
            "fewer attributes."
        )
    missing = np.any([codes == MISSING for codes, _ in coded], axis=0)
    cells = np.ravel_multi_index(
        tuple(np.maximum(codes, 0) for codes, _ in coded), membership.shape
    ).astype(np.intp, copy=False)
    cells[missing] = MISSING
    sizes = _count(cells, membership.n_cells)
    return Groups.of_attributes(attributes, cells, sizes, int(missing.sum()))


def attribute_columns(sensitive_features: object, groups: Groups) -> dict[str, Any]:
    """The columns of new rows that hold the attributes of a fit, by their name."""
    return label_columns(sensitive_features, [a.title for a in groups.attributes])


def label_columns(
    table: object, titles: Sequence[str], *, argument: str = "sensitive_features"
) -> dict[str, Any]:
    """Columns of labels by their names; by their order where they have none."""
    columns = _columns(table, argument)
    # By name where columns have one, because an attribute with too few groups is not among them.
    named = {str(name): values for name, values in columns}
    if set(titles) <= named.keys():
        return {title: named[title] for title in titles}
    if len(columns) != len(titles):
        raise ValueError(
            f"{argument} has {len(columns)} columns, the fit compares {listed(titles)}. "
            "Give one column of labels for each of them, with their names."
        )
    return dict(zip(titles, (values for _, values in columns), strict=True))


def seated_groups(
    sensitive_features: object,
    groups: Groups,
    *,
    n_rows: int | None = None,
    missing: MissingGroups = "error",
) -> Codes:
    """Number the groups of rows as those of a fit are numbered, after `Groups.judged`."""
    membership = groups.membership
    if membership is None:
        return judged_groups(
            sensitive_features, groups.names, groups.unjudged, n_rows=n_rows, missing=missing
        )
    given = attribute_columns(sensitive_features, groups)
    found = [
        judged_groups(given[a.title], a.names, a.unjudged, n_rows=n_rows, missing=missing)
        for a in groups.attributes
    ]
    absent = np.any([codes == MISSING for codes in found], axis=0)
    cells = np.ravel_multi_index(tuple(np.maximum(codes, 0) for codes in found), membership.shape)
    return np.where(absent, MISSING, cells)


def match_groups(
    sensitive_features: object,
    names: Sequence[str],
    *,
    n_rows: int | None = None,
    argument: str = "sensitive_features",
    noun: str = "groups",
    missing: MissingGroups = "error",
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
    missing : {"error", "drop", "group"}, default="error"
        As in `encode_groups`.

    Returns
    -------
    ndarray of shape (n_rows,)
        The position in ``names`` of the group of each row, -1 where it is missing.

    Examples
    --------
    >>> match_groups(["Male", "Male"], names=["Female", "Male"]).tolist()
    [1, 1]
    """
    groups = encode_groups(sensitive_features, n_rows=n_rows, argument=argument, missing=missing)
    position = {name: code for code, name in enumerate(names)}
    unseen = [name for name in groups.names if name not in position]
    if unseen:
        raise ValueError(
            f"{argument} holds {noun} that the model has not seen: {listed(unseen)}. "
            f"It knows {listed(names)}; give these rows one of the known {noun} or fit again "
            f"on data with all {noun}."
        )
    # The extra last entry is where the code -1 of a missing group points.
    known = np.array([*(position[name] for name in groups.names), MISSING], dtype=np.intp)
    return known.take(groups.codes)


def judged_groups(
    sensitive_features: object,
    names: Sequence[str],
    unjudged: Collection[str],
    *,
    n_rows: int | None = None,
    missing: MissingGroups = "error",
) -> Codes:
    """Number the groups of rows as `Groups.codes` does, after `Groups.judged`.

    Parameters
    ----------
    sensitive_features : array-like or table
        As in `encode_groups`.
    names, unjudged : sequences of str
        The known groups, those that are judged and the others.
    n_rows : int, optional
        The number of rows that there must be.
    missing : {"error", "drop", "group"}, default="error"
        As in `encode_groups`.

    Examples
    --------
    >>> judged_groups(["f", "x", "m"], names=["f", "m"], unjudged=["x"]).tolist()
    [0, 2, 1]
    """
    codes = match_groups(sensitive_features, [*names, *unjudged], n_rows=n_rows, missing=missing)
    # All groups that are not judged share the code after the last judged one.
    return np.minimum(codes, len(names))


def _columns(data: object, argument: str) -> list[tuple[object, Any]]:
    """Split the input into pairs of column name (None if unknown) and values."""
    if isinstance(data, str | bytes):
        raise ValueError(
            f"{argument}={data!r} names a column, which works only where X is a table or a path. "
            "Give one label per row here, for example the column itself."
        )
    if isinstance(data, np.ndarray):
        return _array_columns(data, argument)
    # Without narwhals: much faster for the small tables that files are read in.
    if is_arrow(data):
        if isinstance(data, pa.Table | pa.RecordBatch):
            return _nonempty(list(zip(data.schema.names, data.columns, strict=True)), argument)
        return [(None, data)]
    try:
        native = nw.from_native(data, eager_only=True, allow_series=True, pass_through=True)
    except nw.exceptions.DuplicateError as error:
        raise ValueError(
            f"{argument} has two columns of one name ({' '.join(str(error).split())}). Rename one."
        ) from error
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


def encode_labels(
    values: Any, argument: str, missing: MissingGroups = "error"
) -> tuple[Codes, tuple[str, ...]]:
    """Codes and sorted labels of one column; what is missing is -1, or a label of its own."""
    try:
        codes, found = _few_values(values) or _factorize_arrow(_as_arrow(values))
    except UnicodeEncodeError as error:
        # Text is held as UTF-8: by Arrow, files and screens.
        raise ValueError(
            f"{argument} has the label {error.object!r}, which is no text: it holds half of a "
            "character. Rename it."
        ) from error
    except (pa.ArrowException, OverflowError):
        # Arrow holds one type per column; mixed and exotic labels go through a dictionary.
        codes, found = _factorize_objects(values, argument)
    present = [i for i, value in enumerate(found) if not _is_missing(value)]
    order = _sorted_by_value(present, found)
    # The extra last entry is where the code -1 of a missing label points.
    rank = np.full(len(found) + 1, MISSING, dtype=np.intp)
    rank[order] = np.arange(len(order))
    labels = tuple(str(found[i]) for i in order)
    numbers = _translated(codes, rank)
    if missing == "group" and len(numbers) and numbers.min() == MISSING:
        numbers[numbers == MISSING] = len(labels)
        labels = (*labels, MISSING_LABEL)
    _check_names(labels, argument)
    return numbers, labels


def _as_arrow(values: Any) -> Any:
    if isinstance(values, nw.Series):
        values = values.to_arrow()
    return values if is_arrow(values) else pa.array(values, from_pandas=True)


def _few_values(values: Any) -> tuple[Codes, list[Any]] | None:
    """Values of few kinds in an array of texts or numbers, found one after the other; else None.

    Arrow takes each text apart, and may not be loaded.
    """
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "Ubiuf":
        return None
    unknown = MISSING - 1
    codes = np.full(len(values), unknown, dtype=np.int8)
    if values.dtype.kind == "f":
        codes[np.isnan(values)] = MISSING
    found: list[Any] = []
    while len(codes) and codes.min() == unknown:
        if len(found) == FEW_VALUES:
            return None
        # The smallest code is that of a row without one, so this is the next unknown value.
        value = values[int(codes.argmin())].item()
        if isinstance(value, str):
            value.encode("utf-8")  # refused where it is no text
        # No row has two values, and sums are twenty times as fast as an index of flags.
        codes += (values == value) * np.int8(len(found) - unknown)
        # Zero has no sign.
        found.append(value + 0.0 if isinstance(value, float) else value)
    return codes, found


def _factorize_arrow(array: Any) -> tuple[NDArray[np.signedinteger[Any]], list[Any]]:
    # Zero has two signs in binary, which are one number and one label.
    if pa.types.is_float16(array.type):
        array = array.cast(pa.float32())
    if pa.types.is_floating(array.type):
        array = pc.add(array, pa.scalar(0.0, array.type))
    known = pa.types.is_dictionary(array.type)
    encoded = array if known else array.dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        # Chunks may number the same values differently.
        encoded = encoded.unify_dictionaries().combine_chunks()
    indices = encoded.indices
    codes = (indices.fill_null(MISSING) if indices.null_count else indices).to_numpy()
    if not known:
        return codes, encoded.dictionary.to_pylist()
    # A dictionary that came from outside may hold unused, repeated and missing values. The extra
    # first entry is for the code of what is missing.
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
        # Three times as fast as an index.
        out[part] = rank.take(codes[part])
    return out


def _factorize_objects(values: Any, argument: str) -> tuple[Codes, list[Any]]:
    # Numbers that are equal, such as 1, 1.0 and True, are one label. The type is part of the key of
    # all others: a date and the time at its midnight may be equal and yet read differently.
    seen: dict[tuple[type, Any], int] = {}
    found: list[Any] = []
    kinds: set[type] = set()
    codes = np.empty(len(values), dtype=np.intp)
    for i, value in enumerate(values):
        plain = value.item() if isinstance(value, np.generic) else value
        # An Arrow column gives scalars of its own, which are equal to no Python value.
        plain = plain.as_py() if is_arrow(plain) else plain
        try:
            kind = Number if isinstance(plain, Number) else type(plain)
            codes[i] = seen.setdefault((kind, plain), len(found))
        except TypeError:
            raise ValueError(
                f"{argument} has the label {plain!r} in row {i}, a {type(plain).__name__}. "
                "Give labels that can be told apart: strings, numbers, bools or categories."
            ) from None
        if not _is_missing(plain):
            kinds.add(type(plain))
        if codes[i] == len(found):
            found.append(plain)
        # The name must not depend on the order of the rows: 1 before 1.0, and both before True.
        elif kind is Number and _rank(plain) < _rank(found[codes[i]]):
            found[codes[i]] = plain
    # Beyond it a float is no longer the same number.
    exact = all(abs(value) <= 2**53 for value in found if type(value) is int)
    if kinds <= {bool, int, float} and len(kinds) > 1 and exact:
        # As Arrow has them, which takes such a column or does not, as its rows are ordered.
        common = float if float in kinds else int
        found = [value if _is_missing(value) else common(value) for value in found]
    # Zero has no sign.
    return codes, [value + 0.0 if isinstance(value, float) else value for value in found]


def _rank(number: Any) -> int:
    return {int: 0, float: 1}.get(type(number), 2)


def _is_missing(value: Any) -> bool:
    # NaN and NaT differ from themselves; pandas.NA compares to neither True nor False.
    return value is None or (value == value) is not True


def _sorted_by_value(indices: list[int], found: list[Any]) -> list[int]:
    try:
        return sorted(indices, key=lambda i: found[i])
    except TypeError:  # labels of several types have no order of their own
        return sorted(indices, key=lambda i: (type(found[i]).__name__, str(found[i])))


def _check_rows(
    coded: list[tuple[Codes, tuple[str, ...]]],
    n_rows: int | None,
    argument: str,
    missing: MissingGroups,
) -> None:
    length = len(coded[0][0])
    if n_rows is not None and length != n_rows:
        raise ValueError(
            f"{argument} has {length} rows, the data has {n_rows}. Give one label per row."
        )
    if length == 0:
        raise ValueError(f"{argument} has 0 rows. Give at least one label.")
    absent = np.zeros(length, dtype=bool)
    for codes, _ in coded:
        absent |= codes == MISSING
    check_missing(int(absent.sum()), length, argument, missing)


def check_missing(n_missing: int, n_rows: int, argument: str, missing: MissingGroups) -> None:
    """Refuse missing labels, unless they may be dropped and others are left."""
    if n_missing and missing == "drop" and n_missing == n_rows:
        raise ValueError(f"{argument}: all {n_rows} labels are missing. Give at least some.")
    if n_missing and missing == "error":
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
        known = np.flatnonzero((codes != MISSING) & (other != MISSING))
        crossed = codes[known] * len(names) + other[known]
        occurring, numbers = _renumber(crossed, len(labels) * len(names))
        codes = np.full(len(codes), MISSING, dtype=np.intp)
        codes[known] = numbers
        labels = [(*labels[c // len(names)], names[c % len(names)]) for c in occurring.tolist()]
    return codes, labels


def _count(codes: Codes, n_groups: int) -> Codes:
    """Rows of each group."""
    # The code of what is missing, -1, becomes 0, because bincount takes nothing below it.
    return np.bincount(codes + 1, minlength=n_groups + 1)[1:]


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
    cut = (name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…" for name in names[:SHOWN])
    shown = ", ".join(map(repr, cut))
    return shown if len(names) <= SHOWN else f"{shown} and {len(names) - SHOWN} more"


def listed_groups(unjudged: Mapping[str, int], most: int = 10) -> str:
    """Groups and their rows, not more than a person reads.

    Examples
    --------
    >>> listed_groups({"x": 2, "y": 1})
    'x (2 rows), y (1 row)'
    """
    named = [f"{name} ({n:,} {'row' if n == 1 else 'rows'})" for name, n in unjudged.items()]
    left = f" and {len(named) - most} more" if len(named) > most else ""
    return ", ".join(named[:most]) + left
