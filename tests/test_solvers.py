"""Solvers: they climb, they agree with scikit-learn and with each other, and fair fits are fair."""

from functools import cache, partial

import numpy as np
import pytest
from sklearn.mixture import GaussianMixture
from threadpoolctl import threadpool_limits

from cases import (
    BOUND,
    CLIMBERS,
    CRITERIA,
    FAMILIES,
    SOLVERS,
    K,
    M,
    assert_slopes,
    each_climber,
    each_criterion,
    each_family,
    each_solver,
    each_table,
    memory_table,
    problem,
    solved,
)
from fairmix.datasets import make_grouped_blobs
from fairmix.kernels import LogitMap, Sweep, hard_labels
from fairmix.kernels.totals import Rows
from fairmix.mixture.families import Gaussian
from fairmix.mixture.mixture import Mixture
from fairmix.solvers import EM, Beginning, Dual, Iteration, Status
from fairmix.solvers.objective import Objective, Scaled
from fairmix.tables import BLOCK_ROWS
from repetition import every_other, long

# Two clusters for four or six blobs: some of the ways to join blobs are fair, so a fair fit need
# not empty a cluster.
BLOBS = {2: 4, 3: 6}
SIZE = 2

each_number_of_groups = pytest.mark.parametrize("n_groups", list(BLOBS))


def toy(n_groups, n_rows=400):
    """Rows and groups, and means to start from."""
    X, groups, blobs = make_grouped_blobs(
        n_rows, BLOBS[n_groups], n_groups=n_groups, separation=3, imbalance=0.6, random_state=1
    )
    means = np.array([X[blobs % SIZE == k].mean(axis=0) for k in range(SIZE)])
    return X, groups, means


def fit(solver, X, groups, means, *, criterion=None, weight=None, covariance_type="tied-spherical"):
    """Solution, its point, and the mixture. The penalty is as sharp as in the estimator."""
    family = Gaussian(len(means), X.mean(axis=0), covariance_type)
    mixture, n_groups = Mixture(family), groups.max() + 1
    table = memory_table(
        Rows(X, None), family.encode, groups=groups, n_groups=n_groups, weight=weight
    )
    penalty = None
    if criterion is not None:
        penalty = Scaled(criterion, 1.0, 100.0, np.zeros((n_groups, len(means))))
    theta = mixture.pack(
        {
            "weights": np.full(len(means), 1 / len(means)),
            "means": means,
            "covariances": family.unit_covariances(),
        }
    )
    objective = Objective(mixture, table, penalty)
    solution = solved(solver, objective, theta)
    return solution, objective.evaluate(solution.theta), mixture


@cache
def toy_fit(solver, n_groups, criterion=None):
    """One fit that several tests look at, by names; a plain one without a criterion."""
    measure = CRITERIA[criterion or "gap"].criterion
    penalty = None if criterion is None else measure
    return fit(SOLVERS[solver](measure), *toy(n_groups), criterion=penalty)


def rounding(kind):
    """By how much results differ that are equal but for rounding.

    Passes of the dual are in single precision, whose sums differ between processors.
    """
    return 2e-6 if kind is Dual else 1e-9


def objectives(solution):
    return np.array([row.objective for row in solution.history])


@each_family
def test_plain_em_never_falls(case):
    data = problem(case, 200)
    solution = EM(CRITERIA["gap"].criterion, max_iter=30, tol=0).climb(
        data.objective(), Beginning(data.theta)
    )
    assert len(solution.history) == 30
    assert np.diff(objectives(solution)).min() > -1e-10
    assert solution.objective > solution.history[0].objective + 0.01


@each_family
def test_plain_em_takes_the_whole_m_step(case):
    data = problem(case, 200)
    objective = data.objective()
    surrogate, _ = objective.expect(data.theta)
    solution = EM(CRITERIA["gap"].criterion, max_iter=1).climb(objective, Beginning(data.theta))
    assert np.abs(surrogate.gradient(surrogate.evaluate(solution.theta))).max() < 1e-9


@each_family
def test_plain_em_ends_at_a_stationary_point(case):
    data = problem(case, 200)
    objective = data.objective()
    solution = EM(CRITERIA["gap"].criterion, max_iter=5000, tol=1e-12).climb(
        objective, Beginning(data.theta)
    )
    assert solution.status is Status.CONVERGED
    gradient = objective.gradient(objective.evaluate(solution.theta))
    assert np.abs(gradient).max() < 1e-4
    assert_slopes(lambda theta: objective.evaluate(theta).value, solution.theta, gradient)


@pytest.mark.parametrize("covariance_type", ["spherical", "diag", "full", "tied"])
def test_plain_em_equals_scikit_learn(covariance_type):
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(size=(150, 2)) @ rng.normal(size=(2, 2)) + 3 * k for k in range(3)])
    means = X[[10, 160, 310]]
    family = Gaussian(3, X.mean(axis=0), covariance_type, reg_covar=1e-6)
    mixture = Mixture(family)
    theta = mixture.pack(
        {
            "weights": np.full(3, 1 / 3),
            "means": means,
            "covariances": 2 * family.unit_covariances(),
        }
    )
    table = memory_table(Rows(X, None), family.encode)
    solver = EM(CRITERIA["gap"].criterion, max_iter=5000, tol=1e-11)
    solution = solver.climb(Objective(mixture, table), Beginning(theta))
    peer = GaussianMixture(
        3,
        covariance_type=covariance_type,
        weights_init=np.full(3, 1 / 3),
        means_init=means,
        precisions_init=family.unit_covariances() / 2,
        tol=1e-11,
        max_iter=5000,
        reg_covar=1e-6,
    ).fit(X)
    assert solution.status is Status.CONVERGED
    assert peer.converged_
    assert solution.objective == pytest.approx(peer.score(X), abs=1e-6)
    np.testing.assert_allclose(mixture.unpack(solution.theta)["means"], peer.means_, atol=1e-3)


@each_family
@pytest.mark.parametrize("temperature", [1.0, long(0.3)])
def test_fair_em_never_falls_in_any_family(case, temperature):
    data = problem(case, 200)
    criterion = CRITERIA["gap"].criterion
    penalty = Scaled(criterion, 2.0, 200.0, np.zeros((M, K)))
    objective = Objective(data.mixture, data.table(), penalty, temperature)
    solution = EM(criterion, max_iter=12).climb(objective, Beginning(data.theta))
    assert np.diff(objectives(solution)).min() >= 0
    assert solution.objective > solution.history[0].objective + 0.01


@pytest.mark.parametrize("criterion", every_other(CRITERIA))
@each_number_of_groups
def test_fair_em_never_falls_for_any_criterion(criterion, n_groups):
    solution, _, _ = toy_fit("em", n_groups, criterion)
    assert len(solution.history) > 30
    assert np.diff(objectives(solution)).min() >= 0


@pytest.mark.parametrize("solver", CLIMBERS)
@pytest.mark.parametrize("criterion", every_other(CRITERIA))
@each_number_of_groups
def test_fair_fit_is_fairer_than_the_plain_one(solver, criterion, n_groups):
    value = CRITERIA[criterion].value
    _, plain, _ = toy_fit(solver, n_groups)
    _, fair, mixture = toy_fit(solver, n_groups, criterion)
    assert value(fair.rates) < 0.1 * value(plain.rates)
    # Not by emptying a cluster.
    assert mixture.weights(fair.theta).min() > 0.2
    # It is better in what it climbs, and pays in likelihood.
    assert fair.value > plain.log_likelihood - value(plain.rates)
    assert fair.log_likelihood < plain.log_likelihood


@pytest.mark.parametrize("solver", [name for name in CLIMBERS if name != "em"])
@pytest.mark.parametrize("criterion", [None, *CRITERIA])
@each_number_of_groups
def test_solvers_agree_with_em(solver, criterion, n_groups):
    _, other, _ = toy_fit(solver, n_groups, criterion)
    _, em, _ = toy_fit("em", n_groups, criterion)
    assert other.value == pytest.approx(em.value, abs=0.01)


@each_family
def test_the_dual_meets_its_bound_in_any_family(case):
    data = problem(case, 200)
    criterion = CRITERIA["gap"]
    solution = solved(SOLVERS["dual"](criterion.criterion), data.objective(), data.theta)
    table, logits = data.table(), data.mixture.logits(solution.theta)
    tilt = {"offsets": solution.offsets, "temperature": solution.temperature}
    rates = table.softmax_pass(Sweep(logits, **tilt)).mass / table.group_sizes[:, None]
    assert solution.gap == pytest.approx(criterion.value(rates), abs=rounding(Dual))
    assert solution.gap <= BOUND + 1e-6
    untilted = table.softmax_pass(Sweep(logits, temperature=solution.temperature)).mass
    assert criterion.value(untilted / table.group_sizes[:, None]) > 2 * BOUND


@each_solver
@each_criterion
@each_number_of_groups
def test_names_of_groups_do_not_matter(make_solver, fairness, n_groups):
    X, groups, means = toy(n_groups)
    solver = make_solver(fairness.criterion, max_iter=10)
    expected, _, _ = fit(solver, X, groups, means, criterion=fairness.criterion)
    for renamed in (n_groups - 1 - groups, (groups + 1) % n_groups):
        actual, _, _ = fit(solver, X, renamed, means, criterion=fairness.criterion)
        close = 10 * rounding(type(solver))
        np.testing.assert_allclose(actual.theta, expected.theta, rtol=close, atol=close)
        gaps = [solution.history[-1].gap for solution in (actual, expected)]
        assert gaps[0] == pytest.approx(gaps[1], abs=rounding(type(solver)))


@each_solver
@pytest.mark.parametrize("fair", [False, True], ids=["plain", "fair"])
def test_weights_equal_repetition(make_solver, fair):
    X, groups, means = toy(3)
    times = np.random.default_rng(2).integers(4, size=len(X))
    again = np.repeat(np.arange(len(X)), times)
    measure = CRITERIA["gap"].criterion
    solver, criterion = make_solver(measure, max_iter=15), measure if fair else None
    weighted, _, mixture = fit(
        solver, X, groups, means, criterion=criterion, weight=times.astype(float)
    )
    repeated, _, other = fit(solver, X[again], groups[again], means, criterion=criterion)
    close = rounding(type(solver))
    assert weighted.objective == pytest.approx(repeated.objective, abs=close)
    for name, value in mixture.unpack(weighted.theta).items():
        # By value: theta counts from the centre, which here differs.
        np.testing.assert_allclose(
            value, other.unpack(repeated.theta)[name], rtol=max(1e-6, 10 * close)
        )


@each_solver
@each_table
def test_tables_give_the_same_fit_to_the_last_bit(make_solver, make_table):
    data = problem(FAMILIES["product-diag"], BLOCK_ROWS + 100)
    criterion = CRITERIA["gap"].criterion
    penalty = Scaled(criterion, 1.0, 100.0, np.zeros((M, K)))
    with threadpool_limits(1, user_api="blas"):
        expected, actual = (
            solved(
                make_solver(criterion, max_iter=3),
                Objective(data.mixture, table, penalty),
                data.theta,
            )
            for table in (data.table(), data.table(make_table))
        )
    assert np.array_equal(actual.theta, expected.theta)
    assert actual.objective == expected.objective


@pytest.mark.parametrize("covariance_type", ["tied-spherical", "diag", "full"])
def test_an_offset_of_1e8_changes_no_label(covariance_type):
    X, groups, means = toy(2)
    # Multiples of 1/64 survive the offset exactly.
    X, means = np.round(X * 64) / 64, np.round(means * 64) / 64
    labels = []
    for offset in (0.0, 1e8):
        moved = X + offset
        np.testing.assert_array_equal(moved - offset, X)
        solution, _, mixture = fit(
            EM(CRITERIA["gap"].criterion, max_iter=50),
            moved,
            groups,
            means + offset,
            covariance_type=covariance_type,
        )
        table = memory_table(Rows(moved, None), mixture.family.encode)
        logits = mixture.logits(solution.theta)
        labels.append(
            np.concatenate(list(table.each(partial(hard_labels, logit_map=LogitMap(logits)))))
        )
    np.testing.assert_array_equal(labels[0], labels[1])
    assert len(np.unique(labels[0])) == SIZE


def watched(make_solver):
    """A solution after five iterations, its objective and problem, and what the callback saw."""
    data = problem(FAMILIES["gaussian-diag"])
    criterion = CRITERIA["gap"].criterion
    objective = data.objective(criterion)
    seen: list[Iteration] = []
    solver = make_solver(criterion, max_iter=5, tol=0)
    solution = solved(solver, objective, data.theta, seen.append)
    return solution, objective, data, seen


@each_solver
def test_history_is_what_the_callback_saw(make_solver):
    solution, _, _, seen = watched(make_solver)
    assert seen == list(solution.history)
    assert solution.status is Status.MAX_ITER
    assert len(seen) == 5
    assert np.diff([row.seconds for row in seen]).min() >= 0


@each_climber
def test_history_is_of_the_objective(make_solver):
    solution, objective, data, seen = watched(make_solver)
    first = objective.evaluate(data.theta)
    assert seen[0].objective == pytest.approx(first.value)
    assert seen[0].log_likelihood == pytest.approx(first.log_likelihood)
    assert seen[0].gap == pytest.approx(CRITERIA["gap"].value(first.rates))
    mass = first.rates * np.bincount(data.groups, data.weight)[:, None]
    assert seen[0].balance == pytest.approx((mass.min(axis=0) / mass.max(axis=0)).min())
    assert solution.objective == pytest.approx(objective.evaluate(solution.theta).value)
