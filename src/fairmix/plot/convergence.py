"""A picture of a fit: objective and gap, iteration by iteration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from fairmix.plot._display import BLUE, ORANGE, TITLES, Display

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fairmix.estimator import FairMixture


class ConvergenceDisplay(Display):
    """Picture of a fit.

    The objective has the axis on the left, the gap of the probabilities that on the right.

    Parameters
    ----------
    objective : array-like of shape (n_iter,)
        What the fit maximises, per row.
    gap : array-like of shape (n_iter,), default=None
        The gap of the probabilities; None where there are no groups.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where it is drawn.
    gap_ax_ : matplotlib Axes or None
        The axes of the gap.
    line_, gap_line_ : matplotlib Line2D
        The two lines; ``gap_line_`` is None without a gap.

    Examples
    --------
    >>> from fairmix.plot import ConvergenceDisplay
    >>> display = ConvergenceDisplay(objective=[-3.0, -2.5], gap=[0.2, 0.01]).plot()
    >>> display.line_.get_xdata().tolist(), display.gap_line_.get_ydata().tolist()
    ([1, 2], [0.2, 0.01])
    """

    def __init__(self, *, objective: ArrayLike, gap: ArrayLike | None = None) -> None:
        self.objective = np.asarray(objective, dtype=np.float64)
        self.gap = None if gap is None else np.asarray(gap, dtype=np.float64)

    @classmethod
    def from_estimator(cls, estimator: FairMixture, *, ax: Axes | None = None) -> Self:
        """Draw the history of a fitted model.

        Parameters
        ----------
        estimator : FairMixture
            Fitted.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        ConvergenceDisplay
        """
        if not hasattr(estimator, "history_"):
            raise ValueError(f"{estimator!r} has no history_. Give a fitted FairMixture.")
        history = estimator.history_
        # Without two groups the column is NaN, and an empty axis would suggest a gap of 0.
        gap = history["gap"] if len(estimator.fitted_.groups.names) > 1 else None
        return cls(objective=history["objective"], gap=gap).plot(ax)

    def _draw(self, ax: Axes) -> None:
        steps = np.arange(1, len(self.objective) + 1)
        # Markers show single iterations; of many they would hide the line.
        few: dict[str, Any] = {"marker": "o", "markersize": 3} if len(steps) < 60 else {}
        (self.line_,) = ax.plot(steps, self.objective, color=BLUE, label="objective", **few)
        ax.set(xlabel="iteration")
        ax.set_ylabel("objective per row", color=BLUE)
        # There is no iteration 2.5.
        ax.locator_params(axis="x", integer=True)
        ax.grid(alpha=0.3)
        self.gap_ax_, self.gap_line_ = None, None
        if self.gap is not None:
            # An axis of its own: a gap below 1 would be a flat line beside the objective.
            self.gap_ax_ = right = ax.twinx()
            dashed = {"color": ORANGE, "linestyle": "--", **few}
            (self.gap_line_,) = right.plot(steps, self.gap, label="gap", **dashed)
            right.set_ylabel(TITLES["soft_gap"], color=ORANGE)
            # From 0, so that the height of the line is the gap.
            right.set_ylim(bottom=0)
            # Handles by hand, because a legend knows only the lines of its own axes.
            ax.legend(handles=[self.line_, self.gap_line_], loc="best")
