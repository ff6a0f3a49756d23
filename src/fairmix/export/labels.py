"""Label files: the cluster of each row, in the order of the rows, as Parquet or CSV."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from fairmix.system.arrow import pa, pcsv, pq

# Labels are written in pieces of this many rows: a row group of 4 MB, which is large enough to be
# read fast and small enough to wait in memory.
WRITTEN_ROWS = 2**20
LABEL_SUFFIXES = (".parquet", ".csv")


class LabelFile:
    """A file of labels, written block by block.

    Parameters
    ----------
    path : Path
        Where to; ``.csv`` is text, all else Parquet.
    every_row : bool, default=False
        Whether each row gets a label. Else a row may lack one, and is empty in the file.
    held_out : bool, default=False
        Add a column that tells which rows were not in the fit.
    beside : pyarrow.Schema, default=None
        Columns of the table that stand before the labels.
    n_probabilities : int, default=0
        Add a column of probabilities for so many clusters.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "labels.parquet"
    ...     with LabelFile(path) as file:
    ...         file.add(np.array([1, 0]), kept=np.array([True, False, True]))
    ...     pq.read_table(path)["cluster"].to_pylist()
    [1, None, 0]
    """

    def __init__(
        self,
        path: Path,
        *,
        every_row: bool = False,
        held_out: bool = False,
        beside: pa.Schema | None = None,
        n_probabilities: int = 0,
    ) -> None:
        # 32 bits, as `labels_` of this package and of scikit-learn's KMeans.
        fields = [pa.field("cluster", pa.int32(), nullable=not every_row)]
        if held_out:
            fields.append(pa.field("held_out", pa.bool_()))
        fields += [pa.field(f"probability_{k}", pa.float64()) for k in range(n_probabilities)]
        names = [field.name for field in fields]
        taken = [name for name in (beside.names if beside is not None else []) if name in names]
        if taken:
            raise ValueError(
                f"The table has a column {taken[0]!r}, which a file of labels has, too. Rename it, "
                "or leave it out."
            )
        fields = [*(beside or ()), *fields]
        self.schema = pa.schema(fields)
        writer = pcsv.CSVWriter if path.suffix == ".csv" else pq.ParquetWriter
        self._writer = writer(path, self.schema)
        self._waiting: list[pa.Table] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        # Closed also after an error: a Parquet file without its footer is unreadable, labels and
        # all.
        try:
            self._flush()
        finally:
            self._writer.close()

    def add(
        self,
        labels: NDArray[Any],
        kept: NDArray[np.bool_] | None = None,
        held: NDArray[np.bool_] | None = None,
        *,
        beside: pa.Table | None = None,
        probabilities: NDArray[Any] | None = None,
    ) -> None:
        """Labels of a block.

        Parameters
        ----------
        labels : array of int
            Of the rows that have one.
        kept : array of bool, default=None
            Which rows of the block these are; None: all.
        held : array of bool, default=None
            Which rows of the block were held out.
        beside : pyarrow.Table, default=None
            The columns that stand before the labels, of all rows of the block.
        probabilities : array of shape (n_rows, n_clusters), default=None
            Of the rows that have a label.
        """
        columns = [] if beside is None else list(beside.columns)
        columns.append(_placed(np.asarray(labels, dtype=np.int32), kept))
        if held is not None:
            columns.append(pa.array(held))
        for one in () if probabilities is None else np.asarray(probabilities, np.float64).T:
            columns.append(_placed(one, kept))
        self._waiting.append(pa.table(columns, schema=self.schema))
        if sum(map(len, self._waiting)) >= WRITTEN_ROWS:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            self._writer.write_table(pa.concat_tables(self._waiting).combine_chunks())
            self._waiting.clear()


def _placed(values: NDArray[Any], kept: NDArray[np.bool_] | None) -> pa.Array:
    """Values at the rows that have some; the others are empty."""
    if kept is None:
        return pa.array(values)
    # Zero is a placeholder, which the mask hides.
    placed = np.zeros(len(kept), dtype=values.dtype)
    placed[kept] = values
    return pa.array(placed, mask=~kept)
