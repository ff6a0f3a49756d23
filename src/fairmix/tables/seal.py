"""Seals: whether files are still those that a fit began with.

A file is read in many passes. One that is replaced between two of them by another with as many rows
would give a model of neither.
"""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Sequence
from dataclasses import dataclass

from fairmix.system.progress import progress
from fairmix.tables.locations import File

# Bytes to hash at a time: enough for the disk, little for the memory.
HASHED_BYTES = 2**22
REMEDY = "Leave the files alone while they are read, and start again."


@dataclass(frozen=True)
class Stamp:
    """Size, time and identity of a file: cheap enough to be compared in every pass."""

    host: str
    values: tuple[int, ...]

    @classmethod
    def of(cls, file: File) -> Stamp:
        """Those of a file, of the one that a link leads to."""
        return cls(socket.gethostname(), file.identity)

    def check(self, file: File) -> None:
        """Refuse another file under the same name, or one that was written to."""
        now = Stamp.of(file)
        # A worker on another machine may have a copy, with a time and a number of its own.
        if now != self and now.host == self.host:
            raise ValueError(f"{str(file)!r} was changed or replaced while it was read. {REMEDY}")


@dataclass(frozen=True)
class Seal:
    """SHA-256 of the bytes of files. It finds a change that leaves size and time as they were."""

    files: tuple[File, ...]
    digest: str
    shown: bool = False

    @classmethod
    def of(cls, files: Sequence[File], *, shown: bool = False) -> Seal:
        """Seal files as they are now; ``shown``: with a bar."""
        return cls(tuple(files), _digest(files, shown), shown)

    def check(self) -> None:
        """Refuse other bytes than those that were sealed."""
        if _digest(self.files, self.shown) != self.digest:
            names = ", ".join(repr(str(file)) for file in self.files[:3])
            more = ", ..." if len(self.files) > 3 else ""
            raise ValueError(
                f"{names}{more}: the bytes were changed while they were read. {REMEDY}"
            )


def _digest(files: Sequence[File], shown: bool) -> str:
    # Of bytes, not of values, so that anybody can check it without fairmix.
    found = hashlib.sha256()
    total = sum(file.n_bytes for file in files)
    with progress("digest", total, shown=shown, unit="bytes") as tick:
        for file in files:
            with file.stream(compression=None) as stream:
                while block := stream.read(HASHED_BYTES):
                    found.update(block)
                    tick(steps=len(block))
    return found.hexdigest()
