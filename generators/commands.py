"""Make docs/commands.md from the help of every command."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from typer.testing import CliRunner

from fairmix.cli import COMMANDS, app

PAGE = Path(__file__).resolve().parents[1] / "docs" / "commands.md"
HEAD = """\
# Commands

The output of `fairmix --help` and `fairmix COMMAND --help`, written by `scripts/generate commands`.
For examples, see [the guide to the command line](how-to/command-line.md).

All commands that read a table also take three options for text files, which few files need:
`--decimal ,` (what stands before tenths, where values such as 1,234 leave it open),
`--encoding NAME` (such as `latin-1`) and `--missing-token TEXT` (a cell that holds no value;
repeatable).
[Read text files](how-to/large-data.md#text-files) says what is found without them.
"""
WIDTH = {"COLUMNS": "80", "TERMINAL_WIDTH": "80"}  # the usual terminal


def help_of(*words: str) -> str:
    """What a command says of itself."""
    found = CliRunner().invoke(app, [*words, "--help"], prog_name="fairmix", env=WIDTH)
    if found.exit_code:
        raise SystemExit(found.output)
    return found.stdout.rstrip()


def page() -> str:
    """The whole page."""
    parts = [HEAD, f"```text\n{help_of()}\n```\n"]
    for name in COMMANDS:
        parts.append(f"## fairmix {name}\n\n```text\n{help_of(name)}\n```\n")
    return "\n".join(parts)


def main() -> int:
    """Write the page, or compare it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if it is old")
    if parser.parse_args().check:
        return 0 if PAGE.read_text("utf-8") == page() else 1
    PAGE.write_text(page(), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
