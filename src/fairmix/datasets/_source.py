"""Where the bytes come from: the folder ``FAIRMIX_DATA``, or UCI through pooch."""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

FOLDER = "FAIRMIX_DATA"


def read_folder(file_name: str) -> pa.Table | None:
    """Read a Parquet file of the folder ``FAIRMIX_DATA``; None if there is no such file."""
    folder = os.environ.get(FOLDER)
    if not folder:
        return None
    path = Path(folder) / file_name
    return read_parquet(path) if path.is_file() else None


def read_parquet(path: Path) -> pa.Table:
    """Read one Parquet file, without the machinery that pyarrow loads for folders of them."""
    with pq.ParquetFile(path) as file:
        return file.read()


def download(url: str, file_name: str) -> bytes:
    """Content of a URL, kept in pooch's cache folder of the operating system."""
    try:
        import pooch
    except ImportError as error:
        raise ImportError(
            f"Downloading {url} requires pooch. Run: pip install 'fairmix[data]', or set {FOLDER} "
            "to a folder that contains the Parquet file."
        ) from error
    try:
        # UCI repacks its archives, so only the file inside has a known checksum.
        path = pooch.retrieve(url, known_hash=None, fname=file_name, path=pooch.os_cache("fairmix"))
    except OSError as error:  # what pooch and requests raise without a network
        raise OSError(
            f"Could not download {url} ({error}). Check the network connection and try again, or "
            f"set {FOLDER} to a folder that contains the Parquet file."
        ) from error
    return Path(path).read_bytes()


def unzip(archive: bytes, file_name: str) -> bytes:
    """Content of the file with that name in a zip, or in a zip inside that zip."""
    with zipfile.ZipFile(io.BytesIO(archive)) as outer:
        members = outer.namelist()
        for member in members:
            # macOS adds shadow copies of every file under this folder.
            if Path(member).name == file_name and not member.startswith("__MACOSX"):
                return outer.read(member)
        # UCI's archive of Bank holds archives; whatever is at the top is
        # looked at before they are opened.
        for member in members:
            if member.endswith(".zip"):
                try:
                    return unzip(outer.read(member), file_name)
                except FileNotFoundError:
                    continue
    raise FileNotFoundError(
        f"No {file_name!r} in the downloaded archive, which contains {members}. Delete it from "
        f"pooch's cache folder, or set {FOLDER} to a folder that contains the Parquet file."
    )


def check_sha256(raw: bytes, expected: str, file_name: str) -> None:
    """Compare the checksum of a raw file."""
    found = hashlib.sha256(raw).hexdigest()
    if found != expected:
        raise ValueError(
            f"{file_name} has sha256 {found}, not {expected}. Delete the downloaded archive from "
            f"pooch's cache folder, or set {FOLDER} to a folder that contains the Parquet file."
        )
