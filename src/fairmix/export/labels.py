"""Label files: the cluster of each row, in the order of the rows, as Parquet or CSV."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
from numpy.typing import NDArray

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

    def __init__(self, path: Path, *, every_row: bool = False, held_out: bool = False) -> None:
        # 32 bits, as `labels_` of this package and of scikit-learn's KMeans.
        fields = [pa.field("cluster", pa.int32(), nullable=not every_row)]
        if held_out:
            fields.append(pa.field("held_out", pa.bool_()))
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
        """
        if kept is None:
            columns = [pa.array(np.asarray(labels, dtype=np.int32))]
        else:
            # Zero is a placeholder, which the mask hides.
            cluster = np.zeros(len(kept), dtype=np.int32)
            cluster[kept] = labels
            columns = [pa.array(cluster, mask=~kept)]
        if held is not None:
            columns.append(pa.array(held))
        self._waiting.append(pa.table(columns, schema=self.schema))
        if sum(map(len, self._waiting)) >= WRITTEN_ROWS:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            self._writer.write_table(pa.concat_tables(self._waiting).combine_chunks())
            self._waiting.clear()
