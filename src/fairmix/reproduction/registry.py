"""The registry of entries, in the order of the paper."""

from fairmix.reproduction.entries import (
    alignment,
    bounds,
    categorical,
    census,
    clusters,
    convergence,
    corollary,
    covariance,
    fronts,
    measures,
    mixed,
    proposition,
    sharpness,
    starts,
    subsampling,
    three_groups,
    times,
    tuning,
)
from fairmix.reproduction.result import Entry

__all__ = ["ENTRIES"]

# The page and `fairmix reproduce` follow this order.
ENTRIES: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        *fronts.ENTRIES,
        *starts.ENTRIES,
        alignment.ENTRY,
        *census.ENTRIES,
        times.ENTRY,
        *subsampling.ENTRIES,
        *categorical.ENTRIES,
        three_groups.ENTRY,
        clusters.ENTRY,
        covariance.ENTRY,
        convergence.ENTRY,
        measures.ENTRY,
        mixed.ENTRY,
        proposition.ENTRY,
        corollary.ENTRY,
        sharpness.ENTRY,
        bounds.ENTRY,
        tuning.ENTRY,
    )
}
