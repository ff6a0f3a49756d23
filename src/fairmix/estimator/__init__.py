"""The estimator."""

from fairmix.estimator.fair_mixture import FairMixture, load

__all__ = ["FairMixture", "load"]
