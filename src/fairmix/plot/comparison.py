"""A picture of a comparison: cost against gap of each method."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import ArrayLike

from fairmix.plot._display import FULL, HOLLOW, TITLES, Display, Kinds, draw_points, name_point

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fairmix.studies import Comparison


class ComparisonDisplay(Display):
    """Picture of a comparison of methods.

    Filled points are on the front, joined by a line; hollow ones are dominated. Each is labelled
    with the name of its method.

    Parameters
    ----------
    names : sequence of str
        The methods.
    gap, cost : array-like of shape (n_methods,)
        Where each stands.
    dominated : array-like of bool of shape (n_methods,)
        Whether another method is at least as good in both and better in one.
    x_name, y_name : str
        Labels of the axes.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where it is drawn.
    points_, line_
        The points by kind, ``"front"`` and ``"dominated"``, and the line through the first kind, as
        in `ParetoFrontDisplay`.

    Examples
    --------
    >>> from fairmix.plot import ComparisonDisplay
    >>> display = ComparisonDisplay(
    ...     names=["fair", "plain"], gap=[0.01, 0.2], cost=[120.0, 90.0], dominated=[False, False]
    ... ).plot()
    >>> [text.get_text() for text in display.ax_.texts]
    ['fair', 'plain']
    """

    def __init__(
        self,
        *,
        names: Sequence[str],
        gap: ArrayLike,
        cost: ArrayLike,
        dominated: ArrayLike,
        x_name: str = TITLES["label_gap"],
        y_name: str = TITLES["cost"],
    ) -> None:
        self.names = list(names)
        self.gap = np.asarray(gap, dtype=np.float64)
        self.cost = np.asarray(cost, dtype=np.float64)
        self.dominated = np.asarray(dominated, dtype=bool)
        self.x_name = x_name
        self.y_name = y_name

    @classmethod
    def from_comparison(
        cls, comparison: Comparison, *, ax: Axes | None = None, held_out: bool = False
    ) -> Self:
        """Draw a comparison.

        Parameters
        ----------
        comparison : Comparison
            Of `fairmix.compare`. Methods without figures are left out.
        ax, held_out
            As in `fairmix.studies.Comparison.plot`.

        Returns
        -------
        ComparisonDisplay
        """
        points = comparison.points(held_out=held_out)
        where = ", held-out rows" if held_out else ""
        # Methods of all kinds have labels, so a comparison is always about theirs.
        x_name = TITLES["label_gap"].replace("gap", comparison.criterion.replace("_", " "), 1)
        return cls(
            names=[name for name, *_ in points],
            gap=[gap for _, gap, _, _ in points],
            cost=[cost for _, _, cost, _ in points],
            dominated=[below for *_, below in points],
            x_name=x_name + where,
            y_name=TITLES["cost"] + where,
        ).plot(ax)

    def _draw(self, ax: Axes) -> None:
        kinds: Kinds = {
            "front": (~self.dominated, "on the front", FULL),
            "dominated": (self.dominated, "dominated", HOLLOW),
        }
        self.line_, self.points_ = draw_points(ax, self.gap, self.cost, ~self.dominated, kinds)
        self._name_points(ax)
        ax.set(xlabel=self.x_name, ylabel=self.y_name)
        # Room for the names of the outermost points.
        ax.margins(0.08)
        # matplotlib warns of a legend without entries.
        if self.points_:
            ax.legend()

    def _name_points(self, ax: Axes) -> None:
        """Names grow towards the middle and lie away from the nearest point: few overlap."""
        middle = np.mean(ax.get_xlim())
        # In units of the picture: a gap and a cost cannot be compared.
        place = np.column_stack(
            [self.gap / np.ptp(ax.get_xlim()), self.cost / np.ptp(ax.get_ylim())]
        )
        for i, name in enumerate(self.names):
            distance = np.square(place - place[i]).sum(axis=1)
            # Otherwise every point is its own neighbour.
            distance[i] = np.inf
            right, above = self.gap[i] <= middle, self.cost[i] >= self.cost[distance.argmin()]
            name_point(ax, name, self.gap[i], self.cost[i], right=right, above=above)
