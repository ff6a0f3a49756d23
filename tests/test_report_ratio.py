"""Ratios in the report: the smallest one, a line at four fifths, a verdict on each group."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from fairmix import FairMixture, pareto_front
from fairmix.criteria import MaxGap, MinBalance, MinRatio
from fairmix.datasets import make_grouped_blobs
from fairmix.report import render, report_of
from fairmix.report.disclosure import SafeCounts, rounded_down
from fairmix.report.ratios import down, group_ratios
from fairmix.results import Verdict, certify, judge_counts
from fairmix.results.profile import Profile
from test_report import Page

# 1,000 women and 1,000 men: the gap is 0.01, and one of five people in cluster 2 is a woman.
SMALL = np.array([[500, 495, 5], [490, 490, 20]])


def profile_of(counts, names=("f", "m")):
    counts = np.asarray(counts)
    labels = np.concatenate([np.repeat(range(counts.shape[1]), row) for row in counts])
    groups = np.repeat(names[: len(counts)], counts.sum(axis=1))
    return Profile.from_frame(pd.DataFrame({"x": np.ones(len(labels))}), labels, groups)


def page_of(counts, limit, **parts):
    profile = profile_of(counts)
    verdict = judge_counts(profile.counts, profile.groups, limit)
    html = render(profile, verdict=verdict, **parts)
    return html, Page(html).words


ALLOWED = (
    "A bound on the {} allows that. The four-fifths rule does not: min_ratio=0.8, or "
    "--min-ratio 0.8."
)


def test_a_gap_that_is_met_with_a_poor_ratio():
    html, words = page_of(SMALL, 0.02)
    assert 'class="verdict met"' in html
    assert "(gap 0.0150); at most 0.02 was asked for." in words
    assert (
        "Cluster 2 has 1.2% of the rows; 20.0% of them are f, against 50.0% of all rows."
    ) in words
    assert ALLOWED.format("gap") in words
    assert "smallest ratio 0.250" in words


@pytest.mark.parametrize(
    ("counts", "limit"),
    [
        (SMALL, 0.001),  # missed
        (SMALL, np.inf),  # no bound
        (SMALL, MinRatio(0.2)),  # met, and it bounds the ratio
        ([[500, 500], [490, 510]], 0.1),  # met, and the ratio is fine
    ],
)
def test_nothing_is_said_to_be_allowed_otherwise(counts, limit):
    assert "allows that" not in page_of(counts, limit)[1]


def test_a_ratio_that_is_met_and_one_that_is_missed():
    html, words = page_of(SMALL, MinRatio(0.25))
    assert 'class="verdict met"' in html
    assert (
        "The bound is met: the groups are least even in cluster 2, which holds 0.50% of the group "
        "f and 2.0% of the group m, a ratio of 0.250; at least 0.25 was asked for. The smallest "
        "ratio between the shares of two groups in one cluster is 0.250, and at least 0.25 is"
    ) in words
    html, words = page_of(SMALL, MinRatio(0.8))
    assert 'class="verdict missed"' in html
    assert "The bound is missed: the groups are least even in cluster 2" in words
    assert "is 0.250, and at least 0.8 is asked for." in words
    assert "The groups differ most" not in words
    assert "would show a ratio above 0." in words


def test_a_balance_that_is_met():
    counts = [[200, 800], [800, 1200]]
    html, words = page_of(counts, MinBalance(0.25))
    assert 'class="verdict met"' in html
    assert "The smallest ratio between the rows of two groups in one cluster is 0.250, and at" in (
        words
    )
    assert ALLOWED.format("balance") in words
    assert "would show a balance above 0." in words


def test_whole_rows_are_forgiven_at_one():
    _, words = page_of([[333, 334, 333], [334, 333, 333]], MinRatio(1.0))
    assert "at least 1 is asked for (met as closely as whole rows allow)." in words


def test_every_group_has_a_line_and_a_verdict():
    counts = np.array([[120, 80], [100, 100], [100, 100], [80, 120]] * 2) * 3
    names = [f"g{i}" for i in range(8)]
    safe = SafeCounts.of(counts)
    found = group_ratios(safe, ["0", "1"], names)
    assert [row.group for row in found.groups] == names
    assert [row.text for row in found.groups] == ["0.666", "0.833", "0.833", "0.666"] * 2
    assert [row.word for row in found.groups] == [
        *("below 0.8", "at least 0.8", "at least 0.8", "below 0.8") * 2
    ]
    assert found.groups[0].place == "cluster 1, which holds 40.0% of g0 and 60.0% of g3"
    html = render(profile_of(counts, names))
    lines = html.split('<div class="ratios')[1].split('<p class="note">')[0]
    assert lines.count('class="bar') == 8
    # The line, and a bar as long as its number says.
    assert re.findall(r"--s:([\d.]+);--p:([\d.]+)", lines)[0] == ("0.666", "0.8")
    assert lines.count('class="word low"') == 4


def test_many_groups_are_cut():
    counts = np.full((60, 2), 30)
    found = group_ratios(SafeCounts.of(counts), ["0", "1"], [f"g{i}" for i in range(60)])
    assert (len(found.groups), found.left_out) == (40, 20)


def test_ratios_of_hidden_counts_are_hidden_and_their_verdict_is_told_where_it_is_certain():
    safe = SafeCounts.of(np.array([[3, 120, 877], [400, 60, 540]]))
    (f, m) = group_ratios(safe, ["0", "1", "2"], ["f", "m"]).groups
    assert (f.text, f.ratio, f.word, f.place) == ("hidden", None, "below 0.8", "cluster 0")
    # 60 of 1,000 against about 120 of 1,000, which are shown together with the three.
    assert (m.text, m.word) == ("hidden", "below 0.8")
    none = SafeCounts.nothing(np.array([[30, 40], [30, 40]]))
    assert {row.word for row in group_ratios(none, "01", "fm").groups} == {"hidden"}
    assert {row.place for row in group_ratios(none, "01", "fm").groups} == {""}


def test_each_is_told_or_not_by_itself():
    safe = SafeCounts.of(np.array([[3.0, 40.0, 50.0], [60.0, 70.0, 80.0]]))
    told = safe.tell_each(lambda table: [float(table[0, 0]), float(table[1, 2])])
    assert told == [None, 80.0]
    assert told[1] == safe.tell(lambda table: float(table[1, 2]))
    assert SafeCounts.nothing(safe.counts).tell_each(lambda t: t[:, 0]) == [None, None]


def test_a_ratio_never_looks_better_than_it_is():
    assert (down(0.8), down(0.79999), down(1.0), down(np.nan)) == (
        "0.800",
        "0.799",
        "1.000",
        "none",
    )
    assert rounded_down(0.7999, [1000, 3000]) == "at least 0.79"
    assert rounded_down(0.7999, [999, 3000]) == "at least 0.70"
    assert rounded_down(0.7999, [9, 3000]) == "hidden"
    assert rounded_down(np.nan, [100, 100]) == "none"


def test_held_out_rows_of_a_ratio():
    rng = np.random.default_rng(0)
    labels, groups = rng.integers(3, size=6000), np.repeat(["f", "m"], 3000)
    found = certify(labels, groups, criterion="rate_ratio")
    limit = "min_ratio"
    profile = profile_of([[1000, 1000, 1000], [1000, 1000, 1000]])
    cases = {
        "met": (Verdict("met", found.value, 0.8, parameter=limit), 0.7),
        "chance": (Verdict("missed", 0.781, 0.8, parameter=limit), 0.7),
        "missed": (Verdict("missed", 0.6, 0.8, parameter=limit), 0.7),
    }
    on_fit = judge_counts(profile.counts, profile.groups, MinRatio(0.8))
    for state, (verdict, chance) in cases.items():
        certificate = replace(found, verdict=verdict, chance=chance)
        html = render(profile, verdict=on_fit, certificate=certificate)
        words = Page(html).words
        assert f'class="verdict {state}"' in html
        assert f"and at least {np.floor(verdict.value * 100) / 100:.2f} on held-out rows" in words
        assert "Chance explains a ratio of down to 0.70 on these held-out rows" in words
        assert f"the certificate gives at least {np.floor(found.bound * 100) / 100:.2f}" in words
        assert "the rate ratio of this map's labels is" in words
        assert ("held-out rows are below it, within chance" in words) == (state == "chance")


@pytest.fixture(scope="module")
def fitted():
    X, groups, _ = make_grouped_blobs(900, 3, 2, separation=1.5, imbalance=0.3, random_state=0)
    model = FairMixture(3, min_ratio=0.8, assignment="aware", random_state=0)
    return X, groups, model.fit(X, sensitive_features=groups)


def test_a_front_of_ratios_marks_the_bound_of_the_model(fitted):
    X, groups, model = fitted
    front = pareto_front(model, X, sensitive_features=groups, min_ratios=(1, 0.8, 0.6, 0))
    html = render(Profile.from_frame(X, model.labels_, groups), model=model, front=front)
    page = Page(html)
    assert "with a different bound on the ratio. Select" in page.words
    chart = page.chart("chart-front")
    assert chart["encoding"]["x"]["title"] == "ratio (higher is more even)"
    values = chart["data"]["values"]
    assert [v["figure"] for v in values] == pytest.approx(
        [row.ratio for row in front.rows], abs=1e-3
    )
    assert chart["params"][0]["value"] == 1
    assert values[1]["tip"].startswith("bound 0.8: ratio 0.8")
    assert [v["kind"] for v in values][-1] == "no bound"
    assert [not v["front"] for v in values] == [row.dominated for row in front.rows]
    assert values[0]["front"]
    table = html.split('id="front"')[1].split("</table>")[0]
    assert table.count("<tr>") == 5
    assert '<th class="n">ratio</th>' in table
    assert "Bound 0.8: ratio 0.8" in page.words
    assert "rule min_ratio=0.8" in page.words or "min_ratio 0.8" in page.words


def test_other_rows_are_told_the_verdict_of_the_fit_by_its_own_rule(fitted):
    X, groups, model = fitted
    same = Page(render(Profile.from_frame(X, model.labels_, groups), model=model)).words
    assert "In the fit" not in same
    # Half of one group in the first cluster is enough for another verdict.
    moved = np.where((np.arange(len(X)) % 2 == 0) & (groups == 0), 0, model.labels_)
    words = Page(render(Profile.from_frame(X, moved, groups), model=model)).words
    assert "The bound is missed: " in words
    assert model.verdict_ == "met"
    assert "In the fit, which used other rows or weights, the verdict was: met." in words
    assert "the gap of the labels" not in words


def test_a_ratio_of_probabilities(fitted):
    X, groups, _ = fitted
    model = FairMixture(
        3, min_ratio=0.8, gap_of="probabilities", assignment="aware", random_state=0
    ).fit(X, sensitive_features=groups)
    words = Page(render(Profile.from_frame(X, model.labels_, groups), model=model)).words
    assert (
        "The smallest ratio between the shares of two groups in one cluster, measured by "
        f"probabilities, is {down(model.ratio_)}, and at least 0.8 is asked for."
    ) in words
    assert "For the labels it is 0." in words


def test_a_bound_on_the_gap_is_judged_by_its_criterion():
    """A table hides what would change the word, so the word is by the right rule."""
    counts = np.array([[4, 50, 46], [20, 40, 40]])
    _, words = page_of(counts, MaxGap(0.2, "gap"))
    assert "The bound is met" in words
    _, words = page_of(counts, MinRatio(0.9))
    assert "The bound is missed: " in words


def test_a_frame_of_numbers_keeps_the_names_of_its_columns():
    X, groups, _ = make_grouped_blobs(300, 2, 2, separation=3.0, random_state=0)
    frame = pd.DataFrame(X, columns=["age", "hours"])
    model = FairMixture(2, min_ratio=0.8, random_state=0).fit(frame, sensitive_features=groups)
    page = report_of(model, frame, groups)
    assert "hours" in page
    assert ">x1<" not in page
