"""Roles of columns, as the metadata of a model file may name them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def sensitive_of(metadata: Mapping[str, Any]) -> tuple[str, ...]:
    """Columns of groups that ``fairmix fit`` wrote down; none where somebody else wrote others."""
    names = metadata.get("sensitive")
    listed = isinstance(names, list) and all(isinstance(name, str) for name in names)
    return tuple(names) if listed and names else ()
