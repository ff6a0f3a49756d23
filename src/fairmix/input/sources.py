"""Sources: where rows come from that are not a table in memory.

`SOURCES` is the register of back ends. A new one is a class that follows `Source` and one line that
adds it to the register: ``fit`` and ``predict`` then take what it takes in place of X.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, Protocol, Self

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from fairmix.input.columns import as_frame
from fairmix.input.frames import Frames
from fairmix.input.groups import listed
from fairmix.kernels.totals import IntArray, Rows
from fairmix.system.arrow import pa
from fairmix.system.notices import notify
from fairmix.system.threads import one_blas_thread
from fairmix.tables import (
    Dialect,
    FileBlocks,
    Paths,
    block_rows_of,
    column_names,
    dataset_files,
    find_files,
    index_columns,
    is_path,
    spool_path,
    spooled,
)
from fairmix.tables.store import concatenate_rows

# Packages whose classes are Dask collections. None of them is imported unless X is one.
DASK = ("dask", "dask_expr")

# Rows of a table and their seats, as an aware map needs them.
Seated = tuple[Rows, IntArray | None]


class DaskCollection(Protocol):
    """A Dask array or data frame, for type checkers: Dask itself is an extra."""

    def __dask_graph__(self) -> Any:
        """What is to be computed."""


class DaskArray(DaskCollection, Protocol):
    """A Dask array, as methods give it for a Dask collection."""

    @property
    def shape(self) -> tuple[Any, ...]:
        """Rows, which may be unknown, and columns."""

    def compute(self, **kwargs: Any) -> Any:
        """The values, a NumPy array."""

    def persist(self, **kwargs: Any) -> Any:
        """The same, kept on the workers."""


@dataclass(frozen=True)
class Opening:
    """How frames are opened.

    Attributes
    ----------
    used : tuple of str
        The columns to read.
    text : tuple of str
        Those among them that a text file holds as text, whatever they look like.
    batch_size : float or None
        Rows of a batch, or their share of all: batches are of whole blocks.
    n_jobs : int
        Threads.
    verbose : bool
        Show a bar in every pass.
    end : ExitStack
        What is to be done when the frames are no longer needed.
    """

    used: tuple[str, ...]
    text: tuple[str, ...]
    batch_size: float | None
    n_jobs: int
    verbose: bool
    end: ExitStack


class Source(Protocol):
    """Where frames come from."""

    @classmethod
    def takes(cls, X: object) -> bool:
        """Whether X is of this kind."""

    @classmethod
    def of(cls, X: object, beside: Mapping[str, object]) -> Self:
        """The source of X; ``beside`` are arguments that are rows of the same kind, by name."""

    @property
    def names(self) -> list[str]:
        """Names of the columns, then those of what is beside them."""

    @property
    def named(self) -> bool:
        """Whether the user gave the names."""

    def open(self, opening: Opening) -> Frames:
        """Frames of some columns."""


@dataclass(frozen=True, eq=False)
class FileSource:
    r"""Files, and what is to be known to read them. ``fit`` and ``predict`` take it in place of X.

    A path alone will do, unless something is to be said about the files.

    Parameters
    ----------
    paths : path, or list of paths
        As X of ``fit``: a file, a pattern, a folder, an address such as ``"s3://..."``.
    client : distributed.Client, default=None
        Reads on the workers of its cluster. Every worker must see the files under these paths.
    columns : tuple of str, default=None
        The columns to read, in this order; None for all.
    decimal : {".", ","}, default=None
        For text files: what stands before tenths, where values such as 1,234 leave it open. None:
        what other columns say; else a comma where semicolons stand between values.
    encoding : str, default=None
        For text files. None: UTF-8 or UTF-16, and with a note Windows-1252 or Latin-1 where a file
        is neither.
    missing : sequence of str, default=()
        For text files: cells that hold no value, beside the empty ones, ``?``, ``NA``, ``NaN``,
        ``NULL`` and the like.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from fairmix import FairMixture, FileSource
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "people.csv")
    ...     _ = path.write_text("age;sex\n" + "30,5;f\n-99;m\n41,5;m\n" * 30)
    ...     people = FileSource(path, decimal=",", missing=["-99"])
    ...     model = FairMixture(1).fit(people, sensitive_features="sex")
    >>> model.means_.round(1).tolist()
    [[36.0]]
    """

    paths: Paths
    client: Any = None
    columns: tuple[str, ...] | None = None
    _: KW_ONLY
    decimal: str | None = None
    encoding: str | None = None
    missing: Sequence[str] = ()
    named = True

    @property
    def dialect(self) -> Dialect:
        """What is known of text files."""
        return Dialect.of(self.decimal, self.encoding, self.missing)

    @classmethod
    def takes(cls, X: object) -> bool:
        """Whether X names files, or is a source of them."""
        return is_path(X) or isinstance(X, cls)

    @classmethod
    def of(cls, X: Any, beside: Mapping[str, Any]) -> FileSource:
        """The files that X names."""
        return X if isinstance(X, cls) else cls(X)

    @property
    def names(self) -> list[str]:
        """Columns of the first file, or those chosen."""
        first = find_files(self.paths)[0]
        known = column_names(first, self.dialect)
        if self.columns is None and known[0] == "" and len(known) > 1:
            notify(
                f"The first column of {first} has no name and was left out: pandas and R write the "
                "names of rows like this. To keep it, give it a name."
            )
            return known[1:]
        if self.columns is None:
            return known
        unknown = [name for name in self.columns if name not in known]
        if unknown:
            raise ValueError(f"X has no column {unknown[0]!r}. It has {listed(known)}.")
        return list(self.columns)

    def open(self, opening: Opening) -> Frames:
        """Frames of some columns."""
        files = FileBlocks(
            self.paths,
            text=opening.text,
            dialect=self.dialect,
            n_jobs=opening.n_jobs,
            verbose=opening.verbose,
        ).select(opening.used)
        # Cut afterwards, because the number of rows is known only when the files are open.
        files = files.cut(block_rows_of(files.n_rows, opening.batch_size))
        if self.client is None:
            return files
        from fairmix.tables.dask import frames_from_files

        return frames_from_files(files, self.client)


@dataclass(frozen=True, eq=False)
class StreamSource:
    """Rows that come from another library: a lazy frame, a query, a reader, a data set of Arrow.

    They may come once only, or in another order the next time, so they are read once and kept in a
    temporary file. Only a data set of whole Parquet files is read where it is.
    """

    X: Any
    named = True

    @classmethod
    def takes(cls, X: object) -> bool:
        """Whether X gives a stream of Arrow batches, and is no table in memory."""
        # First, because it has the words for a table that cannot be read.
        if as_frame(X) is not None:
            return False
        if isinstance(_lazy(X), nw.LazyFrame) or _is_dataset(X):
            return True
        # Single columns give a stream, too.
        native = nw.from_native(X, eager_only=True, allow_series=True, pass_through=True)
        return hasattr(X, "__arrow_c_stream__") and not isinstance(native, nw.Series)

    @classmethod
    def of(cls, X: Any, beside: Mapping[str, Any]) -> StreamSource:
        """The rows of X."""
        for name, value in beside.items():
            raise ValueError(
                f"{name} is a {type(value).__name__} beside X, and nothing says which of their "
                "rows belong together. Give the name of a column of X."
            )
        if isinstance(_lazy(X), nw.LazyFrame) or _is_dataset(X):
            return cls(X)
        # Opened here, because a stream can be asked for once.
        return cls(
            X if isinstance(X, pa.RecordBatchReader) else pa.RecordBatchReader.from_stream(X)
        )

    @property
    def names(self) -> list[str]:
        """Columns, without the index of a data frame."""
        if isinstance(lazy := _lazy(self.X), nw.LazyFrame):
            return list(lazy.collect_schema().names())
        index = index_columns(self.X.schema)
        return [name for name in self.X.schema.names if name not in index]

    def open(self, opening: Opening) -> Frames:
        """Frames of some columns."""
        return FileSource(self._kept(opening)).open(opening)

    def _kept(self, opening: Opening) -> Paths:
        if isinstance(lazy := _lazy(self.X), nw.LazyFrame):
            path = spool_path("rows.parquet", opening.end)
            # By the library itself, which need not hold all rows for it.
            lazy.select(*opening.used).sink_parquet(str(path))
            return path
        if _is_dataset(self.X):
            files = dataset_files(self.X)
            if files and column_names(files[0]) == self.names:
                return files
            return spooled(self.X.scanner().to_reader(), opening.used, opening.end)
        return spooled(self.X, opening.used, opening.end)


def _lazy(X: Any) -> Any:
    return nw.from_native(X, pass_through=True)


def _is_dataset(X: object) -> bool:
    # Not imported for this: whoever has a data set has imported it.
    module = sys.modules.get("pyarrow.dataset")
    return module is not None and isinstance(X, module.Dataset)


@dataclass(frozen=True, eq=False)
class CollectionSource:
    """A Dask data frame or array on the active client, and columns beside it."""

    X: Any
    beside: Mapping[str, Any]

    @classmethod
    def takes(cls, X: object) -> bool:
        """Whether X is a Dask collection."""
        return any(kind.__module__.split(".")[0] in DASK for kind in type(X).__mro__)

    @classmethod
    def of(cls, X: Any, beside: Mapping[str, Any]) -> CollectionSource:
        """A collection, and those beside it as columns with the names of their arguments."""
        if len(getattr(X, "shape", (0, 0))) != 2:
            raise ValueError(
                f"X is a {type(X).__name__} of {len(X.shape)} dimensions. Give a Dask data frame, "
                "or a Dask array with a row for each row of the data."
            )
        twice = sorted(beside.keys() & set(map(str, getattr(X, "columns", ()))))
        if twice:
            raise ValueError(f"X has a column {twice[0]!r}, the name of an argument. Rename it.")
        return cls(X, beside)

    @property
    def named(self) -> bool:
        """Whether it is a data frame."""
        return hasattr(self.X, "columns")

    @property
    def names(self) -> list[str]:
        """Columns of X, then those beside it."""
        own = self.X.columns if self.named else [f"x{j}" for j in range(self.X.shape[1])]
        return [*map(str, own), *self.beside]

    def open(self, opening: Opening) -> Frames:
        """Frames of some columns."""
        from fairmix.tables.dask import active_client, frames_from_collection

        used = opening.used
        # Columns without a role would be computed for nothing. Names need not be strings.
        X = self.X[[name for name in self.X.columns if str(name) in used]] if self.named else self.X
        frames = frames_from_collection(X, active_client(), self.beside, opening.batch_size)
        return frames.select(used)

    def map_rows(self, work: Callable[..., NDArray[Any]], nothing: NDArray[Any]) -> Any:
        """What ``work`` makes of each row as a Dask array, made when it is asked for.

        ``work`` makes the part of a partition from it and from what is beside it; ``nothing`` is
        what it would make of no rows.
        """
        work = partial(_unless_empty, work, nothing)
        beside = list(self.beside.values())
        if self.named:
            return self.X.map_partitions(work, *beside, meta=nothing)
        # Two dimensions, so that blocks of groups stand beside blocks of rows.
        rows = self._rows
        columns = [groups.rechunk(rows.chunks[0])[:, None] for groups in beside]
        if nothing.ndim == 1:
            return rows.map_blocks(work, *columns, drop_axis=1, meta=nothing)
        chunks = (rows.chunks[0], (nothing.shape[1],))
        return rows.map_blocks(work, *columns, chunks=chunks, meta=nothing)

    def map_run_labels(
        self,
        read: Callable[..., Seated],
        labels: Callable[..., IntArray],
    ) -> Any:
        """The same where labels depend on the rows beside them: in runs of `Ties`.

        ``read`` makes rows of a partition and of what is beside it, ``labels`` the labels of a run,
        given its rows, groups and number.
        """
        from fairmix.tables.dask import map_runs

        rows = self._rows
        beside = list(self.beside.values())
        if not self.named:
            beside = [groups.rechunk(rows.chunks[0]) for groups in beside]
        return map_runs(rows, beside, read, partial(_run_labels, labels))

    @property
    def _rows(self) -> Any:
        # A row must not be divided between chunks.
        return self.X if self.named else self.X.rechunk({1: -1})


# The back ends. The first that takes X opens it; what none takes is a table in memory.
SOURCES: list[type[Source]] = [FileSource, CollectionSource, StreamSource]


def source_kind(X: object) -> type[Source] | None:
    """The back end for X; None for a table in memory."""
    if isinstance(X, np.ndarray):
        return None  # the usual case, which no back end need look at
    return next((kind for kind in SOURCES if kind.takes(X)), None)


def in_blocks(X: object) -> bool:
    """Whether the rows of X come block by block."""
    return source_kind(X) is not None


def open_source(X: Any, **given: Any) -> tuple[Source, dict[str, Any]]:
    """The source of X, and what is given beside it, as names of columns where it is rows.

    ``given`` are arguments by name: names of columns of X, or further rows of the same kind.
    """
    kind = source_kind(X)
    assert kind is not None
    # A path beside a path is the name of a column, so files take no rows beside them.
    apart = {name: value for name, value in given.items() if _is_rows(value, kind)}
    return kind.of(X, apart), {
        name: name if name in apart else value for name, value in given.items()
    }


def _is_rows(value: object, kind: type[Source]) -> bool:
    return not is_path(value) and value is not None and kind.takes(value)


def _unless_empty(
    work: Callable[..., NDArray[Any]], nothing: NDArray[Any], part: Any, *beside: Any
) -> NDArray[Any]:
    # Partitions may be empty, and `predict` refuses a table without rows.
    return nothing if len(part) == 0 else np.asarray(work(part, *beside))


def _run_labels(
    labels: Callable[..., IntArray], number: int, pieces: list[tuple[Seated, int, int]]
) -> IntArray:
    """Labels of the run of this number, from slices of partitions."""
    rows = concatenate_rows([rows.take(slice(a, b)) for (rows, _), a, b in pieces])
    known = [groups[a:b] for (_, groups), a, b in pieces if groups is not None]
    # This runs on a worker, where no fit has set the number of threads.
    with one_blas_thread():
        groups = np.concatenate(known) if known else None
        return labels(rows, groups, first_run=number)
