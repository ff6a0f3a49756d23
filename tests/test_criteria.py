"""Criteria: values by brute force, derivatives, projections and dual norms by their definitions."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import LinearConstraint, linprog, minimize

from cases import central_differences, each_criterion
from fairmix.criteria import smallest_ratio

SHAPES = [(1, 3), (2, 1), (2, 4), (3, 2), (5, 4)]
each_shape = pytest.mark.parametrize("shape", SHAPES, ids=str)

# Twentieths make ties between groups and between clusters common; they are where kinks are.
some_rates = st.sampled_from(SHAPES).flatmap(
    lambda shape: (
        arrays(np.float64, shape, elements=st.integers(0, 20).map(lambda i: i / 20))
        | arrays(np.float64, shape, elements=st.floats(0, 1))
    )
)
amounts = st.sampled_from([0.0, 0.01, 0.1, 0.5, 3.0])


def random_rates(shape, seed=0):
    return np.random.default_rng(seed).dirichlet(np.ones(shape[1]), size=shape[0])


def random_matrix(shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


@each_criterion
@given(rates=some_rates)
def test_value_equals_brute_force(fairness, rates):
    assert fairness.criterion.value(rates) == pytest.approx(fairness.value(rates), abs=1e-14)


@each_criterion
@given(rates=some_rates, data=st.data())
def test_gradient_is_a_subgradient(fairness, rates, data):
    criterion = fairness.criterion
    other = data.draw(arrays(np.float64, rates.shape, elements=st.floats(0, 1)))
    bound = criterion.value(rates) + np.vdot(criterion.gradient(rates), other - rates)
    assert criterion.value(other) >= bound - 1e-12


@each_criterion
@each_shape
def test_gradient_equals_finite_differences_off_ties(fairness, shape):
    rates = random_matrix(shape, seed=3)
    expected = central_differences(fairness.criterion.value, rates, step=1e-7)
    np.testing.assert_allclose(fairness.criterion.gradient(rates), expected, atol=1e-7)


@each_criterion
@each_shape
def test_parity_is_zero(fairness, shape):
    rates = np.repeat(random_rates((1, shape[1])), shape[0], axis=0)
    criterion = fairness.criterion
    # Exactly: a fair clustering must not be charged for rounding.
    assert criterion.value(rates) == 0
    for near in (criterion.project(rates, 0.0), criterion.shrink(rates, 0.1)):
        np.testing.assert_allclose(near, rates, rtol=1e-14)


@each_criterion
@each_shape
def test_names_of_groups_and_clusters_do_not_matter(fairness, shape):
    rng = np.random.default_rng(1)
    criterion, rates = fairness.criterion, random_matrix(shape)
    order = np.ix_(rng.permutation(shape[0]), rng.permutation(shape[1]))
    assert criterion.value(rates[order]) == pytest.approx(criterion.value(rates), rel=1e-14)
    for method, argument in ((criterion.project, 0.3), (criterion.shrink, 0.2)):
        expected = method(rates, argument)[order]
        np.testing.assert_allclose(method(rates[order], argument), expected, atol=1e-14)
    balanced = rates - rates.mean(axis=0)
    expected = criterion.support(balanced)
    assert criterion.support(balanced[order]) == pytest.approx(expected, rel=1e-14)


@each_criterion
@given(rates=some_rates, bound=amounts)
def test_project_is_feasible_and_idempotent(fairness, rates, bound):
    criterion = fairness.criterion
    near = criterion.project(rates, bound)
    assert criterion.value(near) <= bound + 1e-12
    np.testing.assert_allclose(criterion.project(near, bound), near, atol=1e-12)
    if criterion.value(rates) <= bound:
        np.testing.assert_allclose(near, rates, atol=1e-15)


@each_criterion
@given(rates=some_rates, bound=amounts, seed=st.integers(0, 1000))
def test_project_meets_the_variational_inequality(fairness, rates, bound, seed):
    criterion = fairness.criterion
    near = criterion.project(rates, bound)
    for other in (random_matrix(rates.shape, seed), near + 0.01 * random_matrix(rates.shape, seed)):
        # Towards parity until it is feasible.
        middle = other.mean(axis=0)
        other = middle + (other - middle) * min(1.0, bound / max(criterion.value(other), 1e-300))
        assert np.vdot(rates - near, other - near) <= 1e-12


@each_criterion
@pytest.mark.parametrize("shape", [(2, 2), (3, 2)], ids=str)
def test_project_equals_a_quadratic_program(fairness, shape):
    rates, bound = random_matrix(shape), 0.3
    inequalities = pair_rows(shape)
    averages = fairness.averages(len(inequalities) // shape[1], shape[1])
    # |differences| <= t and averages @ t <= bound make the problem smooth.
    A = np.block(
        [
            [-inequalities, np.eye(len(inequalities))],
            [inequalities, np.eye(len(inequalities))],
            [np.zeros((len(averages), rates.size)), -averages],
        ]
    )
    b = np.append(np.zeros(2 * len(inequalities)), np.full(len(averages), bound))
    start = np.zeros(A.shape[1])

    def distance(x):
        away = x[: rates.size] - rates.ravel()
        return away @ away, np.append(2 * away, start[rates.size :])

    found = minimize(
        distance,
        start,
        jac=True,
        constraints=LinearConstraint(A, -b, np.inf),
        method="SLSQP",
        tol=1e-14,
    )
    expected = found.x[: rates.size].reshape(shape)
    np.testing.assert_allclose(fairness.criterion.project(rates, bound), expected, atol=1e-6)


def pair_rows(shape):
    """Matrix that takes flat rates to differences: all pairs of the first cluster, then..."""
    n_groups, n_clusters = shape
    rows = []
    for k in range(n_clusters):
        for a, b in itertools.combinations(range(n_groups), 2):
            row = np.zeros(shape)
            row[a, k], row[b, k] = 1, -1
            rows.append(row.ravel())
    return np.array(rows)


@each_criterion
@given(rates=some_rates, amount=amounts)
def test_shrink_meets_moreau(fairness, rates, amount):
    # s is the minimiser exactly when z - s lies in the dual ball and is aligned with s.
    criterion = fairness.criterion
    shrunk = criterion.shrink(rates, amount)
    removed = rates - shrunk
    np.testing.assert_allclose(removed.sum(axis=0), 0, atol=1e-12)
    assert criterion.support(removed) <= amount + 1e-12
    aligned = amount * criterion.value(shrunk)
    assert np.vdot(removed, shrunk) == pytest.approx(aligned, abs=1e-12)


@each_criterion
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("shape", [(2, 2), (3, 2), (4, 3)], ids=str)
def test_support_equals_a_linear_program(fairness, shape, seed):
    multipliers = random_matrix(shape, seed)
    multipliers -= multipliers.mean(axis=0)
    differences = pair_rows(shape)
    n = len(differences)
    averages = fairness.averages(n // shape[1], shape[1])
    program = linprog(
        np.append(-multipliers.ravel(), np.zeros(n)),
        A_ub=np.block(
            [
                [differences, -np.eye(n)],
                [-differences, -np.eye(n)],
                [np.zeros((len(averages), multipliers.size)), averages],
            ]
        ),
        b_ub=np.append(np.zeros(2 * n), np.ones(len(averages))),
        # The first group is fixed: multipliers that add up to zero do not see a common shift.
        bounds=[(0, 0)] * shape[1] + [(None, None)] * (multipliers.size - shape[1] + n),
    )
    assert program.status == 0
    assert program.fun == pytest.approx(-fairness.criterion.support(multipliers), rel=1e-8)


def test_smallest_ratio_by_hand():
    values = np.array([[4.0, 0.0, 3.0], [2.0, 0.0, 9.0]])
    # 2/4, an empty cluster that does not count, 3/9.
    assert smallest_ratio(values) == pytest.approx(1 / 3)
    assert smallest_ratio(np.array([[1.0, 0.0], [1.0, 2.0]])) == 0
    assert smallest_ratio(np.zeros((2, 3))) == 1
