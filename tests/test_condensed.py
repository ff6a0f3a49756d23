"""Rows condensed to points: what is kept exactly, and how small cells are."""

from dataclasses import replace

import numpy as np
import pytest

from cases import memory_table
from fairmix import FairMixture
from fairmix.datasets import make_grouped_blobs
from fairmix.fitting import schedule
from fairmix.fitting.search import Search, few_rows
from fairmix.kernels import Sweep
from fairmix.kernels.totals import Logits, Rows
from fairmix.mixture.families import Gaussian
from fairmix.tables import Condensed, find_cells, spread_within


def make(n_rows=4000, d=3, *, weight=None, blind=False, codes=None):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, d)) * np.arange(1, d + 1)
    groups = rng.integers(2, size=n_rows) * (rng.random(n_rows) < 0.8)
    encode = Gaussian(2, X.mean(axis=0)).encode
    propensity = (lambda rows: softmax_of(rows.numeric)) if blind else None
    return memory_table(
        Rows(X, codes), encode, groups=groups, n_groups=2, weight=weight, propensity=propensity
    )


def softmax_of(X):
    p = 1 / (1 + np.exp(-X[:, 0]))
    return np.vstack([p, 1 - p])


def test_cells_hold_rows_of_one_group_and_about_equally_many():
    table = make()
    groups = table.store.groups
    cells = find_cells(table.store.rows.numeric, groups, 256)
    sizes = np.bincount(cells.numbers, minlength=cells.n_cells)
    assert 128 <= cells.n_cells <= 256
    for group in (0, 1):
        own = np.unique(cells.numbers[groups == group])
        assert not np.isin(cells.numbers[groups != group], own).any()
        mean = (groups == group).sum() / len(own)
        assert np.abs(sizes[own] - mean).max() <= 4


def test_rows_of_a_cell_lie_side_by_side():
    """Eight halvings of three columns: each is cut in about six parts, so little is left."""
    table = make()
    numeric, groups = table.store.rows.numeric, table.store.groups
    cells = find_cells(numeric, groups, 512)
    assert spread_within(numeric, cells) < 0.15
    at_random = cells._replace(numbers=np.random.default_rng(1).permutation(cells.numbers))
    assert spread_within(numeric, at_random) > 0.8


def test_cells_of_single_rows_lose_nothing():
    points = np.arange(64.0)[:, None]
    cells = find_cells(points, np.zeros(64, dtype=int), 64)
    assert sorted(cells.numbers) == list(range(64))
    assert spread_within(points, cells) == pytest.approx(0, abs=1e-12)


def test_rows_of_long_tails_have_cells_of_their_own():
    """Else a small cluster far out shares its cells with rows that are far from it."""
    rng = np.random.default_rng(0)
    points = rng.standard_t(2, size=(4000, 3))
    groups = rng.integers(2, size=4000)
    cells, parted = (find_cells(points, groups, 256, n_lone) for n_lone in (0, 64))
    assert cells.n_cells <= parted.n_cells <= cells.n_cells + 64
    assert sorted(np.unique(parted.numbers)) == list(range(parted.n_cells))
    assert spread_within(points, parted) < 0.5 * spread_within(points, cells)
    # The others are where they were.
    sizes = np.bincount(parted.numbers)
    together = sizes[parted.numbers] > 1
    pairs = np.unique(np.column_stack([cells.numbers, parted.numbers])[together], axis=0)
    assert len(pairs) == (sizes > 1).sum()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("blind", [False, True])
def test_points_keep_the_sums_of_all_rows(weighted, blind):
    weight = np.random.default_rng(2).integers(0, 3, 4000).astype(float) if weighted else None
    table = make(weight=weight, blind=blind)
    cells = find_cells(table.store.rows.numeric, table.store.groups, 256)
    few = Condensed(table, cells, single=False)
    np.testing.assert_allclose(few.group_sizes, table.group_sizes)
    # One component: every row is its own whole, so that all sums are those of features alone.
    logits = Logits(
        np.zeros(1), np.zeros((1, table.encoder.encode(table.store.rows).dense.shape[1]))
    )
    sweep = Sweep(logits, offsets=np.zeros((2, 1)))
    mine, theirs = (part.softmax_pass(sweep) for part in (few, table))
    np.testing.assert_allclose(mine.sums.W, theirs.sums.W, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(mine.mass, theirs.mass)
    np.testing.assert_allclose(mine.model_mass, theirs.model_mass)


def test_rates_of_points_are_closer_to_those_of_all_rows_than_rates_of_a_sample():
    table = make(20_000, 2)
    rng = np.random.default_rng(3)
    points = few_rows(Search(points=512), table, rng, single=True)
    assert isinstance(points, Condensed)
    width = table.encoder.encode(table.store.rows.take(slice(0, 1))).dense.shape[1]
    errors = {"points": [], "sample": []}
    for _ in range(10):
        W = np.zeros((4, width))
        W[:, :2] = rng.normal(size=(4, 2))
        sweep = Sweep(Logits(np.zeros(4), W), offsets=np.zeros((2, 4)))

        def rates(part, sweep=sweep):
            return part.softmax_pass(sweep).mass / part.group_sizes[:, None]

        sample = table.sample(points.n_rows, rng)
        errors["points"].append(np.abs(rates(points) - rates(table)).max())
        errors["sample"].append(np.abs(rates(sample) - rates(table)).max())
    assert np.mean(errors["points"]) < 0.25 * np.mean(errors["sample"])


def test_what_has_no_mean_is_sampled():
    rng = np.random.default_rng(0)
    policy = Search(points=500, rows=1000)
    categories = rng.integers(2, size=(4000, 1))
    missing = make()
    missing.store.rows.numeric[7, 1] = np.nan
    wide = make(d=40)
    for table in (make(codes=categories), missing, wide, make(900)):
        few = few_rows(policy, table, rng, single=True)
        assert not isinstance(few, Condensed)
        assert few.n_rows == min(1000, table.n_rows)


def test_a_fit_of_condensed_rows_meets_its_bound_on_all(monkeypatch):
    X, groups, _ = make_grouped_blobs(3000, 3, 2, separation=3.0, imbalance=0.3, random_state=1)
    few = replace(schedule.SCHEDULE, search=Search(points=256))
    monkeypatch.setattr(schedule, "SCHEDULE", few)
    seen = []
    searched = schedule.Approach.searched

    def spy(self, few):
        seen.append(few)
        return searched(self, few)

    monkeypatch.setattr(schedule.Approach, "searched", spy)
    model = FairMixture(3, max_gap=0.01, random_state=0).fit(X, sensitive_features=groups)
    assert isinstance(seen[0], Condensed)
    assert model.label_gap_ <= 0.01
    assert len(np.unique(model.labels_)) == 3
