"""The paper's Algorithm 1, FMC-GD: gradient steps on the penalised likelihood."""

from __future__ import annotations

from dataclasses import dataclass

from fairmix.criteria import Criterion
from fairmix.kernels.totals import FloatArray
from fairmix.solvers._base import Adam, Callback, Recorder, Solution, Status
from fairmix.solvers.objective import Objective

# Steps between two updates of the penalty's multipliers, and over which progress is judged.
UPDATE_EVERY = 10
WINDOW = 500


@dataclass(frozen=True)
class GradientDescent:
    """Gradient steps; the best parameters seen are the solution.

    With mini-batches, each step sees one batch, and the rows whose rates count.

    Parameters
    ----------
    criterion : Criterion
        For the history; the penalty brings its own.
    max_iter : int
        T.
    learning_rate : float
        gamma.
    tol : float
        Mean gain per iteration below which the fit has converged.
    """

    criterion: Criterion
    max_iter: int = 10_000
    learning_rate: float = 1e-3
    tol: float = 1e-6

    def solve(
        self, objective: Objective, theta: FloatArray, *, callback: Callback | None = None
    ) -> Solution:
        """Climb from theta."""
        recorder = Recorder(self.criterion, objective.fair, self.tol, WINDOW, callback)
        adam = Adam(len(theta))
        best = None
        status = Status.MAX_ITER
        for number in range(self.max_iter):
            now = objective.turn()
            point = now.evaluate(theta)
            recorder.record(point)
            # Values of different batches do not compare; the last parameters count then.
            if best is None or point.value > best.value or now is not objective:
                best = point
            if recorder.settled:
                status = Status.CONVERGED
                break
            direction = adam.direction(now.gradient(point))
            theta = objective.mixture.clip(theta + self.learning_rate * direction)
            if number % UPDATE_EVERY == UPDATE_EVERY - 1:
                objective = objective.updated(point)
        assert best is not None
        return Solution(best.theta, best.value, status, recorder.rows)
