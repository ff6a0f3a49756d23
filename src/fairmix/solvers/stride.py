"""How far the tilt of each cluster may move in a step.

Newton's method sees the rows between clusters. Next to a cluster that lies far from all others
there are none, and a step of any length that the rows between other clusters bear leaves its rates
as they are. There strides grow until a row moves, and shrink again once rows do.
"""

from __future__ import annotations

import numpy as np

from fairmix.kernels.totals import FloatArray
from fairmix.solvers.tilt import Tilt

# Strides double, up to so many times the usual one while components are fixed. In a climb they do
# not grow: components would follow the one row that moves at last, and the tilt lose them.
GROWTH, LARGEST = 2.0, 64.0
# Of a row: less is rounding, or what moves at the far end of a softmax.
STILL = 0.5
# A stride that moves more than this share of a cluster and so many rows at once went too far: the
# step is taken back, and later ones are shorter by so much.
TOO_MANY, TOO_MANY_ROWS, SHORTER = 0.5, 2.0, 4.0
# Movements are products, so a step that was cut to the stride may be a little shorter.
CUT = 0.999


class Stride:
    """Strides of clusters that no row is near.

    Parameters
    ----------
    n_clusters : int
        All clusters.
    largest : float
        Of a stride.

    Attributes
    ----------
    factors : (K,) array
        Strides in units of the usual one; zero of clusters that move with the others.
    """

    def __init__(self, n_clusters: int, largest: float = LARGEST) -> None:
        self.factors: FloatArray = np.zeros(n_clusters)
        self.largest: FloatArray = np.full(n_clusters, largest)
        self._cut = np.zeros(n_clusters, dtype=bool)
        self._rates: FloatArray | None = None

    @property
    def growing(self) -> bool:
        """Whether some cluster is still on its way to the first row."""
        return bool((self.factors > 1).any())

    def look(self, tilt: Tilt, rates: FloatArray) -> bool:
        """Grow where the last step was cut and moved no row; True where one led too far."""
        before, self._rates = self._rates, rates
        if before is None:
            return False
        steps, moved = tilt.table.rate_steps[:, None], np.abs(rates - before)
        too_many = TOO_MANY * before.max(axis=0) + TOO_MANY_ROWS * steps
        too_far = (self.factors > 1) & (moved > too_many).any(axis=0)
        if too_far.any():
            shorter = np.maximum(self.factors / SHORTER, 1.0)
            self.largest = np.where(too_far, shorter, self.largest)
            self.factors = np.minimum(self.factors, self.largest)
            self._rates = None
            return True
        still = self._cut & ((moved / steps).max(axis=0) < STILL)
        longer = np.minimum(np.maximum(self.factors * GROWTH, 1.0), self.largest)
        shorter = np.where(self.factors > GROWTH, self.factors / GROWTH, 0.0)
        self.factors = np.where(still, longer, shorter)
        return False

    def taken(self, old: Tilt, new: Tilt, reach: float) -> None:
        """Remember which clusters moved as far as they might; ``reach`` in units of logits."""
        movement = old.movement(new.multipliers - old.multipliers, self.factors == 0)
        self._cut = movement >= CUT * reach * np.maximum(self.factors, 1.0)
