"""Tables: encoded rows, and the one thing that solvers do with them, a softmax pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from fairmix.kernels import Forward, Sweep
from fairmix.kernels.totals import (
    Block,
    Chunk,
    Features,
    FloatArray,
    IntArray,
    Logits,
    Membership,
    Rows,
    Totals,
    add_up,
)
from fairmix.tables._base import OneBatch, Result
from fairmix.tables.journal import Journal
from fairmix.tables.store import MemoryStore, Store

# Encoded rows are kept between passes up to this many bytes; where they take more, none of them if
# they take more than so many times the bytes of the rows, as the products of a full covariance can.
# With 64 MB, a fit of ten million rows and eight columns takes about 150 MB beyond its data; with
# 512 MB it took 846 (decision record 0013).
KEPT_RATIO = 4
KEPT_BYTES = 2**26
# Responsibilities of the last pass are kept up to this size: the gradient of a criterion follows
# the pass that found its value, at the same logits.
KEPT_RESPONSIBILITIES_BYTES = 2**26
# Features beyond this stay in double precision. Single precision ends at 1e38, and passes multiply
# features by weights and responsibilities and add up rows.
LARGEST_SINGLE = 1e15
# Fewer rows stay in double precision: they take little time, and rounding would let paths part that
# differ in nothing but the names of groups.
SINGLE_ROWS = 8192


class Remembered:
    """What a blind map knows of the groups, kept for some of the blocks that are made anew.

    It takes half of the time of a block, and a twentieth of its memory.

    Parameters
    ----------
    propensity : callable
        P(group | x) of rows, (M, n).
    numbers : range
        Blocks for which it is kept.
    """

    def __init__(self, propensity: Callable[[Rows], FloatArray], numbers: range) -> None:
        self._propensity = propensity
        self._numbers = numbers
        self._kept: dict[int, FloatArray] = {}

    def __call__(self, chunk: Chunk) -> FloatArray:
        """That of the rows of a chunk."""
        kept = self._kept.get(chunk.number)
        if kept is not None:
            return np.vstack([kept, 1 - kept]) if len(kept) == 1 else kept
        rho = self._propensity(chunk.rows)
        if chunk.number in self._numbers:
            # Of two groups the first tells the second, to the last bit.
            told = len(rho) == 2 and np.array_equal(rho[1], 1 - rho[0])
            self._kept[chunk.number] = rho[:1].copy() if told else rho
        return rho


@dataclass(frozen=True)
class Encoder:
    """Turns a chunk into the block that kernels work on."""

    encode: Callable[[Rows], Features]
    n_groups: int
    propensity: Callable[[Rows], FloatArray] | None = None
    aware: bool = False
    aside: bool = False
    membership: Membership | None = None
    single: bool = False
    remembered: Remembered | None = None

    def _rho(self, chunk: Chunk) -> FloatArray | None:
        """What the map may know of the groups."""
        if self.propensity is None:
            return None
        if not self.aware:
            return (self.remembered or self._propensity_of)(chunk)
        if self.membership is not None:
            return self._rho_of_cells(chunk, self.propensity, self.membership)
        # An aware map needs the propensity only for rows aside; the others have their own group.
        known = chunk.groups < self.n_groups
        rho = np.zeros((self.n_groups, len(known)))
        rho[chunk.groups[known], np.flatnonzero(known)] = 1
        if not known.all():
            rho[:, ~known] = self.propensity(chunk.rows.take(np.flatnonzero(~known)))
        return rho

    def _propensity_of(self, chunk: Chunk) -> FloatArray:
        assert self.propensity is not None
        return self.propensity(chunk.rows)

    @staticmethod
    def _rho_of_cells(
        chunk: Chunk, propensity: Callable[[Rows], FloatArray], membership: Membership
    ) -> FloatArray:
        """The same for several attributes, in each of which a row may stand aside."""
        rho: FloatArray = membership.matrix[:, chunk.groups]
        for part in membership.parts:
            aside = np.flatnonzero(rho[part].sum(axis=0) == 0)
            if len(aside):
                rho[part, aside] = propensity(chunk.rows.take(aside))[part]
        return rho

    def __call__(self, chunk: Chunk) -> Block:
        """T(x), groups and weights of the rows."""
        numeric = chunk.rows.numeric
        dtype = np.dtype(np.float64 if numeric is None else numeric.dtype)
        features = self.encode(chunk.rows)
        if self.single and _fits_single(features.dense):
            dtype = np.dtype(np.float32)
        return Block(
            features=features,
            groups=chunk.groups,
            n_groups=self.n_groups,
            dtype=dtype,
            # In the precision of the rows, or every product with them would be in double precision.
            weight=None if chunk.weight is None else chunk.weight.astype(dtype),
            propensity=self._rho(chunk),
            number=chunk.number,
            aside=self.aside,
            ties=chunk.ties,
            membership=self.membership,
        )


def _fits_single(dense: FloatArray | None) -> bool:
    """Whether features, and their products with weights and each other, stay finite."""
    if dense is None:
        return True
    return bool(max(dense.max(initial=0.0), -dense.min(initial=0.0)) < LARGEST_SINGLE)


class Table(OneBatch):
    """Encoded rows that solvers reach through passes.

    Parameters
    ----------
    store : Store
        The rows.
    encode : callable
        Family's ``encode``.
    propensity : callable or None
        Probability of each group given the row, (M, n): what a blind map may know.
    aware : bool
        Whether the map sees the groups, and the propensity is for rows aside only.
    membership : Membership or None
        The groups that are compared, where the codes of the store are cells of several attributes.
    keep : bool
        Keep the encoded rows between passes, unless they are large. False for a single sweep.
    journal : Journal or None
        Remembers passes, so that a fit can go on in another process.
    whole : Table or None
        The table that this is a sample of, which counts the passes.
    single : bool
        Whether passes may be in single precision whatever that of the rows, about twice as fast.
    """

    def __init__(
        self,
        store: Store,
        encode: Callable[[Rows], Features],
        *,
        propensity: Callable[[Rows], FloatArray] | None = None,
        aware: bool = False,
        membership: Membership | None = None,
        keep: bool = True,
        journal: Journal | None = None,
        whole: Table | None = None,
        single: bool = False,
    ) -> None:
        self.store = store
        self.journal = journal
        n_groups = store.n_groups if membership is None else membership.n_groups
        self.encoder = Encoder(encode, n_groups, propensity, aware, store.aside, membership, single)
        kept, known = self._room() if keep else (0, 0)
        if known > kept:
            assert propensity is not None
            remembered = Remembered(propensity, range(kept, known))
            self.encoder = replace(self.encoder, remembered=remembered)
        self.blocks = store.blocks.map(self.encoder, keep=kept)
        self._last: tuple[Sweep, list[Forward]] | None = None
        self._whole = self if whole is None else whole
        self._visited = 0

    def _room(self) -> tuple[int, int]:
        """How many blocks are kept, and up to which one what a blind map knows of the groups."""
        blocks = self.store.blocks
        n_blocks = blocks.n_blocks
        if not blocks.kept_here:
            return n_blocks, 0
        if isinstance(self.store, MemoryStore):
            # A few rows tell what each of them takes.
            few = self.store.rows.take(slice(0, 8))
            weight = None if self.store.weight is None else self.store.weight[:8]
            first = self.encoder(Chunk(0, few, self.store.groups[:8], weight))
            features = sum(part.nbytes for part in first.features if part is not None)
            large = features > KEPT_RATIO * few.nbytes
        else:
            # Its rows are in no memory that it could be compared with.
            (first,) = blocks.each(self.encoder, [0])
            large = False
        each = first.nbytes / first.n_rows * self.n_rows / n_blocks
        if each * n_blocks <= KEPT_BYTES:
            return n_blocks, 0
        rho = first.propensity
        if rho is None or self.encoder.aware:
            return 0 if large else int(KEPT_BYTES / each), 0
        # One of two groups is enough (`Remembered`).
        own = rho.nbytes / (2 if len(rho) == 2 else 1) / first.n_rows * self.n_rows / n_blocks
        known = min(n_blocks, int(KEPT_BYTES / own))
        return 0 if large else int((KEPT_BYTES - known * own) / (each - own)), known

    @property
    def n_rows(self) -> int:
        """N."""
        return self.store.n_rows

    @property
    def n_groups(self) -> int:
        """M."""
        return self.encoder.n_groups

    @property
    def membership(self) -> Membership | None:
        """The groups of several attributes."""
        return self.encoder.membership

    def by_group(self, by_code: FloatArray | IntArray) -> FloatArray:
        """From sums over the rows of each code of the store to those of each group, (M,)."""
        if self.membership is None:
            return np.asarray(by_code[: self.n_groups], dtype=np.float64)
        return np.asarray(self.membership.matrix @ by_code)

    @cached_property
    def group_sizes(self) -> FloatArray:
        """Weight of each group that is compared, (M,); each iteration asks for it several times."""
        return self.by_group(self.store.group_sizes)

    @property
    def weight_sum(self) -> float:
        """Weight of all rows."""
        return self.store.weight_sum

    @property
    def rate_steps(self) -> FloatArray:
        """By how much one row can move the rate of its group, (M,)."""
        if self.membership is None:
            return self.store.rate_steps
        heaviest = self.membership.matrix * self.store.summary.largest_weights
        return np.asarray(heaviest.max(axis=1) / self.group_sizes)

    @property
    def passes(self) -> float:
        """Passes over the whole table so far, those over parts and samples by their share."""
        return self._whole._visited / self._whole.n_rows

    def _count(self, blocks: Sequence[int] | None) -> None:
        if blocks is None:
            # Without the summary of the rows, which a prediction does not need.
            self._whole._visited += self.n_rows
        else:
            self._whole._visited += int(self.store.summary.block_counts[list(blocks)].sum())

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return self.blocks.n_blocks

    def softmax_pass(self, sweep: Sweep, blocks: Sequence[int] | None = None) -> Totals:
        """Totals of all rows, or of the blocks with these increasing numbers."""
        # Also where the journal answers: a resumed fit counts as many passes as an unbroken one.
        self._count(blocks)
        if self.journal is None:
            return self._pass(sweep, blocks)
        return self.journal.answer(sweep, blocks, lambda: self._pass(sweep, blocks))

    def _pass(self, sweep: Sweep, blocks: Sequence[int] | None) -> Totals:
        if blocks is not None or not self._may_remember(sweep.logits):
            return add_up(self.blocks.each(sweep, blocks))
        # A solver asks for a gradient right after the value, so only the last pass is remembered.
        if self._last is not None and sweep.same_responsibilities(self._last[0]):
            known = self._last[1]
            return add_up(self.blocks.each(lambda block: sweep.back(block, known[block.number])))
        kept, totals = zip(*self.blocks.each(sweep.both), strict=True)
        self._last = (sweep, list(kept))
        return add_up(totals)

    def _may_remember(self, logits: Logits) -> bool:
        size = logits.b.size * self.n_rows * np.dtype(np.float64).itemsize
        # Elsewhere they would have to travel with every pass.
        return self.blocks.local and size <= KEPT_RESPONSIBILITIES_BYTES

    def each(
        self, work: Callable[[Block], Result], blocks: Sequence[int] | None = None
    ) -> Iterator[Result]:
        """What ``work`` makes of every block, in the order of the rows."""
        self._count(blocks)
        yield from self.blocks.each(work, blocks)

    def sample(
        self,
        n_rows: int,
        rng: np.random.Generator,
        *,
        replace: bool = False,
        single: bool = False,
    ) -> Table:
        """A table of rows in memory, drawn at random within each group.

        ``single``: for passes in single precision, unless there are few.
        """
        drawn = self.store.sample(n_rows, rng, replace=replace)
        numeric = drawn.rows.numeric
        is_single = numeric is not None and numeric.dtype == np.float32
        single = single and not is_single and drawn.n_rows >= SINGLE_ROWS
        # All rows: what is encoded and remembered serves on.
        if drawn is self.store and not single:
            return self
        return Table(
            drawn,
            self.encoder.encode,
            propensity=self.encoder.propensity,
            aware=self.encoder.aware,
            membership=self.membership,
            # Without the journal: a new process repeats passes over samples (decision record 0008).
            whole=self._whole,
            single=single,
        )
