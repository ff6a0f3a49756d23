"""`FairAssignment` around clusterers of every kind."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.cluster import HDBSCAN, BisectingKMeans, KMeans
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.mixture import GaussianMixture
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from fairmix import FairAssignment, fair_labels
from fairmix.datasets import make_grouped_blobs

KMEANS = KMeans(3, n_init=1, random_state=0)


@pytest.fixture(scope="module")
def blobs() -> tuple[Any, Any]:
    X, groups, _ = make_grouped_blobs(900, 3, 2, imbalance=0.3, separation=3, random_state=0)
    return np.asarray(X), np.asarray(groups)


def gap(labels: Any, groups: Any) -> float:
    """Largest difference between the shares of two groups in a cluster, counted one by one."""
    first, second = np.unique(groups)
    clusters = np.unique(labels)
    return max(
        abs(np.mean(labels[groups == first] == k) - np.mean(labels[groups == second] == k))
        for k in clusters
    )


@pytest.mark.filterwarnings("ignore::fairmix.IgnoredTargetWarning")  # the checks pass y
@parametrize_with_checks(
    [FairAssignment(KMeans(3, n_init=1, random_state=0))],
    expected_failed_checks=lambda _: {
        "check_sample_weight_equivalence_on_dense_data": (
            "k-means draws its starts by row, so repeated rows get other starts than weights"
        ),
    },
)
def test_checks_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


CLUSTERERS = [
    KMEANS,
    GaussianMixture(3, random_state=0),
    BisectingKMeans(3, random_state=0),
    HDBSCAN(min_cluster_size=40, copy=True),
    make_pipeline(StandardScaler(), KMEANS),
]


@pytest.mark.parametrize("clusterer", CLUSTERERS, ids=lambda one: type(one).__name__)
def test_labels_of_any_clusterer_meet_the_rule(clusterer: Any, blobs: tuple[Any, Any]) -> None:
    X, groups = blobs
    plain = clone(clusterer).fit_predict(X)
    assert gap(plain, groups) > 0.05, "there must be something to repair"
    model = FairAssignment(clusterer, max_gap=0.02).fit(X, sensitive_features=groups)
    noise = model.labels_ == -1
    np.testing.assert_array_equal(noise, plain == -1)
    assert gap(model.labels_[~noise], groups[~noise]) <= 0.02 + 1e-12
    assert model.verdict_.word == "met"
    assert model.result_.excess >= 0
    # Clusters keep their numbers: most rows stay where they were.
    assert np.mean(model.labels_ == plain) > 0.6
    # Only rows at a boundary may differ in labels that make up for whole rows.
    again = model.predict(X, sensitive_features=groups)
    assert np.mean(again[~noise] == model.labels_[~noise]) > 0.95
    assert "fitted" not in repr(clusterer)
    assert not hasattr(clusterer, "labels_")


def test_costs_are_squared_distances_to_centres(blobs: tuple[Any, Any]) -> None:
    X, groups = blobs
    model = FairAssignment(KMEANS, min_ratio=0.8).fit(X, sensitive_features=groups)
    cost = model.clusterer_.transform(X) ** 2
    by_hand = fair_labels(cost, groups, min_ratio=0.8, ties="together")
    np.testing.assert_array_equal(model.labels_, by_hand.labels)
    np.testing.assert_allclose(model.result_.lower_bound, by_hand.lower_bound, rtol=1e-9)


def test_prefit_and_frozen_clusterers_stay_as_they_are(blobs: tuple[Any, Any]) -> None:
    X, groups = blobs
    fitted = clone(KMEANS).fit(X)
    centres = fitted.cluster_centers_.copy()
    used = FairAssignment(fitted, max_gap=0.05, prefit=True).fit(X, sensitive_features=groups)
    frozen = FairAssignment(FrozenEstimator(fitted), max_gap=0.05).fit(X, sensitive_features=groups)
    assert used.clusterer_ is fitted
    np.testing.assert_array_equal(fitted.cluster_centers_, centres)
    np.testing.assert_array_equal(used.labels_, frozen.labels_)


def test_refinement_moves_centres_and_costs_less(blobs: tuple[Any, Any]) -> None:
    X, groups = blobs
    rounds = [
        FairAssignment(KMEANS, max_gap=0.02, refine=n).fit(X, sensitive_features=groups)
        for n in (0, 3)
    ]
    assert rounds[1].result_.cost < rounds[0].result_.cost
    assert rounds[1].verdict_.word == "met"
    with pytest.raises(ValueError, match="GaussianMixture gives probabilities only"):
        FairAssignment(GaussianMixture(2), refine=1).fit(X, sensitive_features=groups)


def test_blind_labels_need_no_groups(blobs: tuple[Any, Any]) -> None:
    X, groups = blobs
    model = FairAssignment(KMEANS, max_gap=0.05, assignment="blind")
    model.fit(X, sensitive_features=groups)
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    assert gap(model.labels_, groups) <= 0.05 + 1e-12
    # The price of not knowing groups: an aware assignment costs no more.
    aware = FairAssignment(KMEANS, max_gap=0.05).fit(X, sensitive_features=groups)
    assert aware.result_.cost <= model.result_.cost
    assert model.result_.lower_bound <= model.result_.cost
    assert model.result_.lower_bound >= model.clusterer_.inertia_ * 0.999
    with pytest.raises(ValueError, match="does not know groups"):
        FairAssignment(KMEANS, assignment="blind", ties="split").fit(X, sensitive_features=groups)


def test_new_rows_of_an_aware_assignment_need_their_groups(blobs: tuple[Any, Any]) -> None:
    X, groups = blobs
    model = FairAssignment(KMEANS, max_gap=0.05).fit(X[:600], sensitive_features=groups[:600])
    with pytest.raises(ValueError, match="Give sensitive_features"):
        model.predict(X[600:])
    labels = model.predict(X[600:], sensitive_features=groups[600:])
    cost = model.clusterer_.transform(X[600:]) ** 2
    codes = np.searchsorted(model.result_.groups, groups[600:].astype(str))
    expected = (cost + model.result_.multipliers[codes]).argmin(axis=1)
    np.testing.assert_array_equal(labels, expected)
    with pytest.raises(ValueError, match="has not seen: 'other'"):
        model.predict(X[600:], sensitive_features=["other"] * 300)


def test_without_groups_labels_are_those_of_the_clusterer(blobs: tuple[Any, Any]) -> None:
    X, _ = blobs
    model = FairAssignment(KMEANS).fit(X)
    np.testing.assert_array_equal(model.labels_, model.clusterer_.labels_)
    np.testing.assert_array_equal(model.predict(X), model.labels_)


def test_two_attributes_each(blobs: tuple[Any, Any]) -> None:
    X, groups = blobs
    other = (X[:, 0] + np.random.default_rng(0).normal(size=len(X)) > X[:, 0].mean()).astype(int)
    both = np.column_stack([groups, other])
    model = FairAssignment(KMEANS, max_gap=0.05, attributes="each")
    model.fit(X, sensitive_features=both)
    assert gap(model.labels_, groups) <= 0.05 + 1e-12
    assert gap(model.labels_, other) <= 0.05 + 1e-12
    again = model.predict(X, sensitive_features=both)
    assert np.mean(again == model.labels_) > 0.95


def test_clusters_of_texts() -> None:
    rng = np.random.default_rng(0)
    words = {"north": "ship harbour sea wind", "south": "field wheat sun barn"}
    groups = np.repeat(list(words), 200)
    mixed = np.where(rng.random(400) < 0.75, groups, rng.permutation(groups))
    texts = [" ".join(rng.choice(words[kind].split(), 6)) for kind in mixed]
    X = HashingVectorizer(n_features=64).transform(texts).toarray()
    model = FairAssignment(KMeans(2, n_init=3, random_state=0), min_ratio=0.8)
    model.fit(X, sensitive_features=groups)
    assert model.verdict_.word == "met"
    rates = model.result_.rates
    assert (rates.min(axis=0) / rates.max(axis=0)).min() >= 0.8 - 1e-12


def test_refusals(blobs: tuple[Any, Any]) -> None:
    X, groups = blobs
    with pytest.raises(ValueError, match=r"max_gap=0\.1 and min_ratio=0\.5"):
        FairAssignment(KMEANS, max_gap=0.1, min_ratio=0.5).fit(X, sensitive_features=groups)
    with pytest.raises(ValueError, match="all rows noise"):
        FairAssignment(HDBSCAN(min_cluster_size=800, copy=True)).fit(X, sensitive_features=groups)
    with pytest.raises(ValueError, match="one column"):
        FairAssignment(KMeans(1)).fit(X, sensitive_features=groups)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = HDBSCAN(min_cluster_size=40, copy=True).fit(X[:600])
    with pytest.raises(ValueError, match="labels of shape"):
        FairAssignment(found, prefit=True).fit(X, sensitive_features=groups)
