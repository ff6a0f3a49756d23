"""Outputs: files that appear when all of them are complete, and never over others unasked."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
import typer
from numpy.typing import NDArray

from fairmix.system.signals import together

# Labels are written in pieces of this many rows.
WRITTEN_ROWS = 2**20
LABEL_SUFFIXES = (".parquet", ".csv")


def refuse_existing(paths: Sequence[Path], force: bool) -> None:
    """Refuse to write over files unless told to."""
    existing = [path for path in paths if path.exists()]
    if existing and not force:
        raise typer.BadParameter(
            f"{existing[0]} exists. Give --force to write over it, or another --out."
        )


@contextmanager
def folder_of(target: Path) -> Iterator[Path]:
    """A temporary folder beside the target, whose files move there at the end."""
    if target.exists() and not target.is_dir():
        raise typer.BadParameter(f"{target} is a file. Give --out a folder.")
    target = target.absolute()
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        part.mkdir(parents=True)
        yield part
        with together():
            _move(part, target)
    finally:
        with together():
            shutil.rmtree(part, ignore_errors=True)


def _move(part: Path, target: Path) -> None:
    """The files of a folder to their place."""
    if not target.exists():
        part.rename(target)
        return
    for path in sorted(part.iterdir()):
        path.replace(target / path.name)


@contextmanager
def file_of(target: Path) -> Iterator[Path]:
    """A temporary file beside the target, which takes its place at the end."""
    target = target.absolute()
    target.parent.mkdir(parents=True, exist_ok=True)
    # The suffix stays the last, because writers look at it.
    part = target.with_name(f".{target.stem}.{os.getpid()}.part{target.suffix}")
    try:
        yield part
        part.replace(target)
    finally:
        with together():
            part.unlink(missing_ok=True)


class LabelFile:
    """A file of labels, written row by row in the order of the data: Parquet or CSV.

    A row without a label, because it lacks a value, is empty there. ``held_out`` adds a column
    that tells which rows were not in the fit.
    """

    def __init__(self, path: Path, *, held_out: bool = False) -> None:
        fields = [pa.field("cluster", pa.int32())]
        if held_out:
            fields.append(pa.field("held_out", pa.bool_()))
        self.schema = pa.schema(fields)
        writer = pcsv.CSVWriter if path.suffix == ".csv" else pq.ParquetWriter
        self._writer = writer(path, self.schema)
        self._waiting: list[pa.Table] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        try:
            self._flush()
        finally:
            self._writer.close()

    def add(
        self, labels: NDArray[Any], kept: NDArray[np.bool_], held: NDArray[np.bool_] | None = None
    ) -> None:
        """Labels of the rows that have one; ``kept`` and ``held`` are of all rows of a block."""
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


def check_label_suffix(path: Path) -> None:
    """Refuse names of label files that tell no format."""
    if path.suffix not in LABEL_SUFFIXES:
        raise typer.BadParameter(f"--out {path}: give a name that ends in .parquet or .csv.")
