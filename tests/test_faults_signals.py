"""SIGINT and SIGTERM at random moments of ``fairmix fit``: old files or new ones, never a mix.

Moments are counted in calls of functions, not in seconds, so that a busy machine changes nothing.
"""

import random
import signal
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from fairmix import load
from fairmix.datasets import make_grouped_blobs
from fairmix.system import signals
from repetition import every_other, times

# Signals to one command after another.
TRIES = times(2, 8)
WORDS = ["fit", "rows.csv", "-s", "sex", "-k", "3", "--max-gap", "0.05", "--no-front"]
WORDS += ["--labels-format", "csv", "--force", "-o", "out"]
FILES = ["labels.csv", "metrics.json", "model.fairmix", "report.html"]
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
N_ROWS = 600
# Runs the command and sends itself a signal at one of its calls; tells their number at the end,
# and how many came before the first file was in its place.
RUN = """
import runpy, signal, sys

# Tests in the background of a shell inherit that SIGINT is off.
signal.signal(signal.SIGINT, signal.default_int_handler)
number, moment = map(int, sys.argv[1:3])
sys.argv[1:] = sys.argv[3:]
calls = moved = 0

def count(frame, event, argument):
    global calls, moved
    calls += 1
    if not moved and frame.f_code.co_name == "_move":
        moved = calls
    if calls == moment:
        signal.raise_signal(number)  # which is there before the call returns, in this thread

sys.settrace(count)
try:
    runpy.run_module("fairmix", run_name="__main__")
finally:
    sys.settrace(None)
    print(calls, moved)
"""


def write_rows(path):
    X, groups, _ = make_grouped_blobs(N_ROWS, 3, 2, separation=2.0, random_state=0)
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "sex": np.where(groups, "f", "m")})
    frame.to_csv(path, index=False)


def run(folder, number=0, moment=0):
    """The command, with a signal at a call; the first is 1."""
    return subprocess.run(
        [sys.executable, "-c", RUN, str(int(number)), str(moment), *WORDS],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def assert_complete(out):
    """All files are there, and those of one fit."""
    model = load(out / "model.fairmix")
    labels = pd.read_csv(out / "labels.csv")["cluster"]
    assert labels.tolist() == model.predict(pd.read_csv(out.parent / "rows.csv")).tolist()
    assert (out / "metrics.json").read_text("utf-8").endswith("}\n")
    assert (out / "report.html").read_text("utf-8").rstrip().endswith("</html>")


@pytest.fixture(scope="module")
def counts(tmp_path_factory):
    """Calls of a command without a signal, in all and before the first file is in its place."""
    folder = tmp_path_factory.mktemp("whole")
    write_rows(folder / "rows.csv")
    whole = run(folder)
    assert whole.returncode == 0, whole.stderr
    assert_complete(folder / "out")
    calls, moved = map(int, whole.stdout.splitlines()[-1].split())
    assert 0 < moved < calls
    return calls, moved


@pytest.mark.repeats
@pytest.mark.parametrize("number", every_other(CODES), ids=lambda number: number.name)
def test_signals_at_random_moments(number, counts, tmp_path, record_property):
    write_rows(tmp_path / "rows.csv")
    out = tmp_path / "out"
    out.mkdir()
    calls, moved = counts
    rng, ends = random.Random(number), []
    # One moment long before the files move, one after that, and any others.
    limits = [(1, moved // 2), (moved, calls), *[(1, calls)] * (TRIES - 2)]
    for low, high in limits:
        for name in FILES:
            (out / name).write_text("old", encoding="utf-8")
        done = run(tmp_path, number, rng.randint(low, high))
        kept = [(out / name).read_bytes() == b"old" for name in FILES]
        assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "rows.csv"]
        assert sorted(path.name for path in out.iterdir()) == FILES
        assert all(kept) or not any(kept), (kept, done.stderr)
        if not any(kept):
            assert_complete(out)
        # Before and after the command, nobody but the interpreter is there to answer.
        if done.returncode != -number:
            assert done.returncode in (0, CODES[number]), (done.returncode, done.stderr)
            assert done.returncode or not any(kept)
            # In a callback of the interpreter an exception is shown, and goes no further.
            shown = "Exception ignored in" in done.stderr
            assert shown or "Traceback" not in done.stderr, done.stderr
        ends.append("new" if not any(kept) else "old")
    assert ends[0] == "old"
    for end in ("old", "new"):
        record_property(end, ends.count(end))


def test_an_error_that_a_signal_caused_is_an_interruption(monkeypatch, capsys):
    """As from a compiled module whose import was broken off."""

    def broken_off():
        try:
            signals._stop(signal.SIGTERM, None)
        except signals.Interrupted:
            raise ValueError("no valid buffer format") from None

    monkeypatch.setattr(signals, "_raised", [])
    with pytest.raises(signals.Interrupted) as end, signals.told():
        broken_off()
    assert end.value.code == CODES[signal.SIGTERM]
    assert capsys.readouterr().err == "Interrupted: no half-written file is left.\n"
    monkeypatch.setattr(signals, "_raised", [])
    with pytest.raises(ValueError, match="of the user"), signals.told():
        raise ValueError("of the user")
