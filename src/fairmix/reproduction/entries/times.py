"""The table of computing times on the Census."""

from __future__ import annotations

import numpy as np

from fairmix.reproduction import methods as m
from fairmix.reproduction import paper
from fairmix.reproduction.entries.census import BATCHED, census_note, census_sweep
from fairmix.reproduction.records import Records
from fairmix.reproduction.result import Claim, Entry, Result, Table
from fairmix.reproduction.settings import Settings
from fairmix.reproduction.units import Unit

PLAIN = (m.VFC, m.SFC)


def units(settings: Settings) -> list[Unit]:
    """The fits of the front with L2 normalisation."""
    return census_sweep(settings, (*PLAIN, *BATCHED), unit_length=True)


def conclude(settings: Settings, records: Records) -> Result:
    """Seconds, and their ratio to those of FMC."""
    seconds = {}
    for method in (*PLAIN, *BATCHED):
        # Over all strengths and bounds: the paper gives one average per method.
        every = [run["cpu_seconds"] for point in records.points(method) for run in point.runs]
        if every:
            seconds[method] = (float(np.mean(every)), float(np.std(every)), len(every))
    # FMC-EM with mini-batches is the paper's method, so it is the unit, not our default.
    own, theirs = seconds.get(m.FMC_EM), paper.SECONDS[m.FMC_EM][0]
    rows, claims = [], []
    for method, (mean, spread, number) in seconds.items():
        printed = paper.SECONDS.get(method)
        told = ["", ""] if printed is None else [f"{printed[0]:,.0f}", f"{printed[0] / theirs:.1f}"]
        ratio = mean / own[0] if own else float("nan")
        rows.append([method, *told, f"{mean:.1f} ± {spread:.1f}", f"{ratio:.2f}", f"{number}"])
        if method in PLAIN and printed is not None and own:
            claims.append(
                Claim(
                    f"FMC with mini-batches is faster than {method} "
                    f"({printed[0] / theirs:.1f} times in the paper)",
                    ratio > 1,
                    f"{method} takes {ratio:.2f} times the processor time of FMC-EM here.",
                )
            )
    notes = [
        census_note(settings.census_view(True)),
        "The seconds come from different machines and programs, so compare the ratios. Ours are "
        "processor seconds on one thread, mean and deviation over strengths, bounds and seeds.",
        "Our VFC and SFC are faster than the programs used in the paper: VFC starts from "
        "converged K-means and adapts its step, SFC is vectorised. So the ratios differ.",
    ]
    columns = [
        "method",
        "paper: seconds",
        "ratio to FMC",
        "ours: seconds",
        "ratio to FMC-EM",
        "fits",
    ]
    return Result([Table("Computing time", columns, rows)], claims, notes)


ENTRY = Entry(
    "census-times",
    "Computing time on Census",
    "Table of the main text: average computation time on Census",
    "FMC with mini-batches takes 253 s where VFC takes 5,053 s and SFC 2,218 s.",
    units,
    conclude,
)
