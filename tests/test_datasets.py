"""Data sets: every count of their description, both sources, toy data, preprocessing."""

import copy
import hashlib
import io
import os
import pickle
import sys
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.preprocessing import StandardScaler, normalize

from fairmix import datasets
from fairmix.datasets import _bank as bank_module
from fairmix.datasets import _credit as credit_module
from fairmix.datasets import _source as source
from fairmix.datasets import (
    fetch_bank,
    fetch_credit,
    load_adult,
    make_grouped_blobs,
    paper_preprocessing,
)
from fairmix.metrics import gap
from generators import adult as adult_file

BUNDLED = Path(datasets.__file__).parent / "data"


@pytest.fixture
def folder():
    """The folder with Bank and Credit."""
    if not os.environ.get("FAIRMIX_DATA"):
        pytest.skip("Bank and Credit are not bundled: set FAIRMIX_DATA to a folder with them")
    return Path(os.environ["FAIRMIX_DATA"])


def shares(labels):
    names, counts = np.unique(labels, return_counts=True)
    return dict(zip(names.tolist(), counts.tolist(), strict=True))


def check_codes(data, cardinalities):
    """Codes stand for the values of the table; every level occurs."""
    assert data.categories.dtype == np.int64
    assert [len(levels) for levels in data.category_levels] == cardinalities
    for j, name in enumerate(data.category_names):
        levels = np.array(data.category_levels[j])
        values = [str(value) for value in data.table[name].to_pylist()]
        assert levels[data.categories[:, j]].tolist() == values
        assert len(np.unique(data.categories[:, j])) == len(levels)


def check_mixed(data):
    mixed = data.mixed()
    assert mixed.column_names == [*data.feature_names, *data.category_names]
    for j, name in enumerate(data.feature_names):
        assert mixed[name].type == pa.float64()
        np.testing.assert_array_equal(mixed[name].to_numpy(), data.X[:, j])
    frame = mixed.to_pandas()
    for j, name in enumerate(data.category_names):
        assert isinstance(frame[name].dtype, pd.CategoricalDtype)
        np.testing.assert_array_equal(frame[name].cat.codes, data.categories[:, j])


def test_adult_counts():
    adult = load_adult()
    assert adult.X.shape == (32_561, 5)
    assert adult.X.dtype == np.float64
    names = "age fnlwgt education-num capital-gain hours-per-week"
    assert " ".join(adult.feature_names) == names
    assert adult.X[0].tolist() == [39.0, 77516.0, 13.0, 2174.0, 40.0]
    assert shares(adult.sex) == {"Female": 10_771, "Male": 21_790}
    assert shares(adult.income) == {"<=50K": 24_720, ">50K": 7_841}
    assert adult.table.shape == (32_561, 15)
    check_codes(adult, [9, 16, 7, 15, 6, 5, 42])
    check_mixed(adult)


def test_adult_columns_add_up():
    """Sums of the raw file, so that a wrong conversion shows."""
    table = load_adult().table
    assert table["age"].to_numpy().astype(int).sum() == 1_256_257
    assert table["capital-loss"].to_numpy().astype(int).sum() == 2_842_700
    assert sum(value == "?" for value in table["workclass"].to_pylist()) == 1_836


def test_adult_names_its_licence():
    assert "CC BY 4.0" in load_adult().description
    notice = (BUNDLED / "ADULT_LICENSE.txt").read_text()
    for text in ["CC BY 4.0", "10.24432/C5XW20", "Becker, B. and Kohavi, R. (1996)"]:
        assert text in notice
    assert (BUNDLED / "adult.parquet").stat().st_size < 300_000


def test_adult_equals_the_shared_copy(folder):
    shared = pq.read_table(folder / "adult.parquet")
    assert load_adult().table.to_pydict() == shared.to_pydict()


def test_labels_are_attributes():
    adult = load_adult()
    assert adult.sex is adult.sensitive["sex"]
    assert {"sex", "income", "X"} <= set(dir(adult))
    with pytest.raises(AttributeError, match=r"no attribute 'race'; its labels are \['sex', 'inc"):
        _ = adult.race
    again = pickle.loads(pickle.dumps(adult))
    np.testing.assert_array_equal(again.sex, adult.sex)
    assert copy.copy(adult).name == "adult"
    assert repr(adult).startswith("Dataset('adult', 32561 rows")


def test_bank_counts(folder):
    bank = fetch_bank()
    assert bank.X.shape == (41_108, 6)
    names = "age duration euribor3m nr.employed cons.price.idx campaign"
    assert " ".join(bank.feature_names) == names
    assert shares(bank.marital) == {"divorced": 4_612, "married": 24_928, "single": 11_568}
    assert shares(bank.married) == {"married": 24_928, "unmarried": 16_180}
    assert bank.table.shape == (41_108, 21)
    check_codes(bank, [12, 8, 3, 3, 3, 2, 10, 5, 3, 2])
    check_mixed(bank)


def test_credit_counts(folder):
    credit = fetch_credit()
    assert credit.X.shape == (30_000, 4)
    assert credit.feature_names == ("LIMIT_BAL", "AGE", "BILL_AMT1", "PAY_AMT1")
    level = credit.table["EDUCATION"].to_numpy()
    expected = {0: 14, 1: 10_585, 2: 14_030, 3: 4_917, 4: 123, 5: 280, 6: 51}
    assert shares(level) == expected
    assert shares(credit.education) == {
        "graduate school": 10_585,
        "other": 5_385,
        "university": 14_030,
    }
    assert set(level[credit.education == "university"]) == {2}
    assert set(level[credit.education == "graduate school"]) == {1}
    assert shares(credit.education2) == {"other": 15_970, "university": 14_030}
    assert credit.table.shape == (30_000, 25)
    assert credit.category_levels[1] == ("0", "1", "2", "3")
    assert credit.category_levels[2] == tuple(str(i) for i in range(-2, 9))
    check_codes(credit, [2, 4, 11, 11, 11, 11, 10, 10])
    check_mixed(credit)


def raw_bank(folder):
    """The bytes of UCI's CSV, made again from the Parquet; their checksum is UCI's."""

    def cells(column):
        for value in column.to_pylist():
            text = f'"{value}"' if isinstance(value, str) else str(value)
            yield text.removesuffix(".0")

    table = pq.read_table(folder / "bank.parquet")
    rows = zip(*(cells(table[name]) for name in table.column_names), strict=True)
    lines = [";".join(f'"{name}"' for name in table.column_names), *(";".join(r) for r in rows)]
    return ("\r\n".join(lines) + "\r\n").encode()


def zipped(files):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


@pytest.fixture
def served(monkeypatch, tmp_path):
    """Call it to let pooch return a file of ours and to forget FAIRMIX_DATA."""
    import pooch

    def serve(content):
        monkeypatch.delenv("FAIRMIX_DATA", raising=False)
        path = tmp_path / "archive.zip"
        path.write_bytes(content)
        monkeypatch.setattr(pooch, "retrieve", lambda url, **_: str(path))

    return serve


def test_bank_from_the_archive_equals_bank_from_the_folder(folder, served):
    expected = fetch_bank()
    raw = raw_bank(folder)
    assert hashlib.sha256(raw).hexdigest() == bank_module.CSV_SHA256
    inner = zipped({"bank-additional/bank-additional-full.csv": raw})
    outer = {"bank.zip": zipped({"bank-full.csv": b""}), "bank-additional.zip": inner}
    served(zipped({"__MACOSX/bank-additional-full.csv": b"x", **outer}))
    found = fetch_bank()
    np.testing.assert_array_equal(found.X, expected.X)
    np.testing.assert_array_equal(found.categories, expected.categories)
    np.testing.assert_array_equal(found.marital, expected.marital)
    assert found.category_levels == expected.category_levels


class Sheet:
    """The part of xlrd's sheet that the reader uses, with the layout of UCI's file."""

    def __init__(self, table):
        columns = [table[name].to_pylist() for name in table.column_names]
        self.columns = [
            [f"X{j}", name, *map(float, column)]
            for j, (name, column) in enumerate(zip(table.column_names, columns, strict=True))
        ]
        self.ncols = len(self.columns)

    def cell_value(self, row, column):
        return self.columns[column][row]

    def col_values(self, column, start):
        return self.columns[column][start:]

    def sheet_by_index(self, index):
        assert index == 0
        return self


def test_credit_from_the_archive_equals_credit_from_the_folder(folder, served, monkeypatch):
    import xlrd

    expected = fetch_credit()
    sheet = Sheet(pq.read_table(folder / "credit.parquet"))
    monkeypatch.setattr(xlrd, "open_workbook", lambda file_contents: sheet)
    served(zipped({"default of credit card clients.xls": b"xls"}))
    found = fetch_credit()
    np.testing.assert_array_equal(found.X, expected.X)
    np.testing.assert_array_equal(found.categories, expected.categories)
    np.testing.assert_array_equal(found.education, expected.education)
    assert found.category_levels == expected.category_levels


def test_a_changed_file_is_refused(served):
    served(zipped({"bank-additional-full.csv": b"age;job\r\n"}))
    with pytest.raises(ValueError, match=r"bank-additional-full.csv has sha256 \w+, not 74adfc5"):
        fetch_bank()


def test_changed_counts_are_refused(folder, monkeypatch, tmp_path):
    table = pq.read_table(folder / "credit.parquet")
    pq.write_table(table.slice(1), tmp_path / "credit.parquet")
    monkeypatch.setenv("FAIRMIX_DATA", str(tmp_path))
    with pytest.raises(ValueError, match=r"credit data is not the known version: rows is 29999"):
        fetch_credit()


def test_an_archive_without_the_file_is_refused(served):
    served(zipped({"other.csv": b"", "inner.zip": zipped({"more.csv": b""})}))
    with pytest.raises(FileNotFoundError, match=r"No 'default of credit card clients.xls' in .*"):
        fetch_credit()


def test_no_network_names_the_folder(monkeypatch, tmp_path):
    import pooch

    def fail(url, **_):
        raise OSError("no route to host")

    monkeypatch.setenv("FAIRMIX_DATA", str(tmp_path))  # a folder without the file is no source
    monkeypatch.setattr(pooch, "retrieve", fail)
    with pytest.raises(OSError, match=r"Could not download .*\(no route to host\).*FAIRMIX_DATA"):
        fetch_bank()


@pytest.mark.parametrize(
    ("module", "call"),
    [
        ("pooch", lambda: source.download("https://example.org/a.zip", "a.zip")),
        ("xlrd", lambda: credit_module._parse(b"")),
    ],
)
def test_a_missing_extra_is_named(monkeypatch, module, call):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=module + r".*fairmix\[data\]"):
        call()


def test_conversion_refuses_another_file(tmp_path):
    other = tmp_path / "adult.data"
    other.write_text("39, State-gov\n")
    with pytest.raises(SystemExit, match=r"sha256 \w+, not UCI's 5b002646"):
        adult_file.read_raw(other)
    (tmp_path / "a.whl").write_bytes(zipped({"pkg/adult.data": b"x"}))
    with pytest.raises(SystemExit, match=r"not UCI's"):
        adult_file.read_raw(tmp_path / "a.whl")


def test_conversion_of_the_raw_layout():
    raw = (
        b"39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, "
        b"Male, 2174, 0, 40, United-States, <=50K\n\n"
    )
    table = adult_file.parse(raw)
    assert table.to_pylist() == load_adult().table.slice(0, 1).to_pylist()
    assert value_types(table) == value_types(load_adult().table)


def value_types(table):
    """Types of columns; the integers of categories differ between versions of Arrow."""
    types = [(field.name, field.type) for field in table.schema]
    return [(name, getattr(kind, "value_type", kind)) for name, kind in types]


def test_preprocessing_equals_scikit_learn():
    X = load_adult().X
    expected = normalize(StandardScaler().fit_transform(X))
    np.testing.assert_allclose(paper_preprocessing(X), expected, rtol=0, atol=1e-12)


def test_preprocessing_leaves_zeros():
    constant = np.column_stack([np.full(7, 0.1), np.arange(7.0)])
    found = paper_preprocessing(constant)
    assert found[:, 0].tolist() == [0.0] * 7
    assert found[:, 1].tolist() == [-1.0, -1.0, -1.0, 0.0, 1.0, 1.0, 1.0]


def test_preprocessing_copies_and_widens():
    X = np.array([[0, 10], [255, 20]], dtype=np.uint8)
    found = paper_preprocessing(X)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, np.sqrt(0.5) * np.array([[-1, -1], [1, 1]]))
    assert X.tolist() == [[0, 10], [255, 20]]
    floats = X.astype(float)
    paper_preprocessing(floats)
    np.testing.assert_array_equal(floats, X)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([1.0, 2.0], r"X has shape \(2,\)"),
        ([[1.0], [np.inf], [np.nan]], r"X contains NaN or infinity in 2 rows"),
    ],
)
def test_preprocessing_refuses(X, message):
    with pytest.raises(ValueError, match=message):
        paper_preprocessing(X)


def test_blobs_have_the_stated_shares():
    X, groups, components = make_grouped_blobs(
        60_000, 3, 4, n_groups=3, imbalance=0.4, random_state=0
    )
    assert X.shape == (60_000, 4)
    for k in range(3):
        share = np.bincount(groups[components == k], minlength=3) / (components == k).sum()
        np.testing.assert_allclose(share, np.where(np.arange(3) == k, 0.6, 0.2), atol=0.015)
        assert X[components == k].std(axis=0) == pytest.approx(np.ones(4), abs=0.02)


@pytest.mark.parametrize("n_components", [2, 5, 9])
def test_blobs_are_separated(n_components):
    X, _, components = make_grouped_blobs(
        90_000, n_components, 3, separation=7.0, random_state=n_components
    )
    centres = np.array([X[components == k].mean(axis=0) for k in range(n_components)])
    distances = np.linalg.norm(centres[:, None] - centres, axis=2)
    assert distances[~np.eye(n_components, dtype=bool)].min() == pytest.approx(7.0, abs=0.1)


def test_imbalance_is_the_gap_of_the_components():
    for imbalance in (0.0, 0.5, 1.0):
        _, groups, components = make_grouped_blobs(40_000, 2, imbalance=imbalance, random_state=1)
        assert gap(components, groups) == pytest.approx(imbalance, abs=0.02)


def test_blobs_repeat_with_the_seed():
    first = make_grouped_blobs(random_state=3)
    for a, b in zip(first, make_grouped_blobs(random_state=3), strict=True):
        np.testing.assert_array_equal(a, b)
    assert not np.array_equal(first[0], make_grouped_blobs(random_state=4)[0])
    assert make_grouped_blobs(10, 1, 1, n_groups=1)[0].shape == (10, 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_rows": 0}, r"n_rows=0 is too small"),
        ({"n_groups": 0}, r"n_groups=0 is too small"),
        ({"imbalance": 1.5}, r"imbalance=1.5 is not a share"),
        ({"separation": -1.0}, r"separation=-1.0 is not a distance"),
    ],
)
def test_blobs_refuse(arguments, message):
    with pytest.raises(ValueError, match=message):
        make_grouped_blobs(**arguments)


def test_public_names_are_sorted():
    assert datasets.__all__ == sorted(datasets.__all__)
    assert all(hasattr(datasets, name) for name in datasets.__all__)
