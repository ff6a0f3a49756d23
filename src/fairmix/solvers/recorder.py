"""The history of a climb, and when it has settled."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from fairmix.criteria import Criterion, smallest_ratio
from fairmix.solvers._base import Callback, Iteration
from fairmix.solvers.objective import Point
from fairmix.tables import Rowlike


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


def later(rows: Sequence[Iteration], before: Sequence[Iteration]) -> list[Iteration]:
    """Rows of a climb that another one came before, in seconds from the start of that one."""
    passed = before[-1].seconds if before else 0.0
    return [row._replace(seconds=row.seconds + passed) for row in rows]
