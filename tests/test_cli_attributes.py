"""``--attributes each``: fits and audits judge every attribute by itself."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from fairmix.metrics import gap, rate_ratio
from test_cli import people, run
from test_cli_rule import metrics, said

EACH = ["-s", "sex", "-s", "town", "--attributes", "each"]
FIT = ["fit", "people.csv", "-k", "3", "--seed", "1", "--drop", "cluster", "--no-front", "--force"]
AUDIT = ["audit", "people.csv", "-l", "cluster"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    people().to_csv("people.csv", index=False)
    return tmp_path


def labels():
    return pq.read_table("results/labels.parquet")["cluster"].to_numpy()


def test_a_fit_tells_the_verdict_and_the_smallest_ratio_of_each(folder):
    fitted = run(*FIT, *EACH, "--min-ratio", "0.8", "--strict")
    text = said(fitted)
    assert max(map(len, fitted.stdout.splitlines())) <= 80
    figures, frame = metrics(), people()
    assert figures["verdict"] == "met"
    assert list(figures["attributes"]) == ["sex", "town"]
    for title, own in figures["attributes"].items():
        assert own["verdict"] == "met"
        assert own["ratio"] == pytest.approx(rate_ratio(labels(), frame[title]))
        assert own["gap"] == pytest.approx(gap(labels(), frame[title]))
        assert own["ratio"] >= 0.8
        least = own["smallest_ratio"]
        assert least["value"] == own["ratio"]
        assert f"{title}: met, the ratio is {own['ratio']:.4f}." in text
        assert f"Smallest ratio {own['ratio']:.3f}: cluster {least['cluster']} has" in text
    assert figures["ratio"] == min(own["ratio"] for own in figures["attributes"].values())
    counts = pd.crosstab(frame["town"], labels())
    assert figures["counts"]["town: Lima"] == counts.loc["Lima"].tolist()
    page = Path("results/report.html").read_text("utf-8")
    assert page.count('<section class="attribute">') == 2
    shown = run("info", "results/model.fairmix").stdout
    told = json.loads(run("info", "results/model.fairmix", "--json").stdout)
    assert told["attributes"]["town"]["ratio"] == figures["attributes"]["town"]["ratio"]
    for title, own in figures["attributes"].items():
        assert f"{title} " in shown
        assert f"ratio {own['ratio']:.4f}" in " ".join(shown.split())


def test_held_out_rows_are_judged_by_attribute(folder):
    people(3000).to_csv("people.csv", index=False)
    text = said(run(*FIT, *EACH, "--max-gap", "0.05", "--hold-out", "0.3"))
    assert "All of this together with confidence 95%." in text
    assert "town: With confidence 97.5%" in text
    certified = metrics()["certificate"]["attributes"]
    assert list(certified) == ["sex", "town"]
    assert metrics()["held_out"]["rows"] == certified["sex"]["n_rows"]


def test_one_column_is_as_without(folder):
    run(*FIT, "-s", "sex", "--attributes", "each")
    each, found = metrics(), labels()
    run(*FIT, "-s", "sex")
    without = metrics()
    assert np.array_equal(found, labels())
    for figures in (each, without):
        del figures["seconds"], figures["command"], figures["settings"]["attributes"]
    assert each == without
    audits = [
        json.loads(run(*AUDIT, "-s", "sex", *extra, "--json").stdout)
        for extra in ([], ["--attributes", "each"])
    ]
    assert audits[0] == audits[1]


def test_an_audit_judges_each_attribute_by_the_same_rule(folder):
    words = [*AUDIT, *EACH, "--min-ratio", "0.8"]
    frame = people()
    ratios = {title: rate_ratio(frame["cluster"], frame[title]) for title in ("sex", "town")}
    assert ratios["sex"] < 0.8
    found = json.loads(run(*words, "--json").stdout)
    assert found["verdict"] == "missed"
    assert found["ratio"] == pytest.approx(ratios["sex"])
    assert found["smallest_ratio"]["group"].startswith("sex: ")
    for title, own in found["attributes"].items():
        assert own["ratio"] == pytest.approx(ratios[title])
        assert own["verdict"] == ("met" if ratios[title] >= 0.8 else "missed")
        assert own["counts"] == {
            name: row.tolist()
            for name, row in zip(
                *(lambda t: (t.index, t.to_numpy()))(pd.crosstab(frame[title], frame["cluster"])),
                strict=True,
            )
        }
    text = said(run(*words, "--out", "audit.html", "--strict", code=1))
    assert "BOUND MISSED" in text
    assert f"sex: missed, the ratio is {ratios['sex']:.4f}." in text
    page = Path("audit.html").read_text("utf-8")
    assert page.count('<section class="attribute">') == 2


def test_without_a_bound_an_audit_measures_each(folder):
    text = said(run(*AUDIT, *EACH))
    assert "sex: no bound" in text
    assert "town: no bound" in text


def test_an_attribute_with_one_judged_group_keeps_strict_from_passing(folder):
    frame = people()
    frame["town"] = ["Oslo"] * 5 + ["Rome"] * 895
    frame.to_csv("people.csv", index=False)
    words = [*FIT, *EACH, "--max-gap", "0.5"]
    run(*words, "--strict", code=1)
    assert metrics()["verdict"] == "met for the judged groups"
    run(*words, "--strict", "--min-group-size", "30")
    assert 'class="verdict measured"' in Path("results/report.html").read_text("utf-8")


def test_rows_without_a_group_count_for_no_attribute(folder):
    frame = people()
    frame.loc[:9, "town"] = None
    frame.to_csv("people.csv", index=False)
    run(*FIT, *EACH, "--max-gap", "0.3", "--missing-groups", "drop")
    found = metrics()
    assert found["data"]["rows_of_the_fit"] == 890
    sizes = {name: sum(row) for name, row in found["counts"].items()}
    assert sizes["sex: f"] + sizes["sex: m"] == 890
    audited = json.loads(run(*AUDIT, *EACH, "--missing-groups", "drop", "--json").stdout)
    assert audited["rows"] == 890
    rest = frame.iloc[10:]
    expected = gap(rest["cluster"], rest["sex"])
    assert audited["attributes"]["sex"]["figures"]["gap"]["value"] == pytest.approx(expected)


def test_a_front_of_several_attributes(folder):
    words = ["pareto", "people.csv", "-k", "2", "--drop", "cluster", *EACH]
    found = json.loads(run(*words, "--min-ratio", "0.9", "--min-ratio", "0.5", "--json").stdout)
    assert [row["verdict"] for row in found["rows"]] == ["met", "met"]
    assert found["rows"][0]["ratio"] >= 0.9
    # Methods of other papers know one set of groups.
    run("compare", "people.csv", *EACH, code=2)
