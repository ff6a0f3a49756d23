"""The verdict on the command line: five words, rare groups, held-out rows, missing groups."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from fairmix import FairMixture, load
from fairmix.metrics import gap
from repetition import long
from test_cli import FAST, people, run
from test_report import Page

PART = "met for the judged groups"


def write(frame, name="people.csv"):
    frame.to_csv(name, index=False)
    return name


def strangers(n=2, n_rows=900):
    """A table in which so many people are of a third sex."""
    frame = people(n_rows)
    frame.loc[np.linspace(0, n_rows - 1, n).astype(int), "sex"] = "x"
    return frame


def fit(*words, code=0, force=True):
    given = ["people.csv", "-s", "sex", "--drop", "cluster", *FAST, *words]
    return run("fit", *given, *(["--force"] if force else []), code=code)


def metrics(folder="results"):
    return json.loads(Path(folder, "metrics.json").read_text("utf-8"))


def report(folder="results"):
    return Page(Path(folder, "report.html").read_text("utf-8")).words


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_two_strangers_are_not_judged_and_not_called_met(folder):
    write(strangers())
    found = fit()
    said = " ".join(found.stdout.split())
    assert f"Bound {PART}: the gap of the labels is " in said
    assert "not judged: x (2 rows)" in said
    assert "Not judged: 'x' (2 rows)." in " ".join(found.stderr.split())
    assert max(map(len, found.stdout.splitlines())) <= 80
    figures = metrics()
    assert (figures["verdict"], figures["met"], figures["unjudged"]) == (PART, True, {"x": 2})
    labels = pq.read_table("results/labels.parquet")["cluster"].to_numpy()
    known = strangers()["sex"].to_numpy() != "x"
    assert figures["gap"] == pytest.approx(gap(labels[known], strangers()["sex"][known]))
    assert figures["gap"] <= 0.05
    largest = (strangers()["sex"].value_counts()).iloc[0]
    assert figures["resolution"] == pytest.approx(1 / largest)
    assert sum(figures["counts"]["x"]) == 2
    words = report()
    assert f"The bound is {PART}: " in words
    assert "Not judged: x (fewer than 10 rows)." in words
    assert "rows about 900" in words
    assert "(2 rows)" not in words
    assert " 900 " not in words.replace("about 900", "")
    assert 'class="verdict partly"' in Path("results/report.html").read_text("utf-8")


def test_strict_passes_on_judged_groups_only_when_asked_for(folder):
    write(strangers())
    assert "give --min-group-size" in " ".join(fit("--strict", code=1).stderr.split())
    fit("--strict", "--min-group-size", "30")
    assert metrics()["settings"]["min_group_size"] == 30
    fit("--min-group-size", "1")
    assert metrics()["unjudged"] == {}
    assert metrics()["verdict"] in ("met", "missed")
    assert "--min-group-size" in fit("--min-group-size", "0", code=2).stderr
    write(people())
    fit("--strict")
    assert metrics()["verdict"] == "met"


def test_one_judged_group_is_no_verdict(folder):
    write(strangers(n=20).replace({"sex": {"f": "m"}}))
    found = fit("--strict", "--min-group-size", "30", code=1)
    assert "Bound not judged: fewer than two groups have enough rows" in found.stdout
    assert "not judged: x (20 rows)" in found.stdout
    figures = metrics()
    assert (figures["verdict"], figures["met"], figures["gap"]) == ("not judged", None, None)
    words = report()
    assert "The bound is not judged: fewer than two groups have enough rows." in words
    assert "Not judged: x (20 rows)." in words
    assert "gap not judged smallest ratio not judged balance not judged" in words
    assert 'class="verdict measured"' in Path("results/report.html").read_text("utf-8")
    told = " ".join(run("info", "results/model.fairmix").stdout.split())
    assert "not judged x 20 verdict not judged" in told
    told = json.loads(run("info", "results/model.fairmix", "--json").stdout)
    assert (told["unjudged"], told["verdict"]) == ({"x": 20}, "not judged")


def test_without_a_bound_nothing_is_met(folder):
    write(people())
    audit = ["audit", "people.csv", "-l", "cluster", "-s", "sex", "--out", "audit.html"]
    value = gap(people()["cluster"], people()["sex"])
    assert f"No bound: the gap is {value:.4f}." in run(*audit).stdout
    told = json.loads(run(*audit, "--force", "--json").stdout)
    assert (told["verdict"], told["met"]) == ("no bound", None)
    page = Path("audit.html").read_text("utf-8")
    assert "No bound is set. The largest difference" in Page(page).words
    assert 'class="verdict measured"' in page


def test_an_audit_says_what_the_fit_says(folder):
    """A bound of 0 is met to within one row, by the fit and by an audit of its labels."""
    write(people())
    found = fit("--max-gap", "0", "--assignment", "aware", "--strict")
    figures = metrics()
    assert 0 < figures["gap"] <= figures["resolution"]
    assert "Whole rows come no closer." in " ".join(
        fit("--max-gap", "0", "--assignment", "aware").stdout.split()
    )
    labels = pq.read_table("results/labels.parquet")["cluster"].to_numpy()
    write(people().assign(cluster=labels), "labelled.csv")
    audit = ["audit", "labelled.csv", "-l", "cluster", "-s", "sex", "--max-gap", "0"]
    found = run(*audit, "--strict", "--json", "-o", "audit.html")
    told = json.loads(found.stdout)
    for name in ("verdict", "met", "resolution", "unjudged"):
        assert told[name] == figures[name]
    assert told["gap"] == pytest.approx(figures["gap"])
    assert "The bound is met: " in Page(Path("audit.html").read_text("utf-8")).words
    moved = labels.copy()
    moved[np.flatnonzero(people()["sex"] == "f")[:9]] = 0
    write(people().assign(cluster=moved), "labelled.csv")
    assert "BOUND MISSED" in run(*audit, "--strict", code=1).stdout


def test_an_audit_leaves_rare_groups_out(folder):
    frame = strangers(3)
    write(frame)
    known = frame[frame["sex"] != "x"]
    audit = ["audit", "people.csv", "-l", "cluster", "-s", "sex"]
    bound = [*audit, "--max-gap", "0.9", "--strict"]
    found = run(*bound, "--json", "--out", "audit.html", code=1)
    told = json.loads(found.stdout)
    assert (told["verdict"], told["unjudged"]) == (PART, {"x": 3})
    assert told["figures"]["gap"]["value"] == pytest.approx(gap(known["cluster"], known["sex"]))
    assert told["gap"] == pytest.approx(told["figures"]["gap"]["value"])
    words = Page(Path("audit.html").read_text("utf-8")).words
    assert "Not judged: x (fewer than 10 rows)." in words
    assert f"The bound is {PART}: " in words
    run(*bound, "--min-group-size", "30")
    everybody = json.loads(run(*audit, "--min-group-size", "1", "--json").stdout)
    assert everybody["figures"]["gap"]["value"] == pytest.approx(
        gap(frame["cluster"], frame["sex"])
    )
    assert (everybody["verdict"], everybody["met"]) == ("no bound", None)
    said = run(*bound, "--min-group-size", "2000", code=1).stdout
    assert "Bound not judged" in said
    assert "gap             -" in said


def test_an_audit_of_very_many_rows_has_the_same_figures(folder, monkeypatch):
    write(strangers(3))
    audit = ["audit", "people.csv", "-l", "cluster", "-s", "sex", "--json"]
    before = json.loads(run(*audit).stdout)["figures"]
    monkeypatch.setattr("fairmix.cli.auditing.BOOTSTRAP_ROWS", 0)
    figures = json.loads(run(*audit).stdout)["figures"]
    for name in ("gap", "additive_gap", "worst_pair_gap", "balance"):
        assert figures[name]["value"] == pytest.approx(before[name]["value"])
        assert figures[name]["low"] is None
    alone = json.loads(run(*audit, "--min-group-size", "1000").stdout)
    assert alone["figures"]["gap"]["value"] is None


@pytest.mark.parametrize("memory", ["512", long("0")])
def test_missing_groups_are_an_error_dropped_or_a_group(folder, memory):
    frame = people()
    frame.loc[np.arange(0, 900, 18), "sex"] = None
    write(frame)
    failed = fit("--memory", memory, code=3)
    assert "--missing-groups" in failed.stderr
    X = frame[["age", "income", "town"]].assign(member=frame["member"].astype(str))
    for how in ("drop", "group"):
        found = fit("--missing-groups", how, "--memory", memory)
        said = " ".join(found.stderr.split())
        assert {"drop": "count for nothing: sex (50)", "group": "'missing': sex (50)"}[how] in said
        model = FairMixture(
            3, max_gap=0.05, standardize=True, random_state=1, missing_groups=how
        ).fit(X, sensitive_features=frame["sex"])
        labels = pq.read_table("results/labels.parquet")["cluster"].to_numpy()
        np.testing.assert_array_equal(labels, model.labels_)
        counts = metrics()["counts"]
        known = frame["sex"].fillna("missing")
        for name in ["f", "m", *(["missing"] if how == "group" else [])]:
            expected = np.bincount(labels[known == name], minlength=3)
            assert counts[name] == expected.tolist()
        assert len(counts) == (3 if how == "group" else 2)
        assert load("results/model.fairmix").missing_groups == how
    run(
        "fit",
        "people.csv",
        "-s",
        "sex",
        "--drop",
        "cluster",
        *FAST,
        "--missing",
        "drop-rows",
        "-o",
        "left",
    )
    left = pq.read_table("left/labels.parquet")["cluster"].to_pylist()
    assert [i for i, label in enumerate(left) if label is None] == list(range(0, 900, 18))


def test_missing_groups_of_other_commands(folder):
    frame = people()
    frame.loc[np.arange(0, 900, 18), "sex"] = None
    write(frame)
    audit = ["audit", "people.csv", "-l", "cluster", "-s", "sex", "--json"]
    run(*audit, code=3)
    known = frame["sex"].notna()
    dropped = json.loads(run(*audit, "--missing-groups", "drop").stdout)
    expected = gap(frame["cluster"][known], frame["sex"][known])
    assert dropped["figures"]["gap"]["value"] == pytest.approx(expected)
    assert dropped["rows"] == 850
    grouped = json.loads(run(*audit, "--missing-groups", "group").stdout)
    assert sum(grouped["counts"]["missing"]) == 50
    given = ["people.csv", "-s", "sex", "-k", "2", "--drop", "cluster", "--json"]
    front = ["--max-gap", "0.1", "--missing-groups", "group"]
    assert json.loads(run("pareto", *given, *front).stdout)["rows"][0]["verdict"] == "met"
    compared = json.loads(run("compare", *given, "--missing-groups", "drop").stdout)
    assert compared["n_train"] == 850


def test_an_aware_model_places_rows_without_a_group(folder):
    frame = people()
    frame.loc[:40, "sex"] = None
    write(frame)
    fit("--missing-groups", "drop", "--assignment", "aware")
    labels = pq.read_table("results/labels.parquet")["cluster"].to_pylist()
    assert None not in labels
    run("predict", "results/model.fairmix", "people.csv", "-o", "again.parquet")
    assert pq.read_table("again.parquet")["cluster"].to_pylist() == labels


def test_a_front_shows_the_words_in_80_columns(folder):
    write(strangers())
    given = ["people.csv", "-s", "sex", "-k", "2", "--drop", "cluster"]
    bounds = ["--max-gap", "0.02", "--max-gap", "0.2", "--max-gap", "inf"]
    found = run("pareto", *given, *bounds)
    assert max(map(len, found.stdout.splitlines())) <= 80
    assert found.stdout.count(PART) == 2
    assert "not judged: x (2 rows)" in found.stdout
    told = json.loads(run("pareto", *given, *bounds, "--json").stdout)["rows"]
    assert [row["verdict"] for row in told] == [PART, PART, "no bound"]
    assert [row["met"] for row in told] == [True, True, None]
    judged = json.loads(run("pareto", *given, *bounds, "--min-group-size", "1", "--json").stdout)
    assert judged["rows"][1]["verdict"] in ("met", "missed")


def test_a_comparison_shows_the_words(folder):
    write(strangers(12))
    given = ["people.csv", "-s", "sex", "-k", "3", "--drop", "cluster"]
    found = run("compare", *given, "--test-size", "0.5")
    said = " ".join(found.stdout.split())
    assert f"fair mixture, aware {PART} (0.01)" in said
    assert re.search(r"Smallest ratio: K-means 0\.\d{3}; .*fair mixture, aware 0\.\d{3}[;.]", said)
    assert "not judged: x (" in said
    assert "On held-out rows: fair mixture, blind missed" in said
    assert max(map(len, found.stdout.splitlines())) <= 80


def test_held_out_rows_have_a_verdict_of_their_own(folder):
    write(people(3000))
    found = fit("--hold-out", "0.3", "--max-gap", "0.02")
    figures = metrics()
    held = figures["held_out"]
    assert figures["verdict"] == "met"
    assert held["verdict"] == "missed"
    assert 0.02 < held["gap"] <= held["chance"]
    assert held["within_chance"] is True
    assert held["gap"] == figures["certificate"]["value"]
    assert "verdict" not in figures["certificate"]
    said = " ".join(found.stdout.split())
    assert f"held-out rows: missed, within chance. The gap is {held['gap']:.4f}" in said
    page = Path("results/report.html").read_text("utf-8")
    assert 'class="verdict chance"' in page
    # Their counts are not on the page, and do not follow from their gap: it is rounded up by a row.
    rows = min(figures["certificate"]["group_sizes"].values())
    rounded = np.ceil(np.ceil(held["gap"] * rows) / rows * 1e4) / 1e4
    assert held["gap"] < rounded < held["gap"] + 1 / rows + 1e-4
    assert (
        f"is {figures['gap']:.4f} on the rows of the fit and at most {rounded:.4f} on held-out "
        "rows, and the bound is 0.02."
    ) in Page(page).words
    fit("--hold-out", "0.3", "--max-gap", "0.3")
    assert metrics()["held_out"]["verdict"] == "met"
    assert 'class="verdict met"' in Path("results/report.html").read_text("utf-8")
    fit()
    assert metrics()["held_out"] is None


def test_a_group_that_only_held_out_rows_have(folder):
    frame = people()
    write(frame)
    fit("--hold-out", "0.3")
    held = pq.read_table("results/labels.parquet")["held_out"].to_numpy()
    frame.loc[np.flatnonzero(held)[:2], "sex"] = "x"
    write(frame)
    found = fit("--hold-out", "0.3", "--max-gap", "0.5")
    assert "not judged: x (2 rows)" in found.stdout
    assert metrics()["verdict"] == "met"
    held_out = metrics()["held_out"]
    assert (held_out["verdict"], held_out["unjudged"]) == (PART, {"x": 2})
    assert "Not judged among the held-out rows: x (fewer than 10 rows)." in report()


def test_several_columns_make_rare_groups(folder):
    frame = people()
    frame["ages"] = np.where(frame["age"] > 55, "old", "young")
    write(frame)
    given = ["-s", "sex", "-s", "ages", "--drop", "cluster", "--drop", "age"]
    run("fit", "people.csv", *given, *FAST, "--max-gap", "0.2")
    crossed = pd.crosstab(frame["sex"] + " & " + frame["ages"], "n")["n"]
    assert metrics()["unjudged"] == {name: int(n) for name, n in crossed.items() if n < 30} != {}
