"""What all solvers share: their shape, their task and their solution."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar, Literal, NamedTuple, Protocol, Self

import numpy as np

from fairmix.criteria import Criterion
from fairmix.criteria.bounds import SOFT_RESOLUTION
from fairmix.kernels import Sweep
from fairmix.kernels.totals import FloatArray, Logits
from fairmix.mixture.mixture import Mixture
from fairmix.solvers.objective import Objective
from fairmix.tables import Rowlike

# Digits behind the point by which objectives differ when more than rounding parts them.
SAME = 9


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
    bounded (NaN if nothing was), ``met`` whether it is within the bound, ``filled`` the number of
    clusters with members (0 if not counted). Where labels count, ``objective`` is what they are
    worth at the components that they make, and ``climbed`` what a climb would say of the solution.
    """

    theta: FloatArray
    objective: float
    status: Status
    history: Sequence[Iteration]
    multipliers: FloatArray | None = None
    offsets: FloatArray | None = None
    temperature: float = 1.0
    gap: float = np.nan
    met: bool = True
    filled: int = 0
    climbed: float = -np.inf

    @property
    def rank(self) -> tuple[bool, int, float, float]:
        """Of several solutions of one task, the best has the highest; of equal ones the first."""
        # Equal labels are worth the same but for rounding, which must not choose between them.
        return self.met, self.filled, round(self.objective, SAME), self.climbed


class Beginning(NamedTuple):
    """Where a climb begins: parameters and, of a tilt where they are known, multipliers (M, K).

    ``level``: without multipliers, a tilt takes back what the groups tell of the components.
    """

    theta: FloatArray
    multipliers: FloatArray | None = None
    level: bool = False

    @classmethod
    def at(cls, end: Solution) -> Beginning:
        """Where another climb has ended."""
        return cls(end.theta, end.multipliers)


@dataclass(frozen=True)
class Task:
    """What a solver is made for; an entry of `SOLVERS` makes one from it.

    Attributes
    ----------
    measure : Criterion
        The measure of fairness that is recorded.
    strength : float or None
        Strength of the penalty on the criterion, a `Seminorm` then; 0: a plain mixture. None: a
        bound must be met.
    criterion : Criterion
        What a bound or a strength is on; a bound may be on another than the measure.
    bound : float
        What the criterion may be on all rows; infinite where ``strength`` is a number.
    target : float
        The bound to aim at where it is met on the rows of the climb alone: ``bound``, less the
        sampling error of these rows, but no less than whole rows can resolve.
    labels : bool
        Whether the hard labels count, or the responsibilities.
    aware : bool
        Whether the assignment may depend on the group.
    n_groups, n_batches : int
        Groups that are compared, and E-steps that visit all rows.
    max_iter, learning_rate : int or None, float or None
        Choices of the user; None leaves them to the solver.
    inner_iter, tol : int, float
        Choices of the user.
    patience : int or None
        Points in a row that are no better before a climb ends; None leaves it to the solver.
    online : bool
        Whether the climb is one batch of a stream, where a few steps are enough.
    """

    measure: Criterion
    strength: float | None
    criterion: Criterion
    bound: float
    target: float
    labels: bool
    aware: bool
    n_groups: int
    n_batches: int
    max_iter: int | None
    learning_rate: float | None
    inner_iter: int
    tol: float
    patience: int | None = None
    online: bool = False

    @property
    def plain(self) -> bool:
        """Whether fairness has no part in it."""
        return self.strength == 0


class Solver(Protocol):
    """A frozen set of settings that climbs an objective.

    A solver knows rows through the passes of an objective alone. Those that inherit `ClimbOnly`
    need no more than `climb` and `limited`.
    """

    @property
    def max_iter(self) -> int:
        """Iterations of a climb; at most so many, unless it is ``open_ended``."""

    @property
    def tol(self) -> float:
        """Gain of the objective per iteration below which a climb has settled."""

    @property
    def open_ended(self) -> bool:
        """Whether a climb may take more than ``max_iter`` iterations."""

    @property
    def screens(self) -> bool:
        """Whether starts are compared by short climbs of a sample before one goes on."""

    @property
    def samples_first(self) -> bool:
        """Whether samples may do most of the climb of a plain mixture of many rows."""

    def climb(
        self, objective: Objective, start: Beginning, callback: Callback | None = None
    ) -> Solution:
        """Climb from a start; solvers without a tilt leave its multipliers alone."""

    def finish(self, mixture: Mixture, rough: Solution, near: Rowlike, table: Rowlike) -> Solution:
        """What is left to do for all rows of a table after a climb, its components fixed.

        ``near`` is the table or a sample of it, on which most of the work is done.
        """

    def expect(self, objective: Objective, at: Beginning) -> Logits:
        """Sums of an E-step at some parameters: what an M-step needs of the rows."""

    def limited(self, max_iter: int, *, settle: bool = True) -> Self:
        """The same with other ``max_iter``; without ``settle`` it takes all of them."""

    def closing(self) -> Self:
        """The same for the last climb, from where a search has led."""

    def coldest(self) -> Self:
        """The same for a few iterations more, where labels lose much against the last climb."""


class ClimbOnly:
    """What holds of most solvers: a climb from any start is all that there is to do."""

    open_ended: ClassVar[bool] = False
    screens: ClassVar[bool] = False
    samples_first: ClassVar[bool] = False

    def finish(self, mixture: Mixture, rough: Solution, near: Rowlike, table: Rowlike) -> Solution:
        """The solution of the climb as it is."""
        return rough

    def closing(self) -> Self:
        """The same."""
        return self

    def coldest(self) -> Self:
        """The same."""
        return self

    def expect(self, objective: Objective, at: Beginning) -> Logits:
        """Sums of the plain E-step."""
        return objective.table.softmax_pass(Sweep(objective.mixture.logits(at.theta))).sums


@dataclass(frozen=True)
class Recipe:
    """An entry of `SOLVERS`.

    Attributes
    ----------
    make : callable
        Makes a `Solver` for a `Task`.
    tilts : bool
        Whether the solver tilts the assignment of each group. It then meets a bound, or weighs a
        strength, by itself, may be aware, and needs P(group | x) when it is blind. Otherwise a
        strength is a penalty of the objective that it climbs.
    start : {"paper", "kmeans"}
        Where climbs begin unless the user says: the paper's start, or the clusters of k-means.
    """

    make: Callable[[Task], Solver]
    tilts: bool = False
    start: Literal["paper", "kmeans"] = "paper"


def enough(
    criterion: Criterion, bound: float, rates: FloatArray, table: Rowlike, *, labels: bool
) -> float:
    """The largest value of a criterion with which labels, or responsibilities, meet a bound.

    ``rates`` (M, K) are theirs.
    """
    if not labels:
        return max(bound, SOFT_RESOLUTION)
    return criterion.enough(bound, rates, table.group_sizes, table.rate_steps)
