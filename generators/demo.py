"""Write what `fairmix demo` prints into README.md. Takes less than a minute."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from typer.testing import CliRunner

from fairmix.cli import app

README = Path(__file__).resolve().parents[1] / "README.md"
BLOCK = re.compile(r"(The demo prints [^\n]*:\n\n```\n)(.*?)(\n```\n)", re.DOTALL)


def printed() -> str:
    """What the demo prints now."""
    found = CliRunner().invoke(app, ["demo"])
    if found.exit_code:
        raise SystemExit(found.output)
    return found.stdout.rstrip()


def shown(text: str) -> str:
    """What the README shows."""
    match = BLOCK.search(text)
    if match is None:
        raise SystemExit("README.md has no block that begins 'The demo prints'.")
    return match[2]


def main() -> None:
    """Run the demo and write the block."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.parse_args()
    text = README.read_text("utf-8")
    README.write_text(text.replace(shown(text), printed()), "utf-8")


if __name__ == "__main__":
    main()
