"""Model files from strangers: refused with one line, before memory, code or paths are touched."""

import hashlib
import io
import pickle
import struct
import tracemalloc
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from fairmix import load
from fairmix.export.model_file import ModelFileError
from fairmix.export.model_file.archive import MAX_BYTES, MAX_MEMBERS, MEMBER_NAME, pack, unpack
from fairmix.export.model_file.members import array_bytes, read_array
from repetition import times

KEPT = Path(__file__).parent / "models" / "schema-1" / "mixed-blind.fairmix"
Members = dict[str, bytes]


def seal(archive: bytes) -> bytes:
    """A zip archive with a right checksum: what an attacker can always make."""
    end = archive.rindex(b"PK\x05\x06")
    sealed = archive[: end + 20] + struct.pack("<H", 64)
    return sealed + hashlib.sha256(sealed).hexdigest().encode()


def zipped(members: list[tuple[Any, bytes]], compression: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return seal(buffer.getvalue())


def npy(array: np.ndarray, **options: Any) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, **options)
    return buffer.getvalue()


@pytest.fixture
def members() -> Members:
    """A mixed, blind, standardised model: every kind of member."""
    return unpack(KEPT.read_bytes())


def refuse(data: bytes, folder: Path, match: str) -> str:
    """Loading raises one line that names the file, and leaves the folder as it is."""
    path = folder / "model.fairmix"
    path.write_bytes(data)
    with pytest.raises(ModelFileError, match=match) as caught:
        load(path)
    message = str(caught.value)
    assert message.startswith(f"{str(path)!r} cannot be loaded: ")
    assert "\n" not in message
    assert caught.value.__cause__ is None
    assert list(folder.iterdir()) == [path]
    return message


def test_the_untouched_members_load(members, tmp_path):
    (tmp_path / "model.fairmix").write_bytes(pack(members))
    assert load(tmp_path / "model.fairmix").n_components == 2
    # What `seal` and `zipped` make is refused for what it holds, not for how it was made.
    same = zipped([(name, members[name]) for name in sorted(members)])
    assert unpack(pack(members)).keys() == members.keys()
    refuse(same, tmp_path, "another program wrote it")


# ------------------------------------------------------------------ damage
def test_truncated_at_every_tenth_byte(members, tmp_path, record_property):
    data = pack(members)
    lengths = range(0, len(data), 10)
    for length in lengths:
        refuse(data[:length], tmp_path, "no fairmix model file")
    record_property("files", len(lengths))


@pytest.mark.repeats
def test_altered_bytes_are_noticed(members, record_property):
    data = pack(members)
    # In the long run every byte.
    places = range(0, len(data), times(7, 1))
    record_property("files", len(places))
    for place in places:
        altered = bytearray(data)
        altered[place] ^= 0x20
        with pytest.raises(ModelFileError, match="no fairmix model file"):
            unpack(bytes(altered))


def test_bytes_after_the_end_are_noticed(members, tmp_path):
    refuse(pack(members) + b"\n", tmp_path, "checksum")


@pytest.mark.parametrize(
    "data",
    [b"", b"PK", b"PK\x03\x04", pickle.dumps({"a": 1}), b"{}", npy(np.zeros(3))],
    ids=["empty", "two bytes", "mark", "pickle", "json", "npy"],
)
def test_other_files(data, tmp_path):
    refuse(data, tmp_path, "no fairmix model file")


def test_folders_and_missing_files(tmp_path):
    with pytest.raises(ModelFileError, match="no regular file"):
        load(tmp_path)
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "missing.fairmix")


@given(st.binary(max_size=300))
def test_any_bytes_behind_a_right_checksum(content):
    for body in (content, b"PK\x03\x04" + content):
        data = body + hashlib.sha256(body).hexdigest().encode()
        with pytest.raises(ModelFileError):
            unpack(data)


@given(
    st.dictionaries(
        st.from_regex(MEMBER_NAME, fullmatch=True),
        st.binary(max_size=50),
        min_size=1,
        max_size=MAX_MEMBERS,
    )
)
def test_any_members_come_back(members):
    assert unpack(pack(members)) == members


@given(
    arrays(
        st.sampled_from([np.float64, np.int64]), array_shapes(min_dims=0, max_dims=2, min_side=0)
    )
)
def test_any_array_comes_back(array):
    again = read_array("a.npy", array_bytes(array))
    assert (again.dtype, again.shape) == (array.dtype, array.shape)
    assert again.tobytes() == array.tobytes()


# ------------------------------------------------------------------ the container
@pytest.mark.parametrize(
    "name",
    ["/etc/passwd", "../../theta.npy", "a/theta.npy", "C:\\theta.npy", "theta.npy\x00", "x.py", ""],
)
def test_names_that_lead_elsewhere(name, members, tmp_path):
    refuse(pack(members | {name: b"x"}), tmp_path, "which no model file has")


def test_names_that_are_no_ascii(members, tmp_path):
    data = zipped([("thetä.npy", b"x"), *members.items()])
    refuse(data, tmp_path, "compressed or encrypted")


def test_a_zip_bomb_is_refused_without_being_unpacked(members, tmp_path):
    large = members | {"offsets.npy": b"\0" * 50_000_000}
    bomb = zipped(list(large.items()), compression=zipfile.ZIP_DEFLATED)
    assert len(bomb) < 100_000
    tracemalloc.start()
    refuse(bomb, tmp_path, "compressed")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5_000_000


def test_overlapping_members(members, tmp_path):
    # The directory names one stored member many times, as the worst bombs do.
    data = bytearray(pack({"model.json": members["model.json"]})[:-64])
    end = data.rindex(b"PK\x05\x06")
    start = data.index(b"PK\x01\x02")
    entry = bytes(data[start:end])
    many = bytes(data[:start]) + entry * 1000
    tail = struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, 1000, 1000, len(entry) * 1000, start, 64)
    refuse(seal(many + tail), tmp_path, "another program wrote it")


def test_duplicated_members(members, tmp_path):
    first = ("theta.npy", members["theta.npy"])
    with pytest.warns(UserWarning, match="Duplicate name"):
        data = zipped([first, first])
    refuse(data, tmp_path, "two members 'theta.npy'")


def test_more_members_than_a_model_has(members, tmp_path):
    letters = [chr(97 + i // 26) + chr(97 + i % 26) for i in range(60)]
    data = pack(members | {f"{name}.npy": b"" for name in letters})
    refuse(data, tmp_path, "more than 32 members")


def test_a_member_longer_than_the_file(members, tmp_path):
    data = bytearray(pack(members)[:-64])
    data[18:26] = struct.pack("<2I", 2**31, 2**31)
    refuse(seal(bytes(data)), tmp_path, "longer than the file")


def test_a_file_larger_than_any_model(tmp_path):
    path = tmp_path / "model.fairmix"
    with open(path, "wb") as file:
        file.truncate(MAX_BYTES + 1)  # sparse: takes no space
    with pytest.raises(ModelFileError, match="bytes, and a model file at most"):
        load(path)


# ------------------------------------------------------------------ arrays
class Trap:
    """Code in a pickle; its file must never appear."""

    def __reduce__(self):
        return Path.write_text, (Path("trap"), "code has run")


def test_a_pickle_in_an_array_does_not_run(members, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    content = npy(np.array([Trap()], dtype=object), allow_pickle=True)
    refuse(pack(members | {"theta.npy": content}), tmp_path, "theta.npy is no array of float64")
    assert not Path("trap").exists()


BAD_ARRAYS = {
    "float32": npy(np.zeros(3, np.float32)),
    "big-endian": npy(np.zeros(3, ">f8")),
    "text": npy(np.array(["a"])),
    "records": npy(np.zeros(3, [("a", "f8")])),
    "fortran": npy(np.asfortranarray(np.zeros((3, 2)))),
    "three axes": npy(np.zeros((1, 1, 1))),
    "version 2": npy(np.zeros(3), version=(2, 0)),
    "cut": npy(np.zeros(3))[:-1],
    "longer": npy(np.zeros(3)) + b"\0" * 8,
    "empty": b"",
    "header only": b"\x93NUMPY\x01\x00",
    "wrong length": npy(np.zeros(3)).replace(b"v\x00{", b"u\x00{"),
}


@pytest.mark.parametrize("case", list(BAD_ARRAYS))
def test_arrays_that_are_none(case, members, tmp_path):
    refuse(
        pack(members | {"theta.npy": BAD_ARRAYS[case]}), tmp_path, r"theta\.npy (is no|has shape)"
    )


@pytest.mark.parametrize("shape", ["999999999999,", "999999999999, 999999999999", "-1,", "3, -1"])
def test_giant_shapes_take_no_memory(shape, members, tmp_path):
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({shape}), }}".ljust(117) + "\n"
    content = b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + header.encode() + b"\0" * 64
    tracemalloc.start()
    refuse(pack(members | {"theta.npy": content}), tmp_path, "theta.npy")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5_000_000


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ["theta", "center", "mean", "scale", "offsets", "rates"])
def test_numbers_that_no_model_has(name, value, members, tmp_path):
    array = np.load(io.BytesIO(members[f"{name}.npy"]))
    array.flat[-1] = value
    refuse(pack(members | {f"{name}.npy": npy(array)}), tmp_path, rf"{name}\.npy holds NaN")


@pytest.mark.parametrize("place", [2, 4], ids=["mean", "scale"])
def test_finite_numbers_that_overflow(place, members, tmp_path):
    theta = np.load(io.BytesIO(members["theta.npy"]))
    theta[place] = 1e300
    refuse(pack(members | {"theta.npy": npy(theta)}), tmp_path, "too large for a density")


@pytest.mark.parametrize(
    ("name", "value"), [("deviation", 1e-200), ("coefficients", 1e307), ("mean", 1e200)]
)
def test_a_propensity_that_overflows_refuses_rows(name, value, members, tmp_path):
    array = np.load(io.BytesIO(members[f"propensity_{name}.npy"]))
    array[...] = value
    path = tmp_path / "model.fairmix"
    path.write_bytes(pack(members | {f"propensity_{name}.npy": npy(array)}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = load(path)
        row = {column: [1.0] for column in model.feature_names_in_}
        for column, levels in zip(
            model.fitted_.model.columns.categorical, model.categories_, strict=True
        ):
            row[model.feature_names_in_[column]] = [levels[0]]
        with pytest.raises(ValueError, match="densities overflow"):
            model.predict(pd.DataFrame(row))


@pytest.mark.parametrize("value", [0.0, -1.0])
@pytest.mark.parametrize("name", ["scale", "propensity_deviation"])
def test_scales_are_positive(name, value, members, tmp_path):
    data = pack(members | {f"{name}.npy": npy(np.array([value]))})
    refuse(data, tmp_path, rf"{name}\.npy holds numbers that are not positive")


@pytest.mark.parametrize(
    ("name", "array", "match"),
    [
        ("theta", np.zeros(3), r"of shape \(3,\), the model needs float64 of shape \(11\)"),
        ("theta", np.zeros(11, np.int64), "is int64"),
        ("rates", np.zeros((2, 3)), r"of shape \(2, 2\)"),
        ("history", np.zeros((3, 4)), r"of shape \(any, 5\)"),
        ("propensity_slots", np.array([0, 1, 3]), "holds a slot that is not there"),
        ("propensity_slots", np.array([0, 1, -1]), "holds a slot that is not there"),
        ("propensity_coefficients", np.zeros((2, 99)), "does not fit to the columns"),
        ("unknown", np.zeros(3), "has no place in this model"),
    ],
)
def test_arrays_that_do_not_fit(name, array, match, members, tmp_path):
    refuse(pack(members | {f"{name}.npy": npy(array)}), tmp_path, match)


@pytest.mark.parametrize("name", ["theta.npy", "mean.npy", "propensity_mean.npy", "model.json"])
def test_missing_members(name, members, tmp_path):
    kept = {key: content for key, content in members.items() if key != name}
    refuse(pack(kept), tmp_path, name)
