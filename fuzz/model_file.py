"""Fuzz of the reader of model files: `fairmix.load` refuses in one line, or gives a sound model.

The first byte of an input picks a kept model file, the second a member of it; the rest is the new
content of that member, behind a right checksum. With ``EDITED`` added to the first byte, the rest
is edits of the member: numbers of an array, or pieces of the document. With ``WHOLE`` first, the
rest is a whole file.
"""

from __future__ import annotations

import json
import struct
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from typer.testing import CliRunner

from fairmix import FairMixture, load
from fairmix.cli import app
from fairmix.export.model_file import ModelFileError
from fairmix.export.model_file.archive import pack, unpack
from fairmix.system.clean import clean

KEPT = sorted(Path(__file__).parents[1].glob("tests/models/schema-*/*.fairmix"))
MEMBERS = [unpack(path.read_bytes()) for path in KEPT]
WHOLE, EDITED = 255, 128
# Place and number; place, how many bytes go, and bytes that come.
NUMBER, PIECE = struct.Struct("<Hd"), struct.Struct("<HB7s")
DICTIONARY = (
    *(b"1e308", b"-1", b"0.0", b"null", b"true", b"[]", b"{}", b'"a"', b"1e-308", b"[["),
    # What was let in, or ended in a traceback, before.
    *(b"1" + b"0" * 40, b'"\\ud800"', b'"\\u001b[2J"', b'"facts": 3', b'"sensitive": 3', b"5.0"),
)
FORGED: dict[str, tuple[str, str, Any]] = {
    "gap": ("fitted", "gap_", -1e308),
    "balance": ("fitted", "balance_", 5),
    "sizes": ("groups", "sizes", [0, 0]),
    "components": ("parameters", "n_components", 10**18),
    "digits": ("parameters", "max_gap", 10**400),
    "attributes": ("parameters", "min_balance", {"a": 1}),
    "half": ("groups", "names", ["\ud800", "b"]),
    "escape": ("groups", "names", ["\x1b[2J", "b"]),
    "facts": ("metadata", "facts", 3),
    "sensitive": ("metadata", "sensitive", 3),
}
# Characters of an error: more is not a message that somebody reads.
LONGEST = 2000
# Numbers of the rows that a loaded model is tried on: usual ones, and one far away.
NUMBERS = (0.0, 1.5, -30.0)


def seeds() -> dict[str, bytes]:
    """Inputs for every kept file and every member of it."""
    found = {f"{path.stem}-whole": bytes([WHOLE]) + path.read_bytes() for path in KEPT}
    for number, (path, members) in enumerate(zip(KEPT, MEMBERS, strict=True)):
        for place, name in enumerate(sorted(members)):
            found[f"{path.stem}-{name}"] = bytes([number, place]) + members[name]
            # Zero, large, and near both ends of double precision.
            for value in (0.0, 1e6, -1e300, 1e-300):
                edit = bytes([number + EDITED, place]) + NUMBER.pack(0, value)
                found[f"{path.stem}-{name}-{value:g}"] = edit
    # What was let in, or ended in a traceback, before: values that no fit gives.
    for number, (path, members) in enumerate(zip(KEPT, MEMBERS, strict=True)):
        document = json.loads(members["model.json"])
        place = sorted(members).index("model.json")
        for name, (section, key, value) in FORGED.items():
            forged = document | {section: document[section] | {key: value}}
            content = json.dumps(forged).encode("ascii")
            found[f"{path.stem}-forged-{name}"] = bytes([number, place]) + content
    return found


def file_of(data: bytes) -> bytes:
    """The file that an input stands for."""
    if len(data) < 2 or data[0] == WHOLE:
        return data[1:]
    members = MEMBERS[data[0] % EDITED % len(MEMBERS)]
    name = sorted(members)[data[1] % len(members)]
    content = data[2:]
    if data[0] >= EDITED:
        content = edited(members[name], content, array=name.endswith(".npy"))
    return pack(members | {name: content})


def edited(content: bytes, edits: bytes, *, array: bool) -> bytes:
    """A member with some numbers of its array, or pieces of its document, replaced."""
    kind = NUMBER if array else PIECE
    whole = edits[: len(edits) // kind.size * kind.size]
    if not array:
        for place, gone, come in kind.iter_unpack(whole):
            start = place % (len(content) + 1)
            content = content[:start] + come.rstrip(b"\0") + content[start + gone % 8 :]
        return content
    values = bytearray(content)
    first = content.index(b"\n") + 1
    for place, value in kind.iter_unpack(whole):
        count = (len(values) - first) // 8
        if count:
            struct.pack_into("<d", values, first + 8 * (place % count), value)
    return bytes(values)


def rows_of(model: FairMixture) -> tuple[Any, list[str] | None]:
    """A few rows that fit the columns of a model, and their groups if it asks for them."""
    columns, n_rows = model.fitted_.model.columns, len(NUMBERS)
    categories = dict(zip(columns.categorical, columns.levels, strict=True))
    cells = [
        [categories[j][i % len(categories[j])] for i in range(n_rows)]
        if j in categories
        else list(NUMBERS)
        for j in range(len(columns.names))
    ]
    groups = None
    if model.fitted_.model.aware:
        groups = [str(model.groups_[i % len(model.groups_)]) for i in range(n_rows)]
    if not hasattr(model, "feature_names_in_"):
        return np.array(cells, dtype=object if categories else float).T, groups
    frame = pd.concat([pd.Series(values) for values in cells], axis=1)
    frame.columns = pd.Index(model.feature_names_in_)
    return frame, groups


def try_model(model: FairMixture) -> str:
    """Labels and probabilities of a few rows are sound, or one ValueError says why not."""
    X, groups = rows_of(model)
    try:
        labels = model.predict(X, sensitive_features=groups)
        psi = model.predict_proba(X, sensitive_features=groups)
    except ValueError as error:
        if len(str(error)) > LONGEST:
            raise AssertionError("the error is too long") from error
        return "loaded, rows refused"
    assert labels.shape == (len(NUMBERS),), labels
    assert ((labels >= 0) & (labels < psi.shape[1])).all(), labels
    assert np.isfinite(psi).all(), psi
    assert np.allclose(psi.sum(axis=1), 1), psi
    return "loaded"


def tell(path: Path) -> None:
    """``fairmix info`` tells what the file holds, and nothing gives an order to a terminal."""
    for words in ([], ["--json"]):
        told = CliRunner().invoke(app, ["info", str(path), *words], color=True)
        assert told.exit_code == 0, told.exception
        assert clean(told.output) == told.output, told.output


def check(data: bytes, folder: Path) -> str:
    """What became of an input; raises where the reader breaks its promise."""
    path = folder / "model.fairmix"
    path.write_bytes(file_of(data))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            model = load(path)
        except ModelFileError as error:
            if "\n" in str(error) or len(str(error)) > LONGEST:
                raise AssertionError("the error is not one short line") from error
            return "refused"
        tell(path)
        return try_model(model)
