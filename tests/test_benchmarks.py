"""The harness of the benchmarks at tiny sizes, and the page that is made of its files. No times."""

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import page
from benchmarks.harness import Ratio, medians
from benchmarks.run import BENCHMARKS, FOLDER, PAGE, document, line, main
from repetition import times

ROOT = Path(__file__).parents[1]

# With a run at tiny sizes; the others measure nothing that depends on a size.
TINY = times(["groups"], ["census", "groups", "passes", "memory", "startup", "growth"])
EXPECTED = {
    "census": {
        *(f"{a} {w}" for a in ("blind", "aware") for w in ("sub-sample 5 %", "full EM")),
        *(f"{a} mini-batch 10 %" for a in ("blind", "aware")),
        "plain spherical",
        "plain diag",
    },
    "startup": {
        "import fairmix",
        "from fairmix import FairMixture",
        "fairmix --help",
    },
}


@pytest.fixture(scope="module")
def tiny_run(tmp_path_factory):
    out = tmp_path_factory.mktemp("run")
    command = [sys.executable, "-m", "benchmarks.run", *TINY]
    done = subprocess.run(
        [*command, "--tiny", "--repeats", "1", "--out", str(out)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return out, done.stdout


def test_verdicts():
    fast, slow = Ratio("a", 1, "b", 2, 0.5), Ratio("a", 2, "b", 2, 0.9)
    assert (fast.value, fast.verdict) == (0.5, "pass")
    assert (slow.value, slow.verdict) == (1.0, "MISS")
    assert Ratio("a", 1, "b", 2, None).verdict == ""


def test_repeats_take_turns():
    calls = []
    found = medians({"one": lambda: calls.append(1), "two": lambda: calls.append(2)}, 3)
    assert calls == [1, 2] * 3
    assert set(found) == {"one", "two"}


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_benchmark_has_a_section_and_a_title(name):
    pytest.importorskip("distributed")
    module = importlib.import_module(f"benchmarks.{name}")
    assert callable(module.run)
    assert module.__doc__.splitlines()[0].endswith(".")
    assert name in page.SECTIONS


@pytest.mark.repeats
def test_every_bound_is_printed_and_written(tiny_run):
    out, printed = tiny_run
    lines = printed.splitlines()
    ratios = [
        (name, ratio)
        for name in TINY
        for ratio in json.loads((out / f"{name}.json").read_text())["ratios"]
    ]
    assert len(lines) == len(ratios) + 1
    for (name, ratio), shown in zip(ratios, lines, strict=False):
        assert shown.startswith(f"{name:<9} {ratio['name']}")
        assert ratio["amount"] > 0 or name in ("groups", "growth", "memory")
        assert ratio["ratio"] == pytest.approx(ratio["amount"] / ratio["floor_amount"], nan_ok=True)
        holds = ratio["bound"] is None or ratio["ratio"] <= ratio["bound"]
        assert ratio["verdict"] == ("" if ratio["bound"] is None else "pass" if holds else "MISS")
        assert ratio["verdict"] in shown
    judged = [ratio["verdict"] for _, ratio in ratios if ratio["verdict"]]
    assert lines[-1] == f"{judged.count('pass')} of {len(judged)} bounds pass"


@pytest.mark.long
@pytest.mark.parametrize("name", EXPECTED)
def test_what_is_measured(name, tiny_run):
    ratios = json.loads((tiny_run[0] / f"{name}.json").read_text())["ratios"]
    assert {ratio["name"] for ratio in ratios} == EXPECTED[name]


@pytest.mark.long
def test_growth_has_every_method_and_its_points(tiny_run):
    pytest.importorskip("matplotlib")
    found = page.read(tiny_run[0], BENCHMARKS)
    assert list(found) == TINY
    growth = found["growth"]["ratios"]
    assert {r["name"].split(", ", 1)[1] for r in growth} == set(page.COLORS)
    assert {r["bound"] for r in growth if r["name"].startswith("pass in N, fairmix")} == {1.03}
    assert all(len(r["details"]["sizes"]) == len(r["details"]["seconds"]) == 2 for r in growth)
    picture = tiny_run[0] / "growth.svg"
    page.draw(found, picture)
    assert 10_000 < picture.stat().st_size < 200_000


def test_an_unknown_name_is_refused(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["benchmarks.run", "kernels"])
    with pytest.raises(SystemExit) as refusal:
        main()
    assert refusal.value.code == 2
    assert "'kernels' is not a benchmark" in capsys.readouterr().err


def test_a_page_has_a_row_for_every_ratio_and_counts_verdicts():
    ratios = [
        Ratio("quick", 1.5, "a pass", 3, 0.6, details={"gap": 0.01}),
        Ratio("slow", 1234, "a pass", 3, 2),
        Ratio("free", 1, "a pass", 3, None),
    ]
    text = page.text({"kernel": document("kernel", "A title.\n\nMore.", ratios, 2)})
    assert "Targets met: 1. Missed: 1." in text
    assert "| quick | 1.5 s | a pass: 3 s | 0.5 | 0.6 | pass |" in text
    assert "| slow | 1,234 s | a pass: 3 s | 411 | 2 | MISS |" in text
    assert "| free | 1 s | a pass: 3 s | 0.333 |  |  |" in text
    assert "A title.\n" in text
    assert "More." not in text
    assert "Not measured: fits, census" in text
    assert "quick" in line("kernel", ratios[0])


def test_the_page_is_current_with_the_files():
    found = page.read(FOLDER, BENCHMARKS)
    assert PAGE.read_text(encoding="utf-8") == page.text(found), "run scripts/bench --page"
    if "growth" in found:
        assert (FOLDER / page.PICTURE).stat().st_size < 200_000
    assert {path.stem for path in FOLDER.glob("*.json")} <= set(BENCHMARKS)


def test_the_files_are_plain_json():
    for path in FOLDER.glob("*.json"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"NaN|Infinity", text), path.name
