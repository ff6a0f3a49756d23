"""The paper's numbers, what is concluded from records, and the text of the page."""

import pytest

from fairmix.reproduction import methods as m
from fairmix.reproduction import paper
from fairmix.reproduction.entries.fronts import front_claims
from fairmix.reproduction.page import render, table
from fairmix.reproduction.records import Records, cheapest, cost_at, fairest, front
from fairmix.reproduction.result import Claim
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


@pytest.mark.parametrize(("sfc_cost", "holds"), [(31, True), (29, False)])
def test_claim_about_sfc_follows_the_costs(line: Records, sfc_cost: float, holds: bool) -> None:
    known = {point.unit: point.runs[0] for point in line}
    records = Records({**known, fit(m.SFC): numbers(sfc_cost, 0.001, 0.5)})
    claims = {claim.text: claim for claim in front_claims(records, VIEW)}
    claim = claims[
        "Adult: FMC (blind) costs less than our SFC (best of ten trees) near perfect fairness"
    ]
    assert claim.holds is holds
    assert (
        claim.figures == f"FMC-EM costs 30 at Delta 0.0000; SFC costs {sfc_cost} at Delta 0.0010."
    )


@pytest.mark.parametrize(
    ("holds", "words"),
    [(True, "holds here"), (False, "does not hold here"), (None, "not measured here")],
)
def test_verdicts(holds: bool | None, words: str) -> None:
    assert Claim("", holds, "").verdict == words


def document(**changes: object) -> dict[str, object]:
    record = {
        "unit": {"seed": 0, "method": "FMC-EM", "settings": {"fairness_strength": 5.0}},
        "numbers": {"cpu_seconds": 2.4},
    }
    return {
        "entry": "fca-table",
        "title": "A title",
        "place": "Table 1",
        "paper_says": "FMC is behind.",
        "complete": True,
        "settings": {"mode": "quick"},
        "data": ["Adult, all rows"],
        "tables": [{"title": "T", "columns": ["paper: Cost", "ours"], "rows": [["9,509", "9|1"]]}],
        "claims": [{"text": "C", "holds": False, "verdict": "does not hold here", "figures": "F."}],
        "notes": ["A note."],
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
        "[All numbers](files/fca-table.json).\n\n"
        "![A title](files/fca-table.svg)\n\n"
        "| claim | verdict | figures |\n|---|---|---|\n| C | does not hold here | F. |\n\n"
        "- A note.\n\n"
        "**T**\n\n| paper: Cost | ours |\n|---|---|\n| 9,509 | 9\\|1 |\n"
    )
    assert "| [A title](#fca-table) | 0 | 1 | 0 |  |" in text
    assert "| [fca-table](#fca-table) | C | F. |" in text
    held = [{"text": "C", "holds": True, "verdict": "holds here", "figures": "F."}]
    assert "Claims that do not hold" not in render([document(claims=held)], link="files")


def test_page_tells_what_is_missing() -> None:
    failed = [{"unit": {"method": "FCA"}, "error": "ImportError: no POT"}]
    assert "**FCA failed:** ImportError: no POT" in render([document(errors=failed)], link="x")
    text = render([document(complete=False)], link="x")
    assert "2 units are done; run it again to continue." in text
    assert "not complete" in text


def test_table_is_markdown() -> None:
    assert table(["a", "b"], [["1", "2"]]) == ["| a | b |", "|---|---|", "| 1 | 2 |"]
