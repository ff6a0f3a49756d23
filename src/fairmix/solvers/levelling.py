"""How a tilt follows components that move.

A tilt makes up for what the groups tell of the logits: where ``rho`` says much of x, the logits of
two clusters differ between groups, and the tilt takes most of that difference back. When
components move, so does what has to be taken back. A tilt that waits for the next Newton step is
off by much, and one that follows is nearly right at once.

What the groups tell of the logits is taken to be linear in rho. Logits are linear in the features,
so one regression of the features on rho serves all components.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from weakref import WeakKeyDictionary

import numpy as np
from scipy.sparse import csr_array

from fairmix.kernels.products import sums
from fairmix.kernels.totals import Block, FloatArray, Logits
from fairmix.solvers.tilt import Tilt
from fairmix.tables import Rowlike

# Directions of rho with less than this share of the largest moment count as none: rho adds up to
# one, so there is always one of them.
NO_DIRECTION = 1e-9
# Of tables that are in use, as a tilt keeps what is known of them.
_TOLD: WeakKeyDictionary[Rowlike, FloatArray] = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class Levelling:
    """What the groups tell of the features: their regression on rho, (M, D)."""

    told: FloatArray
    # Of the logits that were asked for last: a tilt follows from them to the next ones.
    _last: dict[str, tuple[Logits, FloatArray]] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, tilt: Tilt, n_features: int) -> Levelling:
        """By a sweep over the rows of a tilt, once for all climbs of them."""
        if tilt.table not in _TOLD:
            _TOLD[tilt.table] = cls._told(tilt, n_features)
        return cls(_TOLD[tilt.table])

    @staticmethod
    def _told(tilt: Tilt, n_features: int) -> FloatArray:
        n_groups = len(tilt.multipliers)
        second, mixed = np.zeros((n_groups, n_groups)), np.zeros((n_groups, n_features))
        for own, features in tilt.table.each(partial(_moments, n_features=n_features)):
            second += own
            mixed += features
        return np.asarray(np.linalg.lstsq(second, mixed, rcond=NO_DIRECTION)[0])

    def level(self, tilt: Tilt, logits: Logits) -> Tilt:
        """The tilt that takes back all that the groups tell of the logits."""
        return tilt.at(-self._taken(tilt, logits) * tilt.share[:, None])

    def follow(self, tilt: Tilt, old: Logits, new: Logits) -> Tilt:
        """The tilt after components have moved, in the proportion in which it levelled the old."""
        whole = self._taken(tilt, old)
        own = _contrasted(tilt, _apart(tilt.offsets.T).T)
        size = float(np.vdot(whole, whole))
        if size == 0:
            return tilt
        share = min(max(float(np.vdot(own, whole)) / size, 0.0), 1.0)
        return tilt.moved(share * (self._taken(tilt, new) - whole))

    def _taken(self, tilt: Tilt, logits: Logits) -> FloatArray:
        """Offsets that level the logits, (M, K)."""
        found = self._last.get("taken")
        if found is None or found[0] is not logits:
            # What all clusters share moves no row.
            taken = _contrasted(tilt, -self.told @ _apart(logits.W).T)
            found = self._last["taken"] = (logits, taken)
        return found[1]


def _apart(values: FloatArray) -> FloatArray:
    """Values (K, n) less their mean over the clusters."""
    return np.asarray(values - values.sum(axis=0) / len(values))


def _contrasted(tilt: Tilt, offsets: FloatArray) -> FloatArray:
    """Offsets whose multipliers add up to zero over the groups of each attribute."""
    known = tilt.knowledge.membership
    if known is None:
        return np.asarray(offsets - tilt.share @ offsets / tilt.share.sum())
    out = offsets.copy()
    for part in known.parts:
        share = tilt.share[part]
        out[part] -= share @ out[part] / share.sum()
    return out


def _moments(block: Block, n_features: int) -> tuple[FloatArray, FloatArray]:
    """Sums of rho rho^T and of rho T(x)^T over a block."""
    rho = block.along(np.eye(block.n_groups)).astype(np.float64)
    weighted = rho if block.weight is None else rho * block.weight
    dense, codes = block.features
    features = np.zeros((len(rho), n_features))
    n_dense = 0 if dense is None else dense.shape[1]
    if dense is not None:
        features[:, :n_dense] = sums(weighted, dense.T)
    if codes is not None:
        n_rows, n_columns = codes.shape
        ends = np.arange(0, codes.size + 1, n_columns)
        parts = (np.ones(codes.size), codes.ravel(), ends)
        shown = csr_array(parts, shape=(n_rows, n_features - n_dense))
        features[:, n_dense:] = np.asarray(shown.T @ weighted.T).T
    return weighted @ rho.T, features
