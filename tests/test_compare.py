"""Comparisons: the same rows, the metrics of the package, and what each method can do."""

import json
import re
from math import inf, isnan
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.cluster import AgglomerativeClustering, KMeans
from sklearn.mixture import GaussianMixture

from fairmix import FairMixture, compare, metrics
from fairmix.baselines import FairletKMeans
from fairmix.datasets import make_grouped_blobs
from fairmix.studies import Comparison, MethodRow, default_methods
from fairmix.studies.methods import mark_beaten

matplotlib = pytest.importorskip("matplotlib")
pytest.importorskip("ot")
matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402

CAN = {
    "K-means": (True, "never"),
    "plain mixture": (True, "no"),
    "fair mixture, blind": (True, "no"),
    "fair mixture, aware": (True, "yes"),
    "FairletKMeans": (False, None),
    "VariationalFairKMeans": (True, "yes"),
    "AlignedFairKMeans": (False, None),
}
N_TEST = 200


class Recorder(ClusterMixin, BaseEstimator):
    """Puts all rows into one cluster, and remembers what it was given."""

    def fit(self, X, y=None, *, sensitive_features=None):
        self.seen_, self.groups_ = X, sensitive_features
        self.labels_ = np.zeros(len(X), dtype=int)
        return self

    def predict(self, X):
        self.asked_ = X
        return np.zeros(len(X), dtype=int)


@pytest.fixture(scope="module")
def blobs():
    X, groups, _ = make_grouped_blobs(600, 3, 2, separation=1.5, imbalance=0.3, random_state=0)
    return X, groups


@pytest.fixture(scope="module")
def whole(blobs):
    X, groups = blobs
    return compare(None, X, sensitive_features=groups, n_clusters=3)


@pytest.fixture(scope="module")
def split(blobs):
    X, groups = blobs
    methods = {"a": Recorder(), "b": Recorder(), **default_methods(3)}
    for slow in ("AlignedFairKMeans", "fair mixture, blind"):
        del methods[slow]
    return compare(methods, X, sensitive_features=groups, test_size=N_TEST, random_state=1)


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    pyplot.close("all")


def rows_of(comparison):
    return {row.method: row for row in comparison.rows}


def test_figures_are_those_of_the_metrics(whole, blobs):
    X, groups = blobs
    assert list(whole.models) == list(CAN)
    for row in whole.rows:
        model = whole.models[row.method]
        assert row.error is None
        assert row.cost == metrics.clustering_cost(X, model.labels_)
        assert row.gap == metrics.gap(model.labels_, groups)
        assert row.balance == metrics.balance(model.labels_, groups)
        assert row.ratio == metrics.rate_ratio(model.labels_, groups)
        assert row.clusters == 3
        assert row.seconds > 0
        mixture = isinstance(model, FairMixture)
        assert isnan(row.soft_gap) != mixture
        assert isnan(row.nll) != mixture
        if mixture:
            assert row.soft_gap == pytest.approx(model.soft_gap_)
            assert row.nll == pytest.approx(-model.score(X))
        assert isnan(row.test_cost), "nothing was held out"


def test_a_ratio_is_judged_by_the_rule_of_its_own_method(blobs):
    X, groups = blobs
    how = {"assignment": "aware", "random_state": 0}
    methods = {
        "K-means": KMeans(3, n_init=1, random_state=0),
        "ratio": FairMixture(3, min_ratio=0.8, **how),
        "Balance": FairMixture(3, min_balance=0.4, **how),
        "gap": FairMixture(3, max_gap=0.3, **how),
        "probabilities": FairMixture(3, min_ratio=0.9, gap_of="probabilities", **how),
        "fairlets": FairletKMeans(3, random_state=0),
    }
    found = compare(methods, X, sensitive_features=groups, test_size=N_TEST, random_state=1)
    rows = rows_of(found)
    asked = {name: (row.max_gap, row.min_ratio, row.min_balance) for name, row in rows.items()}
    assert asked == {
        "K-means": (inf, None, None),
        "ratio": (inf, 0.8, None),
        "Balance": (inf, None, 0.4),
        "gap": (0.3, None, None),
        "probabilities": (inf, 0.9, None),
        "fairlets": (inf, None, None),
    }
    for name, row in rows.items():
        bounded = name not in ("K-means", "fairlets")
        # Baselines are measured and not judged.
        assert row.verdict == ("met" if bounded else "no bound")
        assert 0 < row.ratio < 1
        assert isnan(row.test_ratio) == (name == "fairlets")
    assert rows["ratio"].ratio >= 0.8 > rows["K-means"].ratio
    assert rows["Balance"].balance >= 0.4
    # The rule is on the probabilities; the ratio in the table is that of the labels.
    assert found.models["probabilities"].ratio_ >= 0.9 - 1e-6
    assert rows["ratio"].test_verdict == ("met" if rows["ratio"].test_ratio >= 0.8 else "missed")


def test_flags_say_what_each_method_can_do(whole):
    assert {r.method: (r.assigns_unseen, r.needs_group) for r in whole.rows} == CAN


def test_every_method_has_the_same_split(split, blobs):
    X, groups = blobs
    first, second = split.models["a"], split.models["b"]
    np.testing.assert_array_equal(first.seen_, second.seen_)
    np.testing.assert_array_equal(first.asked_, second.asked_)
    assert (split.n_train, split.n_test) == (len(first.seen_), len(first.asked_)) == (400, N_TEST)
    both = np.vstack([first.seen_, first.asked_])
    np.testing.assert_array_equal(np.unique(both, axis=0), np.unique(X, axis=0))
    group_of = {tuple(x): str(group) for x, group in zip(X, groups, strict=True)}
    assert first.groups_.tolist() == [group_of[tuple(x)] for x in first.seen_]


def test_held_out_rows_are_measured_where_they_get_labels(split, blobs):
    X, groups = blobs
    where = {tuple(x): i for i, x in enumerate(X)}
    held_out = np.array([where[tuple(x)] for x in split.models["a"].asked_])
    X, groups = X[held_out], groups[held_out].astype(str)
    for name, row in rows_of(split).items():
        model = split.models[name]
        if not row.assigns_unseen:
            assert isnan(row.test_cost)
            assert name == "FairletKMeans"
            continue
        how = {"sensitive_features": groups} if row.needs_group == "yes" else {}
        labels = model.predict(X, **how)
        assert row.test_cost == metrics.clustering_cost(X, labels)
        assert row.test_gap == metrics.gap(labels, groups)
        assert row.test_balance == metrics.balance(labels, groups)
        if isinstance(model, FairMixture):
            soft = metrics.gap(model.predict_proba(X, **how), groups)
            assert row.test_soft_gap == soft
            assert row.test_nll == pytest.approx(-model.score(X))


def test_the_same_seed_gives_the_same_figures(split, blobs):
    X, groups = blobs
    methods = {"K-means": default_methods(3)["K-means"]}
    again = compare(methods, X, sensitive_features=groups, test_size=N_TEST, random_state=1)
    row, before = again.rows[0], rows_of(split)["K-means"]
    assert (row.cost, row.test_gap) == (before.cost, before.test_gap)
    other = compare(methods, X, sensitive_features=groups, test_size=N_TEST, random_state=2)
    assert other.rows[0].cost != row.cost


def test_a_method_that_fails_has_its_error_and_the_others_go_on():
    X, groups, _ = make_grouped_blobs(300, 2, 2, n_groups=3, random_state=0)
    methods = {"fairlets": FairletKMeans(2), "K-means": KMeans(2, n_init=1, random_state=0)}
    found = compare(methods, X, sensitive_features=groups, test_size=0.5, min_group_size=1)
    failed, fine = found.rows
    assert failed.error.startswith("ValueError: ")
    assert isnan(failed.cost)
    assert (failed.clusters, failed.assigns_unseen, failed.needs_group) == (0, None, None)
    assert list(found.models) == ["K-means"]
    assert fine.gap == metrics.gap(found.models["K-means"].labels_, found_groups(X, groups))
    text = str(found)
    assert re.search(r"^fairlets .* failed$", text, flags=re.MULTILINE)
    assert f"fairlets: {failed.error}" in text


def found_groups(X, groups):
    """Groups of the rows of the fit, in a split by seed 0 of half the rows."""
    recorder = {"r": Recorder()}
    return compare(recorder, X, sensitive_features=groups, test_size=0.5).models["r"].groups_


def test_other_clusterers_of_scikit_learn(blobs):
    X, groups = blobs
    mixture = GaussianMixture(3, random_state=0)
    methods = {"mixture": mixture, "tree": AgglomerativeClustering(3)}
    first, second = compare(methods, X, sensitive_features=groups).rows
    fitted = GaussianMixture(3, random_state=0).fit(X)
    assert first.gap == metrics.gap(fitted.predict(X), groups)
    assert first.soft_gap == metrics.gap(fitted.predict_proba(X), groups)
    assert first.nll == pytest.approx(-fitted.score(X))
    assert (first.assigns_unseen, first.needs_group) == (True, "never")
    assert (second.assigns_unseen, second.needs_group) == (False, None)
    assert not hasattr(mixture, "means_"), "the user's own object is left alone"


def test_warnings_go_to_the_row(blobs):
    X, groups = blobs
    methods = {"short": GaussianMixture(3, max_iter=1, random_state=0)}
    found = compare(methods, X, sensitive_features=groups)
    assert "did not converge" in found.rows[0].warnings[0]
    assert f"short: {found.rows[0].warnings[0]}" in str(found)


def test_the_criterion_is_that_of_the_gaps_and_of_the_models(blobs):
    X, groups = blobs
    methods = {"K-means": KMeans(3, n_init=1, random_state=0)}
    found = compare(methods, X, sensitive_features=groups, criterion="additive_gap")
    labels = found.models["K-means"].labels_
    assert found.rows[0].gap == metrics.additive_gap(labels, groups)
    assert found.plot().ax_.get_xlabel() == "additive gap of the labels"
    assert default_methods(3, criterion="additive_gap")["plain mixture"].criterion == "additive_gap"


def test_a_named_column_holds_the_groups_and_is_no_feature(blobs):
    pandas = pytest.importorskip("pandas")
    X, groups = blobs
    frame = pandas.DataFrame(X, columns=["a", "b"]).assign(sex=groups)
    methods = {"r": Recorder(), "K-means": KMeans(3, n_init=1, random_state=0)}
    found = compare(methods, frame, sensitive_features="sex")
    np.testing.assert_array_equal(found.models["r"].seen_, X)
    assert found.rows[1].gap == metrics.gap(found.models["K-means"].labels_, groups)


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="Linux tells the peak")
def test_the_peak_holds_what_a_fit_allocates_and_frees(blobs):
    X, groups = blobs

    class Hungry(Recorder):
        def fit(self, X, y=None):
            np.ones(2**25).sum()  # 268 MB for a moment
            return super().fit(X)

    methods = {"hungry": Hungry(), "frugal": Recorder()}
    hungry, frugal = compare(methods, X, sensitive_features=groups).rows
    # A system that is short of memory takes pages of the process back meanwhile.
    assert 200 < hungry.peak_mb < 330
    assert 0 <= frugal.peak_mb < 65


def test_dominated_methods_are_marked_and_failed_ones_are_not():
    rows = mark_beaten(
        [
            MethodRow("a", cost=100.0, gap=0.0),
            MethodRow("b", cost=101.0, gap=0.01),
            MethodRow("c", cost=90.0, gap=0.1),
            MethodRow("d", error="ValueError: no"),
        ]
    )
    assert [row.dominated for row in rows] == [False, True, False, False]
    marks = [line.split()[-1] for line in str(Comparison(rows)).splitlines()[2:5]]
    assert marks == ["dominated", "-", "failed"]


def test_the_table_prints_and_converts(whole, split):
    for frame in (whole.to_pandas(), whole.to_polars()):
        assert frame["method"].to_list() == list(CAN)
        assert frame["cost"].to_list() == [row.cost for row in whole.rows]
    assert split.to_dict()["n_test"] == N_TEST
    json.dumps(split.to_dict())
    lines = str(whole).splitlines()
    titles = (
        "method cost gap soft gap ratio balance nll verdict clusters seconds peak MB unseen group"
    )
    assert " ".join(lines[0].split()) == titles
    assert [line[: len(name)] for name, line in zip(CAN, lines[1:], strict=True)] == list(CAN)
    assert f"On {N_TEST} held-out rows" in str(split)
    assert repr(whole) == str(whole)


def test_the_picture_has_one_named_point_per_method(whole, split):
    display = whole.plot()
    points = np.vstack([points.get_offsets() for points in display.points_.values()])
    expected = [(row.gap, row.cost) for row in whole.rows]
    assert sorted(map(tuple, points.tolist())) == sorted(expected)
    assert {text.get_text() for text in display.ax_.texts} == set(CAN)
    assert display.ax_.get_xlabel() == "gap of the labels"
    front = [(row.gap, row.cost) for row in whole.rows if not row.dominated]
    assert display.line_.get_xydata().tolist() == [list(point) for point in sorted(front)]
    _, ax = pyplot.subplots()
    held_out = split.plot(ax, held_out=True)
    assert held_out.ax_ is ax
    assert held_out.names == [row.method for row in split.rows if row.assigns_unseen]
    with pytest.raises(ValueError, match="test_size"):
        whole.plot(held_out=True)


@pytest.mark.parametrize(
    ("how", "error", "message"),
    [
        ({"methods": None}, ValueError, "methods=None.*n_clusters"),
        ({"n_clusters": 3}, ValueError, "n_clusters=3 is for methods=None"),
        ({"methods": {}}, TypeError, "methods={}.*dict"),
        ({"methods": {"a": "kmeans"}}, TypeError, r"methods\['a'\]='kmeans'.*KMeans"),
        ({"criterion": "delta"}, ValueError, "criterion='delta' is unknown. Choose one of"),
        ({"sensitive_features": None}, ValueError, "sensitive_features=None.*group of each row"),
        ({"test_size": 2.0}, ValueError, "test_size"),
    ],
)
def test_errors_name_the_argument(how, error, message, blobs):
    given = {"methods": {"r": Recorder()}, "X": blobs[0], "sensitive_features": blobs[1]}
    with pytest.raises(error, match=message):
        compare(**{**given, **how})


def test_the_code_of_the_page_runs(capsys):
    page = Path(__file__).parents[1] / "docs" / "how-to" / "compare-methods.md"
    code = "\n".join(re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), flags=re.DOTALL))
    names: dict[str, object] = {}
    exec(code, names)
    assert "held-out rows" in capsys.readouterr().out
    assert names["figure"].axes
