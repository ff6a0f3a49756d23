"""Every table and figure of the paper, next to the printed numbers."""

from fairmix.reproduction.page import write_page
from fairmix.reproduction.registry import ENTRIES
from fairmix.reproduction.running import choose, run
from fairmix.reproduction.settings import Settings

__all__ = ["ENTRIES", "Settings", "choose", "run", "write_page"]
