"""From the labels of a sample to those of all rows, in few passes over these.

The rates of all rows differ from those of a sample by the sampling error, which hardly changes with
the tilt. So it is measured, and the tilt polished on the sample with it.
"""

from __future__ import annotations

from dataclasses import replace

from fairmix.kernels.totals import Logits
from fairmix.solvers.polish import Look, Polish
from fairmix.solvers.spending import spent
from fairmix.solvers.tilt import Tilt
from fairmix.tables import Rowlike

# Passes over all rows before they are polished themselves, and the share of the bound to aim at:
# a little less than all, because the sampling error does change a little with the tilt.
ROUNDS = 4
CAREFUL = 0.97


def carried_over(polish: Polish, tilt: Tilt, logits: Logits, table: Rowlike) -> Look:
    """The look at all rows of a table, of which those of the tilt are a sample."""
    # Ratios of a small cluster are a matter of few rows, which are counted where all of them are.
    counts = polish.labels and tilt.countable and polish.criterion.conic
    near, wide = polish.look(tilt, logits), polish.look(tilt.on(table), logits, curved=counts)
    for _ in range(ROUNDS):
        if wide.met:
            return wide
        if counts:
            counted = polish.counted(logits, wide)
            if counted.met and counted.filled >= wide.filled:
                return counted._replace(final=True)
        careful = replace(polish, bound=CAREFUL * polish.bound, error=wide.rates - near.rates)
        near = spent(careful, logits, careful.run(logits, near))
        wide = polish.look(near.tilt.on(table), logits, curved=counts)
    return polish.look(wide.tilt, logits)
