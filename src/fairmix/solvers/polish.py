"""The last steps of a tilt: the rates that count, of labels or responsibilities, meet a bound."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from fairmix.criteria import Criterion
from fairmix.kernels.totals import FloatArray, Logits, Totals
from fairmix.solvers.boundary import boundary_offsets
from fairmix.solvers.quadratic import Bound
from fairmix.solvers.tilt import Tilt
from fairmix.solvers.whole_rows import whole_row_offsets
from fairmix.tables import Rowlike

# A step may first move a row's tilt by at most this many temperatures.
REACH = 2.0
# Steps at most.
STEPS = 40
# Steps of a map whose last rows are counted.
FEW_STEPS = 12
# Rates are quotients of floats.
ROUNDING = 1e-12
# Gaps of responsibilities are known to about this, because they are sums of rounded numbers.
SOFT_GRAIN = 5e-7
# Searches among the rows near a boundary: each begins with other rows.
SEARCHES = 3
# Steps back from a gap below this share of the bound.
EASE_STEPS = 3
EASE = 0.9
# Passes over all rows before they are polished themselves, and the share of the bound to aim at.
ROUNDS = 4
CAREFUL = 0.97


class View(NamedTuple):
    """What the rates that count look like at some multipliers."""

    multipliers: FloatArray
    totals: Totals
    rates: FloatArray
    gap: float


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

    def look(self, tilt: Tilt, logits: Logits, *, curved: bool = True) -> View:
        """One pass at the tilt; ``curved`` where a step may follow."""
        totals = tilt.measure(logits, self.temperature, alpha=0.0, hard=True, curved=curved)
        rates = tilt.hard_rates(totals) if self.labels else tilt.rates(totals)
        return self._judged(View(tilt.multipliers, totals, rates, np.nan))

    def _judged(self, view: View) -> View:
        return view._replace(gap=self.criterion.value(view.rates + self.error))

    def carry_over(self, tilt: Tilt, logits: Logits, table: Rowlike) -> tuple[Tilt, View]:
        """From the rows of the tilt, a sample, to all of a table, in few passes over them.

        The rates of all rows differ from those of the sample by the sampling error, which hardly
        changes with the tilt. So it is measured, and the tilt polished on the sample with it.
        """
        wide = tilt.on(table)
        near, view = self.look(tilt, logits), self.look(wide, logits, curved=False)
        for _ in range(ROUNDS):
            if view.gap <= self.bound:
                return wide, view
            error = view.rates - near.rates
            near = replace(self, bound=CAREFUL * self.bound, error=error).run(tilt, logits, near)
            tilt.multipliers = wide.multipliers = near.multipliers
            view = self.look(wide, logits, curved=False)
        return wide, self.look(wide, logits)

    def run(self, tilt: Tilt, logits: Logits, view: View) -> View:
        """The first tilt that meets the bound, else the one that comes closest.

        Starts from ``view``. The target of the steps shrinks by what is missing. Where few rows
        lie near a boundary, labels hardly move within a temperature, so steps grow; after one that
        leads clearly away they shrink, and the closest tilt is where they go on.
        """
        target, reach = self.bound, REACH
        best = now = short = self._judged(view)
        table = tilt.table
        grain, enough = self._finest(table, len(logits.b))
        # Where the labels of a group depend on its own offsets only, its last rows are counted.
        countable = self.labels and tilt.aware
        for _ in range(FEW_STEPS if countable else STEPS):
            if best.gap <= enough:
                break
            short = best
            target = max(0.0, target - max(0.5 * (best.gap - self.bound), 0.5 * grain))
            tilt.multipliers = now.multipliers
            aim = Bound(self.criterion, target)
            tilt.step(now.rates + self.error, now.totals, self.temperature, aim, reach)
            now = self.look(tilt, logits)
            # A few rows more are no sign of a wrong direction.
            few_rows = min(3 * float(table.rate_steps.max()), 2e-3)
            astray = now.gap > best.gap + max(0.5 * (best.gap - self.bound), few_rows)
            best = now if now.gap < best.gap else best
            now, reach = (best, reach / 2) if astray else (now, 1.5 * reach)
        if best.gap > enough and countable:
            best = self._count(tilt, logits, best, grain)
        if best.gap > enough:
            best = self._search(tilt, logits, best, enough)
        return self._eased(tilt, logits, best, short)

    def _finest(self, table: Rowlike, n_clusters: int) -> tuple[float, float]:
        """The smallest difference between gaps that means something, and the gap to reach."""
        if not self.labels:
            # Below the bound by more than the rounding of whoever measures the gap again.
            return SOFT_GRAIN, max(self.bound - 2 * SOFT_GRAIN, SOFT_GRAIN)
        grain = self.criterion.resolution(table.group_sizes, table.rate_steps, n_clusters)
        return grain, max(self.bound, grain)

    def _count(self, tilt: Tilt, logits: Logits, best: View, grain: float) -> View:
        """Every group follows the rates of the smallest one, to the last row.

        Differences to that group shrink in proportion until the criterion is met, with a row to
        spare; at a bound that whole rows cannot resolve they vanish.
        """
        sizes, rates = tilt.table.group_sizes, best.rates + self.error
        smallest = int(sizes.argmin())
        share = max(0.0, self.bound - grain) / best.gap
        wanted = rates[smallest] + share * (rates - rates[smallest])
        offsets = tilt.offsets_of(best.multipliers)
        added = np.zeros_like(offsets)
        whole = bool((tilt.table.rate_steps * sizes == 1).all())
        for g in range(len(sizes)):
            aim = sizes[g] * (wanted[g] - self._error_of(g))
            excess = sizes[g] * best.rates[g] - (_apportioned(aim) if whole else aim)
            if g == smallest or not np.abs(excess).max() > 0:
                continue
            found = whole_row_offsets(tilt.table, logits, offsets, g, excess)
            if found is not None:
                added[g] = found
        tilt.multipliers = best.multipliers - added * tilt.share[:, None]
        now = self.look(tilt, logits)
        return now if now.gap < best.gap else best

    def _error_of(self, group: int) -> FloatArray | float:
        return self.error[group] if isinstance(self.error, np.ndarray) else self.error

    def rounded(self, tilt: Tilt, logits: Logits, offsets: FloatArray, best: View) -> float:
        """By how much the labels of the final map miss a bound that was met on the way.

        The map itself is not cooled, and has other logits and offsets with the same sum, so a row
        that lies on a boundary to the last digits may fall to the other side.
        """
        table = tilt.table
        _, enough = self._finest(table, len(logits.b))
        if not self.labels or best.gap > enough:
            return 0.0
        totals = table.softmax_pass(
            logits, offsets=offsets, alpha=0.0, likelihood=False, hard=True, rough=True
        )
        beyond = self.criterion.value(tilt.hard_rates(totals)) - enough
        return beyond if beyond > ROUNDING else 0.0

    def _search(self, tilt: Tilt, logits: Logits, best: View, enough: float) -> View:
        """The rows near a boundary, one line of offsets after the other."""
        for _ in range(SEARCHES):
            if best.gap <= enough:
                break
            offsets = tilt.offsets_of(best.multipliers)
            table = tilt.table
            # What an error adds to the rates stays as it is.
            mass = (best.rates + self.error) * table.group_sizes[:, None]
            added = boundary_offsets(table, logits, offsets, mass, self.criterion, enough)
            tilt.multipliers = best.multipliers - added * tilt.share[:, None]
            now = self.look(tilt, logits)
            if now.gap >= best.gap:
                break
            best = now
        return best

    def _eased(self, tilt: Tilt, logits: Logits, best: View, short: View) -> View:
        """Fairer than asked costs quality: halve the way back to the last tilt that was not."""
        for _ in range(EASE_STEPS):
            if not best.gap < EASE * self.bound or short is best:
                break
            tilt.multipliers = (best.multipliers + short.multipliers) / 2
            now = self.look(tilt, logits)
            best, short = (now, short) if now.gap <= self.bound else (best, now)
        return best


def _apportioned(counts: FloatArray) -> FloatArray:
    """Whole numbers with the same sum, each within one of its own."""
    whole = np.floor(counts + 1e-9)
    rest = round(float(counts.sum() - whole.sum()))
    whole[np.argsort(whole - counts, kind="stable")[:rest]] += 1
    return np.asarray(whole)
