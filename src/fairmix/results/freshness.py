"""Freshness: whether rows are those that a model was fitted to.

Hashes of training rows stay in the memory of the process that fitted them; neither a model file nor
a pickle holds them, because whoever has them can ask whether a certain person was in the data.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import bdtr, gammaln, xlogy

from fairmix.kernels.totals import IntArray
from fairmix.tables import Hashes, MemoryStore, row_hashes

# Hashes that are kept: those of the rows with the smallest ones, which is a random sample of rows.
# 800 kB beside the model, however large the table was.
KEPT = 100_000
# Fresh rows are taken for rows of the fit as rarely as this. As at most half of the rows are
# expected to be new, about 20 rows that are all known raise the alarm: 2^-20.
FALSE_ALARM = 1e-6


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """What is remembered of the rows of a fit.

    Attributes
    ----------
    n_rows, total : int
        Rows, and the sum of their hashes: the same for any order of the rows.
    log_chance : float
        Logarithm of the probability that as many rows, drawn at random from these, are these, or
        of what is larger.
    kept : ndarray of uint64
        The smallest hashes, sorted, each once.
    single : float
        Share of rows, among those with these hashes, that occur once.
    """

    n_rows: int
    total: int
    log_chance: float
    kept: Hashes
    single: float

    @classmethod
    def of(cls, store: MemoryStore) -> TrainingRows:
        """Remember the rows that have a weight."""
        rows = store.rows
        # The model has learned nothing from rows without weight, so they are as good as fresh.
        if store.weight is not None and not store.weight.all():
            rows = rows.take(np.flatnonzero(store.weight))
        hashes = row_hashes(rows)
        n_rows = len(hashes)
        # About twice as many as are kept, unless rows are equal: sorting all of them takes as long
        # as hashing them.
        limit = np.uint64(min(1.0, 2 * KEPT / n_rows) * (2.0**64 - 2**11))
        known, times = _counted(hashes[hashes <= limit])
        if len(known) < KEPT:
            known, times = _counted(hashes)
        # Of a multinomial draw: a table with few distinct rows may well come up again by chance,
        # and is then no evidence. Many rows occur as often as each other. All that was not counted
        # goes as one row, which makes the chance larger.
        counted = np.append(times, n_rows - times.sum())
        often = np.bincount(counted[counted > 0])
        t = np.flatnonzero(often)
        each = xlogy(t, t / n_rows) - gammaln(t + 1)
        chance = gammaln(n_rows + 1) + often[t] @ each
        kept = times[:KEPT]
        single = float((kept == 1).sum() / kept.sum())
        # A copy, because a slice would keep the hashes of all rows alive.
        return cls(n_rows, int(hashes.sum()), float(chance), known[:KEPT].copy(), single)

    def hold(self, hashes: Hashes) -> bool:
        """Whether rows are all rows of the fit, or more than half of them are among those.

        Of fresh rows, some equal rows of the fit, too. How many do not is known from the rows of
        the fit: Good (1953) estimates the probability that the next row is a new one by the share
        of rows that occur once. Half of that is expected here, so that an error of the estimate
        raises no alarm. A table in which every row occurs often has no new rows; it is recognised
        as a whole.
        """
        whole = len(hashes) == self.n_rows and int(hashes.sum()) == self.total
        if whole and self.log_chance < np.log(FALSE_ALARM):
            return True
        # Only these would have been kept. They also have a place within the array, so that the
        # look-up below needs no check.
        hashes = hashes[hashes <= self.kept[-1]]
        if not len(hashes):
            return False
        places = np.searchsorted(self.kept, hashes)
        n_new = int((self.kept[places] != hashes).sum())
        return bool(bdtr(n_new, len(hashes), self.single / 2) < FALSE_ALARM)


def _counted(hashes: Hashes) -> tuple[Hashes, IntArray]:
    """Each hash once, in order, and how often it occurs; they are sorted in place.

    NumPy's ``unique`` takes five times their memory.
    """
    hashes.sort()
    last = np.flatnonzero(np.append(hashes[1:] != hashes[:-1], True))
    return hashes[last], np.diff(last, prepend=-1)
