"""Multinoulli components: independent categorical columns, given as integer codes.

T(x) has one column per category, of which one per variable is one. Few categories are 0/1 columns;
of many, the product with W is a table look-up, and no such columns exist. theta holds unnormalised
log-probabilities; W is their log-softmax within each variable.

A missing category (code -1) is integrated out: all columns of its variable are zero. A look-up has
to find something, so there it counts as one more column at the end of T(x), whose weight is zero.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array

from fairmix.kernels.totals import Features, FloatArray, IntArray, Logits, Rows
from fairmix.mixture.families._base import Centers, GraphBuilder, RowNames

# A category that a component never saw keeps this probability, so that no row is impossible. It is
# rarer than one row of ten billion, so it moves no estimate, and its logarithm is only -23.
SMALLEST_PROBABILITY = 1e-10
# Numbers of the 0/1 columns of a start at most: 2 GiB. Dense k-means is faster while they fit.
LARGEST_INDICATORS = 2**28
# Categories of all variables up to which rows have 0/1 columns. A product takes as long as look-ups
# and counts at about fifty categories for each variable, and memory grows with all of them.
FEW_CATEGORIES = 128


@dataclass(frozen=True, eq=False)
class Categorical:
    """K products of categorical distributions.

    Parameters
    ----------
    n_components : int
        K.
    levels : tuple of int
        Number of categories of each variable.
    """

    n_components: int
    levels: tuple[int, ...]

    @property
    def n_categories(self) -> int:
        """All categories of all variables."""
        return sum(self.levels)

    @property
    def shown(self) -> bool:
        """Whether there are 0/1 columns."""
        return self.n_categories <= FEW_CATEGORIES

    @property
    def n_features(self) -> int:
        """P: the categories and, for look-ups, what stands for a missing one."""
        return self.n_categories + (not self.shown)

    @property
    def n_parameters(self) -> int:
        """Free probabilities."""
        return self.n_components * (self.n_categories - len(self.levels))

    @property
    def n_theta(self) -> int:
        """A score for each category; those of a variable are free up to what they share."""
        return self.n_components * self.n_categories

    @property
    def takes_missing(self) -> bool:
        """There are no numbers to be missed."""
        return True

    @property
    def takes_single(self) -> bool:
        """Features are zero or one."""
        return True

    @cached_property
    def _starts(self) -> np.ndarray:
        return np.concatenate([[0], np.cumsum(self.levels)[:-1]]).astype(np.intp)

    def _variables(self) -> Iterator[slice]:
        for start, levels in zip(self._starts, self.levels, strict=True):
            yield slice(start, start + levels)

    def encode(self, rows: Rows) -> Features:
        """0/1 columns where there are few; else codes that count through all variables."""
        if not self.shown:
            return Features(None, self._codes(rows))
        assert rows.codes is not None
        # Column by column in memory, as a block keeps them, and numbers of one byte to compare.
        codes = np.ascontiguousarray(rows.codes.T.astype(np.int8))
        out = np.empty((self.n_categories, rows.n_rows), dtype=np.float32)
        for part, column, levels in zip(self._variables(), codes, self.levels, strict=True):
            out[part] = column == np.arange(levels, dtype=np.int8)[:, None]
        return Features(out.T, None)

    def _codes(self, rows: Rows) -> IntArray:
        """Codes shifted so that each variable has its own columns, (n, J)."""
        assert rows.codes is not None
        codes: IntArray = (rows.codes + self._starts).astype(np.intp)
        absent = rows.codes < 0
        if absent.any():
            codes[absent] = self.n_categories
        return codes

    def logits(self, theta: FloatArray) -> Logits:
        """Log-probabilities."""
        W = np.zeros((self.n_components, self.n_features))
        W[:, : self.n_categories] = self._scores(theta)
        return Logits(np.zeros(self.n_components), W)

    def _scores(self, theta: FloatArray) -> FloatArray:
        """Log-probabilities, (K, categories)."""
        scores = theta.reshape(self.n_components, self.n_categories)
        lowered = scores - self._spread(np.maximum.reduceat(scores, self._starts, axis=1))
        return lowered - self._spread(np.log(self._totals(np.exp(lowered))))

    def _totals(self, values: FloatArray) -> FloatArray:
        """Sums over the categories of each variable, (..., J)."""
        return np.asarray(np.add.reduceat(values, self._starts, axis=-1))

    def _spread(self, values: FloatArray) -> FloatArray:
        """From a number for each variable to the same for each of its categories."""
        return np.repeat(values, self.levels, axis=-1)

    def pullback(self, theta: FloatArray, grad: Logits) -> FloatArray:
        """Chain rule through the log-softmax."""
        p = np.exp(self._scores(theta))
        out = grad.W[:, : self.n_categories].copy()
        out -= p * self._spread(self._totals(out))
        return out.ravel()

    def maximize(self, sums: Logits) -> FloatArray:
        """Weighted shares of each category among those known, bounded away from zero."""
        # Mini-batches subtract totals, which may leave a count of nothing a little below zero.
        counts = np.maximum(sums.W[:, : self.n_categories], 0)
        total = self._totals(counts)
        if not total.all():
            # A component without rows gets the shares of all, because its own would be 0 / 0.
            counts = np.where(self._spread(total) > 0, counts, counts.sum(axis=0))
            total = self._totals(counts)
        p = counts / self._spread(total)
        return np.asarray(np.log(np.maximum(p, SMALLEST_PROBABILITY))).ravel()

    def clip(self, theta: FloatArray) -> FloatArray:
        """Every theta is valid."""
        return theta

    def unpack(self, theta: FloatArray) -> dict[str, FloatArray]:
        """Probabilities, (K, P): the categories of all variables side by side."""
        return {"probabilities": np.exp(self._scores(theta))}

    def pack(self, parameters: dict[str, FloatArray]) -> FloatArray:
        """Theta of given probabilities."""
        return np.log(np.maximum(parameters["probabilities"], SMALLEST_PROBABILITY)).ravel()

    def points(self, rows: Rows) -> FloatArray | csr_array:
        """Categories as 0/1 columns, a missing one as the shares of the others.

        Where they would take too much memory they are sparse, and a missing category has no one.
        """
        codes = self._codes(rows)
        if codes.shape[0] * self.n_categories > LARGEST_INDICATORS:
            return self._sparse(codes.astype(np.int32))
        out = np.zeros((rows.n_rows, self.n_categories + 1))
        np.put_along_axis(out, codes, 1.0, axis=1)
        for part, column in zip(self._variables(), codes.T, strict=True):
            absent = column == self.n_categories
            if absent.any():
                out[absent, part] = out[~absent, part].mean(axis=0) if not absent.all() else 0.0
        # The last column has taken the missing ones.
        return out[:, : self.n_categories]

    def _sparse(self, codes: IntArray) -> csr_array:
        """The 0/1 columns of encoded rows; k-means takes indices of 32 bits only."""
        known = codes < self.n_categories
        ends = np.concatenate([[0], known.sum(axis=1).cumsum()]).astype(np.int32)
        ones = np.ones(int(ends[-1]))
        return csr_array((ones, codes[known], ends), shape=(len(codes), self.n_categories))

    def reorder(self, theta: FloatArray, order: IntArray) -> FloatArray:
        """Theta with the components in another order."""
        return theta.reshape(self.n_components, self.n_categories)[order].ravel()

    def draw(self, theta: FloatArray, labels: IntArray, rng: np.random.Generator) -> Rows:
        """Random codes, by inverting each variable's distribution function."""
        p = np.exp(self._scores(theta))
        codes = np.empty((len(labels), len(self.levels)), dtype=np.intp)
        for j, part in enumerate(self._variables()):
            distribution = p[:, part].cumsum(axis=1)[labels]
            below = rng.random((len(labels), 1)) * distribution[:, -1:] >= distribution
            # Without the last column: rounding must not give a category that does not exist.
            codes[:, j] = below[:, :-1].sum(axis=1)
        return Rows(None, codes)

    def initial(
        self, rows: Rows, centers: Centers, rng: np.random.Generator
    ) -> dict[str, FloatArray]:
        """Softmax of uniform numbers within each variable."""
        scores = rng.random((self.n_components, self.n_categories))
        return {"probabilities": np.exp(self._scores(scores.ravel()))}

    def document(self) -> dict[str, object]:
        """Null for what is said of numbers; the categories stand with the columns."""
        return {"covariance_type": None, "reg_covar": None}

    def arrays(self) -> dict[str, FloatArray]:
        """None."""
        return {}

    def add_scores(self, graph: GraphBuilder, rows: RowNames, W: FloatArray, total: str) -> str:
        """A look-up in a table of each variable's log-probabilities."""
        for codes, part in zip(rows.codes, self._variables(), strict=True):
            # A missing category adds nothing.
            table = np.vstack([W[:, part].T, np.zeros(len(W))])
            total = graph.node("Add", graph.look_up(table, codes), total)
        return total
