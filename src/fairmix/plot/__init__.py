"""Pictures, as scikit-learn Display classes. They need matplotlib: the extra ``plot``."""

from fairmix.plot.comparison import ComparisonDisplay
from fairmix.plot.components import ComponentsDisplay
from fairmix.plot.convergence import ConvergenceDisplay
from fairmix.plot.front import ParetoFrontDisplay
from fairmix.plot.selection import SelectionDisplay
from fairmix.plot.shares import GroupSharesDisplay

__all__ = [
    "ComparisonDisplay",
    "ComponentsDisplay",
    "ConvergenceDisplay",
    "GroupSharesDisplay",
    "ParetoFrontDisplay",
    "SelectionDisplay",
]
