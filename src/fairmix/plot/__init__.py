"""Pictures, as scikit-learn Display classes. They need matplotlib: the extra ``plot``."""

from fairmix.plot.front import ParetoFrontDisplay
from fairmix.plot.selection import SelectionDisplay

__all__ = ["ParetoFrontDisplay", "SelectionDisplay"]
