"""Text files: their delimiter, their header, and how their rows are read."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv

# What may stand between two values, the most usual first. Every text file but a .tsv is asked.
DELIMITERS = (",", ";", "\t", "|")
TAB_SUFFIX = ".tsv"
COMPRESSION = (".gz", ".bz2", ".zst")
# Bytes that are decoded at once, of which a row must not have more, and those that are looked at
# for the delimiter.
CSV_BYTES = 2**20
HEAD_BYTES = 2**16
UTF16 = (b"\xff\xfe", b"\xfe\xff")
BOM = b"\xef\xbb\xbf"
BLANKS = " \t"
# Cells that hold no value, also after a delimiter with a blank behind it.
NULLS = tuple(pcsv.ConvertOptions().null_values)
NULLS = (*NULLS, *(f" {null}" for null in NULLS))


@dataclass(frozen=True)
class TextFile:
    """A delimited file with a header. Blanks around names and values are no part of them.

    ``header`` are the names of the columns as the file spells them.
    """

    path: Path
    delimiter: str
    header: tuple[str, ...]

    @classmethod
    def open(cls, path: Path) -> TextFile:
        """Find the delimiter and read the header."""
        # Without a header yet: the reader that finds it needs the delimiter.
        file = cls(path, _delimiter(path), ())
        with file._stream(None) as reader:
            file = cls(path, file.delimiter, tuple(reader.schema.names))
            first = next(iter(reader), None)
        # Names that repeat are refused by `column_names`, whose message says so.
        if first is not None and len(set(file.header)) == len(file.header):
            _check_header(file, first)
        return file

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
        return pcsv.open_csv(
            pa.input_stream(os.fspath(self.path), compression="detect"),
            # `n_jobs` alone decides how many threads there are, and those work on blocks.
            read_options=pcsv.ReadOptions(block_size=CSV_BYTES, use_threads=False),
            parse_options=pcsv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
            convert_options=pcsv.ConvertOptions(
                column_types=types,
                include_columns=list(types or ()),
                strings_can_be_null=True,
                null_values=NULLS,
            ),
        )


def all_numbers(column: pa.Array) -> bool:
    """Whether all values of a column of text read as numbers."""
    try:
        pc.cast(column, pa.float64())
    except pa.ArrowInvalid:
        return False
    return True


def _trimmed(column: pa.Array) -> pa.Array:
    if column.type != pa.string():
        return column
    return pc.ascii_trim(column, characters=BLANKS)


def _delimiter(path: Path) -> str:
    """The delimiter that the first line holds most often."""
    with pa.input_stream(os.fspath(path), compression="detect") as stream:
        head = stream.read(HEAD_BYTES)
    if head.startswith(UTF16):
        raise pa.ArrowInvalid("its text is UTF-16, not UTF-8. Save it as UTF-8")
    if path.name.lower().removesuffix(path.suffix if _packed(path) else "").endswith(TAB_SUFFIX):
        return "\t"
    lines = head.removeprefix(BOM).lstrip(b"\r\n").splitlines()
    line = lines[0] if lines else b""
    # Of equal counts `max` takes the first, so a file of one column is read with commas.
    return max(DELIMITERS, key=lambda mark: line.count(mark.encode()))


def _packed(path: Path) -> bool:
    return path.name.lower().endswith(COMPRESSION)


def _check_header(file: TextFile, first: pa.RecordBatch) -> None:
    """Refuse a file whose first line holds values: it would lose a row and have odd names."""
    for name, column in zip(file.names, first.columns, strict=True):
        if column.type == pa.string() and pc.any(pc.equal(_trimmed(column), name)).as_py():
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
