"""Libraries of data frames, imported when somebody asks for a frame of theirs."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Literal


def frame_library(name: Literal["pandas", "polars"]) -> Any:
    """The library behind ``to_pandas`` or ``to_polars``, which nothing else here needs."""
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(
            f"to_{name}() needs {name}, which is not installed. Install it or use to_dict()."
        ) from error
