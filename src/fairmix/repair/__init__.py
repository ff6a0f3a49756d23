"""Repair: fair labels for clusters that are there already."""

from fairmix.repair.labels import FairLabels, fair_labels

__all__ = ["FairLabels", "fair_labels"]
