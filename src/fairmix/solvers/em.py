"""The paper's Algorithm 2, FMC-EM: generalised EM with R inner steps on Q_fair.

Without a penalty the M-step is closed-form, which is ordinary EM.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from fairmix.criteria import Criterion
from fairmix.solvers._base import Beginning, Callback, ClimbOnly, Solution, Status, Task
from fairmix.solvers.adam import Adam
from fairmix.solvers.objective import Objective, Point, Surrogate
from fairmix.solvers.recorder import Recorder

# Rounds of R inner steps, each with half the step of the one before, until Q_fair has risen. After
# ten of them a step is a thousandth of the first: no step improves it.
ROUNDS = 10
# Iterations at each batch of a stream: enough to follow it, few enough that a batch costs about as
# much as a few passes over it.
STREAM_STEPS = 3


@dataclass(frozen=True)
class EM(ClimbOnly):
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

    samples_first: ClassVar[bool] = True

    def limited(self, max_iter: int, *, settle: bool = True) -> EM:
        """The same with other ``max_iter``; without ``settle`` it takes all of them."""
        return replace(self, max_iter=max_iter, tol=self.tol if settle else 0.0)

    @classmethod
    def of(cls, task: Task) -> EM:
        """For a task, with the paper's numbers where the user leaves them open."""
        em = cls(
            task.measure,
            # An iteration sees one batch.
            max_iter=cls.max_iter * task.n_batches if task.max_iter is None else task.max_iter,
            inner_iter=task.inner_iter,
            learning_rate=cls.learning_rate if task.learning_rate is None else task.learning_rate,
            tol=task.tol,
        )
        return em.limited(STREAM_STEPS, settle=False) if task.online else em

    def climb(
        self, objective: Objective, start: Beginning, callback: Callback | None = None
    ) -> Solution:
        """Climb from the parameters of a start. There is no tilt."""
        theta, plain = start.theta, objective.penalty is None
        # Plain EM never falls, so one small gain is the end. Under a penalty gains are uneven: its
        # multipliers move between iterations.
        window = (1 if plain else 10) * objective.n_batches
        tol = self.tol / objective.n_batches
        recorder = Recorder(self.criterion, objective.fair, tol, window, callback)
        ascent = Ascent(Adam(len(theta)), self.learning_rate, self.inner_iter)
        logits, stalled = None, 0
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
                # The rows of one batch may be all that no step serves: the next one is tried.
                stalled, logits = stalled + 1, None
                if stalled == objective.n_batches:
                    return Solution(theta, point.value, Status.STALLED, recorder.rows)
                continue
            theta, logits, stalled = better.theta, better.logits, 0
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
