"""What the long run does beyond the usual one: ``scripts/test --long`` sets FAIRMIX_LONG.

A test marked ``long`` runs only there. One marked ``repeats``, and every test of Hypothesis, runs
in both, there on more examples.
"""

import os
from collections.abc import Iterable
from typing import Any

import pytest

LONG = bool(os.environ.get("FAIRMIX_LONG"))


def times(usual: Any, long: Any) -> Any:
    """As many repetitions as the run is for; the test has the mark ``repeats``."""
    return long if LONG else usual


def long(*values: Any) -> Any:
    """A case of ``parametrize`` for the long run only."""
    return pytest.param(*values, marks=pytest.mark.long)


def every_other(cases: Iterable[Any]) -> list[Any]:
    """Cases of ``parametrize`` that differ little: every second one is for the long run."""
    return one_in(2, cases)


def one_in(many: int, cases: Iterable[Any]) -> list[Any]:
    """Cases of ``parametrize`` that differ little: all but one in so many are for the long run."""
    return [long(case) if i % many else case for i, case in enumerate(cases)]
