"""How far the tilt of each cluster may move in a step.

Newton's method sees the rows between clusters. Next to a cluster that lies far from all others
there are none, and a step of any length that the rows between other clusters bear leaves its rates
as they are. There strides grow until a row moves, and shrink again once rows do.
"""

from __future__ import annotations

import numpy as np

from fairmix.kernels.totals import FloatArray
from fairmix.solvers.tilt import Tilt

# Strides double, so that nine of them lead five hundred times as far as the first.
GROWTH = 2.0
# Of a row: less is rounding, or what moves at the far end of a softmax.
STILL = 0.5
# Movements are products, so a step that was cut to the stride may be a little shorter.
CUT = 0.999


class Stride:
    """Strides of all clusters, in units of the usual one."""

    def __init__(self, n_clusters: int) -> None:
        self.factors = np.ones(n_clusters)
        self._cut = np.zeros(n_clusters, dtype=bool)
        self._rates: FloatArray | None = None

    @property
    def growing(self) -> bool:
        """Whether some cluster is still on its way to the first row."""
        return bool((self.factors > 1).any())

    def look(self, tilt: Tilt, rates: FloatArray) -> None:
        """Grow where the last step was cut and moved no row."""
        if self._rates is not None:
            rows = np.abs(rates - self._rates) / tilt.table.rate_steps[:, None]
            still = self._cut & (rows.max(axis=0) < STILL)
            shorter = np.maximum(self.factors / GROWTH, 1.0)
            self.factors = np.where(still, self.factors * GROWTH, shorter)
        self._rates = rates

    def taken(self, old: Tilt, new: Tilt, reach: float) -> None:
        """Remember which clusters moved as far as they might; ``reach`` in units of logits."""
        movement = old.movement(new.multipliers - old.multipliers, self.factors == 1)
        self._cut = movement >= CUT * reach * self.factors
