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

# Enough to print a cost of a million to the last digit; what follows is rounding, which would
# change the files from machine to machine.
DIGITS = 7  # significant digits that are kept
# Entries look for words in these texts ("plain start", "max_iter"): a cut must not lose them.
LONGEST_WARNING = 400


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
        # The store makes the same text of what it reads from a file, so keys of both must be
        # sorted.
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
    # Sorted, so that the order of keywords makes no other unit of the same fit.
    return Unit(view, method, clusters, seed, tuple(sorted(settings.items())), extras)


def compute(task: Unit) -> Numbers:
    """Fit and measure; a fit that fails leaves the numbers out and says why."""
    # One thread: times are then comparable, and sums do not depend on the number of cores.
    with warnings.catch_warnings(record=True) as caught, one_thread():
        warnings.simplefilter("always")
        method = METHODS[task.method]
        # Whatever goes wrong in one unit, such as a data set that is not at hand, must not cost
        # the others.
        try:
            data = views.prepare(task.view)
            model = method.make(task.clusters, task.seed, _parameters(task))
            known = {"sensitive_features": data.groups} if method.sees_groups else {}
            # Processor time, because other units may run beside this one; loading the data is not
            # in it.
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


def _parameters(task: Unit) -> Numbers:
    """Those of the method; Balance is swept over shares of the best that the groups allow."""
    found = dict(task.settings)
    if "balance_share" in found:
        found["min_balance"] = found.pop("balance_share") * views.best_balance(task.view)
    return found


def only(numbers: Numbers, extras: Collection[str]) -> Numbers:
    """The numbers of every unit and some extras, without the others."""
    # A shared fit may have more extras than this unit asked for. Its file must not tell whether it
    # was shared.
    left_out = EXTRAS.keys() - set(extras)
    return {name: value for name, value in numbers.items() if name not in left_out}


def _measure(model: Any, data: Prepared) -> Numbers:
    labels = np.asarray(model.labels_)
    # K-means and its fair relatives have labels, but no density.
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
        # None for NaN and infinity, which JSON lacks.
        return float(f"{value:.{DIGITS}g}") if isfinite(value) else None
    return value
