"""Figures of the docs: each is named beside its script, and one that is out of date is told."""

import json
import re
from importlib import import_module
from pathlib import Path

import pytest

from benchmarks.baselines import baselines
from fairmix import metrics
from fairmix.datasets import load_adult, paper_preprocessing
from fairmix.reproduction.views import View
from generators import bounds
from generators.figures import RECORDS, digest
from generators.tables import TABLES

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
KNOWN = json.loads(RECORDS.read_text("utf-8"))
IMAGES = sorted(path.relative_to(ROOT).as_posix() for path in (DOCS / "images").iterdir())
PAGES = [ROOT / "README.md", *DOCS.rglob("*.md")]


def test_every_picture_is_on_the_list():
    assert set(IMAGES) <= set(KNOWN)


@pytest.mark.parametrize("name", KNOWN)
def test_what_is_made_is_that_of_its_script(name):
    found = KNOWN[name]
    script = ROOT / "generators" / f"{found['script'].split()[-1]}.py"
    stale = f"run {found['script']}"
    assert digest(script) == found["source"], stale
    assert digest(ROOT / name) == found["made"], stale


@pytest.mark.long
@pytest.mark.parametrize("name", KNOWN)
def test_its_figures_are_those_of_the_package(name):
    """To what sums on another processor change."""
    script = KNOWN[name]["script"]
    now = import_module(f"generators.{script.split()[-1]}").figures()
    assert now == pytest.approx(KNOWN[name]["figures"], abs=0.03), f"run {script}"


@pytest.mark.parametrize("name", IMAGES)
def test_the_script_is_named_beside_the_picture(name):
    shown = 0
    for page in PAGES:
        text = page.read_text("utf-8")
        for match in re.finditer(rf"!\[[^\]]*\]\([^)]*{re.escape(Path(name).name)}\)", text):
            shown += 1
            assert KNOWN[name]["script"] in text[match.start() : match.end() + 300], page
    assert shown


def rows_of(table):
    """Cells of the rows of a Markdown table, and those of its head."""
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.split("\n")]
    return lines[0], lines[2:]


def numbers_of(cell):
    return [float(number.replace(",", "")) for number in re.findall(r"-?\d[\d,]*(?:\.\d+)?", cell)]


@pytest.mark.parametrize("name", TABLES)
def test_a_table_stands_beside_the_name_of_its_script(name):
    table = TABLES[name]
    head, rows = rows_of(table.shown(name))
    assert tuple(head) == table.titles
    assert rows
    text = (ROOT / table.page).read_text("utf-8")
    assert "scripts/generate tables" in text[: text.index(f"<!-- begin {name} -->")][-700:]


def compare(shown, measured, keys, within, stale):
    """Rows that were measured again, beside those of a page: to what another processor changes."""
    known = {tuple(row[:keys]): row for row in shown}
    assert measured
    for row in measured:
        for old, new in zip(known[tuple(row[:keys])], row, strict=True):
            for number, found in zip(numbers_of(old), numbers_of(new), strict=False):
                assert found == pytest.approx(number, abs=max(within, 0.01 * abs(number))), stale


@pytest.mark.long
@pytest.mark.parametrize("name", TABLES)
def test_a_part_of_a_table_is_measured_again(name):
    table = TABLES[name]
    shown, measured = (rows_of(text)[1] for text in (table.shown(name), table.text(few=True)))
    compare(shown, measured, table.keys, table.within, f"run scripts/generate tables {name}")


@pytest.mark.long
def test_a_part_of_the_page_on_bounds_is_measured_again():
    text = (DOCS / "bounds.md").read_text("utf-8")
    section = text.split("## Adult, continuous, aware, bound on labels\n\n")[1]
    shown = rows_of(section.split("\n\n")[0])[1]
    found = rows_of(bounds.table(bounds.fit(View("adult"), "aware", "labels", (0.0, 0.005))))
    compare(shown, found[1], 1, 0.03, "run scripts/generate bounds")


@pytest.mark.long
def test_a_part_of_the_page_on_baselines_is_measured_again():
    lines = (DOCS / "baselines.md").read_text("utf-8").split("\n")
    adult = load_adult()
    X = paper_preprocessing(adult.X)
    for method in ("FairletKMeans", "VariationalFairKMeans"):
        labels = baselines(10)[method].fit(X, sensitive_features=adult.sex).labels_
        line = next(line for line in lines if line.startswith(f"| Adult | sex (2) | {method} |"))
        cost, gap, _, balance = (numbers_of(cell)[0] for cell in line.split("|")[5:9])
        assert metrics.clustering_cost(X, labels) == pytest.approx(cost, rel=0.01)
        assert metrics.gap(labels, adult.sex) == pytest.approx(gap, abs=0.002)
        assert metrics.balance(labels, adult.sex) == pytest.approx(balance, abs=0.03)


def test_pictures_of_other_pages_name_what_made_them():
    for page, script in {
        "reproduction": "fairmix reproduce",
        "benchmarks": "scripts/bench",
    }.items():
        assert script in (DOCS / f"{page}.md").read_text("utf-8")
