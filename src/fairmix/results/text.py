"""Results as text: cells, and rows of them in aligned columns."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import inf, isnan
from numbers import Integral
from typing import Any

__all__ = ["aligned", "cell", "rows_text", "shortened"]

# Sums over rows: large numbers, of which the leading digits count.
SUMS = ("cost", "bic", "aic", "icl")
# Parameters keep their names and the digits that the user gave.
PARAMETERS = ("max_gap", "min_ratio", "min_balance", "n_components")
TITLES = {
    "non_empty": "clusters",
    "peak_mb": "peak MB",
    "assigns_unseen": "unseen",
    "needs_group": "group",
}


def rows_text(
    rows: Sequence[Any],
    names: Sequence[str],
    *,
    before: str = "",
    marks: Sequence[str] | None = None,
) -> str:
    """Attributes of rows in aligned columns under their titles.

    Parameters
    ----------
    rows : sequence of objects
        One line each.
    names : sequence of str
        Attributes, one column each; those of type str in the first column stand at the left.
    before : str, default=""
        Begins the names of all attributes but the first.
    marks : sequence of str, default=None
        A word behind each row.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> rows = [SimpleNamespace(method="mine", cost=12.0), SimpleNamespace(method="b", cost=9.5)]
    >>> print(rows_text(rows, ("method", "cost"), marks=["", "best"]))
    method  cost
    mine    12.0
    b        9.5  best
    """
    first, *others = names
    lines = [[_title(name) for name in names]]
    for row in rows:
        values = [getattr(row, before + name) for name in others]
        cells = [cell(name, value) for name, value in zip(others, values, strict=True)]
        lines.append([cell(first, getattr(row, first)), *cells])
    # A first column of numbers, such as bounds, lines up at the right like the others.
    words = {0} if any(isinstance(getattr(row, first), str) for row in rows) else set()
    if marks is not None:
        lines = [[*line, mark] for line, mark in zip(lines, ["", *marks], strict=True)]
        words.add(len(names))
    return aligned(lines, words)


def aligned(lines: Sequence[Sequence[str]], words: Collection[int] = ()) -> str:
    """Cells in columns two spaces apart: those of words at the left, numbers at the right.

    Parameters
    ----------
    lines : sequence of sequences of str
        The cells of each line, all of the same number.
    words : collection of int, default=()
        Positions of the columns of words.

    Examples
    --------
    >>> print(aligned([["cluster", "rows"], ["0", "1,200"], ["1", "80"]]))
    cluster   rows
          0  1,200
          1     80
    """
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    out = []
    for line in lines:
        cells = [
            text.ljust(width) if j in words else text.rjust(width)
            for j, (text, width) in enumerate(zip(line, widths, strict=True))
        ]
        # Without trailing blanks, which editors strip from the expected output of an example.
        out.append("  ".join(cells).rstrip())
    return "\n".join(out)


def cell(name: str, value: float | str | None) -> str:
    """A value of a column as text; a dash where there is none, as a gap without groups.

    Examples
    --------
    >>> cell("gap", 0.01), cell("cost", 12345.6), cell("max_gap", inf), cell("gap", float("nan"))
    ('0.0100', '12,346', 'plain', '-')
    """
    if isinstance(value, str):
        return value
    # Before whole numbers, of which Python counts bool as one.
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None or isnan(value):
        return "-"
    if name in PARAMETERS:
        # A front without a bound is that of the plain mixture.
        free = 0 if name in ("min_ratio", "min_balance") else inf
        return "plain" if value == free else f"{value:g}"
    if isinstance(value, Integral):
        # A method that failed has no clusters.
        return f"{value:,}" if value else "-"
    if name in SUMS:
        return f"{value:,.1f}" if abs(value) < 1000 else f"{value:,.0f}"
    if name == "peak_mb":
        return f"{value:,.0f}"
    return f"{value:.1f}" if name == "seconds" else f"{value:.4f}"


def shortened(text: str, width: int) -> str:
    """The text in at most so many characters.

    Examples
    --------
    >>> shortened("Amsterdam", 5)
    'Amst…'
    """
    # A name with a line break would begin a new line of the table.
    text = " ".join(text.splitlines())
    return text if len(text) <= width else f"{text[: width - 1]}…"


def _title(name: str) -> str:
    return name if name in PARAMETERS else TITLES.get(name, name.replace("_", " "))
