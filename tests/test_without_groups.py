"""Without groups nothing is compared: no figure claims that it was, and everything else works."""

import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from typer.testing import CliRunner

from fairmix import (
    FairMixture,
    IgnoredTargetWarning,
    load,
    metrics,
    model_card,
    select_n_components,
    to_onnx,
)
from fairmix.baselines import AlignedFairKMeans, FairletKMeans, VariationalFairKMeans
from fairmix.cli import app
from fairmix.datasets import make_grouped_blobs
from fairmix.estimator.picture import measured

BASELINES = (AlignedFairKMeans, FairletKMeans, VariationalFairKMeans)
FIGURES = ("gap_", "label_gap_", "soft_gap_", "balance_")
OLD = Path(__file__).parent / "models" / "schema-1" / "gaussian-no-groups.fairmix"
X, GROUPS, _ = make_grouped_blobs(300, 3, 2, separation=2.0, imbalance=0.5, random_state=0)


def plain(**settings):
    return FairMixture(3, **{"random_state": 0, **settings})


def assert_nothing_compared(model):
    for name in FIGURES:
        assert np.isnan(getattr(model, name)), name
    assert model.rates_ is None
    assert model.groups_.size == model.group_sizes_.size == 0
    assert model.verdict_ == "no bound"
    for name in ("gap", "balance"):
        assert np.isnan(model.history_[name]).all()
    for name in ("objective", "log_likelihood", "seconds"):
        assert np.isfinite(model.history_[name]).all()


def by_file(folder):
    path = folder / "rows.parquet"
    pd.DataFrame(X, columns=["a", "b"]).to_parquet(path)
    return plain().fit(str(path))


FITS = {
    "dual": lambda _: plain().fit(X),
    "em, probabilities": lambda _: plain(solver="em", gap_of="probabilities").fit(X),
    "strength": lambda _: plain(fairness_strength=2.0).fit(X),
    "additive gap": lambda _: plain(criterion="additive_gap").fit(X),
    "aware": lambda _: plain(assignment="aware").fit(X),
    "stream": lambda _: plain().partial_fit(X).partial_fit(X),
    "file": by_file,
}


@pytest.mark.parametrize("name", FITS)
def test_no_figure_claims_that_groups_were_compared(name, tmp_path):
    model = FITS[name](tmp_path)
    assert_nothing_compared(model)
    table = pd.DataFrame(X, columns=["a", "b"]) if name == "file" else X
    assert np.isfinite([model.score(table), model.bic(table), model.icl(table)]).all()
    assert model.predict(table).shape == (300,)
    assert model.sample(5)[0].shape == (5, 2)
    again = load(model.save(tmp_path / "model.fairmix"))
    assert_nothing_compared(again)
    assert np.array_equal(again.predict(table), model.predict(table))
    assert (
        again.save(tmp_path / "again.fairmix").read_bytes()
        == (tmp_path / "model.fairmix").read_bytes()
    )


def test_groups_after_a_fit_without_bring_the_figures_back():
    model = plain(max_gap=0.02, warm_start=True).fit(X)
    model.fit(X, sensitive_features=GROUPS)
    assert model.gap_ == metrics.gap(model.labels_, GROUPS) <= 0.02
    assert model.rates_.shape == (2, 3)
    assert_nothing_compared(model.fit(X))


def test_a_model_file_of_an_earlier_version_claims_nothing_either():
    model = load(OLD)
    assert_nothing_compared(model)
    rows = pd.DataFrame(model.metadata_["rows"])
    assert model.predict(rows).tolist() == model.metadata_["labels"]


def test_nobody_is_shown_a_nan(tmp_path, capsys, monkeypatch):
    model = plain().fit(X)
    path = model.save(tmp_path / "model.fairmix")
    shown = CliRunner().invoke(app, ["info", str(path)])
    assert shown.exit_code == 0, shown.output
    lines = dict(line.split(maxsplit=1) for line in shown.output.splitlines() if "gap  " in line)
    assert lines["gap"] == "-"
    told = CliRunner().invoke(app, ["info", str(path), "--json"])
    assert json.loads(told.output)["gap"] is None
    chosen = select_n_components(plain(), X, n_components=(2, 3))
    row = str(chosen).splitlines()[1].split()
    assert row[4:8] == ["-"] * 4, "three gaps and the balance"
    texts = [shown.output, told.output, str(chosen), model_card(model), measured(model)]
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    plain(verbose=1).fit(X)
    select_n_components(plain(), X, n_components=(2, 3), verbose=1)
    bars = capsys.readouterr().err
    assert "objective" in bars
    assert "gap" not in bars
    for text in (*texts, bars):
        assert "nan" not in text.lower()


def test_a_bar_tells_the_gap_of_groups(capsys, monkeypatch):
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    plain(verbose=1, max_gap=0.1).fit(X, sensitive_features=GROUPS)
    plain(verbose=1, solver="em", fairness_strength=1).fit(X, sensitive_features=GROUPS)
    assert "gap" in capsys.readouterr().err


def test_onnx_and_pictures_work(tmp_path):
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("matplotlib").use("agg")
    from fairmix.plot import ConvergenceDisplay

    model = plain().fit(X)
    session = runtime.InferenceSession(to_onnx(model).SerializeToString())
    (name,) = [given.name for given in session.get_inputs()]
    labels = session.run(None, {name: X})[0]
    assert np.array_equal(np.ravel(labels), model.labels_)
    assert ConvergenceDisplay.from_estimator(model).gap_line_ is None


def test_a_card_of_groups_that_are_too_small_claims_nothing():
    groups = np.array(["a"] * 290 + ["b"] * 10)
    with pytest.warns(UserWarning, match="'b' \\(10 rows\\)"):
        model = plain().fit(X, sensitive_features=groups)
    assert np.isnan(model.gap_)
    card = model_card(model)
    assert "Fewer than two groups are judged, so nothing is known" in card
    assert "nan" not in card


@pytest.mark.parametrize("method", BASELINES)
@pytest.mark.parametrize("groups", [None, np.zeros(300)], ids=["none", "one"])
def test_baselines_claim_nothing_either(method, groups):
    model = method(3, random_state=0).fit(X, sensitive_features=groups)
    assert np.isnan([model.gap_, model.balance_]).all()
    assert np.isnan(model.history_["gap"]).all()
    assert np.isfinite(model.history_["objective"]).all()
    model.fit(X, sensitive_features=GROUPS)
    assert model.gap_ == metrics.gap(model.labels_, GROUPS)


# A target that may be meant as groups.

CALLS = {
    "fit": lambda y, **given: plain().fit(X, y, **given),
    "fit_predict": lambda y, **given: plain().fit_predict(X, y, **given),
    "partial_fit": lambda y, **given: plain().partial_fit(X, y, **given),
    "pipeline": lambda y, **given: make_pipeline(StandardScaler(), plain()).fit(
        X, y, **{f"fairmixture__{name}": value for name, value in given.items()}
    ),
    **{
        f"{method.__name__}.{name}": (
            lambda y, method=method, name=name, **given: getattr(method(3, random_state=0), name)(
                X, y, **given
            )
        )
        for method in BASELINES
        for name in ("fit", "fit_predict")
    },
}


@pytest.mark.parametrize("name", CALLS)
def test_a_target_without_groups_is_told(name):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        CALLS[name](GROUPS)
    caught = [w for w in caught if not issubclass(w.category, ConvergenceWarning)]
    (warning,) = caught
    assert warning.category is IgnoredTargetWarning
    assert "fit(X, sensitive_features=...)" in str(warning.message)
    assert Path(warning.filename) == Path(__file__), "the line of the user"


@pytest.mark.parametrize("name", CALLS)
def test_a_target_beside_groups_is_not(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error", IgnoredTargetWarning)
        CALLS[name](GROUPS, sensitive_features=GROUPS)
        CALLS[name](None)


def test_scores_are_silent():
    model = plain().fit(X)
    assert model.score(X, GROUPS) == model.score(X)
