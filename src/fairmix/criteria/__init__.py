"""Criteria of group fairness."""

from fairmix.criteria._base import Criterion, Face, OwnBound
from fairmix.criteria.aggregates import LargestOverClusters, SumOverClusters, smallest_ratio
from fairmix.criteria.measures import MeanPair, Measure, WorstPair
from fairmix.criteria.register import CRITERIA, criterion_named

__all__ = [
    "CRITERIA",
    "Criterion",
    "Face",
    "LargestOverClusters",
    "MeanPair",
    "Measure",
    "OwnBound",
    "SumOverClusters",
    "WorstPair",
    "criterion_named",
    "smallest_ratio",
]
