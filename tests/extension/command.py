"""A command: counts the lines of a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def lines(path: Annotated[Path, typer.Argument(help="A file of text.")]) -> None:
    """Count the lines of a file."""
    typer.echo(f"{len(path.read_text('utf-8').splitlines())} lines")
