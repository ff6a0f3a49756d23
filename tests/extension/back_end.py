"""A back end: rows of a table in a SQLite database, read block by block in every pass."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from fairmix.input.sources import Opening
from fairmix.tables import (
    BlockRows,
    Frame,
    MemoryBlocks,
    block_rows_of,
    block_start,
    count_blocks,
)


@dataclass(frozen=True)
class TableOf:
    """A table of a database: what ``fit`` takes in place of X, and the source of its rows."""

    path: Path
    table: str
    named = True

    @classmethod
    def takes(cls, X: object) -> bool:
        return isinstance(X, cls)

    @classmethod
    def of(cls, X: Any, beside: Mapping[str, Any]) -> TableOf:
        assert isinstance(X, cls)
        return X

    @property
    def names(self) -> list[str]:
        return list(self.read(["*"], 0, 0).column_names)

    @property
    def n_rows(self) -> int:
        return int(self.read(["count(*) AS n"], 0, 1)["n"][0].as_py())

    def read(self, names: Sequence[str], first: int, n_rows: int) -> pa.Table:
        """Some columns of some rows."""
        query = f"SELECT {', '.join(names)} FROM {self.table} ORDER BY rowid LIMIT ? OFFSET ?"
        # A connection belongs to a thread, so each block has its own.
        with closing(sqlite3.connect(self.path)) as connection:
            cursor = connection.execute(query, (n_rows, first))
            found = [column[0] for column in cursor.description]
            rows = cursor.fetchall()
        return pa.table({name: [row[j] for row in rows] for j, name in enumerate(found)})

    def open(self, opening: Opening) -> TableFrames:
        block_rows = block_rows_of(self.n_rows, opening.batch_size)
        return TableFrames(self, opening.used, block_rows, opening.n_jobs)


class TableFrames(MemoryBlocks[Frame]):
    """Frames of the rows."""

    def __init__(
        self, source: TableOf, names: Sequence[str], block_rows: BlockRows, n_jobs: int
    ) -> None:
        self.source, self.names, self.block_rows = source, tuple(names), block_rows
        self.schema = source.read(self.names, 0, 1).schema
        super().__init__(count_blocks(source.n_rows, block_rows), self._frame, n_jobs=n_jobs)

    def _frame(self, number: int) -> Frame:
        first, stop = (block_start(n, self.block_rows) for n in (number, number + 1))
        return Frame(number, self.source.read(self.names, first, stop - first).cast(self.schema))

    def select(self, names: Sequence[str]) -> TableFrames:
        return TableFrames(self.source, names, self.block_rows, self.n_jobs)
