"""Make docs/images/report.png: a report on the bundled Adult data, in Chromium. Takes minutes."""

from __future__ import annotations

import argparse
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


def main() -> None:
    """Fit, open the report and save what is seen."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=PICTURE)
    arguments = parser.parse_args()
    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("no chromium found: apt-get install chromium")
    adult = load_adult()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        frame = pd.DataFrame(adult.X, columns=list(adult.feature_names))
        frame.assign(sex=adult.sex).to_csv(folder / "adult.csv", index=False)
        fit = ["fit", str(folder / "adult.csv"), *FIT, "--out", str(folder / "results")]
        found = CliRunner().invoke(app, fit)
        if found.exit_code:
            raise SystemExit(found.output)
        picture = folder / "report.png"
        flags = ("headless=new", "no-sandbox", "disable-gpu", "hide-scrollbars")
        page = (folder / "results" / "report.html").as_uri()
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
        Image.open(picture).convert("RGB").quantize(COLOURS).save(arguments.out, optimize=True)
    record(arguments.out, "report")


if __name__ == "__main__":
    main()
