"""The paper's numbers, what is concluded from records, and the text of the page."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from fairmix.reproduction import ENTRIES, Settings, paper
from fairmix.reproduction import methods as m
from fairmix.reproduction.entries.fronts import cheaper_than_sfc, competitive
from fairmix.reproduction.page import documents, render, table
from fairmix.reproduction.records import Records, cheapest, cost_at, fairest, front
from fairmix.reproduction.result import FAILS, FOR_US, HOLDS, Claim, measured
from fairmix.reproduction.units import Unit, unit
from fairmix.reproduction.views import View

VIEW = View("adult")


@pytest.mark.parametrize(
    ("found", "printed"),
    [
        (paper.ALIGNMENT["adult"][m.KMEANS], (0.169, 9509)),
        (paper.ALIGNMENT["bank"][m.KMEANS], (0.246, 8513)),
        (paper.ALIGNMENT["adult"][m.FCA], (0.494, 10680)),
        (paper.ALIGNMENT["bank"][m.FCA], (0.645, 10853)),
        (paper.ALIGNMENT["adult"][m.FMC_GD], (0.467, 14921)),
        (paper.ALIGNMENT["bank"][m.FMC_GD], (0.635, 15725)),
        (paper.ALIGNMENT["adult"][m.FMC_EM], (0.481, 12715)),
        (paper.ALIGNMENT["bank"][m.FMC_EM], (0.629, 16635)),
        (paper.SUBSAMPLING[True][None], (10.857, 0.002, 0.896, 1.0)),
        (paper.SUBSAMPLING[False][0.03], (2.907, 0.006, 0.895, 0.545)),
        (paper.CATEGORICAL[2]["credit"][m.FMC_EM], (0.739, 7.706, 0.001)),
        (paper.CATEGORICAL[3]["bank"][m.FMC_GD], (0.180, 10.026, 0.002)),
        (paper.THREE_GROUPS["credit"][m.FMC_EM, 4.0], (0.295, 22047, 0.017)),
        (paper.MIXED[m.FMC_EM, "mixed", 10.0], (0.706, 0.000, 0.488)),
        (paper.SECONDS[m.VFC], (5053.0, 915.5)),
    ],
)
def test_numbers_of_the_paper(found: tuple[float, ...], printed: tuple[float, ...]) -> None:
    assert tuple(found) == printed


def test_every_printed_row_is_there() -> None:
    assert [len(rows) for rows in paper.ALIGNMENT.values()] == [6, 6]
    assert [len(rows) for rows in paper.SUBSAMPLING.values()] == [5, 5]
    assert [len(c) for by in paper.CATEGORICAL.values() for c in by.values()] == [4] * 5
    assert [len(rows) for rows in paper.THREE_GROUPS.values()] == [5, 5]
    assert len(paper.MIXED) == 6


def numbers(cost: float, gap: float, balance: float, clusters: int = 3) -> dict[str, object]:
    return {
        "cost": cost,
        "gap": gap,
        "balance": balance,
        "clusters": clusters,
        "soft_gap": None,
        "nll": None,
        "warnings": [],
    }


def fit(method: str, strength: float | None = None, seed: int = 0) -> Unit:
    settings = {} if strength is None else {"fairness_strength": strength}
    return unit(VIEW, method, 3, seed, **settings)


def test_points_are_means_over_seeds() -> None:
    records = Records(
        {
            fit(m.FMC_EM, 1.0, 0): numbers(10, 0.1, 0.2),
            fit(m.FMC_EM, 1.0, 1): numbers(14, 0.3, 0.4, clusters=2),
            fit(m.FMC_EM, 2.0): numbers(20, 0.05, 0.5),
            fit(m.SFC): {"error": "ValueError: no"},
        }
    )
    (point,) = records.points(m.FMC_EM, having={"fairness_strength": 1.0})
    assert point["cost"] == 12
    assert point.spread("cost") == 2
    assert not point.filled
    assert records.one(m.SFC) is None


@pytest.fixture
def line() -> Records:
    """A front 30, 20, 10 at Delta 0, 0.1, 0.2, one dominated point and one that lost clusters."""
    return Records(
        {
            fit(m.FMC_EM, 1.0): numbers(10, 0.2, 0.1),
            fit(m.FMC_EM, 2.0): numbers(20, 0.1, 0.3),
            fit(m.FMC_EM, 3.0): numbers(25, 0.15, 0.2),
            fit(m.FMC_EM, 4.0): numbers(30, 0.0, 0.4),
            fit(m.FMC_EM, 5.0): numbers(5, 0.0, 0.5, clusters=1),
        }
    )


def test_front_leaves_out_dominated_points(line: Records) -> None:
    points = [point for point in line if point.filled]
    assert [point["cost"] for point in front(points, "gap")] == [30, 20, 10]
    assert [point["cost"] for point in front(points, "balance")] == [10, 20, 30]


@pytest.mark.parametrize(("gap", "cost"), [(0.05, 25), (0.1, 20), (0.4, 10), (-0.1, None)])
def test_cost_between_points_of_a_front(line: Records, gap: float, cost: float | None) -> None:
    assert cost_at(line, gap) == (None if cost is None else pytest.approx(cost))


def test_fits_that_lost_clusters_do_not_count(line: Records) -> None:
    best, cheap = fairest(line), cheapest(line, lambda point: point["gap"] <= 0.1)
    assert best is not None
    assert best["balance"] == 0.4
    assert cheap is not None
    assert cheap["cost"] == 20


@pytest.mark.parametrize(
    ("tree", "trees", "aware", "verdict"),
    [
        (31, 29, 40, HOLDS),  # FMC-EM against SFC as published
        (29, 26, 25, FOR_US),  # ours against the best of ten trees
        (29, 26, 27, FAILS),
    ],
)
def test_claim_about_sfc_follows_the_costs(
    line: Records, tree: float, trees: float, aware: float, verdict: str
) -> None:
    known = {point.unit: point.runs[0] for point in line}
    rivals = {
        fit(m.SFC_ONE): numbers(tree, 0.001, 0.4),
        fit(m.SFC): numbers(trees, 0.001, 0.4),
        fit(m.AWARE): numbers(aware, 0.001, 0.4),
    }
    for x, level in (("gap", "Delta 0.0010"), ("balance", "Balance 0.4000")):
        claim = cheaper_than_sfc(Records({**known, **rivals}), VIEW, x)
        assert claim.verdict == verdict
        assert claim.part == "Adult"
        assert claim.figures == (
            f"FMC-EM costs 30, our blind map has no such fit with all clusters, our aware "
            f"map costs {aware}; SFC "
            f"costs {tree} as published and {trees} as the best of ten trees, at {level}."
        )


@pytest.mark.parametrize(
    ("cost", "words"), [(20, "0.500 times"), (9.9997, "1.00003 times"), (9.9, "1.010 times")]
)
def test_ratios_near_one_have_more_digits(line: Records, cost: float, words: str) -> None:
    known = {point.unit: point.runs[0] for point in line}
    claim = competitive(Records({**known, fit(m.VFC): numbers(cost, 0.2, 0.1)}), VIEW)
    assert claim.figures == f"FMC-EM costs {words} as much as VFC at its Delta."


@pytest.mark.parametrize(
    ("holds", "ours", "words"),
    [
        (True, False, "holds"),
        (False, True, "holds for us, not as printed"),
        (False, False, "does not hold"),
        (None, False, "not measured"),
    ],
)
def test_verdicts(holds: bool | None, ours: bool, words: str) -> None:
    assert Claim("", holds, "", ours=ours).verdict == words


def test_cells_have_a_deviation_where_there_are_several_seeds() -> None:
    runs = {
        fit(m.FMC_EM, 1.0, 0): numbers(1000, 0.1, 0.2),
        fit(m.FMC_EM, 1.0, 1): numbers(1400, 0.3, 0.4),
        fit(m.SFC): numbers(2000, 0.1, 0.5),
    }
    several, single = Records(runs)
    assert measured(several, "cost") == "1,200 ± 200"
    assert measured(several, "gap", 4) == "0.2000 ± 0.1000"
    assert measured(several, "nll") == ""
    assert measured(single, "cost") == "2,000"


def check(part: str, verdict: str, **changes: object) -> dict[str, object]:
    return {
        "text": "C",
        "part": part,
        "verdict": verdict,
        "figures": f"F of {part}.",
        "beyond": False,
        **changes,
    }


def document(**changes: object) -> dict[str, object]:
    record = {
        "unit": {"seed": 0, "method": "FMC-EM", "settings": {"fairness_strength": 5.0}},
        "commit": "abc",
        "numbers": {"cpu_seconds": 2.4},
    }
    return {
        "entry": "fca-table",
        "title": "A title",
        "place": "Table 1",
        "paper_says": "FMC is behind.",
        "complete": True,
        "settings": {"mode": "quick", "seeds": [0]},
        "data": ["Adult, all rows"],
        "versions": {"fairmix": "1.2"},
        "tables": [{"title": "T", "columns": ["paper: Cost", "ours"], "rows": [["9,509", "9|1"]]}],
        "claims": [check("Adult", HOLDS), check("Bank", FAILS)],
        "notes": ["A note."],
        "gains": [],
        "figure": "fca-table.svg",
        "errors": [],
        "units": [record, record],
        **changes,
    }


def test_page_has_the_section_of_a_document() -> None:
    text = render([document()], link="files")
    section = text[text.index('<a id="fca-table"></a>') :]
    assert section == (
        '<a id="fca-table"></a>\n\n## A title\n\n*Table 1.* The paper: FMC is behind.\n\n'
        "Run: quick, seeds 0, 2 fits, 5 processor seconds, strengths 5. Data: Adult, all rows. "
        "By fairmix 1.2 at abc. [All numbers](files/fca-table.json).\n\n"
        "![A title](files/fca-table.svg)\n\n"
        "| claim | for | verdict | figures |\n|---|---|---|---|\n"
        "| C | Adult | holds | F of Adult. |\n| C | Bank | does not hold | F of Bank. |\n\n"
        "- A note.\n\n"
        "**T**\n\n| paper: Cost | ours |\n|---|---|\n| 9,509 | 9\\|1 |\n"
    )


def test_page_sums_up_the_claims() -> None:
    beyond = check("Adult", HOLDS, text="B", beyond=True)
    other = check("", FOR_US, text="D")
    text = render([document(claims=[*document()["claims"], other, beyond])], link="x")
    assert "Of 2 claims of the paper, 0 hold as printed, 1 hold for our methods" in text
    assert "1 do not hold." in text
    assert "- Run quick, 1 seed: fca-table." in text
    assert "- A quick run has fewer strengths" in text
    # The worst part decides, and has its figures there.
    assert (
        "| [C](#fca-table) | **does not hold**; holds for Adult | Bank: F of Bank. |\n"
        "| [D](#fca-table) | **holds for us, not as printed** | F of . |" in text
    )
    assert "1 of 1 claims about our methods hold" in text
    assert "| [B](#fca-table) | Adult | holds | F of Adult. |" in text


def test_page_tells_by_how_much_ours_are_ahead() -> None:
    gains = [
        {"what": "A", "measure": "Cost", "printed": 200, "blind": 190.0, "aware": 150.0},
        {"what": "B", "measure": "Cost", "printed": 100, "blind": None, "aware": 60.0},
        {"what": "C", "measure": "NLL", "printed": 9.0, "blind": 9.1, "aware": 8.5},
    ]
    text = render([document(gains=gains)], link="x")
    assert "our blind maps have 5% less Cost and our aware maps have 25% to 40% less" in text
    assert "our blind maps have -0.10 less NLL" in text
    assert "| A | Cost | 200 | 190 (-5.0%) | 150 (-25.0%) |" in text
    assert "| B | Cost | 100 | no such fit | 60 (-40.0%) |" in text
    assert "| C | NLL | 9.000 | 9.100 (+0.100) | 8.500 (-0.500) |" in text


def test_page_tells_which_commit_computed_which_methods() -> None:
    units = [
        {
            "unit": {"seed": seed, "method": method, "settings": {}},
            "commit": commit,
            "numbers": {"cpu_seconds": 1.0},
        }
        for seed, method, commit in ((0, "SFC", "abc"), (1, "SFC", "abc"), (0, "FCA", "def"))
    ]
    text = render([document(units=units)], link="x")
    assert "seeds 0 1, 3 fits" in text
    assert "By fairmix 1.2 at abc (SFC), def (FCA)." in text


def test_page_tells_what_is_missing() -> None:
    failed = [{"unit": {"method": "FCA"}, "error": "ImportError: no POT"}]
    assert "**FCA failed:** ImportError: no POT" in render([document(errors=failed)], link="x")
    text = render([document(complete=False)], link="x")
    assert "2 units are done; run it again to continue." in text
    assert "- Not complete: fca-table." in text


DOCS = Path(__file__).parents[1] / "docs"


def test_page_of_the_docs_is_made_from_its_files() -> None:
    made = render(documents(DOCS / "reproduction"), link="reproduction")
    # Else: fairmix reproduce --page --out docs/reproduction
    assert (DOCS / "reproduction.md").read_text("utf-8") == made


@pytest.mark.parametrize("name", ENTRIES)
def test_results_of_the_docs_follow_from_their_fits(name: str) -> None:
    document = json.loads((DOCS / "reproduction" / f"{name}.json").read_text("utf-8"))
    stored = document["settings"]
    made = {"quick": Settings.quick, "full": Settings.full}[stored["mode"]]
    # The rows of the Census are on few machines.
    settings = replace(made(seeds=len(stored["seeds"])), census=stored["census"])
    assert json.loads(json.dumps(settings.to_json())) == stored
    entry = ENTRIES[name]
    tasks = list(dict.fromkeys(entry.units(settings)))
    assert [json.loads(task.key) for task in tasks] == [own["unit"] for own in document["units"]]
    assert all(own["commit"] for own in document["units"])
    if {task.view.data for task in tasks} & {"bank", "credit"} and not os.environ.get(
        "FAIRMIX_DATA"
    ):
        pytest.skip("Bank and Credit are not bundled: set FAIRMIX_DATA")
    fits = (own["numbers"] for own in document["units"])
    result = entry.conclude(settings, Records(dict(zip(tasks, fits, strict=True)))).to_json()
    assert {key: document[key] for key in result} == json.loads(json.dumps(result))
    assert (DOCS / "reproduction" / f"{name}.svg").is_file() == bool(document["figure"])


def test_table_is_markdown() -> None:
    assert table(["a", "b"], [["1", "2"]]) == ["| a | b |", "|---|---|", "| 1 | 2 |"]
