"""Measures, prints one table with every bound, and writes JSON and the page of the docs."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import time
from collections.abc import Iterable
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import sklearn

from benchmarks.harness import Ratio, n_threads

BENCHMARKS = (
    "kernel",
    "fits",
    "census",
    "groups",
    "rules",
    "optima",
    "kinds",
    "predict",
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
    parser.add_argument("--only", default="", help="cells of a grid whose name holds this text")
    parser.add_argument("--resume", action="store_true", help="leave out cells that are measured")
    parser.add_argument("--minutes", type=float, default=np.inf, help="begin no cell after so many")
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
    until = time.monotonic() + 60 * arguments.minutes
    found = [
        ratio
        for name in (BENCHMARKS if every else arguments.names)
        for ratio in measure(
            name,
            arguments.repeats,
            tiny=arguments.tiny,
            out=out,
            only=arguments.only,
            resume=arguments.resume,
            until=until,
        )
    ]
    judged = [ratio.verdict for ratio in found if ratio.verdict]
    print(f"{judged.count('pass')} of {len(judged)} bounds pass")


def measure(
    name: str,
    repeats: int,
    *,
    tiny: bool,
    out: Path | None,
    only: str = "",
    resume: bool = False,
    until: float = np.inf,
) -> list[Ratio]:
    """Run one benchmark, print its lines of the table and write its file.

    A grid, a module with ``cells``, is written after each cell. What its file has of others stays.
    """
    module = importlib.import_module(f"benchmarks.{name}")
    how = module.TINY if tiny else {}
    path = None if out is None else out / f"{name}.json"
    cells: list[Any] = [*module.cells()] if hasattr(module, "cells") else [None]
    known = _known(path) if cells[0] is not None else {}
    found: list[Ratio] = []
    for cell in cells:
        title = "" if cell is None else cell.name
        measured = any(_belongs(ratio, title) for ratio in known)
        if only not in title or (resume and measured) or time.monotonic() > until:
            continue
        new = []
        for ratio in (
            module.run(repeats, **how) if cell is None else module.measure(cell, repeats, **how)
        ):
            new.append(ratio)
            print(line(name, ratio), flush=True)
        found += new
        known = {key: ratio for key, ratio in known.items() if not _belongs(key, title)}
        known |= {ratio.name: ratio for ratio in new}
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            order = [c if c is None else c.name for c in cells]
            text = json.dumps(
                document(name, module.__doc__ or "", _sorted(known, order), repeats), indent=1
            )
            path.write_text(text + "\n", encoding="utf-8")
    return found


def _belongs(line: str, title: str) -> bool:
    """Whether a line is of a cell; all are where there are no cells."""
    return not title or line.startswith(f"{title}, ")


def _known(path: Path | None) -> dict[str, Ratio]:
    """Lines of a file, by name."""
    if path is None or not path.exists():
        return {}
    names = {part.name for part in fields(Ratio)}
    rows = json.loads(path.read_text(encoding="utf-8"))["ratios"]
    return {row["name"]: Ratio(**{key: row[key] for key in names}) for row in rows}


def _sorted(known: dict[str, Ratio], titles: list[str | None]) -> list[Ratio]:
    """Lines in the order of their cells."""
    return [
        ratio for title in titles for ratio in known.values() if _belongs(ratio.name, title or "")
    ]


def line(name: str, ratio: Ratio) -> str:
    """A line of the table."""
    bound = "" if ratio.bound is None else f"{ratio.bound:.4g}"
    amounts = f"{ratio.amount:.5g} of {ratio.floor_amount:.5g} {ratio.unit}".rstrip()
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
