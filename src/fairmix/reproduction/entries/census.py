"""Fronts on the Census, or on synthetic rows like it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from fairmix.reproduction import methods as m
from fairmix.reproduction.entries.fronts import (
    HOLLOW,
    cheaper_than_sfc,
    competitive,
    covers_range,
    front_panel,
    front_table,
    variational_fails,
)
from fairmix.reproduction.records import Records
from fairmix.reproduction.result import Entry, Result
from fairmix.reproduction.settings import Settings
from fairmix.reproduction.sweeps import sweep
from fairmix.reproduction.units import Unit
from fairmix.reproduction.views import View, describe

# The paper's mini-batches: a tenth of the rows, and a tenth on which fairness is measured.
BATCHES: dict[str, Any] = {"batch_size": 0.1, "fairness_sample_size": 0.1}
# Without mini-batches, which the baselines do not have.
PLAIN = (m.KMEANS, m.MM_EM, m.SFC_ONE, m.SFC, m.VFC)
BATCHED = (m.FMC_EM, m.LABELS, m.AWARE)


def units(settings: Settings, *, unit_length: bool) -> list[Unit]:
    """Every method; the mixtures with mini-batches."""
    return census_sweep(settings, (*PLAIN, *BATCHED), unit_length)


def census_sweep(settings: Settings, chosen: Sequence[str], unit_length: bool) -> list[Unit]:
    """Units of some methods on the Census."""
    values = {
        # Values of their own: see `Settings`. Methods that sweep over nothing are not listed.
        m.VFC: settings.census_variational_strengths,
        m.FMC_EM: settings.census_strengths,
        m.LABELS: settings.census_bounds,
        m.AWARE: settings.census_bounds,
    }
    view = settings.census_view(unit_length)
    return [
        task
        for method in chosen
        for task in sweep(
            settings,
            view,
            method,
            values.get(method),
            also=BATCHES if method in BATCHED else None,
        )
    ]


def conclude(settings: Settings, records: Records, *, unit_length: bool) -> Result:
    """Two panels, Delta and Balance, and the claims."""
    view = settings.census_view(unit_length)
    claims = [cheaper_than_sfc(records, view, "gap")]
    if unit_length:
        claims += [competitive(records, view), covers_range(records, view)]
    else:
        claims.append(variational_fails(records, view))
    return Result(
        [front_table(records, view)],
        claims,
        [
            census_note(view),
            HOLLOW,
            f"K = {settings.clusters}, as in the other tables; the paper names no K.",
        ],
        [front_panel(records, view, x, (*PLAIN[1:], *BATCHED)) for x in ("gap", "balance")],
    )


def census_note(view: View) -> str:
    """Which rows these are."""
    words = f"Data: {describe(view)}."
    if view.data == "census-like":
        words += (
            " These rows are SYNTHETIC and resemble the Census; no number here comes from the "
            "Census itself. To use it, put its file into the folder FAIRMIX_DATA and run again."
        )
    return words


def _entry(unit_length: bool) -> Entry:
    prepared = "with" if unit_length else "without"
    return Entry(
        "census-front" if unit_length else "census-front-raw",
        f"Delta and Balance against Cost on Census, {prepared} L2 normalisation",
        f"Figure of the {'main text' if unit_length else 'appendix'}: Pareto fronts on Census",
        "FMC with mini-batches is competitive with VFC, costs less than SFC and covers the whole "
        "range of fairness; without L2 normalisation VFC fails.",
        partial(units, unit_length=unit_length),
        partial(conclude, unit_length=unit_length),
    )


ENTRIES = (_entry(True), _entry(False))
