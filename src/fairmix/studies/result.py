"""What the results of studies share: rows that convert and print."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from fairmix.results.frames import Framed
from fairmix.results.text import cell, rows_text
from fairmix.trials.rows import FrontRow, SelectionRow

__all__ = ["ResultTable", "path_text"]


class ResultTable(Framed):
    """What both tables share: rows that convert and print.

    In ``to_pandas()`` and ``to_polars()``, warnings are joined to one text.
    """

    rows: tuple[Any, ...]

    # A notebook shows the repr, and the table is what a user wants to see there.
    def __repr__(self) -> str:
        return str(self)

    def to_dict(self) -> dict[str, Any]:
        """The rows as dicts, under ``"rows"``."""
        # met is a property, which asdict leaves out.
        return {"rows": [asdict(row) | {"met": row.met} for row in self.rows]}

    def _columns(self) -> dict[str, list[Any]]:
        # One text, because few formats that a frame is written to take a tuple in a cell.
        records = [
            asdict(row) | {"met": row.met, "warnings": " ".join(row.warnings)} for row in self.rows
        ]
        return {name: [record[name] for record in records] for name in records[0]}


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
