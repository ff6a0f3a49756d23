"""The dual's parts: curvature, slopes of projections, the quadratic step, the propensity."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

from cases import memory_table
from fairmix.criteria import CRITERIA
from fairmix.criteria.aggregates import LargestOverClusters
from fairmix.kernels import Sweep
from fairmix.kernels.totals import Rows
from fairmix.mixture.families import Gaussian
from fairmix.mixture.mixture import Mixture
from fairmix.mixture.propensity import fit_propensity
from fairmix.solvers.local_model import FewGroups
from fairmix.solvers.polish import Polish
from fairmix.solvers.quadratic import Bound, Strength, newton_multipliers
from fairmix.solvers.spending import spent
from fairmix.solvers.tilt import Tilt, _contrast_basis

K = 4


def make_tilt(n_groups, blind, weighted=False, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(600, 2))
    groups = (X[:, 0] + rng.normal(size=600) > 0).astype(int) + (rng.random(600) < 0.4) * (
        n_groups > 2
    )
    mixture = Mixture(Gaussian(K, np.zeros(2)))
    theta = mixture.pack(
        {
            "weights": np.full(K, 1 / K),
            "means": rng.normal(size=(K, 2)),
            "covariances": np.array(0.5),
        }
    )
    rows = Rows(X, None)
    weight = rng.integers(1, 4, size=600).astype(float) if weighted else None
    propensity = None
    if blind:
        propensity = fit_propensity(rows, groups, n_groups, weight=weight)
    table = memory_table(
        rows,
        mixture.family.encode,
        groups=groups,
        n_groups=n_groups,
        weight=weight,
        propensity=propensity,
    )
    return Tilt.of(table, K), mixture.logits(theta)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("blind", [False, True])
@pytest.mark.parametrize("n_groups", [2, 3])
def test_curvature_is_the_derivative_of_the_model_rates(n_groups, blind, weighted):
    tilt, logits = make_tilt(n_groups, blind, weighted)
    tilt = tilt.at(
        tilt.knowledge.basis @ np.random.default_rng(1).normal(size=(n_groups - 1, K)) * 0.1
    )
    temperature = 0.4

    def exact(tilt):
        return tilt.table.softmax_pass(
            Sweep(
                logits,
                offsets=tilt.offsets,
                temperature=temperature,
                likelihood=False,
                contrasts=tilt.knowledge.contrasts,
            )
        )

    curvature = tilt._model(np.zeros((n_groups, K)), exact(tilt), temperature).curvature
    rough = tilt._model(
        np.zeros((n_groups, K)),
        tilt.table.softmax_pass(tilt.sweep(logits, temperature)),
        temperature,
    ).curvature
    np.testing.assert_allclose(rough, curvature, atol=1e-6)

    def model_rates(multipliers):
        found = exact(tilt.at(multipliers))
        return found.model_mass / (tilt.share[:, None] * found.weight)

    # Multipliers add up to zero over groups, so only such directions count.
    center, rng, step = tilt.multipliers, np.random.default_rng(2), 1e-5
    for _ in range(4):
        d = tilt.knowledge.basis @ rng.normal(size=(n_groups - 1, K))
        change = (model_rates(center + step * d) - model_rates(center - step * d)) / (2 * step)
        change -= change.mean(axis=0)
        predicted = -(curvature @ d.ravel()).reshape(n_groups, K)
        np.testing.assert_allclose(predicted, change, atol=1e-6)


def test_hard_mass_counts_the_labels():
    tilt, logits = make_tilt(3, blind=False, weighted=True)
    totals = tilt.table.softmax_pass(tilt.sweep(logits, 0.3, hard=True))
    psi = np.concatenate([f.psi.T for f in tilt.table._last[1]])
    expected = np.zeros((3, K))
    np.add.at(expected, (tilt.table.store.groups, psi.argmax(axis=1)), tilt.table.store.weight)
    np.testing.assert_allclose(totals.hard_mass, expected)


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("n_groups", [2, 3, 5])
def test_slope_of_the_projection(criterion, n_groups):
    measure, rng = CRITERIA[criterion], np.random.default_rng(0)
    for share in (0.2, 0.6):
        z = rng.random((n_groups, K))
        bound = share * measure.value(z)
        slope = measure.project_slope(z, measure.project(z, bound)).reshape(z.size, z.size)
        for j in range(z.size):
            h = np.zeros(z.size)
            h[j] = 1e-7
            h = h.reshape(z.shape)
            change = (measure.project(z + h, bound) - measure.project(z - h, bound)) / 2e-7
            np.testing.assert_allclose(slope[:, j], change.ravel(), atol=1e-6)


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("bound", [0.0, 0.03])
@pytest.mark.parametrize("n_groups", [2, 3, 4])
def test_quadratic_step_meets_its_conditions(criterion, bound, n_groups):
    measure, rng = CRITERIA[criterion], np.random.default_rng(n_groups)
    root = rng.normal(size=(n_groups * K, n_groups * K))
    center = np.kron(np.eye(n_groups) - 1 / n_groups, np.eye(K))
    curvature = center @ root @ root.T @ center / (n_groups * K)
    rates = rng.dirichlet(np.ones(K), size=n_groups)
    start = np.zeros((n_groups, K))
    found = newton_multipliers(FewGroups(start, rates, curvature), measure, bound)
    predicted = rates - (curvature @ (found - start).ravel()).reshape(rates.shape)
    # Predicted rates are allowed, and the multipliers are normal to the allowed set there.
    assert measure.value(predicted) <= bound + 1e-5
    assert np.vdot(found, predicted) == pytest.approx(bound * measure.support(found), abs=1e-5)


class NotAbsolute(LargestOverClusters):
    """A criterion that does not tell of its absolute values."""

    def absolute(self, n_groups):
        return None


@pytest.mark.parametrize(
    ("criterion", "n_groups"),
    [("gap", 2), ("gap", 3), ("worst_pair_gap", 2), ("worst_pair_gap", 3), ("worst_pair_gap", 5)],
)
@pytest.mark.parametrize("bound", [0.005, 0.05, 0.3])
@pytest.mark.parametrize("seed", range(6))
def test_search_by_signs_equals_the_augmented_lagrangian(criterion, n_groups, bound, seed):
    measure, rng = CRITERIA[criterion], np.random.default_rng(seed)
    root = rng.normal(size=(n_groups * K, n_groups * K))
    center = np.kron(np.eye(n_groups) - 1 / n_groups, np.eye(K))
    curvature = center @ root @ root.T @ center / (n_groups * K)
    rates = rng.dirichlet(np.ones(K), size=n_groups)
    start = (seed % 2) * (center @ rng.normal(size=n_groups * K) / 10).reshape(n_groups, K)

    def value(multipliers):
        d = (multipliers - start).ravel()
        quadratic = 0.5 * d @ curvature @ d - rates.ravel() @ d
        return quadratic + bound * measure.support(multipliers)

    found = newton_multipliers(FewGroups(start, rates, curvature), measure, bound)
    other = newton_multipliers(
        FewGroups(start, rates, curvature), NotAbsolute(measure.measure), bound
    )
    np.testing.assert_allclose(found.sum(axis=0), 0, atol=1e-12)
    assert value(found) == pytest.approx(value(other), abs=1e-7)
    assert value(found) <= value(other) + 1e-9


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("n_groups", [2, 3])
@pytest.mark.parametrize("bound", [0.0, 0.05])
def test_solved_dual_has_no_duality_gap(criterion, n_groups, bound):
    tilt, logits = make_tilt(n_groups, blind=False)
    constraint = Bound(CRITERIA[criterion], bound)
    for _ in range(25):
        totals = tilt.table.softmax_pass(tilt.sweep(logits, 0.5))
        tilt = tilt.step(tilt.rates(totals), totals, 0.5, constraint, reach=4.0)
    totals = tilt.table.softmax_pass(tilt.sweep(logits, 0.5))
    rates = tilt.rates(totals)
    assert CRITERIA[criterion].value(rates) <= bound + 1e-6
    dual = totals.normaliser / totals.weight + bound * CRITERIA[criterion].support(tilt.multipliers)
    assert dual - tilt.value(totals) == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("labels", [True, False])
@pytest.mark.parametrize("blind", [False, True])
@pytest.mark.parametrize("n_groups", [2, 3])
def test_what_a_bound_leaves_over_is_spent(n_groups, blind, labels):
    """A tilt for half of the bound: towards the whole of it, the objective rises."""
    criterion = CRITERIA["gap"]
    tilt, logits = make_tilt(n_groups, blind)
    polish = Polish(criterion, 0.1, labels, 0.1)
    tight = polish.look(tilt, logits)
    for _ in range(25):
        tilt = tight.tilt.step(tight.rates, tight.totals, 0.1, Bound(criterion, 0.05), reach=2.0)
        tight = polish.look(tilt, logits)
    tight = replace(polish, bound=0.05).run(logits, tight)
    tight = polish.look(tight.tilt, logits)
    assert tight.gap <= 0.05 + 1e-9
    found = spent(polish, logits, tight)
    assert found.met
    assert found.gap > 0.06
    assert found.tilt.value(found.totals) > tight.tilt.value(tight.totals) + 1e-3
    filled = [int((look.totals.hard_mass.sum(axis=0) > 0).sum()) for look in (tight, found)]
    assert filled[1] >= filled[0]


def test_without_a_bound_nothing_is_left_over():
    tilt, logits = make_tilt(2, blind=False)
    polish = Polish(CRITERIA["gap"], np.inf, True, 0.1)
    look = polish.look(tilt, logits)
    assert spent(polish, logits, look) is look


def test_strength_is_reached_by_the_multipliers():
    tilt, logits = make_tilt(2, blind=False)
    constraint = Strength(CRITERIA["gap"], 0.05)
    for _ in range(25):
        totals = tilt.table.softmax_pass(tilt.sweep(logits, 1.0))
        tilt = tilt.step(tilt.rates(totals), totals, 1.0, constraint, reach=4.0)
    assert CRITERIA["gap"].support(tilt.multipliers) == pytest.approx(0.05, rel=2e-3)


def test_propensity_recovers_a_logistic_model():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 2))
    codes = rng.integers(3, size=(20_000, 1))
    truth = expit(X[:, 0] - 0.5 * X[:, 0] * X[:, 1] + np.array([-1.0, 0.0, 1.0])[codes[:, 0]])
    groups = (rng.random(20_000) < truth).astype(int)
    rows = Rows(X, codes)
    found = fit_propensity(rows, groups, 2, weight=None)(rows)
    np.testing.assert_allclose(found.sum(axis=0), 1.0)
    assert np.abs(found[1] - truth).mean() < 0.01
    # A category that the fit never saw counts as a rare one instead of failing.
    assert np.isfinite(fit_propensity(rows, groups, 2, weight=None)(Rows(X, codes + 5))).all()


def test_propensity_merges_rare_categories():
    rng = np.random.default_rng(0)
    codes = rng.integers(1000, size=(5000, 1))
    groups = rng.integers(2, size=5000)
    propensity = fit_propensity(Rows(None, codes), groups, 2, weight=None)
    assert propensity.coefficients.shape == (2, 65)


@pytest.mark.parametrize("n_groups", [2, 3, 7])
def test_the_basis_of_contrasts_is_orthonormal_and_its_zeros_are_exact(n_groups):
    basis = _contrast_basis(n_groups)
    np.testing.assert_allclose(basis.T @ basis, np.eye(n_groups - 1), atol=1e-15)
    np.testing.assert_allclose(basis.sum(axis=0), 0, atol=1e-15)
    # What is almost zero would make denormal numbers of negligible responsibilities.
    assert (np.abs(basis[basis != 0]) > 0.1).all()
