"""What all pictures share: axes to draw on, colours, points with names."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Told apart without colour vision too (Okabe and Ito), and by marker as well.
BLUE, ORANGE, GREEN, RED, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#999999"
PALETTE = (BLUE, ORANGE, GREEN, "#CC79A7", "#56B4E9", RED, "#B8A500")

TITLES = {
    "gap": "gap",
    "label_gap": "gap of the labels",
    "soft_gap": "gap of the probabilities",
    "max_gap": "bound on the gap (max_gap)",
    "ratio": "smallest ratio of rates",
    "min_ratio": "bound on the ratio (min_ratio)",
    "balance": "balance",
    "min_balance": "bound on the balance (min_balance)",
    "cost": "cost (squared distances)",
    "nll": "negative log-likelihood per row",
}

# Points of a kind: which they are, their name in the legend, their style.
Kinds = Mapping[str, tuple[NDArray[np.bool_], str, dict[str, Any]]]

# Points on a front and dominated ones differ in fill, not in colour.
FULL = {"color": BLUE}
HOLLOW = {"facecolors": "white", "edgecolors": BLUE}


class Display(ABC):
    """A picture, as a Display of scikit-learn: what it shows is known before it is drawn."""

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        self
            The picture, with ``ax_`` and ``figure_``.
        """
        # Kept, as in the Displays of scikit-learn, so that a caller can change what was drawn.
        self.ax_ = _new_axes() if ax is None else ax
        self.figure_ = self.ax_.figure
        self._draw(self.ax_)
        return self

    @abstractmethod
    def _draw(self, ax: Axes) -> None:
        """Draw on the axes."""


def _new_axes() -> Axes:
    """The axes of a new figure."""
    # Imported late: nothing but a picture needs it.
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError(
            "Plots need matplotlib, which is not installed. Install the extra plot: "
            "pip install 'fairmix[plot]'."
        ) from error
    # Constrained: legends beside the axes would otherwise be cut off.
    return pyplot.subplots(layout="constrained")[1]


def draw_points(
    ax: Axes,
    x: NDArray[np.float64],
    y: NDArray[np.float64],
    on_front: NDArray[np.bool_],
    kinds: Kinds,
) -> tuple[Any, dict[str, Any]]:
    """A line through the front, and the points of each kind that occurs.

    A kind is which points it has, its name in the legend, and its style.
    """
    front = np.flatnonzero(on_front)
    # By x, whatever the order of the fits: a line in their order would go back and forth.
    front = front[np.argsort(x[front], kind="stable")]
    # Below the points, which are what was measured; the line only leads the eye.
    (line,) = ax.plot(x[front], y[front], color=GREY, linewidth=1, zorder=1)
    points = {
        kind: ax.scatter(x[chosen], y[chosen], label=label, zorder=2, **style)
        for kind, (chosen, label, style) in kinds.items()
        # A kind without points would still have its line in the legend.
        if chosen.any()
    }
    ax.grid(alpha=0.3)
    return line, points


def name_point(ax: Axes, name: str, x: float, y: float, *, right: bool, above: bool) -> None:
    """Write a name beside a point."""
    # Five points away: clear of the marker, and still nearer to it than to the next one.
    ax.annotate(
        name,
        (x, y),
        (5 if right else -5, 5 if above else -5),
        textcoords="offset points",
        ha="left" if right else "right",
        va="bottom" if above else "top",
        fontsize=8,
    )


def check_choice(argument: str, value: str, known: tuple[str, ...]) -> None:
    """Refuse what is not among the known values."""
    if value not in known:
        raise ValueError(f"{argument}={value!r}. Choose one of {', '.join(known)}.")
