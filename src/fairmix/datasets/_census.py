"""Census: UCI id 116, the raw file of 125 columns, read in pieces."""

from __future__ import annotations

import gzip
import io
import os
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyarrow import csv

from fairmix.datasets._source import FOLDER, download

URL = "https://archive.ics.uci.edu/static/public/116/us+census+data+1990.zip"
RAW_NAME = "USCensus1990raw.data.txt"
PARQUET_NAME = "census.parquet"
N_ROWS = 2_458_285
N_RAW_COLUMNS = 125
MALE_SHARE = 0.4847  # of the paper; its counts are not known
BATCH_ROWS = 65_536  # read at a time: 14 MB of 26 columns
LONGEST_LINE = 65_536  # bytes; a line of the raw file has a few hundred
# Positions in the raw file, which has no header; the choice of columns is that of the paper.
COLUMNS = {
    "AGE": 12,
    "ANCSTRY1": 35,
    "ANCSTRY2": 36,
    "AVAIL": 47,
    "CITIZEN": 53,
    "CLASS": 54,
    "DEPART": 55,
    "ENGLISH": 58,
    "FERTIL": 60,
    "HOURS": 63,
    "IMMIGR": 64,
    "INCOME1": 65,
    "INDUSTRY": 73,
    "MEANS": 80,
    "MIGPUMA": 81,
    "PWGT1": 93,
    "RACE": 94,
    "RAGECHLD": 95,
    "REARNING": 96,
    "RIDERS": 101,
    "SCHOOL": 109,
    "TRAVTIME": 116,
    "WEEK89": 118,
    "YEARSCH": 122,
    "YRSSERV": 124,
}
SEX = 112
FEATURES = tuple(COLUMNS)
DESCRIPTION = """\
US Census Data (1990), the file USCensus1990raw.data.txt of UCI id 116: a one-percent sample of
2,458,285 persons, in the raw coding, with the 25 columns that the paper uses.
Groups: sex (male 0.4847, female 0.5153; largest balance 0.9406).
Licence CC BY 4.0, https://creativecommons.org/licenses/by/4.0/. DOI 10.24432/C5VP42.
Meek, C., Thiesson, B. and Heckerman, D. (2001). US Census Data (1990). UCI Machine Learning
Repository."""


@dataclass(frozen=True, eq=False, repr=False)
class CensusData:
    """Census or census-like rows: like `Dataset`, but float32 and without a table of the source.

    Attributes
    ----------
    name : str
        Short name; it says so if the rows are synthetic.
    X : ndarray of shape (n_rows, 25), float32
        The raw values; float32 holds each of them exactly.
    feature_names : tuple of str
        Names of the columns of X.
    sensitive : mapping of str to ndarray of str
        ``sex``: male or female.
    description : str
        Source, licence, citation and groups.

    Examples
    --------
    >>> from fairmix.datasets import make_census_like
    >>> census = make_census_like(3)
    >>> census.X.shape, census.X.dtype
    ((3, 25), dtype('float32'))
    """

    name: str
    X: NDArray[np.float32]
    feature_names: tuple[str, ...]
    sensitive: Mapping[str, NDArray[Any]]
    description: str

    @property
    def sex(self) -> NDArray[Any]:
        """Entry ``sex`` of ``sensitive``."""
        return self.sensitive["sex"]

    def __repr__(self) -> str:
        return (
            f"CensusData({self.name!r}, {len(self.X)} rows, {len(self.feature_names)} columns, "
            f"sensitive: {', '.join(self.sensitive)})"
        )


def fetch_census() -> CensusData:
    """Read the Census data: 25 columns of the raw file, and sex.

    From the folder named by the environment variable ``FAIRMIX_DATA`` comes the first that is there
    of ``census.parquet`` (26 columns, SEX 0 for male), ``USCensus1990raw.data.txt`` and the same
    with ``.gz`` or ``.zip``; otherwise UCI's archive is downloaded once and kept in the cache
    folder of pooch (extra ``data``). The file is read in pieces, so that little more than the
    result is in memory; the number of rows and the share of each sex are verified.

    Returns
    -------
    CensusData
        2,458,285 rows. ``X`` has the raw values of 25 columns in float32, ``sex`` is the sensitive
        attribute.

    See Also
    --------
    make_census_like : Synthetic rows that resemble these, without a download.

    Notes
    -----
    The reader of UCI's file is tested on a file of the same layout, not on UCI's own bytes. No
    checksum of them is known. The number of rows and the share of men are verified.

    Examples
    --------
    >>> census = fetch_census()  # doctest: +SKIP
    >>> census.X.shape  # doctest: +SKIP
    (2458285, 25)
    """
    folder = os.environ.get(FOLDER)
    if folder and (path := Path(folder) / PARQUET_NAME).is_file():
        with pq.ParquetFile(path) as file:
            batches = file.iter_batches(BATCH_ROWS, columns=[*FEATURES, "SEX"])
            return collect(batches, N_ROWS, MALE_SHARE)
    with _raw_file(folder) as raw:
        return collect(parse(raw), N_ROWS, MALE_SHARE)


def collect(batches: Iterator[pa.RecordBatch], n_rows: int, male_share: float) -> CensusData:
    """Fill the result from batches that hold the columns by name, and check it."""
    # Filled in place: to join pieces at the end would take the memory twice.
    X = np.empty((n_rows, len(FEATURES)), dtype=np.float32)
    female = np.empty(n_rows, dtype=np.bool_)
    found = 0
    for batch in batches:
        start, found = found, found + len(batch)
        # It is the wrong file, and may be far larger.
        if found > n_rows:
            break
        for column, name in enumerate(FEATURES):
            X[start:found, column] = batch.column(name).to_numpy(zero_copy_only=False)
        sex = batch.column("SEX").to_numpy(zero_copy_only=False)
        if not np.isin(sex, (0, 1)).all():
            raise _refused(f"SEX contains {np.unique(sex)[:5].tolist()}, not 0 and 1")
        female[start:found] = sex
    if found != n_rows:
        raise _refused(
            f"it has {'more than ' * (found > n_rows)}{min(found, n_rows)} rows, not {n_rows}"
        )
    share = 1 - float(female.mean())
    # The paper prints four digits; the sexes the other way round would be 0.03 away.
    if abs(share - male_share) > 0.001:
        raise _refused(f"the share of men is {share:.4f}, not {male_share:.4f}")
    return CensusData(
        name="census",
        X=X,
        feature_names=FEATURES,
        sensitive={"sex": np.where(female, "female", "male")},
        description=DESCRIPTION,
    )


def parse(raw: IO[bytes]) -> Iterator[pa.RecordBatch]:
    """Read the raw file in pieces: tab separated, no header, 125 columns."""
    # The limit keeps a file without line breaks from being read as one line.
    first = raw.readline(LONGEST_LINE).rstrip(b"\r\n")
    raw.seek(0)
    n_columns = first.count(b"\t") + 1
    # A tab may also end the line.
    if n_columns - first.endswith(b"\t") != N_RAW_COLUMNS:
        raise _refused(f"its first line has {n_columns} tab-separated columns, not {N_RAW_COLUMNS}")
    names = [f"column {j}" for j in range(n_columns)]
    for name, j in {**COLUMNS, "SEX": SEX}.items():
        names[j] = name
    kept = [*FEATURES, "SEX"]
    try:
        # Not read_csv, which would hold a second copy of all rows in memory.
        yield from csv.open_csv(
            raw,
            csv.ReadOptions(column_names=names, block_size=1 << 24),
            # The raw file has no quotes, and one in a damaged file must
            # not swallow the lines after it.
            csv.ParseOptions(delimiter="\t", quote_char=False),
            csv.ConvertOptions(
                include_columns=kept,
                # Given, not guessed from the first piece; a text or an
                # empty value is then an error.
                column_types={name: pa.int32() for name in kept},
                null_values=[],
            ),
        )
    except pa.ArrowInvalid as error:
        raise _refused(str(error)) from error


@contextmanager
def _raw_file(folder: str | None) -> Iterator[IO[bytes]]:
    """Open the raw file of the folder, or of UCI's archive."""
    place = Path(folder or ".")
    if folder and (place / RAW_NAME).is_file():
        with (place / RAW_NAME).open("rb") as file:
            yield file
    elif folder and (place / f"{RAW_NAME}.gz").is_file():
        with gzip.open(place / f"{RAW_NAME}.gz") as unpacked:
            yield cast(IO[bytes], unpacked)
    elif folder and (place / f"{RAW_NAME}.zip").is_file():
        with _member(place / f"{RAW_NAME}.zip") as file:
            yield file
    else:
        with _member(io.BytesIO(download(URL, "us-census-data-1990.zip"))) as file:
            yield file


@contextmanager
def _member(archive: Path | IO[bytes]) -> Iterator[IO[bytes]]:
    """Open the raw file in a zip without unpacking the rest."""
    with zipfile.ZipFile(archive) as opened:
        members = opened.namelist()
        for member in members:
            # macOS adds shadow copies of every file under this folder.
            if Path(member).name == RAW_NAME and not member.startswith("__MACOSX"):
                with opened.open(member) as file:
                    yield file
                return
    raise FileNotFoundError(
        f"No {RAW_NAME!r} in the archive, which contains {members}. Delete it from pooch's cache "
        f"folder, or set {FOLDER} to a folder with {RAW_NAME} or {PARQUET_NAME}."
    )


def _refused(reason: str) -> ValueError:
    return ValueError(
        f"This is not the known Census file: {reason}. Delete the downloaded file, or put "
        f"{RAW_NAME} from UCI id 116 into the folder {FOLDER}."
    )
