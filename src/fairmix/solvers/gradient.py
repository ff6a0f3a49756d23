"""The paper's Algorithm 1, FMC-GD: gradient steps on the penalised likelihood."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fairmix.criteria import Criterion
from fairmix.solvers._base import Beginning, Callback, ClimbOnly, Solution, Status, Task
from fairmix.solvers.adam import Adam
from fairmix.solvers.objective import Objective
from fairmix.solvers.recorder import Recorder

# Steps between two updates of the penalty's multipliers, as many as EM's R, and those over which
# progress is judged: Adam's steps go up and down, and only many of them show a trend.
UPDATE_EVERY = 10
WINDOW = 500
# Steps at each batch of a stream: as many as the inner steps of EM's iterations there.
STREAM_STEPS = 30


@dataclass(frozen=True)
class GradientDescent(ClimbOnly):
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

    @classmethod
    def of(cls, task: Task) -> GradientDescent:
        """For a task, with the paper's numbers where the user leaves them open."""
        steps = cls(
            task.measure,
            max_iter=cls.max_iter if task.max_iter is None else task.max_iter,
            learning_rate=cls.learning_rate if task.learning_rate is None else task.learning_rate,
            # One of EM's iterations is ten steps of ten times the length.
            tol=task.tol / 100,
        )
        return steps.limited(STREAM_STEPS, settle=False) if task.online else steps

    def limited(self, max_iter: int, *, settle: bool = True) -> GradientDescent:
        """The same with other ``max_iter``; without ``settle`` it takes all of them."""
        return replace(self, max_iter=max_iter, tol=self.tol if settle else 0.0)

    def climb(
        self, objective: Objective, start: Beginning, callback: Callback | None = None
    ) -> Solution:
        """Climb from the parameters of a start. There is no tilt."""
        recorder = Recorder(self.criterion, objective.fair, self.tol, WINDOW, callback)
        theta, adam = start.theta, Adam(len(start.theta))
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
        best = objective.evaluate(theta) if best is None else best
        return Solution(best.theta, best.value, status, recorder.rows)
