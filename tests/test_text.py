"""Text files as people write them: numbers of all countries, encodings, cells without a value."""

import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from fairmix import FairMixture, FileSource
from fairmix.cli import app
from fairmix.tables import Dialect, FileBlocks

NUMBERS = {
    "decimal commas": ("1,5|2|-0,25", [1.5, 2.0, -0.25]),
    "both marks": ("1.234,5|2|1.234.567,25", [1234.5, 2.0, 1234567.25]),
    "grouped by commas": ("1,234.5|2|7,000", [1234.5, 2.0, 7000.0]),
    "grouped by blanks": ("1 234,5|2|1\u202f234\u00a0567", [1234.5, 2.0, 1234567.0]),
    "grouped by apostrophes": ("1’234.5|2|1'000", [1234.5, 2.0, 1000.0]),
    "euros": ("1.234,50 €|2 €|-7,5€", [1234.5, 2.0, -7.5]),
    "dollars": ("$1,234.50|$2|-$7.5", [1234.5, 2.0, -7.5]),
    "codes": ("CHF 5|CHF 6.5|CHF 7", [5.0, 6.5, 7.0]),
    "per cent": ("12 %|3.5%|0%", [12.0, 3.5, 0.0]),
    "a long minus": ("−5,5|2|3", [-5.5, 2.0, 3.0]),
    "a dash for none": ("5|-|3", [5.0, None, 3.0]),
    "words for none": ("5|unknown|n.a.", [5.0, None, None]),
    "a question mark": ("5|?|3", [5.0, None, 3.0]),
    "exponents": ("1e5|2|3", [1e5, 2.0, 3.0]),
}
WORDS = {
    "two currencies": "5 €|6 $|7 €",
    "some per cent": "5%|6|7",
    "dates": "12.05.2020|13.05.2020|14.05.2020",
    "ranges": "1-5|6-9|10-20",
    "dashes only": "-|-|-",
    "lists": "1,2,3|4,5,6|7,8,9",
    "telephones": "0170 1234|0171 5678|030 55",
}


def read(path, **options):
    """The column ``x`` of a file, without notes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return FileBlocks(path, dialect=Dialect(**options)).read(0, 99)["x"]


def write(path, cells, delimiter="\t", encoding="utf-8"):
    rows = [f"{cell}{delimiter}a" for cell in cells.split("|")]
    path.write_text("\n".join([f"x{delimiter}g", *rows, ""]), encoding=encoding)
    return path


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_of_all_countries(name, tmp_path):
    cells, expected = NUMBERS[name]
    column = read(write(tmp_path / "x.csv", cells))
    assert column.type == pa.float64()
    assert column.to_pylist() == expected


@pytest.mark.parametrize("name", WORDS)
def test_what_is_no_number_stays_text(name, tmp_path):
    column = read(write(tmp_path / "x.csv", WORDS[name]))
    assert column.to_pylist() == WORDS[name].split("|")


@pytest.mark.parametrize(
    ("cells", "delimiter", "decimal", "expected"),
    [
        ("1,234|2,500", "\t", None, 1234.0),
        ("1,234|2,500", ";", None, 1.234),
        ("1,234|2,500", "\t", ",", 1.234),
        ("1,234|2,500", ";", ".", 1234.0),
        ("1.234|2.500", ";", None, 1.234),
        ("1.234|2.500", ";", ",", 1234.0),
        ("1.234|2.5", ";", ",", 1.234),  # 2.5 leaves no doubt
    ],
)
def test_a_mark_of_two_meanings(cells, delimiter, decimal, expected, tmp_path):
    path = write(tmp_path / "x.csv", cells, delimiter)
    assert read(path, decimal=decimal)[0].as_py() == expected


def test_other_columns_and_other_files_settle_it(tmp_path):
    (tmp_path / "1.csv").write_text("x;y\n1.234;5\n2.500;6\n")
    (tmp_path / "2.csv").write_text("x;y\n1.234;0,5\n")
    assert read(tmp_path / "1.csv").to_pylist() == [1.234, 2.5]
    assert read(tmp_path).to_pylist() == [1234.0, 2500.0, 1234.0]
    # Nothing is settled where columns contradict each other: each speaks for itself.
    (tmp_path / "2.csv").write_text("x;y\n0.5;0,5\n")
    assert read(tmp_path).to_pylist() == [1.234, 2.5, 0.5]


def test_traits_are_of_all_rows(tmp_path):
    cells = ["12"] * 300_000
    assert read(write(tmp_path / "x.csv", "|".join([*cells, "1,5"])))[-1].as_py() == 1.5
    assert read(write(tmp_path / "x.csv", "|".join([*cells, "1,5", "one"]))).type == pa.string()


@pytest.mark.parametrize(
    ("encoding", "said"),
    [("utf-8-sig", None), ("utf-16", None), ("cp1252", "cp1252"), ("latin-1", "latin-1")],
)
@pytest.mark.parametrize("late", [False, True])
def test_encodings_are_found(encoding, said, late, tmp_path):
    # A byte that Windows does not know is Latin-1; behind the first block it is found late.
    town = "Tromsø" if encoding != "latin-1" else "Troms\u0081ø"
    rows = ["1,Oslo\n"] * (20_000 if late else 0) + [f"1,{town}\n2,Oslo\n"]
    (tmp_path / "x.csv").write_bytes(("x,town\n" + "".join(rows)).encode(encoding))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        table = FileBlocks(tmp_path / "x.csv").read(0, 9)
    assert table["town"].to_pylist()[-2:] == [town, "Oslo"]
    notes = [str(warning.message) for warning in caught]
    assert [said in note for note in notes] == ([True] if said else [])


def test_an_encoding_that_is_given_is_not_doubted(tmp_path):
    (tmp_path / "x.csv").write_bytes("x,town\n1,Łódź\n".encode("cp1250"))
    table = FileBlocks(tmp_path / "x.csv", dialect=Dialect(encoding="cp1250")).read(0, 1)
    assert table["town"].to_pylist() == ["Łódź"]
    with pytest.raises(ValueError, match=r"x.csv' cannot be read: its text has another encoding"):
        FileBlocks(tmp_path / "x.csv", dialect=Dialect(encoding="utf-8"))


def people(n_rows=120):
    rng = np.random.default_rng(0)
    cluster = rng.integers(2, size=n_rows)
    income = 2000 + 900 * cluster + rng.normal(size=n_rows)
    share = 10 * cluster + rng.normal(size=n_rows) + 20
    town = np.array(["Oslo", "Århus"])[cluster]
    return income.tolist(), share.tolist(), town, np.array(["f", "m"])[rng.integers(2, size=n_rows)]


def test_python_and_the_command_line_read_alike(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    income, share, town, sex = people()
    plain, odd = ["income,share,town,sex"], ["income;share;town;sex"]
    for i, row in enumerate(zip(income, share, town, sex, strict=True)):
        gap = i % 10 == 0
        money = repr(row[0])
        plain.append(f"{'' if gap else money},{row[1]!r},{row[2]},{row[3]}")
        grouped = f"{money[0]}.{money[1:].replace('.', ',')} €"
        odd.append(f"{'-' if gap else grouped};{_comma(row[1])} %;{row[2]};{row[3]}")
    Path("plain.csv").write_text("\n".join(plain), encoding="utf-8")
    Path("odd.csv").write_text("\n".join(odd), encoding="cp1252")
    model = FairMixture(2, max_gap=0.5, standardize=True, random_state=0)
    expected = model.fit("plain.csv", sensitive_features="sex").lower_bound_
    with pytest.warns(UserWarning, match="read as") as notes:
        model.fit("odd.csv", sensitive_features="sex")
    assert model.lower_bound_ == expected
    assert model.feature_names_in_.tolist() == ["income", "share", "town"]
    said = [str(note.message) for note in notes]
    assert "'income' (decimal comma, €, '-' is missing); 'share' (decimal comma, %)" in said[0]
    assert "not UTF-8 and was read as cp1252" in said[1]
    words = ["-s", "sex", "-k", "2", "--max-gap", "0.5", "--no-front"]
    for name in ("plain", "odd"):
        run = CliRunner().invoke(app, ["fit", f"{name}.csv", *words, "-o", name])
        assert run.exit_code == 0, run.output
        assert "numeric      income, share" in run.stdout
    assert Path("plain/labels.parquet").read_bytes() == Path("odd/labels.parquet").read_bytes()


def _comma(number):
    return f"{number!r}".replace(".", ",")


def test_what_is_said_of_text_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("x.csv").write_text("x;town;g\n" + "1,234;Oslo;a\n-9;Rome;b\n2,5;-9;a\n" * 40)
    source = FileSource("x.csv", decimal=",", missing=["-9"], encoding="utf-8")
    # No note: all is as the user says.
    model = FairMixture(1).fit(source, sensitive_features="g")
    assert model.means_[0, 0] == pytest.approx((1.234 + 2.5) / 2)
    assert [names.tolist() for names in model.categories_] == [["Oslo", "Rome"]]
    options = ["--decimal", ",", "--missing-token", "-9", "--encoding", "utf-8"]
    run = CliRunner().invoke(app, ["fit", "x.csv", "-s", "g", "-k", "1", "--no-front", *options])
    assert run.exit_code == 0, run.output
    assert "categorical  town (2)" in run.stdout
    again = CliRunner().invoke(app, ["predict", "results/model.fairmix", "x.csv", *options])
    assert again.exit_code == 0, again.output
    wrong = CliRunner().invoke(app, ["fit", "x.csv", "-s", "g", "--encoding", "klingon"])
    assert wrong.exit_code == 2
    assert "encoding='klingon' is unknown" in " ".join(wrong.stderr.split())


def test_wrong_options_are_refused(tmp_path):
    path = write(tmp_path / "x.csv", "1|2")
    with pytest.raises(ValueError, match=r"decimal=';'. Give '.' or ','"):
        FairMixture(1).fit(FileSource(path, decimal=";"))
    with pytest.raises(ValueError, match=r"encoding='klingon' is unknown"):
        FairMixture(1).fit(FileSource(path, encoding="klingon"))
