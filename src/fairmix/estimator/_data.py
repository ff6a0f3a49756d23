"""Data to learn from: its columns and groups, and how its rows become a store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from fairmix.input.columns import Columns
from fairmix.input.groups import Groups, Seats
from fairmix.kernels.totals import FloatArray, IntArray
from fairmix.mixture.model import Model
from fairmix.tables import MemoryStore, Store, Summary, Table, Ties, block_rows_of

# Label of each row, or None where labels need not fit in memory; masses by labels, and soft ones.
Assigned = tuple[IntArray | None, FloatArray, FloatArray]


class Data(Protocol):
    """Rows, wherever they live."""

    @property
    def columns(self) -> Columns:
        """Roles of the columns, without a scale."""

    @property
    def groups(self) -> Groups | None:
        """The groups and their sizes; there may be no codes of rows."""

    def store(self, columns: Columns, summary: Summary | None = None) -> Store:
        """The rows that count, as the given columns read them."""

    def assign(self, model: Model, table: Table) -> Assigned:
        """Labels of all rows, and the masses of the rows that count, which are in the table."""


@dataclass(frozen=True, eq=False)
class MemoryData:
    """A table in memory.

    ``table`` is a data frame or an array without the sensitive column, ``weight`` one weight per
    row or None, ``batch_size`` that of the fit, ``ties`` what finds equal rows that share labels
    out. Rows whose group is missing count for nothing, and get a label.
    """

    table: nw.DataFrame[Any] | NDArray[Any]
    columns: Columns
    groups: Groups | None
    weight: FloatArray | None
    n_jobs: int
    batch_size: float | None
    ties: Ties | None = None

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
            aside=seats.aside,
            weight=weight if codes is None else seats.weight(codes, weight),
            ties=ties,
            n_jobs=self.n_jobs,
            block_rows=block_rows_of(rows.n_rows, self.batch_size),
            summary=summary,
        )

    def assign(self, model: Model, table: Table) -> Assigned:
        """Rows without weight get labels, too."""
        if self.weight is None or self.weight.all():
            return model.assign(table)
        codes = None if self.groups is None else Seats.of(self.groups).codes(self.groups.codes)
        labels = model.labels(model.columns.rows(self.table), codes, n_jobs=self.n_jobs)
        return labels, *model.assign(table, labels=False)[1:]
