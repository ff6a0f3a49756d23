"""Pictures of the docs: each is named beside its script, and a changed one is told."""

import json
import re
from pathlib import Path

import pytest

from generators.figures import RECORDS, digest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
KNOWN = json.loads(RECORDS.read_text("utf-8"))
IMAGES = sorted(path.relative_to(ROOT).as_posix() for path in (DOCS / "images").iterdir())
PAGES = [ROOT / "README.md", *DOCS.rglob("*.md")]


@pytest.mark.parametrize("name", IMAGES)
def test_a_picture_is_that_of_its_script(name):
    found = KNOWN[name]
    script = ROOT / "generators" / f"{found['script'].split()[-1]}.py"
    stale = f"run {found['script']}"
    assert digest(script) == found["source"], stale
    assert digest(ROOT / name) == found["picture"], stale


@pytest.mark.parametrize("name", IMAGES)
def test_the_script_is_named_beside_the_picture(name):
    shown = 0
    for page in PAGES:
        text = page.read_text("utf-8")
        for match in re.finditer(rf"!\[[^\]]*\]\([^)]*{re.escape(Path(name).name)}\)", text):
            shown += 1
            assert KNOWN[name]["script"] in text[match.start() : match.end() + 300], page
    assert shown


def test_the_story_is_that_of_its_script():
    text = (DOCS / "stories" / "adult.md").read_text("utf-8")
    source = re.search(r"<!-- source: (\w+) -->", text)[1]
    assert source == digest(ROOT / "generators" / "story.py"), "run scripts/generate story"


def test_pictures_of_other_pages_name_what_made_them():
    for page, script in {
        "reproduction": "fairmix reproduce",
        "benchmarks": "scripts/bench",
    }.items():
        assert script in (DOCS / f"{page}.md").read_text("utf-8")
