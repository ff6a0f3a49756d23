"""Missing values in the numerical core: SciPy's marginals, finite differences, monotone EM."""

import itertools

import numpy as np
import pytest
from scipy import stats

from cases import (
    CRITERIA,
    FAMILIES,
    LEVELS,
    D,
    K,
    M,
    assert_close,
    assert_slopes,
    central_differences,
    covariance_matrices,
    each,
    memory_table,
    random_theta,
    soft_sums,
    whole_block,
)
from fairmix.kernels import Sweep
from fairmix.kernels.softmax import LogitMap, tilted
from fairmix.kernels.totals import Logits, Rows
from fairmix.mixture.families import Categorical, Gaussian, takes_missing
from fairmix.mixture.mixture import Mixture
from fairmix.mixture.propensity import fit_propensity
from fairmix.solvers import EM, Beginning
from fairmix.solvers.objective import Objective, Scaled
from fairmix.tables import MemoryStore

N_ROWS = 60
OPEN = {
    name: case
    for name, case in FAMILIES.items()
    if name == "categorical" or takes_missing(name.split("-", 1)[1])
}
each_open_family = each("case", OPEN)


def with_gaps(rows, rng, share=0.3):
    """The rows with values left out at random; nothing is left of the first row."""
    numeric, codes = rows.numeric, rows.codes
    if numeric is not None:
        numeric = np.where(rng.random(numeric.shape) < share, np.nan, numeric)
        numeric[0] = np.nan
    if codes is not None:
        codes = np.where(rng.random(codes.shape) < share, -1, codes)
        codes[0] = -1
    return Rows(numeric, codes)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def complete(case, rng):
    return case.rows(N_ROWS, rng)


@pytest.fixture
def family(case, complete):
    return case.make(complete, 0.0)


@pytest.fixture
def theta(family, complete, rng):
    return random_theta(family, complete, rng)


@pytest.fixture
def rows(complete, rng):
    return with_gaps(complete, rng)


def marginal(parameters, rows, i):
    """Log-density (K,) of what one row shows."""
    out = np.zeros(K)
    if rows.numeric is not None:
        seen = np.flatnonzero(~np.isnan(rows.numeric[i]))
        matrices = covariance_matrices(parameters["covariances"])
        for k, (mean, matrix) in enumerate(zip(parameters["means"], matrices, strict=True)):
            if len(seen):
                part = matrix[np.ix_(seen, seen)]
                x = rows.numeric[i, seen]
                out[k] += stats.multivariate_normal.logpdf(x, mean[seen], part)
    if rows.codes is not None:
        # Brute force: the sum over every completion of the row.
        first, second = np.split(parameters["probabilities"], [LEVELS[0]], axis=1)
        options = [
            range(levels) if code < 0 else [code]
            for code, levels in zip(rows.codes[i], LEVELS, strict=True)
        ]
        out += np.log(sum(first[:, a] * second[:, b] for a, b in itertools.product(*options)))
    return out


def marginals(parameters, rows):
    return np.stack([marginal(parameters, rows, i) for i in range(rows.n_rows)], axis=1)


@each_open_family
def test_log_density_is_the_marginal(family, theta, rows):
    found = tilted(whole_block(family, rows), LogitMap(family.logits(theta)))
    np.testing.assert_allclose(found, marginals(family.unpack(theta), rows), atol=1e-10)
    np.testing.assert_allclose(found[:, 0], 0.0, atol=1e-10, err_msg="nothing seen, density one")


@each_open_family
def test_complete_rows_carry_no_indicators(family, complete, rows):
    without, with_marks = family.encode(complete), family.encode(rows)
    if isinstance(family, Categorical):
        assert without.dense.sum() == len(LEVELS) * N_ROWS
        assert with_marks.dense[0].tolist() == [0] * sum(LEVELS)
    else:
        gaussian = family if isinstance(family, Gaussian) else family.numeric
        shown = 0 if isinstance(family, Gaussian) else sum(LEVELS)
        assert without.dense.shape[1] == shown + D + gaussian.n_scales
        assert with_marks.dense.shape[1] == shown + 2 * D + gaussian.n_scales
        assert with_marks.dense[:, -D:].sum() == np.isnan(rows.numeric).sum()


@each_open_family
def test_codes_of_many_categories_give_what_columns_of_few_give(
    family, theta, rows, rng, monkeypatch
):
    if isinstance(family, Gaussian):
        return
    groups, theta = rng.integers(M, size=N_ROWS), np.concatenate([rng.normal(size=K), theta])

    def answers():
        table = memory_table(rows, family.encode, groups=groups, n_groups=M)
        totals = table.softmax_pass(Sweep(Mixture(family).logits(theta)))
        return Mixture(family).maximize(totals.sums), totals.log_likelihood, totals.mass

    columns = answers()
    monkeypatch.setattr("fairmix.mixture.families.categorical.FEW_CATEGORIES", 0)
    assert family.encode(rows).codes is not None
    for few, many in zip(columns, answers(), strict=True):
        np.testing.assert_allclose(few, many, rtol=1e-10, atol=1e-10)


@each_open_family
def test_pullback_equals_finite_differences(family, theta, rng):
    grad = Logits(rng.normal(size=K), rng.normal(size=(K, family.n_features)))
    expected = central_differences(lambda moved: grad.dot(family.logits(moved)), theta)
    np.testing.assert_allclose(family.pullback(theta, grad), expected, rtol=1e-6, atol=1e-7)


@each_open_family
def test_maximize_is_the_maximum_of_the_expected_log_likelihood(family, rows, rng):
    psi = rng.dirichlet(np.ones(K), size=N_ROWS).T
    sums = soft_sums(family, rows, psi)
    best = family.maximize(sums)

    def expected(theta):
        return float(np.vdot(psi, marginals(family.unpack(theta), rows)))

    assert sums.dot(family.logits(best)) == pytest.approx(expected(best), rel=1e-10)
    for _ in range(3):
        direction = rng.normal(size=best.shape)
        ahead, behind = expected(best + 1e-4 * direction), expected(best - 1e-4 * direction)
        assert abs(ahead - behind) / 2e-4 < 1e-3
        assert max(ahead, behind) < expected(best)
        assert expected(best + direction) < expected(best)


@each("case", OPEN, *(name for name in OPEN if name != "categorical"))
def test_a_component_that_sees_nothing_of_a_column_gets_the_pooled_mean(family, rows):
    rows.numeric[: N_ROWS // 2, 1] = np.nan
    psi = np.zeros((K, N_ROWS))
    psi[0, : N_ROWS // 2] = 1
    psi[1, N_ROWS // 2 :] = 1
    found = family.unpack(family.maximize(soft_sums(family, rows, psi)))
    assert found["means"][0, 1] == pytest.approx(np.nanmean(rows.numeric[:, 1]), rel=1e-9)
    assert found["means"][1, 1] == pytest.approx(np.nanmean(rows.numeric[:, 1]), rel=1e-9)
    own = np.nanmean(rows.numeric[: N_ROWS // 2, 0])
    assert found["means"][0, 0] == pytest.approx(own, rel=1e-9)
    assert np.isfinite(found["covariances"]).all()


@each_open_family
def test_totals_do_not_depend_on_where_the_gaps_are(family, theta, complete, rows, rng):
    # Blocks of eight rows: some are complete, and have fewer columns than others.
    keep = np.arange(N_ROWS) < 20
    mixed = Rows(
        None if rows.numeric is None else np.where(keep[:, None], complete.numeric, rows.numeric),
        None if rows.codes is None else np.where(keep[:, None], complete.codes, rows.codes),
    )
    groups = rng.integers(M, size=N_ROWS)
    logits = Mixture(family).logits(np.concatenate([np.zeros(K), theta]))
    small, large = (
        memory_table(mixed, family.encode, groups=groups, n_groups=M, block_rows=size)
        for size in (8, N_ROWS)
    )
    if complete.numeric is not None:
        assert len({block.features.dense.shape[1] for block in small.each(lambda b: b)}) == 2
    pull = rng.normal(size=(M, K))
    for settings in ({}, {"alpha": 0.0, "pull": pull}):
        few = small.softmax_pass(Sweep(logits, **settings))
        all_at_once = large.softmax_pass(Sweep(logits, **settings))
        assert_close(few, all_at_once, rtol=1e-10, atol=1e-10)


@each_open_family
def test_gradient_of_the_fair_objective(family, theta, rows, rng):
    groups = rng.integers(M, size=N_ROWS)
    table = memory_table(rows, family.encode, groups=groups, n_groups=M)
    penalty = Scaled(CRITERIA["gap"].criterion, 2.0, 1e9, np.zeros((M, K)))
    objective = Objective(Mixture(family), table, penalty)
    start = np.concatenate([rng.normal(scale=0.3, size=K), theta])
    gradient = objective.gradient(objective.evaluate(start))
    assert_slopes(lambda moved: objective.evaluate(moved).value, start, gradient)


@each_open_family
def test_em_never_falls(family, theta, rows):
    objective = Objective(Mixture(family), memory_table(rows, family.encode))
    solver = EM(CRITERIA["gap"].criterion, max_iter=40, tol=0.0)
    solution = solver.climb(objective, Beginning(np.concatenate([np.zeros(K), theta])))
    climbed = np.array([row.objective for row in solution.history])
    assert np.diff(climbed).min() > -1e-12
    assert climbed[-1] > climbed[0] + 0.01


def test_moments_are_those_of_the_values_that_are_there(rng):
    X = rng.normal(loc=[1e6, -3.0, 0.0], size=(50, 3))
    X[rng.random(X.shape) < 0.4] = np.nan
    X[:8, 1] = np.nan
    weight = rng.uniform(0.5, 2.0, size=50)
    for block_rows in (8, 50):
        store = MemoryStore(Rows(X, None), weight=weight, block_rows=block_rows)
        moments = store.summary.moments
        for j, column in enumerate(X.T):
            seen = ~np.isnan(column)
            mean = np.average(column[seen], weights=weight[seen])
            variance = np.average((column[seen] - mean) ** 2, weights=weight[seen])
            assert moments.weight[j] == pytest.approx(weight[seen].sum())
            assert moments.mean[j] == pytest.approx(mean, rel=1e-12)
            assert moments.variance[j] == pytest.approx(variance, rel=1e-9)


def test_k_means_sees_the_mean(rng):
    numbers = Gaussian(K, np.array([1.0, 2.0, 3.0]))
    points = numbers.points(Rows(np.array([[np.nan, 5.0, np.nan]]), None))
    assert points.tolist() == [[1.0, 5.0, 3.0]]
    categories = Categorical(K, LEVELS)
    codes = np.array([[0, 3], [1, -1], [-1, 3], [0, 0]])
    shown = categories.points(Rows(None, codes))
    np.testing.assert_allclose(shown[2], [2 / 3, 1 / 3, 0, 0, 0, 1])
    np.testing.assert_allclose(shown[1], [0, 1, 1 / 3, 0, 0, 2 / 3])


def test_propensity_knows_of_gaps_that_tell_the_group(rng):
    groups = rng.integers(2, size=600)
    numeric = rng.normal(size=(600, 2))
    numeric[(groups == 1) & (rng.random(600) < 0.8), 0] = np.nan
    codes = rng.integers(3, size=(600, 1))
    codes[(groups == 0) & (rng.random(600) < 0.8), 0] = -1
    propensity = fit_propensity(Rows(numeric, codes), groups, 2, weight=None)
    assert propensity.gaps == (0, 2)
    asked = Rows(np.array([[np.nan, 0.0], [0.0, 0.0]]), np.array([[1], [-1]]))
    found = propensity(asked)
    np.testing.assert_allclose(found.sum(axis=0), 1.0)
    assert found[1, 0] > 0.95
    assert found[0, 1] > 0.95


def test_propensity_without_gaps_takes_the_mean_for_one(rng):
    groups = rng.integers(2, size=400)
    numeric = rng.normal(size=(400, 2)) + groups[:, None]
    propensity = fit_propensity(Rows(numeric, None), groups, 2, weight=None)
    assert propensity.gaps == ()
    found = propensity(Rows(np.array([[np.nan, 1.0]]), None))
    expected = propensity(Rows(np.array([[numeric[:, 0].mean(), 1.0]]), None))
    np.testing.assert_allclose(found, expected, rtol=1e-12)
