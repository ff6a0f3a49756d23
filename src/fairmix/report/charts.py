"""Charts: Vega-Lite specifications. Only figures go in, no name from the data."""

from __future__ import annotations

from math import inf, isnan
from typing import TYPE_CHECKING, Any

import numpy as np

from fairmix.criteria import LIMITS
from fairmix.report.figures import HIDDEN
from fairmix.results.verdict import MISSED, NO_BOUND
from fairmix.trials.rows import dominated_points

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fairmix.estimator import FairMixture
    from fairmix.studies import ParetoFront

__all__ = ["convergence_charts", "front_chart"]

POINTS = 400  # of a line; more would not be seen
HEIGHT, SMALL_HEIGHT = 300, 170
# Told apart without colour vision too (Okabe and Ito), and by shape as well.
BLUE, ORANGE, RED, GREY = "#0072B2", "#E69F00", "#D55E00", "#8a8f98"
KINDS = {
    "on the front": (BLUE, "circle"),
    "beaten by another point": (GREY, "diamond"),
    "no bound": (ORANGE, "square"),
    "bound missed": (RED, "cross"),
}
QUALITY = {
    "cost": "cost (squared distances, lower is tighter)",
    "nll": "negative log-likelihood per row (lower is better)",
}
# The colour of the text around a chart: light and dark pages and print get their own.
INK = {"labelColor": "currentColor", "titleColor": "currentColor", "labelFontSize": 12}
TITLE = {"anchor": "start", "fontSize": 12, "fontWeight": "normal", "color": "currentColor"}
CONFIG = {
    "background": None,
    "font": "system-ui, sans-serif",
    "view": {"stroke": None},
    "axis": {
        **INK,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "domain": False,
        "ticks": False,
        "grid": True,
        "gridColor": "currentColor",
        "gridOpacity": 0.12,
        "labelPadding": 6,
        "titlePadding": 10,
        "labelOverlap": True,
    },
    "legend": {
        **INK,
        "title": None,
        "orient": "top",
        "direction": "horizontal",
        "columns": 2,
        "labelLimit": 220,
        "symbolSize": 90,
        "offset": 4,
    },
}


def _quality(front: ParetoFront) -> str:
    """The quality that the front is drawn against: cost, or likelihood where there is none."""
    # One axis for all points, so one point without a cost decides for all.
    return "nll" if any(isnan(row.cost) for row in front.rows) else "cost"


def front_chart(front: ParetoFront, texts: Sequence[str], chosen: int) -> dict[str, Any]:
    """Quality against what the rule bounds; a click or a key sets the signal ``chosen``.

    ``texts`` are gaps, ratios or balances as the table prints them; a point without one is left
    out.
    """
    quality = _quality(front)
    limit = LIMITS[front.rows[0].rule]
    # By the figures that are shown: the order of exact ones would tell more.
    shown = [float(text.removeprefix("at most ")) if text != HIDDEN else inf for text in texts]
    # Lower is better on both axes, as for a gap.
    evenness = [-x if limit.at_least and x < inf else x for x in shown]
    points = zip(evenness, (getattr(row, quality) for row in front.rows), strict=True)
    beaten = dominated_points(list(points))
    rows = [
        {
            "index": i,
            "figure": shown[i],
            "quality": float(f"{getattr(row, quality):.6g}"),
            "kind": _kind(row.verdict, below),
            "front": not below,
            "tip": _tip(row, text, quality),
        }
        for i, (row, text, below) in enumerate(zip(front.rows, texts, beaten, strict=True))
        if text != HIDDEN
    ]
    # In the order of KINDS, so that the legend has only what there is and always reads alike.
    kinds = [kind for kind in KINDS if any(row["kind"] == kind for row in rows)]
    x: dict[str, Any] = {
        "field": "figure",
        "type": "quantitative",
        "title": f"{limit.noun} ({'higher' if limit.at_least else 'lower'} is more even)",
        "axis": {"tickCount": 5, "format": "~g"},
    }
    y: dict[str, Any] = {
        "field": "quality",
        "type": "quantitative",
        "title": None,
        # From zero, points that differ by a few percent would lie on a line.
        "scale": {"zero": False, "nice": True},
    }
    y["axis"] = {"format": "~s" if quality == "cost" else "~g", "tickCount": 5}
    look = {
        "color": {"scale": {"domain": kinds, "range": [KINDS[kind][0] for kind in kinds]}},
        "shape": {"scale": {"domain": kinds, "range": [KINDS[kind][1] for kind in kinds]}},
    }
    chosen_test = {"test": "datum.index === chosen"}
    return {
        **_base(HEIGHT, QUALITY[quality]),
        "data": {"values": rows},
        "params": [{"name": "chosen", "value": chosen}],
        "encoding": {"x": x, "y": y},
        "layer": [
            {
                "transform": [{"filter": "datum.front"}],
                "mark": {"type": "line", "color": GREY, "strokeWidth": 1.5, "opacity": 0.6},
            },
            {
                "mark": {"type": "point", "filled": True, "cursor": "pointer"},
                "encoding": {
                    **{k: {"field": "kind", "type": "nominal", **v} for k, v in look.items()},
                    # By size and outline, not by colour, which says what kind of point it is.
                    "size": {"condition": {**chosen_test, "value": 260}, "value": 110},
                    "stroke": {"condition": {**chosen_test, "value": "currentColor"}},
                    "strokeWidth": {"condition": {**chosen_test, "value": 2}, "value": 0},
                    "opacity": {"value": 1},
                    "tooltip": {"field": "tip"},
                    # For screen readers, which have no tooltip.
                    "description": {"field": "tip"},
                },
            },
        ],
    }


def convergence_charts(
    model: FairMixture, bounded: bool, *, objective: bool, gap: bool
) -> list[dict[str, Any]]:
    """The objective and the gap of the probabilities, iteration by iteration, where shown."""
    history = model.history_
    steps = np.unique(np.linspace(0, len(history) - 1, min(POINTS, len(history))).astype(int))
    charts = []
    if objective:
        charts.append(_line(history["objective"], steps, "objective (per row, higher is better)"))
    if gap and len(model.fitted_.groups.names) > 1:
        # The history is of probabilities; beside it, a bound on labels would be misread.
        bound = model.fitted_.rule.max_gap
        shown = bounded and bound < inf and model.gap_of == "probabilities"
        line = bound if shown else None
        charts.append(_line(history["gap"], steps, "gap of the probabilities", bound=line))
    return charts


def _line(values: Any, steps: Any, title: str, bound: float | None = None) -> dict[str, Any]:
    rows = [
        {"iteration": int(i) + 1, "value": float(f"{values[i]:.6g}")}
        for i in steps
        if np.isfinite(values[i])
    ]
    mark: dict[str, Any] = {"type": "line", "color": BLUE, "strokeWidth": 2}
    # Dots on a longer line would hide it.
    if len(rows) < 60:
        mark["point"] = {"size": 22, "color": BLUE}
    layers: list[dict[str, Any]] = [
        {
            "mark": mark,
            "encoding": {
                "x": {
                    "field": "iteration",
                    "type": "quantitative",
                    "title": "iteration",
                    "scale": {"nice": False, "zero": False},
                    # There is no iteration 1.5, which a short history would
                    # otherwise be marked with.
                    "axis": {"tickMinStep": 1, "format": "d", "tickCount": 6},
                },
                "y": {
                    "field": "value",
                    "type": "quantitative",
                    "title": None,
                    "scale": {"zero": False},
                    "axis": {"tickCount": 4, "format": "~g"},
                },
            },
        }
    ]
    if bound is not None:
        rule = {"type": "rule", "color": RED, "strokeDash": [4, 4]}
        layers.append({"mark": rule, "encoding": {"y": {"datum": bound, "type": "quantitative"}}})
    return {**_base(SMALL_HEIGHT, title), "data": {"values": rows}, "layer": layers}


def _base(height: int, title: str) -> dict[str, Any]:
    return {
        "title": {"text": title, **TITLE},
        "width": "container",
        "height": height,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "config": CONFIG,
    }


def _kind(verdict: str, beaten: bool) -> str:
    # Before "beaten": that a bound is missed matters more than where the point lies.
    if verdict == MISSED:
        return "bound missed"
    if verdict == NO_BOUND:
        return "no bound"
    return "beaten by another point" if beaten else "on the front"


def _tip(row: Any, text: str, quality: str) -> str:
    bound = "no bound" if row.plain else f"bound {row.bound:g}"
    name = "cost" if quality == "cost" else "negative log-likelihood"
    noun = LIMITS[row.rule].noun
    return f"{bound}: {noun} {text}, {name} {getattr(row, quality):,.5g}"
