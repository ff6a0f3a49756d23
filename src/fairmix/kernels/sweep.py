"""The question of a softmax pass: all that decides what a block answers, in one frozen value."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fairmix.kernels.logits import LogitMap
from fairmix.kernels.softmax import Forward, backward, forward
from fairmix.kernels.totals import Block, FloatArray, Logits, Totals


@dataclass(frozen=True, eq=False)
class Sweep:
    """One softmax pass; ``fairmix.kernels.softmax`` defines what it sums.

    Solvers make one, tables pass it on, and kernels answer it block by block.

    Attributes
    ----------
    logits : Logits
        b and W of the components.
    offsets : (M, K) array or None
        v, the tilt of each group and cluster; None: no tilt.
    alpha : float
        Weight of the responsibilities in the sums: 1 in an E-step, 0 where no sums are needed.
    pull : (M, K) array or None
        V, the derivative of a criterion in the masses, whose gradient is added to the sums. The
        masses themselves are then left out (NaN).
    temperature : float
        tau.
    likelihood : bool
        Whether the log-likelihood is needed: with a tilt or a temperature it costs a second look
        at each row. False: NaN.
    hard : bool
        Whether the masses of the hard labels are needed.
    contrasts : (R, M) array or None
        Contrasts of groups along which the curvature of the dual is needed.
    within_groups : bool
        Whether that of each group by itself is needed instead.
    rough : bool
        Whether responsibilities may be rounded to single precision, several times as fast.
    """

    logits: Logits
    offsets: FloatArray | None = None
    alpha: float = 1.0
    pull: FloatArray | None = None
    temperature: float = 1.0
    likelihood: bool = True
    hard: bool = False
    contrasts: FloatArray | None = None
    within_groups: bool = False
    rough: bool = False

    @cached_property
    def logit_map(self) -> LogitMap:
        """The map of rows to logits; one for all blocks, so that its weights are made once."""
        return LogitMap(self.logits, self.offsets, self.temperature)

    @property
    def is_e_step(self) -> bool:
        """Whether the sums are those that an M-step needs: the responsibilities and no more."""
        return self.alpha == 1.0 and self.pull is None

    @property
    def title(self) -> str:
        """What a person calls the pass."""
        if self.is_e_step:
            return "e-step"
        return "rates" if self.pull is None else "gradient"

    def __call__(self, block: Block) -> Totals:
        """Totals of the block."""
        return self.both(block)[1]

    def both(self, block: Block) -> tuple[Forward, Totals]:
        """Responsibilities and totals of the block.

        A table may keep the first for the gradient that follows a value.
        """
        ahead = self.ahead(block)
        return ahead, self.back(block, ahead)

    def ahead(self, block: Block) -> Forward:
        """Responsibilities of the block."""
        return forward(
            block,
            self.logit_map,
            likelihood=self.likelihood,
            hard=self.hard,
            contrasts=self.contrasts,
            within_groups=self.within_groups,
            rough=self.rough,
            masses=self.pull is None,
        )

    def back(self, block: Block, ahead: Forward) -> Totals:
        """Totals of the block, given its responsibilities."""
        b, W = self.logits.b, self.logits.W
        if not self.alpha and self.pull is None:
            sums = Logits(np.zeros_like(b), np.zeros_like(W))
        else:
            how = (self.alpha, self.pull, self.temperature, ahead.linear)
            sums = backward(block, ahead.psi, W.shape[1], *how)
        # Kept from a pass without pull or not, the answer is the same.
        return ahead.totals(sums, masses=self.pull is None)

    def same_responsibilities(self, other: Sweep) -> bool:
        """Whether what ``ahead`` gave for the other serves this one, too.

        Arrays are the same when they are one object: a solver that asks for a gradient after a
        value passes the logits on, and comparing all numbers would cost more than it tells.
        """
        if self.pull is None and other.pull is not None:
            return False  # which has no masses
        return (
            self.logits is other.logits
            and self.offsets is other.offsets
            and self.contrasts is other.contrasts
            and self._flags == other._flags
        )

    @property
    def _flags(self) -> tuple[float, bool, bool, bool, bool]:
        # A new flag belongs here, or tables and journals would take one question for another.
        return self.temperature, self.likelihood, self.hard, self.within_groups, self.rough

    @property
    def digest(self) -> int:
        """Checksum of all that decides the answer, by which a journal knows a pass again."""
        check = 0
        for array in (*self._arrays(), np.array([self.alpha, *self._flags], dtype=np.float64)):
            # The shape, too: an (M, K) array has the bytes of a (K, M) one.
            known = b"-" if array is None else repr(array.shape).encode() + array.tobytes()
            check = zlib.crc32(known, check)
        return check

    def _arrays(self) -> Iterator[FloatArray | None]:
        yield from (self.logits.b, self.logits.W, self.offsets, self.pull, self.contrasts)
