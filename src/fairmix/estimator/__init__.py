"""The estimator."""

from fairmix.estimator._fair_mixture import FairMixture

__all__ = ["FairMixture"]
