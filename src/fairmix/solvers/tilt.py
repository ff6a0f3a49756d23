"""The tilt of an assignment: multipliers, what a pass says at them, and Newton steps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag

from fairmix.kernels import Sweep
from fairmix.kernels.totals import FEW_GROUPS, Block, FloatArray, Logits, Membership, Totals
from fairmix.solvers.local_model import FewGroups
from fairmix.solvers.many import ByContrast, ByGroup, ManyGroups
from fairmix.solvers.quadratic import Constraint
from fairmix.tables import Rowlike

# Contrasts between groups along which a blind map of many groups is tilted: those that x tells most
# of. What is beyond them is hardly more than chance, and steps along all would grow with M cubed.
MOST_CONTRASTS = 24
# Steps that find them, each a product, and how many more vectors than contrasts take part: five to
# ten more are what Halko, Martinsson and Tropp (2011) advise, and a few steps where the variances
# fall slowly. Only about the widest contrasts are needed.
SUBSPACE_STEPS = 4
SPARE_VECTORS = 8
# Added to the curvature of many groups, as a share of its mean. Where a group has no row near a
# boundary, or a contrast next to no variance, steps would else be far longer than what they gain.
FLOOR = 1e-2


@dataclass(frozen=True, eq=False)
class Knowledge:
    """What a map knows of the groups: moments of rho over the rows.

    ``share`` (M,) is the mean of rho. ``covariance`` (M, M) is that of a blind map; None for an
    aware one, whose rho is one or zero. ``free``: multipliers need not add up to zero over the
    groups, because the allowed rates are a cone. ``membership``: the groups are those of several
    attributes.
    """

    share: FloatArray
    covariance: FloatArray | None
    free: bool = False
    membership: Membership | None = None

    @cached_property
    def basis(self) -> FloatArray:
        """Orthonormal contrasts between groups along which steps go, (M, R); all, where free."""
        n_groups = len(self.share)
        if self.membership is not None:
            counts = self.membership.counts
            return np.eye(n_groups) if self.free else block_diag(*map(_contrast_basis, counts))
        if self.covariance is None or n_groups - 1 <= MOST_CONTRASTS:
            return np.eye(n_groups) if self.free else _contrast_basis(n_groups)
        return _widest(self.spread / np.outer(self.share, self.share), free=self.free)

    @cached_property
    def spread(self) -> FloatArray:
        """By which the logits of rows of a blind map move, (M, M).

        Offsets of a cone also move a cluster as a whole, so all of the second moment counts.
        """
        assert self.covariance is not None
        return self.covariance + np.outer(self.share, self.share) if self.free else self.covariance

    @cached_property
    def contrasts(self) -> FloatArray:
        """The same on offsets, (R, M)."""
        return self.basis.T / self.share


# Of tables that are in use: the climbs of a search begin on the same rows again and again.
_KNOWN: WeakKeyDictionary[Rowlike, Knowledge] = WeakKeyDictionary()


# Clusters of less than this share of a mean one are judged as if they had as much: of fewer rows
# single ones decide, and counting them comes later.
SMALLEST = 0.02


@dataclass(frozen=True, eq=False)
class Tilt:
    """Multipliers lambda (M x K) of a table, and their offsets ``v = -lambda / share``.

    Attributes
    ----------
    table : Rowlike
        The rows whose rates count. Blind when its blocks carry a propensity, else aware.
    multipliers : (M, K) array
        lambda; zeros are no tilt.
    knowledge : Knowledge
        Found once, by a sweep over the rows; tilts of the same rows share it.
    """

    table: Rowlike
    multipliers: FloatArray
    knowledge: Knowledge

    @classmethod
    def of(
        cls,
        table: Rowlike,
        n_components: int,
        multipliers: FloatArray | None = None,
        *,
        free: bool = False,
    ) -> Tilt:
        """Of a table and its K components; without multipliers there is no tilt yet."""
        zeros = np.zeros((len(table.group_sizes), n_components))
        known = _KNOWN.get(table)
        if known is None or known.free != free:
            known = replace(_knowledge(table), free=free, membership=table.membership)
            _KNOWN[table] = known
        return cls(table, zeros if multipliers is None else multipliers, known)

    def on(self, table: Rowlike) -> Tilt:
        """The same offsets for other rows of the same kind."""
        return replace(self, table=table)

    def at(self, multipliers: FloatArray) -> Tilt:
        """Other multipliers of the same rows."""
        return replace(self, multipliers=multipliers)

    def moved(self, offsets: FloatArray) -> Tilt:
        """With so much added to the offsets, (M, K)."""
        return self.at(self.multipliers - offsets * self.share[:, None])

    @property
    def share(self) -> FloatArray:
        """Mean of rho over the rows, (M,)."""
        return self.knowledge.share

    @property
    def many(self) -> bool:
        """Whether there are so many groups that their structure is used, not a full matrix.

        Groups of several attributes share rows, so they do not have this structure.
        """
        return len(self.multipliers) > FEW_GROUPS and self.knowledge.membership is None

    @property
    def offsets(self) -> FloatArray:
        """v, (M, K)."""
        return np.asarray(-self.multipliers / self.share[:, None])

    @property
    def aware(self) -> bool:
        """Whether the map sees the groups: rho is one or zero."""
        return self.knowledge.covariance is None

    @property
    def countable(self) -> bool:
        """Whether the label of a row depends on the offsets of one group only."""
        return self.aware and self.knowledge.membership is None

    @property
    def _by_group(self) -> bool:
        """Whether the curvature is one matrix for each group: nothing is left between groups.

        With few groups whose multipliers are contrasts, a matrix over these is quicker.
        """
        return self.countable and (self.many or self.knowledge.free)

    def sweep(
        self,
        logits: Logits,
        temperature: float,
        *,
        alpha: float = 1.0,
        hard: bool = False,
        curved: bool = True,
    ) -> Sweep:
        """A pass with the tilt, its masses and curvature; labels exact, the rest rounded."""
        within = curved and self._by_group
        return Sweep(
            logits,
            offsets=self.offsets,
            alpha=alpha,
            temperature=temperature,
            likelihood=False,
            hard=hard,
            contrasts=self.knowledge.contrasts if curved and not within else None,
            within_groups=within,
            rough=True,
        )

    def e_step(self, logits: Logits, temperature: float) -> Sweep:
        """An E-step with the tilt, on any rows of its kind."""
        return Sweep(
            logits, offsets=self.offsets, temperature=temperature, likelihood=False, rough=True
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

    def _model(
        self, rates: FloatArray, totals: Totals, temperature: float
    ) -> FewGroups | ManyGroups:
        """The dual around the multipliers, with its Hessian in lambda."""
        n_clusters, free = self.multipliers.shape[1], self.knowledge.free
        if self._by_group:
            # The rows of a group at each offset; those aside have no rates that count.
            blocks = totals.curvature / (temperature * self.table.group_sizes)[:, None, None]
            if not self.many:
                blocks = blocks / self.share[:, None, None]
                return FewGroups(self.multipliers, rates, _side_by_side(blocks))
            spread = float(np.einsum("gkk,g->", blocks, self.share)) / n_clusters
            floor = max(FLOOR * spread, 1e-12)
            blocks = (blocks + floor * np.eye(n_clusters)) / self.share[:, None, None]
            return ManyGroups(self.multipliers, rates, ByGroup(blocks, free))
        basis, inner = self.knowledge.basis, totals.curvature / (totals.weight * temperature)
        if self.many:
            size = len(inner) * n_clusters
            inner = inner.reshape(size, size)
            floor = max(FLOOR * np.trace(inner) / size, 1e-12)
            curvature = ByContrast(basis, inner + floor * np.eye(size))
            return ManyGroups(self.multipliers, rates, curvature)
        n_groups, n_contrasts = basis.shape
        half = basis @ inner.reshape(n_contrasts, -1)
        outer = basis @ half.reshape(n_groups, n_clusters, n_contrasts, n_clusters)
        size = self.multipliers.size
        return FewGroups(self.multipliers, rates, outer.reshape(size, size))

    def _unit(self, rates: FloatArray, totals: Totals, temperature: float) -> float:
        """Mean of the diagonal of that Hessian."""
        if self._by_group or self.many:
            return self._model(rates, totals, temperature).unit
        # The basis is orthonormal, so the sum of the diagonal is that along the contrasts.
        size = len(totals.curvature) * self.multipliers.shape[1]
        diagonal = totals.curvature.reshape(-1)[:: size + 1]
        return float(diagonal.sum()) / (totals.weight * temperature * self.multipliers.size)

    def residual(
        self, rates: FloatArray, totals: Totals, temperature: float, constraint: Constraint
    ) -> float:
        """How far the multipliers are from solving the dual, in units of rates."""
        unit = self._unit(rates, totals, temperature)
        nearest = constraint.nearest(rates + unit * self.multipliers, unit)
        missing = np.abs(rates - nearest).max(axis=0)
        if self.knowledge.free and self.aware:
            # A ratio is a matter of the rows of its cluster, however few. Those of a small one of a
            # blind map are not its own to choose, and exact tilts for it cost the others too much.
            missing = missing / np.clip(rates.mean(axis=0) * len(missing), SMALLEST, 1.0)
        return float(missing.max())

    def step(
        self,
        rates: FloatArray,
        totals: Totals,
        temperature: float,
        constraint: Constraint,
        reach: float,
        factors: FloatArray | None = None,
    ) -> Tilt:
        """After a Newton step on the dual, cut so that no row moves by more than ``reach``.

        ``reach`` is in temperatures. ``factors`` (K,): where it is more than zero, no row is near a
        cluster, so it is cut by itself, to so many reaches, and does not hold back the others.
        """
        new = constraint.multipliers(self._model(rates, totals, temperature))
        step, most = new - self.multipliers, reach * temperature
        if factors is None or not factors.any():
            return self.at(self.multipliers + min(1.0, most / self.movement(step).max()) * step)
        near = factors == 0
        if near.any() and not self.knowledge.free:
            shared = step[:, near].sum(axis=1, keepdims=True) / near.sum()
            if np.abs(shared / self.share[:, None]).max() > most:
                # What all others share moves no row.
                step = step - shared
        movement = self.movement(step, near)
        length = min(1.0, most / movement[near].max()) if near.any() else 1.0
        lengths = np.where(near, length, np.minimum(1.0, most * factors / movement))
        return self.at(self.multipliers + lengths * step)

    def ends(
        self, rates: FloatArray, totals: Totals, temperature: float, constraint: Constraint
    ) -> FloatArray:
        """Where a whole Newton step should bring the rates, which add up to one for each group."""
        model = self._model(rates, totals, temperature)
        ends = model.after(constraint.multipliers(model) - self.multipliers)
        ends = np.maximum(ends, 0.0)
        return np.asarray(ends / ends.sum(axis=1, keepdims=True))

    def movement(self, step: FloatArray, near: NDArray[np.bool_] | None = None) -> FloatArray:
        """By how much a change of multipliers moves the logits of a row, cluster by cluster, (K,).

        Against the mean of all clusters, or of those that are ``near``. Aware: the largest offset.
        Blind: three standard deviations over the rows, because a propensity hardly ever comes near
        zero or one.
        """
        v = step / self.share[:, None]
        others = v if near is None or not near.any() else v[:, near]
        v = v - others.sum(axis=1, keepdims=True) / others.shape[1]
        if self.aware:
            known = self.knowledge.membership
            # The offsets of a row's groups add up, one of each attribute.
            parts = [slice(None)] if known is None else known.parts
            moved = np.sum([np.abs(v[part]).max(axis=0) for part in parts], axis=0)
            return np.asarray(np.maximum(moved, 1e-300))
        # Three: what next to no row exceeds.
        variance = (v * (self.knowledge.spread @ v)).sum(axis=0)
        return np.asarray(np.maximum(3 * np.sqrt(np.maximum(variance, 0.0)), 1e-300))


def _side_by_side(blocks: FloatArray) -> FloatArray:
    """A matrix with these (M, K, K) on its diagonal; SciPy's takes ten times as long."""
    n_groups, n_clusters, _ = blocks.shape
    out = np.zeros((n_groups, n_clusters, n_groups, n_clusters))
    groups = np.arange(n_groups)
    out[groups, :, groups] = blocks
    return out.reshape(n_groups * n_clusters, -1)


def _contrast_basis(n_groups: int) -> FloatArray:
    """Orthonormal basis of the vectors that add up to zero, (M, M - 1)."""
    # Helmert's, with zeros that are exact: products with 1e-17 would be denormal numbers.
    rank = np.arange(1, n_groups)
    columns = np.triu(np.ones((n_groups, n_groups - 1)))
    columns[rank, rank - 1] = -rank
    return np.asarray(columns / np.sqrt(rank * (rank + 1)))


def _widest(variance: FloatArray, *, free: bool = False) -> FloatArray:
    """Orthonormal contrasts with about the largest variance, by subspace iteration."""
    n_groups = len(variance)
    width = min(MOST_CONTRASTS + SPARE_VECTORS, n_groups - 1)
    vectors = np.random.default_rng(0).normal(size=(n_groups, width))
    for _ in range(SUBSPACE_STEPS):
        # What is orthogonal to a column of ones adds up to zero, whatever the rank.
        ones = np.ones((n_groups, 0 if free else 1))
        columns = np.column_stack([ones, variance @ vectors])
        vectors = np.linalg.qr(columns)[0][:, ones.shape[1] :]
    largest = np.linalg.eigh(vectors.T @ variance @ vectors)[1][:, ::-1]
    return np.asarray(vectors @ largest[:, :MOST_CONTRASTS])


def _knowledge(table: Rowlike) -> Knowledge:
    """By a sweep over the rows."""

    def moments(block: Block) -> tuple[FloatArray, FloatArray, bool] | None:
        if block.propensity is None:
            return None
        rho = block.propensity.astype(np.float64)
        weighted = rho if block.weight is None else rho * block.weight
        # Rows aside have probabilities also in an aware map.
        aware = bool((rho[block.members.T > 0] == 1).all())
        return weighted.sum(axis=1), weighted @ rho.T, aware

    found = [triple for triple in table.each(moments) if triple is not None]
    if not found:
        return Knowledge(table.group_sizes / table.weight_sum, None)
    first, second, aware = zip(*found, strict=True)
    mean = np.sum(first, axis=0) / table.weight_sum
    # An aware map knows all but the rows that stand aside.
    if all(aware):
        return Knowledge(mean, None)
    return Knowledge(mean, np.sum(second, axis=0) / table.weight_sum - np.outer(mean, mean))
