"""Which script has made each picture of the docs, and from which source: docs/figures.json."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RECORDS = ROOT / "docs" / "figures.json"


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def record(picture: Path, script: str) -> None:
    """Write down that a picture is new, and by which generator."""
    known = json.loads(RECORDS.read_text("utf-8")) if RECORDS.exists() else {}
    known[picture.relative_to(ROOT).as_posix()] = {
        "script": f"scripts/generate {script}",
        "source": digest(ROOT / "generators" / f"{script}.py"),
        "picture": digest(picture),
    }
    RECORDS.write_text(json.dumps(dict(sorted(known.items())), indent=2) + "\n", "utf-8")
