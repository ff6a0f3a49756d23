"""Every entry runs on few rows, and a run goes on where it stopped."""

import json
import os
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from fairmix.cli.reproduce import reproduce
from fairmix.reproduction import ENTRIES, Settings, choose, run, store, write_page
from fairmix.reproduction import methods as m
from fairmix.reproduction.extras import EXTRAS, sampling_error
from fairmix.reproduction.result import Entry, Result
from fairmix.reproduction.running import bundle
from fairmix.reproduction.sweeps import sweep
from fairmix.reproduction.views import Prepared, View, describe, prepare
from repetition import long

SMOKE = Settings.smoke()
FETCHED = {"bank", "credit"}
LARGEST_FIGURE = 200_000  # bytes


def has_data(entry: Entry) -> bool:
    needed = {task.view.data for task in entry.units(SMOKE)} & FETCHED
    return not needed or bool(os.environ.get("FAIRMIX_DATA"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder, so that entries share their units."""
    return tmp_path_factory.mktemp("smoke") / "reproduction"


# Of each kind one, and all in the long run.
USUAL = {"front-delta", "mixed", "proposition-1"}


@pytest.mark.parametrize("name", [name if name in USUAL else long(name) for name in ENTRIES])
def test_entry_runs_on_500_rows(name: str, folder: Path) -> None:
    entry = ENTRIES[name]
    if not has_data(entry):
        pytest.skip("Bank and Credit are not bundled: set FAIRMIX_DATA")
    result = run([entry], SMOKE, folder)[name]
    document = json.loads((folder / f"{name}.json").read_text())
    tasks = set(entry.units(SMOKE))
    assert document["complete"]
    assert document["errors"] == []
    assert len(document["units"]) == len(tasks)
    assert all(record["unit"]["view"]["rows"] == 500 for record in document["units"])
    assert all(len(row) == len(t.columns) for t in result.tables for row in t.rows)
    assert sum(len(table.rows) for table in result.tables) > 0
    if result.panels:
        picture = (folder / f"{name}.svg").read_text()
        assert picture.startswith("<?xml")
        assert len(picture) < LARGEST_FIGURE
        assert "<image" not in picture  # nothing is rasterised


def test_list_of_the_issue_is_covered() -> None:
    assert list(ENTRIES) == [
        "front-delta",
        "front-balance",
        "front-delta-raw",
        "front-balance-raw",
        "starts-delta",
        "starts-balance",
        "fca-table",
        "census-front",
        "census-front-raw",
        "census-times",
        "subsampling",
        "subsampling-raw",
        "categorical-2",
        "categorical-3",
        "three-groups",
        "clusters",
        "covariance",
        "convergence",
        "delta-balance",
        "mixed",
        "proposition-1",
        "corollary",
        "soft-and-hard",
        "balance-bound",
        "tuning",
    ]


def timeless(path: Path) -> dict[str, object]:
    """A document without what differs from run to run."""
    document = json.loads(path.read_text())
    for record in document["units"]:
        del record["numbers"]["cpu_seconds"]
    return document


def test_run_resumes_where_it_stopped(tmp_path: Path) -> None:
    entry = ENTRIES["tuning"]
    first, whole = tmp_path / "first", tmp_path / "whole"
    assert run([entry], SMOKE, first, stop_after=5) == {}
    stopped = json.loads((first / "tuning.json").read_text())
    assert not stopped["complete"]
    assert len(stopped["units"]) == 5
    assert run([entry], SMOKE, first).keys() == {"tuning"}
    resumed = json.loads((first / "tuning.json").read_text())
    # Not measured again: even the times are those of the first run.
    assert resumed["units"][:5] == stopped["units"]
    run([entry], SMOKE, whole)
    assert timeless(first / "tuning.json") == timeless(whole / "tuning.json")


@pytest.mark.long
def test_two_processes_give_the_numbers_of_one(tmp_path: Path) -> None:
    entry = ENTRIES["corollary"]
    run([entry], SMOKE, tmp_path / "one")
    run([entry], SMOKE, tmp_path / "two", jobs=2)
    assert timeless(tmp_path / "one" / "corollary.json") == timeless(
        tmp_path / "two" / "corollary.json"
    )


def test_entries_share_units(tmp_path: Path) -> None:
    front, times = ENTRIES["census-front"], ENTRIES["census-times"]
    run([front], SMOKE, tmp_path)
    assert run([times], SMOKE, tmp_path, stop_after=0).keys() == {"census-times"}


def test_units_that_differ_by_their_extras_are_one_fit(tmp_path: Path) -> None:
    entries = choose(["proposition-1", "soft-and-hard", "corollary"])
    plain, sharp = (
        sweep(SMOKE, SMOKE.view("adult"), m.MM_EM, extras=extras)[0]
        for extras in ((), ("history",))
    )
    assert [set(own) for own in bundle([plain, sharp]).values()] == [{plain, sharp}]
    assert [fitted.extras for fitted in bundle([plain, sharp])] == [("history",)]
    if not os.environ.get("FAIRMIX_DATA"):
        pytest.skip("Bank and Credit are not bundled: set FAIRMIX_DATA")
    run(entries, SMOKE, tmp_path)
    documents = [json.loads((tmp_path / f"{entry.name}.json").read_text()) for entry in entries]
    seconds, extras = [], []
    for document in documents:
        for record in document["units"]:
            unit, numbers = record["unit"], record["numbers"]
            assert set(EXTRAS) & set(numbers) == set(unit["extras"])
            if unit["method"] == m.MM_EM and unit["view"]["data"] == "adult":
                seconds.append(numbers["cpu_seconds"])
                extras.append(unit["extras"])
    assert extras == [["sampling_error"], ["sharpness"]]
    assert seconds[0] == seconds[1]  # measured once


def test_sampling_error_has_a_slope_of_one_half() -> None:
    """Proposition 1, on synthetic responsibilities."""
    rng = np.random.default_rng(6)
    groups = (rng.random(20_000) < 0.4).astype(int)
    shapes = np.where(groups[:, None] == 0, [1.0, 1.0, 2.0], [1.5, 1.0, 1.0])
    soft = rng.standard_gamma(shapes)
    soft /= soft.sum(axis=1, keepdims=True)
    model = SimpleNamespace(predict_proba=lambda X: soft[X])
    found = sampling_error(model, Prepared(np.arange(20_000), None, groups, None))
    slope = np.polyfit(np.log(found["n"]), np.log(found["mean"]), 1)[0]
    assert slope == pytest.approx(-0.5, abs=0.1)
    assert all(found["largest"][i] >= found["mean"][i] for i in range(len(found["n"])))


def test_units_of_another_version_are_not_used(tmp_path: Path) -> None:
    entry = ENTRIES["proposition-1"]
    run([entry], SMOKE, tmp_path)
    path = tmp_path / "proposition-1.json"
    path.write_text(path.read_text().replace('"fairmix": "', '"fairmix": "0.0.0+'))
    assert run([entry], SMOKE, tmp_path, stop_after=0) == {}


def test_units_of_another_commit_are_renewed_on_demand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = ENTRIES["clusters"]
    path = tmp_path / "clusters.json"

    def commits() -> dict[str, set[str]]:
        units = json.loads(path.read_text())["units"]
        methods = {record["unit"]["method"] for record in units}
        return {
            name: {record["commit"] for record in units if record["unit"]["method"] == name}
            for name in methods
        }

    monkeypatch.setattr(store, "commit", lambda: "first")
    assert run([entry], SMOKE, tmp_path, methods=[m.MM_EM]) == {}  # others are missing
    assert commits() == {m.MM_EM: {"first"}}
    monkeypatch.setattr(store, "commit", lambda: "second")
    assert run([entry], SMOKE, tmp_path).keys() == {"clusters"}
    mixed = {m.MM_EM: {"first"}, m.FMC_EM: {"second"}, m.LABELS: {"second"}}
    assert commits() == mixed
    assert run([entry], SMOKE, tmp_path, renew=True, methods=[m.LABELS], stop_after=0)
    assert commits() == mixed
    run([entry], SMOKE, tmp_path, renew=True)
    assert commits() == {name: {"second"} for name in mixed}


def test_commit_is_the_last_that_changed_the_package() -> None:
    found = store.commit()
    # None in a copy without its history.
    assert found is None or re.fullmatch(r"[0-9a-f]{10,}\+?", found)


def test_unknown_methods_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no method 'kmeans'.*K-means"):
        run(choose(["clusters"]), SMOKE, tmp_path, methods=["kmeans"])


def test_a_failed_unit_is_told_and_tried_again(tmp_path: Path) -> None:
    # SFC is for two groups, so a method of three fails; K-means goes on.
    if not os.environ.get("FAIRMIX_DATA"):
        pytest.skip("Bank is not bundled: set FAIRMIX_DATA")
    view = SMOKE.view("bank", groups=3)
    tasks = [*sweep(SMOKE, view, m.KMEANS), *sweep(SMOKE, view, m.SFC)]
    entry = Entry("broken", "", "", "", lambda _: tasks, lambda _, __: Result())
    assert run([entry], SMOKE, tmp_path).keys() == {"broken"}
    document = json.loads((tmp_path / "broken.json").read_text())
    assert [record["unit"]["method"] for record in document["units"]] == ["K-means"]
    assert [failure["unit"]["method"] for failure in document["errors"]] == ["SFC"]
    assert "groups" in document["errors"][0]["error"]
    assert run([entry], SMOKE, tmp_path, stop_after=0) == {}


def test_document_names_versions_and_machine_but_no_host(tmp_path: Path) -> None:
    run([ENTRIES["proposition-1"]], SMOKE, tmp_path)
    document = json.loads((tmp_path / "proposition-1.json").read_text())
    assert set(document["versions"]) == {
        "fairmix",
        "python",
        "numpy",
        "scipy",
        "scikit-learn",
        "POT",
    }
    assert document["machine"].keys() == {"cores", "architecture", "system"}
    assert document["settings"]["seeds"] == [0]


def test_settings_of_runs() -> None:
    full, quick = Settings.full(seeds=5), Settings.quick()
    assert full.seeds == (0, 1, 2, 3, 4)
    assert (full.em, full.gd) == ({}, {})  # the paper's own
    assert quick.seeds == (0,)
    assert len(quick.band_seeds) == 3
    # A full run goes on from a quick one.
    assert set(quick.bounds) <= set(full.bounds)
    assert set(quick.balances) <= set(full.balances)


def test_views_are_prepared_as_in_the_paper() -> None:
    unit = prepare(View("adult", rows=500))
    raw = prepare(View("adult", rows=500, unit_length=False))
    assert unit.numeric is not None
    assert raw.numeric is not None
    assert (unit.numeric**2).sum(axis=1) == pytest.approx(1.0)
    assert raw.numeric.mean(axis=0) == pytest.approx(0.0, abs=1e-12)
    assert raw.numeric.std(axis=0) == pytest.approx(1.0)
    assert prepare(View("adult", "categorical", rows=500)).X.num_columns == 7
    assert describe(View("census-like", rows=1000)) == (
        "census-like (synthetic), 1,000 rows, continuous, standardised, rows of length 1, 2 groups"
    )


@pytest.fixture
def app() -> typer.Typer:
    app = typer.Typer()
    app.command()(reproduce)
    return app


def test_command_lists_entries(app: typer.Typer) -> None:
    done = CliRunner().invoke(app, ["--list"])
    assert done.exit_code == 0
    assert [line.split()[0] for line in done.output.splitlines()] == list(ENTRIES)


def test_command_needs_a_name(app: typer.Typer) -> None:
    assert CliRunner().invoke(app, []).exit_code == 2


def test_command_refuses_unknown_names(app: typer.Typer, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["fronts", "--out", str(tmp_path / "x")])
    assert done.exit_code == 3
    assert "front-delta" in done.output


def test_command_writes_the_page_from_files(app: typer.Typer, tmp_path: Path) -> None:
    out = tmp_path / "reproduction"
    run(choose(["proposition-1"]), SMOKE, out)
    done = CliRunner().invoke(app, ["--page", "--out", str(out)])
    assert done.exit_code == 0
    text = (tmp_path / "reproduction.md").read_text()
    assert "![Proposition 1" in text
    assert "(reproduction/proposition-1.svg)" in text
    write_page(out, tmp_path / "reproduction.md")
    assert (tmp_path / "reproduction.md").read_text() == text
