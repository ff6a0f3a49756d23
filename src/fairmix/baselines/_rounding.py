"""Rounding: whole rows whose rates keep a bound that fractions of rows have met."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fairmix.kernels.totals import FloatArray, IntArray

# How near to a whole row counts as one: the shares of rows are rounded numbers.
NEARLY = 1e-9

# Clusters with certain masses.
Chooses = Callable[[FloatArray], NDArray[np.bool_]]


def keep_bound(
    labels: IntArray,
    wanted: FloatArray,
    distances: FloatArray,
    codes: IntArray,
    weights: FloatArray,
    max_gap: float,
) -> IntArray:
    """Labels under which the rates of any two groups differ by at most a bound in any cluster.

    The smallest group comes within a row of the rates that are wanted of it. In each cluster the
    others gather in an interval around its rate, and end less than a row outside of it, for rows
    are whole. The interval is so much shorter than the bound that this is enough; where the bound
    is less than these rows, it is a point.

    Parameters
    ----------
    labels : (N,) int array
        Where the rows are.
    wanted : (M, K) array
        Rates that fractions of rows have, within the bound.
    distances : (N, K) array
        What a row costs in each cluster.
    codes : (N,) int array
        Group of each row.
    weights : (N,) array
        Above 0.
    max_gap : float
        The bound.
    """
    n_groups, n_clusters = wanted.shape
    sizes, largest = np.bincount(codes, weights, n_groups), np.zeros(n_groups)
    np.maximum.at(largest, codes, weights)
    # The smallest group first: a row of it moves its rate most, so the others can follow
    # it more closely than it can follow them.
    smallest, *others = np.argsort(sizes, kind="stable")
    mass = np.bincount(codes * n_clusters + labels, weights, n_groups * n_clusters)
    rates = mass.reshape(n_groups, n_clusters) / sizes[:, None]
    # Every row that moves costs something, so labels within the bound stay as they are.
    if np.ptp(rates, axis=0).max() <= max_gap:
        return labels
    labels = labels.copy()

    def gather(group: int, low: FloatArray, high: FloatArray) -> FloatArray:
        rows = np.flatnonzero(codes == group)
        size = sizes[group]
        labels[rows] = _within(
            labels[rows], distances[rows], weights[rows], low * size, high * size
        )
        return np.asarray(np.bincount(labels[rows], weights[rows], n_clusters) / size)

    goal = _filled(wanted[smallest], largest[smallest] / sizes[smallest])
    center = gather(smallest, goal, goal)
    # Two groups may end a row each outside of the interval, on opposite sides.
    room = max(0.0, max_gap - float(np.sort((largest / sizes)[others])[-2:].sum()))
    below, above = wanted[smallest] - wanted.min(axis=0), wanted.max(axis=0) - wanted[smallest]
    width = below + above
    scale = np.divide(room, width, out=np.ones_like(width), where=width > room)
    # Room that the wanted rates do not use goes to both sides, and fewer rows have to move.
    slack = np.maximum(room - width, 0.0) / 2
    for group in others:
        gather(
            group, np.maximum(center - scale * below - slack, 0.0), center + scale * above + slack
        )
    return labels


def _filled(rates: FloatArray, row: float) -> FloatArray:
    """Rates with at least a row in every cluster, if there are enough rows.

    All groups follow these rates, so a cluster without a row of the smallest group would end
    without any.
    """
    over = np.maximum(rates - row, 0.0)
    spare = 1.0 - row * len(rates)
    return row + over * (spare / over.sum()) if spare > 0 and over.any() else rates


def _within(
    labels: IntArray, distances: FloatArray, weights: FloatArray, low: FloatArray, high: FloatArray
) -> IntArray:
    """Labels of one group whose masses end less than a row outside of intervals.

    The intervals hold some masses that add up to that of the group. So while a cluster is a row
    above its interval, another one is below its upper end and can take a row, and the other way
    round.
    """
    # With weights, moving any row changes a mass by at most the heaviest one.
    row = (1 - NEARLY) * weights.max()
    labels = labels.copy()
    _move(labels, distances, weights, lambda mass: mass >= high + row, lambda mass: mass < high)
    _move(labels, distances, weights, lambda mass: mass > low, lambda mass: mass <= low - row)
    return labels


def _move(
    labels: IntArray, distances: FloatArray, weights: FloatArray, gives: Chooses, takes: Chooses
) -> None:
    """Move rows in place, the cheapest first, from clusters that give to clusters that take.

    A cluster that gives or takes no longer does not begin again, so this ends.
    """
    mass: FloatArray = np.bincount(labels, weights, distances.shape[1]).astype(np.float64)
    while True:
        giving, taking = gives(mass), takes(mass)
        rows, into = np.flatnonzero(giving[labels]), np.flatnonzero(taking)
        if not rows.size or not into.size:
            return
        extra = distances[np.ix_(rows, into)] - distances[rows, labels[rows]][:, None]
        # Stable, so that equal costs are taken in the order of the rows, on every platform.
        for pair in np.argsort(extra, axis=None, kind="stable"):
            row, to = rows[pair // len(into)], into[pair % len(into)]
            out = labels[row]
            if not giving[out]:  # it has moved
                continue
            labels[row] = to
            mass[[out, to]] += [-weights[row], weights[row]]
            # The list of candidates is for the clusters that gave and took when it was made.
            if not gives(mass)[out] or not takes(mass)[to]:
                break
