"""Missing values on the command line: integrated out, left out, or refused."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fairmix import FairMixture, load
from test_cli import FAST, people, run

FIT = ["-s", "sex", "--drop", "cluster", *FAST]
GAPS = {"age": [3, 700], "town": [5], "member": [3, 8]}
COUNTED = "age (2), town (1), member (2)"


def frame_with_gaps():
    frame = people().astype({"member": "Int64"})
    for name, rows in GAPS.items():
        frame.loc[rows, name] = None
    return frame


@pytest.fixture(params=["csv", "parquet"])
def path(request, tmp_path, monkeypatch):
    """The table with gaps, as a file in the working folder."""
    monkeypatch.chdir(tmp_path)
    name = f"gaps.{request.param}"
    if request.param == "csv":
        frame_with_gaps().to_csv(name, index=False)
    else:
        pq.write_table(pa.Table.from_pandas(frame_with_gaps(), preserve_index=False), name)
    return name


def labels_of(folder):
    return pq.read_table(f"{folder}/labels.parquet")["cluster"].to_pylist()


def test_fit_integrates_out(path):
    for memory in ("512", "0"):
        found = run("fit", path, *FIT, "--memory", memory, "-o", memory)
        said = " ".join(found.stderr.split())
        assert f"Values are missing: {COUNTED}. They are integrated out" in said
    assert labels_of("0") == labels_of("512")
    frame = frame_with_gaps()
    X = frame[["age", "income", "town"]].assign(
        member=frame["member"].astype(object).map(str, na_action="ignore")
    )
    model = FairMixture(3, max_gap=0.05, standardize=True, random_state=1)
    model.fit(X, sensitive_features=frame["sex"])
    assert labels_of("0") == model.labels_.tolist()
    data = json.loads(Path("0/metrics.json").read_text("utf-8"))["data"]
    assert data["missing"] == {name: len(rows) for name, rows in GAPS.items()}
    assert data["missing_values"] == "integrate"
    assert "integrated out of the likelihood" in Path("0/report.html").read_text("utf-8")


def test_predict_integrates_out(path):
    run("fit", path, *FIT)
    found = run("predict", "results/model.fairmix", path, "-o", "new.parquet", "--json")
    assert pq.read_table("new.parquet")["cluster"].to_pylist() == labels_of("results")
    assert json.loads(found.stdout)["labelled"] == 900
    assert COUNTED in " ".join(found.stderr.split())


def test_rows_are_left_out(path):
    for memory in ("512", "0"):
        given = ["--missing", "drop-rows", "--memory", memory, "-o", memory]
        found = run("fit", path, *FIT, *given)
        said = " ".join(found.stderr.split())
        assert f"Rows without a value are left out: {COUNTED}." in said
    labels = labels_of("0")
    assert labels_of("512") == labels
    assert [i for i, label in enumerate(labels) if label is None] == [3, 5, 8, 700]
    assert load("0/model.fairmix").group_sizes_.sum() == 896


@pytest.mark.parametrize("command", ["fit", "pareto"])
def test_an_error_is_an_error(command, path):
    given = ["-s", "sex", "--drop", "cluster", "-k", "3", "--missing", "error"]
    failed = run(command, path, *given, code=3)
    assert COUNTED in failed.stderr
    assert "--missing drop-rows" in failed.stderr
    assert len(failed.stderr.splitlines()) == 1


def test_what_cannot_be_integrated_out(path):
    failed = run("fit", path, *FIT, "--covariance-type", "full", code=3)
    assert "needs complete rows" in failed.stderr
    assert not Path("results").exists()


def test_methods_that_need_complete_rows_leave_others_out(path):
    given = ["-s", "sex", "--drop", "cluster", "-k", "2"]
    found = run("compare", path, *given)
    assert "Rows without a value are left out: age (2), town (1), member (2)." in found.stderr
    assert "896 of 900 rows are compared." in found.stderr


def test_groups_are_not_guessed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = frame_with_gaps()
    frame.loc[[1, 2], "sex"] = None
    frame.to_csv("people.csv", index=False)
    for command in (["fit", *FIT], ["audit", "-l", "cluster", "-s", "sex"]):
        failed = run(command[0], "people.csv", *command[1:], code=3)
        assert "rows: sex (2). Leave these rows out" in failed.stderr
    run("fit", "people.csv", *FIT, "--missing", "drop-rows")
    empty = [i for i, label in enumerate(labels_of("results")) if label is None]
    assert empty == [1, 2, 3, 5, 8, 700]


@pytest.mark.long
def test_front_choice_and_certificate_take_gaps(path):
    given = ["-s", "sex", "--drop", "cluster", "--max-gap", "0.3"]
    run("fit", path, *given, "-k", "auto", "--hold-out", "0.3", "--seed", "1")
    metrics = json.loads(Path("results/metrics.json").read_text("utf-8"))
    assert metrics["certificate"]["n_rows"] + metrics["data"]["rows_of_the_fit"] == 900
    found = run("pareto", path, *given, "-k", "2", "--json")
    rows = json.loads(found.stdout)["rows"]
    assert [row["met"] for row in rows] == [True]
    assert np.isfinite(rows[0]["nll"])


def test_categories_that_only_some_rows_have(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = people()
    frame["town"] = frame["town"].where(np.arange(900) % 90 > 0, frame["number"].astype(str))
    frame.to_csv("people.csv", index=False)
    run("fit", "people.csv", *FIT, "--hold-out", "0.5")
    model = load("results/model.fairmix")
    known = set(model.categories_[0].tolist())
    assert {"Lima", "Oslo", "Rome"} < known < set(frame["town"])
    assert None not in labels_of("results")
    frame.assign(town="Mars").to_csv("new.csv", index=False)
    run("predict", "results/model.fairmix", "new.csv", "-o", "a.csv")
    strict = ["--hold-out", "0.5", "--unknown", "error", "-o", "strict"]
    failed = run("fit", "people.csv", *FIT, *strict, code=3)
    assert "categories that the model has not seen" in failed.stderr
