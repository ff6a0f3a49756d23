"""A report of several attributes: a block each, the worst at the top, and no count from another."""

import re

import numpy as np
import pandas as pd
import pytest

from attack import Program, is_open
from fairmix import FairMixture, pareto_front
from fairmix.criteria import MinRatio
from fairmix.report import render
from fairmix.report.disclosure import safe_attributes
from fairmix.results import judge_counts
from fairmix.results.profile import Profile
from repetition import times
from test_report import Page


def people(n_rows=900, seed=0):
    """Clusters that are even by sex, and uneven by region."""
    rng = np.random.default_rng(seed)
    region = rng.choice(["east", "north", "west"], n_rows, p=[0.5, 0.3, 0.2])
    cluster = np.where(rng.random(n_rows) < np.where(region == "east", 0.7, 0.4), 0, 1)
    sex = rng.choice(["f", "m"], n_rows)
    return pd.DataFrame({"x": rng.normal(size=n_rows), "sex": sex, "region": region}), cluster


def profile_of(frame, labels):
    return Profile.from_frame(frame, labels, ["sex", "region"], attributes="each")


def verdicts_of(profile, bound):
    return {
        title: judge_counts(own.counts, own.groups, MinRatio(bound))
        for title, own in profile.by_attribute.items()
    }


def blocks(page):
    return re.findall(r'<section class="attribute">(.*?)</section>', page, flags=re.DOTALL)


def test_a_profile_counts_every_attribute():
    frame, labels = people()
    profile = profile_of(frame, labels)
    assert profile.n_rows == 900
    assert profile.groups == ("sex: f", "sex: m", "region: east", "region: north", "region: west")
    for title, own in profile.by_attribute.items():
        expected = pd.crosstab(frame[title], labels)
        assert own.groups == tuple(expected.index)
        assert own.counts.tolist() == expected.to_numpy().tolist()
        assert own.numbers["x"].mean == pytest.approx(frame["x"].mean())


def test_a_row_that_lacks_one_attribute_counts_for_none():
    frame, labels = people()
    frame.loc[:9, "sex"] = None
    frame.loc[5:19, "region"] = None
    profile = Profile.from_frame(
        frame, labels, ["sex", "region"], attributes="each", missing_groups="drop"
    )
    assert profile.n_rows == 880
    assert {int(own.counts.sum()) for own in profile.by_attribute.values()} == {880}


def test_every_attribute_has_a_block_and_the_box_names_the_worst():
    frame, labels = people()
    profile = profile_of(frame, labels)
    verdicts = verdicts_of(profile, 0.8)
    assert {title: found.word for title, found in verdicts.items()} == {
        "sex": "met",
        "region": "missed",
    }
    page = render(profile, verdict=verdicts)
    top = re.search(r"<header>(.*?)</header>", page, flags=re.DOTALL).group(1)
    assert 'class="verdict missed"' in top
    assert "The bound is missed for region, and met for sex." in Page(page).words
    assert "Farthest from it is region. The smallest ratio" in Page(page).words
    sex, region = blocks(page)
    assert 'class="verdict met"' in sex
    assert 'class="verdict missed"' in region
    for own, title in ((sex, "sex"), (region, "region")):
        counts = pd.crosstab(frame[title], labels)
        shown = re.findall(r'<td>([a-z]+)</td><td class="n">([\d,]+)</td>', own)
        assert shown == [(g, str(counts.loc[g, k])) for k in (0, 1) for g in counts.index]
        least = f"{np.floor(verdicts[title].value * 1000) / 1000:.3f}"
        assert f"<dt>smallest ratio</dt><dd>{least}</dd>" in own


def test_the_box_is_green_only_if_all_are_met():
    frame, labels = people()
    profile = profile_of(frame, labels)
    page = render(profile, verdict=verdicts_of(profile, 0.3))
    assert "The bound is met for sex and region." in Page(page).words
    assert 'class="verdict missed"' not in page
    assert "The least even is region." in Page(page).words


def test_one_attribute_gives_the_page_of_one_column():
    frame, labels = people()
    rows = frame[["x", "sex"]]
    each = Profile.from_frame(rows, labels, ["sex"], attributes="each")
    assert render(each) == render(Profile.from_frame(rows, labels, "sex"))


def test_a_model_its_certificate_and_its_front_have_the_attributes():
    frame, _ = people(700)
    X, groups = frame[["x"]].to_numpy(), frame[["sex", "region"]]
    model = FairMixture(2, min_ratio=0.5, attributes="each", random_state=0)
    front = pareto_front(model, X, sensitive_features=groups, min_ratios=[0.5, 0.9])
    model.fit(X, sensitive_features=groups)
    profile = profile_of(frame, model.labels_)
    certificate = model.certify(X + 1e-6, groups)
    page = render(profile, model=model, front=front, certificate=certificate)
    assert len(blocks(page)) == 2
    words = Page(page).words
    assert "The bound is met for sex and region." in words
    assert "With confidence 97.5%" in words
    assert "The figures are those of the worst attribute." in words
    # By whole counts, which nothing hides here: the smaller of the two ratios.
    ratios = [
        min(own.fairness.ratio for own in m.fitted_.by_attribute.values()) for m in front.models
    ]
    assert all(f"{np.floor(ratio * 1000 + 1e-9) / 1000:.3f}" in words for ratio in ratios)
    panels = re.findall(r'<div class="panel"(.*?)</div>\n<div class="panel"', page, flags=re.DOTALL)
    assert all(panel.count('<p class="note">') >= 2 for panel in panels)
    assert panels
    with pytest.raises(ValueError, match="attributes='each'"):
        render(Profile.from_frame(frame, model.labels_, "sex"), model=model)


def test_an_attribute_that_is_not_judged_has_a_block_that_says_so():
    frame, labels = people()
    frame["region"] = ["north"] * 12 + ["west"] * 888
    profile = profile_of(frame, labels)
    page = render(profile, verdict=verdicts_of(profile, 0.5))
    assert "The bound is not judged for region, and met for sex." in Page(page).words
    assert "fewer than two groups have enough rows" in blocks(page)[1]


@pytest.mark.parametrize("few", [4, 12])
def test_rows_that_an_attribute_leaves_out_do_not_follow_from_another(few):
    frame, labels = people()
    # In the first cluster there are two of them.
    frame["region"] = np.where(np.arange(900) < few, "tiny", frame["region"])
    labels[:few] = 1
    labels[:2] = 0
    page = render(profile_of(frame, labels), verdict=verdicts_of(profile_of(frame, labels), 0.3))
    sex, region = blocks(page)
    shown = [
        sum(int(n.replace(",", "")) for n in re.findall(r'<td class="n">([\d,]+)</td><td', own))
        for own in (sex, region)
    ]
    assert "tiny" not in region.split("Not judged")[0]
    if few < 10:
        # Not even the sizes of the others are told: all rows less those are these. And no attribute
        # shows the sizes of the clusters, which would say how many of them are where.
        sizes = re.findall(r"<dt>region: \w+</dt>", page)
        assert not sizes
        assert "The counts are not shown" in region
        assert "The counts are not shown" in sex
    else:
        # Two of them are in the first of two clusters, so neither table shows a count.
        assert shown == [0, 0]
        assert ", and met for sex." in Page(page).words


def known_counts(tables, hidden):
    """Small counts that follow from those that are shown, the sizes of groups and clusters.

    Clusters in a pool are hidden, and their sum is known.
    """
    program, cells = Program(), []
    for table, hides in zip(tables, hidden, strict=True):
        own = np.empty(table.shape, dtype=int)
        for at, n in np.ndenumerate(table):
            own[at] = program.variable(*((0, table.sum()) if hides[at] else (n, n)))
        for row, n in zip(own, table.sum(axis=1), strict=True):
            program.line([(v, 1) for v in row], n, n)
        cells.append(own)
    for other in cells[1:]:
        for k in range(other.shape[1]):
            terms = [(v, 1) for v in cells[0][:, k]] + [(v, -1) for v in other[:, k]]
            program.line(terms, 0, 0)
    found = []
    for table, own in zip(tables, cells, strict=True):
        for at, n in np.ndenumerate(table):
            if n < 5 and table[:, at[1]].sum() and not is_open(program, int(own[at])):
                found.append((at, n))
    return found


def random_tables(rng):
    """Two attributes of the same rows, in which small counts are frequent."""
    n_rows, n_clusters = rng.integers(60, 200), rng.integers(2, 5)
    labels = rng.choice(n_clusters, n_rows, p=rng.dirichlet(np.full(n_clusters, 2.0)))
    tables = []
    for n_groups in rng.integers(2, 4, 2):
        groups = rng.choice(n_groups, n_rows, p=rng.dirichlet(np.full(n_groups, 2.0)))
        table = np.zeros((n_groups, n_clusters))
        np.add.at(table, (groups, labels), 1)
        tables.append(table)
    return tables


@pytest.mark.repeats
def test_no_count_of_one_attribute_follows_from_another(record_property):
    rng = np.random.default_rng(1)
    checked = 0
    while checked < times(15, 500):
        tables = random_tables(rng)
        safe = safe_attributes(tables)
        # Without counts there is nothing to compute from.
        if not safe[0].has_cells or not safe[0].pool.any():
            continue
        hidden = [np.broadcast_to(own.pool, own.counts.shape) for own in safe]
        assert not known_counts(tables, hidden), tables
        checked += 1
    record_property("tables", checked)


def test_an_attribute_without_small_counts_would_tell_those_of_another():
    sex = np.array([[3.0, 40, 57], [60, 70, 80]])
    region = np.array([[33.0, 60, 77], [30, 50, 60]])
    hidden = np.array([[True, True, False], [False, False, False]])
    assert not known_counts([sex], [hidden])
    assert known_counts([sex, region], [hidden, np.zeros((2, 3), bool)]) == [((0, 0), 3.0)]


def test_what_is_said_of_all_attributes_holds_in_every_world():
    sex = np.array([[3.0, 40, 57], [60, 70, 80]])
    region = np.array([[33.0, 60, 77], [30, 50, 60]])
    free = safe_attributes([sex, region])
    assert all(safe.has_cells for safe in free)
    # What moves in one of them moves in the other.
    for one, other in zip(free[0].worlds, free[1].worlds, strict=True):
        assert one.sum(axis=0).tolist() == other.sum(axis=0).tolist()
    # A sentence on the second table that only the true counts of the first one leave true.
    told = safe_attributes([sex, region], lambda tables: float(tables[1][:, 0].sum()))
    assert all(safe.silent for safe in told)
