"""Times several pieces of work in turns, so that all of them see the same noise."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

Array = NDArray[Any]
# Arguments that only test the harness: few rows, few clusters and few iterations. Iterations count
# most, because few rows in many clusters take hundreds of them.
Tiny = Mapping[str, Any]


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


def medians(
    work: Mapping[str, Callable[[], object]],
    repeats: int,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Median seconds of each piece of work over interleaved repeats."""
    times: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(repeats):
        for name, call in work.items():
            times[name].append(timed(call, clock))
    return {name: median(seconds) for name, seconds in times.items()}


def timed(call: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """Seconds that a call takes by a clock."""
    started = clock()
    call()
    return clock() - started


def exponent(sizes: Iterable[float], seconds: Iterable[float]) -> float:
    """The power of the size with which the seconds grow: the slope of the logarithms."""
    return float(np.polyfit(np.log([*sizes]), np.log([*seconds]), 1)[0])


@contextmanager
def quietly(threads: int | None = None) -> Iterator[None]:
    """Without warnings, and on so many threads of BLAS and OpenMP, if a number is given.

    Warnings would say that few iterations are not the end of a fit, or that a bound is missed.
    """
    with warnings.catch_warnings(), threadpool_limits(threads):
        warnings.simplefilter("ignore")
        yield


def in_fresh_process(code: str, *words: str) -> dict[str, float]:
    """What Python code prints as JSON: in a process of its own, so that its memory is its own."""
    done = subprocess.run(
        [sys.executable, "-c", code, *words], check=True, capture_output=True, text=True
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found
