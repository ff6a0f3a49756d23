"""Solvers: frozen settings that climb an objective. `SOLVERS` is their register."""

from fairmix.solvers._base import (
    Beginning,
    Callback,
    ClimbOnly,
    Iteration,
    Recipe,
    Solution,
    Solver,
    Status,
    Task,
    enough,
)
from fairmix.solvers.constrained import Constrained
from fairmix.solvers.dual import Dual
from fairmix.solvers.em import EM
from fairmix.solvers.gradient import GradientDescent
from fairmix.solvers.quadratic import Bound, Constraint, Strength
from fairmix.solvers.register import SOLVERS, bounded

__all__ = [
    "EM",
    "SOLVERS",
    "Beginning",
    "Bound",
    "Callback",
    "ClimbOnly",
    "Constrained",
    "Constraint",
    "Dual",
    "GradientDescent",
    "Iteration",
    "Recipe",
    "Solution",
    "Solver",
    "Status",
    "Strength",
    "Task",
    "bounded",
    "enough",
]
