"""Solvers: frozen settings that climb an objective."""

from fairmix.solvers._base import Callback, Iteration, Solution, Solver, Status
from fairmix.solvers.constrained import Constrained
from fairmix.solvers.dual import Dual
from fairmix.solvers.em import EM
from fairmix.solvers.gradient import GradientDescent
from fairmix.solvers.quadratic import Bound, Constraint, Strength

__all__ = [
    "EM",
    "Bound",
    "Callback",
    "Constrained",
    "Constraint",
    "Dual",
    "GradientDescent",
    "Iteration",
    "Solution",
    "Solver",
    "Status",
    "Strength",
]
