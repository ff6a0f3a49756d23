"""Results that become data frames."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from fairmix.system.libraries import frame_library

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl


class Framed(ABC):
    """A table of results, which converts to the data frames of other libraries."""

    @abstractmethod
    def _columns(self) -> dict[str, list[Any]]:
        """The columns by name, all of one length."""

    def to_pandas(self) -> pd.DataFrame:
        """The table as a pandas DataFrame."""
        frame: pd.DataFrame = frame_library("pandas").DataFrame(self._columns())
        return frame

    def to_polars(self) -> pl.DataFrame:
        """The table as a Polars DataFrame."""
        frame: pl.DataFrame = frame_library("polars").DataFrame(self._columns())
        return frame
