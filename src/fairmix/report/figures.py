"""Figures as text."""

from __future__ import annotations

from math import ceil, isfinite

__all__ = ["HIDDEN", "amount", "at_most", "count", "cut", "percent", "value"]

HIDDEN = "hidden"
LONGEST = 48  # characters of a name; a longer one is cut


def percent(share: float) -> str:
    """A share, with one decimal.

    Examples
    --------
    >>> percent(0.1234)
    '12.3%'
    """
    return f"{100 * share:.1f}%"


def count(rows: float) -> str:
    """A number of rows.

    Examples
    --------
    >>> count(32561.0)
    '32,561'
    """
    return f"{rows:,.0f}"


def value(number: float) -> str:
    """A gap, a balance or another figure near one, with four decimals.

    Examples
    --------
    >>> value(0.00981)
    '0.0098'
    """
    return f"{number:.4f}" if isfinite(number) else "none"


def at_most(number: float) -> str:
    """An upper bound, with four decimals that are rounded up.

    Examples
    --------
    >>> at_most(1 / 3)
    'at most 0.3334'
    """
    # A number that has four decimals but for its last bit stays as it is.
    return f"at most {ceil(number * 1e4 - 1e-6) / 1e4:.4f}"


def amount(number: float) -> str:
    """A number of any size, with three digits.

    Examples
    --------
    >>> amount(0.01234), amount(38.58), amount(189778.4)
    ('0.0123', '38.6', '190,000')
    """
    # Rounded first, so that the branch is chosen by what is shown: 9,999,999 becomes 1e+07.
    rounded = float(f"{number:.3g}")
    if rounded == 0 or 1e-3 <= abs(rounded) < 1e7:
        text = f"{rounded:,.10f}".rstrip("0").rstrip(".")
        return "0" if text == "-0" else text
    return f"{rounded:.3g}"


def cut(name: str) -> str:
    """A name that fits a line.

    Examples
    --------
    >>> len(cut("x" * 100))
    48
    """
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"
