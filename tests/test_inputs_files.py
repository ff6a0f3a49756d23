"""Odd and wrong files: data, models, and what commands make of them."""

import gzip
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from fairmix import FairMixture, load
from fairmix.cli import app
from fairmix.export.model_file import ModelFileError
from inputs import Bad, Odd, Row, matrix, refuse, warned

LINES = "1.5,Oslo,f\n4,Rome,m\n3.5,Oslo,f\n2,Rome,m\n" * 20
GOOD = "age,town,sex\n" + LINES
MODEL = Path(__file__).parent / "models" / "schema-1" / "mixed-blind.fairmix"


def text(content, name="data.csv"):
    """A row's file: its name and its bytes."""
    return lambda: (name, content.encode() if isinstance(content, str) else content)


def parquet(**columns):
    def make():
        sink = pa.BufferOutputStream()
        pq.write_table(pa.table({**columns, "sex": ["f", "m"] * 40}), sink)
        return "data.parquet", sink.getvalue().to_pybytes()

    return make


def groups(*names):
    return lambda model: model.groups_.tolist() == list(names)


FILES: dict[str, Row] = {
    "Windows line ends": Odd(text(GOOD.replace("\n", "\r\n"))),
    "old Macintosh line ends": Odd(text(GOOD.replace("\n", "\r"))),
    "a mark of the byte order": Odd(
        text(b"\xef\xbb\xbf" + GOOD.encode()),
        check=lambda model: model.feature_names_in_.tolist() == ["age", "town"],
    ),
    "no line end at the end": Odd(text(GOOD.rstrip("\n"))),
    "empty lines": Odd(text(GOOD.replace("m\n", "m\n\n"))),
    "blanks around values": Odd(
        text(GOOD.replace(",", " , ")),
        check=lambda model: model.categories_[0].tolist() == ["Oslo", "Rome"],
    ),
    "quotes, commas and line ends in values": Odd(
        text(GOOD.replace("Oslo", '"Os""lo, \nNorway"')),
        check=lambda model: model.categories_[0].tolist() == ['Os"lo, \nNorway', "Rome"],
    ),
    "a name in quotes": Odd(text(GOOD.replace("age", '"a, ""g"" e"', 1))),
    "unicode": Odd(
        text(GOOD.replace("Oslo", "Tromsø").replace("town", "ciudad ñ名", 1)),
        check=lambda model: model.feature_names_in_.tolist() == ["age", "ciudad ñ名"],
    ),
    "zeros as bytes in a value": Odd(text(GOOD.replace("Oslo", "O\0slo"))),
    "semicolons": Odd(text(GOOD.replace(",", ";"))),
    "tabs": Odd(text(GOOD.replace(",", "\t"), "data.tsv")),
    "packed": Odd(text(gzip.compress(GOOD.encode()), "data.csv.gz")),
    "a value of 1e-320": Odd(text(GOOD.replace("1.5", "1e-320", 1))),
    "whole numbers beyond 64 bits": Odd(text(GOOD.replace("1.5", "99999999999999999999", 1))),
    "single precision": Odd(parquet(age=pa.array(np.arange(80.0) % 7, pa.float32()))),
    "dictionaries": Odd(parquet(town=pa.array(["a", "a", "b", "b"] * 20).dictionary_encode())),
    "large strings": Odd(parquet(town=pa.array(["a", "a", "b", "b"] * 20, pa.large_string()))),
    "bools": Odd(parquet(member=[True, True, False, False] * 20)),
    "decimals": Odd(parquet(age=pa.array(np.arange(80) % 7).cast(pa.decimal128(21, 2)))),
    "a value of 1e300": Bad(text(GOOD.replace("1.5", "1e300", 1)), "squares overflow"),
    "infinity": Bad(
        text(GOOD.replace("1.5", "inf", 1)), "'age' of X has 1 values that are infinity"
    ),
    "a gap in a group": Bad(text(GOOD.replace(",f", ",", 1)), "sensitive_features has 1 missing"),
    "one group": Bad(text(GOOD.replace(",m", ",f")), "one group only, 'f'"),
    "no group column": Bad(text(GOOD.replace("sex", "gender", 1)), "'sex', which is not a column"),
    "groups only": Bad(text("sex\n" + "f\nm\n" * 40), "none of which is left as a feature"),
    "fewer rows than clusters": Bad(text("age,sex\n1,f\n"), "."),
    "UTF-16": Odd(text(GOOD.encode("utf-16"))),
    "Latin-1": Odd(
        text(GOOD.replace("Oslo", "Tromsø").encode("latin-1")),
        warns=("not UTF-8 and was read as cp1252",),
    ),
    "a row that is too short": Bad(text(GOOD + "1,Oslo\n"), "Expected 3 columns, got 2"),
    "a row that is too long": Bad(text(GOOD + "1,Oslo,f,x\n"), "Expected 3 columns, got 4"),
    "a quote that never ends": Bad(text(GOOD + '1,"Oslo,f\n'), "cannot be read"),
    "no header": Bad(text(LINES), "the first line is no header"),
    "the same name twice": Bad(text(GOOD.replace("town", "age", 1)), "more than one column 'age'"),
    "random bytes": Bad(text(np.random.default_rng(0).bytes(999)), "."),
    "random bytes as Parquet": Bad(
        text(np.random.default_rng(0).bytes(999), "data.parquet"), "cannot be read"
    ),
    "an unknown suffix": Bad(text(GOOD, "data.json"), "is not a file to read"),
    "dates": Bad(parquet(day=pa.array(range(80), pa.date32())), "'day' .*not numbers"),
    "lists": Bad(parquet(tags=[[1]] * 80), "."),
    "nulls only": Bad(parquet(age=pa.nulls(80)), "."),
}


@matrix(FILES)
def test_fit_on_files(row, tmp_path):
    name, content = row.make()
    path = tmp_path / name
    path.write_bytes(content)
    model = FairMixture(2, max_gap=0.5, max_iter=20, tol=1e-2, random_state=0)
    if isinstance(row, Bad):
        refuse(lambda: model.fit(path, sensitive_features="sex"), row)
        assert not hasattr(model, "weights_")
    else:
        with warned(*row.warns):
            model.fit(path, sensitive_features="sex")
        assert np.isfinite(model.lower_bound_)
        assert model.groups_.tolist() == ["f", "m"]
        assert row.check is None or row.check(model)
        with warned(*row.warns):
            model.predict(path, output=tmp_path / "labels")
        labels = pq.read_table(tmp_path / "labels")["cluster"]
        assert set(labels.to_pylist()) <= {0, 1}
        assert len(labels) == model.group_sizes_.sum()
    # What was there is as before, and nothing but the labels has come.
    assert path.read_bytes() == content
    assert {entry.name for entry in tmp_path.iterdir()} <= {name, "labels"}


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working folder with data, and a model that the library fitted on an all-numeric frame."""
    monkeypatch.chdir(tmp_path)
    Path("data.csv").write_text(GOOD, encoding="utf-8")
    rng = np.random.default_rng(0)
    numbers = pd.DataFrame({"age": rng.normal(size=80), "pay": rng.normal(size=80)})
    numbers.to_csv("numbers.csv", index=False)
    sex = ["f", "m"] * 40
    model = FairMixture(2, max_gap=0.5, random_state=0).fit(numbers, sensitive_features=sex)
    model.save("numbers.fairmix")
    FairMixture(1).fit(rng.normal(size=(9, 2))).save("array.fairmix")
    Path("broken.fairmix").write_bytes(MODEL.read_bytes()[:-1])
    Path("text.fairmix").write_text("no model", encoding="utf-8")
    return tmp_path


COMMANDS: dict[str, tuple[list[str], int, str]] = {
    "predict by a missing model": (
        ["predict", "no.fairmix", "data.csv"],
        3,
        "no.fairmix",
    ),
    "predict by a broken model": (["predict", "broken.fairmix", "data.csv"], 3, "checksum"),
    "predict by a text": (["predict", "text.fairmix", "data.csv"], 3, "no fairmix model file"),
    "predict by a folder": (["predict", ".", "data.csv"], 3, "no regular file"),
    "predict by a model of an array": (
        ["predict", "array.fairmix", "data.csv"],
        3,
        "knows no column",
    ),
    "predict to an unknown format": (
        ["predict", "numbers.fairmix", "numbers.csv", "-o", "labels.xlsx"],
        2,
        "ends in .parquet or .csv",
    ),
    "info of a broken model": (["info", "broken.fairmix"], 3, "checksum"),
    "audit of a column that is not there": (
        ["audit", "data.csv", "-l", "cluster", "-s", "sex"],
        3,
        "no such column",
    ),
    "audit by what is also the label": (["audit", "data.csv", "-l", "sex", "-s", "sex"], 2, "sex"),
    "fit into a file": (["fit", "data.csv", "-s", "sex", "-o", "data.csv"], 2, "data.csv"),
    "fit with half a cluster": (["fit", "data.csv", "-s", "sex", "-k", "2.5"], 2, "--clusters 2.5"),
    "fit with more clusters than rows": (
        ["fit", "data.csv", "-s", "sex", "-k", "999", "--no-front"],
        3,
        "--clusters 999",
    ),
    "an unknown command": (["cluster"], 2, "No such command"),
    "an unknown option": (["fit", "data.csv", "--colour"], 2, "No such option"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_that_cannot_be_done(name, folder, record_property):
    record_property("verdict", "refused")
    words, code, message = COMMANDS[name]
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    found = run(*words)
    assert found.exit_code == code, found.output
    assert isinstance(found.exception, SystemExit)
    assert message in " ".join(found.stderr.split())
    assert "Traceback" not in found.output
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_predict_with_a_model_of_an_all_numeric_frame(folder):
    found = run("predict", "numbers.fairmix", "numbers.csv", "-o", "labels.csv", "--json")
    assert found.exit_code == 0, found.output
    labels = pd.read_csv("labels.csv")["cluster"].to_numpy()
    np.testing.assert_array_equal(
        labels, load("numbers.fairmix").predict(pd.read_csv("numbers.csv"))
    )
    assert json.loads(found.stdout)["labelled"] == 80
    lacking = run("predict", "numbers.fairmix", "data.csv", "-o", "other.csv")
    assert lacking.exit_code == 3
    assert "lacks columns of the model: pay" in lacking.stderr


MODELS: dict[str, Row] = {
    "empty": Bad(lambda: b"", "no fairmix model file", ModelFileError),
    "a picture": Bad(lambda: b"\x89PNG\r\n" * 99, "no fairmix model file", ModelFileError),
    "cut": Bad(lambda: MODEL.read_bytes()[:500], "checksum", ModelFileError),
    "doubled": Bad(lambda: MODEL.read_bytes() * 2, "checksum", ModelFileError),
    "one bit": Bad(lambda: MODEL.read_bytes()[:99] + b"\1" + MODEL.read_bytes()[100:], "checksum"),
    "text for bytes": Bad(lambda: MODEL.read_bytes().replace(b"\n", b"\r\n"), "checksum"),
    "as it was": Odd(MODEL.read_bytes),
}


@matrix(MODELS)
def test_model_files(row, tmp_path):
    path = tmp_path / "model.fairmix"
    path.write_bytes(row.make())
    if isinstance(row, Bad):
        refuse(lambda: load(path), row)
    else:
        assert load(path).n_components == 2
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("given", [None, 3, b"a\0b", "a\0b"], ids=repr)
def test_paths_that_are_none(given):
    with pytest.raises((TypeError, ValueError)):
        load(given)
