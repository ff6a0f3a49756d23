"""Rules on the command line: gap, ratio and Balance; one at a time; the smallest ratio is told."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fairmix import FairMixture
from fairmix.cli import fitting
from fairmix.cli.texts import ratio_text, verdict_text
from fairmix.metrics import balance, gap, group_rates, rate_ratio
from fairmix.results import judge
from fairmix.results.ratio import LeastRatio
from test_cli import people, run

FIT = ["fit", "people.csv", "-s", "sex", "--drop", "cluster", "-k", "3", "--seed", "1"]
FAST = [*FIT, "--no-front", "--force"]
AUDIT = ["audit", "people.csv", "-l", "cluster", "-s", "sex"]


def said(found):
    return " ".join(found.stdout.split())


def metrics():
    return json.loads(Path("results/metrics.json").read_text("utf-8"))


def small_cluster():
    """1,000 women and 1,000 men; of twelve people in the third cluster two are women."""
    women = [0] * 500 + [1] * 498 + [2] * 2
    men = [0] * 495 + [1] * 495 + [2] * 10
    return pd.DataFrame({"sex": ["f"] * 1000 + ["m"] * 1000, "cluster": women + men, "x": 1.5})


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    people().to_csv("people.csv", index=False)
    return tmp_path


def test_a_fit_keeps_a_ratio_and_tells_it(folder):
    found = run(*FAST, "--min-ratio", "0.8", "--strict")
    labels, sex = pq.read_table("results/labels.parquet")["cluster"].to_numpy(), people()["sex"]
    figures = metrics()
    assert figures["rule"] == {"parameter": "min_ratio", "bound": 0.8}
    assert figures["max_gap"] is None
    assert figures["ratio"] == pytest.approx(rate_ratio(labels, sex))
    assert figures["ratio"] >= 0.8
    assert figures["gap"] == pytest.approx(gap(labels, sex))
    assert figures["balance"] == pytest.approx(balance(labels, sex))
    assert figures["verdict"] == "met"
    least, rates = figures["smallest_ratio"], group_rates(labels, sex)
    k = int(least["cluster"])
    assert least["value"] == figures["ratio"]
    assert {least["group"], least["other"]} == {"f", "m"}
    low, high = sorted(rates[:, k])
    assert (least["rate"], least["other_rate"]) == pytest.approx((low, high))
    text = said(found)
    assert (
        f"Bound met: the smallest ratio of the labels is {figures['ratio']:.4f}, at least" in text
    )
    assert f"Smallest ratio {figures['ratio']:.3f}: cluster {k} has {low:.2%} of " in text
    assert f"Balance {figures['balance']:.3f}." in text
    assert "--min-ratio" not in text
    assert max(map(len, found.stdout.splitlines())) <= 80
    told = said(run("info", "results/model.fairmix"))
    assert "rule min_ratio=0.8" in told
    assert f"ratio {figures['ratio']:.4f}" in told
    assert f"smallest {least['group']} over {least['other']} in cluster {k}" in told
    told = json.loads(run("info", "results/model.fairmix", "--json").stdout)
    assert told["smallest_ratio"]["cluster"] == least["cluster"]
    assert told["rule"] == "min_ratio=0.8"


def test_a_fit_keeps_a_balance_or_says_what_is_possible(folder):
    sizes = people()["sex"].value_counts()
    best = sizes.min() / sizes.max()
    bound = round(0.9 * best, 3)
    text = said(run(*FAST, "--min-balance", bound))
    figures = metrics()
    assert figures["rule"] == {"parameter": "min_balance", "bound": bound}
    assert figures["balance"] >= bound
    assert f"Bound met: the balance of the labels is {figures['balance']:.4f}, at least" in text
    failed = run(*FAST, "--min-balance", "1", code=3)
    assert f"cannot all have more than {best:.6g}" in " ".join(failed.stderr.split())


def test_a_margin_makes_the_fit_stricter(folder):
    run(*FAST, "--min-ratio", "0.8", "--margin", "0.1")
    figures = metrics()
    assert figures["ratio"] >= 0.9
    assert figures["rule"]["bound"] == 0.8
    assert figures["settings"]["margin"] == 0.1
    run(*FAST, "--min-ratio", "0.8", "--margin", "chance")
    assert metrics()["settings"]["margin"] == "chance"
    wrong = run(*FAST, "--margin", "much", code=2)
    assert "--margin much: give a number, or chance." in wrong.stderr


@pytest.mark.parametrize(
    "command", [FAST, AUDIT, ["pareto", *FIT[1:-2]]], ids=["fit", "audit", "pareto"]
)
def test_two_rules_at_once_are_refused_by_name(folder, command):
    for given in (
        ["--max-gap", "0", "--min-ratio", "0.8"],
        ["--min-ratio", "0.8", "--min-balance", "0.4"],
    ):
        failed = " ".join(run(*command, *given, code=2).stderr.split())
        assert f"{given[0]} and {given[2]}: these are different rules. Give one of them." in failed


def test_a_rule_out_of_range_is_refused(folder):
    assert "--min-ratio" in run(*FAST, "--min-ratio", "1.2", code=2).stderr
    for option in ("--min-ratio", "--min-balance"):
        for number in ("0", "1.5"):
            failed = " ".join(run(*AUDIT, option, number, code=2).stderr.split())
            assert f"{option} {number}: give a number above 0, at most 1." in failed
    assert "--max-gap -1" in run(*AUDIT, "--max-gap", "-1", code=2).stderr
    assert "give --max-gap, --min-ratio or --min-balance" in " ".join(
        run(*AUDIT, "--strict", code=2).stderr.split()
    )


def test_a_gap_that_is_met_with_a_poor_ratio_says_so(folder):
    small_cluster().to_csv("people.csv", index=False)
    text = said(run(*AUDIT, "--max-gap", "0.01", "--strict"))
    assert "Bound met: the gap is 0.0080, at most 0.01 was asked for." in text
    assert "Smallest ratio 0.200: cluster 2 has 0.20% of f and 1.00% of m." in text
    sentence = "A bound on the gap allows that; --min-ratio 0.8, the four-fifths rule, does not."
    assert sentence in text
    # Nothing is promised that could be taken for more than it is.
    assert sentence not in said(run(*AUDIT))
    assert sentence not in said(run(*AUDIT, "--max-gap", "0.001"))
    assert sentence not in said(run(*AUDIT, "--min-ratio", "0.1"))
    even = small_cluster().assign(cluster=np.arange(2000) % 2)
    even.to_csv("people.csv", index=False)
    text = said(run(*AUDIT, "--max-gap", "0.01"))
    assert "Smallest ratio 1.000" in text
    assert sentence not in text


def test_an_audit_judges_by_a_ratio_or_a_balance(folder):
    small_cluster().to_csv("people.csv", index=False)
    found = run(*AUDIT, "--min-ratio", "0.8", "--strict", code=1)
    assert "BOUND MISSED: the smallest ratio is 0.2000, at least 0.8 was asked for." in said(found)
    told = json.loads(run(*AUDIT, "--min-ratio", "0.2", "--json", "--strict").stdout)
    assert (told["verdict"], told["min_ratio"], told["max_gap"]) == ("met", 0.2, None)
    assert told["ratio"] == pytest.approx(0.2)
    assert told["smallest_ratio"] == {
        "value": pytest.approx(0.2),
        "cluster": "2",
        "group": "f",
        "other": "m",
        "rate": 0.002,
        "other_rate": 0.01,
    }
    assert told["figures"]["rate_ratio"]["value"] == pytest.approx(0.2)
    told = json.loads(run(*AUDIT, "--min-balance", "0.21", "--json").stdout)
    assert (told["verdict"], told["balance"]) == ("missed", pytest.approx(0.2))


def test_an_audit_says_that_a_balance_is_out_of_reach(folder):
    frame = small_cluster()
    frame[frame.index % 2 == 0].assign(sex="m").to_csv("people.csv", index=False)
    frame = small_cluster().iloc[500:]
    frame.to_csv("people.csv", index=False)
    found = run(*AUDIT, "--min-balance", "0.6")
    assert "--min-balance 0.6 is out of reach: clusters cannot all have more than 0.5, the" in (
        " ".join(found.stderr.split())
    )
    assert "BOUND MISSED: the balance is" in said(found)
    assert "out of reach" not in run(*AUDIT, "--min-balance", "0.5").stderr


def test_an_audit_of_very_many_rows_has_the_ratio(folder, monkeypatch):
    before = json.loads(run(*AUDIT, "--json").stdout)["figures"]
    monkeypatch.setattr("fairmix.cli.auditing.BOOTSTRAP_ROWS", 0)
    figures = json.loads(run(*AUDIT, "--json").stdout)["figures"]
    assert list(figures) == list(before)
    assert figures["rate_ratio"]["value"] == pytest.approx(before["rate_ratio"]["value"])


def test_without_two_judged_groups_there_is_no_ratio(folder):
    people().assign(sex="f").to_csv("people.csv", index=False)
    found = run(*AUDIT)
    assert "No ratio: fewer than two groups are judged." in said(found)
    assert json.loads(run(*AUDIT, "--json").stdout)["smallest_ratio"] is None


@pytest.mark.parametrize(
    ("value", "bound", "parameter", "text"),
    [
        (0.79996, 0.8, "min_ratio", "is 0.79996, at least 0.8"),
        (0.80004, 0.8, "min_ratio", "is 0.8000, at least 0.8"),
        (0.010004, 0.01, "max_gap", "is 0.010004, at most 0.01"),
        (0.009996, 0.01, "max_gap", "is 0.0100, at most 0.01"),
    ],
)
def test_numbers_do_not_contradict_the_word(value, bound, parameter, text):
    verdict = judge(value, bound, resolution=0.0, n_judged=2, parameter=parameter)
    assert text in verdict_text(verdict, "gap")


def test_a_balance_that_is_met_with_a_poor_ratio_says_so():
    verdict = judge(0.5, 0.4, resolution=0.0, n_judged=2, parameter="min_balance")
    least = LeastRatio(0.5, "3", "m", "f", 0.1, 0.2)
    assert "A bound on the balance allows that" in ratio_text(verdict, least, 0.5)


def test_a_front_of_ratios_or_of_balance(folder):
    given = ["pareto", *FIT[1:]]
    found = run(*given, "--min-ratio", "0.8", "--min-ratio", "0.5", "--min-ratio", "0")
    lines = found.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    head = next(line for line in lines if line.lstrip().startswith("min_ratio"))
    assert head.split() == ["min_ratio", "gap", "ratio", "balance", "cost", "clusters", "verdict"]
    told = json.loads(run(*given, "--min-ratio", "0.8", "--min-ratio", "0", "--json").stdout)[
        "rows"
    ]
    assert [row["min_ratio"] for row in told] == [0.8, 0]
    assert told[0]["ratio"] >= 0.8 > told[1]["ratio"]
    assert [row["verdict"] for row in told] == ["met", "no bound"]
    told = json.loads(run(*given, "--min-balance", "0.6", "--json").stdout)["rows"]
    assert (told[0]["min_balance"], told[0]["verdict"]) == (0.6, "met")
    assert told[0]["balance"] >= 0.6


def test_the_front_of_a_fit_is_of_its_rule(folder):
    sizes = people()["sex"].value_counts()
    best = sizes.min() / sizes.max()
    model = FairMixture(3, min_balance=best)
    groups = pa.table({"sex": people()["sex"]})
    rule, bounds = fitting._front_bounds(model, groups)
    assert rule == "min_balance"
    assert bounds[0] == best
    assert bounds[-1] == 0
    assert len(bounds) == 7
    assert all(bound <= best for bound in bounds)
    assert fitting._front_bounds(FairMixture(3, min_ratio=0.7), groups) == (
        "min_ratio",
        [1.0, 0.9, 0.8, 0.7, 0.6, 0.4, 0.0],
    )
    gaps = [0.0, 0.01, 0.02, 0.05, 0.1, np.inf]
    assert fitting._front_bounds(FairMixture(3), groups) == ("max_gap", gaps)


def test_a_sample_whose_groups_are_further_apart_has_a_balance_it_can_reach():
    groups = pa.table({"sex": ["f"] * 40 + ["m"] * 100})
    model = FairMixture(3, min_balance=0.5, min_group_size=60)
    sketch = fitting._for_sample(model, groups, 280)
    assert (sketch.min_balance, sketch.min_group_size) == (0.4, 30)
    assert fitting._for_sample(model.set_params(min_balance=0.3), groups, 280).min_balance == 0.3
    # With one judged group there is no rule to lower.
    assert fitting._for_sample(FairMixture(3, min_balance=0.5), groups, 140).min_balance == 0.4
    alone = fitting._for_sample(FairMixture(3, min_balance=0.5, min_group_size=50), groups, 140)
    assert alone.min_balance == 0.5
