"""``fairmix info``."""

from __future__ import annotations

from dataclasses import asdict
from math import isnan
from typing import TYPE_CHECKING, Any

from fairmix.cli import options as o
from fairmix.cli.roles import sensitive_of
from fairmix.cli.screen import Screen, wrapped

if TYPE_CHECKING:
    from fairmix import FairMixture

TITLES = {"unjudged": "not judged", "smallest_ratio": "smallest"}
SETTINGS = (
    *("margin", "gap_of", "criterion", "min_group_size", "missing_groups"),
    *("assignment", "ties", "solver", "covariance_type"),
)


def info(
    model: o.Model,
    json: o.Json = False,
) -> None:
    """Show what a model file contains."""
    from fairmix import load

    screen = Screen(as_json=json)
    with screen.guarded():
        found = _facts(load(model))
    width = max(map(len, found)) + 2
    for title, value in found.items():
        if title == "attributes":
            for name, own in value.items():
                screen.say(wrapped(_judged(own), f"{name}  ".ljust(width)))
            continue
        if title == "smallest_ratio":
            # Where the ratio is, which the line before it tells.
            value = (
                value and f"{value['group']} over {value['other']} in cluster {value['cluster']}"
            )
        title = TITLES.get(title, title.replace("_", " "))
        screen.say(wrapped(_text(value), title.ljust(width)))
    screen.result(found)


def _facts(model: FairMixture) -> dict[str, Any]:

    from fairmix.cli.fitting import attribute_figures

    columns = model.fitted_.model.columns
    # A model saved from Python may have been fitted on an array, and without metadata.
    names = getattr(model, "feature_names_in_", columns.names)
    metadata = getattr(model, "metadata_", {})
    least = model.fitted_.least_ratio
    sizes = zip(list(model.fitted_.groups.names), model.fitted_.groups.sizes.tolist(), strict=True)
    each = model.fitted_.groups.attributes
    facts = metadata.get("facts")
    own = {
        "clusters": model.fitted_.n_components,
        "weights": [round(float(weight), 4) for weight in model.weights_],
        "numeric": [str(names[j]) for j in columns.numeric],
        "categorical": [str(names[j]) for j in columns.categorical],
        "sensitive": list(sensitive_of(metadata)),
        "rule": model.fitted_.rule.text,
        "groups": dict(sizes),
        "unjudged": dict(model.unjudged_groups_),
        "verdict": model.verdict_,
        "gap": float(model.gap_),
        "label_gap": float(model.label_gap_),
        "soft_gap": float(model.soft_gap_),
        "ratio": float(model.ratio_),
        "smallest_ratio": None if least is None else asdict(least),
        "balance": float(model.balance_),
        **({"attributes": attribute_figures(model)} if each else {}),
        "resolution": float(model.resolution_),
        **{name: getattr(model, name) for name in SETTINGS},
    }
    # Whoever saves a model may add anything, but not in place of what the model says itself.
    return own | {
        name: value
        for name, value in (facts if isinstance(facts, dict) else {}).items()
        if name not in own
    }


def _judged(own: dict[str, Any]) -> str:
    """The verdict on one attribute, and its smallest ratio."""
    least = own["smallest_ratio"]
    said = f"{own['verdict']}, gap {own['gap']:.4f}, ratio {own['ratio']:.4f}"
    if least is None:
        return said
    return f"{said}: {least['group']} over {least['other']} in cluster {least['cluster']}"


def _size(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_size(size)}" for name, size in value.items()) or "none"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    if value is None:
        return "-"
    if isinstance(value, float):
        # A figure that there is not, as a gap without groups.
        return "-" if isnan(value) else f"{value:.4f}"
    return str(value)
