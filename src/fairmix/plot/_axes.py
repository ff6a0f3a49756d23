"""Axes to draw on."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Told apart without colour vision too (Okabe and Ito), and by marker as well.
BLUE, ORANGE, GREEN, RED, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#999999"


def axes(ax: Axes | None) -> Axes:
    """The given axes, or those of a new figure."""
    if ax is not None:
        return ax
    # Imported late: nothing but a picture needs it.
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError(
            "Plots need matplotlib, which is not installed. Install the extra plot: "
            "pip install 'fairmix[plot]'."
        ) from error
    return pyplot.subplots(layout="constrained")[1]
