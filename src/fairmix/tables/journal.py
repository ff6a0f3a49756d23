"""A journal of passes: what lets a fit go on after its process died.

A fit is a fixed sequence of passes with a little arithmetic in between. The journal keeps what each
pass returned. A new process repeats the arithmetic, is told the known passes by the journal, and
does only the rest: every solver resumes with the same bits, whatever it was doing.

The file is a NumPy ``.npz`` archive without pickle, replaced in one step by a complete new one.
"""

from __future__ import annotations

import io
import json
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from fairmix.kernels import Sweep
from fairmix.kernels.totals import FloatArray, Logits, Totals
from fairmix.system.files import replace_file

# 2: a pass is known by all of its sweep and its blocks, not by its arrays alone.
FORMAT = 2
# Seconds between two writings, and how many times longer than a writing that must be at least: so
# a checkpoint costs at most a twentieth of a fit, and a kill at most so many seconds of one.
EVERY = 3.0
PATIENCE = 20.0


class Journal:
    """Remembers passes in a file.

    Parameters
    ----------
    path : Path
        The file. An existing one is read.
    identity : dict
        What the fit is of: data, settings, version. A file of another fit is refused.
    """

    def __init__(self, path: Path, identity: dict[str, Any]) -> None:
        self.path = path
        self.identity = identity
        self._known = _known(path, identity) if path.exists() else []
        self._next = 0
        self._written = time.monotonic()
        self._patience = EVERY

    def answer(
        self, sweep: Sweep, blocks: Sequence[int] | None, ask: Callable[[], Totals]
    ) -> Totals:
        """The totals of a pass over some blocks (None: all), from the file or by asking."""
        check = zlib.crc32(repr(None if blocks is None else list(blocks)).encode(), sweep.digest)
        if self._next < len(self._known):
            known_check, totals = self._known[self._next]
            # The arithmetic between passes may differ by a bit elsewhere, and following it would
            # end in a result that neither machine gives alone.
            if known_check != check:
                raise ValueError(
                    f"checkpoint={str(self.path)!r} was made by other code or on another kind of "
                    f"machine: pass {self._next} differs. Delete the file to start anew."
                )
        else:
            totals = ask()
            self._known.append((check, totals))
        self._next += 1
        # Not while known passes are repeated: the file has them.
        if self._next == len(self._known) and time.monotonic() - self._written > self._patience:
            self.write()
        return totals

    def write(self) -> None:
        """Replace the file by one with all that is known."""
        started = time.monotonic()
        arrays: dict[str, Any] = {"check": np.array([check for check, _ in self._known], np.uint32)}
        columns = [_flat(totals) for _, totals in self._known]
        for name in columns[0] if columns else ():
            parts = [column[name] for column in columns]
            arrays[f"{name}.values"] = np.concatenate([part.ravel() for part in parts])
            arrays[f"{name}.shapes"] = np.array([_shape(part) for part in parts], np.int64)
        head = {"format": FORMAT, "identity": self.identity}
        arrays["head"] = np.frombuffer(json.dumps(head).encode(), np.uint8)
        buffer = io.BytesIO()
        # In memory first, because the file must be complete whenever it is there.
        np.savez(buffer, **arrays)
        replace_file(self.path, buffer.getvalue())
        self._written = time.monotonic()
        self._patience = max(EVERY, PATIENCE * (self._written - started))

    def remove(self) -> None:
        """Delete the file: the fit is done."""
        self.path.unlink(missing_ok=True)


def _flat(totals: Totals) -> dict[str, FloatArray]:
    values = {field.name: getattr(totals, field.name) for field in fields(Totals)}
    sums = values.pop("sums")
    out = {name: np.asarray(value, dtype=np.float64) for name, value in values.items()}
    return out | {"b": sums.b, "W": sums.W}


def _shape(part: FloatArray) -> tuple[int, ...]:
    """Number of axes, then their lengths, filled up to four."""
    # Four, because no total has more axes than the curvature.
    return (part.ndim, *part.shape, *(0,) * (4 - part.ndim))


def read_identity(path: Path) -> dict[str, Any]:
    """What the fit of an existing file is of."""
    return dict(_load(path)[0]["identity"])


def _load(path: Path) -> tuple[dict[str, Any], dict[str, FloatArray]]:
    """Head and arrays of a complete file."""
    with _whole(path):
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        head = json.loads(arrays.pop("head").tobytes())
        if set(head) != {"format", "identity"} or "check" not in arrays:
            raise ValueError("parts are missing")
        if not isinstance(head["identity"], dict):
            raise ValueError("its head is damaged")
    return head, arrays


@contextmanager
def _whole(path: Path) -> Iterator[None]:
    """Whatever goes wrong with a file that is damaged, as one error that says so."""
    try:
        yield
    # All of them: NumPy reads the head of an array as Python, so a flipped bit may be an error of
    # the tokenizer, of the syntax, of a type, or ask for more memory than there is.
    except Exception as error:
        why = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(
            f"checkpoint={str(path)!r} is no complete checkpoint ({why[:200]}). Delete the file to "
            "start anew, or give another path."
        ) from error


def _known(path: Path, identity: dict[str, Any]) -> list[tuple[int, Totals]]:
    """Passes of a file that is of this fit."""
    head, arrays = _load(path)
    _check_identity(path, head, identity)
    with _whole(path):
        return _read(arrays)


def _check_identity(path: Path, head: dict[str, Any], identity: dict[str, Any]) -> None:
    """Refuse a file of another version or another fit."""
    if head.get("format") != FORMAT:
        raise ValueError(
            f"checkpoint={str(path)!r} has format {head.get('format')}, this version reads "
            f"{FORMAT}. Delete the file to start anew."
        )
    # Through JSON, as the file has been: tuples become lists there.
    known, wanted = head["identity"], json.loads(json.dumps(identity))
    for name in wanted:
        if known.get(name) != wanted[name]:
            raise ValueError(
                f"checkpoint={str(path)!r} is of another fit: {name} is {known.get(name)!r} there "
                f"and {wanted[name]!r} here. Delete the file to start anew, or give another path."
            )


def _read(arrays: dict[str, FloatArray]) -> list[tuple[int, Totals]]:
    checks = arrays.pop("check")
    columns = {
        name: _split(arrays[f"{name}.values"], arrays[f"{name}.shapes"])
        for name in sorted({key.rsplit(".", 1)[0] for key in arrays})
    }
    totals = [
        _totals({name: parts[i] for name, parts in columns.items()}) for i in range(len(checks))
    ]
    return list(zip(checks.tolist(), totals, strict=True))


def _split(values: FloatArray, shapes: FloatArray) -> list[FloatArray]:
    lengths = [int(np.prod(row[1 : 1 + row[0]], dtype=np.int64)) for row in shapes]
    parts = np.split(values, np.cumsum(lengths)[:-1]) if lengths else []
    return [part.reshape(row[1 : 1 + row[0]]) for part, row in zip(parts, shapes, strict=True)]


def _totals(values: dict[str, FloatArray]) -> Totals:
    scalars = {"weight", "log_likelihood", "normaliser"}
    sums = Logits(values.pop("b"), values.pop("W"))
    known: dict[str, Any] = {
        name: float(value) if name in scalars else value for name, value in values.items()
    }
    return Totals(sums=sums, **known)
