"""Type checkers see what users see."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "typed" / "user.py"


@pytest.mark.long  # it reads the whole package
def test_mypy_agrees(tmp_path):
    pytest.importorskip("mypy", reason="mypy is not installed")
    # As in a user's project: none of our settings, and our package as it is installed.
    (tmp_path / "mypy.ini").write_text("[mypy]\n")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "--strict", "--config-file", tmp_path / "mypy.ini"),
            *("--cache-dir", SCRIPT.parents[2] / ".mypy_cache" / "user", SCRIPT),
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.stdout.strip() == "Success: no issues found in 1 source file", done.stdout


def test_pyright_agrees(tmp_path):
    """Where it is installed: ``scripts/test --neighbours``."""
    found = shutil.which("pyright", path=str(Path(sys.executable).parent))
    if found is None:
        pytest.skip("pyright is not installed")
    text = SCRIPT.read_text(encoding="utf-8")
    # It has its own names for errors, so the comments that name mypy's are not for it.
    bare = [line.split("  # type: ignore")[0] for line in text.splitlines()]
    (tmp_path / "user.py").write_text("\n".join(bare), encoding="utf-8")
    # Our tests need no network, but this may fetch pyright once.
    done = subprocess.run(
        [found, "--outputjson", "--pythonpath", sys.executable, tmp_path / "user.py"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    wrong = {
        entry["range"]["start"]["line"]
        for entry in json.loads(done.stdout)["generalDiagnostics"]
        if entry["severity"] == "error"
    }
    expected = {n for n, line in enumerate(text.splitlines()) if "# type: ignore[" in line}
    assert wrong == expected, done.stdout
