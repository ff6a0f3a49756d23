"""FMC-EM against FMC-GD, with bands over random starts."""

from __future__ import annotations

from functools import partial

import numpy as np

from fairmix.reproduction import methods as m
from fairmix.reproduction.entries.fronts import DATA, NAMES
from fairmix.reproduction.records import Point, Records, cheapest
from fairmix.reproduction.result import Claim, Entry, Panel, Result, Series, Table, measured, whole
from fairmix.reproduction.settings import Settings
from fairmix.reproduction.sweeps import sweep
from fairmix.reproduction.units import Unit
from fairmix.reproduction.views import TITLES, View, best_balance, sample_notes

METHODS = (m.FMC_EM, m.FMC_GD)
# At which the two are compared: of Delta, and shares of the best possible Balance.
LEVELS, SHARES = (0.05, 0.02, 0.01), (0.6, 0.8, 0.9)


def units(settings: Settings) -> list[Unit]:
    """Both solvers at each strength from several starts."""
    return [
        task
        for data in DATA
        for method in METHODS
        for task in sweep(
            settings,
            settings.figure_view(data),
            method,
            # Every strength is fitted once per start and solver, so there are few.
            settings.few_strengths,
            seeds=settings.band_seeds,
        )
    ]


def conclude(settings: Settings, records: Records, *, x: str) -> Result:
    """Bands of the cost, and which solver is cheaper and steadier."""
    views = [settings.figure_view(data) for data in DATA]
    notes = [
        f"Bands, and bars where a line turns back, are one standard deviation over "
        f"{len(settings.band_seeds)} seeds; lines connect the strengths in order.",
        *sample_notes(views[0]),
    ]
    lost = {TITLES[point.unit.view.data] for point in records if not point.filled}
    if lost:
        notes.append(
            f"Some fits lost clusters ({', '.join(sorted(lost))}; see the table). They are in the "
            "figure, but not in the claims about cost."
        )
    if settings.gd:
        notes.append(
            f"FMC-GD ran with T = {settings.gd['max_iter']} and gamma = "
            f"{settings.gd['learning_rate']:g}, not with the paper's T = 10,000 and gamma = 1e-3: "
            "fewer, longer steps, to save time."
        )
    return Result(
        tables=[_table(records, views)],
        claims=[claim for view in views for claim in _claims(records, view, x)],
        notes=notes,
        panels=[_panel(records, view, x) for view in views],
    )


def _panel(records: Records, view: View, x: str) -> Panel:
    series = []
    for method in METHODS:
        points = records.points(method, view)
        # The points as they are, not their front: a band belongs to a strength.
        band = [point.spread("cost") for point in points]
        xs, ys = [p[x] for p in points], [p["cost"] for p in points]
        series.append(Series(method, xs, ys, band=band))
    return Panel(TITLES[view.data], NAMES[x], "Cost", series)


def _table(records: Records, views: list[View]) -> Table:
    rows = []
    for view in views:
        for point in records.points(METHODS, view):
            strength = f"{point.setting('fairness_strength'):g}"
            cells = [measured(point, "gap", 4), measured(point, "balance"), measured(point, "cost")]
            fewest = min(run["clusters"] for run in point.runs)
            rows.append([TITLES[view.data], point.unit.method, strength, *cells, f"{fewest}"])
    columns = ["data", "method", "lambda", "Delta", "Balance", "Cost", "fewest clusters"]
    return Table("Mean and standard deviation over seeds", columns, rows)


def _within(point: Point, level: float, x: str) -> bool:
    return point["gap"] <= level if x == "gap" else point["balance"] >= level


def _claims(records: Records, view: View, x: str) -> list[Claim]:
    title = TITLES[view.data]
    wins, told = 0, []
    for level in LEVELS if x == "gap" else [share * best_balance(view) for share in SHARES]:
        best = [
            cheapest(records.points(method, view), partial(_within, level=level, x=x))
            for method in METHODS
        ]
        # A solver that has no fit at this level loses, rather than drop out of the count.
        costs = [np.inf if point is None else point["cost"] for point in best]
        if np.isfinite(costs).any():
            wins += costs[0] <= costs[1]
            words = [whole(cost) if np.isfinite(cost) else "no fit" for cost in costs]
            bound = f"Delta up to {level:g}" if x == "gap" else f"Balance from {level:.3f}"
            told.append(f"{bound}: EM {words[0]}, GD {words[1]}")
    spreads = [
        # Relative to the cost, because the two solvers end at different costs.
        float(np.mean([point.spread("cost") / point["cost"] for point in points]))
        for points in (records.points(method, view) for method in METHODS)
        if points
    ]
    claims = [
        Claim(
            "FMC-EM has a better trade-off of cost and fairness than FMC-GD",
            wins > len(told) / 2 if told else None,
            "; ".join(told) + "." if told else "No fit kept all clusters at these levels.",
            title,
        )
    ]
    if len(spreads) == len(METHODS):
        figures = f"Deviation of the cost: EM {spreads[0]:.2%}, GD {spreads[1]:.2%} of it."
        text = "FMC-EM varies less between starts than FMC-GD"
        claims.append(Claim(text, spreads[0] < spreads[1], figures, title))
    return claims


def _entry(x: str) -> Entry:
    measure = "Delta" if x == "gap" else "Balance"
    return Entry(
        f"starts-{measure.lower()}",
        f"FMC-EM against FMC-GD over several starts, {measure} against Cost",
        "Figures of the main text and the appendix: Pareto fronts with standard deviation bands "
        "from five random initialisations",
        "FMC-EM has a better trade-off of cost and fairness than FMC-GD, with a smaller variance.",
        units,
        partial(conclude, x=x),
    )


ENTRIES = (_entry("gap"), _entry("balance"))
