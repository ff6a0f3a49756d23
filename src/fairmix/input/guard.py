"""A guard: columns of a table that look like no features, told before they are clustered by.

The command line leaves such columns out and says so. In Python the table is what the user made it,
so it is clustered by as it is, with a warning; only texts of which hardly one comes back are left
out: they say nothing about a cluster and take minutes.
"""

from __future__ import annotations

from typing import Any

import narwhals as nw
import numpy as np

from fairmix.input.groups import listed
from fairmix.input.guesses import Guess, guess_table
from fairmix.system.arrow import pa
from fairmix.system.notices import notify

__all__ = ["ColumnWarning", "guard_columns"]

# Rows that are looked at, evenly from all: enough to tell an identifier, and few beside a fit.
LOOK = 10_000
# Kinds of numbers that are worth a word. A constant is harmless, and an empty column an error.
SUSPECTS = ("identifier-like", "code", "date", "weight")
SHOWN = 10  # columns that a warning names
# Types whose values nobody has called categories.
PLAIN_TEXT = (nw.String, nw.Object)


class ColumnWarning(UserWarning):
    """A column of X looks like no feature: an identifier, a date, a code, a survey weight.

    Examples
    --------
    >>> import warnings
    >>> import fairmix
    >>> warnings.simplefilter("ignore", fairmix.ColumnWarning)
    """


def guard_columns(frame: nw.DataFrame[Any] | None, categorical_features: object) -> tuple[str, ...]:
    """Warn of columns that look like no features, and name those that are to be left out.

    Who says what is categorical is taken at his word, and arrays have neither names nor types.
    """
    if frame is None or not isinstance(categorical_features, str):
        return ()
    # By numbers of rows, because Arrow has no slices with a step.
    some = frame[np.arange(0, len(frame), max(1, -(-len(frame) // LOOK)))]
    # By position: names need not be strings.
    columns = {str(name): own for name, own in zip(some.columns, some.iter_columns(), strict=True)}
    arrow = {name: found for name, own in columns.items() if (found := _arrow(own)) is not None}
    guesses = {guess.name: guess for guess in guess_table(pa.table(arrow))}
    left_out = [name for name, guess in guesses.items() if _hopeless(guess, columns[name].dtype)]
    # As long as something is left to cluster by.
    left_out = left_out if len(left_out) < len(columns) else []
    said = [f"{name!r} is left out: {guesses[name].reason}." for name in left_out[:SHOWN]]
    said += [f"{len(left_out) - SHOWN} more are left out."] if len(left_out) > SHOWN else []
    others = [guess for guess in guesses.values() if guess.name not in left_out]
    odd = [guess for guess in others if guess.kind in SUSPECTS and guess.numbers]
    if odd:
        each = _few([f"{guess.name!r} ({guess.kind}: {guess.reason})" for guess in odd])
        said.append(f"Clustered by as numbers: {each}. Drop what is no feature.")
    many = [guess.name for guess in others if not guess.numbers and guess.n_values is None]
    if many:
        said.append(f"Of more than 256 categories each: {listed(many)}. Merge rare ones.")
    # An empty text may well be a category.
    marks = {guess.name: [mark for mark in guess.marks if mark] for guess in others}
    if any(marks.values()):
        each = _few(
            [f"{n!r} ({', '.join(map(repr, found))})" for n, found in marks.items() if found]
        )
        said.append(f"Marks that seem to stand for missing values: {each}. Put None for them.")
    if left_out:
        said.append("To cluster by what is left out, name it in categorical_features.")
    if said:
        notify(f"X has columns that look like no features. {' '.join(said)}", ColumnWarning)
    return tuple(left_out)


def _few(said: list[str]) -> str:
    """What is said of columns, not more than a person reads."""
    more = f" and {len(said) - SHOWN} more" if len(said) > SHOWN else ""
    return ", ".join(said[:SHOWN]) + more


def _hopeless(guess: Guess, dtype: Any) -> bool:
    """Whether a column of text holds more different values than can say anything."""
    text = dtype in PLAIN_TEXT and not guess.numbers
    return text and guess.n_values is None and guess.all_different


def _arrow(column: nw.Series[Any]) -> pa.Array | None:
    """A column as Arrow has it; None for what a guess is not made of."""
    dtype = column.dtype
    if not (dtype.is_numeric() or dtype in PLAIN_TEXT or dtype in (nw.Categorical, nw.Enum)):
        return None
    try:
        found = column.to_arrow()
    except (pa.ArrowException, TypeError, ValueError):
        return None  # objects of several kinds
    return found if found.type != pa.null() else None
