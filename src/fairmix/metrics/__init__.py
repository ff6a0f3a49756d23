"""Fairness and cost of a clustering, from hard labels or from probabilities.

Every fairness figure is a function of the *mass* m[g, k], how much of group g is in cluster k, or
of the *rates* r[g, k] = m[g, k] / (mass of group g). With hard labels the mass is a count (or a sum
of ``sample_weight``); with probabilities it is the expected count.

What happens at the edges, for every function here:

- An empty cluster (a column of probabilities, or a label, with no mass) adds 0 to the gaps and to
  the cost, and `balance` and `rate_ratio` skip it.
- A cluster that has mass but none of some group has balance 0 and rate ratio 0.
- With one group only the gaps are 0.0, `balance` and `rate_ratio` are 1.0.
- A group whose ``sample_weight`` is all zero is no group: weights equal repetition of rows.
"""

from fairmix.metrics._cost import clustering_cost
from fairmix.metrics._fairness import (
    additive_gap,
    balance,
    gap,
    group_counts,
    group_rates,
    rate_ratio,
    worst_pair_gap,
)
from fairmix.metrics.scorers import gap_scorer, ratio_scorer

__all__ = [
    "additive_gap",
    "balance",
    "clustering_cost",
    "gap",
    "gap_scorer",
    "group_counts",
    "group_rates",
    "rate_ratio",
    "ratio_scorer",
    "worst_pair_gap",
]
