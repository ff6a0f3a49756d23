"""Ratios inside clusters: their cones by definition, and the small problem they make."""

import itertools
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.linalg import block_diag
from scipy.optimize import LinearConstraint, minimize, nnls

from cases import central_differences
from fairmix.criteria import MaxGap, MinBalance, MinRatio, best_balance
from fairmix.criteria.limits import limit_of
from fairmix.criteria.ratios import SmallestRatio
from fairmix.solvers.cone import cone_multipliers
from fairmix.solvers.local_model import FewGroups
from fairmix.solvers.many import Accuracy, ByContrast, ByGroup, ManyGroups, many_multipliers
from fairmix.solvers.quadratic import Bound

# Sizes of groups: equal, different, many.
SIZES = {
    2: np.array([30.0, 70.0]),
    3: np.array([50.0, 200.0, 80.0]),
    5: np.array([10.0, 20.0, 30.0, 40.0, 50.0]),
}
LIMITS = {"ratio": MinRatio(0.8), "balance": MinBalance(0.1)}
each_limit = pytest.mark.parametrize("limit", LIMITS.values(), ids=LIMITS)
each_size = pytest.mark.parametrize("sizes", SIZES.values(), ids=map(str, SIZES))
bounds = st.sampled_from([0.0, 1e-6, 0.05, 0.2, 0.7])


def criterion_of(limit, sizes) -> SmallestRatio:
    return limit.criterion(sizes, 1 / sizes)


@st.composite
def some_points(draw):
    """A criterion and rates with many ties and zeros; or any numbers, as steps reach them."""
    sizes = draw(st.sampled_from(list(SIZES.values())))
    criterion = criterion_of(draw(st.sampled_from(list(LIMITS.values()))), sizes)
    shape = (len(sizes), 3)
    few = arrays(np.float64, shape, elements=st.integers(-4, 12).map(lambda i: i / 12))
    # Six digits: numbers of a size that rates have, and none that vanishes beside another.
    any_ = arrays(np.float64, shape, elements=st.floats(-1, 1).map(lambda x: round(x, 6)))
    return criterion, draw(few | any_)


def pair_ratios(values):
    """Of all pairs of groups, by definition, cluster by cluster; an empty one has none."""
    return [
        min(a / b for a, b in itertools.permutations(column, 2) if b > 0)
        for column in values.T
        if column.max() > 0
    ]


# -------------------------------------------------------------------------------- the measure
@each_size
@pytest.mark.parametrize("seed", range(3))
def test_the_value_is_what_is_missing_of_the_best_ratio(sizes, seed):
    rates = np.random.default_rng(seed).dirichlet(np.ones(4), size=len(sizes))
    rates[:, 3] = 0  # empty: no ratio
    counts = rates * sizes[:, None]
    ratio = criterion_of(MinRatio(0.8), sizes)
    assert 1 - ratio.value(rates) == pytest.approx(min(pair_ratios(rates)))
    balance = criterion_of(MinBalance(0.1), sizes)
    best = sizes.min() / sizes.max()
    assert best_balance(sizes) == pytest.approx(best)
    assert best * (1 - balance.value(rates)) == pytest.approx(min(pair_ratios(counts)))


@each_limit
@each_size
def test_equal_rates_have_the_best_ratio(limit, sizes):
    criterion = criterion_of(limit, sizes)
    rates = np.tile(np.random.default_rng(0).dirichlet(np.ones(4)), (len(sizes), 1))
    assert criterion.value(rates) == pytest.approx(0, abs=1e-15)
    assert limit.figure(0.0, sizes) == pytest.approx(criterion.best)
    np.testing.assert_allclose(criterion.project(rates, 0.0), rates, rtol=1e-14)
    # A cluster without a member of a group is as bad as it gets; one without a row does not count.
    rates[0, 1] = 0
    assert criterion.value(rates) == 1
    rates[:, 1] = 0
    assert criterion.value(rates) == pytest.approx(0, abs=1e-15)


@each_limit
@each_size
@pytest.mark.parametrize("seed", range(4))
def test_the_gradient_equals_finite_differences(limit, sizes, seed):
    criterion = criterion_of(limit, sizes)
    rates = np.random.default_rng(seed).dirichlet(np.ones(4), size=len(sizes))
    expected = central_differences(criterion.value, rates, step=1e-7)
    np.testing.assert_allclose(criterion.gradient(rates), expected, rtol=1e-5, atol=1e-6)


def test_the_gradient_where_a_group_or_all_rows_are_missing():
    criterion = criterion_of(MinRatio(0.8), SIZES[2])
    np.testing.assert_array_equal(criterion.gradient(np.zeros((2, 3))), 0)
    # More of the missing group helps, more of the other changes nothing.
    expected = [[0, -1 / 0.25], [0, 0]]
    np.testing.assert_allclose(criterion.gradient(np.array([[1.0, 0.0], [0.75, 0.25]])), expected)


# ----------------------------------------------------------------------- the set of a bound
@given(point=some_points(), bound=bounds)
def test_the_projection_is_the_nearest_point_of_the_cone(point, bound):
    """Of a cone, p is nearest to z if it is in it, z - p in its polar, and both orthogonal."""
    criterion, z = point
    near = criterion.project(z, bound)
    assert (near >= 0).all()
    scaled = near * criterion.scales[:, None]
    rho = criterion.best * (1 - bound)
    assert (scaled.min(axis=0) >= rho * scaled.max(axis=0) - 1e-12).all()
    away = z - near
    np.testing.assert_allclose((away * near).sum(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(criterion.project(near, bound), near, atol=1e-12)
    # In the polar: no edge of the cone leads closer. Each has every group at one end.
    for ends in itertools.product((rho, 1.0), repeat=len(z)):
        edge = np.array(ends) / criterion.scales
        assert (edge @ away).max() <= 1e-9


def test_equal_rates_below_zero_are_as_far_off_as_others():
    """Steps lead there. At a ratio of one all equal rates fulfil the pairs, of any sign."""
    criterion = criterion_of(MinRatio(1.0), SIZES[3])
    z = np.tile([-1.0, -1.0, 0.5], (3, 1))
    z[0, 1] = -0.999
    np.testing.assert_array_equal(criterion.project(z, 0.0), np.maximum(z, 0))


@each_limit
@each_size
@pytest.mark.parametrize("bound", [0.0, 0.2])
def test_the_projection_equals_a_quadratic_program(limit, sizes, bound):
    criterion = criterion_of(limit, sizes)
    z = np.random.default_rng(0).random((len(sizes), 2))
    cone = criterion.cone(bound)
    expected = [
        minimize(
            lambda x, column=column: ((x - column) @ (x - column), 2 * (x - column)),
            np.zeros(len(sizes)),
            jac=True,
            constraints=LinearConstraint(cone, -np.inf, 0),
            method="SLSQP",
            tol=1e-14,
        ).x
        for column in z.T
    ]
    np.testing.assert_allclose(criterion.project(z, bound), np.transpose(expected), atol=1e-6)


@given(point=some_points(), bound=st.sampled_from([0.05, 0.2, 0.7]))
def test_rows_of_the_cone_span_its_polar(point, bound):
    """What a projection takes away is a sum of rows with weights that are not negative."""
    criterion, z = point
    cone = criterion.cone(bound)
    np.testing.assert_allclose(np.linalg.norm(cone, axis=1), 1)
    near = criterion.project(z, bound)
    assert (cone @ near).max() <= 1e-12
    for away in (z - near).T:
        assert nnls(cone.T, away)[1] <= 1e-9


def slope_of(face):
    """The derivative as a matrix."""
    pools, directions = face.pools.ravel(), face.directions.ravel()
    assert len(face.normals) == 0
    return (pools[:, None] == pools) * np.outer(directions, directions)


@each_limit
@each_size
@pytest.mark.parametrize("bound", [0.0, 0.2, 0.6])
@pytest.mark.parametrize("shift", [0.0, -0.5], ids=["inside", "tip"])
def test_slope_and_face_are_the_derivative_of_the_projection(limit, sizes, bound, shift):
    criterion = criterion_of(limit, sizes)
    z = np.random.default_rng(1).random((len(sizes), 4))
    # Also numbers that are negative, and a cluster whose nearest point is the tip of the cone.
    z[:, :2] += shift
    z[:, 0] += 4 * shift
    near = criterion.project(z, bound)
    assert (near[:, 0] == 0).all() == (shift < 0)
    slope = criterion.project_slope(z, near).reshape(z.size, z.size)
    face = criterion.face(z, near)
    np.testing.assert_allclose(slope_of(face), slope, atol=1e-14)
    np.testing.assert_array_equal(np.bincount(face.pools.ravel()), face.sizes)
    np.testing.assert_allclose(slope @ slope, slope, atol=1e-12)
    for j in range(z.size):
        h = 1e-7 * (np.arange(z.size) == j).reshape(z.shape)
        change = (criterion.project(z + h, bound) - criterion.project(z - h, bound)) / 2e-7
        np.testing.assert_allclose(slope[:, j], change.ravel(), atol=1e-6)


@each_limit
@each_size
@pytest.mark.parametrize("bound", [0.0, 0.2])
def test_the_excess_is_zero_exactly_where_labels_are_close_enough(limit, sizes, bound):
    """At the best possible one row is forgiven, elsewhere nothing."""
    criterion, steps = criterion_of(limit, sizes), 1 / sizes
    rng = np.random.default_rng(0)
    middle = rng.dirichlet(np.full(3, 9.0), size=(100, 1))
    # By so much that some are too far off, some not.
    off = rng.normal(0, 0.05, (100, len(sizes), 3)) * rng.random((100, 1, 1)) ** 2
    counts = np.maximum(np.rint(sizes[:, None] * (middle + off)), 0)
    rates = counts / sizes[:, None]
    excess = criterion.excess(rates, bound)
    enough = [criterion.enough(bound, one, sizes, steps) for one in rates]
    met = [criterion.value(one) <= most + 1e-12 for one, most in zip(rates, enough, strict=True)]
    assert 0 < np.mean(met) < 1
    np.testing.assert_array_equal(excess == 0, met)


def forgiven(counts, sizes, scaled):
    """Whether one row of the larger group makes up for what each cluster lacks, by counting."""
    for column in counts.T:
        values = column if scaled else column / sizes
        low, high = values.argmin(), values.argmax()
        larger = low if sizes[low] > sizes[high] else high
        other = column.copy()
        other[larger] += 1 if larger == low else -1
        values = other if scaled else other / sizes
        best = sizes.min() / sizes.max() if scaled else 1.0
        if values[low] < best * values[high] - 1e-12:
            return False
    return True


@each_limit
@each_size
def test_at_the_best_possible_one_row_of_the_larger_group_is_forgiven(limit, sizes):
    criterion, steps = criterion_of(limit, sizes), 1 / sizes
    rng = np.random.default_rng(1)
    found = []
    for _ in range(100):
        middle = sizes[:, None] * rng.dirichlet(np.full(3, 9.0))
        counts = np.rint(middle + rng.normal(0, 0.3, middle.shape))
        rates = counts / sizes[:, None]
        met = criterion.value(rates) <= criterion.enough(0.0, rates, sizes, steps) + 1e-12
        assert met == forgiven(counts, sizes, isinstance(limit, MinBalance))
        found.append(met)
        # Any bound below it is what it is.
        assert criterion.enough(1e-6, rates, sizes, steps) == 1e-6
    assert 0 < np.mean(found) < 1
    assert criterion.resolution(np.zeros((len(sizes), 3)), sizes, steps) == 0


@each_limit
@each_size
def test_the_largest_value_of_a_box_is_that_of_a_corner(limit, sizes):
    criterion = criterion_of(limit, sizes)
    low = np.random.default_rng(2).random((len(sizes), 2)) / 2
    high = low + np.random.default_rng(3).random(low.shape) / 2
    low[0, 1] = 0
    corners = itertools.product((False, True), repeat=len(sizes))
    values = [
        max(criterion.value(np.where(np.array(corner)[:, None], high, low)[:, [k]]) for k in (0, 1))
        for corner in corners
    ]
    assert criterion.largest(low, high) == pytest.approx(max(values))
    same = np.tile(low[1], (len(sizes), 1))
    assert criterion.largest(same, same) == pytest.approx(0, abs=1e-15)
    assert criterion.largest(0 * same, 0 * same) == pytest.approx(0, abs=1e-15)


@pytest.mark.parametrize("n_clusters", [3, 10])
@pytest.mark.parametrize("sizes", [SIZES[2] * 20, SIZES[2] * 200], ids=["100", "1000"])
def test_noise_is_the_standard_error_of_the_ratio_of_even_rates(sizes, n_clusters):
    criterion = criterion_of(MinRatio(0.8), sizes)
    rng = np.random.default_rng(0)
    even = np.full(n_clusters, 1 / n_clusters)
    drawn = np.stack([rng.multinomial(int(n), even, size=4000) / n for n in sizes])
    ratio = drawn[0, :, 0] / drawn[1, :, 0]
    assert criterion.noise(sizes, n_clusters) == pytest.approx(ratio.std(), rel=0.15)


# ---------------------------------------------------------------------------------- the limits
def test_a_limit_speaks_the_units_of_the_question():
    sizes = np.array([20.0, 100.0, 50.0])
    ratio, balance = MinRatio(0.8), MinBalance(0.15)
    assert (ratio.level(sizes), balance.level(sizes)) == pytest.approx((0.2, 0.25))
    assert (ratio.figure(0.3, sizes), balance.figure(0.3, sizes)) == pytest.approx((0.7, 0.14))
    assert (ratio.width(0.1, sizes), balance.width(0.1, sizes)) == pytest.approx((0.1, 0.02))
    assert ratio.tightened(0.05, sizes).bound == pytest.approx(0.85)
    assert ratio.tightened(0.5, sizes).bound == 1
    assert balance.tightened(0.02, sizes).bound == pytest.approx(0.17)
    assert balance.tightened(0.5, sizes).bound == best_balance(sizes) == 0.2
    assert MaxGap(0.03).tightened(0.01, sizes).bound == pytest.approx(0.02)
    assert MaxGap(0.03).tightened(0.1, sizes).bound == 0
    # The best possible is met by equal rates alone, whatever rounding makes of the quotient.
    assert MinBalance(20 / 100).level(sizes) == 0
    assert MinBalance(0.3).level(sizes) == 0


def test_the_limit_of_parameters():
    assert limit_of(max_gap=0.05, criterion="additive_gap") == MaxGap(0.05, "additive_gap")
    assert limit_of(max_gap="auto", min_balance=0.3) == MinBalance(0.3)
    assert limit_of(min_ratio=1) == MinRatio(1.0)
    assert limit_of(fairness_strength=2.0) is None


# --------------------------------------------------------------------------- the small problem
K = 3


class Small(NamedTuple):
    """A local model of the dual: a curvature and its matrix, multipliers and rates."""

    curvature: ByGroup | ByContrast
    H: np.ndarray
    start: np.ndarray
    rates: np.ndarray

    @property
    def few(self):
        return FewGroups(self.start, self.rates, self.H)

    @property
    def many(self):
        return ManyGroups(self.start, self.rates, self.curvature)

    def value(self, multipliers):
        d = (multipliers - self.start).ravel()
        return 0.5 * d @ self.H @ d - self.rates.ravel() @ d


def small_problem(kind, n_groups, criterion, bound, seed):
    """The curvature of an aware map, one matrix a group, or one over a basis of all groups."""
    rng = np.random.default_rng(seed)
    psi = rng.dirichlet(np.ones(K), size=(n_groups, 9))
    spread = np.stack([np.diag(p.mean(axis=0)) - p.T @ p / len(p) for p in psi])
    blocks = spread * 10.0 ** rng.uniform(-1, 1, size=(n_groups, 1, 1)) + 1e-2 * np.eye(K)
    rates = rng.dirichlet(np.ones(K), size=n_groups)
    # Multipliers of an earlier step, which are in the polar.
    z = rng.normal(size=rates.shape)
    start = 0.1 * (z - criterion.project(z, bound)) * (seed > 0)
    if kind == "aware":
        return Small(ByGroup(blocks, free=True), block_diag(*blocks), start, rates)
    basis = np.linalg.qr(rng.normal(size=(n_groups, n_groups)))[0]
    wide = np.kron(basis, np.eye(K))
    root = rng.normal(size=(n_groups * K, 2 * n_groups * K))
    inner = root @ root.T / root.shape[1]
    return Small(ByContrast(basis, inner), wide @ inner @ wide.T, start, rates)


@each_limit
@pytest.mark.parametrize("bound", [0.0, 0.2])
@pytest.mark.parametrize("n_groups", [2, 3])
def test_multipliers_of_a_cone_equal_those_of_a_quadratic_program(n_groups, bound, limit):
    criterion = criterion_of(limit, SIZES[n_groups])
    for seed in range(2):
        problem = small_problem("blind", n_groups, criterion, bound, seed)
        found = cone_multipliers(problem.few, criterion.cone(bound))
        rows = np.kron(criterion.cone(bound).T, np.eye(K))
        start, rates, H = problem.start.ravel(), problem.rates.ravel(), problem.H

        def value(mu, rows=rows, start=start, rates=rates, H=H):
            d = rows @ mu - start
            return 0.5 * d @ H @ d - rates @ d, rows.T @ (H @ d - rates)

        n_rows = rows.shape[1]
        best = minimize(value, np.zeros(n_rows), jac=True, bounds=[(0, None)] * n_rows, tol=1e-14)
        assert problem.value(found) == pytest.approx(best.fun, abs=1e-8)
        np.testing.assert_allclose(found.ravel(), rows @ best.x, atol=1e-3)
        # The rates that are left are allowed, and the multipliers charge only edges.
        left = (rates - H @ (found.ravel() - start)).reshape(found.shape)
        assert (criterion.cone(bound) @ left).max() <= 1e-7
        np.testing.assert_allclose((found * left).sum(axis=0), 0, atol=1e-7)


@each_limit
@pytest.mark.parametrize("kind", ["aware", "blind"])
@pytest.mark.parametrize("n_groups", [2, 3, 5, 8])
@pytest.mark.parametrize("bound", [0.0, 0.1, 0.5])
def test_many_groups_have_the_multipliers_of_few(n_groups, kind, limit, bound):
    sizes = 10.0 * (1 + np.arange(n_groups))
    criterion = criterion_of(limit, sizes)
    for seed in range(2):
        problem = small_problem(kind, n_groups, criterion, bound, seed)
        exact = cone_multipliers(problem.few, criterion.cone(bound))
        found = many_multipliers(problem.many, Bound(criterion, bound), Accuracy(tol=1e-9))
        np.testing.assert_allclose(found, exact, atol=2e-4)
        assert problem.value(found) == pytest.approx(problem.value(exact), abs=1e-7)
