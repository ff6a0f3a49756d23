"""Census-like data: its rows, moments and rules; the file; and the reader of the real data."""

import gzip
import os
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.cluster import KMeans

from fairmix.datasets import (
    CensusData,
    _census,
    _census_like,
    fetch_census,
    make_census_like,
    paper_preprocessing,
    write_census_like,
)
from fairmix.metrics import gap
from generators import census_statistics

BLOCK = _census_like.BLOCK_ROWS
N_ROWS = 4 * BLOCK
FEATURES = _census.FEATURES
# Mean and standard deviation of the sample of 3,000 persons.
MOMENTS = {
    "AGE": (35.27, 22.79),
    "ANCSTRY1": (344.2, 402.6),
    "ANCSTRY2": (733.9, 422.6),
    "AVAIL": (0.123, 0.677),
    "CITIZEN": (0.275, 0.949),
    "CLASS": (1.183, 1.722),
    "DEPART": (362.8, 472.1),
    "ENGLISH": (0.213, 0.647),
    "FERTIL": (1.163, 1.831),
    "HOURS": (17.97, 21.75),
    "IMMIGR": (0.407, 1.575),
    "INCOME1": (10255, 18953),
    "INDUSTRY": (328.9, 351.4),
    "MEANS": (0.852, 2.023),
    "MIGPUMA": (2485, 12471),
    "PWGT1": (98.7, 47.4),
    "RACE": (6.01, 31.5),
    "RAGECHLD": (1.820, 1.881),
    "REARNING": (11219, 20374),
    "RIDERS": (0.494, 0.748),
    "SCHOOL": (1.248, 0.604),
    "TRAVTIME": (9.66, 15.77),
    "WEEK89": (22.67, 24.12),
    "YEARSCH": (8.345, 4.072),
    "YRSSERV": (0.539, 2.207),
}
# Correlations of the sample, one per kind: income, work, journey, schooling, origin, family.
CORRELATIONS = {
    ("INCOME1", "REARNING"): 0.947,
    ("CLASS", "INDUSTRY"): 0.537,
    ("HOURS", "WEEK89"): 0.830,
    ("DEPART", "TRAVTIME"): 0.557,
    ("AGE", "YEARSCH"): 0.455,
    ("CITIZEN", "IMMIGR"): 0.797,
    ("AGE", "FERTIL"): 0.412,
    ("FERTIL", "RAGECHLD"): 0.509,
    ("HOURS", "YEARSCH"): 0.512,
}


@pytest.fixture(scope="module")
def census():
    return make_census_like(N_ROWS)


def column(data, name):
    return data.X[:, FEATURES.index(name)].astype(np.float64)


@pytest.fixture
def sample():
    """The rows from which the statistics are, and their sex."""
    if not os.environ.get("FAIRMIX_DATA"):
        pytest.skip("set FAIRMIX_DATA to a folder with census_sample.parquet")
    table = pq.read_table(Path(os.environ["FAIRMIX_DATA"], "census_sample.parquet"))
    X = np.column_stack([table[name].to_numpy().astype(np.float64) for name in FEATURES])
    return X, table["SEX"].to_numpy()


def test_result(census):
    assert isinstance(census, CensusData)
    assert census.X.shape == (N_ROWS, 25)
    assert census.X.dtype == np.float32
    assert census.X.flags.c_contiguous
    assert census.feature_names == FEATURES == tuple(MOMENTS)
    assert census.sex is census.sensitive["sex"]
    assert set(census.sex.tolist()) == {"female", "male"}
    assert "synthetic" in census.name
    assert "SYNTHETIC" in census.description
    assert "10.24432/C5VP42" in census.description


@pytest.mark.parametrize("n_rows", [1, 1000, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + 17])
def test_a_row_does_not_depend_on_the_number_of_rows(census, n_rows):
    short = make_census_like(n_rows)
    np.testing.assert_array_equal(short.X, census.X[:n_rows])
    np.testing.assert_array_equal(short.sex, census.sex[:n_rows])


def test_blocks_are_drawn_by_themselves_and_differ(census):
    X, sex = _census_like._sampler().block(0, 3)
    np.testing.assert_array_equal(X, census.X[3 * BLOCK : 4 * BLOCK])
    np.testing.assert_array_equal(sex == 1, census.sex[3 * BLOCK : 4 * BLOCK] == "female")

    assert not np.array_equal(census.X[:100], census.X[BLOCK : BLOCK + 100])
    assert not np.array_equal(census.X[:100], make_census_like(100, seed=1).X)


def test_moments(census):
    for name, (mean, deviation) in MOMENTS.items():
        values = column(census, name)
        assert values.mean() == pytest.approx(mean, abs=0.03 * deviation), name
        assert values.std() == pytest.approx(deviation, rel=0.06), name


def test_correlations(census):
    for (a, b), expected in CORRELATIONS.items():
        found = np.corrcoef(column(census, a), column(census, b))[0, 1]
        assert found == pytest.approx(expected, abs=0.05), (a, b)


def test_shares_of_the_sexes(census):
    assert (census.sex == "male").mean() == pytest.approx(0.4847, abs=0.004)
    women = census.sex == "female"
    work = column(census, "HOURS") > 0
    assert work[women].mean() == pytest.approx(0.386, abs=0.005)
    assert work[~women].mean() == pytest.approx(0.523, abs=0.005)


def test_values_are_whole_and_in_range(census):
    np.testing.assert_array_equal(census.X, np.round(census.X))
    ranges = {"AGE": (0, 90), "HOURS": (0, 99), "WEEK89": (0, 52), "YEARSCH": (0, 17)}
    ranges |= {"CLASS": (0, 9), "TRAVTIME": (0, 99), "ANCSTRY1": (1, 999), "IMMIGR": (0, 10)}
    ranges |= {"REARNING": (-9_999, 264_842), "INCOME1": (0, 197_869), "DEPART": (0, 2_359)}
    for name, (low, high) in ranges.items():
        assert low <= column(census, name).min(), name
        assert column(census, name).max() <= high, name
    assert not (column(census, "MIGPUMA") % 100).any()


def test_rules_of_the_questionnaire(census):
    men = census.sex == "male"
    assert not (column(census, "FERTIL") + column(census, "RAGECHLD"))[men].any()
    assert (column(census, "RAGECHLD")[~men] > 0).all()
    assert column(census, "FERTIL")[~men].mean() == pytest.approx(2.257, abs=0.03)
    same = [("CITIZEN", "IMMIGR"), ("CLASS", "INDUSTRY"), ("HOURS", "MEANS"), ("SCHOOL", "YEARSCH")]
    for a, b in [*same, ("DEPART", "TRAVTIME")]:
        np.testing.assert_array_equal(column(census, a) > 0, column(census, b) > 0, err_msg=a)
    for leader, follower in [("CLASS", "HOURS"), ("CLASS", "WEEK89"), ("WEEK89", "INCOME1")]:
        assert not column(census, follower)[column(census, leader) == 0].any()
    np.testing.assert_array_equal(column(census, "RIDERS") > 0, column(census, "MEANS") == 1)
    assert not column(census, "CLASS")[column(census, "AGE") < 16].any()


def test_clusters_are_unfair_and_not_round(census):
    """K-means finds clusters, and they differ in sex, as in the sample (cost 0.371, gap 0.19)."""
    X = paper_preprocessing(census.X[:6000])
    model = KMeans(20, n_init=3, random_state=0).fit(X)
    cost = model.inertia_ / ((X - X.mean(axis=0)) ** 2).sum()
    assert cost == pytest.approx(0.371, abs=0.03)
    assert 0.1 < gap(model.labels_, census.sex[:6000]) < 0.3


def test_statistics_are_of_many_rows():
    """No component, and so no number of the file, is about a few persons."""
    path = Path(_census_like.__file__).parent / "data" / "census_statistics.npz"
    assert path.stat().st_size < 80_000
    with np.load(path) as file:
        assert file["share"].min() >= 30 / 3000
        assert file["share"].sum() == pytest.approx(1.0, abs=1e-12)
        assert file["share"] @ file["sex"] == pytest.approx(1546 / 3000, abs=1e-12)
        assert np.linalg.eigvalsh(file["correlation"].astype(np.float64)).min() > 0.005
        assert len(file["level_low"]) == file["upper"].shape[1] < 800


def test_moments_of_the_sample(census, sample):
    X, sex = sample
    np.testing.assert_allclose(list(MOMENTS.values()), np.c_[X.mean(0), X.std(0)], rtol=0.005)
    for (a, b), expected in CORRELATIONS.items():
        pair = X[:, [FEATURES.index(a), FEATURES.index(b)]]
        assert np.corrcoef(pair.T)[0, 1] == pytest.approx(expected, abs=0.001), (a, b)
    found, real = np.corrcoef(census.X.T.astype(np.float64)), np.corrcoef(X.T)
    assert abs(found - real).max() < 0.06
    for code, name in enumerate(("male", "female")):
        shift = census.X[census.sex == name].mean(0, dtype=np.float64) - X[sex == code].mean(0)
        assert (abs(shift) / X.std(0)).max() < 0.05
    assert (census.X.min(axis=0) >= X.min(axis=0)).all()
    assert (census.X.max(axis=0) <= X.max(axis=0)).all()


def test_sample_rows_are_not_remembered(census, sample):
    """A person of the sample comes again no more often than a row drawn with another seed."""
    drawn = [tuple(row) for row in np.c_[census.X, census.sex == "female"][:100_000].tolist()]
    other = make_census_like(3000, seed=1)
    again = []
    for X, sex in [sample, (other.X, other.sex == "female")]:
        rows = {tuple(row) for row in np.c_[X, sex].tolist()}
        again.append(sum(row in rows for row in drawn))
    assert again[0] < 1.5 * again[1]


def test_levels_of_the_script():
    many = np.repeat(np.arange(30.0), 2)  # 30 rare values of 2 rows each
    values = np.concatenate([np.zeros(20), 100 + many, np.full(10, 110.0), [990.0]])
    # 990 is a run of its own, too rare for a level; 108 and 109 join the interval before them.
    expected = [[0, 0], [100, 104], [105, 109], [110, 110], [111, 115], [116, 120], [121, 129]]
    assert census_statistics.levels(values).tolist() == expected


def test_statistics_need_the_sample(monkeypatch):
    monkeypatch.delenv("FAIRMIX_DATA", raising=False)
    monkeypatch.setattr("sys.argv", ["census_statistics"])
    with pytest.raises(SystemExit, match=r"Set FAIRMIX_DATA to the folder with census_sample"):
        census_statistics.main()


def test_file_has_the_rows(census, tmp_path, capsys):
    path = tmp_path / "census.parquet"
    path.write_text("to be replaced")
    n_rows = 3 * BLOCK + 1000
    write_census_like(str(path), n_rows, row_group_rows=2 * BLOCK, verbose=True)
    assert capsys.readouterr().out == ""  # progress goes to stderr
    assert [file.name for file in tmp_path.iterdir()] == ["census.parquet"]
    with pq.ParquetFile(path) as file:
        sizes = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
        table = file.read()
    assert sizes == [2 * BLOCK, BLOCK + 1000]
    assert table.column_names == [*FEATURES, "SEX"]
    assert {table.schema.field(name).type for name in FEATURES} == {pa.float32()}
    assert pa.types.is_dictionary(table.schema.field("SEX").type)
    assert b"SYNTHETIC" in table.schema.metadata[b"description"]
    for j, name in enumerate(FEATURES):
        np.testing.assert_array_equal(table[name].to_numpy(), census.X[:n_rows, j])
    np.testing.assert_array_equal(table["SEX"].to_numpy(), census.sex[:n_rows])


def test_memory_does_not_grow_with_the_rows(tmp_path):
    peaks = []
    for n_blocks in (2, 5):
        arrow = pa.total_allocated_bytes()
        tracemalloc.start()
        write_census_like(tmp_path / "a.parquet", n_blocks * BLOCK, row_group_rows=BLOCK)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert pa.total_allocated_bytes() <= arrow + 1_000_000
    assert peaks[1] < 1.1 * peaks[0]


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "census.parquet"
    path.write_text("old")

    def fail(rows, sexes):
        raise OSError("disk full")

    monkeypatch.setattr(_census_like, "_batch", fail)
    with pytest.raises(OSError, match="disk full"):
        write_census_like(path, 10)
    assert [file.name for file in tmp_path.iterdir()] == ["census.parquet"]
    assert path.read_text() == "old"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_rows": 0}, r"n_rows=0 is too small. Pass at least 1"),
        ({"seed": -1}, r"seed=-1 is negative. Pass a whole number of at least 0"),
    ],
)
def test_refused_arguments(arguments, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        make_census_like(**arguments)
    with pytest.raises(ValueError, match=message):
        write_census_like(tmp_path / "a.parquet", **arguments)


def test_refused_row_groups(tmp_path):
    with pytest.raises(ValueError, match=r"row_group_rows=1000 is not a multiple of 65536"):
        write_census_like(tmp_path / "a.parquet", 10, row_group_rows=1000)
    assert list(tmp_path.iterdir()) == []


def raw_lines(n_rows=100, *, end="\n"):
    """The layout of UCI's file: cell (i, j) is 1000 i + j, but for a letter and the sex."""
    lines = []
    for i in range(n_rows):
        cells = [str(1000 * i + j) for j in range(125)]
        cells[97] = "P"  # RECTYPE
        cells[96] = str(-i)  # REARNING may be negative
        cells[112] = str(int(i % 100 >= 48))
        lines.append("\t".join(cells))
    return (end.join(lines) + end).encode()


@pytest.fixture
def folder(monkeypatch, tmp_path):
    """An empty folder as source; the known file has 100 rows of which 48 are men."""
    monkeypatch.setenv("FAIRMIX_DATA", str(tmp_path))
    monkeypatch.setattr(_census, "N_ROWS", 100)
    monkeypatch.setattr(_census, "MALE_SHARE", 0.48)
    return tmp_path


def check_raw(census):
    positions = [12, 35, 36, 47, 53, 54, 55, 58, 60, 63, 64, 65, 73, 80, 81, 93, 94, 95, 96]
    positions += [101, 109, 116, 118, 122, 124]
    expected = 1000.0 * np.arange(100)[:, None] + positions
    expected[:, 18] = -np.arange(100)
    np.testing.assert_array_equal(census.X, expected)
    assert census.X.dtype == np.float32
    assert census.sex.tolist() == ["male"] * 48 + ["female"] * 52
    assert census.feature_names == FEATURES
    assert repr(census) == "CensusData('census', 100 rows, 25 columns, sensitive: sex)"


def zipped(path, name, content):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"__MACOSX/{name}", b"x")
        archive.writestr(name, content)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\t\n"])
def test_raw_file(folder, end):
    (folder / "USCensus1990raw.data.txt").write_bytes(raw_lines(end=end))
    check_raw(fetch_census())


def test_packed_raw_file(folder):
    name = "USCensus1990raw.data.txt"
    zipped(folder / f"{name}.zip", name, raw_lines())
    check_raw(fetch_census())
    (folder / f"{name}.gz").write_bytes(gzip.compress(raw_lines()))
    (folder / f"{name}.zip").unlink()
    check_raw(fetch_census())


def test_parquet_in_the_folder(folder):
    rows = np.loadtxt(raw_lines().decode().replace("P", "0").splitlines(), delimiter="\t")
    table = {name: rows[:, j].astype(np.int32) for name, j in _census.COLUMNS.items()}
    table["SEX"] = rows[:, 112].astype(np.uint8)
    pq.write_table(pa.table(table), folder / "census.parquet")
    check_raw(fetch_census())
    write_census_like(folder / "census.parquet", 100)
    with pytest.raises(ValueError, match=r"SEX contains \['female', 'male'\], not 0 and 1"):
        fetch_census()  # synthetic rows do not pass for real ones


def test_download(folder, monkeypatch, tmp_path):
    import pooch

    archive = tmp_path / "archive.zip"
    zipped(archive, "USCensus1990raw.data.txt", raw_lines())
    asked = []
    monkeypatch.setattr(pooch, "retrieve", lambda url, **_: asked.append(url) or str(archive))
    check_raw(fetch_census())
    monkeypatch.delenv("FAIRMIX_DATA")
    check_raw(fetch_census())
    assert set(asked) == {"https://archive.ics.uci.edu/static/public/116/us+census+data+1990.zip"}
    zipped(archive, "USCensus1990.data.txt", b"")
    with pytest.raises(FileNotFoundError, match=r"No 'USCensus1990raw.data.txt' in the archive"):
        fetch_census()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"caseid,dAge\r\n1,2\r\n", r"first line has 1 tab-separated columns, not 125"),
        (raw_lines(99), r"it has 99 rows, not 100. Delete the downloaded file, or put"),
        (raw_lines(101), r"it has more than 100 rows, not 100"),
        (raw_lines().replace(b"\t12\t", b"\tx\t"), r"conversion error to int32"),
        (raw_lines().replace(b"\t12\t", b"\t\t"), r"conversion error to int32"),
        (raw_lines().replace(b"\t14\t", b"\t"), r"first line has 124 tab-separated columns"),
        (raw_lines().replace(b"\t1014\t", b"\t"), r"Expected 125 columns, got 124"),
        (raw_lines().replace(b"111\t1\t", b"111\t2\t"), r"SEX contains \[0, 2\], not 0 and 1"),
        (raw_lines().replace(b"111\t1\t", b"111\t0\t"), r"share of men is 1.0000, not 0.4800"),
    ],
)
def test_another_file_is_refused(folder, content, message):
    (folder / "USCensus1990raw.data.txt").write_bytes(content)
    with pytest.raises(ValueError, match=r"not the known Census file: .*" + message):
        fetch_census()


def test_known_counts():
    assert make_census_like.__defaults__ == (2_458_285, 0)
    assert (_census.N_ROWS, _census.MALE_SHARE, len(FEATURES)) == (2_458_285, 0.4847, 25)
