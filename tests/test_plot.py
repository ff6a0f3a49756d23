"""Pictures show the figures that they are of."""

import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.cluster import KMeans

from fairmix import FairMixture
from fairmix.datasets import make_grouped_blobs
from fairmix.metrics import group_counts
from fairmix.results.profile import Profile

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402

from fairmix.plot import (  # noqa: E402
    ComponentsDisplay,
    ConvergenceDisplay,
    GroupSharesDisplay,
    ParetoFrontDisplay,
    SelectionDisplay,
)

X, GROUPS, _ = make_grouped_blobs(400, 3, 2, separation=3.0, imbalance=0.3, random_state=0)


@pytest.fixture(autouse=True)
def close_figures():
    yield
    pyplot.close("all")


@pytest.fixture(scope="module", params=["blind", "aware"])
def model(request):
    fitted = FairMixture(3, max_gap=0.05, assignment=request.param, random_state=0)
    return fitted.fit(X, sensitive_features=GROUPS)


def test_shares_are_those_of_the_predicted_clusters(model):
    display = GroupSharesDisplay.from_estimator(model, X, sensitive_features=GROUPS)
    counts = group_counts(model.labels_, GROUPS)
    for row, bars in zip(counts / counts.sum(axis=0), display.bars_.values(), strict=True):
        assert [bar.get_height() for bar in bars] == pytest.approx(row.tolist())
    (line,) = display.lines_
    first = np.asarray(GROUPS).astype(str) == display.groups[0]
    assert line.get_ydata()[0] == pytest.approx(first.mean())
    assert [label.get_text() for label in display.ax_.get_xticklabels()] == ["0", "1", "2"]
    assert display.figure_ is display.ax_.figure


def test_shares_of_other_tools_and_of_profiles():
    other = KMeans(3, n_init=1, random_state=0).fit(X)
    shown = GroupSharesDisplay.from_estimator(other, X, sensitive_features=GROUPS)
    np.testing.assert_array_equal(shown.counts, group_counts(other.labels_, GROUPS))
    sex = pd.Series(GROUPS, name="sex")
    profile = Profile.from_frame(X, other.labels_, sex, clusters=["0", "1", "2", "3"])
    _, ax = pyplot.subplots()
    display = GroupSharesDisplay.from_profile(profile, ax=ax)
    assert display.ax_ is ax
    assert display.counts[:, 3].tolist() == [0, 0], "an empty cluster has no bar and no warning"
    assert ax.get_ylabel() == "share of each sex in the cluster"


def test_three_groups_have_two_cuts_with_intervals():
    counts = [[20, 30], [30, 30], [50, 40]]
    display = GroupSharesDisplay(counts=counts, groups="abc", clusters=["0", "1"]).plot()
    assert [line.get_ydata()[0] for line in display.lines_] == pytest.approx([0.25, 0.55])
    first, second = display.ax_.collections
    ends = first.get_segments()[0][:, 1]
    assert ends.tolist() == pytest.approx([0.1334, 0.2888], abs=1e-4), "Wilson, 20 of 100"
    assert len(second.get_segments()) == 2


def test_convergence_is_the_history(model):
    display = ConvergenceDisplay.from_estimator(model)
    np.testing.assert_array_equal(display.line_.get_ydata(), model.history_["objective"])
    np.testing.assert_array_equal(display.gap_line_.get_ydata(), model.history_["gap"])
    assert display.line_.get_xdata().tolist() == list(range(1, model.n_iter_ + 1))


def test_convergence_without_groups_has_one_line_and_needs_a_fit():
    plain = FairMixture(2, random_state=0).fit(X)
    assert ConvergenceDisplay.from_estimator(plain).gap_line_ is None
    with pytest.raises(ValueError, match=r"has no history_. Give a fitted FairMixture"):
        ConvergenceDisplay.from_estimator(FairMixture())


@pytest.mark.parametrize(
    "covariance_type", ["tied-spherical", "spherical", "tied-diag", "diag", "tied", "full"]
)
@pytest.mark.parametrize("standardize", [False, True])
def test_ellipses_have_the_means_and_covariances_of_the_model(covariance_type, standardize):
    scaled = X * [1.0, 100.0] + [0.0, 1000.0]
    model = FairMixture(
        3, covariance_type=covariance_type, standardize=standardize, random_state=0
    ).fit(scaled)
    display = ComponentsDisplay.from_estimator(model, scaled)
    rows, labels = model.sample(200_000)
    for k, ellipse in enumerate(display.ellipses_):
        part = rows[labels == k]
        spread = part.std(axis=0)
        assert np.abs(np.array(ellipse.center) - part.mean(axis=0)).max() < 0.05 * spread.max()
        lengths = 4 * np.sqrt(np.linalg.eigvalsh(np.cov(part.T)))
        assert [ellipse.height, ellipse.width] == pytest.approx(lengths.tolist(), rel=0.03)
    assert display.axis_names == ("x0", "x1")


def test_an_ellipse_points_along_its_longest_direction():
    covariance = np.array([[2.0, 1.2], [1.2, 1.0]])
    display = ComponentsDisplay(
        means=[[0, 0]], covariances=[covariance], points=[[0, 0]], labels=[0], names=["0"]
    ).plot()
    # The tip of the ellipse lies at two standard deviations along the first eigenvector.
    for point in np.array(display.ellipses_[0].get_vertices()):
        assert point @ np.linalg.solve(covariance, point) == pytest.approx(4.0)
        assert abs(point[0]) > abs(point[1])


def test_more_columns_are_shown_by_principal_components_or_by_name():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(np.column_stack([X, rng.normal(size=len(X))]), columns=["a", "b", "c"])
    frame["kind"] = "text"
    labels = KMeans(3, n_init=1, random_state=0).fit_predict(X)
    display = ComponentsDisplay.from_predictions(frame, labels)
    assert display.axis_names[0].startswith("principal component 1 (")
    standard = frame[["a", "b", "c"]].to_numpy()
    standard = (standard - standard.mean(axis=0)) / standard.std(axis=0)
    total = np.linalg.eigvalsh(np.cov(standard.T, bias=True))[-2:].sum()
    assert display.points.var(axis=0).sum() == pytest.approx(total)
    named = ComponentsDisplay.from_predictions(frame, labels, columns=["c", "a"])
    assert named.ax_.get_xlabel() == "c"
    means = frame.groupby(labels)[["c", "a"]].mean()
    np.testing.assert_allclose(named.means, means)
    np.testing.assert_allclose(
        ComponentsDisplay.from_predictions(frame, labels, columns=[2, 0]).means, means
    )


def test_columns_of_a_model_have_the_names_of_its_table():
    frame = pd.DataFrame(X, columns=["age", "wage"])
    model = FairMixture(2, random_state=0).fit(frame)
    display = ComponentsDisplay.from_estimator(model, frame, columns=["wage", "age"])
    assert display.axis_names == ("wage", "age")
    np.testing.assert_allclose(display.means, model.means_[:, ::-1])


def test_components_of_a_fitted_model_colour_the_rows_by_cluster(model):
    display = ComponentsDisplay.from_estimator(model, X, sensitive_features=GROUPS)
    assert len(display.points) == len(X)
    assert np.bincount(display.labels).tolist() == np.bincount(model.labels_).tolist()
    np.testing.assert_allclose(display.means, model.means_)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["a"], r"columns=\['a'\]. Give two numeric columns"),
        (["a", "z"], "columns names 'z'. The numeric columns are a, b"),
        ([0, 7], "columns names 7"),
    ],
)
def test_columns_that_cannot_be_drawn_are_named(columns, message):
    frame = pd.DataFrame(X, columns=["a", "b"])
    with pytest.raises(ValueError, match=message):
        ComponentsDisplay.from_predictions(frame, [0] * len(X), columns=columns)


def test_one_column_makes_no_picture():
    with pytest.raises(ValueError, match="two numeric columns, the data have 1"):
        ComponentsDisplay.from_predictions(X[:, :1], [0] * len(X))


def test_fronts_and_selections_can_be_drawn_in_one_step():
    model = FairMixture(2, assignment="aware", random_state=0)
    front = ParetoFrontDisplay.from_estimator(
        model, X, sensitive_features=GROUPS, max_gaps=(0.02, 0.1), y="nll"
    )
    assert front.bound.tolist() == [0.02, 0.1]
    assert front.ax_.get_ylabel() == "negative log-likelihood per row"
    selection = SelectionDisplay.from_estimator(
        FairMixture(random_state=0), X, n_components=(1, 2), criterion="icl"
    )
    assert selection.n_components.tolist() == [1, 2]
    assert selection.criterion == "icl"


@pytest.mark.parametrize(
    "draw",
    [
        lambda: GroupSharesDisplay.from_predictions([0, 1], ["a", "b"]),
        lambda: ConvergenceDisplay(objective=[1.0]).plot(),
        lambda: ComponentsDisplay.from_predictions(X, [0] * len(X)),
    ],
)
def test_without_matplotlib_the_error_names_the_extra(draw, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"fairmix\[plot\]"):
        draw()
