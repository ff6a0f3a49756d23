"""The softmax pass on one block, in NumPy: the definition of what every kernel computes.

With logits ``l_ik = b_k + <W_k, T(x_i)>``, group weights rho, offsets v (M x K), temperature tau::

    psi_i = softmax((l_i + sum_g rho_g(i) v_g) / tau)
    q_ik  = psi_ik (alpha + (V[g_i, k] - sum_l psi_il V[g_i, l]) / tau)

``forward`` gives psi and what needs only psi; ``backward`` gives the sums of q. alpha = 1 and no
pull is the E-step; alpha = 0 with pull V = dC/dm is the gradient of a criterion C of the masses.

Arrays are cluster-major (K x n), so reductions over clusters run along contiguous memory. All that
is linear in a row (features, one, rho) is one product with the block's ``design``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairmix.totals import Block, FloatArray, IntArray, Logits, Totals

# exp of this is nothing beside one. Cold logits go far below it, where exp underflows slowly.
NEGLIGIBLE = -80.0
# Up to this many groups, curvature is summed per pair of contrasts; above, per group.
FEW_GROUPS = 3
# Up to this many dense features their sums come with the masses from one product. That depends on
# nothing else, so that the same rows always give the same bits.
FEW_FEATURES = 64


@dataclass(frozen=True, slots=True, eq=False)
class Forward:
    """Responsibilities psi (K, n) of a block and the sums that need only them.

    ``linear`` (K, D + 1): sums of psi times the dense features and one, where they came for free.
    """

    psi: FloatArray
    linear: FloatArray | None
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


def tilted(
    block: Block, logits: Logits, offsets: FloatArray | None = None, temperature: float = 1.0
) -> FloatArray:
    """``(l_ik + sum_g rho_g(i) v[g, k]) / tau``, (K, n)."""
    dense, codes = block.features
    n_dense = 0 if dense is None else dense.shape[1]
    parts = [logits.W[:, :n_dense], logits.b[:, None]]
    width = n_dense + 1
    if offsets is not None:
        if block.propensity is not None:
            parts.append(np.zeros_like(offsets.T))
        parts.append(offsets.T)
        width = block.design.shape[1]
    weights = (np.hstack(parts) / temperature).astype(block.dtype, copy=False)
    out: FloatArray = weights @ block.design[:, :width].T
    if codes is not None:
        table = (logits.W[:, n_dense:] / temperature).astype(block.dtype, copy=False)
        for column in codes.T:
            out += table[:, column]
    return out


def _logsumexp(logits: FloatArray) -> FloatArray:
    top = logits.max(axis=0)
    return np.asarray(top + np.log(np.exp(logits - top).sum(axis=0)))


def _weighted_sum(values: FloatArray, weight: FloatArray | None) -> float:
    if weight is None:
        return float(values.sum(dtype=np.float64))
    return float(values.astype(np.float64) @ weight)


def forward(
    block: Block,
    logits: Logits,
    *,
    offsets: FloatArray | None = None,
    temperature: float = 1.0,
    likelihood: bool = True,
    hard: bool = False,
    contrasts: FloatArray | None = None,
    rough: bool = False,
    masses: bool = True,
) -> Forward:
    """Responsibilities of a block, its masses, log-likelihood and normaliser.

    The log-likelihood is free when there is neither offset nor temperature; otherwise it costs a
    second sweep and ``likelihood=False`` leaves it out (NaN). ``hard`` asks for the masses of the
    hard labels, ``contrasts`` (R, M) for the curvature of the dual along them. ``rough`` rounds
    the responsibilities, not the logits and labels, to single precision, whose ``exp`` is several
    times as fast. ``masses=False`` leaves the masses out (NaN).
    """
    plain = offsets is None and temperature == 1.0
    log_likelihood = np.nan
    if likelihood and not plain:
        log_likelihood = _weighted_sum(_logsumexp(tilted(block, logits)), block.weight)
    shifted = tilted(block, logits, offsets, temperature)
    top = shifted.max(axis=0)
    shifted -= top
    hard_mass = _by_group(block, _winners(shifted)) if hard else np.zeros(0)
    psi = _exponential(shifted, cold=temperature < 1.0, rough=rough)
    total = psi.sum(axis=0)
    psi *= 1 / total
    normaliser = temperature * _weighted_sum(top + np.log(total), block.weight)
    if masses:
        linear, mass, model_mass = _masses(block, psi)
    else:
        linear, mass = None, np.full((block.n_groups, len(psi)), np.nan)
        model_mass = mass
    return Forward(
        psi=psi,
        linear=linear,
        weight=float(block.n_rows if block.weight is None else block.weight.sum()),
        log_likelihood=normaliser if plain else log_likelihood,
        normaliser=normaliser,
        mass=mass,
        model_mass=model_mass,
        hard_mass=hard_mass,
        curvature=np.zeros(0) if contrasts is None else _curvature(block, psi, contrasts),
    )


def _exponential(shifted: FloatArray, *, cold: bool, rough: bool) -> FloatArray:
    """Exponential of logits whose largest is zero; double precision is overwritten."""
    if rough and shifted.dtype != np.float32:
        with np.errstate(over="ignore"):  # what overflows becomes minus infinity, whose exp is zero
            return np.exp(shifted.astype(np.float32))
    if cold and shifted.dtype != np.float32:
        np.maximum(shifted, NEGLIGIBLE, out=shifted)
    return np.asarray(np.exp(shifted, out=shifted))


def _winners(shifted: FloatArray) -> FloatArray:
    """One at the first largest logit of each row, else zero, (K, n). Largest logits are zero."""
    # Many times as fast as argmax along the first axis.
    mark: FloatArray = (shifted == 0).astype(shifted.dtype)
    if mark.sum() != mark.shape[1]:
        mark = np.zeros_like(shifted)
        mark[shifted.argmax(axis=0), np.arange(mark.shape[1])] = 1
    return mark


def _by_group(block: Block, q: FloatArray) -> FloatArray:
    """Sum over the rows of each group, (M, K) in float64."""
    n_dense = 0 if block.features.dense is None else block.features.dense.shape[1]
    indicator = block.design[:, n_dense + 1 : n_dense + 1 + block.n_groups]
    weighted = q if block.weight is None else q * block.weight
    return (weighted @ indicator).T.astype(np.float64)


def _masses(block: Block, psi: FloatArray) -> tuple[FloatArray | None, FloatArray, FloatArray]:
    """Sums of psi over what is linear in a row: features and one, real groups, rho."""
    n_dense = 0 if block.features.dense is None else block.features.dense.shape[1]
    first = 0 if n_dense <= FEW_FEATURES else n_dense + 1
    weighted = psi if block.weight is None else psi * block.weight
    sums = (weighted @ block.design[:, first:]).astype(np.float64)
    linear = None if first else sums[:, : n_dense + 1]
    both = sums[:, n_dense + 1 - first :].T
    return linear, both[: block.n_groups], both[-block.n_groups :]


def _curvature(block: Block, psi: FloatArray, contrasts: FloatArray) -> FloatArray:
    """``sum_i w_i a_i a_i^T (x) (diag psi_i - psi_i psi_i^T)`` with a = C rho, (R, K, R, K)."""
    weight = np.ones(block.n_rows) if block.weight is None else block.weight
    size = len(contrasts)
    if block.propensity is None and block.n_groups > FEW_GROUPS:
        # a is the same for all rows of a group: one product per group, of its rows.
        members = [np.flatnonzero(block.groups == g) for g in range(block.n_groups)]
        spreads = np.concatenate([_spread(psi[:, rows], weight[None, rows]) for rows in members])
        pairs = contrasts[:, None] * contrasts[None]
        return np.tensordot(pairs, spreads, axes=1).transpose(0, 2, 1, 3)
    a = contrasts @ block.propensity if block.propensity is not None else contrasts[:, block.groups]
    pairs_of_rows = [(r, c) for r in range(size) for c in range(r + 1)]
    rows, columns = (list(side) for side in zip(*pairs_of_rows, strict=True))
    out = np.empty((size, len(psi), size, len(psi)))
    out[rows, :, columns] = _spread(psi, weight * a[rows] * a[columns])
    out[columns, :, rows] = out[rows, :, columns]
    return out


def _spread(psi: FloatArray, weights: FloatArray) -> FloatArray:
    """``sum_i w_i (diag psi_i - psi_i psi_i^T)`` for several weights (R, n), (R, K, K)."""
    weights = weights.astype(psi.dtype)
    size = len(psi)
    weighted = (weights[:, None] * psi).reshape(-1, psi.shape[1])
    out = -(weighted @ psi.T).astype(np.float64).reshape(-1, size, size)
    out[:, np.arange(size), np.arange(size)] += weights @ psi.T
    return out


def backward(
    block: Block,
    psi: FloatArray,
    n_features: int,
    alpha: float = 1.0,
    pull: FloatArray | None = None,
    temperature: float = 1.0,
    linear: FloatArray | None = None,
) -> Logits:
    """Sums over a block of q and of q T(x). ``linear`` is that of `Forward`."""
    dense, codes = block.features
    n_dense = 0 if dense is None else dense.shape[1]
    known = linear if pull is None else None
    q = psi if pull is None else _pulled(block, psi, alpha, pull, temperature)
    if block.weight is not None and (known is None or codes is not None):
        q = q * block.weight
    if known is None:
        known = (q @ block.design[:, : n_dense + 1]).astype(np.float64)
    sums = np.zeros((len(q), n_features))
    sums[:, :n_dense] = known[:, :n_dense]
    if codes is not None:
        width = n_features - n_dense
        for column in codes.T:
            for k, row in enumerate(q):
                sums[k, n_dense:] += np.bincount(column, weights=row, minlength=width)
    out = Logits(known[:, n_dense], sums)
    return out if pull is not None or alpha == 1.0 else out * alpha


def _pulled(
    block: Block, psi: FloatArray, alpha: float, pull: FloatArray, temperature: float
) -> FloatArray:
    """q, (K, n)."""
    n_dense = 0 if block.features.dense is None else block.features.dense.shape[1]
    # alpha + V[g, k] / tau by one product with the columns of ones and of group indicators.
    weights = np.vstack([np.full(pull.shape[1], alpha), pull / temperature]).T.astype(psi.dtype)
    q: FloatArray = weights @ block.design[:, n_dense : n_dense + 1 + block.n_groups].T
    # psi adds up to one, so alpha drops out of the difference to the mean.
    mean = np.einsum("kn,kn->n", psi, q)
    mean -= alpha
    q -= mean
    q *= psi
    return q


def hard_labels(block: Block, logits: Logits, offsets: FloatArray | None = None) -> IntArray:
    """Most probable cluster of each row, (n,). The temperature does not change it."""
    return np.asarray(tilted(block, logits, offsets).argmax(axis=0))


def log_densities(block: Block, logits: Logits) -> FloatArray:
    """Log-density of each row under the untilted mixture, (n,)."""
    return _logsumexp(tilted(block, logits))
