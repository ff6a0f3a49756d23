"""The screen: what a person reads, what a program reads, and how a command fails."""

from __future__ import annotations

import json
import math
import re
import sys
import textwrap
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import typer

from fairmix.system.clean import clean

# Columns of a terminal that nobody has widened, and of most logs.
WIDTH = 80
# Names in a list of columns or groups before it says how many more there are.
LISTED = 12
# Exit codes, as the help of the program lists them; 2 is Typer's own, for wrong usage.
BOUND_MISSED = 1
BAD_DATA = 3


@dataclass(frozen=True)
class Screen:
    """Where a command writes: text for a person, or one JSON document."""

    quiet: bool = False
    as_json: bool = False

    @property
    def bars(self) -> int:
        """Whether progress is shown, as the ``verbose`` of estimators: only to a terminal."""
        from rich.console import Console

        # Of stderr, where the bars are: stdout may well go to a file.
        return int(not self.quiet and Console(stderr=True).is_terminal)

    def say(self, text: str = "") -> None:
        """Text for a person, on stdout."""
        if not (self.quiet or self.as_json):
            # One blank line between parts is enough, also where a part is empty.
            _echo(re.sub(r"\n{3,}", "\n\n", clean(text)))

    def note(self, text: str) -> None:
        """A remark, on stderr; none where the text is empty."""
        if text and not self.quiet:
            _echo(wrapped(f"Note: {_one_line(in_options(clean(text)))}"), err=True)

    def result(self, document: dict[str, Any]) -> None:
        """The result for a program, on stdout."""
        if self.as_json:
            _echo(json_text(document))

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Errors of the data as one line and exit code 3; warnings as notes."""
        import pyarrow as pa

        # Recorded, because a warning as Python prints it, with a path and
        # a line of code, tells a user little.
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                yield
            # Not every error of Arrow is a ValueError. What is none of these is a
            # defect, and keeps its traceback.
            except (ValueError, OSError, pa.ArrowException) as error:
                _echo(f"Error: {_one_line(in_options(clean(str(error))))}", err=True)
                raise typer.Exit(BAD_DATA) from error
            finally:
                # Deprecations and the like are for developers. Each text once, though blocks may
                # repeat it; and also after an error, which a warning may explain.
                about_users = [w for w in caught if issubclass(w.category, UserWarning)]
                for text in dict.fromkeys(str(warning.message) for warning in about_users):
                    self.note(text)


def _echo(text: str, *, err: bool = False) -> None:
    """Write to a stream, in whose encoding some names may not exist."""
    stream = sys.stderr if err else sys.stdout
    encoding = getattr(stream, "encoding", None) or "utf-8"
    typer.echo(text.encode(encoding, "backslashreplace").decode(encoding), err=err)


# What messages of the package call things that a command has under another name, and what it does
# not have.
PHRASES = {
    "`max_iter` was reached": "The steps of the fit ended",
    "raise `max_iter` or `tol`": "more starts may help: --n-init",
    "`max_gap` or `max_iter`": "--max-gap",
    "n_init or max_iter": "--n-init",
    "fewer components": "fewer clusters",
    "fairness_report": "fairmix audit",
    "sensitive_features": "--sensitive",
    "n_components": "--clusters",
    "categorical_features": "--categorical",
    "handle_unknown": "--unknown",
}
# Parameters whose options have the same name; those that are words, too, only beside a value.
WORDS = ("margin", "assignment", "ties", "solver", "criterion", "subsample", "attributes")
PARAMETERS = (
    *("max_gap", "min_ratio", "min_balance", "gap_of", "min_group_size", "missing_groups"),
    *("covariance_type", "n_init", "batch_size"),
)
VALUE = r"=['\"]?([\w.]*\w)['\"]?"
# In their order, of which the first that fits is taken.
PHRASE = re.compile(rf"(?<![\w-])({'|'.join(map(re.escape, PHRASES))})(?!\w)(?:{VALUE})?")
NAMED = re.compile(
    rf"(?<![\w-])`?(?:({'|'.join(PARAMETERS)})(?![\w-])(?:{VALUE})?|({'|'.join(WORDS)}){VALUE})`?"
)


def in_options(text: str) -> str:
    """A message of the package in the words of the command line.

    Examples
    --------
    >>> in_options("Set handle_unknown='ignore', or lower min_group_size=30.")
    'Set --unknown ignore, or lower --min-group-size 30.'
    """
    return NAMED.sub(_option, PHRASE.sub(_phrase, text))


def _phrase(found: re.Match[str]) -> str:
    return f"{PHRASES[found[1]]} {found[2] or ''}".strip()


def _option(found: re.Match[str]) -> str:
    name, value = found[1] or found[3], found[2] or found[4] or ""
    return f"--{name.replace('_', '-')} {value}".strip()


def _one_line(text: str) -> str:
    return " ".join(text.split())


def json_text(document: dict[str, Any]) -> str:
    """JSON as every program reads it: without NaN and infinity, and without unclean characters."""
    text = json.dumps(_plain(document), indent=2, ensure_ascii=False, allow_nan=False)
    # Of what is unclean, JSON itself escapes only the oldest control characters.
    return text if clean(text) == text else json.dumps(_plain(document), indent=2)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def wrapped(text: str, title: str = "") -> str:
    """Text in lines of at most 80 columns, under a title at their left."""
    return textwrap.fill(
        text,
        WIDTH,
        initial_indent=title,
        subsequent_indent=" " * len(title),
        # Options and paths stay in one piece, to be copied.
        break_long_words=False,
        break_on_hyphens=False,
    )


def listed(names: Sequence[str], most: int = LISTED) -> str:
    """Names, not more than a person reads."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most:,} more"


def counted(counts: Mapping[str, int]) -> str:
    """Names with a count behind each."""
    return listed([f"{name} ({count:,})" for name, count in counts.items()])
