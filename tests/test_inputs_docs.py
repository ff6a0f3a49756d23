"""The pages on reliability are those of the figures, and the figures those of the tests."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import test_inputs
import test_inputs_files
import test_inputs_groups
import test_inputs_measures
import test_inputs_methods
import test_inputs_predict
from inputs import Bad, Odd

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reliability.md"
FIGURES = json.loads((ROOT / "docs" / "reliability.json").read_text("utf-8"))
MODULES = (
    test_inputs,
    test_inputs_files,
    test_inputs_groups,
    test_inputs_measures,
    test_inputs_methods,
    test_inputs_predict,
)
# Rows that several estimators get.
TIMES = {(test_inputs_methods, "ROWS"): len(test_inputs_methods.BASELINES)}


def count(kind):
    """How often an input of the matrix is tried."""
    return sum(
        TIMES.get((module, name), 1)
        for module in MODULES
        for name, table in vars(module).items()
        if name.isupper() and isinstance(table, dict)
        for row in table.values()
        if isinstance(row, kind)
    )


def test_the_pages_are_current():
    words = [sys.executable, "-m", "generators.reliability", "--check"]
    run = subprocess.run(words, cwd=ROOT, check=False)
    assert run.returncode == 0, "a page is old: run scripts/generate reliability --render"


def test_the_page_counts_the_inputs_that_are_tried():
    text = " ".join(PAGE.read_text("utf-8").split())
    told = re.search(r"(\d+) odd or wrong inputs: (\d+) work, (\d+) are refused", text)
    assert told is not None
    works, refused = count(Odd), count(Bad) + len(test_inputs_files.COMMANDS)
    assert tuple(map(int, told.groups())) == (works + refused, works, refused)
    assert works + refused >= 150


def test_the_page_names_tests_that_exist():
    named = re.findall(r"`(test_\w+)\.py`", PAGE.read_text("utf-8"))
    assert len(named) > 10
    assert set(named) - {path.stem for path in Path(__file__).parent.glob("*.py")} == set()


def figures_of(part):
    """What the long run of a part found; the page says where there was none yet."""
    found = FIGURES["tests"].get(part)
    if found is None:
        assert "no long run yet" in PAGE.read_text("utf-8")
        pytest.skip(f"no long run of {part} yet: scripts/generate reliability {part}")
    return found


def test_properties_are_tried_on_two_thousand_examples():
    parts = ("test_properties", "test_properties_fits")
    assert sum(figures_of(part)["examples"] for part in parts) >= 2000


def test_memory_is_measured_over_ten_thousand_calls():
    records = figures_of("test_faults")["records"]
    assert records["test_memory_does_not_grow_with_calls[1]"]["calls"] == 10_000


def test_no_fault_of_files_is_skipped():
    assert figures_of("test_faults_files")["skipped"] == 0


def test_the_fuzz_runs_for_ten_minutes():
    assert set(FIGURES["fuzz"]) == {"model_file", "text_file"}
    assert min(found["seconds"] for found in FIGURES["fuzz"].values()) >= 590


def section(path, title):
    """The text under a title, up to the next of its kind."""
    return path.read_text("utf-8").lower().partition(title)[2].partition("\n## ")[0]


def test_what_was_found_is_in_the_changelog():
    fixed = section(ROOT / "CHANGELOG.md", "### fixed")
    found = section(PAGE, "## found on the way")
    for word in ("lapack", "sample(2.5)", "1e160", "masked", "x0, x1", "sparse", "temporary"):
        assert word in fixed
        assert word in found


@pytest.mark.parametrize("name", ["requirements-dev.txt", "requirements-docs.txt"])
def test_pins_are_named_where_they_are_audited(name):
    assert f"-r {name}" in (ROOT / "SECURITY.md").read_text("utf-8")
    assert (ROOT / name).exists()
