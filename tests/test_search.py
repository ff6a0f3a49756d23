"""The search for a start: moves, their budget, and what they bring."""

from dataclasses import replace

import numpy as np
import pytest

from cases import each_family, memory_table, problem
from fairmix import FairMixture
from fairmix.criteria import CRITERIA
from fairmix.datasets import make_grouped_blobs
from fairmix.fitting import schedule
from fairmix.fitting.search import Search, Walk, Walks, swapped
from fairmix.kernels.totals import Rows
from fairmix.mixture.families import Gaussian
from fairmix.mixture.mixture import Mixture
from fairmix.solvers import SOLVERS, Beginning, Iteration, Solution, Task
from fairmix.solvers._base import Status
from fairmix.solvers.dual import LABEL_TEMPERATURE, Dual
from fairmix.solvers.objective import Objective

K = 3


@pytest.fixture(scope="module")
def blobs():
    X, groups, _ = make_grouped_blobs(600, K, 2, separation=6.0, imbalance=0.2, random_state=0)
    return np.asarray(X), np.asarray(groups)


def task(**given):
    gap = CRITERIA["gap"]
    settings = {
        "measure": gap,
        "strength": None,
        "criterion": gap,
        "bound": 0.05,
        "target": 0.05,
        "labels": True,
        "aware": True,
        "n_groups": 2,
        "n_batches": 1,
        "max_iter": None,
        "learning_rate": None,
        "inner_iter": 10,
        "tol": 1e-5,
    }
    return Task(**settings | given)


FOUR, ONE = Walks(1, starts=4, runs=1, climbs=0.5), Walks(1, starts=1, runs=1, climbs=0.5)


def walk(blobs, policy, seed=0, walks=FOUR, **given):
    X, groups = blobs
    rows = Rows(X, None)
    mixture = Mixture(Gaussian(K, X.mean(axis=0)))
    table = memory_table(rows, mixture.family.encode, groups=groups, n_groups=2)
    return Walk(
        policy,
        walks,
        SOLVERS["dual"],
        task(**given),
        Objective(mixture, table),
        table,
        np.random.default_rng(seed),
    )


def poor_start(found, X):
    """Two clusters within one blob, and one for the other two."""
    far = X[np.argmax(((X - X[0]) ** 2).sum(axis=1))]
    means = np.array([X[0], X[0] + 0.1, far])
    return packed(found, means)


def packed(found, means):
    start = {"weights": np.full(K, 1 / K), "means": means, "covariances": np.array(1.0)}
    return found.mixture.pack(start)


def test_a_search_leaves_a_poor_optimum():
    """Three blobs on a line: two clusters begin in the first one, and climbs leave them there."""
    rng = np.random.default_rng(0)
    blob = np.repeat(np.arange(3), 200)
    X = rng.normal(size=(600, 2)) + np.column_stack([20.0 * blob, np.zeros(600)])
    found = walk((X, rng.integers(2, size=600)), Search(), walks=ONE)
    theta = packed(found, np.array([[0.0, 1.0], [0.0, -1.0], [30.0, 0.0]]))
    alone = SOLVERS["dual"].make(task()).climb(found.objective, Beginning(theta))
    assert sorted(found.mixture.unpack(alone.theta)["means"][:, 0])[1] < 10
    best = found.run(lambda level: theta)
    assert best.objective > alone.objective + 1
    means = sorted(found.mixture.unpack(best.theta)["means"][:, 0])
    np.testing.assert_allclose(means, [0, 20, 40], atol=0.5)


def test_a_search_is_no_worse_than_its_starts_and_keeps_its_budget(blobs):
    policy = Search(failures=10**6)
    found = walk(blobs, policy, walks=replace(FOUR, climbs=0.9))
    theta = poor_start(found, blobs[0])
    first = SOLVERS["dual"].make(task(max_iter=22))
    assert found.left == 180
    best = found.run(lambda level: theta)
    assert best.objective >= first.climb(found.objective, Beginning(theta)).objective
    # The last move, with its detour, may begin with one iteration left.
    assert -policy.move_iterations - policy.detour_iterations <= found.left <= 0


def test_a_search_ends_when_moves_gain_nothing(blobs):
    found = walk(blobs, Search(failures=2), walks=replace(FOUR, climbs=50.0))
    theta = poor_start(found, blobs[0])
    found.run(lambda level: theta)
    assert found.left > 8000


def test_how_long_a_search_may_take():
    recipe = SOLVERS["dual"]
    assert FOUR.iterations(recipe, task()) == 100
    assert replace(FOUR, climbs=2.0).iterations(recipe, task(aware=False)) == 400
    assert FOUR.iterations(recipe, task(max_iter=10)) == 5
    # Many iterations for the last climb are no wish for a longer search.
    assert FOUR.iterations(recipe, task(max_iter=10_000)) == 100
    # Those of many groups take longer, so there are fewer.
    assert FOUR.iterations(recipe, task(n_groups=64)) < 100


def test_walks_of_few_starts_take_the_levels_in_turn(blobs):
    levels = Search().levels
    assert FOUR.levels(levels, 3) == list(levels)
    assert [ONE.levels(levels, turn) for turn in range(5)] == [[x] for x in (*levels, levels[0])]
    found, begun = walk(blobs, Search(), walks=ONE), []
    found.turn = 2
    theta = poor_start(found, blobs[0])
    found.run(lambda level: begun.append(level.share) or theta)
    assert begun == [levels[2]]


def test_detours_are_to_both_sides_of_the_bound(blobs, monkeypatch):
    bounds = []
    solver = Walk._solver
    monkeypatch.setattr(
        Walk, "_solver", lambda self, bound=None: bounds.append(bound) or solver(self, bound)
    )
    found = walk(blobs, Search(detour_every=1, tighter=0.5, looser=0.2))
    theta = poor_start(found, blobs[0])
    free = found._free_value(Beginning(theta))
    assert free > 0.05
    found.run(lambda level: theta)
    others = [bound for bound in bounds if bound is not None]
    assert others[:2] == [0.025, pytest.approx(0.05 + 0.2 * (free - 0.05))]


def test_a_bound_of_zero_is_left_for_looser_ones_only(blobs, monkeypatch):
    bounds = []
    solver = Walk._solver
    monkeypatch.setattr(
        Walk, "_solver", lambda self, bound=None: bounds.append(bound) or solver(self, bound)
    )
    found = walk(blobs, Search(detour_every=1), bound=0.0)
    theta = poor_start(found, blobs[0])
    found.run(lambda level: theta)
    others = [bound for bound in bounds if bound is not None]
    assert len(others) >= 2
    assert min(others) > 0


def test_a_swap_takes_the_tilt_of_the_cluster_at_the_row(blobs):
    """Else Newton steps would have to find it, and most of the short climb would be gone."""
    found = walk(blobs, Search(), bound=0.0)
    start = Beginning(packed(found, blobs[0][:K]), level=True)
    best = found._climb(start, 20)
    at = found._swap(best)
    columns = {tuple(column) for column in at.multipliers.T}
    assert len(columns) == K - 1
    assert columns <= {tuple(column) for column in best.multipliers.T}


def test_an_offset_decides_which_cluster_is_the_host(blobs):
    found = walk(blobs, Search())
    theta = packed(found, blobs[0][:K])
    sums = SOLVERS["dual"].make(task()).expect(found.objective, Beginning(theta))
    row = found.rows.take(np.array([1]))
    for host in (1, 2):
        offsets = np.where(np.arange(K) == host, 1e3, 0.0)
        assert swapped(found.mixture, theta, sums, 0, row, offsets, 0.75)[1] == host


def test_moves_begin_at_the_best_of_the_starts(blobs):
    found = walk(blobs, Search(levels=(0.0,) * 4, failures=0), walks=replace(FOUR, climbs=0.6))
    good = packed(found, np.array([[0.0, 0.0], [3.0, 3.0], [-3.0, 2.0]]))
    bad = poor_start(found, blobs[0])
    starts, begun = iter([bad, good, bad, bad]), []
    climb = found._climb
    found._climb = lambda at, *how: begun.append(at) or climb(at, *how)
    found.run(lambda level: next(starts))
    assert len(begun) == 5
    np.testing.assert_array_equal(begun[1].theta, good)
    settled = found.mixture.unpack(begun[4].theta)["means"]
    near = found.mixture.unpack(climb(begun[1], 15).theta)["means"]
    np.testing.assert_array_equal(settled, near)


@each_family
def test_a_swap_puts_a_cluster_near_a_row(case):
    """By the M-step of the family itself; other clusters are as after the M-step alone."""
    given = problem(case)
    mixture, solver = given.mixture, SOLVERS["dual"].make(task())
    sums = solver.expect(given.objective(), Beginning(given.theta))
    row = given.rows.take(np.array([7]))
    out, host = swapped(mixture, given.theta, sums, 1, row, np.zeros(mixture.n_components), 0.75)
    assert np.isfinite(out).all()
    assert host != 1
    new, old = mixture.unpack(out), mixture.unpack(mixture.maximize(sums))
    others = [0, *range(2, mixture.n_components)]
    if "means" in new:
        np.testing.assert_allclose(new["means"][others], old["means"][others])
        possible = 0.75 * row.numeric[0] + 0.25 * old["means"][others]
        assert np.abs(possible - new["means"][1]).max(axis=1).min() < 1e-6
    else:
        # The row's own category is the likeliest one of the cluster.
        assert case.log_density(new, row)[1, 0] > np.delete(case.log_density(new, row), 1).max()


def test_a_warm_fit_is_not_below_its_start(blobs):
    X, groups = blobs
    model = FairMixture(K, max_gap=0.02, random_state=0, warm_start=True)
    tight = model.fit(X, sensitive_features=groups).lower_bound_
    loose = model.set_params(max_gap=0.05).fit(X, sensitive_features=groups).lower_bound_
    assert loose >= tight - 1e-9


def test_a_search_gives_its_best_end(blobs):
    found = walk(blobs, Search())
    theta = poor_start(found, blobs[0])
    seen, climb = [], found._climb
    found._climb = lambda *how: seen.append(climb(*how)) or seen[-1]
    end = found.run(lambda level: theta)
    # A move that gains less than rounding may is not kept.
    assert end.objective >= max(end.objective for end in seen) - found.policy.least_gain


def approach(found, policy, **given):
    """The way to all rows of the table of a walk."""
    settings = FairMixture(K)._settings()
    fit = schedule.Fit(settings, policy, np.random.default_rng(0))
    rows, every = found.table, task(**given)
    return schedule.Approach(
        fit, SOLVERS["dual"], every, rows, found.objective, near=rows, seen=rows
    )


def test_the_end_of_a_large_table_that_is_best_on_more_rows_goes_on(blobs):
    """Whatever its value on the few rows of the search."""
    found = walk(blobs, Search())
    good = packed(found, np.array([[0.0, 0.0], [3.0, 3.0], [-3.0, 2.0]]))
    bad = poor_start(found, blobs[0])
    ends = [
        Solution(theta, value, Status.CONVERGED, []) for theta, value in ((bad, -1.0), (good, -2.0))
    ]
    search = replace(found.policy, compared=1)
    policy = schedule.Schedule(search=search, near_rows=found.table.n_rows // 2 - 1)
    way = approach(found, policy)
    (first,) = way.screened([ends])
    brief = way.solver.limited(search.look_iterations)
    want = [brief.climb(found.objective, Beginning(theta)) for theta in (good, bad)]
    assert want[0].objective > want[1].objective
    np.testing.assert_array_equal(first.theta, want[0].theta)
    # Where all of them go on, there is nothing to look at.
    two = replace(policy, search=replace(search, compared=2))
    best, other = approach(found, two).screened([want[::-1]])
    assert best.theta is want[0].theta
    assert other.theta is want[1].theta


def test_labels_that_lose_much_are_followed_by_a_few_cold_iterations(blobs):
    found, search = walk(blobs, Search()), Search()
    way = approach(found, schedule.Schedule())
    theta = packed(found, np.array([[0.0, 0.0], [3.0, 3.0], [-3.0, 2.0]]))
    rough = way.solver.limited(40).climb(found.objective, Beginning(theta))
    assert np.isfinite(rough.objective)
    poor = replace(rough, objective=rough.objective - 2 * search.telling)
    (cold,) = way._cooled(found.objective, rough, poor)
    solver = replace(way.solver, temperature=LABEL_TEMPERATURE, max_iter=search.cold_iterations)
    want = solver.climb(found.objective, Beginning.at(rough))
    np.testing.assert_array_equal(cold.theta, want.theta)
    assert cold.status is rough.status
    assert len(cold.history) == len(rough.history) + len(want.history)
    assert (np.diff([row.seconds for row in cold.history]) >= 0).all()
    # Not where they lose little, where nothing was allowed, where no iteration is left, or where
    # labels do not count.
    near = replace(rough, objective=rough.objective - search.telling / 2)
    assert way._cooled(found.objective, rough, near) == []
    never = replace(rough, objective=-np.inf)
    assert way._cooled(found.objective, never, replace(never, objective=-1.0)) == []
    short = approach(found, schedule.Schedule(), max_iter=len(rough.history))
    assert short._cooled(found.objective, rough, poor) == []
    soft = approach(found, schedule.Schedule(), labels=False)
    assert soft._cooled(found.objective, rough, poor) == []


def ends_worth(*pairs):
    """Ends whose climbs and labels are worth so much, and what finishes them."""
    ends = [
        Solution(np.zeros(1), climb, Status.CONVERGED, [Iteration(climb, *[0.0] * 5)])
        for climb, _ in pairs
    ]
    labels = dict(pairs)
    finished = []

    def finish(rough):
        finished.append(rough.objective)
        worth, met, filled = labels[rough.objective]
        return replace(rough, objective=worth, climbed=worth, met=met, filled=filled)

    return ends, finish, finished


def test_ends_are_finished_until_no_climb_is_worth_more_than_known_labels():
    ends, finish, finished = ends_worth(
        (-3.0, (-3.001, True, K)),
        (-1.0, (-1.5, True, K)),
        (-1.4, (-1.45, True, K)),
        # Worth more than the labels of the one before, but by too little to tell.
        (-1.45 + schedule.SCHEDULE.search.telling / 2, (-1.4, True, K)),
    )
    rough, best = schedule.best_labels(Search(), K, ends, finish)
    assert finished == [-1.0, -1.4]
    assert rough is ends[2]
    assert best.objective == -1.45


@pytest.mark.parametrize("first", [(-1.1, False, K), (-1.1, True, K - 1)])
def test_labels_that_miss_a_bound_or_lack_a_cluster_end_nothing(first):
    ends, finish, finished = ends_worth((-1.0, first), (-2.0, (-2.1, True, K)))
    rough, best = schedule.best_labels(Search(), K, ends, finish)
    assert finished == [-1.0, -2.0]
    assert rough is ends[1]
    assert best.objective == -2.1


def test_ends_of_the_same_worth_are_finished_once():
    least = schedule.SCHEDULE.search.least_gain
    climbs = (-1.0, -1.0 - least / 2, -1.0 - 2 * least)
    ends, finish, finished = ends_worth(*((climb, (climb - 0.1, True, K)) for climb in climbs))
    schedule.best_labels(Search(), K, ends, finish)
    assert finished == [climbs[0], climbs[2]]


def test_a_fit_has_the_best_labels_of_the_ends_that_it_finishes(blobs, monkeypatch):
    X, groups = blobs
    climbed, finished = [], []
    climb, finish = Dual.climb, Dual.finish

    def spy_climb(self, objective, start, callback=None):
        end = climb(self, objective, start, callback)
        if callback is not None:
            climbed.append(end)
        return end

    def spy_finish(self, mixture, rough, near, table):
        finished.append((rough, finish(self, mixture, rough, near, table)))
        return finished[-1][1]

    monkeypatch.setattr(Dual, "climb", spy_climb)
    monkeypatch.setattr(Dual, "finish", spy_finish)
    policy = schedule.SCHEDULE.search
    model = FairMixture(K, max_gap=0.02, random_state=0).fit(X, sensitive_features=groups)
    assert len(climbed) == policy.raced < policy.blind.number
    assert finished[0][0].objective == max(end.objective for end in climbed)
    best = max((end for _, end in finished), key=lambda end: end.rank)
    assert model.lower_bound_ == best.objective
    # No other end is worth more, but for those that are the same as one that is finished.
    known = [rough.objective for rough, _ in finished]
    left = [end.objective for end in climbed if end.objective > best.climbed + policy.telling]
    assert all(min(abs(value - other) for other in known) < 2 * policy.least_gain for value in left)


def test_searches_are_repeated_for_every_start(blobs, monkeypatch):
    X, groups = blobs
    runs = []
    run = Walk.run
    monkeypatch.setattr(Walk, "run", lambda self, start: runs.append(self) or run(self, start))
    short = replace(schedule.SCHEDULE, search=Search(blind=Walks(5, 1, 1, climbs=0.2)))
    monkeypatch.setattr(schedule, "SCHEDULE", short)
    FairMixture(K, n_init=3, random_state=0).fit(X, sensitive_features=groups)
    assert [walk.turn for walk in runs] == 3 * [0, 1, 2, 3, 4]


def test_one_cluster_has_no_boundary_to_search(blobs):
    X, groups = blobs
    model = FairMixture(1, max_gap=0.02, random_state=0).fit(X, sensitive_features=groups)
    assert model.label_gap_ == 0
