"""A family: Gaussians of variance one, so that only the means are learned.

With x centred, T(x) = (x, |x|^2) and the log-density is ``-|mu|^2 / 2 - d/2 log(2 pi)`` and
``<mu, x> - |x|^2 / 2``. theta holds the centred means.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from fairmix.kernels.totals import Features, FloatArray, IntArray, Logits, Rows
from fairmix.mixture.families import Centers, GraphBuilder, RowNames, Stored

LOG_2PI = float(np.log(2 * np.pi))


@dataclass(frozen=True, eq=False)
class UnitVariance:
    """K Gaussians of variance one."""

    n_components: int
    center: FloatArray
    covariance_type: str
    reg_covar: float = 0.0

    takes_missing = False
    takes_single = False

    @property
    def d(self) -> int:
        return len(self.center)

    @property
    def n_features(self) -> int:
        return self.d + 1

    @property
    def n_parameters(self) -> int:
        return self.n_components * self.d

    @property
    def n_theta(self) -> int:
        return self.n_parameters

    def _means(self, theta: FloatArray) -> FloatArray:
        return theta.reshape(self.n_components, self.d)

    def encode(self, rows: Rows) -> Features:
        assert rows.numeric is not None
        x = (rows.numeric - self.center).astype(rows.numeric.dtype)
        return Features(np.column_stack([x, (x * x).sum(axis=1)]), None)

    def logits(self, theta: FloatArray) -> Logits:
        mu = self._means(theta)
        b = -0.5 * ((mu * mu).sum(axis=1) + self.d * LOG_2PI)
        return Logits(b, np.column_stack([mu, np.full(self.n_components, -0.5)]))

    def pullback(self, theta: FloatArray, grad: Logits) -> FloatArray:
        return (grad.W[:, : self.d] - grad.b[:, None] * self._means(theta)).ravel()

    def maximize(self, sums: Logits) -> FloatArray:
        return (sums.W[:, : self.d] / np.maximum(sums.b, 1e-300)[:, None]).ravel()

    def clip(self, theta: FloatArray) -> FloatArray:
        return theta

    def unpack(self, theta: FloatArray) -> dict[str, FloatArray]:
        return {"means": self._means(theta) + self.center, "covariances": np.eye(self.d)}

    def pack(self, parameters: dict[str, FloatArray]) -> FloatArray:
        return (parameters["means"] - self.center).ravel()

    def reorder(self, theta: FloatArray, order: IntArray) -> FloatArray:
        return self._means(theta)[order].ravel()

    def draw(self, theta: FloatArray, labels: IntArray, rng: np.random.Generator) -> Rows:
        noise = rng.standard_normal((len(labels), self.d))
        return Rows(self._means(theta)[labels] + noise + self.center, None)

    def points(self, rows: Rows) -> FloatArray:
        assert rows.numeric is not None
        return rows.numeric

    def initial(
        self, rows: Rows, centers: Centers, rng: np.random.Generator
    ) -> dict[str, FloatArray]:
        return {"means": centers(self.points(rows)).astype(np.float64)}

    def document(self) -> dict[str, Any]:
        return {"covariance_type": self.covariance_type}

    def arrays(self) -> dict[str, FloatArray]:
        return {"center": self.center}

    @classmethod
    def read(cls, stored: Stored) -> Self:
        center = stored.arrays.floats("center", stored.n_columns)
        return cls(stored.n_components, center, stored.covariance_type)

    def add_scores(self, graph: GraphBuilder, rows: RowNames, W: FloatArray, total: str) -> str:
        assert rows.numbers is not None
        # The square is the same for all components, so that the softmax does not see it; but where
        # it is NaN or infinite, what comes out must be NaN.
        x = graph.node("Sub", rows.numbers, graph.constant(self.center))
        for features, weights in ((x, W[:, :-1]), (graph.node("Mul", x, x), W[:, [-1] * self.d])):
            product = graph.node("MatMul", features, graph.constant(weights.T))
            total = graph.node("Add", product, total)
        return total
