"""The rooms keep to their doors, and no file grows past what one sitting can read."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
MAX_LINES = 400


def test_import_contracts_hold():
    run = subprocess.run(
        [
            sys.executable,
            "-c",
            "from importlinter.cli import lint_imports_command; lint_imports_command()",
            "--no-cache",
            "--no-logo",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_files_are_short():
    lengths = {
        path.relative_to(ROOT).as_posix(): len(path.read_text(encoding="utf-8").splitlines())
        for path in (ROOT / "src").rglob("*.py")
    }
    too_long = {name: length for name, length in lengths.items() if length > MAX_LINES}
    assert lengths
    assert not too_long, f"files over {MAX_LINES} lines: {too_long}"
