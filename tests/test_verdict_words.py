"""One answer to "met": the same five words wherever a bound is looked at."""

import warnings

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.model_selection import train_test_split

from fairmix import FairMixture, compare, pareto_front
from fairmix.baselines import AlignedFairKMeans
from fairmix.datasets import make_grouped_blobs
from fairmix.input.groups import listed_groups
from fairmix.results.verdict import judge_counts, verdict_of

N_ROWS = 600


def blobs(rare=0, seed=0, n_rows=N_ROWS):
    """Rows of two large groups, some of them made a third one."""
    X, groups, _ = make_grouped_blobs(
        n_rows, 3, 2, separation=1.5, imbalance=0.3, random_state=seed
    )
    names = np.array(["a", "b"], dtype="U4")[groups]
    names[:rare] = "rare"
    return X, names


def quietly(work, *given, **how):
    """Without the warning of groups that are not judged."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Not judged")
        return work(*given, **how)


@pytest.mark.parametrize(
    ("counts", "how", "word"),
    [
        ([[50, 50], [55, 45]], {}, "met"),
        ([[50, 50], [75, 25]], {}, "missed"),
        ([[50, 50], [55, 45], [0, 29]], {}, "met for the judged groups"),
        ([[50, 50], [55, 45], [0, 30]], {}, "missed"),
        ([[50, 50], [55, 45], [0, 29]], {"min_group_size": 29}, "missed"),
        ([[50, 50], [9, 20]], {}, "not judged"),
        ([[50, 50], [75, 25]], {"bound": np.inf}, "no bound"),
        ([[50, 50], [55, 45], [0, 40]], {"among": ["a", "b"]}, "met for the judged groups"),
        ([[50, 50], [55, 45], [0, 0]], {}, "met"),
        ([[50, 50], [51, 49]], {"bound": 0.0}, "met"),
        ([[50, 50], [52, 48]], {"bound": 0.0}, "missed"),
        ([[50, 50], [51, 49]], {"bound": 0.0, "of": "probabilities"}, "missed"),
    ],
)
def test_counts_are_judged_by_size_and_resolution(counts, how, word):
    bound = how.pop("bound", 0.1)
    assert judge_counts(counts, ["a", "b", "c"][: len(counts)], bound, **how).word == word


def test_words_follow_from_the_figures():
    found = judge_counts([[50, 50], [55, 45], [0, 2]], ["a", "b", "c"], 0.1)
    assert found.figures == {
        "verdict": "met for the judged groups",
        "met": True,
        "gap": pytest.approx(0.05),
        "resolution": pytest.approx(0.01),
        "unjudged": {"c": 2},
    }
    assert listed_groups({"c": 2, "d": 1}) == "c (2 rows), d (1 row)"
    assert listed_groups({str(g): 3 for g in range(12)}, most=1) == "0 (3 rows) and 11 more"


def test_a_front_has_the_words_of_its_models():
    X, groups = blobs(rare=4)
    front = quietly(
        pareto_front,
        FairMixture(3, assignment="aware", random_state=0),
        X,
        sensitive_features=groups,
        max_gaps=(0.02, np.inf),
    )
    words = [row.verdict for row in front.rows]
    assert words == [model.verdict_ for model in front.models]
    assert words == ["met for the judged groups", "no bound"]
    assert [row.met for row in front.rows] == [True, None]
    assert [row["met"] for row in front.to_dict()["rows"]] == [True, None]
    assert front.to_pandas()["verdict"].tolist() == words
    assert "met for the judged groups" in str(front).splitlines()[1]


@pytest.mark.parametrize("gap_of", ["labels", "probabilities"])
def test_a_comparison_judges_each_method_by_its_own_bound(gap_of):
    pytest.importorskip("ot")
    X, groups = blobs(rare=4)
    methods = {
        "K-means": KMeans(3, n_init=1, random_state=0),
        "fair": FairMixture(3, assignment="aware", gap_of=gap_of, random_state=0),
        "tight": FairMixture(3, max_gap=0.02, criterion="worst_pair_gap", random_state=0),
        "plain": FairMixture(3, fairness_strength=0, random_state=0),
        "aligned": AlignedFairKMeans(3, n_init=1, random_state=0),
    }
    found = quietly(compare, methods, X, sensitive_features=groups, test_size=300)
    rows = {row.method: row for row in found.rows}
    part = "met for the judged groups"
    assert {name: row.verdict for name, row in rows.items()} == {
        **{"K-means": "no bound", "plain": "no bound"},
        **{"fair": part, "tight": part, "aligned": part},
    }
    assert {name: row.met for name, row in rows.items()}["plain"] is None
    assert [row.max_gap for row in found.rows] == [np.inf, 0.01, 0.02, np.inf, 0.0]
    assert rows["fair"].gap == found.models["fair"].label_gap_
    assert list(found.unjudged) == ["rare"]
    assert f"not judged: {listed_groups(found.unjudged)}" in str(found)
    # 300 rows show a gap of more than these bounds by chance.
    assert rows["fair"].test_verdict == rows["tight"].test_verdict == "missed"
    assert rows["fair"].test_gap > 0.01
    assert rows["aligned"].test_verdict is None
    assert found.to_dict()["rows"][1]["verdict"] == part


def test_a_group_that_only_held_out_rows_have():
    X, groups = blobs()
    methods = {"fair": FairMixture(3, assignment="aware", random_state=0)}
    before = compare(methods, X, sensitive_features=groups, test_size=300)
    parts = train_test_split(np.arange(N_ROWS), test_size=300, random_state=0)
    groups[parts[1][:2]] = "rare"
    found = compare(methods, X, sensitive_features=groups, test_size=300)
    assert (found.n_test, found.unjudged) == (298, {})
    assert found.rows[0].verdict == before.rows[0].verdict == "met"
    assert found.rows[0].test_verdict == "missed"
    assert found.rows[0].warnings == ()


def test_a_comparison_takes_missing_groups():
    X, groups = blobs()
    gone = groups.astype(object)
    gone[:50] = None
    methods = {"K-means": KMeans(3, n_init=1, random_state=0)}
    with pytest.raises(ValueError, match="50 missing labels"):
        compare(methods, X, sensitive_features=gone)
    dropped = compare(methods, X, sensitive_features=gone, missing_groups="drop")
    assert dropped.n_train == N_ROWS - 50
    same = compare(methods, X[50:], sensitive_features=groups[50:])
    assert dropped.rows[0].gap == same.rows[0].gap
    grouped = compare(methods, X, sensitive_features=gone, missing_groups="group")
    assert grouped.n_train == N_ROWS
    assert grouped.rows[0].gap != same.rows[0].gap


def test_a_comparison_without_two_judged_groups_has_no_gap():
    X, groups = blobs()
    found = compare(
        {"K-means": KMeans(3, n_init=1, random_state=0)},
        X,
        sensitive_features=groups,
        min_group_size=N_ROWS,
    )
    assert np.isnan([found.rows[0].gap, found.rows[0].balance]).all()
    assert sum(found.unjudged.values()) == N_ROWS


def test_the_words_of_a_fit_and_of_its_counts_agree():
    for seed, rare, bound in [(0, 0, 0.0), (1, 4, 0.02), (2, 40, 0.01)]:
        X, groups = blobs(rare, seed)
        model = FairMixture(3, assignment="aware", max_gap=bound, random_state=0)
        quietly(model.fit, X, sensitive_features=groups)
        names = np.unique(groups)
        counts = [[((groups == g) & (model.labels_ == k)).sum() for k in range(3)] for g in names]
        here, there = judge_counts(counts, names.tolist(), bound), verdict_of(model)
        assert (here.word, here.unjudged) == (there.word, there.unjudged)
        assert here.value == pytest.approx(there.value, abs=1e-12)
        assert here.resolution == pytest.approx(there.resolution)
