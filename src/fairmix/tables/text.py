"""Text files: their encoding, delimiter and header, and how their rows are read."""

from __future__ import annotations

import codecs
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from fairmix.system.arrow import pa, pc, pcsv
from fairmix.tables.locations import COMPRESSION, File

# What may stand between two values, the most usual first. Every text file but a .tsv is asked.
DELIMITERS = (",", ";", "\t", "|")
TAB_SUFFIX = ".tsv"
# Bytes that are decoded at once, of which a row must not have more, and those that are looked at
# for the delimiter.
CSV_BYTES = 2**20
# A column of a batch costs tens of microseconds even with a single row, so that rows of very many
# columns come together, as far as memory allows.
BATCH_ROWS, BATCH_BYTES = 64, 2**24
HEAD_BYTES = 2**16
UTF8, UTF16 = "utf-8", "utf-16"
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
# Tried in this order where text is not UTF-8 and nobody says what it is. The first is what Windows
# calls Latin-1 and has the euro sign; the second reads any bytes.
FALLBACKS = ("cp1252", "latin-1")
BLANKS = " \t"
# Cells that hold no value: those of Arrow and pandas, and the mark of many public tables.
NULLS: tuple[str, ...] = ("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan")
NULLS += ("1.#IND", "1.#QNAN", "N/A", "NA", "NULL", "NaN", "n/a", "nan", "null", "<NA>", "?")


@dataclass(frozen=True)
class Dialect:
    """What the user says about text files.

    Attributes
    ----------
    decimal : {".", ","} or None
        What stands before tenths, where numbers leave it open. None: told by the numbers.
    encoding : str or None
        Of all files. None: UTF-8, or UTF-16 where a file begins with its mark; with a note
        Windows-1252 or Latin-1 where it is neither.
    missing : tuple of str
        Cells that hold no value, beside the usual ones.
    """

    decimal: Literal[".", ","] | None = None
    encoding: str | None = None
    missing: tuple[str, ...] = ()

    @classmethod
    def of(cls, decimal: str | None, encoding: str | None, missing: Sequence[str]) -> Dialect:
        """From what users give."""
        signs: dict[str | None, Literal[".", ","] | None] = {None: None, ".": ".", ",": ","}
        if decimal not in signs:
            raise ValueError(f"decimal={decimal!r}. Give '.' or ',', or leave it out.")
        try:
            codecs.lookup(encoding or UTF8)
        except LookupError:
            raise ValueError(
                f"encoding={encoding!r} is unknown. Give one that Python knows, such as 'latin-1'."
            ) from None
        if isinstance(missing, str):
            missing = (missing,)
        return cls(signs[decimal], encoding, tuple(missing))

    @property
    def nulls(self) -> list[str]:
        """Cells that hold no value, also after a delimiter with a blank behind it."""
        known = (*NULLS, *self.missing)
        return [*known, *(f" {null}" for null in known)]


# What text files are when nobody says anything about them.
USUAL = Dialect()


@dataclass(frozen=True)
class TextFile:
    """A delimited file with a header. Blanks around names and values are no part of them.

    ``header`` are the names of the columns as the file spells them.
    """

    file: File
    dialect: Dialect
    encoding: str
    delimiter: str
    header: tuple[str, ...]

    @classmethod
    def open(cls, file: File, dialect: Dialect = USUAL, encoding: str | None = None) -> TextFile:
        """Find encoding and delimiter, and read the header; ``encoding`` is known already."""
        with file.stream() as stream:
            head = stream.read(HEAD_BYTES)
        known = encoding or dialect.encoding
        for tried in (known,) if known else (_encoding(head), *FALLBACKS):
            try:
                return cls._open(file, dialect, tried, head)
            except UnicodeDecodeError:
                if tried in (known, FALLBACKS[-1]):
                    raise
        raise AssertionError("the last fallback reads any bytes")

    @classmethod
    def _open(cls, file: File, dialect: Dialect, encoding: str, head: bytes) -> TextFile:
        # Without a header yet: the reader that finds it needs the delimiter.
        text = cls(file, dialect, encoding, _delimiter(file, head, encoding), ())
        with text._stream(None) as reader:
            text = cls(file, dialect, encoding, text.delimiter, tuple(reader.schema.names))
            first = next(iter(reader), None)
        # Names that repeat are refused by `column_names`, whose message says so.
        if first is not None and len(set(text.header)) == len(text.header):
            _check_header(text, first)
        return text

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return [name.strip() for name in self.header]

    def batches(self, types: Mapping[str, pa.DataType]) -> Generator[pa.RecordBatch]:
        """Rows of some columns, in batches."""
        # Arrow knows columns by the names as the file spells them, blanks included.
        spelled = dict(zip(self.names, self.header, strict=True))
        with self._stream({spelled[name]: kind for name, kind in types.items()}) as reader:
            for batch in reader:
                columns = [_trimmed(column) for column in batch.columns]
                yield pa.RecordBatch.from_arrays(columns, names=list(types))

    def _stream(self, types: dict[str, pa.DataType] | None) -> Any:
        """A stream of batches; ``types`` of the columns to read, None for a guess at all."""
        wide = BATCH_ROWS * sum(len(name) + 1 for name in self.header)
        return pcsv.open_csv(
            self.file.stream(),
            # `n_jobs` alone decides how many threads there are, and those work on blocks.
            read_options=pcsv.ReadOptions(
                block_size=max(CSV_BYTES, min(wide, BATCH_BYTES)),
                use_threads=False,
                encoding=self.encoding,
            ),
            parse_options=pcsv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
            convert_options=pcsv.ConvertOptions(
                column_types=types,
                include_columns=list(types or ()),
                strings_can_be_null=True,
                # A guess keeps them for each type that it tries, which is 15 KB for every column.
                null_values=self.dialect.nulls if types else [],
            ),
        )


def _trimmed(column: pa.Array) -> pa.Array:
    if column.type != pa.string():
        return column
    return pc.ascii_trim(column, characters=BLANKS)


def _encoding(head: bytes) -> str:
    """The encoding that the first bytes speak for."""
    if head.startswith(UTF16_MARKS):
        return UTF16
    try:
        # The last character may go on behind these bytes.
        codecs.getincrementaldecoder(UTF8)().decode(head)
    except UnicodeDecodeError:
        return FALLBACKS[0]
    return UTF8


def _delimiter(file: File, head: bytes, encoding: str) -> str:
    """The delimiter that the first line holds most often."""
    name = file.name.lower()
    packed = next((mark for mark in COMPRESSION if name.endswith(mark)), "")
    if name.removesuffix(packed).endswith(TAB_SUFFIX):
        return "\t"
    text = codecs.getincrementaldecoder(encoding)("replace").decode(head)
    lines = text.removeprefix("\ufeff").lstrip("\r\n").splitlines()
    line = lines[0] if lines else ""
    # Of equal counts `max` takes the first, so a file of one column is read with commas.
    return max(DELIMITERS, key=line.count)


def _check_header(file: TextFile, first: pa.RecordBatch) -> None:
    """Refuse a file whose first line holds values: it would lose a row and have odd names."""
    for name, column in zip(file.names, first.columns, strict=True):
        if column.type != pa.string() or name in file.dialect.nulls:
            continue
        if pc.any(pc.equal(_trimmed(column), name)).as_py():
            raise pa.ArrowInvalid(
                f"{name!r} is the name of a column and one of its values, so the first line is "
                "no header. Put a line with the names of the columns first"
            )
    numbers = [_number(name) for name in file.names]
    counted = [number for number in numbers if number is not None]
    # Names may be numbers that count up, such as 0, 1, 2 or years.
    if len(counted) == len(numbers) and counted != sorted(set(counted)):
        raise pa.ArrowInvalid(
            f"its first line holds numbers ({', '.join(file.names[:3])}, ...), no names. Put a "
            "line with the names of the columns first"
        )


def _number(name: str) -> float | None:
    try:
        return float(name)
    except ValueError:
        return None
