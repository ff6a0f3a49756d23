"""The tilt of an assignment: multipliers, what a pass says at them, and Newton steps."""

from __future__ import annotations

from copy import copy
from functools import cached_property

import numpy as np

from fairmix.kernels.totals import FEW_GROUPS, Block, FloatArray, Logits, Totals
from fairmix.solvers.many import ByContrast, ByGroup, Curvature
from fairmix.solvers.quadratic import Constraint
from fairmix.tables import Rowlike

# Contrasts between groups along which a blind map of many groups is tilted: those that x tells most
# of. What is beyond them is hardly more than chance, and steps along all would grow with M cubed.
MOST_CONTRASTS = 24
# Steps that find them, each a product, and how many more vectors than contrasts take part.
SUBSPACE_STEPS = 4
SPARE_VECTORS = 8
# Added to the curvature of many groups, as a share of its mean. Where a group has no row near a
# boundary, or a contrast next to no variance, steps would else be far longer than what they gain.
FLOOR = 1e-2


class Tilt:
    """Multipliers lambda (M x K) of a table, and their offsets ``v = -lambda / share``.

    Parameters
    ----------
    table : Rowlike
        The rows whose rates count. Blind when its blocks carry a propensity, else aware.
    n_components : int
        K.
    multipliers : (M, K) array or None
        Start; None is no tilt.
    """

    def __init__(
        self, table: Rowlike, n_components: int, multipliers: FloatArray | None = None
    ) -> None:
        self.table = table
        n_groups = len(table.group_sizes)
        self.many = n_groups > FEW_GROUPS
        zeros = np.zeros((n_groups, n_components))
        self.multipliers = zeros if multipliers is None else multipliers
        self.share, self.covariance = _group_moments(table)

    @cached_property
    def basis(self) -> FloatArray:
        """Orthonormal contrasts between groups along which steps go, (M, R)."""
        n_groups = len(self.share)
        if self.covariance is None or n_groups - 1 <= MOST_CONTRASTS:
            return _contrast_basis(n_groups)
        return _widest(self.covariance / np.outer(self.share, self.share))

    @cached_property
    def contrasts(self) -> FloatArray:
        """The same on offsets, (R, M)."""
        return self.basis.T / self.share

    def on(self, table: Rowlike) -> Tilt:
        """The same offsets for other rows of the same kind."""
        other = copy(self)
        other.table = table
        return other

    @property
    def offsets(self) -> FloatArray:
        """v, (M, K)."""
        return self.offsets_of(self.multipliers)

    def offsets_of(self, multipliers: FloatArray) -> FloatArray:
        """Offsets that belong to multipliers."""
        return -multipliers / self.share[:, None]

    @property
    def aware(self) -> bool:
        """Whether the label of a row depends on the offsets of its own group only."""
        return self.covariance is None

    def measure(
        self,
        logits: Logits,
        temperature: float,
        *,
        alpha: float = 1.0,
        hard: bool = False,
        curved: bool = True,
    ) -> Totals:
        """One pass with the tilt, its masses and curvature; labels exact, the rest rounded."""
        within = curved and self.many and self.aware
        return self.table.softmax_pass(
            logits,
            offsets=self.offsets,
            alpha=alpha,
            temperature=temperature,
            likelihood=False,
            hard=hard,
            contrasts=self.contrasts if curved and not within else None,
            within_groups=within,
            rough=True,
        )

    def expect(self, table: Rowlike, logits: Logits, temperature: float) -> Totals:
        """E-step with the tilt on another table."""
        return table.softmax_pass(
            logits,
            offsets=self.offsets,
            temperature=temperature,
            likelihood=False,
            rough=True,
        )

    def rates(self, totals: Totals) -> FloatArray:
        """Rates of the responsibilities, by the real groups."""
        return np.asarray(totals.mass / self.table.group_sizes[:, None])

    def hard_rates(self, totals: Totals) -> FloatArray:
        """Rates of the hard labels, by the real groups."""
        return np.asarray(totals.hard_mass / self.table.group_sizes[:, None])

    def value(self, totals: Totals) -> float:
        """The primal objective per row: expected log-density plus tempered entropy."""
        model_rates = totals.model_mass / (self.share[:, None] * totals.weight)
        return float(totals.normaliser / totals.weight + np.vdot(self.multipliers, model_rates))

    def _curvature(self, totals: Totals, temperature: float) -> FloatArray | Curvature:
        """Hessian of the dual in lambda; of few groups as a matrix, (M K, M K)."""
        n_clusters = self.multipliers.shape[1]
        if self.many and self.aware:
            # The rows of a group at each offset; those aside have no rates that count.
            blocks = totals.curvature / (temperature * self.table.group_sizes)[:, None, None]
            spread = float(np.einsum("gkk,g->", blocks, self.share)) / n_clusters
            floor = max(FLOOR * spread, 1e-12)
            blocks = (blocks + floor * np.eye(n_clusters)) / self.share[:, None, None]
            return ByGroup(blocks)
        inner = totals.curvature / (totals.weight * temperature)
        if self.many:
            size = len(inner) * n_clusters
            inner = inner.reshape(size, size)
            floor = max(FLOOR * np.trace(inner) / size, 1e-12)
            return ByContrast(self.basis, inner + floor * np.eye(size))
        half = np.tensordot(self.basis, inner, axes=1)
        outer = np.tensordot(half, self.basis, axes=(2, 1)).transpose(0, 1, 3, 2)
        return outer.reshape(self.multipliers.size, self.multipliers.size)

    def residual(
        self, rates: FloatArray, totals: Totals, temperature: float, constraint: Constraint
    ) -> float:
        """How far the multipliers are from solving the dual, in units of rates."""
        curvature = self._curvature(totals, temperature)
        if isinstance(curvature, np.ndarray):
            unit = np.trace(curvature) / self.multipliers.size
        else:
            unit = curvature.unit
        nearest = constraint.nearest(rates + unit * self.multipliers, float(unit))
        return float(np.abs(rates - nearest).max())

    def step(
        self,
        rates: FloatArray,
        totals: Totals,
        temperature: float,
        constraint: Constraint,
        reach: float,
    ) -> None:
        """A Newton step on the dual, cut so that no row's tilt moves by more than ``reach``."""
        curvature = self._curvature(totals, temperature)
        new = constraint.multipliers(self.multipliers, rates, curvature)
        step = new - self.multipliers
        length = min(1.0, reach * temperature / self.movement(step))
        self.multipliers = self.multipliers + length * step

    def movement(self, step: FloatArray) -> float:
        """By how much a change of multipliers moves the logits of a row.

        Aware: the largest offset. Blind: three standard deviations over the rows, because a
        propensity hardly ever comes near zero or one.
        """
        v = step / self.share[:, None]
        v = v - v.mean(axis=1, keepdims=True)
        if self.covariance is None:
            return max(float(np.abs(v).max()), 1e-300)
        variance = np.einsum("gk,gh,hk->k", v, self.covariance, v)
        return max(3 * float(np.sqrt(max(variance.max(), 0.0))), 1e-300)


def _contrast_basis(n_groups: int) -> FloatArray:
    """Orthonormal basis of the vectors that add up to zero, (M, M - 1)."""
    columns = np.column_stack([np.ones(n_groups), np.eye(n_groups)[:, : n_groups - 1]])
    return np.asarray(np.linalg.qr(columns)[0][:, 1:])


def _widest(variance: FloatArray) -> FloatArray:
    """Orthonormal contrasts with about the largest variance, by subspace iteration."""
    n_groups = len(variance)
    width = min(MOST_CONTRASTS + SPARE_VECTORS, n_groups - 1)
    vectors = np.random.default_rng(0).normal(size=(n_groups, width))
    for _ in range(SUBSPACE_STEPS):
        # What is orthogonal to a column of ones adds up to zero, whatever the rank.
        columns = np.column_stack([np.ones(n_groups), variance @ vectors])
        vectors = np.linalg.qr(columns)[0][:, 1:]
    largest = np.linalg.eigh(vectors.T @ variance @ vectors)[1][:, ::-1]
    return np.asarray(vectors @ largest[:, :MOST_CONTRASTS])


def _group_moments(table: Rowlike) -> tuple[FloatArray, FloatArray | None]:
    """Mean of rho over the rows and, for a blind map, its covariance."""

    def moments(block: Block) -> tuple[FloatArray, FloatArray, bool] | None:
        if block.propensity is None:
            return None
        rho = block.propensity.astype(np.float64)
        weighted = rho if block.weight is None else rho * block.weight
        compared = np.flatnonzero(block.groups < block.n_groups)
        aware = bool((rho[block.groups[compared], compared] == 1).all())
        return weighted.sum(axis=1), weighted @ rho.T, aware

    found = [triple for triple in table.each(moments) if triple is not None]
    if not found:
        return table.group_sizes / table.weight_sum, None
    first, second, aware = zip(*found, strict=True)
    mean = np.sum(first, axis=0) / table.weight_sum
    # An aware map knows all but the rows that stand aside.
    if all(aware):
        return mean, None
    return mean, np.sum(second, axis=0) / table.weight_sum - np.outer(mean, mean)
