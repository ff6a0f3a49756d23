"""What the results of studies share: rows that convert and print."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from importlib import import_module
from math import inf, isnan
from typing import TYPE_CHECKING, Any

from fairmix.trials.rows import INFORMATION, FrontRow, SelectionRow

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

__all__ = ["ResultTable", "figure", "path_text"]


class ResultTable:
    """What both tables share: rows that convert and print."""

    rows: tuple[Any, ...]

    def __repr__(self) -> str:
        return str(self)

    def to_dict(self) -> dict[str, Any]:
        """The rows as dicts, under ``"rows"``."""
        return {"rows": [asdict(row) | {"met": row.met} for row in self.rows]}

    def to_pandas(self) -> pd.DataFrame:
        """The rows as a pandas DataFrame; warnings joined to one text."""
        frame: pd.DataFrame = _library("pandas").DataFrame(self._records())
        return frame

    def to_polars(self) -> pl.DataFrame:
        """The rows as a Polars DataFrame; warnings joined to one text."""
        frame: pl.DataFrame = _library("polars").DataFrame(self._records())
        return frame

    def _records(self) -> list[dict[str, Any]]:
        return [
            asdict(row) | {"met": row.met, "warnings": " ".join(row.warnings)} for row in self.rows
        ]


def path_text(
    rows: Sequence[FrontRow | SelectionRow], names: Sequence[str], marks: list[str]
) -> str:
    """Aligned columns, one line per row, and the warnings below."""
    head = [name.replace("_gap", " gap") if name != "max_gap" else name for name in names]
    lines = [[*head, "clusters", "verdict", "seconds", ""]]
    for row, mark in zip(rows, marks, strict=True):
        figures = [figure(name, getattr(row, name)) for name in names]
        lines.append([*figures, str(row.non_empty), row.verdict, f"{row.seconds:.1f}", mark])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    # The last column holds words, all others numbers.
    out = [
        "  ".join([*(c.rjust(w) for c, w in zip(line, widths[:-1], strict=False)), line[-1]])
        for line in lines
    ]
    first = names[0]
    notes = [
        f"{first} {figure(first, getattr(row, first))}: {warning}"
        for row in rows
        for warning in row.warnings
    ]
    return "\n".join([line.rstrip() for line in out] + ([""] if notes else []) + notes)


def figure(name: str, value: float) -> str:
    """A figure as text; a dash where there is none, as a gap without groups."""
    if isnan(value):
        return "-"
    if name in ("max_gap", "n_components"):
        return "plain" if value == inf else f"{value:g}"
    if name == "cost" or name in INFORMATION:
        return f"{value:,.1f}" if abs(value) < 1000 else f"{value:,.0f}"
    return f"{value:.4f}"


def _library(name: str) -> Any:
    """Import late: neither library is needed for anything else."""
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(
            f"to_{name}() needs {name}, which is not installed. Install it or use to_dict()."
        ) from error
