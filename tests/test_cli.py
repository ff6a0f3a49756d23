"""The commands: what they write, print and answer, on a small table."""

import json
import subprocess
import sys
from pathlib import Path
from typing import get_args

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from fairmix import FairMixture, __version__, load
from fairmix.cli import app, options
from fairmix.cli.files import InputFiles
from fairmix.cli.screen import in_options
from fairmix.cli.texts import comparison_text, shares_text
from fairmix.metrics import gap
from fairmix.results.profile import Profile
from fairmix.studies import Comparison, MethodRow, compare, default_methods

FILES = ["labels.parquet", "metrics.json", "model.fairmix", "report.html"]
FAST = ["-k", "3", "--max-gap", "0.05", "--no-front", "--seed", "1"]


def people(n_rows=900, seed=0):
    """A table with a column of every role."""
    rng = np.random.default_rng(seed)
    cluster = rng.integers(3, size=n_rows)
    sex = np.where(rng.random(n_rows) < 0.3 + 0.2 * cluster, "f", "m")
    return pd.DataFrame(
        {
            "number": np.arange(1000, 1000 + n_rows),
            "age": np.round(30 + 8 * cluster + 4 * rng.normal(size=n_rows), 2),
            "income": np.round(2000 + 900 * cluster + 300 * rng.normal(size=n_rows)),
            "town": rng.choice(["Oslo", "Rome", "Lima"], n_rows),
            "member": rng.integers(2, size=n_rows),
            "joined": pd.date_range("2020-01-01", periods=n_rows).strftime("%Y-%m-%d"),
            "country": "here",
            "sex": sex,
            "cluster": cluster,
        }
    )


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder with the table as CSV, and without the clusters as Parquet files."""
    monkeypatch.chdir(tmp_path)
    frame = people()
    frame.to_csv("people.csv", index=False)
    table = pa.Table.from_pandas(frame.drop(columns="cluster"), preserve_index=False)
    Path("parts").mkdir()
    pq.write_table(table.slice(0, 500), "parts/1.parquet", row_group_size=200)
    pq.write_table(table.slice(500), "parts/2.parquet")
    return tmp_path


def run(*words, code=0):
    found = CliRunner().invoke(app, list(map(str, words)))
    assert found.exit_code == code, found.output
    return found


def labels_of(path="results/labels.parquet"):
    return pq.read_table(path)["cluster"].to_numpy()


def test_fit_writes_everything(folder):
    found = run("fit", "people.csv", "-s", "sex", "--drop", "cluster", *FAST)
    assert sorted(p.name for p in Path("results").iterdir()) == FILES
    assert sorted(p.name for p in folder.iterdir()) == ["parts", "people.csv", "results"]
    labels = labels_of()
    metrics = json.loads(Path("results/metrics.json").read_text("utf-8"))
    sex = people()["sex"]
    assert metrics["label_gap"] == pytest.approx(gap(labels, sex), abs=1e-12)
    assert metrics["met"] is True
    assert metrics["gap"] <= 0.05
    crossed = pd.crosstab(sex, labels)
    assert metrics["counts"] == {name: crossed.loc[name].tolist() for name in ("f", "m")}
    assert metrics["data"]["numeric"] == ["age", "income"]
    assert metrics["data"]["categorical"] == ["town", "member"]
    assert list(metrics["data"]["left_out"]) == ["number", "joined", "country"]
    model = load("results/model.fairmix")
    assert model.metadata_["sensitive"] == ["sex"]
    assert model.standardize
    assert [c.tolist() for c in model.categories_] == [["Lima", "Oslo", "Rome"], ["0", "1"]]
    assert f"Bound met: the gap of the labels is {metrics['gap']:.4f}" in found.stdout
    assert "900 rows, 9 columns" in found.stdout
    assert "number: identifier-like" in found.stdout
    assert max(map(len, found.stdout.splitlines())) <= 80
    page = Path("results/report.html").read_text("utf-8")
    assert metrics["data"]["sha256"] in page


def test_fit_is_the_fit_of_the_library(folder):
    run("fit", "people.csv", "-s", "sex", "--drop", "cluster", *FAST)
    frame = people()[["age", "income", "town", "member", "sex"]].astype({"member": str})
    model = FairMixture(3, max_gap=0.05, standardize=True, random_state=1)
    model.fit(frame, sensitive_features="sex")
    np.testing.assert_array_equal(labels_of(), model.labels_)


def test_memory_and_files_give_the_same_bits(folder):
    given = ["-s", "sex", *FAST, "--hold-out", "0.2", "--quiet"]
    run("fit", "parts", *given, "-o", "a")
    run("fit", "parts", *given, "-o", "b", "--memory", "0")
    run("fit", "people.csv", "--drop", "cluster", *given, "-o", "c", "--memory", "0")
    metrics = [json.loads(Path(f, "metrics.json").read_text("utf-8")) for f in "abc"]
    for name in ("gap", "counts", "certificate", "label_gap", "soft_gap"):
        assert metrics[0][name] == metrics[1][name] == metrics[2][name]
    assert metrics[0]["certificate"]["n_rows"] == 900 - metrics[0]["data"]["rows_of_the_fit"]
    assert metrics[0]["data"]["sha256"] != metrics[2]["data"]["sha256"]
    for other in "bc":
        np.testing.assert_array_equal(
            labels_of("a/labels.parquet"), labels_of(f"{other}/labels.parquet")
        )
        assert sorted(p.name for p in Path(other).iterdir()) == FILES
    held = pq.read_table("a/labels.parquet")["held_out"].to_numpy()
    assert held.sum() == metrics[0]["certificate"]["n_rows"]


def test_several_sensitive_columns_form_intersections(folder):
    given = ["-s", "sex", "-s", "town", "-k", "2", "--max-gap", "0.1", "--no-front"]
    for memory in ("512", "0"):
        run("fit", "parts", *given, "--memory", memory, "-o", memory)
    labels = labels_of("0/labels.parquet")
    np.testing.assert_array_equal(labels, labels_of("512/labels.parquet"))
    frame = people()[["age", "income", "member", "sex", "town"]]
    for memory in ("512", "0"):
        model = load(f"{memory}/model.fairmix")
        assert model.groups_[:2].tolist() == ["f & Lima", "f & Oslo"]
        np.testing.assert_array_equal(model.predict(frame), labels)


def test_fit_of_files_neither_copies_nor_loads_them(folder, monkeypatch):
    gather = InputFiles.gather

    def some(self, rows, at_most=None):
        assert at_most, "all in memory"
        return gather(self, rows, at_most)

    monkeypatch.setattr(InputFiles, "gather", some)
    monkeypatch.setattr(pq.ParquetWriter, "write_table", lambda *_: pytest.fail("a copy"))
    run("fit", "parts", "-s", "sex", *FAST, "--memory", "0", "--labels-format", "csv")
    assert pcsv.read_csv("results/labels.csv").num_rows == 900


def test_auto_chooses_the_number_of_clusters(folder):
    given = ["--max-gap", "0.3", "--no-front", "--numeric", "member", "--drop", "town"]
    found = run("fit", "people.csv", "-s", "sex", "--drop", "cluster", "-k", "auto", *given)
    metrics = json.loads(Path("results/metrics.json").read_text("utf-8"))
    assert metrics["data"]["numeric"] == ["age", "income", "member"]
    assert 2 <= metrics["n_clusters"] <= 10
    assert load("results/model.fairmix").n_components == metrics["n_clusters"]
    # Table, choice and reason are on the screen and in the report, as is how sure it is.
    words = " ".join(found.stdout.split())
    reason = f"{metrics['n_clusters']} has the lowest BIC."
    page = Path("results/report.html").read_text("utf-8")
    assert "clusters BIC above the best" in words
    for text in (reason, " of the rows alone choose "):
        assert text in words
        assert text in " ".join(page.split("How the number of clusters was chosen")[1].split())


def test_strict_json_and_quiet(folder):
    # The paper's solvers learn from the sample alone.
    missed = [*FAST, "--max-gap", "0", "--solver", "em", "--subsample", "60"]
    found = run("fit", "parts", "-s", "sex", *missed, "--strict", "--json", code=1)
    metrics = json.loads(found.stdout)
    assert metrics["met"] is False
    assert "Note: " in found.stderr
    assert sorted(p.name for p in Path("results").iterdir()) == FILES, "written all the same"
    quiet = run("fit", "parts", "-s", "sex", *FAST, "--quiet", "-o", "more")
    assert quiet.output == ""


def test_nothing_is_overwritten_unasked(folder):
    run("fit", "parts", "-s", "sex", *FAST)
    before = Path("results/metrics.json").read_bytes()
    Path("results/notes.txt").write_text("mine", encoding="utf-8")
    again = run("fit", "parts", "-s", "sex", *FAST, code=2)
    assert "--force" in again.stderr
    assert Path("results/metrics.json").read_bytes() == before
    run("fit", "parts", "-s", "sex", *FAST, "--max-gap", "0.1", "--force")
    assert Path("results/metrics.json").read_bytes() != before
    assert Path("results/notes.txt").read_text(encoding="utf-8") == "mine"


def test_predict_gives_the_labels_of_the_fit(folder):
    for assignment in ("blind", "aware"):
        given = [*FAST, "--assignment", assignment, "-o", assignment]
        run("fit", "parts", "-s", "sex", *given)
        model = f"{assignment}/model.fairmix"
        found = run("predict", model, "people.csv", "-o", f"{assignment}.csv", "--json")
        labels = pcsv.read_csv(f"{assignment}.csv")["cluster"].to_numpy()
        np.testing.assert_array_equal(labels, labels_of(f"{assignment}/labels.parquet"))
        assert json.loads(found.stdout)["sizes"] == np.bincount(labels, minlength=3).tolist()
    assert "exists" in run("predict", model, "parts", "-o", "aware.csv", code=2).stderr


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"drop": ["town"]}, "new.csv lacks columns of the model: town."),
        ({"town": "Mars"}, "categories that the model has not seen: 'Mars'"),
        ({"age": "old"}, "'age' cannot be read as numbers"),
        ({"age": None}, "none of its 900 rows has a value"),
    ],
)
def test_predict_refuses_rows_that_do_not_fit(changed, message, folder):
    run("fit", "parts", "-s", "sex", *FAST)
    frame = people().drop(columns=changed.pop("drop", [])).assign(**changed)
    frame.to_csv("new.csv", index=False)
    failed = run("predict", "results/model.fairmix", "new.csv", "-o", "new-labels.csv", code=3)
    assert message in failed.stderr
    assert len(failed.stderr.splitlines()) == 1
    assert not Path("new-labels.csv").exists()


def test_audit_measures_any_labels(folder):
    given = ["audit", "people.csv", "--labels", "cluster", "-s", "sex"]
    found = run(*given, "--out", "report.html", "--json", "--max-gap", "0.01")
    figures = json.loads(found.stdout)
    frame = people()
    assert figures["figures"]["gap"]["value"] == pytest.approx(gap(frame["cluster"], frame["sex"]))
    assert figures["clusters"] == ["0", "1", "2"]
    assert figures["counts"]["f"] == pd.crosstab(frame["sex"], frame["cluster"]).loc["f"].tolist()
    assert figures["met"] is False
    assert "<html" in Path("report.html").read_text("utf-8")
    run(*given, "--max-gap", "0.01", "--strict", code=1)
    run(*given, "--max-gap", "0.9", "--strict")
    assert "--max-gap" in run(*given, "--strict", code=2).stderr
    text = run(*given).stdout
    assert max(map(len, text.splitlines())) <= 80


def test_pareto_draws_the_front(folder):
    given = ["-k", "2", "--max-gap", "0.02", "--max-gap", "0.2", "--out", "front"]
    found = run("pareto", "parts", "-s", "sex", *given)
    rows = json.loads(Path("front/front.json").read_text("utf-8"))["rows"]
    assert [row["max_gap"] for row in rows] == [0.02, 0.2]
    assert all(row["met"] for row in rows)
    assert Path("front/front.png").read_bytes().startswith(b"\x89PNG")
    assert max(map(len, found.stdout.splitlines())) <= 80


def test_compare_measures_the_numeric_columns(folder):
    given = ["people.csv", "-s", "sex", "-k", "3", "--test-size", "0.5", "--drop", "cluster"]
    found = run("compare", *given)
    assert max(map(len, found.stdout.splitlines())) <= 80
    assert "On 450 held-out rows" in found.stdout
    assert "town, member" in found.stderr
    frame = people()
    X = frame[["age", "income"]].to_numpy()
    kmeans = {"K-means": default_methods(3)["K-means"]}
    scaled = (X - X.mean(axis=0)) / X.std(axis=0)
    row = compare(kmeans, scaled, sensitive_features=frame["sex"], test_size=0.5).rows[0]
    line = next(line for line in found.stdout.splitlines() if line.startswith("K-means"))
    assert line.split()[1:3] == [f"{row.cost:.1f}", f"{row.gap:.4f}"]
    assert "no such groups" in run("compare", "-s", "age", code=3).stderr


def test_info_tells_what_a_model_is(folder):
    run("fit", "parts", "-s", "sex", *FAST, "--assignment", "aware")
    found = json.loads(run("info", "results/model.fairmix", "--json").stdout)
    model = load("results/model.fairmix")
    assert found["gap"] == model.gap_
    assert found["assignment"] == "aware"
    assert found["groups"] == people()["sex"].value_counts().to_dict()
    assert "age, income" in run("info", "results/model.fairmix").stdout
    Path("broken.fairmix").write_bytes(b"nothing")
    broken = run("info", "broken.fairmix", code=3)
    assert broken.stderr.startswith("Error: ")
    assert len(broken.stderr.splitlines()) == 1


def test_version_and_completion():
    assert run("--version").stdout == f"fairmix {__version__}\n"
    assert "--install-completion" in run("--help").stdout


def test_progress_goes_to_a_terminal_only(folder):
    command = [sys.executable, "-m", "fairmix", "fit", "parts", "-s", "sex", *FAST]
    found = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder)
    assert found.stderr == ""


@pytest.mark.parametrize(
    ("option", "parameter"),
    [
        ("Assignment", "assignment"),
        ("Ties", "ties"),
        ("GapOf", "gap_of"),
    ],
)
def test_choices_are_those_of_the_estimator(option, parameter):
    kind = get_args(getattr(options, option))[0]
    literal = next((k for k in get_args(kind) if get_args(k)), kind)
    allowed = FairMixture._parameter_constraints[parameter][0].options
    assert set(get_args(literal)) == allowed


def test_the_help_names_the_solvers_of_the_estimator():
    metavar = get_args(options.Solver)[1].metavar
    allowed = FairMixture._parameter_constraints["solver"][0].options
    assert set(metavar.strip("<>").split("|")) == set(allowed)


@pytest.mark.parametrize(
    ("names", "parameter"),
    [(options.criteria, "criterion"), (options.covariance_types, "covariance_type")],
)
def test_registers_are_those_of_the_estimator(names, parameter):
    assert names() == FairMixture._parameter_constraints[parameter][0].options
    assert options.completions(names)() == list(names())


def test_messages_name_options():
    said = "assignment='aware' needs solver='dual'. Lower n_components=10 or min_group_size=30."
    expected = "--assignment aware needs --solver dual. Lower --clusters 10 or --min-group-size 30."
    assert in_options(said) == expected
    said = "`max_iter` was reached before the objective settled; raise `max_iter` or `tol`"
    assert "max_iter" not in in_options(said)
    # Words of a sentence stay, and so do options.
    for text in ("The criterion of the margin.", "--min-ratio 0.8, or --ties split."):
        assert in_options(text) == text


def test_a_comparison_tells_what_happened_and_no_parameters():
    warned = (
        "The gap of the labels is 0.018, above max_gap=0.01, by about 1 rows. Raise n_init.",
        "`max_iter` was reached before the objective settled; raise `max_iter` or `tol`",
    )
    failed = "ValueError: sensitive_features holds 6 groups: a, b. Merge groups."
    found = Comparison((MethodRow("a", warnings=warned), MethodRow("b", error=failed)))
    assert comparison_text(found).split("\n\n")[-3:] == [
        "a: The gap of the labels is 0.018, above --max-gap 0.01, by about 1 rows.",
        "a: The steps of the fit ended before the objective settled.",
        "b: --sensitive holds 6 groups: a, b. Merge groups.",
    ]


def test_what_an_unknown_option_says_gives_no_orders_to_a_terminal():
    found = CliRunner().invoke(app, ["fit", "a.csv", "--bad\u202ex"])
    assert found.exit_code == 2
    assert "No such option: --bad\\u202ex" in found.output


def test_many_groups_are_all_in_tables():
    counts = np.arange(1, 19).reshape(6, 3) * 10
    profile = Profile(groups=[f"a long name {g}" for g in range(6)], n_clusters=3)
    profile.counts += counts
    lines = shares_text(profile).splitlines()
    assert max(map(len, lines)) <= 80
    for g in range(6):
        assert sum(f"a long name {g}" in line for line in lines) == 1


def test_labels_come_with_the_column_that_tells_rows_apart(folder):
    frame = pd.read_csv("people.csv").drop(columns=["cluster", "number"])
    frame.insert(0, "customer_no", np.random.default_rng(1).permutation(len(frame)) + 7000)
    frame.to_csv("named.csv", index=False)
    run("fit", "named.csv", "-s", "sex", *FAST, "--labels-format", "csv", "--probabilities")
    found = pd.read_csv("results/labels.csv")
    assert found["customer_no"].tolist() == frame["customer_no"].tolist()
    probabilities = found.filter(like="probability_").to_numpy()
    assert probabilities.sum(axis=1) == pytest.approx(1)
    assert probabilities.argmax(axis=1).tolist() == found["cluster"].tolist()
    run("predict", "results/model.fairmix", "named.csv", "-o", "new.csv", "--append")
    new = pd.read_csv("new.csv")
    assert new.columns.tolist() == [*frame.columns, "cluster"]
    assert new["cluster"].tolist() == found["cluster"].tolist()
    pd.testing.assert_frame_equal(new[frame.columns], frame, check_dtype=False)
    # An input is no output, whatever --force says.
    again = ["predict", "results/model.fairmix", "named.csv", "-o", "named.csv", "--append"]
    run(*again, "--force", code=2)
    # A table that has such a column already is told.
    frame.assign(cluster=1).to_csv("taken.csv", index=False)
    told = run("predict", "results/model.fairmix", "taken.csv", "-o", "x.csv", "--append", code=3)
    assert "has a column 'cluster'" in told.stderr
