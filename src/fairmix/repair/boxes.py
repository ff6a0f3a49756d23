"""Whole counts of groups in clusters: boxes that a rule allows, and one of them for each cluster.

A rule binds the groups within a cluster, and rows that leave one cluster for another bind the
clusters. So whole counts are chosen cluster by cluster, each from a menu of boxes: counts from
``low`` to ``high`` of every group, all of which meet the rule in this cluster.

- Under a ratio a box is a window. With the largest scaled count t known, each group has counts from
  ``rho t``, rounded up, to ``t``, rounded down.
- Under a gap a box is a single vector of counts, one of all that there are near the best parts.
- Boxes of several attributes form pairs, as far as both can have the same number of rows.

A mixture of boxes (Dantzig and Wolfe) is a much better bound than parts of rows are: most programs
that choose one box for each cluster are solved at the root. Where counts are whole, so are the
cheapest rows for them, as in any transportation problem.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

from fairmix.criteria import SmallestRatio
from fairmix.criteria.bounds import ROUNDING
from fairmix.kernels.totals import FloatArray
from fairmix.repair.program import Array, Demand, Part, Program

# Windows of a cluster at most: those nearest to where the parts of rows are. A cluster of few rows
# may need several times as many whole ones, so they reach far.
WINDOWS = 400
# Vectors of counts of a cluster at most, by how many rows a count may differ from its part, and by
# how many rows of the smallest group all rates may: the first that are not too many.
VECTORS, REACHES = 120_000, ((3, 3), (2, 3), (1, 3), (1, 1))
# Boxes of one attribute that are paired with those of the others.
FIRST, SECOND = 250, 2000
# Ends of windows are counts, up to this rounding.
WHOLE = 1e-9
# Boxes of each cluster: at first, and more of them in each round.
NEAREST, MORE = 30, 20
# Those of the integer program: where so few do not fit together, more of them.
KEPT = (16, 80)
# Rounds that add boxes; the last ones hardly change the value.
ROUNDS = 15
# A box is missing where it would gain more than this, in units of the scale.
GAIN = 1e-7
# Weight of the distance of a box in its choice for the integer program; any from 0.5 to 5 does.
AWAY = 3.0
# Price of a row beyond a box, in units of the scale, and the factor by which it grows if some are.
PRICE, DEARER, MOST_PRICE = 30.0, 10.0, 1e7
# Rows beyond boxes, below which there are none: the tolerance of HiGHS.
BEYOND = 1e-6
# The integer program ends when it is this near to the best, as a share of what all rows cost, or
# after so many nodes: nearly all that it finds it finds at the root. That of a few clusters is
# small, and what it gains is, too.
NEAR_ENOUGH, NEARER, NODES = 3e-4, 3e-5, 1
# Boxes that hold given counts, of each attribute.
HOLDING = 2


class Near(NamedTuple):
    """Masses (M, K) that whole rows should have about, and clusters (K,) that must not be empty."""

    mass: FloatArray
    filled: NDArray[np.bool_]


class Boxes(NamedTuple):
    """Counts of groups from ``low`` to ``high``, both (Z, M)."""

    low: Array
    high: Array

    def take(self, where: Any) -> Boxes:
        """Some of them."""
        return Boxes(self.low[where], self.high[where])

    def beside(self, other: Boxes) -> Boxes:
        """With those of more groups."""
        return Boxes(np.hstack([self.low, other.low]), np.hstack([self.high, other.high]))

    def joined(self, other: Boxes) -> Boxes:
        """With more of them."""
        return Boxes(np.vstack([self.low, other.low]), np.vstack([self.high, other.high]))

    def split(self, demand: Demand) -> list[Boxes]:
        """Those of each attribute."""
        return [Boxes(self.low[:, p.groups], self.high[:, p.groups]) for p in demand.parts]

    @property
    def totals(self) -> tuple[Array, Array]:
        """Fewest and most rows of all groups, (Z,)."""
        return self.low.sum(axis=1), self.high.sum(axis=1)

    def distance(self, counts: Array) -> Array:
        """How far counts (M,) are outside, (Z, M)."""
        return np.asarray(np.maximum(np.maximum(self.low - counts, counts - self.high), 0.0))


class Prices(NamedTuple):
    """Prices of the ends of boxes, (M, K), and of the choice of each cluster, (K,)."""

    high: Array
    low: Array
    choice: Array


class Relaxed(NamedTuple):
    """A mixture of boxes: its cost, prices, parts of the open rows (F, K), and rows beyond it."""

    cost: float
    prices: Prices
    parts: Array
    beyond: float


@dataclass(frozen=True, eq=False)
class Menu:
    """Boxes of each attribute that each cluster may choose from, ``[cluster][attribute]``.

    ``row`` is the weight of each row.
    """

    demand: Demand
    boxes: Sequence[Sequence[Boxes]]
    row: float

    @classmethod
    def of(cls, demand: Demand, near: Near, row: float) -> Menu | None:
        """Around some masses, of rows of a weight; None where a cluster has none, or too many."""
        counts = np.asarray(near.mass / row, dtype=np.float64)
        found = []
        for k in range(demand.n_clusters):
            own = [_boxes(demand, part, counts[part.groups, k], row) for part in demand.parts]
            if near.filled[k]:
                own = [one.take(one.high.sum(axis=1) > 0) for one in own]
            if not all(len(one.low) for one in own):
                return None
            found.append(own)
        return cls(demand, found, row)

    def nearest(self, mass: FloatArray) -> list[Boxes]:
        """Boxes of all attributes that are the nearest to masses (M, K), of each cluster."""
        counts = np.asarray(mass / self.row, dtype=np.float64)
        return [self._best(k, self._far(k, counts), NEAREST)[0] for k in range(len(self.boxes))]

    def missing(self, prices: Prices) -> list[Boxes]:
        """Those that would gain most at some prices."""
        found = []
        for k in range(len(self.boxes)):
            boxes, scores = self._best(k, self._price(k, prices), MORE)
            found.append(boxes.take(scores - prices.choice[k] < -GAIN * self.row))
        return found

    def promising(self, prices: Prices, counts: Array, most: int) -> list[Boxes]:
        """Those that cost least at some prices, with what it may cost to move rows there."""
        return [self._promising(k, prices, counts, most) for k in range(len(self.boxes))]

    def _promising(self, k: int, prices: Prices, counts: Array, most: int) -> Boxes:
        both = zip(self._price(k, prices), self._far(k, counts), strict=True)
        return self._grown(self._best(k, [price + far for price, far in both], most)[0])

    def of_pair(self, pair: Sequence[int], prices: Prices, counts: Array, most: int) -> list[Boxes]:
        """Promising boxes for two clusters, and those that hold their counts; others stay."""
        found = []
        for k in range(len(self.boxes)):
            here = counts[None, :, k]
            if k not in pair:
                found.append(Boxes(here, here))
                continue
            found.append(self._holding(k, here).joined(self._promising(k, prices, counts, most)))
        return found

    def around(self, prices: Prices, counts: Array, most: int) -> list[list[Boxes]]:
        """The same of each attribute by itself, and those that hold the counts."""
        found = []
        for k, every in enumerate(self.boxes):
            scores = zip(self._price(k, prices), self._far(k, counts), strict=True)
            held = self._holding(k, counts[None, :, k]).split(self.demand)
            found.append(
                [
                    self._grown_of(part, own.take(np.argsort(a + b, kind="stable")[:most])).joined(
                        inside
                    )
                    for own, part, inside, (a, b) in zip(
                        every, self.demand.parts, held, scores, strict=True
                    )
                ]
            )
        return found

    def _holding(self, k: int, counts: Array) -> Boxes:
        """Boxes of all attributes with some counts, (1, M), inside."""
        found: Boxes | None = None
        for own, part in zip(self.boxes[k], self.demand.parts, strict=True):
            here = counts[:, part.groups]
            inside = own.take(np.flatnonzero((own.distance(here[0]) == 0).all(axis=1))[:HOLDING])
            if not len(inside.low):
                inside = Boxes(here, here)
            if found is None:
                found = inside
                continue
            first, second = np.divmod(np.arange(len(found.low) * len(inside.low)), len(inside.low))
            found = found.take(first).beside(inside.take(second))
        assert found is not None
        return self._grown(found)

    def _grown(self, boxes: Boxes) -> Boxes:
        """Single vectors become boxes: whole rows of all clusters must fit."""
        grown = [
            self._grown_of(part, own)
            for part, own in zip(self.demand.parts, boxes.split(self.demand), strict=True)
        ]
        return Boxes(*(np.hstack(ends) for ends in zip(*grown, strict=True)))

    def _grown_of(self, part: Part, boxes: Boxes) -> Boxes:
        if isinstance(part.criterion, SmallestRatio):
            return boxes
        return _grown(self.demand, part, boxes, self.row)

    def _price(self, k: int, prices: Prices) -> list[Array]:
        return [
            own.high @ prices.high[part.groups, k] - own.low @ prices.low[part.groups, k]
            for own, part in zip(self.boxes[k], self.demand.parts, strict=True)
        ]

    def _far(self, k: int, counts: Array) -> list[Array]:
        """About what rows cost that move to a box: those at a boundary nothing, the next more.

        A unit of the scale is a typical lead, so of c rows the j-th has about j / c of it, and j of
        them cost j^2 / c or less. Some times that: of boxes that cost about the same, the near ones
        are worth more, because rows of all clusters must fit.
        """
        found = []
        for own, part in zip(self.boxes[k], self.demand.parts, strict=True):
            here = counts[part.groups, k]
            found.append(AWAY * self.row * (own.distance(here) ** 2 / (here + 1.0)).sum(axis=1))
        return found

    def _best(self, k: int, scores: Sequence[Array], most: int) -> tuple[Boxes, Array]:
        """Boxes of all attributes with the smallest sums of scores."""
        (boxes, *others), (total, *more) = self.boxes[k], scores
        if not others:
            order = np.argsort(total, kind="stable")[:most]
            return boxes.take(order), total[order]
        low, high = boxes.totals
        for j, (other, score) in enumerate(zip(others, more, strict=True)):
            # All attributes count the same rows, so a box is worth what it costs with the best
            # of the others that can have as many.
            ends = low, high, *other.totals
            mine = np.argsort(total + _partner(score, *ends), kind="stable")[:FIRST]
            ends = *other.totals, low, high
            theirs = np.argsort(score + _partner(total, *ends), kind="stable")[:SECOND]
            less, most_rows = (end[theirs] for end in other.totals)
            sums = total[mine][:, None] + score[theirs]
            sums[(low[mine][:, None] > most_rows) | (less > high[mine][:, None])] = np.inf
            enough = most if j == len(others) - 1 else FIRST
            pairs = np.argsort(sums, axis=None, kind="stable")[:enough]
            pairs = pairs[np.isfinite(sums.ravel()[pairs])]
            first, second = np.divmod(pairs, len(theirs))
            boxes = boxes.take(mine[first]).beside(other.take(theirs[second]))
            total = sums.ravel()[pairs]
            low = np.maximum(low[mine[first]], less[second])
            high = np.minimum(high[mine[first]], most_rows[second])
        return boxes, total


def _partner(scores: Array, low: Array, high: Array, less: Array, more: Array) -> Array:
    """The smallest of the scores whose totals, ``less`` to ``more``, meet those of each, (Z,)."""
    start = min(low.min(), less.min())
    best = np.full(int(max(high.max(), more.max()) - start) + 1, np.inf)
    wide = more > less
    np.minimum.at(best, (less - start).astype(np.intp)[~wide], scores[~wide])
    for z in np.flatnonzero(wide):
        run = slice(int(less[z] - start), int(more[z] - start) + 1)
        np.minimum(best[run], scores[z], out=best[run])
    found = best[(low - start).astype(np.intp)]
    for z in np.flatnonzero(high > low):
        found[z] = best[int(low[z] - start) : int(high[z] - start) + 1].min()
    return np.asarray(found)


def _boxes(demand: Demand, part: Part, counts: Array, row: float) -> Boxes:
    """What a rule allows in one cluster, near counts (M,)."""
    sizes = demand.sizes[part.groups] / row
    if isinstance(part.criterion, SmallestRatio):
        return _windows(part.criterion.scales / sizes, part.criterion.least(part.level), counts)
    n_groups = len(counts)
    reach, shifts = next(
        (pair for pair in REACHES if _n_vectors(n_groups, *pair) <= VECTORS), (0, 0)
    )
    if reach == 0:
        return Boxes(np.empty((0, n_groups)), np.empty((0, n_groups)))
    # A shift moves all rates alike, by some rows of the smallest group.
    steps = np.stack(np.meshgrid(*[np.arange(-reach, reach + 1.0)] * n_groups), axis=-1)
    aims = counts + np.arange(-shifts, shifts + 1.0)[:, None] * (sizes / sizes.min())
    vectors = (np.round(aims)[:, None] + steps.reshape(-1, n_groups)).reshape(-1, n_groups)
    vectors = vectors[(vectors >= 0).all(axis=1)]
    met = vectors[_allowed(demand, part, vectors, row)]
    # One number for each vector, by which equal ones are found much faster than by their rows.
    digits = np.ravel_multi_index(
        (met - met.min(axis=0, initial=0)).T.astype(np.intp),
        tuple(met.max(axis=0, initial=0).astype(np.intp) + 1),
    )
    met = met[np.unique(digits, return_index=True)[1]]
    return Boxes(met, met)


def _allowed(demand: Demand, part: Part, counts: Array, row: float) -> NDArray[np.bool_]:
    """Which counts (Z, M) of a cluster meet a rule."""
    rates = counts * (row / demand.sizes[part.groups])
    return np.asarray(part.criterion.excess(rates[:, :, None], demand.level(part)) <= ROUNDING)


def _grown(demand: Demand, part: Part, boxes: Boxes, row: float) -> Boxes:
    """Boxes with more counts, as long as all of them meet the rule.

    The rule is convex, so a box meets it where its corners do.
    """
    n_groups = boxes.low.shape[1]
    corners = np.array(list(product((False, True), repeat=n_groups)))
    low, high = boxes.low.copy(), boxes.high.copy()
    for g, down in product(range(n_groups), (False, True)):
        less, more = low.copy(), high.copy()
        (less if down else more)[:, g] += -1.0 if down else 1.0
        ends = np.where(corners, more[:, None], less[:, None])
        met = _allowed(demand, part, ends.reshape(-1, n_groups), row)
        fine = met.reshape(len(low), -1).all(axis=1) & (less[:, g] >= 0)
        low[fine], high[fine] = less[fine], more[fine]
    return Boxes(low, high)


def _n_vectors(n_groups: int, reach: int, shifts: int) -> int:
    return int((2 * reach + 1) ** n_groups * (2 * shifts + 1))


def _windows(unit: FloatArray, rho: float, counts: Array) -> Boxes:
    """Windows of a ratio, where a row adds ``unit`` (M,) to the scaled rate of its group."""
    top = (counts * unit).max()
    first = np.maximum(np.floor(top / unit) - WINDOWS, 0.0)
    levels = np.unique((first[:, None] + np.arange(2 * WINDOWS + 2)) * unit[:, None])
    low = np.ceil(rho * levels[:, None] / unit - WHOLE)
    high = np.floor(levels[:, None] / unit + WHOLE)
    fits = np.flatnonzero((low <= high).all(axis=1))
    fits = fits[np.argsort(np.abs(levels[fits] - top), kind="stable")[:WINDOWS]]
    low, high = low[fits], high[fits]
    # Windows that lie in no other one; of equal ones the first.
    inside = ((low[:, None] >= low) & (high[:, None] <= high)).all(axis=2)
    earlier = np.tri(len(low), k=-1, dtype=bool)
    largest = ~(inside & (~inside.T | earlier)).any(axis=1)
    return Boxes(low[largest], high[largest])


@dataclass(frozen=True, eq=False)
class Choice:
    """A program of open rows and of one box for each cluster.

    Attributes
    ----------
    program : Program
        Rows whose labels are open.
    row : float
        Weight of each row.
    """

    program: Program
    row: float

    @cached_property
    def _rows(self) -> tuple[Any, Any]:
        """Counts (M * K, columns) of the open rows, and that each has one label (F, columns)."""
        program, n_clusters = self.program, self.program.demand.n_clusters
        rows, clusters = program.pairs
        group, column = np.nonzero(program.demand.matrix[:, program.codes[rows]])
        cells = group * n_clusters + clusters[column]
        each = np.arange(len(rows))
        counts = sparse.csr_array(
            (np.ones(len(cells)), (cells, column)), shape=(program.fixed.size, len(rows))
        )
        one = (np.ones(len(rows)), (rows, each))
        return counts, sparse.csr_array(one, shape=(len(program.columns.rows), len(rows)))

    def _constraints(self, menu: Sequence[Boxes]) -> tuple[Any, Array, Any]:
        """``A x <= b`` of rows and boxes, and the matrix whose rows add up to one."""
        n_clusters = len(menu)
        own = np.repeat(np.arange(n_clusters), [len(one.low) for one in menu])
        n_groups = menu[0].low.shape[1]
        cells = (np.arange(n_groups) * n_clusters + own[:, None]).ravel()
        choices = np.repeat(np.arange(len(own)), n_groups)
        shape = (n_groups * n_clusters, len(own))
        low, high = (
            sparse.csr_array((np.vstack(ends).ravel(), (cells, choices)), shape=shape)
            for ends in zip(*menu, strict=True)
        )
        counts, one = self._rows
        chosen = sparse.csr_array(
            (np.ones(len(own)), (own, np.arange(len(own)))), shape=(n_clusters, len(own))
        )
        fixed = self.program.fixed.ravel() / self.row
        left = sparse.block_array([[counts, -high], [-counts, low]], format="csr")
        equal = sparse.block_array([[one, None], [None, chosen]], format="csr")
        return left, np.concatenate([-fixed, fixed]), equal

    def relaxed(self, menu: Sequence[Boxes], price: float) -> Relaxed:
        """The best mixture of boxes, with a price for each row beyond them."""
        left, right, equal = self._constraints(menu)
        n_parts, n_rules, shape = len(self.program.costs), len(right), self.program.fixed.shape
        left = sparse.hstack([left, -sparse.eye_array(n_rules)], format="csr")
        n_free = equal.shape[1] - n_parts
        cost = np.concatenate(
            [self.program.costs, np.zeros(n_free), np.full(n_rules, price * self.row)]
        )
        equal = sparse.hstack([equal, sparse.csr_array((equal.shape[0], n_rules))], format="csr")
        found: Any = linprog(cost, left, right, equal, np.ones(equal.shape[0]), method="highs")
        if found.x is None:
            raise RuntimeError(f"The linear program of counts ended with: {found.message}")
        high, low = found.ineqlin.marginals.reshape(2, *shape)
        choice = found.eqlin.marginals[-len(menu) :]
        beyond = float(found.x[-n_rules:].sum())
        return Relaxed(float(found.fun), Prices(high, low, choice), self._parts(found.x), beyond)

    def whole(self, menu: Sequence[Boxes], rest: float, near: float = NEAR_ENOUGH) -> Array | None:
        """Parts of rows with one box for each cluster; None where there are none.

        ``rest`` is added to the costs, so that the accuracy ``near`` is a share of all of them.
        """
        left, right, equal = self._constraints(menu)
        n_parts = len(self.program.costs)
        integral = np.append(np.arange(equal.shape[1]) >= n_parts, 0)
        cost = np.concatenate([self.program.costs, np.zeros(len(integral) - n_parts)])
        cost[-1] = rest
        bottom = np.zeros(len(cost))
        bottom[-1] = 1.0
        found = milp(
            cost,
            integrality=integral,
            bounds=Bounds(bottom, 1.0),
            constraints=[
                LinearConstraint(_wider(left), -np.inf, right),
                LinearConstraint(_wider(equal), 1.0, 1.0),
            ],
            options={"mip_rel_gap": near, "node_limit": NODES},
        )
        if found.x is None:
            return None
        parts = self._parts(found.x)
        if len(self.program.demand.parts) == 1 or _is_whole(parts):
            return parts
        chosen = np.split(found.x[n_parts:-1], np.cumsum([len(one.low) for one in menu])[:-1])
        boxes = [one.take([own.argmax()]) for one, own in zip(menu, chosen, strict=True)]
        whole = self.counted([one.split(self.program.demand) for one in boxes], rest)
        return parts if whole is None else whole

    def counted(
        self, menu: Sequence[Sequence[Boxes]], rest: float, most: float = np.inf, nodes: int = NODES
    ) -> Array | None:
        """Whole rows with one box of each attribute for each cluster, ``[cluster][attribute]``.

        Several attributes divide rows even where their own counts are whole. Rows of one code count
        alike for all attributes, so they are whole where their counts are. None where there are
        none that cost ``most``, with all others of the table, or less.
        """
        program, n_clusters = self.program, self.program.demand.n_clusters
        rows, clusters = program.pairs
        codes, own = np.unique(program.codes, return_inverse=True)
        n_open, n_parts, n_counts = len(program.columns.rows), len(rows), len(codes) * n_clusters
        counted = sparse.csr_array(
            (np.ones(n_parts), (own[rows] * n_clusters + clusters, np.arange(n_parts))),
            shape=(n_counts, n_parts),
        )
        groups = sparse.kron(program.demand.matrix[:, codes], sparse.eye_array(n_clusters))
        fixed = program.fixed.ravel() / self.row
        low, high, one = self._ends(menu)
        n_boxes, n_choices = one.shape[1], one.shape[0]
        cost = np.concatenate([program.costs, np.zeros(n_counts + n_boxes), [rest]])
        top = np.concatenate([np.ones(n_parts), np.full(n_counts, np.inf), np.ones(n_boxes + 1)])
        left: list[list[Any]] = [
            [counted, -sparse.eye_array(n_counts), None, None],
            [None, groups, -high, None],
            [None, groups, -low, None],
            [self._rows[1], None, None, None],
            [None, None, one, None],
            [sparse.csr_array(program.costs[None]), None, None, sparse.csr_array([[rest]])],
        ]
        none = np.full(len(fixed), np.inf)
        ones = np.ones(n_open + n_choices)
        found = milp(
            cost,
            integrality=np.repeat([0, 1, 0], [n_parts, n_counts + n_boxes, 1]),
            bounds=Bounds(np.append(np.zeros(len(cost) - 1), 1.0), top),
            constraints=LinearConstraint(
                sparse.block_array(left, format="csr"),
                np.concatenate([np.zeros(n_counts), -none, -fixed, ones, [-np.inf]]),
                np.concatenate([np.zeros(n_counts), -fixed, none, ones, [most]]),
            ),
            options={"mip_rel_gap": NEARER, "node_limit": nodes},
        )
        return None if found.x is None else self._parts(found.x)

    def _ends(self, menu: Sequence[Sequence[Boxes]]) -> tuple[Any, Any, Any]:
        """Ends of boxes in each cell, (M * K, boxes), and whose choice each is."""
        parts, n_clusters = self.program.demand.parts, len(menu)
        shape = self.program.fixed.shape
        low: list[Any] = []
        high: list[Any] = []
        for k, own in enumerate(menu):
            for boxes, part in zip(own, parts, strict=True):
                for found, ends in ((low, boxes.low), (high, boxes.high)):
                    cells = np.zeros((*shape, len(ends)))
                    cells[part.groups, k] = ends.T
                    found.append(sparse.csr_array(cells.reshape(-1, len(ends))))
        numbers = [matrix.shape[1] for matrix in low]
        chosen = np.repeat(np.arange(n_clusters * len(parts)), numbers)
        one = (np.ones(len(chosen)), (chosen, np.arange(len(chosen))))
        return (
            sparse.hstack(low),
            sparse.hstack(high),
            sparse.csr_array(one, shape=(n_clusters * len(parts), len(chosen))),
        )

    def mixed(self, menu: Menu, boxes: list[Boxes]) -> tuple[Relaxed, list[Boxes]]:
        """The best mixture of all boxes of a menu, from some, and the boxes that it needs."""
        price = PRICE
        for _ in range(ROUNDS):
            relaxed = self.relaxed(boxes, price)
            missing = menu.missing(relaxed.prices)
            if any(len(one.low) for one in missing):
                boxes = [own.joined(more) for own, more in zip(boxes, missing, strict=True)]
            elif relaxed.beyond <= BEYOND or price >= MOST_PRICE:
                break
            else:
                price *= DEARER
        return relaxed, boxes

    def counts(self, parts: Array) -> Array:
        """Counts (M, K) of all rows, the open ones in parts."""
        member = self.program.demand.matrix[:, self.program.codes]
        return np.asarray(self.program.fixed / self.row + member @ parts)

    def _parts(self, x: Array) -> Array:
        parts = np.zeros(self.program.columns.costs.shape)
        parts[self.program.pairs] = x[: len(self.program.costs)]
        return parts


def _wider(matrix: Any) -> Any:
    """With a column for a constant."""
    return sparse.hstack([matrix, sparse.csr_array((matrix.shape[0], 1))], format="csr")


def _is_whole(parts: Array) -> bool:
    return bool(parts.max(axis=1).min(initial=1.0) >= 1 - BEYOND)
