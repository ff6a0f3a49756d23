"""Tables: where rows live and how passes reach them."""

from fairmix.tables._base import BLOCK_ROWS, Table
from fairmix.tables.array import ArrayTable

__all__ = ["BLOCK_ROWS", "ArrayTable", "Table"]
