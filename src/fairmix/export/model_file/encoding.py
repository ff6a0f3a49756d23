"""From a fitted estimator to a document and arrays.

Weights, means, covariances and probabilities are not written: they follow from theta.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from fairmix.criteria import ByAttribute
from fairmix.export.model_file.members import Array
from fairmix.export.model_file.snapshot import (
    BY_ATTRIBUTE,
    ESTIMATOR,
    FORMAT,
    LOCAL_PARAMETERS,
    SCALARS,
    SCHEMA,
    Snapshot,
    rule_of,
)
from fairmix.input.groups import Groups
from fairmix.mixture.model import Model
from fairmix.mixture.propensity import Propensity
from fairmix.results.fitted import Fitted, Rule


def encode(snapshot: Snapshot) -> tuple[dict[str, Any], dict[str, Array]]:
    """Document and arrays of a snapshot."""
    parameters, fitted = snapshot.parameters, snapshot.fitted
    model, groups, published = fitted.model, fitted.groups, fitted.attributes()
    document = {
        "format": FORMAT,
        "schema": SCHEMA,
        "fairmix": snapshot.version,
        "estimator": ESTIMATOR,
        "parameters": {
            name: _plain(name, value)
            for name, value in parameters.items()
            # A file for strangers names neither paths nor a number of threads, nor labels of rows.
            if name not in LOCAL_PARAMETERS and not _from_rows(name, value)
        },
        **_rule(fitted.rule, parameters),
        "columns": _columns(snapshot),
        "groups": {
            "names": list(groups.names),
            "sizes": groups.sizes.tolist(),
            "unjudged": dict(groups.unjudged),
            **_attributes(groups),
        },
        "mixture": _mixture(model),
        "propensity": _propensity(model.propensity),
        "fitted": {
            **{name: _number(published[name]) for name in SCALARS},
            "n_iter_": len(fitted.history),
            # Left out, not null: the reader must accept its absence anyway, in files of earlier
            # versions.
            **({} if fitted.n_passes is None else {"n_passes_": float(fitted.n_passes)}),
            # A NumPy bool is no JSON value.
            "converged_": bool(fitted.converged),
            "filled_clusters": fitted.filled,
            "history": list(fitted.history.dtype.names or ()),
            "streamed": fitted.streamed,
            **_figures(fitted),
        },
        "metadata": _checked(snapshot.metadata),
    }
    return document, _arrays(fitted)


def _rule(rule: Rule, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """That of the fit, where the parameters were set anew since and ask for another; else nothing.

    A bound for all attributes stands under an empty name.
    """
    if rule == rule_of(parameters):
        return {}
    limit = rule.limit
    asked: dict[str, Any] = {"bounds": None}
    if limit is not None:
        bounds = limit.bound if isinstance(limit, ByAttribute) else {"": limit.bound}
        asked = {"parameter": limit.parameter, "bounds": bounds}
    return {
        "rule": {
            **asked,
            "criterion": rule.criterion,
            "gap_of": rule.of,
            "min_group_size": int(rule.min_group_size),
            "missing_groups": rule.missing_groups,
        }
    }


def _attributes(groups: Groups) -> dict[str, Any]:
    """Several attributes, each with its own groups; nothing where there is one."""
    if not groups.attributes:
        return {}
    return {
        "attributes": {
            own.title: {
                "names": list(own.names),
                "sizes": own.sizes.tolist(),
                "unjudged": dict(own.unjudged),
            }
            for own in groups.attributes
        }
    }


def _figures(fitted: Fitted) -> dict[str, Any]:
    """How the groups of each of several attributes fare."""
    if not fitted.fairness.attributes:
        return {}
    return {
        "attributes": {
            title: {
                "label_gap_": float(one.fairness.label_gap),
                "soft_gap_": float(one.fairness.soft_gap),
                "balance_": float(one.fairness.balance),
                "resolution_": float(one.fairness.resolution),
            }
            for title, one in fitted.by_attribute.items()
        }
    }


def _columns(snapshot: Snapshot) -> dict[str, Any]:
    columns, names = snapshot.fitted.model.columns, snapshot.feature_names
    return {
        "names": list(columns.names),
        "feature_names": None if names is None else list(names),
        "set_aside": list(snapshot.fitted.set_aside),
        "categorical": list(columns.categorical),
        "categories": [list(levels) for levels in columns.levels],
        "standardized": columns.mean is not None,
    }


def _mixture(model: Model) -> dict[str, Any]:
    return {
        "n_components": model.mixture.n_components,
        **model.mixture.family.document(),
        "tilted": model.offsets is not None,
        "aware": model.aware,
        "temperature": float(model.temperature),
        "split": model.split,
    }


def _propensity(propensity: Propensity | None) -> dict[str, Any] | None:
    if propensity is None:
        return None
    # All slots are one array, whose name is known beforehand; the lengths cut it again.
    return {"slots": [len(slot) for slot in propensity.slots], "gaps": list(propensity.gaps)}


def _arrays(fitted: Fitted) -> dict[str, Array]:
    model, history = fitted.model, fitted.history
    found = {
        "theta": model.theta,
        "offsets": model.offsets,
        "mean": model.columns.mean,
        "scale": model.columns.scale,
        **model.mixture.family.arrays(),
        "rates": fitted.fairness.rates,
        # Plain columns: the reader takes no structured types, and the names are in the document.
        "history": np.stack([history[name] for name in history.dtype.names or ()], axis=1),
    }
    if model.propensity is not None:
        numbers, slots = model.propensity.numbers, model.propensity.slots
        found |= {
            "propensity_mean": None if numbers is None else numbers.mean,
            "propensity_deviation": None if numbers is None else numbers.deviation,
            "propensity_slots": np.concatenate(slots) if slots else None,
            "propensity_coefficients": model.propensity.coefficients,
            "propensity_intercepts": model.propensity.intercepts,
        }
    return {name: array for name, array in found.items() if array is not None}


def _number(value: float) -> float | None:
    """A figure; None where there is none, as JSON has no NaN."""
    return None if np.isnan(value) else float(value)


def _from_rows(name: str, value: Any) -> bool:
    """Whether a parameter holds labels, or a clusterer, which is no part of the model."""
    return name == "init_params" and not (value is None or isinstance(value, str))


def _plain(name: str, value: Any) -> Any:
    """A parameter as JSON can hold it."""
    # NumPy scalars have it as well as arrays: `max_gap=np.float64(0.1)` is a plain number here.
    if hasattr(value, "__array__"):
        value = np.asarray(value).tolist()
    # Numbers by attribute.
    if name in BY_ATTRIBUTE and isinstance(value, Mapping):
        return {str(title): _plain(title, bound) for title, bound in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(name, entry) for entry in value]
    if value is None or isinstance(value, str | int | float):
        return value
    raise ValueError(
        f"{name}={value!r} is a {type(value).__name__}, which a model file cannot hold. Replace it "
        f"before you save, for example with model.set_params({name}=None)."
    )


def _checked(metadata: Mapping[str, Any]) -> dict[str, Any]:
    try:
        # There and back: json turns tuples into lists and keys into texts without a word.
        same: Any = json.loads(json.dumps(metadata, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"metadata cannot be written as JSON: {error}.") from None
    if not isinstance(same, dict) or same != metadata:
        raise ValueError(
            "metadata would come back changed. Give a dict of texts, numbers, bools, None, lists "
            "and dicts whose keys are texts; no tuples."
        )
    return same
