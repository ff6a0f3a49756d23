"""Spools: rows that can be read once, or in no fixed order, kept in a temporary file."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from fairmix.system.arrow import pa
from fairmix.tables._base import BLOCK_ROWS
from fairmix.tables.locations import File
from fairmix.tables.values import value_type, without_views


def spool_path(name: str, end: ExitStack) -> Path:
    """A path in a folder that ``end`` removes, whatever happens."""
    # A file that is still mapped cannot be removed on Windows; the system does it later.
    folder = TemporaryDirectory(prefix="fairmix-", ignore_cleanup_errors=True)
    return Path(end.enter_context(folder)) / name


def spooled(reader: pa.RecordBatchReader, names: Sequence[str], end: ExitStack) -> File:
    """Some columns of what a reader gives, in an Arrow file."""
    # By value: an Arrow file has one dictionary for a column, and batches may differ in theirs.
    plain = [pa.field(name, value_type(reader.schema.field(name).type)) for name in names]
    schema = without_views(pa.schema(plain))
    path = spool_path("rows.arrow", end)
    try:
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
            for batch in reader:
                table = pa.Table.from_batches([batch]).select(list(names)).cast(schema)
                # In pieces, so that a pass holds few rows however large batches are.
                writer.write_table(table, max_chunksize=BLOCK_ROWS)
    except pa.ArrowException as error:
        why = str(error).rstrip(".")
        raise ValueError(f"X cannot be read: {why}. Give a table, or files.") from error
    return File(str(path))
