"""``fairmix repair``: labels beside the old ones, moves, costs and two reports."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from fairmix.cli.app import app
from fairmix.metrics import gap

N = 600


@pytest.fixture
def people(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    sex = rng.choice(["f", "m"], N)
    cluster = rng.integers(3, size=N)
    cluster[(sex == "f") & (rng.random(N) < 0.3)] = 0
    job = np.where(rng.random(N) < 0.7, np.array(["a", "b", "c"])[cluster], "a")
    table = pa.table(
        {
            "person": [f"p{i:04}" for i in range(N)],
            "x": rng.normal(cluster * 1.5),
            "job": job,
            "sex": sex,
            "cluster": np.where(np.arange(N) < 20, -1, cluster),
        }
    )
    path = tmp_path / "people.csv"
    pcsv.write_csv(table, path)
    return path


def run(*arguments: object) -> Any:
    return CliRunner().invoke(app, ["repair", *map(str, arguments)])


def test_labels_moves_and_reports(people: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    rule = ("--labels", "cluster", "-s", "sex", "--max-gap", "0.02")
    done = run(people, *rule, "--id", "person", "--out", out, "--strict")
    assert done.exit_code == 0, done.output
    table = pcsv.read_csv(out / "labels.csv")
    assert table.column_names == ["person", "old", "new", "moved"]
    given = pcsv.read_csv(people)
    assert table["person"].equals(given["person"])
    assert table["old"].equals(given["cluster"])
    old, new = np.asarray(table["old"]), np.asarray(table["new"])
    # Noise stays, and counts for nothing.
    np.testing.assert_array_equal(new[:20], -1)
    assert gap(new[20:], np.asarray(given["sex"])[20:]) <= 0.02 + 1e-12
    assert gap(old[20:], np.asarray(given["sex"])[20:]) > 0.05
    np.testing.assert_array_equal(np.asarray(table["moved"]), old != new)
    said = json.loads((out / "metrics.json").read_text())
    assert said["moved"] == int((old != new).sum())
    assert said["after"]["met"] is True
    assert said["before"]["met"] is False
    assert 0 <= said["excess"] <= 0.001 * said["cost"]
    # No move of fewer rows than a report may show.
    assert all(move["rows"] >= 5 for move in said["moves"])
    shown = {(move["from"], move["to"]): move["rows"] for move in said["moves"]}
    for (a, b), rows in shown.items():
        assert rows == int(((old == int(a)) & (new == int(b))).sum())
    assert f"{said['moved']:,} of {N} rows moved" in done.output
    for page in ("before.html", "after.html"):
        text = (out / page).read_text(encoding="utf-8")
        assert "p0001" not in text
        assert "</html>" in text
    # The table of moves is in the second report, as ranges that leave small moves open.
    assert "Rows that moved" not in (out / "before.html").read_text(encoding="utf-8")
    listed = re.findall(r"<tr><td>(\S+)</td><td>(\S+)</td><td class=\"n\">(\d+) to (\d+)<", text)
    assert listed
    for a, b, low, high in listed:
        assert 5 <= int(low) <= shown[a, b] <= int(high) == int(low) + 9


def test_labels_in_a_file_of_their_own(people: Path, tmp_path: Path) -> None:
    given = pcsv.read_csv(people)
    bare = tmp_path / "bare.csv"
    pcsv.write_csv(given.drop_columns("cluster"), bare)
    alone, by_id = tmp_path / "cluster.csv", tmp_path / "shuffled.parquet"
    pcsv.write_csv(given.select(["cluster"]), alone)
    order = np.random.default_rng(1).permutation(N)
    pq.write_table(given.select(["cluster", "person"]).take(pa.array(order)), by_id)
    rule = ("-s", "sex", "--min-ratio", 0.8, "--id", "person", "--quiet", "--out")
    run(people, "--labels", "cluster", *rule, tmp_path / "column")
    for name, labels in (("alone", alone), ("by_id", by_id)):
        done = run(bare, "--labels", labels, *rule, tmp_path / name)
        assert done.exit_code == 0, done.output
        for file in ("labels.csv", "metrics.json"):
            same = [(tmp_path / way / file).read_text() for way in ("column", name)]
            assert same[0].replace(str(people), "") == same[1].replace(str(bare), "")
    # An audit reads the same files.
    said = CliRunner().invoke(app, ["audit", str(bare), "-l", str(alone), "-s", "sex"])
    assert said.exit_code == 0, said.output
    few, twice, wide = (tmp_path / name for name in ("few.csv", "twice.csv", "wide.csv"))
    pcsv.write_csv(given.select(["cluster"]).slice(0, 10), few)
    pcsv.write_csv(given.select(["cluster", "person"]).take(pa.array([0] * N)), twice)
    pcsv.write_csv(given.select(["x", "job"]), wide)
    for labels, words in (
        (few, "has 10 rows"),
        (twice, "--id person repeats in"),
        (wide, "has the columns x, job"),
        (tmp_path / "none.csv", "there is no such file"),
    ):
        refused = run(bare, "--labels", labels, *rule, tmp_path / "refused")
        assert refused.exit_code == 3
        assert words in " ".join(refused.output.split())
    both = run(people, "--labels", alone, *rule, tmp_path / "refused")
    assert "Leave the latter out with --drop cluster" in " ".join(both.output.split())
    dropped = run(people, "--labels", alone, "--drop", "cluster", *rule, tmp_path / "dropped")
    assert dropped.exit_code == 0
    pq.write_table(pq.read_table(by_id).slice(0, N - 7), by_id)
    lacking = run(bare, "--labels", by_id, *rule, tmp_path / "refused")
    assert "lacks 7 of the 600 rows" in " ".join(lacking.output.split())


def test_attributes_are_judged_each_by_itself(people: Path, tmp_path: Path) -> None:
    given = pcsv.read_csv(people)
    rng = np.random.default_rng(2)
    west = np.where(rng.random(N) < 0.2 + 0.2 * (np.asarray(given["cluster"]) == 1), "west", "east")
    path = tmp_path / "regions.csv"
    pcsv.write_csv(given.append_column("region", pa.array(west)), path)
    rule = ("--labels", "cluster", "-s", "sex", "-s", "region", "--attributes", "each")
    done = run(path, *rule, "--max-gap", 0.03, "--out", tmp_path / "out", "--strict")
    assert done.exit_code == 0, done.output
    new = np.asarray(pcsv.read_csv(tmp_path / "out" / "labels.csv")["new"])
    said = json.loads((tmp_path / "out" / "metrics.json").read_text())
    for name, values in (("sex", np.asarray(given["sex"])), ("region", west)):
        own = said["after"]["attributes"][name]
        assert own["met"] is True
        np.testing.assert_allclose(gap(new[20:], values[20:]), own["gap"])
        assert f"{name}: met" in done.output
    assert said["before"]["met"] is False
    assert said["after"]["met"] is True


def test_options_of_a_fit(people: Path, tmp_path: Path) -> None:
    given = pcsv.read_csv(people)
    # Each person twice, and ten of a third sex.
    sex = np.asarray(given["sex"]).astype(object)
    sex[100:110] = "x"
    table = given.set_column(given.column_names.index("sex"), "sex", pa.array(sex))
    path = tmp_path / "twice.csv"
    pcsv.write_csv(pa.concat_tables([table, table]), path)
    rule = ("--labels", "cluster", "-s", "sex", "--quiet", "--out")
    done = run(path, *rule, tmp_path / "a", "--max-gap", 0.05, "--ties", "together")
    assert done.exit_code == 0, done.output
    new = np.asarray(pcsv.read_csv(tmp_path / "a" / "labels.csv")["new"])
    np.testing.assert_array_equal(new[:N], new[N:])
    said = json.loads((tmp_path / "a" / "metrics.json").read_text())
    assert said["after"]["unjudged"] == {"x": 20}
    # All three groups are judged now. No labels have a Balance above that of all rows.
    lower = ("--min-group-size", 5, "--min-balance", 0.5, "--strict")
    missed = run(path, *rule, tmp_path / "b", *lower)
    assert missed.exit_code == 1
    said = json.loads((tmp_path / "b" / "metrics.json").read_text())
    assert said["after"]["met"] is False
    assert said["after"]["balance"] <= 20 / (np.asarray(sex) == "m").sum()


def test_refusals(people: Path, tmp_path: Path) -> None:
    rule = ("--labels", "cluster", "-s", "sex")
    assert "Give a rule" in run(people, *rule).output
    assert "different rules" in run(people, *rule, "--max-gap", 0.1, "--min-ratio", 0.8).output
    wrong = run(people, *rule, "--max-gap", 0.1, "--id", "nobody", "--out", tmp_path / "a")
    assert wrong.exit_code == 3
    assert "--id nobody" in wrong.output
    assert not (tmp_path / "a").exists()
    text = people.read_text().splitlines()
    text[1] = text[1].replace(text[1].split(",")[1], "")
    holed = tmp_path / "holed.csv"
    holed.write_text("\n".join(text) + "\n")
    lacking = run(holed, *rule, "--max-gap", 0.1, "--out", tmp_path / "b")
    assert lacking.exit_code == 3
    assert "lacks 1 values" in lacking.output
    dropped = run(holed, *rule, "--max-gap", 0.1, "--out", tmp_path / "b", "--drop", "x", "--quiet")
    assert dropped.exit_code == 0
