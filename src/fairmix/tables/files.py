"""Blocks of files, read in every pass: memory does not grow with the number of rows."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from fairmix.system.arrow import pa
from fairmix.system.progress import progress
from fairmix.tables._base import (
    BLOCK_ROWS,
    BlockRows,
    Blocks,
    Result,
    block_start,
    count_blocks,
)
from fairmix.tables.locations import Paths
from fairmix.tables.sources import Range, as_text, common_schema, open_sources
from fairmix.tables.text import USUAL, Dialect

Further = TypeVar("Further")

# Blocks in the hands of each thread, the one that it works on among them. Results leave in order,
# so with one block each, all threads would wait for the slowest.
BLOCKS_PER_THREAD = 4


class Frame(NamedTuple):
    """The rows of a block, and its number."""

    number: int
    table: pa.Table


class FileBlocks(Blocks[Frame]):
    """Blocks of rows of files, in the order of the files and of their rows.

    One thread reads ahead; ``n_jobs`` threads work on a few blocks each, and no more are in memory.

    Parameters
    ----------
    paths : str, path or list of them
        A file, a pattern, a folder, an address, or several of these: Parquet, Feather or text,
        the last also with ``.gz``.
    text : sequence of str
        Columns that a text file holds as text, whatever they look like.
    dialect : Dialect
        What is known of text files.
    block_rows : int or Fraction
        Rows per block.
    n_jobs : int
        Threads. The result is the same for any number.
    verbose : bool
        Show a bar with rows per second in every pass.

    Attributes
    ----------
    schema : pyarrow.Schema
        Names and types of the columns.
    n_rows : int
        Rows of all files.
    """

    local = False

    def __init__(
        self,
        paths: Paths,
        *,
        text: Sequence[str] = (),
        dialect: Dialect = USUAL,
        block_rows: BlockRows = BLOCK_ROWS,
        n_jobs: int = 1,
        verbose: bool = False,
    ) -> None:
        self.sources = open_sources(paths, text, dialect=dialect, verbose=verbose)
        self.schema = common_schema(self.sources)
        self.block_rows = block_rows
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.n_rows = sum(source.n_rows for source in self.sources)
        self.n_blocks = count_blocks(self.n_rows, block_rows)
        if self.n_rows == 0:
            path = str(self.sources[0].file)
            raise ValueError(f"{path!r} has no rows. Give a file with at least one row.")

    def cut(self, block_rows: BlockRows) -> FileBlocks:
        """The same rows in blocks of another size."""
        # Copies share the sources, because opening a text file reads all of it.
        other = copy.copy(self)
        other.block_rows = block_rows
        other.n_blocks = count_blocks(self.n_rows, block_rows)
        return other

    def select(self, names: Sequence[str]) -> FileBlocks:
        """The same rows with some of the columns; others are not read."""
        some = copy.copy(self)
        some.schema = pa.schema([self.schema.field(name) for name in names])
        return some

    def as_text(self, names: Sequence[str]) -> FileBlocks:
        """The same rows with some columns as text files spell them; other files know types."""
        some = copy.copy(self)
        some.sources = [as_text(source, names) for source in self.sources]
        some.schema = common_schema(some.sources)
        return some

    def read(self, first: int, stop: int) -> pa.Table:
        """The rows of the blocks from ``first`` up to ``stop``, which is not among them."""
        numbers = range(first, min(stop, self.n_blocks))
        return pa.concat_tables(frame.table for frame in self.frames(numbers))

    def each(
        self, work: Callable[[Frame], Result], numbers: Sequence[int] | None = None
    ) -> Generator[Result]:
        """What ``work`` makes of the frames with these increasing numbers."""
        wanted = range(self.n_blocks) if numbers is None else numbers
        total = sum(map(self._size, wanted))
        with (
            progress("read", total, shown=self.verbose, unit="rows") as tick,
            closing(self._work(work, wanted)) as results,
        ):
            for number, result in zip(wanted, results, strict=True):
                tick(steps=self._size(number))
                yield result

    def map(self, function: Callable[[Frame], Result], *, keep: int) -> Mapped[Result]:
        """What a function makes of each."""
        return Mapped(self, function, keep)

    def check(self) -> None:
        """Refuse files that have changed since they were opened."""
        for source in self.sources:
            source.stamp.check(source.file)

    def _work(self, work: Callable[[Frame], Result], numbers: Sequence[int]) -> Generator[Result]:
        """Results in their order, of a bounded number of frames at a time."""
        pending: deque[Future[Result]] = deque()
        with (
            # Entered first and so closed last, when no thread runs the generator any more.
            closing(self.frames(numbers)) as frames,
            # One thread, because a generator cannot be advanced by two.
            ThreadPoolExecutor(1) as reader,
            ThreadPoolExecutor(self.n_jobs) as workers,
        ):
            try:
                coming = reader.submit(next, frames, None)
                while (frame := coming.result()) is not None:
                    # Before the work on this frame, so that reading and working overlap.
                    coming = reader.submit(next, frames, None)
                    pending.append(workers.submit(work, frame))
                    if len(pending) >= BLOCKS_PER_THREAD * self.n_jobs:
                        yield pending.popleft().result()
                while pending:
                    yield pending.popleft().result()
            finally:
                # After an error nobody waits for the rest.
                workers.shutdown(cancel_futures=True)

    def frames(self, numbers: Sequence[int]) -> Generator[Frame]:
        """Blocks, cut from the stream of their rows."""
        parts: list[pa.Table] = []
        have, coming = 0, deque(numbers)
        for piece in self._pieces(self._ranges(numbers)):
            parts.append(piece)
            have += len(piece)
            while coming and have >= (size := self._size(coming[0])):
                # Neither this nor a slice copies rows.
                table = pa.concat_tables(parts)
                yield Frame(coming.popleft(), table.slice(0, size))
                parts, have = [table.slice(size)] if have > size else [], have - size

    def _pieces(self, ranges: list[Range]) -> Iterator[pa.Table]:
        """The rows of the ranges in their order, in pieces of any size."""
        start = 0
        for source in self.sources:
            stop = start + source.n_rows
            here = [(max(a, start) - start, min(b, stop) - start) for a, b in ranges]
            here = [(a, b) for a, b in here if a < b]
            if here:
                pieces = source.pieces(here, self.schema.names)
                for piece in _within(pieces, here):
                    # Files may store the same values as categories or as long strings
                    # (`common_schema`).
                    yield piece if piece.schema == self.schema else piece.cast(self.schema)
            start = stop

    def _ranges(self, numbers: Sequence[int]) -> list[Range]:
        """Rows of the blocks, in runs without gaps."""
        ranges: list[Range] = []
        for number in numbers:
            start = block_start(number, self.block_rows)
            stop = start + self._size(number)
            if ranges and ranges[-1][1] == start:
                ranges[-1] = (ranges[-1][0], stop)
            else:
                ranges.append((start, stop))
        return ranges

    def _size(self, number: int) -> int:
        stop = min(block_start(number + 1, self.block_rows), self.n_rows)
        return stop - block_start(number, self.block_rows)


class Mapped(Blocks[Result]):
    """What a function makes of frames: the first ones are kept, the others made in every pass."""

    local = False

    def __init__(self, frames: FileBlocks, function: Callable[[Frame], Result], keep: int) -> None:
        self.frames = frames
        self.function = function
        self.n_blocks = frames.n_blocks
        self.n_jobs = frames.n_jobs
        self._kept: list[Result | None] = [None] * min(keep, self.n_blocks)

    def each(
        self, work: Callable[[Result], Further], numbers: Sequence[int] | None = None
    ) -> Iterator[Further]:
        """What ``work`` makes of the things with these increasing numbers."""
        wanted = range(self.n_blocks) if numbers is None else numbers
        known = {number: item for number in wanted if (item := self._known(number)) is not None}
        rest = [number for number in wanted if number not in known]
        if known:
            # Who does not read a file sees no change of it either.
            self.frames.check()
        with (
            closing(self.frames.each(Chain(self._made, work), rest)) as made,
            ThreadPoolExecutor(self.n_jobs) as workers,
        ):
            found = workers.map(work, known.values())
            for number in wanted:
                yield next(found if number in known else made)

    def _known(self, number: int) -> Result | None:
        return self._kept[number] if number < len(self._kept) else None

    def _made(self, frame: Frame) -> Result:
        item = self.function(frame)
        if frame.number < len(self._kept):
            self._kept[frame.number] = item
        return item

    def map(self, function: Callable[[Result], Further], *, keep: int) -> Mapped[Further]:
        """What a function makes of each."""
        return Mapped(self.frames, Chain(self._made, function), keep)


@dataclass(frozen=True)
class Chain(Generic[Result, Further]):
    """One function after another."""

    first: Callable[[Frame], Result]
    then: Callable[[Result], Further]

    def __call__(self, item: Frame) -> Further:
        """What the second makes of what the first makes."""
        return self.then(self.first(item))


def _within(pieces: Iterator[tuple[int, pa.Table]], ranges: list[Range]) -> Iterator[pa.Table]:
    """The parts of pieces with known first rows that lie in the ranges; both increase."""
    remaining = deque(ranges)
    for position, table in pieces:
        end = position + len(table)
        while remaining and remaining[0][0] < end:
            a, b = remaining[0]
            first = max(a - position, 0)
            if first < min(b - position, len(table)):
                yield table.slice(first, min(b - position, len(table)) - first)
            if b > end:
                break
            remaining.popleft()
