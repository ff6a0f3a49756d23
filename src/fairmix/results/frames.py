"""Results that become data frames."""

from __future__ import annotations

from abc import ABC, abstractmethod
from html import escape
from importlib.util import find_spec
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

    def to_frame(self) -> Any:
        """The table as a data frame of pandas, or of Polars where pandas is not installed."""
        return self.to_pandas() if find_spec("pandas") else self.to_polars()

    # What a notebook shows; texts come from users' data.
    def _repr_html_(self) -> str:
        columns = self._columns()
        head = "".join(f"<th>{escape(name)}</th>" for name in columns)
        body = "".join(
            f"<tr>{''.join(f'<td>{escape(_shown(cell))}</td>' for cell in row)}</tr>"
            for row in zip(*columns.values(), strict=True)
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def to_pandas(self) -> pd.DataFrame:
        """The table as a pandas DataFrame."""
        frame: pd.DataFrame = frame_library("pandas").DataFrame(self._columns())
        return frame

    def to_polars(self) -> pl.DataFrame:
        """The table as a Polars DataFrame."""
        frame: pl.DataFrame = frame_library("polars").DataFrame(self._columns())
        return frame


def _shown(value: Any) -> str:
    """A cell of a notebook, with the digits that tell something."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
