"""The first sentence of a report: verdict, cluster, groups, both rates and their ratio."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fairmix import FairMixture, pareto_front, select_n_components
from fairmix.results.fairness import fairness_table
from tests.attack import Tree
from tests.report_cases import CASES, fitted


class Page:
    """A page, and its words."""

    def __init__(self, html):
        self.root = Tree(html).root
        self.words = self.root.find("body")[0].text


BEGINNINGS = {
    "met": "The bound is met: the groups differ most in cluster",
    "missed": "The bound is missed: the groups differ most in cluster",
    "not judged": "The bound is not judged: fewer than two groups have enough rows; those that are",
    "held out missed": "The bound is missed on held-out rows, by more than chance explains",
    "two attributes": "The bound is met for sex and region. ",
    "large": "The bound is met: the groups differ most in cluster",
}
PLACE = re.compile(
    r"cluster (\d+)(?: \([^)]*\))?, which holds ([\d.]+)% of the group (\w+) and ([\d.]+)% of the "
    r"group (\w+), a ratio of (\d\.\d+)"
)


@pytest.mark.parametrize("case", CASES)
def test_the_first_sentence_says_it_as_a_person_would(case):
    page = Page(CASES[case]())
    headline = page.root.find(_class="headline")[0].text
    assert headline.startswith(BEGINNINGS[case])
    _, low, group, high, other, ratio = PLACE.search(headline).groups()
    assert group != other
    # From rates as they are printed, so to within what their digits leave open.
    assert float(ratio) == pytest.approx(float(low) / float(high), abs=0.06 / float(high) + 0.001)
    # The same rates are in the table of the cluster.
    lines = [cell.text for cell in page.root.find("td")]
    assert f"{float(low):.1f}%" in lines
    assert f"{float(high):.1f}%" in lines
    # The definition is below it, and nothing says again where the groups differ.
    assert page.root.find(_class="sentence")[0].text in page.words
    box = page.root.find(_class="verdict")[0].text
    assert len(PLACE.findall(box)) == 1
    if case == "held out missed":
        # The cluster is of the rows of the fit, and what is missed has its figure, too.
        assert re.search(r"\(gap 0\.0\d+, gap on held-out rows 0\.1\d+\); at most 0\.02", headline)


def test_the_page_has_the_words_that_it_explains():
    for case in ("met", "large"):
        words = Page(CASES[case]()).words
        for term, sign in {"Lift": "lift", "Cost": "cost", "Certificate": "statement"}.items():
            explained = f"{term} How many" in words or f"{term} The sum" in words
            if case == "large":
                assert not explained, sign
    assert "Lift How many" in Page(CASES["met"]()).words


def test_the_model_of_the_report_is_a_point_of_the_front():
    page = Page(CASES["met"](front=True))
    section = page.root.find("section", _id="front")[0]
    rows = [[cell.text for cell in row.find("td")] for row in section.find("tr")[1:]]
    costs = [float(row[4].replace(",", "")) for row in rows]
    # All are costs of labels of the same rows, so the tightest bound costs most, and no cliff
    # parts fits of two kinds.
    assert max(costs) == costs[0]
    assert abs(costs[-1] - costs[-2]) < costs[0] - costs[-2]
    assert [row[-1] for row in rows] == ["", "this report", "", ""]
    assert "log-likelihood" not in section.text


def test_clusters_have_names_of_what_makes_them():
    words = Page(CASES["met"]()).words
    assert re.search(r"Cluster \d (high|low) (age|hours)", words)


def test_a_model_writes_its_report(tmp_path):
    rows, model = fitted()
    path = model.report(tmp_path / "r.html", rows, "sex")
    assert path == tmp_path / "r.html"
    again = model.report(str(tmp_path / "again.html"), rows.drop(columns="sex"), rows["sex"])
    text = Path(path).read_text(encoding="utf-8")
    assert "These columns say most about" in text
    # With the name of the column or without it.
    assert text.count("cluster") == again.read_text(encoding="utf-8").count("cluster")


def test_responsibilities_are_the_posterior():
    rows, model = fitted()
    X = rows.drop(columns="sex")
    found = model.responsibilities(X)
    assert found.sum(axis=1) == pytest.approx(1)
    # Labels are of a colder map that keeps the bound.
    assert found.max(axis=1).mean() < model.predict_proba(X).max(axis=1).mean()
    plain = FairMixture(2, fairness_strength=0, random_state=0).fit(X[["age", "hours"]])
    np.testing.assert_allclose(
        plain.responsibilities(X[["age", "hours"]]), plain.predict_proba(X[["age", "hours"]])
    )


def test_tables_become_frames_and_html():
    rows, _ = fitted()
    X = rows[["age", "hours"]][:200]
    groups = rows["sex"][:200]
    found = pareto_front(FairMixture(2, random_state=0), X, sensitive_features=groups, max_gaps=[1])
    chosen = select_n_components(FairMixture(random_state=0), X, n_components=[2])
    table = fairness_table(np.arange(200) % 2, groups, n_boot=2)
    for result in (found, chosen, table):
        frame = result.to_frame()
        assert isinstance(frame, pd.DataFrame)
        html = result._repr_html_()
        assert html.startswith("<table>")
        assert html.count("<tr>") == len(frame) + 1
        assert html.count("<th>") == len(frame.columns)
    evil = fairness_table(["<script>", "b"] * 50, ["f", "f", "m", "m"] * 25, n_boot=2)
    assert "<script>" not in evil._repr_html_()
