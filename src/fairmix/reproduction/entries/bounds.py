"""The inequality between Balance and the additive gap."""

from __future__ import annotations

import numpy as np

from fairmix import metrics
from fairmix.reproduction.entries import fronts
from fairmix.reproduction.records import Records
from fairmix.reproduction.result import Claim, Entry, Panel, Result, Series, Table, decimals
from fairmix.reproduction.settings import Settings
from fairmix.reproduction.units import Unit
from fairmix.reproduction.views import TITLES, best_balance

TEXT = "The distance of Balance from its maximum is at most the additive gap"
# Two groups of 100: one row of the first is alone, all others are together.
EXAMPLE_GROUPS = np.repeat(["first", "second"], 100)
EXAMPLE_LABELS = np.r_[1, np.zeros(199, dtype=int)]


def units(settings: Settings) -> list[Unit]:
    """The fits of the fronts."""
    # No fits of its own: the more different fits, the harder the test of an inequality.
    return fronts.units(settings, unit_length=True)


def conclude(settings: Settings, records: Records) -> Result:
    """Every fit of every method, and an example."""
    rows, claims, series = [], [], []
    for data in fronts.DATA:
        view = settings.view(data)
        runs = [run for point in records if point.unit.view == view for run in point.runs]
        if not runs:
            continue
        top = best_balance(view)
        pairs = [(run["additive_gap"], top - run["balance"]) for run in runs]
        # Less is rounding.
        broken = [loss - gap for gap, loss in pairs if loss > gap + 1e-9]
        worst = max(broken, default=0.0)
        rows.append([TITLES[data], f"{len(pairs)}", f"{len(broken)}", decimals(worst)])
        series.append(
            Series(TITLES[data], [p[0] for p in pairs], [p[1] for p in pairs], line=False)
        )
        claims.append(
            Claim(
                TEXT,
                not broken,
                f"Violated by {len(broken)} of {len(pairs)} fits, by up to {worst:.3f}.",
                TITLES[data],
            )
        )
    balance = metrics.balance(EXAMPLE_LABELS, EXAMPLE_GROUPS)
    gap = metrics.additive_gap(EXAMPLE_LABELS, EXAMPLE_GROUPS)
    claims.append(
        Claim(
            TEXT,
            1 - balance <= gap,
            "Two groups of 100 rows, one row alone in a cluster and all others in the other: "
            f"Balance {balance:g}, best possible 1, additive gap {gap:g}.",
            "an example",
        )
    )
    ends = [0.0, max((x for line in series for x in line.x), default=1.0)]
    series.append(Series("equality", ends, ends, guide=True))
    panel = Panel("all fits", "additive gap", "best possible Balance - Balance", series)
    columns = ["data", "fits", "violations", "by up to"]
    return Result([Table("Balance and the additive gap", columns, rows)], claims, (), [panel])


ENTRY = Entry(
    "balance-bound",
    "The inequality |Balance - maximum| <= additive gap",
    "Main text, on the relationship between Balance and Gap",
    "The distance of Balance from its maximum is at most the additive gap (cited there).",
    units,
    conclude,
)
