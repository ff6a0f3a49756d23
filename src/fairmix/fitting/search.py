"""The search for a start: moves on few rows, each tried by a short climb.

A climb ends in the nearest optimum, and most are poor, above all those of a blind map. So before
all rows are climbed, a few of them are, again and again.

First come several starts, which differ in how much of what the groups tell of the rows is taken
from them before k-means: all of it suits a bound of zero, nothing a loose one. From the best end of
their climbs a move leads away, a short climb follows, and its end is kept if it is better. There
are two kinds of moves.

- A swap takes a random cluster away and puts it at a random row, with the tilt of the cluster that
  the row belonged to.
- A detour climbs under another bound for a while, tighter and looser in turn, and comes back: the
  continuation of a fit in its bound, from both ends.

How long all this may take is `Search`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import count

import numpy as np

from fairmix.fitting.starts import Level, row_sums
from fairmix.kernels import Sweep
from fairmix.kernels.totals import FloatArray, IntArray, Logits, Rows
from fairmix.mixture.mixture import Mixture
from fairmix.solvers import Beginning, Recipe, Solution, Solver, Task
from fairmix.solvers.objective import Objective
from fairmix.tables import Condensed, Table, find_cells, spread_within


@dataclass(frozen=True)
class Walks:
    """The searches of a fit, each of which ends somewhere else.

    Attributes
    ----------
    number : int
        How many there are.
    starts : int
        From how many levels each begins (`Search.levels`), which share half of its iterations. Of
        walks with one level each, the levels take turns: what few points say of starts so early is
        hardly worth the time of three more.
    runs : int
        Runs of k-means for each start, of which the best counts. Clusters of an aware map are much
        like those of k-means, so its best optimum is a good start; those of a blind map are not.
    climbs : float
        All iterations of a search, in units of the most that a climb may take.
    """

    number: int
    starts: int
    runs: int
    climbs: float

    def levels(self, levels: tuple[float, ...], turn: int) -> list[float]:
        """Those that a walk begins from."""
        first = turn * self.starts
        return [levels[i % len(levels)] for i in range(first, first + self.starts)]

    def iterations(self, recipe: Recipe, task: Task) -> int:
        """All iterations of a search."""
        # The user's `max_iter` may shorten a search, but is no wish for a longer one.
        usual = recipe.make(replace(task, max_iter=None)).max_iter
        most = usual if task.max_iter is None else min(usual, task.max_iter)
        return int(most * self.climbs)


@dataclass(frozen=True)
class Search:
    """Rows, iterations and bounds of a search; an iteration is a pass over these rows.

    Attributes
    ----------
    points, lone, widest : int, int, float
        Rows are condensed to so many points, at most, and so many of single rows, while no more
        than this share of their variance is lost.
    rows : int
        Else so many of them are drawn, at most.
    aware, blind, dear_aware, dear_blind : Walks
        By what a map knows. A blind one has more optima. The last two, of a large table, or of rows
        too wide to be points, where each walk takes long.
    raced, race_iterations : int
        Few points rank the ends of walks by chance, so all are climbed on all rows, or those of
        large tables on more rows; but only the best so many longer than so many iterations.
    compared, look_iterations : int
        The same for large tables, whose rows take longer. The labels of these ends choose.
    compared_rows : int
        Tables of more rows keep only the best: what k-means takes for them leaves no time.
    telling : float
        An end is finished if its climb is worth so much more per row than labels that are known:
        labels lose at least about as much, so with less of a lead hardly any end wins, and where
        clusters are clear it would be one that rounding chose.
    cold_iterations : int
        Labels that are worth less than their climb by as much are finished once more, after so many
        iterations at their own temperature: components of the climb are too far from theirs.
    levels : tuple of float
        Of a start, the share of what groups tell of the rows that is taken from them before
        k-means (`fairmix.fitting.starts.Level`).
    start_rows : int
        Rows of a sample that k-means sees, at most; the others go to the nearest centre. Of points
        it sees all.
    settle_iterations : int
        The best of them is climbed so much longer before it is moved.
    move_iterations : int
        Iterations after a move.
    least_gain : float
        Gain of the objective per row for which a move is kept. Many moves lead back to where they
        came from, with the clusters in another order, and rounding must not decide between the two.
    patience : int
        Points in a row that are no better before a climb ends.
    failures : int
        Moves in a row that gain nothing before a search ends.
    detour_every : int
        Each so many moves, one is a detour; the others are swaps.
    detour_iterations : int
        Iterations under another bound.
    tighter, looser : float
        The other bound: this share of the bound, or the bound and this share of what lies between
        it and the value of a start that knows no bound.
    towards_row : float
        How far a cluster is moved from that of a row towards the row itself. All the way, a
        covariance of its own would vanish.
    tiny, tiny_of : float, int
        Share of a mean cluster below which one is tiny, in tables of so many rows. Each row that
        has to join one far from all others is dear, and climbs may lose it; so labels of a start
        of an aware map that has one are finished, too.
    """

    # Decision records 0019, 0023, 0026, 0028, 0032, 0034, 0035 and 0038 have what other numbers
    # cost and bring.
    points: int = 6_144
    lone: int = 1_024
    widest: float = 0.2
    # One block.
    rows: int = 16_384
    aware: Walks = Walks(number=3, starts=2, runs=5, climbs=0.35)
    blind: Walks = Walks(number=8, starts=1, runs=2, climbs=0.3)
    dear_aware: Walks = Walks(number=1, starts=4, runs=5, climbs=0.5)
    dear_blind: Walks = Walks(number=3, starts=1, runs=2, climbs=0.3)
    raced: int = 3
    race_iterations: int = 5
    compared: int = 2
    look_iterations: int = 20
    compared_rows: int = 300_000
    telling: float = 0.01
    cold_iterations: int = 15
    levels: tuple[float, ...] = (0.0, 0.5, 0.8, 1.0)
    start_rows: int = 4_096
    settle_iterations: int = 15
    move_iterations: int = 18
    least_gain: float = 1e-4
    patience: int = 15
    failures: int = 8
    detour_every: int = 4
    detour_iterations: int = 8
    tighter: float = 0.3
    looser: float = 0.1
    towards_row: float = 0.75
    tiny: float = 0.1
    tiny_of: int = 500

    def walks(self, *, aware: bool, dear: bool) -> Walks:
        """Those of a fit, by what its map knows and whether each takes long."""
        if dear:
            return self.dear_aware if aware else self.dear_blind
        return self.aware if aware else self.blind

    def kept(self, n_rows: int) -> int:
        """How many ends of a large table go on."""
        return self.compared if n_rows <= self.compared_rows else 1


@dataclass(eq=False)
class Walk:
    """One search, the ``turn``-th of a fit: where it is, how many iterations it has left."""

    policy: Search
    walks: Walks
    recipe: Recipe
    task: Task
    objective: Objective
    table: Table
    rng: np.random.Generator
    turn: int = 0
    rows: Rows = field(init=False)
    counted: IntArray = field(init=False)
    known: FloatArray = field(init=False)
    left: int = field(init=False)
    plain: Beginning | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        # A sample in memory is one batch, whatever the rows that follow.
        self.task = replace(self.task, n_batches=1, patience=self.policy.patience)
        # All of them, so nothing is drawn; where they were elsewhere, they are in memory now.
        store = self.table.store.sample(self.table.n_rows, self.rng)
        self.rows = store.rows
        weight = np.ones(store.n_rows) if store.weight is None else store.weight
        # What rows of weight zero hold must not matter.
        self.counted = np.flatnonzero(weight)
        self.known = known_groups(self.table)
        self.left = self.walks.iterations(self.recipe, self.task)

    @property
    def mixture(self) -> Mixture:
        """That of the climbs."""
        return self.objective.mixture

    def run(self, start: Callable[[Level], FloatArray]) -> Solution:
        """The best end of all climbs; ``start`` draws parameters to begin with."""
        policy = self.policy
        shares = self.walks.levels(policy.levels, self.turn)
        begun = [Beginning(start(Level(self.known, share)), level=share > 0) for share in shares]
        self.plain = begun[0]
        free = self._free_value(begun[0])
        # Half of all iterations: values before rates are allowed say nothing of those at the end.
        each = max(1, self.left // (2 * len(begun)))
        ends = [self._climb(at, each) for at in begun]
        first = max(ends, key=height)
        settled = self._climb(Beginning.at(first), policy.settle_iterations)
        best, failed = max(first, settled, key=height), 0
        for move in count(1):
            if self.left <= 0 or failed >= policy.failures:
                break
            if move % policy.detour_every == 0 and free is not None:
                at = self._detour(best, free, move // policy.detour_every)
            else:
                at = self._swap(best)
            end = self._climb(at, policy.move_iterations)
            if self._gains(end, best):
                best, failed = end, 0
            else:
                failed += 1
        return best

    def _gains(self, end: Solution, best: Solution) -> bool:
        """Whether an end is better by more than rounding may make it.

        Where nothing was allowed so far, any value is a gain.
        """
        least = best.objective + self.policy.least_gain
        return height(end) > (least, best.history[-1].objective)

    def _climb(self, at: Beginning, iterations: int, bound: float | None = None) -> Solution:
        solver = self._solver(bound)
        end = solver.limited(min(iterations, solver.max_iter)).climb(self.objective, at)
        self.left -= len(end.history)
        return end

    def _solver(self, bound: float | None = None) -> Solver:
        task = self.task if bound is None else replace(self.task, bound=bound, target=bound)
        return self.recipe.make(task)

    def _swap(self, best: Solution) -> Beginning:
        at = Beginning.at(best)
        cluster = int(self.rng.integers(self.mixture.n_components))
        number = int(self.rng.choice(self.counted))
        row, sums = self.rows.take(np.array([number])), self._solver().expect(self.objective, at)
        shape = (len(self.known), self.mixture.n_components)
        multipliers = np.zeros(shape) if at.multipliers is None else at.multipliers.copy()
        # The tilt of this row; weights hardly change the shares, and it only names the host.
        offsets = -(self.known[:, number] / self.known.mean(axis=1)) @ multipliers
        theta, host = swapped(
            self.mixture, at.theta, sums, cluster, row, offsets, self.policy.towards_row
        )
        # Clusters side by side need about the same tilt.
        multipliers[:, cluster] = multipliers[:, host]
        return Beginning(theta, multipliers)

    def _detour(self, best: Solution, free: float, turn: int) -> Beginning:
        policy, bound = self.policy, self.task.bound
        looser = bound + policy.looser * max(free - bound, 0.0)
        # A bound of zero cannot be tighter.
        other = policy.tighter * bound if turn % 2 and bound > 0 else looser
        return Beginning.at(self._climb(Beginning.at(best), policy.detour_iterations, other))

    def _free_value(self, start: Beginning) -> float | None:
        """What the criterion would be without a bound; None where there is none."""
        if np.isinf(self.task.bound):
            return None
        sweep = Sweep(self.mixture.logits(start.theta), alpha=0.0)
        mass = self.table.softmax_pass(sweep).mass
        return self.task.criterion.value(mass / self.table.group_sizes[:, None])


def few_rows(policy: Search, table: Table, rng: np.random.Generator, *, single: bool) -> Table:
    """What a start is searched on: all rows condensed to points, or a sample of them.

    ``single``: for passes in single precision, if there are many rows.
    """
    whole = table.sample(table.n_rows, rng)
    store = whole.store.sample(table.n_rows, rng)
    numeric = store.rows.numeric
    # Categories have no mean, and a point for a row alone saves nothing.
    if numeric is not None and store.rows.codes is None and store.n_rows >= 2 * policy.points:
        # A map that knows more than the numbers parts rows by it, too.
        apart = numeric if whole.encoder.aware else np.hstack([numeric, _scaled(whole, numeric)])
        if np.isfinite(apart).all():
            cells = find_cells(apart, store.groups, policy.points, policy.lone)
            if spread_within(numeric, cells) <= policy.widest:
                return Condensed(whole, cells, single=single)
    return table.sample(policy.rows, rng, single=single)


def _scaled(table: Table, numeric: FloatArray) -> FloatArray:
    """What a map knows of the groups (n, M), as wide as the numbers are on average."""
    known = known_groups(table).T
    width = known.var(axis=0).mean()
    return np.asarray(known * np.sqrt(numeric.var(axis=0).mean() / width if width > 0 else 0.0))


def known_groups(table: Table) -> FloatArray:
    """What a map knows of the groups of all rows: rho, (M, n)."""
    parts = table.each(lambda block: block.along(np.eye(block.n_groups)))
    return np.hstack(list(parts)).astype(np.float64)


def swapped(
    mixture: Mixture,
    theta: FloatArray,
    sums: Logits,
    cluster: int,
    row: Rows,
    offsets: FloatArray,
    towards_row: float,
) -> tuple[FloatArray, int]:
    """Parameters after an M-step, but with one cluster taken away and put near a row; its host.

    The host is the cluster that the row belongs to, ``offsets`` (K,) being its tilt. The new one
    gets a mean share of the rows, and sufficient statistics between those of the row and of the
    host: with the family's own M-step this holds for every family.
    """
    features = row_sums(mixture.family, row, sums.W.shape[1])
    logits = mixture.logits(theta)
    score = logits.b + logits.W[:, : len(features)] @ features + offsets
    score[cluster] = -np.inf
    host = int(score.argmax())
    b, W = sums.b.copy(), sums.W.copy()
    b[cluster] = b.sum() / len(b)
    around = sums.W[host] / max(sums.b[host], 1e-300)
    W[cluster] = b[cluster] * (towards_row * features + (1 - towards_row) * around)
    return mixture.maximize(Logits(b, W)), host


def height(end: Solution) -> tuple[float, float]:
    """Of climbs that met no allowed rates at all, the last value tells."""
    return end.objective, end.history[-1].objective
