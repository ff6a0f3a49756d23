"""The seam between solvers and data: a table does softmax passes over its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

import numpy as np

from fairmix.totals import Block, FloatArray, Logits, Totals

Result = TypeVar("Result")

# Rows per kernel call. Fixed in global row order in every back end, so that the order of all
# sums, and with it every bit of a result, depends on the data alone.
BLOCK_ROWS = 8192


class Table(Protocol):
    """Rows that solvers can only reach through passes."""

    @property
    def group_sizes(self) -> FloatArray:
        """Weight of each group, (M,)."""

    @property
    def n_rows(self) -> int:
        """N."""

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
        """One sweep over all rows; see ``fairmix.kernels.softmax`` for what it sums."""

    def each(self, work: Callable[[Block], Result]) -> Iterator[Result]:
        """What ``work`` makes of every block, in the order of the rows."""

    def sample(self, n_rows: int, rng: np.random.Generator) -> Table:
        """A table of rows drawn without replacement."""
