"""The fairness table: its figures are those of the metrics, its intervals those of resampling."""

import json
import sys

import numpy as np
import pytest

from cases import count_calls
from fairmix import metrics
from fairmix.results.fairness import Figure, fairness_table

SUMMARY = ["gap", "additive_gap", "worst_pair_gap", "balance", "rate_ratio"]


@pytest.fixture(params=["labels", "probabilities"])
def assignment(request):
    rng = np.random.default_rng(3)
    probabilities = rng.dirichlet([2.0, 1.0, 1.0], size=600)
    return probabilities if request.param == "probabilities" else probabilities.argmax(axis=1)


@pytest.fixture
def groups():
    return np.random.default_rng(4).choice(["a", "b", "c"], size=600, p=[0.5, 0.3, 0.2])


@pytest.fixture(params=[False, True], ids=["plain", "weighted"])
def weights(request):
    return np.random.default_rng(5).integers(0, 4, size=600) if request.param else None


def test_figures_are_those_of_the_metrics(assignment, groups, weights):
    table = fairness_table(assignment, groups, sample_weight=weights, n_boot=20)
    counts = metrics.group_counts(assignment, groups, sample_weight=weights)
    rates = metrics.group_rates(assignment, groups, sample_weight=weights)
    assert list(table.summary) == SUMMARY
    for name, figure in table.summary.items():
        expected = getattr(metrics, name)(assignment, groups, sample_weight=weights)
        assert figure.value == pytest.approx(expected, abs=1e-12)
    for k, row in enumerate(table.clusters):
        assert row.cluster == str(k)
        assert list(row.counts.values()) == pytest.approx(counts[:, k])
        assert [figure.value for figure in row.rates.values()] == pytest.approx(rates[:, k])
        assert sum(row.shares.values()) == pytest.approx(1)
        assert row.size == pytest.approx(counts[:, k].sum())
        assert row.balance.value == pytest.approx(counts[:, k].min() / counts[:, k].max())
        assert row.rate_ratio.value == pytest.approx(rates[:, k].min() / rates[:, k].max())


def test_groups_have_a_verdict_each(assignment, groups, weights):
    table = fairness_table(assignment, groups, sample_weight=weights, n_boot=20, min_ratio=0.9)
    rates = metrics.group_rates(assignment, groups, sample_weight=weights)
    relative = rates / rates.max(axis=0)
    for g, row in enumerate(table.groups):
        assert row.group == "abc"[g]
        assert row.ratio.value == pytest.approx(relative[g].min())
        assert row.ratio.low <= row.ratio.high <= 1
        assert row.cluster == str(relative[g].argmin())
        order = [str(k) for k in relative[g].argsort() if relative[g, k] < 0.9]
        assert row.below == tuple(order)
        assert row.verdict == ("missed" if order else "met")
        for k, cluster in enumerate(table.clusters):
            assert cluster.relative_rates[row.group].value == pytest.approx(relative[g, k])
    lowest = table.lowest
    assert lowest.ratio.value == pytest.approx(table.summary["rate_ratio"].value)
    assert lowest.group == "abc"[relative.min(axis=1).argmin()]
    lines = str(table).splitlines()
    (line,) = (line for line in lines if line.startswith("rate ratio"))
    assert line.endswith(f"({lowest.group} in cluster {lowest.cluster})")
    assert any(line.split()[:4] == ["group", "smallest", "ratio", "cluster"] for line in lines)
    frame = table.to_pandas()
    assert pytest.approx(relative) == frame["relative_rate"].to_numpy().reshape(3, 3).T


def test_four_fifths_is_four_fifths():
    """Counts of 40 and 50 of 100 rows each: exactly 0.8, which nothing is taken off."""
    labels = np.repeat([0, 1, 0, 1], [40, 60, 50, 50])
    groups = np.repeat(["a", "b"], 100)
    table = fairness_table(labels, groups)
    assert table.min_ratio == 0.8
    assert [(row.ratio.value, row.verdict) for row in table.groups] == [
        (pytest.approx(0.8), "met"),
        (pytest.approx(5 / 6), "met"),
    ]
    labels[0] = 1
    below = fairness_table(labels, groups).groups[0]
    assert (below.verdict, below.below, below.cluster) == ("missed", ("0",), "0")
    with pytest.raises(ValueError, match=r"min_ratio=0 is not above 0"):
        fairness_table(labels, groups, min_ratio=0)


def test_intervals_are_those_of_resampled_rows(assignment, groups, weights):
    """Against the plain bootstrap: draw rows, call the metrics."""
    rng = np.random.default_rng(6)
    table = fairness_table(assignment, groups, sample_weight=weights, n_boot=500)
    rates, balances = [], []
    for _ in range(500):
        rows = rng.integers(600, size=600)
        weight = None if weights is None else weights[rows]
        sample = (assignment[rows], groups[rows])
        rates.append(metrics.group_rates(*sample, sample_weight=weight))
        balances.append(metrics.balance(*sample, sample_weight=weight))
    low, high = np.quantile(rates, [0.025, 0.975], axis=0)
    found = np.array([[(f.low, f.high) for f in row.rates.values()] for row in table.clusters])
    np.testing.assert_allclose(found, np.stack([low, high], axis=-1).transpose(1, 0, 2), atol=0.02)
    balance = table.summary["balance"]
    expected = np.quantile(balances, [0.025, 0.975])
    assert [balance.low, balance.high] == pytest.approx(expected, abs=0.03)


def test_higher_confidence_is_wider(assignment, groups):
    narrow = fairness_table(assignment, groups, confidence=0.5).summary["balance"]
    wide = fairness_table(assignment, groups, confidence=0.99).summary["balance"]
    assert wide.low < narrow.low < narrow.high < wide.high


def test_the_seed_decides(assignment, groups):
    first, again, other = (fairness_table(assignment, groups, random_state=s) for s in (1, 1, 2))
    assert first == again
    assert first != other


def test_names_of_intersections_and_labels():
    table = fairness_table(["x", "y"] * 30, [("Female", "Black"), ("Male", "White")] * 30)
    assert [row.cluster for row in table.clusters] == ["x", "y"]
    assert list(table.clusters[0].counts) == ["Female & Black", "Male & White"]


def test_an_empty_cluster_and_a_lone_row_of_a_group():
    probabilities = np.zeros((40, 3))
    probabilities[:20, 0] = 1
    probabilities[20:, 2] = 1
    table = fairness_table(probabilities, ["a"] * 39 + ["b"])
    empty = table.clusters[1]
    assert empty.size == 0
    assert np.isnan([*empty.shares.values(), empty.balance.low, empty.rate_ratio.value]).all()
    assert all(np.isfinite([f.low, f.high]).all() for f in table.summary.values())
    assert "nan" in str(table)


def test_a_group_of_weight_zero_is_left_out():
    table = fairness_table([0, 1, 0, 1, 1], list("aabbc"), sample_weight=[1, 1, 1, 1, 0])
    assert list(table.clusters[0].counts) == ["a", "b"]
    assert table.n_rows == 4


def test_one_group():
    table = fairness_table([0, 1, 1], ["a"] * 3)
    assert table.summary["gap"] == Figure(0.0, 0.0, 0.0)
    assert table.summary["balance"] == Figure(1.0, 1.0, 1.0)


def test_small_groups_are_listed_apart(assignment):
    groups = np.random.default_rng(4).choice(["b", "c"], size=600)
    groups[:5] = "a"
    table = fairness_table(assignment, groups, min_group_size=30, n_boot=20)
    large = groups != "a"
    for name, figure in table.summary.items():
        expected = getattr(metrics, name)(assignment[large], groups[large])
        assert figure.value == pytest.approx(expected, abs=1e-12)
    assert table.unjudged == {"a": 5}
    # Last, as in the clusters, and not compared.
    unjudged = table.groups[-1]
    assert (unjudged.group, unjudged.cluster, unjudged.verdict) == ("a", None, "not judged")
    assert "a" not in table.clusters[0].relative_rates
    assert list(table.clusters[0].counts) == ["b", "c", "a"]
    counts = metrics.group_counts(assignment, groups)
    assert [row.counts["a"] for row in table.clusters] == pytest.approx(counts[0])
    assert [row.size for row in table.clusters] == pytest.approx(counts.sum(axis=0))
    ratios = counts[1:].min(axis=0) / counts[1:].max(axis=0)
    assert [row.balance.value for row in table.clusters] == pytest.approx(ratios)
    assert str(table).splitlines()[1] == "not judged: a (5 rows)"
    assert table.to_pandas()["judged"].tolist() == [True, True, False] * 3
    assert table.to_dict()["unjudged"] == {"a": 5}
    everybody = fairness_table(assignment, groups, min_group_size=5, n_boot=20)
    assert everybody.unjudged == {}
    assert everybody.summary["gap"].value > table.summary["gap"].value


@pytest.mark.parametrize(("smallest", "n_small"), [(30, 1), (600, 2)])
def test_fewer_than_two_judged_groups_have_no_gap(smallest, n_small):
    table = fairness_table([0, 1] * 300, ["a"] * 5 + ["b"] * 595, min_group_size=smallest)
    assert len(table.unjudged) == n_small
    assert np.isnan([(f.value, f.low) for f in table.summary.values()]).all()
    assert np.isnan([row.balance.value for row in table.clusters]).all()
    assert [row.counts["b"] for row in table.clusters] == [297.0, 298.0]
    assert "nan" in str(table)


def test_missing_groups(assignment):
    groups = np.array(["a", "b", None] * 200, dtype=object)
    with pytest.raises(ValueError, match="200 missing labels"):
        fairness_table(assignment, groups)
    dropped = fairness_table(assignment, groups, missing_groups="drop", n_boot=20)
    known = np.arange(600) % 3 < 2
    expected = metrics.gap(assignment[known], groups[known])
    assert dropped.summary["gap"].value == pytest.approx(expected, abs=1e-12)
    assert dropped.n_rows == 400
    grouped = fairness_table(assignment, groups, missing_groups="group", n_boot=20)
    assert list(grouped.clusters[0].counts) == ["a", "b", "missing"]


def test_prints_aligned_text_of_100_columns():
    rng = np.random.default_rng(0)
    names = ["Female & Amer-Indian-Eskimo & never married & very long indeed", "Male & Black"]
    labels = rng.choice(["a cluster with a long name", "b"], size=2000)
    weights = rng.uniform(1e5, 2e5, size=2000)
    lines = str(fairness_table(labels, rng.choice(names, 2000), sample_weight=weights)).split("\n")
    assert max(len(line) for line in lines) <= 100
    table = lines[len(lines) - lines[::-1].index("") :]
    assert table[0].split()[:3] == ["cluster", "size", "balance"]
    assert len(table) == 1 + 2 * 2
    assert len({len(line) for line in table}) == 1
    assert "…" in table[1]


def test_converts(assignment, groups):
    table = fairness_table(assignment, groups)
    pandas, polars = table.to_pandas(), table.to_polars()
    assert list(pandas.columns) == polars.columns
    assert len(pandas) == len(polars) == 3 * 3
    assert pandas["count"].sum() == pytest.approx(600)
    assert (polars["rate_low"] <= polars["rate_high"]).all()
    plain = json.loads(json.dumps(table.to_dict()))
    assert plain["summary"]["gap"]["low"] == table.summary["gap"].low
    assert plain["clusters"][2]["rates"]["b"]["value"] == table.clusters[2].rates["b"].value


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_missing_library_is_named(monkeypatch, library):
    table = fairness_table([0, 1], ["a", "b"])
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=rf"to_{library}\(\) needs {library}.*to_dict"):
        getattr(table, f"to_{library}")()


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"n_boot": 1}, "n_boot=1 .*at least 2"), ({"confidence": 95}, "confidence=95 .*0.95")],
)
def test_errors_name_argument_and_remedy(settings, message):
    with pytest.raises(ValueError, match=message):
        fairness_table([0, 1], ["a", "b"], **settings)


def test_100_000_rows_of_probabilities_take_no_python_loop():
    def calls(n_rows):
        rng = np.random.default_rng(0)
        probabilities = rng.dirichlet(np.ones(10), size=n_rows)
        groups = rng.integers(2, size=n_rows)
        return count_calls(lambda: fairness_table(probabilities, groups))

    assert calls(100_000) < 1.1 * calls(1000)
