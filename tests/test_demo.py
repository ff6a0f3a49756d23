"""The demo: the README shows what it prints, and its figures are those of the fits."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fairmix import FairMixture, metrics
from fairmix.cli import app
from fairmix.cli.demo import DemoCluster, DemoRow, cluster_text, head_text, table_text
from fairmix.datasets import load_adult, paper_preprocessing
from generators.demo import printed, shown

README = Path(__file__).parents[1] / "README.md"
METHODS = [
    "K-means",
    "plain mixture",
    *(
        f"{rule}, {map_}"
        for rule in ("max_gap=0.01", "min_ratio=0.8")
        for map_ in ("blind", "aware")
    ),
]


def rows_of(text):
    """The rows of a printed table."""
    found = re.findall(r"^(\S.*?)  +([\d,]+) +([\d.]+) +([\d.]+) +([\d.]+) +([\d.]+)$", text, re.M)
    return [
        DemoRow(name, *(float(n.replace(",", "")) for n in numbers)) for name, *numbers in found
    ]


def told(text):
    """What the demo says of a small cluster that a gap allows, if the text does."""
    said = re.search(
        r"^(.+) is met, and cluster (\d+) has ([\d,]+) women among ([\d,]+) people:", text, re.M
    )
    if said is None:
        return ""
    method, *numbers = said.groups()
    cluster = DemoCluster(method, *(int(n.replace(",", "")) for n in numbers))
    return "\n\n" + cluster_text(cluster, (load_adult().sex == "Female").mean(), 0.8)


def test_the_readme_shows_the_demo_in_todays_words():
    """The numbers of the README, printed as the demo prints them, are the block of the README."""
    text = shown(README.read_text("utf-8"))
    best = float(re.search(r"([\d.]+) in the whole data", text)[1])
    assert head_text(32561, 5, 10) + "\n" + table_text(rows_of(text), best) + told(text) == text
    assert [row.method for row in rows_of(text)] == METHODS


def test_the_table_of_the_readme_tells_the_story():
    rows = {row.method: row for row in rows_of(shown(README.read_text("utf-8")))}
    for name, row in rows.items():
        assert row.gap <= 0.01 or not name.startswith("max_gap=0.01")
        assert row.ratio >= 0.8 or not name.startswith("min_ratio=0.8")
    assert rows["K-means"].ratio < 0.5 < rows["max_gap=0.01, blind"].ratio


def test_a_small_cluster_that_a_gap_allows_is_told():
    said = cluster_text(DemoCluster("max_gap=0.01, blind", 8, 64, 402), 0.331, 0.8)
    assert " ".join(said.split()) == (
        "max_gap=0.01, blind is met, and cluster 8 has 64 women among 402 people: 15.9%, where "
        "33.1% of all are women. The gap compares shares of all women and of all men, so it allows "
        "this in a small cluster; min_ratio=0.8 does not."
    )


def test_a_row_of_the_readme_is_current():
    """One fit; the long run makes them all."""
    adult = load_adult()
    X = paper_preprocessing(adult.X)
    rows = {row.method: row for row in rows_of(shown(README.read_text("utf-8")))}
    labels = FairMixture(10, max_gap=0.01, assignment="aware", random_state=0).fit_predict(
        X, sensitive_features=adult.sex
    )
    known = rows["max_gap=0.01, aware"]
    assert metrics.clustering_cost(X, labels) == pytest.approx(known.cost, rel=0.01)
    assert metrics.gap(labels, adult.sex) == pytest.approx(known.gap, abs=0.002)
    assert metrics.rate_ratio(labels, adult.sex) == pytest.approx(known.ratio, abs=0.03)


@pytest.mark.long
def test_the_numbers_of_the_readme_are_current():
    """To what sums on another processor change."""
    text = printed()
    for old, new in zip(rows_of(shown(README.read_text("utf-8"))), rows_of(text), strict=True):
        assert old.method == new.method
        assert old.cost == pytest.approx(new.cost, rel=0.01), "run scripts/generate demo"
        assert old.gap == pytest.approx(new.gap, abs=0.002), "run scripts/generate demo"
        assert old.ratio == pytest.approx(new.ratio, abs=0.03), "run scripts/generate demo"
        assert old.balance == pytest.approx(new.balance, abs=0.03), "run scripts/generate demo"


def test_a_ratio_of_the_demo_is_checked_before_the_first_fit():
    found = CliRunner().invoke(app, ["demo", "--min-ratio", "0"])
    assert found.exit_code == 2
    assert "--min-ratio 0: give a number above 0, at most 1." in " ".join(found.output.split())
