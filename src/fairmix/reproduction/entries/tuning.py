"""The grid of T, R and gamma that the paper tuned over."""

from __future__ import annotations

from itertools import product

from fairmix.reproduction import methods as m
from fairmix.reproduction.records import Point, Records
from fairmix.reproduction.result import Claim, Entry, Result, Table, decimals, measured
from fairmix.reproduction.settings import Settings
from fairmix.reproduction.sweeps import sweep
from fairmix.reproduction.units import Unit
from fairmix.reproduction.views import View

STRENGTH = 5.0
# The paper's grid, and the setting that it chose.
ITERATIONS, STEPS, RATES = (100, 200, 400), (5, 10, 20), (1e-3, 1e-2, 1e-1)
CHOSEN = (200, 10, 1e-2)
STABLE = 0.02  # of the objective, below the best of the grid


def units(settings: Settings) -> list[Unit]:
    """The 27 settings; few iterations in a smoke run."""
    smoke = settings.mode == "smoke"
    return [
        task
        # Only T is cut, so that every combination of R and gamma still runs.
        for total, steps, rate in product((2, 3) if smoke else ITERATIONS, STEPS, RATES)
        for task in sweep(
            settings,
            # 27 fits for one claim, so a quick run has few rows here.
            View("adult", rows=settings.tuning_rows),
            m.FMC_EM,
            [STRENGTH],
            also={"max_iter": total, "inner_iter": steps, "learning_rate": rate},
        )
    ]


def conclude(settings: Settings, records: Records) -> Result:
    """The objective at each setting, and whether the paper's choice is near the best."""
    points = sorted(records, key=_setting)
    rows = [_cells(point) for point in points]
    columns = ["T", "R", "gamma", "iterations", "objective", "NLL", "Delta", "Cost", "clusters"]
    best = max(points, key=objective)
    chosen = next((point for point in points if _setting(point) == CHOSEN), None)
    claims = []
    if chosen is not None:
        short = objective(best) - objective(chosen)
        claims.append(
            Claim(
                "(T, R, gamma) = (200, 10, 1e-2) is a stable choice",
                short <= STABLE,
                f"Its objective is {short:.4f} below the best of the grid, which is at "
                f"{_setting(best)}.",
            )
        )
    rows_told = f"{settings.tuning_rows:,} rows" if settings.tuning_rows else "all rows"
    notes = [
        f"Adult, {rows_told}, lambda {STRENGTH:g}. The objective is the mean log-likelihood minus "
        "lambda times the soft Delta. A fit that converges before T has the same numbers for all "
        "larger T."
    ]
    return Result([Table("T, R and gamma of FMC-EM", columns, rows)], claims, notes)


def _cells(point: Point) -> list[str]:
    total, steps, rate = _setting(point)
    head = [f"{total}", f"{steps}", f"{rate:g}", f"{point['iterations']:g}"]
    likelihood = [decimals(objective(point), 4), measured(point, "nll", 4)]
    cells = [measured(point, "gap", 4), measured(point, "cost"), f"{point['clusters']:g}"]
    return [*head, *likelihood, *cells]


def objective(point: Point) -> float:
    """Mean log-likelihood less the penalty."""
    # The soft gap, which is the one in the objective; `gap` is that of the labels.
    return -point["nll"] - STRENGTH * point["soft_gap"]


def _setting(point: Point) -> tuple[int, int, float]:
    names = ("max_iter", "inner_iter", "learning_rate")
    total, steps, rate = (point.setting(name) for name in names)
    return int(total), int(steps), float(rate)


ENTRY = Entry(
    "tuning",
    "The grid of T, R and gamma",
    "Appendix, Hyper-Parameters",
    "T = 200 with R = 10 ensures stable convergence, and gamma = 1e-2 gives stable yet fast "
    "updates.",
    units,
    conclude,
)
