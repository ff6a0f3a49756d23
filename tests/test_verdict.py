"""The verdict on a bound, what whole rows resolve, and groups that are not judged."""

import math
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning

from fairmix import FairMixture, load, metrics
from fairmix.datasets import make_grouped_blobs
from fairmix.results.verdict import (
    MET,
    MET_FOR_JUDGED,
    MISSED,
    NO_BOUND,
    NOT_JUDGED,
    farthest,
    judge,
    label_resolution,
    verdict_of,
    worst_of,
)
from repetition import times


@pytest.mark.parametrize(
    ("value", "bound", "n_judged", "unjudged", "word"),
    [
        (0.01, 0.01, 2, {}, MET),
        (0.0100001, 0.01, 2, {}, MISSED),
        (0.0003, 0.0, 2, {}, MET),
        (0.0004, 0.0, 2, {}, MISSED),
        (0.01, 0.01, 2, {"x": 2}, MET_FOR_JUDGED),
        (0.02, 0.01, 2, {"x": 2}, MISSED),
        (math.nan, 0.01, 2, {}, MISSED),
        (math.nan, 0.01, 1, {"x": 2}, NOT_JUDGED),
        (math.nan, 0.01, 0, {"x": 2, "y": 3}, NOT_JUDGED),
        (0.3, math.inf, 2, {}, NO_BOUND),
        (math.nan, 0.01, 0, {}, NO_BOUND),
    ],
)
def test_words(value, bound, n_judged, unjudged, word):
    found = judge(value, bound, resolution=0.0003, n_judged=n_judged, unjudged=unjudged)
    assert found.word == word
    assert found.holds == (word in (MET, MET_FOR_JUDGED))
    assert (found.rows > 0) == (word == MISSED and not math.isnan(value))


@pytest.mark.parametrize(
    ("parameter", "values", "bounds", "worst"),
    [
        ("max_gap", [0.1, 0.3, 0.2], [math.inf] * 3, 1),  # no bound: the worst value
        ("max_gap", [0.1, 0.3, 0.2], [0.05, 0.3, 0.1], 2),
        ("max_gap", [0.1, 0.3], [0.2, 0.5], 0),
        ("min_ratio", [0.9, 0.7, 0.5], [0.8, 0.8, 0.4], 1),
        ("min_ratio", [0.9, 0.85], [0.8, 0.7], 0),
    ],
)
def test_the_worst_of_several_attributes(parameter, values, bounds, worst):
    found = [
        judge(value, bound, resolution=0.0, n_judged=2, parameter=parameter)
        for value, bound in zip(values, bounds, strict=True)
    ]
    assert farthest(found) == worst
    assert worst_of(found).value == values[worst]


def test_a_miss_is_told_in_rows():
    assert judge(0.0106, 0.01, resolution=0.0003, n_judged=2).rows == 2


@pytest.mark.parametrize(
    ("criterion", "sizes", "expected"),
    [
        # One row of the larger group, whichever comes first.
        ("gap", [50, 4000], 1 / 4000),
        ("gap", [4000, 50], 1 / 4000),
        ("worst_pair_gap", [50, 4000], 1 / 4000),
        ("additive_gap", [50, 4000], 6 / 2 / 4000),
        # Two pairs hold the smallest group, one pair needs a row of each of the others.
        ("gap", [10, 100, 1000], (1 / 100 + 1 / 1000 + 1 / 100 + 1 / 1000) / 3),
        ("worst_pair_gap", [10, 100, 1000], 1 / 100 + 1 / 1000),
        ("additive_gap", [10, 100, 1000], 3 * (2 / 100 + 2 / 1000) / 3),
    ],
)
def test_resolution(criterion, sizes, expected):
    assert label_resolution(criterion, sizes, 6) == pytest.approx(expected, rel=1e-12)


def test_resolution_of_weights_is_the_heaviest_row():
    steps = [0.5 / 60, 3.0 / 900]
    assert label_resolution("gap", [60, 900], 4, steps=steps) == 3.0 / 900


def people(n_rows=3000, strangers=2, seed=0):
    X, groups, _ = make_grouped_blobs(n_rows, 4, 2, separation=2.0, random_state=seed)
    names = np.where(groups == 1, "f", "m").astype(object)
    rng = np.random.default_rng(seed)
    names[rng.choice(n_rows, strangers, replace=False)] = "x"
    return X, names


def fit(X, names, quiet=True, **settings):
    model = FairMixture(4, random_state=0, **settings)
    with warnings.catch_warnings():
        if quiet:
            warnings.simplefilter("ignore")
        return model.fit(X, sensitive_features=names)


@pytest.mark.parametrize("assignment", ["blind", "aware"])
def test_two_strangers_are_not_judged_and_loosen_nothing(assignment):
    X, names = people()
    with pytest.warns(UserWarning, match=r"Not judged: 'x' \(2 rows\)"):
        model = FairMixture(4, assignment=assignment, random_state=0).fit(
            X, sensitive_features=names
        )
    assert model.verdict_ == MET_FOR_JUDGED
    assert model.groups_.tolist() == ["f", "m"]
    assert model.unjudged_groups_ == {"x": 2}
    assert model.group_sizes_.sum() == 2998
    known = names != "x"
    gap = metrics.gap(model.labels_[known], names[known])
    assert gap == model.gap_ <= 0.01
    # A group that the fit never saw stays an error where the map asks for groups.
    given = {"sensitive_features": names} if assignment == "aware" else {}
    np.testing.assert_array_equal(model.predict(X, **given), model.labels_)
    if assignment == "aware":
        with pytest.raises(ValueError, match="has not seen: 'y'"):
            model.predict(X[:1], sensitive_features=["y"])


def test_strangers_of_an_aware_map_are_assigned_through_p_of_group():
    X, names = people(strangers=20)
    model = fit(X, names, assignment="aware")
    rows = model.fitted_.model.columns.rows(X)
    x = np.flatnonzero(names == "x")
    tilt = model.fitted_.model.propensity(rows).T @ model.fitted_.model.offsets
    scores = np.log(model.fitted_.model.posterior(rows)) + tilt
    np.testing.assert_array_equal(model.labels_[x], scores[x].argmax(axis=1))
    # A row alone is assigned as in the table.
    alone = model.predict(X[x[:1]], sensitive_features=["x"])
    assert alone[0] == model.labels_[x[0]]


@pytest.mark.repeats
def test_strangers_change_neither_gap_nor_cost():
    figures, seeds = [], range(times(3, long=10))
    for seed in seeds:
        X, names = people(seed=seed)
        known = names != "x"
        for given in (names, people(seed=seed, strangers=0)[1]):
            labels = fit(X, given).labels_
            gap = metrics.gap(labels[known], names[known])
            figures.append((gap, metrics.clustering_cost(X, labels)))
    (gap, cost), (other_gap, other_cost) = np.reshape(figures, (len(seeds), 2, 2)).mean(axis=0)
    assert abs(gap - other_gap) <= 0.001
    assert cost == pytest.approx(other_cost, rel=0.01)


def test_fewer_than_two_groups_left():
    X, names = people()
    few = np.where(names == "f", "m", names)
    with pytest.warns(UserWarning, match="Only 'm' is left, so there is nothing to compare"):
        model = FairMixture(4, random_state=0).fit(X, sensitive_features=few)
    assert model.verdict_ == NOT_JUDGED
    assert math.isnan(model.gap_)
    assert math.isnan(model.balance_)
    assert model.rates_ is None
    assert not verdict_of(model).holds


def test_without_groups_there_is_no_bound(tmp_path):
    X, _ = people()
    model = FairMixture(4, random_state=0).fit(X)
    assert model.verdict_ == NO_BOUND
    assert math.isnan(model.gap_)
    assert model.rates_ is None
    again = load(model.save(tmp_path / "m.fairmix"))
    assert again.verdict_ == NO_BOUND
    np.testing.assert_array_equal(again.predict(X), model.labels_)
    assert again.score(X) == model.score(X)


@pytest.mark.parametrize("assignment", ["blind", "aware"])
def test_model_files_keep_what_is_not_judged(assignment, tmp_path):
    X, names = people(strangers=12)
    model = fit(X, names, assignment=assignment)
    again = load(model.save(tmp_path / "m.fairmix"))
    assert again.unjudged_groups_ == {"x": 12}
    assert (again.verdict_, again.resolution_) == (model.verdict_, model.resolution_)
    given = {"sensitive_features": names} if assignment == "aware" else {}
    np.testing.assert_array_equal(again.predict(X, **given), model.labels_)


def test_a_missed_bound_is_told_with_its_distance():
    # A few dozen different rows, of which all that are equal go together.
    X, names = people(strangers=0)
    with pytest.warns(ConvergenceWarning, match=r"above max_gap=0, by about \d+ rows"):
        model = FairMixture(4, max_gap=0, random_state=0).fit(X.round(), sensitive_features=names)
    assert model.verdict_ == MISSED
    assert model.gap_ > model.resolution_
    assert len(np.unique(model.labels_)) == 4


def test_weighted_rows_are_resolved_by_the_heaviest():
    X, names = people(strangers=0)
    weight = np.random.default_rng(0).uniform(0.5, 2.0, len(X))
    model = FairMixture(4, max_gap=0, assignment="aware", random_state=0)
    model.fit(X, sensitive_features=names, sample_weight=weight)
    steps = [weight[names == g].max() / weight[names == g].sum() for g in "fm"]
    sizes = [weight[names == g].sum() for g in "fm"]
    assert model.resolution_ == pytest.approx(steps[int(np.argmax(sizes))])
    assert model.verdict_ == MET
    rates = [np.bincount(model.labels_[names == g], weight[names == g], 4) for g in "fm"]
    gap = np.abs(rates[0] / sizes[0] - rates[1] / sizes[1]).max()
    assert gap == pytest.approx(model.gap_)
    assert gap <= model.resolution_


MISSING = [None, float("nan"), pd.NA]


@pytest.mark.parametrize("missing", MISSING, ids=str)
def test_missing_groups_are_an_error_by_default(missing):
    X, names = people(strangers=0)
    names[:7] = missing
    with pytest.raises(ValueError, match="7 missing labels in 3000 rows"):
        FairMixture(4).fit(X, sensitive_features=names)


@pytest.mark.parametrize("assignment", ["blind", "aware"])
def test_dropped_rows_count_for_nothing_and_get_a_label(assignment):
    X, names = people(strangers=0)
    gone = np.random.default_rng(1).choice(len(X), 100, replace=False)
    names[gone] = None
    model = FairMixture(4, missing_groups="drop", assignment=assignment, random_state=0)
    model.fit(X, sensitive_features=names)
    kept = np.setdiff1d(np.arange(len(X)), gone)
    assert model.group_sizes_.sum() == 2900
    assert model.labels_.shape == (3000,)
    assert model.gap_ == metrics.gap(model.labels_[kept], names[kept])
    # What the dropped rows hold does not matter.
    other = X.copy()
    other[gone] = X[gone][::-1]
    again = FairMixture(4, missing_groups="drop", assignment=assignment, random_state=0)
    again.fit(other, sensitive_features=names)
    np.testing.assert_array_equal(again.labels_[kept], model.labels_[kept])
    given = {"sensitive_features": names} if assignment == "aware" else {}
    np.testing.assert_array_equal(model.predict(X, **given), model.labels_)


def test_missing_groups_may_be_a_group():
    X, names = people(strangers=0)
    names[:100] = None
    model = FairMixture(4, missing_groups="group", assignment="aware", random_state=0)
    model.fit(X, sensitive_features=names)
    assert model.groups_.tolist() == ["f", "m", "missing"]
    assert model.group_sizes_[2] == 100
    np.testing.assert_array_equal(model.predict(X, sensitive_features=names), model.labels_)
    names[0] = "missing"
    with pytest.raises(ValueError, match="read the same: 'missing'"):
        model.fit(X, sensitive_features=names)


@pytest.mark.parametrize("assignment", ["blind", "aware"])
@pytest.mark.parametrize("missing", ["drop", "group"])
def test_files_judge_and_drop_like_tables(assignment, missing, tmp_path):
    X, names = people(strangers=5)
    names[np.arange(0, 3000, 40)] = None
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(sex=names)
    frame.to_parquet(tmp_path / "people.parquet", index=False)
    settings = {"assignment": assignment, "missing_groups": missing}
    memory, files = (FairMixture(4, random_state=0, **settings) for _ in range(2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        memory.fit(frame, sensitive_features="sex")
        files.fit(tmp_path / "people.parquet", sensitive_features="sex")
    np.testing.assert_array_equal(files.means_, memory.means_)
    assert (files.gap_, files.unjudged_groups_) == (memory.gap_, {"x": 5})
    given = {"sensitive_features": "sex"} if assignment == "aware" else {}
    path = files.predict(tmp_path / "people.parquet", output=tmp_path / "out.parquet", **given)
    np.testing.assert_array_equal(pd.read_parquet(path)["cluster"], memory.labels_)


def test_an_aware_map_of_complete_groups_cannot_place_missing_ones():
    X, names = people(strangers=0)
    model = FairMixture(4, missing_groups="drop", assignment="aware", random_state=0)
    model.fit(X, sensitive_features=names)
    with pytest.raises(ValueError, match=r"has 1 missing labels\. The fit had none"):
        model.predict(X[:2], sensitive_features=["f", None])


def test_a_stream_judges_anew_at_each_call():
    X, names = people(strangers=40, seed=3)
    x = np.flatnonzero(names == "x")
    first = np.r_[np.flatnonzero(names != "x")[:1500], x[:10]]
    rest = np.setdiff1d(np.arange(len(X)), first)
    model = FairMixture(4, assignment="aware", max_gap=0.05, random_state=0)
    with pytest.warns(UserWarning, match=r"Not judged: 'x' \(10 rows\)"):
        model.partial_fit(X[first], sensitive_features=names[first])
    assert model.groups_.tolist() == ["f", "m"]
    assert model.verdict_ == MET_FOR_JUDGED
    model.partial_fit(X[rest], sensitive_features=names[rest])
    assert model.groups_.tolist() == ["f", "m", "x"]
    assert model.group_sizes_.tolist() == [(names == g).sum() for g in "fmx"]
    assert model.verdict_ == MET
    assert model.rates_.shape == (3, 4)


def test_a_stream_may_drop_missing_groups():
    X, names = people(strangers=0)
    names[::50] = None
    kept = np.flatnonzero(names != None)  # noqa: E711
    settings = {"max_gap": 0.05, "random_state": 0}
    model = FairMixture(4, missing_groups="drop", **settings)
    clean = FairMixture(4, **settings)
    for half in np.array_split(np.arange(len(X)), 2):
        model.partial_fit(X[half], sensitive_features=names[half])
        there = np.intersect1d(half, kept)
        clean.partial_fit(X[there], sensitive_features=names[there])
    np.testing.assert_array_equal(model.means_, clean.means_)
    assert model.gap_ == clean.gap_


def test_weights_beside_groups_that_are_missing():
    X, names = people()
    groups = np.where(np.arange(len(names)) < 3, None, names.astype(object))
    known = names != "x"
    weight = np.ones(known.sum())
    settings = {"missing_groups": "drop", "max_gap": 0.05, "random_state": 0}
    plain, weighed = (
        FairMixture(3, **settings).fit(
            X[known], sensitive_features=groups[known], sample_weight=given
        )
        for given in (None, weight)
    )
    np.testing.assert_array_equal(weighed.labels_, plain.labels_)
