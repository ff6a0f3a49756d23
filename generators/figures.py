"""Which script has made each picture and story of the docs, and its figures: docs/figures.json.

A script has a function ``figures``, which measures some figures of what it makes. They are written
down, and a test measures them again: so a change of the package that makes a picture stale is told,
not only a change of the script.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RECORDS = ROOT / "docs" / "figures.json"


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def record(made: Path, script: str, figures: Mapping[str, float]) -> None:
    """Write down that a picture or a page is new, by which generator, and some of its figures."""
    known = json.loads(RECORDS.read_text("utf-8")) if RECORDS.exists() else {}
    known[made.relative_to(ROOT).as_posix()] = {
        "script": f"scripts/generate {script}",
        "source": digest(ROOT / "generators" / f"{script}.py"),
        "made": digest(made),
        "figures": {name: round(figure, 6) for name, figure in figures.items()},
    }
    RECORDS.write_text(json.dumps(dict(sorted(known.items())), indent=2) + "\n", "utf-8")
