"""Odd input ends in words: what was asked for cannot be done, and why. Never a traceback."""

import copy
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.exceptions import NotFittedError
from typer.testing import CliRunner

from fairmix import FairMixture, baselines, metrics, plot
from fairmix.cli import app
from fairmix.cli.screen import json_text
from fairmix.datasets import make_grouped_blobs
from fairmix.system.clean import clean

X, GROUPS, _ = make_grouped_blobs(200, 3, 2, separation=2.0, random_state=0)
FRAME = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "sex": np.where(GROUPS, "f", "m")})
HUGE = 10**400
OBJECTS = X.astype(object)
OBJECTS[3, 1] = HUGE
ESC = "\x1b[2J"
FULL = Path("/dev/full")


def model(**settings):
    return FairMixture(2, max_gap=0.2, random_state=0, **settings)


def fitted(groups=GROUPS):
    return model().fit(X, sensitive_features=groups)


def run(*words):
    # As on a terminal: where colours are off, escape sequences are taken out on the way.
    return CliRunner().invoke(app, list(map(str, words)), color=True)


# ------------------------------------------------------------------ numbers that no float holds
CALLS = {
    "fit": lambda: model().fit(OBJECTS, sensitive_features=GROUPS),
    "fit a list": lambda: model().fit(OBJECTS.tolist(), sensitive_features=GROUPS),
    "partial_fit": lambda: model().partial_fit(OBJECTS, sensitive_features=GROUPS),
    "predict": lambda: fitted().predict(OBJECTS),
    "weights": lambda: model().fit(X, sample_weight=[HUGE] * len(X)),
    "a metric": lambda: metrics.gap(GROUPS, GROUPS, sample_weight=[HUGE] * len(X)),
    "a baseline": lambda: baselines.FairletKMeans(2).fit(OBJECTS, sensitive_features=GROUPS),
    "max_gap": lambda: model().set_params(max_gap=HUGE).fit(X),
    "tol": lambda: model(tol=HUGE).fit(X),
    "reg_covar": lambda: model(reg_covar=HUGE).fit(X),
    "fairness_strength": lambda: model(fairness_strength=HUGE).fit(X),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_number_that_no_float_holds(call):
    with pytest.raises(ValueError, match="too large for float64"):
        call()


def test_labels_may_be_any_whole_number():
    assert fitted([HUGE if g else 1.5 for g in GROUPS]).groups_.tolist() == ["1.5", str(HUGE)]


# ------------------------------------------------------------------ parameters and states
@pytest.mark.parametrize("name", ["n_components", "n_init", "max_iter", "min_group_size"])
def test_true_is_no_count(name):
    with pytest.raises(ValueError, match=f"{name}=True is no number. Give a whole number"):
        model().set_params(**{name: True}).fit(X)


@pytest.mark.parametrize("name", ["predict", "score", "bic", "aic", "icl"])
def test_without_a_fit(name):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        getattr(model(), name)(X)


def test_a_picture_without_a_fit():
    with pytest.raises(NotFittedError, match="not fitted yet"):
        plot.ComponentsDisplay.from_estimator(model(), X)


@pytest.mark.parametrize("make", [pd.DataFrame, pa.Table.from_pandas], ids=["pandas", "arrow"])
def test_columns_of_one_name(make):
    twice = pd.DataFrame(X, columns=["a", "a"])
    if make is not pd.DataFrame:
        twice = pa.table(list(X.T), names=["a", "a"])
    with pytest.raises(ValueError, match="X has more than one column 'a'"):
        model().fit(twice, sensitive_features=GROUPS)


def test_groups_of_one_name():
    twice = pd.DataFrame({"a": GROUPS, "b": GROUPS}).set_axis(["a", "a"], axis=1)
    with pytest.raises(ValueError, match=r"sensitive_features has two columns.*Rename one"):
        model().fit(X, sensitive_features=twice)


HALF = "a\ud800"


def test_names_that_no_file_can_hold():
    named = pd.DataFrame(X).set_axis(pd.Index([HALF, "b"], dtype=object), axis=1)
    with pytest.raises(ValueError, match=r"X has a column 'a\\ud800'.*half of a character"):
        model().fit(named, sensitive_features=GROUPS)
    with pytest.raises(ValueError, match=r"has the label 'a\\ud800'.*half of a character"):
        fitted(np.where(GROUPS, HALF, "b").tolist())


# ------------------------------------------------------------------ what reaches a screen
def test_clean_text():
    assert clean("a\x1b[2J\x9b1m\x7f\u202eb\ud800") == r"a\x1b[2J\x9b1m\x7f\u202eb\ud800"
    assert clean("größe 名前 👩\u200d👧\n\tx") == "größe 名前 👩\u200d👧\n\tx"


def test_clean_json():
    text = json_text({"a\x9b": "\u202e\ud800", "ä": 1})
    assert text.isascii()
    assert json_text({"ä": 1}) == '{\n  "ä": 1\n}'


@pytest.fixture
def hostile(tmp_path, monkeypatch):
    """A model whose file says all kinds of things."""
    monkeypatch.chdir(tmp_path)
    names = np.where(GROUPS, f"f{ESC}\nverdict met", "m\x9b")
    frame = FRAME.assign(sex=names).rename(columns={"a": f"a{ESC}"})
    found = model().fit(frame, sensitive_features="sex")
    facts = {"gap": "0", f"x{ESC}": f"y{ESC}\nz", "verdict": "met"}
    found.save("m.fairmix", metadata={"facts": facts, "sensitive": ["sex"]})
    return found


@pytest.mark.parametrize("words", [[], ["--json"]])
def test_no_order_reaches_a_terminal(hostile, words):
    found = run("info", "m.fairmix", *words)
    assert found.exit_code == 0, found.output
    assert "\x1b" not in found.output
    assert "\x9b" not in found.output
    # Facts do not take the place of what the model says itself.
    said = [line for line in found.output.splitlines() if line.strip(' "').startswith("verdict")]
    assert len(said) == 1
    assert hostile.verdict_ in said[0]


def test_no_order_reaches_a_terminal_from_data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = np.where(GROUPS, f"f{ESC}", "m")
    FRAME.assign(cluster=GROUPS, sex=names).to_csv("d.csv", index=False)
    for words in (["audit", "-l", "cluster"], ["fit", "-k", "2", "--no-front"]):
        found = run(words[0], "d.csv", *words[1:], "-s", "sex")
        assert found.exit_code == 0, found.output
        assert "\x1b" not in found.output
        assert "f\\x1b[2J" in found.output
    FRAME.rename(columns={"a": f"a{ESC}"}).assign(b="").to_csv("e.csv", index=False)
    found = run("fit", "e.csv", "-s", "nobody", "-o", "other")
    assert found.exit_code == 3
    assert "\x1b" not in found.output


def test_no_order_reaches_a_terminal_from_words():
    fit = ["fit", "d.csv", "-s", "sex"]
    out = ["predict", "m.fairmix", "d.csv", "--out", "\x9b"]
    for words in ([*fit, "\x9b"], [*fit, "-k", "\x9b"], [*fit, "--margin", "\x9b"], out):
        found = run(*words)
        assert found.exit_code == 2
        assert clean(found.output) == found.output
        assert r"\x9b" in found.output


LONG = "x" * 300


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (["predict", "m.fairmix", "d.csv", "--out", f"{LONG}.csv"], "File name too long"),
        (["fit", "d.csv", "-s", "sex", "-k", "2", "--no-front", "-o", LONG], "File name too long"),
        (["audit", "d.csv", "-s", "sex", "-l", LONG], "has no such column"),
        (
            ["fit", "d.csv", "-s", "sex", "-k", "2", "--no-front", "--hold-out", "1e-320"],
            "--hold-out 9.99989e-321: no row of 200 is held out",
        ),
        (["fit", "d.csv", "-s", "sex", "--subsample", "inf"], "Got inf instead"),
        (["fit", "d.csv", "-s", "sex", "--batch-size", "1" + "0" * 400], "Got inf instead"),
    ],
    ids=["predict", "fit", "labels", "held out", "subsample", "batch size"],
)
def test_names_and_numbers_beyond_their_limits(tmp_path, monkeypatch, words, match):
    monkeypatch.chdir(tmp_path)
    FRAME.to_csv("d.csv", index=False)
    model().fit(FRAME, sensitive_features="sex").save("m.fairmix")
    found = run(*words)
    assert found.exit_code in (2, 3), (found.output, found.exception)
    assert match in " ".join(found.output.split())


@pytest.mark.parametrize("metadata", [{"facts": 3}, {"sensitive": 3}, {"facts": {"x": {"y": "z"}}}])
def test_metadata_may_be_anything(tmp_path, monkeypatch, metadata):
    monkeypatch.chdir(tmp_path)
    fitted_model = model().fit(FRAME, sensitive_features="sex")
    fitted_model.save("m.fairmix", metadata=metadata)
    FRAME.to_csv("d.csv", index=False)
    for words in (["info", "m.fairmix"], ["predict", "m.fairmix", "d.csv"]):
        found = run(*words)
        assert found.exit_code == 0, (found.output, found.exception)


def started(*words, **how):
    return subprocess.run(
        [sys.executable, "-m", "fairmix", *words], check=False, stderr=subprocess.PIPE, **how
    )


@pytest.mark.skipif(not FULL.exists(), reason="this system has no device that is full")
@pytest.mark.parametrize("words", [["--version"], ["info", "m.fairmix"], ["--help"]])
def test_standard_output_on_a_full_device(hostile, words):
    with FULL.open("w") as full:
        done = started(*words, stdout=full)
    assert done.returncode == 3
    assert done.stderr.decode() == "Error: the output cannot be written: No space left on device.\n"


def test_a_screen_without_the_characters_of_a_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    named = FRAME.rename(columns={"a": "größe"})
    model().fit(named, sensitive_features="sex").save("m.fairmix")
    done = started(
        "info", "m.fairmix", stdout=subprocess.PIPE, env={**os.environ, "PYTHONIOENCODING": "ascii"}
    )
    assert done.returncode == 0, done.stderr
    assert rb"gr\xf6\xdfe" in done.stdout


def test_a_file_whose_name_is_no_text(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    FRAME.to_csv("d.csv", index=False)
    os.rename(b"d.csv", b"d\xff.csv")
    done = started("fit", b"d\xff.csv", "-s", "sex", stdout=subprocess.PIPE)
    assert done.returncode == 3
    assert b"'d\\udcff.csv' has a name with characters that cannot be written." in done.stderr
    assert b"Rename the file" in done.stderr


def test_dask_names_the_partition_with_other_columns():
    distributed = pytest.importorskip("distributed")
    dask = pytest.importorskip("dask")
    dd = pytest.importorskip("dask.dataframe")
    frame = FRAME[["a", "b"]]
    other = copy.copy(frame).rename(columns={"b": "c"})
    parts = [dask.delayed(part) for part in (frame, other)]
    collection = dd.from_delayed(parts, meta=frame.iloc[:0], verify_meta=False)
    with (
        distributed.LocalCluster(
            processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster),
        pytest.raises(ValueError, match=r"Partition 1 of X has the columns \['a', 'c'\], the f"),
    ):
        model().fit(collection)
