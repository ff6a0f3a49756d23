"""The search for a start: moves on few rows, each tried by a short climb.

A climb ends in the nearest optimum, and most are poor, above all those of a blind map. So before
all rows are climbed, a few of them are, again and again.

First come several starts, which differ in how much of what the groups tell of the rows is taken
from them before k-means: all of it suits a bound of zero, nothing a loose one. After each round of
short climbs the better half goes on. From the last one a move leads away, a short climb follows,
and its end is kept if it is better. There are two kinds of moves.

- A swap takes a random cluster away and puts it at a random row, with the tilt of the cluster that
  the row belonged to.
- A detour climbs under another bound for a while, tighter and looser in turn, and comes back: the
  continuation of a fit in its bound, from both ends.

How long all this may take is `Search`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cmp_to_key
from itertools import count

import numpy as np

from fairmix.fitting.starts import Level, row_sums
from fairmix.kernels import Sweep
from fairmix.kernels.totals import FloatArray, Logits, Rows
from fairmix.mixture.mixture import Mixture
from fairmix.solvers import Beginning, Recipe, Solution, Solver, Task
from fairmix.solvers.objective import Objective
from fairmix.tables import Table


@dataclass(frozen=True)
class Search:
    """Rows, iterations and bounds of a search; an iteration is a pass over these rows.

    Attributes
    ----------
    rows : int
        Rows that it sees, at most.
    levels_aware, levels_blind : tuple of float
        Of each start, the share of what groups tell of the rows that is taken from them before
        k-means (`fairmix.fitting.starts.Level`). A bound costs a blind map more, so its starts are
        closer to level.
    start_iterations : int
        How long each start is climbed before the better half goes on, until one is left.
    settle_iterations : int
        The best of them is climbed so much longer before it is moved.
    move_iterations : int
        Iterations after a move.
    climbs_aware, climbs_blind : float
        All iterations of a search, in units of the most that a climb may take. A blind map has
        more optima, and needs more to leave them.
    least_gain : float
        Gain of the objective per row for which a move is kept. Many moves lead back to where they
        came from, with the clusters in another order, and rounding must not decide between the two.
    patience : int
        Points in a row that are no better before a climb ends.
    failures : int
        Moves in a row that gain nothing before a search ends.
    runners_up : int
        Other ends that are finished where the labels of the best one are poor.
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
    """

    # One block.
    rows: int = 16_384
    # Decision record 0019 has what other numbers cost and bring.
    levels_aware: tuple[float, ...] = (0.0, 0.0, 0.5, 0.8, 1.0, 1.0)
    levels_blind: tuple[float, ...] = (0.0, 0.5, 0.8, 1.0, 0.8, 1.0)
    start_iterations: int = 10
    settle_iterations: int = 15
    move_iterations: int = 18
    climbs_aware: float = 0.9
    climbs_blind: float = 1.25
    least_gain: float = 1e-4
    patience: int = 15
    failures: int = 8
    runners_up: int = 3
    detour_every: int = 4
    detour_iterations: int = 8
    tighter: float = 0.3
    looser: float = 0.1
    towards_row: float = 0.75

    def iterations(self, recipe: Recipe, task: Task) -> int:
        """All iterations of a search."""
        # The user's `max_iter` may shorten a search, but is no wish for a longer one.
        usual = recipe.make(replace(task, max_iter=None)).max_iter
        most = usual if task.max_iter is None else min(usual, task.max_iter)
        return int(most * (self.climbs_aware if task.aware else self.climbs_blind))


@dataclass(eq=False)
class Walk:
    """One search: where it is, and how many iterations it has left."""

    policy: Search
    recipe: Recipe
    task: Task
    objective: Objective
    table: Table
    rng: np.random.Generator
    rows: Rows = field(init=False)
    known: FloatArray = field(init=False)
    others: list[Solution] = field(init=False)
    left: int = field(init=False)

    def __post_init__(self) -> None:
        # A sample in memory is one batch, whatever the rows that follow.
        self.task = replace(self.task, n_batches=1, patience=self.policy.patience)
        # All of them, so nothing is drawn; where they were elsewhere, they are in memory now.
        self.rows = self.table.store.sample(self.table.n_rows, self.rng).rows
        self.known = known_groups(self.table)
        self.others = []
        self.left = self.policy.iterations(self.recipe, self.task)

    @property
    def mixture(self) -> Mixture:
        """That of the climbs."""
        return self.objective.mixture

    def run(self, start: Callable[[Level], FloatArray]) -> Solution:
        """The best end of all climbs; ``start`` draws parameters to begin with."""
        policy = self.policy
        levels = policy.levels_aware if self.task.aware else policy.levels_blind
        begun = [Beginning(start(Level(self.known, share)), level=share > 0) for share in levels]
        free = self._free_value(begun[0])
        best = self._climb(self._fastest(begun), policy.settle_iterations)
        failed = 0
        for move in count(1):
            if self.left <= 0 or failed >= policy.failures:
                break
            if move % policy.detour_every == 0 and free is not None:
                at = self._detour(best, free, move // policy.detour_every)
            else:
                at = self._swap(best)
            end = self._climb(at, policy.move_iterations)
            if self._gains(end, best):
                best, other, failed = end, best, 0
            else:
                other, failed = end, failed + 1
            # Not where a move has led back.
            if abs(other.objective - best.objective) > policy.least_gain:
                self.others.append(other)
        return best

    def _gains(self, end: Solution, best: Solution) -> bool:
        """Whether an end is better by more than rounding may make it.

        Where nothing was allowed so far, any value is a gain.
        """
        least = best.objective + self.policy.least_gain
        return _value(end) > (least, best.history[-1].objective)

    def runners_up(self) -> list[Solution]:
        """The best ends but for that of `run`, in case that its labels are poor."""
        return sorted(self.others, key=_value, reverse=True)[: self.policy.runners_up]

    def _fastest(self, starts: list[Beginning]) -> Beginning:
        """Of the starts the better half after a short climb, and so on until one is left."""
        while True:
            ends = [self._climb(at, self.policy.start_iterations) for at in starts]
            ends.sort(key=cmp_to_key(lambda a, b: self._gains(b, a) - self._gains(a, b)))
            starts = [Beginning.at(end) for end in ends[: max(1, len(ends) // 2)]]
            if len(starts) == 1:
                return starts[0]

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
        number = int(self.rng.integers(self.table.n_rows))
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


def _value(end: Solution) -> tuple[float, float]:
    """Of climbs that met no allowed rates at all, the last value tells."""
    return end.objective, end.history[-1].objective
