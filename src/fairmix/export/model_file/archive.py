"""The container of a model file: named members in a zip archive with one checksum over all bytes.

Members are stored as they are, never compressed, in the order of their names, and the archive
comment is the SHA-256 of all bytes before it. So the same members always give the same bytes, and
``unpack`` accepts exactly the bytes that ``pack`` gives: there is nothing else to interpret. Any
zip tool can open the file. Nothing is ever written to a path that a file names.
"""

from __future__ import annotations

import hashlib
import os
import re
import struct
import zlib
from pathlib import Path

# A model file, and what its parts grow to in memory, is at most this many bytes. Far below 4 GiB,
# from where on the zip format needs zip64 records, which the reader does not know.
MAX_BYTES = 2**28
MAX_MEMBERS = 32  # a document and a dozen arrays, with room for those of new families
# No dot but the last and no slash: a zip tool that unpacks the file stays in its folder.
MEMBER_NAME = re.compile(r"[a-z_]{1,40}\.(?:json|npy)")

# Records of the zip format: a member, its entry in the directory, the end of the directory.
LOCAL = struct.Struct("<4s5H3I2H")
ENTRY = struct.Struct("<4s6H3I5H2I")
END = struct.Struct("<4s4H2IH")
LOCAL_MARK, ENTRY_MARK, END_MARK = b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06"
VERSION = 20  # 2.0, the first version of the format that all tools read
UNIX = 3 << 8  # the system whose permissions READABLE are
FIRST_DAY = (1 << 5) | 1  # the first of January 1980, where the zip calendar begins
READABLE = 0o100644 << 16  # a regular file that everybody may read
DIGEST_LENGTH = 64  # hexadecimal digits of SHA-256


class ModelFileError(ValueError):
    """A file that is no model file, is damaged, or holds what no model has.

    Examples
    --------
    >>> from fairmix.export.model_file import ModelFileError
    >>> issubclass(ModelFileError, ValueError)
    True
    """


def pack(members: dict[str, bytes]) -> bytes:
    """The archive of some members; the same members give the same bytes."""
    body, directory = bytearray(), bytearray()
    # Sorted and without a clock, so that the same model gives the same bytes.
    for name, content in sorted(members.items()):
        known = (
            *(0, 0, 0, FIRST_DAY),  # flags, method (stored), time, date
            zlib.crc32(content),
            len(content),
            len(content),
            len(name),
            0,
        )
        entry = ENTRY.pack(
            ENTRY_MARK, UNIX | VERSION, VERSION, *known, 0, 0, 0, READABLE, len(body)
        )
        directory += entry + name.encode("ascii")
        body += LOCAL.pack(LOCAL_MARK, VERSION, *known) + name.encode("ascii") + content
    sizes = (len(directory), len(body))
    end = END.pack(END_MARK, 0, 0, len(members), len(members), *sizes, DIGEST_LENGTH)
    sealed = bytes(body + directory + end)
    return sealed + hashlib.sha256(sealed).hexdigest().encode("ascii")


def unpack(data: bytes) -> dict[str, bytes]:
    """The members of an archive that ``pack`` made; any other bytes are refused."""
    if not data.startswith(LOCAL_MARK):
        raise ModelFileError("it is no fairmix model file.")
    # First of all, so that a damaged file is called damaged, whatever the damage would look like
    # further on.
    sealed, digest = data[:-DIGEST_LENGTH], data[-DIGEST_LENGTH:]
    if hashlib.sha256(sealed).hexdigest().encode("ascii") != digest:
        raise ModelFileError(
            "it is damaged, altered or no fairmix model file: the checksum does not match. Get it "
            "again, or save the model anew."
        )
    members: dict[str, bytes] = {}
    start = 0
    while data.startswith(LOCAL_MARK, start):
        # Whoever makes a file can also make its checksum, so from here on nothing is trusted.
        if len(members) == MAX_MEMBERS:
            raise ModelFileError(f"it has more than {MAX_MEMBERS} members.")
        name, content, start = _member(data, start)
        if name in members:
            raise ModelFileError(f"it has two members {name!r}.")
        members[name] = content
    # Instead of checking field by field: what we would not write, such as a directory that names
    # other sizes than the members, is refused without having been thought of.
    if pack(members) != data:
        raise ModelFileError(
            "it is not laid out as fairmix does it, so another program wrote it. Save the model "
            "anew."
        )
    return members


def _member(data: bytes, start: int) -> tuple[str, bytes, int]:
    """Name and content of the member at a place, and the place after it."""
    if len(data) < start + LOCAL.size:
        raise ModelFileError("it ends within a member.")
    _, _, flags, method, _, _, _, size, full_size, name_length, extra = LOCAL.unpack_from(
        data, start
    )
    if flags or method or extra or size != full_size:
        raise ModelFileError("it has a compressed or encrypted member, which fairmix never writes.")
    begin = start + LOCAL.size + name_length
    end = begin + size
    if end > len(data):
        raise ModelFileError("it has a member that is longer than the file.")
    # Never fails: the name goes into a message.
    name = data[start + LOCAL.size : begin].decode("ascii", "backslashreplace")
    if not MEMBER_NAME.fullmatch(name):
        raise ModelFileError(f"it has a member {name[:60]!r}, which no model file has.")
    return name, data[begin:end], end


def read_bytes(path: Path) -> bytes:
    """The bytes of a regular file of bounded size."""
    # A named pipe would make `open` wait, and a device may have no end.
    if path.exists() and not path.is_file():
        raise ModelFileError("it is no regular file.")
    with open(path, "rb") as file:
        # Of the open file, and no more is read: the path may name another file by now, or a longer
        # one.
        size = os.fstat(file.fileno()).st_size
        if size > MAX_BYTES:
            raise ModelFileError(f"it has {size:,} bytes, and a model file at most {MAX_BYTES:,}.")
        return file.read(size)
