"""The softmax pass against loops in plain Python, and against finite differences."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logsumexp, softmax

from cases import (
    K,
    M,
    assert_close,
    block_totals,
    central_differences,
    numbers,
)
from fairmix.kernels import LogitMap, backward, forward, hard_labels, products
from fairmix.kernels.softmax import NEGLIGIBLE
from fairmix.kernels.totals import Block, Features, Logits, add_up

N_ROWS, N_DENSE, LEVELS = 9, 2, (2, 3)
KINDS = ["dense", "codes", "mixed"]


def make_block(kind, *, n_rows=N_ROWS, blind=False, weighted=False, seed=0):
    rng = np.random.default_rng(seed)
    dense = rng.normal(size=(n_rows, N_DENSE)) if kind != "codes" else None
    # Codes of the second variable start where those of the first end.
    codes = np.add(rng.integers(LEVELS, size=(n_rows, 2)), [0, 2]) if kind != "dense" else None
    return Block(
        features=Features(dense, codes),
        groups=rng.integers(M, size=n_rows),
        n_groups=M,
        dtype=np.dtype(np.float64),
        weight=rng.uniform(0.5, 3.0, size=n_rows) if weighted else None,
        propensity=rng.dirichlet(np.ones(M), size=n_rows).T if blind else None,
    )


def one_hot(block):
    """T(x) written out."""
    dense, codes = block.features
    parts = [] if dense is None else [dense]
    if codes is not None:
        parts.append((codes[:, :, None] == np.arange(sum(LEVELS))).sum(axis=1))
    return np.hstack(parts)


def make_logits(block, *, scale=1.0, seed=1):
    rng = np.random.default_rng(seed)
    n_features = one_hot(block).shape[1]
    return Logits(rng.normal(size=K) * scale, rng.normal(size=(K, n_features)) * scale)


def make_matrix(seed):
    return np.random.default_rng(seed).normal(size=(M, K))


def log_sum_exp(values):
    top = max(values)
    return top + math.log(sum(math.exp(v - top) for v in values))


def naive_totals(block, logits, *, offsets, alpha, pull, temperature):
    """The definition in the design, one number at a time; fields by name."""
    T = one_hot(block)
    P = T.shape[1]
    weight = log_likelihood = normaliser = 0.0
    mass, model_mass = np.zeros((M, K)), np.zeros((M, K))
    b, W = np.zeros(K), np.zeros((K, P))
    for i in range(block.n_rows):
        w = 1.0 if block.weight is None else block.weight[i]
        own = int(block.groups[i])
        rho = [float(g == own) for g in range(M)]
        if block.propensity is not None:
            rho = [block.propensity[g, i] for g in range(M)]
        plain = [logits.b[k] + sum(logits.W[k, p] * T[i, p] for p in range(P)) for k in range(K)]
        scaled = list(plain)
        for k in range(K):
            if offsets is not None:
                scaled[k] += sum(rho[g] * offsets[g, k] for g in range(M))
            scaled[k] /= temperature
        norm = log_sum_exp(scaled)
        psi = [math.exp(s - norm) for s in scaled]
        V = [0.0 if pull is None else pull[own, k] for k in range(K)]
        mean_pull = sum(psi[k] * V[k] for k in range(K))
        weight += w
        log_likelihood += w * log_sum_exp(plain)
        normaliser += w * temperature * norm
        for k in range(K):
            q = w * psi[k] * (alpha + (V[k] - mean_pull) / temperature)
            mass[own, k] += w * psi[k]
            b[k] += q
            for g in range(M):
                model_mass[g, k] += w * rho[g] * psi[k]
            for p in range(P):
                W[k, p] += q * T[i, p]
    return {
        "weight": weight,
        "log_likelihood": log_likelihood,
        "normaliser": normaliser,
        "mass": mass,
        "model_mass": model_mass,
        "sums.b": b,
        "sums.W": W,
    }


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("blind", [False, True], ids=["aware", "blind"])
@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
@pytest.mark.parametrize("tilt", [False, True], ids=["no-offsets", "offsets"])
@pytest.mark.parametrize("pulled", [False, True], ids=["no-pull", "pull"])
@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("temperature", [1.0, 0.3])
def test_pass_equals_naive_loop(kind, blind, weighted, tilt, pulled, alpha, temperature):
    block = make_block(kind, blind=blind, weighted=weighted)
    logits = make_logits(block)
    settings = {
        "offsets": make_matrix(2) if tilt else None,
        "alpha": alpha,
        "pull": make_matrix(3) if pulled else None,
        "temperature": temperature,
    }
    actual = numbers(block_totals(block, logits, **settings))
    for name, value in naive_totals(block, logits, **settings).items():
        np.testing.assert_allclose(actual[name], value, rtol=1e-12, atol=1e-12, err_msg=name)


def part_of(block, rows):
    dense, codes = block.features
    return replace(
        block,
        features=Features(
            None if dense is None else dense[rows], None if codes is None else codes[rows]
        ),
        groups=block.groups[rows],
        weight=block.weight[rows],
        propensity=block.propensity[:, rows],
    )


@pytest.mark.parametrize("kind", KINDS)
def test_totals_of_a_split_add_up(kind):
    block = make_block(kind, blind=True, weighted=True)
    logits = make_logits(block)
    settings = {"offsets": make_matrix(2), "pull": make_matrix(3), "temperature": 0.3}
    whole = block_totals(block, logits, **settings)
    parts = [
        block_totals(part_of(block, rows), logits, **settings)
        for rows in (slice(0, 2), slice(2, 3), slice(3, N_ROWS))
    ]
    assert_close(add_up(parts), whole, rtol=1e-12, atol=1e-12)
    assert_close(whole - parts[0], parts[1] + parts[2], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("temperature", [1.0, 0.05])
@pytest.mark.parametrize("scale", [1e4, 1e300])
def test_huge_logits_stay_finite(kind, temperature, scale):
    block = make_block(kind)
    logits = make_logits(block, scale=scale)
    settings = {"pull": make_matrix(3), "temperature": temperature}
    psi = forward(block, LogitMap(logits, None, temperature)).psi
    np.testing.assert_allclose(psi.sum(axis=0), 1, rtol=1e-14)
    # At this scale the largest logit takes all.
    np.testing.assert_array_equal(psi.argmax(axis=0), hard_labels(block, LogitMap(logits)))
    assert psi.max(axis=0).min() > 1 - 1e-12
    totals = block_totals(block, logits, **settings)
    assert all(np.isfinite(value).all() for value in numbers(totals).values())
    largest = (logits.b + one_hot(block) @ logits.W.T).max(axis=1).sum()
    assert totals.normaliser == pytest.approx(largest, rel=1e-12)
    assert totals.log_likelihood == pytest.approx(largest, rel=1e-12)


def test_a_common_constant_moves_only_the_normaliser():
    block = make_block("mixed")
    logits = make_logits(block)
    far = Logits(logits.b + 1e4, logits.W)
    near, moved = forward(block, LogitMap(logits)), forward(block, LogitMap(far))
    np.testing.assert_allclose(moved.psi, near.psi, rtol=1e-10)
    assert moved.normaliser == pytest.approx(near.normaliser + 1e4 * N_ROWS, rel=1e-14)


@pytest.mark.parametrize("kind", ["dense", "mixed"])
def test_float32_pass_keeps_float64_totals(kind):
    wide = make_block(kind, n_rows=5000, blind=True, weighted=True)
    dense, codes = wide.features
    narrow = replace(
        wide,
        features=Features(dense.astype(np.float32), codes),
        dtype=np.dtype(np.float32),
        weight=wide.weight.astype(np.float32),
        propensity=wide.propensity.astype(np.float32),
    )
    logits = make_logits(wide)
    settings = {"offsets": make_matrix(2), "pull": make_matrix(3), "temperature": 0.3}
    ahead = forward(narrow, LogitMap(logits, make_matrix(2), 0.3))
    assert ahead.psi.dtype == np.float32
    actual, expected = (
        block_totals(narrow, logits, **settings),
        block_totals(wide, logits, **settings),
    )
    for name, value in numbers(actual).items():
        assert value.dtype == np.float64, name
        if not value.size:  # not asked for
            continue
        reference = numbers(expected)[name]
        # Sums of q T(x) cancel, so the scale of an error is that of the largest entry.
        error = np.abs(value - reference).max() / np.abs(reference).max()
        assert error < 1e-5, name


@pytest.mark.parametrize("scale", [1, 10, 30, 100, 1000])
def test_float32_responsibilities_hold_however_far_logits_are_apart(scale):
    """Some rows, and at last all, have logits beyond what exp takes in single precision."""
    wide = make_block("dense", n_rows=2000)
    logits = make_logits(wide, scale=scale)
    narrow = replace(
        wide,
        features=Features(wide.features.dense.astype(np.float32), None),
        dtype=np.dtype(np.float32),
    )
    exact = logits.b + one_hot(wide) @ logits.W.T
    expected = softmax(exact, axis=1).T
    for block, settings in ((narrow, {}), (wide, {"rough": True})):
        found = forward(block, LogitMap(logits), **settings)
        # Logits themselves are rounded in single precision.
        error = 1e-6 * (1 + np.abs(exact).max())
        np.testing.assert_allclose(found.psi, expected, atol=error if block is narrow else 1e-6)
        assert found.normaliser == pytest.approx(logsumexp(exact, axis=1).sum(), rel=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("blind", [False, True], ids=["aware", "blind"])
@pytest.mark.parametrize("temperature", [1.0, 0.3])
def test_pull_gives_the_gradient_of_a_function_of_the_masses(kind, blind, temperature):
    block = make_block(kind, blind=blind, weighted=True)
    logits = make_logits(block)
    offsets, A = make_matrix(2), make_matrix(3)

    def function(mass):
        return float((A * np.sin(mass) + mass**2 / 2).sum())

    def of_flat(flat):
        moved = Logits(flat[:K], flat[K:].reshape(logits.W.shape))
        return function(forward(block, LogitMap(moved, offsets, temperature)).mass)

    ahead = forward(block, LogitMap(logits, offsets, temperature))
    pull = A * np.cos(ahead.mass) + ahead.mass
    P = logits.W.shape[1]
    actual = backward(block, ahead.psi, P, alpha=0.0, pull=pull, temperature=temperature)
    flat = np.concatenate([logits.b, logits.W.ravel()])
    expected = central_differences(of_flat, flat)
    np.testing.assert_allclose(np.append(actual.b, actual.W), expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("blind", [False, True], ids=["aware", "blind"])
@pytest.mark.parametrize("temperature", [1.0, 0.3])
def test_model_mass_is_the_gradient_of_the_normaliser(blind, temperature):
    block = make_block("mixed", blind=blind, weighted=True)
    logits, offsets = make_logits(block), make_matrix(2)

    def normaliser(v):
        return forward(block, LogitMap(logits, v, temperature)).normaliser

    ahead = forward(block, LogitMap(logits, offsets, temperature))
    expected = central_differences(normaliser, offsets)
    np.testing.assert_allclose(ahead.model_mass, expected, rtol=1e-7, atol=1e-8)
    assert np.allclose(ahead.model_mass, ahead.mass) is not blind


def test_hard_labels_take_the_largest_tilted_logit():
    block = make_block("mixed", blind=True)
    logits, offsets = make_logits(block), make_matrix(2)
    plain = one_hot(block) @ logits.W.T + logits.b
    np.testing.assert_array_equal(hard_labels(block, LogitMap(logits)), plain.argmax(axis=1))
    expected = (plain + block.propensity.T @ offsets).argmax(axis=1)
    np.testing.assert_array_equal(hard_labels(block, LogitMap(logits, offsets)), expected)
    assert (expected != plain.argmax(axis=1)).any()


def test_log_likelihood_can_be_left_out():
    block = make_block("mixed")
    logits = make_logits(block)
    full = forward(block, LogitMap(logits, None, 0.3))
    lean = forward(block, LogitMap(logits, None, 0.3), likelihood=False)
    assert math.isnan(lean.log_likelihood)
    assert lean.normaliser == full.normaliser
    np.testing.assert_array_equal(lean.psi, full.psi)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("temperature", [1.0, 0.3, 0.05])
@pytest.mark.parametrize("rough", [False, True])
def test_no_responsibility_is_denormal(dtype, temperature, rough):
    # Logits far apart: without a floor, exp gives denormal numbers, which are slow to work with.
    rng = np.random.default_rng(0)
    spread = 500.0
    T = rng.normal(size=(4000, 2)).astype(dtype)
    groups = np.zeros(len(T), dtype=np.intp)
    block = Block(Features(T, None), groups, 1, np.dtype(dtype))
    logits = Logits(rng.normal(size=K), spread * rng.normal(size=(K, 2)))
    psi = forward(block, LogitMap(logits, None, temperature), rough=rough).psi
    exact = softmax((logits.b[:, None] + logits.W @ T.T.astype(np.float64)) / temperature, axis=0)
    assert (exact < np.finfo(psi.dtype).tiny).any()
    assert psi.min() >= 1e-20
    # Single precision rounds logits, which go into the thousands; rough ones less their largest.
    atol = 1e-3 / temperature if dtype == np.float32 else 1e-5 if rough else 1e-12
    np.testing.assert_allclose(psi, exact, rtol=0, atol=atol)


@pytest.mark.parametrize("n_clusters", [1, 3, 300])
def test_labels_are_the_first_of_equal_largest_logits(n_clusters):
    rng = np.random.default_rng(0)
    # Of so few values that many are equal.
    table = rng.integers(3, size=(n_clusters, 40)).astype(np.float64)
    block = Block(
        Features(None, np.arange(40)[:, None]), np.zeros(40, np.intp), 1, np.dtype(np.float64)
    )
    found = hard_labels(block, LogitMap(Logits(np.zeros(n_clusters), table)))
    np.testing.assert_array_equal(found, table.argmax(axis=0))
    assert found.dtype == np.int32


@pytest.mark.parametrize("n_rows", [3, products.PIECE, 2 * products.PIECE + 7])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_in_pieces_are_those_of_the_whole(n_rows, dtype):
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(3, 5)).astype(dtype)
    columns = rng.normal(size=(8, n_rows)).astype(dtype)[1:6]
    values = rng.random((3, n_rows)).astype(np.float32)
    accuracy = {"rtol": 1e-4, "atol": 1e-3}
    np.testing.assert_allclose(products.product(weights, columns), weights @ columns, **accuracy)
    found = products.sums(values, columns)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, values.astype(np.float64) @ columns.T, **accuracy)


def test_products_of_two_negligible_responsibilities_are_not_denormal():
    for dtype, lowest in NEGLIGIBLE.items():
        # A factor of the curvature is that of a group, and hardly below a millionth.
        assert np.exp(2 * lowest) * 1e-6 > np.finfo(dtype).tiny
        assert np.exp(lowest) < np.finfo(dtype).eps
