"""Rows that a repair moved from one cluster to another.

Two reports tell the sizes of clusters before and after, so that of two clusters the difference
between what moved there and back may be known. With it, any number of one direction is one of the
other. So both are told as ten numbers each: the smaller one lies between two multiples of ten, and
the larger one is as much more as it is. Rows that change places, one there and one back of people
whom no table tells apart, leave all that the pages say as it is; a pair of clusters is listed where
such rows leave its moves open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from fairmix.kernels.totals import IntArray
from fairmix.report.disclosure import FEWEST, SMALLEST, open_to_readers
from fairmix.report.figures import cut

__all__ = ["Moves", "move_rows"]


@dataclass(frozen=True, eq=False)
class Moves:
    """Where the rows of a report were before.

    Attributes
    ----------
    rows : (C, K, K) int array
        Of people that belong to the same groups: how many had a cluster (second axis) and have one.
    hidden : (K,) bool array
        Clusters whose numbers the report before hides.
    """

    rows: IntArray
    hidden: NDArray[np.bool_]


def move_rows(
    moves: Moves, clusters: Sequence[object], hidden: NDArray[np.bool_]
) -> dict[str, object]:
    """From where to where, and how many rows, the most first.

    Parameters
    ----------
    moves : Moves
        The rows.
    clusters : sequence
        Names of the clusters.
    hidden : (K,) bool array
        Clusters whose numbers this report hides; they are in no line.

    Examples
    --------
    >>> rows = np.array([[[50, 18], [2, 40]], [[40, 20], [2, 48]]])
    >>> move_rows(Moves(rows, np.zeros(2, bool)), ["a", "b"], np.zeros(2, bool))
    {'rows': [{'from': 'a', 'to': 'b', 'rows': '34 to 43'}], 'share': '15%'}
    """
    shown = np.flatnonzero(~(hidden | moves.hidden)).tolist()
    total = moves.rows.sum(axis=0)
    found: list[tuple[int, int, int]] = []
    for a, b in combinations(shown, 2):
        there, back = int(total[a, b]), int(total[b, a])
        fewer = min(there, back)
        least = fewer // FEWEST * FEWEST
        if _is_open(moves.rows, a, b, fewer, least):
            found += [(there - fewer + least, a, b), (back - fewer + least, b, a)]
    # Stable, so that the page repeats.
    listed = sorted((one for one in found if one[0] >= SMALLEST), key=lambda one: -one[0])
    rows = [
        {
            "from": cut(str(clusters[a])),
            "to": cut(str(clusters[b])),
            "rows": f"{least:,} to {least + FEWEST - 1:,}",
        }
        for least, a, b in listed
    ]
    # Of what is listed, so that it says nothing more.
    share = int(100 * sum(least for least, _, _ in listed) // max(total.sum(), 1))
    return {"rows": rows, "share": f"{share}%" if share else None}


def _is_open(rows: IntArray, a: int, b: int, fewer: int, least: int) -> bool:
    """Whether rows that change places leave the smaller of two moves open."""
    more = np.minimum(rows[:, a, a], rows[:, b, b]).sum()
    less = np.minimum(rows[:, a, b], rows[:, b, a]).sum()
    ends = max(least, fewer - less), min(least + FEWEST - 1, fewer + more)
    return open_to_readers(*map(float, ends))
