"""Members of a model file: arrays of numbers as ``.npy``, and one JSON document.

Both are read by rules of our own that are narrower than the formats: an array is float64 or int64,
little-endian, in C order; a document has no NaN, no infinity and no repeated key. Every size is
checked against the bytes at hand before anything is allocated.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping
from math import isfinite, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmix.export.model_file.archive import ModelFileError

Array = NDArray[Any]

# A pattern, because NumPy's own reader evaluates the header as a Python literal. DOTALL, because
# the length is two bytes of any value, a line break too.
HEADER = re.compile(
    rb"\x93NUMPY\x01\x00(?P<length>..)"
    rb"\{'descr': '(?P<dtype><f8|<i8)', 'fortran_order': False, "
    rb"'shape': \((?P<shape>|\d{1,12},|\d{1,12}, \d{1,12})\), \} *\n",
    re.DOTALL,
)
PREFIX = 10  # bytes before the header: magic, version, length
# A document of more bytes or containers than this would take far more memory than its size.
MAX_DOCUMENT = 2**24
MAX_CONTAINERS = 1_000_000
# Our own document has four levels; the others are for the metadata of users.
MAX_DEPTH = 32


def array_bytes(array: Array) -> bytes:
    """An array as a ``.npy`` file."""
    kinds: dict[str, str] = {"f": "<f8", "i": "<i8"}
    plain = np.asarray(array, order="C").astype(kinds[array.dtype.kind])
    buffer = io.BytesIO()
    # Version 1.0 is the one that HEADER takes; NumPy would choose by the length of the header.
    np.lib.format.write_array(buffer, plain, version=(1, 0), allow_pickle=False)
    return buffer.getvalue()


def read_array(name: str, content: bytes) -> Array:
    """The array of a ``.npy`` file of at most two dimensions."""
    header = HEADER.match(content)
    # The length counts the padding: a header that ends elsewhere than it says hides bytes.
    if header is None or header.end() != PREFIX + int.from_bytes(header["length"], "little"):
        raise ModelFileError(f"{name} is no array of float64 or int64 numbers in C order.")
    shape = tuple(int(length) for length in header["shape"].split(b",") if length)
    size = len(content) - header.end()
    # Python's whole numbers do not overflow, NumPy's product of a forged shape would.
    if prod(shape) * 8 != size:
        raise ModelFileError(f"{name} has shape {shape} in its header and {size} bytes of numbers.")
    dtype = header["dtype"].decode("ascii")
    numbers = np.frombuffer(content, dtype, offset=header.end()).reshape(shape)
    # A copy that can be written to, in the byte order of this machine.
    return numbers.astype(numbers.dtype.newbyteorder("="))


def document_bytes(document: Mapping[str, Any]) -> bytes:
    """A document as JSON."""
    # All else is escaped to ASCII, so that a reader has no encoding to guess.
    return json.dumps(document, allow_nan=False, indent=1).encode("ascii")


def read_document(name: str, content: bytes) -> dict[str, Any]:
    """The object of a JSON document."""
    if len(content) > MAX_DOCUMENT:
        raise ModelFileError(f"{name} is larger than {MAX_DOCUMENT:,} bytes.")
    # Before parsing, which is what takes the memory. Brackets within texts count too, which only
    # refuses more.
    if content.count(b"[") + content.count(b"{") > MAX_CONTAINERS:
        raise ModelFileError(f"{name} has more than {MAX_CONTAINERS:,} brackets.")
    try:
        document = json.loads(
            content.decode("ascii"),
            parse_constant=_refuse_constant,
            parse_float=_finite,
            object_pairs_hook=_without_repeats,
        )
    # How deep Python goes depends on the caller, so MAX_DEPTH is checked as well.
    except RecursionError:
        raise ModelFileError(f"{name} is nested too deeply.") from None
    except ValueError as error:
        raise ModelFileError(f"{name} cannot be read: {error}.") from None
    if not isinstance(document, dict):
        raise ModelFileError(f"{name} holds no object.")
    _check_depth(name, document)
    return document


def _check_depth(name: str, document: dict[str, Any]) -> None:
    # Layer by layer: a recursive walk would fail on what it looks for.
    layer: list[Any] = [document]
    for _ in range(MAX_DEPTH):
        inner = [part.values() if isinstance(part, dict) else part for part in layer]
        layer = [value for part in inner for value in part if isinstance(value, dict | list)]
    if layer:
        raise ModelFileError(f"{name} is nested too deeply.")


def _refuse_constant(text: str) -> float:
    raise ValueError(f"{text} is no number of a model")


def _finite(text: str) -> float:
    value = float(text)
    if not isfinite(value):
        raise ValueError(f"{text[:40]} is too large for a number")
    return value


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # JSON allows repeats, and readers differ in which one they take.
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("an object names a key twice")
    return found
