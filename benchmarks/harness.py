"""Times several pieces of work in turns, so that all of them see the same noise."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class Ratio:
    """One line of the table: what something takes, in units of something else."""

    name: str
    amount: float
    floor: str
    floor_amount: float
    bound: float
    unit: str = "s"

    @property
    def value(self) -> float:
        """The ratio."""
        return self.amount / self.floor_amount


def medians(work: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Median seconds of each piece of work over interleaved repeats."""
    times: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(repeats):
        for name, call in work.items():
            started = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - started)
    return {name: median(seconds) for name, seconds in times.items()}
