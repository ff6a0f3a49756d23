"""Isotropic against diagonal covariance."""

from __future__ import annotations

from fairmix.reproduction import methods as m
from fairmix.reproduction.entries.fronts import DATA
from fairmix.reproduction.records import Point, Records
from fairmix.reproduction.result import Claim, Entry, Panel, Result, Series, Table, measured
from fairmix.reproduction.settings import Settings
from fairmix.reproduction.sweeps import sweep
from fairmix.reproduction.units import Unit
from fairmix.reproduction.views import TITLES, View, sample_notes

METHODS = (m.FMC_EM, m.FMC_GD)
NAMES = {None: "isotropic", "diag": "diagonal"}
ALIKE = 0.05  # of Balance: by how much a diagonal fit may be less fair


def units(settings: Settings) -> list[Unit]:
    """Both solvers with both structures; the isotropic fits are shared with the entry of starts."""
    return [
        task
        for data in DATA
        for method in METHODS
        # None: isotropic is the default, and leaving it unset makes the same units as in `starts`.
        for chosen in (None, {"covariance_type": "diag"})
        for task in sweep(
            settings, settings.figure_view(data), method, settings.few_strengths, also=chosen
        )
    ]


def conclude(settings: Settings, records: Records) -> Result:
    """NLL against Balance."""
    rows, claims, panels = [], [], []
    for data in DATA:
        view = settings.figure_view(data)
        series = []
        for method in METHODS:
            for kind, name in NAMES.items():
                points = _points(records, view, method, kind)
                xs, ys = [p["balance"] for p in points], [p["nll"] for p in points]
                band = [p.spread("nll") for p in points]
                series.append(Series(f"{method}, {name}", xs, ys, line=False, band=band))
                rows += [[TITLES[data], method, name, *_cells(point)] for point in points]
            claims.append(_claim(records, view, method))
        panels.append(Panel(TITLES[data], "Balance", "NLL", series))
    columns = ["data", "method", "covariance", "lambda", "Balance", "NLL", "Delta", "clusters"]
    notes = [
        "The paper prints no numbers for this figure, so its claim is checked instead.",
        "NLL is a density of the columns, so values for different data sets cannot be compared.",
        *sample_notes(settings.figure_view(DATA[0])),
    ]
    return Result([Table("Structure of the covariance", columns, rows)], claims, notes, panels)


def _points(records: Records, view: View, method: str, kind: str | None) -> list[Point]:
    found = records.points(method, view, {"covariance_type": kind})
    return sorted(found, key=lambda point: point["balance"])


def _cells(point: Point) -> list[str]:
    strength = f"{point.setting('fairness_strength'):g}"
    cells = [measured(point, "balance"), measured(point, "nll"), measured(point, "gap", 4)]
    return [strength, *cells, f"{point['clusters']:g}"]


def _claim(records: Records, view: View, method: str) -> Claim:
    """Each isotropic fit against the diagonal fits that are as fair, or nearly so."""
    wins, pairs, gains = 0, 0, []
    for plain in _points(records, view, method, None):
        # One-sided: a diagonal fit that is fairer and still likelier is a win as well.
        rivals = [
            point["nll"]
            for point in _points(records, view, method, "diag")
            if point["balance"] >= plain["balance"] - ALIKE
        ]
        if rivals:
            pairs += 1
            wins += min(rivals) < plain["nll"]
            gains.append(plain["nll"] - min(rivals))
    text = "A diagonal covariance has the lower NLL at similar Balance"
    part = f"{TITLES[view.data]}, {method}"
    if not pairs:
        return Claim(text, None, "No two fits are alike in Balance.", part)
    figures = (
        f"In {wins} of {pairs} comparisons; NLL lower by {min(gains):.2f} to {max(gains):.2f}."
    )
    return Claim(text, wins == pairs, figures, part)


ENTRY = Entry(
    "covariance",
    "Isotropic against diagonal covariance, EM and GD",
    "Figure of the appendix: comparison of covariance structures",
    "A diagonal covariance has a substantially lower NLL at similar Balance.",
    units,
    conclude,
)
