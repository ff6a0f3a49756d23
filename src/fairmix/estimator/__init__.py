"""The estimator."""

from fairmix.estimator._fair_mixture import FairMixture, load

__all__ = ["FairMixture", "load"]
