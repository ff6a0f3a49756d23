"""A report as its attacker reads it: nothing that it hides can be computed from all it prints."""

import os
import re
import warnings
from dataclasses import replace
from itertools import product
from math import inf, isinf
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from attack import Attack, HeldOut, MovesAttack, Program, Reading, is_open
from fairmix import FairMixture, pareto_front
from fairmix.criteria import MaxGap, MinRatio
from fairmix.report import disclosure, render
from fairmix.report import moves as report_moves
from fairmix.report import verdict as report_verdict
from fairmix.report.document import hidden_clusters
from fairmix.results.certificate import certify, chance_gap
from fairmix.results.profile import Profile
from fairmix.results.verdict import judge_counts, label_resolution
from fairmix.studies import FrontRow, ParetoFront
from repetition import times


def profile_of(counts):
    """A profile of counts, with a column that tells the clusters apart."""
    groups = [f"g{i}" for i in range(len(counts))]
    profile = Profile(groups=groups, n_clusters=len(counts[0]), numeric=["x"])
    profile.counts += np.asarray(counts)
    labels = np.repeat(range(len(counts[0])), np.sum(counts, axis=0))
    profile.numbers["x"].add(labels.astype(float), labels)
    return profile


def point(counts, limit):
    """A point of a front, with what a report reads of its model."""
    counts = np.asarray(counts, float)
    sizes = counts.sum(axis=1)
    verdict = judge_counts(counts, [""] * len(counts), limit, min_group_size=1)
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
    row = FrontRow(inf, verdict.value, verdict.value, 0.0, 0.5, cost, 2.5, filled, verdict.word)
    return replace(row, **{limit.parameter: limit.bound}), model


def random_tables(rng):
    """Up to three tables of the same rows, in which small counts are frequent, and their rules."""
    n_groups, n_clusters = rng.integers(2, 4), rng.integers(2, 6)
    sizes = rng.integers(6, rng.choice([40, 150]), n_groups)
    even = rng.random() < 0.5
    tables = []
    for _ in range(rng.integers(1, 4)):
        shares = rng.dirichlet(np.full(n_clusters, rng.choice([0.5, 1.0, 3.0])), n_groups)
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
    rule, bounds = MaxGap, (0.0, 0.02, 0.05, 0.1, 0.3, inf)
    if rng.random() < 0.3:
        rule, bounds = MinRatio, (0.3, 0.8, 1.0)
    return tables, [rule(float(bound)) for bound in rng.choice(bounds, len(tables))]


def attacked(tables, limits):
    """Counts that the page of some tables gives away, and how many it hides."""
    profile = profile_of(tables[0])
    verdict = judge_counts(profile.counts, profile.groups, limits[0], min_group_size=1)
    points = [point(t, limit) for t, limit in zip(tables[1:], limits[1:], strict=True)]
    front = None
    if points:
        rows, models = zip(*points, strict=True)
        front = ParetoFront(tuple(rows), tuple(models))
    reading = Reading(render(profile, front=front, verdict=verdict))
    named = [profile.groups.index(g) for g in reading.groups]
    if len(named) < len(profile.groups):
        # Groups of fewer than 10 rows are on no page, and neither are tables with them.
        assert profile.counts.sum(axis=1)[~np.isin(range(len(profile.groups)), named)].max() < 10
        assert not any(table.columns for table in reading.tables[1:])
        reading.tables = reading.tables[:1]
        if verdict.met is not None or len(named) < 2:
            assert not reading.tables[0].columns
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
    while n_tables < times(25, 1000):
        tables, limits = random_tables(rng)
        found, hidden = attacked(tables, limits)
        assert not found, (found, [t.tolist() for t in tables], limits)
        n_tables, n_hidden = n_tables + len(tables), n_hidden + hidden
    assert n_hidden > 10
    record_property("tables", int(n_tables))
    record_property("hidden", int(n_hidden))


def only_small(tables, says):
    """Clusters with a small count, and none beside them."""
    cells = np.vstack(tables)
    return (cells < 5).any(axis=0) & (cells.sum(axis=0) > 0), []


WEAKER = {
    "a pool of the small clusters alone": (disclosure, "_pooled", only_small),
    "figures that are told whatever they tell": (
        disclosure.SafeCounts,
        "tell_each",
        lambda self, figures: list(figures(self.counts)),
    ),
    "true sizes decide who is described": (
        disclosure.SafeCounts,
        "fewest",
        property(lambda self: self.sizes),
    ),
}
# A small count that follows from its row, a ratio of few rows, and clusters of 10 rows or more of
# which a met bound leaves 4 to 7 rows for each group.
TOLD = (
    ([[1, 2, 40, 57], [20, 21, 90, 150]], MaxGap(inf)),
    ([[13, 17, 4, 10], [14, 20, 5, 11], [3, 4, 1, 3]], MinRatio(0.8)),
    ([[6, 5, 4, 4, 4], [12, 9, 8, 7, 7]], MaxGap(0.02)),
)


@pytest.mark.parametrize(("weaker", "told"), [*zip(WEAKER, TOLD, strict=True)])
def test_the_attacker_finds_what_a_weaker_rule_tells(weaker, told, monkeypatch):
    counts, limit = np.array(told[0]), told[1]
    assert not attacked([counts], [limit])[0]
    monkeypatch.setattr(*WEAKER[weaker])
    assert attacked([counts], [limit])[0]


def test_the_attacker_of_held_out_rows_finds_what_exact_gaps_tell(monkeypatch):
    counts = np.array([[6, 7], [3, 14]])
    assert not attacked_held_out(counts, MaxGap(0.5), 0.0)[0]
    monkeypatch.setattr(report_verdict, "rounded_up", lambda number, sizes, **_: f"{number:.4f}")
    found, _ = attacked_held_out(counts, MaxGap(0.5), 0.0)
    assert [(g, k, values) for g, k, values, _ in found] == [
        ("g0", "0", [6, 7]),
        ("g0", "1", [6, 7]),
    ]


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


def test_a_verdict_that_would_tell_counts_is_nowhere():
    """Groups of 10 to 20 rows in seven clusters, as even as whole rows can be."""
    counts = [
        *([3, 3, 2, 1, 0, 0, 1], [4, 5, 2, 3, 1, 1, 0], [6, 5, 2, 4, 1, 0, 0]),
        *([5, 5, 2, 2, 2, 0, 0], [3, 3, 2, 2, 0, 0, 1]),
    ]
    profile = profile_of(counts)
    verdict = judge_counts(counts, profile.groups, 0.0, min_group_size=1)
    assert verdict.word == "met"
    rows, models = zip(point(counts, MaxGap(0.0)), strict=True)
    html = render(profile, verdict=verdict, front=ParetoFront(rows, models))
    reading = Reading(html)
    assert "Whether the bound is met is not told: " in reading.words
    assert "The bound is met" not in reading.words
    assert 'class="verdict measured"' in html
    main, point_of_front = reading.tables
    assert (main.gap, main.verdict, main.columns) == ("hidden", "no bound", [])
    assert (point_of_front.gap, point_of_front.verdict) == ("hidden", "hidden")


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
                # Nobody is in a cluster of so few rows as the range is wide.
                assert is_open(program, variable) or table[k].sum() < 5, (
                    column,
                    category,
                    k,
                    program.values(variable),
                    table.to_dict(),
                )
    assert n_hidden > 30
    assert n_printed > 5
    record_property("reports", times(8, 300))
    record_property("hidden", int(n_hidden))
    record_property("printed", int(n_printed))


def attacked_held_out(counts, limit, chance):
    """Counts of held-out rows that a page gives away, and how many there are."""
    names = [f"g{i}" for i in range(len(counts))]
    labels = np.concatenate([np.repeat(range(len(row)), row) for row in counts])
    groups = np.repeat(names, counts.sum(axis=1))
    criterion = "rate_ratio" if limit.at_least else "gap"
    found = certify(labels, groups, n_clusters=counts.shape[1], criterion=criterion)
    verdict = judge_counts(counts, names, limit, min_group_size=1)
    found = replace(found, verdict=verdict, chance=chance)
    even = np.full(counts.shape, 1000)
    on_fit = judge_counts(even, names, limit)
    html = render(profile_of(even), verdict=on_fit, certificate=found)
    resolution = label_resolution("gap", counts.sum(axis=1), counts.shape[1])
    return Attack(HeldOut(html, counts.shape[1]), [counts], [resolution]).known([counts])


@pytest.mark.repeats
def test_no_count_of_held_out_rows_can_be_computed(record_property):
    """Their gap or smallest ratio, the verdict on them, and the sizes of their groups."""
    rng = np.random.default_rng(2)
    n_hidden = n_tables = 0
    while n_tables < times(8, 200):
        [counts, *_], [limit, *_] = random_tables(rng)
        if counts.sum(axis=1).min() < 10 or isinf(limit.bound):
            continue
        # Half of those that miss the bound do so by chance.
        known, hidden = attacked_held_out(counts, limit, float(rng.choice([0.0, 1.0])))
        assert not known, (known, counts.tolist(), limit)
        n_tables, n_hidden = n_tables + 1, n_hidden + hidden
    record_property("tables", int(n_tables))
    record_property("hidden", int(n_hidden))


def random_moves(rng):
    """Rows of each group that had a cluster and have one after a repair, and its rule."""
    n_groups, n_clusters = rng.integers(2, 4), rng.integers(2, 6)
    sizes = rng.integers(12, rng.choice([40, 150, 600]), n_groups)
    shares = rng.dirichlet(np.full(n_clusters, rng.choice([0.5, 1.0, 3.0])), n_groups)
    before = np.array([rng.multinomial(n, p) for n, p in zip(sizes, shares, strict=True)])
    stay = rng.choice([0.1, 0.6, 0.9, 0.97])
    rows = np.zeros((n_groups, n_clusters, n_clusters), dtype=int)
    for g, k in np.ndindex(before.shape):
        go = (1 - stay) * rng.dirichlet(np.full(n_clusters, 0.5))
        go[k] += stay
        rows[g, k] = rng.multinomial(before[g, k], go)
    rule = MaxGap(float(rng.choice([0.02, 0.05, 0.1, 0.3])))
    return rows, rule if rng.random() < 0.6 else MinRatio(float(rng.choice([0.3, 0.8])))


def attacked_moves(rows, limit):
    """The attack on the two reports of a repair."""
    tables = rows.sum(axis=2), rows.sum(axis=1)
    profiles = [profile_of(table) for table in tables]
    verdicts = [judge_counts(t, profiles[0].groups, limit, min_group_size=1) for t in tables]
    moves = report_moves.Moves(rows, hidden_clusters(profiles[0], verdicts[0], "gap"))
    before = render(profiles[0], verdict=verdicts[0])
    after = render(profiles[1], verdict=verdicts[1], moves=moves)
    resolution = label_resolution("gap", tables[0].sum(axis=1), len(rows[0]))
    return MovesAttack(Reading(before), Reading(after), rows, [resolution] * 2)


@pytest.mark.repeats
def test_no_move_of_a_repair_can_be_computed(record_property):
    """Nor a count that one of its two reports hides."""
    rng = np.random.default_rng(4)
    n_hidden = n_listed = 0
    for _ in range(times(15, 300)):
        rows, limit = random_moves(rng)
        attack = attacked_moves(rows, limit)
        found, hidden = attack.known()
        assert not found, (found, rows.tolist(), limit)
        n_hidden, n_listed = n_hidden + hidden, n_listed + attack.n_listed
    assert n_hidden > 50
    assert n_listed > 3
    record_property("reports", times(15, 300))
    record_property("hidden", int(n_hidden))


def test_the_attacker_of_moves_finds_what_narrower_ranges_tell(monkeypatch):
    """Of two clusters, the rows that go back follow from those that go there."""
    rows = np.array([[[50, 18], [2, 40]], [[40, 20], [1, 48]]])
    assert not attacked_moves(rows, MaxGap(0.3)).known()[0]
    monkeypatch.setattr(report_moves, "FEWEST", 2)
    monkeypatch.setattr(report_moves, "_is_open", lambda *_: True)
    found, _ = attacked_moves(rows, MaxGap(0.3)).known()
    assert [(a, b, values) for a, b, values, _ in found] == [
        ("0", "1", [37, 38]),
        ("1", "0", [2, 3]),
    ]


def test_a_cluster_whose_rows_all_moved_is_in_no_line():
    """Nobody could change places, so the pages would tell how few went back."""
    rows = np.array([[[0, 40], [30, 0]], [[0, 50], [20, 0]]])
    assert attacked_moves(rows, MaxGap(0.9)).n_listed == 0


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


# Reports of the long run; a campaign asks for more by the same variable as Hypothesis' examples.
CAMPAIGN = min(300, int(os.environ.get("FAIRMIX_EXAMPLES", "60")))


@pytest.mark.repeats
def test_no_count_of_rendered_reports_can_be_computed(record_property):
    """Fits, their fronts and their reports, of tables so small that counts are."""
    rng = np.random.default_rng(3)
    n_hidden = n_reports = n_withheld = 0
    # 300 take more than eight minutes: a campaign.
    while n_reports < times(2, CAMPAIGN):
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
        html = render(profile, model=model, front=front)
        # Values of clusters with few rows are in nothing that the page prints.
        few = np.bincount(model.labels_, minlength=n_clusters)[model.labels_] < 10
        moved = Profile.from_frame(X + 100 * few[:, None], model.labels_, groups, clusters=names)
        assert render(moved, model=model, front=front) == html
        n_withheld += few.any()
        reading = Reading(html)
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
    record_property("reports", int(n_reports))
    record_property("hidden", int(n_hidden))
    record_property("withheld", int(n_withheld))
