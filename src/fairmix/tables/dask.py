"""Blocks on the workers of a Dask cluster.

A task visits a run of blocks and returns what the work makes of each; sums over blocks are made
here, in their order, so that results have the bits of a fit in memory. What is kept stays on the
workers as results of tasks. Dask remembers how each was made and makes it anew, down to the files,
when a worker dies.

A task that is on a worker when it dies is tried elsewhere, up to as many times as Dask's setting
``distributed.scheduler.allowed-failures`` says (3); every pass counts anew.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, Generic
from uuid import uuid4

import numpy as np

from fairmix.kernels.totals import IntArray
from fairmix.system.arrow import pa
from fairmix.system.threads import Gate, one_blas_thread
from fairmix.tables._base import (
    BLOCK_ROWS,
    BlockRows,
    Blocks,
    Item,
    Result,
    block_rows_of,
    block_start,
    count_blocks,
)
from fairmix.tables.files import Chain, FileBlocks, Frame
from fairmix.tables.values import by_value, value_type

if TYPE_CHECKING:
    from distributed import Client, Future

# Blocks of a run: so many that a task takes far longer than the few milliseconds that Dask adds,
# so few that the runs of 10 million rows keep tens of workers busy.
RUN_BLOCKS = 32
# Work of more bytes goes to the cluster once, not with each task.
INLINE_BYTES = 2**16
# Bytes of the widest numbers, whose addresses are multiples of it.
ALIGNMENT = 8
# Runs that are fetched together, so that this process does not hold the results of all at once.
GATHERED_RUNS = 64
# Numbers of glibc's settings in <malloc.h>, the values that it would end at, and its first one.
TRIM_THRESHOLD, HELD_TRIM = -1, 2**26
MMAP_THRESHOLD, HELD_MMAP, FIRST_MMAP = -3, 2**25, 2**17


def active_client() -> Client:
    """The client that the user has open."""
    try:
        from distributed import Client
    except ImportError as error:
        raise ImportError(
            "Dask is needed to run on a cluster. Install it: pip install 'fairmix[dask]'."
        ) from error
    try:
        return Client.current()
    except ValueError:
        raise ValueError(
            "X is a Dask collection, but there is no cluster to work on. Open a client first: "
            "distributed.Client(), or distributed.Client('tcp://...')."
        ) from None


class Run(Generic[Item]):
    """Things of consecutive blocks, as one result of a task."""

    def __init__(self, items: list[Item]) -> None:
        self.items = items
        # One stands for all: blocks have equal numbers of rows.
        self._bytes = len(pickle.dumps(items[0], protocol=5)) * len(items)

    def __sizeof__(self) -> int:
        # Dask weighs moving a result against waiting for the worker that has it.
        return self._bytes


# Gives the things at increasing positions of a run, from what is known of the run.
Load = Callable[[Any, Sequence[int]], Iterable[Item]]


def _kept(run: Run[Item], wanted: Sequence[int]) -> Iterator[Item]:
    return (run.items[position] for position in wanted)


def _mapped(
    load: Load[Any], function: Callable[[Any], Result], source: Any, wanted: Sequence[int]
) -> Iterator[Result]:
    return map(function, load(source, wanted))


class DaskBlocks(Blocks[Item]):
    """Blocks in runs, each run on a worker.

    Parameters
    ----------
    client : Client
        Connection to the cluster.
    sources : sequence
        What the things of each run are loaded from: futures, or anything small.
    edges : sequence of int
        First block of each run, then the number of all blocks.
    load : callable
        ``load(source, positions)`` gives the things at increasing positions of a run.
    """

    local = False
    kept_here = False

    def __init__(
        self, client: Client, sources: Sequence[Any], edges: Sequence[int], load: Load[Item] = _kept
    ) -> None:
        self.client = client
        self.sources = sources
        self.edges = edges
        self.load = load
        self.n_blocks = edges[-1]

    def each(
        self, work: Callable[[Item], Result], numbers: Sequence[int] | None = None
    ) -> Iterator[Result]:
        """What ``work`` makes of the things with these increasing numbers, None for all."""
        futures = self._submit(_visit, work, range(self.n_blocks) if numbers is None else numbers)
        while futures:
            # Futures that are forgotten here free the memory of the workers.
            some, futures = futures[:GATHERED_RUNS], futures[GATHERED_RUNS:]
            for results in self.client.gather(some):
                yield from results

    def map(self, function: Callable[[Item], Result], *, keep: int) -> DaskBlocks[Result]:
        """What a function makes of each; kept on the workers, or made anew for each use."""
        if keep:
            futures = self._submit(_make, function, range(self.n_blocks))
            return DaskBlocks(self.client, futures, self.edges)
        load = partial(_mapped, self.load, function)
        return DaskBlocks(self.client, self.sources, self.edges, load)

    def _submit(
        self, task: Callable[..., Any], work: Callable[[Item], Any], numbers: Sequence[int]
    ) -> list[Future]:
        """One task for each run that holds some of the blocks."""
        from distributed.protocol.pickle import dumps

        # Dask's own pickle, because work may be a closure.
        parcel = dumps((self.load, work))
        if len(parcel) > INLINE_BYTES:
            # The result of a task, for scattered data would be lost with its worker.
            key = f"fairmix parcel-{uuid4().hex}"
            parcel = self.client.submit(bytes, parcel, key=key)
        chosen, sources = [], []
        cuts = np.searchsorted(numbers, self.edges)
        for source, first, (start, stop) in zip(
            self.sources, self.edges[:-1], pairwise(cuts), strict=True
        ):
            if start < stop:
                sources.append(source)
                chosen.append([number - first for number in numbers[start:stop]])
        # Positions, not keywords: large keywords of all calls of `map` share one key.
        # Not pure: no two passes are equal, so hashing their arguments would be in vain.
        parcels, name = [parcel] * len(sources), f"fairmix {_title(work)}"
        return list(self.client.map(task, parcels, sources, chosen, pure=False, key=name))


def _title(work: Any) -> str:
    """What the dashboard of a cluster calls the work: a task is named after what it does."""
    while isinstance(work, Chain):
        work = work.then
    return str(getattr(work, "title", getattr(work, "__name__", type(work).__name__.lower())))


def _visit(parcel: bytes, source: Any, wanted: Sequence[int]) -> list[Any]:
    load, work = pickle.loads(parcel)
    with _at_work:
        return [work(item) for item in load(source, wanted)]


def _make(parcel: bytes, source: Any, wanted: Sequence[int]) -> Run[Any]:
    return Run(_visit(parcel, source, wanted))


@contextmanager
def _memory_held() -> Iterator[None]:
    """Do not give the arrays of each block back to the system.

    Dask starts its workers in an environment in which glibc gives back any free 64 kB. Then every
    array of a pass costs page faults, which double the time of the pass.
    """
    given = os.environ.get("MALLOC_TRIM_THRESHOLD_")
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if given is None or mallopt is None:
        yield
        return
    mallopt(TRIM_THRESHOLD, HELD_TRIM)
    mallopt(MMAP_THRESHOLD, HELD_MMAP)
    try:
        yield
    finally:
        mallopt(TRIM_THRESHOLD, int(given))
        mallopt(MMAP_THRESHOLD, int(os.environ.get("MALLOC_MMAP_THRESHOLD_", FIRST_MMAP)))


# A worker may have several threads, and its settings are those of the process.
_at_work = Gate(one_blas_thread, _memory_held)


class DaskFrames(DaskBlocks[Frame]):
    """Blocks of rows as Arrow tables."""

    load: FileLoad | TableLoad

    @property
    def schema(self) -> pa.Schema:
        """Names and types of the columns."""
        return self.load.schema

    @property
    def block_rows(self) -> BlockRows:
        """Rows per block."""
        return self.load.block_rows

    def select(self, names: Sequence[str]) -> DaskFrames:
        """The same rows with some of the columns."""
        return DaskFrames(self.client, self.sources, self.edges, self.load.select(names))


@dataclass(frozen=True)
class FileLoad:
    """Reads frames of a run from files; known of the run is its first block."""

    files: FileBlocks

    @property
    def schema(self) -> pa.Schema:
        """Names and types of the columns."""
        return self.files.schema

    @property
    def block_rows(self) -> BlockRows:
        """Rows per block."""
        return self.files.block_rows

    def __call__(self, first: int, wanted: Sequence[int]) -> Iterator[Frame]:
        """The frames at these positions of the run."""
        return self.files.frames([first + position for position in wanted])

    def select(self, names: Sequence[str]) -> FileLoad:
        """Read some of the columns only."""
        return FileLoad(self.files.select(names))


@dataclass(frozen=True)
class TableLoad:
    """Cuts frames from the one table of a run, numbered by the run's first block."""

    schema: pa.Schema
    block_rows: BlockRows

    def __call__(self, run: Frame, wanted: Sequence[int]) -> Iterator[Frame]:
        """The frames at these positions of the run."""
        table = _aligned(run.table.select(self.schema.names))
        first = block_start(run.number, self.block_rows)
        for position in wanted:
            number = run.number + position
            start, stop = (block_start(n, self.block_rows) for n in (number, number + 1))
            yield Frame(number, table.slice(start - first, stop - start))

    def select(self, names: Sequence[str]) -> TableLoad:
        """Some of the columns only."""
        return TableLoad(pa.schema([self.schema.field(name) for name in names]), self.block_rows)


def frames_from_files(files: FileBlocks, client: Client) -> DaskFrames:
    """Frames that the workers read from files, which all of them must be able to see."""
    edges = _edges(files.n_blocks)
    return DaskFrames(client, edges[:-1], edges, FileLoad(files))


def _edges(n_blocks: int) -> list[int]:
    return [*range(0, n_blocks, RUN_BLOCKS), n_blocks]


def frames_from_collection(
    X: Any, client: Client, beside: Mapping[str, Any], batch_size: float | None = None
) -> DaskFrames:
    """Frames of a Dask data frame or array, cut across its partitions and kept on the workers.

    Parameters
    ----------
    X : dask DataFrame, or dask array of two dimensions
        The columns of an array are named ``x0, x1, ...``.
    client : Client
        Connection to the cluster.
    beside : dict of str to dask Series or array of one dimension
        More columns.
    batch_size : float or None
        Rows of a batch, or their share of all: batches are of whole blocks.
    """
    columns = [_Parts.of(X, client)]
    columns += [_Parts.of(values, client, name) for name, values in beside.items()]
    n_rows = sum(columns[0].lengths)
    for name, n in zip(beside, (sum(more.lengths) for more in columns[1:]), strict=True):
        if n != n_rows:
            raise ValueError(f"{name} has {n} rows, X has {n_rows}. Give one value per row.")
    if n_rows == 0:
        raise ValueError("X has no rows. Give a collection with at least one row.")
    block_rows = block_rows_of(n_rows, batch_size)
    edges = _edges(count_blocks(n_rows, block_rows))
    starts = [min(block_start(edge, block_rows), n_rows) for edge in edges]
    ranges = list(pairwise(starts))
    pieces = [part.slices(ranges) for part in columns]
    schemas = [part.schema for part in columns]
    runs = client.map(partial(_cut, schemas), edges[:-1], *pieces, pure=False, key="fairmix cut")
    schema = pa.schema([field for part in columns for field in part.schema])
    return DaskFrames(client, runs, edges, TableLoad(schema, block_rows))


@dataclass(frozen=True, eq=False)
class _Parts:
    """Partitions of a collection as Arrow tables on the workers, and their lengths."""

    futures: list[Future]
    lengths: list[int]
    schema: pa.Schema

    @classmethod
    def of(cls, collection: Any, client: Client, name: str | None = None) -> _Parts:
        """Partitions of a collection; ``name`` is that of a column on its own."""
        import dask

        if hasattr(collection, "chunks"):
            # A row must not be divided between partitions.
            collection = collection.rechunk(dict.fromkeys(range(1, collection.ndim), -1))
        convert = dask.delayed(partial(_part_as_arrow, name=name), pure=False)
        delayed = np.ravel(np.array(collection.to_delayed(), dtype=object))
        names = (f"fairmix read-{uuid4().hex}" for _ in delayed)
        parts = [
            convert(number, part, dask_key_name=key)
            for number, (part, key) in enumerate(zip(delayed, names, strict=True))
        ]
        futures = client.compute(parts)
        # Asked of the partitions themselves: what a collection says of its types is a guess, and
        # it knows no categories of columns that are dictionaries in files.
        measures = client.map(_measure, futures, pure=False, key="fairmix measure")
        found = client.gather(measures)
        schema = _common_schema([schema for _, schema in found], name)
        return cls(futures, [length for length, _ in found], schema)

    def slices(self, ranges: Sequence[tuple[int, int]]) -> list[list[Any]]:
        """For each range of rows the partitions that it meets, with the rows of them."""
        return _slices(self.futures, self.lengths, ranges)


def _slices(
    parts: Sequence[Any], lengths: Sequence[int], ranges: Sequence[tuple[int, int]]
) -> list[list[Any]]:
    """For each range of rows the parts that it meets, with the rows of them."""
    ends = list(accumulate(lengths))
    return [
        [
            (part, max(start - end + n, 0), min(stop - end + n, n))
            for part, end, n in zip(parts, ends, lengths, strict=True)
            if end - n < stop and start < end
        ]
        for start, stop in ranges
    ]


def map_runs(
    X: Any,
    beside: Sequence[Any],
    prepare: Callable[..., Any],
    work: Callable[[int, list[tuple[Any, int, int]]], IntArray],
) -> Any:
    """A number for each row, made from runs of ``BLOCK_ROWS`` rows, as a Dask array.

    Nothing is computed but the lengths of partitions, where the collection does not know them.

    Parameters
    ----------
    X : dask DataFrame, or dask array of two dimensions
        The rows. The array has its partitions, but none without rows.
    beside : sequence of collections
        Partitioned like X.
    prepare : callable
        What a run needs of a partition and of those beside it.
    work : callable
        Makes the numbers of a run from its place among them and slices of what was prepared: each
        of these, its first row and the row after its last.
    """
    import dask
    import dask.array as da

    parts, *others = (np.ravel(np.array(c.to_delayed(), dtype=object)) for c in (X, *beside))
    for other in others:
        if len(other) != len(parts):
            raise ValueError(
                f"sensitive_features has {len(other)} partitions, X has {len(parts)}. Give it the "
                "partitions of X."
            )
    lengths: Sequence[Any] = getattr(X, "chunks", ((np.nan,),))[0]
    if np.isnan(lengths).any():
        lengths = dask.compute(*(dask.delayed(len)(part) for part in parts))
    filled = np.flatnonzero(lengths).tolist()
    lengths = [int(lengths[i]) for i in filled]
    prepared = [dask.delayed(prepare)(*(part[i] for part in (parts, *others))) for i in filled]
    ends = [*accumulate(lengths, initial=0)]
    cuts = [*range(0, ends[-1], BLOCK_ROWS), ends[-1]]
    slices = _slices(prepared, lengths, [*pairwise(cuts)])
    runs = [dask.delayed(work)(number, pieces) for number, pieces in enumerate(slices)]
    sizes = [b - a for a, b in pairwise(cuts)]
    # Back to the partitions of X, so that labels can stand beside its rows.
    chunks = [dask.delayed(_join)(pieces) for pieces in _slices(runs, sizes, [*pairwise(ends)])]
    nothing = np.empty(0, dtype=np.int32)
    found = [
        da.from_delayed(chunk, (n,), meta=nothing) for chunk, n in zip(chunks, lengths, strict=True)
    ]
    return da.concatenate(found or [da.from_array(nothing)])


def _join(pieces: list[tuple[IntArray, int, int]]) -> IntArray:
    return np.concatenate([numbers[start:stop] for numbers, start, stop in pieces])


def _part_as_arrow(number: int, part: Any, name: str | None) -> pa.Table:
    """A partition as a table; an error says which one it is."""
    try:
        return _as_arrow(part, name)
    except (ValueError, pa.ArrowException) as error:
        argument = "X" if name is None else name
        raise ValueError(
            f"Partition {number} of {argument} is no table of columns of one type each: {error}. "
            "Give all partitions the same columns."
        ) from error


def _as_arrow(part: Any, name: str | None = None) -> pa.Table:
    """A partition as a table."""
    if isinstance(part, np.ndarray):
        values = part if part.ndim > 1 else part[:, None]
        names = [f"x{j}" for j in range(values.shape[1])] if name is None else [name]
        table = pa.table([pa.array(column) for column in values.T], names=names)
    else:
        frame = part if name is None else part.to_frame(name)
        table = pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata()
    # Partitions may differ in the number of categories, and with it in the type of their codes.
    types = [
        pa.dictionary(pa.int32(), kind.value_type) if pa.types.is_dictionary(kind) else kind
        for kind in table.schema.types
    ]
    return table.cast(pa.schema(list(zip(table.schema.names, types, strict=True))))


def _measure(table: pa.Table) -> tuple[int, pa.Schema]:
    return len(table), table.schema


def _common_schema(schemas: Sequence[pa.Schema], argument: str | None) -> pa.Schema:
    """Types that hold the values of all partitions, of which some may be empty."""
    first = schemas[0].names
    for number, schema in enumerate(schemas):
        if schema.names != first:
            raise ValueError(
                f"Partition {number} of {argument or 'X'} has the columns {schema.names}, the "
                f"first one has {first}. Give all partitions the same columns."
            )
    fields = []
    for name in schemas[0].names:
        kinds = [schema.field(name).type for schema in schemas]
        values = [pa.schema([(name, value_type(kind))]) for kind in kinds]
        try:
            # A partition may hold whole numbers where another has gaps, and nothing but gaps.
            kind = pa.unify_schemas(values, promote_options="permissive").field(name).type
        except (pa.ArrowTypeError, pa.ArrowInvalid):
            shown = " and ".join(sorted({str(value_type(kind)) for kind in kinds})[:2])
            raise ValueError(
                f"Column {name!r} of X has {shown} in different partitions. Give it one type: "
                f"X.astype({{{name!r}: ...}})."
            ) from None
        coded = all(map(pa.types.is_dictionary, kinds))
        fields.append((name, pa.dictionary(pa.int32(), kind) if coded else kind))
    return pa.schema(fields)


def _typed(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table in the types of all partitions."""
    if table.schema == schema:
        return table
    columns = []
    for column, kind in zip(table.columns, schema.types, strict=True):
        if column.type != kind:
            # By value, because a dictionary of nothing cannot become one of texts.
            nothing = pa.types.is_null(value_type(column.type))
            column = pa.nulls(len(column)) if nothing else by_value(column)
            column = column.cast(value_type(kind))
            column = column.dictionary_encode() if pa.types.is_dictionary(kind) else column
        columns.append(column)
    return pa.table(columns, schema=schema)


def _aligned(table: pa.Table) -> pa.Table:
    """The table with its numbers where a processor wants them.

    What comes from another worker lies in the middle of a message, at any address. Functions of
    Arrow then copy it each time, and say so.
    """
    chunks = [chunk for column in table.columns for chunk in column.chunks]
    buffers = [buffer for chunk in chunks for buffer in _buffers(chunk)]
    if all(buffer.address % ALIGNMENT == 0 for buffer in buffers):
        return table
    # Through Arrow's own format, whose reader gives every buffer its place.
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    with pa.ipc.open_stream(sink.getvalue()) as reader:
        return reader.read_all()


def _buffers(array: pa.Array) -> Iterator[pa.Buffer]:
    yield from (buffer for buffer in array.buffers() if buffer is not None)
    if isinstance(array, pa.DictionaryArray):
        yield from _buffers(array.dictionary)


def _cut(schemas: list[pa.Schema], number: int, *columns: list[tuple[pa.Table, int, int]]) -> Frame:
    """The table of a run, from slices of partitions."""
    parts = [
        pa.concat_tables(
            _typed(_aligned(table).slice(start, stop - start), schema)
            for table, start, stop in slices
        )
        for schema, slices in zip(schemas, columns, strict=True)
    ]
    table = parts[0]
    for more in parts[1:]:
        for name in more.column_names:
            table = table.append_column(name, more[name])
    return Frame(number, table)
