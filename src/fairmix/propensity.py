"""P(group | x): what a map that may not see the group can still know of it.

A regularised multinomial logistic regression on the numeric columns, their squares and products,
and the categories. It is a model of the groups, not of any row: it holds coefficients only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression

from fairmix.totals import FloatArray, IntArray, Rows

# Squares and products of up to this many numeric columns; above it, squares only.
PRODUCT_COLUMNS = 20
# The most frequent categories of a column get a coefficient each; the rest share one.
CATEGORIES = 64
# Rows that the regression sees, at most.
SAMPLE_ROWS = 100_000


@dataclass(frozen=True, eq=False)
class Scale:
    """Standardisation of columns."""

    mean: FloatArray
    deviation: FloatArray

    @classmethod
    def of(cls, columns: FloatArray, weight: FloatArray | None) -> Scale:
        """Mean and standard deviation of columns; constant ones are left at zero."""
        mean = np.average(columns, axis=0, weights=weight)
        deviation = np.sqrt(np.average((columns - mean) ** 2, axis=0, weights=weight))
        return cls(mean, np.where(deviation > 1e-12 * (1 + np.abs(mean)), deviation, np.inf))

    def __call__(self, columns: FloatArray) -> FloatArray:
        """Columns in units of the standard deviation."""
        return np.asarray((columns - self.mean) / self.deviation)


@dataclass(frozen=True, eq=False)
class Propensity:
    """Fitted P(group | x).

    Attributes
    ----------
    numbers, features : Scale or None
        Standardisation of the numeric columns, and of their powers and products.
    slots : tuple of int arrays
        For each categorical column, the indicator column of each category.
    coefficients : (M, P) array
    intercepts : (M,) array
    """

    numbers: Scale | None
    features: Scale | None
    slots: tuple[IntArray, ...]
    coefficients: FloatArray
    intercepts: FloatArray

    def __call__(self, rows: Rows) -> FloatArray:
        """Probability of each group, (M, n)."""
        scores = _columns(self.numbers, self.features, self.slots, rows) @ self.coefficients.T
        dtype = np.float64 if rows.numeric is None else rows.numeric.dtype
        probabilities = softmax(scores + self.intercepts, axis=1).T
        return np.ascontiguousarray(probabilities, dtype=dtype)


def fit_propensity(
    rows: Rows,
    groups: IntArray,
    n_groups: int,
    *,
    weight: FloatArray | None,
    rng: np.random.Generator,
) -> Propensity:
    """Fit P(group | x) to the rows, or to a sample of them."""
    if rows.n_rows > SAMPLE_ROWS:
        chosen = _sample(groups, n_groups, rng)
        rows, groups = rows.take(chosen), groups[chosen]
        weight = None if weight is None else weight[chosen]
    numbers = features = None
    if rows.numeric is not None:
        numbers = Scale.of(rows.numeric.astype(np.float64), weight)
        features = Scale.of(_powers(numbers(rows.numeric)), weight)
    slots = () if rows.codes is None else tuple(_slots(column) for column in rows.codes.T)
    X = _columns(numbers, features, slots, rows)
    regression = LogisticRegression(solver="newton-cholesky", C=1.0, tol=1e-6, max_iter=50)
    regression.fit(X, groups, sample_weight=weight)
    coefficients, intercepts = regression.coef_, regression.intercept_
    if n_groups == 2:
        coefficients = np.vstack([np.zeros_like(coefficients), coefficients])
        intercepts = np.concatenate([[0.0], intercepts])
    return Propensity(numbers, features, slots, coefficients, intercepts)


def _sample(groups: IntArray, n_groups: int, rng: np.random.Generator) -> IntArray:
    """A random sample that has some rows of every group."""
    chosen = rng.permutation(len(groups))[:SAMPLE_ROWS]
    first = [np.flatnonzero(groups == g)[0] for g in range(n_groups)]
    return np.union1d(chosen, first)


def _powers(z: FloatArray) -> FloatArray:
    d = z.shape[1]
    i, j = np.triu_indices(d) if d <= PRODUCT_COLUMNS else (np.arange(d), np.arange(d))
    return np.hstack([z, z[:, i] * z[:, j]])


def _slots(codes: IntArray) -> IntArray:
    """Indicator column of each category, the frequent ones first; the rest share the last."""
    counts = np.bincount(codes)
    rank = np.empty(len(counts), dtype=np.intp)
    rank[np.argsort(-counts, kind="stable")] = np.arange(len(counts))
    return np.minimum(rank, CATEGORIES)


def _columns(
    numbers: Scale | None, features: Scale | None, slots: tuple[IntArray, ...], rows: Rows
) -> FloatArray:
    parts = []
    if numbers is not None and features is not None and rows.numeric is not None:
        parts.append(features(_powers(numbers(rows.numeric))))
    for j, slot in enumerate(slots):
        assert rows.codes is not None
        # A category that the sample did not hold counts as a rare one.
        known = np.minimum(rows.codes[:, j], len(slot) - 1)
        column = np.where(rows.codes[:, j] < len(slot), slot[known], slot.max())
        parts.append((column[:, None] == np.arange(slot.max() + 1)).astype(np.float64))
    return np.hstack(parts)
