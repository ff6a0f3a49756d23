"""`FairAssignment` around clusterers of every kind."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClusterMixin, clone
from sklearn.cluster import HDBSCAN, BisectingKMeans, KMeans
from sklearn.decomposition import TruncatedSVD
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.mixture import GaussianMixture
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from fairmix import FairAssignment, FairMixture, fair_labels
from fairmix.datasets import make_grouped_blobs
from fairmix.kernels.totals import Rows
from fairmix.repair.clusters import Described, clusters_of

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
    with pytest.raises(ValueError, match="GaussianMixture has densities"):
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


PLACES = {
    "north": "the ship left the harbour|wind over the cold sea|boats and nets at the pier",
    "south": "wheat grew in the field|the sun dried the barn|a tractor in the warm field",
}


def test_clusters_of_a_text_embedding() -> None:
    # Sentences about two places, of people from both.
    rng = np.random.default_rng(0)
    groups = np.repeat(list(PLACES), 200)
    about = np.where(rng.random(400) < 0.75, groups, rng.permutation(groups))
    texts = [" and ".join(rng.choice(PLACES[place].split("|"), 2)) for place in about]
    embedding = make_pipeline(TfidfVectorizer(), TruncatedSVD(4, random_state=0))
    X = embedding.fit_transform(texts)
    kmeans = KMeans(2, n_init=3, random_state=0).fit(X)
    before = np.array([(kmeans.labels_[groups == one] == 0).mean() for one in PLACES])
    assert abs(before[0] - before[1]) > 0.4, "the clusters tell the places apart"
    model = FairAssignment(kmeans, prefit=True, min_ratio=0.8).fit(X, sensitive_features=groups)
    assert model.verdict_.word == "met"
    rates = model.result_.rates
    assert (rates.min(axis=0) / rates.max(axis=0)).min() >= 0.8 - 1e-12
    # Equal sentences of one group stay together.
    for group in PLACES:
        own = groups == group
        for text in set(texts):
            assert len(set(model.labels_[own & (np.array(texts) == text)].tolist())) <= 1


@pytest.mark.parametrize("covariance", ["full", "tied", "diag", "spherical"])
def test_costs_of_a_mixture_are_its_densities(covariance: Any, blobs: tuple[Any, Any]) -> None:
    X, _ = blobs
    mixture = GaussianMixture(3, covariance_type=covariance, random_state=0).fit(X)
    cost = clusters_of(mixture, X, Rows(X, None), np.ones(len(X))).cost(X, Rows(X, None))
    # Up to a constant of the row these are the logarithms of the posterior.
    seen = mixture.predict_proba(X)
    posterior = np.exp(-(cost - cost.min(axis=1, keepdims=True)))
    np.testing.assert_allclose(posterior / posterior.sum(axis=1, keepdims=True), seen, atol=1e-9)
    # Where a posterior is 0 in floats, a density still tells rows apart.
    far = np.array([[1e3, 0.0], [2e3, 0.0]])
    costs = clusters_of(mixture, X, Rows(X, None), np.ones(len(X))).cost(far, Rows(far, None))
    assert np.isfinite(costs).all()
    assert len(np.unique(costs)) == costs.size


@pytest.mark.parametrize("assignment", ["aware", "blind"])
def test_components_of_a_fair_mixture(assignment: Any, blobs: tuple[Any, Any]) -> None:
    X, groups = blobs
    mixture = FairMixture(3, max_gap=0.2, assignment=assignment, random_state=0)
    mixture.fit(X, sensitive_features=groups)
    model = FairAssignment(mixture, prefit=True, max_gap=0.02).fit(X, sensitive_features=groups)
    assert gap(model.labels_, groups) <= 0.02 + 1e-12
    # Its components, not its map, which has a rule of its own.
    posterior = mixture.responsibilities(X)
    free = FairAssignment(mixture, prefit=True, max_gap=1.0).fit(X, sensitive_features=groups)
    np.testing.assert_array_equal(free.labels_, posterior.argmax(axis=1))


@pytest.fixture(scope="module")
def people(blobs: tuple[Any, Any]) -> Any:
    pd = pytest.importorskip("pandas")
    X, groups = blobs
    rng = np.random.default_rng(1)
    labels = KMeans(3, n_init=1, random_state=0).fit_predict(X)
    job = np.where(rng.random(900) < 0.7, np.array(["a", "b", "c"])[labels], "a")
    frame = pd.DataFrame({"x": X[:, 0], "job": pd.Categorical(job), "y": X[:, 1]})
    return frame, labels, groups


class Named(ClusterMixin, BaseEstimator):
    """Clusters by a column of categories and the sign of a number, known by labels alone."""

    def fit(self, X: Any, y: Any = None) -> Named:
        self.labels_ = 2 * (X["job"] == "a").to_numpy().astype(int) + (X["x"] > 0).to_numpy()
        return self


@pytest.mark.parametrize("assignment", ["aware", "blind"])
def test_mixed_columns(assignment: Any, people: Any) -> None:
    frame, _, groups = people
    model = FairAssignment(Named(), max_gap=0.05, assignment=assignment)
    model.fit(frame, sensitive_features=groups)
    assert gap(model.labels_, groups) <= 0.05 + 1e-12
    assert model.feature_names_in_.tolist() == ["x", "job", "y"]
    known = {} if assignment == "blind" else {"sensitive_features": groups}
    again = model.predict(frame, **known)
    assert np.mean(again == model.labels_) > 0.95
    # A missing category, and one that the fit has not seen, say nothing about a row.
    other = frame.assign(job=["new"] * 900).astype({"job": "category"})
    missing = frame.assign(job=[None] * 900).astype({"job": "object"})
    np.testing.assert_array_equal(model.predict(other, **known), model.predict(missing, **known))
    with pytest.raises(ValueError, match="X has no categories, and the fit had"):
        model.predict(frame.assign(job=1.0), **known)
    with pytest.raises(ValueError, match="Column 'y' of X has missing values"):
        FairAssignment(Named()).fit(frame.assign(y=np.nan), sensitive_features=groups)


def test_costs_of_mixed_columns_are_those_of_a_product(people: Any) -> None:
    frame, labels, _ = people
    codes = np.asarray(frame["job"].cat.codes, dtype=np.intp)
    rows = Rows(frame[["x", "y"]].to_numpy(), codes[:, None])
    weight = np.random.default_rng(0).random(900) + 0.5
    cost = Described.of(rows, labels, weight, 3).cost(None, rows)
    overall = np.bincount(codes, weight) / weight.sum()
    for k in range(3):
        own = labels == k
        expected = np.zeros(900)
        for column in rows.numeric.T:
            mean = np.average(column[own], weights=weight[own])
            variance = np.average((column[own] - mean) ** 2, weights=weight[own])
            expected += 0.5 * ((column - mean) ** 2 / variance + np.log(variance))
        shares = (np.bincount(codes[own], weight[own], 3) + overall) / (weight[own].sum() + 1)
        np.testing.assert_allclose(cost[:, k], expected - np.log(shares)[codes], rtol=1e-9)


def test_labels_stand_for_a_clusterer(people: Any) -> None:
    frame, labels, groups = people
    # No row has the number 1, and some are noise.
    given = np.where(labels == 1, 3, labels)
    given[:20] = -1
    model = FairAssignment(given, max_gap=0.05).fit(frame, sensitive_features=groups)
    np.testing.assert_array_equal(model.labels_[:20], -1)
    assert set(model.labels_[20:].tolist()) == {0, 2, 3}
    assert gap(model.labels_[20:], groups[20:]) <= 0.05 + 1e-12
    assert model.result_.rates.shape == (2, 4)
    np.testing.assert_array_equal(model.result_.rates[:, 1], 0)
    assert 1 not in model.predict(frame, sensitive_features=groups)
    with pytest.raises(ValueError, match=r"labels of shape \(100,\), X has 900 rows"):
        FairAssignment(given[:100]).fit(frame, sensitive_features=groups)
    with pytest.raises(ValueError, match=r"have type <U1\. Number the clusters from 0"):
        FairAssignment(given.astype(str).astype("<U1")).fit(frame, sensitive_features=groups)
    with pytest.raises(ValueError, match="all rows noise"):
        FairAssignment(np.full(900, -1)).fit(frame, sensitive_features=groups)
    with pytest.raises(ValueError, match="one column"):
        FairAssignment(np.zeros(900, dtype=int)).fit(frame, sensitive_features=groups)


def test_rounds_of_mixed_columns_and_weights(people: Any) -> None:
    frame, labels, groups = people
    weight = np.where(np.arange(900) < 300, 0.0, 1.0)
    rounds = [
        FairAssignment(labels, max_gap=0.05, refine=n).fit(
            frame, sensitive_features=groups, sample_weight=weight
        )
        for n in (0, 2)
    ]
    for model in rounds:
        # Rows without weight count for nothing.
        assert gap(model.labels_[300:], groups[300:]) <= 0.05 + 1e-12
    assert rounds[1].result_.cost < rounds[0].result_.cost
    few = FairAssignment(labels[300:], max_gap=0.05)
    few.fit(frame[300:], sensitive_features=groups[300:])
    np.testing.assert_allclose(rounds[0].result_.lower_bound, few.result_.lower_bound, rtol=1e-6)
    np.testing.assert_allclose(rounds[0].result_.cost, few.result_.cost, rtol=1e-3)


def test_an_emptied_cluster_is_reported() -> None:
    # One row of group a is far away. To keep its cluster, one and a half rows of b would follow it.
    X = np.r_[9.0, np.zeros(99), np.zeros(150)][:, None] + np.arange(250)[:, None] / 1e3
    groups = np.repeat(["a", "b"], [100, 150])
    centres = KMeans(3, init=np.array([[0.05], [0.15], [9.0]]), n_init=1).fit(X)
    model = FairAssignment(centres, min_ratio=0.99, prefit=True)
    with pytest.warns(ConvergenceWarning, match=r"Clusters without rows.*\[2\]"):
        model.fit(X, sensitive_features=groups)
    assert set(model.labels_.tolist()) == {0, 1}
    assert model.result_.rates[:, 2].tolist() == [0, 0]


def test_groups_that_are_missing(blobs: tuple[Any, Any]) -> None:
    X, groups = blobs
    holes = groups.astype(object)
    holes[:50] = None
    with pytest.raises(ValueError, match="missing"):
        FairAssignment(KMEANS).fit(X, sensitive_features=holes)
    for missing, names in (("drop", 2), ("group", 3)):
        model = FairAssignment(KMEANS, max_gap=0.05, missing_groups=missing)
        model.fit(X, sensitive_features=holes)
        assert len(model.result_.groups) == names
        assert model.verdict_.word == "met"
        labels = model.predict(X[:60], sensitive_features=holes[:60])[:50]
        if missing == "drop":
            # Without a group, a row has the cluster of the clusterer.
            np.testing.assert_array_equal(labels, model.clusterer_.predict(X[:50]))
            np.testing.assert_array_equal(model.labels_[:50], labels)


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
