"""Messy tables: what columns are taken for, on the command line and in Python."""

import json
import warnings

import pandas as pd
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import fairmix
from fairmix import ColumnWarning, FairMixture
from fairmix.cli import app
from tests.messy import N, messy_tables

TABLES = messy_tables()


@pytest.fixture(scope="module", params=TABLES)
def messy(request):
    return TABLES[request.param]


def test_the_command_says_what_columns_are_and_why(messy, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    messy.frame.to_csv("people.csv", index=False, **messy.writing)
    given = ["fit", "people.csv", "-s", "sex", "-k", "2", "--max-gap", "0.2", "--no-front"]
    run = CliRunner().invoke(app, [*given, "-o", "out", "--min-group-size", "30"])
    assert run.exit_code == 0, run.output
    found = json.loads((tmp_path / "out/metrics.json").read_text(encoding="utf-8"))["data"]
    taken = dict.fromkeys(found["numeric"], "numeric")
    taken |= dict.fromkeys(found["categorical"], "categorical")
    taken |= {name: reason.split(",")[0] for name, reason in found["left_out"].items()}
    assert taken == messy.kinds
    words = " ".join(run.stdout.split())
    for name in found["left_out"]:
        assert name in words.split("left out ")[1]
    assert "numeric age, hours" in words
    for name in messy.unjudged:
        assert f"not judged: {name} (4" in words
    if messy.proxies:
        assert "say most about sex" in words
    report = (tmp_path / "out/report.html").read_text(encoding="utf-8")
    for name, reason in found["left_out"].items():
        assert name in report
        assert reason.split(", ", 1)[1].split("'")[0] in report
    assert pq.read_table("out/labels.parquet").num_rows == N


def test_python_warns_and_leaves_the_table_alone(messy):
    frame = messy.frame if messy.python is None else messy.python
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = FairMixture(2, max_gap=0.2, random_state=0)
        if "born" in frame.columns:
            frame = frame.drop(columns=["born", "created_at"])
        model.fit(frame, sensitive_features="sex")
    said = [str(w.message) for w in caught if w.category is ColumnWarning]
    assert bool(said) == bool(messy.warned or messy.dropped)
    for name in messy.warned:
        assert f"'{name}'" in said[0]
    left = [name for name in frame.columns if name != "sex"]
    assert model.feature_names_in_.tolist() == left


def test_texts_of_which_none_comes_back_are_left_out_in_python(tmp_path):
    rows = 600
    frame = pd.DataFrame(
        {
            "age": [20.0 + i % 47 for i in range(rows)],
            "id": [f"c{i}" for i in range(rows)],
            "sex": ["f", "m", "m"] * (rows // 3),
        }
    )
    model = FairMixture(2, max_gap=0.1, random_state=0)
    with pytest.warns(ColumnWarning, match="'id' is left out: texts, hardly one twice") as caught:
        model.fit(frame, sensitive_features="sex")
    assert caught[0].filename == __file__
    assert model.feature_names_in_.tolist() == ["age"]
    # With the column or without it, and from a file.
    labels = model.predict(frame).tolist()
    assert model.predict(frame[["age"]]).tolist() == labels
    again = fairmix.load(model.save(tmp_path / "m.fairmix"))
    assert again.predict(frame).tolist() == labels
    frame.to_parquet(tmp_path / "rows.parquet", index=False)
    filed = FairMixture(2, max_gap=0.1, random_state=0)
    with pytest.warns(ColumnWarning, match="'id' is left out"):
        filed.fit(tmp_path / "rows.parquet", sensitive_features="sex")
    assert filed.feature_names_in_.tolist() == ["age"]
    assert filed.predict(frame).tolist() == labels
    # Named, it is clustered by.
    named = FairMixture(2, max_gap=0.1, random_state=0, categorical_features=["id"])
    named.fit(frame[::5], sensitive_features="sex")
    assert named.feature_names_in_.tolist() == ["age", "id"]


def test_an_array_is_taken_as_it_is():
    X = messy_tables()["ids"].frame[["age", "customer_no"]]
    FairMixture(2, random_state=0).fit(X.to_numpy(dtype=float))
    with pytest.warns(ColumnWarning, match="customer_no"):
        FairMixture(2, random_state=0).fit(X)
