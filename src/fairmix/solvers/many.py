"""The small problem inside the dual solver for many groups; ``quadratic`` says what it is.

The same augmented Lagrangian, without a matrix over all multipliers. The slope of a projection is
a few means and normals (`Face`). The curvature H of an aware map is a small matrix for each group,
because rows of different groups never interact; that of a blind map is a matrix over the contrasts
of groups that its propensity tells apart, of which a limited number counts. So a step takes about
as long as there are groups.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from fairmix.criteria import Face
from fairmix.kernels.totals import FloatArray
from fairmix.solvers.local_model import LocalModel, State, backtrack, to_the_bend

# The price of leaving the allowed rates doubles from round to round, up to so many units of H: a
# higher one needs fewer rounds, but makes the matrix of a Newton step worse conditioned.
HIGHEST_PRICE = 60.0


def damping_of(sigma: float, steepest: float) -> float:
    """What is added to the matrix of a Newton step, which vanishes as the gradient does.

    Without it a piecewise linear h lets steps run off along the gauge: adding a constant over
    clusters to a group changes nothing. In proportion to the gradient it leaves the last steps
    those of Newton; the cap keeps it below the slope of the projection, which sigma scales.
    """
    return sigma * min(0.1, 0.2 * steepest)


class Curvature(Protocol):
    """H on multipliers (M, K), and what can be solved with it."""

    @property
    def unit(self) -> float:
        """Mean of its diagonal."""

    def __call__(self, step: FloatArray) -> FloatArray:
        """H times a step."""

    def along(self, gradient: FloatArray) -> FloatArray:
        """The part of a gradient along which steps are possible."""

    def equalise(self, gradient: FloatArray) -> FloatArray:
        """The step that solves ``H step = gradient``."""

    def newton(self, gradient: FloatArray, face: Face, sigma: float, damping: float) -> FloatArray:
        """The step that solves ``(H + sigma D + damping) step = gradient``, D the face's slope."""


@dataclass(frozen=True, eq=False)
class ManyGroups(LocalModel):
    """A local model whose H has the structure of many groups."""

    curvature: Curvature

    @property
    def unit(self) -> float:
        """Mean of the diagonal of H."""
        return self.curvature.unit

    def after(self, step: FloatArray) -> FloatArray:
        """The rates that the model expects after a step of the multipliers, (M, K)."""
        return self.rates - self.curvature(step)


@dataclass(frozen=True, eq=False)
class ByGroup:
    """A positive definite matrix for each group, (M, K, K).

    Multipliers add up to zero over the groups, unless they are ``free``, as those of a cone.
    """

    blocks: FloatArray
    free: bool = False

    @property
    def unit(self) -> float:
        """Mean of the diagonal."""
        return float(np.einsum("gkk->gk", self.blocks).mean())

    def __call__(self, step: FloatArray) -> FloatArray:
        """Group by group."""
        return self.along(np.einsum("gkl,gl->gk", self.blocks, step))

    def along(self, gradient: FloatArray) -> FloatArray:
        """Less the mean over groups."""
        return gradient if self.free else np.asarray(gradient - gradient.mean(axis=0))

    def equalise(self, gradient: FloatArray) -> FloatArray:
        """Group by group, to a level that is common to all."""
        inverse = np.linalg.inv(self.blocks)
        step = np.einsum("gkl,gl->gk", inverse, gradient)
        return np.asarray(step - inverse @ np.linalg.solve(inverse.sum(axis=0), step.sum(axis=0)))

    def newton(self, gradient: FloatArray, face: Face, sigma: float, damping: float) -> FloatArray:
        """By the Woodbury identity: D is diagonal but for a few pools and normals."""
        M, K = gradient.shape
        clusters = np.arange(K)
        alone = face.sizes[face.pools] == 1
        blocks = self.blocks.copy()
        blocks[:, clusters, clusters] += damping + sigma * alone
        shared = np.flatnonzero(face.sizes > 1)
        n_pools, n_normals, n_sums = len(shared), len(face.normals), 0 if self.free else K
        # Side by side: the gradient, the sum of each cluster, the pools, the normals.
        columns = np.zeros((M, K, 1 + n_sums + n_pools + n_normals))
        columns[:, :, 0] = gradient
        if not self.free:
            columns[:, clusters, 1 + clusters] = 1.0
        column_of = np.zeros(len(face.sizes), dtype=np.intp)
        column_of[shared] = 1 + n_sums + np.arange(n_pools)
        g, k = np.nonzero(~alone)
        pool = face.pools[g, k]
        columns[g, k, column_of[pool]] = face.directions[g, k]
        columns[:, :, 1 + n_sums + n_pools :] = face.normals.transpose(1, 2, 0)
        found = np.linalg.solve(blocks, columns).reshape(M * K, -1)
        products = columns.reshape(M * K, -1)[:, 1:].T @ found
        # Sums are zero, pools count with plus and normals with minus sigma.
        terms = np.concatenate([np.zeros(n_sums), np.ones(n_pools), -np.ones(n_normals)]) / sigma
        weights = np.linalg.solve(products[:, 1:] + np.diag(terms), products[:, 0])
        return np.asarray((found[:, 0] - found[:, 1:] @ weights).reshape(M, K))


@dataclass(frozen=True, eq=False)
class ByContrast:
    """A positive definite matrix (R K, R K) over R contrasts, the columns of a basis (M, R).

    Contrasts are orthonormal, and each adds up to zero, unless multipliers need not. Steps are
    along them.
    """

    basis: FloatArray
    inner: FloatArray

    @property
    def unit(self) -> float:
        """Mean of the diagonal over all groups."""
        n_clusters = len(self.inner) // self.basis.shape[1]
        return float(np.trace(self.inner) / (len(self.basis) * n_clusters))

    def _back(self, coordinates: FloatArray) -> FloatArray:
        return np.asarray(self.basis @ coordinates.reshape(self.basis.shape[1], -1))

    def __call__(self, step: FloatArray) -> FloatArray:
        """Through the contrasts."""
        return self._back(self.inner @ (self.basis.T @ step).ravel())

    def along(self, gradient: FloatArray) -> FloatArray:
        """What the contrasts see."""
        return self._back(self.basis.T @ gradient)

    def equalise(self, gradient: FloatArray) -> FloatArray:
        """Through the contrasts."""
        return self._back(np.linalg.solve(self.inner, (self.basis.T @ gradient).ravel()))

    def newton(self, gradient: FloatArray, face: Face, sigma: float, damping: float) -> FloatArray:
        """By a matrix over contrasts and clusters."""
        (M, R), K = self.basis.shape, gradient.shape[1]
        clusters = np.arange(K)
        # All clusters at once, for each product alone takes hardly longer than calling it. The
        # pools of a cluster have consecutive numbers.
        pool = face.pools - face.pools.min(axis=0)
        shares = np.zeros((K, M, M))
        shares[clusters, pool, np.arange(M)[:, None]] = face.directions
        sums = shares @ self.basis
        matrix = self.inner.reshape(R, K, R, K).copy()
        matrix[:, clusters, :, clusters] += sigma * (sums.transpose(0, 2, 1) @ sums)
        flat = matrix.reshape(R * K, R * K)
        normals = (self.basis.T @ face.normals).reshape(-1, R * K)
        flat -= (sigma * normals.T) @ normals
        flat[np.arange(R * K), np.arange(R * K)] += damping
        return self._back(np.linalg.solve(flat, (self.basis.T @ gradient).ravel()))


class Demand(Protocol):
    """What the rates shall fulfil: a penalty of them, also one that only forbids."""

    def nearest(self, rates: FloatArray, sigma: float) -> FloatArray:
        """``argmin_x |x - rates|^2 / 2 + sigma penalty(x)``."""

    def face(self, rates: FloatArray, nearest: FloatArray) -> Face:
        """The derivative of ``nearest``."""

    def penalty(self, rates: FloatArray) -> float:
        """Its value at rates that are not forbidden."""


class Accuracy(NamedTuple):
    """When a solution is good enough.

    Attributes
    ----------
    tol : float
        Accuracy in rates.
    share : float
        Also enough: this share of how far the rates are from those of a solution at the start.
    evaluations : int
        Projections at most, whatever the accuracy.
    """

    tol: float = 1e-7
    share: float = 0.0
    evaluations: int = 2000


def many_multipliers(model: ManyGroups, demand: Demand, accuracy: Accuracy) -> FloatArray:
    """Multipliers that minimise the local model; h is the conjugate of the demand's penalty."""
    multipliers, rates, curvature = model.multipliers, model.rates, model.curvature
    sigma = unit = max(curvature.unit, 1e-12)
    # The rates themselves, where multipliers solve the dual already.
    c = demand.nearest(rates + sigma * multipliers, sigma)
    tol = max(accuracy.tol, accuracy.share * float(np.abs(rates - c).max()))
    now, left = multipliers, accuracy.evaluations

    def evaluate(point: FloatArray) -> State:
        nonlocal left
        left -= 1
        d = point - multipliers
        bent = curvature(d)
        w = c + sigma * point
        nearest = demand.nearest(w, sigma)
        away = w - nearest
        value = np.vdot(0.5 * bent - rates, d) - demand.penalty(nearest)
        value += (np.vdot(w, w) - np.vdot(away, away)) / (2 * sigma)
        return State(float(value), curvature.along(bent - rates + nearest), nearest, w)

    while left > 0:
        state = evaluate(now)
        while left > 0:
            steepest = float(np.abs(state.gradient).max())
            # No more exact than the rates of this round are themselves.
            if steepest < 0.3 * max(tol, float(np.abs(state.nearest - c).max())):
                break
            damping = damping_of(sigma, steepest)
            face = demand.face(state.w, state.nearest)
            step = -curvature.newton(state.gradient, face, sigma, damping)
            slope = float(np.vdot(state.gradient, step))
            now, state = backtrack(evaluate, now, state, step, slope, to_the_bend)
            if -slope < 1e-17:
                break
        moved = float(np.abs(state.nearest - c).max())
        c = state.nearest
        if moved < tol:
            break
        sigma = min(2 * sigma, HIGHEST_PRICE * unit)
    return now
