"""Labels of a block: the cluster with the largest logit of each row.

Rows that are equal would all get the same one. Where they share labels out, each has numbers of its
own added to its logits, so small that only rows at a boundary notice::

    n_ik = width (frac(t_i phi (c_k + 1)) - 1/2)

with t_i the number of the row among those that have equals (`Block.ties`), c_k the place of the
cluster in an order that does not change with the clusters' numbers (`Tilt.ranks`), and phi the
golden ratio. Multiples of phi are spread evenly on a circle, whichever of them are taken: so equal
rows cross a boundary one after the other, and groups that come sorted or in turn cross it alike.
"""

from __future__ import annotations

import numpy as np

from fairmix.kernels.logits import ALL, Tilt, lowered_logits, product, tilted
from fairmix.kernels.totals import Block, FloatArray, IntArray

GOLDEN = (np.sqrt(5) - 1) / 2
# Of the numbers that are added to logits.
WIDTH = 0.1


def _nudged(block: Block, tilt: Tilt, rows: IntArray) -> FloatArray:
    """Logits of rows that have equals, each with its own numbers, (K, n).

    In double precision: the rounding of a pass differs from that of a prediction.
    """
    assert block.ties is not None
    turns = np.multiply.outer(GOLDEN * (tilt.ranks + 1), block.ties[rows])
    nudges: FloatArray = (WIDTH / tilt.temperature) * (np.modf(turns)[0] - 0.5)
    nudges += product(block, tilt.weights(block, exact=True), rows)
    return nudges


def _shared(block: Block, lowered: FloatArray, tilt: Tilt) -> tuple[IntArray, IntArray]:
    """Rows near a boundary that have equals, and their labels."""
    assert block.ties is not None
    # A little more than what can make a difference, for the sake of rounding.
    reach = 1.1 * WIDTH / tilt.temperature
    close = np.count_nonzero(lowered > lowered.max(axis=0) - reach, axis=0) > 1
    rows = np.flatnonzero(close & (block.ties >= 0))
    return rows, _nudged(block, tilt, rows).argmax(axis=0)


def winners(block: Block, lowered: FloatArray, tilt: Tilt) -> FloatArray:
    """One at the label of each row, else zero, (K, n); ``lowered`` are its logits."""
    top = 0.0 if tilt.temperature < 1.0 else lowered.max(axis=0)
    # Many times as fast as argmax along the first axis.
    mark: FloatArray = (lowered == top).astype(lowered.dtype)
    if mark.sum() != mark.shape[1]:
        mark = np.zeros_like(lowered)
        mark[lowered.argmax(axis=0), np.arange(mark.shape[1])] = 1
    if block.ties is not None:
        rows, labels = _shared(block, lowered, tilt)
        mark[:, rows] = 0
        mark[labels, rows] = 1
    return mark


def hard_labels(block: Block, tilt: Tilt) -> IntArray:
    """Label of each row, (n,)."""
    lowered = lowered_logits(block, tilt)[0]
    out = np.asarray(lowered.argmax(axis=0), dtype=np.int32)
    if block.ties is not None:
        rows, labels = _shared(block, lowered, tilt)
        out[rows] = labels
    return out


def label_scores(block: Block, tilt: Tilt, rows: slice | IntArray = ALL) -> FloatArray:
    """What the labels of some rows are the largest of, (K, n) in double precision."""
    scores = tilted(block, tilt, rows).astype(np.float64)
    if block.ties is not None:
        wanted: IntArray = np.arange(block.n_rows)[rows]
        tied = np.flatnonzero(block.ties[wanted] >= 0)
        scores[:, tied] = _nudged(block, tilt, wanted[tied])
    return scores
