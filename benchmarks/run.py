"""Runs the benchmarks, prints one table and writes JSON."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
from dataclasses import asdict
from pathlib import Path

import numpy as np
import scipy
import sklearn

BENCHMARKS = ("kernel", "em", "dual", "census", "files", "baselines", "dask")


def main() -> None:
    """Parse arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help=f"which of {', '.join(BENCHMARKS)} (all)")
    parser.add_argument("--repeats", type=int, default=3, help="interleaved repeats (3)")
    parser.add_argument("--out", type=Path, help="file for the JSON")
    arguments = parser.parse_args()
    ratios = []
    for name in arguments.names or BENCHMARKS:
        for ratio in importlib.import_module(f"benchmarks.{name}").run(arguments.repeats):
            ratios.append(ratio)
            verdict = "" if ratio.value <= ratio.bound else "  ABOVE"
            print(
                f"{ratio.name:<36} {ratio.amount:8.2f} {ratio.unit} = {ratio.value:7.3f} x "
                f"{ratio.floor} ({ratio.floor_amount:.2f} {ratio.unit}), "
                f"bound {ratio.bound:.3g}{verdict}",
                flush=True,
            )
    if arguments.out is not None:
        versions = {m.__name__: m.__version__ for m in (np, scipy, sklearn)}
        machine = {"cores": os.cpu_count(), "python": platform.python_version(), **versions}
        rows = [{**asdict(ratio), "ratio": ratio.value} for ratio in ratios]
        arguments.out.write_text(json.dumps({"machine": machine, "ratios": rows}, indent=1))


if __name__ == "__main__":
    main()
