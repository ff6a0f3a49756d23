"""The objective and its EM surrogate: gradients by finite differences, and the lower bound."""

import numpy as np
import pytest

from cases import K, M, assert_slopes, each_criterion, each_family, problem
from fairmix.solvers.objective import Scaled

each_temperature = pytest.mark.parametrize("temperature", [1.0, 0.3])


@each_family
@each_criterion
@each_temperature
def test_gradient_equals_finite_differences(case, fairness, temperature):
    toy = problem(case)
    objective = toy.objective(fairness.criterion, temperature=temperature)
    actual = objective.gradient(objective.evaluate(toy.theta))
    assert_slopes(lambda theta: objective.evaluate(theta).value, toy.theta, actual)


@each_family
@each_criterion
@each_temperature
def test_surrogate_gradient_equals_finite_differences(case, fairness, temperature):
    toy = problem(case)
    objective = toy.objective(fairness.criterion, temperature=temperature)
    # Around other parameters than those at which the gradient is taken.
    surrogate, _ = objective.expect(toy.theta + 0.1)
    actual = surrogate.gradient(surrogate.evaluate(toy.theta))
    assert_slopes(lambda theta: surrogate.evaluate(theta).value, toy.theta, actual)


@each_family
def test_gradient_without_penalty_equals_finite_differences(case):
    toy = problem(case)
    objective = toy.objective()
    actual = objective.gradient(objective.evaluate(toy.theta))
    assert_slopes(lambda theta: objective.evaluate(theta).value, toy.theta, actual)


@each_family
@each_criterion
def test_value_follows_from_the_definition(case, fairness):
    toy = problem(case)
    parameters = toy.mixture.unpack(toy.theta)
    joint = np.log(parameters["weights"])[:, None] + case.log_density(parameters, toy.rows)
    marginal = np.logaddexp.reduce(joint, axis=0)
    psi = np.exp(joint - marginal)
    rates = np.array(
        [np.average(psi, axis=1, weights=toy.weight * (toy.groups == g)) for g in range(M)]
    )
    log_likelihood = np.average(marginal, weights=toy.weight)
    point = toy.objective(fairness.criterion).evaluate(toy.theta)
    np.testing.assert_allclose(point.rates, rates, rtol=1e-9)
    assert point.log_likelihood == pytest.approx(log_likelihood, rel=1e-10)
    expected = log_likelihood - 2.0 * fairness.value(rates)
    assert point.value == pytest.approx(expected, rel=1e-9)


@each_family
@each_criterion
@each_temperature
def test_surrogate_is_a_tangent_lower_bound(case, fairness, temperature):
    toy = problem(case)
    objective = toy.objective(fairness.criterion, temperature=temperature)
    surrogate, point = objective.expect(toy.theta)
    np.testing.assert_allclose(
        surrogate.gradient(surrogate.evaluate(toy.theta)), objective.gradient(point), atol=1e-7
    )
    base = surrogate.evaluate(toy.theta).value
    rng = np.random.default_rng(1)
    for scale in (1e-2, 0.1, 1.0):
        theta = toy.theta + rng.normal(scale=scale, size=toy.theta.shape)
        gain = surrogate.evaluate(theta).value - base
        assert gain <= objective.evaluate(theta).value - point.value + 1e-12


@each_family
def test_expect_knows_the_point_that_evaluate_finds(case):
    toy = problem(case)
    objective = toy.objective()
    _, known = objective.expect(toy.theta)
    found = objective.evaluate(toy.theta)
    assert known.value == pytest.approx(found.value, rel=1e-14)
    np.testing.assert_allclose(known.rates, found.rates, rtol=1e-14)


@each_criterion
def test_multipliers_stay_in_the_dual_ball(fairness):
    rng = np.random.default_rng(2)
    penalty = Scaled(fairness.criterion, 2.0, 5.0, np.zeros((M, K)))
    for _ in range(20):
        rates = rng.dirichlet(np.ones(K), size=M)
        multipliers = penalty.gradient(rates)
        assert fairness.criterion.support(multipliers) <= 2.0 + 1e-12
        penalty = penalty.updated(rates)
        np.testing.assert_array_equal(penalty.y, multipliers)


@each_criterion
def test_multipliers_become_a_subgradient_where_groups_stay_apart(fairness):
    rates = np.random.default_rng(3).dirichlet(np.ones(K), size=M)
    penalty = Scaled(fairness.criterion, 2.0, 5.0, np.zeros((M, K)))
    for _ in range(200):
        penalty = penalty.updated(rates)
    expected = 2.0 * fairness.criterion.gradient(rates)
    np.testing.assert_allclose(penalty.gradient(rates), expected, atol=1e-9)
    assert np.vdot(penalty.y, rates) == pytest.approx(penalty.value(rates))
