"""What the groups tell of rows and logits, and how it is taken back."""

import numpy as np
import pytest

from cases import M, each_family, memory_table, problem
from fairmix.fitting.search import known_groups
from fairmix.fitting.starts import Level
from fairmix.kernels.logits import LogitMap, tilted
from fairmix.kernels.totals import Logits
from fairmix.solvers.levelling import Levelling
from fairmix.solvers.tilt import Tilt


def told(known, values, weight):
    """Slopes of values (n, ...) on rho, whose first group follows from the others; naively."""
    columns = np.column_stack([np.ones(known.shape[1]), known[1:].T])
    root = np.sqrt(weight)[:, None]
    return np.linalg.lstsq(columns * root, values * root, rcond=None)[0][1:]


def logits_of(table, logits, offsets):
    """Of all rows, less their mean over the clusters, (n, K)."""
    tilts = LogitMap(logits, offsets, 1.0)
    rows = np.hstack(list(table.each(lambda block: tilted(block, tilts)))).T
    return rows - rows.mean(axis=1, keepdims=True)


def made(case, *, blind):
    """A weighted problem whose groups depend on the rows."""
    given = problem(case)
    rows, rng = given.rows, np.random.default_rng(3)
    chance = rng.dirichlet(np.ones(M), size=rows.n_rows).T
    weight = rng.uniform(0.5, 2, size=rows.n_rows)
    table = memory_table(
        rows,
        given.mixture.family.encode,
        groups=given.groups,
        n_groups=M,
        weight=weight,
        # A table also asks for its first few rows.
        propensity=(lambda few: chance[:, : few.n_rows]) if blind else None,
    )
    return given, table, weight


@each_family
@pytest.mark.parametrize("blind", [False, True])
def test_a_level_tilt_leaves_nothing_for_the_groups_to_tell(case, blind):
    given, table, weight = made(case, blind=blind)
    logits = given.mixture.logits(given.theta)
    known = known_groups(table)
    tilt = Tilt.of(table, given.mixture.n_components)
    levelling = Levelling.of(tilt, logits.W.shape[1])
    level = levelling.level(tilt, logits)
    assert np.abs(told(known, logits_of(table, logits, None), weight)).max() > 1e-2
    np.testing.assert_allclose(
        told(known, logits_of(table, logits, level.offsets), weight), 0, atol=1e-8
    )
    np.testing.assert_allclose(level.multipliers.sum(axis=0), 0, atol=1e-10)
    # It stays level where components move, half of it stays half, and no tilt stays none.
    moved = Logits(logits.b + 1, logits.W[::-1])
    followed = levelling.follow(level, logits, moved)
    np.testing.assert_allclose(
        followed.multipliers, levelling.level(tilt, moved).multipliers, atol=1e-10
    )
    half = levelling.follow(tilt.at(level.multipliers / 2), logits, moved)
    np.testing.assert_allclose(half.multipliers, followed.multipliers / 2, atol=1e-10)
    np.testing.assert_array_equal(levelling.follow(tilt, logits, moved).multipliers, 0)


@pytest.mark.parametrize("weighted", [False, True])
def test_levelled_points_have_equal_means_in_each_group(weighted):
    rng = np.random.default_rng(0)
    groups = rng.integers(3, size=200)
    points = rng.normal(size=(200, 2)) + groups[:, None] * [1.0, -2.0]
    weight = rng.uniform(0.5, 2, size=200) if weighted else None
    known = np.eye(3)[groups].T
    for share in (0.0, 0.25, 1.0):
        out = Level(known, share)(points, weight)
        for g in range(3):
            own = np.flatnonzero(groups == g)
            of = None if weight is None else weight[own]
            before = np.average(points[own], axis=0, weights=of)
            after = np.average(out[own], axis=0, weights=of)
            np.testing.assert_allclose(after, (1 - share) * before, atol=1e-9)


def test_levelled_points_are_free_of_squares_of_chances():
    rng = np.random.default_rng(0)
    chance = rng.uniform(size=300)
    points = np.column_stack([chance**2, rng.normal(size=300)])
    out = Level(np.vstack([1 - chance, chance]), 1.0)(points, None)
    np.testing.assert_allclose(out[:, 0], 0, atol=1e-9)
    assert 0.9 < out[:, 1].std() / points[:, 1].std() <= 1
