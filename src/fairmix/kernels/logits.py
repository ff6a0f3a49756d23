"""Logits of a block: all that is linear in a row is one product with the block's ``design``."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from fairmix.kernels import products
from fairmix.kernels.totals import Block, FloatArray, IntArray, Logits

ALL = slice(None)
# Logits go into exp less those of one cluster, the base, and less this. What is far below the base
# may underflow, for it is nothing beside it; so others may exceed it by all the more. Single
# precision still holds exp(-60), and what underflows is below 2e-12 of it.
LOWERED = 60.0


class Weights(NamedTuple):
    """What multiplies the ``design`` of a block, and the table that its codes look up."""

    dense: FloatArray
    table: FloatArray | None


@dataclass(frozen=True, eq=False)
class LogitMap:
    """The map ``(b + <W, T(x)> + sum_g rho_g v[g]) / tau`` of rows to logits.

    Its weights are made once for all blocks of a kind.
    """

    logits: Logits
    offsets: FloatArray | None = None
    temperature: float = 1.0
    _made: dict[Any, Weights] = field(default_factory=dict, repr=False)

    @property
    def plain(self) -> bool:
        """Whether there is neither offset nor temperature."""
        return self.offsets is None and self.temperature == 1.0

    @cached_property
    def untilted(self) -> LogitMap:
        """The map without offsets and temperature."""
        return self if self.plain else LogitMap(self.logits)

    @cached_property
    def base(self) -> int:
        """The cluster whose logit changes least from row to row, as the broadest one does."""
        return int(np.einsum("kp,kp->k", self.logits.W, self.logits.W).argmin())

    @cached_property
    def ranks(self) -> IntArray:
        """Each cluster's place in an order that does not change with their numbers, (K,)."""
        return np.argsort(np.lexsort(self.logits.W.T[::-1]))

    def weights(self, block: Block, *, apart: bool = False, exact: bool = False) -> Weights:
        """Weights for blocks like this; ``apart``: less those of the base, which keeps its own.

        ``exact``: in double precision, whatever that of the block.
        """
        dense = block.features.dense
        n_dense = 0 if dense is None else dense.shape[1]
        dtype = np.dtype(np.float64) if exact else block.dtype
        # What may differ between the blocks of a table: runs of complete rows have fewer dense
        # features. Threads may make the same weights twice; they are equal, so no lock is needed.
        kind = (n_dense, dtype, block.propensity is not None, block.aside, apart)
        if kind not in self._made:
            made = [self._dense(block, n_dense) / self.temperature]
            if block.features.codes is not None:
                made.append(self.logits.W[:, n_dense:] / self.temperature)
            if apart:
                made = [self._apart(weights) for weights in made]
                # The first column of a design is one, so the product itself lowers the logits.
                own = made[0][self.base, 0]
                made[0][:, 0] -= LOWERED
                made[0][self.base, 0] = own
            # Rounded last: weights may be large where their differences are small.
            first, *rest = (weights.astype(dtype, copy=False) for weights in made)
            self._made[kind] = Weights(first, rest[0] if rest else None)
        return self._made[kind]

    def _dense(self, block: Block, n_dense: int) -> FloatArray:
        """Weights of the columns of a design: one, dense features, groups."""
        K, shift = len(self.logits.b), 0 if self.offsets is None else len(self.offsets)
        if self.offsets is not None and block.propensity is not None:
            # Offsets act on rho, not on the indicators of the real groups, which stand before it.
            shift += block.n_indicators
        out = np.zeros((K, 1 + n_dense + shift))
        out[:, 0] = self.logits.b
        out[:, 1 : 1 + n_dense] = self.logits.W[:, :n_dense]
        if self.offsets is not None:
            out[:, -len(self.offsets) :] = self.offsets.T
        return out

    def _apart(self, weights: FloatArray) -> FloatArray:
        out: FloatArray = weights - weights[self.base]
        out[self.base] = weights[self.base]
        return out


def product(block: Block, weights: Weights, rows: slice | IntArray = ALL) -> FloatArray:
    """Weights times T(x) of some rows of the block, (K, n)."""
    # Columns after the last weight are left out: an untilted map has no weights for groups.
    columns = block.design[:, : weights.dense.shape[1]].T
    out = products.product(weights.dense, columns if rows is ALL else columns[:, rows])
    if weights.table is not None:
        assert block.features.codes is not None
        for column in block.features.codes[rows].T:
            out += weights.table[:, column]
    return out


def tilted(block: Block, logit_map: LogitMap, rows: slice | IntArray = ALL) -> FloatArray:
    """Logits of some rows of the block, (K, n)."""
    return product(block, logit_map.weights(block), rows)


def lowered_logits(block: Block, logit_map: LogitMap) -> tuple[FloatArray, FloatArray]:
    """Logits (K, n), and what was taken from all logits of each row, (n,)."""
    out = product(block, logit_map.weights(block, apart=True))
    taken = out[logit_map.base] + out.dtype.type(LOWERED)
    out[logit_map.base] = -LOWERED
    if logit_map.temperature < 1.0:
        # Cold logits are so far apart that most sums of exp would be too large.
        top = out.max(axis=0)
        out -= top
        taken += top
    return out, taken
