"""Paths: bounds are met, looser bounds cost less, tables and pictures show what was fitted."""

import json
import re
import sys
import warnings
from dataclasses import replace
from itertools import pairwise
from math import inf, nan
from pathlib import Path

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from fairmix import FairMixture, pareto_front, select_n_components
from fairmix.datasets import make_grouped_blobs
from fairmix.metrics import balance, clustering_cost, gap, rate_ratio
from fairmix.mixture import propensity
from fairmix.plot import ParetoFrontDisplay
from fairmix.studies import FrontRow, ParetoFront, Selection, SelectionRow
from fairmix.trials.rows import mark_dominated
from fairmix.trials.walks import MIN_RATIOS, Trials
from repetition import long

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402
from matplotlib.colors import to_rgba  # noqa: E402

BOUNDS = (0.1, 0, 0.02, inf)
FRONT_COLUMNS = [
    *("max_gap", "gap", "label_gap", "soft_gap", "balance", "cost", "nll", "non_empty"),
    *("verdict", "dominated", "seconds", "warnings", "ratio", "min_ratio", "min_balance", "met"),
]


@pytest.fixture(scope="module")
def blobs():
    X, groups, _ = make_grouped_blobs(600, 3, 2, separation=1.5, imbalance=0.3, random_state=0)
    return X, groups


@pytest.fixture(scope="module", params=["aware", "blind"])
def front(request, blobs):
    X, groups = blobs
    model = FairMixture(3, assignment=request.param, random_state=0)
    return pareto_front(model, X, sensitive_features=groups, max_gaps=BOUNDS)


@pytest.fixture(scope="module")
def selection():
    X, groups, _ = make_grouped_blobs(600, 3, 2, separation=6.0, imbalance=0.0, random_state=1)
    model = FairMixture(assignment="aware", max_gap=0.05, random_state=0)
    return select_n_components(model, X, sensitive_features=groups, n_components=[4, 2, 3])


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    pyplot.close("all")


def row(gap_, cost, *, bound=0.1, nll=1.0, **how):
    return FrontRow(bound, gap_, gap_, gap_, 0.5, cost, nll, 3, **{"verdict": "met", **how})


def test_bounds_are_met_from_tight_to_loose(front, blobs):
    assert [row.max_gap for row in front.rows] == sorted(BOUNDS)
    largest = np.bincount(blobs[1]).max()
    for row_ in front.rows:
        assert row_.verdict == ("no bound" if row_.max_gap == inf else "met")
        assert row_.non_empty == 3
        assert row_.gap <= max(row_.max_gap, 1 / largest)
        assert row_.warnings == ()
        assert row_.seconds > 0


def test_cost_does_not_rise_as_the_bound_loosens(front):
    costs = [row.cost for row in front.rows]
    assert all(looser <= 1.02 * tighter for tighter, looser in pairwise(costs))


def test_figures_are_those_of_the_metrics(front, blobs):
    X, groups = blobs
    for row_, model in zip(front.rows, front.models, strict=True):
        assert row_.gap == row_.label_gap == pytest.approx(gap(model.labels_, groups))
        assert row_.balance == pytest.approx(balance(model.labels_, groups))
        assert row_.cost == pytest.approx(clustering_cost(X, model.labels_))
        assert row_.nll == pytest.approx(-model.score(X))
        assert row_.soft_gap == model.soft_gap_


def test_models_have_their_bound_and_are_no_warm_starters(front):
    *bounded, plain = front.models
    assert [model.max_gap for model in bounded] == sorted(BOUNDS)[:-1]
    assert {model.fairness_strength for model in bounded} == {"auto"}
    assert plain.fairness_strength == 0
    assert not any(model.warm_start for model in front.models)
    assert len({id(model.fitted_.model) for model in front.models}) == len(BOUNDS)


def test_no_point_is_worse_than_its_own_fresh_fit(front, blobs):
    X, groups = blobs
    kept = front.models[1]
    fresh = FairMixture(3, assignment=kept.assignment, max_gap=0.02, random_state=0)
    fresh.fit(X, sensitive_features=groups)
    assert kept.lower_bound_ >= fresh.lower_bound_


def test_the_warm_fit_is_kept_where_the_fresh_one_is_worse(blobs, monkeypatch):
    """Fresh fits are made worse; the path then follows the warm ones."""
    X, groups = blobs
    fit, seen = FairMixture.fit, []

    def spoiled(self, X, y=None, **how):
        fit(self, X, y, **how)
        seen.append(self.warm_start)
        self.lower_bound_ -= 0 if self.warm_start else 10
        return self

    monkeypatch.setattr(FairMixture, "fit", spoiled)
    model = FairMixture(3, assignment="aware", random_state=0, warm_start=True)
    found = pareto_front(model, X[:200], sensitive_features=groups[:200], max_gaps=(0.02, 0.1))
    # From the tighter neighbour, and back from the looser one.
    assert seen == [False, False, True, True]
    fresh = FairMixture(3, assignment="aware", random_state=0, max_gap=0.02)
    fresh.fit(X[:200], sensitive_features=groups[:200])
    for kept in found.models:
        assert kept.lower_bound_ > fresh.lower_bound_ - 5
    assert [kept.max_gap for kept in found.models] == [0.02, 0.1]
    assert all(model.warm_start for model in found.models), "as the user's estimator has it"


def test_the_estimator_is_left_alone(blobs):
    X, groups = blobs
    model = FairMixture(2, assignment="aware", random_state=0)
    before = model.get_params()
    pareto_front(model, X[:200], sensitive_features=groups[:200], max_gaps=[0.1])
    assert model.get_params() == before
    assert not hasattr(model, "labels_")


def test_convergence_warnings_go_to_the_row_and_the_text(blobs):
    X, groups = blobs
    model = FairMixture(3, assignment="aware", max_iter=1, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        found = pareto_front(model, X, sensitive_features=groups, max_gaps=(0.05,))
    assert any("max_iter" in text for text in found.rows[0].warnings)
    assert f"max_gap 0.05: {found.rows[0].warnings[0]}" in str(found)


def test_other_warnings_are_shown_once():
    pandas = pytest.importorskip("pandas")
    X, groups, _ = make_grouped_blobs(200, 2, 2, random_state=0)
    frame = pandas.DataFrame(X, columns=["a", "b"]).assign(sex=groups.astype(float))
    model = FairMixture(2, assignment="aware", random_state=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        pareto_front(model, frame, sensitive_features=frame[["sex"]], max_gaps=(0.1, 0.2))
    assert ["also features in X" in str(w.message) for w in caught] == [True]
    assert caught[0].filename == __file__


def test_data_frames_weights_and_a_named_column():
    """The cost is of standardised numeric columns; weights count as repeated rows."""
    pandas = pytest.importorskip("pandas")
    X, groups, _ = make_grouped_blobs(300, 2, 2, separation=2.0, random_state=0)
    frame = pandas.DataFrame(100 * X, columns=["a", "b"])
    frame = frame.assign(sex=groups)
    weight = np.random.default_rng(0).integers(1, 3, size=300)
    model = FairMixture(2, assignment="aware", standardize=True, random_state=0)
    how = {"sensitive_features": "sex", "max_gaps": [0.1], "sample_weight": weight}
    found = pareto_front(model, frame, **how)
    labels = found.models[0].labels_
    columns = np.repeat(100 * X, weight, axis=0)
    scaled = (columns - columns.mean(axis=0)) / columns.std(axis=0)
    assert found.rows[0].cost == pytest.approx(clustering_cost(scaled, np.repeat(labels, weight)))
    assert found.rows[0].gap == pytest.approx(gap(labels, groups, sample_weight=weight))


def test_categories_count_as_columns_of_0_and_1():
    """The cost of mixed data, and of data with gaps, against plain sums."""
    pandas = pytest.importorskip("pandas")
    X, groups, _ = make_grouped_blobs(300, 2, 2, separation=2.0, random_state=0)
    X[::7, 0] = np.nan
    kind = np.where(X[:, 1] > 0, "p", "q").astype(object)
    kind[::5] = None
    frame = pandas.DataFrame(X, columns=["a", "b"]).assign(kind=kind)
    found = pareto_front(
        FairMixture(2, random_state=0), frame, sensitive_features=groups, max_gaps=[0.05, 0.5]
    )
    columns = [X[:, 0], X[:, 1]]
    columns += [np.where(frame["kind"].isna(), np.nan, frame["kind"] == name) for name in "pq"]
    for row, model in zip(found.rows, found.models, strict=True):
        expected = 0.0
        for values in columns:
            values = np.asarray(values, dtype=float)
            for k in range(2):
                own = values[(model.labels_ == k) & ~np.isnan(values)]
                expected += ((own - own.mean()) ** 2).sum() if len(own) else 0.0
        assert row.cost == pytest.approx(expected)


def test_a_front_may_be_drawn_against_the_likelihood():
    X, groups, _ = make_grouped_blobs(300, 2, 4, separation=2.0, random_state=0)
    codes = (X > 0).astype(int)
    model = FairMixture(2, categorical_features=[0, 1, 2, 3], gap_of="probabilities")
    model.set_params(assignment="aware", random_state=0)
    found = pareto_front(model, codes, sensitive_features=groups, max_gaps=(0.02, 0.1))
    assert [row.gap for row in found.rows] == [row.soft_gap for row in found.rows]
    display = found.plot(y="nll")
    assert display.ax_.get_ylabel() == "negative log-likelihood per row"
    assert display.ax_.get_xlabel() == "gap of the probabilities"
    assert display.y.tolist() == [row.nll for row in found.rows]


def test_the_progress_bar_silences_the_inner_ones(blobs, capsys):
    X, groups = blobs
    model = FairMixture(2, assignment="aware", verbose=1, random_state=0)
    how = {"sensitive_features": groups[:150], "max_gaps": [0.1], "verbose": 1}
    found = pareto_front(model, X[:150], **how)
    assert "fit dual" not in capsys.readouterr().err
    assert found.models[0].verbose == 1


def test_dominated_points_of_a_hand_made_front():
    rows = [
        row(0.0, 100.0),
        row(0.01, 101.0),  # dearer than a fairer one
        row(0.02, 90.0),
        row(0.02, 90.0),  # equal points do not dominate each other
        row(0.02, 91.0),
        row(0.05, 90.0),
        row(0.1, 80.0),
    ]
    expected = [False, True, False, False, True, True, False]
    assert [row.dominated for row in mark_dominated(rows)] == expected
    costless = [row(0.0, nan, nll=2.0), row(0.1, nan, nll=2.0), row(0.2, nan, nll=1.0)]
    assert [row.dominated for row in mark_dominated(costless)] == [False, True, False]
    assert ParetoFront(tuple(costless)).dominated("gap", "nll") == [False, True, False]
    assert ParetoFront(tuple(rows)).dominated("balance", "cost") == [True] * 6 + [False]


def test_front_converts_and_prints(front):
    for frame in (front.to_pandas(), front.to_polars()):
        assert list(frame.columns) == FRONT_COLUMNS
        assert frame["cost"].to_list() == [row.cost for row in front.rows]
    assert front.to_dict()["rows"][0]["max_gap"] == 0
    json.dumps(front.to_dict())
    lines = str(front).splitlines()
    assert len(lines) == 1 + len(BOUNDS)
    assert lines[0].split()[:3] == ["max_gap", "label", "gap"]
    assert [line.split()[0] for line in lines[1:]] == ["0", "0.02", "0.1", "plain"]
    assert repr(front) == str(front)
    assert max(map(len, lines)) <= 100


@pytest.fixture(scope="module", params=["min_ratio", "min_balance"])
def ratio_front(request, blobs):
    X, groups = blobs
    bounds = {"min_ratio": (0.6, 0.9, 0), "min_balance": (0.3, 0.4, 0)}[request.param]
    # Another rule of the estimator gives way.
    model = FairMixture(3, assignment="aware", max_gap=0.3, random_state=0)
    found = pareto_front(model, X, sensitive_features=groups, **{f"{request.param}s": bounds})
    assert model.max_gap == 0.3
    return request.param, sorted(bounds, reverse=True), found


def test_a_front_walks_over_ratios(ratio_front, blobs):
    groups = blobs[1]
    rule, bounds, found = ratio_front
    figure = {"min_ratio": "ratio", "min_balance": "balance"}[rule]
    assert [(row_.rule, row_.bound, row_.max_gap) for row_ in found.rows] == [
        (rule, bound, inf) for bound in bounds
    ]
    assert [row_.plain for row_ in found.rows] == [False, False, True]
    assert [row_.verdict for row_ in found.rows] == ["met", "met", "no bound"]
    for row_, fitted in zip(found.rows, found.models, strict=True):
        how = {"min_ratio": rate_ratio, "min_balance": balance}[rule]
        assert getattr(row_, figure) == pytest.approx(how(fitted.labels_, groups))
        assert row_.ratio == fitted.ratio_
        assert getattr(row_, figure) >= row_.bound
        assert row_.met is (None if row_.plain else True)
        assert fitted.max_gap == "auto"
        assert getattr(fitted, rule) == (None if row_.plain else row_.bound)
    reached = [fitted.lower_bound_ for fitted in found.models]
    # But for the rounding of passes in single precision.
    assert np.diff(reached).min() >= -1e-5
    assert found.dominated() == [row_.dominated for row_ in found.rows]
    # At the same cost the higher ratio wins.
    better = [
        replace(found.rows[0], cost=1.0, **{figure: 0.9}),
        replace(found.rows[1], cost=1.0, **{figure: 0.8}),
        replace(found.rows[2], cost=0.5, **{figure: 0.7}),
    ]
    assert [row_.dominated for row_ in mark_dominated(better)] == [False, True, False]
    lines = str(found).splitlines()
    assert lines[0].split()[0] == rule
    assert [line.split()[0] for line in lines[1:]] == [f"{b:g}" for b in bounds[:-1]] + ["plain"]
    assert found.to_pandas()[rule].tolist() == bounds


def test_a_picture_of_ratios(ratio_front):
    rule, bounds, found = ratio_front
    display = found.plot()
    titles = {"min_ratio": "smallest ratio of rates", "min_balance": "balance"}
    assert display.ax_.get_xlabel() == titles[rule]
    figure = "ratio" if rule == "min_ratio" else "balance"
    assert display.x.tolist() == [getattr(row_, figure) for row_ in found.rows]
    assert {text.get_text() for text in display.ax_.texts} == {f"{b:g}" for b in bounds[:-1]}
    assert len(display.points_["plain"].get_offsets()) == 1
    at_bounds = found.plot(x=rule)
    assert at_bounds.x.tolist() == bounds[:-1]
    assert f"({rule})" in at_bounds.ax_.get_xlabel()
    with pytest.raises(ValueError, match=f"x='max_gap', but the front walks over {rule}"):
        found.plot(x="max_gap")


def test_a_front_without_a_list_is_of_the_rule_of_the_estimator(blobs):
    X, groups = blobs
    model = FairMixture(2, assignment="aware", min_ratio=0.7, random_state=0)
    found = pareto_front(model, X[:150], sensitive_features=groups[:150])
    assert [row_.min_ratio for row_ in found.rows] == list(MIN_RATIOS)
    with pytest.raises(
        ValueError, match=r"min_balance=0\.2: a front of Balance needs min_balances"
    ):
        pareto_front(FairMixture(2, min_balance=0.2), X, sensitive_features=groups)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (
            {"max_gaps": [0.1], "min_ratios": [0.8]},
            "max_gaps and min_ratios are lists",
        ),
        ({"min_ratios": [1.2]}, r"min_ratios=\[1.2\]. Give one or more bounds from 0 to 1"),
        ({"min_balances": []}, r"min_balances=\[\]. Give one or more bounds"),
        ({"min_balances": [0.99]}, "min_balance=0.99 is out of reach"),
    ],
)
def test_lists_of_ratios_that_are_wrong(blobs, how, message):
    X, groups = blobs
    with pytest.raises(ValueError, match=message):
        pareto_front(FairMixture(2, random_state=0), X, sensitive_features=groups, **how)


def test_a_selection_under_a_ratio(blobs):
    X, groups = blobs
    model = FairMixture(assignment="aware", min_ratio=0.8, random_state=0)
    found = select_n_components(model, X, sensitive_features=groups, n_components=[2, 3])
    for row_, fitted in zip(found.rows, found.models, strict=True):
        assert row_.verdict == "met"
        assert row_.ratio == fitted.ratio_ >= 0.8
    assert "ratio" in str(found).splitlines()[0].split()
    # A row that misses the ratio is chosen only where all do.
    missed = Selection((replace(found.rows[0], bic=0.0, verdict="missed"), found.rows[1]))
    assert missed.best == 3


def test_front_picture_shows_the_rows():
    rows = mark_dominated(
        [
            row(0.0, 100.0, bound=0),
            row(0.01, 101.0, bound=0.01),
            row(0.03, 90.0, bound=0.02, verdict="missed"),
            row(0.2, 80.0, bound=inf),
        ]
    )
    display = ParetoFront(rows).plot(x="label_gap")
    assert list(display.points_) == ["front", "dominated", "plain", "missed"]
    offsets = {kind: points.get_offsets().tolist() for kind, points in display.points_.items()}
    assert offsets["front"] == [[0.0, 100.0], [0.03, 90.0]]
    assert offsets["dominated"] == [[0.01, 101.0]]
    assert offsets["plain"] == [[0.2, 80.0]]
    assert offsets["missed"] == [[0.03, 90.0]]
    hollow = display.points_["dominated"].get_facecolors()[0]
    assert hollow.tolist() == list(to_rgba("white"))
    assert display.line_.get_xydata().tolist() == [[0.0, 100.0], [0.03, 90.0], [0.2, 80.0]]
    assert {text.get_text() for text in display.ax_.texts} == {"0", "0.01", "0.02"}
    assert display.ax_.get_xlabel() == "gap of the labels"
    assert display.ax_.get_ylabel() == "cost (squared distances)"


def test_a_picture_takes_axes_and_leaves_the_plain_point_out_of_bounds(front):
    _, ax = pyplot.subplots()
    display = front.plot(ax, x="max_gap", y="nll")
    assert display.ax_ is ax
    assert display.x.tolist() == sorted(BOUNDS)[:-1]
    assert "plain" not in display.points_


@pytest.mark.parametrize(("axis", "value"), [("x", "cost"), ("y", "gap")])
def test_unknown_axes_are_errors(axis, value):
    with pytest.raises(ValueError, match=f"{axis}='{value}'. Choose one of"):
        ParetoFront((row(0.0, 1.0),)).plot(**{axis: value})


def test_without_matplotlib_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"fairmix\[plot\]"):
        ParetoFrontDisplay(bound=[0], x=[0], y=[0], dominated=[False], met=[True]).plot()


@pytest.mark.parametrize("name", ["pandas", "polars"])
def test_without_a_library_the_error_names_it(name, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=f"needs {name}.*to_dict"):
        getattr(ParetoFront((row(0.0, 1.0),)), f"to_{name}")()


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"max_gaps": ()}, "max_gaps=.*at least 0"),
        ({"max_gaps": (0.1, -0.1)}, "max_gaps=.*at least 0"),
        ({"max_gaps": (nan,)}, "max_gaps=.*at least 0"),
        ({"sensitive_features": None}, "sensitive_features=None.*group of each row"),
        ({"estimator": FairMixture(fairness_strength=1.0)}, "fairness_strength=1.0.*'auto'"),
    ],
)
def test_front_errors_name_the_argument(how, message, blobs):
    given = {"estimator": FairMixture(), "X": blobs[0], "sensitive_features": blobs[1]}
    with pytest.raises(ValueError, match=message):
        pareto_front(**{**given, **how})


def test_only_a_fair_mixture_has_a_path(blobs):
    with pytest.raises(TypeError, match="is not a FairMixture"):
        select_n_components("model", blobs[0])


@pytest.mark.parametrize("counts", [(), (0, 2), (2.5,)])
def test_selection_errors_name_the_argument(counts, blobs):
    with pytest.raises(ValueError, match=r"n_components=.*at least 1"):
        select_n_components(FairMixture(), blobs[0], n_components=counts)
    with pytest.raises(ValueError, match=r"criterion='mdl'.*bic, aic, icl"):
        select_n_components(FairMixture(), blobs[0], criterion="mdl")


def test_bic_finds_three_separated_blobs(selection):
    assert [row.n_components for row in selection.rows] == [2, 3, 4]
    assert selection.best == 3
    assert selection.best_estimator.n_components == 3
    assert selection.best_estimator.gap_ <= 0.05
    assert {row.verdict for row in selection.rows} == {"met"}


def test_criteria_are_those_of_plain_mixtures(selection):
    X, groups, _ = make_grouped_blobs(600, 3, 2, separation=6.0, imbalance=0.0, random_state=1)
    for row_, model in zip(selection.rows, selection.models, strict=True):
        plain = FairMixture(row_.n_components, fairness_strength=0, random_state=0)
        plain.fit(X, sensitive_features=groups)
        assert (row_.bic, row_.aic, row_.icl) == (plain.bic(X), plain.aic(X), plain.icl(X))
        assert (row_.gap, row_.balance) == (model.gap_, model.balance_)
        assert row_.gap <= max(0.05, model.resolution_)


@pytest.mark.parametrize("seed", [0, long(1), long(2)])
def test_a_bound_does_not_raise_the_number_of_clusters(seed):
    """Blobs that attract one group: BIC of fits under the bound asks for four or five of them."""
    X, groups, _ = make_grouped_blobs(600, 3, 2, separation=6.0, imbalance=0.3, random_state=seed)
    model = FairMixture(assignment="aware", max_gap=0.05, random_state=0)
    found = select_n_components(model, X, sensitive_features=groups, n_components=range(2, 6))
    bounded = [fitted.bic(X) for fitted in found.models]
    assert found.best == 3
    assert int(np.argmin(bounded)) + 2 > 3


def test_selection_without_groups_is_of_plain_mixtures(blobs):
    found = select_n_components(FairMixture(random_state=0), blobs[0], n_components=(1, 2))
    assert np.isnan([(row.gap, row.balance) for row in found.rows]).all()
    assert [(row.verdict, row.met) for row in found.rows] == [("no bound", None)] * 2


def test_a_fit_that_misses_the_bound_is_not_best():
    figures = {"gap": 0.0, "label_gap": 0.0, "soft_gap": 0.0, "balance": 1.0}
    rows = tuple(
        SelectionRow(k, bic, aic, 0.0, **figures, non_empty=k, verdict=word)
        for k, bic, aic, word in [
            *((2, 9.0, 5.0, "met"), (3, 8.0, 6.0, "met for the judged groups")),
            (4, 7.0, 4.0, "missed"),
        ]
    )
    assert Selection(rows).best == 3
    assert Selection(rows, "aic").best == 2
    assert Selection(rows[2:]).best == 4
    assert len(Selection(rows).plot().ax_.collections) == 1, "the missed bound has its cross"


def test_selection_converts_prints_and_plots(selection):
    for frame in (selection.to_pandas(), selection.to_polars()):
        assert list(frame.columns[:4]) == ["n_components", "bic", "aic", "icl"]
        assert frame["bic"].to_list() == [row.bic for row in selection.rows]
    assert selection.to_dict()["best"] == 3
    assert [line.endswith("best bic") for line in str(selection).splitlines()[1:]] == [
        row.n_components == 3 for row in selection.rows
    ]
    display = selection.plot()
    assert display.lines_["icl"].get_xdata().tolist() == [2, 3, 4]
    assert display.lines_["icl"].get_ydata().tolist() == [row.icl for row in selection.rows]
    assert set(display.best_line_.get_xdata()) == {3}
    assert display.ax_.get_xlabel() == "number of clusters"


@pytest.mark.parametrize("page", ["choose-a-bound", "choose-the-number-of-clusters"])
def test_the_code_of_the_page_runs(page, capsys):
    text = (Path(__file__).parents[1] / "docs" / "how-to" / f"{page}.md").read_text("utf-8")
    code = "\n".join(re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL))
    names: dict[str, object] = {}
    exec(code, names)
    assert "clusters" in capsys.readouterr().out
    assert names["figure"].axes
    if page == "choose-the-number-of-clusters":
        assert names["choice"].best == 3
        assert len(names["bounded"]) == 4


def test_a_front_learns_the_chances_of_groups_once(monkeypatch):
    """All its fits are of the same rows; another table, and a fit by itself, learn their own."""
    learned, learn = [], propensity._fit_propensity
    monkeypatch.setattr(
        propensity, "_fit_propensity", lambda *given: learned.append(1) or learn(*given)
    )
    X, groups, _ = make_grouped_blobs(300, 3, 2, separation=2, imbalance=0.3, random_state=0)
    model = FairMixture(3, random_state=0)
    front = pareto_front(model, X, sensitive_features=groups, max_gaps=(0.02, 0.1))
    assert len(learned) == 1
    pareto_front(model, X[:200], sensitive_features=groups[:200], max_gaps=(0.1,))
    assert len(learned) == 2
    alone = FairMixture(3, max_gap=0.02, random_state=0).fit(X, sensitive_features=groups)
    assert len(learned) == 3
    np.testing.assert_array_equal(
        alone.fitted_.model.propensity.coefficients,
        front.models[0].fitted_.model.propensity.coefficients,
    )


def test_costs_around_a_model_are_of_one_scale():
    """A model of all rows has another scale than fits to a sample of them."""
    X, groups, _ = make_grouped_blobs(900, 3, 2, separation=3, imbalance=0.3, random_state=0)
    # Far away, and not in the sample: all rows look closer together beside it.
    rows = np.vstack([X, [[400.0, 400.0]]])
    model = FairMixture(3, max_gap=0.1, standardize=True, random_state=0)
    model.fit(rows, sensitive_features=np.append(groups, groups[0]))
    trials = Trials(FairMixture(**model.get_params()), X[:300], groups[:300])
    found, models = trials.around(model, "max_gap", (0.02, 0.1))
    scaled = model.fitted_.rows(X[:300]).numeric
    for row, fitted in zip(found, models, strict=True):
        labels = fitted.predict(X[:300])
        assert row.cost == pytest.approx(clustering_cost(scaled, labels), rel=1e-5)
