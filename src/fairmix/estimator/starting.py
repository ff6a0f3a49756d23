"""Starts of the user's own: given parameters, labels, or a clusterer that is fitted already."""

from __future__ import annotations

from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from fairmix.fitting.starts import OwnStart
from fairmix.input.columns import as_frame
from fairmix.input.data import Data, MemoryData
from fairmix.input.naming import group_values
from fairmix.kernels.totals import FloatArray

# Parameters of a mixture that a user may start from.
GIVEN = ("weights", "means", "precisions", "probabilities")
# A row that belongs to no cluster.
NOISE = -1


def own_start(estimator: Any, X: Any, sensitive_features: Any, data: Data) -> OwnStart | None:
    """The start that the parameters of an estimator ask for; None where they leave it open."""
    values = {name: getattr(estimator, f"{name}_init") for name in GIVEN}
    given = {name: value for name, value in values.items() if value is not None}
    how, shares = estimator.init_params, None
    if how is not None and not isinstance(how, str):
        if not isinstance(data, MemoryData):
            raise ValueError(
                f"init_params={how!r:.60} starts from the rows of a table, and X is not in "
                "memory. Give parameters instead, such as means_init=kmeans.cluster_centers_."
            )
        shares = _shares(how, X, sensitive_features, data, estimator.n_components)
        if data.weight is not None:
            # The fit leaves rows without weight out.
            shares = shares[np.flatnonzero(data.weight)]
    return OwnStart(given, shares) if given or shares is not None else None


def _shares(
    how: Any, X: Any, sensitive_features: Any, data: MemoryData, n_components: int
) -> FloatArray:
    """How much of each row is in each cluster, (n, K), by labels or a clusterer."""
    n_rows = len(data.table)
    if not hasattr(how, "fit"):
        return _one_hot(how, "init_params", n_rows, n_components)
    name = type(how).__name__
    try:
        check_is_fitted(how)
    except NotFittedError:
        raise ValueError(
            f"init_params={name} is not fitted. Fit it first; sklearn.base.clone drops a fit, "
            "unless it is within a sklearn.frozen.FrozenEstimator."
        ) from None
    frame, groups = as_frame(X), group_values(X, sensitive_features)
    if frame is not None:
        X = frame.drop(*data.set_aside, strict=False).to_native()
    for method in ("predict_proba", "predict"):
        ask = getattr(how, method, None)
        if ask is None:
            continue
        # Maps of this library may need the groups.
        if "sensitive_features" in signature(ask).parameters:
            said = np.asarray(ask(X, sensitive_features=groups))
        else:
            said = np.asarray(ask(X))
        if method == "predict":
            return _one_hot(said, f"The labels of init_params={name}", n_rows, n_components)
        if said.shape != (n_rows, n_components):
            raise ValueError(
                f"init_params={name} has {said.shape[1]} clusters, but n_components="
                f"{n_components}. Give a clusterer with as many."
            )
        return said.astype(np.float64)
    if not hasattr(how, "labels_"):
        raise ValueError(
            f"init_params={name} has neither predict nor labels_. Give labels, or another "
            "clusterer."
        )
    return _one_hot(how.labels_, f"The labels of init_params={name}", n_rows, n_components)


def _one_hot(labels: Any, title: str, n_rows: int, n_components: int) -> NDArray[np.float64]:
    """One in the cluster of a row; nothing for noise."""
    found = np.asarray(labels)
    if found.shape != (n_rows,):
        raise ValueError(
            f"{title} has shape {found.shape}, X has {n_rows} rows. Give one label each."
        )
    if found.dtype.kind not in "iu":
        raise ValueError(
            f"{title} has labels of type {found.dtype}. Give whole numbers from 0 to "
            f"n_components - 1 = {n_components - 1}, and -1 for rows of no cluster."
        )
    there = np.unique(found[found != NOISE])
    if not np.array_equal(there, np.arange(n_components)):
        raise ValueError(
            f"{title} has the labels {there.tolist()!r:.60}. n_components={n_components} needs "
            f"each of 0 to {n_components - 1}, and -1 for rows of no cluster. Set "
            f"n_components={len(there)}, or number them so: np.unique(labels, "
            "return_inverse=True)[1]."
        )
    return np.asarray(found[:, None] == np.arange(n_components), dtype=np.float64)
