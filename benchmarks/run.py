"""Measures, prints one table with every bound, and writes JSON and the page of the docs."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import sklearn

from benchmarks.harness import Ratio, n_threads

BENCHMARKS = (
    "kernel",
    "census",
    "tabular",
    "groups",
    "passes",
    "memory",
    "startup",
    "growth",
    "em",
    "dual",
    "files",
    "baselines",
    "repair",
    "dask",
)
DOCS = Path(__file__).resolve().parents[1] / "docs"
FOLDER, PAGE = DOCS / "benchmarks", DOCS / "benchmarks.md"


def main() -> None:
    """Parse arguments and run."""
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"which of {', '.join(BENCHMARKS)}")
    parser.add_argument("--all", action="store_true", help="all of them, as without names")
    parser.add_argument("--repeats", type=int, default=3, help="interleaved repeats (3)")
    parser.add_argument(
        "--out", type=Path, help="folder for a JSON file of each (docs/benchmarks without names)"
    )
    parser.add_argument("--tiny", action="store_true", help="sizes that only test the harness")
    parser.add_argument("--page", action="store_true", help="only write the page of the docs")
    arguments = parser.parse_args()
    unknown = sorted({*arguments.names} - {*BENCHMARKS})
    if unknown:
        parser.error(f"{unknown[0]!r} is not a benchmark; there are {', '.join(BENCHMARKS)}")
    if arguments.page:
        write_page()
        return
    every = arguments.all or not arguments.names
    out = arguments.out or (FOLDER if every and not arguments.tiny else None)
    found = [
        ratio
        for name in (BENCHMARKS if every else arguments.names)
        for ratio in measure(name, arguments.repeats, tiny=arguments.tiny, out=out)
    ]
    judged = [ratio.verdict for ratio in found if ratio.verdict]
    print(f"{judged.count('pass')} of {len(judged)} bounds pass")


def measure(name: str, repeats: int, *, tiny: bool, out: Path | None) -> list[Ratio]:
    """Run one benchmark, print its lines of the table and write its file."""
    module = importlib.import_module(f"benchmarks.{name}")
    ratios = []
    for ratio in module.run(repeats, **(module.TINY if tiny else {})):
        ratios.append(ratio)
        print(line(name, ratio), flush=True)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        text = json.dumps(document(name, module.__doc__ or "", ratios, repeats), indent=1)
        (out / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    return ratios


def line(name: str, ratio: Ratio) -> str:
    """A line of the table."""
    bound = "" if ratio.bound is None else f"{ratio.bound:.3g}"
    amounts = f"{ratio.amount:.3g} of {ratio.floor_amount:.3g} {ratio.unit}".rstrip()
    return (
        f"{name:<9} {ratio.name:<44} {ratio.value:8.3f}  {bound:>5}  {ratio.verdict:<4}  "
        f"{amounts}: {ratio.floor}"
    )


def document(name: str, title: str, ratios: Iterable[Ratio], repeats: int) -> dict[str, Any]:
    """What a file holds."""
    versions = {module.__name__: module.__version__ for module in (np, scipy, sklearn)}
    return {
        "benchmark": name,
        "title": title.splitlines()[0],
        "repeats": repeats,
        "machine": {
            "cores": os.cpu_count(),
            "threads": n_threads(),
            "python": platform.python_version(),
            **versions,
        },
        "ratios": [
            {**asdict(ratio), "ratio": ratio.value, "verdict": ratio.verdict} for ratio in ratios
        ],
    }


def write_page() -> None:
    """The page of the docs and its picture, from the files."""
    from benchmarks import page

    found = page.read(FOLDER, BENCHMARKS)
    PAGE.write_text(page.text(found), encoding="utf-8")
    page.draw(found, FOLDER / "growth.svg")


if __name__ == "__main__":
    main()
