"""A criterion: half of the gap, so that every figure of it is known from another criterion."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairmix.criteria import CRITERIA, Ball, Face, OwnBound
from fairmix.kernels.totals import FloatArray

GAP = CRITERIA["gap"]


class HalfGap(Ball):
    """``gap / 2``: what is true of the gap at a bound is true here at half of that."""

    words = "half of the gap"

    def note(self, n_groups: int) -> str:
        return f"There are {n_groups} groups."

    def value(self, rates: FloatArray) -> float:
        return GAP.value(rates) / 2

    def gradient(self, rates: FloatArray) -> FloatArray:
        return GAP.gradient(rates) / 2

    def decisive(self, values: FloatArray) -> NDArray[np.bool_]:
        return GAP.decisive(values)

    def resolution(self, rates: FloatArray, sizes: FloatArray, steps: FloatArray) -> float:
        return GAP.resolution(rates, sizes, steps) / 2

    def project(self, rates: FloatArray, bound: float) -> FloatArray:
        return GAP.project(rates, 2 * bound)

    def project_slope(self, rates: FloatArray, projected: FloatArray) -> FloatArray:
        return GAP.project_slope(rates, projected)

    def face(self, rates: FloatArray, projected: FloatArray) -> Face:
        return GAP.face(rates, projected)

    def excess(self, rates: FloatArray, bound: float) -> FloatArray:
        return GAP.excess(rates, 2 * bound) / 2

    def support(self, multipliers: FloatArray) -> float:
        return 2 * GAP.support(multipliers)

    def absolute(self, n_groups: int) -> float | None:
        factor = GAP.absolute(n_groups)
        return None if factor is None else 2 * factor

    def shrink(self, rates: FloatArray, amount: float) -> FloatArray:
        return GAP.shrink(rates, amount / 2)

    def shrink_face(self, rates: FloatArray, shrunk: FloatArray) -> Face:
        return GAP.shrink_face(rates, shrunk)

    def largest(self, low: FloatArray, high: FloatArray) -> float:
        return GAP.largest(low, high) / 2

    def own_bounds(self, n_clusters: int) -> dict[str, OwnBound]:
        return {}
