"""Make docs/images/report.png: a report on the bundled Adult data, in Chromium. Takes minutes."""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import tempfile
from pathlib import Path

import pandas as pd
from PIL import Image
from typer.testing import CliRunner

from fairmix.cli import app
from fairmix.datasets import load_adult
from generators.figures import record

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "images" / "report.png"
SIZE = "1100,1800"  # down to the front and its clusters
COLOURS = 64  # of the picture: a third of the bytes, and no difference to the eye
FIT = ["-s", "sex", "-k", "6", "--min-ratio", "0.8", "--quiet"]


def fitted(folder: Path, *more: str) -> Path:
    """The results of a fit to Adult."""
    adult = load_adult()
    frame = pd.DataFrame(adult.X, columns=list(adult.feature_names))
    frame.assign(sex=adult.sex).to_csv(folder / "adult.csv", index=False)
    out = folder / "results"
    found = CliRunner().invoke(
        app, ["fit", str(folder / "adult.csv"), *FIT, *more, "--out", str(out)]
    )
    if found.exit_code:
        raise SystemExit(found.output)
    return out


def figures() -> dict[str, float]:
    """Those of the fit itself; the front takes longer."""
    with tempfile.TemporaryDirectory() as name:
        results = fitted(Path(name), "--no-front")
        found = json.loads((results / "metrics.json").read_text("utf-8"))
    return {name: float(found[name]) for name in ("gap", "ratio", "balance", "non_empty")}


def main() -> None:
    """Fit, open the report and save what is seen."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("no chromium found: apt-get install chromium")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        page = (fitted(folder) / "report.html").as_uri()
        picture = folder / "report.png"
        flags = ("headless=new", "no-sandbox", "disable-gpu", "hide-scrollbars")
        subprocess.run(
            [
                chromium,
                *(f"--{flag}" for flag in flags),
                f"--window-size={SIZE}",
                f"--screenshot={picture}",
                page,
            ],
            check=True,
            capture_output=True,
        )
        Image.open(picture).convert("RGB").quantize(COLOURS).save(PICTURE, optimize=True)
    record(PICTURE, "report", figures())


if __name__ == "__main__":
    main()
