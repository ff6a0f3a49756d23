"""In scikit-learn's house: checks, pipelines, searches, routing, pictures."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import BaseEstimator, clone, is_clusterer
from sklearn.compose import make_column_transformer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_html_repr
from sklearn.utils.estimator_checks import parametrize_with_checks

import fairmix
from fairmix import FairAssignment, FairMixture, baselines, metrics
from fairmix.baselines import AlignedFairKMeans, FairletKMeans, VariationalFairKMeans
from fairmix.datasets import make_grouped_blobs

BASELINES = [AlignedFairKMeans, FairletKMeans, VariationalFairKMeans]
# Why a check cannot pass, by its name. An estimator that passes it all the same fails the test.
REASONS = {
    "check_sample_weight_equivalence_on_dense_data": (
        "k-means draws its starts by row, so repeated rows get other starts than weights"
    ),
}


def test_the_checks_are_of_every_estimator():
    public = {getattr(module, name) for module in (fairmix, baselines) for name in module.__all__}
    kinds = {found for found in public if isinstance(found, type)}
    kinds = {kind for kind in kinds if issubclass(kind, BaseEstimator)}
    # The last one is checked in test_repair_assignment.py.
    assert kinds == {FairMixture, *BASELINES, FairAssignment}


@pytest.mark.filterwarnings("ignore::fairmix.IgnoredTargetWarning")  # the checks pass y
@parametrize_with_checks(
    # The default settings are checked in test_estimator.py, the baselines in test_baselines.py.
    [FairMixture(2, covariance_type="full", fairness_strength=0, random_state=0)],
    expected_failed_checks=lambda _: REASONS,
)
def test_checks_of_rows_that_must_be_complete(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def blobs():
    X, groups, _ = make_grouped_blobs(400, 3, 2, imbalance=0.3, separation=2, random_state=0)
    table = pd.DataFrame(X * [100, 1] + [5, 0], columns=["a", "b"])
    return table, np.asarray(groups)


@pytest.mark.parametrize("kind", [FairMixture, *BASELINES])
def test_all_are_clusterers(kind):
    assert is_clusterer(kind())
    assert not hasattr(kind, "transform"), "nothing for set_output to act on"


def test_clone_keeps_every_parameter():
    given = FairMixture(4, max_gap=0.03, covariance_type="full", handle_unknown="ignore", tol=1e-3)
    assert clone(given).get_params() == given.get_params()
    assert list(given.get_params()) == sorted(given.get_params())
    assert given.set_params(n_components=5) is given
    assert clone(given).n_components == 5


@pytest.mark.parametrize(
    ("covariance_type", "allowed"), [("diag", True), ("tied-spherical", True), ("full", False)]
)
def test_the_tag_says_whether_nan_may_come(covariance_type, allowed):
    tags = FairMixture(covariance_type=covariance_type).__sklearn_tags__()
    assert tags.input_tags.allow_nan is allowed
    assert tags.estimator_type == "clusterer"


def test_a_pipeline_without_routing(blobs):
    X, groups = blobs
    pipe = make_pipeline(StandardScaler(), FairMixture(3, max_gap=0.05, random_state=0))
    pipe.fit(X, fairmixture__sensitive_features=groups)
    assert metrics.gap(pipe.predict(X), groups) <= 0.05
    assert pipe.score(X) == pytest.approx(pipe[-1].score(pipe[0].transform(X)))


def test_a_pipeline_of_frames_keeps_names(blobs):
    X, groups = blobs
    columns = make_column_transformer(
        (StandardScaler(), ["a", "b"]), verbose_feature_names_out=False
    )
    pipe = make_pipeline(columns, FairMixture(3, max_gap=0.05, random_state=0))
    pipe.set_output(transform="pandas").fit(X, fairmixture__sensitive_features=groups)
    assert pipe[-1].feature_names_in_.tolist() == ["a", "b"]
    with pytest.raises(ValueError, match="feature names should match"):
        pipe[-1].predict(X.rename(columns={"a": "c"}))


@pytest.mark.parametrize("assignment", ["blind", "aware"])
def test_routing_needs_no_request(blobs, assignment):
    X, groups = blobs
    model = FairMixture(3, max_gap=0.05, assignment=assignment, random_state=0)
    by_hand = clone(model).set_params(standardize=True).fit(X, sensitive_features=groups)
    with sklearn.config_context(enable_metadata_routing=True):
        pipe = make_pipeline(StandardScaler(), model).fit(X, sensitive_features=groups)
        labels = pipe.predict(X, sensitive_features=groups)
        assert np.array_equal(labels, by_hand.labels_)
        probabilities = pipe.predict_proba(X, sensitive_features=groups)
        assert np.array_equal(probabilities.argmax(axis=1), labels)
        score = pipe.score(X, sensitive_features=groups)
        # Two ways to standardise round differently, and a blind fit passes that on.
        assert score == pytest.approx(by_hand.score(X), abs=1e-4)
        weights = np.arange(len(X)) % 2
        model.set_score_request(sample_weight=True)
        half = pipe.score(X, sensitive_features=groups, sample_weight=weights)
        assert half == pytest.approx(by_hand.score(X[1::2]), abs=1e-4)


@pytest.mark.parametrize("kind", BASELINES)
def test_routing_reaches_the_baselines(blobs, kind):
    pytest.importorskip("ot", reason="the extra baselines is not installed")
    X, groups = blobs
    with sklearn.config_context(enable_metadata_routing=True):
        pipe = make_pipeline(StandardScaler(), kind(3, random_state=0))
        pipe.fit(X, sensitive_features=groups)
    assert pipe[-1].groups_.tolist() == sorted(set(map(str, groups)))


def test_a_search_over_parameters(blobs):
    X, groups = blobs
    with sklearn.config_context(enable_metadata_routing=True):
        search = GridSearchCV(
            make_pipeline(StandardScaler(), FairMixture(max_gap=0.1, random_state=0)),
            {"fairmixture__n_components": [1, 3]},
            cv=3,
        )
        search.fit(X, sensitive_features=groups)
        assert search.best_params_ == {"fairmixture__n_components": 3}
        assert np.isfinite(search.cv_results_["mean_test_score"]).all()
        # Older versions do not route it to the score, which does not need it.
        routed = search.get_metadata_routing().consumes("score", ["sensitive_features"])
        given = {"sensitive_features": groups} if routed else {}
        assert search.score(X, **given) == pytest.approx(search.best_estimator_.score(X))


def test_cross_validation_by_likelihood(blobs):
    X, groups = blobs
    model = FairMixture(3, max_gap=0.1, standardize=True, random_state=0)
    scores = cross_val_score(model, X, cv=3, params={"sensitive_features": groups})
    assert scores.shape == (3,)
    assert np.isfinite(scores).all()


def test_the_picture_shows_parameters():
    picture = estimator_html_repr(FairMixture(4, max_gap=0.02))
    assert "FairMixture" in picture
    assert "max_gap" in picture


def test_the_picture_of_a_fitted_model_tells_what_was_measured(blobs):
    X, groups = blobs
    names = np.where(groups == groups[0], "<b>a</b>", "c")
    model = FairMixture(3, max_gap=0.05, random_state=0)
    assert "On the data of the fit" not in model._repr_html_()
    model.fit(X, sensitive_features=names)
    line = (
        f"gap of the labels {model.gap_:.4f} (max_gap=0.05: met), smallest ratio of rates "
        f"{model.ratio_:.3f}, balance {model.balance_:.3f}. Groups: &lt;b&gt;a&lt;/b&gt;, c."
    )
    assert line in model._repr_html_()
    assert line in model._repr_mimebundle_()["text/html"]
    ratio = FairMixture(3, min_ratio=0.8, assignment="aware", random_state=0)
    ratio.fit(X, sensitive_features=names)
    assert f"ratio of rates {ratio.ratio_:.3f} (min_ratio=0.8: met), bal" in ratio._repr_html_()
    plain = FairMixture(3, random_state=0).fit(X)
    assert "Groups:" not in plain._repr_html_()
    many = (
        clone(model).set_params(fairness_strength=0).fit(X, sensitive_features=np.arange(400) % 7)
    )
    assert "Groups: 0, 1, 2, 3, 4 and 2 more." in many._repr_html_()
    assert "(max_gap" not in many._repr_html_()
