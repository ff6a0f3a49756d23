"""A report as its attacker reads it: nothing that it hides can be computed from all it prints."""

import re
import warnings
from itertools import product
from math import inf
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from attack import Attack, Program, Reading, open_ends
from fairmix import FairMixture, pareto_front
from fairmix.report import disclosure, render
from fairmix.results.certificate import certify, chance_gap
from fairmix.results.profile import Profile
from fairmix.results.verdict import judge_counts, label_resolution
from fairmix.studies import FrontRow, ParetoFront
from repetition import LONG, times


def profile_of(counts):
    """A profile of counts, without columns."""
    groups = [f"g{i}" for i in range(len(counts))]
    profile = Profile(groups=groups, n_clusters=len(counts[0]))
    profile.counts += np.asarray(counts)
    return profile


def point(counts, bound):
    """A point of a front, with what a report reads of its model."""
    counts = np.asarray(counts, float)
    sizes = counts.sum(axis=1)
    verdict = judge_counts(counts, [""] * len(counts), bound, min_group_size=1)
    names = tuple(f"g{i}" for i in range(len(counts)))
    fitted = SimpleNamespace(
        verdict=verdict,
        groups=SimpleNamespace(names=names, sizes=sizes, attributes=()),
        fairness=SimpleNamespace(rates=counts / sizes[:, None]),
    )
    fitted.by_attribute = {"": fitted}
    model = SimpleNamespace(
        rates_=counts / sizes[:, None],
        unjudged_groups_={},
        criterion="gap",
        gap_of="labels",
        fitted_=fitted,
        fairness_strength="auto",
        n_components=counts.shape[1],
    )
    cost = 100.0 + counts[0, 0]
    filled = int((counts.sum(axis=0) > 0).sum())
    row = FrontRow(bound, verdict.value, verdict.value, 0.0, 0.5, cost, 2.5, filled, verdict.word)
    return row, model


def random_tables(rng):
    """Up to three tables of the same rows, in which small counts are frequent, and their bounds."""
    n_groups, n_clusters = rng.integers(2, 4), rng.integers(2, 5)
    sizes = rng.integers(6, 60, n_groups)
    even = rng.random() < 0.5
    tables = []
    for _ in range(rng.integers(1, 4)):
        shares = rng.dirichlet(rng.choice([0.5, 1.0, 3.0], n_clusters), n_groups)
        if even:
            shares[:] = shares[0]
            # As a fit that meets its bound leaves them: as equal as whole rows can be.
            counts = np.floor(shares * sizes[:, None] + rng.random((n_groups, 1))).astype(int)
            counts[:, -1] += sizes - counts.sum(axis=1)
            counts = np.maximum(counts, 0)
            counts[:, 0] += sizes - counts.sum(axis=1)
        if not even or (counts < 0).any():
            counts = np.array([rng.multinomial(n, p) for n, p in zip(sizes, shares, strict=True)])
        tables.append(counts)
    bounds = rng.choice([0.0, 0.02, 0.05, 0.1, 0.3, inf], len(tables))
    return tables, bounds.tolist()


def attacked(tables, bounds):
    """Counts that the page of some tables gives away, and how many it hides."""
    profile = profile_of(tables[0])
    verdict = judge_counts(profile.counts, profile.groups, bounds[0], min_group_size=1)
    points = [point(t, b) for t, b in zip(tables[1:], bounds[1:], strict=True)]
    front = None
    if points:
        rows, models = zip(*points, strict=True)
        front = ParetoFront(tuple(rows), tuple(models))
    reading = Reading(render(profile, front=front, verdict=verdict))
    named = [profile.groups.index(g) for g in reading.groups]
    if len(named) < len(profile.groups):
        # Groups of fewer than 10 rows are on no page, and neither are tables with them.
        assert profile.counts.sum(axis=1)[~np.isin(range(len(profile.groups)), named)].max() < 10
        assert not any(table.shares or table.counts for table in reading.tables[1:])
        reading.tables = reading.tables[:1]
        if verdict.met is not None or len(named) < 2:
            assert not any((reading.tables[0].shares, reading.tables[0].counts))
            return [], len(named)
    shown = [np.asarray(t)[named] for t in tables[: len(reading.tables)]]
    sizes = shown[0].sum(axis=1)
    resolution = label_resolution("gap", sizes, shown[0].shape[1])
    attack = Attack(reading, shown, [resolution] * len(shown))
    return attack.known(shown)


@pytest.mark.repeats
def test_no_count_of_small_tables_can_be_computed(record_property):
    rng = np.random.default_rng(0)
    n_tables = n_hidden = 0
    while n_tables < times(12, 1000):
        tables, bounds = random_tables(rng)
        found, hidden = attacked(tables, bounds)
        assert not found, (found, [t.tolist() for t in tables], bounds)
        n_tables, n_hidden = n_tables + len(tables), n_hidden + hidden
    assert n_hidden > 10
    record_property("tables", n_tables)
    record_property("hidden", n_hidden)


def test_the_attacker_finds_what_is_not_protected(monkeypatch):
    """Small counts alone hidden: the sizes of the groups give them away."""

    def naive(table, group, says):
        return table[group] < 5, []

    monkeypatch.setattr(disclosure, "_protected", naive)
    found, _ = attacked([np.array([[3, 20, 30], [25, 30, 40]])], [inf])
    assert found == [("g0", "0", 3, 3, 3)]
    found, _ = attacked([np.array([[4, 4, 30], [25, 30, 40]])], [inf])
    assert [low for *_, low, high, _ in found] == [4, 4]


def moved(counts, rows):
    """The table with so many rows in the first cell, and the others in the next."""
    out = counts.copy()
    out[0, :2] = rows, counts[0, :2].sum() - rows
    return out


def test_the_note_on_chance_is_the_same_for_every_hidden_count():
    counts = np.array([[3, 40, 57], [60, 90, 150]])
    found = re.search(r"show a gap below ([\d.]+)", Reading(render(profile_of(counts))).words)
    fits = []
    for rows in range(1, 5):
        tried = moved(counts, rows)
        words = Reading(render(profile_of(tried))).words
        fits.append(f"show a gap below {found[1]}" in words)
    assert fits == [True] * 4
    exact = [
        chance_gap(t.sum(axis=0), t.sum(axis=1), n_draws=500).quantile95
        for t in (moved(counts, rows) for rows in range(1, 5))
    ]
    assert len({f"{value:.4f}" for value in exact}) > 1, "exact counts would have told"


def test_the_size_of_a_group_that_is_not_shown_is_nowhere():
    """A judged group of few rows: neither in a sum, nor in what whole rows resolve."""
    pages = []
    for size in (2, 3, 7):
        counts = np.array([[size, 0], [60, 40], [59, 41]])
        profile = profile_of(counts)
        verdict = judge_counts(counts, profile.groups, 0.0, min_group_size=1)
        pages.append(render(profile, verdict=verdict))
    assert pages[0] == pages[1] == pages[2]
    assert "Not shown: g0 (fewer than 10 rows)." in Reading(pages[0]).words
    met = np.array([[2, 2], [5, 5]])
    verdict = judge_counts(met, ["g0", "g1"], 0.0, min_group_size=1)
    assert verdict.word == "met"
    assert "to within" not in Reading(render(profile_of(met), verdict=verdict)).words


def lonely(income, rows=41):
    """A table with a cluster of one row."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "income": rng.normal(40_000, 8_000, rows).round(),
            "town": rng.choice(["u", "v"], rows),
            "owner": (rng.random(rows) < 0.3).astype(float),
        }
    )
    labels = (frame["income"] > 40_000).to_numpy().astype(int)
    labels[7] = 2
    frame.loc[7, "income"] = income
    frame.loc[7, "owner"] = float(income > 50_000)
    frame.loc[7, "town"] = "w" if income > 50_000 else "u"
    return Profile.from_frame(frame, labels, np.tile(["f", "m"], rows)[:rows])


@pytest.mark.parametrize("rows", [41, 400])
def test_the_values_of_a_cluster_of_one_row_change_nothing(rows):
    assert render(lonely(987_654, rows)) == render(lonely(12_345, rows))


def test_the_mean_of_all_rows_does_not_tell_sizes_of_clusters():
    """Of the means of clusters and of all rows, one could tell how large the clusters are."""
    counts = np.array([[3, 40, 57], [60, 90, 150]])
    pages = set()
    for rows in range(1, 5):
        table = moved(counts, rows)
        labels = np.concatenate([np.repeat([0, 1, 2], row) for row in table])
        frame = pd.DataFrame({"x": 10.0 * labels**2})
        groups = np.repeat(["f", "m"], table.sum(axis=1))
        html = render(Profile.from_frame(frame, labels, groups))
        pages.add(html.split('id="features"')[1].split("</section>")[0])
    assert len(pages) == 1
    assert pages.pop().count(">x<") == 3


def test_missing_values_name_nobody():
    frame = pd.DataFrame({"x": np.arange(100.0), "y": np.arange(100.0)})
    frame.loc[3:, "x"] = np.nan
    frame.loc[:2, "y"] = np.nan
    words = Reading(render(Profile.from_frame(frame, [0, 1] * 50, ["f"] * 50 + ["m"] * 50))).words
    assert "values missing x: above 95%, y: below 5%" in words


def random_categories(rng):
    """A table of categories and a column of 0 and 1, and the clusters and groups of its rows."""
    n_clusters = rng.integers(2, 5)
    rows = int(rng.choice([13, 60, 150, 400]))
    labels = rng.choice(n_clusters, rows, p=rng.dirichlet(np.full(n_clusters, 2.0)))
    names = np.array(list("uvwxyz")[: rng.integers(2, 6)])
    shares = rng.dirichlet(np.full(len(names), rng.choice([0.3, 1.0, 3.0])), n_clusters)
    town = np.array([rng.choice(names, p=shares[k]) for k in labels])
    owner = (rng.random(rows) < rng.dirichlet([1.0] * n_clusters)[labels]).astype(float)
    frame = pd.DataFrame({"town": town, "owner": owner})
    return frame, labels, rng.choice(["f", "m"], rows)


@pytest.mark.repeats
def test_no_count_of_a_category_can_be_computed(record_property):
    """The rows of each cluster are taken as known, and so is which of them ``all`` is about."""
    rng = np.random.default_rng(1)
    n_hidden = n_printed = 0
    for _ in range(times(8, 300)):
        frame, labels, groups = random_categories(rng)
        reading = Reading(render(Profile.from_frame(frame, labels, groups)))
        for column in frame:
            table = pd.crosstab(frame[column], labels)
            if len(table) < 2:
                continue
            table.index = [f"{name:.0f}" if column == "owner" else name for name in table.index]
            printed = reading.shares_of(column)
            program = Program()
            x = {
                cell: program.variable(0, table.sum().max()) for cell in product(table.index, table)
            }
            for k in table:
                rows = int(table[k].sum())
                program.line([(x[c, k], 1) for c in table.index], rows, rows)
            described = [k for k in table if table[k].sum() >= 50]
            total = table[described].to_numpy().sum()
            for (category, k), (here, overall) in printed.items():
                program.line([(x[category, k], 1)], *(e * table[k].sum() / 100 for e in here))
                line = [(x[category, j], 1) for j in described]
                program.line(line, *(e * total / 100 for e in overall))
            n_printed += len(printed)
            for (category, k), variable in x.items():
                if (category, k) in printed:
                    continue
                n_hidden += 1
                low, high = (program.extreme(variable, sign) for sign in (1, -1))
                assert low <= table.loc[category, k] <= high
                # Nobody is in a cluster of so few rows as the range is wide.
                assert open_ends(program, variable, low, high) or table[k].sum() < 5, (
                    column,
                    category,
                    k,
                    low,
                    high,
                    table.to_dict(),
                )
    assert n_hidden > 30
    assert n_printed > 5
    record_property("reports", times(8, 300))
    record_property("hidden", n_hidden)
    record_property("printed", n_printed)


@pytest.mark.repeats
def test_no_count_of_held_out_rows_can_be_computed(record_property):
    """All counts of two groups in two clusters are tried: many give the same page."""
    rng = np.random.default_rng(2)
    profile = profile_of([[500, 400], [600, 450]])
    n_tried = 0
    for _ in range(times(1, 60)):
        sizes = rng.integers(10, 40, 2)
        true = [
            int(rng.integers(0, n + 1)) if rng.random() < 0.5 else int(rng.integers(0, 5))
            for n in sizes
        ]
        said = held_out_words(profile, sizes, true)
        fits = []
        for counts in product(*(range(n + 1) for n in sizes)):
            # The gap first: it costs next to nothing.
            gap = abs(counts[0] / sizes[0] - counts[1] / sizes[1])
            if f"): {disclosure.rounded_up(gap, sizes)}. The" in said:
                n_tried += 1
                if held_out_words(profile, sizes, counts) == said:
                    fits.append(counts)
        assert tuple(true) in fits
        for values in np.transpose(fits):
            assert {1, 2, 3, 4} <= set(values.tolist()) or np.ptp(values) >= 5, (sizes, true, fits)
    record_property("tables", n_tried)


def held_out_words(profile, sizes, inside):
    """What a page says of held-out rows of two groups, so many of them in the first cluster."""
    labels = np.concatenate(
        [np.repeat([0, 1], [k, n - k]) for n, k in zip(sizes, inside, strict=True)]
    )
    found = certify(labels, np.repeat(["a", "b"], sizes), n_clusters=2)
    html = render(profile, certificate=found)
    return html.split('id="certificate"')[1].split("</section>")[0]


def test_few_held_out_rows_of_a_group_are_nowhere():
    pages = {
        held_out_words(profile_of([[500, 400], [600, 450]]), [size, 117], [1, 60])
        for size in (2, 3, 9)
    }
    assert len(pages) == 1
    assert "What these rows certify is not shown" in pages.pop()


# Of 300 reports with fronts, the attacker narrows hidden counts of one to 4 to 7: a bound of 0.02
# that is met says so much of a group of 23 rows in five clusters. The room does not see that yet.
@pytest.mark.xfail(LONG, reason="a met bound and shown sizes narrow hidden counts of a front")
@pytest.mark.repeats
def test_no_count_of_rendered_reports_can_be_computed(record_property):
    """Fits, their fronts and their reports, of tables so small that counts are."""
    rng = np.random.default_rng(3)
    n_hidden = n_reports = 0
    while n_reports < times(1, 300):
        n_rows, n_groups, n_clusters = rng.integers(40, 120), rng.integers(2, 4), rng.integers(3, 6)
        X = rng.normal(size=(n_rows, 2)) + 3 * rng.integers(0, 2, (n_rows, 1))
        # One group of about 20 rows, so that it has few in most clusters.
        shares = np.array([20 / n_rows, *[(1 - 20 / n_rows) / (n_groups - 1)] * (n_groups - 1)])
        groups = rng.choice([f"g{i}" for i in range(n_groups)], n_rows, p=shares)
        if np.unique(groups, return_counts=True)[1].min() < 10:
            continue
        settings = {"random_state": 0, "min_group_size": 1, "assignment": "aware"}
        bounds = rng.choice([0.0, 0.02, 0.1, 0.3, inf], 3, replace=False).tolist()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            front = pareto_front(
                FairMixture(int(n_clusters), **settings),
                X,
                sensitive_features=groups,
                max_gaps=bounds,
            )
        model = front.models[0]
        names = [str(k) for k in range(n_clusters)]
        profile = Profile.from_frame(X, model.labels_, groups, clusters=names)
        reading = Reading(render(profile, model=model, front=front))
        # Hidden where clusters are so small that they tell how far their rows are from others.
        small = any((np.bincount(m.labels_) < 10).any() for m in front.models)
        assert not small or "−log-likelihood" not in reading.words
        truth = [profile.counts] + [
            np.rint(m.rates_ * m.group_sizes_[:, None]).astype(int) for m in front.models
        ]
        attack = Attack(reading, truth, [m.resolution_ for m in (model, *front.models)])
        found, hidden = attack.known(truth)
        assert not found, (found, [t.tolist() for t in truth], bounds)
        n_reports, n_hidden = n_reports + 1, n_hidden + hidden
    assert n_hidden > 0
    record_property("reports", n_reports)
    record_property("hidden", n_hidden)
