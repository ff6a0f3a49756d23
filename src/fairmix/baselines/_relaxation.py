"""Relaxation: soft assignments that trade cost for fairness, by bound updates.

With soft assignments s[i, k], masses m[g, k] of the groups in the clusters and shares U[g] of the
groups in all, the energy is

    E(s) = mean cost + strength * sum_k KL(U || m[:, k] / sum_g m[g, k])

Its linear part at s, plus L times the Kullback-Leibler divergence from s, is an upper bound where
L is large enough, and is least at

    s[i, k] * exp(-(a[i, k] + b[g, k]) / L),  a the costs, b the slope of the fairness term

up to scale. So after any number of updates s is a softmax of ``-sharpness * a - tilt[g]``: all
there is to keep are one number and an (M, K) table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fairmix.kernels.totals import FloatArray, IntArray

BLOCK = 8192  # rows at a time: their costs stay in cache
# The Lipschitz constant doubles when the energy would rise, and falls by this after each update:
# slowly, because each doubling costs a look at all rows, and 23 updates undo one.
RELAX = 0.97
# Steps that are 2^-60 of the first one change no digit of a float any more.
MAX_DOUBLINGS = 60
# Mass, as a share of all, that every group has in every cluster, so that logarithms exist.
PSEUDO_MASS = 1e-12
# Logits below the largest of a row: exp(-44) is less than the rounding of a sum with one.
LOWEST = -44.0


class State(NamedTuple):
    """A soft assignment, its energy and its masses (M, K)."""

    sharpness: float
    tilt: FloatArray
    energy: float
    mass: FloatArray


@dataclass(frozen=True, eq=False)
class Relaxation:
    """Energy of soft assignments for fixed costs.

    Attributes
    ----------
    blocks : list of (group, costs of shape (K, n), weights of shape (n,))
        Rows, by group. Weights sum to 1 over all.
    shares : (M,) array
        Share of each group in all.
    strength : float
        Weight of the fairness term.
    """

    blocks: list[tuple[int, FloatArray, FloatArray]]
    shares: FloatArray
    strength: float

    @classmethod
    def of(
        cls, costs: FloatArray, codes: IntArray, weight: FloatArray, strength: float
    ) -> Relaxation:
        """Relaxation for costs (N, K) of rows that are sorted by group."""
        weight = weight / weight.sum()
        shares = np.asarray(np.bincount(codes, weights=weight), dtype=np.float64)
        ends = np.searchsorted(codes, np.arange(len(shares)), side="right").tolist()
        blocks, low = [], 0
        for group, end in enumerate(ends):
            for start in range(low, end, BLOCK):
                rows = slice(start, min(start + BLOCK, end))
                # Clusters first: sums over clusters then add whole rows of memory. A block has one
                # group, so its tilt is one vector.
                blocks.append((group, np.ascontiguousarray(costs[rows].T), weight[rows]))
            low = end
        return cls(blocks, shares, strength)

    def state(self, sharpness: float, tilt: FloatArray) -> State:
        """Energy and masses of the softmax of ``-sharpness * costs - tilt``."""
        mass, cost = np.zeros_like(tilt), 0.0
        for group, block, weight in self.blocks:
            s = _softmax_numerator(block, sharpness, tilt[group])
            # Weights and normalisation in one factor, so that s itself is never divided.
            scale = weight / s.sum(axis=0)
            mass[group] += s @ scale
            s *= block
            cost += float(s.sum(axis=0) @ scale)
        return State(sharpness, tilt, cost + self.strength * unfairness(mass, self.shares), mass)

    def slope(self, mass: FloatArray) -> FloatArray:
        """Derivative of the fairness term by the masses, (M, K)."""
        shares = self.shares[:, None]
        return np.asarray(
            self.strength
            * (1 / (mass.sum(axis=0) + PSEUDO_MASS) - shares / (mass + PSEUDO_MASS * shares))
        )

    def soft_assignments(self, state: State) -> FloatArray:
        """Soft assignments (N, K) times weights."""
        parts = []
        for group, block, weight in self.blocks:
            s = _softmax_numerator(block, state.sharpness, state.tilt[group])
            parts.append((s * (weight / s.sum(axis=0))).T)
        return np.concatenate(parts)


def unfairness(mass: FloatArray, shares: FloatArray) -> float:
    """Sum over clusters of the divergence of the groups' shares there from those in all."""
    part = shares[:, None]
    # The pseudo-mass is divided like the groups in all rows, so an empty
    # cluster adds no divergence.
    ratio = (mass.sum(axis=0) + PSEUDO_MASS) / (mass + PSEUDO_MASS * part)
    return float((part * np.log(part * ratio)).sum())


def _softmax_numerator(block: FloatArray, sharpness: float, tilt: FloatArray) -> FloatArray:
    s = block * -sharpness
    s -= tilt[:, None]
    # The largest exponent is then 0, so exp cannot overflow.
    s -= s.max(axis=0)
    # What is farther below is nothing beside the largest, and denormal numbers are slow.
    np.maximum(s, LOWEST, out=s)
    np.exp(s, out=s)
    return s


class Descent(NamedTuple):
    """Where bound updates end, the energy after each, and whether they converged."""

    state: State
    energies: list[float]
    converged: bool


def descend(
    relaxation: Relaxation, n_clusters: int, *, lipschitz: float, max_iter: int, tol: float
) -> Descent:
    """Bound updates from the softmax of the negative costs; the energy never rises.

    Converged when an update gains less than ``tol`` of the energy for a step of length 1.
    """
    tilt = np.zeros((len(relaxation.shares), n_clusters))
    state = relaxation.state(1.0, tilt)
    energies = [state.energy]
    for _ in range(max_iter):
        # One slope for all trials: it belongs to the point, and only the step gets shorter.
        slope = relaxation.slope(state.mass)
        for _ in range(MAX_DOUBLINGS):
            after = relaxation.state(
                state.sharpness + 1 / lipschitz, state.tilt + slope / lipschitz
            )
            if after.energy <= state.energy:
                break
            lipschitz *= 2
        else:  # only rounding is left
            return Descent(state, energies, True)
        gain, state = state.energy - after.energy, after
        energies.append(state.energy)
        # Times L, or a short step would look like convergence.
        if gain * lipschitz <= tol * state.energy:
            return Descent(state, energies, True)
        lipschitz *= RELAX
    return Descent(state, energies, False)
