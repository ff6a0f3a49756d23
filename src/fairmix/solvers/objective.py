"""What solvers climb: mean log-likelihood minus a penalty on the groups' rates.

``value(theta) = loglik(theta) / N - penalty(r(theta))`` and its EM surrogate, in which the
likelihood is replaced by ``<totals, logits(theta)> / N``: totals of one pass determine it, so
inner steps revisit data only for the rates.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol, Self

import numpy as np

from fairmix.criteria import Criterion, Seminorm
from fairmix.kernels import Sweep
from fairmix.kernels.totals import FloatArray, Logits, Totals
from fairmix.mixture.mixture import Mixture
from fairmix.tables import Rowlike

# How sharply the multipliers of a penalty follow the rates, in units of the strength: the value
# at which fits of the paper's data sets neither stall nor lose clusters.
SHARPNESS = 100.0


class Penalty(Protocol):
    """A function of the rates (M, K) whose gradient is made of multipliers.

    A criterion has kinks where solutions lie, so its plain subgradient zigzags. ``gradient`` is
    the multiplier estimate of the augmented Lagrangian, which ``updated`` makes exact over time.
    """

    def value(self, rates: FloatArray) -> float:
        """Value at rates."""

    def gradient(self, rates: FloatArray) -> FloatArray:
        """Multipliers at rates, (M, K)."""

    def updated(self, rates: FloatArray) -> Self:
        """The same penalty with its multipliers set to those at ``rates``."""


@dataclass(frozen=True, eq=False)
class Scaled:
    """``strength * criterion``: the paper's lambda Delta.

    The multipliers are the point nearest to ``y + sharpness * rates`` in the dual ball of radius
    ``strength``; for a large sharpness a subgradient of ``value``.
    """

    criterion: Seminorm
    strength: float
    sharpness: float
    y: FloatArray

    @classmethod
    def of(cls, criterion: Seminorm, strength: float, shape: tuple[int, int]) -> Self:
        """The penalty of rates of a shape (M, K) before the first climb."""
        return cls(criterion, strength, SHARPNESS * strength, np.zeros(shape))

    def value(self, rates: FloatArray) -> float:
        """Value at rates."""
        return self.strength * self.criterion.value(rates)

    def gradient(self, rates: FloatArray) -> FloatArray:
        """Multipliers at rates."""
        z = self.y + self.sharpness * rates
        return z - self.criterion.shrink(z, self.strength)

    def updated(self, rates: FloatArray) -> Self:
        """With new multipliers."""
        return replace(self, y=self.gradient(rates))


@dataclass(frozen=True, eq=False)
class Bounded:
    """``criterion <= bound``, as an augmented Lagrangian: smooth, and exact for the right y.

    With z = y + rho * rates and P the projection on the rates within the bound, the multipliers
    are ``m = z - rho P(z / rho)`` and the value is ``(|m|^2 - |y|^2) / (2 rho)``.
    """

    criterion: Criterion
    bound: float
    rho: float
    y: FloatArray

    def value(self, rates: FloatArray) -> float:
        """Value at rates."""
        m = self.gradient(rates)
        return float((np.vdot(m, m) - np.vdot(self.y, self.y)) / (2 * self.rho))

    def gradient(self, rates: FloatArray) -> FloatArray:
        """Multipliers at rates."""
        z = self.y + self.rho * rates
        return np.asarray(z - self.rho * self.criterion.project(z / self.rho, self.bound))

    def updated(self, rates: FloatArray) -> Self:
        """With new multipliers."""
        return replace(self, y=self.gradient(rates))


@dataclass(frozen=True, eq=False)
class Point:
    """Parameters with their logits, the rates there and the value of what is maximised."""

    theta: FloatArray
    logits: Logits
    rates: FloatArray
    log_likelihood: float
    value: float


@dataclass(frozen=True, eq=False)
class Objective:
    """Mean log-likelihood minus penalty.

    Parameters
    ----------
    mixture : Mixture
        Maps theta to logits.
    table : Table
        All rows.
    penalty : Penalty or None
        None gives a plain mixture.
    temperature : float
        The penalty sees the rates of softmax(logits / temperature); below one they come close to
        those of the hard labels.
    fair_table : Table or None
        The rows whose rates the penalty sees, the paper's D_n; None: all of them.
    """

    mixture: Mixture
    table: Rowlike
    penalty: Penalty | None = None
    temperature: float = 1.0
    fair_table: Rowlike | None = None

    @property
    def fair(self) -> Rowlike:
        """The rows whose rates count."""
        return self.table if self.fair_table is None else self.fair_table

    @property
    def _one_pass(self) -> bool:
        """Whether one pass gives the likelihood and the rates that the penalty sees."""
        return self.temperature == 1.0 and self.fair_table is None

    @property
    def n_batches(self) -> int:
        """E-steps that visit all rows."""
        return self.table.n_batches

    def fresh(self) -> Objective:
        """The same with no totals of an earlier start in its mini-batches."""
        return replace(self, table=self.table.fresh())

    def turn(self) -> Objective:
        """The objective of the next mini-batch, or this one where there are none."""
        batch = self.table.next_batch()
        return self if batch is self.table else replace(self, table=batch, fair_table=self.fair)

    def evaluate(self, theta: FloatArray) -> Point:
        """Value and rates at theta."""
        return self._point(theta, self.mixture.logits(theta))

    def _point(self, theta: FloatArray, logits: Logits, totals: Totals | None = None) -> Point:
        totals = self.table.softmax_pass(Sweep(logits, alpha=0.0)) if totals is None else totals
        rates = self.rates(totals) if self._one_pass else self.fair_rates(logits)
        log_likelihood = totals.log_likelihood / totals.weight
        value = log_likelihood - self.penalty_value(rates)
        return Point(theta, logits, rates, log_likelihood, value)

    def gradient(self, point: Point) -> FloatArray:
        """Derivative of ``evaluate(theta).value``."""
        alpha = 1 / self.table.weight_sum
        pull = self.pull(point.rates)
        if self._one_pass:
            sums = self.table.softmax_pass(Sweep(point.logits, alpha=alpha, pull=pull)).sums
        else:
            sums = self.table.softmax_pass(Sweep(point.logits, alpha=alpha)).sums
            sums = sums + self.fair_sums(point.logits, pull)
        return self.mixture.pullback(point.theta, sums)

    def expect(self, theta: FloatArray, logits: Logits | None = None) -> tuple[Surrogate, Point]:
        """E-step: the EM lower bound around theta, and theta as a point.

        ``logits`` are those of theta when they are known already; the table then may know the
        responsibilities, too.
        """
        logits = self.mixture.logits(theta) if logits is None else logits
        totals = self.table.softmax_pass(Sweep(logits))
        surrogate = Surrogate(self, totals.sums * (1 / totals.weight))
        return surrogate, self._point(theta, logits, totals)

    def rates(self, totals: Totals) -> FloatArray:
        """Shares of each group in each cluster."""
        return totals.mass / self.fair.group_sizes[:, None]

    def fair_rates(self, logits: Logits) -> FloatArray:
        """Rates that the penalty sees."""
        return self.rates(self._fair_pass(logits, None))

    def fair_sums(self, logits: Logits, pull: FloatArray | None) -> Logits:
        """Derivative of minus the penalty with respect to the logits."""
        return self._fair_pass(logits, pull).sums

    def _fair_pass(self, logits: Logits, pull: FloatArray | None) -> Totals:
        return self.fair.softmax_pass(
            Sweep(
                logits,
                alpha=0.0,
                pull=pull,
                temperature=self.temperature,
                likelihood=self.temperature == 1.0,
            )
        )

    def penalty_value(self, rates: FloatArray) -> float:
        """Penalty at given rates, zero for a plain mixture."""
        return 0.0 if self.penalty is None else self.penalty.value(rates)

    def pull(self, rates: FloatArray) -> FloatArray | None:
        """``-d penalty / d mass``."""
        if self.penalty is None:
            return None
        return np.asarray(-self.penalty.gradient(rates) / self.fair.group_sizes[:, None])

    def updated(self, point: Point) -> Objective:
        """With the penalty's multipliers set to those at ``point``."""
        if self.penalty is None:
            return self
        return replace(self, penalty=self.penalty.updated(point.rates))


@dataclass(frozen=True, eq=False)
class Surrogate:
    """The paper's Q_fair per row: ``<sums, logits(theta)> - penalty(r(theta))``."""

    objective: Objective
    sums: Logits

    def value(self, logits: Logits, rates: FloatArray) -> float:
        """Q_fair at given logits and their rates."""
        return self.sums.dot(logits) - self.objective.penalty_value(rates)

    def evaluate(self, theta: FloatArray) -> Point:
        """Value and rates at theta; the log-likelihood is not known (NaN)."""
        logits = self.objective.mixture.logits(theta)
        rates = self.objective.fair_rates(logits)
        return Point(theta, logits, rates, np.nan, self.value(logits, rates))

    def gradient(self, point: Point) -> FloatArray:
        """Derivative of ``evaluate(theta).value``."""
        pull = self.objective.pull(point.rates)
        grad = self.sums + self.objective.fair_sums(point.logits, pull)
        return self.objective.mixture.pullback(point.theta, grad)
