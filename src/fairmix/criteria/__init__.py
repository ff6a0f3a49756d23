"""Criteria of group fairness."""

from fairmix.criteria.aggregates import CRITERIA, Criterion, smallest_ratio

__all__ = ["CRITERIA", "Criterion", "smallest_ratio"]
