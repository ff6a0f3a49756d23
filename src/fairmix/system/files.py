"""Files that are there at once: a reader meets the old one or the whole new one, never a part."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fairmix.system.signals import together


def exists(path: Path) -> bool:
    """Whether there is such a file; a name that is too long for one is none.

    Examples
    --------
    >>> exists(Path()), exists(Path("x" * 5000))
    (True, False)
    """
    try:
        return path.exists()
    except OSError:
        return False


def refuse_special(target: Path) -> None:
    """Refuse to put a file in the place of a device or a pipe: a rename would end it for all."""
    if exists(target) and not (target.is_file() or target.is_dir()):
        raise ValueError(
            f"{target} is no regular file, and a new file would take its place. Give another name."
        )


def temporary_path(target: Path) -> Path:
    """A hidden name beside the target, on the same file system, so that a rename is one step."""
    # By process and thread, so that nobody else writes to it. The suffix stays the last, because
    # writers look at it.
    owner = f"{os.getpid()}.{threading.get_ident()}"
    return target.with_name(f".{target.stem}.{owner}.part{target.suffix}")


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """A file to write, which takes the place of the target at the end of the body.

    Where the body fails, the target stays as it was and nothing is left of the new file.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     target = Path(folder) / "figures.txt"
    ...     with replacing(target) as part:
    ...         _ = part.write_text("0.01")
    ...         before = target.exists()
    ...     before, target.read_text()
    (False, '0.01')
    """
    target = target.absolute()
    refuse_special(target)
    part = temporary_path(target)
    try:
        yield part
        _sync(part)
        os.replace(part, target)
    finally:
        with together():
            part.unlink(missing_ok=True)


def replace_file(path: Path, content: bytes) -> None:
    """Write a file that is there at once.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     replace_file(Path(folder) / "figures.txt", b"0.01")
    ...     (Path(folder) / "figures.txt").read_bytes()
    b'0.01'
    """
    with replacing(path) as part:
        part.write_bytes(content)


def _sync(path: Path) -> None:
    """Have the bytes on the disk before the rename is.

    A rename is one step for other processes, but not for a power cut: a file system may keep the
    new name and lose the bytes, and the old file is gone by then. That is worth some milliseconds
    for each file, because a checkpoint or a model may stand for hours of work. The folder need not
    be synced: whether the old or the new name survives, the file under it is whole.
    """
    # Windows syncs only what is open for writing.
    with path.open("r+b") as file:
        os.fsync(file.fileno())
