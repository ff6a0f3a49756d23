"""The corollary: mini-batch EM converges."""

from __future__ import annotations

import numpy as np

from fairmix.reproduction import methods as m
from fairmix.reproduction.entries.census import BATCHES
from fairmix.reproduction.records import Records
from fairmix.reproduction.result import (
    Claim,
    Entry,
    Panel,
    Result,
    Series,
    Table,
    decimals,
    measured,
)
from fairmix.reproduction.settings import Settings
from fairmix.reproduction.sweeps import sweep
from fairmix.reproduction.units import Unit

# That of the paper's figure of convergence.
STRENGTH = 5.0
DRAWN = 60  # points of a line


def units(settings: Settings) -> list[Unit]:
    """FMC-EM on Adult, with batches and without."""
    view = settings.view("adult")
    return [
        task
        for also in (None, BATCHES)
        for task in sweep(
            settings,
            view,
            m.FMC_EM,
            [STRENGTH],
            extras=("history",),
            also=also,
        )
    ]


def conclude(settings: Settings, records: Records) -> Result:
    """The objective against the iteration."""
    rows, series, ends = [], [], {}
    for point in records:
        name = "mini-batches of 10 %" if point.setting("batch_size") else "all rows"
        paths = [found["objective"] for found in point.extras("history")]
        # Drawn is the first seed: the paths of others have other lengths.
        objective = paths[0]
        # An SVG has every point as text; sixty are enough for a line.
        step = max(1, len(objective) // DRAWN)
        xs = list(range(1, len(objective) + 1, step))
        series.append(Series(name, xs, objective[::step]))
        tail = max(abs(path[-1] - path[9 * len(path) // 10]) for path in paths)
        first, last = (float(np.mean([path[end] for path in paths])) for end in (0, -1))
        ends[name] = (last, tail)
        cells = [decimals(first, 4), decimals(last, 4), f"{tail:.2g}"]
        lengths = f"{np.mean([len(path) for path in paths]):.0f}"
        rows.append([name, lengths, *cells, measured(point, "gap", 4)])
    columns = ["rows", "iterations", "first objective", "last"]
    columns += ["largest change in the last tenth", "Delta"]
    claims = []
    if len(ends) == 2:
        (whole, _), (batched, tail) = ends["all rows"], ends["mini-batches of 10 %"]
        claims.append(
            Claim(
                "The objective of the mini-batch method converges",
                tail < 0.01,
                f"It changes by {tail:.2g} at most in the last tenth of the iterations and ends at "
                f"{batched:.4f}; with all rows in each iteration it ends at {whole:.4f}.",
            )
        )
    return Result(
        [Table("Objective per row, Adult, lambda 5", columns, rows)],
        claims,
        [
            "The corollary is about a stationary point of the likelihood. The method maximises "
            "the likelihood minus lambda Delta, which is shown here, and Delta is not smooth."
        ],
        [Panel("Adult", "iteration", "objective per row", series, log_x=True)],
    )


ENTRY = Entry(
    "corollary",
    "The corollary: the objective of the mini-batch method",
    "Corollary of the appendix on FMC-EM with mini-batches",
    "The likelihood converges almost surely, to a stationary point.",
    units,
    conclude,
)
