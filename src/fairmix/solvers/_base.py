"""What all solvers share: the solution, its status, the history, Adam's directions."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, Protocol

import numpy as np

from fairmix.criteria import Criterion, smallest_ratio
from fairmix.kernels.totals import FloatArray
from fairmix.solvers.objective import Objective, Point
from fairmix.tables import Rowlike


class Status(Enum):
    """How a solver ended. The value is the message for the user."""

    CONVERGED = "the objective changed by less than `tol`"
    STALLED = "no step improves the objective"
    MAX_ITER = "`max_iter` was reached before the objective settled; raise `max_iter` or `tol`"
    BOUND_MISSED = (
        "`max_gap` was not met; raise `max_gap` or `max_iter`, or take fewer components, or "
        '`solver="dual"`'
    )


class Iteration(NamedTuple):
    """One row of ``history_``."""

    objective: float
    log_likelihood: float
    gap: float
    balance: float
    seconds: float
    passes: float


Callback = Callable[[Iteration], None]


@dataclass(frozen=True, eq=False)
class Solution:
    """Parameters that a solver found, and how.

    ``multipliers``, ``offsets`` (both M x K) and ``temperature`` are the tilt of the assignment;
    without one, responsibilities are those of the mixture. ``gap`` is the criterion on what was
    bounded (NaN if nothing was), ``filled`` the number of clusters with members (0 if not counted).
    """

    theta: FloatArray
    objective: float
    status: Status
    history: Sequence[Iteration]
    multipliers: FloatArray | None = None
    offsets: FloatArray | None = None
    temperature: float = 1.0
    gap: float = np.nan
    filled: int = 0


class Solver(Protocol):
    """A frozen set of settings that climbs an objective."""

    def solve(
        self, objective: Objective, theta: FloatArray, *, callback: Callback | None = None
    ) -> Solution:
        """Climb from theta."""


@dataclass
class Recorder:
    """Collects one row per iteration and tells when progress has stopped.

    ``table`` are the rows whose rates count.
    ``window`` iterations that raise the best objective by less than ``tol`` each, on average,
    count as converged: single steps can be small, or down, without being the last.
    """

    criterion: Criterion
    table: Rowlike
    tol: float
    window: int
    callback: Callback | None = None
    rows: list[Iteration] = field(default_factory=list)
    best: list[float] = field(default_factory=list)
    started: float = field(default_factory=time.perf_counter)

    def record(self, point: Point) -> None:
        """Add a row for the parameters at the start of an iteration."""
        row = Iteration(
            objective=point.value,
            log_likelihood=point.log_likelihood,
            gap=self.criterion.value(point.rates),
            balance=smallest_ratio(point.rates * self.table.group_sizes[:, None]),
            seconds=time.perf_counter() - self.started,
            passes=self.table.passes,
        )
        self.rows.append(row)
        self.best.append(max(row.objective, self.best[-1] if self.best else -np.inf))
        if self.callback is not None:
            self.callback(row)

    @property
    def settled(self) -> bool:
        """Whether the last ``window`` iterations gained less than ``tol`` each."""
        if len(self.rows) <= self.window:
            return False
        return self.best[-1] - self.best[-1 - self.window] < self.tol * self.window


class Adam:
    """Directions of Adam (Kingma and Ba 2015), to be multiplied by a learning rate.

    The paper prints plain gradient steps; its figures need steps that do not depend on the scale
    of each parameter's gradient, as in the authors' program.
    """

    def __init__(self, size: int) -> None:
        self.first = np.zeros(size)
        self.second = np.zeros(size)
        self.steps = 0

    def direction(self, gradient: FloatArray) -> FloatArray:
        """Ascent direction after one more gradient."""
        self.steps += 1
        self.first += 0.1 * (gradient - self.first)
        self.second += 0.001 * (gradient * gradient - self.second)
        mean = self.first / (1 - 0.9**self.steps)
        spread = np.sqrt(self.second / (1 - 0.999**self.steps))
        return np.asarray(mean / (spread + 1e-8))
