"""Blocks in memory, worked on by a thread pool."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from fairmix.tables._base import Blocks, Item, Result


class MemoryBlocks(Blocks[Item]):
    """Things that a function makes from their number.

    Parameters
    ----------
    n_blocks : int
        How many.
    get : callable
        Makes the thing with a given number.
    n_jobs : int
        Threads. The result is the same for any number.
    keep : int
        How many of the things, the first ones, are kept after they were first made.
    """

    local = True

    def __init__(
        self, n_blocks: int, get: Callable[[int], Item], *, n_jobs: int = 1, keep: int = 0
    ) -> None:
        self.n_blocks = n_blocks
        self.n_jobs = n_jobs
        self._get = get
        # The first ones, not the latest: passes go round, so the latest would be dropped before the
        # next pass comes to them.
        self._kept: list[Item | None] = [None] * min(keep, n_blocks)
        # One pool for all passes, so that none of them has to start threads.
        self._pool = ThreadPoolExecutor(n_jobs) if n_jobs > 1 and n_blocks > 1 else None

    def _item(self, number: int) -> Item:
        if number >= len(self._kept):
            return self._get(number)
        item = self._kept[number]
        if item is None:
            item = self._kept[number] = self._get(number)
        return item

    def each(
        self, work: Callable[[Item], Result], numbers: Sequence[int] | None = None
    ) -> Iterator[Result]:
        """What ``work`` makes of the things with these numbers."""
        wanted = range(self.n_blocks) if numbers is None else numbers
        call = lambda number: work(self._item(number))  # noqa: E731
        return map(call, wanted) if self._pool is None else self._pool.map(call, wanted)

    def map(self, function: Callable[[Item], Result], *, keep: int) -> MemoryBlocks[Result]:
        """What a function makes of each."""
        return MemoryBlocks(
            self.n_blocks,
            lambda number: function(self._item(number)),
            n_jobs=self.n_jobs,
            keep=keep,
        )
