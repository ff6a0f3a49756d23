"""Files of users: roles of their columns, and one line for what is wrong with them."""

import bz2
import gzip
import hashlib
import json
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from fairmix import FairMixture
from fairmix.cli import app
from fairmix.datasets import load_adult
from fairmix.input.guesses import guess_columns
from fairmix.input.sources import FileSource
from fairmix.tables import BLOCK_ROWS, FileBlocks
from fairmix.tables.locations import File
from repetition import long

HEAD = "age,town,sex\n"
LINE = "31.5,Oslo,f\n42,Rome,m\n38,Oslo,f\n29,Rome,m\n"
GOOD = HEAD + LINE * 30


def late(n_rows=20_000):
    """A number is a text after many good ones."""
    return HEAD + LINE * (n_rows // 4) + "forty,Rome,m\n"


def truncated(path):
    table = pa.table({"age": np.arange(100.0), "sex": ["f", "m"] * 50})
    pq.write_table(table, path)
    path.write_bytes(path.read_bytes()[:-40])


BAD = {
    "empty.csv": ("", "Empty CSV file"),
    "header.csv": (HEAD, "has no rows"),
    "ragged.csv": (GOOD + "31,Oslo\n", "Expected 3 columns, got 2"),
    "late.csv": (late(), "'age' holds numbers, but 1 others: 'forty' in row 20,001"),
    "twice.csv": (GOOD.replace("town", "age", 1), "more than one column 'age'"),
    "nobody.csv": (GOOD.replace("sex", "gender", 1), "--sensitive sex: nobody.csv has no such"),
    "void.csv": (GOOD.replace("Oslo", "").replace("Rome", ""), "none of its 120 rows has a value"),
    "cut.parquet": (truncated, "cut.parquet' cannot be read"),
    "cut.csv.gz": (gzip.compress(late().encode())[:-30], "cut.csv.gz' cannot be read"),
    "no-header.csv": (LINE * 30, "the first line is no header"),
    "numbers.csv": ("5.1,3.5,1\n4.9,3,0\n" * 9, "its first line holds numbers"),
    "no-group.csv": (GOOD + "2,Oslo,\n", "sex (1)"),
    "one-group.csv": (GOOD.replace(",m", ",f"), "--sensitive sex: it is always 'f'"),
    "ids.csv": (HEAD + "".join(f"1,a,{i}x\n" for i in range(999)), "too many for groups"),
    "alone.csv": ("sex\n" + "f\nm\n" * 30, "no column left to cluster by"),
    "sheet.xlsx": ("PK", "is a spreadsheet. Save the sheet as CSV"),
    "absent.csv": (None, "'absent.csv' matches no file"),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("command", ["fit", "pareto", "compare"])
def test_bad_files_get_one_line(name, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    content, message = BAD[name]
    path = Path(name)
    if callable(content):
        content(path)
    elif content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    run = CliRunner().invoke(app, [command, name, "--sensitive", "sex", "-k", "2"])
    assert run.exit_code == 3, run.output
    assert isinstance(run.exception, SystemExit)
    assert len(run.stderr.splitlines()) == 1
    assert run.stderr.startswith("Error: ")
    assert message in run.stderr
    assert run.stdout == ""
    assert list(tmp_path.iterdir()) == ([] if content is None else [tmp_path / name])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--sensitive", "sex", "-k", "many"], "--clusters many"),
        (["--sensitive", "sex", "--blind", "--assignment", "aware"], "exclude each other"),
        (["--sensitive", "sex", "--assignment", "aware", "--solver", "em"], "needs --solver dual"),
        (["--sensitive", "sex", "--max-gap", "-1"], "--max-gap"),
        (["--sensitive", "sex", "--subsample", "1.5"], "subsample"),
        (["--sensitive", "sex", "--hold-out", "1"], "--hold-out 1"),
        (["--sensitive", "sex", "--drop", "sex"], "'sex' is given as --sensitive and as --drop"),
        ([], "--sensitive"),
    ],
)
def test_wrong_usage_exits_with_2(given, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("good.csv").write_text(GOOD, encoding="utf-8")
    run = CliRunner().invoke(app, ["fit", "good.csv", *given])
    assert run.exit_code == 2, run.output
    assert message in " ".join(run.stderr.split())
    assert not Path("results").exists()


def test_overrides_are_the_remedy(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("late.csv").write_text(late(1000), encoding="utf-8")
    fast = ["--sensitive", "sex", "-k", "2", "--max-gap", "1", "--no-front", "--quiet"]
    for given in (["--drop", "age"], ["--categorical", "age"]):
        run = CliRunner().invoke(app, ["fit", "late.csv", *fast, *given, "--force"])
        assert run.exit_code == 0, run.output
    run = CliRunner().invoke(app, ["fit", "late.csv", *fast, "--numeric", "age", "--force"])
    assert run.exit_code == 3
    assert "cannot be read as numbers" in run.stderr


N = BLOCK_ROWS + 500
ROLES = {
    "numeric": ("numeric", np.linspace(0, 1, N)),
    "count": ("numeric", np.arange(N) % 70),
    "salary": ("numeric", np.random.default_rng(0).gamma(2, 20_000, N).round()),
    "town": ("categorical", np.array(["Oslo", "Rome"])[np.arange(N) % 2]),
    "flag": ("categorical", np.arange(N) % 2),
    "true": ("categorical", np.arange(N) % 3 == 0),
    "same": ("constant", np.ones(N)),
    "same text": ("constant", np.full(N, "x")),
    "row": ("identifier-like", np.arange(N) + 5),
    "user_id": ("identifier-like", np.random.default_rng(0).permutation(N)),
    "code": ("identifier-like", np.array([f"k{i}" for i in range(N)])),
    "day": ("date", pd.date_range("2020-01-01", periods=N, freq="h")),
    "day text": ("date", pd.date_range("2020-01-01", periods=N, freq="h").strftime("%d.%m.%Y")),
    "letter": ("text", np.array([f"dear friend number {i}" for i in range(N)])),
    "street": ("text", np.array([f"s{i % 900}" for i in range(N)])),
    "lost": ("empty", np.full(N, np.nan)),
    "odd": ("mixed", np.array([*map(str, range(N - 1)), "none of it"])),
}


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_roles_are_told_from_all_rows(kind, tmp_path):
    frame = pd.DataFrame({name: values for name, (_, values) in ROLES.items()})
    path = tmp_path / f"rows.{kind}"
    if kind == "csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_parquet(path, index=False)
    roles = guess_columns(FileBlocks(path, n_jobs=2), list(ROLES))
    assert {r.name: r.kind for r in roles} == {name: role for name, (role, _) in ROLES.items()}
    assert all(role.reason for role in roles)
    odd = roles[list(ROLES).index("odd")]
    assert odd.reason == f"numbers, but 1 others: 'none of it' in row {N:,}"


def test_missing_values_are_counted(tmp_path):
    values = {"a": [1.5, None, np.inf, 2.0], "b": ["x", None, None, "y"]}
    pq.write_table(pa.table(values), tmp_path / "rows.parquet")
    roles = guess_columns(FileBlocks(tmp_path / "rows.parquet"), ["a", "b"])
    assert [role.missing for role in roles] == [2, 2]


def test_adult_as_uci_ships_it_needs_no_option(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    adult = load_adult()
    frame = pd.DataFrame(adult.X[:, :3], columns=adult.feature_names[:3]).astype(int)
    for j, name in enumerate(adult.category_names[:3]):
        frame[name] = np.array(adult.category_levels[j])[adult.categories[:, j]]
    frame = frame.assign(sex=adult.sex)[:4000]
    lines = [", ".join(map(str, row)) for row in frame.itertuples(index=False)]
    # A blank behind each comma, "?" for unknown, and an empty line at the end.
    text = "\n".join([", ".join(frame.columns), *lines, "", ""])
    Path("adult.data").write_text(text, encoding="utf-8")
    run = CliRunner().invoke(app, ["fit", "adult.data", "-s", "sex", "-k", "3", "--no-front"])
    assert run.exit_code == 0, run.output
    assert "Bound met" in run.stdout
    assert "?" in frame["workclass"].to_numpy()
    table = FileBlocks("adult.data").read(0, 1)
    known = frame["workclass"].astype(object).where(frame["workclass"] != "?", None)
    assert table["workclass"].to_pylist() == known.tolist()
    assert table["age"].to_pylist() == frame["age"].tolist()


@pytest.mark.parametrize(
    ("name", "pack"),
    [
        ("rows.csv", lambda text: text.encode()),
        ("rows.csv", lambda text: text.replace(",", ";").encode()),
        ("rows.csv", lambda text: text.replace(",", "|").encode()),
        ("rows.txt", lambda text: text.replace(",", "\t").encode()),
        ("rows.tsv", lambda text: text.replace(",", "\t").encode()),
        ("rows.csv", lambda text: b"\xef\xbb\xbf" + text.encode()),
        ("rows.csv", lambda text: text.replace(",", " , ").encode()),
        ("rows.csv.bz2", lambda text: bz2.compress(text.encode())),
        ("rows.data.gz", lambda text: gzip.compress(text.encode())),
    ],
)
def test_text_files_of_many_kinds_are_alike(name, pack, tmp_path):
    (tmp_path / name).write_bytes(pack(GOOD))
    table = FileBlocks(tmp_path / name).read(0, 1)
    assert table.schema.names == ["age", "town", "sex"]
    assert table.slice(0, 2).to_pydict() == {
        "age": [31.5, 42.0],
        "town": ["Oslo", "Rome"],
        "sex": ["f", "m"],
    }
    assert len(table) == 120


def test_names_may_count_up(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("0,1,2\n" + "7,3,5\n" * 5, encoding="utf-8")
    assert FileBlocks(path).schema.names == ["0", "1", "2"]


def test_a_folder_leaves_notes_aside(tmp_path):
    (tmp_path / "1.csv").write_text(GOOD, encoding="utf-8")
    (tmp_path / "README.txt").write_text("about", encoding="utf-8")
    assert FileBlocks(tmp_path).n_rows == 120


def test_a_source_may_have_fewer_columns(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(GOOD, encoding="utf-8")
    source = FileSource(path, columns=("age", "sex"))
    model = FairMixture(2, max_gap=0.5, random_state=0).fit(source, sensitive_features="sex")
    assert model.feature_names_in_.tolist() == ["age"]
    labels = model.predict(source, output=tmp_path / "labels.parquet")
    assert pq.read_table(labels).num_rows == 120
    with pytest.raises(ValueError, match="X has no column 'weight'"):
        FairMixture(2).fit(FileSource(path, columns=("weight",)))


def test_fit_predict_wants_a_table(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(GOOD, encoding="utf-8")
    with pytest.raises(ValueError, match="Call fit, then predict"):
        FairMixture(2).fit_predict(path)
    X = np.random.default_rng(0).normal(size=(60, 2))
    model = FairMixture(2, random_state=0)
    np.testing.assert_array_equal(model.fit_predict(X), model.labels_)


def command_line(*words):
    found = CliRunner().invoke(app, words)
    assert found.exit_code == 0, found.output


@pytest.mark.parametrize(
    ("command", "suffix"),
    [
        *(("fit", suffix) for suffix in (".csv", ".csv.gz", ".parquet")),
        *(long(*case) for case in (("fit", ".feather"), ("predict", ".csv"), ("predict", ".pq"))),
    ],
)
def test_a_file_that_fits_in_memory_is_read_once(command, suffix, tmp_path, monkeypatch):
    """Its guesses, codes of numbers, digest and rows are all of the same bytes."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": rng.normal(40, 9, 300).round(1),
            "member": rng.integers(0, 2, 300),
            "region_code": rng.integers(1, 5, 300),
            "sex": np.where(rng.random(300) < 0.4, "f", "m"),
        }
    )
    path = Path(f"people{suffix}")
    writers = {".feather": frame.to_feather, ".parquet": frame.to_parquet, ".pq": frame.to_parquet}
    writers.get(suffix, partial(frame.to_csv, index=False))(path)
    given = ["-s", "sex", "-k", "2", "--max-gap", "0.5", "--no-front"]
    if command == "predict":
        command_line("fit", str(path), *given, "-o", "model")
    opened = []

    def counted(read):
        def reader(self, *how, **more):
            opened.append("memory" if self.content and self.content.value else self.name)
            return read(self, *how, **more)

        return reader

    monkeypatch.setattr(File, "random", counted(File.random))
    monkeypatch.setattr(File, "stream", counted(File.stream))
    if command == "fit":
        command_line("fit", str(path), *given, "-o", "out")
        found = json.loads(Path("out/metrics.json").read_text("utf-8"))["data"]
        assert found["categorical"] == ["member", "region_code"]
        assert found["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    else:
        command_line("predict", "model/model.fairmix", str(path), "-o", "labels.csv")
    assert opened.count(path.name) == 1
    assert opened.count("memory") > 1
