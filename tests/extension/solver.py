"""A solver: EM that goes only a part of the way to each M-step, for any mixture."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fairmix.kernels import Sweep
from fairmix.solvers import (
    Beginning,
    Callback,
    ClimbOnly,
    Iteration,
    Recipe,
    Solution,
    Solver,
    Status,
    Task,
    bounded,
)
from fairmix.solvers.objective import Objective

SHARE = 0.5


@dataclass(frozen=True)
class Damped(ClimbOnly):
    """Each iteration goes ``SHARE`` of the way to the parameters of the M-step."""

    max_iter: int = 30
    tol: float = 1e-6

    @classmethod
    def of(cls, task: Task) -> Damped:
        return cls(max_iter=task.max_iter or cls.max_iter, tol=task.tol)

    def limited(self, max_iter: int, *, settle: bool = True) -> Damped:
        return replace(self, max_iter=max_iter, tol=self.tol if settle else 0.0)

    def climb(
        self, objective: Objective, start: Beginning, callback: Callback | None = None
    ) -> Solution:
        theta, rows = start.theta, []
        mixture, table = objective.mixture, objective.table
        for _ in range(self.max_iter):
            totals = table.softmax_pass(Sweep(mixture.logits(theta)))
            value = totals.log_likelihood / totals.weight
            rows.append(Iteration(value, value, 0.0, 0.0, 0.0, table.passes))
            if callback is not None:
                callback(rows[-1])
            if len(rows) > 1 and value - rows[-2].objective < self.tol:
                break
            theta = theta + SHARE * (mixture.maximize(totals.sums) - theta)
        return Solution(theta, objective.evaluate(theta).value, Status.CONVERGED, rows)


def damped(task: Task) -> Solver:
    return bounded(Damped.of(task), task)


RECIPE = Recipe(damped)
