"""Roles of columns, as the metadata of a model file may name them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def sensitive_of(metadata: Mapping[str, Any]) -> tuple[str, ...]:
    """Columns of groups that ``fairmix fit`` wrote down; none where somebody else wrote others."""
    return _names(metadata, "sensitive")


def identifier_of(metadata: Mapping[str, Any]) -> tuple[str, ...]:
    """The column that told the rows of a fit apart, where there was one."""
    return _names(metadata, "identifier")


def _names(metadata: Mapping[str, Any], role: str) -> tuple[str, ...]:
    names = metadata.get(role)
    listed = isinstance(names, list) and all(isinstance(name, str) for name in names)
    return tuple(names) if listed and names else ()
