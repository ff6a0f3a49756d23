"""Locations: the files that a path, a pattern, a folder or an address names."""

from __future__ import annotations

import glob
import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any, TypeGuard
from urllib.parse import unquote

from fairmix.system.arrow import pa
from fairmix.system.clean import clean

COMPRESSION = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
PARQUET = (".parquet", ".pq")
ARROW = (".feather", ".arrow", ".ipc")
TEXT = (".csv", ".tsv")
# Of these a folder may hold some that are no data, so they are read only when they are named.
NAMED_TEXT = (".data", ".txt")
EXCEL = (".xlsx", ".xls", ".xlsm", ".xlsb", ".ods")
KINDS = (
    "Give files that end in .parquet, .pq, .feather, .arrow, .ipc, .csv, .tsv, .data or .txt, all "
    "of one kind; text also with .gz, .bz2 or .zst behind it."
)
# Folders that say which of the files beside them are rows of today; all files would be rows of
# several versions of the table.
VERSIONED = {"_delta_log": ("Delta", "deltalake.DeltaTable(path).to_pyarrow_dataset()")}
# What Spark, Hive, Dask, Polars and DuckDB write for a value that is missing.
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
ADDRESS = re.compile(r"^[a-z][a-z0-9+.-]+://", re.IGNORECASE)
MAGIC = re.compile(r"[*?[]")


@dataclass(eq=False)
class Content:
    """The bytes of a file in memory, until they are let go (None)."""

    value: pa.Buffer | None


@dataclass(frozen=True)
class File:
    """One file.

    Attributes
    ----------
    path : str
        Where it is in its file system.
    scheme : str
        What stands before the path in its address, such as ``"s3://"``; empty on this machine.
    filesystem : pyarrow.fs.FileSystem or None
        None: that of this machine.
    partition : tuple of (str, str or None)
        Columns whose one value the names of folders tell: ``region=north``.
    content : Content or None
        Its bytes, where they were read into memory.
    """

    path: str
    scheme: str = ""
    filesystem: Any = None
    partition: tuple[tuple[str, str | None], ...] = ()
    content: Content | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.scheme}{self.path}"

    def __fspath__(self) -> str:
        return str(self)

    @property
    def name(self) -> str:
        """The last part of the path."""
        return Path(self.path).name

    @property
    def kind(self) -> str | None:
        """``"parquet"``, ``"arrow"`` or the suffix of a text file; None for other files."""
        return _kind(self.name)

    @property
    def n_bytes(self) -> int:
        """Its size."""
        if self.filesystem is None:
            return os.stat(self.path).st_size
        return int(self.filesystem.get_file_info(self.path).size)

    @property
    def identity(self) -> tuple[int, ...]:
        """What another file under the same name would not have: numbers, size and times."""
        if self.filesystem is None:
            found = os.stat(self.path)
            # The time of the last change too, which cannot be set back as that of the last writing.
            times = found.st_mtime_ns, found.st_ctime_ns
            return (found.st_dev, found.st_ino, found.st_size, *times)
        info = self.filesystem.get_file_info(self.path)
        return (int(info.size or 0), int(info.mtime_ns or 0))

    def loaded(self) -> File:
        """The same file, read once: what follows sees these bytes, until they are let go."""
        with self.stream(compression=None) as stream:
            return replace(self, content=Content(stream.read_buffer()))

    def release(self) -> None:
        """Let bytes in memory go; the file itself is read again from here on."""
        if self.content is not None:
            self.content.value = None

    def random(self) -> Any:
        """What readers of Arrow take that look for places in a file."""
        if self.content is not None and self.content.value is not None:
            return pa.BufferReader(self.content.value)
        return self.path if self.filesystem is None else self.filesystem.open_input_file(self.path)

    def stream(self, compression: str | None = "detect") -> Any:
        """The bytes from the first on, without compression unless it is to stay (None)."""
        if self.content is not None and self.content.value is not None:
            name = self.name.lower()
            packed = (codec for mark, codec in COMPRESSION.items() if name.endswith(mark))
            codec = next(packed, None) if compression else None
            return pa.input_stream(self.content.value, compression=codec)
        if self.filesystem is None:
            return pa.input_stream(self.path, compression=compression)
        return self.filesystem.open_input_stream(self.path, compression=compression)


PathLike = str | os.PathLike[str]
Paths = PathLike | Sequence[PathLike]


def is_path(X: object) -> TypeGuard[Paths]:
    """Whether X names files: a path, or a list of paths."""
    if isinstance(X, list | tuple):
        return len(X) > 0 and all(isinstance(entry, str | os.PathLike) for entry in X)
    return isinstance(X, str | os.PathLike)


def find_files(paths: Paths) -> list[File]:
    """Files that a path, a pattern, a folder, an address or a list of these names.

    A list keeps its order; a pattern and a folder give their files sorted by name.
    """
    given = [paths] if isinstance(paths, str | os.PathLike) else paths
    found = [file for path in given for file in _matches(path)]
    # Counted at once: to count each would take long for many files.
    counts = Counter(map(str, found))
    twice = next((file for file in found if counts[str(file)] > 1), None)
    if twice is not None:
        raise ValueError(f"X names {str(twice)!r} more than once. Name every file once.")
    # Arrow takes names as UTF-8, and so do reports.
    odd = next((file for file in found if clean(str(file)) != str(file)), None)
    if odd is not None:
        raise ValueError(
            f"{str(odd)!r} has a name with characters that cannot be written. Rename the file."
        )
    # A pipe would make the reader wait, which no signal ends, and a device may have no end. Rows
    # are also read more than once, which a pipe does not allow.
    local = (file for file in found if file.filesystem is None)
    special = next((file for file in local if not Path(file.path).is_file()), None)
    if special is not None:
        raise ValueError(
            f"{str(special)!r} is no regular file, but a folder, a pipe or a device. Save its rows "
            "to a file and give that."
        )
    odd = next((f for f in found if f.kind is None or f.kind != found[0].kind), None)
    if odd is not None:
        if odd.name.lower().endswith(EXCEL):
            raise ValueError(
                f"{str(odd)!r} is a spreadsheet. Save the sheet as CSV, or read it and give the "
                "table: pandas.read_excel(path), or polars.read_excel(path)."
            )
        why = "is not a file to read" if odd.kind is None else "cannot be read with the others"
        raise ValueError(f"{str(odd)!r} {why}. {KINDS}")
    return found


def dataset_files(dataset: Any) -> list[File]:
    """The Parquet files whose rows are those of a data set of Arrow; none where it is another one.

    Its folders must tell no columns, and it must not leave rows or columns out.
    """
    from pyarrow import dataset as ds
    from pyarrow import fs

    # What `Dataset.filter` leaves for a later scan.
    if not isinstance(dataset, ds.FileSystemDataset) or getattr(dataset, "_scan_options", None):
        return []
    if not isinstance(dataset.format, ds.ParquetFileFormat):
        return []
    found, n_rows = [], 0
    for fragment in dataset.get_fragments():
        if ds.get_partition_keys(fragment.partition_expression):
            return []
        local = isinstance(fragment.filesystem, fs.LocalFileSystem)
        scheme = "" if local else f"{fragment.filesystem.type_name}://"
        found.append(File(fragment.path, scheme, None if local else fragment.filesystem))
        n_rows += fragment.metadata.num_rows
    return found if n_rows == dataset.count_rows() else []


def _matches(path: PathLike) -> list[File]:
    if isinstance(path, File):
        return [path]
    text = os.fspath(path)
    if ADDRESS.match(text):
        return _remote(text)
    return _local(text)


def _local(text: str) -> list[File]:
    given = Path(text)
    if given.is_dir():
        _refuse_versioned(text, (entry.name for entry in given.iterdir()))
        found = [_below(given, file) for file in sorted(_walk(given))]
    elif given.exists():
        found = [File(str(given))]
    else:
        base = _fixed(given.parts)
        names = sorted(Path(name) for name in glob.glob(text, recursive=True))
        found = [_below(Path(*base), file) for file in names]
    return _some(found, text)


def _walk(folder: Path) -> Iterable[Path]:
    """Files of a folder, and of folders below it that are named after a value of a column."""
    for entry in folder.iterdir():
        if not _is_data(entry.name):
            continue
        if "=" in entry.name and entry.is_dir():
            yield from _walk(entry)
        elif _in_folder(entry.name):
            yield entry


def file_system(address: str) -> tuple[Any, str]:
    """The file system of an address, and the path in it."""
    from pyarrow import fs

    found: tuple[Any, str] = fs.FileSystem.from_uri(address)
    return found


def _remote(address: str) -> list[File]:
    """Files of an address, by the file systems that Arrow knows."""
    from pyarrow import fs

    try:
        filesystem, path = file_system(address)
        if isinstance(filesystem, fs.LocalFileSystem):
            return _local(path)
        info = filesystem.get_file_info(path)
        scheme = f"{address.split('://')[0]}://"
        if info.type == fs.FileType.File:
            return [File(path, scheme, filesystem)]
        if info.type == fs.FileType.NotFound and not MAGIC.search(path):
            return _some([], address)
        parts = PurePosixPath(path).parts
        base = parts if info.type == fs.FileType.Directory else _fixed(parts)
        root = "/".join(base)
        everything = filesystem.get_file_info(
            fs.FileSelector(root, recursive=True, allow_not_found=True)
        )
    # An address that Arrow does not know, or that nobody answers at.
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError) as error:
        why = str(error).rstrip(".")
        raise ValueError(
            f"{address!r} cannot be opened: {why}. Check the address and the credentials, or give "
            "a path of this machine."
        ) from error
    below = {PurePosixPath(entry.path): entry for entry in everything}
    inside = {file: file.relative_to(root).parts for file in below}
    if base == parts:
        _refuse_versioned(address, (rest[0] for rest in inside.values()))
        names = [
            file
            for file, rest in inside.items()
            if below[file].type == fs.FileType.File
            and all(_is_data(part) and "=" in part for part in rest[:-1])
            and _is_data(rest[-1])
            and _in_folder(rest[-1])
        ]
    else:
        pattern = re.compile(_translated(path))
        names = [file for file in below if pattern.fullmatch(str(file))]
    found = [
        File(str(file), scheme, filesystem, _partition(inside[file][:-1])) for file in sorted(names)
    ]
    return _some(found, address)


def _translated(pattern: str) -> str:
    """A pattern of paths as a regular expression: a star stays within a folder, two do not."""
    text = re.escape(pattern)
    for mark, meaning in ((r"\*\*/", "(.*/)?"), (r"\*", "[^/]*")):
        text = text.replace(mark, meaning)
    return text


def _fixed(parts: Sequence[str]) -> tuple[str, ...]:
    """The folders of a pattern before its first star."""
    magic = next((i for i, part in enumerate(parts) if MAGIC.search(part)), len(parts) - 1)
    return tuple(parts[:magic])


def _below(base: Path, file: Path) -> File:
    """A file, with the columns that folders between it and the base name."""
    # Only below what the user named: a folder above it may have such a name by chance.
    inside = file.relative_to(base) if base.parts else file
    return File(str(file), partition=_partition(inside.parts[:-1]))


def _partition(folders: Iterable[str]) -> tuple[tuple[str, str | None], ...]:
    pairs = (folder.split("=", 1) for folder in folders if "=" in folder)
    return tuple((unquote(k), None if v == NO_VALUE else unquote(v)) for k, v in pairs)


def _is_data(name: str) -> bool:
    # Names that begin with a dot or an underscore are not data, by the convention of Parquet.
    return name[0] not in "._"


def _in_folder(name: str) -> bool:
    return _kind(name) not in (None, *NAMED_TEXT)


def _kind(name: str) -> str | None:
    name = name.lower()
    if name.endswith(PARQUET):
        return "parquet"
    if name.endswith(ARROW):
        return "arrow"
    packed = next((mark for mark in COMPRESSION if name.endswith(mark)), "")
    name = name.removesuffix(packed)
    return next((mark for mark in (*TEXT, *NAMED_TEXT) if name.endswith(mark)), None)


def _refuse_versioned(folder: str, names: Iterable[str]) -> None:
    for name in names:
        if name in VERSIONED:
            table, remedy = VERSIONED[name]
            raise ValueError(
                f"{folder!r} is a {table} table: its folder also holds rows of older versions. "
                f"Give the rows of one version: {remedy}."
            )


def _some(found: list[File], text: str) -> list[File]:
    if not found:
        raise FileNotFoundError(f"{text!r} matches no file. {KINDS}")
    return found
