"""P(group | x): what a map that may not see the group can still know of it.

A regularised multinomial logistic regression on the numeric columns, their squares and products,
and the categories. A missing number counts as the mean, a missing category as none, and each column
that has gaps also gets an indicator of them. It is a model of the groups, not of any row: it holds
coefficients only.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmix.kernels.products import product
from fairmix.kernels.totals import FEW_GROUPS, FloatArray, IntArray, Membership, Rows

# Squares and products of up to this many numeric columns; above it, squares only. 20 columns have
# 210 of them, and more columns many more.
PRODUCT_COLUMNS = 20
# The most frequent categories of a column get a coefficient each; the rest share one. So the width
# of the regression is bounded, whatever a column holds.
CATEGORIES = 64
# Newton's method solves a system with an unknown for each coefficient. With 2,048 of them, which is
# 1,024 numeric columns and two groups, it takes 32 MB and about a second a step. Both grow fast (40
# rows of 20,000 columns took 23 GB), so beyond it L-BFGS takes over, whose memory and time grow
# with the rows and columns themselves.
NEWTON_COEFFICIENTS = 2048
# A regression begins with one row of so many, if these are so many for each coefficient: with 189
# columns and 50,000 rows, 6 of its 11 steps are then those of a tenth of the rows.
FIRST_OF = 10
FIRST_ROWS = 20
# Of so many coefficients a step takes long, so what may be left of the loss of a row is this share
# of what the chance of a sample adds to it: half a coefficient over the rows. With 189 columns and
# 50,000 rows a whole step is saved. And steps are in single precision, in half of the time: of
# columns that are products of each other, too, no probability moved by more than a millionth. Of
# fewer coefficients all digits are cheap, and a bound of zero may need them.
MANY_COEFFICIENTS, NEAR = 100, 1e-2


@dataclass(frozen=True, eq=False)
class Scale:
    """Standardisation of columns."""

    mean: FloatArray
    deviation: FloatArray

    @classmethod
    def of(cls, columns: FloatArray, weight: FloatArray | None) -> Scale:
        """Mean and standard deviation of the values that are there; constant ones become zero."""
        absent = np.isnan(columns)
        if absent.any():
            mean = _present_mean(columns, absent, weight)
            deviation = np.sqrt(_present_mean((columns - mean) ** 2, absent, weight))
        else:
            mean = np.average(columns, axis=0, weights=weight)
            # One after the other: squares of all of them at once would be as large as the columns.
            variance = [
                np.average((column - centre) ** 2, weights=weight)
                for column, centre in zip(columns.T, mean, strict=True)
            ]
            deviation = np.sqrt(variance)
        # Rounding leaves a constant column a deviation of about 1e-16 of its mean. Divided by
        # infinity the column becomes zero, and so does its coefficient.
        return cls(mean, np.where(deviation > 1e-12 * (1 + np.abs(mean)), deviation, np.inf))

    @property
    def inverse(self) -> FloatArray:
        """One over the deviation; zero for constant columns."""
        return np.asarray(1 / self.deviation)

    def centred(self, columns: FloatArray) -> FloatArray:
        """Columns less their mean, in their precision; what is missing is at the mean."""
        # Column by column in memory, so that all that follows runs along rows.
        out = np.subtract(columns.T, self.mean.astype(columns.dtype)[:, None], order="C").T
        # A sum tells whether anything is missing; an array of flags is made only then.
        if np.isnan(out.sum()):
            out[np.isnan(out)] = 0
        return out

    def __call__(self, columns: FloatArray) -> FloatArray:
        """The same in units of the standard deviation."""
        out = self.centred(columns)
        out *= self.inverse.astype(columns.dtype)
        return out


@dataclass(frozen=True, eq=False)
class Propensity:
    """Fitted P(group | x): a softmax of scores that are linear in columns made of x.

    Of several attributes, a softmax over the groups of each.

    Attributes
    ----------
    numbers : Scale or None
        Standardisation of the numeric columns, whose powers and products then enter.
    slots : tuple of int arrays
        For each categorical column, the indicator column of each category.
    coefficients : (M, P) array
    intercepts : (M,) array
    gaps : tuple of int
        Columns that have an indicator of what is missing; the numeric ones count first.
    membership : Membership or None
        The groups of several attributes.
    """

    numbers: Scale | None
    slots: tuple[IntArray, ...]
    coefficients: FloatArray
    intercepts: FloatArray
    gaps: tuple[int, ...] = ()
    membership: Membership | None = None

    def __call__(self, rows: Rows) -> FloatArray:
        """Probability of each group, (M, n), in the precision of the rows."""
        dtype = np.dtype(np.float64) if rows.numeric is None else rows.numeric.dtype
        scores = np.empty((len(self.intercepts), rows.n_rows), dtype=dtype)
        scores[:] = self.intercepts[:, None]
        start = 0
        if self.numbers is not None and rows.numeric is not None:
            x = self.numbers.centred(rows.numeric)
            start = x.shape[1] + _n_powers(x.shape[1])
            _add_scores(scores, self._of_numbers.astype(dtype, copy=False), x)
        for columns in _indicators(self.slots, self.gaps, rows, dtype):
            own = self.coefficients[:, start : start + columns.shape[1]]
            scores += own.astype(dtype) @ columns.T
            start += columns.shape[1]
        n_columns = self.coefficients.shape[1]
        if start != n_columns:
            raise ValueError(f"{n_columns} coefficients do not fit to {start} columns.")
        for part in [slice(None)] if self.membership is None else self.membership.parts:
            _softmax(scores[part])
        return np.asarray(scores)

    @cached_property
    def _of_numbers(self) -> FloatArray:
        """Coefficients of centred numbers and their powers.

        The deviations go into the few coefficients, not into the many rows.
        """
        assert self.numbers is not None
        scale = self.numbers.inverse
        scale = np.concatenate([scale, _powers(scale[None])[0]])
        return np.asarray(self.coefficients[:, : len(scale)] * scale)

    def is_finite(self, corners: FloatArray) -> bool:
        """Whether no score of rows between these overflows, with every term at its largest."""
        if self.numbers is None:
            return True
        with np.errstate(over="ignore", invalid="ignore"):
            # A missing number counts as the mean.
            z = np.fmax.reduce(np.abs(self.numbers(corners)), axis=0, keepdims=True, initial=0)
            # Quadratic forms multiply by one number, then by the other, which may be small.
            numbers = np.hstack([z, _powers(np.maximum(z, 1))])[0]
            size = np.abs(self.coefficients).astype(corners.dtype)
            largest = size[:, : len(numbers)] @ numbers + size[:, len(numbers) :].sum(axis=1)
            largest += np.abs(self.intercepts).astype(corners.dtype)
        return bool(np.isfinite(largest).all())


# What the fits of a study have learned, by what they learned it from; None in other fits.
KNOWN: ContextVar[dict[bytes, Propensity] | None] = ContextVar("KNOWN", default=None)


@contextmanager
def learned_once(known: dict[bytes, Propensity]) -> Iterator[None]:
    """A fit inside takes P(group | x) of the same rows from what is known, or adds it there."""
    token = KNOWN.set(known)
    try:
        yield
    finally:
        KNOWN.reset(token)


def fit_propensity(
    rows: Rows,
    groups: IntArray,
    n_groups: int,
    *,
    weight: FloatArray | None,
    membership: Membership | None = None,
) -> Propensity:
    """Fit P(group | x) to the rows; with a membership, ``groups`` are cells."""
    known = KNOWN.get()
    if known is None:
        return _fit_propensity(rows, groups, n_groups, weight, membership)
    key = hashlib.sha256(repr((n_groups, membership)).encode())
    for part in (rows.numeric, rows.codes, groups, weight):
        key.update(b"" if part is None else np.ascontiguousarray(part).data)
        key.update(repr(None if part is None else (part.shape, part.dtype)).encode())
    if (name := key.digest()) not in known:
        known[name] = _fit_propensity(rows, groups, n_groups, weight, membership)
    return known[name]


def _fit_propensity(
    rows: Rows,
    groups: IntArray,
    n_groups: int,
    weight: FloatArray | None,
    membership: Membership | None,
) -> Propensity:
    numbers = None
    if rows.numeric is not None:
        rows = Rows(rows.numeric.astype(np.float64), rows.codes)
        assert rows.numeric is not None
        numbers = Scale.of(rows.numeric, weight)
    slots = () if rows.codes is None else tuple(_slots(column) for column in rows.codes.T)
    gaps = tuple(np.flatnonzero(_absent(rows).any(axis=0)).tolist())
    parts = _indicators(slots, gaps, rows, np.dtype(np.float64))
    if numbers is not None and rows.numeric is not None:
        z = numbers(rows.numeric)
        parts = [z, _powers(z), *parts]
    X = np.hstack(parts)
    # As large as X.
    del parts
    # The penalty of the regression needs columns of one scale; indicators keep theirs.
    scale = Scale.of(X, weight)
    n_powers = X.shape[1] - sum(int(slot.max()) + 1 for slot in slots) - len(gaps)
    scale = Scale(
        np.where(np.arange(X.shape[1]) < n_powers, scale.mean, 0.0),
        np.where(np.arange(X.shape[1]) < n_powers, scale.deviation, 1.0),
    )
    # In place: with 189 columns these are 75 MB.
    for column, centre, factor in zip(X.T, scale.mean, scale.inverse, strict=True):
        column -= centre
        column *= factor
    found = []
    if membership is None:
        found.append(_regression(X, groups, n_groups, weight))
    else:
        codes = np.unravel_index(groups, membership.shape)
        for own, count in zip(codes, membership.counts, strict=True):
            # Rows that stand aside in an attribute say nothing of its groups.
            judged = np.flatnonzero(own < count)
            weights = None if weight is None else weight[judged]
            found.append(_regression(X[judged], own[judged], count, weights))
    # In terms of the columns before this scale, so that nobody has to apply it again.
    coefficients = np.vstack([coefficients for coefficients, _ in found]) / scale.deviation
    intercepts = np.concatenate([intercepts for _, intercepts in found])
    intercepts = intercepts - coefficients @ scale.mean
    return Propensity(numbers, slots, coefficients, intercepts, gaps, membership)


def _regression(
    X: FloatArray, groups: IntArray, n_groups: int, weight: FloatArray | None
) -> tuple[FloatArray, FloatArray]:
    """Coefficients and intercepts of each group."""
    # Imported late: of all that `FairMixture` needs, only blind fits need this slow import.
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    # The Hessian of all coefficients takes long where groups or columns are many. Tolerances are
    # below scikit-learn's 1e-4: the last digits are cheap for Newton's method, less so for L-BFGS.
    n_coefficients = X.shape[1] * (1 if n_groups == 2 else n_groups)
    how: dict[str, Any] = {"solver": "newton-cholesky", "tol": 1e-6, "max_iter": 50}
    if n_coefficients >= MANY_COEFFICIENTS:
        how["tol"] = min(max(1e-6, NEAR * n_coefficients / (2 * len(X))), 1e-4)
    if n_groups > FEW_GROUPS or n_coefficients > NEWTON_COEFFICIENTS:
        how = {"solver": "lbfgs", "tol": 1e-5, "max_iter": 200}
    elif n_coefficients >= MANY_COEFFICIENTS:
        X = X.astype(np.float32)
        weight = None if weight is None else weight.astype(np.float32)
    # The default penalty of scikit-learn, which fades as rows add up.
    regression = LogisticRegression(C=1.0, warm_start=True, **how)
    with warnings.catch_warnings():
        # A model that is not at its end yet is one, too; what counts are the rates of real groups.
        warnings.simplefilter("ignore", ConvergenceWarning)
        # Nor is a group per row a mistake.
        warnings.filterwarnings("ignore", message="The number of unique classes")
        few = slice(None, None, FIRST_OF)
        enough = len(X) >= FIRST_OF * FIRST_ROWS * n_coefficients
        if enough and len(np.unique(groups[few])) == n_groups:
            # Most steps of the way need no more rows, and the end is the same.
            regression.fit(X[few], groups[few], None if weight is None else weight[few])
        regression.fit(X, groups, sample_weight=weight)
    coefficients = regression.coef_.astype(np.float64)
    intercepts = np.asarray(regression.intercept_, dtype=np.float64)
    # Of two groups scikit-learn gives the scores of the second only.
    if n_groups == 2:
        coefficients = np.vstack([np.zeros_like(coefficients), coefficients])
        intercepts = np.concatenate([[0.0], intercepts])
    return coefficients, intercepts


def _present_mean(
    columns: FloatArray, absent: NDArray[np.bool_], weight: FloatArray | None
) -> FloatArray:
    """Mean of the values that are there, zero without any."""
    w = np.ones(len(columns)) if weight is None else weight
    total = w @ ~absent
    sums = w @ np.where(absent, 0.0, columns)
    return np.divide(sums, total, out=np.zeros_like(sums), where=total > 0)


def _absent(rows: Rows) -> NDArray[np.bool_]:
    """Which values are missing, (n, columns)."""
    parts = [np.zeros((rows.n_rows, 0), dtype=bool)]
    if rows.numeric is not None:
        parts.append(np.isnan(rows.numeric))
    if rows.codes is not None:
        parts.append(rows.codes < 0)
    return np.hstack(parts)


def _powers(z: FloatArray) -> FloatArray:
    """Squares of the columns and, of few, their products."""
    d = z.shape[1]
    if d > PRODUCT_COLUMNS:
        return z * z
    # Column by column in memory, as the columns are, and in the order of `_triangle`.
    out = np.empty((_n_powers(d), len(z)), dtype=z.dtype)
    start = 0
    for k, column in enumerate(z.T):
        end = start + d - k
        np.multiply(column, z.T[k:], out=out[start:end])
        start = end
    return out.T


@cache
def _triangle(d: int) -> tuple[IntArray, IntArray]:
    """Pairs of columns, each once; kept, because they take longer than a prediction of one row."""
    i, j = np.triu_indices(d)
    return i, j


def _n_powers(d: int) -> int:
    return d if d > PRODUCT_COLUMNS else d * (d + 1) // 2


def _add_scores(scores: FloatArray, coefficients: FloatArray, z: FloatArray) -> None:
    """Add ``coefficients @ (z, _powers(z)).T``; products as quadratic forms, so none is stored."""
    d = z.shape[1]
    linear, powers = coefficients[:, :d], coefficients[:, d:]
    if d > PRODUCT_COLUMNS:
        scores += linear @ z.T
        scores += powers @ (z * z).T
        return
    for g in np.flatnonzero(coefficients.any(axis=1)):  # the first of two groups has none
        form = np.zeros((d, d), dtype=z.dtype)
        form[_triangle(d)] = powers[g]
        # z^T F z + l^T z = (F^T z + l)^T z
        half = product(np.ascontiguousarray(form.T), z.T)
        half += linear[g][:, None]
        scores[g] += np.einsum("ij,ij->j", half, z.T)


def _softmax(scores: FloatArray) -> None:
    """In place, over the groups."""
    if len(scores) == 2:
        # One exp for two groups; where it overflows, the probability is zero all the same.
        with np.errstate(over="ignore"):
            scores[0] = 1 / (1 + np.exp(scores[1] - scores[0]))
        scores[1] = 1 - scores[0]
        return
    # New rows may be far from those of the fit, and exp of their scores would overflow.
    scores -= scores.max(axis=0)
    np.exp(scores, out=scores)
    scores *= 1 / scores.sum(axis=0)


def _slots(codes: IntArray) -> IntArray:
    """Indicator column of each category, the frequent ones first; the rest share the last."""
    counts = np.bincount(codes[codes >= 0], minlength=1)
    rank = np.empty(len(counts), dtype=np.intp)
    rank[np.argsort(-counts, kind="stable")] = np.arange(len(counts))
    return np.minimum(rank, CATEGORIES)


def _indicators(
    slots: tuple[IntArray, ...], gaps: tuple[int, ...], rows: Rows, dtype: np.dtype[Any]
) -> list[FloatArray]:
    """Indicators of categories, column by column, and of gaps."""
    parts: list[FloatArray] = []
    for j, slot in enumerate(slots):
        assert rows.codes is not None
        # A category that the sample did not hold counts as a rare one.
        known = np.minimum(rows.codes[:, j], len(slot) - 1)
        column = np.where(rows.codes[:, j] < len(slot), slot[known], slot.max())
        # No indicator has this number, so a missing category has none.
        column[rows.codes[:, j] < 0] = -1
        parts.append((column[:, None] == np.arange(slot.max() + 1)).astype(dtype))
    if gaps:
        parts.append(_absent(rows)[:, gaps].astype(dtype))
    return parts
