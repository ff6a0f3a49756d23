"""Repair: fair labels for clusters that are there already."""

from fairmix.repair.assignment import FairAssignment
from fairmix.repair.labels import FairLabels, fair_labels

__all__ = ["FairAssignment", "FairLabels", "fair_labels"]
