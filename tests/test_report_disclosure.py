"""What the disclosure room hides, rounds and tells."""

import numpy as np
import pytest

from fairmix.criteria import CRITERIA
from fairmix.report.disclosure import (
    SafeCounts,
    open_to_readers,
    rounded_up,
    safe_shares,
    safe_tables,
    share_of,
)
from fairmix.report.shares import panel
from fairmix.results.verdict import judge_counts


def word(bound):
    return lambda counts: judge_counts(counts, "abcde"[: len(counts)], bound, min_group_size=1).word


@pytest.mark.parametrize("seed", range(12))
def test_every_count_of_the_pool_is_open_in_the_worlds(seed):
    rng = np.random.default_rng(seed)
    shape = rng.integers(2, 5), rng.integers(2, 6)
    counts = rng.poisson(rng.choice([3, 8, 20, 60], size=shape)) + 3
    safe = SafeCounts.of(counts, word(0.2))
    assert not safe.silent
    if safe.closed:
        assert counts.sum(axis=1).min() < 10
        return
    assert (safe.pool >= (counts < 5).any(axis=0)).all()
    worlds = np.array([counts, *safe.worlds])
    assert (worlds.sum(axis=2) == counts.sum(axis=1)).all(), "sizes of groups are known"
    assert (worlds >= 0).all()
    assert (worlds[:, :, ~safe.pool] == counts[:, ~safe.pool]).all(), "shown in all worlds"
    assert {word(0.2)(world) for world in worlds} == {word(0.2)(counts)}
    for cell in zip(*np.nonzero(np.broadcast_to(safe.pool, counts.shape)), strict=True):
        values = {float(world[cell]) for world in worlds}
        assert {1, 2, 3, 4} <= values or max(values) - min(values) >= 5
        # A small count may be any small count, unless the verdict forbids that.
        if counts[cell] < 5 and word(0.2)(counts) == "met":
            assert len(values & {1, 2, 3, 4}) > 1


def test_large_counts_are_all_shown():
    safe = SafeCounts.of([[50, 60], [70, 80]])
    assert not safe.pool.any()
    assert [(clusters, rows.tolist()) for clusters, rows in safe.columns] == [
        ([0], [50, 70]),
        ([1], [60, 80]),
    ]
    assert safe.gap("gap") == "0.0121"
    assert safe.balance() == "0.7143"


def test_a_cluster_with_a_small_count_is_shown_together_with_the_next_smallest():
    safe = SafeCounts.of([[3, 40, 50], [60, 70, 80]])
    assert safe.pool.tolist() == [True, True, False]
    drawn = panel(safe, ["a", "b", "c"], ["f", "m"], "gap")
    assert [cluster.name for cluster in drawn.clusters] == ["Cluster c", "Clusters a, b together"]
    assert [cluster.size for cluster in drawn.clusters] == ["130", "173"]
    assert [cluster.share for cluster in drawn.clusters] == ["42.9%", "57.1%"]
    assert [cluster.gap for cluster in drawn.clusters] == ["0.1567", ""]
    bars = [bar for cluster in drawn.clusters for bar in cluster.bars]
    assert [bar.count for bar in bars] == ["50", "80", "43", "130"]
    assert [bar.text for bar in bars] == ["38.5%", "61.5%", "24.9%", "75.1%"]
    assert [bar.rate for bar in bars] == ["53.8%", "38.1%", "46.2%", "61.9%"]
    assert safe.estimate.tolist() == [[21.5, 21.5, 50], [65, 65, 80]]


def test_the_pool_has_ten_rows_of_each_group():
    safe = SafeCounts.of([[2, 6, 30, 40], [20, 21, 40, 50]])
    assert safe.pool.tolist() == [True, True, True, False]


def test_an_empty_cluster_hides_nobody():
    safe = SafeCounts.of([[50, 0, 60], [70, 0, 80]])
    assert not safe.pool.any()
    assert safe.balance() == "0.7143"
    assert panel(safe, "abc", ["f", "m"], "gap").clusters[1].empty


def test_a_group_of_fewer_than_ten_rows_has_no_table():
    assert SafeCounts.of([[4, 5], [70, 80]]).closed
    assert not SafeCounts.of([[5, 5], [70, 80]]).closed
    safe = SafeCounts.nothing([[1, 2], [100, 200]])
    assert (safe.gap("gap"), safe.gap("gap", cap=0.1), safe.balance()) == (
        "hidden",
        "at most 0.1000",
        "hidden",
    )
    assert safe.fewest.tolist() == [0, 0]
    assert panel(safe, ["0", "1"], ["a", "b"], "gap").clusters == ()


def test_a_gap_on_the_pool_is_rounded_up_and_balance_is_hidden():
    counts = np.array([[2, 98, 100], [150, 75, 75]])
    safe = SafeCounts.of(counts)
    exact = CRITERIA["gap"].value(counts / counts.sum(axis=1, keepdims=True))
    shown = safe.gap("gap")
    assert shown.startswith("at most ")
    assert exact <= float(shown[8:]) <= exact + 20 / 200
    assert safe.balance() == "hidden"
    assert safe.gap("gap", cap=exact) == f"at most {np.ceil(exact * 1e4) / 1e4:.4f}"


@pytest.mark.parametrize("criterion", list(CRITERIA))
def test_at_most_is_true_for_every_criterion(criterion):
    rng = np.random.default_rng(0)
    for _ in range(50):
        counts = rng.poisson(rng.choice([2, 8, 40], size=(3, 4))) + 3
        exact = CRITERIA[criterion].value(counts / counts.sum(axis=1, keepdims=True))
        said = SafeCounts.of(counts).gap(criterion)
        if said.startswith("at most"):
            assert exact <= float(said[8:])
        elif said != "hidden":
            assert abs(exact - float(said)) <= 0.5e-4 + 1e-12


def test_a_gap_on_shown_counts_is_exact_although_others_are_hidden():
    safe = SafeCounts.of([[600, 3, 12, 385], [300, 3, 12, 685]])
    assert safe.pool.tolist() == [False, True, True, False]
    assert safe.gap("gap") == "0.3000"


def test_a_tight_verdict_leaves_the_sizes_of_clusters_open():
    """Rates within 0.001 of those of a group of 100,000 are the counts of one of 100."""
    counts = [[3, 37, 60], [3000, 37000, 60000]]
    assert judge_counts(counts, "ab", 0.001).word == "met"
    safe = SafeCounts.of(counts, word(0.001))
    assert safe.pool.tolist() == [True, True, False]
    # All groups move, so that their rates stay the same.
    assert {world[0, 0] for world in safe.worlds} >= {1, 2, 4}
    assert all(abs(w[0, 0] / 100 - w[1, 0] / 100_000) <= 0.001 for w in safe.worlds)
    assert safe.gap("gap", cap=0.001) in ("0.0000", "at most 0.0010")


def test_a_verdict_that_would_tell_a_count_is_withheld():
    """A sentence that only the true counts make true."""
    counts = np.array([[3.0, 40, 97], [60, 900, 2000]])
    safe = SafeCounts.of(counts, lambda table: float(table[0, 0]))
    assert safe.silent
    assert safe.closed
    assert safe.gap("gap", cap=0.5) == "hidden"


@pytest.mark.parametrize(("rows", "least", "most"), [((10, 60), 0.1, 0.5), ((100, 2000), 0.9, 1)])
def test_how_many_tables_show_counts(rows, least, most):
    """What the rule costs, for two to five groups in two to eight clusters that meet a bound."""
    rng = np.random.default_rng(0)
    shown = []
    for _ in range(40):
        n_groups, n_clusters = rng.integers(2, 6), rng.integers(2, 9)
        sizes = np.exp(rng.uniform(*np.log(rows), n_groups)).astype(int)
        counts = rng.multinomial(sizes, rng.dirichlet(np.ones(n_clusters)))
        shown.append(SafeCounts.of(counts, word(0.1)).has_cells)
    assert least <= np.mean(shown) <= most


def test_equal_tables_have_the_same_pool():
    counts = np.array([[3.0, 40, 97, 30], [60, 900, 2000, 70]])
    alone = SafeCounts.of(counts, word(0.9))
    assert alone.pool.tolist() == [True, False, False, True]
    pages = [
        ([counts], lambda tables: word(0.9)(tables[0])),
        ([counts + 100], None),
        ([counts], lambda tables: float(tables[0][:, [0, 3]].sum() + tables[0][0, 0])),
    ]
    [strict], [other], [loose] = safe_tables(pages)
    assert strict is loose
    assert strict.silent
    assert not other.pool.any()


@pytest.mark.parametrize(
    ("number", "sizes", "rows", "text"),
    [
        (0.0312, [100, 300], 1, "at most 0.0400"),
        (0.0312, [100, 300], 5, "at most 0.0500"),
        (0.04, [100, 300], 1, "at most 0.0400"),
        (0.0312, [9, 300], 1, "hidden"),
        (0.0312, [1000, 3000], 1, "0.0312"),
        (0.0312, [1000, 3000], 5, "at most 0.0350"),
    ],
)
def test_gaps_of_rows_without_a_table_are_rounded_up(number, sizes, rows, text):
    assert rounded_up(number, sizes, rows=rows) == text


@pytest.mark.parametrize(
    ("inside", "rows", "text"),
    [
        (97, 100, "above 95%"),
        (3, 100, "below 5%"),
        (46, 100, "50 ± 5%"),
        (460, 1000, "46%"),
        (4600, 10_000, "46.0%"),
    ],
)
def test_shares_have_steps_of_ten_rows(inside, rows, text):
    found = share_of(inside, rows)
    assert found.text == text
    assert found.low <= inside <= found.high
    assert open_to_readers(found.low, found.high)
    assert share_of(6, 13) is None


def test_a_share_of_all_rows_is_as_coarse_as_subtraction_asks_for():
    # All 55 are in one cluster of 100: steps of 5 % of all 210 rows would leave 2 for the others.
    here = {0: share_of(55, 100)}
    assert here[0].low == pytest.approx(55)
    fine, found = share_of(55, 210), safe_shares(here, 55, 210, others=1)
    assert fine.high - here[0].low < 5
    assert found.high - here[0].low >= 5


def test_many_clusters_leave_the_smallest_out():
    counts = np.arange(10, 50).reshape(2, 20)
    drawn = panel(SafeCounts.of(counts), range(20), ["f", "m"], "gap", bars=10)
    assert [cluster.label for cluster in drawn.clusters] == ["15", "16", "17", "18", "19"]
    assert drawn.left_out == 15
