"""The contract of a criterion of group fairness.

A criterion names sets of allowed rates r[g, k], the share of group g in cluster k: for each bound
the rates whose value is at most that. It never sees X. The gaps are seminorms, and their sets are
balls around equal rates (`Seminorm`); the ratios are one less a ratio, and their sets are cones.

Everybody who measures, bounds, judges, certifies or words a criterion asks it, so that a new one
is one file.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
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
    """Where a projection ends: rates that move together, and what keeps its value.

    The derivative of the projection there is again one: onto the direction of each pool, less what
    is along the normals.

    Attributes
    ----------
    pools : (M, K) int array
        Rates with the same number, all of one cluster, move together.
    sizes : (R,) int array
        How many have each number.
    normals : (J, M, K) array
        Of length one, and orthogonal to each other.
    directions : (M, K) array
        How the rates of a pool move, of length one in each; zero where they cannot.
    """

    pools: IntArray
    sizes: IntArray
    normals: FloatArray
    directions: FloatArray

    @classmethod
    def of_equals(cls, pools: IntArray, sizes: IntArray, normals: FloatArray) -> Face:
        """Of pools of equal rates, which stay equal."""
        return cls(pools, sizes, normals, (1 / np.sqrt(sizes))[pools])


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

    def resolution(self, rates: FloatArray, sizes: FloatArray, steps: FloatArray) -> float:
        """The value below which labels of whole rows cannot be asked to go.

        ``rates`` (M, K) are those of the labels, ``sizes`` (M,) the weights of the groups,
        ``steps`` (M,) by how much one row moves the rate of its group.
        """

    def enough(
        self, bound: float, rates: FloatArray, sizes: FloatArray, steps: FloatArray
    ) -> float:
        """The largest value of labels with which they meet a bound."""

    def noise(self, sizes: FloatArray, n_clusters: int) -> float:
        """What the value is typically off by on so many rows of each group, sizes (M,).

        The rates are not known where this is asked, so clusters of equal size stand for them.
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

    @property
    def conic(self) -> bool:
        """Whether the allowed rates are a cone in each cluster."""

    @property
    def contrasting(self) -> bool:
        """Whether multipliers add up to zero over the groups, in each cluster."""

    def cone(self, bound: float) -> FloatArray | None:
        """Rows A (J, M) of a cone, in which rates r are allowed if ``A r <= 0``; else None."""

    def absolute(self, n_groups: int) -> float | None:
        """The factor c where the dual norm is ``c * |multipliers|_1``, else None.

        Few groups then have a local model whose multipliers are found one by one.
        """

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


class Ball(ABC):
    """What criteria share whose allowed rates are a ball around equal rates."""

    @abstractmethod
    def resolution(self, rates: FloatArray, sizes: FloatArray, steps: FloatArray) -> float:
        """As of `Criterion`."""

    def enough(
        self, bound: float, rates: FloatArray, sizes: FloatArray, steps: FloatArray
    ) -> float:
        """The bound, or what whole rows can resolve where that is more."""
        return max(bound, self.resolution(rates, sizes, steps))

    def noise(self, sizes: FloatArray, n_clusters: int) -> float:
        """Standard error of the difference of two rates."""
        rate = 1 / n_clusters
        return float(np.sqrt(rate * (1 - rate) * (1 / sizes).sum()))

    @property
    def conic(self) -> bool:
        """A ball is no cone."""
        return False

    @property
    def contrasting(self) -> bool:
        """Equal changes of all groups change nothing."""
        return True

    def cone(self, bound: float) -> FloatArray | None:
        """None."""
        return None

    def own_bounds(self, n_clusters: int) -> dict[str, OwnBound]:
        """None, unless a criterion has some."""
        return {}


class Seminorm(Criterion, Protocol):
    """A criterion that a penalty can have, too: it grows in proportion to the rates."""

    def support(self, multipliers: FloatArray) -> float:
        """The dual norm: largest ``<multipliers, x>`` over value(x) <= 1."""

    def shrink(self, rates: FloatArray, amount: float) -> FloatArray:
        """``argmin_x |x - rates|^2 / 2 + amount * value(x)``."""

    def shrink_face(self, rates: FloatArray, shrunk: FloatArray) -> Face:
        """The derivative of ``shrink`` at rates that are known shrunk, as of ``face``."""
