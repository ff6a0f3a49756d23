"""Typed reading of a document and of arrays: each value is checked as it is taken, once."""

from __future__ import annotations

import reprlib
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from fairmix.export.model_file.archive import MAX_BYTES, ModelFileError
from fairmix.export.model_file.members import Array

# Whole numbers fit in 64 bits.
MAX_WHOLE = 2**63 - 1
CHARACTER = 4  # bytes in a NumPy array of texts


class Fields:
    """The values of one object of a document; what is not taken is refused at the end.

    Parameters
    ----------
    values : dict
        The object.
    place : str
        How errors call it.
    """

    def __init__(self, values: Mapping[str, Any], place: str) -> None:
        self._values = dict(values)
        self._place = place

    @property
    def names(self) -> list[str]:
        """Names of the values that are left."""
        return list(self._values)

    def has(self, name: str) -> bool:
        """Whether a value, which must be there, is not null."""
        value = self.value(name)
        # Put back, to be taken by a reader that checks its type; a null is done with.
        if value is not None:
            self._values[name] = value
        return value is not None

    def holds(self, name: str) -> bool:
        """Whether there is a value, which files of earlier versions lack."""
        return name in self._values

    def value(self, name: str) -> Any:
        """Any value."""
        if name not in self._values:
            raise ModelFileError(f"{self._place} has no {name!r}.")
        return self._values.pop(name)

    def mapping(self, name: str) -> dict[str, Any]:
        """An object with any values."""
        value = self.value(name)
        if not isinstance(value, dict):
            raise _wrong(self._at(name), value, "an object")
        return value

    def section(self, name: str) -> Fields:
        """An object with values that are to be taken."""
        return Fields(self.mapping(name), self._at(name))

    def text(self, name: str, known: tuple[str, ...] | None = None) -> str:
        """A text, one of the known ones if there are such."""
        value = self.value(name)
        if not isinstance(value, str) or (known is not None and value not in known):
            raise _wrong(self._at(name), value, "a text" if known is None else f"one of {known}")
        _check_characters(self._at(name), value)
        return value

    def texts(self, name: str, *, distinct: bool = False) -> tuple[str, ...]:
        """A list of texts that an array can hold."""
        return _texts(self._at(name), self.value(name), distinct)

    def lists_of_texts(self, name: str, length: int) -> tuple[tuple[str, ...], ...]:
        """A list of this many lists, none empty, of different texts."""
        value = self.value(name)
        if not isinstance(value, list) or len(value) != length or not all(value):
            raise _wrong(self._at(name), value, f"{length} lists of texts")
        return tuple(_texts(self._at(name), entry, True) for entry in value)

    def whole(self, name: str, low: int = 0, high: int = MAX_WHOLE) -> int:
        """A whole number."""
        value = self.value(name)
        if not _is_whole(value, low, high):
            raise _wrong(self._at(name), value, f"a whole number from {low} to {high}")
        return int(value)

    def wholes(self, name: str, low: int = 0, high: int = MAX_WHOLE) -> list[int]:
        """A list of whole numbers."""
        value = self.value(name)
        if not isinstance(value, list) or not all(_is_whole(n, low, high) for n in value):
            raise _wrong(self._at(name), value, f"a list of whole numbers from {low} to {high}")
        return value

    def number(self, name: str, low: float = -np.inf, high: float = np.inf) -> float:
        """A finite number."""
        value = self.value(name)
        # In Python a bool is a whole number, in JSON it is not.
        number = isinstance(value, float | int) and not isinstance(value, bool)
        # A whole number of JSON may be longer than any float.
        if not number or abs(value) > sys.float_info.max or not low <= value <= high:
            limit = f" of at least {low:g}" if low > -np.inf else ""
            limit += f" and at most {high:g}" if high < np.inf else ""
            raise _wrong(self._at(name), value, f"a number{limit}")
        return float(value)

    def flag(self, name: str) -> bool:
        """True or false."""
        value = self.value(name)
        if not isinstance(value, bool):
            raise _wrong(self._at(name), value, "true or false")
        return value

    def done(self) -> None:
        """Refuse what was not taken."""
        # A field that is not understood may change what the others mean, so ignoring it would
        # misread the file.
        if self._values:
            raise ModelFileError(f"{self._place} has an unknown field {min(self._values)!r}.")

    def _at(self, name: str) -> str:
        return f"{self._place}: {name}"


class Arrays:
    """The arrays of a file, taken one by one with the shape that each must have."""

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        self._arrays = dict(arrays)

    def has(self, name: str) -> bool:
        """Whether there is such an array."""
        return name in self._arrays

    def floats(self, name: str, *shape: int | None, finite: bool = True) -> Array:
        """Real numbers; None stands for any length."""
        array = self._take(name, "f", shape)
        if finite and not np.isfinite(array).all():
            raise ModelFileError(f"{name}.npy holds NaN or infinity.")
        return array

    def integers(self, name: str, *shape: int | None) -> Array:
        """Whole numbers."""
        return self._take(name, "i", shape)

    def done(self) -> None:
        """Refuse what was not taken."""
        if self._arrays:
            raise ModelFileError(f"{min(self._arrays)}.npy has no place in this model.")

    def _take(self, name: str, kind: str, shape: tuple[int | None, ...]) -> Array:
        if name not in self._arrays:
            raise ModelFileError(f"{name}.npy is missing.")
        array = self._arrays.pop(name)
        fits = len(shape) == array.ndim and all(
            wanted in (None, found) for wanted, found in zip(shape, array.shape, strict=True)
        )
        if array.dtype.kind != kind or not fits:
            wanted = ", ".join("any" if length is None else str(length) for length in shape)
            raise ModelFileError(
                f"{name}.npy is {array.dtype} of shape {array.shape}, the model needs "
                f"{'float64' if kind == 'f' else 'int64'} of shape ({wanted})."
            )
        return array


def _texts(place: str, value: object, distinct: bool) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise _wrong(place, value, "a list of texts")
    for text in value:
        _check_characters(place, text)
    if distinct and len(set(value)) < len(value):
        raise ModelFileError(f"{place} names something twice.")
    # An array gives every text the length of the longest.
    if len(value) * max(map(len, value), default=0) * CHARACTER > MAX_BYTES:
        raise ModelFileError(f"{place} has texts that are too long to be held.")
    return tuple(value)


def _check_characters(place: str, text: str) -> None:
    """Refuse halves of characters, which JSON can name and no file or screen can hold."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise ModelFileError(f"{place} has a name with half of a character.") from None


def _is_whole(value: object, low: int, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _wrong(place: str, value: object, wanted: str) -> ModelFileError:
    # reprlib: a value may be long or deep.
    return ModelFileError(f"{place} is {reprlib.repr(value)}, not {wanted}.")
