"""Arrow, loaded when it is first used: a fit of arrays does without it and spares its memory.

Import its modules from here, under the names below, and only here.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

__all__ = ["is_arrow", "pa", "pc", "pcsv", "pq"]

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.csv as pcsv
    import pyarrow.parquet as pq
else:

    class Late(ModuleType):
        """Stands for a module until one of its names is asked for."""

        def __getattr__(self, name: str) -> Any:
            found = getattr(import_module(self.__name__), name)
            # Kept, so that it is asked for once.
            setattr(self, name, found)
            return found

    pa = Late("pyarrow")
    pc = Late("pyarrow.compute")
    pcsv = Late("pyarrow.csv")
    pq = Late("pyarrow.parquet")


def is_arrow(value: object) -> bool:
    """Whether a value is of one of Arrow's classes, asked without loading them.

    Examples
    --------
    >>> is_arrow(pa.array([1])), is_arrow([1])
    (True, False)
    """
    return type(value).__module__.partition(".")[0] == "pyarrow"
