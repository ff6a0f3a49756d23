"""SIGINT and SIGTERM at random moments of ``fairmix fit``: old files or new ones, never a mix."""

import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

from fairmix import load
from fairmix.datasets import make_grouped_blobs

# Signals to one command after another.
TRIES = 12 if os.environ.get("FAIRMIX_LONG") else 3
WORDS = ["fit", "rows.csv", "-s", "sex", "-k", "3", "--max-gap", "0.05", "--no-front"]
WORDS += ["--labels-format", "csv", "--force", "-o", "out"]
FILES = ["labels.csv", "metrics.json", "model.fairmix", "report.html"]
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
N_ROWS = 3000


def write_rows(path):
    X, groups, _ = make_grouped_blobs(N_ROWS, 3, 2, separation=2.0, random_state=0)
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "sex": np.where(groups, "f", "m")})
    frame.to_csv(path, index=False)


def start(folder):
    return subprocess.Popen(
        [sys.executable, "-m", "fairmix", *WORDS],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def assert_complete(out):
    """All files are there, and those of one fit."""
    model = load(out / "model.fairmix")
    labels = pd.read_csv(out / "labels.csv")["cluster"]
    assert labels.tolist() == model.predict(pd.read_csv(out.parent / "rows.csv")).tolist()
    assert (out / "metrics.json").read_text("utf-8").endswith("}\n")
    assert (out / "report.html").read_text("utf-8").rstrip().endswith("</html>")


@pytest.mark.parametrize("number", CODES, ids=lambda number: number.name)
def test_signals_at_random_moments(number, tmp_path, record_property):
    write_rows(tmp_path / "rows.csv")
    out = tmp_path / "out"
    out.mkdir()
    child, began = start(tmp_path), time.monotonic()
    errors = child.communicate()[1]
    assert child.returncode == 0, errors
    assert_complete(out)
    whole = time.monotonic() - began
    rng, ends = random.Random(number), []
    for _ in range(TRIES):
        for name in FILES:
            (out / name).write_text("old", encoding="utf-8")
        child = start(tmp_path)
        time.sleep(rng.uniform(0, whole))
        child.send_signal(number)
        errors = child.communicate(timeout=600)[1]
        kept = [(out / name).read_bytes() == b"old" for name in FILES]
        assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "rows.csv"]
        assert sorted(path.name for path in out.iterdir()) == FILES
        assert all(kept) or not any(kept), (kept, errors)
        if not any(kept):
            assert_complete(out)
        # Before and after the command, nobody but the interpreter is there to answer.
        if child.returncode != -number:
            assert child.returncode in (0, CODES[number]), (child.returncode, errors)
            assert child.returncode or not any(kept)
            assert "Traceback" not in errors, errors
        ends.append("new" if not any(kept) else "old")
    assert "old" in ends
    for end in ("old", "new"):
        record_property(end, ends.count(end))
