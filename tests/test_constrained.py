"""The paper's objective under a bound: the bound holds, clusters stay, and the parts are exact."""

import itertools
import re
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning

from cases import (
    CRITERIA,
    FAMILIES,
    K,
    M,
    central_differences,
    each,
    each_criterion,
    memory_table,
    problem,
)
from fairmix import FairMixture, metrics
from fairmix.datasets import make_grouped_blobs
from fairmix.fitting.starts import start
from fairmix.kernels import Sweep
from fairmix.kernels.totals import Rows
from fairmix.mixture.families import COVARIANCE_TYPES, Gaussian
from fairmix.mixture.mixture import Mixture
from fairmix.solvers import EM, Beginning, GradientDescent, Status
from fairmix.solvers.constrained import Constrained, Repair
from fairmix.solvers.objective import Bounded, Objective
from repetition import long

GAP = CRITERIA["gap"].criterion
CLIMBERS = {
    "em": EM(GAP, max_iter=40),
    "gd": GradientDescent(GAP, max_iter=300, learning_rate=1e-2),
}

each_kind = pytest.mark.parametrize("labels", [True, False], ids=["labels", "probabilities"])


def toy(n_groups, n_rows=1000):
    """An objective without a penalty, and where to start."""
    X, groups, _ = make_grouped_blobs(
        n_rows, 2 * n_groups, n_groups=n_groups, separation=3, imbalance=0.5, random_state=1
    )
    family = Gaussian(3, X.mean(axis=0), "tied-spherical")
    table = memory_table(Rows(X, None), family.encode, groups=groups, n_groups=n_groups)
    mixture = Mixture(family)
    theta = start(mixture, table.store.rows, how="kmeans", rng=np.random.default_rng(0))
    return Objective(mixture, table), theta


def reached(objective, theta, criterion, labels):
    """Gap of the plain mixture, and how many clusters have labels."""
    totals = objective.table.softmax_pass(
        Sweep(objective.mixture.logits(theta), alpha=0.0, hard=True)
    )
    mass = totals.hard_mass if labels else totals.mass
    gap = criterion.value(mass / objective.table.group_sizes[:, None])
    return gap, int((totals.hard_mass.sum(axis=0) > 0).sum())


@each_criterion
@pytest.mark.parametrize("bound", [0.0, 0.05])
def test_gradient_of_bounded_is_its_slope(fairness, bound):
    rng = np.random.default_rng(0)
    rates, y = rng.dirichlet(np.ones(K), size=M), rng.normal(size=(M, K))
    penalty = Bounded(fairness.criterion, bound, 20.0, y - y.mean(axis=0))
    slopes = central_differences(penalty.value, rates, 1e-6)
    np.testing.assert_allclose(penalty.gradient(rates), slopes, atol=1e-6)


@each_criterion
def test_bounded_costs_nothing_within_the_bound_and_grows_outside(fairness):
    rates = np.random.default_rng(0).dirichlet(np.ones(K), size=M)
    gap = fairness.criterion.value(rates)
    free = Bounded(fairness.criterion, 1.01 * gap, 20.0, np.zeros((M, K)))
    assert free.value(rates) == pytest.approx(0, abs=1e-12)
    np.testing.assert_allclose(free.gradient(rates), 0, atol=1e-12)
    values = [
        Bounded(fairness.criterion, share * gap, 20.0, np.zeros((M, K))).value(rates)
        for share in (0.0, 0.5, 0.9)
    ]
    assert values[0] > values[1] > values[2] > 0
    assert np.all(free.updated(2 * rates).y == free.gradient(2 * rates))


@each_kind
@each_criterion
@pytest.mark.parametrize(("climber", "n_groups"), [("em", 2), long("em", 3), long("gd", 2)])
def test_bound_holds_and_no_cluster_is_lost(n_groups, climber, fairness, labels):
    objective, theta = toy(n_groups)
    # A sum over the three clusters gets three times the bound of their largest.
    bound = 0.09 if fairness is CRITERIA["additive_gap"] else 0.03
    before, _ = reached(objective, theta, fairness.criterion, labels)
    solver = Constrained(CLIMBERS[climber], fairness.criterion, bound, labels)
    solution = solver.climb(objective, Beginning(theta))
    gap, filled = reached(objective, solution.theta, fairness.criterion, labels)
    assert before > bound
    assert solution.status is not Status.BOUND_MISSED
    assert gap <= bound
    assert filled == 3
    assert solution.objective == pytest.approx(objective.evaluate(solution.theta).value)


# ---------------------------------------------------------------------------------- the promise
SETTINGS = {
    "dual": {},
    "aware": {"solver": "dual", "assignment": "aware"},
    "em": {"solver": "em", "max_iter": 100, "tol": 1e-3},
    "gd": {"solver": "gd", "max_iter": 600, "learning_rate": 1e-2, "tol": 1e-1},
}
COLUMNS = [("numeric", c) for c in COVARIANCE_TYPES]
COLUMNS += [("categorical", "diag"), ("mixed", "tied-spherical"), ("mixed", "full")]


def promises():
    """A Latin square: a solver meets every kind of columns, and each criterion in three of them.

    Two of three cells are for the long run.
    """
    names = ["gap", "additive_gap", "worst_pair_gap"]
    for (i, solver), (j, columns) in itertools.product(enumerate(SETTINGS), enumerate(COLUMNS)):
        criterion = names[(i + j) % 3]
        gap_of = ["labels", "probabilities"][(i + j // 3) % 2]
        # Three groups and a sum over clusters take the dual solver ten seconds.
        slow = criterion == "additive_gap" and solver in ("dual", "aware")
        n_groups = 2 if slow else 2 + (i + j) % 2
        max_gap = [0.05, 0.02, 0.0][(i + j // 2) % 3]
        case = (solver, *columns, criterion, gap_of, n_groups, max_gap)
        marks = pytest.mark.long if (i + 2 * j) % 3 else ()
        yield pytest.param(*case, id="-".join(map(str, case)), marks=marks)


def toy_columns(kind, n_groups, n_rows=400):
    """Overlapping components with columns of a kind, and groups that favour some of them."""
    X, groups, components = make_grouped_blobs(
        n_rows, 3, 3, n_groups=n_groups, separation=2, imbalance=0.4, random_state=3
    )
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    for name, levels in {"d": 4, "e": 3, "f": 5, "g": 3}.items():
        known, noise = rng.integers(levels, size=3)[components], rng.integers(levels, size=n_rows)
        frame[name] = pd.Categorical(np.where(rng.random(n_rows) < 0.5, known, noise).astype(str))
    return frame[
        {"numeric": list("abc"), "categorical": list("defg")}.get(kind, list("abcd"))
    ], groups


@pytest.mark.parametrize(
    ("solver", "kind", "covariance_type", "criterion", "gap_of", "n_groups", "max_gap"),
    list(promises()),
)
def test_bound_holds_with_all_clusters_or_is_said_to_be_missed(
    solver, kind, covariance_type, criterion, gap_of, n_groups, max_gap
):
    X, groups = toy_columns(kind, n_groups)
    model = FairMixture(
        3,
        max_gap=max_gap,
        gap_of=gap_of,
        criterion=criterion,
        covariance_type=covariance_type,
        random_state=0,
        **SETTINGS[solver],
    )
    excused = kind == "categorical" and gap_of == "labels"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always" if excused else "error")
        # Whether the objective has settled is another promise than the bound.
        warnings.filterwarnings("ignore", message="`max_iter` was reached")
        model.fit(X, sensitive_features=groups)
    known = {"sensitive_features": groups} if solver == "aware" else {}
    labels, responsibilities = model.predict(X, **known), model.predict_proba(X, **known)
    gap = getattr(metrics, criterion)(labels if gap_of == "labels" else responsibilities, groups)
    assert model.gap_ == pytest.approx(gap, abs=1e-9)
    assert len(np.unique(labels)) == 3
    if gap <= max(max_gap, model.resolution_) + 1e-12:
        assert not caught
        return
    assert excused
    (warning,) = caught
    assert warning.category is ConvergenceWarning
    assert f"is {gap:.6g}, above max_gap={max_gap:g}" in str(warning.message)
    assert re.search("Equal rows get equal labels.*Loosen max_gap", str(warning.message))


def test_responsibilities_do_not_meet_a_bound_of_zero_by_merging():
    """Equal components have a gap of exactly zero; they are no solution."""
    X, groups, _ = make_grouped_blobs(
        800, 4, 3, n_groups=3, separation=1.5, imbalance=0.3, random_state=100
    )
    model = FairMixture(
        4,
        solver="em",
        max_gap=0,
        gap_of="probabilities",
        criterion="worst_pair_gap",
        covariance_type="spherical",
        random_state=1,
    )
    model.fit(X, sensitive_features=groups)
    assert model.soft_gap_ <= 1e-6
    assert len(np.unique(model.labels_)) == 4


def test_labels_meet_a_bound_of_zero_where_straight_steps_end_short():
    X, groups, _ = make_grouped_blobs(
        1500, 4, 3, n_groups=2, separation=2, imbalance=0.4, random_state=102
    )
    model = FairMixture(
        4,
        solver="em",
        max_gap=0,
        criterion="additive_gap",
        covariance_type="spherical",
        random_state=1,
    )
    model.fit(X, sensitive_features=groups)
    assert model.label_gap_ <= model.resolution_
    assert len(np.unique(model.labels_)) == 4


@each_kind
@each("case", FAMILIES, "gaussian-diag", "gaussian-tied", "gaussian-full", "product-spherical")
def test_bound_holds_or_the_status_says_so(case, labels):
    small = problem(case, n_rows=400)
    objective = Objective(small.mixture, small.table())
    solver = Constrained(EM(GAP, max_iter=10), GAP, 0.05, labels)
    solution = solver.climb(objective, Beginning(small.theta))
    gap, _ = reached(objective, solution.theta, GAP, labels)
    assert np.isfinite(solution.objective)
    assert (gap <= 0.05) == (solution.status is not Status.BOUND_MISSED)


def test_unreachable_bound_is_admitted():
    """Two distinct rows, two groups of other sizes: no labels but one cluster are fair."""
    codes = np.repeat([[0], [1]], [60, 40], axis=0)
    groups = np.concatenate([np.arange(60) % 2, np.arange(40) % 4 == 0]).astype(np.intp)
    family = FAMILIES["categorical"].make(None, 0.0).__class__(2, (2,))
    table = memory_table(Rows(None, codes), family.encode, groups=groups, n_groups=2)
    mixture = Mixture(family)
    theta = mixture.pack(
        {"weights": np.full(2, 0.5), "probabilities": np.array([[0.9, 0.1], [0.1, 0.9]])}
    )
    objective = Objective(mixture, table)
    solution = Constrained(EM(GAP, max_iter=20), GAP, 0.0, labels=True).climb(
        objective, Beginning(theta)
    )
    gap, filled = reached(objective, solution.theta, GAP, labels=True)
    assert (gap > 0 and solution.status is Status.BOUND_MISSED) or filled == 1


def test_looser_bound_has_no_lower_likelihood():
    objective, theta = toy(2)
    values = [
        Constrained(CLIMBERS["em"], GAP, bound, labels=False)
        .climb(objective, Beginning(theta))
        .objective
        for bound in (0.002, 0.02, 0.08)
    ]
    assert values[0] < values[1] < values[2]


def test_weights_stay_equal_for_labels():
    objective, theta = toy(2)
    solution = Constrained(CLIMBERS["em"], GAP, 0.03, labels=True).climb(
        objective, Beginning(theta)
    )
    np.testing.assert_allclose(objective.mixture.weights(solution.theta), 1 / 3)


def test_history_spans_all_rounds():
    objective, theta = toy(2)
    rows = []
    solver = Constrained(CLIMBERS["em"], GAP, 0.03, labels=False)
    solution = solver.climb(objective, Beginning(theta), callback=rows.append)
    assert len(rows) == len(solution.history) <= solver.max_iter
    assert np.all(np.diff([row.seconds for row in solution.history]) >= 0)


def test_repair_meets_the_bound_and_leaves_fair_parameters_alone():
    objective, theta = toy(2)
    # It is a local method: from far away the climber has to come first.
    bound = 0.9 * reached(objective, theta, GAP, labels=False)[0]
    place = Repair(objective, GAP, bound, labels=False)(theta, 20)
    assert reached(objective, place.theta, GAP, labels=False)[0] == pytest.approx(place.gap)
    assert place.gap <= bound
    again = Repair(objective, GAP, bound, labels=False)(place.theta, 20)
    assert np.array_equal(again.theta, place.theta)


def test_jacobian_of_the_repair_is_the_slope_of_the_rates():
    small = problem(FAMILIES["gaussian-diag"])
    repair = Repair(Objective(small.mixture, small.table()), GAP, 0.0, labels=False)
    place = repair._measure(small.theta)
    direction = np.random.default_rng(1).normal(size=small.theta.shape)
    ahead, behind = (repair._measure(small.theta + h * direction).rates for h in (1e-5, -1e-5))
    slope = (ahead - behind).ravel() / 2e-5
    np.testing.assert_allclose(repair._jacobian(place) @ direction, slope, atol=1e-7)
