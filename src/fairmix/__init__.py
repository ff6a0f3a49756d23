"""Fair model-based clustering: mixture models with a bound on how groups differ per cluster."""

from fairmix.estimator import FairMixture

__all__ = ["FairMixture"]

__version__ = "0.1.0.dev0"
