"""Sources: Parquet, Arrow and text files, and how pieces of their rows are read."""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any, Protocol

from fairmix.system.arrow import pa, pq
from fairmix.system.notices import notify
from fairmix.system.progress import Tick, progress
from fairmix.tables._base import BLOCK_ROWS
from fairmix.tables.locations import File, Paths, find_files
from fairmix.tables.numbers import PLAIN, Style, Traits, is_plain, styles_of
from fairmix.tables.seal import Stamp
from fairmix.tables.text import CSV_BYTES, FALLBACKS, USUAL, Dialect, TextFile
from fairmix.tables.values import value_type, without_views

# First row, and the one after the last.
Range = tuple[int, int]

# Bytes of a Parquet file that are decoded at once, about.
READ_BYTES = 2**23


class FileRows(Protocol):
    """The rows of one file."""

    @property
    def file(self) -> File:
        """Where they are."""

    @property
    def schema(self) -> pa.Schema:
        """Names and types of the columns."""

    @property
    def n_rows(self) -> int:
        """Rows of the file."""

    @property
    def stamp(self) -> Stamp:
        """Tells whether the file is still the one that was opened."""

    def pieces(self, ranges: list[Range], names: list[str]) -> Iterator[tuple[int, pa.Table]]:
        """Tables and their first rows, at least those that hold rows of the ranges."""


@contextmanager
def _naming(path: File) -> Iterator[None]:
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
            why = f"its text has another encoding ({why}). Give the right one, or save it as UTF-8"
        raise ValueError(
            f"{str(path)!r} cannot be read: {why}. Repair the file, or leave it out."
        ) from error


@dataclass(frozen=True)
class ParquetSource:
    """One Parquet file. ``group_rows`` are the rows of each row group."""

    file: File
    schema: pa.Schema
    group_rows: tuple[int, ...]
    stamp: Stamp

    @classmethod
    def open(cls, file: File) -> ParquetSource:
        """Read the footer."""
        # Before anything is read, or a change right after it would not be seen.
        stamp = Stamp.of(file)
        with _naming(file), pq.ParquetFile(file.random()) as reader:
            footer = reader.metadata
            rows = tuple(footer.row_group(i).num_rows for i in range(footer.num_row_groups))
            return cls(file, _columns(reader.schema_arrow, file), rows, stamp)

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
        # Whole blocks, most of which then lie in one piece.
        if batch_rows > BLOCK_ROWS:
            batch_rows -= batch_rows % BLOCK_ROWS
        self.stamp.check(self.file)
        # No buffer: it would hold whole row groups, and memory must not grow with them.
        with _naming(self.file), pq.ParquetFile(self.file.random(), pre_buffer=False) as file:
            _check_unchanged(self.file, file.metadata.num_rows, self.n_rows)
            for groups in _runs(starts, ranges):
                position = starts[groups[0]]
                for batch in file.iter_batches(batch_rows, groups, names, use_threads=False):
                    yield position, pa.Table.from_batches([batch])
                    position += len(batch)
        # Once more, for a change while it was read.
        self.stamp.check(self.file)


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
class ArrowSource:
    """One file of Arrow's own format (Feather). ``batch_rows`` are the rows of each batch in it."""

    file: File
    schema: pa.Schema
    batch_rows: tuple[int, ...]
    stamp: Stamp

    @classmethod
    def open(cls, file: File) -> ArrowSource:
        """Read the schema and the numbers of rows."""
        # Before anything is read, or a change right after it would not be seen.
        stamp = Stamp.of(file)
        # One column tells them, and the others may have to be decompressed.
        with _naming(file), _arrow_reader(file, [0]) as reader:
            rows = [len(reader.get_batch(i)) for i in range(reader.num_record_batches)]
        with _naming(file), _arrow_reader(file) as reader:
            return cls(file, _columns(reader.schema, file), tuple(rows), stamp)

    @property
    def n_rows(self) -> int:
        """Rows of the file."""
        return sum(self.batch_rows)

    def pieces(self, ranges: list[Range], names: list[str]) -> Iterator[tuple[int, pa.Table]]:
        """Tables and their first rows, from the batches that hold rows of the ranges."""
        starts = [0, *accumulate(self.batch_rows)]
        self.stamp.check(self.file)
        with _naming(self.file), _arrow_reader(self.file) as reader:
            stored = reader.schema.names
        fields = [stored.index(name) for name in names]
        with _naming(self.file), _arrow_reader(self.file, fields) as reader:
            for number in (number for run in _runs(starts, ranges) for number in run):
                if number >= reader.num_record_batches:
                    break
                table = pa.Table.from_batches([reader.get_batch(number)]).select(names)
                _check_unchanged(self.file, len(table), self.batch_rows[number])
                yield starts[number], table
        # Once more, for a change while it was read.
        self.stamp.check(self.file)


@contextmanager
def _arrow_reader(file: File, fields: list[int] | None = None) -> Iterator[Any]:
    # Columns that are not asked for are not even decompressed.
    options = pa.ipc.IpcReadOptions(use_threads=False, included_fields=fields or [])
    # Mapped where it can be: then a batch without compression costs no copy.
    source = file.random()
    if isinstance(source, str):
        source = pa.memory_map(source)
    with source, pa.ipc.open_file(source, options=options) as reader:
        yield reader


@dataclass(frozen=True)
class PartitionedSource:
    """Rows of a file and columns of one value each, which the folders above it are named after."""

    source: FileRows
    values: tuple[pa.Scalar, ...]
    names: tuple[str, ...]

    @property
    def file(self) -> File:
        """Where it is."""
        return self.source.file

    @property
    def stamp(self) -> Stamp:
        """That of the file."""
        return self.source.stamp

    @property
    def schema(self) -> pa.Schema:
        """Columns of the file, then those of the folders."""
        more = [pa.field(n, value.type) for n, value in zip(self.names, self.values, strict=True)]
        return pa.schema([*self.source.schema, *more])

    @property
    def n_rows(self) -> int:
        """Rows of the file."""
        return self.source.n_rows

    def pieces(self, ranges: list[Range], names: list[str]) -> Iterator[tuple[int, pa.Table]]:
        """Those of the file, with the columns of the folders."""
        known = dict(zip(self.names, self.values, strict=True))
        # A column tells how many rows there are, even if no other is wanted.
        stored = [n for n in names if n not in known] or self.source.schema.names[:1]
        for position, table in self.source.pieces(ranges, stored):
            columns = [
                pa.repeat(known[name], len(table)) if name in known else table[name]
                for name in names
            ]
            yield position, pa.table(columns, names=names)


@dataclass(frozen=True)
class TextScan:
    """What one pass over a text file finds: its rows, and how columns could be read as numbers."""

    text: TextFile
    n_rows: int
    traits: dict[str, Traits]
    stamp: Stamp

    @classmethod
    def of(cls, file: File, dialect: Dialect, words: Sequence[str], tick: Tick) -> TextScan:
        """Read the whole file: the first rows alone would say too little.

        A column is of numbers when it is not in ``words`` and every value in it that is not
        missing reads as a number.
        """
        # Before anything is read, or a change right after it would not be seen.
        stamp = Stamp.of(file)
        encoding, fallbacks = None, deque(FALLBACKS)
        while True:
            try:
                with _naming(file):
                    text = TextFile.open(file, dialect, encoding)
                    _refuse_repeated(text.names, file)
                    found = cls._scan(text, words, tick, stamp)
                stamp.check(file)
                return found
            except ValueError as error:
                told = dialect.encoding is not None
                if told or not fallbacks or not _is_of_encoding(error):
                    raise
                encoding = fallbacks.popleft()

    @classmethod
    def _scan(cls, text: TextFile, words: Sequence[str], tick: Tick, stamp: Stamp) -> TextScan:
        n_rows, traits = 0, dict.fromkeys(set(text.names).difference(words), Traits())
        # All as text first, because what a column holds is known only at its end.
        for batch in text.batches(dict.fromkeys(text.names, pa.string())):
            traits = {name: known.seen(batch.column(name)) for name, known in traits.items()}
            n_rows += len(batch)
            tick(steps=len(batch))
        # In the order of the file, so that notes are.
        return cls(text, n_rows, {n: traits[n] for n in text.names if n in traits}, stamp)


@dataclass(frozen=True)
class CsvSource:
    """One text file with a header: numbers as float64, all other columns as strings.

    ``styles`` tell how numbers are written, where Arrow does not read them by itself.
    """

    text: TextFile
    schema: pa.Schema
    n_rows: int
    styles: dict[str, Style]
    stamp: Stamp

    @property
    def file(self) -> File:
        """Where it is."""
        return self.text.file

    def as_text(self, names: Sequence[str]) -> CsvSource:
        """The same file with some columns as it spells them."""
        types = [(f.name, pa.string() if f.name in names else f.type) for f in self.schema]
        styles = {name: style for name, style in self.styles.items() if name not in names}
        return replace(self, schema=pa.schema(types), styles=styles)

    def _batches(self, names: list[str]) -> Generator[pa.RecordBatch]:
        types = {
            name: pa.string() if name in self.styles else self.schema.field(name).type
            for name in names
        }
        with _naming(self.file):
            for batch in self.text.batches(types):
                columns = [
                    self.styles[name].read(column) if name in self.styles else column
                    for name, column in zip(names, batch.columns, strict=True)
                ]
                yield pa.RecordBatch.from_arrays(columns, names=names)

    def pieces(self, ranges: list[Range], names: list[str]) -> Iterator[tuple[int, pa.Table]]:
        """Tables and their first rows, from the first row of the file on."""
        position = 0
        self.stamp.check(self.file)
        with closing(self._batches(names)) as batches:
            for batch in batches:
                yield position, pa.Table.from_batches([batch])
                position += len(batch)
                # Stops early, unless the last row is wanted: then the file is read to its end, and
                # its rows are counted below.
                if ranges[-1][1] < min(position, self.n_rows):
                    return
        # Once more, for a change while it was read.
        self.stamp.check(self.file)
        _check_unchanged(self.file, position, self.n_rows)


def as_text(source: FileRows, names: Sequence[str]) -> FileRows:
    """A source with some columns as text files and folders spell them; others know types."""
    if isinstance(source, CsvSource):
        return source.as_text(names)
    if isinstance(source, PartitionedSource):
        spelled = dict(source.file.partition)
        values = (
            pa.scalar(spelled[name], pa.string()) if name in names else value
            for name, value in zip(source.names, source.values, strict=True)
        )
        return replace(source, source=as_text(source.source, names), values=tuple(values))
    return source


def column_names(file: File, dialect: Dialect = USUAL) -> list[str]:
    """Names of the columns of a file, then those of the folders above it."""
    with _naming(file):
        if file.kind == "parquet":
            names = _columns(pq.read_schema(file.random()), file).names
        elif file.kind == "arrow":
            with _arrow_reader(file) as reader:
                names = _columns(reader.schema, file).names
        else:
            names = TextFile.open(file, dialect).names
            _refuse_repeated(names, file)
    return [*names, *(name for name, _ in file.partition if name not in names)]


def _columns(schema: pa.Schema, file: File) -> pa.Schema:
    """Names and types of the columns, without those that are the index of a data frame."""
    index = index_columns(schema)
    fields = [field for field in schema if field.name not in index]
    # Nothing later could tell two columns of one name apart.
    _refuse_repeated([field.name for field in fields], file)
    return without_views(pa.schema(fields))


def index_columns(schema: pa.Schema) -> list[str]:
    """Columns in which pandas and Dask have stored the index of a data frame: no features.

    Examples
    --------
    >>> index_columns(pa.schema([("age", pa.int64())]))
    []
    """
    try:
        known = json.loads((schema.metadata or {}).get(b"pandas", b"{}"))
    except ValueError:
        return []
    # An index that only counts has no column, but a description.
    return [entry for entry in known.get("index_columns", ()) if isinstance(entry, str)]


def _refuse_repeated(names: list[str], file: File) -> None:
    # Counted at once: to count each would take a minute for 100,000 columns.
    counts = Counter(names)
    twice = next((name for name in names if counts[name] > 1), None)
    if twice is not None:
        raise ValueError(f"{str(file)!r} has more than one column {twice!r}. Rename one of them.")


def _check_unchanged(path: File, n_rows: int, known: int) -> None:
    if n_rows != known:
        raise ValueError(
            f"{str(path)!r} had {known} rows and now has {n_rows}. Leave the file alone while it "
            "is read."
        )


def open_sources(
    paths: Paths, text: Sequence[str] = (), *, dialect: Dialect = USUAL, verbose: bool = False
) -> list[FileRows]:
    """The files that the paths name; ``text`` are columns that text files hold as text."""
    files = find_files(paths)
    sources: list[FileRows]
    if files[0].kind == "parquet":
        sources = [ParquetSource.open(file) for file in files]
    elif files[0].kind == "arrow":
        sources = [ArrowSource.open(file) for file in files]
    else:
        with progress("scan", None, shown=verbose, unit="rows") as tick:
            scans = [TextScan.of(file, dialect, text, tick) for file in files]
        sources = [*_text_sources(scans)]
    return _partitioned(sources, text)


def _text_sources(scans: list[TextScan]) -> Iterator[CsvSource]:
    """Text files whose columns are read alike: where one file holds words, all do."""
    # By all of them: one file may leave open what another settles.
    traits = dict(scans[0].traits)
    for scan in scans[1:]:
        both = [name for name in traits if name in scan.traits]
        traits |= scan.traits | {name: traits[name].merged(scan.traits[name]) for name in both}
    first = scans[0].text
    styles = styles_of(traits, first.dialect.decimal, first.delimiter)
    # A file without rows holds neither words nor numbers; with numbers nothing can go wrong.
    empty = {name for name, trait in traits.items() if trait == Traits()}
    special = {n: style for n, style in styles.items() if not is_plain(style, traits[n])}
    _tell(scans, special)
    for scan in scans:
        types = [
            (name, pa.float64() if name in styles or name in empty else pa.string())
            for name in scan.text.names
        ]
        yield CsvSource(scan.text, pa.schema(types), scan.n_rows, special, scan.stamp)


def _tell(scans: list[TextScan], special: dict[str, Style]) -> None:
    """Say how text was read where it could have been read otherwise."""
    first, dialect = str(scans[0].text.file), scans[0].text.dialect
    # Not what the user has said.
    told = {n: s for n, s in special.items() if s != Style(dialect.decimal or PLAIN.decimal)}
    if told:
        said = "; ".join(f"{name!r} ({style.words})" for name, style in told.items())
        notify(
            f"{first!r} has columns whose texts were read as numbers: {said}. If that is wrong, "
            "name them as categorical, or say which mark is the decimal one (decimal)."
        )
    odd = [scan.text for scan in scans if scan.text.encoding in FALLBACKS]
    if odd and dialect.encoding is None:
        more = f" and {len(odd) - 1} more files" if len(odd) > 1 else ""
        notify(
            f"{str(odd[0].file)!r}{more}: the text is not UTF-8 and was read as "
            f"{odd[0].encoding}. If names look wrong, give its encoding."
        )


def _is_of_encoding(error: ValueError) -> bool:
    cause = error.__cause__ or error
    return isinstance(cause, UnicodeDecodeError) or "UTF8" in str(cause)


def _partitioned(sources: list[FileRows], text: Sequence[str]) -> list[FileRows]:
    """The sources with columns of the folders above them, if those are named after values."""
    told = [dict(source.file.partition) for source in sources]
    # What is in a file itself is not asked for elsewhere.
    names = [name for name in told[0] if name not in sources[0].schema.names]
    if not names and not any(told):
        return sources
    kinds = {}
    for name in names:
        values = pa.array([values.get(name) for values in told], pa.string())
        trait = Traits().seen(values)
        # As in a text file, a column is of numbers when all its values are.
        numbers = name not in text and trait.is_number and trait.plain and not trait.stand_ins
        kinds[name] = pa.float64() if numbers else pa.string()
    found: list[FileRows] = []
    for source, values in zip(sources, told, strict=True):
        own = [name for name in values if name not in source.schema.names]
        scalars = [pa.scalar(values[n]).cast(kinds.get(n, pa.string())) for n in own]
        found.append(PartitionedSource(source, tuple(scalars), tuple(own)) if own else source)
    return found


def common_schema(sources: Sequence[FileRows]) -> pa.Schema:
    """The schema of all files: the same columns with the same types of values."""
    first = sources[0]
    types = [field.type for field in first.schema]
    for source in sources[1:]:
        if source.schema.names != first.schema.names:
            odd = sorted(set(source.schema.names) ^ set(first.schema.names)) or "another order"
            raise ValueError(
                f"{str(source.file)!r} has other columns than {str(first.file)!r}: {odd}. Give "
                "all files the same columns in the same order."
            )
        for j, field in enumerate(source.schema):
            if field.type == types[j]:
                continue
            types[j], other = _plain(types[j]), _plain(field.type)
            if types[j] != other:
                raise ValueError(
                    f"{str(source.file)!r} has the column {field.name!r} as {other}, "
                    f"{str(first.file)!r} as {types[j]}. Give all files the same types."
                )
    return pa.schema(list(zip(first.schema.names, types, strict=True)))


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type of the values themselves: categories are values, and all strings are alike."""
    kind = value_type(kind)
    return pa.string() if pa.types.is_large_string(kind) else kind
