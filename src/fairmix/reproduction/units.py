"""Units of work: one method on one view of one data set, from one seed, and what is measured."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmix import metrics
from fairmix.reproduction import views
from fairmix.reproduction.extras import EXTRAS
from fairmix.reproduction.methods import METHODS
from fairmix.reproduction.views import Prepared, View
from fairmix.system.threads import one_thread

Numbers = dict[str, Any]

DIGITS = 7  # significant digits that are kept
LONGEST_WARNING = 160


@dataclass(frozen=True)
class Unit:
    """One fit. Equal units have equal results, so two entries that need one share it.

    Attributes
    ----------
    view : View
        Rows and columns.
    method : str
        Name in `METHODS`.
    clusters : int
        K.
    seed : int
        Of the method.
    settings : tuple of (str, value)
        Parameters of the method, sorted by name.
    extras : tuple of str
        Names in `EXTRAS`: measurements beyond those of every unit.
    """

    view: View
    method: str
    clusters: int
    seed: int
    settings: tuple[tuple[str, Any], ...] = ()
    extras: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The content, as text."""
        return json.dumps(self.to_json(), sort_keys=True)

    def to_json(self) -> dict[str, Any]:
        """The content, as JSON has it."""
        found = asdict(self)
        found["settings"] = dict(self.settings)
        found["extras"] = list(self.extras)
        return found


def unit(
    view: View,
    method: str,
    clusters: int,
    seed: int,
    extras: tuple[str, ...] = (),
    **settings: Any,
) -> Unit:
    """A unit, with the parameters of its method as keywords."""
    return Unit(view, method, clusters, seed, tuple(sorted(settings.items())), extras)


def compute(task: Unit) -> Numbers:
    """Fit and measure; a fit that fails leaves the numbers out and says why."""
    with warnings.catch_warnings(record=True) as caught, one_thread():
        warnings.simplefilter("always")
        method = METHODS[task.method]
        model = method.make(task.clusters, task.seed, dict(task.settings))
        # Whatever goes wrong in one unit, such as a data set that is not at hand, must not cost
        # the others.
        try:
            data = views.prepare(task.view)
            known = {"sensitive_features": data.groups} if method.sees_groups else {}
            began = time.process_time()
            model.fit(data.X, **known)
        except Exception as error:
            return {"error": f"{type(error).__name__}: {error}"}
        seconds = time.process_time() - began
        numbers = {"cpu_seconds": seconds, **_measure(model, data)}
        for name in task.extras:
            numbers[name] = EXTRAS[name](model, data)
    said = dict.fromkeys(str(warning.message)[:LONGEST_WARNING] for warning in caught)
    found: Numbers = _rounded({**numbers, "warnings": list(said)})
    return found


def only(numbers: Numbers, extras: Collection[str]) -> Numbers:
    """The numbers of every unit and some extras, without the others."""
    left_out = EXTRAS.keys() - set(extras)
    return {name: value for name, value in numbers.items() if name not in left_out}


def _measure(model: Any, data: Prepared) -> Numbers:
    labels = np.asarray(model.labels_)
    density = hasattr(model, "score_samples")
    return {
        "cost": None if data.numeric is None else metrics.clustering_cost(data.numeric, labels),
        "gap": metrics.gap(labels, data.groups),
        "mean_gap": mean_gap(labels, data.groups),
        "additive_gap": metrics.additive_gap(labels, data.groups),
        "balance": metrics.balance(labels, data.groups),
        "soft_gap": float(model.soft_gap_) if density else None,
        "nll": -float(model.score(data.X)) if density else None,
        "clusters": len(np.unique(labels)),
        "iterations": int(model.n_iter_),
    }


def mean_gap(labels: NDArray[Any], groups: NDArray[Any]) -> float:
    """Mean over clusters of the mean difference of two groups' rates: the paper's table for M = 3.

    The additive gap sums over clusters what this averages.
    """
    return metrics.additive_gap(labels, groups) / len(np.unique(labels))


def _rounded(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _rounded(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(entry) for entry in value]
    if isinstance(value, float | np.floating):
        return float(f"{value:.{DIGITS}g}") if isfinite(value) else None
    return value
