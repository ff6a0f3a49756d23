"""The contract of a family of densities.

Every family is exponential: the log-density of component k is ``b_k + <W_k, T(x)>``. A family
knows T, the map from its parameters theta to (b, W), the derivative of that map, and the
parameters that maximise an expected log-likelihood in closed form. It knows nothing of mixture
weights, groups or data access, so a product of families is a concatenation.

theta is one flat float64 vector, so that solvers need no knowledge of what is in it.

Starts, model files and ONNX graphs ask the family itself for what they need, so that a new one is
one file. What it gets from them (``Centers``, ``Stored``, ``GraphBuilder``) is declared here,
because those rooms are above this one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from fairmix.kernels.totals import Features, FloatArray, IntArray, Logits, Rows

# Points (n, p) to the centres (K, p) of their k-means clusters.
Centers = Callable[[FloatArray], FloatArray]


class Family(Protocol):
    """A family of component densities with ``n_components`` members side by side."""

    @property
    def n_components(self) -> int:
        """K."""

    @property
    def n_features(self) -> int:
        """P, the length of T(x)."""

    @property
    def n_parameters(self) -> int:
        """Free parameters, for BIC and AIC."""

    @property
    def n_theta(self) -> int:
        """Length of theta, which may hold more numbers than are free."""

    @property
    def takes_missing(self) -> bool:
        """Whether missing numbers (NaN) are integrated out; else rows must be complete."""

    @property
    def takes_single(self) -> bool:
        """Whether climbs of samples may round features and their sums to single precision."""

    def encode(self, rows: Rows) -> Features:
        """T(x) of some rows."""

    def logits(self, theta: FloatArray) -> Logits:
        """The affine map of T(x) that gives each component's log-density."""

    def pullback(self, theta: FloatArray, grad: Logits) -> FloatArray:
        """Gradient with respect to theta, given the gradient with respect to the logits."""

    def maximize(self, sums: Logits) -> FloatArray:
        """Theta that maximises ``<sums, logits(theta)>``."""

    def clip(self, theta: FloatArray) -> FloatArray:
        """Nearest theta inside the bounds (variances stay above ``reg_covar``)."""

    def unpack(self, theta: FloatArray) -> dict[str, FloatArray]:
        """Parameters in the user's terms, by public name without the underscore.

        Plots read ``means`` and ``covariances``, which are matrices, (d, d) or (K, d, d), unless
        ``covariance_type`` says otherwise.
        """

    def pack(self, parameters: dict[str, FloatArray]) -> FloatArray:
        """Inverse of ``unpack``."""

    def reorder(self, theta: FloatArray, order: IntArray) -> FloatArray:
        """Theta with the components in another order."""

    def draw(self, theta: FloatArray, labels: IntArray, rng: np.random.Generator) -> Rows:
        """Random rows, one from the component that each label names."""

    def points(self, rows: Rows) -> FloatArray | csr_array:
        """Rows as points for k-means, which knows no missing value."""

    def initial(
        self, rows: Rows, centers: Centers, rng: np.random.Generator
    ) -> dict[str, FloatArray]:
        """The paper's initial parameters, for ``pack``."""

    def document(self) -> dict[str, object]:
        """What a model file says of the family beside theta: JSON values by name.

        ``covariance_type`` is one of them; null where no column is numeric.
        """

    def arrays(self) -> dict[str, FloatArray]:
        """Arrays of numbers that a model file holds of the family.

        Names have small letters and underscores only, and no other part of a model has them.
        """

    def add_scores(self, graph: GraphBuilder, rows: RowNames, W: FloatArray, total: str) -> str:
        """Add ``<W, T(x)>`` (n, K) to ``total`` in an ONNX graph, and return the name of the sum.

        W is that of ``logits``, divided by the temperature.
        """


class NumericFamily(Family, Protocol):
    """A family of numeric columns, which ``covariance_type`` names."""

    def __init__(
        self, n_components: int, center: FloatArray, covariance_type: str, reg_covar: float
    ) -> None: ...

    def points(self, rows: Rows) -> FloatArray:
        """Rows as points for k-means; what is missing is at the centre."""

    @classmethod
    def read(cls, stored: Stored) -> Self:
        """The family of a model file: takes what ``document`` and ``arrays`` have written."""


class FieldReader(Protocol):
    """Values of a model file; each is taken once, and refused where it is not as it must be."""

    def text(self, name: str, known: tuple[str, ...] | None = None) -> str:
        """A text, one of the known ones if there are such."""

    def whole(self, name: str, low: int = ...) -> int:
        """A whole number."""

    def number(self, name: str, low: float = ...) -> float:
        """A finite number."""

    def flag(self, name: str) -> bool:
        """True or false."""


class ArrayReader(Protocol):
    """Arrays of a model file, likewise."""

    def floats(self, name: str, *shape: int | None, finite: bool = ...) -> FloatArray:
        """Real numbers; None stands for any length."""


class Stored(NamedTuple):
    """A family of ``n_columns`` numeric columns in a model file.

    Of its document only ``covariance_type``, by which the class is found, is taken already.
    """

    n_components: int
    n_columns: int
    covariance_type: str
    fields: FieldReader
    arrays: ArrayReader


class RowNames(NamedTuple):
    """Names in a graph: numbers (n, d), which of them are missing, and codes (n,) of categories.

    None without numbers, and where none may be missing.
    """

    numbers: str | None
    absent: str | None
    codes: list[str]


class GraphBuilder(Protocol):
    """What adds to an ONNX graph; all values are names in it."""

    def constant(self, array: NDArray[np.generic]) -> str:
        """An array."""

    def node(self, kind: str, *inputs: str, output: str | None = None, **attributes: object) -> str:
        """The output of an operation."""

    def known(self, numbers: str, absent: str | None) -> str:
        """Numbers with zero where they are missing."""

    def flags(self, condition: str) -> str:
        """One where a condition holds, else zero."""

    def products(self, x: str, i: IntArray, j: IntArray) -> str:
        """Products of columns i and j, (n, number of pairs)."""

    def look_up(self, table: FloatArray, codes: str) -> str:
        """Rows of a table, NaN for a code that is unknown."""
