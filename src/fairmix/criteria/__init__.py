"""Criteria of group fairness."""

from fairmix.criteria.aggregates import CRITERIA, Criterion, Face, smallest_ratio

__all__ = ["CRITERIA", "Criterion", "Face", "smallest_ratio"]
