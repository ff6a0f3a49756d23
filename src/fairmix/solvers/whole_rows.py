"""Whole rows: the offsets of one group of an aware map, so that its labels have given counts.

Newton steps bring the rates of labels close to what is wanted; the last rows are counted here. For
fixed logits, labels that maximise the sum of the logits for given counts are the largest logits
after one number per cluster is added (the prices of a transport problem). So:

1. The rows that lie closest to each boundary between two clusters are gathered.
2. One row at a time leaves a cluster that has too many for one that has too few, along the shortest
   path in a graph whose arcs are the cheapest moves between two clusters.
3. Equal rows cannot be parted. Where counts would need that, others that are as good within a row
   are tried.
4. The numbers that make the new labels the largest logits fulfil ``v_l - v_k <= m_kl``, with m_kl
   the smallest lead of k over l among the rows of k. Of all such numbers those with the most slack
   are taken, so that rounding moves no row.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np

from fairmix.kernels import LogitMap, label_scores
from fairmix.kernels.totals import Block, FloatArray, IntArray, Logits
from fairmix.tables import Rowlike

# Rows gathered at each boundary between two clusters, beyond those that must move at all: a path
# leads through clusters that need no row themselves.
SPARE_ROWS = 16
# Rows gathered at most, whatever the number of clusters (16 MB with ten), and moves at most: each
# takes a shortest path, and where more are missing Newton steps have failed.
MOST_ROWS = 200_000
MOST_MOVES = 5_000
# Rows are equal when their scores are, to so many digits: rounding depends on the place in a block.
DIGITS = 9
# Moves at most that bring equal rows together, and how many of them may be apart from the others:
# counts may change by a row of each cluster only.
MEETINGS = 30
FEW_APART = 2


class Near(NamedTuple):
    """Rows near a boundary: scores (n, K), labels (n,) and weights (n,)."""

    scores: FloatArray
    labels: IntArray
    weight: FloatArray

    def take(self, where: IntArray) -> Near:
        """Some of the rows."""
        return Near(self.scores[where], self.labels[where], self.weight[where])

    def joined(self, other: Near) -> Near:
        """These rows and others."""
        return Near(
            np.concatenate([self.scores, other.scores]),
            np.concatenate([self.labels, other.labels]),
            np.concatenate([self.weight, other.weight]),
        )


@dataclass(frozen=True, eq=False)
class Gather:
    """Finds the rows of one group that lie closest to the boundaries, in a block."""

    logit_map: LogitMap
    group: int
    per_pair: int

    def __call__(self, block: Block) -> Near:
        """The closest rows of the block."""
        rows = np.flatnonzero(block.groups == self.group)
        scores = label_scores(block, self.logit_map, rows).T
        weight = np.ones(len(rows)) if block.weight is None else block.weight[rows]
        near = Near(scores, scores.argmax(axis=1), weight.astype(np.float64))
        return closest(near, self.per_pair)


def closest(near: Near, per_pair: int) -> Near:
    """The rows with the smallest leads of their cluster over each other one."""
    kept = np.zeros(len(near.labels), dtype=bool)
    for k in range(near.scores.shape[1]):
        rows = np.flatnonzero(near.labels == k)
        if len(rows) <= per_pair:
            kept[rows] = True
            continue
        leads = near.scores[rows, k][:, None] - near.scores[rows]
        first = np.argpartition(leads, per_pair - 1, axis=0)[:per_pair]
        kept[rows[np.delete(first, k, axis=1).ravel()]] = True
    return near.take(np.flatnonzero(kept))


@dataclass(frozen=True, eq=False)
class Leads:
    """Finds the smallest lead of labels of each cluster over each other one, by group."""

    logit_map: LogitMap
    n_groups: int

    def __call__(self, block: Block) -> FloatArray:
        """Of the rows of a block, (M, K, K); infinite where a group has no row in a cluster."""
        rows = np.flatnonzero(block.groups < self.n_groups)
        scores = label_scores(block, self.logit_map, rows).T.astype(np.float64)
        labels, n_clusters = scores.argmax(axis=1), scores.shape[1]
        out = np.full((self.n_groups * n_clusters, n_clusters), np.inf)
        if len(rows):
            cells = block.groups[rows].astype(np.intp) * n_clusters + labels
            order = np.argsort(cells, kind="stable")
            leads = (scores[np.arange(len(rows)), labels][:, None] - scores)[order]
            first = np.flatnonzero(np.diff(cells[order], prepend=-1))
            out[cells[order][first]] = np.minimum.reduceat(leads, first, axis=0)
        return out.reshape(self.n_groups, n_clusters, n_clusters)


def smallest_leads(table: Rowlike, logits: Logits, offsets: FloatArray) -> FloatArray:
    """What the objective loses beyond the offsets when a row changes its cluster, (M, K, K)."""
    parts = table.each(Leads(LogitMap(logits, offsets), len(offsets)))
    return np.asarray(np.min(list(parts), axis=0))


def whole_row_offsets(
    table: Rowlike,
    logits: Logits,
    offsets: FloatArray,
    group: int,
    excess: FloatArray,
    rounding: FloatArray | float = 0.0,
) -> FloatArray | None:
    """What to add to the offsets of a group so that its clusters lose their excess of weight.

    Parameters
    ----------
    table : Rowlike
        The rows.
    logits, offsets : Logits, (M, K) array
        The map; the labels of the group depend on its own offsets only.
    group : int
        The group.
    excess : (K,) array
        Weight that each cluster has too much; it adds up to zero.
    rounding : (K,) array or float
        What the wanted weights have more than they would if rows were not whole. Where equal rows
        are in the way, others within one row of the latter will do.

    Returns
    -------
    (K,) array or None
        None where rows that are equal, or too few rows, are in the way.
    """
    n_clusters = len(excess)
    needed = int(np.ceil(np.abs(excess).sum() / 2))
    if needed > MOST_MOVES:
        return None
    per_pair = min(needed + SPARE_ROWS, max(MOST_ROWS // n_clusters**2, 1))
    near: Near | None = None
    for part in table.each(Gather(LogitMap(logits, offsets), group, per_pair)):
        near = closest(part if near is None else near.joined(part), per_pair)
    assert near is not None
    labels = _moved(near, excess)
    if labels is None:
        return None
    found = _slackest(_leads(near.scores, labels))
    if found is None:
        united = _united(near, labels, excess - _change(near, labels) + rounding)
        found = None if united is None else _slackest(_leads(near.scores, united))
    return found


def _leads(scores: FloatArray, labels: IntArray) -> FloatArray:
    """The smallest lead of each cluster over each other one among its rows, (K, K)."""
    return np.stack([_leads_of(k, scores, labels) for k in range(scores.shape[1])])


def _leads_of(k: int, scores: FloatArray, labels: IntArray) -> FloatArray:
    own = scores[labels == k]
    leads: FloatArray = (own[:, k][:, None] - own).min(axis=0, initial=np.inf)
    # No row moves to where it is.
    leads[k] = np.inf
    return leads


def _moved(near: Near, excess: FloatArray) -> IntArray | None:
    """Labels after the excess has moved, one row at a time along shortest paths."""
    alike, left = bool((near.weight == 1).all()), excess.copy()
    # Where all rows count for one, each path is a row less, and takes at most one from a cluster.
    most = int(np.abs(excess).sum() / 2) + 2 if alike else len(near.labels)
    queues = _Queues(near, most)
    # Weights that differ cannot add up exactly; within the largest of them is enough.
    grain = 0.5 if alike else float(near.weight.max(initial=0.0))
    best, rest = 0, np.abs(left).max()
    for _ in range(MOST_MOVES):
        if rest <= grain:
            break
        path = _shortest_path(queues.leads, int(left.argmax()), int(left.argmin()))
        if path is None:
            return None
        for k, other in path:
            weight = queues.move(k, other)
            left[k] -= weight
            left[other] += weight
        queues.refresh({node for arc in path for node in arc})
        if np.abs(left).max() < rest:
            best, rest = len(queues.moves), np.abs(left).max()
    labels = near.labels.copy()
    for row, label in queues.moves[:best]:
        labels[row] = label
    return labels


class _Queues:
    """Rows of each cluster in the order of their lead over each other one, as they move.

    Hundreds of rows may move one by one, and a look at all of them each time takes long. Of those
    that a cluster has at first, it can lose ``most``.
    """

    def __init__(self, near: Near, most: int) -> None:
        self.near = near
        self.labels: list[int] = near.labels.tolist()
        self.moves: list[tuple[int, int]] = []
        n_clusters = near.scores.shape[1]
        self.leads: FloatArray = np.full((n_clusters, n_clusters), np.inf)
        # Pairs of a lead and a row for each pair of clusters: a sorted list is a heap.
        self.heaps: list[list[list[tuple[float, int]]]] = []
        for k in range(n_clusters):
            rows = np.flatnonzero(near.labels == k)
            leads = near.scores[rows, k][:, None] - near.scores[rows]
            order = leads.argsort(axis=0, kind="stable")[:most]
            self.heaps.append(
                [
                    list(zip(leads[by, other].tolist(), rows[by].tolist(), strict=True))
                    for other, by in enumerate(order.T)
                ]
            )
        self.refresh(range(n_clusters))

    def refresh(self, clusters: Iterable[int]) -> None:
        """Leave out rows that are elsewhere, and write down the leads."""
        labels = self.labels
        for k in clusters:
            for other, heap in enumerate(self.heaps[k]):
                # No row moves to where it is.
                if other == k:
                    continue
                while heap and labels[heap[0][1]] != k:
                    heappop(heap)
                self.leads[k, other] = heap[0][0] if heap else np.inf

    def move(self, k: int, other: int) -> float:
        """The row with the smallest lead changes its cluster; its weight."""
        heap = self.heaps[k][other]
        while self.labels[heap[0][1]] != k:
            heappop(heap)
        row = heappop(heap)[1]
        self.labels[row] = other
        self.moves.append((row, other))
        leads = (self.near.scores[row, other] - self.near.scores[row]).tolist()
        for cluster, lead in enumerate(leads):
            if cluster != other:
                heappush(self.heaps[other][cluster], (lead, row))
        return float(self.near.weight[row])


def _walk(near: Near, path: list[tuple[int, int]], labels: IntArray, left: FloatArray) -> None:
    """Move the cheapest row along each arc of a path; changes the labels and what is left."""
    for k, other in path:
        own = np.flatnonzero(labels == k)
        row = own[(near.scores[own, k] - near.scores[own, other]).argmin()]
        labels[row] = other
        left[k] -= near.weight[row]
        left[other] += near.weight[row]


def _change(near: Near, labels: IntArray) -> FloatArray:
    """Weight that each cluster has lost."""
    before, after = (
        np.bincount(found, weights=near.weight, minlength=near.scores.shape[1])
        for found in (near.labels, labels)
    )
    return np.asarray(before - after)


def _united(near: Near, labels: IntArray, left: FloatArray) -> IntArray | None:
    """Labels that part no equal rows, as good within a row; None if there seem to be none.

    ``left`` is the weight that each cluster has too much with the given labels, which are the best
    for their counts. From there one row after the other moves along a shortest path, so they stay
    the best, to counts that part fewer of the equal rows and have not been tried.
    """
    sets = np.unique(near.scores.round(DIGITS), axis=0, return_inverse=True)[1].ravel()
    twins = np.flatnonzero(np.bincount(sets)[sets] > 1)
    numbers = np.unique(sets[twins], return_inverse=True)[1]
    grain = float(near.weight.max(initial=0.0)) - 1e-9
    alike = bool((near.weight == 1).all())

    def apart(labels: IntArray) -> IntArray:
        """Of each set of equal rows, those that are not where most of them are."""
        counts = np.zeros((numbers.max(initial=-1) + 1, len(left)), dtype=np.intp)
        np.add.at(counts, (numbers, labels[twins]), 1)
        return np.asarray(counts.sum(axis=1) - counts.max(axis=1))

    tried = set()
    for _ in range(MEETINGS):
        now = apart(labels)
        if not now.any():
            return labels
        if now.max() > FEW_APART:
            return None
        tried.add(tuple(left.round(6)))
        leads = _leads(near.scores, labels)
        found: list[tuple[float, float, IntArray, FloatArray]] = []
        for start, end in itertools.permutations(range(len(left)), 2):
            if alike and (left[start] - 1 < -grain or left[end] + 1 > grain):
                # A row less or more would be one too many.
                continue
            path = _shortest_path(leads, start, end)
            if path is None:
                continue
            new, rest = labels.copy(), left.copy()
            _walk(near, path, new, rest)
            if np.abs(rest).max() <= grain and tuple(rest.round(6)) not in tried:
                found.append((float(apart(new).sum()), float(np.abs(rest).sum()), new, rest))
        if not found:
            return None
        _, _, labels, left = min(found, key=lambda one: one[:2])
    return None


def _shortest_path(costs: FloatArray, start: int, end: int) -> list[tuple[int, int]] | None:
    """Arcs of the cheapest path, by Bellman and Ford: costs may be negative, cycles are not."""
    n_nodes = len(costs)
    distance = np.full(n_nodes, np.inf)
    distance[start] = 0.0
    before = np.full(n_nodes, -1)
    for _ in range(n_nodes - 1):
        through = distance[:, None] + costs
        best = through.argmin(axis=0)
        shorter = through[best, np.arange(n_nodes)] < distance - 1e-12
        if not shorter.any():
            break
        distance = np.where(shorter, through[best, np.arange(n_nodes)], distance)
        before = np.where(shorter, best, before)
    path: list[tuple[int, int]] = []
    node = end
    while node != start:
        if before[node] < 0 or len(path) > n_nodes:
            return None
        path.append((int(before[node]), node))
        node = int(before[node])
    return path[::-1]


def _slackest(leads: FloatArray) -> FloatArray | None:
    """V with ``v_l - v_k <= leads[k, l]`` and the most slack; None if there is no slack at all.

    The most slack that all constraints can have is the smallest mean of a cycle, which Karp's
    recursion over walks of each length finds.
    """
    n_nodes = len(leads)
    walks = np.full((n_nodes + 1, n_nodes), np.inf)
    walks[0] = 0.0
    for length in range(n_nodes):
        walks[length + 1] = (walks[length][:, None] + leads).min(axis=0)
    lengths = n_nodes - np.arange(n_nodes)[:, None]
    with np.errstate(invalid="ignore"):
        means = (walks[-1] - walks[:-1]) / lengths
    finite = np.isfinite(walks[-1])
    slack = float(np.nanmax(means[:, finite], axis=0).min()) if finite.any() else 0.0
    if slack <= 10.0**-DIGITS:
        return None
    v = np.zeros(n_nodes)
    for _ in range(n_nodes):
        v = np.minimum(v, (v[:, None] + leads - slack).min(axis=0))
    return np.asarray(v - v.mean())
