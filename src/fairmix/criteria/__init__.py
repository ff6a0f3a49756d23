"""Criteria of group fairness."""

from fairmix.criteria._base import Ball, Criterion, Face, OwnBound, Seminorm
from fairmix.criteria.aggregates import LargestOverClusters, SumOverClusters, smallest_ratio
from fairmix.criteria.attributes import EachAttribute, Edges
from fairmix.criteria.limits import (
    LIMITS,
    MAX_GAP,
    AnyLimit,
    ByAttribute,
    Limit,
    MaxGap,
    MinBalance,
    MinRatio,
    best_balance,
    limit_of,
)
from fairmix.criteria.measures import MeanPair, Measure, WorstPair
from fairmix.criteria.ratios import SmallestRatio, forgiven_rows
from fairmix.criteria.register import CRITERIA, criterion_named

__all__ = [
    "CRITERIA",
    "LIMITS",
    "MAX_GAP",
    "AnyLimit",
    "Ball",
    "ByAttribute",
    "Criterion",
    "EachAttribute",
    "Edges",
    "Face",
    "LargestOverClusters",
    "Limit",
    "MaxGap",
    "MeanPair",
    "Measure",
    "MinBalance",
    "MinRatio",
    "OwnBound",
    "Seminorm",
    "SmallestRatio",
    "SumOverClusters",
    "WorstPair",
    "best_balance",
    "criterion_named",
    "forgiven_rows",
    "limit_of",
    "smallest_ratio",
]
