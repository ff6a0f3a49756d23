"""Pictures: the panels of an entry as one small SVG file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fairmix.reproduction import methods
from fairmix.reproduction.result import Panel, Series

# Told apart without colour vision too (Okabe and Ito), and by marker as well.
STYLES = {
    methods.KMEANS: ("#000000", "*"),
    methods.MM_EM: ("#999999", "s"),
    methods.MM_GD: ("#999999", "D"),
    methods.SFC: ("#D55E00", "X"),
    methods.SFC_ONE: ("#D55E00", "x"),
    methods.VFC: ("#0072B2", "v"),
    methods.FCA: ("#CC79A7", "P"),
    methods.FMC_EM: ("#E69F00", "o"),
    # Dark shades of the colours of FMC-EM and of ours, the methods that they vary.
    methods.FMC_BOUNDED: ("#8C6100", "d"),
    methods.FMC_GD: ("#56B4E9", "^"),
    methods.LABELS: ("#009E73", "o"),
    methods.AWARE: ("#004D38", "s"),
    methods.RATIO: ("#009E73", "^"),
    methods.RATIO_AWARE: ("#004D38", "^"),
    methods.BALANCE: ("#009E73", "D"),
    methods.BALANCE_AWARE: ("#004D38", "D"),
    methods.LP: ("#56B4E9", "p"),
    methods.REPAIRED: ("#000000", "P"),
}
# For lines that are no method, such as a data set.
OTHERS = (("#0072B2", "o"), ("#D55E00", "s"), ("#009E73", "^"), ("#999999", "v"), ("#CC79A7", "D"))
GUIDE = "#555555"
WIDTH, HEIGHT, PER_ROW = 4.0, 3.3, 3
LARGE = 1000  # numbers on an axis from which thousands are set apart
ALONE = 6.0  # width of a single panel


def require_matplotlib() -> None:
    """Fail before any work is done, not after it."""
    if find_spec("matplotlib") is None:
        raise ImportError(
            "Figures need matplotlib, which is not installed. Install the extra plot: "
            "pip install 'fairmix[plot]'."
        )


def draw(panels: Sequence[Panel], path: Path) -> None:
    """Draw the panels side by side, with one legend below.

    Parameters
    ----------
    panels : sequence of Panel
        One or more.
    path : path
        The SVG file.
    """
    import matplotlib
    from matplotlib.figure import Figure

    # Four panels as a square: three and one would leave a hole.
    columns = min(PER_ROW, len(panels)) if len(panels) != 4 else 2
    rows = math.ceil(len(panels) / columns)
    # Text as text, fixed identifiers and no date: small files that change when the numbers do.
    options: Any = {"svg.fonttype": "none", "svg.hashsalt": "fairmix", "font.size": 9}
    with matplotlib.rc_context(options):
        # Not pyplot, which would keep every figure open and may look for a screen.
        figure = Figure(
            # Half an inch for the legend.
            figsize=(WIDTH * columns if columns > 1 else ALONE, HEIGHT * rows + 0.5),
            layout="constrained",
        )
        labels: dict[str, Any] = {}
        for number, panel in enumerate(panels):
            axes = figure.add_subplot(rows, columns, number + 1)
            _draw_panel(axes, panel, labels)
        shown = {label: handle for label, handle in labels.items() if label}
        figure.legend(
            shown.values(), shown.keys(), loc="outside lower center", ncols=min(len(shown), 5)
        )
        figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})


def _draw_panel(axes: Any, panel: Panel, labels: dict[str, Any]) -> None:
    for number, series in enumerate(panel.series):
        handle = _draw_series(axes, series, *STYLES.get(series.label, OTHERS[number % len(OTHERS)]))
        if not series.faint:
            # One legend serves all panels, so a method is named once.
            labels.setdefault(series.label, handle)
    axes.set(title=panel.title, xlabel=panel.x_name, ylabel=panel.y_name)
    if panel.log_x:
        axes.set_xscale("log")
    if panel.log_y:
        axes.set_yscale("log")
    elif axes.get_ylim()[1] >= LARGE:
        axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.grid(alpha=0.3)


def _draw_series(axes: Any, series: Series, color: str, marker: str) -> Any:
    if series.guide:
        return axes.plot(series.x, series.y, color=GUIDE, linewidth=1, linestyle="--")[0]
    # Beyond that many points markers hide the line that they are on.
    dense = series.line and len(series.x) > 30
    faint: dict[str, Any] = {"alpha": 0.35, "fillstyle": "none"} if series.faint else {}
    (handle,) = axes.plot(
        series.x,
        series.y,
        color=color,
        marker=None if dense else marker,
        markersize=5,
        linewidth=1.3,
        linestyle="-" if series.line else "none",
        **faint,
    )
    if series.band is None:
        return handle
    onward = list(series.x) in (sorted(series.x), sorted(series.x, reverse=True))
    if not series.line or len(series.x) == 1 or not onward:
        # A band needs a line along which it runs, and folds where that turns back.
        axes.errorbar(series.x, series.y, series.band, fmt="none", ecolor=color, elinewidth=1)
    else:
        low = [y - half for y, half in zip(series.y, series.band, strict=True)]
        high = [y + half for y, half in zip(series.y, series.band, strict=True)]
        axes.fill_between(series.x, low, high, color=color, alpha=0.2, linewidth=0)
    return handle
