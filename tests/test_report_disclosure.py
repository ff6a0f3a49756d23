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
    return lambda counts: judge_counts(counts, "abcd"[: len(counts)], bound, min_group_size=1).word


@pytest.mark.parametrize("seed", range(12))
def test_every_hidden_count_is_open_in_the_worlds(seed):
    rng = np.random.default_rng(seed)
    shape = rng.integers(2, 5), rng.integers(2, 6)
    counts = rng.poisson(rng.choice([3, 8, 20, 60], size=shape)) + 3
    safe = SafeCounts.of(counts, word(0.2))
    if not safe.has_cells:
        return
    assert (safe.hidden >= (counts < 5)).all()
    worlds = np.array(list(safe.worlds))
    assert (worlds.sum(axis=2) == counts.sum(axis=1)).all(), "sizes of groups are known"
    assert (worlds >= 0).all()
    assert (worlds == counts)[:, ~safe.hidden].all(), "what is shown is the same in all worlds"
    assert {word(0.2)(world) for world in worlds} == {word(0.2)(counts)}
    for cell in zip(*np.nonzero(safe.hidden), strict=True):
        values = {float(world[cell]) for world in worlds}
        assert {1, 2, 3, 4} <= values or max(values) - min(values) >= 5


def test_large_counts_are_all_shown():
    safe = SafeCounts.of([[50, 60], [70, 80]])
    assert not safe.hidden.any()
    assert safe.size(0) == "120"
    assert safe.gap("gap") == "0.0121"
    assert safe.balance() == "0.7143"


def test_a_small_count_hides_the_smallest_beside_it_and_no_size_of_a_group():
    safe = SafeCounts.of([[3, 40, 50], [60, 70, 80]])
    assert safe.hidden.tolist() == [[True, True, False], [False, False, False]]
    drawn = panel(safe, ["a", "b", "c"], ["f", "m"], "gap")
    bars = [bar for cluster in drawn.clusters for bar in cluster.bars]
    assert [bar.count for bar in bars] == ["hidden", "60", "hidden", "70", "50", "80"]
    assert [bar.text for bar in bars] == ["hidden", "hidden", "hidden", "hidden", "38.5%", "61.5%"]
    assert [bar.label for bar in bars][1:4:2] == ["60 rows", "70 rows"]
    assert [bar.interval is None for bar in bars] == [True] * 4 + [False] * 2
    assert [bar.rate for bar in bars[:2]] == ["hidden", "28.6%"]
    assert [cluster.gap for cluster in drawn.clusters] == ["hidden", "hidden", "0.1567"]
    assert [cluster.size for cluster in drawn.clusters] == ["hidden", "110 ± 5", "130"]


def test_sizes_and_shares_beside_a_small_count_are_rounded():
    safe = SafeCounts.of([[3, 40, 950], [2304, 2704, 3004]])
    assert [safe.size(k) for k in range(3)] == ["2,300 ± 25", "2,740 ± 10", "3,954"]
    assert [safe.share(1, k) for k in range(2)] == [100, None]


def test_an_empty_cluster_hides_nobody():
    safe = SafeCounts.of([[50, 0, 60], [70, 0, 80]])
    assert not safe.hidden.any()
    assert safe.balance() == "0.7143"


def test_a_group_of_fewer_than_ten_rows_has_no_table():
    assert not SafeCounts.of([[4, 5], [70, 80]]).has_cells
    assert SafeCounts.of([[5, 5], [70, 80]]).has_cells
    safe = SafeCounts.without_cells([[1, 2], [100, 200]])
    assert (safe.gap("gap"), safe.balance(), safe.size(0)) == ("hidden", "hidden", "hidden")
    assert panel(safe, ["0", "1"], ["a", "b"], "gap").clusters == ()


def test_a_gap_on_hidden_counts_is_rounded_up_and_balance_is_hidden():
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
    safe = SafeCounts.of([[600, 3, 4, 393], [300, 3, 4, 693]])
    assert safe.hidden[:, 1:3].all()
    assert not safe.hidden[:, 0].any()
    assert safe.gap("gap") == "0.3000"


def test_a_verdict_that_would_tell_a_count_takes_the_counts_with_it():
    """Rates within 0.001 of those of a group of 100,000 are the counts of one of 100."""
    counts = [[3, 97], [3000, 97000]]
    assert judge_counts(counts, "ab", 0.001).word == "met"
    assert not SafeCounts.of(counts, word(0.001)).has_cells
    assert SafeCounts.of(counts, word(0.5)).has_cells


def test_equal_tables_hide_the_same_counts():
    counts = np.array([[3.0, 40, 97], [60, 900, 2000]])
    alone = SafeCounts.of(counts, word(0.9))
    assert alone.has_cells
    pages = [([counts], lambda tables, b=b: word(b)(tables[0])) for b in (0.02, 0.9)]
    [strict], [loose] = safe_tables(pages)
    assert strict is loose
    assert loose.hidden.sum() > alone.hidden.sum()


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
        (460, 1000, "46 ± 0.5%"),
        (4600, 10_000, "46 ± 0.05%"),
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
    assert [cluster.name for cluster in drawn.clusters] == ["15", "16", "17", "18", "19"]
    assert drawn.left_out == 15
