"""Mini-batches, fairness samples and sub-samples."""

import warnings
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from cases import FAMILIES, K, M, assert_close, assert_same_bits, each, problem
from fairmix import FairMixture, metrics
from fairmix.criteria import CRITERIA
from fairmix.datasets import make_grouped_blobs
from fairmix.fitting import schedule
from fairmix.kernels import Sweep
from fairmix.kernels.totals import Rows
from fairmix.solvers import EM, Beginning
from fairmix.solvers.dual import Dual
from fairmix.solvers.em import Ascent
from fairmix.solvers.objective import Objective, Scaled
from fairmix.tables import (
    BLOCK_ROWS,
    Batches,
    MemoryStore,
    Table,
    block_rows_of,
    count_batches,
)
from fairmix.tables.store import allocate
from repetition import long

N_ROWS, BLOCK = 1000, 64


def small_blocks(case="gaussian-diag"):
    toy = problem(FAMILIES[case], N_ROWS)
    store = MemoryStore(
        toy.rows, groups=toy.groups, n_groups=M, weight=toy.weight, block_rows=BLOCK
    )
    return toy, Table(store, toy.mixture.family.encode)


@pytest.fixture(scope="module")
def blobs():
    X, groups, _ = make_grouped_blobs(6000, 4, 3, separation=2.5, imbalance=0.4, random_state=0)
    return X, np.asarray(groups)


class Whole(NamedTuple):
    """What a fit of all rows at once costs and takes."""

    cost: float
    n_passes: float
    score: float


@pytest.fixture(scope="module")
def whole(blobs):
    """The fit of all blobs at once, by assignment."""
    X, groups = blobs

    @cache
    def fitted(assignment):
        model = FairMixture(4, max_gap=0.02, assignment=assignment, random_state=0)
        model.fit(X, sensitive_features=groups)
        return Whole(metrics.clustering_cost(X, model.labels_), model.n_passes_, model.score(X))

    return fitted


@each("case", {name: name for name in FAMILIES}, "gaussian-diag", "categorical", "product-full")
def test_batches_hold_the_totals_of_their_last_visit(case):
    toy, table = small_blocks(case)
    batches = Batches(table, 5, np.random.default_rng(0))
    first, second = toy.mixture.logits(toy.theta), toy.mixture.logits(toy.theta + 0.1)
    assert len(batches.parts) == 5
    assert sorted(n for part in batches.parts for n in part.blocks) == list(range(table.n_blocks))
    assert_close(
        batches.softmax_pass(Sweep(first)), table.softmax_pass(Sweep(first)), rtol=1e-12, atol=1e-9
    )
    visited = []
    for _ in batches.parts:
        mixed = batches.softmax_pass(Sweep(second))
        visited = [t for t in range(5) if t not in batches._turns]
        old = [
            part.softmax_pass(Sweep(first))
            for i, part in enumerate(batches.parts)
            if i not in visited
        ]
        new = [
            part.softmax_pass(Sweep(second)) for i, part in enumerate(batches.parts) if i in visited
        ]
        expected = new[0]
        for part in [*new[1:], *old]:
            expected = expected + part
        assert_close(mixed, expected, rtol=1e-10, atol=1e-9)
    assert len(visited) == 5
    assert_close(mixed, table.softmax_pass(Sweep(second)), rtol=1e-10, atol=1e-9)


def test_passes_that_are_no_e_step_see_all_rows():
    toy, table = small_blocks()
    batches = Batches(table, 5, np.random.default_rng(0))
    logits, pull = toy.mixture.logits(toy.theta), np.ones((M, K)) * np.arange(K)
    for settings in ({"alpha": 0.0}, {"alpha": 0.0, "pull": pull}, {"alpha": 0.5}):
        assert_same_bits(
            batches.softmax_pass(Sweep(logits, **settings)),
            table.softmax_pass(Sweep(logits, **settings)),
        )


SIZES = {
    # batch_size of so many rows: number of batches
    (32_561, 0.1): 10,
    (32_561, 0.01): 100,
    (32_561, 3256): 10,
    (32_561, 3257): 10,
    (32_561, 20_000): 2,
    (1001, 3): 334,
    (1001, 1): 1001,
    (1001, 5000): 1,
    (200_001, 0.25): 4,
    (200_001, 16_385): 12,
    # Two equal batches come nearer to 0.7 than one.
    (6000, 0.7): 2,
    (6000, 0.9): 1,
    (6000, np.float32(0.2)): 5,
}


@pytest.mark.parametrize(("n_rows", "batch_size"), SIZES)
def test_batches_have_the_size_that_was_asked_for(n_rows, batch_size):
    n_batches = count_batches(batch_size, n_rows)
    assert n_batches == SIZES[n_rows, batch_size]
    block_rows = block_rows_of(n_rows, batch_size)
    rows = Rows(np.arange(float(n_rows))[:, None], None)
    store = MemoryStore(rows, block_rows=block_rows)
    table = Table(store, FAMILIES["gaussian-diag"].make(rows, 1e-6).encode)
    batches = Batches(table, n_batches, np.random.default_rng(0))
    sizes = [part.n_rows for part in batches.parts]
    assert len(sizes) == n_batches
    assert sum(sizes) == n_rows
    assert max(len(chunk.groups) for chunk in store.blocks.each(lambda chunk: chunk)) <= BLOCK_ROWS
    blocks = len(batches.parts[0].blocks)
    assert max(sizes) - min(sizes) <= blocks, "equal up to one row of each block"


@pytest.mark.parametrize(("batch_size", "share"), [(0.1, 0.1), (0.01, 0.01), (3256, 0.1)])
def test_an_iteration_visits_the_share_that_was_asked_for(batch_size, share):
    X = np.random.default_rng(0).normal(size=(32_561, 1))
    model = FairMixture(
        2, batch_size=batch_size, fairness_sample_size=100, tol=0, max_iter=9, random_state=0
    )
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        model.fit(X)
    # The first iteration visits all; each also looks at the fairness sample.
    visited = np.diff(model.history_["passes"]) * len(X) - 100
    np.testing.assert_allclose(visited, share * len(X), atol=1)


def test_rows_without_weight_are_in_no_batch():
    X = np.random.default_rng(0).normal(size=(4000, 1))
    weight = np.repeat([1.0, 0.0], 2000)
    model = FairMixture(
        2, batch_size=500, fairness_sample_size=100, tol=0, max_iter=4, random_state=0
    )
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        model.fit(X, sample_weight=weight)
    np.testing.assert_allclose(np.diff(model.history_["passes"]), (500 + 100) / 2000)


@pytest.mark.parametrize("name", ["batch_size", "subsample", "fairness_sample_size"])
def test_a_share_in_single_precision_is_a_share(blobs, name):
    X, groups = blobs
    fits = [
        FairMixture(4, max_gap=0.02, assignment="aware", random_state=0, **{name: share})
        for share in (0.25, np.float32(0.25))
    ]
    labels = [model.fit(X, sensitive_features=groups).labels_ for model in fits]
    assert np.array_equal(*labels)


def test_one_batch_of_all_rows_is_plain_em(blobs):
    X, groups = blobs
    plain = FairMixture(4, fairness_strength=0, random_state=0, max_iter=7, tol=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = plain.fit(X, sensitive_features=groups)
        one = FairMixture(**{**plain.get_params(), "batch_size": len(X)})
        one.fit(X, sensitive_features=groups)
    np.testing.assert_allclose(one.means_, whole.means_, rtol=1e-6)
    np.testing.assert_allclose(one.weights_, whole.weights_, rtol=1e-6)


@pytest.mark.parametrize("settings", [{"batch_size": 500}, {"batch_size": 0.1}])
def test_incremental_em_reaches_the_likelihood_of_em(blobs, settings):
    X, groups = blobs
    plain = FairMixture(4, fairness_strength=0, random_state=0, tol=1e-7, max_iter=5000)
    full = plain.fit(X, sensitive_features=groups).score(X)
    batch = FairMixture(**{**plain.get_params(), **settings}).fit(X, sensitive_features=groups)
    assert batch.score(X) == pytest.approx(full, abs=1e-4)


@pytest.mark.parametrize("assignment", ["blind", "aware"])
@pytest.mark.parametrize(
    "settings",
    [
        {"batch_size": 500, "fairness_sample_size": 3000},
        {"batch_size": 0.2},
        {"fairness_sample_size": 2000},
        {"fairness_sample_size": 0.3, "fairness_sample_replace": True},
        {"subsample": 2000},
        {"subsample": 0.3},
    ],
    ids=lambda settings: "-".join(settings),
)
def test_the_bound_holds_on_all_rows(blobs, whole, settings, assignment):
    X, groups = blobs
    model = FairMixture(4, max_gap=0.02, assignment=assignment, random_state=0, **settings)
    model.fit(X, sensitive_features=groups)
    labels = model.predict(X, sensitive_features=groups if assignment == "aware" else None)
    assert np.array_equal(labels, model.labels_)
    assert metrics.gap(labels, groups) <= 0.02
    assert len(np.unique(labels)) == 4
    assert metrics.clustering_cost(X, labels) <= 1.04 * whole(assignment).cost


@pytest.mark.parametrize("settings", [{}, {"batch_size": 1000}], ids=["full", "batch"])
def test_components_learn_from_all_rows_where_a_sample_is_fair(blobs, whole, settings):
    X, groups = blobs
    model = FairMixture(4, max_gap=0.02, assignment="aware", random_state=0)
    model.set_params(fairness_sample_size=60, **settings).fit(X, sensitive_features=groups)
    learned = model.score(X)
    model.set_params(fairness_sample_size=None, batch_size=None, subsample=60)
    sampled = model.fit(X, sensitive_features=groups).score(X)
    assert learned > whole("aware").score - 0.02
    assert learned > sampled + 0.02


@pytest.mark.parametrize("assignment", ["blind", "aware"])
def test_many_rows_are_approached_on_samples(blobs, whole, assignment, monkeypatch):
    X, groups = blobs
    settings = {"max_gap": 0.02, "assignment": assignment, "random_state": 0}
    expected = whole(assignment)
    search = replace(schedule.SCHEDULE.search, rows=1000)
    few = replace(schedule.SCHEDULE, near_rows=2000, search=search)
    monkeypatch.setattr(schedule, "SCHEDULE", few)
    model = FairMixture(4, **settings).fit(X, sensitive_features=groups)
    assert metrics.gap(model.labels_, groups) <= 0.02
    assert model.n_passes_ < expected.n_passes
    assert metrics.clustering_cost(X, model.labels_) <= 1.02 * expected.cost


@pytest.mark.parametrize("assignment", ["blind", "aware"])
def test_the_last_iterations_alone_see_very_many_rows(blobs, whole, assignment, monkeypatch):
    X, groups = blobs
    seen = []
    climb = Dual.climb

    def spy(self, objective, start, callback=None):
        end = climb(self, objective, start, callback)
        if callback is not None:
            seen.append((objective.table.n_rows, len(end.history)))
        return end

    monkeypatch.setattr(Dual, "climb", spy)
    search = replace(schedule.SCHEDULE.search, rows=1000)
    few = replace(schedule.SCHEDULE, near_rows=1500, wide_rows=2000, search=search)
    monkeypatch.setattr(schedule, "SCHEDULE", few)
    model = FairMixture(4, max_gap=0.02, assignment=assignment, random_state=0)
    model.fit(X, sensitive_features=groups)
    (wide, first), (rows, last) = seen
    assert (wide, rows) == (2000, len(X))
    assert last <= few.last_iterations
    assert model.n_iter_ == len(model.history_) == first + last
    assert (np.diff(model.history_["seconds"]) >= 0).all()
    assert metrics.gap(model.labels_, groups) <= 0.02
    assert metrics.clustering_cost(X, model.labels_) <= 1.02 * whole(assignment).cost
    # Components learn from all rows also where others decide the rates.
    seen.clear()
    model.set_params(fairness_sample_size=500).fit(X, sensitive_features=groups)
    assert [rows for rows, _ in seen] == [2000, len(X)]
    # Iterations of mini-batches are short.
    seen.clear()
    model.set_params(batch_size=0.5).fit(X, sensitive_features=groups)
    assert [rows for rows, _ in seen] == [len(X)]
    model.set_params(fairness_sample_size=None, batch_size=None)
    # They count as those of the user.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        assert model.set_params(max_iter=8).fit(X, sensitive_features=groups).n_iter_ == 8
        assert model.set_params(max_iter=1).fit(X, sensitive_features=groups).n_iter_ == 1


@pytest.mark.parametrize("kind", ["spherical", "full"])
def test_plain_mixtures_of_many_rows_are_approached_on_samples(blobs, kind, monkeypatch):
    X, _ = blobs
    settings = {"fairness_strength": 0, "covariance_type": kind, "random_state": 0}
    whole = FairMixture(4, **settings).fit(X)
    few = replace(schedule.SCHEDULE, near_rows=2000, sample_rows=1000)
    monkeypatch.setattr(schedule, "SCHEDULE", few)
    model = FairMixture(4, **settings).fit(X)
    assert model.score(X) >= whole.score(X) - 1e-3
    # The last iterations alone are over all rows.
    assert model.history_["log_likelihood"][0] > whole.history_["log_likelihood"][0]


@pytest.mark.parametrize("solver", ["em", long("gd")])
def test_mini_batches_of_the_papers_solvers_come_close_to_full_passes(blobs, solver):
    X, groups = blobs
    steps = {"em": 400, "gd": 3000}[solver]
    settings = {"solver": solver, "fairness_strength": 2.0, "random_state": 0, "max_iter": steps}
    settings |= {"learning_rate": 1e-2, "gap_of": "probabilities"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        full = FairMixture(4, **settings).fit(X, sensitive_features=groups)
        batch = FairMixture(4, batch_size=1000, fairness_sample_size=3000, **settings)
        batch.fit(X, sensitive_features=groups)
    value = [m.score(X) - 2.0 * m.soft_gap_ for m in (batch, full)]
    assert value[0] == pytest.approx(value[1], abs=0.05)


@pytest.mark.parametrize(("batch_size", "iterations"), [(1000, 6), (None, 1)])
def test_em_ends_where_no_step_serves_any_batch(blobs, batch_size, iterations, monkeypatch):
    X, groups = blobs
    monkeypatch.setattr(Ascent, "climb", lambda self, surrogate, start: (None, surrogate.objective))
    settings = {"solver": "em", "fairness_strength": 2.0, "random_state": 0}
    model = FairMixture(4, batch_size=batch_size, **settings).fit(X, sensitive_features=groups)
    assert model.n_iter_ == iterations


def test_em_goes_on_from_a_batch_that_no_step_serves(blobs, monkeypatch):
    X, groups = blobs
    climb, calls = Ascent.climb, []

    def every_other(self, surrogate, start):
        calls.append(None)
        return climb(self, surrogate, start) if len(calls) % 2 else (None, surrogate.objective)

    monkeypatch.setattr(Ascent, "climb", every_other)
    settings = {"solver": "em", "fairness_strength": 2.0, "random_state": 0, "max_iter": 40}
    with pytest.warns(ConvergenceWarning):
        model = FairMixture(4, batch_size=1000, **settings).fit(X, sensitive_features=groups)
    assert model.n_iter_ == 40


def test_the_papers_bounded_solver_aims_below_the_bound_of_a_sample(blobs):
    X, groups = blobs
    model = FairMixture(
        4, solver="em", gap_of="probabilities", max_gap=0.05, subsample=0.5, random_state=1
    )
    model.fit(X, sensitive_features=groups)
    assert model.soft_gap_ <= 0.05
    assert model.soft_gap_ == pytest.approx(metrics.gap(model.predict_proba(X), groups), abs=1e-9)


def test_a_fairness_sample_moves_only_the_penalty():
    toy, table = small_blocks()
    sample = table.sample(500, np.random.default_rng(0))
    criterion = CRITERIA["gap"]
    penalty = Scaled(criterion, 2.0, 1e9, np.zeros((M, K)))
    objective = Objective(toy.mixture, table, penalty, fair_table=sample)
    point = objective.evaluate(toy.theta)
    rates = sample.softmax_pass(Sweep(point.logits)).mass / sample.group_sizes[:, None]
    likelihood = table.softmax_pass(Sweep(point.logits)).log_likelihood / table.group_sizes.sum()
    assert point.value == pytest.approx(likelihood - 2 * criterion.value(rates), rel=1e-12)
    solution = EM(criterion, max_iter=30).climb(objective, Beginning(toy.theta))
    values = [row.objective for row in solution.history]
    assert min(np.diff(values)) > -1e-9


def test_batch_and_sub_sample_exclude_each_other(blobs):
    X, groups = blobs
    with pytest.raises(ValueError, match="Set one of them to None"):
        FairMixture(batch_size=100, subsample=0.5).fit(X, sensitive_features=groups)


def test_a_sample_has_some_rows_of_every_group_and_weights_that_make_up_for_it():
    counts = np.array([100_000, 900, 50])
    assert allocate(counts, 1000).tolist() == [991, 30, 30]
    assert allocate(np.array([700, 300]), 10).sum() >= 10
    groups = np.repeat(np.arange(3), counts)
    store = MemoryStore(Rows(np.arange(100_950.0)[:, None], None), groups=groups, n_groups=3)
    sample = store.sample(1000, np.random.default_rng(0))
    share = sample.group_sizes / sample.group_sizes.sum()
    np.testing.assert_allclose(share, counts / counts.sum(), rtol=1e-9)
    twice = store.sample(1000, np.random.default_rng(0), replace=True)
    assert len(np.unique(twice.rows.numeric)) < twice.n_rows


def test_sub_samples_with_weights_count_weights():
    X, groups, _ = make_grouped_blobs(3000, 3, 2, separation=2.0, random_state=1)
    weight = np.random.default_rng(0).uniform(0.5, 2.0, size=3000)
    model = FairMixture(3, max_gap=0.02, subsample=0.5, random_state=0)
    model.fit(X, sensitive_features=groups, sample_weight=weight)
    assert metrics.gap(model.labels_, groups, sample_weight=weight) <= 0.02
