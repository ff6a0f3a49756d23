"""Processor seconds of the imports and of the help, each in a fresh interpreter."""

from __future__ import annotations

import os
import subprocess
import sys
from resource import RUSAGE_CHILDREN, getrusage
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.harness import Ratio, Tiny

# FairMixture needs what scikit-learn's mixtures load, and should load nothing besides. A help that
# takes longer than this feels slow.
IMPORT_BOUND = 1.0
HELP_SECONDS = 0.3
WORK = {
    "import sklearn.mixture": ["-c", "import sklearn.mixture"],
    "import fairmix": ["-c", "import fairmix"],
    "from fairmix import FairMixture": ["-c", "from fairmix import FairMixture"],
    "fairmix --help": ["-m", "fairmix", "--help"],
}
TINY: Tiny = {"warm": False}


def run(repeats: int, *, warm: bool = True) -> list[Ratio]:
    """Imports in units of scikit-learn's, and the help in units of what it may take."""
    found: dict[str, list[float]] = {name: [] for name in WORK}
    with TemporaryDirectory() as compiled:
        # pip compiles what it installs; a clone may be told not to, and compiles itself each time.
        settings = {**os.environ, "PYTHONPYCACHEPREFIX": compiled}
        settings.pop("PYTHONDONTWRITEBYTECODE", None)
        if warm:
            for arguments in WORK.values():
                _seconds(arguments, settings)  # the first run compiles and reads from disk
        for _ in range(repeats):
            for name, arguments in WORK.items():
                found[name].append(_seconds(arguments, settings))
    seconds = {name: median(times) for name, times in found.items()}
    peer, *own = WORK
    return [
        Ratio(name, seconds[name], "the target", HELP_SECONDS, 1)
        if name.endswith("--help")
        else Ratio(name, seconds[name], peer, seconds[peer], IMPORT_BOUND)
        for name in own
    ]


def _seconds(arguments: list[str], settings: dict[str, str]) -> float:
    before = getrusage(RUSAGE_CHILDREN)
    command = [sys.executable, *arguments]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=settings)
    after = getrusage(RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
