"""The local model of the dual, which `quadratic`, `sparse`, `cone` and `many` minimise.

Around its present multipliers the dual is a quadratic plus a support function::

    -<r, d> + <d, H d> / 2 + h(lambda),    d = lambda - lambda_0
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dposv, dpotrf

from fairmix.kernels.totals import FloatArray

# Armijo's rule: a step must bring this share of what its slope promises. The usual small number,
# for Newton steps bring about half of it wherever the model is quadratic.
ENOUGH = 1e-4
# Values are sums that are rounded; a rise by less than this share is none.
ROUNDING = 1e-13
# Steps are not made shorter than this: what is left of them is within rounding.
SHORTEST = 1e-6


@dataclass(frozen=True, eq=False)
class LocalModel:
    """What is known of the dual at some multipliers, but for its curvature.

    Attributes
    ----------
    multipliers : (M, K) array
        lambda_0.
    rates : (M, K) array
        r, minus the gradient of the smooth part.
    """

    multipliers: FloatArray
    rates: FloatArray


@dataclass(frozen=True, eq=False)
class FewGroups(LocalModel):
    """A model whose H is a full matrix, (M K, M K). `ManyGroups` has the other kind."""

    curvature: FloatArray

    @property
    def unit(self) -> float:
        """Mean of the diagonal of H."""
        return float(np.trace(self.curvature) / self.multipliers.size)

    def after(self, step: FloatArray) -> FloatArray:
        """The rates that the model expects after a step of the multipliers, (M, K)."""
        return self.rates - (self.curvature @ step.ravel()).reshape(step.shape)


def definite(curvature: FloatArray) -> FloatArray:
    """H made definite: it is singular along the gauge and, in single precision, may be less."""
    size = len(curvature)
    out = curvature.copy()
    diagonal = out.reshape(-1)[:: size + 1]
    ridge = 1e-9 * max(float(diagonal.sum()) / size, 1e-12)
    diagonal += ridge / 2
    # A factor tells in a tenth of the time of eigenvalues whether half of the ridge is enough.
    if dpotrf(out, lower=1)[1]:
        diagonal += 2 * max(0.0, -float(np.linalg.eigvalsh(curvature)[0]))
    diagonal += ridge / 2
    return out


def definite_solution(H: FloatArray, linear: FloatArray) -> FloatArray:
    """Solution of ``H x = linear``, H (n, n) definite but for rounding."""
    # Without NumPy's checks of what they are given, which take longer than so few equations.
    _, found, failed = dposv(H, linear)
    return np.asarray(np.linalg.solve(H, linear) if failed else found)


class State(NamedTuple):
    """A smooth function on the way to its minimum: its value and gradient at some multipliers.

    ``nearest`` are the allowed rates nearest to ``w``, whose derivative gives the next step.
    """

    value: float
    gradient: FloatArray
    nearest: FloatArray
    w: FloatArray


def halved(slope: float, rise: float) -> float:
    """Half of a step that was too long."""
    return 0.5


def to_the_bend(slope: float, rise: float) -> float:
    """The share of a step at which the slopes at its ends say that the minimum lies.

    Between a tenth and seven tenths, so that a step neither vanishes nor stays as it is.
    """
    return min(max(slope / (slope - rise), 0.1), 0.7) if rise > 0 else 0.5


def backtrack(
    evaluate: Callable[[FloatArray], State],
    now: FloatArray,
    state: State,
    step: FloatArray,
    slope: float,
    shorter: Callable[[float, float], float] = halved,
) -> tuple[FloatArray, State]:
    """Shorten a step of a negative slope until the value falls enough; where it ends.

    ``shorter`` gives the share that is left of it, from the slopes at its two ends.
    """
    length = 1.0
    while True:
        new = evaluate(now + length * step)
        enough = state.value + ENOUGH * length * slope + ROUNDING * abs(state.value)
        if new.value <= enough or length < SHORTEST:
            return now + length * step, new
        length *= shorter(slope, float(np.vdot(new.gradient, step)))
