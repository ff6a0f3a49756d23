"""Census-like rows: synthetic, drawn from statistics of a sample of the US census of 1990."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import as_file, files
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from scipy.special import ndtr

from fairmix.datasets._census import FEATURES, N_ROWS, CensusData
from fairmix.system.files import replacing
from fairmix.system.progress import progress
from fairmix.system.threads import one_blas_thread

BLOCK_ROWS = 65_536  # a random stream of its own per block; another size gives other rows
# Together a step of 0.004 standard deviations, and 6 of 100,000 normals beyond the ends.
GRID = 2048  # places of the latent normal at which the quantile curves are tabulated
REACH = 4.0  # the places go from -4 to 4; farther out a curve keeps its end
SEXES = ("male", "female")
# Follower: its leader, and the values of the leader at which the follower is not 0. A person who
# works at home (MEANS 11) has no way to work, and only drivers (MEANS 1) have riders.
GATES: dict[str, tuple[str, tuple[int, ...]]] = {
    "DEPART": ("MEANS", (*range(1, 11), 12)),
    "IMMIGR": ("CITIZEN", tuple(range(1, 5))),
    "INCOME1": ("WEEK89", tuple(range(1, 53))),
    "REARNING": ("WEEK89", tuple(range(1, 53))),
    "RIDERS": ("MEANS", (1,)),
    "TRAVTIME": ("MEANS", (*range(1, 11), 12)),
}
REARNING_RANGE = (-9_999, 260_000)
DESCRIPTION = """\
SYNTHETIC data that resembles the US census of 1990: no row is a person. Each of 25 columns follows
smoothed shares of a 3,000-row sample of UCI id 116, within components that differ by sex, age and
work; columns depend on each other through a Gaussian copula. Groups: sex (male 0.4847, female
0.5153). It shows how methods behave at that size; it says nothing about people, and results on it
are not results on the Census data.
Source of the statistics: licence CC BY 4.0. DOI 10.24432/C5VP42. Meek, C., Thiesson, B. and
Heckerman, D. (2001). US Census Data (1990). UCI Machine Learning Repository."""


@dataclass(frozen=True, eq=False)
class Statistics:
    """What is known of the sample; made by ``scripts/generate census_statistics``.

    A component is a part of a cell, which is a sex and a status of age and work. A level is a
    frequent value of a column, or an interval of rare ones. In the column REARNING all of this is
    about the earnings beyond INCOME1.

    Attributes
    ----------
    share, sex, cell : ndarray of shape (n_components,)
        Share of all rows, 0 for male and 1 for female, and the cell.
    correlation : ndarray of shape (n_cells, 25, 25)
        Of the latent normals.
    level_column, level_low, level_high : ndarray of shape (n_levels,)
        Column of each level, and its ends; sorted by column and value.
    step : ndarray of shape (25,)
        Values are multiples of it.
    upper : ndarray of shape (n_components, n_levels)
        Probability that the latent normal of the column is below the upper end of the level.
    """

    share: NDArray[np.float64]
    sex: NDArray[np.int64]
    cell: NDArray[np.int64]
    correlation: NDArray[np.float64]
    level_column: NDArray[np.int64]
    level_low: NDArray[np.float64]
    level_high: NDArray[np.float64]
    step: NDArray[np.float64]
    upper: NDArray[np.float64]

    def curves(self) -> NDArray[np.float32]:
        """Tabulate each column's value by component, column and place of its latent normal."""
        below = ndtr(np.linspace(-REACH, REACH, GRID))
        out = np.empty((len(self.share), len(FEATURES), GRID), dtype=np.float32)
        for column, step in enumerate(self.step):
            own = self.level_column == column
            low, high = self.level_low[own], self.level_high[own]
            for component, upper in enumerate(self.upper[:, own]):
                level = np.searchsorted(upper, below).clip(max=len(upper) - 1)
                lower = np.concatenate([[0.0], upper[:-1]])[level]
                # A level that never occurs is never met, but has width 0.
                width = np.maximum(upper[level] - lower, 1e-9)
                part = ((below - lower) / width).clip(0, 1)
                value = low[level] + part * (high[level] - low[level])
                out[component, column] = np.round(value / step) * step
        return out


@dataclass(frozen=True, eq=False)
class Sampler:
    """The statistics in the form that draws fast."""

    cumulative: NDArray[np.float64]
    sex: NDArray[np.int64]
    factors: NDArray[np.float32]
    curves: NDArray[np.float32]

    @classmethod
    def of(cls, statistics: Statistics) -> Sampler:
        """Prepare the statistics."""
        # Single precision is enough: the curves that the normals are looked up in are far coarser.
        factors = np.linalg.cholesky(statistics.correlation).astype(np.float32)
        cumulative = np.cumsum(statistics.share)
        return cls(
            # Ends at exactly 1, so that every random number below 1 finds a component.
            cumulative=cumulative / cumulative[-1],
            sex=statistics.sex,
            factors=factors[statistics.cell],
            curves=statistics.curves(),
        )

    def block(self, seed: int, number: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Draw the rows of one block, and their sexes."""
        rng = np.random.default_rng([seed, number])
        component = np.searchsorted(self.cumulative, rng.random(BLOCK_ROWS), side="right")
        normals = rng.standard_normal((len(FEATURES), BLOCK_ROWS), dtype=np.float32)
        # All rows of a component together; the normals are alike, so any row may have any.
        order = np.argsort(component, kind="stable")
        ends = np.cumsum(np.bincount(component, minlength=len(self.sex)))
        for own, (start, stop) in enumerate(pairwise([0, *ends.tolist()])):
            part = normals[:, start:stop]
            part[:] = self.values(own, self.factors[own] @ part)
        finish(normals)
        # Back to the order in which components were drawn: the first rows
        # of a block are a sample of it.
        X = np.empty((BLOCK_ROWS, len(FEATURES)), dtype=np.float32)
        X[order] = normals.T
        return X, self.sex[component]

    def values(self, component: int, latent: NDArray[np.float32]) -> NDArray[np.float32]:
        """Look up the values of latent normals, one row per column."""
        half = np.float32((GRID - 1) / 2)
        # The half rounds to the nearest place, because the conversion to an integer cuts.
        place = latent * np.float32(half / REACH) + (half + np.float32(0.5))
        index = place.clip(0, GRID - 1).astype(np.intp)
        # One flat table for all columns, so that a single take does the look-up.
        index += np.arange(len(FEATURES))[:, None] * GRID
        found: NDArray[np.float32] = self.curves[component].ravel().take(index)
        return found


def finish(values: NDArray[np.float32]) -> None:
    """Apply what holds between columns, in place; one row per column."""
    # Before INCOME1 is added below: who did not work has neither of the two.
    for follower, opened in gates(values).items():
        values[FEATURES.index(follower)] *= opened
    rearning = values[FEATURES.index("REARNING")]
    rearning += values[FEATURES.index("INCOME1")]
    np.clip(rearning, *REARNING_RANGE, out=rearning)


def gates(values: NDArray[np.float32]) -> dict[str, NDArray[np.bool_]]:
    """For each follower, the rows in which it may differ from 0."""
    found = {}
    for follower, (leader, on) in GATES.items():
        # The last entry stays closed, and clipping sends every larger code to it.
        opens = np.zeros(max(on) + 2, dtype=np.bool_)
        opens[list(on)] = True
        code = values[FEATURES.index(leader)].astype(np.intp)
        found[follower] = opens.take(code, mode="clip")
    return found


def make_census_like(n_rows: int = N_ROWS, seed: int = 0) -> CensusData:
    """Make synthetic rows that resemble the Census data: 25 columns, and sex.

    No row is a person. The rows are drawn from statistics of a sample of 3,000 persons of the US
    census of 1990, which come with the package; the sample does not.

    Parameters
    ----------
    n_rows : int, default=2_458_285
        Number of rows; the default is that of the Census data.
    seed : int, default=0
        At least 0. Row i depends on the seed and i only, not on ``n_rows``.

    Returns
    -------
    CensusData
        ``X`` has the raw values of 25 columns in float32, ``sex`` is the sensitive attribute.

    See Also
    --------
    write_census_like : The same rows to a file, for more of them than fit in memory.
    fetch_census : The real data.

    Notes
    -----
    A row has a component, which fixes its sex and its status (infant, child, no work since 1985,
    worked before 1989, worked in 1989, works), and a latent normal per column. The normals are
    correlated within a cell of sex and status; each is mapped to a value by the component's
    smoothed shares. In place of rare values of the sample, any value of an interval around them is
    drawn. Rules of the questionnaire hold: only women have FERTIL and RAGECHLD, only workers HOURS,
    only immigrants IMMIGR.

    Examples
    --------
    >>> census = make_census_like(1000)
    >>> census
    CensusData('census-like (synthetic)', 1000 rows, 25 columns, sensitive: sex)
    >>> fertil = census.X[:, census.feature_names.index("FERTIL")]
    >>> float(fertil[census.sex == "male"].max())
    0.0
    """
    _check(n_rows, seed)
    X = np.empty((n_rows, len(FEATURES)), dtype=np.float32)
    sex = np.empty(n_rows, dtype=np.int64)
    start = 0
    for rows, sexes in _blocks(n_rows, seed):
        stop = start + len(rows)
        X[start:stop], sex[start:stop] = rows, sexes
        start = stop
    return CensusData(
        name="census-like (synthetic)",
        X=X,
        feature_names=FEATURES,
        sensitive={"sex": np.array(SEXES)[sex]},
        description=DESCRIPTION,
    )


def write_census_like(
    path: str | os.PathLike[str],
    n_rows: int = N_ROWS,
    seed: int = 0,
    *,
    row_group_rows: int = 4 * BLOCK_ROWS,
    verbose: bool = False,
) -> None:
    """Write the rows of `make_census_like` to a Parquet file, in constant memory.

    The rows are synthetic: no row is a person.

    Parameters
    ----------
    path : str or path
        The file. It appears when it is complete, and replaces one that is there.
    n_rows : int, default=2_458_285
        Number of rows.
    seed : int, default=0
        At least 0.
    row_group_rows : int, default=262_144
        Rows per row group, a multiple of 65,536. Memory grows with it, not with ``n_rows``.
    verbose : bool, default=False
        Show a progress bar.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import pyarrow.parquet as pq
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_census_like(Path(folder) / "census.parquet", 100)
    ...     table = pq.read_table(Path(folder) / "census.parquet")
    >>> table.shape, table.column_names[:2], table.column_names[-1]
    ((100, 26), ['AGE', 'ANCSTRY1'], 'SEX')
    """
    _check(n_rows, seed)
    if row_group_rows < 1 or row_group_rows % BLOCK_ROWS:
        raise ValueError(
            f"row_group_rows={row_group_rows} is not a multiple of {BLOCK_ROWS}. Pass such a "
            f"number, for example {4 * BLOCK_ROWS}."
        )
    path = Path(path)
    n_groups = -(-n_rows // row_group_rows)
    with (
        replacing(path) as part,
        pq.ParquetWriter(part, _SCHEMA, compression="zstd") as writer,
        progress(f"write {path.name}", n_groups, shown=verbose) as tick,
    ):
        batches: list[pa.RecordBatch] = []
        written = 0
        for rows, sexes in _blocks(n_rows, seed):
            batches.append(_batch(rows, sexes))
            written += len(rows)
            if written % row_group_rows == 0 or written == n_rows:
                writer.write_table(pa.Table.from_batches(batches), row_group_rows)
                batches.clear()
                tick(f"{written:,} rows")


_SCHEMA = pa.schema(
    [
        *(pa.field(name, pa.float32(), nullable=False) for name in FEATURES),
        pa.field("SEX", pa.dictionary(pa.int8(), pa.string()), nullable=False),
    ],
    metadata={"description": DESCRIPTION},
)


def _batch(rows: NDArray[np.float32], sexes: NDArray[np.int64]) -> pa.RecordBatch:
    columns = [pa.array(column) for column in np.ascontiguousarray(rows.T)]
    codes = pa.array(sexes.astype(np.int8))
    columns.append(pa.DictionaryArray.from_arrays(codes, pa.array(SEXES)))
    return pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)


def _blocks(n_rows: int, seed: int) -> Iterator[tuple[NDArray[np.float32], NDArray[np.int64]]]:
    sampler = _sampler()
    for number in range(-(-n_rows // BLOCK_ROWS)):
        # A whole block always, so that no row depends on n_rows. One thread, because how many
        # threads BLAS takes may change the last bits of a product.
        with one_blas_thread():
            rows, sexes = sampler.block(seed, number)
        size = min(BLOCK_ROWS, n_rows - number * BLOCK_ROWS)
        yield rows[:size], sexes[:size]


# The curves are the same for every seed and every number of rows.
@cache
def _sampler() -> Sampler:
    with (
        as_file(files("fairmix.datasets") / "data" / "census_statistics.npz") as path,
        np.load(path) as file,
    ):
        return Sampler.of(Statistics(**{name: file[name] for name in file.files}))


def _check(n_rows: int, seed: int) -> None:
    if n_rows < 1:
        raise ValueError(f"n_rows={n_rows} is too small. Pass at least 1.")
    if seed < 0:
        raise ValueError(f"seed={seed} is negative. Pass a whole number of at least 0.")
