"""Studies: many fits and what they tell together: fronts, numbers of clusters, other methods."""

from fairmix.studies.comparison import Comparison, MethodRow, compare, default_methods
from fairmix.studies.path import (
    FrontRow,
    ParetoFront,
    Selection,
    SelectionRow,
    pareto_front,
    select_n_components,
)

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
