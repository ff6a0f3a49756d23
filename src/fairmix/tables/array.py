"""Rows in memory: blocks over a thread pool, reduced in the order of the blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from fairmix.kernels import Forward, backward, forward
from fairmix.tables._base import BLOCK_ROWS, Result
from fairmix.totals import (
    Block,
    Features,
    FloatArray,
    IntArray,
    Logits,
    Rows,
    Totals,
    add_up,
)

# Features are kept while they take at most this many times the bytes of the rows; the products of
# a full covariance can be far larger and are then made anew in every pass.
KEPT_FEATURES_RATIO = 4
# Responsibilities of the last pass are kept up to this size: the gradient of a criterion follows
# the pass that found its value, at the same logits.
KEPT_RESPONSIBILITIES_BYTES = 2**28


class ArrayTable:
    """A table of rows in memory.

    Parameters
    ----------
    rows : Rows
        Numeric and categorical columns.
    encode : callable
        Family's ``encode``.
    groups : (N,) int array or None
        Group codes; None puts all rows in one group.
    n_groups : int
        M.
    weight : (N,) array or None
        Row weights.
    propensity : callable or None
        Probability of each group given the row, (M, n): what a blind map may know.
    n_jobs : int
        Threads. The result is the same for any number.
    keep : bool
        Keep the features between passes, unless they are large. False for a single sweep.
    """

    def __init__(
        self,
        rows: Rows,
        encode: Callable[[Rows], Features],
        *,
        groups: IntArray | None = None,
        n_groups: int = 1,
        weight: FloatArray | None = None,
        propensity: Callable[[Rows], FloatArray] | None = None,
        n_jobs: int = 1,
        keep: bool = True,
    ) -> None:
        self.rows = rows
        self.encode = encode
        self.groups = np.zeros(rows.n_rows, dtype=np.intp) if groups is None else groups
        self.n_groups = n_groups
        self.dtype = np.dtype(np.float64 if rows.numeric is None else rows.numeric.dtype)
        self.weight = None if weight is None else weight.astype(self.dtype)
        self.propensity = propensity
        self.n_jobs = n_jobs
        self.group_sizes = np.bincount(self.groups, self.weight, n_groups).astype(np.float64)
        self._slices = [
            slice(start, min(start + BLOCK_ROWS, rows.n_rows))
            for start in range(0, rows.n_rows, BLOCK_ROWS)
        ]
        self._blocks: list[Block | None] = [None] * len(self._slices)
        self._keep = keep and self._worth_keeping()
        self._pool = ThreadPoolExecutor(n_jobs) if n_jobs > 1 and len(self._slices) > 1 else None
        self._last: tuple[object, list[Forward]] | None = None

    @property
    def n_rows(self) -> int:
        """N."""
        return self.rows.n_rows

    def _worth_keeping(self) -> bool:
        few = self.rows.take(slice(0, 8))
        encoded = sum(part.nbytes for part in self.encode(few) if part is not None)
        return encoded <= KEPT_FEATURES_RATIO * few.nbytes

    def _block(self, number: int) -> Block:
        block = self._blocks[number]
        if block is None:
            part = self._slices[number]
            rows = self.rows.take(part)
            block = Block(
                features=self.encode(rows),
                groups=self.groups[part],
                n_groups=self.n_groups,
                dtype=self.dtype,
                weight=None if self.weight is None else self.weight[part],
                propensity=None if self.propensity is None else self.propensity(rows),
            )
            if self._keep:
                self._blocks[number] = block
        return block

    def _map(self, work: Callable[[int], Result]) -> Iterator[Result]:
        """Results of all blocks, in their order."""
        numbers = range(len(self._slices))
        return map(work, numbers) if self._pool is None else self._pool.map(work, numbers)

    def softmax_pass(
        self,
        logits: Logits,
        *,
        offsets: FloatArray | None = None,
        alpha: float = 1.0,
        pull: FloatArray | None = None,
        temperature: float = 1.0,
        likelihood: bool = True,
        hard: bool = False,
        contrasts: FloatArray | None = None,
        rough: bool = False,
    ) -> Totals:
        """One sweep over all rows."""
        # The objects themselves are kept, so equal identity means equal contents.
        key = (logits, offsets, temperature, likelihood, hard, contrasts, rough)
        known = self._last[1] if self._last is not None and _same(self._last[0], key) else None
        keep = logits.b.size * self.n_rows * self.dtype.itemsize <= KEPT_RESPONSIBILITIES_BYTES

        def work(number: int) -> tuple[Forward | None, Totals]:
            block = self._block(number)
            ahead = known[number] if known else None
            if ahead is None:
                ahead = forward(
                    block,
                    logits,
                    offsets=offsets,
                    temperature=temperature,
                    likelihood=likelihood,
                    hard=hard,
                    contrasts=contrasts,
                    rough=rough,
                )
            if alpha or pull is not None:
                sums = backward(block, ahead.psi, logits.W.shape[1], alpha, pull, temperature)
            else:
                sums = Logits(np.zeros_like(logits.b), np.zeros_like(logits.W))
            return ahead if keep else None, ahead.totals(sums)

        done = list(self._map(work))
        kept = [ahead for ahead, _ in done if ahead is not None]
        self._last = (key, kept) if keep else None
        return add_up(totals for _, totals in done)

    def each(self, work: Callable[[Block], Result]) -> Iterator[Result]:
        """What ``work`` makes of every block, in the order of the rows."""
        yield from self._map(lambda number: work(self._block(number)))

    def sample(self, n_rows: int, rng: np.random.Generator) -> ArrayTable:
        """A table of rows drawn without replacement, in their order."""
        chosen = np.sort(rng.choice(self.n_rows, size=min(n_rows, self.n_rows), replace=False))
        return ArrayTable(
            self.rows.take(chosen),
            self.encode,
            groups=self.groups[chosen],
            n_groups=self.n_groups,
            weight=None if self.weight is None else self.weight[chosen],
            propensity=self.propensity,
            n_jobs=self.n_jobs,
        )


def _same(old: Any, new: Any) -> bool:
    return all(
        a is b or (isinstance(a, float | bool) and a == b) for a, b in zip(old, new, strict=True)
    )
