"""Signals to a command: one line, the code of the signal, nothing half-written."""

import os
import signal
import subprocess
import sys

import pytest

from repetition import every_other, long
from test_cli import FAST, people

SIGNALS = [signal.SIGINT, signal.SIGTERM]
FIT = ["fit", "people.csv", "-s", "sex", "--drop", "cluster", *FAST]
# Runs a command that gets a signal when it imports a module, or when it calls a function.
RUN = """
import importlib, os, signal, sys
import fairmix.__main__

# Tests in the background of a shell inherit that SIGINT is off.
signal.signal(signal.SIGINT, getattr(signal, os.environ["BEFORE"]))
number, kind, module, name = int(sys.argv[1]), *sys.argv[2].split(":")

def send():
    signal.raise_signal(number)  # which is there before the call returns, in this thread

class Finder:
    def find_spec(self, wanted, path=None, target=None):
        if wanted == module:
            sys.meta_path.remove(self)
            send()

if kind == "import":
    sys.meta_path.insert(0, Finder())
else:
    place = importlib.import_module(module)
    *way, name = name.split(".")
    for step in way:
        place = getattr(place, step)
    usual = getattr(place, name)

    def call(*args, **kwargs):
        send()
        return usual(*args, **kwargs)

    setattr(place, name, call)
sys.argv[1:] = sys.argv[3:]
fairmix.__main__.main()
"""


def interrupted(folder, number, moment, *words, before="default_int_handler"):
    command = [sys.executable, "-c", RUN, str(int(number)), moment, *words]
    env = {**os.environ, "BEFORE": before}
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=env)


@pytest.fixture
def folder(tmp_path):
    people().to_csv(tmp_path / "people.csv", index=False)
    return tmp_path


MOMENTS = [
    "import:fairmix.cli.app:",
    "call:typer.core:TyperGroup.make_context",
    "call:typer.core:TyperCommand.make_context",
    "call:fairmix.estimator.labels:piece_labels",
    "import:fairmix.report:",
]


@pytest.mark.parametrize(
    ("number", "moment"),
    [
        *[(signal.SIGINT, moment) for moment in MOMENTS[::2]],
        *[long(signal.SIGINT, moment) for moment in MOMENTS[1::2]],
        # Both signals go the same way, so that one moment tells.
        (signal.SIGTERM, MOMENTS[-1]),
        *[long(signal.SIGTERM, moment) for moment in MOMENTS[:-1]],
    ],
)
def test_a_signal_leaves_nothing(number, moment, folder):
    found = interrupted(folder, number, moment, *FIT, "--memory", "0", "--quiet")
    assert found.stderr == "Interrupted: no half-written file is left.\n"
    assert found.returncode == 128 + number
    assert [path.name for path in folder.iterdir()] == ["people.csv"]


def test_a_signal_that_is_switched_off_stays_so(folder):
    moment = "call:fairmix.estimator.labels:piece_labels"
    found = interrupted(folder, signal.SIGINT, moment, *FIT, before="SIG_IGN")
    assert found.stderr == ""
    assert found.returncode == 0


@pytest.mark.parametrize("number", every_other(SIGNALS))
def test_a_signal_while_files_move_is_too_late(number, folder):
    (folder / "results").mkdir()
    found = interrupted(folder, number, "call:pathlib:Path.replace", *FIT)
    assert found.stderr == ""
    assert found.returncode == 0
    assert len(list((folder / "results").iterdir())) == 4


@pytest.mark.parametrize("number", every_other(SIGNALS))
def test_reproduce_says_how_to_go_on(number, folder):
    moment = "call:fairmix.reproduction:run"
    found = interrupted(folder, number, moment, "reproduce", "proposition-1", "--out", "tables")
    assert found.stderr == "Interrupted: what is done is in tables; run again to go on.\n"
    assert found.returncode == 128 + number
