"""Streams: partial_fit learns from batches that never come back; assign draws labels at random."""

import pickle
import re
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from cases import FAMILIES, each, problem
from fairmix import FairMixture, metrics
from fairmix.datasets import make_grouped_blobs
from fairmix.kernels import Sweep
from fairmix.kernels.totals import Logits, Rows
from fairmix.solvers.online import Reservoir, Running
from fairmix.tables import MemoryStore
from repetition import long, times

N, BATCH = 20_000, 400


@pytest.fixture(scope="module")
def blobs():
    X, groups, components = make_grouped_blobs(
        N, 4, 3, separation=2.5, imbalance=0.3, random_state=0
    )
    return X, groups, components


def shuffled(n_rows, seed=1):
    return np.random.default_rng(seed).permutation(n_rows)


def stream(model, X, groups=None, *, weight=None, order=None, batch=BATCH):
    """Feed all rows once, in an order."""
    order = shuffled(len(X)) if order is None else order
    take = lambda part, rows: None if part is None else part[rows]  # noqa: E731
    for start in range(0, len(X), batch):
        rows = order[start : start + batch]
        table = X.iloc[rows] if isinstance(X, pd.DataFrame) else X[rows]
        model.partial_fit(
            table, sensitive_features=take(groups, rows), sample_weight=take(weight, rows)
        )
    return model


def labels(model, X, groups):
    known = {"sensitive_features": groups} if model.assignment == "aware" else {}
    return model.predict(X, **known)


def sampling_error(sample_rows, n_groups, n_clusters):
    """Three standard errors of a difference of two rates, for groups and clusters of equal size."""
    rate = 1 / n_clusters
    return 3 * np.sqrt(rate * (1 - rate) * 2 * n_groups / sample_rows)


# -------------------------------------------------------------------------- the pieces
def test_a_reservoir_is_a_uniform_sample_of_each_group():
    chosen = np.zeros(4000)
    for seed in range(40):
        reservoir = Reservoir(400, 2, np.random.default_rng(seed))
        for start in range(0, 4000, 250):
            rows = np.arange(start, start + 250)
            # The rare group comes in the second half only, apart from one row in each batch.
            groups = ((rows % 250 == 0) | ((rows >= 2000) & (rows % 20 == 1))).astype(np.intp)
            reservoir.add(MemoryStore(Rows(rows[:, None].astype(float), None), groups=groups))
        kept = reservoir.rows.numeric[:, 0].astype(int)
        assert (np.diff(kept) > 0).all()
        chosen[kept] += 1
    rare = np.zeros(4000, dtype=bool)
    rare[::250] = True
    rare[2001::20] = True
    assert reservoir.counts.tolist() == [(~rare).sum(), rare.sum()]
    store = reservoir.store()
    assert store.group_counts[1] >= 30
    assert 390 <= store.n_rows <= 430
    # Weights restore the groups' shares of the stream.
    np.testing.assert_allclose(
        store.group_sizes / store.group_sizes.sum(), [1 - rare.mean(), rare.mean()]
    )
    for part in (rare, ~rare):
        early, late = (
            chosen[part & (np.arange(4000) < 2000)],
            chosen[part & (np.arange(4000) >= 2000)],
        )
        share = chosen[part].mean()
        for half in (early, late):
            assert half.mean() == pytest.approx(share, abs=4 * np.sqrt(share / half.size))


def test_a_reservoir_with_room_keeps_all_rows_as_they_are():
    rng = np.random.default_rng(0)
    X, groups = rng.normal(size=(90, 2)), rng.integers(2, size=90)
    reservoir = Reservoir(100, 2, rng)
    for part in np.split(np.arange(90), 3):
        reservoir.add(MemoryStore(Rows(X[part], None), groups=groups[part], n_groups=2))
    store = reservoir.store()
    assert np.array_equal(store.rows.numeric, X)
    assert np.array_equal(store.groups, groups)
    assert store.weight is None


@each("case", FAMILIES, "gaussian-full", "categorical", "product-diag")
def test_the_past_and_a_batch_have_the_sums_of_all_rows(case):
    """Where the past was seen with the same parameters, a step of its share gives exact EM."""
    given = problem(case)
    table, logits = given.table(), given.mixture.logits(given.theta)
    exact = table.softmax_pass(Sweep(logits))
    halves = []
    for part in (slice(0, 25), slice(25, 60)):
        halves.append(
            given._replace(
                rows=given.rows.take(part), groups=given.groups[part], weight=given.weight[part]
            ).table()
        )
    past = halves[0].softmax_pass(Sweep(logits))
    share = 1 - past.weight / exact.weight
    running = Running(halves[1], past.sums * (1 / past.weight), share)
    totals = running.softmax_pass(Sweep(logits))
    assert totals.weight == pytest.approx(exact.weight)
    np.testing.assert_allclose(totals.sums.b, exact.sums.b)
    np.testing.assert_allclose(totals.sums.W, exact.sums.W, atol=1e-9)
    assert running.group_sizes.sum() == pytest.approx(exact.weight)
    # Alpha scales the past, too, and the log-likelihood is linear in it.
    assert np.allclose((totals.sums * 0.5).b, running.softmax_pass(Sweep(logits, alpha=0.5)).sums.b)
    higher = Logits(logits.b + 1, logits.W)
    rise = running.softmax_pass(Sweep(higher)).log_likelihood - totals.log_likelihood
    assert rise == pytest.approx(exact.weight)


# -------------------------------------------------------------------------- like a batch fit
@pytest.mark.parametrize("covariance_type", ["tied-spherical", "full"])
def test_without_groups_a_stream_reaches_the_likelihood_of_em(blobs, covariance_type):
    X, _, _ = blobs
    model = FairMixture(4, covariance_type=covariance_type, random_state=0)
    online = stream(clone(model), X)
    assert online.score(X) == pytest.approx(model.fit(X).score(X), abs=2e-3)
    assert adjusted_rand_score(online.predict(X), model.labels_) > 0.95
    assert np.isnan(online.gap_)


@pytest.mark.repeats
@pytest.mark.parametrize("assignment", ["aware", long("blind")])
def test_the_bound_holds_on_all_rows_of_a_stream(blobs, assignment):
    X, groups, _ = (part[: times(12_000, N)] for part in blobs)
    model = FairMixture(4, max_gap=0.02, assignment=assignment, random_state=0)
    stream(model, X, groups)
    found = labels(model, X, groups)
    # The sample has room for the whole stream.
    assert metrics.gap(found, groups) == pytest.approx(model.gap_, abs=1e-12)
    assert model.gap_ <= 0.02
    fitted = clone(model).fit(X, sensitive_features=groups)
    assert model.score(X) >= fitted.score(X) - 0.02
    cost = metrics.clustering_cost(X, found) / metrics.clustering_cost(X, fitted.labels_)
    assert cost <= 1.03
    assert len(np.unique(found)) == 4


@pytest.mark.parametrize("assignment", ["aware", "blind"])
def test_a_small_sample_leaves_its_sampling_error(blobs, assignment):
    X, groups, _ = (part[:10_000] for part in blobs)
    model = FairMixture(
        4, max_gap=0.02, assignment=assignment, fairness_sample_size=3000, random_state=0
    )
    stream(model, X, groups, batch=2000)
    assert model.gap_ <= 0.02
    found = labels(model, X, groups)
    assert metrics.gap(found, groups) <= 0.02 + sampling_error(3000, 2, 4)
    assert model.group_sizes_.tolist() == np.bincount(groups).tolist()


def test_the_bound_on_probabilities(blobs):
    X, groups, _ = blobs
    model = FairMixture(4, gap_of="probabilities", assignment="aware", random_state=0)
    stream(model, X[:8000], groups[:8000], batch=1000)
    psi = model.predict_proba(X[:8000], sensitive_features=groups[:8000])
    assert metrics.gap(psi, groups[:8000]) == pytest.approx(model.gap_, abs=1e-12)
    assert model.gap_ <= 0.01 + 1e-5
    fitted = clone(model).fit(X[:8000], sensitive_features=groups[:8000])
    assert model.score(X[:8000]) == pytest.approx(fitted.score(X[:8000]), abs=0.01)


@pytest.fixture(scope="module")
def mixed():
    X, groups, components = make_grouped_blobs(
        3000, 3, 2, separation=2.5, imbalance=0.3, random_state=1
    )
    rng = np.random.default_rng(0)
    noisy = lambda share: np.where(  # noqa: E731
        rng.random(3000) < share, components, rng.integers(3, size=3000)
    )
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1]})
    for j in range(9):
        frame[f"c{j}"] = np.array(["red", "green", "blue"])[noisy(0.4)]
    return frame, np.asarray(groups)


@pytest.mark.parametrize(
    ("kind", "assignment"),
    [("categorical", "aware"), long("categorical", "blind"), ("mixed", "blind")],
)
def test_categories_stream_as_well(mixed, kind, assignment):
    frame, groups = mixed
    frame = frame if kind == "mixed" else frame.drop(columns=["a", "b"])
    model = FairMixture(3, max_gap=0.03, assignment=assignment, random_state=0)
    stream(model, frame, groups, batch=1100)
    fitted = clone(model).fit(frame, sensitive_features=groups)
    assert metrics.gap(labels(model, frame, groups), groups) <= 0.03
    assert model.lower_bound_ >= fitted.lower_bound_ - 0.02
    assert model.categories_[0].tolist() == ["blue", "green", "red"]


@pytest.mark.parametrize("solver", ["em", long("gd")])
def test_the_papers_solvers_at_a_given_strength(blobs, solver):
    X, groups, _ = (part[:4000] for part in blobs)
    settings = {} if solver == "em" else {"max_iter": 300, "learning_rate": 1e-2, "tol": 1e-3}
    model = FairMixture(
        4, solver=solver, fairness_strength=2, gap_of="probabilities", random_state=0, **settings
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = clone(model).fit(X, sensitive_features=groups)
        stream(model, X, groups)
    assert model.fairness_strength_ == 2.0
    free = FairMixture(4, fairness_strength=0, random_state=0).fit(X, sensitive_features=groups)
    assert model.gap_ < free.soft_gap_ - 0.01
    assert model.gap_ == pytest.approx(fitted.gap_, abs=0.01)
    assert model.lower_bound_ == pytest.approx(model.score(X) - 2 * model.gap_, abs=1e-9)
    assert model.lower_bound_ == pytest.approx(fitted.lower_bound_, abs=5e-3)


def test_a_weight_of_two_counts_as_two_rows(blobs):
    X, groups, components = (part[:3000] for part in blobs)
    weight = np.where(components < 2, 2.0, 1.0)
    model = FairMixture(4, max_gap=0.02, assignment="aware", random_state=0)
    weighted = stream(clone(model), X, groups, weight=weight)
    twice = np.repeat(np.arange(3000), weight.astype(int))
    repeated = stream(clone(model), X[twice], groups[twice], batch=600)
    assert weighted.score(X[twice]) == pytest.approx(repeated.score(X[twice]), abs=5e-3)
    pairs = np.sort(weighted.weights_), np.sort(repeated.weights_)
    np.testing.assert_allclose(*pairs, atol=0.02)
    heavy = metrics.gap(labels(weighted, X, groups), groups, sample_weight=weight)
    assert heavy == pytest.approx(weighted.label_gap_, abs=1e-12)
    assert heavy <= 0.02
    assert weighted.group_sizes_.sum() == 3000


def test_a_scale_is_that_of_the_first_batch(blobs):
    X, groups, _ = (part[:2000] for part in blobs)
    wide = X * [1000, 0.001, 1] + [5, -7, 1e6]
    model = FairMixture(4, max_gap=0.02, standardize=True, assignment="aware", random_state=0)
    order = shuffled(2000)
    stream(model, wide, groups, order=order)
    first = wide[order[:BATCH]]
    inside = (wide - first.mean(axis=0)) / first.std(axis=0)
    plain = stream(clone(model).set_params(standardize=False), inside, groups, order=order)
    np.testing.assert_allclose(model.means_, plain.means_, atol=1e-5)
    assert model.score(wide) == pytest.approx(plain.score(inside), abs=1e-6)


def test_a_sorted_stream_keeps_all_clusters(blobs):
    """Rows come cluster by cluster, so most clusters are unknown to the first batches."""
    X, groups, components = (part[:4000] for part in blobs)
    order = np.argsort(components, kind="stable")
    model = stream(FairMixture(4, fairness_strength=0, random_state=0), X, order=order)
    fitted = FairMixture(4, fairness_strength=0, random_state=0).fit(X)
    assert adjusted_rand_score(model.predict(X), fitted.labels_) > 0.85
    assert model.score(X) >= fitted.score(X) - 0.06
    fair = FairMixture(4, assignment="aware", max_gap=0.02, random_state=0)
    stream(fair, X, groups, order=order)
    found = labels(fair, X, groups)
    assert len(np.unique(found)) == 4
    assert metrics.gap(found, groups) <= 0.02


@pytest.mark.parametrize(("assignment", "cost"), [long("aware", 10_250), long("blind", 12_400)])
def test_adult_in_batches(adult, assignment, cost):
    X, sex = adult.X, np.asarray(adult.sensitive["sex"])
    model = FairMixture(10, assignment=assignment, random_state=0)
    stream(model, X, sex, batch=2000)
    found = labels(model, X, sex)
    gap, spent = metrics.gap(found, sex), metrics.clustering_cost(X, found)
    print(f"Adult, {assignment}, batches of 2,000: label gap {gap:.4f}, cost {spent:,.0f}")
    assert gap <= 0.01
    assert spent <= cost
    assert len(np.unique(found)) == 10


# -------------------------------------------------------------------------- what users see
def test_every_call_leaves_a_usable_model(blobs):
    X, groups, _ = blobs
    model = FairMixture(4, max_gap=0.02, assignment="aware", random_state=0)
    for number in range(1, 7):
        rows = slice((number - 1) * BATCH, number * BATCH)
        returned = model.partial_fit(X[rows], sensitive_features=groups[rows])
        assert returned is model
        so_far = slice(0, number * BATCH)
        found = labels(model, X[so_far], groups[so_far])
        assert model.gap_ == pytest.approx(metrics.gap(found, groups[so_far]), abs=1e-12)
        assert model.balance_ == pytest.approx(metrics.balance(found, groups[so_far]), abs=1e-12)
        np.testing.assert_allclose(model.rates_, metrics.group_rates(found, groups[so_far]))
        assert model.n_iter_ == len(model.history_) == number
        assert model.history_["log_likelihood"][-1] == pytest.approx(model.score(X[so_far]))
        assert model.history_["gap"][-1] == pytest.approx(model.soft_gap_)
        assert model.history_["objective"][-1] == model.lower_bound_
        assert not hasattr(model, "labels_")
        assert model.group_sizes_.tolist() == np.bincount(groups[so_far]).tolist()
        assert model.means_.shape == (4, 3)
    assert (np.diff(model.history_["seconds"]) > 0).all()


def test_clusters_keep_their_numbers(blobs):
    X, groups, _ = blobs
    model = FairMixture(4, max_gap=0.02, assignment="aware", random_state=0)
    before = None
    for start in range(0, 8000, 1000):
        rows = slice(start, start + 1000)
        model.partial_fit(X[rows], sensitive_features=groups[rows])
        found = labels(model, X, groups)
        assert before is None or np.mean(found == before) > 0.8
        before = found


def test_the_same_seed_gives_the_same_stream(blobs):
    X, groups, _ = blobs
    model = FairMixture(
        4, gap_of="probabilities", assignment="aware", fairness_sample_size=9000, random_state=0
    )
    first = stream(clone(model), X, groups, batch=5000)
    second = stream(clone(model), X, groups, batch=5000)
    threads = stream(clone(model).set_params(n_jobs=2), X, groups, batch=5000)
    for other in (second, threads):
        assert np.array_equal(first.means_, other.means_)
        assert np.array_equal(first.rates_, other.rates_)
    other = stream(clone(model).set_params(random_state=1), X, groups, batch=5000)
    assert not np.array_equal(first.means_, other.means_)


def test_a_pickled_stream_goes_on(blobs):
    X, groups, _ = (part[:3000] for part in blobs)
    model = FairMixture(3, max_gap=0.05, assignment="aware", random_state=0)
    stream(model, X[:2000], groups[:2000], order=np.arange(2000), batch=1000)
    again = pickle.loads(pickle.dumps(model))
    for each_model in (model, again):
        each_model.partial_fit(X[2000:], sensitive_features=groups[2000:])
    assert np.array_equal(model.means_, again.means_)
    assert again.n_iter_ == 3


def test_fit_ends_a_stream_and_partial_fit_begins_one(blobs):
    X, groups, _ = (part[:1000] for part in blobs)
    model = FairMixture(3, max_gap=0.05, assignment="aware", random_state=0)
    alone = clone(model).fit(X, sensitive_features=groups)
    stream(model, X, groups)
    model.fit(X, sensitive_features=groups)
    assert np.array_equal(model.labels_, alone.labels_)
    assert np.array_equal(model.means_, alone.means_)
    model.partial_fit(X[:500], sensitive_features=groups[:500])
    assert model.n_iter_ == 1
    assert model.group_sizes_.sum() == 500


def test_a_named_sensitive_column(blobs):
    X, groups, _ = (part[:1200] for part in blobs)
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(group=groups)
    named = FairMixture(3, max_gap=0.05, assignment="aware", random_state=0)
    apart = clone(named)
    for start in range(0, 1200, BATCH):
        rows = slice(start, start + BATCH)
        named.partial_fit(frame[rows], sensitive_features="group")
        apart.partial_fit(frame[["a", "b", "c"]][rows], sensitive_features=groups[rows])
    assert named.feature_names_in_.tolist() == ["a", "b", "c"]
    assert np.array_equal(named.means_, apart.means_)


def test_warm_start_begins_at_the_last_fit(blobs):
    X, _, _ = blobs
    model = FairMixture(4, fairness_strength=0, warm_start=True, random_state=0).fit(X)
    means = model.means_
    model.partial_fit(X[:BATCH])
    assert np.linalg.norm(model.means_[:, None] - means, axis=2).min(axis=1).max() < 0.5
    assert model.group_sizes_.size == 0


GOOD = np.random.default_rng(0).normal(size=(60, 2))
TWO = np.array(["a", "b"] * 30)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"batch_size": 10}, "batch_size=10 is for fit.* Set batch_size=None"),
        ({"subsample": 0.5}, "subsample=0.5 is for fit"),
        ({"checkpoint": "fit.npz"}, "checkpoint='fit.npz' is for fit"),
        ({"fairness_sample_replace": True}, "Set fairness_sample_replace=False"),
        ({"fairness_sample_size": 0.5}, "fairness_sample_size=0.5 is a share"),
        ({"fairness_sample_size": np.float32(0.5)}, "fairness_sample_size=0.5 is a share"),
        ({"solver": "em"}, r"solver='em' with fairness_strength='auto'.* or solver='dual'"),
        ({"solver": "gd", "assignment": "aware"}, "assignment='aware' needs solver='dual'"),
        ({"n_components": 61}, r"n_components=61 clusters .* n_samples=60"),
        ({"max_gap": -1}, "'max_gap' parameter"),
    ],
)
def test_settings_that_a_stream_cannot_honour(parameters, message):
    model = FairMixture(**{"random_state": 0, **parameters})
    with pytest.raises(ValueError, match=message):
        model.partial_fit(GOOD, sensitive_features=TWO)
    assert not hasattr(model, "weights_")


def test_batches_that_do_not_fit_the_stream():
    model = FairMixture(2, max_gap=0.5, random_state=0)
    model.partial_fit(GOOD, sensitive_features=TWO)
    means = model.means_
    wrong = [
        (GOOD[:, :1], TWO, "1 features"),
        (GOOD, None, "has no sensitive_features, the stream began with some"),
        (GOOD, np.where(np.arange(60) < 3, "c", TWO), r"groups .* not seen: 'c'"),
        (GOOD, TWO[:5], "has 5 rows, the data has 60"),
        (np.where(GOOD > 1, np.inf, GOOD), TWO, "infinity"),
        ("rows.parquet", "group", "names files"),
    ]
    for X, groups, message in wrong:
        with pytest.raises(ValueError, match=message):
            model.partial_fit(X, sensitive_features=groups)
    with pytest.raises(ValueError, match="n_components=3, but the stream began with 2"):
        model.set_params(n_components=3).partial_fit(GOOD, sensitive_features=TWO)
    assert np.array_equal(model.means_, means)
    assert model.n_iter_ == 1
    # A batch may lack a group, and max_gap may change on the way.
    model.set_params(n_components=2, max_gap=0.4)
    model.partial_fit(GOOD[TWO == "a"], sensitive_features=TWO[TWO == "a"])
    assert model.group_sizes_.tolist() == [60, 30]
    free = FairMixture(2, random_state=0).partial_fit(GOOD)
    with pytest.raises(ValueError, match="has some sensitive_features, the stream began with none"):
        free.partial_fit(GOOD, sensitive_features=TWO)


def test_first_batches_that_do_not_do():
    with pytest.raises(ValueError, match=r"no row of 'b' has a positive sample_weight"):
        FairMixture(2).partial_fit(
            GOOD, sensitive_features=TWO, sample_weight=(TWO == "a").astype(float)
        )
    frame = pd.DataFrame({"x": GOOD[:, 0], "colour": ["red", "green"] * 30})
    model = FairMixture(2, random_state=0).partial_fit(frame)
    with pytest.raises(ValueError, match=r"'colour' of X holds categories .* 'pink'"):
        model.partial_fit(frame.assign(colour="pink"))
    # A row without weight can name a category that is yet to come.
    more = pd.concat([frame, pd.DataFrame({"x": [0.0], "colour": ["pink"]})])
    model = FairMixture(2, random_state=0).partial_fit(more, sample_weight=[1.0] * 60 + [0.0])
    model.partial_fit(frame.assign(colour="pink"))
    assert model.categories_[0].tolist() == ["green", "pink", "red"]


def test_the_code_of_the_page_runs(capsys):
    text = (Path(__file__).parents[1] / "docs" / "how-to" / "streams.md").read_text("utf-8")
    names: dict[str, object] = {}
    exec("\n".join(re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)), names)
    assert names["model"].gap_ <= 0.02
    assert capsys.readouterr().out.startswith("6 0.01")


# -------------------------------------------------------------------------- random assignment
@pytest.fixture(scope="module")
def soft(blobs):
    X, groups, _ = (part[:2000] for part in blobs)
    model = FairMixture(3, gap_of="probabilities", max_gap=0.01, random_state=0)
    return model.fit(X, sensitive_features=groups), X, groups


def test_argmax_is_predict(soft):
    model, X, _ = soft
    assert np.array_equal(model.assign(X), model.predict(X))
    assert np.array_equal(model.assign(X, how="argmax"), model.labels_)


def test_random_assignment_is_fair_in_expectation(soft):
    model, X, groups = soft
    assert model.label_gap_ > 0.02
    draws = 100
    rates = np.mean(
        [
            metrics.group_rates(model.assign(X, how="random", random_state=seed), groups)
            for seed in range(draws)
        ],
        axis=0,
    )
    error = np.sqrt(0.25 / (np.bincount(groups).min() * draws))
    np.testing.assert_allclose(rates, model.rates_, atol=4 * error)
    assert metrics.gap(model.predict_proba(X), groups) <= 0.01 + 1e-5
    assert np.abs(rates[0] - rates[1]).max() <= 0.01 + 4 * error
    # Each row is drawn by its own probabilities.
    counts = np.zeros((200, 3))
    for seed in range(draws):
        np.add.at(
            counts, (np.arange(200), model.assign(X[:200], how="random", random_state=seed)), 1
        )
    np.testing.assert_allclose(counts / draws, model.predict_proba(X[:200]), atol=0.25)


def test_random_assignment_is_seeded_for_any_number_of_threads(soft):
    model, X, _ = soft
    first = model.assign(X, how="random", random_state=3)
    assert np.array_equal(first, model.assign(X, how="random", random_state=3))
    assert not np.array_equal(first, model.assign(X, how="random", random_state=4))
    # Without a seed of its own it has the estimator's.
    assert np.array_equal(
        model.assign(X, how="random"), model.assign(X, how="random", random_state=0)
    )
    threads = pickle.loads(pickle.dumps(model)).set_params(n_jobs=2)
    assert np.array_equal(first, threads.assign(X, how="random", random_state=3))


def test_random_assignment_of_an_aware_map(blobs):
    X, groups, _ = (part[:2000] for part in blobs)
    model = FairMixture(3, gap_of="probabilities", assignment="aware", random_state=0)
    model.fit(X, sensitive_features=groups)
    drawn = model.assign(X, how="random", sensitive_features=groups)
    assert set(np.unique(drawn)) <= {0, 1, 2}
    with pytest.raises(ValueError, match="needs sensitive_features"):
        model.assign(X, how="random")
    with pytest.raises(ValueError, match=r"how='hard'. Give 'argmax' or 'random'"):
        model.assign(X, how="hard")
    with pytest.raises(ValueError, match="names files"):
        model.assign("rows.parquet")


def test_cold_labels_hardly_move_at_random(blobs):
    X, groups, _ = (part[:1000] for part in blobs)
    model = FairMixture(2, max_gap=0.05, random_state=0).fit(X, sensitive_features=groups)
    assert np.mean(model.assign(X, how="random") == model.labels_) > 0.9
