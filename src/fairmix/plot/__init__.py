"""Pictures, as scikit-learn Display classes. They need matplotlib: the extra ``plot``."""

from fairmix.plot.comparison import ComparisonDisplay
from fairmix.plot.front import ParetoFrontDisplay
from fairmix.plot.selection import SelectionDisplay

__all__ = ["ComparisonDisplay", "ParetoFrontDisplay", "SelectionDisplay"]
