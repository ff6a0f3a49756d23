"""Families: densities by SciPy, derivatives by finite differences, closed-form maxima."""

import numpy as np
import pytest
from scipy.special import softmax

from cases import (
    FAMILIES,
    K,
    central_differences,
    covariance_matrices,
    each,
    each_family,
    each_numeric_family,
    random_sums,
    random_theta,
    soft_sums,
    whole_block,
)
from fairmix.kernels.softmax import LogitMap, tilted
from fairmix.kernels.totals import Logits, Rows
from fairmix.mixture.mixture import Mixture

N_ROWS = 40

each_scale_free_family = each("case", {n: c for n, c in FAMILIES.items() if c.scale_free})


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def rows(case, rng):
    return case.rows(N_ROWS, rng)


@pytest.fixture
def family(case, rows):
    return case.make(rows, 0.0)


@pytest.fixture
def theta(family, rows, rng):
    return random_theta(family, rows, rng)


def log_density(family, theta, rows):
    return tilted(whole_block(family, rows), LogitMap(family.logits(theta)))


@each_family
def test_log_density_equals_scipy(case, family, theta, rows):
    expected = case.log_density(family.unpack(theta), rows)
    np.testing.assert_allclose(log_density(family, theta, rows), expected, rtol=1e-10, atol=1e-10)


@each_family
def test_pullback_equals_finite_differences(family, theta, rng):
    logits = family.logits(theta)
    assert logits.W.shape == (K, family.n_features)
    grad = Logits(rng.normal(size=K), rng.normal(size=logits.W.shape))
    expected = central_differences(lambda moved: grad.dot(family.logits(moved)), theta)
    np.testing.assert_allclose(family.pullback(theta, grad), expected, rtol=1e-6, atol=1e-7)


@each_family
def test_maximize_is_stationary(family, rows, rng):
    sums = random_sums(family, rows, rng)
    gradient = family.pullback(family.maximize(sums), sums)
    assert np.abs(gradient).max() < 1e-10 * np.abs(sums.W).max()


@each_family
def test_no_perturbation_beats_maximize(family, rows, rng):
    sums = random_sums(family, rows, rng)
    best = family.maximize(sums)
    value = sums.dot(family.logits(best))
    for scale in (1e-3, 0.1, 1.0):
        for _ in range(10):
            moved = best + rng.normal(scale=scale, size=best.shape)
            assert sums.dot(family.logits(moved)) < value


@each_family
def test_maximize_does_not_depend_on_the_unit_of_the_weights(family, rows, rng):
    sums = random_sums(family, rows, rng)
    expected = family.maximize(sums)
    np.testing.assert_allclose(family.maximize(sums * 1e-9), expected, rtol=1e-9, atol=1e-9)


def responsibilities(case, rows, psi):
    """Responsibilities (K, n) after one closed-form M-step from given ones."""
    family = case.make(rows, 0.0)
    return softmax(log_density(family, family.maximize(soft_sums(family, rows, psi)), rows), axis=0)


@each_numeric_family
def test_an_offset_of_1e8_changes_no_label(case, rows, rng):
    psi = rng.dirichlet(np.ones(K), size=N_ROWS).T
    # Multiples of 1/64 survive the offset exactly, so any difference is the family's own.
    numeric = np.round(rows.numeric * 64) / 64
    np.testing.assert_array_equal(numeric + 1e8 - 1e8, numeric)
    near, far = Rows(numeric, rows.codes), Rows(numeric + 1e8, rows.codes)
    expected, actual = responsibilities(case, near, psi), responsibilities(case, far, psi)
    np.testing.assert_allclose(actual, expected, atol=1e-6)
    np.testing.assert_array_equal(actual.argmax(axis=0), expected.argmax(axis=0))


@each_scale_free_family
def test_the_units_of_the_columns_change_no_responsibility(case, rows, rng):
    psi = rng.dirichlet(np.ones(K), size=N_ROWS).T
    scaled = Rows(rows.numeric * [1e-3, 7.0, 1e4], rows.codes)
    expected, actual = responsibilities(case, rows, psi), responsibilities(case, scaled, psi)
    np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=1e-10)


@each_family
def test_pack_is_the_inverse_of_unpack(family, theta, rng):
    again = family.pack(family.unpack(theta))
    # Probabilities determine scores only up to a constant, so logits are compared.
    np.testing.assert_allclose(family.logits(again).b, family.logits(theta).b, rtol=1e-10)
    np.testing.assert_allclose(family.logits(again).W, family.logits(theta).W, rtol=1e-10)

    mixture = Mixture(family)
    whole = np.concatenate([rng.normal(size=K), theta])
    parameters = mixture.unpack(whole)
    assert parameters["weights"].sum() == pytest.approx(1)
    again = mixture.unpack(mixture.pack(parameters))
    assert again.keys() == parameters.keys()
    for name, value in parameters.items():
        np.testing.assert_allclose(again[name], value, rtol=1e-10, err_msg=name)


@each_family
def test_reorder_moves_whole_components(family, theta, rows, rng):
    order = np.array([2, 0, 3, 1])
    expected = log_density(family, theta, rows)[order]
    actual = log_density(family, family.reorder(theta, order), rows)
    np.testing.assert_allclose(actual, expected, rtol=1e-12)

    mixture = Mixture(family)
    whole = np.concatenate([rng.normal(size=K), theta])
    weights = mixture.weights(mixture.reorder(whole, order))
    np.testing.assert_allclose(weights, mixture.weights(whole)[order], rtol=1e-14)


@each_family
def test_draw_follows_the_parameters(case, family, theta, rng):
    labels = rng.integers(K, size=80_000)
    drawn = family.draw(theta, labels, rng)
    # With responsibilities of zero and one the maximum is the moments and shares of the sample.
    one_hot = (labels == np.arange(K)[:, None]).astype(float)
    found = family.unpack(family.maximize(soft_sums(family, drawn, one_hot)))
    true = family.unpack(theta)
    if case.numeric:
        spread = np.sqrt([np.diag(c) for c in covariance_matrices(true["covariances"])])
        # 20,000 rows per component: five standard errors are 0.035 standard deviations.
        assert np.abs((found["means"] - true["means"]) / spread).max() < 0.035
        for actual, expected, scale in zip(
            covariance_matrices(found["covariances"]),
            covariance_matrices(true["covariances"]),
            spread,
            strict=True,
        ):
            assert np.abs((actual - expected) / np.outer(scale, scale)).max() < 0.05
    if "probabilities" in true:
        assert np.abs(found["probabilities"] - true["probabilities"]).max() < 0.02


@each_family
@pytest.mark.parametrize("share", [0.0, 1e-14])
def test_empty_component_has_finite_parameters(case, rows, rng, share):
    family = case.make(rows, 1e-6)
    psi = rng.dirichlet(np.ones(K), size=N_ROWS).T
    psi[0] *= share
    theta = Mixture(family).maximize(soft_sums(family, rows, psi))
    assert np.isfinite(theta).all()
    logits = Mixture(family).logits(theta)
    assert np.isfinite(logits.b).all()
    assert np.isfinite(logits.W).all()
    parameters = Mixture(family).unpack(theta)
    assert all(np.isfinite(value).all() for value in parameters.values())
    assert parameters["weights"][0] == pytest.approx(0, abs=1e-12)


@each_family
def test_empty_component_takes_after_all_rows(case, family, rows, rng):
    psi = rng.dirichlet(np.ones(K), size=N_ROWS).T
    # The rows left have unequal weights: their mean is not the centre.
    psi[0] = 0
    parameters = family.unpack(family.maximize(soft_sums(family, rows, psi)))
    if case.numeric:
        mean = np.average(rows.numeric, axis=0, weights=psi.sum(axis=0))
        np.testing.assert_allclose(parameters["means"][0], mean, rtol=1e-9)
        empty, *others = covariance_matrices(parameters["covariances"])
        pooled = np.average(others, axis=0, weights=psi.sum(axis=1)[1:])
        np.testing.assert_allclose(empty, pooled, rtol=1e-9, atol=1e-9)
    if "probabilities" in parameters:
        shares = np.average(parameters["probabilities"][1:], axis=0, weights=psi.sum(axis=1)[1:])
        np.testing.assert_allclose(parameters["probabilities"][0], shares, rtol=1e-9)


@each_family
def test_parameters_are_counted(case, family):
    assert family.n_parameters == case.n_parameters
    assert Mixture(family).n_parameters == case.n_parameters + K - 1


@each_numeric_family
def test_reg_covar_is_the_smallest_variance(case, rows, rng):
    flat = Rows(np.zeros_like(rows.numeric), rows.codes)
    family = case.make(flat, 0.04)
    theta = family.maximize(random_sums(family, flat, rng))
    for covariance in covariance_matrices(family.unpack(theta)["covariances"]):
        np.testing.assert_allclose(covariance, 0.04 * np.eye(len(covariance)), atol=1e-12)
    # The maximum is inside the bounds; half its standard deviation is not.
    np.testing.assert_allclose(family.clip(theta), theta, rtol=1e-12)
    parameters = family.unpack(theta)
    narrow = family.pack(parameters | {"covariances": parameters["covariances"] / 4})
    np.testing.assert_allclose(family.clip(narrow), theta, rtol=1e-12, atol=1e-12)
