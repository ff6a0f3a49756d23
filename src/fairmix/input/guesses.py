"""Guesses: what kind of column each column of files seems to be, from all its values."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fairmix.tables import FileBlocks, Frame
from fairmix.tables.numbers import number_like
from fairmix.tables.values import by_value

__all__ = ["FEATURES", "Guess", "guess_columns"]

# Kinds that a feature can have; columns of the others are of no use to a mixture as they are.
FEATURES = ("numeric", "categorical")
# The limits below steer guesses only, which options of the command line override.
# Text with more different values than this is no set of categories.
MAX_CATEGORIES = 256
# Fewer rows say nothing about what repeats.
FEW_ROWS = 20
# Share of rows from which on a column is held to be all of one kind.
NEARLY_ALL = 0.95
# Texts that are mostly numbers: somebody meant numbers.
MOSTLY = 0.9
SCIENTIFIC = r"^[+-]?(\d+\.?\d*|\.\d+)[eE][+-]?\d+$"
CLOCK = r"([ T]\d{1,2}:\d{2}.*)?$"
DATE = rf"^(\d{{4}}[-/.]\d{{1,2}}[-/.]\d{{1,2}}|\d{{1,2}}[-/.]\d{{1,2}}[-/.]\d{{4}}){CLOCK}"
# Names of identifiers: id, ID, user_id, userId, id2, uuid, key, index, but not "paid".
IDENTIFIER = re.compile(r"(^|[^a-z])(id|uuid|guid|key|index)([^a-z]|$)|Id(\d|$)|ID(\d|$)")


@dataclass(frozen=True)
class Guess:
    """What a column seems to be.

    Attributes
    ----------
    name : str
        The column.
    kind : str
        ``"numeric"``, ``"categorical"``, ``"constant"``, ``"identifier-like"``, ``"date"`` or
        ``"text"``. Two more tell that something is wrong with it: ``"empty"`` (no value at all)
        and ``"mixed"`` (numbers, but for a few texts).
    reason : str
        Why, in a few words.
    missing : int
        Rows without a value, or with infinity.
    n_values : int or None
        Different values, None if they are more than 256.
    numbers : bool
        Whether the values are stored as numbers.

    Examples
    --------
    >>> Guess("age", "numeric", "numbers").is_feature
    True
    """

    name: str
    kind: str
    reason: str
    missing: int = 0
    n_values: int | None = None
    numbers: bool = False

    @property
    def is_feature(self) -> bool:
        """Whether a mixture can take the column as it is."""
        return self.kind in FEATURES


def guess_columns(blocks: FileBlocks, names: Sequence[str]) -> tuple[Guess, ...]:
    r"""Kinds of some columns of files, by one pass over them.

    Parameters
    ----------
    blocks : FileBlocks
        The files.
    names : sequence of str
        Columns.

    Returns
    -------
    tuple of Guess, one per name

    Examples
    --------
    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "people.csv")
    ...     _ = path.write_text("age,town\n" + "31,Rome\n52,Oslo\n40.5,Oslo\n" * 9)
    ...     [guess.kind for guess in guess_columns(FileBlocks(path), ["age", "town"])]
    ['numeric', 'categorical']
    """
    known: list[Sketch] | None = None
    for sketches in blocks.select(names).each(_sketch_all):
        pairs = zip(known or sketches, sketches, strict=True)
        known = sketches if known is None else [old.merged(new) for old, new in pairs]
    assert known is not None
    return tuple(sketch.guess(name) for name, sketch in zip(names, known, strict=True))


@dataclass(frozen=True)
class Sketch:
    """What is known of some values of a column.

    ``values`` are the different ones as long as they are few, else None; ``fresh`` counts the
    different ones of each block. ``rising``, ``whole`` and ``last`` are of numbers; ``numbers``,
    ``dates`` and ``blanks`` count texts, and ``odd`` is the first one that is no number, with its
    row.
    """

    type: pa.DataType
    rows: int
    missing: int
    values: pa.Array | None
    fresh: int
    rising: bool = False
    whole: bool = False
    ends: tuple[float, float] | None = None
    numbers: int = 0
    dates: int = 0
    blanks: int = 0
    odd: tuple[int, str] | None = None

    def merged(self, other: Sketch) -> Sketch:
        """What is known of these values and of those that follow them."""
        rising = self.rising and other.rising
        if rising and self.ends and other.ends:
            # Numbers that rise within every block may still fall between two of them.
            rising = self.ends[1] < other.ends[0]
        odd = self.odd
        if odd is None and other.odd is not None:
            odd = (self.rows + other.odd[0], other.odd[1])
        ends = (self.ends or other.ends, other.ends or self.ends)
        return replace(
            self,
            rows=self.rows + other.rows,
            missing=self.missing + other.missing,
            values=_together(self.values, other.values),
            fresh=self.fresh + other.fresh,
            rising=rising,
            whole=self.whole and other.whole,
            ends=(ends[0][0], ends[1][1]) if ends[0] and ends[1] else None,
            numbers=self.numbers + other.numbers,
            dates=self.dates + other.dates,
            blanks=self.blanks + other.blanks,
            odd=odd,
        )

    def guess(self, name: str) -> Guess:
        """The kind of the column with these values."""
        kind, reason = self._kind(name)
        n_values = None if self.values is None else len(self.values)
        return Guess(name, kind, reason, self.missing, n_values, _is_number(self.type))

    def _kind(self, name: str) -> tuple[str, str]:
        present = self.rows - self.missing
        # The order matters: what is wrong with a column, or says all about it, comes before its
        # type.
        if present == 0:
            return "empty", f"none of its {self.rows:,} rows has a value"
        if self.values is not None and len(self.values) == 1:
            return "constant", f"always {_short(self.values[0])}"
        if pa.types.is_temporal(self.type):
            return "date", f"of type {self.type}"
        if pa.types.is_boolean(self.type):
            return "categorical", "yes or no"
        if _is_number(self.type):
            return self._kind_of_numbers(name, present)
        if _is_text(self.type):
            return self._kind_of_texts(present)
        return "text", f"of type {self.type}, no single values"

    def _kind_of_numbers(self, name: str, present: int) -> tuple[str, str]:
        if self.values is not None and len(self.values) == 2 and self.whole:
            low, high = sorted(value.as_py() for value in self.values)
            return "categorical", f"two values, {low:g} and {high:g}"
        # Different within each block, which needs no set of all values and is enough for a guess.
        unique = self.whole and self.fresh == present >= FEW_ROWS
        if unique and self.rising:
            return "identifier-like", "whole numbers that rise from row to row"
        if unique and IDENTIFIER.search(name):
            return "identifier-like", "whole numbers, hardly one twice"
        return "numeric", "numbers"

    def _kind_of_texts(self, present: int) -> tuple[str, str]:
        if self.dates >= NEARLY_ALL * present:
            return "date", "texts that read as dates"
        if MOSTLY * present <= self.numbers < present and self.odd:
            row, value = self.odd
            others = present - self.numbers
            return "mixed", f"numbers, but {others:,} others: {value!r} in row {row + 1:,}"
        # Categories come back: at least twice on average, unless the rows are too few to tell.
        few = self.values is not None and (present < FEW_ROWS or 2 * len(self.values) <= present)
        if self.values is not None and few:
            return "categorical", f"{len(self.values)} categories"
        # A blank in each text on average: they are sentences rather than names of anything.
        if self.blanks >= present:
            return "text", f"free text of {1 + self.blanks / present:.0f} words"
        if self.fresh >= NEARLY_ALL * present:
            return "identifier-like", "texts, hardly one twice"
        return "text", f"more than {MAX_CATEGORIES} different texts"


def _sketch_all(frame: Frame) -> list[Sketch]:
    return [_sketch(column) for column in frame.table.columns]


def _sketch(column: pa.ChunkedArray) -> Sketch:
    column = by_value(column)
    if _is_number(column.type):
        return _sketch_numbers(column)
    if not (_is_text(column.type) or pa.types.is_boolean(column.type)):
        return Sketch(column.type, len(column), column.null_count, None, 0)
    # Patterns are matched once for each different text, not for each row.
    counted = pc.value_counts(column.drop_null())
    values, times = counted.field("values"), counted.field("counts")
    sketch = Sketch(column.type, len(column), column.null_count, _few(values), len(values))
    if pa.types.is_boolean(column.type):
        return sketch
    numbers = pc.or_(number_like(values), pc.match_substring_regex(values, SCIENTIFIC))
    words = pc.filter(values, pc.invert(numbers))
    odd = (pc.index(column, words[0]).as_py(), words[0].as_py()) if len(words) else None
    return replace(
        sketch,
        numbers=_total(numbers, times),
        dates=_total(pc.match_substring_regex(values, DATE), times),
        blanks=_total(pc.count_substring(values, " "), times),
        odd=odd,
    )


def _sketch_numbers(column: pa.ChunkedArray) -> Sketch:
    numbers = np.asarray(column.cast(pa.float64()), dtype=np.float64)
    numbers = numbers[np.isfinite(numbers)]
    values = pa.array(np.unique(numbers))
    return Sketch(
        type=column.type,
        rows=len(column),
        missing=len(column) - len(numbers),
        values=_few(values),
        fresh=len(values),
        rising=bool((np.diff(numbers) > 0).all()),
        whole=bool((numbers == np.floor(numbers)).all()),
        ends=(float(numbers[0]), float(numbers[-1])) if len(numbers) else None,
    )


def _total(found: pa.Array, times: pa.Array) -> int:
    return int(np.asarray(found).astype(np.int64) @ np.asarray(times))


def _few(values: pa.Array) -> pa.Array | None:
    return values if len(values) <= MAX_CATEGORIES else None


def _together(a: pa.Array | None, b: pa.Array | None) -> pa.Array | None:
    return None if a is None or b is None else _few(pc.unique(pa.concat_arrays([a, b])))


def _is_number(kind: pa.DataType) -> bool:
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    return any(test(kind) for test in tests)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _short(value: pa.Scalar) -> str:
    found = value.as_py()
    text = f"{found:g}" if isinstance(found, float) else repr(found)
    return text if len(text) <= 30 else f"{text[:29]}…"
