"""The register of criteria.

==================== ============================== ==========
criterion            measure of a cluster           aggregate
==================== ============================== ==========
``gap``              mean over pairs of groups      largest
``additive_gap``     mean over pairs of groups      sum
``worst_pair_gap``   largest pair (the range)       largest
==================== ============================== ==========
"""

from __future__ import annotations

from fairmix.criteria._base import Seminorm
from fairmix.criteria.aggregates import LargestOverClusters, SumOverClusters
from fairmix.criteria.measures import MeanPair, WorstPair

# By name. All who list or choose a criterion read this when they need it, so one of your own counts
# from the line that adds it.
CRITERIA: dict[str, Seminorm] = {
    # The paper's Delta; the pairs of groups are counted once, so that two groups are a special
    # case.
    "gap": LargestOverClusters(MeanPair()),
    "additive_gap": SumOverClusters(MeanPair()),
    "worst_pair_gap": LargestOverClusters(WorstPair()),
}


def criterion_named(name: str) -> Seminorm:
    """The criterion of a name that a user gave.

    Examples
    --------
    >>> criterion_named("delta")
    Traceback (most recent call last):
    ValueError: criterion='delta' is unknown. Choose one of gap, additive_gap, worst_pair_gap.
    """
    if name not in CRITERIA:
        raise ValueError(f"criterion={name!r} is unknown. Choose one of {', '.join(CRITERIA)}.")
    return CRITERIA[name]
