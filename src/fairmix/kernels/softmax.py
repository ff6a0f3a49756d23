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

import itertools
from dataclasses import dataclass

import numpy as np

from fairmix.kernels.labels import winners
from fairmix.kernels.logits import LogitMap, lowered_logits, tilted
from fairmix.kernels.products import sums
from fairmix.kernels.totals import FEW_GROUPS, Block, FloatArray, Logits, Totals, even, pairs

NOTHING = np.zeros(0)
# The logarithm of what a smaller responsibility counts as, by precision: nothing beside rounding.
# Without the floor some percent of the responsibilities of well separated clusters are denormal
# numbers, at which processors make exp, and many of them also products, up to ten times as slow.
# In single precision products of two of them, and of a small factor, must not be denormal either:
# with -44 the curvature of 20 clusters takes four times as long.
NEGLIGIBLE = {np.dtype(np.float32): -35.0, np.dtype(np.float64): -44.0}
# Up to this many dense features their sums come with the masses from one product; with more, passes
# that need no sums would pay for them. That depends on nothing else, so that the same rows always
# give the same bits.
FEW_FEATURES = 64


@dataclass(frozen=True, slots=True, eq=False)
class Forward:
    """Responsibilities psi (K, n) of a block and the sums that need only them.

    ``linear`` (K, D + M + ...): sums of psi times the columns of the design after the first, where
    they came for free.
    """

    psi: FloatArray
    linear: FloatArray | None
    n_groups: int
    weight: float
    log_likelihood: float
    normaliser: float
    mass: FloatArray | None
    model_mass: FloatArray | None
    hard_mass: FloatArray
    curvature: FloatArray

    def totals(self, sums: Logits, *, masses: bool = True) -> Totals:
        """Totals of the block, given its sums of q; without its masses (NaN) if told so."""
        mass, model_mass = self.mass, self.model_mass
        if mass is None or model_mass is None or not masses:
            mass = model_mass = np.full((self.n_groups, len(self.psi)), np.nan)
        return Totals(
            weight=self.weight,
            log_likelihood=self.log_likelihood,
            normaliser=self.normaliser,
            mass=mass,
            model_mass=model_mass,
            sums=sums,
            hard_mass=self.hard_mass,
            curvature=self.curvature,
        )


def _weighted_sum(values: FloatArray, weight: FloatArray | None) -> float:
    if weight is None:
        # Single precision would lose the digits of a sum over many rows.
        return float(values.sum(dtype=np.float64))
    return float(values.astype(np.float64) @ weight)


def forward(
    block: Block,
    logit_map: LogitMap,
    *,
    likelihood: bool = True,
    hard: bool = False,
    contrasts: FloatArray | None = None,
    within_groups: bool = False,
    rough: bool = False,
    masses: bool = True,
) -> Forward:
    """Responsibilities of a block, its masses, log-likelihood and normaliser.

    The log-likelihood is free when there is neither offset nor temperature; otherwise it costs a
    second sweep and ``likelihood=False`` leaves it out (NaN). ``hard`` asks for the masses of the
    hard labels, ``contrasts`` (R, M) for the curvature of the dual along them, ``within_groups``
    for that of each group. ``rough`` rounds the responsibilities, not the logits and labels, to
    single precision, whose ``exp`` is several times as fast. ``masses=False`` leaves the masses
    out.
    """
    log_likelihood = np.nan
    if likelihood and not logit_map.plain:
        log_likelihood = _weighted_sum(log_densities(block, logit_map), block.weight)
    lowered, taken = lowered_logits(block, logit_map)
    # Labels come first, because the softmax overwrites the logits.
    hard_mass = _by_group(block, winners(block, lowered, logit_map)) if hard else NOTHING
    psi, logsumexp = _softmax(block, logit_map, lowered, taken, rough=rough)
    normaliser = logit_map.temperature * logsumexp
    linear, mass, model_mass = _masses(block, psi) if masses else (None, None, None)
    curvature: FloatArray = NOTHING
    if within_groups:
        curvature = _within_groups(block, psi)
    elif contrasts is not None:
        curvature = _curvature(block, psi, contrasts)
    return Forward(
        psi=psi,
        linear=linear,
        n_groups=block.n_groups,
        weight=float(block.n_rows if block.weight is None else block.weight.sum()),
        log_likelihood=normaliser if logit_map.plain else log_likelihood,
        normaliser=normaliser,
        mass=mass,
        model_mass=model_mass,
        hard_mass=hard_mass,
        curvature=curvature,
    )


def _softmax(
    block: Block, logit_map: LogitMap, lowered: FloatArray, taken: FloatArray, *, rough: bool
) -> tuple[FloatArray, float]:
    """Responsibilities (K, n) and the sum of logsumexp; ``lowered`` is overwritten.

    No search for the largest logit comes first: the base alone makes the sum of exp large enough.
    Where it is too large, the rows are worked out again, less their largest logit.
    """
    top_known = logit_map.temperature < 1.0
    with np.errstate(over="ignore", invalid="ignore"):
        psi = _exponential(lowered, top_known=top_known, rough=rough)
        total = psi.sum(axis=0)
        each = taken + np.log(total)
        logsumexp = _weighted_sum(each, block.weight)
    # One number tells whether any row has overflowed, so the usual case pays for no search.
    if not np.isfinite(logsumexp):
        far = np.flatnonzero(~np.isfinite(each))
        near = tilted(block, logit_map, far)
        top = near.max(axis=0)
        psi[:, far] = _exponential(near - top, top_known=True, rough=rough)
        total[far] = psi[:, far].sum(axis=0)
        each[far] = top + np.log(total[far])
        logsumexp = _weighted_sum(each, block.weight)
    # With the top known, what is negligible was cut before `exp` already.
    if not top_known:
        np.maximum(psi, total * psi.dtype.type(np.exp(NEGLIGIBLE[psi.dtype])), out=psi)
    # One division for each row, not for each entry.
    psi *= 1 / total
    return psi, logsumexp


def _exponential(logits: FloatArray, *, top_known: bool, rough: bool) -> FloatArray:
    """Exponential, nowhere denormal; ``logits`` may be overwritten.

    ``top_known``: the largest logit of each row is zero, so what is negligible is known, too.
    """
    if rough:
        # What no single number holds is as small, or as large, as an infinite one.
        with np.errstate(over="ignore"):
            logits = logits.astype(np.float32, copy=False)
    # A little above the smallest normal number, so that rounding makes nothing denormal.
    kind = logits.dtype
    lowest = NEGLIGIBLE[kind] if top_known else np.log(np.finfo(kind).tiny) + 1
    # A row of equal numbers, because NumPy is three times as slow with a single one.
    np.maximum(logits, np.full(logits.shape[1], lowest, kind), out=logits)
    return np.asarray(np.exp(logits, out=logits))


def _by_group(block: Block, q: FloatArray) -> FloatArray:
    """Sum over the rows of each group, (M, K) in float64."""
    weighted = q if block.weight is None else q * block.weight
    return sums(weighted, block.members.T).T


def _masses(block: Block, psi: FloatArray) -> tuple[FloatArray | None, FloatArray, FloatArray]:
    """Sums of psi over what is linear in a row: one and features, real groups, rho."""
    n_dense = 0 if block.features.dense is None else block.features.dense.shape[1]
    few = n_dense <= FEW_FEATURES
    weighted = psi if block.weight is None else psi * block.weight
    found = sums(weighted, block.design[:, 1 if few else 1 + n_dense :].T)
    M, first = block.n_groups, block.n_indicators
    both = found[:, n_dense if few else 0 :].T
    model_mass = both[first : first + M] if block.propensity is not None else both[:M]
    return found if few else None, both[:M], model_mass


def _curvature(block: Block, psi: FloatArray, contrasts: FloatArray) -> FloatArray:
    """``sum_i w_i a_i a_i^T (x) (diag psi_i - psi_i psi_i^T)`` with a = C rho, (R, K, R, K)."""
    R, K = len(contrasts), len(psi)
    if R > FEW_GROUPS:
        a = block.rooted(contrasts, psi.dtype)
        both = (a[:, None] * psi).reshape(R * K, -1)
        # A product with itself needs half the work.
        out = -(both @ both.T).astype(np.float64).reshape(R, K, R, K)
        clusters = np.arange(K)
        # psi_i adds up to one, so the diagonal follows from the rest; adding a constant over
        # clusters then changes nothing to the last digit.
        out[:, clusters, :, clusters] -= out.sum(axis=3).transpose(1, 0, 2)
        return out
    found = _spreads(psi, block.paired(contrasts, psi.dtype))
    if R == 1:
        return found.reshape(1, K, 1, K)
    out = np.empty((R, K, R, K))
    for part, (r, s) in zip(found, pairs(R), strict=True):
        out[r, :, s] = out[s, :, r] = part
    return out


def _spreads(psi: FloatArray, factors: FloatArray) -> FloatArray:
    """``sum_i f_i (diag psi_i - psi_i psi_i^T)`` for factors (S, n), each (K, K)."""
    K = len(psi)
    scaled = (factors[:, None] * psi).reshape(len(factors) * K, -1)
    out = sums(scaled, psi).reshape(-1, K, K)
    # The same from both sides to the last digit. As above, the diagonal follows from the rest: the
    # curvature of two groups is never negative.
    out = -0.5 * (out + out.transpose(0, 2, 1))
    out.reshape(-1, K * K)[:, :: K + 1] -= out.sum(axis=2)
    return out


def _within_groups(block: Block, psi: FloatArray) -> FloatArray:
    """``sum_i w_i (diag psi_i - psi_i psi_i^T)`` over the rows of each group, (M, K, K)."""
    if block.n_groups <= FEW_GROUPS:
        members = block.members.T
        weighted = members if block.weight is None else members * block.weight
        return _spreads(psi, weighted.astype(psi.dtype, copy=False))
    # Groups side by side, so that the work does not grow with their number; rows aside come last.
    order = block.by_group
    ends = np.cumsum(np.bincount(block.groups, minlength=block.n_groups)[: block.n_groups])
    psi_of = psi[:, order]
    weighted = psi_of if block.weight is None else psi_of * block.weight[order].astype(psi.dtype)
    out = np.zeros((block.n_groups, len(psi), len(psi)))
    for g, (start, end) in enumerate(itertools.pairwise([0, *ends])):
        out[g] = -(weighted[:, start:end] @ psi_of[:, start:end].T)
    out[:, np.arange(len(psi)), np.arange(len(psi))] += _by_group(block, psi)
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
    # Sums that came with the masses are weighted already.
    if block.weight is not None and (known is None or codes is not None):
        q = q * block.weight
    if known is None:
        width = even(n_dense + block.n_indicators)
        known = sums(q, block.design[:, 1 : 1 + width].T)
    out = known[:, :n_dense]
    # A block of complete rows has no columns for gaps; their sums are zero.
    if n_features > n_dense:
        out = np.zeros((len(q), n_features))
        out[:, :n_dense] = known[:, :n_dense]
    if codes is not None:
        width = n_features - n_dense
        for column in codes.T:
            for k, row in enumerate(q):
                # Counted rather than multiplied, so that no 0/1 columns are made.
                out[k, n_dense:] += np.bincount(column, weights=row, minlength=width)
    # Each row is in one group or aside, so the sums over these add up to those over one.
    once = known[:, n_dense : n_dense + block.n_indicators][:, block.once]
    found = Logits(once.sum(axis=1), out)
    return found if pull is not None or alpha == 1.0 else found * alpha


def _pulled(
    block: Block, psi: FloatArray, alpha: float, pull: FloatArray, temperature: float
) -> FloatArray:
    """q, (K, n)."""
    n_dense = 0 if block.features.dense is None else block.features.dense.shape[1]
    # alpha + V[g, k] / tau by one product with the group indicators.
    weights = np.zeros((len(psi), block.n_indicators))
    weights[:, block.once] = alpha  # nothing pulls at rows aside
    weights[:, : block.n_groups] += pull.T / temperature
    indicators = block.design[:, 1 + n_dense : 1 + n_dense + block.n_indicators]
    q: FloatArray = weights.astype(psi.dtype) @ indicators.T
    # psi adds up to one, so alpha drops out of the difference to the mean.
    mean = np.einsum("kn,kn->n", psi, q)
    mean -= alpha
    q -= mean
    q *= psi
    return q


def log_densities(block: Block, logit_map: LogitMap) -> FloatArray:
    """Log-density of each row under the untilted mixture, (n,)."""
    logits = tilted(block, logit_map.untilted)
    top = logits.max(axis=0)
    apart = _exponential(logits - top, top_known=True, rough=False)
    return np.asarray(top + np.log(apart.sum(axis=0)))
