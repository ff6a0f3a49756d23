"""The contract of a criterion of group fairness.

A criterion names sets of allowed rates r[g, k], the share of group g in cluster k: for each bound
the rates whose value is at most that. It never sees X. Those of today are seminorms, and their
sets are balls.

Everybody who measures, bounds, judges, certifies or words a criterion asks it, so that a new one
is one file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fairmix.kernels.totals import FloatArray, IntArray

BoolArray = NDArray[np.bool_]
# Means of the groups (M, K), rows of each (M,), an error: an upper bound on the population value
# that is false with at most this probability.
OwnBound = Callable[[FloatArray, FloatArray, float], float]


class Face(NamedTuple):
    """Where a projection ends: rates that have met, and what keeps its value.

    The derivative of the projection there is again one: the mean over the rates that have met, less
    what is along the normals.

    Attributes
    ----------
    pools : (M, K) int array
        Rates with the same number, all of one cluster, have met.
    sizes : (R,) int array
        How many have each number.
    normals : (J, M, K) array
        Of length one, and orthogonal to each other.
    """

    pools: IntArray
    sizes: IntArray
    normals: FloatArray


# A protocol, not a base class: a criterion of a user needs the methods, not an import from here.
class Criterion(Protocol):
    """A measure of the rates, zero when all groups have the same, and the sets that it bounds."""

    # What is measured.

    def value(self, rates: FloatArray) -> float:
        """Value at rates (M, K)."""

    def gradient(self, rates: FloatArray) -> FloatArray:
        """A subgradient, (M, K)."""

    def decisive(self, values: FloatArray) -> BoolArray:
        """Which clusters the value rests on, (K,) bool, given that of each on its own, (K,)."""

    def resolution(self, sizes: FloatArray, steps: FloatArray, n_clusters: int) -> float:
        """The value below which labels of whole rows cannot be asked to go.

        ``sizes`` (M,) are the weights of the groups, ``steps`` (M,) by how much one row moves the
        rate of its group.
        """

    # The set of a bound: what solvers need of it.

    def project(self, rates: FloatArray, bound: float) -> FloatArray:
        """Nearest rates whose value is at most ``bound``."""

    def project_slope(self, rates: FloatArray, projected: FloatArray) -> FloatArray:
        """Derivative of ``project`` at rates whose projection is known, (M, K, M, K)."""

    def face(self, rates: FloatArray, projected: FloatArray) -> Face:
        """The same derivative by its parts, which are few also where groups are many."""

    def excess(self, rates: FloatArray, bound: float) -> FloatArray:
        """How far many rates (n, M, K) are from the bound, (n,); zero where they meet it."""

    # Its multipliers, and the penalised form.

    def support(self, multipliers: FloatArray) -> float:
        """The dual norm: largest ``<multipliers, x>`` over value(x) <= 1."""

    def absolute(self, n_groups: int) -> float | None:
        """The factor c where the dual norm is ``c * |multipliers|_1``, else None.

        Few groups then have a local model whose multipliers are found one by one.
        """

    def shrink(self, rates: FloatArray, amount: float) -> FloatArray:
        """``argmin_x |x - rates|^2 / 2 + amount * value(x)``."""

    def shrink_face(self, rates: FloatArray, shrunk: FloatArray) -> Face:
        """The derivative of ``shrink`` at rates that are known shrunk, as of ``face``."""

    # The certificate.

    def largest(self, low: FloatArray, high: FloatArray) -> float:
        """Largest value when every rate may be anywhere between ``low`` and ``high``, (M, K)."""

    def own_bounds(self, n_clusters: int) -> dict[str, OwnBound]:
        """Bounds beside that of ``largest`` on intervals of rates, by the name of their method.

        Which there are must not depend on rows: all of them share the error.
        """

    # Words, for verdicts and reports.

    @property
    def words(self) -> str:
        """What the value is, as the subject of a sentence."""

    def note(self, n_groups: int) -> str:
        """What else to know of it, as a sentence; may be empty."""
