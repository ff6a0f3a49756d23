"""Guesses: what kind of column each column seems to be, from its values and its name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import numpy as np

from fairmix.kernels.totals import FloatArray
from fairmix.system.arrow import pa, pc
from fairmix.tables import FileBlocks, Frame
from fairmix.tables.numbers import number_like
from fairmix.tables.text import NULLS
from fairmix.tables.values import by_value

__all__ = ["FEATURES", "Guess", "guess_columns", "guess_table", "without_marks"]

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
# Days and months of the calendar as numbers, in years that people are born in or deal with.
YEARS = (1850, 2150)
# Seconds since 1970 of these years; milliseconds are a thousand times as many.
SECONDS = tuple(datetime(year, 1, 1, tzinfo=UTC).timestamp() for year in (1980, 2100))
# Pairs of rows that would be equal if whole numbers were drawn from their range at random. If so
# many are expected and there is none, the numbers were given out one by one: at random, the chance
# of that is e^-10.
EXPECTED_TWINS = 10
# Digits of phone and account numbers; amounts and counts are rarely of so many, and all of as many.
LONG_NUMBER = 8
# Words in names, which are cut at underscores, blanks, digits and capitals.
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
# Of identifiers: the first say it alone, the others if hardly a value comes back.
IDENTIFIER = {"id", "uuid", "guid", "ssn", "iban", "imei", "phone", "telephone"}
NUMBERED = IDENTIFIER | {"key", "index", "idx", "no", "nr", "num", "number", "ref", "account"}
NUMBERED |= {"acct", "code", "serial", "nummer", "numero", "row"}
# Of moments that are counted in seconds.
MOMENT = {"time", "timestamp", "date", "datetime", "epoch", "ts", "created", "updated"}
# Of codes and classes, whose numbers are names: 10115 is no more than 10117.
CODE = {"zip", "zipcode", "postcode", "postal", "postalcode", "plz", "fips", "code", "cd"}
CODE |= {"naics", "sic", "isic", "nace", "isco", "icd", "type", "category", "region", "state"}
CODE |= {"county", "country", "district", "race", "ethnicity", "sex", "gender", "religion"}
CODE |= {"nationality", "occupation", "industry"}
# Of survey weights: the first say it alone, the others beside "weight".
WEIGHT = {"fnlwgt", "finalwgt", "wgt", "pweight", "pwgt", "perwt", "hhwt", "wtfinl", "pwgtp"}
WEIGHED = {"survey", "sample", "sampling", "final", "person", "household", "population", "pop"}
WEIGHED |= {"instance", "design", "base", "probability", "case", "expansion", "inverse"}


@dataclass(frozen=True)
class Guess:
    """What a column seems to be.

    Attributes
    ----------
    name : str
        The column.
    kind : str
        ``"numeric"``, ``"categorical"``, ``"constant"``, ``"identifier-like"``, ``"code"``,
        ``"weight"``, ``"date"`` or ``"text"``. Two more tell that something is wrong with it:
        ``"empty"`` (no value at all) and ``"mixed"`` (numbers, but for a few texts).
    reason : str
        Why, in a few words.
    missing : int
        Rows without a value, with infinity, or with a mark such as ``"?"``.
    n_values : int or None
        Different values, None if they are more than 256.
    numbers : bool
        Whether the values are stored as numbers.
    marks : tuple of str
        Texts that stand for a missing value.
    all_different : bool
        Whether hardly a value comes back.

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
    marks: tuple[str, ...] = ()
    all_different: bool = False

    @property
    def is_feature(self) -> bool:
        """Whether a mixture can take the column as it is."""
        return self.kind in FEATURES


def guess_columns(
    blocks: FileBlocks, names: Sequence[str], kept: list[Frame] | None = None
) -> tuple[Guess, ...]:
    r"""Kinds of some columns of files, by one pass over them.

    Parameters
    ----------
    blocks : FileBlocks
        The files.
    names : sequence of str
        Columns.
    kept : list of Frame, default=None
        The frames of the pass are added to it, for who reads them again.

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
    for sketches, frame in blocks.select(names).each(_sketch_all):
        if kept is not None:
            kept.append(frame)
        pairs = zip(known or sketches, sketches, strict=True)
        known = sketches if known is None else [old.merged(new) for old, new in pairs]
    assert known is not None
    return tuple(sketch.guess(name) for name, sketch in zip(names, known, strict=True))


def guess_table(table: pa.Table) -> tuple[Guess, ...]:
    """Kinds of the columns of a table.

    Examples
    --------
    >>> [guess.kind for guess in guess_table(pa.table({"day": [20240131, 20231224] * 10}))]
    ['date']
    """
    return tuple(_sketch(table[name]).guess(name) for name in table.column_names)


def without_marks(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column of text whose marks for missing values are missing."""
    if not _is_text(column.type):
        return column
    marked = pc.is_in(column, pa.array(NULLS, type=column.type))
    return pc.if_else(marked, pa.scalar(None, type=column.type), column)


@dataclass(frozen=True)
class Sketch:
    """What is known of some values of a column.

    ``values`` are the different ones as long as they are few, else None; ``fresh`` counts the
    different ones of each block, and ``pairs`` the pairs of values within the blocks. ``rising``,
    ``whole``, ``ends``, ``range`` and ``total`` are of numbers, of which ``dates`` are written
    yyyymmdd or yyyymm. Of texts, ``numbers``, ``dates`` and ``blanks`` count some, ``odd`` is the
    first one that is no number, with its row, and ``marks`` stand for missing values.
    """

    type: pa.DataType
    rows: int
    missing: int
    values: pa.Array | None
    fresh: int
    pairs: int = 0
    rising: bool = False
    whole: bool = False
    ends: tuple[float, float] | None = None
    range: tuple[float, float] = (np.inf, -np.inf)
    total: float = 0.0
    numbers: int = 0
    dates: int = 0
    blanks: int = 0
    odd: tuple[int, str] | None = None
    marks: frozenset[str] = field(default_factory=frozenset)

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
            pairs=self.pairs + other.pairs,
            rising=rising,
            whole=self.whole and other.whole,
            ends=(ends[0][0], ends[1][1]) if ends[0] and ends[1] else None,
            range=(min(self.range[0], other.range[0]), max(self.range[1], other.range[1])),
            total=self.total + other.total,
            numbers=self.numbers + other.numbers,
            dates=self.dates + other.dates,
            blanks=self.blanks + other.blanks,
            odd=odd,
            marks=self.marks | other.marks,
        )

    def guess(self, name: str) -> Guess:
        """The kind of the column with these values."""
        kind, reason = self._kind(name)
        n_values = None if self.values is None else len(self.values)
        different = self.fresh >= NEARLY_ALL * (self.rows - self.missing)
        return Guess(
            name,
            kind,
            reason,
            self.missing,
            n_values,
            _is_number(self.type),
            tuple(sorted(self.marks)),
            different,
        )

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
        words = [word.lower() for word in WORD.findall(name)]
        if self._are_weights(words, present):
            return "weight", "survey weights: how many a row stands for, not what it is like"
        if not self.whole:
            return "numeric", "numbers"
        if present >= FEW_ROWS and self.dates >= NEARLY_ALL * present:
            return "date", "numbers that read as dates, yyyymmdd or yyyymm"
        if self._are_moments(words):
            return "date", "seconds since 1970"
        if self.values is not None and len(self.values) == 2:
            low, high = sorted(value.as_py() for value in self.values)
            return "categorical", f"two values, {low:g} and {high:g}"
        if words and (words[-1] in CODE or words[0] in ("zip", "postal")):
            few = self.values is not None and 2 * len(self.values) <= present
            if few:
                return "categorical", "numbers that name classes"
            return "code", "numbers that name places or things, too many for categories"
        return self._kind_by_twins(words, present)

    def _are_weights(self, words: list[str], present: int) -> bool:
        """Whether numbers weigh rows; a weight of people or things is a feature."""
        said = set(words)
        if said & WEIGHT or (said & {"weight", "weights", "wt"} and said & WEIGHED):
            return self.range[0] >= 0
        # Weights are often scaled to a mean of 1, which nothing that is weighed has.
        scaled = abs(self.total / present - 1) < 0.01
        return bool(said & {"weight", "weights"}) and self.range[0] >= 0 and scaled

    def _are_moments(self, words: list[str]) -> bool:
        inside = (
            SECONDS[0] * unit <= self.range[0] and self.range[1] <= SECONDS[1] * unit
            for unit in (1, 1000)
        )
        return any(inside) and bool(MOMENT & set(words) or words[-1:] == ["at"])

    def _kind_by_twins(self, words: list[str], present: int) -> tuple[str, str]:
        """Identifiers are whole numbers that do not come back; other numbers do by chance."""
        if present < FEW_ROWS:
            return "numeric", "numbers"
        # Different within each block, which needs no set of all values and is enough for a guess.
        unique = self.fresh == present
        if unique and self.rising:
            return "identifier-like", "whole numbers that rise from row to row"
        many = self.values is None or len(self.values) >= NEARLY_ALL * present
        if many and {*words[:1], *words[-1:]} & IDENTIFIER:
            return "identifier-like", "whole numbers, and named so"
        if self.fresh >= NEARLY_ALL * present and words and words[-1] in NUMBERED:
            return "identifier-like", "whole numbers, hardly one twice, and named so"
        low, high = self.range
        if unique and self.pairs >= EXPECTED_TWINS * (high - low + 1):
            return "identifier-like", "whole numbers, none twice, though their range is narrow"
        digits = len(f"{low:.0f}")
        if unique and low > 0 and digits == len(f"{high:.0f}") >= LONG_NUMBER:
            return "identifier-like", f"whole numbers of {digits} digits, none twice"
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
            return "categorical", "texts that come back"
        if self.numbers == present:
            return "text", "numbers that are stored as text"
        # A blank in each text on average: they are sentences rather than names of anything.
        if self.blanks >= present:
            return "text", f"free text of {1 + self.blanks / present:.0f} words"
        if self.fresh >= NEARLY_ALL * present:
            return "identifier-like", "texts, hardly one twice"
        return "text", f"more than {MAX_CATEGORIES} different texts"


def _sketch_all(frame: Frame) -> tuple[list[Sketch], Frame]:
    return [_sketch(column) for column in frame.table.columns], frame


def _sketch(column: pa.ChunkedArray) -> Sketch:
    column = by_value(column)
    if _is_number(column.type):
        return _sketch_numbers(column)
    if not (_is_text(column.type) or pa.types.is_boolean(column.type)):
        return Sketch(column.type, len(column), column.null_count, None, 0)
    # Patterns are matched once for each different text, not for each row.
    present = column.drop_null()
    counted = pc.value_counts(present)
    marks: list[str] = []
    if _is_text(column.type):
        marked = pc.is_in(counted.field("values"), pa.array(NULLS, type=column.type))
        marks = counted.field("values").filter(marked).to_pylist()
        counted = counted.filter(pc.invert(marked))
    values, times = counted.field("values"), counted.field("counts")
    missing = len(column) - int(np.asarray(times).sum())
    sketch = Sketch(column.type, len(column), missing, _few(values), len(values))
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
        marks=frozenset(marks),
    )


def _sketch_numbers(column: pa.ChunkedArray) -> Sketch:
    # Not safe: long whole numbers lose their last digits, as they do in the fit.
    numbers = np.asarray(column.cast(pa.float64(), safe=False), dtype=np.float64)
    numbers = numbers[np.isfinite(numbers)]
    values = pa.array(np.unique(numbers))
    low, high = (float(numbers.min()), float(numbers.max())) if len(numbers) else (np.inf, -np.inf)
    whole = bool((numbers == np.floor(numbers)).all())
    return Sketch(
        type=column.type,
        rows=len(column),
        missing=len(column) - len(numbers),
        values=_few(values),
        fresh=len(values),
        rising=bool((np.diff(numbers) > 0).all()),
        pairs=len(numbers) * (len(numbers) - 1) // 2,
        whole=whole,
        ends=(float(numbers[0]), float(numbers[-1])) if len(numbers) else None,
        range=(low, high),
        total=float(numbers.sum()),
        dates=_days(numbers) if whole else 0,
    )


def _days(numbers: FloatArray) -> int:
    """How many whole numbers read as yyyymmdd or yyyymm, whichever are more."""
    found = []
    for with_days in (True, False):
        months, days = np.divmod(numbers, 100) if with_days else (numbers, np.ones_like(numbers))
        years, months = np.divmod(months, 100)
        inside = (years >= YEARS[0]) & (years < YEARS[1]) & (months >= 1) & (months <= 12)
        found.append(int((inside & (days >= 1) & (days <= 31)).sum()))
    return max(found)


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
