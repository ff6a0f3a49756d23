"""Notices: warnings that point at the line of the user, not at one of the library."""

from __future__ import annotations

import inspect
import warnings

# Modules that may stand between a call and the line of the user who made it.
LIBRARIES = ("fairmix.", "sklearn.", "contextlib")


def notify(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn, at the line that called the library.

    scikit-learn may be in between: pipelines, searches, and callbacks around ``fit``.
    """
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").startswith(LIBRARIES):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
