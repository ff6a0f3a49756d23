"""Data: rows to learn from, wherever they live, with their columns and groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from fairmix.input.columns import Columns, Tabular
from fairmix.input.groups import Groups, Seats
from fairmix.kernels.totals import FloatArray, IntArray, Rows
from fairmix.tables import MemoryStore, Store, Summary, Ties, block_rows_of


class Data(Protocol):
    """Rows, wherever they live. A fit reads them through a store."""

    @property
    def columns(self) -> Columns:
        """Kinds of the columns, without a scale."""

    @property
    def groups(self) -> Groups | None:
        """The groups and their sizes; there may be no codes of rows."""

    @property
    def set_aside(self) -> tuple[str, ...]:
        """Names of the columns that came with X and are not features: groups and weights."""

    @property
    def in_memory(self) -> bool:
        """Whether labels of all rows fit in memory, as the rows do."""

    @property
    def splits_ties(self) -> bool:
        """Whether equal rows may share labels out."""

    def store(self, columns: Columns, summary: Summary | None = None) -> Store:
        """The rows that count, as the given columns read them."""

    def everybody(self, columns: Columns) -> tuple[Rows, IntArray | None] | None:
        """All rows and their seats, where the store has left some of them out; else None."""


@dataclass(frozen=True, eq=False)
class MemoryData:
    """A table in memory.

    Rows without weight, and rows whose group is missing, count for nothing; they get a label.

    Attributes
    ----------
    table : data frame or array
        The features.
    columns : Columns
        Their kinds.
    groups : Groups or None
        Group of each row.
    weight : (N,) array or None
        Weight of each row.
    n_jobs : int
        Threads.
    batch_size : float or None
        That of the fit: batches are of whole blocks.
    ties : Ties or None
        Finds equal rows, where they may share labels out.
    set_aside : tuple of str
        Columns of X that are not features.
    """

    table: Tabular
    columns: Columns
    groups: Groups | None
    weight: FloatArray | None
    n_jobs: int
    batch_size: float | None = None
    ties: Ties | None = None
    set_aside: tuple[str, ...] = ()
    in_memory = True

    @property
    def splits_ties(self) -> bool:
        """Whether equal rows may share labels out."""
        return self.ties is not None

    def store(self, columns: Columns, summary: Summary | None = None) -> MemoryStore:
        """The rows with a positive weight."""
        rows, weight = columns.rows(self.table), self.weight
        codes = None if self.groups is None else self.groups.codes
        seats, ties = Seats.of(self.groups), None
        if self.ties is not None:
            assert codes is not None
            # Among all rows, as `predict` finds them, not only those that are left here.
            ties = self.ties(rows, seats.codes(codes))
        if weight is not None and not weight.all():
            # A row without weight is no row: it must not reach starts or group sizes either.
            counted = np.flatnonzero(weight)
            rows, weight = rows.take(counted), weight[counted]
            codes = None if codes is None else codes[counted]
            ties = None if ties is None else ties[counted]
        return MemoryStore(
            rows,
            groups=None if codes is None else seats.codes(codes),
            n_groups=seats.n_groups,
            aside=seats.one_more,
            weight=weight if codes is None else seats.weight(codes, weight),
            ties=ties,
            n_jobs=self.n_jobs,
            # Of the rows that are left, or batches would not be of one size.
            block_rows=block_rows_of(rows.n_rows, self.batch_size),
            summary=summary,
        )

    def everybody(self, columns: Columns) -> tuple[Rows, IntArray | None] | None:
        """All rows, where some have no weight."""
        if self.weight is None or self.weight.all():
            return None
        codes = None if self.groups is None else Seats.of(self.groups).codes(self.groups.codes)
        return columns.rows(self.table), codes

    def check_unchanged(self) -> None:
        """Rows in memory are read once."""
