"""Small cells stay hidden, and nothing that is shown gives them away."""

import numpy as np
import pytest
from scipy.optimize import linprog

from fairmix.criteria import CRITERIA
from fairmix.report.shares import panel
from fairmix.report.suppression import SafeCounts


def possible(safe: SafeCounts, cell: tuple[int, int]) -> tuple[float, float]:
    """Smallest and largest value of a cell that a reader of the table must hold possible."""
    table = np.vstack([safe.counts, safe.counts.sum(axis=0)])
    table = np.hstack([table, table.sum(axis=1, keepdims=True)])
    index = np.arange(table.size).reshape(table.shape)
    lines = []
    for line in (*index, *index.T):
        row = np.zeros(table.size)
        row[line[:-1]], row[line[-1]] = 1.0, -1.0
        lines.append(row)
    bounds = []
    for value, hidden, small in zip(table.flat, safe.hidden.flat, safe.small.flat, strict=True):
        bounds.append(((0, 4) if small else (5, None)) if hidden else (value, value))
    ends = []
    for sign in (1, -1):
        goal = np.zeros(table.size)
        goal[index[cell]] = sign
        found = linprog(goal, A_eq=lines, b_eq=np.zeros(len(lines)), bounds=bounds)
        ends.append(sign * found.fun if found.status == 0 else np.inf)
    return ends[0], ends[1]


@pytest.mark.parametrize("seed", range(12))
def test_no_hidden_cell_can_be_computed_from_what_is_shown(seed):
    rng = np.random.default_rng(seed)
    shape = rng.integers(2, 5), rng.integers(2, 6)
    counts = rng.poisson(rng.choice([3, 8, 20, 60], size=shape))
    safe = SafeCounts.of(counts)
    assert (safe.hidden[:-1, :-1] >= (counts < 5))[:, counts.any(axis=0)].all()
    for cell in zip(*np.nonzero(safe.hidden), strict=True):
        low, high = possible(safe, cell)
        assert high - low >= 1, f"cell {cell} of {counts.tolist()}"


def test_lines_that_are_safe_one_by_one_are_not_safe_together():
    # Every line hides two cells or more; the lower bound of a large hidden cell fixed others.
    safe = SafeCounts.of([[14, 5, 27], [18, 9, 9], [5, 5, 59], [19, 0, 7]])
    low, high = possible(safe, (3, 1))
    assert high - low >= 1


def test_large_cells_are_all_shown():
    assert not SafeCounts.of([[50, 60], [70, 80]]).hidden.any()


def test_an_empty_cluster_hides_nobody():
    safe = SafeCounts.of([[50, 0, 60], [70, 0, 80]])
    assert not safe.hidden.any()
    assert safe.balance() == pytest.approx(50 / 70)


def test_a_tiny_group_hides_its_size_and_that_of_another():
    safe = SafeCounts.of([[1, 2], [100, 200], [300, 400]])
    assert safe.hidden[:, -1].tolist() == [True, True, False, False]
    text = panel(safe, ["0", "1"], ["tiny", "small", "large"], "gap").clusters[0].bars
    assert [bar.count for bar in text[:1]] == ["<5"]
    assert text[0].population is None
    assert text[1].rate == "hidden"


def test_a_gap_on_hidden_cells_is_rounded_up_to_five_rows_and_balance_is_hidden():
    counts = np.array([[2, 98, 100], [150, 75, 75]])
    safe = SafeCounts.of(counts)
    exact = CRITERIA["gap"].value(counts / counts.sum(axis=1, keepdims=True))
    shown, is_exact = safe.gap("gap")
    assert not is_exact
    assert exact <= shown < exact + 5 / 200
    assert shown * 200 % 5 == pytest.approx(0)
    assert safe.balance() is None
    assert safe.exact_gap("gap") == exact


def test_what_a_rounded_sum_of_gaps_is_said_to_be_at_most_is_true():
    safe = SafeCounts.of([[3, 3, 97, 97], [90, 95, 3, 3]])
    shown, exact = safe.gap("additive_gap")
    assert not exact
    assert shown >= safe.exact_gap("additive_gap") > 1.8


def test_a_gap_on_shown_cells_is_exact_although_others_are_hidden():
    safe = SafeCounts.of([[600, 3, 4, 393], [300, 3, 4, 693]])
    assert safe.hidden[:, 1].all()
    assert not safe.hidden[:, 0].any()
    assert safe.gap("gap") == (pytest.approx(0.3), True)
    assert safe.balance() == pytest.approx(0.5)


def test_bars_of_hidden_cells_have_no_length_and_no_interval():
    counts = [[3, 40, 50], [60, 70, 80]]
    drawn = panel(SafeCounts.of(counts), ["a", "b", "c"], ["f", "m"], "gap")
    bars = [bar for cluster in drawn.clusters for bar in cluster.bars]
    assert [bar.text for bar in bars] == ["<5", "hidden", "hidden", "hidden", "38.5%", "61.5%"]
    assert [bar.share for bar in bars[:4]] == [None] * 4
    assert [bar.interval for bar in bars[:4]] == [""] * 4
    assert [bar.rate for bar in bars[:2]] == ["<5", "hidden"]
    assert [cluster.gap for cluster in drawn.clusters] == ["hidden", "hidden", "0.1567"]
    assert [cluster.size for cluster in drawn.clusters] == ["63", "110", "130"]


def test_many_clusters_leave_the_smallest_out():
    counts = np.arange(10, 50).reshape(2, 20)
    drawn = panel(SafeCounts.of(counts), range(20), ["f", "m"], "gap", bars=10)
    assert [cluster.name for cluster in drawn.clusters] == ["15", "16", "17", "18", "19"]
    assert drawn.left_out == 15
