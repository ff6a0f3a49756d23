"""A front: the same model under several bounds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from fairmix.estimator import FairMixture
from fairmix.plot import ParetoFrontDisplay
from fairmix.studies.result import ResultTable, path_text
from fairmix.trials.rows import FrontRow, dominated_rows, figure_of
from fairmix.trials.walks import Trials, read_bounds

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["ParetoFront", "pareto_front"]


@dataclass(frozen=True, eq=False, repr=False)
class ParetoFront(ResultTable):
    """Result of `pareto_front`, from the tightest bound to the loosest; prints as a table.

    Attributes
    ----------
    rows : tuple of FrontRow
        Figures of each bound.
    models : tuple of FairMixture
        The fitted model of each row.

    Examples
    --------
    >>> front = ParetoFront((FrontRow(0.0, 0.0, 0.0, 0.001, 0.7, 120.0, 2.5, 3, "met"),))
    >>> print(front)
    max_gap  label gap  soft gap  ratio  balance   cost     nll  clusters  verdict  seconds
          0     0.0000    0.0010      -   0.7000  120.0  2.5000         3      met      0.0
    >>> front.to_pandas()["cost"].tolist()
    [120.0]
    """

    rows: tuple[FrontRow, ...]
    models: tuple[FairMixture, ...] = ()

    def __str__(self) -> str:
        rule = self.rows[0].rule if self.rows else "max_gap"
        # Not `gap`, which is one of the two: a line of a terminal is short.
        names = (rule, "label_gap", "soft_gap", "ratio", "balance", "cost", "nll")
        return path_text(
            self.rows, names, ["dominated" if row.dominated else "" for row in self.rows]
        )

    def dominated(self, x: str | None = None, y: str = "cost") -> list[bool]:
        """Whether another row is at least as good in both columns, and better in one.

        Parameters
        ----------
        x : str, default=None
            Column of the table; lower is better, except for ``ratio`` and ``balance``. None: what
            the rule of the front bounds.
        y : str, default="cost"
            Another column.

        Returns
        -------
        list of bool, one for each row
        """
        return dominated_rows(self.rows, x or figure_of(self.rows[0]), y)

    def plot(
        self, ax: Axes | None = None, *, x: str | None = None, y: str | None = None
    ) -> ParetoFrontDisplay:
        """Draw the front: `fairmix.plot.ParetoFrontDisplay.from_front`."""
        return ParetoFrontDisplay.from_front(self, ax=ax, x=x, y=y)


def pareto_front(
    estimator: FairMixture,
    X: Any,
    *,
    sensitive_features: Any,
    max_gaps: Iterable[float] | None = None,
    min_ratios: Iterable[float] | None = None,
    min_balances: Iterable[float] | None = None,
    sample_weight: ArrayLike | None = None,
    verbose: int = 0,
) -> ParetoFront:
    """Fit the model under several bounds, to see what each costs on these data.

    The bounds are of one rule, that of the list which is given; what the estimator asks for is
    replaced by it.

    Each bound is fitted afresh, and again from the solutions of both neighbours: first from the
    tightest bound to the loosest, for which the solution of the bound before is feasible too, and
    then back. Kept is the fit that meets the bound, else the one with more non-empty clusters, else
    the one with the higher ``lower_bound_``. A point that another one still dominates says so.

    Parameters
    ----------
    estimator : FairMixture
        The model, with ``fairness_strength="auto"``; itself left as it is.
    X, sensitive_features, sample_weight
        As in `FairMixture.fit`.
    max_gaps : iterable of float, default=None
        Bounds of at least 0 on the gap. ``inf`` adds the plain mixture. Without any list: (0,
        0.005, 0.01, 0.02, 0.05, 0.1), or where the estimator has a ``min_ratio``, ratios of (1,
        0.95, 0.9, 0.8, 0.6, 0.4).
    min_ratios : iterable of float, default=None
        Bounds from 0 to 1 on the smallest ratio instead. 0 adds the plain mixture.
    min_balances : iterable of float, default=None
        Bounds on Balance instead, at most the best possible. 0 adds the plain mixture.
    verbose : int, default=0
        1 shows a progress bar on stderr.

    Returns
    -------
    ParetoFront

    Examples
    --------
    >>> from fairmix import FairMixture, pareto_front
    >>> from fairmix.datasets import make_grouped_blobs
    >>> X, groups, _ = make_grouped_blobs(300, 2, separation=3.0, random_state=0)
    >>> model = FairMixture(2, assignment="aware", random_state=0)
    >>> front = pareto_front(model, X, sensitive_features=groups, max_gaps=(0.01, 0.05))
    >>> [row.verdict for row in front.rows]
    ['met', 'met']
    >>> front = pareto_front(model, X, sensitive_features=groups, min_ratios=(0.8, 0.9))
    >>> [(row.min_ratio, row.ratio >= row.min_ratio) for row in front.rows]
    [(0.9, True), (0.8, True)]
    """
    # The walk is in trials, below plot, so that pictures and studies need not import each other.
    trials = Trials(estimator, X, sensitive_features, sample_weight, verbose)
    rule = read_bounds(estimator, max_gaps, min_ratios, min_balances)
    return ParetoFront(*trials.over_bounds(*rule))
