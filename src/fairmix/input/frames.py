"""Frames: rows that come block by block as Arrow tables, and what is learned from all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

import narwhals as nw
import numpy as np

from fairmix.input.columns import Columns, categorical_positions, category_levels
from fairmix.input.groups import (
    Codes,
    Groups,
    MissingGroups,
    Seats,
    check_missing,
    encode_groups,
    seated_groups,
)
from fairmix.kernels.totals import Chunk, FloatArray, IntArray, Rows
from fairmix.system.arrow import pa, pc
from fairmix.tables import (
    BlockRows,
    Blocks,
    Frame,
    Seal,
    Store,
    Summary,
    Ties,
    block_start,
)
from fairmix.tables.values import by_value

Result = TypeVar("Result")

# Categories of a column, and groups, are kept in memory: more than this are an identifier.
MAX_LEVELS = 100_000
COUNT = "count_all"


class Frames(Protocol):
    """Blocks of rows as Arrow tables: what a source opens; see `Blocks`."""

    @property
    def schema(self) -> pa.Schema:
        """Names and types of the columns."""

    @property
    def block_rows(self) -> BlockRows:
        """Rows per block."""

    def select(self, names: Sequence[str]) -> Frames:
        """The same rows with some of the columns; others are not read."""

    def each(
        self, work: Callable[[Frame], Result], numbers: Sequence[int] | None = None
    ) -> Iterator[Result]:
        """What ``work`` makes of the frames with these increasing numbers, None for all."""

    def map(self, function: Callable[[Frame], Result], *, keep: int) -> Blocks[Result]:
        """What a function makes of each frame, as blocks; so many of them may be kept."""


@dataclass(frozen=True)
class Roles:
    """What the columns of frames are for, by name."""

    features: tuple[str, ...]
    sensitive: tuple[str, ...] = ()
    weight: str | None = None
    left_out: tuple[str, ...] = ()

    @property
    def set_aside(self) -> tuple[str, ...]:
        """Columns of groups and weights, and what is of no use."""
        return (*self._beside, *self.left_out)

    @property
    def used(self) -> list[str]:
        """All columns that are read."""
        return list(dict.fromkeys((*self.features, *self._beside)))

    @property
    def _beside(self) -> tuple[str, ...]:
        return (*self.sensitive, *([] if self.weight is None else [self.weight]))


@dataclass(frozen=True, eq=False)
class Reader:
    """Turns a frame into a chunk."""

    roles: Roles
    columns: Columns
    groups: Groups | None
    seats: Seats
    block_rows: BlockRows
    missing: MissingGroups = "error"
    ties: Ties | None = None

    def __call__(self, frame: Frame) -> Chunk:
        """Rows, groups and weights of the frame."""
        table, roles = frame.table, self.roles
        try:
            rows = self.columns.rows(_narwhal(table.select(roles.features)), by_column=True)
            codes: Codes = np.zeros(len(table), dtype=np.intp)
            if roles.sensitive and self.groups is not None:
                codes = seated_groups(
                    table.select(roles.sensitive), self.groups, missing=self.missing
                )
            groups = self.seats.codes(codes)
        # Rows in the message are counted within the block, so its place is added.
        except ValueError as error:
            first = block_start(frame.number, self.block_rows)
            raise ValueError(f"In rows {first} to {first + len(table) - 1}: {error}") from error
        weight = None if roles.weight is None else weight_column(table, roles.weight)
        ties = None if self.ties is None else self.ties(rows, groups, frame.number)
        return Chunk(frame.number, rows, groups, self.seats.weight(codes, weight), ties)


@dataclass(frozen=True, eq=False)
class FrameData:
    """Data whose rows come block by block.

    Attributes
    ----------
    frames : Frames
        The rows.
    roles : Roles
        What the columns are for.
    columns : Columns
        How the features are read.
    groups : Groups or None
        The groups and their sizes; it has no codes of rows.
    ties : Ties or None
        What finds equal rows that share labels out.
    seal : Seal or None
        Of the files that the rows come from.
    """

    frames: Frames
    roles: Roles
    columns: Columns
    groups: Groups | None
    missing: MissingGroups = "error"
    ties: Ties | None = None
    seal: Seal | None = None
    in_memory = False

    @property
    def set_aside(self) -> tuple[str, ...]:
        """Columns of groups and weights."""
        return self.roles.set_aside

    @property
    def splits_ties(self) -> bool:
        """Whether equal rows may share labels out."""
        return self.ties is not None

    def store(self, columns: Columns, summary: Summary | None = None) -> Store:
        """The rows, read when a pass comes to them."""
        seats, block_rows = Seats.of(self.groups), self.frames.block_rows
        reader = Reader(
            self.roles, columns, self.groups, seats, block_rows, self.missing, self.ties
        )
        blocks = self.frames.map(reader, keep=False)
        return Store(blocks, seats.n_groups, summary, block_rows, aside=seats.one_more)

    def everybody(self, columns: Columns) -> tuple[Rows, IntArray | None] | None:
        """The store has all rows: none of a file can be without weight."""
        return None

    def check_unchanged(self) -> None:
        """Refuse files that are no longer those of the first pass."""
        if self.seal is not None:
            self.seal.check()


def learn_frames(
    frames: Frames,
    roles: Roles,
    categorical_features: object,
    *,
    complete: bool = False,
    missing: MissingGroups = "error",
    each: bool = False,
) -> FrameData:
    """Find categories and groups of all rows, by one pass over the columns that hold them."""
    schema = frames.schema
    # Types tell which columns are categorical, and an empty table has them.
    nothing = _narwhal(schema.empty_table().select(roles.features))
    categorical = categorical_positions(categorical_features, nothing, roles.features)
    look = Look(tuple(roles.features[j] for j in categorical), roles.sensitive, roles.weight)
    # A column of dates or the like is told before a pass over all rows.
    if len(categorical) < len(roles.features):
        Columns(roles.features, categorical, ()).numbers(nothing)
    levels: tuple[tuple[str, ...], ...] = ()
    groups = None
    if look.names:
        # Of nothing, so that every block is merged in the same way.
        seen = look(Frame(0, schema.empty_table()))
        # Numbers need no look: a store finds their moments in its own sweep.
        some = frames.select(look.names)
        for more in some.each(look):
            seen = seen.merged(more)
        seen.check(look, missing)
        levels = tuple(
            category_levels(values, name)
            for name, values in zip(look.categorical, seen.levels, strict=True)
        )
        groups = seen.groups(roles.sensitive, missing, each) if roles.sensitive else None
    columns = Columns(roles.features, categorical, levels, complete=complete)
    return FrameData(frames, roles, columns, groups, missing)


@dataclass(frozen=True)
class Look:
    """Finds the values of the columns that are coded."""

    categorical: tuple[str, ...]
    sensitive: tuple[str, ...]
    weight: str | None

    @property
    def names(self) -> list[str]:
        """Columns to look at."""
        return Roles(self.categorical, self.sensitive, self.weight).used

    def __call__(self, frame: Frame) -> Seen:
        """Different values of each categorical column, and combinations of the sensitive ones."""
        table = frame.table
        coded = {name: by_value(table[name]) for name in {*self.categorical, *self.sensitive}}
        levels = [coded[name].unique() for name in self.categorical]
        ungrouped = np.zeros(len(table), dtype=bool)
        for name in self.sensitive:
            ungrouped |= pc.is_null(coded[name], nan_is_null=True).to_numpy()
        # By position: any name may be that of a column.
        combined = pa.table({str(j): coded[name] for j, name in enumerate(self.sensitive)})
        if self.sensitive:
            keys = combined.column_names
            # Counted here, because codes of rows are not kept: only combinations have to fit in
            # memory.
            combined = combined.group_by(keys, use_threads=False).aggregate([([], COUNT)])
        weight = np.ones(0) if self.weight is None else weight_column(table, self.weight)
        return Seen(
            len(table),
            levels,
            combined,
            int(ungrouped.sum()),
            int((weight == 0).sum()),
            int((~(np.isfinite(weight) & (weight >= 0))).sum()),
        )


@dataclass(frozen=True, eq=False)
class Seen:
    """What some frames hold: values, and how many rows lack a group or have no weight."""

    n_rows: int
    levels: list[pa.Array]
    combined: pa.Table
    ungrouped: int
    weightless: int
    misweighted: int

    def merged(self, other: Seen) -> Seen:
        """What both hold."""
        levels = [
            pa.concat_arrays(pair).unique() for pair in zip(self.levels, other.levels, strict=True)
        ]
        combined = pa.concat_tables([self.combined, other.combined])
        if keys := [name for name in combined.column_names if name != COUNT]:
            counted = combined.group_by(keys, use_threads=False).aggregate([(COUNT, "sum")])
            combined = counted.rename_columns([*keys, COUNT])
        # After every block, so that a column of identifiers is refused before it fills the memory.
        for values in (*levels, combined):
            if len(values) > MAX_LEVELS:
                raise ValueError(
                    f"A categorical or sensitive column has more than {MAX_LEVELS} categories, "
                    f"among them {values[:3].to_pylist()}. Drop an identifier from the files, and "
                    "texts from a column of numbers."
                )
        return Seen(
            self.n_rows + other.n_rows,
            levels,
            combined,
            self.ungrouped + other.ungrouped,
            self.weightless + other.weightless,
            self.misweighted + other.misweighted,
        )

    def check(self, look: Look, missing: MissingGroups) -> None:
        """Refuse missing groups and weights that are none."""
        check_missing(self.ungrouped, self.n_rows, "sensitive_features", missing)
        if self.misweighted:
            raise ValueError(
                f"sample_weight={look.weight!r} has {self.misweighted} values that are negative, "
                "NaN or infinity. Give weights above 0."
            )
        if self.weightless:
            raise ValueError(
                f"sample_weight={look.weight!r} has {self.weightless} weights of 0, which files "
                "cannot hold. Drop these rows from the files."
            )

    def groups(self, names: Sequence[str], missing: MissingGroups, each: bool) -> Groups:
        """The groups and their sizes."""
        combined = self.combined.drop_columns([COUNT]).rename_columns(list(names))
        groups = encode_groups(combined, missing=missing, each=each)
        counts = self.combined[COUNT].to_numpy()
        if groups.membership is not None:
            return groups.weighed(counts)
        # The first entry is for the code -1 of what is missing.
        rows = np.bincount(groups.codes + 1, counts, len(groups.names) + 1).astype(np.intp)
        return replace(groups, sizes=rows[1:], n_missing=int(rows[0]))


def weight_column(table: pa.Table, name: str) -> FloatArray:
    """Weights of the rows of a frame."""
    values = table[name].to_numpy()
    if values.dtype.kind not in "biuf":
        raise ValueError(
            f"sample_weight={name!r} has type {table.schema.field(name).type}, not numbers. Name "
            "a column of weights above 0."
        )
    return np.asarray(values, dtype=np.float64)


def _narwhal(table: pa.Table) -> nw.DataFrame[Any]:
    return nw.from_native(table, eager_only=True)
