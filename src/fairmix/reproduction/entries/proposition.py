"""Proposition 1: the error of Delta on a sub-sample, against its size."""

from __future__ import annotations

import numpy as np

from fairmix.reproduction import methods as m
from fairmix.reproduction.records import Records
from fairmix.reproduction.result import Claim, Entry, Panel, Result, Series, Table, decimals
from fairmix.reproduction.settings import Settings
from fairmix.reproduction.sweeps import sweep
from fairmix.reproduction.units import Unit


def units(settings: Settings) -> list[Unit]:
    """A plain mixture of Adult, and what samples of several sizes say of its Delta."""
    return sweep(settings, settings.view("adult"), m.MM_EM, extras=("sampling_error",))


def conclude(settings: Settings, records: Records) -> Result:
    """Error against n on logarithmic axes."""
    found = next(iter(records)).extras("sampling_error")
    sizes = found[0]["n"]
    means = np.mean([own["mean"] for own in found], axis=0).tolist()
    worst = np.max([own["largest"] for own in found], axis=0).tolist()
    rows = [
        [f"{n:,}", decimals(mean, 4), decimals(largest, 4), decimals(mean * n**0.5)]
        for n, mean, largest in zip(sizes, means, worst, strict=True)
    ]
    columns = ["n", "mean error", "largest error", "mean error times sqrt(n)"]
    claims = []
    # Through the first point, so that only the slopes are to be compared.
    guide = [means[0] * (sizes[0] / n) ** 0.5 for n in sizes]
    if len(sizes) > 1:
        slope = float(np.polyfit(np.log(sizes), np.log(means), 1)[0])
        claims.append(
            Claim(
                "The error of Delta falls like 1 / sqrt(n)",
                # Not -1/2 exactly: the constant changes where the noise falls below Delta itself,
                # and the slope differs in between (see docs/certificate.md).
                -0.65 < slope < -0.35,
                f"The slope of the logarithms is {slope:.2f}.",
            )
        )
    series = [Series("mean error", sizes, means), Series("slope -1/2", sizes, guide, guide=True)]
    return Result(
        [Table("Error of Delta on samples drawn with replacement", columns, rows)],
        claims,
        [
            "The proposition is about the largest error over all parameters, with a constant "
            "that it does not give. Shown here is the error for the fitted mixtures of MM-EM "
            "on Adult."
        ],
        [Panel("Adult", "n", "error of Delta", series, log_x=True, log_y=True)],
    )


ENTRY = Entry(
    "proposition-1",
    "Proposition 1: the error of Delta on a sample of n rows",
    "Proposition 1 of the main text",
    "Delta on a random sample of n rows differs from Delta on all rows by at most a constant "
    "times 1 / sqrt(n).",
    units,
    conclude,
)
