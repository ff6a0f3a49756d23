"""Rows that a repair moved from one cluster to another."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fairmix.kernels.totals import IntArray
from fairmix.report.disclosure import FEWEST, SMALLEST, SafeCounts, share_of
from fairmix.report.figures import cut


def move_rows(
    moves: IntArray, clusters: Sequence[object], safes: Sequence[SafeCounts]
) -> dict[str, object]:
    """From where to where, and about how many rows, the most first.

    Sizes of clusters before and after are known from two reports, and with exact moves beside them
    a move of a few rows would be what is left. So counts are multiples of 10, and a cluster whose
    numbers are hidden is in no line.

    Parameters
    ----------
    moves : (K, K) int array
        Rows with an old cluster (first axis) and a new one.
    clusters : sequence
        Their names.
    safes : sequence of SafeCounts
        The tables of the page.

    Examples
    --------
    >>> safe = SafeCounts.of([[40, 50], [60, 70]])
    >>> move_rows(np.array([[90, 38], [4, 88]]), ["a", "b"], [safe])
    {'rows': [{'from': 'a', 'to': 'b', 'rows': 'about 40'}], 'share': '20 ± 2.5%'}
    """
    hidden = np.any([safe.pool for safe in safes], axis=0) | any(safe.closed for safe in safes)
    out = moves.copy()
    np.fill_diagonal(out, 0)
    share = share_of(float(out.sum()), float(moves.sum()))
    out[hidden] = out[:, hidden] = 0
    first, second = np.nonzero(out >= SMALLEST)
    order = np.argsort(-out[first, second], kind="stable")
    rows = []
    for a, b in zip(first[order], second[order], strict=True):
        # Halves go up, so that none is shown as zero.
        about = FEWEST * int((out[a, b] + FEWEST // 2) // FEWEST)
        rows.append(
            {"from": cut(str(clusters[a])), "to": cut(str(clusters[b])), "rows": f"about {about:,}"}
        )
    return {"rows": rows, "share": None if share is None else share.text}
