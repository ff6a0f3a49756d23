r"""Gaussian components with six covariance structures.

A structure is a shape (one variance, one per column, a full matrix) and whether all components
share it. With x centred, T(x) = (x, t(x)) where t is ``|x|^2``, ``x^2`` or the products
``x_i x_j`` (i <= j). With precision A the log-density is::

    -mu^T A mu / 2 + log|A| / 2 - d/2 log(2 pi)  +  <A mu, x>  -  x^T A x / 2

A missing number (NaN) is integrated out: where columns are independent, its factor is left out of
the density. T(x) then goes on with an indicator of each missing number, whose weight takes back
what b holds of its column. A run of complete rows has no such columns, and costs nothing. A full
matrix has no factors, so it takes complete rows only.

theta holds the centred means and, for the first two shapes, log standard deviations; for a full
matrix the lower Cholesky factor L of A = L L^T with logarithms on its diagonal. So every real
vector is a valid theta and gradient steps need no constraint.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from fairmix.kernels.totals import Features, FloatArray, IntArray, Logits, Rows
from fairmix.mixture.families._base import Centers, Family, GraphBuilder, RowNames, Stored

Shape = Literal["one", "columns", "matrix"]

# scikit-learn's four names, and two more whose components share a simpler covariance; the first is
# the paper's.
COVARIANCE_TYPES: dict[str, tuple[Shape, bool]] = {
    "tied-spherical": ("one", True),
    "spherical": ("one", False),
    "tied-diag": ("columns", True),
    "diag": ("columns", False),
    "tied": ("matrix", True),
    "full": ("matrix", False),
}

LOG_2PI = float(np.log(2 * np.pi))
# A component whose mass is below this share of all rows has no covariance of its own: it is what
# tails of far rows and rounding leave, not a row of any table.
EMPTY_SHARE = 1e-12
# Variances stay above this even with reg_covar=0: they and their inverses are then far from the
# largest and the smallest double, also when they are squared or multiplied by data.
SMALLEST_VARIANCE = 1e-200
# Rows of more columns than this are turned so many at a time, in two thirds of the time.
DIRECT, TURNED = 12, 512


def shape_of(family: Family) -> tuple[Shape, bool]:
    """What covariances of a family look like, and whether components share one.

    Those of other families are matrices; see `Family.unpack`.
    """
    return COVARIANCE_TYPES.get(str(family.document()["covariance_type"]), ("matrix", False))


def precisions(covariances: FloatArray, family: Family) -> FloatArray:
    """Inverses of covariances, in their shape."""
    if shape_of(family)[0] == "matrix":
        return np.linalg.inv(covariances)
    return np.asarray(1 / covariances)


def precision_factors(covariances: FloatArray, family: Family) -> FloatArray:
    """Factors F of precisions F F^T: upper triangles, or square roots of numbers.

    Examples
    --------
    >>> precision_factors(np.array(4.0), Gaussian(2, np.zeros(3), "tied-spherical"))
    array(0.5)
    """
    if shape_of(family)[0] == "matrix":
        # From covariances L L^T: L^-T is upper, and L^-T L^-1 their inverse.
        return np.swapaxes(np.linalg.inv(np.linalg.cholesky(covariances)), -1, -2)
    return np.asarray(1 / np.sqrt(covariances))


@dataclass(frozen=True, eq=False)
class Gaussian:
    """K Gaussians.

    Parameters
    ----------
    n_components : int
        K.
    center : (d,) array
        Subtracted from every row before squares are taken, so that a large offset costs no digits.
    covariance_type : str
        A key of ``COVARIANCE_TYPES``.
    reg_covar : float
        Added to every variance by ``maximize``, and their lower bound.
    """

    n_components: int
    center: FloatArray
    covariance_type: str = "tied-spherical"
    reg_covar: float = 1e-6

    @property
    def d(self) -> int:
        """Columns."""
        return len(self.center)

    @property
    def shape(self) -> Shape:
        """What one covariance looks like."""
        return COVARIANCE_TYPES[self.covariance_type][0]

    @property
    def n_covariances(self) -> int:
        """1 when the components share it, else K."""
        return 1 if COVARIANCE_TYPES[self.covariance_type][1] else self.n_components

    @property
    def n_scales(self) -> int:
        """Free numbers of one covariance."""
        return {"one": 1, "columns": self.d, "matrix": self.d * (self.d + 1) // 2}[self.shape]

    @property
    def takes_missing(self) -> bool:
        """Whether the columns are independent within a component: see the module docstring."""
        return self.shape != "matrix"

    @property
    def takes_single(self) -> bool:
        """Not a matrix, which loses its smallest eigenvalues in rounded products of columns."""
        return self.shape != "matrix"

    @property
    def n_indicators(self) -> int:
        """Columns of T(x) that mark missing numbers; none where there must not be any."""
        return self.d if self.takes_missing else 0

    @property
    def n_features(self) -> int:
        """P."""
        return self.d + self.n_scales + self.n_indicators

    @property
    def n_parameters(self) -> int:
        """Means and covariances."""
        return self.n_components * self.d + self.n_covariances * self.n_scales

    @property
    def n_theta(self) -> int:
        """All of them are free."""
        return self.n_parameters

    def encode(self, rows: Rows) -> Features:
        """(x, t(x)) with x centred and, where a number is missing, the indicators."""
        assert rows.numeric is not None
        # Column by column in memory, as a block keeps them.
        n_complete = self.d + self.n_scales
        out = np.empty((n_complete, rows.n_rows), dtype=rows.numeric.dtype)
        x = self._centred(rows.numeric, out[: self.d])
        self._products(x, out[self.d :])
        # The smallest tells: NaN in x is NaN in t.
        if not np.isnan(out[self.d :].min(initial=0.0)):
            return Features(out.T, None)
        absent = np.isnan(x)
        assert self.n_indicators or not absent.any()
        x[absent] = 0
        self._products(x, out[self.d :])
        marks = absent[: self.n_indicators].astype(x.dtype)
        return Features(np.vstack([out, marks]).T, None)

    def _centred(self, numeric: FloatArray, out: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):  # infinite is not equal, so the longer way is taken
            center: FloatArray = self.center.astype(numeric.dtype)
        if np.array_equal(center, self.center):
            if self.d <= DIRECT:
                return np.asarray(np.subtract(numeric.T, center[:, None], out=out))
            # So few rows at a time that they are still in the cache when the next column is read.
            for start in range(0, len(numeric), TURNED):
                piece = slice(start, start + TURNED)
                out[:, piece] = numeric[piece].T
            return np.asarray(np.subtract(out, center[:, None], out=out))
        # In double precision, or rows and `unpack` would count from two different centres.
        out[...] = (numeric - self.center).T
        return out

    def _products(self, x: FloatArray, out: FloatArray) -> None:
        """t(x) of x (d, n)."""
        if self.shape == "one":
            np.einsum("ij,ij->j", x, x, out=out[0])
        elif self.shape == "columns":
            np.multiply(x, x, out=out)
        else:
            start = 0
            for i in range(self.d):
                # In the order of `_pairs`.
                np.multiply(x[i:], x[i], out=out[start : start + self.d - i])
                start += self.d - i

    def logits(self, theta: FloatArray) -> Logits:
        """See the module docstring."""
        mu, scales = self._split(theta)
        d = self.d
        if self.shape == "matrix":
            factor = self._factors(scales)
            precision = factor @ factor.transpose(0, 2, 1)
            linear = np.einsum("kij,kj->ki", self._each(precision), mu)
            i, j = self._pairs()
            # A pair i < j stands for two entries of A.
            quadratic = precision[:, i, j] * np.where(i == j, -0.5, -1.0)
            log_det = 2 * np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(axis=1)
            absent = np.zeros((self.n_components, 0))
        else:
            precision = np.exp(-2 * scales)
            linear = precision * mu
            quadratic = -0.5 * precision
            log_det = -2 * scales.sum(axis=1) * (d if self.shape == "one" else 1)
            # The terms of b that belong to one column, with the opposite sign.
            absent = scales + 0.5 * (linear * mu + LOG_2PI)
        b = 0.5 * (log_det - np.einsum("kd,kd->k", linear, mu) - d * LOG_2PI)
        W = np.empty((self.n_components, self.n_features))
        W[:, :d] = linear
        W[:, d : d + self.n_scales] = quadratic  # shared ones spread over the components
        W[:, d + self.n_scales :] = absent
        return Logits(b, W)

    def pullback(self, theta: FloatArray, grad: Logits) -> FloatArray:
        """Chain rule through ``logits``."""
        mu, scales = self._split(theta)
        d = self.d
        g_linear, g_quadratic, g_absent = self._parts(grad.W)
        g_b = grad.b[:, None]
        if self.shape == "matrix":
            factor = self._factors(scales)
            precision = self._each(factor @ factor.transpose(0, 2, 1))
            g_mu = np.einsum("kij,kj->ki", precision, g_linear - g_b * mu)
            g_scales = self._pull_factors(mu, factor, grad)
        else:
            precision = np.exp(-2 * scales)
            # An indicator takes back the part of b that its column has.
            g_column = g_b - g_absent
            g_mu = precision * (g_linear - g_column * mu)
            g_precision = mu * (g_linear - 0.5 * g_column * mu)
            g_log_det = g_column
            if self.shape == "one":
                g_precision = g_precision.sum(axis=1, keepdims=True)
                g_log_det = g_b * d - g_absent.sum(axis=1, keepdims=True)
            g_precision = g_precision - 0.5 * g_quadratic
            g_scales = self._pool(-2 * precision * g_precision - g_log_det)
        return np.concatenate([g_mu.ravel(), g_scales.ravel()])

    def _pull_factors(self, mu: FloatArray, factor: FloatArray, grad: Logits) -> FloatArray:
        d = self.d
        i, j = self._pairs()
        g_precision = np.einsum("ki,kj->kij", grad.W[:, :d] - 0.5 * grad.b[:, None] * mu, mu)
        g_precision = 0.5 * (g_precision + g_precision.transpose(0, 2, 1))
        # An entry off the diagonal has the coefficient -1, shared by its two places in A.
        half = grad.W[:, d:] * np.where(i == j, -0.25, -0.5)
        g_precision[:, i, j] += half
        g_precision[:, j, i] += half
        # d<G, L L^T> = <(G + G^T) L, dL> and G is symmetric.
        g_factor = 2 * self._pool(g_precision) @ factor
        diagonal = np.arange(d)
        g_factor[:, diagonal, diagonal] *= factor[:, diagonal, diagonal]
        g_factor[:, diagonal, diagonal] += self._pool(grad.b[:, None])
        low = np.tril_indices(d)
        return np.asarray(g_factor[:, low[0], low[1]])

    def maximize(self, sums: Logits) -> FloatArray:
        """Weighted means and covariances, of the numbers that are there."""
        linear, second, absent = self._parts(sums.W)
        smallest = EMPTY_SHARE * sums.b.sum()
        # (K, 1), or (K, d) where numbers are missing.
        mass = sums.b[:, None] - absent if absent.any() else sums.b[:, None]
        empty = mass <= smallest
        mass = np.maximum(mass, smallest)
        # An empty component stays a density: it gets the mean of all rows, and their covariance
        # below.
        mu = np.where(empty, linear.sum(axis=0) / mass.sum(axis=0), linear / mass)
        return self._join(mu, self._maximal_scales(mass, mu, empty, second))

    def _maximal_scales(
        self, mass: FloatArray, mu: FloatArray, empty: NDArray[np.bool_], second: FloatArray
    ) -> FloatArray:
        """Scales of the covariances around ``mu``, given sums of t(x)."""
        if self.shape == "one":
            squares = mu * mu
            if mass.shape[1] == 1:
                scatter = (second - mass * squares.sum(axis=1, keepdims=True)) / self.d
            else:
                scatter = (second - (mass * squares).sum(axis=1, keepdims=True)) / self.d
                # With the division by d this divides by the number of values that are there.
                mass = mass.mean(axis=1, keepdims=True)
                empty = np.asarray(empty.all(axis=1, keepdims=True))
        elif self.shape == "columns":
            # Rows are centred, so offsets cost no digits; `_scales` cuts what rounding leaves
            # below zero.
            scatter = second - mass * mu * mu
        else:
            i, j = self._pairs()
            scatter = second - mass * mu[:, i] * mu[:, j]
        pooled = scatter.sum(axis=0) / mass.sum(axis=0)
        if self.n_covariances == 1:
            return self._scales(pooled[None])
        return self._scales(np.where(empty, pooled, scatter / mass))

    def _scales(self, covariance: FloatArray) -> FloatArray:
        """Scales of covariances given as (., n_scales) numbers, regularised and bounded below."""
        if self.shape != "matrix":
            variance = np.maximum(covariance, 0) + self.reg_covar
            return np.asarray(0.5 * np.log(np.maximum(variance, self._floor)))
        full = self._symmetric(covariance) + self.reg_covar * np.eye(self.d)
        # Eigenvalues, not a Cholesky factor: they exist also where the matrix is singular, and can
        # be raised to the floor.
        values, vectors = np.linalg.eigh(full)
        values = np.maximum(values, self._floor)
        precision = np.einsum("kij,kj,klj->kil", vectors, 1 / values, vectors)
        factor = np.linalg.cholesky(precision)
        diagonal = np.arange(self.d)
        factor[:, diagonal, diagonal] = np.log(factor[:, diagonal, diagonal])
        low = np.tril_indices(self.d)
        return np.asarray(factor[:, low[0], low[1]])

    @property
    def _floor(self) -> float:
        return max(self.reg_covar, SMALLEST_VARIANCE)

    def clip(self, theta: FloatArray) -> FloatArray:
        """Keep variances at or above ``reg_covar`` (for a matrix: its conditional variances)."""
        mu, scales = self._split(theta)
        bound = 0.5 * np.log(self._floor)
        if self.shape != "matrix":
            return self._join(mu, np.maximum(scales, bound))
        low = np.tril_indices(self.d)
        on_diagonal = low[0] == low[1]
        # The square of a diagonal entry of L is the inverse of a conditional variance.
        return self._join(mu, np.where(on_diagonal, np.minimum(scales, -bound), scales))

    def unpack(self, theta: FloatArray) -> dict[str, FloatArray]:
        """Means and covariances in scikit-learn's shapes; tied ones drop the component axis."""
        mu, scales = self._split(theta)
        if self.shape == "matrix":
            factor = self._factors(scales)
            inverse = np.linalg.inv(factor)
            covariances = inverse.transpose(0, 2, 1) @ inverse
        else:
            covariances = np.exp(2 * scales)
            if self.shape == "one":
                covariances = covariances[:, 0]
        if self.n_covariances == 1:
            covariances = covariances[0]
        return {"means": mu + self.center, "covariances": np.asarray(covariances)}

    def pack(self, parameters: dict[str, FloatArray]) -> FloatArray:
        """Theta of given means and covariances."""
        covariances = np.asarray(parameters["covariances"], dtype=np.float64)
        if self.n_covariances == 1:
            covariances = covariances[None]
        if self.shape == "one":
            scales = 0.5 * np.log(covariances[:, None])
        elif self.shape == "columns":
            scales = 0.5 * np.log(covariances)
        else:
            factor = np.linalg.cholesky(np.linalg.inv(covariances))
            diagonal = np.arange(self.d)
            factor[:, diagonal, diagonal] = np.log(factor[:, diagonal, diagonal])
            low = np.tril_indices(self.d)
            scales = factor[:, low[0], low[1]]
        return self._join(np.asarray(parameters["means"]) - self.center, scales)

    def reorder(self, theta: FloatArray, order: IntArray) -> FloatArray:
        """Theta with the components in another order."""
        mu, scales = self._split(theta)
        return self._join(mu[order], scales if self.n_covariances == 1 else scales[order])

    def draw(self, theta: FloatArray, labels: IntArray, rng: np.random.Generator) -> Rows:
        """Random rows."""
        mu, scales = self._split(theta)
        noise = rng.standard_normal((len(labels), self.d))
        if self.shape == "matrix":
            # cov = L^-T L^-1, so L^-T noise has it.
            spread = np.linalg.inv(self._each(self._factors(scales)))[labels]
            noise = np.einsum("nji,nj->ni", spread, noise)
        else:
            noise = noise * self._each(np.exp(scales))[labels]
        return Rows(mu[labels] + noise + self.center, None)

    def points(self, rows: Rows) -> FloatArray:
        """The numbers with missing ones at the centre."""
        assert rows.numeric is not None
        absent = np.isnan(rows.numeric)
        if not absent.any():
            return rows.numeric
        return np.where(absent, self.center, rows.numeric).astype(rows.numeric.dtype)

    def initial(
        self, rows: Rows, centers: Centers, rng: np.random.Generator
    ) -> dict[str, FloatArray]:
        """Centres of k-means and unit variances."""
        means = centers(self.points(rows)).astype(np.float64)
        return {"means": means, "covariances": self.unit_covariances()}

    def unit_covariances(self) -> FloatArray:
        """Ones in the shape of ``covariances``."""
        one = {"one": np.ones(()), "columns": np.ones(self.d), "matrix": np.eye(self.d)}[self.shape]
        return one if self.n_covariances == 1 else np.stack([one] * self.n_components)

    def document(self) -> dict[str, object]:
        """The structure and its regularisation."""
        return {"covariance_type": self.covariance_type, "reg_covar": float(self.reg_covar)}

    def arrays(self) -> dict[str, FloatArray]:
        """The centre."""
        return {"center": self.center}

    @classmethod
    def read(cls, stored: Stored) -> Self:
        """The family of a model file."""
        center = stored.arrays.floats("center", stored.n_columns)
        reg_covar = stored.fields.number("reg_covar", 0.0)
        return cls(stored.n_components, center, stored.covariance_type, reg_covar)

    def add_scores(self, graph: GraphBuilder, rows: RowNames, W: FloatArray, total: str) -> str:
        """T(x) in parts: x, its products and which numbers are missing, with their weights."""
        assert rows.numbers is not None
        linear, quadratic, marks = self._parts(W)
        x = graph.known(graph.node("Sub", rows.numbers, graph.constant(self.center)), rows.absent)
        terms = [(x, linear)]
        # Only a full matrix needs complete rows, and it has no indicators.
        if rows.absent is None:
            terms.append((graph.products(x, *self._pairs()), quadratic))
        else:
            # Squares of all columns: where they share a variance they share its weight.
            quadratic = np.broadcast_to(quadratic, (self.n_components, self.d))
            terms.append((graph.node("Mul", x, x), quadratic))
            terms.append((graph.flags(rows.absent), marks))
        for features, weights in terms:
            product = graph.node("MatMul", features, graph.constant(weights.T))
            total = graph.node("Add", product, total)
        return total

    def _parts(self, W: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Columns of x, of t(x) and of the indicators; sums of complete rows may lack the last."""
        end = self.d + self.n_scales
        return W[:, : self.d], W[:, self.d : end], W[:, end:]

    def _split(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        cut = self.n_components * self.d
        return (
            theta[:cut].reshape(self.n_components, self.d),
            theta[cut:].reshape(self.n_covariances, self.n_scales),
        )

    @staticmethod
    def _join(mu: FloatArray, scales: FloatArray) -> FloatArray:
        return np.concatenate([mu.ravel(), scales.ravel()])

    def _each(self, shared: FloatArray) -> FloatArray:
        """One entry per component."""
        return np.broadcast_to(shared, (self.n_components, *shared.shape[1:]))

    def _pool(self, grad: FloatArray) -> FloatArray:
        """Add up over the components that share a parameter."""
        return grad.sum(axis=0, keepdims=True) if self.n_covariances == 1 else grad

    def _pairs(self) -> tuple[IntArray, IntArray]:
        i, j = np.triu_indices(self.d)
        return i, j

    def _symmetric(self, upper: FloatArray) -> FloatArray:
        i, j = self._pairs()
        out = np.empty((len(upper), self.d, self.d))
        out[:, i, j] = upper
        out[:, j, i] = upper
        return out

    def _factors(self, scales: FloatArray) -> FloatArray:
        """Lower Cholesky factors of the precisions, (., d, d)."""
        low = np.tril_indices(self.d)
        factor = np.zeros((len(scales), self.d, self.d))
        factor[:, low[0], low[1]] = scales
        diagonal = np.arange(self.d)
        factor[:, diagonal, diagonal] = np.exp(factor[:, diagonal, diagonal])
        return factor
