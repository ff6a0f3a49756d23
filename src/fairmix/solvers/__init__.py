"""Solvers: frozen settings that climb an objective."""

from fairmix.solvers._base import Callback, Iteration, Solution, Solver, Status
from fairmix.solvers.em import EM
from fairmix.solvers.gradient import GradientDescent

__all__ = ["EM", "Callback", "GradientDescent", "Iteration", "Solution", "Solver", "Status"]
