"""Studies: many fits and what they tell together: fronts, numbers of clusters, other methods."""

from fairmix.studies.comparison import Comparison, compare
from fairmix.studies.front import ParetoFront, pareto_front
from fairmix.studies.methods import MethodRow, default_methods
from fairmix.studies.selection import Selection, select_n_components
from fairmix.trials.rows import FrontRow, SelectionRow

__all__ = [
    "Comparison",
    "FrontRow",
    "MethodRow",
    "ParetoFront",
    "Selection",
    "SelectionRow",
    "compare",
    "default_methods",
    "pareto_front",
    "select_n_components",
]
