"""Labels that know groups by P(group | x) alone.

The linear program is of no use here, because its labels are no function of x. So the dual is cooled
down as for a fit, and its labels polished until the rates of the real groups meet the rule.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairmix.input.groups import Seats
from fairmix.kernels.totals import Features, FloatArray, Logits, Rows
from fairmix.repair.labels import (
    ACCURACY,
    STEPS,
    TEMPERATURES,
    FairLabels,
    Repair,
    bounded,
    demand_of,
)
from fairmix.repair.pricing import Best
from fairmix.repair.program import Rowset
from fairmix.solvers import Dual
from fairmix.solvers.dual import Goal
from fairmix.solvers.polish import Polish
from fairmix.solvers.quadratic import Bound
from fairmix.solvers.tilt import Tilt
from fairmix.tables import MemoryStore, Table


@dataclass(frozen=True, eq=False)
class Blind:
    """A repair whose labels see ``rho`` (N, M), the probability of each group given x."""

    repair: Repair
    rho: FloatArray

    def run(self) -> FairLabels:
        """Find the labels, and measure them."""
        repair = self.repair
        seats = Seats.of(repair.groups)
        codes = seats.codes(repair.groups.codes)
        weight = seats.weight(repair.groups.codes, repair.weight)
        n_clusters = repair.costs.n_clusters
        scaled = repair.costs.scaled(0, repair.costs.n_rows)
        store = MemoryStore(
            # Both in one array, because a table knows one kind of rows.
            Rows(np.hstack([scaled, self.rho]), None),
            groups=codes,
            n_groups=seats.n_groups,
            aside=seats.one_more,
            weight=weight,
            n_jobs=repair.n_jobs,
        )
        table = Table(
            store,
            lambda rows: Features(_numeric(rows)[:, :n_clusters], None),
            propensity=lambda rows: _numeric(rows)[:, n_clusters:].T,
            membership=seats.membership,
        )
        criterion, level = bounded(repair.limit, table)
        demand = demand_of(criterion, level, table, seats, n_clusters)
        logits = Logits(np.zeros(n_clusters), -np.eye(n_clusters))
        solver = Dual(criterion, Bound(criterion, level))
        tilt = Tilt.of(table, n_clusters, free=criterion.conic)
        weights = np.ones(len(codes)) if weight is None else weight.astype(np.float64)
        lower = -np.inf
        for temperature in TEMPERATURES:
            tilt = solver.solved(tilt, logits, temperature, Goal(ACCURACY, STEPS))
            allowed, support = demand.allowed(tilt.multipliers)
            cheapest = (scaled + self.rho @ (allowed / tilt.share[:, None])).min(axis=1)
            lower = max(lower, float(weights @ cheapest) - table.weight_sum * support)
        polish = Polish(criterion, level, labels=True, temperature=TEMPERATURES[-1])
        look = polish.run(logits, polish.look(tilt, logits))
        added = -look.tilt.offsets
        labels = (scaled + self.rho @ added).argmin(axis=1).astype(np.int32)
        # `measured` wants multipliers by rate.
        best = Best(labels, added * demand.sizes[:, None], lower)
        rowset = Rowset(table, repair.costs, codes, weights)
        return repair.measured(best, rowset, demand)


def _numeric(rows: Rows) -> FloatArray:
    assert rows.numeric is not None
    return rows.numeric
