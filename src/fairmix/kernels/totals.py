"""What flows between the rooms: rows, features, logits, and the totals of a pass.

Symbols used here and in the kernels (shapes once and for all):

====== =============== ==========================================================
symbol shape           meaning
====== =============== ==========================================================
N      int             rows of a table; n rows of one block
K      int             components (clusters)
M      int             sensitive groups (1 when there are none)
P      int             features T(x): the dense ones, then the category columns
b      (K,)            bias of each component
W      (K, P)          weights of each component
====== =============== ==========================================================
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from functools import cached_property, reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.floating[Any]]
IntArray = NDArray[np.integer[Any]]

# Up to this many groups everything is worked out in full. With more, what would grow faster than
# their number is done in another way, or less often (decision record 0017).
FEW_GROUPS = 3


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Rows as the user gave them, split by kind.

    ``numeric`` is (n, d) float, ``codes`` is (n, J) integer category codes; at most one is None.
    What is missing is NaN, and the code -1.
    """

    numeric: FloatArray | None
    codes: IntArray | None

    def take(self, where: slice | IntArray) -> Rows:
        """Rows at the given positions."""
        return Rows(
            None if self.numeric is None else self.numeric[where],
            None if self.codes is None else self.codes[where],
        )

    @property
    def nbytes(self) -> int:
        """Memory that the columns take."""
        return sum(part.nbytes for part in (self.numeric, self.codes) if part is not None)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        part = self.codes if self.numeric is None else self.numeric
        assert part is not None
        return len(part)


@dataclass(frozen=True, slots=True, eq=False)
class Chunk:
    """A run of rows before they are encoded, with what is known of each.

    ``number`` counts the runs of a table from 0; ``groups`` (n,) are codes; ``weight`` (n,) or
    None means one for every row; ``ties`` are those of `Block`.
    """

    number: int
    rows: Rows
    groups: IntArray
    weight: FloatArray | None = None
    ties: IntArray | None = None

    @property
    def digest(self) -> int:
        """Checksum of all values."""
        check = 0
        # How wide the codes are depends on the back end, and equal rows must give equal checksums.
        groups = self.groups.astype(np.int64, copy=False)
        for part in (self.rows.numeric, self.rows.codes, groups, self.weight):
            if part is not None:
                check = zlib.crc32(np.ascontiguousarray(part).data, check)
        return check

    def take(self, where: IntArray) -> Chunk:
        """Rows at the given positions."""
        weight = None if self.weight is None else self.weight[where]
        ties = None if self.ties is None else self.ties[where]
        return Chunk(self.number, self.rows.take(where), self.groups[where], weight, ties)


class Features(NamedTuple):
    """T(x) of some rows.

    ``dense`` is (n, D). ``codes`` is (n, J): column ``D + codes[i, j]`` of T(x) is one for each j
    and every other column is zero, so a product with W is a table look-up. D may differ from block
    to block of a table: columns that are zero in a whole block need not be stored.
    """

    dense: FloatArray | None
    codes: IntArray | None


def even(width: int) -> int:
    """The next width that BLAS multiplies without a remainder: up to twice as fast."""
    return -(-width // 4) * 4


def pairs(n: int) -> list[tuple[int, int]]:
    """Pairs of numbers below n, in whatever order, and of each with itself."""
    return list(itertools.combinations_with_replacement(range(n), 2))


@dataclass(frozen=True, eq=False)
class Membership:
    """Which groups the rows of a cell belong to, where they belong to one of each attribute.

    A cell is a combination of groups, one of each attribute, or of standing aside in it. Stores
    number rows by their cell, in the order of NumPy's ``ravel_multi_index``; tables compare groups.

    Attributes
    ----------
    counts : tuple of int
        Groups of each attribute that are compared.
    titles : tuple of str
        Names of the attributes.
    """

    counts: tuple[int, ...]
    titles: tuple[str, ...]

    @property
    def n_groups(self) -> int:
        """Groups of all attributes."""
        return sum(self.counts)

    @property
    def shape(self) -> tuple[int, ...]:
        """Codes of each attribute: its groups, and standing aside."""
        return tuple(count + 1 for count in self.counts)

    @property
    def n_cells(self) -> int:
        """Combinations."""
        return int(np.prod(self.shape))

    @property
    def parts(self) -> list[slice]:
        """Where the groups of each attribute are among all."""
        ends = np.cumsum([0, *self.counts]).tolist()
        return [slice(*pair) for pair in itertools.pairwise(ends)]

    @cached_property
    def matrix(self) -> FloatArray:
        """One where the rows of a cell belong to a group, (M, cells)."""
        codes = np.unravel_index(np.arange(self.n_cells), self.shape)
        return np.vstack(
            [
                (own == np.arange(count)[:, None]).astype(np.float64)
                for own, count in zip(codes, self.counts, strict=True)
            ]
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # Made anew where it arrives: the matrix follows from the counts.
        return Membership, (self.counts, self.titles)


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """A run of rows that one kernel call handles.

    Attributes
    ----------
    features : Features
        T(x) of the rows.
    groups : (n,) int array
        The group of each row; M for a row that stands aside. With a membership, its cell.
    n_groups : int
        M, groups that are compared; the same for every block of a table.
    dtype : dtype
        Precision of the pass.
    weight : (n,) array or None
        Row weights; None means one for every row.
    propensity : (M, n) array or None
        rho, what a map may know of the group: the probability of each given x when it is blind,
        and for rows aside also when it is aware. None: the indicator of the group.
    number : int
        Counts the blocks of a table from 0.
    aside : bool
        Whether rows of the table may stand aside: they belong to no group that is compared.
    ties : (n,) array or None
        A number of its own for each row that is equal to others, by which they share labels out;
        -1 for a row alone. None: equal rows have equal labels.
    membership : Membership or None
        The groups of each cell, where a row belongs to several.
    design : (n, 1 + D + M + ...) array
        Side by side a one, the dense features, the indicator of each group (and of standing aside),
        the propensity if there is one, and zeros up to a width that suits products: one product
        with it gives all that is linear. ``features.dense`` is a view.
    """

    features: Features
    groups: IntArray
    n_groups: int
    dtype: np.dtype[Any]
    weight: FloatArray | None = None
    propensity: FloatArray | None = None
    number: int = 0
    aside: bool = False
    ties: IntArray | None = None
    membership: Membership | None = None
    design: FloatArray = field(init=False)
    # What passes over the same rows need again and again, by what it is of.
    _kept: dict[str, tuple[Any, NDArray[Any]]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        dense, codes = self.features
        n_dense = 0 if dense is None else dense.shape[1]
        n_rho = 0 if self.propensity is None else self.n_groups
        width = n_dense + self.n_indicators + n_rho
        # The ones stand before the even width: sums over rows leave them out, because the
        # indicators of a row add up to one (decision record 0013).
        # Column by column in memory: products take either order, and columns are made in one go.
        design = np.empty((1 + even(width), self.n_rows), dtype=self.dtype).T
        design[:, 0] = 1
        design[:, 1 + n_dense :] = 0
        if dense is not None:
            design[:, 1 : 1 + n_dense] = dense
        indicators = design[:, 1 + n_dense :]
        if self.membership is None and self.n_indicators <= FEW_GROUPS:
            # Comparisons, which are faster than indices of few columns.
            for code in range(self.n_indicators):
                indicators[:, code] = self.groups == code
        elif self.membership is None:
            indicators[np.arange(self.n_rows), self.groups] = 1
        else:
            indicators[:, : self.n_groups] = self.membership.matrix.T[self.groups]
            # A column of which each row has exactly one: see `once`.
            indicators[:, self.n_groups] = 1
        if self.propensity is not None:
            design[:, 1 + width - n_rho : 1 + width] = self.propensity.T
        # A view, so that the dense features are stored once.
        kept = None if dense is None else design[:, 1 : 1 + n_dense]
        object.__setattr__(self, "features", Features(kept, codes))
        object.__setattr__(self, "design", design)
        object.__setattr__(self, "_kept", {})

    def __reduce__(self) -> tuple[Any, ...]:
        # Made anew where it arrives: its features are a view, which would travel as a second copy.
        made_of = (f.name for f in fields(self) if f.init)
        return Block, tuple(getattr(self, name) for name in made_of)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.groups)

    @property
    def n_indicators(self) -> int:
        """Columns of the design that tell the groups of a row."""
        return self.n_groups + (self.aside or self.membership is not None)

    @property
    def members(self) -> FloatArray:
        """One where a row belongs to a group that is compared, (n, M); a view."""
        n_dense = 0 if self.features.dense is None else self.features.dense.shape[1]
        return self.design[:, 1 + n_dense : 1 + n_dense + self.n_groups]

    @property
    def once(self) -> slice:
        """Those among them of which each row has exactly one."""
        return slice(0 if self.membership is None else self.n_groups, self.n_indicators)

    def along(self, contrasts: FloatArray) -> FloatArray:
        """``contrasts @ rho``, contrasts (R, M), of each row, (R, n)."""
        if self.propensity is not None:
            return contrasts @ self.propensity
        if self.membership is not None:
            contrasts = contrasts @ self.membership.matrix
        elif self.aside:
            # Rows aside, which have the last code, belong to none of the groups.
            contrasts = np.pad(contrasts, ((0, 0), (0, 1)))
        return contrasts[:, self.groups]

    def rooted(self, contrasts: FloatArray, dtype: np.dtype[Any]) -> FloatArray:
        """The same times the root of the row weights, kept until other contrasts come, (R, n)."""
        key = (contrasts.shape, contrasts.tobytes(), dtype)
        found = self._kept.get("rooted")
        if found is None or found[0] != key:
            out = self.along(contrasts).astype(dtype)
            if self.weight is not None:
                out *= np.sqrt(self.weight).astype(dtype)
            found = self._kept["rooted"] = (key, out)
        return found[1]

    def paired(self, contrasts: FloatArray, dtype: np.dtype[Any]) -> FloatArray:
        """Weighted products of two of these, of each of `pairs`, likewise kept, (P, n)."""
        key = (contrasts.shape, contrasts.tobytes(), dtype)
        found = self._kept.get("paired")
        if found is None or found[0] != key:
            along = self.along(contrasts)
            out = np.stack([along[r] * along[s] for r, s in pairs(len(along))])
            if self.weight is not None:
                out *= self.weight
            found = self._kept["paired"] = (key, out.astype(dtype))
        return found[1]

    @property
    def by_group(self) -> IntArray:
        """Rows in the order of their groups, (n,)."""
        found = self._kept.get("by_group")
        if found is None:
            # Stable, because other sorts may order equal codes differently on another processor,
            # and the order decides the last bits of sums.
            order = np.argsort(self.groups, kind="stable")
            found = self._kept["by_group"] = (None, order)
        return found[1]

    def sums_by_group(self, by_code: FloatArray) -> FloatArray:
        """From sums over the rows of each code, (codes, ...), to those of each group, (M, ...)."""
        if self.membership is not None:
            return np.asarray(self.membership.matrix @ by_code)
        return by_code[: self.n_groups]

    @property
    def nbytes(self) -> int:
        """Memory that it takes beyond the rows that it was made of."""
        parts = (self.design, self.features.codes, self.propensity, self.weight, self.ties)
        return sum(part.nbytes for part in parts if part is not None)


@dataclass(frozen=True, slots=True, eq=False)
class Logits:
    """An affine map of T(x), or a gradient with respect to one: b (K,) and W (K, P)."""

    b: FloatArray
    W: FloatArray

    def __add__(self, other: Logits) -> Logits:
        return Logits(self.b + other.b, self.W + other.W)

    def __sub__(self, other: Logits) -> Logits:
        return Logits(self.b - other.b, self.W - other.W)

    def __mul__(self, factor: float) -> Logits:
        return Logits(self.b * factor, self.W * factor)

    def dot(self, other: Logits) -> float:
        """Sum of the products of all entries."""
        return float(self.b @ other.b + np.vdot(self.W, other.W))


@dataclass(frozen=True, slots=True, eq=False)
class Totals:
    """Sums over rows that a pass returns. They form a group under ``+`` and ``-``.

    Attributes
    ----------
    weight : float
        Sum of the row weights.
    log_likelihood : float
        Log-likelihood of the untilted mixture; NaN when the pass was told to leave it out.
    normaliser : float
        ``tau * sum_i logsumexp((l_i + sum_g rho_g(i) v_g) / tau)``, the value of the dual.
    mass : (M, K) array
        Real mass: responsibilities summed over the rows of each group.
    model_mass : (M, K) array
        Responsibilities summed with the weights rho; equal to ``mass`` without a propensity.
    sums : Logits
        ``sum_i q_ik`` and ``sum_i q_ik T(x_i)``.
    hard_mass : (M, K) array
        Rows of each group whose most probable cluster is k; empty unless asked for.
    curvature : (R, K, R, K) array
        ``sum_i a_i a_i^T (x) (diag psi_i - psi_i psi_i^T)`` with a = C rho for the R contrasts C
        that the pass was given; empty without them. (M, K, K) for an aware map of many groups: the
        sums over the rows of each, which no contrast mixes.
    """

    weight: float
    log_likelihood: float
    normaliser: float
    mass: FloatArray
    model_mass: FloatArray
    sums: Logits
    hard_mass: FloatArray
    curvature: FloatArray

    def __add__(self, other: Totals) -> Totals:
        return Totals(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    # Mini-batches take the old totals of a batch out of the sum (decision record 0009).
    def __sub__(self, other: Totals) -> Totals:
        return Totals(*(getattr(self, f.name) - getattr(other, f.name) for f in fields(self)))


def add_up(totals: Iterable[Totals]) -> Totals:
    """Sum in the given order, which is the order of the blocks: the same bits everywhere."""
    return reduce(lambda total, block: total + block, totals)
