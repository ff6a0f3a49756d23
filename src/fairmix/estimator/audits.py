"""Audits of rows that are not in memory: densities, sums and labels, block by block.

Features stay where they are. A worker, or this process, sees one block of them at a time, and gives
back sums, or a label and a few bytes for each row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import fsum
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from fairmix.estimator.labels import needed_output, open_new
from fairmix.input.frames import Reader, Roles, weight_column
from fairmix.kernels.totals import Chunk, FloatArray, IntArray, Rows
from fairmix.mixture.model import Model
from fairmix.results.fitted import Fitted
from fairmix.system.arrow import pa, pq
from fairmix.system.files import replacing
from fairmix.tables import BLOCK_ROWS, Frame, Hashes, PathLike, row_hashes


class Fit(NamedTuple):
    """How well a mixture fits some rows: sums over them.

    Attributes
    ----------
    n_rows : int
        Rows.
    weight : float
        Sum of their weights.
    log_density : float
        Sum of their log-densities, by weight.
    entropy : float
        Sum of the entropies of their posteriors.
    """

    n_rows: int
    weight: float
    log_density: float
    entropy: float

    @classmethod
    def of(
        cls, densities: FloatArray, posterior: FloatArray | None, weight: FloatArray | None
    ) -> Fit:
        """Of the rows of a block, given the posterior if its entropy is wanted."""
        densities = np.asarray(densities, dtype=np.float64)
        spread = 0.0
        if posterior is not None:
            # xlogy, because responsibilities may be zero.
            spread = -float(xlogy(posterior, posterior).sum(dtype=np.float64))
        if weight is None:
            return cls(len(densities), float(len(densities)), float(densities.sum()), spread)
        return cls(len(densities), float(weight.sum()), float(weight @ densities), spread)

    @classmethod
    def total(cls, parts: list[Fit]) -> Fit:
        """Of all blocks: rounded once, so that it does not matter where they were."""
        n_rows, *sums = zip(*parts, strict=True)
        return cls(sum(n_rows), *map(fsum, sums))


def near(model: Model, rows: Rows) -> Rows:
    """Rows that are near enough to the model for finite densities."""
    if not model.has_densities(rows):
        assert rows.numeric is not None
        raise ValueError(
            "X holds numbers so far from those of the fit that densities overflow; the "
            f"largest is {np.nanmax(np.abs(rows.numeric)):.3g} as the model sees it. Drop "
            "these rows, or bring them to the units of the fit."
        )
    return rows


def table_fit(
    model: Model, rows: Rows, weight: FloatArray | None, *, entropy: bool, n_jobs: int
) -> Fit:
    """How well a mixture fits the rows of a table, added up as those of files are."""
    densities = model.log_densities(rows, n_jobs=n_jobs)
    psi = model.posterior(rows, n_jobs=n_jobs) if entropy else None
    return Fit.total(
        [
            Fit.of(
                densities[cut],
                None if psi is None else psi[cut],
                None if weight is None else weight[cut],
            )
            for cut in (slice(a, a + BLOCK_ROWS) for a in range(0, len(densities), BLOCK_ROWS))
        ]
    )


@dataclass(frozen=True, eq=False)
class Visit:
    """What is asked of each block; a cluster shows its tasks under the name."""

    model: Model
    reader: Reader
    roles: Roles

    def read(self, frame: Frame) -> Chunk:
        """The rows of a block."""
        with np.errstate(over="ignore"):  # a tiny scale; what overflows is refused
            chunk = self.reader(frame)
        near(self.model, chunk.rows)
        return chunk

    def groups(self, chunk: Chunk) -> IntArray | None:
        """Seats of the rows, for a map that sees them."""
        return chunk.groups if self.model.aware else None

    def weight(self, frame: Frame) -> FloatArray | None:
        """Weights of the rows."""
        return None if self.roles.weight is None else weight_column(frame.table, self.roles.weight)


@dataclass(frozen=True, eq=False)
class Densities(Visit):
    """Log-density of each row."""

    def __call__(self, frame: Frame) -> FloatArray:
        """Of a block."""
        return self.model.log_densities(self.read(frame).rows)


@dataclass(frozen=True, eq=False)
class Probabilities(Visit):
    """Responsibilities of each row."""

    def __call__(self, frame: Frame) -> FloatArray:
        """Of a block."""
        chunk = self.read(frame)
        return self.model.probabilities(chunk.rows, self.groups(chunk))


@dataclass(frozen=True, eq=False)
class Sums(Visit):
    """Sums over the rows."""

    entropy: bool

    def __call__(self, frame: Frame) -> Fit:
        """Of a block."""
        rows = self.read(frame).rows
        psi = self.model.posterior(rows) if self.entropy else None
        return Fit.of(self.model.log_densities(rows), psi, self.weight(frame))


class Judged(NamedTuple):
    """What an audit keeps of rows.

    Attributes
    ----------
    assignment : array of shape (n,) or (n, K)
        Labels, or responsibilities.
    groups : pyarrow.Table
        The sensitive columns, as codes and values.
    weight : array or None
        Weights.
    hashes : array or None
        Of the rows, to recognise those of the fit.
    """

    assignment: NDArray[Any]
    groups: pa.Table
    weight: FloatArray | None
    hashes: Hashes | None


@dataclass(frozen=True, eq=False)
class Assignments(Visit):
    """Labels, or responsibilities, and groups of the rows."""

    soft: bool
    hashed: Reader | None

    def __call__(self, frame: Frame) -> Judged:
        """Of a block."""
        chunk = self.read(frame)
        model, groups = self.model, self.groups(chunk)
        if self.soft:
            assignment: NDArray[Any] = model.probabilities(chunk.rows, groups)
        else:
            # Blocks are the runs in which equal rows share labels out.
            assignment = model.labels(chunk.rows, groups, first_run=chunk.number)
        named = frame.table.select(self.roles.sensitive)
        # Few values, many rows: codes take four bytes of each.
        coded = [
            column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
            for column in named.columns
        ]
        hashes = None if self.hashed is None else row_hashes(self.hashed(frame).rows)
        table = pa.table(dict(zip(named.column_names, coded, strict=True)))
        return Judged(assignment, table, self.weight(frame), hashes)


def fit_of(fitted: Fitted, X: Any, *, entropy: bool = False, **how: Any) -> Fit:
    """How well a mixture fits rows that are not in memory; ``how`` is for `open_new`."""
    with open_new(fitted, X, seated=False, **how) as opened:
        sums = Sums(fitted.model, opened.reader, opened.roles, entropy)
        return Fit.total(list(opened.frames.each(sums)))


def judged_rows(
    fitted: Fitted, X: Any, sensitive_features: Any, *, soft: bool, hashed: bool, **how: Any
) -> Judged:
    """Labels and groups of rows that are not in memory."""
    with open_new(fitted, X, sensitive_features=sensitive_features, **how) as opened:
        reader = opened.reader
        # Without the scale, because `learn` keeps what it remembers of rows in their own units.
        columns = replace(reader.columns, mean=None, scale=None)
        plain = replace(reader, columns=columns) if hashed else None
        visit = Assignments(fitted.model, reader, opened.roles, soft, plain)
        parts = list(opened.frames.each(visit))
    assignment, groups, weight, hashes = zip(*parts, strict=True)
    return Judged(
        np.concatenate(assignment),
        pa.concat_tables(groups, promote_options="default").unify_dictionaries(),
        None if weight[0] is None else np.concatenate(weight),
        None if hashes[0] is None else np.concatenate(hashes),
    )


def write_densities(fitted: Fitted, X: Any, output: PathLike | None, **how: Any) -> Path:
    """Write the log-density of each row to a Parquet file."""
    output = needed_output(X, output, "densities")
    with open_new(fitted, X, seated=False, not_to=output, **how) as opened:
        visit = Densities(fitted.model, opened.reader, opened.roles)
        return _write(output, ["log_density"], opened.frames.each(visit))


def write_probabilities(
    fitted: Fitted, X: Any, sensitive_features: Any, output: PathLike | None, **how: Any
) -> Path:
    """Write the responsibilities of each row to a Parquet file, a column for each cluster."""
    output = needed_output(X, output, "probabilities")
    groups = sensitive_features if fitted.model.aware else None
    names = [f"cluster_{k}" for k in range(fitted.n_components)]
    with open_new(fitted, X, sensitive_features=groups, not_to=output, **how) as opened:
        visit = Probabilities(fitted.model, opened.reader, opened.roles)
        return _write(output, names, opened.frames.each(visit))


def _write(output: PathLike, names: list[str], blocks: Iterator[FloatArray]) -> Path:
    path = Path(output)
    schema = pa.schema([pa.field(name, pa.float64(), nullable=False) for name in names])
    with replacing(path) as part, pq.ParquetWriter(part, schema) as file:
        for block in blocks:
            columns = np.asarray(block, dtype=np.float64).reshape(len(block), -1).T
            file.write_table(pa.table([np.ascontiguousarray(c) for c in columns], schema=schema))
    return path
