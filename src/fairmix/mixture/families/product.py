"""The paper's mixed model: numeric and categorical columns, independent within a component."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairmix.kernels.totals import Features, FloatArray, IntArray, Logits, Rows
from fairmix.mixture.families.categorical import Categorical
from fairmix.mixture.families.gaussian import Gaussian


@dataclass(frozen=True, eq=False)
class Product:
    """A Gaussian and a multinoulli part side by side; theta and T(x) are concatenations."""

    gaussian: Gaussian
    categorical: Categorical

    @property
    def n_components(self) -> int:
        """K."""
        return self.gaussian.n_components

    @property
    def n_features(self) -> int:
        """P."""
        return self.gaussian.n_features + self.categorical.n_features

    @property
    def n_parameters(self) -> int:
        """Of both parts."""
        return self.gaussian.n_parameters + self.categorical.n_parameters

    def _split_theta(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        cut = len(theta) - self.n_components * self.categorical.n_categories
        return theta[:cut], theta[cut:]

    def _split(self, logits: Logits) -> tuple[Logits, Logits]:
        cut = self.gaussian.n_features
        return Logits(logits.b, logits.W[:, :cut]), Logits(logits.b, logits.W[:, cut:])

    def encode(self, rows: Rows) -> Features:
        """Dense features of the numbers, codes of the categories."""
        dense, codes = self.gaussian.encode(rows).dense, self.categorical.encode(rows).codes
        assert dense is not None
        assert codes is not None
        # Codes count from the end of the dense features, which complete rows have fewer of.
        return Features(dense, codes + (self.gaussian.n_features - dense.shape[1]))

    def logits(self, theta: FloatArray) -> Logits:
        """Log-densities add up."""
        numbers, categories = self._split_theta(theta)
        a, c = self.gaussian.logits(numbers), self.categorical.logits(categories)
        return Logits(a.b + c.b, np.hstack([a.W, c.W]))

    def pullback(self, theta: FloatArray, grad: Logits) -> FloatArray:
        """Each part's own."""
        numbers, categories = self._split_theta(theta)
        a, c = self._split(grad)
        return np.concatenate(
            [self.gaussian.pullback(numbers, a), self.categorical.pullback(categories, c)]
        )

    def maximize(self, sums: Logits) -> FloatArray:
        """Each part's own."""
        a, c = self._split(sums)
        return np.concatenate([self.gaussian.maximize(a), self.categorical.maximize(c)])

    def clip(self, theta: FloatArray) -> FloatArray:
        """Each part's own."""
        numbers, categories = self._split_theta(theta)
        return np.concatenate([self.gaussian.clip(numbers), self.categorical.clip(categories)])

    def unpack(self, theta: FloatArray) -> dict[str, FloatArray]:
        """Parameters of both parts."""
        numbers, categories = self._split_theta(theta)
        return self.gaussian.unpack(numbers) | self.categorical.unpack(categories)

    def pack(self, parameters: dict[str, FloatArray]) -> FloatArray:
        """Inverse of ``unpack``."""
        return np.concatenate([self.gaussian.pack(parameters), self.categorical.pack(parameters)])

    def reorder(self, theta: FloatArray, order: IntArray) -> FloatArray:
        """Theta with the components in another order."""
        numbers, categories = self._split_theta(theta)
        return np.concatenate(
            [self.gaussian.reorder(numbers, order), self.categorical.reorder(categories, order)]
        )

    def draw(self, theta: FloatArray, labels: IntArray, rng: np.random.Generator) -> Rows:
        """Random rows of both parts."""
        numbers, categories = self._split_theta(theta)
        return Rows(
            self.gaussian.draw(numbers, labels, rng).numeric,
            self.categorical.draw(categories, labels, rng).codes,
        )
