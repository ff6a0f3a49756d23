"""Alignment: batches of optimal transport that match the rows of the groups.

Every group has the same total mass. An *atom* is a tuple of rows, one of each group, with a mass
that all of them give. Its cost in cluster k is the sum over groups of share times squared
distance, and it goes to its cheapest cluster with all its rows, so groups have equal rates there.
Some mass may stay free: a free row goes to its own nearest centre. Each group has at most the
allowance of free mass, so two groups' rates differ by no more than that in any cluster.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from fairmix.kernels.totals import FloatArray, IntArray

# Mass of a batch, at most. Masses are whole numbers, so that transport after transport adds up
# exactly; POT multiplies a mass by the sum of all (twice this, with the free mass), and the product
# must be exact as a float, too: 2^26 * 2^27 = 2^53.
BATCH_MASS = 2**26
# Pivots of the network simplex per pair of rows; transport of a batch needs far fewer.
PIVOTS_PER_PAIR = 100


@dataclass(frozen=True, eq=False)
class Alignment:
    """Atoms and free rows of a matching.

    Attributes
    ----------
    atoms : (A, M) array of int
        Rows of each atom, one per group.
    mass : (A,) array
        Mass of each atom.
    free_rows, free_mass : (F,) arrays
        Rows that are free with some of their mass.
    total : float
        Mass of each group.
    """

    atoms: IntArray
    mass: FloatArray
    free_rows: IntArray
    free_mass: FloatArray
    total: float


@dataclass(frozen=True, eq=False)
class Batch:
    """Rows of every group that are matched with each other, and the mass of each.

    A row at the border of two batches is in both, with a part of its mass in each.
    """

    rows: list[IntArray]
    mass: list[FloatArray]


def count_batches(n_rows: int, batch_size: int) -> int:
    """Batches of about ``batch_size`` rows."""
    return max(1, math.ceil(n_rows / batch_size))


def row_masses(
    codes: IntArray, n_groups: int, weight: FloatArray | None, n_batches: int
) -> FloatArray:
    """Mass of each row, a whole number, such that every group has the same total.

    Masses are in proportion to the weights: exactly where the sizes of the groups have a common
    multiple that is no larger than the largest total, else up to one. A row of next to no weight
    has no mass.
    """
    weights = np.ones(len(codes)) if weight is None else weight
    sizes = np.bincount(codes, weights, n_groups)
    total = BATCH_MASS * n_batches
    if (weights == np.floor(weights)).all() and sizes.max() <= total:
        # The least one, so that rows of equal groups have a mass of 1, and no batch cuts a row.
        total = min(total, math.lcm(*map(int, sizes)))
    mass = np.empty(len(codes))
    for group, size in enumerate(sizes):
        members = codes == group
        # Rounding what is cumulated keeps the sum.
        ends = np.rint(np.cumsum(weights[members]) / size * total)
        # The weights add up to their size only up to rounding, and the
        # groups' totals must be equal.
        ends[-1] = total
        mass[members] = np.diff(ends, prepend=0.0)
    return mass


def make_batches(
    codes: IntArray,
    mass: FloatArray,
    n_groups: int,
    n_batches: int,
    rng: np.random.Generator,
) -> list[Batch]:
    """Random batches with the same mass of every group."""
    shuffled = rng.permutation(len(codes))
    members = [shuffled[codes[shuffled] == group] for group in range(n_groups)]
    ends = [np.cumsum(mass[rows]) for rows in members]
    # Python's whole numbers, because a number of batches times the total
    # may not be exact as a float.
    total = int(ends[0][-1])
    # Each has some mass, which is a whole number: few rows may not do for as many batches.
    n_batches = min(n_batches, total)
    cuts = np.array([number * total // n_batches for number in range(n_batches + 1)], np.float64)
    parts = [_slices(rows, end, cuts) for rows, end in zip(members, ends, strict=True)]
    return [Batch([p[b][0] for p in parts], [p[b][1] for p in parts]) for b in range(n_batches)]


def _slices(
    rows: IntArray, ends: FloatArray, cuts: FloatArray
) -> list[tuple[IntArray, FloatArray]]:
    """Rows and their masses between successive cuts of the cumulated mass."""
    starts = np.concatenate([[0.0], ends[:-1]])
    out = []
    for low, high in pairwise(cuts):
        first = int(np.searchsorted(ends, low, side="right"))
        last = int(np.searchsorted(starts, high, side="left"))
        part = np.minimum(ends[first:last], high) - np.maximum(starts[first:last], low)
        out.append((rows[first:last], part))
    return out


def align(batches: list[Batch], prices: FloatArray, max_gap: float) -> Alignment:
    """Match the groups within each batch at the least cost.

    Parameters
    ----------
    batches : list of Batch
        What is matched with what.
    prices : (N, K) array
        Share of the row's group times its squared distance to each centre.
    max_gap : float
        Largest share of each group's mass that may stay free.
    """
    found = [_align_batch(batch, prices, max_gap) for batch in batches]
    return Alignment(
        np.concatenate([part.atoms for part in found]),
        np.concatenate([part.mass for part in found]),
        np.concatenate([part.free_rows for part in found]),
        np.concatenate([part.free_mass for part in found]),
        sum(part.total for part in found),
    )


def _align_batch(batch: Batch, prices: FloatArray, max_gap: float) -> Alignment:
    """Match group after group with the atoms of those before it; exact for two groups."""
    total = float(batch.mass[0].sum())
    # Rounded down, so that masses stay whole and the bound is not exceeded.
    allowance = float(np.floor(max_gap * total))
    spent = 0.0
    atoms, mass = batch.rows[0][:, None], batch.mass[0]
    free_rows: list[IntArray] = [np.empty(0, dtype=np.intp)]
    free_mass: list[FloatArray] = [np.empty(0)]
    for rows, row_mass in zip(batch.rows[1:], batch.mass[1:], strict=True):
        price, row_price = prices[atoms].sum(axis=1), prices[rows]
        # An atom that is freed falls apart: each of its rows goes to its own nearest centre.
        alone = prices[atoms].min(axis=2).sum(axis=1)
        cost = _cheapest(price, row_price)
        if allowance > 0:
            # Free mass goes to or comes from one more place; from that to that is unused.
            cost = np.block(
                [[cost, alone[:, None]], [row_price.min(axis=1)[None], np.zeros((1, 1))]]
            )
            supply = np.append(mass, allowance)
            # A freed atom frees a row of each group before, so these groups have only
            # the rest of the allowance left.
            demand = np.append(row_mass, allowance - spent)
        else:
            supply, demand = mass, row_mass
        plan = transport(supply, demand, cost)
        n, m = len(mass), len(row_mass)
        left, right = np.nonzero(plan[:n, :m] > 0)
        if allowance > 0:
            freed, single = plan[:n, m], plan[n, :m]
            for group in range(atoms.shape[1]):
                free_rows.append(atoms[freed > 0, group])
                free_mass.append(freed[freed > 0])
            free_rows.append(rows[single > 0])
            free_mass.append(single[single > 0])
            spent += float(freed.sum())
        atoms = np.column_stack([atoms[left], rows[right]])
        mass = plan[left, right]
    return Alignment(atoms, mass, np.concatenate(free_rows), np.concatenate(free_mass), total)


def _cheapest(price: FloatArray, row_price: FloatArray) -> FloatArray:
    """Least over clusters of the summed prices, for each pair."""
    # Cluster by cluster: all sums at once would take K times the memory of the cost matrix.
    cost = np.add.outer(price[:, 0], row_price[:, 0])
    other = np.empty_like(cost)
    for k in range(1, price.shape[1]):
        np.add.outer(price[:, k], row_price[:, k], out=other)
        np.minimum(cost, other, out=cost)
    return cost


def transport(supply: FloatArray, demand: FloatArray, cost: FloatArray) -> FloatArray:
    """Plan of least cost with these row and column sums."""
    # Older versions of POT fail on an empty problem.
    if cost.size == 0:
        return np.zeros(cost.shape)
    ot = import_transport()
    # At least as many pivots as POT allows by default: small problems would otherwise get fewer.
    plan, log = ot.emd(
        supply, demand, cost, numItermax=max(PIVOTS_PER_PAIR * cost.size, 100_000), log=True
    )
    # POT only warns when it fails, and the plan that it returns then must not be used.
    if log["warning"] is not None:
        raise RuntimeError(
            f"Optimal transport of {cost.shape[0]} by {cost.shape[1]} rows failed: "
            f"{log['warning']} Set batch_size to a smaller number."
        )
    return np.asarray(plan)


def import_transport() -> Any:
    """The package POT, imported late because only this method needs it."""
    try:
        import ot
    except ImportError as error:
        raise ImportError(
            "AlignedFairKMeans solves optimal transport with POT, which is not installed. "
            "Run: pip install 'fairmix[baselines]'"
        ) from error
    return ot
