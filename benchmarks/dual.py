"""Fair fits of the dual solver against k-means, on the paper's data (two need FAIRMIX_DATA)."""

from __future__ import annotations

from benchmarks.harness import Ratio
from benchmarks.tabular import fair_fits, names

STARTS = 4
# In the run of docs/benchmarks the slowest fits take 21 and 28: one that becomes much slower shows.
BOUNDS = {"aware": 30, "blind": 60}


def run(repeats: int) -> list[Ratio]:
    """Aware and blind fits with four starts and a gap of 0, in units of KMeans(10, n_init=4).

    Blind fits are of two groups only, which keeps the run short.
    """
    settings = {"max_gap": 0, "n_init": STARTS}
    return [
        ratio
        for name in names()
        for ratio in fair_fits(name, BOUNDS, settings, STARTS, repeats, blind_columns=1)
    ]
