"""Sources: Parquet and CSV files, and how pieces of their rows are read."""

from __future__ import annotations

import glob
import os
from collections import Counter, deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TypeGuard, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from fairmix.system.clean import clean
from fairmix.system.progress import Tick, progress
from fairmix.tables.seal import Stamp
from fairmix.tables.text import COMPRESSION, CSV_BYTES, TextFile, all_numbers
from fairmix.tables.values import value_type

PathLike = str | os.PathLike[str]
Paths = PathLike | Sequence[PathLike]
Entry = TypeVar("Entry")
# First row, and the one after the last.
Range = tuple[int, int]

PARQUET = (".parquet", ".pq")
TEXT = (".csv", ".tsv")
# Of these a folder may hold some that are no data, so they are read only when they are named.
NAMED_TEXT = (".data", ".txt")
KINDS = (
    "Give files that end in .parquet, .pq, .csv, .tsv, .data or .txt, all of one kind; text also "
    "with .gz, .bz2 or .zst behind it."
)
# Bytes of a Parquet file that are decoded at once, about.
READ_BYTES = 2**23


def is_path(X: object) -> TypeGuard[Paths]:
    """Whether X names files: a path, or a list of paths."""
    if isinstance(X, list | tuple):
        return len(X) > 0 and all(isinstance(entry, str | os.PathLike) for entry in X)
    return isinstance(X, str | os.PathLike)


def find_files(paths: Paths) -> list[Path]:
    """Files that a path, a pattern, a folder or a list of these names.

    A list keeps its order; a pattern and a folder give their files sorted by name.
    """
    given = [paths] if isinstance(paths, str | os.PathLike) else paths
    found = [file for path in given for file in _matches(path)]
    twice = _repeated(found)
    if twice is not None:
        raise ValueError(f"X names {str(twice)!r} more than once. Name every file once.")
    # Arrow takes names as UTF-8, and so do reports.
    odd = next((file for file in found if clean(str(file)) != str(file)), None)
    if odd is not None:
        raise ValueError(
            f"{str(odd)!r} has a name with characters that cannot be written. Rename the file."
        )
    # A pipe would make the reader wait, which no signal ends, and a device may have no end. Rows
    # are also read more than once, which a pipe does not allow.
    special = next((file for file in found if not file.is_file()), None)
    if special is not None:
        raise ValueError(
            f"{str(special)!r} is no regular file, but a folder, a pipe or a device. Save its rows "
            "to a file and give that."
        )
    odd = next((f for f in found if _kind(f) is None or _kind(f) != _kind(found[0])), None)
    if odd is not None:
        why = "is not a file to read" if _kind(odd) is None else "cannot be read with the others"
        raise ValueError(f"{str(odd)!r} {why}. {KINDS}")
    return found


def _matches(path: PathLike) -> list[Path]:
    given = Path(path)
    if given.is_dir():
        # Names that begin with a dot or an underscore are not data, by the convention of Parquet.
        found = sorted(
            f
            for f in given.iterdir()
            if _kind(f) not in (None, *NAMED_TEXT) and f.name[0] not in "._"
        )
    elif given.exists():
        found = [given]
    else:
        found = sorted(Path(name) for name in glob.glob(os.fspath(path), recursive=True))
    if not found:
        raise FileNotFoundError(f"{os.fspath(path)!r} matches no file. {KINDS}")
    return found


def _kind(path: Path) -> str | None:
    """``"parquet"``, or the suffix of a text file; None for other files."""
    name = path.name.lower()
    if name.endswith(PARQUET):
        return "parquet"
    packed = next((mark for mark in COMPRESSION if name.endswith(mark)), "")
    name = name.removesuffix(packed)
    return next((mark for mark in (*TEXT, *NAMED_TEXT) if name.endswith(mark)), None)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Errors of a reader, as ones that name the file."""
    try:
        yield
    # These name the file already.
    except (FileNotFoundError, PermissionError):
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        why = str(error).rstrip(".")
        # Arrow's words for a line that does not end within the bytes that it decodes at once.
        if "straddling" in why:
            why = (
                f"it has a line of more than {CSV_BYTES:,} bytes, or a quote that does not end. "
                "Correct it, or save a table of so many columns as Parquet"
            )
        if "UTF8" in why or isinstance(error, UnicodeDecodeError):
            why = f"its text is not UTF-8 ({why}). Save it as UTF-8"
        raise ValueError(
            f"{str(path)!r} cannot be read: {why}. Repair the file, or leave it out."
        ) from error


@dataclass(frozen=True)
class ParquetSource:
    """One Parquet file. ``group_rows`` are the rows of each row group."""

    path: Path
    schema: pa.Schema
    group_rows: tuple[int, ...]
    stamp: Stamp

    @classmethod
    def open(cls, path: Path) -> ParquetSource:
        """Read the footer."""
        # Before anything is read, or a change right after it would not be seen.
        stamp = Stamp.of(path)
        with _naming(path), pq.ParquetFile(path) as file:
            _distinct(path, list(file.schema_arrow.names))
            footer = file.metadata
            rows = tuple(footer.row_group(i).num_rows for i in range(footer.num_row_groups))
            return cls(path, file.schema_arrow.remove_metadata(), rows, stamp)

    @property
    def n_rows(self) -> int:
        """Rows of the file."""
        return sum(self.group_rows)

    def pieces(self, ranges: list[Range], names: list[str]) -> Iterator[tuple[int, pa.Table]]:
        """Tables and their first rows, from the row groups that hold rows of the ranges."""
        starts = [0, *accumulate(self.group_rows)]
        # Pieces of a row group, which itself may be large. A number has eight bytes; where columns
        # are many, a piece still has rows enough to be worth a call.
        batch_rows = max(1024, READ_BYTES // (8 * max(1, len(names))))
        self.stamp.check(self.path)
        # No buffer: it would hold whole row groups, and memory must not grow with them.
        with _naming(self.path), pq.ParquetFile(self.path, pre_buffer=False) as file:
            _check_unchanged(self.path, file.metadata.num_rows, self.n_rows)
            for groups in _runs(starts, ranges):
                position = starts[groups[0]]
                for batch in file.iter_batches(batch_rows, groups, names, use_threads=False):
                    yield position, pa.Table.from_batches([batch])
                    position += len(batch)
        # Once more, for a change while it was read.
        self.stamp.check(self.path)


def _runs(starts: list[int], ranges: list[Range]) -> list[list[int]]:
    """Row groups that hold rows of the ranges, in runs without gaps."""
    runs: list[list[int]] = []
    remaining = deque(ranges)
    for number, (start, stop) in enumerate(pairwise(starts)):
        while remaining and remaining[0][1] <= start:
            remaining.popleft()
        if not remaining or remaining[0][0] >= stop:
            continue
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return runs


@dataclass(frozen=True)
class CsvSource:
    """One text file with a header: numbers as float64, all other columns as strings."""

    file: TextFile
    schema: pa.Schema
    n_rows: int
    stamp: Stamp

    @classmethod
    def open(cls, path: Path, text: Sequence[str], tick: Tick) -> CsvSource:
        """Find rows and types by reading the whole file.

        A column is of numbers when it is not in ``text`` and every value in it that is not missing
        reads as a number. The first rows alone would say too little.
        """
        # Before anything is read, or a change right after it would not be seen.
        stamp = Stamp.of(path)
        with _naming(path):
            file = TextFile.open(path)
        names = _distinct(path, file.names)
        # All as text first, because what a column holds is known only at its end.
        strings = pa.schema([(name, pa.string()) for name in names])
        n_rows, numbers = 0, set(names).difference(text)
        for batch in cls(file, strings, 0, stamp)._batches(names):
            numbers = {name for name in numbers if all_numbers(batch.column(name))}
            n_rows += len(batch)
            tick(steps=len(batch))
        types = [(name, pa.float64() if name in numbers else pa.string()) for name in names]
        stamp.check(path)
        return cls(file, pa.schema(types), n_rows, stamp)

    @property
    def path(self) -> Path:
        """Where it is."""
        return self.file.path

    @property
    def words(self) -> set[str]:
        """Columns of text."""
        return {field.name for field in self.schema if field.type == pa.string()}

    def with_words(self, words: set[str]) -> CsvSource:
        """The same file with more columns read as text."""
        types = [(f.name, pa.string() if f.name in words else f.type) for f in self.schema]
        return CsvSource(self.file, pa.schema(types), self.n_rows, self.stamp)

    def _batches(self, names: list[str]) -> Generator[pa.RecordBatch]:
        types = {name: self.schema.field(name).type for name in names}
        with _naming(self.path):
            yield from self.file.batches(types)

    def pieces(self, ranges: list[Range], names: list[str]) -> Iterator[tuple[int, pa.Table]]:
        """Tables and their first rows, from the first row of the file on."""
        position = 0
        self.stamp.check(self.path)
        with closing(self._batches(names)) as batches:
            for batch in batches:
                yield position, pa.Table.from_batches([batch])
                position += len(batch)
                # Stops early, unless the last row is wanted: then the file is read to its end, and
                # its rows are counted below.
                if ranges[-1][1] < min(position, self.n_rows):
                    return
        # Once more, for a change while it was read.
        self.stamp.check(self.path)
        _check_unchanged(self.path, position, self.n_rows)


def column_names(path: Path) -> list[str]:
    """Names of the columns of a file."""
    with _naming(path):
        if _kind(path) == "parquet":
            names = list(pq.read_schema(path).names)
        else:
            names = TextFile.open(path).names
    return _distinct(path, names)


def _distinct(path: Path, names: list[str]) -> list[str]:
    """Names, none of which repeats: nothing later could tell the columns apart."""
    twice = _repeated(names)
    if twice is not None:
        raise ValueError(f"{str(path)!r} has more than one column {twice!r}. Rename one of them.")
    return names


def _repeated(entries: Sequence[Entry]) -> Entry | None:
    """The first that occurs twice."""
    # Counted at once: to count each would take a minute for 100,000 columns.
    counts = Counter(entries)
    return next((entry for entry in entries if counts[entry] > 1), None)


def _check_unchanged(path: Path, n_rows: int, known: int) -> None:
    if n_rows != known:
        raise ValueError(
            f"{str(path)!r} had {known} rows and now has {n_rows}. Leave the file alone while it "
            "is read."
        )


def open_sources(
    paths: Paths, text: Sequence[str] = (), *, verbose: bool = False
) -> list[ParquetSource] | list[CsvSource]:
    """The files that the paths name; ``text`` are columns that CSV files hold as text."""
    files = find_files(paths)
    if _kind(files[0]) == "parquet":
        return [ParquetSource.open(file) for file in files]
    with progress("scan", None, shown=verbose, unit="rows") as tick:
        sources = [CsvSource.open(file, text, tick) for file in files]
    # Where one file holds text, all do. A file without rows holds neither text nor numbers.
    words = set[str]().union(*(source.words for source in sources))
    return [source.with_words(words) for source in sources]


def common_schema(sources: Sequence[ParquetSource | CsvSource]) -> pa.Schema:
    """The schema of all files: the same columns with the same types of values."""
    first = sources[0]
    types = [field.type for field in first.schema]
    for source in sources[1:]:
        if source.schema.names != first.schema.names:
            odd = sorted(set(source.schema.names) ^ set(first.schema.names)) or "another order"
            raise ValueError(
                f"{str(source.path)!r} has other columns than {str(first.path)!r}: {odd}. Give "
                "all files the same columns in the same order."
            )
        for j, field in enumerate(source.schema):
            if field.type == types[j]:
                continue
            types[j], other = _plain(types[j]), _plain(field.type)
            if types[j] != other:
                raise ValueError(
                    f"{str(source.path)!r} has the column {field.name!r} as {other}, "
                    f"{str(first.path)!r} as {types[j]}. Give all files the same types."
                )
    return pa.schema(list(zip(first.schema.names, types, strict=True)))


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type of the values themselves: categories are values, and all strings are alike."""
    kind = value_type(kind)
    return pa.string() if pa.types.is_large_string(kind) else kind
