"""The pages on the command line: every example runs, and the list of options is current."""

import re
import shlex
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fairmix.cli import COMMANDS, app
from test_cli import people

ROOT = Path(__file__).parents[1]
GUIDE = ROOT / "docs" / "how-to" / "command-line.md"


def examples():
    return re.findall(r"^\$ fairmix (.*)$", GUIDE.read_text(encoding="utf-8"), flags=re.MULTILINE)


@pytest.mark.long
def test_every_example_of_the_guide_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    people().to_csv("people.csv", index=False)
    for example in examples():
        run = CliRunner().invoke(app, shlex.split(example))
        assert run.exit_code == 0, f"{example}\n{run.output}"
        assert run.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "audit.html",
        "certified",
        "each",
        "four-fifths",
        "front",
        "new-labels.csv",
        "other",
        "people.csv",
        "repaired",
        "results",
    ]


def test_every_command_has_an_example():
    assert {example.split()[0] for example in examples()} == set(COMMANDS)


@pytest.mark.skipif(
    f"typer=={version('typer')}\n" not in (ROOT / "requirements-dev.txt").read_text("utf-8"),
    reason="the page is of the pinned typer, which words and aligns the help",
)
def test_the_page_of_commands_is_current():
    run = subprocess.run(
        [sys.executable, "-m", "generators.commands", "--check"], cwd=ROOT, check=False
    )
    assert run.returncode == 0, "docs/commands.md is old: run scripts/generate commands"


@pytest.mark.parametrize("name", [None, *COMMANDS])
def test_help_fits_a_screen(name):
    words = ["--help"] if name is None else [name, "--help"]
    lines = CliRunner().invoke(app, words, env={"COLUMNS": "80"}).stdout.splitlines()
    # A terminal that fills a small screen has 50 lines; fit has the most options by far.
    assert len(lines) <= (49 if name == "fit" else 40)
    assert max(map(len, lines)) <= 80
