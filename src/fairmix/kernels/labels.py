"""Labels of a block: the cluster with the largest logit of each row.

Rows that are equal would all get the same one. Where they share labels out, each has numbers of its
own added to its logits, so small that only rows at a boundary notice::

    n_ik = width (frac(t_i phi (c_k + 1)) - 1/2)

with t_i the number of the row among those that have equals (`Block.ties`), c_k the place of the
cluster in an order that does not change with the clusters' numbers (`LogitMap.ranks`), and phi the
golden ratio. Multiples of phi are spread evenly on a circle, whichever of them are taken: so equal
rows cross a boundary one after the other, and groups that come sorted or in turn cross it alike.
"""

from __future__ import annotations

import numpy as np

from fairmix.kernels.logits import ALL, LogitMap, lowered_logits, product, tilted
from fairmix.kernels.totals import Block, FloatArray, IntArray

GOLDEN = (np.sqrt(5) - 1) / 2
# Of the numbers that are added to logits. The odds of two clusters change by at most a tenth, so
# rows away from a boundary do not notice; it is far above rounding, so equal rows cross a boundary
# one after the other.
WIDTH = 0.1


def _nudged(block: Block, logit_map: LogitMap, rows: IntArray) -> FloatArray:
    """Logits of rows that have equals, each with its own numbers, (K, n).

    In double precision: the rounding of a pass differs from that of a prediction.
    """
    assert block.ties is not None
    # One more than the rank, or the first cluster would add the same number to all rows.
    turns = np.multiply.outer(GOLDEN * (logit_map.ranks + 1), block.ties[rows])
    # Logits are divided by the temperature, so these must be, too: labels do not depend on it.
    nudges: FloatArray = (WIDTH / logit_map.temperature) * (np.modf(turns)[0] - 0.5)
    nudges += product(block, logit_map.weights(block, exact=True), rows)
    return nudges


def _shared(block: Block, lowered: FloatArray, logit_map: LogitMap) -> tuple[IntArray, IntArray]:
    """Rows near a boundary that have equals, and their labels."""
    assert block.ties is not None
    # A little more than what can make a difference, for the sake of rounding.
    reach = 1.1 * WIDTH / logit_map.temperature
    close = np.count_nonzero(lowered > lowered.max(axis=0) - reach, axis=0) > 1
    rows = np.flatnonzero(close & (block.ties >= 0))
    return rows, _nudged(block, logit_map, rows).argmax(axis=0)


def winners(block: Block, lowered: FloatArray, logit_map: LogitMap) -> FloatArray:
    """One at the label of each row, else zero, (K, n); ``lowered`` are its logits."""
    # Cold logits come less their largest (`lowered_logits`).
    top = 0.0 if logit_map.temperature < 1.0 else lowered.max(axis=0)
    # Many times as fast as argmax along the first axis.
    mark: FloatArray = (lowered == top).astype(lowered.dtype)
    # Equal largest logits: the first counts, as for argmax in `hard_labels`.
    if mark.sum() != mark.shape[1]:
        mark = np.zeros_like(lowered)
        mark[lowered.argmax(axis=0), np.arange(mark.shape[1])] = 1
    if block.ties is not None:
        rows, labels = _shared(block, lowered, logit_map)
        mark[:, rows] = 0
        mark[labels, rows] = 1
    return mark


def hard_labels(block: Block, logit_map: LogitMap) -> IntArray:
    """Label of each row, (n,)."""
    lowered = lowered_logits(block, logit_map)[0]
    # 32 bits, as scikit-learn's KMeans has: half the memory of the labels of many rows.
    out = _first_largest(lowered).astype(np.int32)
    if block.ties is not None:
        rows, labels = _shared(block, lowered, logit_map)
        out[rows] = labels
    return out


def label_masses(block: Block, labels: IntArray, n_clusters: int) -> FloatArray:
    """Weight of each group in each cluster, (M, K); rows aside belong to no group."""
    n_codes = block.n_indicators if block.membership is None else block.membership.n_cells
    # Codes may have 8 bits, which the product would overflow.
    cells = block.groups * np.intp(n_clusters) + labels
    counts = np.bincount(cells, block.weight, n_codes * n_clusters).astype(np.float64)
    return block.sums_by_group(counts.reshape(n_codes, n_clusters))


def _first_largest(scores: FloatArray) -> IntArray:
    """The first of the largest entries of each column, as argmax gives, six times as fast."""
    n_clusters = len(scores)
    small = np.min_scalar_type(n_clusters)
    # The first cluster has the highest number, so the largest number among equals is its.
    numbers = np.arange(n_clusters, 0, -1, dtype=small)[:, None]
    marks = (scores == scores.max(axis=0)) * numbers
    # NaN equals nothing; a label must be one all the same.
    return np.asarray(np.minimum(n_clusters - marks.max(axis=0), n_clusters - 1))


def label_scores(block: Block, logit_map: LogitMap, rows: slice | IntArray = ALL) -> FloatArray:
    """What the labels of some rows are the largest of, (K, n) in double precision."""
    scores = tilted(block, logit_map, rows).astype(np.float64)
    if block.ties is not None:
        wanted: IntArray = np.arange(block.n_rows)[rows]
        tied = np.flatnonzero(block.ties[wanted] >= 0)
        scores[:, tied] = _nudged(block, logit_map, wanted[tied])
    return scores
