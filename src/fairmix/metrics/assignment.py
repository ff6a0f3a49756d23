"""Reads an assignment (labels or probabilities), its weights, and its mass per group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairmix.input.floats import as_floats
from fairmix.input.groups import Groups, encode_groups

Array = NDArray[np.float64]

# Rounding leaves about 1e-16 per cluster, so a row that is off by more was never normalised.
TOLERANCE = 1e-6  # on the sum of a row of float64 probabilities


@dataclass(frozen=True, eq=False)
class Labels:
    """Hard labels: the cluster of each row as a number from 0 to ``n_clusters - 1``."""

    codes: NDArray[np.intp]
    n_clusters: int

    def __len__(self) -> int:
        return len(self.codes)

    def group_mass(self, groups: Groups, weights: Array | None) -> Array:
        """Sum of the weights per group and cluster."""
        n_groups = len(groups.names)
        # One number for each pair of group and cluster, so that a single count does for both.
        cell = groups.codes * self.n_clusters + self.codes
        mass = np.bincount(cell, weights=weights, minlength=n_groups * self.n_clusters)
        return mass.astype(np.float64).reshape(n_groups, self.n_clusters)


@dataclass(frozen=True, eq=False)
class Probabilities:
    """Probabilities, (n_rows, n_clusters), kept in the type in which they came."""

    values: NDArray[Any]

    def __len__(self) -> int:
        return len(self.values)

    def group_mass(self, groups: Groups, weights: Array | None) -> Array:
        """Sum of weight times probability per group and cluster."""
        mass = np.empty((len(groups.names), self.values.shape[1]))
        # Column by column, so that float32 probabilities are never copied as a whole.
        for k in range(self.values.shape[1]):
            column = self.values[:, k].astype(np.float64)
            column = column if weights is None else column * weights
            mass[:, k] = np.bincount(groups.codes, weights=column, minlength=len(groups.names))
        # A probability of -1e-17 passes the check; a mass of -1e-17 would make a ratio negative.
        return np.maximum(mass, 0.0)


Assignment = Labels | Probabilities


def read_assignment(assignment: object, *, n_rows: int | None = None) -> Assignment:
    """Check an assignment: one dimension means labels, two dimensions mean probabilities."""
    if _is_two_dimensional(assignment):
        return _read_probabilities(assignment, n_rows)
    labels = encode_groups(assignment, n_rows=n_rows, argument="assignment")
    return Labels(labels.codes, len(labels.names))


def _is_two_dimensional(assignment: object) -> bool:
    shape = getattr(assignment, "shape", None)
    if isinstance(shape, tuple):
        # All but one dimension: for none or three, the reader of probabilities has the right error.
        return len(shape) != 1
    # The first entry tells; to convert a long list of labels only for its
    # shape would take far longer.
    return isinstance(assignment, list | tuple) and np.ndim(assignment[:1]) > 1


def _read_probabilities(assignment: object, n_rows: int | None) -> Probabilities:
    values = np.asarray(assignment)
    if values.ndim != 2 or 0 in values.shape or values.dtype.kind not in "biuf":
        raise ValueError(
            f"assignment has shape {values.shape} and type {values.dtype}. Give labels of shape "
            "(n_rows,), or numbers of shape (n_rows, n_clusters) whose rows sum to 1."
        )
    if n_rows is not None and len(values) != n_rows:
        raise ValueError(f"assignment has {len(values)} rows, the data has {n_rows}.")
    tolerance = TOLERANCE
    if values.dtype.kind == "f":
        # Each probability is rounded to its own type, and K of these errors add up in a sum.
        tolerance = max(tolerance, float(np.sqrt(np.finfo(values.dtype).eps)))
    lowest = float(values.min())
    if not lowest >= -tolerance:  # the negation also catches NaN
        raise ValueError(
            f"assignment has the probability {lowest}. Give probabilities of at least 0, "
            "or labels of shape (n_rows,)."
        )
    # Not in the type of the values: float16 would add errors of its own to those that are judged.
    sums = values.sum(axis=1, dtype=np.float64)
    off = np.flatnonzero(~(np.abs(sums - 1.0) <= tolerance))
    if off.size:
        raise ValueError(
            f"assignment has {off.size} rows that do not sum to 1 (row {off[0]} sums to "
            f"{sums[off[0]]:.6g}). Divide each row by its sum, or give labels of shape (n_rows,)."
        )
    return Probabilities(values)


def read_weights(sample_weight: ArrayLike | None, n_rows: int) -> Array | None:
    """Check weights: one finite number of at least 0 per row, not all of them 0."""
    if sample_weight is None:
        return None
    with as_floats("sample_weight"):
        weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.shape != (n_rows,):
        raise ValueError(
            f"sample_weight has shape {weights.shape}, the data has {n_rows} rows. "
            "Give one weight per row."
        )
    if not (np.isfinite(weights).all() and weights.min() >= 0):
        raise ValueError(
            f"sample_weight holds values from {weights.min()} to {weights.max()}. "
            "Give finite weights of at least 0."
        )
    if not weights.any():
        raise ValueError("sample_weight is 0 in every row. Give some row a positive weight.")
    return weights


def group_mass(
    assignment: object, sensitive_features: object, sample_weight: ArrayLike | None
) -> Array:
    """Mass m[g, k] of each group in each cluster."""
    clusters = read_assignment(assignment)
    groups = encode_groups(sensitive_features, n_rows=len(clusters))
    return clusters.group_mass(groups, read_weights(sample_weight, len(clusters)))
