"""Fair model-based clustering: mixture models with a bound on how groups differ per cluster."""

from fairmix.compare import compare
from fairmix.estimator import FairMixture
from fairmix.path import pareto_front, select_n_components

__all__ = ["FairMixture", "compare", "pareto_front", "select_n_components"]

__version__ = "0.1.0.dev0"
