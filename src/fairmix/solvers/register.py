"""The register of solvers: what the parameter ``solver`` can name."""

from __future__ import annotations

from fairmix.solvers._base import Recipe, Solver, Task
from fairmix.solvers.constrained import Constrained
from fairmix.solvers.dual import Dual
from fairmix.solvers.em import EM
from fairmix.solvers.gradient import GradientDescent
from fairmix.solvers.online import StepwiseDual


def _dual(task: Task) -> Solver:
    if task.plain:
        return EM.of(task)
    return StepwiseDual.of(task) if task.online else Dual.of(task)


def _em(task: Task) -> Solver:
    return bounded(EM.of(task), task)


def _gradient(task: Task) -> Solver:
    return bounded(GradientDescent.of(task), task)


def bounded(climber: Solver, task: Task) -> Solver:
    """The climber of a penalised objective itself or, where a bound must be met, around it."""
    if task.strength is not None:
        return climber
    return Constrained(climber, task.criterion, task.target, task.labels)


#: Solvers by the name that ``FairMixture(solver=...)`` and ``fairmix fit --solver`` take. An entry
#: is a `Recipe`: ``make(task)`` gives a `Solver` with ``climb``, ``finish`` and ``limited``, and
#: the other fields say what a fit prepares for it. Defaults of ``max_iter``, ``learning_rate`` and
#: the like are the solver's own. A solver that only climbs a penalised objective inherits
#: `ClimbOnly`, and `bounded` makes it meet a bound. One line adds one, from anywhere::
#:
#:     SOLVERS["mine"] = Recipe(lambda task: bounded(Mine.of(task), task))
SOLVERS: dict[str, Recipe] = {
    "dual": Recipe(_dual, tilts=True, start="kmeans"),
    "em": Recipe(_em),
    "gd": Recipe(_gradient),
}
