"""The contract of a family of densities.

Every family is exponential: the log-density of component k is ``b_k + <W_k, T(x)>``. A family
knows T, the map from its parameters theta to (b, W), the derivative of that map, and the
parameters that maximise an expected log-likelihood in closed form. It knows nothing of mixture
weights, groups or data access, so a product of families is a concatenation.

theta is one flat float64 vector, so that solvers need no knowledge of what is in it.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from fairmix.kernels.totals import Features, FloatArray, IntArray, Logits, Rows


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
        """Parameters in the user's terms, by public name without the underscore."""

    def pack(self, parameters: dict[str, FloatArray]) -> FloatArray:
        """Inverse of ``unpack``."""

    def reorder(self, theta: FloatArray, order: IntArray) -> FloatArray:
        """Theta with the components in another order."""

    def draw(self, theta: FloatArray, labels: IntArray, rng: np.random.Generator) -> Rows:
        """Random rows, one from the component that each label names."""
