"""The page that compares the rules: it is made from its figures, and they are those of the code."""

import json

import pytest

from generators.which_rule import FIGURES, PAGE, measure, page, representation
from repetition import long

STORED = json.loads(FIGURES.read_text("utf-8"))
ROWS = {row["method"]: row for row in STORED["rows"]}


def test_the_page_is_made_from_its_figures():
    assert PAGE.read_text("utf-8") == page(STORED), "run scripts/generate which_rule --text"


# Each prefix is a fit or two on all of Adult.
@pytest.mark.parametrize(
    "methods", ["plain mixture", long("max_gap"), long("min_ratio"), long("min_balance")]
)
def test_the_figures_are_current(methods):
    """To what sums on another processor change."""
    found = measure(methods)["rows"]
    assert len(found) == sum(name.startswith(methods) for name in ROWS)
    for new in found:
        old = ROWS[new["method"]]
        assert old["verdict"] == new["verdict"]
        assert old["cost"] == pytest.approx(new["cost"], rel=0.01), (
            "run scripts/generate which_rule"
        )
        for name in ("gap", "ratio", "balance", "representation"):
            assert old[name] == pytest.approx(new[name], abs=0.03), (
                "run scripts/generate which_rule"
            )


def test_the_figures_say_what_the_page_says():
    rules = {name: row for name, row in ROWS.items() if "=" in name}
    assert all(row["verdict"] == "met" and row["filled"] == 10 for row in rules.values())
    assert rules["max_gap=0.01, blind"]["gap"] <= 0.01
    for map_ in ("blind", "aware"):
        of_map = {name.split("=")[0]: row for name, row in rules.items() if name.endswith(map_)}
        assert min(of_map, key=lambda name: of_map[name]["cost"]) == "min_balance"
        assert of_map["min_ratio"]["gap"] > of_map["max_gap"]["gap"]
        # A ratio implies Balance and bounded representation.
        ratio = of_map["min_ratio"]["ratio"]
        assert ratio >= 0.8
        assert of_map["min_ratio"]["balance"] >= ratio * STORED["best_balance"] - 1e-12
        assert of_map["min_ratio"]["representation"] >= ratio
        # Balance does not keep the smaller group from being crowded.
        assert of_map["min_balance"]["most_women"] > 0.5
        assert of_map["min_balance"]["ratio"] < 0.5


def test_certified_figures_are_worse_than_those_seen():
    for row in STORED["fresh"]:
        assert row["certified_gap"] > row["gap"]
        assert row["certified_ratio"] < row["ratio"]
    seen = {row["method"]: row["ratio"] for row in STORED["fresh"]}
    for map_ in ("blind", "aware"):
        assert seen[f"min_ratio=0.8, margin=chance, {map_}"] > seen[f"min_ratio=0.8, {map_}"]


def test_representation_is_that_of_bera():
    import numpy as np

    # Half of all are of either group; shares of the clusters are 0.25 and 0.75, then 0.75 and 0.25.
    assert representation(np.array([[25.0, 75.0], [75.0, 25.0]])) == pytest.approx(0.5)
    # Crowded twice over its share of 0.1: 1 / 2, though the other group keeps 8 / 9.
    assert representation(np.array([[20.0, 0.5], [80.0, 99.5]])) < 0.5
    assert representation(np.array([[10.0, 30.0], [10.0, 30.0]])) == 1.0
