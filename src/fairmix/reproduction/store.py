"""The store: one JSON file per entry, rewritten whole as each of its units finishes."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from fairmix._version import __version__
from fairmix.reproduction.result import Entry, Result
from fairmix.reproduction.settings import Settings
from fairmix.reproduction.units import Numbers, Unit
from fairmix.reproduction.views import describe
from fairmix.system.files import replace_file

# POT solves the transport problems of FCA.
PACKAGES = ("numpy", "scipy", "scikit-learn", "POT")


class Store:
    """Numbers of units by their content, in the JSON files of a folder.

    A unit that is in the file of any entry is known to all, as long as it is of this version of
    the package. Each has the commit of the source that computed it.

    Parameters
    ----------
    folder : path
        Where the files are; made if need be.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._commit = commit()
        self._known: dict[str, tuple[str | None, Numbers]] = {}
        for document in self.documents():
            # Another version may fit otherwise, and one table must not mix both.
            if document["versions"]["fairmix"] != __version__:
                continue
            for record in document["units"]:
                key = json.dumps(record["unit"], sort_keys=True)
                self._known[key] = record["commit"], record["numbers"]

    def documents(self) -> list[dict[str, Any]]:
        """All files of entries, in the order of their names."""
        return [
            json.loads(path.read_text(encoding="utf-8"))
            for path in sorted(self.folder.glob("*.json"))
        ]

    def known(self, tasks: Iterable[Unit]) -> dict[Unit, Numbers]:
        """Those that are done."""
        return {task: self._known[task.key][1] for task in tasks if task.key in self._known}

    def stale(self, task: Unit) -> bool:
        """Whether another commit computed it."""
        return task.key in self._known and self._known[task.key][0] != self._commit

    def keep(self, task: Unit, numbers: Numbers) -> None:
        """Remember the numbers of a unit."""
        self._known[task.key] = self._commit, numbers

    def write(
        self,
        entry: Entry,
        settings: Settings,
        tasks: list[Unit],
        result: Result | None,
        failed: Mapping[Unit, Numbers],
    ) -> None:
        """Rewrite the file of an entry: what is done of it, and its result once all is."""
        # Units of other settings leave the file: it says what these settings gave.
        done = self.known(tasks)
        document = {
            "entry": entry.name,
            "title": entry.title,
            "place": entry.place,
            "paper_says": entry.paper_says,
            "complete": result is not None,
            "settings": settings.to_json(),
            "data": sorted({describe(task.view) for task in tasks}),
            "versions": versions(),
            "machine": machine(),
            **({} if result is None else result.to_json()),
            "figure": f"{entry.name}.svg" if result is not None and result.panels else None,
            "errors": [
                {"unit": task.to_json(), "error": failed[task]["error"]}
                for task in tasks
                if task in failed
            ],
            "units": [
                {"unit": task.to_json(), "commit": self._known[task.key][0], "numbers": done[task]}
                for task in done
            ],
        }
        # In one step, so that a run that is killed while it writes leaves the file of before.
        replace_file(self.folder / f"{entry.name}.json", to_text(document).encode())


def to_text(document: dict[str, Any]) -> str:
    """JSON with one line per unit, so that changes read well."""
    units = document.pop("units")
    head = json.dumps(document, indent=1, ensure_ascii=False)
    lines = ",\n".join(json.dumps(unit, ensure_ascii=False) for unit in units)
    # head ends with a line break and a brace, which come after the units.
    return f'{head[:-2]},\n "units": [\n{lines}\n ]\n}}\n'


def commit() -> str | None:
    """The last commit that changed the package, with a plus where its files differ from it.

    None where the package is not in a repository, as when it is installed from a wheel.
    """
    package = Path(__file__).parents[1]

    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=package, capture_output=True, text=True)
        return done.stdout.strip()

    try:
        # Asked about this folder only: nothing is known about a package that lies in a repository
        # of something else, and other files do not matter.
        found = git("log", "-1", "--format=%h", "--abbrev=10", "--", ".")
        changed = git("status", "--porcelain", "--", ".")
    except OSError:
        return None
    return found + "+" * bool(changed) if found else None


def versions() -> dict[str, str]:
    """Of this package and of those that its numbers depend on."""
    found = {"fairmix": __version__, "python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def machine() -> dict[str, Any]:
    """What kind of machine it is; nothing that names it."""
    return {"cores": os.cpu_count(), "architecture": platform.machine(), "system": sys.platform}
