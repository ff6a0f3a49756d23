"""The remark on soft and hard assignments."""

from __future__ import annotations

import numpy as np

from fairmix.reproduction import methods as m
from fairmix.reproduction.entries.fronts import DATA
from fairmix.reproduction.records import Records
from fairmix.reproduction.result import Claim, Entry, Result, Table, decimals, measured
from fairmix.reproduction.settings import Settings
from fairmix.reproduction.sweeps import sweep
from fairmix.reproduction.units import Unit
from fairmix.reproduction.views import TITLES

# The strength at which the tables of the paper that name one have a Delta of 0.000.
STRENGTH = 10.0


def units(settings: Settings) -> list[Unit]:
    """Plain and fair mixtures, with the responsibilities of their rows."""
    tasks = []
    for data in DATA:
        view = settings.view(data)
        for method in (m.MM_EM, m.FMC_EM):
            tasks += sweep(settings, view, method, [STRENGTH], extras=("sharpness",))
    return tasks


def conclude(settings: Settings, records: Records) -> Result:
    """How sharp, and how far apart the two readings of Delta are."""
    rows, claims = [], []
    for point in records:
        runs, name = point.extras("sharpness"), TITLES[point.unit.view.data]
        found = {key: float(np.mean([run[key] for run in runs])) for key in runs[0]}
        rows.append(
            [name, point.unit.method]
            + [decimals(found[key]) for key in ("mean_largest", "share_above_0.9", "mean_bound")]
            + [decimals(found["share_within_bound"])]
            + [measured(point, "soft_gap", 4), measured(point, "gap", 4)]
        )
        apart = abs(point["gap"] - point["soft_gap"])
        claims.append(
            Claim(
                "Hard labels lose little (Delta within 0.005)",
                apart <= 0.005,
                f"Delta of labels {point['gap']:.4f}, of probabilities {point['soft_gap']:.4f}; "
                f"the mean of the largest responsibility is {found['mean_largest']:.2f}.",
                f"{name}, {point.unit.method}",
            )
        )
    columns = ["data", "method", "mean of the largest", "share above 0.9", "mean of the bound"]
    columns += ["share of rows within the bound", "soft Delta", "Delta of labels"]
    notes = [
        "The paper's bound assumes equal weights, so some rows may fall below it. It is close to "
        "1 only where the two nearest centres differ by much more than sigma; the number of "
        "dimensions does not occur in it.",
    ]
    return Result([Table("Soft and hard assignments", columns, rows)], claims, notes)


ENTRY = Entry(
    "soft-and-hard",
    "The remark on soft and hard assignments",
    "Remark of the appendix: small disparity between soft and hard assignments",
    "For separated clusters, or in high dimensions, responsibilities are close to hard labels.",
    units,
    conclude,
)
