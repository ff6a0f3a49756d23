"""The paper's mixed model: numeric and categorical columns, independent within a component."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse import hstack as sparse_hstack

from fairmix.kernels.totals import Features, FloatArray, IntArray, Logits, Rows
from fairmix.mixture.families._base import Centers, GraphBuilder, NumericFamily, RowNames
from fairmix.mixture.families.categorical import Categorical


@dataclass(frozen=True, eq=False)
class Product:
    """A numeric and a categorical part side by side; theta and T(x) are concatenations."""

    numeric: NumericFamily
    categorical: Categorical

    @property
    def n_components(self) -> int:
        """K."""
        return self.numeric.n_components

    @property
    def n_features(self) -> int:
        """P."""
        return self.numeric.n_features + self.categorical.n_features

    @property
    def n_parameters(self) -> int:
        """Of both parts."""
        return self.numeric.n_parameters + self.categorical.n_parameters

    @property
    def n_theta(self) -> int:
        """Of both parts."""
        return self.numeric.n_theta + self.categorical.n_theta

    @property
    def takes_missing(self) -> bool:
        """As its numbers."""
        return self.numeric.takes_missing

    @property
    def takes_single(self) -> bool:
        """As its numbers."""
        return self.numeric.takes_single

    def _split_theta(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        return theta[: self.numeric.n_theta], theta[self.numeric.n_theta :]

    def _split(self, logits: Logits) -> tuple[Logits, Logits]:
        # Both parts get all of b: it is the mass of a component, or the derivative in its bias, and
        # these are not divided between columns.
        numbers, categories = self._parts(logits.W)
        return Logits(logits.b, numbers), Logits(logits.b, categories)

    def _parts(self, W: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Features of the numbers, and of the categories.

        Columns of zeros and ones come first: those at the end may be left out. Codes count from the
        end of all others.
        """
        if self.categorical.shown:
            cut = self.categorical.n_features
            return W[:, cut:], W[:, :cut]
        cut = self.numeric.n_features
        return W[:, :cut], W[:, cut:]

    def encode(self, rows: Rows) -> Features:
        """Dense features of the numbers, 0/1 columns or codes of the categories."""
        dense, (shown, codes) = self.numeric.encode(rows).dense, self.categorical.encode(rows)
        assert dense is not None
        if shown is not None:
            return Features(np.vstack([shown.T, dense.T], dtype=dense.dtype).T, None)
        assert codes is not None
        # Complete rows have fewer dense features.
        return Features(dense, codes + (self.numeric.n_features - dense.shape[1]))

    def logits(self, theta: FloatArray) -> Logits:
        """Log-densities add up."""
        numbers, categories = self._split_theta(theta)
        a, c = self.numeric.logits(numbers), self.categorical.logits(categories)
        return Logits(a.b + c.b, np.hstack([c.W, a.W] if self.categorical.shown else [a.W, c.W]))

    def pullback(self, theta: FloatArray, grad: Logits) -> FloatArray:
        """Each part's own."""
        numbers, categories = self._split_theta(theta)
        a, c = self._split(grad)
        return np.concatenate(
            [self.numeric.pullback(numbers, a), self.categorical.pullback(categories, c)]
        )

    def maximize(self, sums: Logits) -> FloatArray:
        """Each part's own."""
        a, c = self._split(sums)
        return np.concatenate([self.numeric.maximize(a), self.categorical.maximize(c)])

    def clip(self, theta: FloatArray) -> FloatArray:
        """Each part's own."""
        numbers, categories = self._split_theta(theta)
        return np.concatenate([self.numeric.clip(numbers), self.categorical.clip(categories)])

    def unpack(self, theta: FloatArray) -> dict[str, FloatArray]:
        """Parameters of both parts."""
        numbers, categories = self._split_theta(theta)
        return self.numeric.unpack(numbers) | self.categorical.unpack(categories)

    def pack(self, parameters: dict[str, FloatArray]) -> FloatArray:
        """Inverse of ``unpack``."""
        return np.concatenate([self.numeric.pack(parameters), self.categorical.pack(parameters)])

    def reorder(self, theta: FloatArray, order: IntArray) -> FloatArray:
        """Theta with the components in another order."""
        numbers, categories = self._split_theta(theta)
        return np.concatenate(
            [self.numeric.reorder(numbers, order), self.categorical.reorder(categories, order)]
        )

    def draw(self, theta: FloatArray, labels: IntArray, rng: np.random.Generator) -> Rows:
        """Random rows of both parts."""
        numbers, categories = self._split_theta(theta)
        return Rows(
            self.numeric.draw(numbers, labels, rng).numeric,
            self.categorical.draw(categories, labels, rng).codes,
        )

    def points(self, rows: Rows) -> FloatArray | csr_array:
        """Those of both parts side by side; sparse where categories are."""
        numbers, categories = self.numeric.points(rows), self.categorical.points(rows)
        if isinstance(categories, csr_array):
            # k-means takes one array, and dense categories would not fit.
            return csr_array(sparse_hstack([csr_array(numbers), categories]))
        return np.hstack([numbers, categories])

    def initial(
        self, rows: Rows, centers: Centers, rng: np.random.Generator
    ) -> dict[str, FloatArray]:
        """Parameters of both parts."""
        numbers = self.numeric.initial(rows, centers, rng)
        return numbers | self.categorical.initial(rows, centers, rng)

    def document(self) -> dict[str, object]:
        """That of the numbers, where categories have null."""
        return self.numeric.document()

    def arrays(self) -> dict[str, FloatArray]:
        """Arrays of both parts."""
        return self.numeric.arrays() | self.categorical.arrays()

    def add_scores(self, graph: GraphBuilder, rows: RowNames, W: FloatArray, total: str) -> str:
        """Each part with its own weights."""
        numbers, categories = self._parts(W)
        total = self.numeric.add_scores(graph, rows, numbers, total)
        return self.categorical.add_scores(graph, rows, categories, total)
