"""Fuzz of the path from a text file to a fit: one clear error, or a fit with finite figures.

The first byte of an input picks the kind of the file and the columns with a role; the rest is the
content of the file.
"""

from __future__ import annotations

import gzip
import os
import warnings
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from typer.testing import CliRunner

from fairmix import FairMixture
from fairmix.cli import app
from fairmix.input.guesses import guess_columns
from fairmix.system.clean import clean
from fairmix.tables import FileBlocks, column_names, find_files

SUFFIXES = (".csv", ".tsv", ".csv.gz", ".txt")
PACKED = 2  # the place of the packed one
AUDITED = 16  # added to the first byte: a column is taken for clusters that are there already
# Characters of an error: fewer say nothing, more are not read.
SHORTEST, LONGEST = 10, 2000
DICTIONARY = (b"nan", b"inf", b"NA", b"1e300", b"1e-320", b'"', b'""', b"\r\n", b"\n\n", b";", b"|")
TEXTS = {
    "numbers": b"a,b,g\n1,2,u\n3,4,v\n5,6.5,u\n-7e3,8,v\n",
    "words": b"a,b,g\nred,2,u\nblue,4,v\nred,6,u\ngreen,8,v\n",
    "quotes": b'"a, b","c ""d""",g\r\n"1","x\ny",u\r\n"2","z",v\r\n3,,u\r\n',
    "gaps": b"a,b,g\n1,NA,u\n,4,v\nnan,inf,u\n1e300,-0,v\n",
    "semicolons": b"a;b;g\n1;2;u\n3;4;v\n5;6;u\n",
    "tabs": b"a\tb\tg\n1\t2\tu\n3\t4\tv\n",
    "unicode": "größe,名前,g\n1,ä,u\n2,名,v\n3,ä,u\n".encode(),
    "marked": b"\xef\xbb\xbfa,b,g\n1,2,u\n3,4,v\n",
    "utf-16": "a,b\n1,2\n".encode("utf-16"),
    "ragged": b"a,b,g\n1,2\n3,4,v,5\n",
    "twice": b"a,a,g\n1,2,u\n3,4,v\n",
    "headless": b"1,2,3\n4,5,6\n7,8,9\n",
    "bytes": b"a,b\n\x00\xff,2\n\x80,3\n",
    "dates": b"a,b\n2020-01-01,1\n2021-02-03,2\n",
    # What hung, or ended in a traceback, before.
    "wide": b",".join(b"c%d" % j for j in range(600)) + b"\n" + (b"1," * 599 + b"2\n") * 2,
    "escape": b"a\x1b[2J,b,g\n1,2,u\x1b[2J\n3,4,v\n",
    "open": b'a,b,g\n"1,2,u\n3,4,v\n',
    "zeros": b"a,b,g\n1,2,-0.0\n3,4,0.0\n5,6,1\n",
    "unnamed": b",a,b,g\n0,1,2,u\n1,3,4,v\n",
    "digits": b"a,b,g\n1" + b"0" * 400 + b",2,u\n3,4,v\n",
}


def seeds() -> dict[str, bytes]:
    """Each text as each kind of file, with and without a column of groups."""
    return {
        f"{name}-{first}": bytes([first]) + text
        for name, text in TEXTS.items()
        for first in (0, 5, AUDITED)
    } | {"packed": bytes([PACKED]) + gzip.compress(TEXTS["numbers"])}


def check(data: bytes, folder: Path) -> str:
    """What became of an input; raises where the way to a fit breaks its promise."""
    choice = data[0] if data else 0
    path = folder / f"data{SUFFIXES[choice % 4]}"
    path.write_bytes(data[1:])
    before = path.read_bytes()
    (_audit if choice & AUDITED else _command)(path, named=bool(choice & 4))
    assert path.read_bytes() == before
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", message="Not judged: ")
        warnings.filterwarnings("ignore", message=".* columns whose texts were read as numbers")
        warnings.filterwarnings("ignore", message=".* the text is not UTF-8")
        warnings.filterwarnings("ignore", message="The first column of .* has no name")
        try:
            return _fit(path, named=bool(choice & 4), standardize=bool(choice & 8))
        except ValueError as error:
            if type(error) is not ValueError or not SHORTEST < len(str(error)) < LONGEST:
                raise AssertionError("the error is not one clear ValueError") from error
            return "refused"
        finally:
            path.unlink()


def _command(path: Path, *, named: bool) -> None:
    """Fit and predict; no link to the input is written over."""
    out = path.with_name("out")
    words = ["fit", str(path), "-k", "1", "--no-front", "-o", str(out), "--force", "--jobs", "1"]
    words += ["-s", "g" if named else "b", "--min-group-size", "1"]
    if _run(words) == 0:
        labels, again = out / "labels.parquet", ["predict", str(out / "model.fairmix"), str(path)]
        assert _run([*again, "--out", str(labels), "--force"]) in (0, 3)
        link = path.with_name("link.csv")
        os.link(path, link)
        assert _run([*again, "--out", str(link), "--force"]) == 2
        link.unlink()


def _audit(path: Path, *, named: bool) -> None:
    """Audit clusters that are there already, and repair them."""
    words = [str(path), "--labels", "a", "-s", "g" if named else "b", "--min-group-size", "1"]
    words += ["--max-gap", "0.1", "--force", "--jobs", "1"]
    _run(["audit", *words, "-o", str(path.with_name("audit.html"))])
    _run(["repair", *words, "-o", str(path.with_name("repaired"))])


def _run(words: list[str]) -> int:
    """The command line ends with one of its codes, and with clean text."""
    done = CliRunner().invoke(app, words)
    assert done.exit_code in (0, 2, 3), (done.output, done.exception)
    assert isinstance(done.exception, SystemExit | None), done.exception
    assert clean(done.output) == done.output, done.output
    return done.exit_code


def _fit(path: Path, *, named: bool, standardize: bool) -> str:
    names = column_names(find_files(path)[0])
    roles = guess_columns(FileBlocks(path), names)
    assert [role.name for role in roles] == names
    model = FairMixture(1, fairness_strength=0, max_iter=2, standardize=standardize, random_state=0)
    model.fit(path, sensitive_features=names[-1] if named else None)
    for name, value in vars(model).items():
        if name.endswith("_") and isinstance(value, np.ndarray) and value.dtype.kind == "f":
            assert np.isfinite(value).all(), (name, value)
    assert np.isfinite(model.lower_bound_), model.lower_bound_
    return "fitted"
