"""Labels in a file of their own, beside the rows of others."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fairmix.cli.screen import listed
from fairmix.system.files import exists
from fairmix.tables import (
    Dialect,
    FileBlocks,
    Frame,
    block_start,
    column_names,
    find_files,
)
from fairmix.tables.values import by_value

# The column of labels that `fairmix fit` and `fairmix predict` write.
CLUSTER = "cluster"


class LabelledBlocks(FileBlocks):
    """Rows of files with one more column, whose values are in memory."""

    def __init__(self, blocks: FileBlocks, name: str, values: pa.ChunkedArray) -> None:
        # The user has left out a column of this name.
        blocks = blocks.select([other for other in blocks.schema.names if other != name])
        self.__dict__.update(blocks.__dict__)
        self.blocks, self.name, self.values = blocks, name, values
        self.schema = blocks.schema.append(pa.field(name, values.type))

    def as_text(self, names: Sequence[str]) -> FileBlocks:
        """The labels are text already."""
        own = [name for name in names if name != self.name]
        return LabelledBlocks(self.blocks.as_text(own), self.name, self.values)

    def frames(self, numbers: Sequence[int]) -> Generator[Frame]:
        """Blocks with the labels of their rows."""
        wanted = self.schema.names
        # Some column, or the rows would not be counted.
        own = [name for name in wanted if name != self.name] or self.blocks.schema.names[:1]
        for frame in self.blocks.select(own).frames(numbers):
            here = self.values.slice(block_start(frame.number, self.block_rows), len(frame.table))
            table = frame.table.append_column(self.name, here)
            yield Frame(frame.number, table.select(wanted))


def labels_beside(
    labels: str, data: str, id_column: str | None, drop: Sequence[str], dialect: Dialect
) -> tuple[str, pa.ChunkedArray] | None:
    """Name and values of the labels in a file of their own; None where they are a column of data.

    Rows are matched by the id column, where both have it, or else by their order.
    """
    known = column_names(find_files(data)[0], dialect)
    if labels in known:
        return None
    if not exists(Path(labels)):
        raise ValueError(
            f"--labels {labels}: {data} has no such column, and there is no such file. It has "
            f"{listed(known)}."
        )
    names = column_names(find_files(labels)[0], dialect)
    others = [name for name in names if name != id_column]
    if len(others) > 1 and CLUSTER in others:
        others = [CLUSTER]
    if len(others) != 1:
        raise ValueError(
            f"--labels {labels} has the columns {listed(names)}. Leave one beside that of --id, or "
            f"call it {CLUSTER!r}."
        )
    (name,) = others
    if name in known and name not in drop:
        raise ValueError(
            f"Both {labels} and {data} have a column {name!r}. Leave the latter out with --drop "
            f"{name}, or rename one."
        )
    by_id = id_column is not None and id_column in names
    columns = [name, id_column] if by_id and id_column is not None else [name]
    found = _read(labels, columns, dialect)
    if not by_id:
        n_rows = FileBlocks(data, dialect=dialect).n_rows
        if len(found) != n_rows:
            raise ValueError(
                f"--labels {labels} has {len(found):,} rows, {data} has {n_rows:,}. Give one label "
                "for each row, in the same order, or name a column that both have with --id."
            )
        return name, found[name]
    assert id_column is not None
    rows = _read(data, [id_column], dialect)[id_column]
    keys = found[id_column]
    if len(pc.unique(keys)) < len(keys):
        raise ValueError(f"--id {id_column} repeats in {labels}. Give each row a value of its own.")
    at = pc.index_in(rows, keys.combine_chunks())
    if at.null_count:
        raise ValueError(
            f"{labels} lacks {at.null_count:,} of the {len(rows):,} rows of {data}, by --id "
            f"{id_column}. Add them."
        )
    return name, pa.chunked_array([found[name].combine_chunks().take(pa.array(np.asarray(at)))])


def _read(path: str, columns: Sequence[str], dialect: Dialect) -> pa.Table:
    """Some columns as text."""
    blocks = FileBlocks(path, text=columns, dialect=dialect).select(columns)
    table = pa.concat_tables(blocks.each(lambda frame: frame.table))
    return pa.table({name: _text(table[name]) for name in columns})


def _text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Values as text, whole numbers without a point, so that files of two kinds agree."""
    values = by_value(column)
    if pa.types.is_floating(values.type):
        whole = pc.all(pc.equal(pc.floor(values), values)).as_py()
        values = values.cast(pa.int64()) if whole else values
    return values.cast(pa.string())
