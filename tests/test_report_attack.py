"""A report as its attacker reads it: nothing that it hides can be computed from all it prints."""

from math import inf
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from attack import Attack, Reading, span
from repetition import times

from fairmix.report import render
from fairmix.results.profile import Profile
from fairmix.results.verdict import judge_counts, label_resolution
from fairmix.studies import FrontRow, ParetoFront


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
    model = SimpleNamespace(
        rates_=counts / sizes[:, None],
        group_sizes_=sizes,
        groups_=np.array([f"g{i}" for i in range(len(counts))]),
        unjudged_groups_={},
        criterion="gap",
        gap_of="labels",
        gap_=verdict.value,
        max_gap=bound,
        resolution_=verdict.resolution,
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
            assert not (reading.tables[0].shares or reading.tables[0].counts)
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
    while n_tables < times(40, 1000):
        tables, bounds = random_tables(rng)
        found, hidden = attacked(tables, bounds)
        assert not found, (found, [t.tolist() for t in tables], bounds)
        n_tables, n_hidden = n_tables + len(tables), n_hidden + hidden
    assert n_hidden > 100
    record_property("tables", n_tables)
    record_property("hidden", n_hidden)
