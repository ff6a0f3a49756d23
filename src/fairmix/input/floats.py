"""Numbers that no float holds."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

LARGEST = sys.float_info.max


@contextmanager
def as_floats(argument: str) -> Iterator[None]:
    """Python's whole numbers have no end; one that is no float is told with its argument."""
    try:
        yield
    except OverflowError as error:
        raise ValueError(
            f"{argument} holds a whole number that is too large for float64. Divide the numbers by "
            "a constant, or drop it."
        ) from error
