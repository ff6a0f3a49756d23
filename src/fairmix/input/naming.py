"""Naming: columns of a table in memory that arguments name."""

from __future__ import annotations

from typing import Any

from fairmix.input.columns import as_frame


def group_columns(X: Any, sensitive_features: Any) -> tuple[str, ...]:
    """The columns of X that ``sensitive_features`` names; none where it holds the groups itself."""
    if isinstance(sensitive_features, str):
        return (sensitive_features,)
    listing = isinstance(sensitive_features, list | tuple) and len(sensitive_features) > 0
    frame = as_frame(X)
    # A list as long as the table holds labels, even where they read like names of columns.
    if not listing or frame is None or len(sensitive_features) == len(frame):
        return ()
    names = all(isinstance(name, str) for name in sensitive_features)
    # One that exists speaks for names; a misspelt one among them is then told by name.
    some = names and any(name in frame.columns for name in sensitive_features)
    # A name given twice would make each group its own intersection with itself.
    return tuple(dict.fromkeys(sensitive_features)) if some else ()


def group_values(X: Any, sensitive_features: Any) -> Any:
    """Groups of the rows of a table, looked up in it where they are given by name."""
    names = group_columns(X, sensitive_features)
    if len(names) < 2:
        named = names[0] if names else sensitive_features
        return named_values(X, named, "sensitive_features", "one label per row")
    frame = as_frame(X)
    for name in names:
        named_values(X, name, "sensitive_features", "one label per row")
    assert frame is not None
    return frame.select(*names).to_native()


def named_values(X: Any, value: Any, argument: str, otherwise: str) -> Any:
    """A column of a table that an argument names; any other value as it is."""
    if not isinstance(value, str):
        return value
    frame = as_frame(X)
    if frame is None or value not in frame.columns:
        known = "X is not a data frame" if frame is None else f"X has {frame.columns}"
        raise ValueError(
            f"{argument}={value!r} names a column of X, but {known}. Give an existing column, or "
            f"{otherwise}."
        )
    return frame[value].to_native()


def weight_values(X: Any, sample_weight: Any) -> Any:
    """Weights of the rows of a table, looked up in it where they are given by name."""
    return named_values(X, sample_weight, "sample_weight", "one weight per row")
