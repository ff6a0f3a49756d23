"""The last steps of a tilt: the rates that count, of labels or responsibilities, meet a bound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fairmix.criteria import Criterion, EachAttribute, Edges
from fairmix.criteria.bounds import within
from fairmix.kernels import LogitMap, backward, hard_labels, label_masses
from fairmix.kernels.totals import Block, FloatArray, Logits, Totals
from fairmix.solvers.boundary import boundary_offsets
from fairmix.solvers.counts import Counts, apportioned
from fairmix.solvers.program import program_offsets
from fairmix.solvers.quadratic import Bound
from fairmix.solvers.stride import Stride
from fairmix.solvers.tilt import Tilt
from fairmix.solvers.whole_rows import smallest_leads, whole_row_offsets
from fairmix.tables import Rowlike

# A step may first move a row's tilt by at most this many temperatures. Half of what a climb allows:
# steps here are short, and grow where they may.
REACH = 2.0
# Steps at most. Of a map whose last rows are counted fewer: counting ends what steps begin.
STEPS = 40
FEW_STEPS = 12
# Steps grow by this factor, and halve after one that led astray: one such step takes back what
# about two good ones gave.
GROWTH = 1.5
# The share of what is missing that the target gives way by. Rates that come to half of what a step
# asks of them get there; with all of it, those that answer in full would overshoot.
GIVE_WAY = 0.5
# A gap leads astray when it grows by more than this share of what is missing, and by more than a
# few rows do, though of small groups, whose rows move their rates by much, by no more than this.
ASTRAY = 0.5
FEW_ROWS, FEW_RATES = 3, 2e-3
# Rates are quotients of floats.
ROUNDING = 1e-12
# Gaps of responsibilities are known to about this, because they are sums of rounded numbers.
SOFT_GRAIN = 5e-7
# Searches among the rows near a boundary: each begins with other rows, and the first moves most.
SEARCHES = 3
# Steps back from a gap below this share of the bound. Each halves what the bound leaves unused,
# and what is left of it after three is hardly worth a pass.
EASE_STEPS = 3
EASE = 0.9
# A row is far from another cluster when it is so many temperatures away: no step of a polish
# leads there.
FAR = 40.0
# Counts are products of rates and sizes: so far from whole they are the same.
COUNT_ROUNDING = 1e-6


class Look(NamedTuple):
    """What the rates that count are like at a tilt.

    ``gap`` is the value of the criterion, ``enough`` the largest one that meets the bound.
    ``final``: the last rows were counted, and nothing is left over.
    """

    tilt: Tilt
    totals: Totals
    rates: FloatArray
    gap: float = np.nan
    enough: float = np.nan
    final: bool = False

    @property
    def met(self) -> bool:
        """Whether the bound is met."""
        # As the verdict has it: a ratio of exactly 0.8 is a quotient, and may be off by rounding.
        return within(self.gap, self.enough)

    @property
    def filled(self) -> int:
        """Clusters with a label."""
        return int((self.totals.hard_mass.sum(axis=0) > 0).sum())

    @property
    def curved(self) -> bool:
        """Whether the pass says how a step would change the rates."""
        return self.totals.curvature.size > 0


class Labelled(NamedTuple):
    """Sums over rows by their labels.

    ``masses`` (M, K): weight of each group in each cluster; ``sums``: of one and of T(x).
    """

    masses: FloatArray
    sums: Logits

    def plus(self, other: Labelled) -> Labelled:
        """Those of the rows of both."""
        return Labelled(self.masses + other.masses, self.sums + other.sums)


@dataclass(frozen=True, eq=False)
class Labelling:
    """What the labels of a block add up to."""

    logit_map: LogitMap

    def __call__(self, block: Block) -> Labelled:
        """Of all its rows."""
        n_clusters, n_features = self.logit_map.logits.W.shape
        labels = hard_labels(block, self.logit_map)
        marks = (labels == np.arange(n_clusters)[:, None]).astype(block.dtype)
        return Labelled(label_masses(block, labels, n_clusters), backward(block, marks, n_features))


@dataclass(frozen=True)
class Polish:
    """Newton steps on the rates that count, components fixed.

    Parameters
    ----------
    criterion : Criterion
        The measure of fairness.
    bound : float
        What it may be; infinite when anything is allowed.
    labels : bool
        Whether the rates of the hard labels count, or of the responsibilities.
    temperature : float
        Of the responsibilities.
    error : (M, K) array or float
        Added to all rates.
    """

    criterion: Criterion
    bound: float
    labels: bool
    temperature: float
    error: FloatArray | float = 0.0

    @property
    def sampled(self) -> bool:
        """Whether the rows are a sample, whose error is added to their rates."""
        return isinstance(self.error, np.ndarray)

    def look(self, tilt: Tilt, logits: Logits, *, curved: bool = True) -> Look:
        """One pass at the tilt; ``curved`` where a step may follow."""
        totals = tilt.table.softmax_pass(
            tilt.sweep(logits, self.temperature, alpha=0.0, hard=True, curved=curved)
        )
        rates = tilt.hard_rates(totals) if self.labels else tilt.rates(totals)
        return self._judged(Look(tilt, totals, rates))

    def _judged(self, look: Look) -> Look:
        rates, table = look.rates + self.error, look.tilt.table
        enough = self._enough(rates, table)
        return look._replace(gap=self.criterion.value(rates), enough=enough)

    def _enough(self, rates: FloatArray, table: Rowlike) -> float:
        """The gap to reach."""
        if not self.labels:
            # Below the bound by more than the rounding of whoever measures the gap again.
            return max(self.bound - 2 * SOFT_GRAIN, SOFT_GRAIN)
        return self.criterion.enough(self.bound, rates, table.group_sizes, table.rate_steps)

    def _grain(self, rates: FloatArray, table: Rowlike) -> float:
        """The smallest difference between gaps that means something."""
        if not self.labels:
            return SOFT_GRAIN
        return self.criterion.resolution(rates, table.group_sizes, table.rate_steps)

    def run(self, logits: Logits, look: Look) -> Look:
        """The first tilt that meets the bound, else the one that comes closest.

        Starts from ``look``. The target of the steps shrinks by what is missing. Where few rows
        lie near a boundary, labels hardly move within a temperature, so steps grow; after one that
        leads clearly away they shrink, and the closest tilt is where they go on.
        """
        target, reach, stride = self.bound, REACH, Stride(look.rates.shape[1])
        best = now = short = self._judged(look)
        if best.final and best.met:
            return best
        table = look.tilt.table
        grain = self._grain(best.rates + self.error, table)
        # Where the labels of a group depend on its own offsets only, its last rows are counted.
        countable = self.labels and look.tilt.countable
        if countable and not best.met and best.gap <= self.bound + FEW_ROWS * grain:
            # So near that only these rows have to move.
            counted = self.counted(logits, best, stay=True)
            if counted.met and counted.filled >= best.filled:
                return counted
        if countable and self.criterion.conic and best.curved:
            # Each cluster ends on the edge of its cone, or within it, and not beyond.
            counted = self.counted(logits, best)
            if counted.met and counted.filled >= best.filled:
                return max(counted, best, key=_worth) if best.met else counted
        programmed = self._programmed(logits, best)
        if programmed is not None and programmed.filled >= best.filled:
            return programmed
        for _ in range(FEW_STEPS if countable else STEPS):
            if best.met:
                break
            short = best
            target = max(0.0, target - GIVE_WAY * max(best.gap - self.bound, grain))
            aim, rates = Bound(self.criterion, target), now.rates + self.error
            stride.look(now.tilt, now.rates)
            factors = stride.factors
            tilt = now.tilt.step(rates, now.totals, self.temperature, aim, reach, factors)
            stride.taken(now.tilt, tilt, reach * self.temperature)
            now = self.look(tilt, logits)
            # A few rows more are no sign of a wrong direction.
            few_rows = min(FEW_ROWS * float(table.rate_steps.max()), FEW_RATES)
            astray = now.gap > best.gap + max(ASTRAY * (best.gap - self.bound), few_rows)
            # A cluster without rows has no gap, and is no solution.
            astray |= now.filled < best.filled
            best = self._better(now, best)
            now, reach = (best, reach / 2) if astray else (now, GROWTH * reach)
        if not best.met and countable:
            now = self.counted(logits, best)
            if not now.met and not self.criterion.conic:
                now = self._equalised(logits, best, grain)
            best = self._better(now, best)
        if not best.met:
            best = self._search(logits, best)
        best = self._eased(logits, best, short)
        if programmed is not None and (True, programmed.filled) >= (best.met, best.filled):
            return programmed
        return best

    @staticmethod
    def _better(new: Look, old: Look) -> Look:
        """The one with more clusters, or that meets the bound, or comes closer to it."""
        better = (new.filled, new.met, -new.gap) > (old.filled, old.met, -old.gap)
        return new if better else old

    def _count(self, logits: Logits, look: Look, wanted: FloatArray) -> Look:
        """Labels whose rates are the wanted ones (M, K), to the last row."""
        tilt, table = look.tilt, look.tilt.table
        sizes, whole = table.group_sizes, _whole(table)
        added = np.zeros_like(tilt.offsets)
        for g in range(len(sizes)):
            aim = sizes[g] * (wanted[g] - self._error_of(g))
            goal = apportioned(aim) if whole else aim
            excess = sizes[g] * look.rates[g] - goal
            if not np.abs(excess).max() > COUNT_ROUNDING:
                continue
            found = whole_row_offsets(table, logits, tilt.offsets, g, excess, goal - aim)
            if found is not None:
                added[g] = found
        return self.look(tilt.moved(added), logits)

    def counted(self, logits: Logits, look: Look, *, stay: bool = False) -> Look:
        """Labels where a Newton step to the bound should bring them, to the last row.

        ``stay``: without that step, so that they stay where they are but for the last rows.
        """
        table, aim = look.tilt.table, Bound(self.criterion, self.bound)
        rates = ends = look.rates + self.error
        if not stay:
            ends = look.tilt.ends(rates, look.totals, self.temperature, aim)
        if _whole(table):
            # Of a cone nothing is forgiven; a gap that whole rows cannot resolve is.
            bound = self.bound if self.criterion.conic else self._enough(rates, table)
            offsets = look.tilt.offsets
            leads = smallest_leads(table, logits, offsets)
            either = np.minimum(leads, leads.transpose(0, 2, 1))
            ends = _pinned(ends, rates, either > FAR * self.temperature)
            losses = leads + offsets[:, None, :] - offsets[:, :, None]
            counts = Counts(self.criterion, bound, table.group_sizes, losses)
            ends = counts.near(ends) / table.group_sizes[:, None]
        return self._count(logits, look, ends)

    def _equalised(self, logits: Logits, look: Look, grain: float) -> Look:
        """Every group follows the rates of the smallest one.

        Differences to that group shrink in proportion until the criterion is met, with a row to
        spare; at a bound that whole rows cannot resolve they vanish.
        """
        rates, smallest = look.rates + self.error, int(look.tilt.table.group_sizes.argmin())
        share = max(0.0, self.bound - grain) / self.criterion.value(rates)
        return self._count(logits, look, rates[smallest] + share * (rates - rates[smallest]))

    def _edges(self, tilt: Tilt) -> Edges | None:
        """What an integer program would ask of the labels; None where there is none for them."""
        table, criterion = tilt.table, self.criterion
        exact = self.labels and tilt.aware and not self.sampled
        if not (exact and isinstance(criterion, EachAttribute) and np.isfinite(self.bound)):
            return None
        if not _whole(table):
            return None
        n_clusters = tilt.multipliers.shape[1]
        return criterion.edges(self.bound, table.group_sizes, table.rate_steps, n_clusters)

    def _programmed(self, logits: Logits, look: Look) -> Look | None:
        """Labels of whole counts that are about the best; None where no program finds them."""
        tilt, table, edges = look.tilt, look.tilt.table, self._edges(look.tilt)
        if edges is None:
            return None
        mass = (look.rates * table.group_sizes[:, None]).round()
        added = program_offsets(table, logits, tilt.offsets, mass, edges)
        if added is None:
            return None
        found = self.look(tilt.moved(added), logits)._replace(final=True)
        return found if found.met else None

    def _error_of(self, group: int) -> FloatArray | float:
        return self.error[group] if isinstance(self.error, np.ndarray) else self.error

    def beyond(self, best: Look, labelled: Labelled) -> float:
        """By how much the labels of the final map miss a bound that was met on the way.

        The map itself is not cooled, and has other logits and offsets with the same sum, so a row
        that lies on a boundary to the last digits may fall to the other side.
        """
        if not best.met:
            return 0.0
        table = best.tilt.table
        rates = np.asarray(labelled.masses / table.group_sizes[:, None])
        beyond = self.criterion.value(rates) - self._enough(rates, table)
        return beyond if beyond > ROUNDING else 0.0

    def searched(self, logits: Logits, look: Look) -> Look:
        """Labels after the rows near a boundary were moved, one line of offsets after the other.

        Where the bound is met, for what labels are worth, else towards it, whatever it costs.
        """
        tilt, table = look.tilt, look.tilt.table
        # What an error adds to the rates stays as it is.
        mass = (look.rates + self.error) * table.group_sizes[:, None]
        bound = self.bound if self.criterion.conic else look.enough
        added = boundary_offsets(
            table, logits, tilt.offsets, mass, self.criterion, bound, met=look.met
        )
        return self.look(tilt.moved(added), logits)

    def _search(self, logits: Logits, best: Look) -> Look:
        """The rows near a boundary, whatever it costs."""
        for _ in range(SEARCHES):
            if best.met:
                break
            now = self.searched(logits, best)
            if self._better(now, best) is best:
                break
            best = now
        return best

    def _eased(self, logits: Logits, best: Look, short: Look) -> Look:
        """Fairer than asked costs quality: halve the way back to the last tilt that was not."""
        for _ in range(EASE_STEPS):
            if not best.gap < EASE * self.bound or short is best:
                break
            middle = (best.tilt.multipliers + short.tilt.multipliers) / 2
            now = self.look(best.tilt.at(middle), logits)
            best, short = (now, short) if now.gap <= min(self.bound, now.enough) else (best, now)
        return best


def _worth(look: Look) -> float:
    return look.tilt.value(look.totals)


def _pinned(ends: FloatArray, rates: FloatArray, far: NDArray[np.bool_]) -> FloatArray:
    """Rates to end at, with those of clusters that no row is near as they are.

    What a Newton step says of these is rounding, and a row that moves there is dear. ``far``
    (M, K, K): whether rows are far from going from one cluster to another, or back.
    """
    n_clusters = ends.shape[1]
    pinned = (far | np.eye(n_clusters, dtype=bool)).all(axis=2)
    # With one cluster or none left, there is nothing to share what the others have less or more.
    pinned &= (~pinned).sum(axis=1, keepdims=True) > 1
    rest = 1 - np.where(pinned, rates, 0.0).sum(axis=1, keepdims=True)
    free = np.where(pinned, 0.0, ends)
    return np.where(pinned, rates, free * rest / free.sum(axis=1, keepdims=True))


def _whole(table: Rowlike) -> bool:
    """Whether every row counts for one."""
    return bool(np.allclose(table.rate_steps * table.group_sizes, 1, rtol=1e-9))
