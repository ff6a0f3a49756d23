"""Run the tests of reliability in their long form and the fuzz, and write what they found.

Figures go to docs/reliability.json, and from there to docs/reliability.md and docs/numerics.md. A
part that fails keeps its old figures, and the exit code is 1. The fuzz needs: pip install atheris.
"""

from __future__ import annotations

import argparse
import base64
import collections
import json
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
FIGURES = DOCS / "reliability.json"
PAGES = ("reliability", "numerics")
FUZZED = ("model_file", "text_file")
FUZZ_SECONDS = 600  # of each target, as the page says
TESTS = (
    "test_inputs",
    "test_inputs_degenerate",
    "test_inputs_files",
    "test_inputs_groups",
    "test_inputs_measures",
    "test_inputs_methods",
    "test_inputs_predict",
    "test_properties",
    "test_properties_fits",
    "test_determinism",
    "test_checkpoint",
    "test_dask",
    "test_faults",
    "test_faults_files",
    "test_faults_signals",
    "test_hostile_files",
    "test_wide",
    "test_words",
    "test_persistence_hostile",
    "test_persistence_document",
    "test_report",
    "test_report_attack",
    "test_report_disclosure",
    "test_numerics",
)
HYPOTHESIS = "hypothesis-statistics-"
Figures = dict[str, Any]


def run_tests(name: str) -> Figures | None:
    """What the tests of a file found; None when one failed."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        # One process: Hypothesis tells its numbers only there.
        words = [sys.executable, "-m", "pytest", "-q", f"tests/{name}.py"]
        words += ["-o", "junit_family=xunit1", f"--junitxml={report}"]
        long = {"FAIRMIX_LONG": "1", "FAIRMIX_EXAMPLES": "1000"}
        environment = os.environ | long | {"OMP_NUM_THREADS": "1"}
        if subprocess.run(words, cwd=ROOT, env=environment, check=False).returncode:
            return None
        return read_report(ElementTree.parse(report).getroot())


def read_report(root: ElementTree.Element) -> Figures:
    """Counts of a report, and what its tests recorded."""
    cases = list(root.iter("testcase"))
    skipped = sum(case.find("skipped") is not None for case in cases)
    verdicts: collections.Counter[str] = collections.Counter()
    records = {}
    for case in cases:
        found = {str(p.get("name")): p.get("value") for p in case.iter("property")}
        verdict = found.pop("verdict", None)
        if verdict is not None:
            verdicts[verdict] += 1
        if found:
            records[str(case.get("name"))] = {k: _number(v) for k, v in found.items()}
    statistics = [
        base64.b64decode(str(entry.get("value"))).decode()
        for entry in root.iter("property")
        if str(entry.get("name")).startswith(HYPOTHESIS)
    ]
    examples = sum(
        int(count) for text in statistics for count in re.findall(r"(\d+) passing", text)
    )
    figures = {"passed": len(cases) - skipped, "skipped": skipped, "examples": examples}
    return figures | {"verdicts": dict(sorted(verdicts.items())), "records": records}


def _number(text: str | None) -> float | int:
    value = float(text or "nan")
    return int(value) if value.is_integer() else float(f"{value:.2g}")


def run_fuzz(target: str) -> Figures | None:
    """What a fuzz found; None when it found a crash."""
    words = ["bash", "scripts/fuzz", target, str(FUZZ_SECONDS), "build/fuzz"]
    if subprocess.run(words, cwd=ROOT, check=False).returncode:
        return None
    found: Figures = json.loads((ROOT / "build" / "fuzz" / f"{target}.json").read_text("utf-8"))
    return found


def kept() -> Figures:
    """The figures of earlier runs."""
    if not FIGURES.exists():
        return {"tests": {}, "fuzz": {}}
    found: Figures = json.loads(FIGURES.read_text("utf-8"))
    return found


def rendered(figures: Figures) -> dict[Path, str]:
    """The pages, from their templates and the figures."""
    templates = Environment(
        loader=FileSystemLoader(DOCS / "_templates"),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        autoescape=False,  # Markdown
    )
    tests = figures["tests"]
    inputs = [found["verdicts"] for name, found in tests.items() if name.startswith("test_inputs")]
    verdicts = {name: sum(v.get(name, 0) for v in inputs) for name in ("works", "refused")}
    signals = tests.get("test_faults_signals", {}).get("records", {}).values()
    values = {
        "tests": tests,
        "fuzz": figures["fuzz"],
        "verdicts": verdicts,
        "signals": {end: sum(found[end] for found in signals) for end in ("old", "new")},
        "known": {*tests, *figures["fuzz"]}.issuperset,
    }
    return {
        DOCS / f"{name}.md": templates.get_template(f"{name}.md.jinja").render(values)
        for name in PAGES
    }


def main() -> int:
    """Run parts and write the pages, or only write them, or only compare."""
    every = (*TESTS, *FUZZED)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", help=f"which of {', '.join(every)} (all)")
    parser.add_argument(
        "--render", action="store_true", help="only the pages, from the figures of earlier runs"
    )
    parser.add_argument("--check", action="store_true", help="write nothing; fail if one is old")
    arguments = parser.parse_args()
    unknown = sorted({*arguments.parts} - {*every})
    if unknown:
        parser.error(f"{unknown[0]!r} is not a part; there are {', '.join(every)}")
    if arguments.check:
        old = [path for path, text in rendered(kept()).items() if path.read_text("utf-8") != text]
        return 1 if old else 0
    failed = [] if arguments.render else run_parts(arguments.parts or every)
    for path, text in rendered(kept()).items():
        path.write_text(text, "utf-8")
    print(f"failed: {', '.join(failed)}" if failed else "nothing failed")
    return 1 if failed else 0


def run_parts(parts: Sequence[str]) -> list[str]:
    """Run parts, keep what they found, and give the names of those that failed."""
    failed = []
    for part in parts:
        kind, run = ("fuzz", run_fuzz) if part in FUZZED else ("tests", run_tests)
        found = run(part)
        if found is None:
            failed.append(part)
            continue
        # Written after each: a later part may take ten minutes, or be ended.
        figures = kept()
        figures[kind][part] = found
        FIGURES.write_text(json.dumps(figures, indent=1, sort_keys=True) + "\n", "utf-8")
    return failed


if __name__ == "__main__":
    sys.exit(main())
