"""Metrics: against brute force from the definitions, and at the edges."""

import itertools

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.cluster import KMeans

from fairmix import FairMixture, metrics
from fairmix.datasets import make_grouped_blobs

FAIRNESS = [
    metrics.gap,
    metrics.additive_gap,
    metrics.worst_pair_gap,
    metrics.balance,
    metrics.rate_ratio,
]


def brute_mass(assignment, groups, weights):
    """Mass per group and cluster, row by row."""
    if np.ndim(assignment) == 1:
        columns = np.unique(assignment)
        assignment = np.asarray(assignment)[:, None] == columns
    mass = np.zeros((len(np.unique(groups)), np.shape(assignment)[1]))
    for row, group, weight in zip(assignment, groups, weights, strict=True):
        g = np.unique(groups).tolist().index(group)
        for k, p in enumerate(row):
            mass[g, k] += weight * p
    return mass


def brute_force(metric, assignment, groups, weights):
    """The definition of each metric as loops over clusters and pairs."""
    mass = brute_mass(assignment, groups, weights)
    mass = mass[mass.sum(axis=1) > 0]
    rates = mass / mass.sum(axis=1, keepdims=True)
    n_groups, n_clusters = mass.shape
    pairs = list(itertools.combinations(range(n_groups), 2))
    occupied = [k for k in range(n_clusters) if mass[:, k].sum() > 0]
    if not pairs:
        return 1.0 if metric in (metrics.balance, metrics.rate_ratio) else 0.0
    difference = [[abs(rates[a, k] - rates[b, k]) for a, b in pairs] for k in range(n_clusters)]
    if metric is metrics.gap:
        return max(sum(row) / len(row) for row in difference)
    if metric is metrics.additive_gap:
        return sum(sum(row) / len(row) for row in difference)
    if metric is metrics.worst_pair_gap:
        return max(max(row) for row in difference)
    values = mass if metric is metrics.balance else rates
    ordered = itertools.permutations(range(n_groups), 2)
    ratios = [values[a, k] / values[b, k] for a, b in ordered for k in occupied if values[b, k] > 0]
    return min(ratios)


def brute_cost(X, assignment, weights):
    """Sum over clusters and rows, with the mean of each cluster."""
    if np.ndim(assignment) == 1:
        assignment = np.asarray(assignment)[:, None] == np.unique(assignment)
    cost = 0.0
    for k in range(assignment.shape[1]):
        weight = weights * assignment[:, k]
        if weight.sum() > 0:
            mean = (weight[:, None] * X).sum(axis=0) / weight.sum()
            cost += (weight * ((X - mean) ** 2).sum(axis=1)).sum()
    return cost


def draw(seed, *, soft, n_rows=60):
    rng = np.random.default_rng(seed)
    n_groups, n_clusters = rng.integers(1, 7), rng.integers(1, 6)
    groups = rng.integers(n_groups, size=n_rows)
    weights = rng.integers(0, 4, size=n_rows) + (np.arange(n_rows) == 0)
    if soft:
        assignment = rng.dirichlet(np.full(n_clusters, 0.3), n_rows)
    else:
        assignment = rng.integers(n_clusters, size=n_rows)
    return rng, rng.normal(size=(n_rows, 3)), assignment, groups, weights


seeds = st.integers(0, 2**32 - 1)


@pytest.mark.parametrize("metric", FAIRNESS)
@given(seed=seeds, soft=st.booleans(), weighted=st.booleans())
def test_fairness_equals_the_definition(metric, seed, soft, weighted):
    _, _, assignment, groups, weights = draw(seed, soft=soft)
    weights = weights if weighted else np.ones(len(groups))
    found = metric(assignment, groups, sample_weight=weights if weighted else None)
    assert isinstance(found, float)
    assert found == pytest.approx(brute_force(metric, assignment, groups, weights), abs=1e-12)


@given(seed=seeds, soft=st.booleans(), weighted=st.booleans())
def test_cost_equals_the_definition(seed, soft, weighted):
    _, X, assignment, _, weights = draw(seed, soft=soft)
    weights = weights if weighted else np.ones(len(X))
    found = metrics.clustering_cost(X, assignment, sample_weight=weights if weighted else None)
    assert isinstance(found, float)
    assert found == pytest.approx(brute_cost(X, assignment, weights), rel=1e-10)


@given(seed=seeds, soft=st.booleans())
def test_weights_equal_repetition(seed, soft):
    _, X, assignment, groups, weights = draw(seed, soft=soft)
    rows = np.repeat(np.arange(len(groups)), weights)
    for metric in FAIRNESS:
        weighted = metric(assignment, groups, sample_weight=weights)
        assert weighted == pytest.approx(metric(assignment[rows], groups[rows]), abs=1e-12)
    weighted = metrics.clustering_cost(X, assignment, sample_weight=weights)
    assert weighted == pytest.approx(metrics.clustering_cost(X[rows], assignment[rows]), rel=1e-10)


@given(seed=seeds, soft=st.booleans())
def test_relabelling_and_reordering_change_nothing(seed, soft):
    rng, X, assignment, groups, weights = draw(seed, soft=soft)
    new_groups = np.array(["x", "b", "k", "a", "q", "c"])[groups]
    if soft:
        new_assignment = assignment[:, rng.permutation(assignment.shape[1])]
    else:
        new_assignment = np.array(["v", "e", "z", "d", "w"])[assignment]
    rows = rng.permutation(len(groups))
    for metric in FAIRNESS:
        before = metric(assignment, groups, sample_weight=weights)
        after = metric(new_assignment[rows], new_groups[rows], sample_weight=weights[rows])
        assert after == pytest.approx(before, abs=1e-12)
    before = metrics.clustering_cost(X, assignment, sample_weight=weights)
    after = metrics.clustering_cost(X[rows], new_assignment[rows], sample_weight=weights[rows])
    assert after == pytest.approx(before, rel=1e-10)


def test_one_hot_probabilities_equal_labels():
    _, X, labels, groups, _ = draw(3, soft=False)
    one_hot = labels[:, None] == np.unique(labels)
    for metric in FAIRNESS:
        assert metric(one_hot, groups) == metric(labels, groups)
    cost = metrics.clustering_cost(X, labels)
    assert metrics.clustering_cost(X, one_hot) == pytest.approx(cost, rel=1e-12)


def test_values_by_hand_for_three_groups():
    labels = [0, 0, 0, 1, 0, 0, 1, 1, 0, 1, 1, 1]
    groups = ["a"] * 4 + ["b"] * 4 + ["c"] * 4  # rates of cluster 0: 3/4, 2/4, 1/4
    assert metrics.group_counts(labels, groups).tolist() == [[3, 1], [2, 2], [1, 3]]
    assert metrics.group_rates(labels, groups).tolist() == [[0.75, 0.25], [0.5, 0.5], [0.25, 0.75]]
    assert metrics.gap(labels, groups) == pytest.approx(1 / 3)
    assert metrics.additive_gap(labels, groups) == pytest.approx(2 / 3)
    assert metrics.worst_pair_gap(labels, groups) == 0.5
    assert metrics.balance(labels, groups) == pytest.approx(1 / 3)
    assert metrics.rate_ratio(labels, groups) == pytest.approx(1 / 3)


def test_an_empty_cluster_is_skipped():
    probabilities = np.array([[0.5, 0.5, 0.0], [0.25, 0.75, 0.0], [1.0, 0.0, 0.0]])
    groups = ["a", "a", "b"]
    X = np.array([[0.0], [1.0], [5.0]])
    for metric in FAIRNESS:
        assert metric(probabilities, groups) == metric(probabilities[:, :2], groups)
    cost = metrics.clustering_cost(X, probabilities)
    assert cost == metrics.clustering_cost(X, probabilities[:, :2])
    assert metrics.group_rates(probabilities, groups)[:, 2].tolist() == [0.0, 0.0]


def test_a_label_of_weight_zero_is_an_empty_cluster():
    labels, groups, weights = [0, 0, 1], ["a", "b", "b"], [1.0, 1.0, 0.0]
    assert metrics.balance(labels, groups, sample_weight=weights) == 1.0
    assert metrics.gap(labels, groups, sample_weight=weights) == 0.0


def test_a_cluster_without_some_group_has_balance_zero():
    labels, groups = [0, 0, 1, 1], ["a", "b", "b", "b"]
    assert metrics.balance(labels, groups) == 0.0
    assert metrics.rate_ratio(labels, groups) == 0.0
    assert metrics.worst_pair_gap(labels, groups) == pytest.approx(2 / 3)


def test_one_group_only():
    labels = [0, 1, 1]
    assert [metric(labels, ["a", "a", "a"]) for metric in FAIRNESS] == [0.0, 0.0, 0.0, 1.0, 1.0]


def test_a_group_without_weight_is_no_group():
    labels, groups, weights = [0, 1, 0, 1], ["a", "a", "b", "c"], [1, 1, 1, 0]
    for metric in FAIRNESS:
        assert metric(labels, groups, sample_weight=weights) == metric(labels[:3], groups[:3])
    rates = metrics.group_rates(labels, groups, sample_weight=weights)
    np.testing.assert_array_equal(rates, [[0.5, 0.5], [1.0, 0.0], [np.nan, np.nan]])


def test_equal_rates_have_a_gap_of_exactly_zero():
    labels = np.tile([0, 0, 0, 1, 2, 2, 2], 11)
    groups = np.repeat(np.arange(11), 7)
    assert metrics.gap(labels, groups) == 0.0
    assert metrics.additive_gap(labels, groups) == 0.0
    assert metrics.rate_ratio(labels, groups) == 1.0


def test_many_groups_need_no_table_of_pairs():
    rng = np.random.default_rng(0)
    groups = np.arange(200_000) % 50_000  # the pairs would fill 20 GB
    assert 0 < metrics.gap(rng.integers(3, size=200_000), groups) < 1


@pytest.mark.parametrize("wrap", [list, np.array, pd.Series, pl.Series, pa.array, pd.Categorical])
def test_labels_of_every_kind(wrap):
    labels = wrap(["x", "y", "x", "y"])
    assert metrics.balance(labels, wrap([True, True, False, False])) == 1.0
    assert metrics.clustering_cost([[0.0], [1.0], [2.0], [5.0]], labels) == 10.0


@pytest.mark.parametrize(
    "wrap",
    [
        np.ndarray.tolist,
        np.float32,
        pd.DataFrame,
        pl.DataFrame,
        lambda p: pa.table({"0": p[:, 0], "1": p[:, 1]}),
    ],
)
def test_probabilities_of_every_kind(wrap):
    probabilities = wrap(np.array([[0.25, 0.75], [0.75, 0.25]]))
    assert metrics.gap(probabilities, ["a", "b"]) == 0.5
    assert metrics.clustering_cost([[0.0], [4.0]], probabilities) == 6.0


def test_several_sensitive_columns_are_intersections():
    table = pd.DataFrame({"sex": ["f", "f", "m", "m"], "old": [True, False, True, False]})
    assert metrics.gap([0, 1, 0, 1], table["sex"]) == 0.0
    assert metrics.gap([0, 1, 0, 1], table) == pytest.approx(2 / 3)


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int32, np.uint8])
def test_cost_is_kept_in_float64(soft, dtype):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 200, size=(20_000, 2)).astype(dtype)
    labels = rng.integers(3, size=len(X))
    assignment = np.eye(3)[labels] if soft else labels
    expected = brute_cost(X.astype(np.float64), labels, np.ones(len(X)))
    assert metrics.clustering_cost(X, assignment) == pytest.approx(expected, rel=1e-12)
    assert metrics.clustering_cost(np.asfortranarray(X), assignment) == pytest.approx(expected)


@pytest.mark.parametrize("soft", [False, True])
def test_a_large_offset_costs_no_digits(soft):
    rng = np.random.default_rng(0)
    X = rng.integers(-1000, 1000, size=(20_000, 3)) / 1024.0  # exact also after adding 2**40
    labels = rng.integers(4, size=len(X))
    assignment = rng.dirichlet(np.ones(4), len(X)) if soft else labels
    near = metrics.clustering_cost(X, assignment)
    assert metrics.clustering_cost(X + 2.0**40, assignment) == pytest.approx(near, rel=1e-9)
    assert near > 1000


def test_cost_of_equal_rows_is_zero():
    assert metrics.clustering_cost(np.full((1000, 2), 0.1), np.zeros(1000, dtype=int)) < 1e-25


KMEANS = [
    ("adult", "sex", 9509.2, 0.1694, 0.1054),
    ("bank", "married", 8443.9, 0.2465, 0.0887),
    ("credit", "education2", 4901.4, 0.5041, 0.0665),
]


@pytest.mark.parametrize(("name", "attribute", "cost", "balance", "gap"), KMEANS)
def test_kmeans_of_the_paper(request, name, attribute, cost, balance, gap):
    data = request.getfixturevalue(name)
    labels = KMeans(10, n_init=10, random_state=0).fit_predict(data.X)
    groups = data.sensitive[attribute]
    assert round(metrics.clustering_cost(data.X, labels), 1) == cost
    assert round(metrics.balance(labels, groups), 4) == balance
    assert round(metrics.gap(labels, groups), 4) == gap


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ([0, 1], r"sensitive_features has 3 rows, the data has 2"),
        ([0, None, 1], r"assignment has 1 missing labels"),
        ("abc", r"assignment='abc' names a column"),
        ([[0.5, 0.6], [1.0, 0.0], [0.2, 0.2]], r"assignment has 2 rows that do not sum to 1 \(row"),
        ([[1.5, -0.5]] * 3, r"assignment has the probability -0.5"),
        ([[np.nan, 1.0]] * 3, r"assignment has the probability nan"),
        ([["a"], ["b"], ["a"]], r"assignment has shape \(3, 1\) and type"),
        (np.zeros((3, 0)), r"assignment has shape \(3, 0\)"),
    ],
)
def test_wrong_assignment_says_what_is_wrong(assignment, message):
    with pytest.raises(ValueError, match=message):
        metrics.gap(assignment, ["a", "b", "a"])


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0], r"sample_weight has shape \(1,\), the data has 2 rows"),
        ([1.0, -1.0], r"sample_weight holds values from -1.0 to 1.0"),
        ([1.0, np.inf], r"sample_weight holds values from 1.0 to inf"),
        ([1.0, np.nan], r"sample_weight holds values"),
        ([0.0, 0.0], r"sample_weight is 0 in every row"),
    ],
)
def test_wrong_weights_say_what_is_wrong(weights, message):
    with pytest.raises(ValueError, match=message):
        metrics.balance([0, 1], ["a", "b"], sample_weight=weights)
    with pytest.raises(ValueError, match=message):
        metrics.clustering_cost([[1.0], [2.0]], [0, 1], sample_weight=weights)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([1.0, 2.0], r"X has shape \(2,\)"),
        ([["a"], ["b"]], r"X has shape \(2, 1\) and type <U1"),
        ([[1.0], [np.nan]], r"X holds NaN or infinity, first in row 1"),
        ([[1.0]], r"assignment has 2 rows, the data has 1"),
    ],
)
def test_wrong_data_says_what_is_wrong(X, message):
    with pytest.raises(ValueError, match=message):
        metrics.clustering_cost(X, [0, 1])


def test_public_names_are_sorted():
    assert metrics.__all__ == sorted(metrics.__all__)
    assert all(callable(getattr(metrics, name)) for name in metrics.__all__)


@pytest.mark.parametrize("gap_of", ["labels", "probabilities"])
def test_the_ratio_of_a_fit_is_the_rate_ratio(gap_of):
    X, groups, _ = make_grouped_blobs(300, 2, 2, separation=1.5, random_state=0)
    weights = np.random.default_rng(0).integers(1, 4, size=300)
    model = FairMixture(2, min_ratio=0.8, assignment="aware", gap_of=gap_of, random_state=0)
    model.fit(X, sensitive_features=groups, sample_weight=weights)
    rows = model.labels_
    if gap_of == "probabilities":
        rows = model.predict_proba(X, sensitive_features=groups)
    how = {"sample_weight": weights}
    assert model.ratio_ == pytest.approx(metrics.rate_ratio(rows, groups, **how), rel=1e-9)
    assert model.balance_ == pytest.approx(metrics.balance(rows, groups, **how), rel=1e-9)
    assert model.ratio_ >= 0.8 - 1e-6
    # Without two groups there is nothing to compare: the metric says 1, the fit says nothing.
    assert metrics.rate_ratio(model.labels_, ["a"] * 300) == 1.0
    assert np.isnan(FairMixture(2, random_state=0).fit(X).ratio_)
