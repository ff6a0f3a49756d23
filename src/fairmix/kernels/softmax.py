"""The softmax pass on one block, in NumPy: the definition of what every kernel computes.

With logits ``l_ik = b_k + <W_k, T(x_i)>``, group weights rho, offsets v (M x K), temperature tau::

    psi_i = softmax((l_i + sum_g rho_g(i) v_g) / tau)
    q_ik  = psi_ik (alpha + (V[g_i, k] - sum_l psi_il V[g_i, l]) / tau)

``forward`` gives psi and what needs only psi; ``backward`` gives the sums of q. alpha = 1 and no
pull is the E-step; alpha = 0 with pull V = dC/dm is the gradient of a criterion C of the masses.

Arrays are cluster-major (K x n), so reductions over clusters run along contiguous memory.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairmix.totals import Block, FloatArray, IntArray, Logits, Totals

# exp of this is nothing beside one. Cold logits go far below it, where exp underflows slowly.
NEGLIGIBLE = -80.0


@dataclass(frozen=True, slots=True, eq=False)
class Forward:
    """Responsibilities psi (K, n) of a block and the sums that need only them."""

    psi: FloatArray
    weight: float
    log_likelihood: float
    normaliser: float
    mass: FloatArray
    model_mass: FloatArray
    hard_mass: FloatArray
    curvature: FloatArray

    def totals(self, sums: Logits) -> Totals:
        """Totals of the block, given its sums of q."""
        return Totals(
            weight=self.weight,
            log_likelihood=self.log_likelihood,
            normaliser=self.normaliser,
            mass=self.mass,
            model_mass=self.model_mass,
            sums=sums,
            hard_mass=self.hard_mass,
            curvature=self.curvature,
        )


def affine(block: Block, logits: Logits) -> FloatArray:
    """Logits of a block, (K, n)."""
    dense, codes = block.features
    W = logits.W.astype(block.dtype, copy=False)
    b = logits.b.astype(block.dtype, copy=False)
    split = 0 if dense is None else dense.shape[1]
    if dense is None:
        out: FloatArray = np.repeat(b[:, None], block.n_rows, axis=1)
    else:
        out = W[:, :split] @ dense.T
        out += b[:, None]
    if codes is not None:
        table = W[:, split:]
        for column in codes.T:
            out += table[:, column]
    return out


def indicator(block: Block) -> FloatArray:
    """Which group each row is in, (M, n)."""
    return np.asarray(block.groups == np.arange(block.n_groups)[:, None], dtype=block.dtype)


def _softmax_in_place(logits: FloatArray, *, clip: bool) -> FloatArray:
    """Turn logits into responsibilities; return logsumexp over the clusters, (n,)."""
    top = logits.max(axis=0)
    logits -= top
    if clip:
        np.maximum(logits, NEGLIGIBLE, out=logits)
    np.exp(logits, out=logits)
    total = logits.sum(axis=0)
    logits *= 1 / total
    return np.asarray(top + np.log(total))


def _logsumexp(logits: FloatArray) -> FloatArray:
    top = logits.max(axis=0)
    return np.asarray(top + np.log(np.exp(logits - top).sum(axis=0)))


def _weighted_sum(values: FloatArray, weight: FloatArray | None) -> float:
    if weight is None:
        return float(values.sum(dtype=np.float64))
    return float(values.astype(np.float64) @ weight)


def tilted(block: Block, logits: Logits, offsets: FloatArray | None) -> FloatArray:
    """Logits plus the fair tilt ``sum_g rho_g(i) v[g, k]``, (K, n)."""
    out = affine(block, logits)
    if offsets is not None:
        rho = indicator(block) if block.propensity is None else block.propensity
        out += offsets.T.astype(block.dtype) @ rho
    return out


def forward(
    block: Block,
    logits: Logits,
    *,
    offsets: FloatArray | None = None,
    temperature: float = 1.0,
    likelihood: bool = True,
    hard: bool = False,
    contrasts: FloatArray | None = None,
) -> Forward:
    """Responsibilities of a block, its masses, log-likelihood and normaliser.

    The log-likelihood is free when there is neither offset nor temperature; otherwise it costs a
    second sweep and ``likelihood=False`` leaves it out (NaN). ``hard`` asks for the masses of the
    hard labels, ``contrasts`` (R, M) for the curvature of the dual along them.
    """
    plain = offsets is None and temperature == 1.0
    log_likelihood = np.nan
    if likelihood and not plain:
        log_likelihood = _weighted_sum(_logsumexp(affine(block, logits)), block.weight)
    psi = tilted(block, logits, offsets)
    if temperature != 1.0:
        psi /= psi.dtype.type(temperature)
    normaliser = temperature * _weighted_sum(
        _softmax_in_place(psi, clip=temperature < 1.0), block.weight
    )
    mass, model_mass = _masses(block, psi)
    return Forward(
        psi=psi,
        weight=float(block.n_rows if block.weight is None else block.weight.sum()),
        log_likelihood=normaliser if plain else log_likelihood,
        normaliser=normaliser,
        mass=mass,
        model_mass=model_mass,
        hard_mass=_hard_mass(block, psi) if hard else np.zeros(0),
        curvature=np.zeros(0) if contrasts is None else _curvature(block, psi, contrasts),
    )


def _hard_mass(block: Block, psi: FloatArray) -> FloatArray:
    n_clusters = len(psi)
    cell = block.groups * n_clusters + psi.argmax(axis=0)
    counts = np.bincount(cell, weights=block.weight, minlength=block.n_groups * n_clusters)
    return counts.astype(np.float64).reshape(block.n_groups, n_clusters)


def _curvature(block: Block, psi: FloatArray, contrasts: FloatArray) -> FloatArray:
    """``sum_i w_i a_i a_i^T (x) (diag psi_i - psi_i psi_i^T)`` with a = C rho, (R, K, R, K)."""
    if block.propensity is None:
        # a is the same for all rows of a group: one product per group, over its rows only.
        groups = [_spread(psi, block.weight, block.groups == g) for g in range(block.n_groups)]
        pairs = contrasts[:, None] * contrasts[None]
        return np.tensordot(pairs, np.stack(groups), axes=1).transpose(0, 2, 1, 3)
    a = contrasts.astype(block.dtype) @ block.propensity
    out = np.empty((len(a), len(psi), len(a), len(psi)))
    for r, first in enumerate(a):
        for s, second in enumerate(a[: r + 1]):
            product = first * second
            out[r, :, s] = _spread(psi, product if block.weight is None else product * block.weight)
            out[s, :, r] = out[r, :, s]
    return out


def _spread(
    psi: FloatArray, weight: FloatArray | None, chosen: IntArray | None = None
) -> FloatArray:
    """``sum_i w_i (diag psi_i - psi_i psi_i^T)`` over the chosen rows, (K, K)."""
    if chosen is not None:
        psi, weight = psi[:, chosen], None if weight is None else weight[chosen]
    weighted = psi if weight is None else psi * weight
    out = (-weighted @ psi.T).astype(np.float64)
    out[np.diag_indices(len(psi))] += weighted.sum(axis=1, dtype=np.float64)
    return out


def _masses(block: Block, psi: FloatArray) -> tuple[FloatArray, FloatArray]:
    weight = 1 if block.weight is None else block.weight
    mass = ((indicator(block) * weight) @ psi.T).astype(np.float64)
    if block.propensity is None:
        return mass, mass
    return mass, ((block.propensity * weight) @ psi.T).astype(np.float64)


def backward(
    block: Block,
    psi: FloatArray,
    n_features: int,
    alpha: float = 1.0,
    pull: FloatArray | None = None,
    temperature: float = 1.0,
) -> Logits:
    """Sums over a block of q and of q T(x)."""
    if pull is None:
        q = psi * psi.dtype.type(alpha)
    else:
        q = pull.T.astype(block.dtype) @ indicator(block)
        q -= np.einsum("kn,kn->n", psi, q)
        q /= block.dtype.type(temperature)
        q += block.dtype.type(alpha)
        q *= psi
    if block.weight is not None:
        q *= block.weight
    return Logits(q.sum(axis=1, dtype=np.float64), _feature_sums(block, q, n_features))


def _feature_sums(block: Block, q: FloatArray, n_features: int) -> FloatArray:
    """``sum_i q_ik T(x_i)``, (K, P) in float64."""
    dense, codes = block.features
    sums = np.zeros((len(q), n_features))
    split = 0 if dense is None else dense.shape[1]
    if dense is not None:
        sums[:, :split] = q @ dense
    if codes is not None:
        width = n_features - split
        for column in codes.T:
            for k, row in enumerate(q):
                sums[k, split:] += np.bincount(column, weights=row, minlength=width)
    return sums


def hard_labels(block: Block, logits: Logits, offsets: FloatArray | None = None) -> IntArray:
    """Most probable cluster of each row, (n,). The temperature does not change it."""
    return np.asarray(tilted(block, logits, offsets).argmax(axis=0))


def log_densities(block: Block, logits: Logits) -> FloatArray:
    """Log-density of each row under the untilted mixture, (n,)."""
    return _logsumexp(affine(block, logits))
