"""Columns: what they were taken for, and how well they tell the groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fairmix.input.guesses import Guess
from fairmix.report.disclosure import share_of
from fairmix.report.figures import cut
from fairmix.results.proxies import Proxies

__all__ = ["choice_rows", "chosen_columns", "proxy_rows"]

LISTED = 60  # names of columns of one kind and reason; a wide table has thousands


def chosen_columns(guesses: Sequence[Guess]) -> list[dict[str, str]]:
    """What columns were taken for, those of one kind and reason together.

    Examples
    --------
    >>> chosen_columns([Guess("age", "numeric", "numbers"), Guess("pay", "numeric", "numbers")])
    [{'names': 'age, pay', 'kind': 'numeric', 'reason': 'numbers', 'used': 'yes'}]
    """
    found: dict[tuple[str, str], list[str]] = {}
    for guess in sorted(guesses, key=lambda guess: not guess.is_feature):
        found.setdefault((guess.kind, guess.reason), []).append(cut(guess.name))
    return [
        {
            "names": ", ".join(names[:LISTED])
            + (f" and {len(names) - LISTED} more" if len(names) > LISTED else ""),
            "kind": kind,
            "reason": reason,
            "used": "yes" if Guess("", kind, "").is_feature else "no",
        }
        for (kind, reason), names in found.items()
    ]


def proxy_rows(proxies: Proxies) -> dict[str, Any] | None:
    """How often guesses of the group are right, rounded to steps of at least 10 rows.

    Examples
    --------
    >>> proxy_rows(Proxies("sex", {"title": 0.98}, 0.99, 0.5, 2000))["columns"]
    [{'name': 'title', 'right': '98%'}]
    """
    rows = proxies.smallest
    together = share_of(proxies.together * rows, rows)
    # Of fewer rows a share would tell single ones.
    if together is None:
        return None
    columns = []
    for name, right in proxies.columns.items():
        found = share_of(right * rows, rows)
        assert found is not None
        columns.append({"name": cut(name), "right": found.text})
    return {
        "title": cut(proxies.title),
        "columns": columns,
        "together": together.text,
        "chance": f"{100 * proxies.chance:.0f}%",
        "given_away": [cut(name) for name in proxies.given_away],
    }


def choice_rows(bics: Mapping[int, float] | None, *, alone: bool) -> list[dict[str, str]]:
    """How far each number of clusters is above the best one; none where likelihoods are hidden.

    Examples
    --------
    >>> choice_rows({2: 910.4, 3: 900.1}, alone=False)[0]
    {'number': '2', 'above': '10', 'chosen': ''}
    """
    if not bics or alone:
        return []
    least = min(bics.values())
    return [
        {
            "number": str(number),
            "above": f"{bic - least:,.0f}",
            "chosen": "chosen" if bic == least else "",
        }
        for number, bic in bics.items()
    ]
