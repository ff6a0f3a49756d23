"""Tables: where rows live and how passes reach them."""

from fairmix.tables._base import (
    BLOCK_ROWS,
    BlockRows,
    Blocks,
    OneBatch,
    Result,
    Rowlike,
    block_rows_of,
    block_start,
    count_batches,
    count_blocks,
    count_rows,
)
from fairmix.tables.batches import Batches, Part
from fairmix.tables.condensed import Condensed, find_cells, spread_within
from fairmix.tables.files import FileBlocks, Frame
from fairmix.tables.hashes import Hashes, row_hashes
from fairmix.tables.journal import Journal, read_identity
from fairmix.tables.locations import File, PathLike, Paths, dataset_files, find_files, is_path
from fairmix.tables.memory import MemoryBlocks
from fairmix.tables.seal import Seal
from fairmix.tables.sources import column_names, index_columns
from fairmix.tables.spool import spool_path, spooled
from fairmix.tables.store import MemoryStore, Moments, Store, Summary
from fairmix.tables.table import Encoder, Table
from fairmix.tables.text import Dialect
from fairmix.tables.ties import Ties, equal_rows

__all__ = [
    "BLOCK_ROWS",
    "Batches",
    "BlockRows",
    "Blocks",
    "Condensed",
    "Dialect",
    "Encoder",
    "File",
    "FileBlocks",
    "Frame",
    "Hashes",
    "Journal",
    "MemoryBlocks",
    "MemoryStore",
    "Moments",
    "OneBatch",
    "Part",
    "PathLike",
    "Paths",
    "Result",
    "Rowlike",
    "Seal",
    "Store",
    "Summary",
    "Table",
    "Ties",
    "block_rows_of",
    "block_start",
    "column_names",
    "count_batches",
    "count_blocks",
    "count_rows",
    "dataset_files",
    "equal_rows",
    "find_cells",
    "find_files",
    "index_columns",
    "is_path",
    "read_identity",
    "row_hashes",
    "spool_path",
    "spooled",
    "spread_within",
]
