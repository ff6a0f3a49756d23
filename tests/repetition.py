"""What the long run does beyond the usual one: ``scripts/test --long`` sets FAIRMIX_LONG.

A test marked ``long`` runs only there. One marked ``repeats``, and every test of Hypothesis, runs
in both, there on more examples.
"""

import os
from typing import Any

import pytest

LONG = bool(os.environ.get("FAIRMIX_LONG"))


def times(usual: Any, long: Any) -> Any:
    """As many repetitions as the run is for; the test has the mark ``repeats``."""
    return long if LONG else usual


def long(*values: Any) -> Any:
    """A case of ``parametrize`` for the long run only."""
    return pytest.param(*values, marks=pytest.mark.long)
