"""FairMixture: what users see."""

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from fairmix import FairMixture, metrics
from fairmix.datasets import make_grouped_blobs


@pytest.fixture(scope="module")
def blobs():
    X, groups, components = make_grouped_blobs(
        900, 3, 2, imbalance=0.3, separation=1.5, random_state=0
    )
    return X, groups, components


@pytest.fixture(scope="module")
def mixed_frame():
    X, groups, components = make_grouped_blobs(
        600, 3, 2, imbalance=0.3, separation=1.5, random_state=1
    )
    rng = np.random.default_rng(0)
    colour = np.array(["red", "green", "blue"])[
        np.where(rng.random(600) < 0.8, components, rng.integers(3, size=600))
    ]
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "colour": pd.Categorical(colour)})
    return frame, np.asarray(groups)


@pytest.mark.filterwarnings("ignore::fairmix.IgnoredTargetWarning")  # the checks pass y
@parametrize_with_checks(
    [FairMixture(n_components=2, random_state=0)],
    expected_failed_checks=lambda _: {
        "check_sample_weight_equivalence_on_dense_data": (
            "k-means draws its starts by row, so repeated rows get other starts than weights"
        ),
    },
)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


@pytest.mark.long
def test_adult_with_the_papers_settings(adult):
    sex = adult.sensitive["sex"]
    plain = FairMixture(10, fairness_strength=0, random_state=0).fit(
        adult.X, sensitive_features=sex
    )
    assert -plain.score(adult.X) <= 2.19
    fair = FairMixture(
        10, solver="em", gap_of="probabilities", fairness_strength=10, random_state=0
    )
    fair.fit(adult.X, sensitive_features=sex)
    assert fair.gap_ <= 0.01
    assert -fair.score(adult.X) <= 2.66
    assert len(np.unique(fair.labels_)) == 10
    assert np.diff(fair.history_["objective"]).min() >= 0
    assert fair.gap_ == pytest.approx(metrics.gap(fair.predict_proba(adult.X), sex), abs=1e-12)
    assert fair.label_gap_ == metrics.gap(fair.labels_, sex)


@pytest.mark.long
def test_adult_by_gradient_descent(adult):
    sex = adult.sensitive["sex"]
    fair = FairMixture(
        10, solver="gd", fairness_strength=10, gap_of="probabilities", random_state=0
    )
    fair.fit(adult.X, sensitive_features=sex)
    assert fair.gap_ <= 0.012
    assert -fair.score(adult.X) <= 2.75
    assert len(np.unique(fair.labels_)) == 10


@pytest.mark.long
def test_adult_categorical_columns(adult):
    model = FairMixture(
        10, fairness_strength=0, categorical_features=[True] * 7, random_state=0
    ).fit(adult.categories)
    assert -model.score(adult.categories) <= 8.30
    assert [p.shape[1] for p in model.probabilities_] == [9, 16, 7, 15, 6, 5, 42]


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::fairmix.ColumnWarning")  # of "?", which the paper counts
def test_adult_mixed_columns(adult):
    table = adult.raw.mixed()
    for j, name in enumerate(adult.raw.feature_names):
        table = table.set_column(j, name, pa.array(adult.X[:, j]))
    best = 0.0
    for seed in range(3):
        model = FairMixture(
            2, solver="em", fairness_strength=10, gap_of="probabilities", random_state=seed
        )
        with warnings.catch_warnings():
            # The paper's 200 iterations do not settle here.
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(table, sensitive_features=adult.sensitive["sex"])
        assert model.gap_ <= 0.002
        assert np.bincount(model.labels_).min() >= 0.1 * len(adult.X)
        accuracy = np.mean((model.labels_ == 1) == (adult.raw.income == ">50K"))
        if max(accuracy, 1 - accuracy) > best:
            best = max(accuracy, 1 - accuracy)
            rand = adjusted_rand_score(adult.raw.income, model.labels_)
    assert best >= 0.70
    # Accuracy says little (the majority class alone is 0.759); agreement beyond chance is modest.
    assert 0.1 < rand < 0.2


def test_plain_fit_recovers_blobs_like_scikit_learn():
    X, _, components = make_grouped_blobs(900, 3, 2, random_state=0)
    ours = FairMixture(3, covariance_type="full", fairness_strength=0, tol=1e-9, random_state=0)
    ours.fit(X)
    theirs = GaussianMixture(3, tol=1e-9, max_iter=1000, random_state=0).fit(X)
    assert ours.score(X) == pytest.approx(theirs.score(X), abs=1e-6)
    assert ours.bic(X) == pytest.approx(theirs.bic(X), abs=1e-2)
    assert ours.aic(X) == pytest.approx(theirs.aic(X), abs=1e-2)
    assert adjusted_rand_score(components, ours.labels_) > 0.8
    assert np.isnan(ours.gap_)


def test_attributes_agree_with_metrics(blobs):
    X, groups, _ = blobs
    for gap_of in ("labels", "probabilities"):
        model = FairMixture(3, gap_of=gap_of, max_gap=0.05, random_state=0)
        model.fit(X, sensitive_features=groups)
        assignment = model.labels_ if gap_of == "labels" else model.predict_proba(X)
        assert model.gap_ == pytest.approx(metrics.gap(assignment, groups), abs=1e-12)
        assert model.balance_ == pytest.approx(metrics.balance(assignment, groups), abs=1e-12)
        np.testing.assert_allclose(model.rates_, metrics.group_rates(assignment, groups))
    assert model.groups_.tolist() == sorted(set(map(str, groups)))
    assert model.group_sizes_.tolist() == np.unique(groups, return_counts=True)[1].tolist()
    assert (np.diff(model.weights_) <= 0).all()


def test_strength_trades_likelihood_for_fairness(blobs):
    X, groups, _ = blobs
    fits = [
        FairMixture(
            3, solver="em", fairness_strength=s, gap_of="probabilities", random_state=0
        ).fit(X, sensitive_features=groups)
        for s in (0, 0.3, 0.5)
    ]
    gaps, scores = [m.gap_ for m in fits], [m.score(X) for m in fits]
    assert gaps[0] > gaps[1] > gaps[2]
    assert scores[0] > scores[1] > scores[2]


@pytest.mark.parametrize("criterion", ["gap", "additive_gap", "worst_pair_gap"])
def test_criterion_is_the_metric_of_its_name(blobs, criterion):
    X, _, components = blobs
    groups = (components + np.arange(len(X)) % 2) % 3
    model = FairMixture(3, criterion=criterion, fairness_strength=0, random_state=0)
    model.fit(X, sensitive_features=groups)
    assert model.gap_ == pytest.approx(getattr(metrics, criterion)(model.labels_, groups))


def test_relabelling_groups_changes_nothing(blobs):
    X, groups, _ = blobs
    names = np.where(np.asarray(groups) == np.unique(groups)[0], "z", "a")
    first = FairMixture(3, max_gap=0.05, random_state=0).fit(X, sensitive_features=groups)
    second = FairMixture(3, max_gap=0.05, random_state=0).fit(X, sensitive_features=names)
    np.testing.assert_allclose(first.means_, second.means_, atol=1e-8)
    assert first.gap_ == pytest.approx(second.gap_, abs=1e-9)


def test_weights_of_zero_drop_rows(blobs):
    X, groups, _ = blobs
    keep = np.arange(len(X)) % 3 > 0
    model = FairMixture(3, max_gap=0.05, random_state=0)
    weighted = clone(model).fit(X, sensitive_features=groups, sample_weight=keep.astype(float))
    dropped = clone(model).fit(X[keep], sensitive_features=np.asarray(groups)[keep])
    np.testing.assert_allclose(weighted.means_, dropped.means_, atol=1e-6)
    assert weighted.gap_ == pytest.approx(dropped.gap_, abs=1e-6)


@pytest.mark.parametrize("n_jobs", [2, -1])
def test_same_bits_for_any_number_of_threads(n_jobs):
    X, groups, _ = make_grouped_blobs(20_000, 4, 3, random_state=0)
    one = FairMixture(4, max_gap=0.05, random_state=0).fit(X, sensitive_features=groups)
    many = clone(one).set_params(n_jobs=n_jobs).fit(X, sensitive_features=groups)
    assert np.array_equal(one.means_, many.means_)
    assert np.array_equal(one.predict_proba(X), many.predict_proba(X))


@pytest.mark.parametrize(("assignment", "max_gap"), [("blind", 0.1), ("aware", 0.05)])
def test_large_offset_does_not_change_labels(assignment, max_gap):
    # Apart, so that one optimum is the best by far: rounding may choose between two that are not.
    X, groups, _ = make_grouped_blobs(900, 3, 2, imbalance=0.1, separation=5.0, random_state=0)
    model = FairMixture(3, max_gap=max_gap, assignment=assignment, random_state=0)
    fits = [clone(model).fit(X + offset, sensitive_features=groups) for offset in (0, 1e8)]
    # Paths that rounding parts end at the same optimum, but not at the same last rows.
    assert adjusted_rand_score(*(model.labels_ for model in fits)) > 0.99
    np.testing.assert_allclose(fits[1].means_ - 1e8, fits[0].means_, atol=1e-3)


def test_standardize_equals_a_scaler_before_it(blobs):
    X, groups, _ = blobs
    scaled = X * [1000, 0.001] + [5, -7]
    inside = FairMixture(3, max_gap=0.05, standardize=True, random_state=0)
    inside.fit(scaled, sensitive_features=groups)
    pipe = make_pipeline(StandardScaler(), FairMixture(3, max_gap=0.05, random_state=0))
    pipe.fit(scaled, fairmixture__sensitive_features=groups)
    np.testing.assert_allclose(inside.means_, pipe[-1].means_, atol=1e-7)
    assert np.array_equal(inside.predict(scaled), pipe.predict(scaled))
    drawn, _ = inside.sample(5000)
    shift = (drawn.mean(axis=0) - scaled.mean(axis=0)) / scaled.std(axis=0)
    # Under a bound, the mean of a mixture is near that of the rows, not equal to it.
    np.testing.assert_allclose(shift, 0, atol=0.3)


def test_frames_of_all_kinds_give_the_same_fit(mixed_frame):
    frame, groups = mixed_frame
    kinds = {
        "pandas": (frame, pd.Series(groups)),
        "polars": (pl.from_pandas(frame), pl.Series(groups)),
        "arrow": (pa.Table.from_pandas(frame), pa.array(groups)),
    }
    fits = [
        FairMixture(3, max_gap=0.05, random_state=0).fit(X, sensitive_features=s)
        for X, s in kinds.values()
    ]
    for model, (X, _) in zip(fits, kinds.values(), strict=True):
        assert np.array_equal(model.labels_, fits[0].labels_)
        assert np.array_equal(model.predict(X), model.labels_)
    assert fits[0].feature_names_in_.tolist() == ["a", "b", "colour"]
    assert fits[0].categories_[0].tolist() == ["blue", "green", "red"]


def test_several_named_columns_form_intersections_and_are_not_features(mixed_frame):
    frame, groups = mixed_frame
    part = np.where(np.arange(len(frame)) % 2 == 0, "even", "odd")
    named = frame.assign(sex=groups, part=part)
    settings = {"assignment": "aware", "max_gap": 0.05, "random_state": 0}
    model = FairMixture(2, **settings).fit(named, sensitive_features=["sex", "part"])
    beside = FairMixture(2, **settings).fit(frame, sensitive_features=named[["sex", "part"]])
    assert model.groups_.tolist() == beside.groups_.tolist()
    assert model.feature_names_in_.tolist() == ["a", "b", "colour"]
    assert model.fitted_.set_aside == ("sex", "part")
    np.testing.assert_array_equal(model.labels_, beside.labels_)
    found = model.predict(named, sensitive_features=["sex", "part"])
    np.testing.assert_array_equal(found, model.labels_)


def test_as_many_labels_as_rows_are_labels_even_if_columns_have_their_names():
    frame = pd.DataFrame({"a": [0.0, 1.0, 2.0, 3.0], "b": [0.0, 1.0, 0.0, 1.0]})
    model = FairMixture(1, min_group_size=1).fit(frame, sensitive_features=["a", "b", "a", "b"])
    assert model.groups_.tolist() == ["a", "b"]
    assert model.fitted_.set_aside == ()


def test_a_named_sensitive_column_is_no_feature(mixed_frame):
    frame, groups = mixed_frame
    with_groups = frame.assign(group=groups)
    named = FairMixture(3, max_gap=0.05, random_state=0).fit(
        with_groups, sensitive_features="group"
    )
    apart = FairMixture(3, max_gap=0.05, random_state=0).fit(frame, sensitive_features=groups)
    assert named.feature_names_in_.tolist() == ["a", "b", "colour"]
    assert np.array_equal(named.labels_, apart.labels_)
    # New rows may come with the column or without it.
    assert np.array_equal(named.predict(with_groups), named.predict(frame))
    with pytest.warns(UserWarning, match=r"'group'.* also features"):
        FairMixture(3, max_gap=0.05, random_state=0).fit(
            with_groups, sensitive_features=with_groups["group"]
        )


def test_sample_has_categories_and_frequencies(mixed_frame):
    frame, _ = mixed_frame
    model = FairMixture(3, fairness_strength=0, random_state=0).fit(frame)
    drawn, labels = model.sample(4000)
    np.testing.assert_allclose(np.bincount(labels) / 4000, model.weights_, atol=0.03)
    red = np.mean(drawn[:, 2] == "red")
    assert red == pytest.approx(np.mean(frame["colour"] == "red"), abs=0.04)


def test_n_init_keeps_the_best(blobs):
    X, _, _ = blobs
    single = [FairMixture(5, init_params="random", random_state=seed).fit(X) for seed in range(3)]
    best = FairMixture(5, init_params="random", n_init=6, random_state=0)
    assert best.fit(X).lower_bound_ >= single[0].lower_bound_


def test_warm_start_goes_on(blobs):
    X, groups, _ = blobs
    model = FairMixture(
        3, solver="em", fairness_strength=0.5, random_state=0, warm_start=True, max_iter=3
    )
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        model.fit(X, sensitive_features=groups)
    first = model.lower_bound_
    assert not model.converged_
    model.set_params(max_iter=500).fit(X, sensitive_features=groups)
    assert model.lower_bound_ > first
    assert model.converged_
    with pytest.raises(ValueError, match="warm_start=True"):
        model.set_params(n_components=4).fit(X, sensitive_features=groups)


def test_pickle_round_trip(mixed_frame):
    frame, groups = mixed_frame
    model = FairMixture(3, max_gap=0.05, random_state=0).fit(frame, sensitive_features=groups)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict_proba(frame), model.predict_proba(frame))


def test_predict_needs_no_groups_and_no_other_rows(blobs):
    X, groups, _ = blobs
    model = FairMixture(3, max_gap=0.05, random_state=0).fit(X, sensitive_features=groups)
    one_by_one = [model.predict(row[None])[0] for row in X[:20]]
    assert one_by_one == model.predict(X)[:20].tolist()
    assert np.array_equal(model.labels_, model.predict(X))
    assert np.array_equal(model.predict_proba(X).argmax(axis=1), model.labels_)


def test_float32_stays_float32(blobs):
    X, groups, _ = blobs
    model = FairMixture(3, max_gap=0.05, random_state=0).fit(
        X.astype(np.float32), sensitive_features=groups
    )
    assert model.predict_proba(X.astype(np.float32)).dtype == np.float32
    assert model.means_.dtype == np.float64
    single, double = (
        FairMixture(3, fairness_strength=0, random_state=0).fit(X.astype(dtype))
        for dtype in (np.float32, np.float64)
    )
    assert adjusted_rand_score(single.labels_, double.labels_) > 0.99


def test_collapse_is_reported():
    X = np.repeat([[0.0, 0.0], [1.0, 1.0]], 50, axis=0)
    with pytest.warns(ConvergenceWarning, match="of n_components=4 clusters have members"):
        FairMixture(4, random_state=0, init_params="random").fit(X)


GOOD = np.random.default_rng(0).normal(size=(20, 2))


@pytest.mark.parametrize(
    ("parameters", "X", "groups", "message"),
    [
        ({}, GOOD, [0, 1], r"sensitive_features has 2 rows, the data has 20"),
        ({}, np.where(GOOD > 1, np.inf, GOOD), None, "infinity"),
        ({}, np.full((20, 2), np.nan), None, "NaN"),
        ({"n_components": 21}, GOOD, None, r"n_components=21 clusters .* n_samples=20"),
        ({}, GOOD, ["a"] * 20, r"one group only, 'a'"),
        ({"solver": "newton"}, GOOD, None, r"'solver' parameter .* Got 'newton'"),
        ({"criterion": "gini"}, GOOD, None, r"'criterion' parameter .* Got 'gini'"),
        ({"n_components": 0}, GOOD, None, r"'n_components' parameter .* Got 0"),
        ({"max_gap": -0.1}, GOOD, None, r"'max_gap' parameter .* Got -0.1"),
        (
            {"assignment": "aware", "solver": "em"},
            GOOD,
            ["a", "b"] * 10,
            r"assignment='aware' needs solver='dual', got solver='em'",
        ),
        ({"fairness_strength": -1}, GOOD, None, r"'fairness_strength' parameter .* Got -1"),
        ({}, GOOD, [None] + ["a", "b"] * 9 + ["a"], r"1 missing labels in 20 rows"),
        ({}, GOOD, "sex", r"'sex' names a column of X, but X is not a data frame"),
        ({"categorical_features": [5]}, GOOD, None, r"names 5, which is not a column of X"),
        ({"categorical_features": [True]}, GOOD, None, r"mask of 1 entries, X has 2 columns"),
    ],
)
def test_wrong_input_names_the_argument_and_the_remedy(parameters, X, groups, message):
    with pytest.raises(ValueError, match=message):
        FairMixture(**parameters).fit(X, sensitive_features=groups)


def test_wrong_sample_weight():
    with pytest.raises(ValueError, match=r"[Nn]egative"):
        FairMixture().fit(GOOD, sample_weight=-np.ones(20))
    with pytest.raises(ValueError, match=r"at least one non-zero|adds up to 0"):
        FairMixture().fit(GOOD, sample_weight=np.zeros(20))
    with pytest.raises(ValueError, match="sample_weight"):
        FairMixture().fit(GOOD, sample_weight=np.ones(3))


def test_wrong_input_to_predict(mixed_frame):
    frame, groups = mixed_frame
    model = FairMixture(3, max_gap=0.05, random_state=0)
    with pytest.raises(NotFittedError, match="not fitted"):
        model.predict(frame)
    model.fit(frame, sensitive_features=groups)
    with pytest.raises(ValueError, match=r"'colour' of X holds categories .* 'pink'"):
        model.predict(frame.assign(colour="pink"))
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame.rename(columns={"a": "c"}))
    with pytest.raises(ValueError, match=r"'a' of X has 1 values that are infinity"):
        model.predict(frame.assign(a=[np.inf] + [0.0] * 599))
    with pytest.raises(ValueError, match=r"'a' of X has type"):
        model.predict(frame.assign(a=["x"] * 600))
    with pytest.raises(ValueError, match="n_samples=0"):
        model.sample(0)
