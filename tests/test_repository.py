"""The repository says how to use it, and nothing of the machine it was written on."""

import os
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SKIPPED = {
    ".git",
    ".venv",
    "__pycache__",
    ".pytest_cache",
    ".mypy_cache",
    ".ruff_cache",
    ".import_linter_cache",
    ".hypothesis",
    "build",
    "dist",
}
# In two parts, so that this file does not name them.
REGISTRY_HOSTS = ["py" + "pi.org", "python" + "hosted.org", "ana" + "conda.org"]


def files() -> list[Path]:
    found = []
    for folder, subfolders, names in os.walk(ROOT):
        subfolders[:] = [
            name for name in subfolders if name not in SKIPPED and not name.endswith(".egg-info")
        ]
        found += [Path(folder, name) for name in names]
    return found


def files_with(pattern: re.Pattern[bytes]) -> dict[str, str]:
    matches = {
        path.relative_to(ROOT).as_posix(): pattern.search(path.read_bytes()) for path in files()
    }
    return {name: match.group().decode() for name, match in matches.items() if match}


@pytest.mark.parametrize("command", ["bash scripts/demo", "bash scripts/test"])
def test_readme_names_the_command(command):
    assert command in (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["setup", "test", "demo", "check"])
def test_scripts_are_executable_bash(name):
    script = ROOT / "scripts" / name
    assert os.access(script, os.X_OK)
    assert script.read_text(encoding="utf-8").startswith("#!/usr/bin/env bash\n")


def test_no_file_names_the_folder_of_the_repository():
    places = [str(ROOT)]
    # A clone in the temporary folder says nothing about the author's machine.
    if ROOT.parent not in {Path(ROOT.anchor), Path("/tmp")}:
        places.append(f"{ROOT.parent}{os.sep}")
    pattern = re.compile(
        rb"(?<![\w.-])(?:" + b"|".join(re.escape(p).encode() for p in places) + rb")"
    )
    assert files_with(pattern) == {}


def test_no_file_names_a_home_folder():
    home = rb"(?<![\w.-])(?:/home/\w+|/Users/\w+|/ro" + rb"ot)/"
    assert files_with(re.compile(home)) == {}


def test_no_file_names_a_package_registry():
    hosts = b"|".join(re.escape(host).encode() for host in REGISTRY_HOSTS)
    assert files_with(re.compile(hosts)) == {}


def test_requirements_are_pins_and_nothing_else():
    lines = (ROOT / "requirements-dev.txt").read_text(encoding="utf-8").splitlines()
    pin = re.compile(r"[a-z0-9][a-z0-9.-]*==[\w.]+")
    assert [line for line in lines if not pin.fullmatch(line)] == []
