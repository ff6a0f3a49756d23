"""The page on reliability tells the figures that the tests have."""

import re
from pathlib import Path

import test_inputs
import test_inputs_files
import test_inputs_groups
import test_inputs_measures
import test_inputs_methods
import test_inputs_predict
from inputs import Bad, Odd

PAGE = Path(__file__).parents[1] / "docs" / "reliability.md"
MODULES = (
    test_inputs,
    test_inputs_files,
    test_inputs_groups,
    test_inputs_measures,
    test_inputs_methods,
    test_inputs_predict,
)


def rows():
    """Every row of the matrix; what several models or methods get counts once."""
    tables = [value for module in MODULES for value in vars(module).values()]
    found = [row for table in tables if isinstance(table, dict) for row in table.values()]
    return [row for row in found if isinstance(row, Bad | Odd)]


def test_the_page_counts_the_inputs_that_are_tried():
    text = " ".join(PAGE.read_text("utf-8").split())
    told = re.search(r"(\d+) kinds of odd or wrong input: (\d+) work, (\d+) are refused", text)
    assert told is not None
    works = sum(isinstance(row, Odd) for row in rows())
    refused = sum(isinstance(row, Bad) for row in rows()) + len(test_inputs_files.COMMANDS)
    assert tuple(map(int, told.groups())) == (works + refused, works, refused)
    assert works + refused >= 150


def test_the_page_names_tests_that_exist():
    folder = Path(__file__).parent
    named = re.findall(r"`(test_\w+\.py)`", PAGE.read_text("utf-8"))
    assert len(named) > 10
    assert [name for name in named if not (folder / name).exists()] == []
