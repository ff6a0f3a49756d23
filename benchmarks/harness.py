"""Times several pieces of work in turns, so that all of them see the same noise."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any


@dataclass(frozen=True)
class Ratio:
    """One line of the table: what something takes, in units of something else.

    Without a bound it stands there for comparison. ``details`` go into the JSON as they are.
    """

    name: str
    amount: float
    floor: str
    floor_amount: float
    bound: float | None
    unit: str = "s"
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def value(self) -> float:
        """The ratio."""
        return self.amount / self.floor_amount

    @property
    def verdict(self) -> str:
        """Whether it keeps to its bound."""
        if self.bound is None:
            return ""
        return "pass" if self.value <= self.bound else "MISS"


def n_threads() -> int:
    """Threads of whatever is measured: OMP_NUM_THREADS, which k-means follows too, or all."""
    return int(os.environ.get("OMP_NUM_THREADS") or os.cpu_count() or 1)


def medians(work: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Median seconds of each piece of work over interleaved repeats."""
    times: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(repeats):
        for name, call in work.items():
            started = time.perf_counter()
            call()
            times[name].append(time.perf_counter() - started)
    return {name: median(seconds) for name, seconds in times.items()}
