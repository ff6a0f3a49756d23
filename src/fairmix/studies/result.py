"""What the results of studies share: rows that convert and print."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from fairmix.results.text import cell, rows_text
from fairmix.system.libraries import frame_library
from fairmix.trials.rows import FrontRow, SelectionRow

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

__all__ = ["ResultTable", "path_text"]


class ResultTable:
    """What both tables share: rows that convert and print."""

    rows: tuple[Any, ...]

    # A notebook shows the repr, and the table is what a user wants to see there.
    def __repr__(self) -> str:
        return str(self)

    def to_dict(self) -> dict[str, Any]:
        """The rows as dicts, under ``"rows"``."""
        # met is a property, which asdict leaves out.
        return {"rows": [asdict(row) | {"met": row.met} for row in self.rows]}

    def to_pandas(self) -> pd.DataFrame:
        """The rows as a pandas DataFrame; warnings joined to one text."""
        frame: pd.DataFrame = frame_library("pandas").DataFrame(self._records())
        return frame

    def to_polars(self) -> pl.DataFrame:
        """The rows as a Polars DataFrame; warnings joined to one text."""
        frame: pl.DataFrame = frame_library("polars").DataFrame(self._records())
        return frame

    def _records(self) -> list[dict[str, Any]]:
        # One text, because few formats that a frame is written to take a tuple in a cell.
        return [
            asdict(row) | {"met": row.met, "warnings": " ".join(row.warnings)} for row in self.rows
        ]


def path_text(
    rows: Sequence[FrontRow | SelectionRow], names: Sequence[str], marks: list[str]
) -> str:
    """One line per row, and the warnings below."""
    first = names[0]
    notes = [
        f"{first} {cell(first, getattr(row, first))}: {warning}"
        for row in rows
        for warning in row.warnings
    ]
    text = rows_text(rows, (*names, "non_empty", "verdict", "seconds"), marks=marks)
    return "\n".join([text, *([""] if notes else []), *notes])
