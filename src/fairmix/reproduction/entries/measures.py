"""Delta against Balance on Adult."""

from __future__ import annotations

from scipy.stats import spearmanr

from fairmix.reproduction import methods as m
from fairmix.reproduction.records import Records
from fairmix.reproduction.result import Claim, Entry, Panel, Result, Series, Table, measured
from fairmix.reproduction.settings import Settings
from fairmix.reproduction.sweeps import sweep
from fairmix.reproduction.units import Unit
from fairmix.reproduction.views import best_balance


def units(settings: Settings) -> list[Unit]:
    """Fits of the fronts on Adult."""
    view = settings.view("adult")
    return [
        *sweep(settings, view, m.MM_EM),
        *(task for name in m.BLIND_FMC for task in sweep(settings, view, name)),
    ]


def conclude(settings: Settings, records: Records) -> Result:
    """One panel, and the rank correlation."""
    series, rows = [], []
    for method in (m.MM_EM, *m.BLIND_FMC):
        points = sorted(records.points(method), key=lambda point: point["gap"])
        if not points:
            continue
        xs, ys = [p["gap"] for p in points], [p["balance"] for p in points]
        band = [p.spread("balance") for p in points]
        series.append(Series(method, xs, ys, line=method == m.FMC_EM, band=band))
        rows += [[method, measured(p, "gap", 4), measured(p, "balance")] for p in points]
    # The claim is about FMC-EM, and a plain mixture is its strength 0; a fit under a bound is
    # another method.
    paper_like = records.points((m.MM_EM, m.FMC_EM))
    gaps, balances = ([p[name] for p in paper_like] for name in ("gap", "balance"))
    claims = []
    # Two points always have a rank correlation of 1 or -1.
    if len(gaps) > 2:
        # Ranks, because the claim is that one falls as the other rises, not that they lie on a
        # line.
        rank = float(spearmanr(gaps, balances).statistic)
        claims.append(
            Claim(
                "A smaller Delta comes with a higher Balance (FMC-EM at several strengths)",
                rank < -0.8,
                f"Rank correlation {rank:.2f} over {len(gaps)} fits.",
            )
        )
    top = best_balance(settings.view("adult"))
    return Result(
        [Table("Delta and Balance, Adult", ["method", "Delta", "Balance"], rows)],
        claims,
        [
            f"The best possible Balance is {top:.4f}. Balance depends on the smallest cluster, "
            "Delta does not: the claim is about these fits and not a general law (see "
            "balance-bound)."
        ],
        [Panel("Adult", "Delta (gap of the labels)", "Balance", series)],
    )


ENTRY = Entry(
    "delta-balance",
    "Delta against Balance, Adult",
    "Figure of the appendix: Delta against Balance on Adult",
    "A smaller Delta tends to come with a higher Balance.",
    units,
    conclude,
)
