"""Files that a command reads: their columns have kinds, their rows come block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from fairmix.input.groups import MissingGroups
from fairmix.input.guesses import Guess, without_marks
from fairmix.input.sources import FileSource
from fairmix.tables import FileBlocks, Frame, Seal
from fairmix.tables.sources import CsvSource

Mask = NDArray[np.bool_]
Result = TypeVar("Result")

INTEGRATE, DROP_ROWS = "integrate", "drop-rows"
# Random numbers of a row: one to hold it out, one to draw it for a sample.
# With one number for both, a sample would be drawn from the held-out rows first.
HELD, DRAWN = 0, 1


@dataclass(frozen=True, eq=False)
class MarkedBlock:
    """A block of rows. ``kept`` are those that get a label, ``held`` those held out."""

    table: pa.Table
    kept: Mask
    held: Mask

    @property
    def fit(self) -> Mask:
        """Rows to learn from."""
        return self.kept & ~self.held


@dataclass(frozen=True, eq=False)
class InputFiles:
    """Files and what their columns are.

    Attributes
    ----------
    name : str
        What the user calls it.
    blocks : FileBlocks
        Rows with the columns that are used.
    features, categorical, sensitive, labels : tuple of str
        Columns; categorical ones are features too, and labels are those of another clustering.
    guesses : tuple of Guess
        Of the columns that may be features.
    gaps : dict of str to int
        Columns that lack values, and in how many rows.
    missing : {"integrate", "drop-rows", "error"}
        What is done about them; with ``"error"`` there are none.
    missing_groups : {"error", "drop", "group"}
        What a row without a group is. ``"error"``: treated as other missing values.
    hold_out : float
        Share of rows that a fit does not see.
    seed : int
        Of what is random about rows.
    seal : Seal or None
        Of the files, where they are compared with it at the end.
    marked : dict of str to tuple of str
        Columns that hold marks for missing values, such as "?", and these marks.
    carried : tuple of str
        Columns that are written beside labels, and are neither features nor groups by that.
    frames : tuple of Frame or None
        The rows, where all of them are in memory and need not be read again.
    """

    name: str
    blocks: FileBlocks
    features: tuple[str, ...]
    categorical: tuple[str, ...]
    sensitive: tuple[str, ...]
    labels: tuple[str, ...] = ()
    guesses: tuple[Guess, ...] = ()
    gaps: dict[str, int] = field(default_factory=dict)
    missing: str = "error"
    missing_groups: MissingGroups = "error"
    hold_out: float = 0.0
    seed: int = 0
    seal: Seal | None = None
    marked: dict[str, tuple[str, ...]] = field(default_factory=dict)
    carried: tuple[str, ...] = ()
    frames: tuple[Frame, ...] | None = None

    @property
    def numeric(self) -> tuple[str, ...]:
        """Numeric features."""
        categorical = set(self.categorical)
        return tuple(name for name in self.features if name not in categorical)

    @property
    def used(self) -> tuple[str, ...]:
        """Columns that have a role."""
        return (*self.features, *self.sensitive, *self.labels)

    @property
    def identifier(self) -> tuple[str, ...]:
        """The column that tells the rows apart, if there is one."""
        found = (g.name for g in self.guesses if g.kind == "identifier-like" and g.all_different)
        return tuple(found)[:1]

    @property
    def read(self) -> list[str]:
        """Columns that are read."""
        return list(dict.fromkeys((*self.used, *self.carried)))

    @property
    def needed(self) -> tuple[str, ...]:
        """Columns without whose value a row is left out."""
        if self.missing != DROP_ROWS:
            return ()
        # A row without a group then stays: it gets a label, whatever else it counts for.
        kept = () if self.missing_groups == "error" else self.sensitive
        return tuple(name for name in self.gaps if name not in kept)

    @property
    def lacking(self) -> dict[str, int]:
        """Columns of groups that lack values which are told what to be, and in how many rows."""
        if self.missing_groups == "error":
            return {}
        return {name: n for name, n in self.gaps.items() if name in self.sensitive}

    @property
    def left_out(self) -> dict[str, str]:
        """Columns that are no features, and why."""
        return {r.name: f"{r.kind}, {r.reason}" for r in self.guesses if not r.is_feature}

    @property
    def n_rows(self) -> int:
        """Rows of the files."""
        return self.blocks.n_rows

    @property
    def n_bytes(self) -> int:
        """Memory that all rows would take, about."""
        # As if all were float64: it only has to tell large data from small.
        return 8 * self.n_rows * len(self.used)

    def marked_blocks(self) -> Iterator[MarkedBlock]:
        """All rows, block by block."""
        return self._each(self.mark)

    def _each(self, work: Callable[[Frame], Result]) -> Iterator[Result]:
        """What ``work`` makes of all frames, in memory or from the files."""
        return self.blocks.each(work) if self.frames is None else map(work, self.frames)

    def mark(self, frame: Frame) -> MarkedBlock:
        """Which rows of a block are used for what; the same in every pass."""
        table = self.typed(frame.table.select(self.read))
        # Nothing is remembered between passes. The marks follow from values and seed, so every pass
        # finds the same ones without a mask of all rows in memory.
        kept: Mask = np.ones(len(table), dtype=bool)
        for name in self.needed:
            kept &= present(table[name])
        held: Mask = np.zeros(len(table), dtype=bool)
        if self.hold_out:
            held = self._random(frame.number, len(table), HELD) < self.hold_out
        return MarkedBlock(table, kept, kept & held)

    def gather(self, rows: Callable[[MarkedBlock], Mask], at_most: int | None = None) -> pa.Table:
        """Some rows in memory, or a random sample of about so many of them."""
        # Of all rows, because how many of them are wanted is known only after a pass.
        share = 1.0 if at_most is None else min(1.0, at_most / self.n_rows)
        tables = list(self._each(partial(self._taken, rows, share)))
        return pa.concat_tables(tables).combine_chunks()

    @contextmanager
    def source(self, folder: Path) -> Iterator[FileSource]:
        """The rows of the fit as files: those of the user, or a copy without the other rows."""
        columns = self.used
        typed = self.typed(self.blocks.schema.empty_table().select(columns)).schema
        # The user's own files will do only if the fit needs no other
        # rows, types or format than they have.
        direct = typed == pa.schema([self.blocks.schema.field(name) for name in columns])
        text = isinstance(self.blocks.sources[0], CsvSource)
        if direct and not (text or self.needed or self.hold_out or self.marked):
            yield FileSource([source.file for source in self.blocks.sources], None, columns)
            return
        # A copy also spares the fit to parse text in every pass.
        path = folder / "rows.parquet"
        try:
            with pq.ParquetWriter(path, typed) as writer:
                for table in self._each(partial(self._taken, fit_rows, 1.0)):
                    writer.write_table(table)
            yield FileSource(str(path), None, columns)
        finally:
            path.unlink(missing_ok=True)

    def digest(self) -> str:
        """SHA-256 of the bytes of all files, which are those that were opened."""
        assert self.seal is not None
        # Rows in memory that came from sealed bytes in memory are those of the seal.
        if self.frames is None or not all(file.content for file in self.seal.files):
            self.seal.check()
        return self.seal.digest

    def _taken(self, rows: Callable[[MarkedBlock], Mask], share: float, frame: Frame) -> pa.Table:
        block = self.mark(frame)
        mask = rows(block)
        if share < 1:
            mask = mask & (self._random(frame.number, len(mask), DRAWN) < share)
        return block.table.select(self.used).filter(pa.array(mask))

    def typed(self, table: pa.Table) -> pa.Table:
        """Decimal numbers as floats: NumPy has no others. And no marks for missing values."""
        for name in self.marked:
            if name in table.column_names:
                j = table.column_names.index(name)
                table = table.set_column(j, table.schema.field(j), without_marks(table.column(j)))
        numeric = set(self.numeric)
        for j, entry in enumerate(table.schema):
            if entry.name in numeric and pa.types.is_decimal(entry.type):
                column = table.column(j).cast(pa.float64())
                table = table.set_column(j, pa.field(entry.name, pa.float64()), column)
        return table

    def _random(self, block: int, n_rows: int, purpose: int) -> NDArray[np.float64]:
        # A stream for each block, because threads take blocks in any order.
        return np.random.default_rng([self.seed, block, purpose]).random(n_rows)


def fit_rows(block: MarkedBlock) -> Mask:
    """Rows to learn from."""
    return block.fit


def held_rows(block: MarkedBlock) -> Mask:
    """Rows that were held out."""
    return block.held


def present(column: pa.ChunkedArray) -> Mask:
    """Where a column has a value."""
    # NaN and infinity count as missing, as they do where gaps are counted.
    if pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_finite(column), column, None)
    return np.asarray(pc.is_valid(column), dtype=bool)
