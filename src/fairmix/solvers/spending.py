"""Spend what a bound leaves over: a tilt that meets it with room to spare costs quality.

A bound holds for the worst cluster. Once it is met, the others are seldom at it, and each has a
price: its multiplier times what it leaves. So Newton steps towards the bound itself follow, and a
step counts only where the labels still meet the bound.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairmix.kernels.totals import Logits
from fairmix.solvers.polish import ROUNDING, Look, Polish
from fairmix.solvers.quadratic import Bound

# Passes at most. The first few bring nearly all: of what four brought, another eight add a tenth.
STEPS = 8
# A step may move a row's tilt by at most this many temperatures, as in a polish.
REACH = 2.0
# A step that leads beyond the bound is halved, down to this share of it.
SHORTEST = 1 / 8
# A gain of the objective per row that ends the steps: about a ten-thousandth of its range.
LEAST = 1e-4


def spent(polish: Polish, logits: Logits, look: Look) -> Look:
    """The best of the tilts between ``look`` and the bound; ``look`` where none is better."""
    if not np.isfinite(polish.bound) or look.final or look.rates.shape[1] == 1:
        return look
    if not look.curved:
        look = polish.look(look.tilt, logits)
    aim, best, length, move = Bound(polish.criterion, polish.bound), look, 1.0, None
    # Clusters that have nothing left: a row more would be beyond the bound.
    full: NDArray[np.bool_] = np.zeros(look.rates.shape[1], dtype=bool)
    for _ in range(STEPS):
        tilt = best.tilt
        if move is None:
            rates = best.rates + polish.error
            new = tilt.step(rates, best.totals, polish.temperature, aim, REACH)
            move = np.where(full, 0.0, new.multipliers - tilt.multipliers)
        now = polish.look(tilt.at(tilt.multipliers + length * move), logits)
        if _rank(now) > _rank(best):
            gain = now.tilt.value(now.totals) - tilt.value(best.totals)
            done = best.met and gain < LEAST
            best, move, length = now, None, min(1.0, 2 * length)
            if done:
                break
            continue
        beyond = _beyond(polish, now) & ~full
        if best.met and beyond.any() and not (beyond | full).all():
            # The others go on without them.
            full |= beyond
            move[:, full] = 0.0
        elif length > SHORTEST:
            length /= 2
        else:
            break
    if polish.labels and best.met and not polish.sampled:
        # What is left is a few rows, which a Newton step cannot see; those of a sample are others.
        counted = best.tilt.countable
        now = polish.counted(logits, best) if counted else polish.searched(logits, best)
        best = now if _rank(now) > _rank(best) else best
    return best


def _beyond(polish: Polish, look: Look) -> NDArray[np.bool_]:
    """Which clusters have rates beyond the bound, (K,)."""
    rates = look.rates + polish.error
    bound = polish.bound if polish.criterion.conic else look.enough
    missing = np.abs(rates - polish.criterion.project(rates, bound))
    return np.asarray(missing.max(axis=0) > ROUNDING)


def _rank(look: Look) -> tuple[bool, int, float]:
    """That of the solution that it would be; before the bound is met, nothing else counts."""
    return look.met, look.filled, look.tilt.value(look.totals) if look.met else -look.gap
