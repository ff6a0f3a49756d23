"""A finite mixture: weights and a family. theta = (eta, family's theta), weights = softmax(eta)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairmix.kernels.totals import FloatArray, IntArray, Logits, Rows
from fairmix.mixture.families import Family

# An empty component keeps this weight; its logarithm stays finite.
SMALLEST_WEIGHT = 1e-300


@dataclass(frozen=True, eq=False)
class Mixture:
    """``sum_k pi_k f(x; theta_k)``, the paper's equation (1)."""

    family: Family

    @property
    def n_components(self) -> int:
        """K."""
        return self.family.n_components

    @property
    def n_parameters(self) -> int:
        """Free parameters: K - 1 weights and the family's."""
        return self.n_components - 1 + self.family.n_parameters

    def _split(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        return theta[: self.n_components], theta[self.n_components :]

    def logits(self, theta: FloatArray) -> Logits:
        """``log pi_k + log f_k`` as an affine map of T(x)."""
        eta, inner = self._split(theta)
        density = self.family.logits(inner)
        return Logits(density.b + _log_softmax(eta), density.W)

    def pullback(self, theta: FloatArray, grad: Logits) -> FloatArray:
        """Gradient with respect to theta, given the gradient with respect to the logits."""
        eta, inner = self._split(theta)
        g_eta = grad.b - np.exp(_log_softmax(eta)) * grad.b.sum()
        return np.concatenate([g_eta, self.family.pullback(inner, grad)])

    def maximize(self, sums: Logits) -> FloatArray:
        """Closed-form M-step: theta that maximises ``<sums, logits(theta)>``."""
        shares = sums.b / sums.b.sum()
        eta = np.log(np.maximum(shares, SMALLEST_WEIGHT))
        return np.concatenate([eta, self.family.maximize(sums)])

    def clip(self, theta: FloatArray) -> FloatArray:
        """Nearest theta inside the family's bounds."""
        eta, inner = self._split(theta)
        # The softmax ignores what all eta share, so nothing else would keep them from drifting.
        return np.concatenate([eta - eta.mean(), self.family.clip(inner)])

    def reorder(self, theta: FloatArray, order: IntArray) -> FloatArray:
        """Theta with the components in another order."""
        eta, inner = self._split(theta)
        return np.concatenate([eta[order], self.family.reorder(inner, order)])

    def weights(self, theta: FloatArray) -> FloatArray:
        """pi, (K,)."""
        return np.exp(self.log_weights(theta))

    def log_weights(self, theta: FloatArray) -> FloatArray:
        """Logarithm of pi, (K,)."""
        return np.asarray(_log_softmax(self._split(theta)[0]))

    def with_weights(self, theta: FloatArray, weights: FloatArray) -> FloatArray:
        """Theta with other mixture weights."""
        eta = np.log(np.maximum(weights, SMALLEST_WEIGHT))
        return np.concatenate([eta, self._split(theta)[1]])

    def with_equal_weights(self, theta: FloatArray) -> FloatArray:
        """Theta with the weights 1 / K."""
        return self.with_weights(theta, np.full(self.n_components, 1 / self.n_components))

    def unpack(self, theta: FloatArray) -> dict[str, FloatArray]:
        """Weights and the family's parameters, by public name without the underscore."""
        return {"weights": self.weights(theta)} | self.family.unpack(self._split(theta)[1])

    def pack(self, parameters: dict[str, FloatArray]) -> FloatArray:
        """Inverse of ``unpack``."""
        eta = np.log(np.maximum(parameters["weights"], SMALLEST_WEIGHT))
        return np.concatenate([eta, self.family.pack(parameters)])

    def draw(self, theta: FloatArray, labels: IntArray, rng: np.random.Generator) -> Rows:
        """Random rows, one from the component that each label names."""
        return self.family.draw(self._split(theta)[1], labels, rng)


def _log_softmax(eta: FloatArray) -> FloatArray:
    """SciPy's is ten times as slow for so few numbers, and each iteration asks for it."""
    lowered = eta - eta.max()
    return np.asarray(lowered - np.log(np.exp(lowered).sum()))
