"""Times several pieces of work in turns, so that all of them see the same noise."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class Ratio:
    """One line of the table: how long something takes, in units of something else."""

    name: str
    seconds: float
    floor: str
    floor_seconds: float
    bound: float

    @property
    def value(self) -> float:
        """The ratio."""
        return self.seconds / self.floor_seconds


def medians(work: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Median seconds of each piece of work over interleaved repeats."""
    times: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(repeats):
        for name, call in work.items():
            started = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - started)
    return {name: median(seconds) for name, seconds in times.items()}
