"""The paper's Algorithm 2, FMC-EM: generalised EM with R inner steps on Q_fair.

Without a penalty the M-step is closed-form, which is ordinary EM.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fairmix.criteria import Criterion
from fairmix.kernels.totals import FloatArray
from fairmix.solvers._base import Adam, Callback, Recorder, Solution, Status
from fairmix.solvers.objective import Objective, Point, Surrogate

# Rounds of R inner steps, each with half the step of the one before, until Q_fair has risen.
ROUNDS = 10


@dataclass(frozen=True)
class EM:
    """Generalised EM.

    Parameters
    ----------
    criterion : Criterion
        For the history; the penalty brings its own.
    max_iter : int
        T, outer iterations.
    inner_iter : int
        R, steps on Q_fair between two E-steps.
    learning_rate : float
        gamma, the size of an inner step. When R steps did not raise Q_fair, R more follow with
        half the step, so that neither Q_fair nor the objective ever falls.
    tol : float
        Mean gain per outer iteration below which the fit has converged.
    """

    criterion: Criterion
    max_iter: int = 200
    inner_iter: int = 10
    learning_rate: float = 1e-2
    tol: float = 1e-4

    def solve(
        self, objective: Objective, theta: FloatArray, *, callback: Callback | None = None
    ) -> Solution:
        """Climb from theta."""
        plain = objective.penalty is None
        window = (1 if plain else 10) * objective.n_batches
        tol = self.tol / objective.n_batches
        recorder = Recorder(self.criterion, objective.fair, tol, window, callback)
        ascent = Ascent(Adam(len(theta)), self.learning_rate, self.inner_iter)
        logits = None
        for _ in range(self.max_iter):
            surrogate, point = objective.expect(theta, logits)
            recorder.record(point)
            if recorder.settled:
                return Solution(theta, point.value, Status.CONVERGED, recorder.rows)
            if plain:
                theta = objective.mixture.maximize(surrogate.sums)
                continue
            better, objective = ascent.climb(surrogate, point)
            if better is None:
                return Solution(theta, point.value, Status.STALLED, recorder.rows)
            theta, logits = better.theta, better.logits
        value = objective.evaluate(theta).value
        return Solution(theta, value, Status.MAX_ITER, recorder.rows)


@dataclass
class Ascent:
    """Inner steps on a surrogate, with the step length that they last needed."""

    adam: Adam
    largest_step: float
    inner_iter: int

    def __post_init__(self) -> None:
        self.step = self.largest_step

    def climb(self, surrogate: Surrogate, start: Point) -> tuple[Point | None, Objective]:
        """A point at which Q_fair is above its value at ``start``, or None.

        Also the objective with the multipliers that the steps arrived at. Near the solution they
        are what lets a step gain likelihood without a loss in fairness, so they are updated after
        every round, successful or not.
        """
        floor = surrogate.value(start.logits, start.rates)
        point, better = start, None
        for number in range(ROUNDS):
            for _ in range(self.inner_iter):
                direction = self.adam.direction(surrogate.gradient(point))
                theta = surrogate.objective.mixture.clip(point.theta + self.step * direction)
                point = surrogate.evaluate(theta)
                if point.value > floor:
                    better = point
            surrogate = replace(surrogate, objective=surrogate.objective.updated(point))
            if better is not None:
                if number == 0:
                    self.step = min(2 * self.step, self.largest_step)
                break
            self.step /= 2
        return better, surrogate.objective
