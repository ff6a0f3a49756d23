"""Parts from outside the package, a family, a criterion and others: one file each, and one line.

The lines are those of the fixtures; they are taken back after each test.
"""

import sqlite3
from contextlib import closing

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from typer.testing import CliRunner

from cases import central_differences
from extension.back_end import TableOf
from extension.command import lines
from extension.criterion import HalfGap
from extension.family import UnitVariance
from extension.solver import RECIPE
from fairmix import FairMixture, compare, load, to_onnx
from fairmix.baselines import FairletKMeans
from fairmix.cli import COMMANDS, app
from fairmix.criteria import CRITERIA, Criterion
from fairmix.datasets import make_grouped_blobs
from fairmix.input.sources import SOURCES
from fairmix.kernels.totals import Logits
from fairmix.mixture.families import FAMILIES, NumericFamily
from fairmix.report import render
from fairmix.results.certificate import certify
from fairmix.results.fairness import fairness_table
from fairmix.results.profile import Profile
from fairmix.solvers import SOLVERS

X, GROUPS, _ = make_grouped_blobs(600, 3, 2, random_state=0)
COLOURS = np.random.default_rng(0).choice(["red", "green", "blue"], size=len(X))
MIXED = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "colour": COLOURS})
UNIT = {"covariance_type": "unit", "max_gap": 0.05, "random_state": 0}


@pytest.fixture
def unit(monkeypatch):
    monkeypatch.setitem(FAMILIES, "unit", UnitVariance)


@pytest.fixture
def half_gap(monkeypatch):
    monkeypatch.setitem(CRITERIA, "half_gap", HalfGap())


@pytest.fixture
def damped(monkeypatch):
    monkeypatch.setitem(SOLVERS, "damped", RECIPE)


@pytest.fixture
def databases():
    SOURCES.append(TableOf)
    yield
    SOURCES.remove(TableOf)


@pytest.fixture
def count_lines(monkeypatch):
    monkeypatch.setitem(COMMANDS, "lines", lines)


def call(*words):
    return CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "80"})


@pytest.fixture
def people(tmp_path):
    """A file of the rows and their groups."""
    path = tmp_path / "people.csv"
    MIXED.assign(group=GROUPS).to_csv(path, index=False)
    return path


# ------------------------------------------------------------------------------------ family
def test_a_name_that_is_not_registered_is_refused():
    with pytest.raises(ValueError, match="'covariance_type' parameter of FairMixture must be"):
        FairMixture(3, covariance_type="unit").fit(X)


def test_a_family_has_all_parts():
    family: NumericFamily = UnitVariance(3, np.zeros(2), "unit")
    theta, weights = np.arange(6.0), np.random.default_rng(0).normal(size=(3, 4))
    cotangent = Logits(weights[:, 0], weights[:, 1:])

    def function(point):
        logits = family.logits(point)
        return float(np.vdot(logits.b, cotangent.b) + np.vdot(logits.W, cotangent.W))

    expected = central_differences(function, theta)
    np.testing.assert_allclose(family.pullback(theta, cotangent), expected, atol=1e-7)
    np.testing.assert_array_equal(family.pack(family.unpack(theta)), theta)


@pytest.mark.parametrize("settings", [{}, {"assignment": "aware"}, {"solver": "em"}], ids=str)
def test_a_family_is_fitted(unit, settings):
    model = FairMixture(3, **UNIT, **settings).fit(X, sensitive_features=GROUPS)
    assert model.label_gap_ <= 0.05
    densities = [multivariate_normal(mean).logpdf(X) for mean in model.means_]
    expected = logsumexp(np.stack(densities), axis=0, b=model.weights_[:, None])
    np.testing.assert_allclose(model.score_samples(X), expected, rtol=1e-10)
    np.testing.assert_array_equal(model.covariances_, np.eye(2))


def test_a_family_decides_whether_numbers_may_be_missing(unit):
    missing = np.where(np.arange(X.size).reshape(X.shape) == 7, np.nan, X)
    with pytest.raises(ValueError, match="missing"):
        FairMixture(3, **UNIT).fit(missing)
    assert not FairMixture(**UNIT).__sklearn_tags__().input_tags.allow_nan


@pytest.mark.parametrize("table", [X, MIXED], ids=["numbers", "mixed"])
def test_a_family_is_kept_in_a_file_and_in_a_graph(unit, table, tmp_path):
    ort = pytest.importorskip("onnxruntime")
    model = FairMixture(3, **UNIT).fit(table, sensitive_features=GROUPS)
    again = load(model.save(tmp_path / "unit.fairmix"))
    np.testing.assert_array_equal(again.predict_proba(table), model.predict_proba(table))
    np.testing.assert_array_equal(again.means_, model.means_)
    session = ort.InferenceSession(to_onnx(again).SerializeToString())
    fed = {"X": X}
    if table is MIXED:
        fed = {name: MIXED[[name]].to_numpy() for name in MIXED}
    label, probabilities = session.run(None, fed)
    np.testing.assert_array_equal(label, model.labels_)
    np.testing.assert_allclose(probabilities, model.predict_proba(table), atol=1e-9)


def test_a_file_of_a_family_that_is_not_registered_is_refused(unit, monkeypatch, tmp_path):
    path = FairMixture(3, **UNIT).fit(X).save(tmp_path / "unit.fairmix")
    monkeypatch.delitem(FAMILIES, "unit")
    with pytest.raises(ValueError, match="covariance_type is 'unit', not one of"):
        load(path)


def test_the_command_line_takes_a_family(unit, people, tmp_path):
    words = ("fit", people, "-s", "group", "-k", 3, "--no-front", "-o", tmp_path / "out")
    done = call(*words, "--covariance-type", "unit")
    assert done.exit_code == 0, done.output
    assert load(tmp_path / "out" / "model.fairmix").covariance_type == "unit"
    assert "'unit' is not one of" not in done.output
    wrong = call(*words, "--covariance-type", "one")
    assert wrong.exit_code == 2
    assert "'one' is not one of" in wrong.output
    assert "'unit'" in wrong.output


# --------------------------------------------------------------------------------- criterion
@pytest.mark.parametrize("settings", [{}, {"solver": "em"}, {"fairness_strength": 0.5}], ids=str)
def test_a_criterion_is_fitted(half_gap, settings):
    """Halves are exact, so that the bits are those of the gap at twice the bound."""
    criterion: Criterion = CRITERIA["half_gap"]
    how = {"max_gap": 0.02, "random_state": 0} | settings
    model = FairMixture(3, criterion="half_gap", **how).fit(X, sensitive_features=GROUPS)
    twice = {"max_gap": 0.04}
    if "fairness_strength" in how:
        twice = {"fairness_strength": 0.25}
    known = FairMixture(3, **how | twice).fit(X, sensitive_features=GROUPS)
    np.testing.assert_array_equal(model.labels_, known.labels_)
    assert model.gap_ == known.gap_ / 2 == criterion.value(model.rates_)
    assert model.fairness_strength_ == 2 * known.fairness_strength_
    assert model.verdict_ == known.verdict_


def test_a_criterion_is_certified_and_reported(half_gap, tmp_path):
    model = FairMixture(3, criterion="half_gap", max_gap=0.02, random_state=0)
    model.fit(X, sensitive_features=GROUPS)
    fresh, groups, _ = make_grouped_blobs(400, 3, 2, random_state=1)
    labels = model.predict(fresh)
    found = certify(labels, groups, criterion="half_gap")
    assert found.upper_bound == certify(labels, groups).upper_bound / 2
    assert "the population half gap of this map's labels is at most" in str(found)
    again = load(model.save(tmp_path / "half.fairmix"))
    certificate = again.certify(fresh, groups)
    assert certificate.upper_bound == found.upper_bound
    assert again.verdict_ == "met"
    profile = Profile(groups=model.groups_.tolist(), n_clusters=3)
    profile.add(X, model.labels_, GROUPS)
    page = render(profile, model=again)
    assert "The bound is met: the groups differ most in" in page
    assert "Half of the gap is" in page
    assert "There are 2 groups." in page


def test_tables_and_comparisons_have_a_criterion(half_gap):
    summary = fairness_table(COLOURS, GROUPS, n_boot=20).summary
    assert summary["half_gap"].value == summary["gap"].value / 2
    methods = {"fairlets": FairletKMeans(2, random_state=0)}
    half, whole = (
        compare(methods, X, sensitive_features=GROUPS, criterion=name).rows[0]
        for name in ("half_gap", "gap")
    )
    assert half.gap == whole.gap / 2


def test_the_command_line_takes_a_criterion(half_gap, people):
    done = call("audit", people, "-l", "colour", "-s", "group", "--criterion", "half_gap")
    assert done.exit_code == 0, done.output
    assert "No bound: the half gap is" in done.output
    wrong = call("audit", people, "-l", "colour", "-s", "group", "--criterion", "third_gap")
    assert wrong.exit_code == 2
    assert "'third_gap' is not one of" in wrong.output


# ---------------------------------------------------------------------------------- back end
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_back_end_gives_the_bits_of_the_same_rows(databases, n_jobs, tmp_path):
    people = TableOf(tmp_path / "people.db", "people")
    with closing(sqlite3.connect(people.path)) as connection:
        MIXED.assign(sex=GROUPS).to_sql("people", connection, index=False)
        connection.commit()
    how = {"max_gap": 0.05, "random_state": 0, "n_jobs": n_jobs}
    known = FairMixture(3, **how).fit(MIXED, sensitive_features=GROUPS)
    model = FairMixture(3, **how).fit(people, sensitive_features="sex")
    np.testing.assert_array_equal(model.means_, known.means_)
    assert model.label_gap_ == known.label_gap_
    written = model.predict(people, output=tmp_path / "labels.parquet")
    np.testing.assert_array_equal(pq.read_table(written)["cluster"], known.labels_)


# ----------------------------------------------------------------------------------- command
def test_a_command_is_listed_and_runs(count_lines, people):
    assert "Count the lines of a file." in call("--help").output
    assert "A file of text." in call("lines", "--help").output
    done = call("lines", people)
    assert done.exit_code == 0
    assert done.output == "601 lines\n"


def test_a_command_that_is_not_registered_is_not_there():
    assert "lines" not in call("--help").output
    assert call("lines", "people.csv").exit_code == 2


def test_a_new_solver_climbs_to_where_em_does(damped):
    plain = {"fairness_strength": 0, "random_state": 0, "max_iter": 200, "tol": 1e-7}
    ours = FairMixture(3, solver="damped", **plain).fit(X)
    em = FairMixture(3, solver="em", **plain).fit(X)
    assert ours.score(X) == pytest.approx(em.score(X), abs=1e-4)
    assert ours.n_iter_ > em.n_iter_


def test_a_new_solver_meets_a_bound_and_does_not_tilt(damped):
    settings = {"solver": "damped", "gap_of": "probabilities", "max_gap": 0.05, "random_state": 0}
    model = FairMixture(3, **settings).fit(X, sensitive_features=GROUPS)
    assert model.soft_gap_ <= 0.05
    with pytest.raises(ValueError, match="solver='damped'"):
        model.set_params(assignment="aware").fit(X, sensitive_features=GROUPS)


def test_a_solver_that_is_not_registered_is_refused():
    with pytest.raises(ValueError, match="'solver' parameter"):
        FairMixture(3, solver="damped").fit(X)
