"""Sources of frames: files that this process or a cluster reads, and Dask collections."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from fairmix.kernels.totals import IntArray, Rows
from fairmix.mixture.model import Model
from fairmix.system.threads import one_blas_thread
from fairmix.tables import FileBlocks, Paths, block_rows_of, column_names, find_files, is_path
from fairmix.tables.store import concatenate_rows

if TYPE_CHECKING:
    from fairmix.tables.dask import DaskFrames

# Packages whose classes are Dask collections. None of them is imported unless X is one.
DASK = ("dask", "dask_expr")
# What is large in a fitted estimator and of no use to predict.
HEAVY = ("labels_", "history_", "_stream")


class Source(Protocol):
    """Where frames come from.

    ``names`` are the columns; ``named`` tells whether they have names of their own.
    """

    @property
    def names(self) -> list[str]:
        """Names of the columns."""

    @property
    def named(self) -> bool:
        """Whether the user gave the names."""

    def open(
        self,
        used: list[str],
        text: Sequence[str],
        batch_size: float | None,
        n_jobs: int,
        verbose: bool,
    ) -> FileBlocks | DaskFrames:
        """Frames of some columns; ``text`` are those that a CSV file holds as text.

        Batches of ``batch_size`` are of whole blocks.
        """


@dataclass(frozen=True, eq=False)
class FileSource:
    """Files, read by this process, or by a cluster when there is a client.

    ``fit`` and ``predict`` take one in place of X; every worker must see the same files under
    these paths. ``columns`` are those to read, in this order; None for all.
    """

    paths: Paths
    client: Any = None
    columns: tuple[str, ...] | None = None
    named = True

    @property
    def names(self) -> list[str]:
        """Columns of the first file, or those chosen."""
        known = column_names(find_files(self.paths)[0])
        if self.columns is None:
            return known
        unknown = [name for name in self.columns if name not in known]
        if unknown:
            raise ValueError(f"X has no column {unknown[0]!r}. It has {known}.")
        return list(self.columns)

    def open(
        self,
        used: list[str],
        text: Sequence[str],
        batch_size: float | None,
        n_jobs: int,
        verbose: bool,
    ) -> FileBlocks | DaskFrames:
        """Frames of some columns."""
        files = FileBlocks(self.paths, text=text, n_jobs=n_jobs, verbose=verbose).select(used)
        files = files.cut(block_rows_of(files.n_rows, batch_size))
        if self.client is None:
            return files
        from fairmix.tables.dask import frames_from_files

        return frames_from_files(files, self.client)


@dataclass(frozen=True, eq=False)
class CollectionSource:
    """A Dask data frame or array on the active client, and columns beside it."""

    X: Any
    beside: Mapping[str, Any]

    @property
    def named(self) -> bool:
        """Whether it is a data frame."""
        return hasattr(self.X, "columns")

    @property
    def names(self) -> list[str]:
        """Columns of X, then those beside it."""
        own = self.X.columns if self.named else [f"x{j}" for j in range(self.X.shape[1])]
        return [*map(str, own), *self.beside]

    def open(
        self,
        used: list[str],
        text: Sequence[str],
        batch_size: float | None,
        n_jobs: int,
        verbose: bool,
    ) -> DaskFrames:
        """Frames of some columns."""
        from fairmix.tables.dask import active_client, frames_from_collection

        X = self.X[[name for name in self.X.columns if str(name) in used]] if self.named else self.X
        return frames_from_collection(X, active_client(), self.beside, batch_size).select(used)


def is_dask(X: object) -> bool:
    """Whether X is a Dask collection."""
    return any(kind.__module__.split(".")[0] in DASK for kind in type(X).__mro__)


def in_blocks(X: object) -> bool:
    """Whether the rows of X come block by block."""
    return is_path(X) or is_dask(X) or isinstance(X, FileSource)


def frames_of(
    X: Any, sensitive_features: Any = None, sample_weight: Any = None
) -> tuple[Source, Any, Any]:
    """The source of X, and the names of the columns of groups and weights."""
    if isinstance(X, FileSource):
        return X, sensitive_features, sample_weight
    if not is_dask(X):
        return FileSource(X), sensitive_features, sample_weight
    if len(getattr(X, "shape", (0, 0))) != 2:
        raise ValueError(
            f"X is a {type(X).__name__} of {len(X.shape)} dimensions. Give a Dask data frame, or a "
            "Dask array with a row for each row of the data."
        )
    given = {"sensitive_features": sensitive_features, "sample_weight": sample_weight}
    beside = {name: values for name, values in given.items() if is_dask(values)}
    twice = sorted(beside.keys() & set(map(str, getattr(X, "columns", ()))))
    if twice:
        raise ValueError(f"X has a column {twice[0]!r}, the name of an argument. Rename it.")
    groups, weight = (name if name in beside else value for name, value in given.items())
    return CollectionSource(X, beside), groups, weight


def lazy_labels(estimator: Any, X: Any, sensitive_features: Any) -> Any:
    """Labels of a Dask collection as a Dask array, made when they are asked for."""
    check_is_fitted(estimator)
    light = copy.copy(estimator)
    for name in HEAVY:
        light.__dict__.pop(name, None)
    # A blind map needs no groups; a name is looked up in each partition.
    beside = [sensitive_features] if is_dask(sensitive_features) and light._model.aware else []
    named = None if beside or not light._model.aware else sensitive_features
    work = partial(_labels, light, named)
    nothing = np.empty(0, dtype=np.intp)
    frame = hasattr(X, "columns")
    rows = X if frame else X.rechunk({1: -1})
    if light._model.split:
        from fairmix.tables.dask import map_runs

        beside = beside if frame else [groups.rechunk(rows.chunks[0]) for groups in beside]
        read = partial(_rows_and_groups, light, named)
        return map_runs(rows, beside, read, partial(_run_labels, light._model))
    if frame:
        return X.map_partitions(work, *beside, meta=nothing)
    # Two dimensions, so that blocks of groups stand beside blocks of rows.
    columns = [groups.rechunk(rows.chunks[0])[:, None] for groups in beside]
    return rows.map_blocks(work, *columns, drop_axis=1, meta=nothing)


def _rows_and_groups(
    estimator: Any, named: Any, part: Any, *beside: Any
) -> tuple[Rows, IntArray | None]:
    """A partition as `predict` sees it."""
    groups = np.asarray(beside[0]).ravel() if beside else named
    return estimator._near_rows(part), estimator._known_groups(part, groups)


def _run_labels(
    model: Model, pieces: list[tuple[tuple[Rows, IntArray | None], int, int]]
) -> IntArray:
    """Labels of a run of rows, from slices of partitions."""
    rows = concatenate_rows([rows.take(slice(a, b)) for (rows, _), a, b in pieces])
    known = [groups[a:b] for (_, groups), a, b in pieces if groups is not None]
    with one_blas_thread():
        return model.labels(rows, np.concatenate(known) if known else None)


def _labels(estimator: Any, named: Any, part: Any, *beside: Any) -> NDArray[Any]:
    groups = np.asarray(beside[0]).ravel() if beside else named
    if len(part) == 0:
        return np.empty(0, dtype=np.intp)
    return np.asarray(estimator.predict(part, sensitive_features=groups))
