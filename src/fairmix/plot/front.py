"""A picture of a front: what each bound costs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isnan
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from fairmix.plot._display import (
    FULL,
    HOLLOW,
    ORANGE,
    RED,
    TITLES,
    Display,
    Kinds,
    check_choice,
    draw_points,
    name_point,
)
from fairmix.results.verdict import MISSED
from fairmix.trials.rows import FrontRow, dominated_rows, figure_of
from fairmix.trials.walks import Trials, read_bounds

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fairmix.estimator import FairMixture
    from fairmix.studies import ParetoFront

FIGURES = ("gap", "label_gap", "soft_gap", "ratio", "balance")
BOUNDS = ("max_gap", "min_ratio", "min_balance")
QUALITY = ("cost", "nll")


class ParetoFrontDisplay(Display):
    """Picture of a Pareto front.

    Filled points are on the front, joined by a line; hollow ones are dominated in what the axes
    show; a square is the plain mixture; a cross marks a bound that was not met. Each point is
    labelled with its bound.

    Parameters
    ----------
    bound, x, y : array-like of shape (n_points,)
        Bound (NaN: the plain mixture), fairness and quality of each point.
    dominated, met : array-like of bool of shape (n_points,)
        Whether another point is at least as good in both and better in one; whether the bound
        is not missed.
    x_name, y_name : str, default="gap", "cost"
        Labels of the axes.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where it is drawn.
    line_ : matplotlib Line2D
        Through the points that are not dominated.
    points_ : dict of str to matplotlib PathCollection
        The points, by kind: ``"front"``, ``"dominated"``, ``"plain"``, ``"missed"``.

    Examples
    --------
    >>> from fairmix.plot import ParetoFrontDisplay
    >>> display = ParetoFrontDisplay(
    ...     bound=[0, 0.1], x=[0.0, 0.09], y=[120.0, 90.0],
    ...     dominated=[False, False], met=[True, True],
    ... ).plot()
    >>> display.ax_.get_xlabel()
    'gap'
    """

    def __init__(
        self,
        *,
        bound: ArrayLike,
        x: ArrayLike,
        y: ArrayLike,
        dominated: ArrayLike,
        met: ArrayLike,
        x_name: str = "gap",
        y_name: str = "cost",
    ) -> None:
        self.bound = np.asarray(bound, dtype=np.float64)
        self.x = np.asarray(x, dtype=np.float64)
        self.y = np.asarray(y, dtype=np.float64)
        self.dominated = np.asarray(dominated, dtype=bool)
        self.met = np.asarray(met, dtype=bool)
        self.x_name = x_name
        self.y_name = y_name

    @classmethod
    def from_estimator(
        cls,
        estimator: FairMixture,
        X: Any,
        *,
        sensitive_features: Any,
        ax: Axes | None = None,
        x: str | None = None,
        y: str | None = None,
        **bounds: Iterable[float] | None,
    ) -> Self:
        """Fit a model under several bounds and draw what each costs.

        Parameters
        ----------
        estimator, X, sensitive_features
            As in `fairmix.pareto_front`, which keeps the models too.
        ax, x, y
            As in `from_front`.
        **bounds
            ``max_gaps``, ``min_ratios`` or ``min_balances``, as in `fairmix.pareto_front`.

        Returns
        -------
        ParetoFrontDisplay
        """
        trials = Trials(estimator, X, sensitive_features)
        rule = read_bounds(estimator, **bounds)
        rows, models = trials.over_bounds(*rule)
        return cls._from_rows(rows, models, ax, x, y)

    @classmethod
    def from_front(
        cls,
        front: ParetoFront,
        *,
        ax: Axes | None = None,
        x: str | None = None,
        y: str | None = None,
    ) -> Self:
        """Draw a front.

        Parameters
        ----------
        front : ParetoFront
            Of `fairmix.pareto_front`.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a new figure.
        x : str, default=None
            Fairness: ``"gap"``, ``"label_gap"``, ``"soft_gap"``, ``"ratio"``, ``"balance"``, or
            the parameter that the front walks over. None: what its rule bounds.
        y : {"cost", "nll"}, default=None
            Quality; None takes the cost, or ``nll`` without numeric columns.

        Returns
        -------
        ParetoFrontDisplay
        """
        return cls._from_rows(front.rows, front.models, ax, x, y)

    @classmethod
    def _from_rows(
        cls,
        rows: Sequence[FrontRow],
        models: Sequence[FairMixture],
        ax: Axes | None,
        x: str | None,
        y: str | None,
    ) -> Self:
        rule = rows[0].rule
        x = x or figure_of(rows[0])
        # One row without a cost means categorical or missing values, and so no cost in any row.
        costless = any(isnan(row.cost) for row in rows)
        y = y or ("nll" if costless else "cost")
        check_choice("x", x, (*FIGURES, *BOUNDS))
        check_choice("y", y, QUALITY)
        if y == "cost" and costless:
            raise ValueError("y='cost', but the data have no numeric columns. Use y='nll'.")
        if x in BOUNDS and x != rule:
            raise ValueError(f"x={x!r}, but the front walks over {rule}. Use x={rule!r}.")
        # Anew for these axes: `row.dominated` is about what the rule bounds, and the cost.
        points = list(zip(rows, dominated_rows(rows, x, y), strict=True))
        if x == rule:
            # The plain mixture has no bound to stand at.
            points = [(row, below) for row, below in points if not row.plain]
        rows = [row for row, _ in points]
        # "gap" is one of two gaps; the axis says which.
        named = x
        if x == "gap" and models:
            named = "label_gap" if models[0].gap_of == "labels" else "soft_gap"
        return cls(
            bound=[np.nan if row.plain else row.bound for row in rows],
            x=[getattr(row, x) for row in rows],
            y=[getattr(row, y) for row in rows],
            dominated=[below for _, below in points],
            # Rows that are not judged, or have no bound, have missed nothing.
            met=[row.verdict != MISSED for row in rows],
            x_name=TITLES[named],
            y_name=TITLES[y],
        ).plot(ax)

    def _draw(self, ax: Axes) -> None:
        plain = np.isnan(self.bound)
        # Larger than a marker, because it lies over one: a missed point is drawn as one of the
        # front or as dominated, too.
        cross = {"marker": "x", "color": RED, "s": 90}
        kinds: Kinds = {
            "front": (~self.dominated & ~plain, "on the front", FULL),
            "dominated": (self.dominated & ~plain, "dominated", HOLLOW),
            "plain": (plain, "plain mixture", {"marker": "s", "color": ORANGE}),
            "missed": (~self.met, "bound not met", cross),
        }
        self.line_, self.points_ = draw_points(ax, self.x, self.y, ~self.dominated, kinds)
        self._name_points(ax)
        ax.set(xlabel=self.x_name, ylabel=self.y_name)
        ax.legend()

    def _name_points(self, ax: Axes) -> None:
        """Bounds beside the points, in turn on either side of the line: tight ones lie close."""
        bounded = np.flatnonzero(~np.isnan(self.bound))
        order = bounded[np.argsort(self.x[bounded], kind="stable")]
        # Where the line falls, the free sides are below left and above right of it. It rises where
        # x is a ratio or the balance, which are better when they are higher.
        falling = order.size > 0 and self.y[order[0]] >= self.y[order[-1]]
        for place, i in enumerate(order):
            above = place % 2 == 1
            right = above == falling
            name = f"{self.bound[i]:g}"
            name_point(ax, name, self.x[i], self.y[i], right=right, above=above)
        # Room for the names of the outermost points.
        ax.margins(0.08)
