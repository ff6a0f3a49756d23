"""Model files: a fitted estimator in one file without code and without rows.

See ``docs/reference/model-file-format.md`` for the format.
"""

from __future__ import annotations

import os
from pathlib import Path

from fairmix.export.model_file.archive import ModelFileError, pack, read_bytes, unpack
from fairmix.export.model_file.decoding import decode
from fairmix.export.model_file.encoding import encode
from fairmix.export.model_file.members import array_bytes, document_bytes, read_array, read_document
from fairmix.export.model_file.snapshot import LOCAL_PARAMETERS, Snapshot
from fairmix.system.files import replace_file

__all__ = ["LOCAL_PARAMETERS", "ModelFileError", "Snapshot", "read_model", "write_model"]

DOCUMENT = "model.json"
SUFFIX = ".npy"


def write_model(path: str | os.PathLike[str], snapshot: Snapshot) -> Path:
    """Write a snapshot; the file appears when it is complete."""
    document, arrays = encode(snapshot)
    members = {f"{name}{SUFFIX}": array_bytes(array) for name, array in arrays.items()}
    data = pack({DOCUMENT: document_bytes(document), **members})
    # Never a file that `read_model` would refuse.
    try:
        _snapshot(data)
    except ModelFileError as error:
        raise ModelFileError(f"The model cannot be saved: {error}") from None
    replace_file(Path(path), data)
    return Path(path)


def read_model(path: str | os.PathLike[str]) -> Snapshot:
    """Read a snapshot; a file that cannot be trusted raises one `ModelFileError`."""
    try:
        return _snapshot(read_bytes(Path(path)))
    except ModelFileError as error:
        raise ModelFileError(f"{os.fspath(path)!r} cannot be loaded: {error}") from None


def _snapshot(data: bytes) -> Snapshot:
    members = unpack(data)
    if DOCUMENT not in members:
        raise ModelFileError(f"it has no {DOCUMENT}.")
    document = read_document(DOCUMENT, members.pop(DOCUMENT))
    arrays = {
        name.removesuffix(SUFFIX): read_array(name, content) for name, content in members.items()
    }
    return decode(document, arrays)
