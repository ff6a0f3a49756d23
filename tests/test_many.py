"""Many groups: the small problem by structure, and fits that end."""

import warnings

import numpy as np
import pytest
from scipy.linalg import block_diag
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from cases import memory_table
from fairmix import FairMixture, metrics
from fairmix.criteria import CRITERIA
from fairmix.criteria.aggregates import LargestOverClusters, _amount, _cut, _paths, _shrink
from fairmix.criteria.measures import MeanPair
from fairmix.datasets import make_grouped_blobs
from fairmix.fitting.schedule import SCHEDULE
from fairmix.kernels import Sweep
from fairmix.kernels.totals import Rows
from fairmix.mixture.families import Gaussian
from fairmix.mixture.mixture import Mixture
from fairmix.mixture.propensity import _powers, fit_propensity
from fairmix.solvers.boundary import Near, Search
from fairmix.solvers.local_model import FewGroups
from fairmix.solvers.many import Accuracy, ByContrast, ByGroup, ManyGroups, many_multipliers
from fairmix.solvers.quadratic import STEP, Bound, Strength, newton_multipliers
from fairmix.solvers.tilt import FLOOR, MOST_CONTRASTS, Tilt, _contrast_basis, _widest
from repetition import every_other

K = 4
EXACT = Accuracy(tol=1e-9)


# ------------------------------------------------------------------------------- projections
def by_paths(criterion, rates, bound):
    """The projection by the shrink path of every cluster."""
    paths = _paths(criterion.measure, rates)
    if isinstance(criterion, LargestOverClusters):
        amounts = np.array([_amount(path, bound) for path in paths])
        return _shrink(criterion.measure, rates, amounts)
    amounts = np.unique(np.concatenate([path.amounts for path in paths]))
    left = np.sum([np.interp(amounts, path.amounts, path.values) for path in paths], axis=0)
    amount = float(np.interp(-bound, -left, amounts))
    return _shrink(criterion.measure, rates, np.full(rates.shape[1], amount))


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("n_groups", [4, 7, 60])
@pytest.mark.parametrize("share", [1e-3, 0.2, 0.9])
@pytest.mark.parametrize("digits", [1, 16])
def test_projections_equal_those_by_shrink_paths(criterion, n_groups, share, digits):
    measure, rng = CRITERIA[criterion], np.random.default_rng(n_groups)
    # Of one digit many rates are equal.
    rates = np.round(rng.random((n_groups, K)), digits)
    bound = share * measure.value(rates)
    found = measure.project(rates, bound)
    np.testing.assert_allclose(found, by_paths(measure, rates, bound), atol=1e-13)
    np.testing.assert_array_equal(measure.project(rates, 1.01 * measure.value(rates)), rates)


@pytest.mark.parametrize("criterion", ["gap", "worst_pair_gap"])
@pytest.mark.parametrize("n_groups", [4, 7, 60])
@pytest.mark.parametrize("share", [1e-6, 0.2, 0.999, 1.5])
def test_shrinking_equals_that_by_shrink_paths(criterion, n_groups, share):
    measure, rng = CRITERIA[criterion], np.random.default_rng(n_groups)
    rates = rng.random((n_groups, K))
    amount = share * measure.support(rates - rates.mean(axis=0))
    paths = _paths(measure.measure, rates)
    levels = np.unique(np.concatenate([path.values for path in paths]))
    spent = np.sum([_amount(path, levels) for path in paths], axis=0)
    level = float(np.interp(-amount, -spent, levels)) if spent[0] > amount else 0.0
    expected = _cut(measure.measure, rates, level)
    np.testing.assert_allclose(measure.shrink(rates, amount), expected, atol=1e-13)


def slope_of(face):
    """The derivative as a matrix."""
    pools = face.pools.ravel()
    normals = face.normals.reshape(len(face.normals), pools.size)
    return (pools[:, None] == pools) / face.sizes[pools] - normals.T @ normals


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("n_groups", [4, 7, 12])
@pytest.mark.parametrize("share", [0.05, 0.3, 0.8, 1.2])
def test_a_face_is_the_derivative_of_the_projection(criterion, n_groups, share):
    measure, z = CRITERIA[criterion], np.random.default_rng(n_groups).random((n_groups, K))
    bound = share * measure.value(z)
    face = measure.face(z, measure.project(z, bound))
    check_slope(face, lambda rates: measure.project(rates, bound), z)


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("n_groups", [4, 7, 12])
@pytest.mark.parametrize("share", [0.02, 0.3, 0.8, 1.2])
def test_a_face_of_shrinking_is_its_derivative(criterion, n_groups, share):
    measure, z = CRITERIA[criterion], np.random.default_rng(n_groups).random((n_groups, K))
    amount = share * measure.support(z - z.mean(axis=0))
    face = measure.shrink_face(z, measure.shrink(z, amount))
    check_slope(face, lambda rates: measure.shrink(rates, amount), z)


def check_slope(face, function, z):
    slope = slope_of(face)
    np.testing.assert_allclose(slope @ slope, slope, atol=1e-12)
    np.testing.assert_array_equal(np.bincount(face.pools.ravel()), face.sizes)
    for j in range(z.size):
        h = 1e-7 * (np.arange(z.size) == j).reshape(z.shape)
        change = (function(z + h) - function(z - h)) / 2e-7
        np.testing.assert_allclose(slope[:, j], change.ravel(), atol=1e-6)


# ------------------------------------------------------------------------- the small problem
def random_curvature(kind, n_groups, rng):
    """A curvature and, on multipliers whose columns add up to zero, its matrix."""
    center = np.kron(np.eye(n_groups) - 1 / n_groups, np.eye(K))
    if kind == "aware":
        # Groups of very different sizes, and each indifferent to what all its clusters share.
        sizes = 10.0 ** rng.uniform(-2, 1, size=n_groups)
        psi = rng.dirichlet(np.ones(K), size=(n_groups, 9))
        spread = np.stack([np.diag(p.mean(axis=0)) - p.T @ p / len(p) for p in psi])
        blocks = spread * sizes[:, None, None]
        blocks += 1e-3 * np.einsum("gkk->g", blocks)[:, None, None] * np.eye(K)
        return ByGroup(blocks), center @ block_diag(*blocks) @ center
    n_contrasts = n_groups - 1 if kind == "blind" else 3
    basis = _contrast_basis(n_groups) @ np.linalg.qr(rng.normal(size=(n_groups - 1,) * 2))[0]
    basis = basis[:, :n_contrasts]
    root = rng.normal(size=(n_contrasts * K,) * 2)
    inner = root @ root.T / len(root) + 1e-3 * np.eye(len(root))
    wide = np.kron(basis, np.eye(K))
    return ByContrast(basis, inner), wide @ inner @ wide.T


def duality_gap(found, start, rates, H, steps, measure, bound):
    """How far multipliers can be from the minimum: the value less a lower bound of all values.

    For allowed rates c, h is at least <c, .>, and with that the minimum is known. ``steps`` is an
    orthonormal basis of the steps that are possible.
    """
    d = (found - start).ravel()
    value = 0.5 * d @ H @ d - rates.ravel() @ d + bound * measure.support(found)
    c = measure.project(rates - (H @ d).reshape(rates.shape), bound)
    slope = steps.T @ (rates - c).ravel()
    lower = np.vdot(c, start) - 0.5 * slope @ np.linalg.solve(steps.T @ H @ steps, slope)
    return value - lower


@pytest.mark.parametrize("kind", ["aware", "blind"])
@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("n_groups", [4, 5, 8, 12])
@pytest.mark.parametrize("bound", [0.01, 0.2])
def test_small_problem_has_no_duality_gap_and_equals_the_one_of_matrices(
    kind, criterion, n_groups, bound
):
    measure = CRITERIA[criterion]
    for seed in range(3):
        rng = np.random.default_rng(seed)
        curvature, H = random_curvature(kind, n_groups, rng)
        rates = rng.dirichlet(np.ones(K), size=n_groups)
        start = rng.normal(size=rates.shape) / 10 * (seed > 0)
        start -= start.mean(axis=0)
        found = many_multipliers(ManyGroups(start, rates, curvature), Bound(measure, bound), EXACT)
        np.testing.assert_allclose(found.sum(axis=0), 0, atol=1e-9)
        steps = np.kron(_contrast_basis(n_groups), np.eye(K))
        assert 0 <= duality_gap(found, start, rates, H, steps, measure, bound) + 1e-9 <= 1e-6
        other = newton_multipliers(FewGroups(start, rates, H), measure, bound)
        predicted, known = (rates.ravel() - H @ (x - start).ravel() for x in (found, other))
        np.testing.assert_allclose(predicted, known, atol=1e-5)


@pytest.mark.parametrize("kind", ["aware", "blind"])
@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("n_groups", [4, 9])
def test_small_problem_of_a_strength_is_that_of_the_bound_it_leads_to(kind, criterion, n_groups):
    measure, rng = CRITERIA[criterion], np.random.default_rng(n_groups)
    curvature, _ = random_curvature(kind, n_groups, rng)
    rates = rng.dirichlet(np.ones(K), size=n_groups)
    start = np.zeros_like(rates)
    bound = 0.3 * measure.value(rates)
    found = many_multipliers(ManyGroups(start, rates, curvature), Bound(measure, bound), EXACT)
    strength = Strength(measure, measure.support(found))
    other = many_multipliers(ManyGroups(start, rates, curvature), strength, EXACT)
    assert measure.support(other) == pytest.approx(strength.strength, rel=1e-4)
    predicted = rates - curvature(other)
    assert measure.value(predicted) == pytest.approx(bound, abs=1e-5)
    np.testing.assert_allclose(predicted, rates - curvature(found), atol=1e-5)


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("bound", [0.01, 0.2])
def test_few_contrasts_solve_the_problem_along_them(criterion, bound):
    measure, n_groups = CRITERIA[criterion], 9
    rng = np.random.default_rng(0)
    curvature, H = random_curvature("few contrasts", n_groups, rng)
    rates = rng.dirichlet(np.ones(K), size=n_groups)
    start = np.zeros_like(rates)
    found = many_multipliers(ManyGroups(start, rates, curvature), Bound(measure, bound), EXACT)
    wide = np.kron(curvature.basis, np.eye(K))
    np.testing.assert_allclose(wide @ (wide.T @ found.ravel()), found.ravel(), atol=1e-12)

    def value(x):
        d = x.ravel()
        return 0.5 * d @ H @ d - rates.ravel() @ d + bound * measure.support(x)

    for _ in range(200):
        other = found + 1e-3 * (wide @ rng.normal(size=wide.shape[1])).reshape(found.shape)
        assert value(found) <= value(other) + 1e-9


@pytest.mark.parametrize("kind", ["aware", "blind"])
@pytest.mark.parametrize("n_groups", [4, 12])
def test_a_bound_of_zero_makes_predicted_rates_equal(kind, n_groups):
    rng = np.random.default_rng(n_groups)
    curvature, H = random_curvature(kind, n_groups, rng)
    rates = rng.dirichlet(np.ones(K), size=n_groups)
    start = rng.normal(size=rates.shape)
    start -= start.mean(axis=0)
    found = Bound(CRITERIA["gap"], 0.0).multipliers(ManyGroups(start, rates, curvature))
    predicted = rates - (H @ (found - start).ravel()).reshape(rates.shape)
    np.testing.assert_allclose(np.ptp(predicted, axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(found.sum(axis=0), 0, atol=1e-9)


class Counting(LargestOverClusters):
    """Counts its projections."""

    calls = 0

    def project(self, rates, bound):
        type(self).calls += 1
        return super().project(rates, bound)


@pytest.mark.parametrize("kind", ["aware", "blind"])
@pytest.mark.parametrize("n_groups", [10, 40])
def test_the_work_of_a_step_is_capped_and_comes_closer(kind, n_groups, monkeypatch):
    monkeypatch.setattr(Counting, "calls", 0)
    measure, rng = Counting(MeanPair()), np.random.default_rng(0)
    curvature, H = random_curvature(kind, n_groups, rng)
    rates = rng.dirichlet(np.ones(K), size=n_groups)
    start = np.zeros_like(rates)
    found = Bound(measure, 0.01).multipliers(ManyGroups(start, rates, curvature))
    # One for the start, and a line search may end late.
    assert measure.calls <= STEP.evaluations + 12
    predicted = rates - (H @ (found - start).ravel()).reshape(rates.shape)
    assert measure.value(predicted) < 0.6 * measure.value(rates)


# ---------------------------------------------------------------------------------- the tilt
def make_tilt(n_groups, blind):
    X, groups, _ = make_grouped_blobs(900, K, 2, n_groups=n_groups, random_state=0)
    mixture = Mixture(Gaussian(K, np.zeros(2)))
    theta = mixture.pack(
        {
            "weights": np.full(K, 1 / K),
            "means": np.random.default_rng(0).normal(size=(K, 2)) * 2,
            "covariances": np.array(2.0),
        }
    )
    rows = Rows(X, None)
    propensity = fit_propensity(rows, groups, n_groups, weight=None) if blind else None
    table = memory_table(
        rows, mixture.family.encode, groups=groups, n_groups=n_groups, propensity=propensity
    )
    return Tilt.of(table, K), mixture.logits(theta)


def exact_pass(tilt, logits, temperature):
    return tilt.table.softmax_pass(
        Sweep(
            logits,
            offsets=tilt.offsets,
            temperature=temperature,
            likelihood=False,
            contrasts=None if tilt.aware else tilt.knowledge.contrasts,
            within_groups=tilt.aware,
        )
    )


@pytest.mark.parametrize("blind", [False, True])
@pytest.mark.parametrize("n_groups", [4, 9])
def test_curvature_of_many_groups_is_the_derivative_of_the_model_rates(n_groups, blind):
    tilt, logits = make_tilt(n_groups, blind)
    rng, temperature, step = np.random.default_rng(1), 0.4, 1e-5
    center = tilt.knowledge.basis @ rng.normal(size=(n_groups - 1, K)) * 0.02
    tilt = tilt.at(center)
    found = tilt._model(
        np.zeros((n_groups, K)), exact_pass(tilt, logits, temperature), temperature
    ).curvature
    rough = tilt._model(
        np.zeros((n_groups, K)),
        tilt.table.softmax_pass(tilt.sweep(logits, temperature)),
        temperature,
    ).curvature
    for _ in range(4):
        d = tilt.knowledge.basis @ rng.normal(size=(n_groups - 1, K))
        change = 0.0
        for sign in (1, -1):
            tilt = tilt.at(center + sign * step * d)
            totals = exact_pass(tilt, logits, temperature)
            change -= sign * totals.model_mass / (tilt.share[:, None] * totals.weight * 2 * step)
        change -= change.mean(axis=0)
        np.testing.assert_allclose(rough(d), found(d), atol=2e-5)
        # Beside the floor, which is a thousandth of the mean.
        away = np.abs(found(d) - change).max()
        assert away <= 5 * n_groups * FLOOR * found.unit * np.abs(d).max()
        assert away < 0.05 * np.abs(change).max()


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("n_groups", [4, 8])
@pytest.mark.parametrize("bound", [0.0, 0.05])
def test_solved_dual_of_many_groups_has_no_duality_gap(criterion, n_groups, bound):
    tilt, logits = make_tilt(n_groups, blind=False)
    measure = CRITERIA[criterion]
    for _ in range(60):
        totals = tilt.table.softmax_pass(tilt.sweep(logits, 0.5))
        tilt = tilt.step(tilt.rates(totals), totals, 0.5, Bound(measure, bound), reach=4.0)
    totals = tilt.table.softmax_pass(tilt.sweep(logits, 0.5))
    assert measure.value(tilt.rates(totals)) <= bound + 1e-5
    dual = totals.normaliser / totals.weight + bound * measure.support(tilt.multipliers)
    assert dual - tilt.value(totals) == pytest.approx(0.0, abs=1e-5)


@pytest.mark.parametrize("blind", [False, True])
def test_strength_is_reached_by_the_multipliers_of_many_groups(blind):
    tilt, logits = make_tilt(6, blind)
    constraint = Strength(CRITERIA["gap"], 0.05)
    for _ in range(25):
        totals = tilt.table.softmax_pass(tilt.sweep(logits, 1.0))
        tilt = tilt.step(tilt.rates(totals), totals, 1.0, constraint, reach=4.0)
    assert CRITERIA["gap"].support(tilt.multipliers) == pytest.approx(0.05, rel=5e-3)


def test_contrasts_of_very_many_groups_are_those_of_the_largest_variance():
    rng, n_groups = np.random.default_rng(0), 80
    root = rng.normal(size=(n_groups, n_groups)) * 0.8 ** np.arange(n_groups)
    variance = root @ root.T
    basis = _widest(variance)
    assert basis.shape == (n_groups, MOST_CONTRASTS)
    np.testing.assert_allclose(basis.T @ basis, np.eye(MOST_CONTRASTS), atol=1e-12)
    np.testing.assert_allclose(basis.sum(axis=0), 0, atol=1e-12)
    center = np.eye(n_groups) - 1 / n_groups
    best = np.linalg.eigvalsh(center @ variance @ center)[-MOST_CONTRASTS:].sum()
    assert np.trace(basis.T @ variance @ basis) == pytest.approx(best, rel=1e-3)
    # Also where x tells nothing at all.
    assert np.isfinite(_widest(np.zeros((n_groups, n_groups)))).all()


# ---------------------------------------------------------------------------------- the fits
@pytest.mark.parametrize("n_groups", [4, 12])
def test_propensity_of_many_groups_is_that_of_newton_steps(n_groups):
    X, groups, _ = make_grouped_blobs(2000, 4, 3, n_groups=n_groups, random_state=0)
    found = fit_propensity(Rows(X, None), groups, n_groups, weight=None)(Rows(X, None))
    z = (X - X.mean(axis=0)) / X.std(axis=0)
    powers = _powers(z)
    columns = np.hstack([z, (powers - powers.mean(axis=0)) / powers.std(axis=0)])
    newton = LogisticRegression(solver="newton-cholesky", tol=1e-8).fit(columns, groups)
    np.testing.assert_allclose(found.T, newton.predict_proba(columns), atol=2e-3)


def fitted(X, groups, **settings):
    with warnings.catch_warnings():
        # Of a bound that is missed, of clusters that are empty, of iterations.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = FairMixture(5, random_state=0, min_group_size=1, **settings)
        return model.fit(X, sensitive_features=groups)


@pytest.mark.parametrize("assignment", ["aware", "blind"])
@pytest.mark.parametrize("criterion", every_other(CRITERIA))
def test_a_fit_with_ten_groups_ends_and_says_the_gap_of_its_labels(criterion, assignment):
    X, groups, _ = make_grouped_blobs(300, 5, 3, n_groups=10, separation=2, random_state=0)
    model = fitted(X, groups, criterion=criterion, assignment=assignment)
    measure = {name: getattr(metrics, name) for name in CRITERIA}[criterion]
    assert model.gap_ == pytest.approx(measure(model.labels_, groups), abs=1e-12)
    plain = fitted(X, groups, criterion=criterion, fairness_strength=0)
    assert model.gap_ < 0.6 * measure(plain.labels_, groups)
    # 60 iterations are the most of ten groups; the rest are cooling and the last rows of two ends,
    # and what a walk may take, for each of several.
    assert model.n_iter_ <= 60
    assert model.n_passes_ < 150 + 110 * SCHEDULE.search.blind.number


@pytest.mark.long
@pytest.mark.parametrize("assignment", ["aware", "blind"])
def test_a_fit_with_a_group_per_row_ends_and_says_the_gap_of_its_labels(assignment):
    X, *_ = make_grouped_blobs(120, 5, 3, random_state=0)
    groups = np.arange(120)
    model = fitted(X, groups, assignment=assignment)
    assert model.gap_ == pytest.approx(metrics.gap(model.labels_, groups), abs=1e-12)
    assert model.n_iter_ <= 40


@pytest.mark.parametrize("criterion", CRITERIA)
def test_an_aware_fit_with_many_groups_meets_its_bound(criterion):
    X, groups, _ = make_grouped_blobs(6000, 5, 3, n_groups=12, separation=2, random_state=0)
    model = FairMixture(5, assignment="aware", criterion=criterion, max_gap=0.02, random_state=0)
    model.fit(X, sensitive_features=groups)
    measure = getattr(metrics, criterion)
    assert measure(model.labels_, groups) == pytest.approx(model.gap_, abs=1e-12)
    assert model.gap_ <= 0.02


def test_an_aware_fit_with_many_groups_and_rows_aside_meets_its_bound():
    X, groups, _ = make_grouped_blobs(3000, 5, 3, n_groups=6, separation=2, random_state=0)
    groups[:8] = 6
    with pytest.warns(UserWarning, match="Not judged"):
        model = FairMixture(5, assignment="aware", max_gap=0.02, random_state=0).fit(
            X, sensitive_features=groups
        )
    assert model.gap_ == pytest.approx(metrics.gap(model.labels_[8:], groups[8:]), abs=1e-12)
    assert model.gap_ <= 0.02


@pytest.mark.long
def test_iterations_that_are_asked_for_are_not_capped():
    X, groups, _ = make_grouped_blobs(300, 5, 3, n_groups=10, separation=2, random_state=0)
    assert fitted(X, groups, max_iter=7).n_iter_ <= 7
    assert fitted(X, groups, max_iter=80).n_iter_ > 60


@pytest.mark.parametrize(("n_groups", "lines"), [(2, 800), (3, 800), (30, 80), (3000, 1)])
def test_the_search_near_a_boundary_tries_fewer_lines_with_more_groups(n_groups, lines):
    rows = 10
    near = Near(
        np.zeros((rows, K)),
        np.zeros((rows, n_groups)),
        np.zeros(rows, dtype=int),
        np.ones(rows),
        np.zeros(rows),
    )
    mass = np.ones((n_groups, K))
    search = Search(near, np.inf, mass, mass.sum(axis=1), CRITERIA["gap"], 0.1)
    assert search.lines_left == lines
