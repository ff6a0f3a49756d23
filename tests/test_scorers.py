"""Scorers of fairness, in cross-validation and searches, with metadata routing and without."""

import pickle
import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.cluster import KMeans
from sklearn.model_selection import GridSearchCV, KFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fairmix import FairAssignment, FairMixture, IgnoredTargetWarning, metrics
from fairmix.baselines import FairletKMeans, VariationalFairKMeans
from fairmix.datasets import make_grouped_blobs
from fairmix.metrics import gap_scorer, ratio_scorer

FOLDS = KFold(2, shuffle=True, random_state=0)


@pytest.fixture(scope="module")
def people():
    X, groups, _ = make_grouped_blobs(160, 2, 2, imbalance=0.3, separation=2, random_state=0)
    frame = pd.DataFrame(X, columns=["a", "b"])
    return frame.assign(sex=np.where(groups == groups[0], "f", "m"))


def mixture(**settings):
    given = {"max_gap": 0.1, "min_group_size": 10, "random_state": 0} | settings
    return FairMixture(2, **given)


def by_hand(model, people, figure):
    """The figure of the held-out labels of each fold."""
    X, sex = people[["a", "b"]], people["sex"]
    values = []
    for train, test in FOLDS.split(X):
        model.fit(X.iloc[train], sensitive_features=sex.iloc[train])
        labels = model.predict(X.iloc[test], sensitive_features=sex.iloc[test])
        values.append(figure(labels, sex.iloc[test]))
    return values


@pytest.mark.parametrize("assignment", ["blind", "aware"])
def test_the_scores_are_those_of_held_out_labels(people, assignment):
    X, sex = people[["a", "b"]], people["sex"]
    # A plain mixture is fitted faster, and its labels have a gap, too.
    plain = {"fairness_strength": 0} if assignment == "blind" else {}
    model = mixture(assignment=assignment, **plain)
    gaps = by_hand(model, people, metrics.gap)
    ratios = by_hand(model, people, metrics.rate_ratio)
    scoring = {"gap": gap_scorer, "ratio": ratio_scorer}
    found = {}
    # As y, where nothing else reaches a scorer.
    found["y"] = cross_validate(
        model, X, sex, params={"sensitive_features": sex}, scoring=scoring, cv=FOLDS
    )
    by_name = {"sensitive_features": "sex"}
    named = {name: partial(scorer, **by_name) for name, scorer in scoring.items()}
    found["name"] = cross_validate(model, people, params=by_name, scoring=named, cv=FOLDS)
    with sklearn.config_context(enable_metadata_routing=True):
        found["routing"] = cross_validate(
            model, X, params={"sensitive_features": sex}, scoring=scoring, cv=FOLDS
        )
        found["pipeline"] = cross_validate(
            make_pipeline(StandardScaler(with_mean=False, with_std=False), model),
            X,
            params={"sensitive_features": sex},
            scoring=scoring,
            cv=FOLDS,
        )
    for scores in found.values():
        assert scores["test_gap"].tolist() == [-value for value in gaps]
        assert scores["test_ratio"].tolist() == ratios


@pytest.mark.parametrize("routing", [False, True])
@pytest.mark.parametrize("assignment", ["blind", "aware"])
def test_a_search_finds_the_bound_that_holds_out(routing, assignment):
    # Groups whose clusters differ by far more than chance does in 150 held-out rows.
    X, sex, _ = make_grouped_blobs(300, 2, 2, imbalance=0.5, separation=2, random_state=0)
    steps = make_pipeline(StandardScaler(), mixture(assignment=assignment))
    grid = {"fairmixture__fairness_strength": [0, "auto"]}
    search = GridSearchCV(steps, grid, scoring=gap_scorer, cv=FOLDS)
    with sklearn.config_context(enable_metadata_routing=routing):
        if routing:
            search.fit(X, sensitive_features=sex)
            scored = search.score(X, sensitive_features=sex)
        else:
            search.fit(X, sex, fairmixture__sensitive_features=sex)
            scored = search.score(X, sex)
    assert search.best_params_ == {"fairmixture__fairness_strength": "auto"}
    assert scored == -search.best_estimator_[-1].gap_ == gap_scorer(search, X, sex)


def test_weights_are_asked_for(people):
    X, sex = people[["a", "b"]], people["sex"].to_numpy()
    weight = np.where(np.arange(160) % 3, 1.0, 0.0)
    model = mixture(fairness_strength=0).fit(X, sensitive_features=sex)
    weighed = ratio_scorer(model, X, sensitive_features=sex, sample_weight=weight)
    kept = weight > 0
    assert weighed == ratio_scorer(model, X[kept], sensitive_features=sex[kept])
    assert weighed == metrics.rate_ratio(model.labels_, sex, sample_weight=weight)
    named = X.assign(w=weight)
    model = mixture(fairness_strength=0)
    model.fit(named, sensitive_features=sex, sample_weight="w")
    by_name = ratio_scorer(model, named, sensitive_features=sex, sample_weight="w")
    assert by_name == metrics.rate_ratio(model.labels_, sex, sample_weight=weight)
    asking = gap_scorer.set_score_request(sample_weight=True)
    with sklearn.config_context(enable_metadata_routing=True):
        params = {"sensitive_features": sex, "sample_weight": weight}
        weighing = (
            mixture(fairness_strength=0).set_fit_request(sample_weight=True).set_score_request()
        )
        scores = cross_validate(weighing, X, params=params, scoring=asking, cv=FOLDS)
    assert np.isfinite(scores["test_score"]).all()
    assert gap_scorer.requests["sample_weight"] is None
    with pytest.raises(TypeError, match="'weights' is no metadata of a scorer"):
        gap_scorer.set_score_request(weights=True)


def test_only_groups_that_the_fit_has_judged_count(people):
    X, sex = people[["a", "b"]], people["sex"].to_numpy().astype(object)
    sex[:5] = "x"
    with pytest.warns(UserWarning, match="Not judged: 'x'"):
        model = mixture(fairness_strength=0).fit(X, sensitive_features=sex)
    judged = metrics.gap(model.labels_[5:], sex[5:])
    assert gap_scorer(model, X, sensitive_features=sex) == -judged == -model.gap_
    # One group alone has nothing to be compared with: no gap of zero.
    assert np.isnan(gap_scorer(model, X[sex == "f"], sensitive_features=sex[sex == "f"]))


def test_the_worst_attribute_counts(people):
    X = people[["a", "b"]]
    both = people[["sex"]].assign(half=np.where(np.arange(160) % 2, "odd", "even"))
    model = mixture(attributes="each", assignment="aware").fit(X, sensitive_features=both)
    assert gap_scorer(model, X, sensitive_features=both) == -model.gap_
    assert ratio_scorer(model, X, sensitive_features=both) == model.ratio_
    repaired = FairAssignment(KMeans(2, n_init=1, random_state=0), attributes="each")
    repaired.fit(X, sensitive_features=both)
    labels = repaired.predict(X, sensitive_features=both)
    worst = max(metrics.gap(labels, both[name]) for name in both)
    assert gap_scorer(repaired, X, sensitive_features=both) == -worst


def test_other_clusterers(people):
    X, sex = people[["a", "b"]], people["sex"]
    plain = KMeans(2, n_init=1, random_state=0).fit(X)
    assert gap_scorer(plain, X, sex) == -metrics.gap(plain.labels_, sex)
    variational = VariationalFairKMeans(2, random_state=0)
    scores = cross_validate(
        variational, X, sex, params={"sensitive_features": sex}, scoring=ratio_scorer, cv=FOLDS
    )
    assert scores["test_score"].tolist() == by_hand(variational, people, metrics.rate_ratio)
    matched = FairletKMeans(2, random_state=0).fit(X, sensitive_features=sex)
    with pytest.raises(NotImplementedError, match="no labels for new rows"):
        gap_scorer(matched, X, sex)


def test_without_groups_the_message_says_three_ways(people):
    model = KMeans(2, n_init=1).fit(people[["a", "b"]])
    with pytest.raises(ValueError, match=r"enable_metadata_routing.*give them as y.*name a column"):
        gap_scorer(model, people[["a", "b"]])


def test_scorers_travel(people):
    again = pickle.loads(pickle.dumps(gap_scorer))
    X, sex = people[["a", "b"]], people["sex"]
    model = KMeans(2, n_init=1).fit(X)
    assert again(model, X, sex) == gap_scorer(model, X, sex)
    assert repr(again) == "fairmix.metrics.gap_scorer"
    assert repr(ratio_scorer) == "fairmix.metrics.ratio_scorer"


@pytest.mark.parametrize("objective", ["kmeans", "kmedian"])
def test_the_score_of_baselines_is_minus_the_cost(people, objective):
    X, sex = people[["a", "b"]], people["sex"]
    plain = VariationalFairKMeans(2, objective=objective, random_state=0).fit(X)
    power = 2 if objective == "kmeans" else 1
    apart = X.to_numpy()[:, None] - plain.cluster_centers_
    nearest = np.sqrt((apart**2).sum(axis=2)).min(axis=1) ** power
    assert plain.score(X) == pytest.approx(-nearest.sum())
    weight = np.arange(160.0)
    assert plain.score(X, sample_weight=weight) == pytest.approx(-weight @ nearest)
    if objective == "kmeans":
        same = KMeans(2, n_init=10, random_state=0).fit(X)
        assert plain.score(X) == pytest.approx(same.score(X))
    search = partial(GridSearchCV, param_grid={"n_clusters": [1, 2]}, cv=FOLDS)
    with warnings.catch_warnings():
        warnings.simplefilter("error", IgnoredTargetWarning)
        found = search(FairletKMeans(random_state=0)).fit(X, sensitive_features=sex)
    assert found.best_params_ == {"n_clusters": 2}
