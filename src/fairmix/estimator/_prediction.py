"""Prediction: what a fitted mixture says of rows."""

from __future__ import annotations

import warnings
from dataclasses import replace
from numbers import Integral
from pathlib import Path
from typing import Any, Literal, overload

import narwhals as nw
import numpy as np
from joblib import effective_n_jobs
from numpy.typing import ArrayLike, NDArray
from scipy.special import xlogy
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from fairmix.estimator._file_input import FileInput
from fairmix.estimator._frame_sources import in_blocks, is_dask, lazy_labels
from fairmix.estimator._freshness import TrainingRows
from fairmix.input.columns import as_frame, categorical_positions, column_title
from fairmix.input.groups import encode_groups, listed, match_groups
from fairmix.kernels.totals import FloatArray, IntArray, Rows
from fairmix.mixture.model import Model
from fairmix.results.certificate import Certificate, certify, sampling_gap
from fairmix.results.fairness import FairnessTable, fairness_table
from fairmix.results.verdict import Verdict, judge_counts
from fairmix.system.threads import one_blas_thread
from fairmix.tables import PathLike, is_path

# Kinds of NumPy's types that are numbers.
NUMBERS = ("b", "i", "u", "f")


class Prediction(FileInput):
    """Labels, probabilities, densities, information criteria and samples of a fitted model."""

    n_components: int
    max_gap: float
    fairness_strength: float | str
    criterion: str
    gap_of: str
    random_state: Any
    rates_: FloatArray | None
    _seen: TrainingRows | None

    @overload
    def predict(
        self, X: Any, *, sensitive_features: Any = None, output: None = None
    ) -> IntArray: ...

    @overload
    def predict(self, X: Any, *, sensitive_features: Any = None, output: PathLike) -> Path: ...

    def predict(
        self, X: Any, *, sensitive_features: Any = None, output: PathLike | None = None
    ) -> Any:
        """Cluster of each row.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features), path or Dask collection
            Columns as in ``fit``. Files as in ``fit`` are read block by block.
        sensitive_features : str, array-like or table, default=None
            Group of each row, needed with ``assignment="aware"`` only. A blind map sees X only.
            For files the name of a column, or names.
        output : path, default=None
            For files: a Parquet file to write, with one column ``cluster``. It appears when it is
            complete.

        Returns
        -------
        ndarray of shape (n_rows,), or the path of the file; for a Dask collection a Dask array
        """
        if is_dask(X):
            return lazy_labels(self, X, sensitive_features)
        if in_blocks(X):
            return self._predict_files(X, sensitive_features, output)
        if output is not None:
            raise ValueError(
                f"output={str(output)!r} is for files, but X is a {type(X).__name__}. Leave output "
                "out: the labels are returned."
            )
        return self._labels(X, sensitive_features)

    def _labels(self, X: Any, sensitive_features: Any) -> IntArray:
        rows, groups = self._near_rows(X), self._known_groups(X, sensitive_features)
        with one_blas_thread():
            return self._model.labels(rows, groups, n_jobs=effective_n_jobs(self.n_jobs))

    def _read(self, X: Any, *, reset: bool) -> nw.DataFrame[Any] | NDArray[Any]:
        """X as in `Input`, but nothing that would be read as other numbers in silence."""
        if isinstance(X, np.ma.MaskedArray) and np.ma.is_masked(X):
            masked = np.count_nonzero(np.ma.getmaskarray(X))
            raise ValueError(
                f"X is a masked array with {masked} masked values, which would "
                "count as numbers. Drop these rows, or fill the values: X.filled(...)."
            )
        if isinstance(X, np.ndarray) and X.dtype.kind in "mM":
            raise ValueError(
                f"X has type {X.dtype}, not numbers. Convert it, for example to days since a date."
            )
        frame = as_frame(X)
        if frame is not None:
            _check_types(frame, self.categorical_features)
        return super()._read(X, reset=reset)

    def _near_rows(self, X: Any) -> Rows:
        """Rows that are near enough to the model for finite densities."""
        with np.errstate(over="ignore"):  # a tiny scale; what overflows is refused
            rows = self._rows(X)
        if rows.numeric is not None and not _has_densities(self._model, rows):
            raise ValueError(
                "X holds numbers so far from those of the fit that densities overflow; the "
                f"largest is {np.nanmax(np.abs(rows.numeric)):.3g} as the model sees it. Drop "
                "these rows, or bring them to the units of the fit."
            )
        return rows

    def predict_proba(self, X: Any, *, sensitive_features: Any = None) -> NDArray[Any]:
        """Responsibilities: probability of each cluster given the row.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            Columns as in ``fit``.
        sensitive_features : str, array-like or table, default=None
            Group of each row, needed with ``assignment="aware"`` only. A blind map sees X only.

        Returns
        -------
        ndarray of shape (n_rows, n_components)
            At the temperature of the fit; the largest entry of a row is its label, unless it is
            one of several equal rows that ``ties="split"`` shares out.
        """
        rows, groups = self._near_rows(X), self._known_groups(X, sensitive_features)
        with one_blas_thread():
            return self._model.probabilities(rows, groups, n_jobs=effective_n_jobs(self.n_jobs))

    def assign(
        self,
        X: Any,
        *,
        how: Literal["argmax", "random"] = "argmax",
        sensitive_features: Any = None,
        random_state: Any = None,
    ) -> IntArray:
        """Cluster of each row: the most probable one, or one drawn at random.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            Columns as in ``fit``.
        how : {"argmax", "random"}, default="argmax"
            ``"argmax"``: as ``predict``. ``"random"``: the paper's random assignment, cluster k
            with the probability that ``predict_proba`` gives it. The rates of the draws are those
            of the probabilities in expectation, so it belongs to ``gap_of="probabilities"``. With
            ``gap_of="labels"`` the probabilities are those of a cold map, close to 0 and 1.
        sensitive_features : str, array-like or table, default=None
            Group of each row, needed with ``assignment="aware"`` only.
        random_state : int, RandomState or None, default=None
            Seed of the draws. None: that of the estimator.

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        if how not in ("argmax", "random"):
            raise ValueError(f"how={how!r}. Give 'argmax' or 'random'.")
        if is_path(X):
            raise ValueError(
                f"X={X!r} names files, assign needs a table. Read it first, or give predict an "
                "output."
            )
        if how == "argmax":
            return self.predict(X, sensitive_features=sensitive_features)
        probabilities = self.predict_proba(X, sensitive_features=sensitive_features)
        source = self.random_state if random_state is None else random_state
        rng = np.random.default_rng(check_random_state(source).randint(2**31 - 1))
        # The first cluster at which the distribution function exceeds a uniform number.
        below = probabilities.cumsum(axis=1, dtype=np.float64)
        passed = rng.random((len(below), 1)) * below[:, -1:] >= below
        return np.asarray(passed[:, :-1].sum(axis=1))

    def score_samples(self, X: Any) -> NDArray[Any]:
        """Log-density of each row.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            Columns as in ``fit``.

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        rows = self._near_rows(X)
        with one_blas_thread():
            return self._model.log_densities(rows, n_jobs=effective_n_jobs(self.n_jobs))

    def score(
        self,
        X: Any,
        y: Any = None,
        *,
        sensitive_features: Any = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """Mean log-density of the rows.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            Columns as in ``fit``.
        y, sensitive_features : ignored
            For scikit-learn's conventions.
        sample_weight : array-like of shape (n_rows,), default=None
            Weights of the mean.

        Returns
        -------
        float
        """
        return float(np.average(self.score_samples(X), weights=self._weights(sample_weight, X)))

    def bic(self, X: Any) -> float:
        """Bayesian information criterion; lower is better."""
        return self._deviance(X) + self._model.mixture.n_parameters * float(np.log(len(X)))

    def aic(self, X: Any) -> float:
        """Akaike information criterion; lower is better."""
        return self._deviance(X) + 2.0 * self._model.mixture.n_parameters

    def icl(self, X: Any) -> float:
        """Integrated completed likelihood: BIC plus twice the entropy of the posterior."""
        psi = self._model.posterior(self._near_rows(X))
        return self.bic(X) - 2.0 * float(xlogy(psi, psi).sum())

    def _deviance(self, X: Any) -> float:
        return -2.0 * float(self.score_samples(X).sum())

    def sample(self, n_samples: int = 1) -> tuple[NDArray[Any], IntArray]:
        """Random rows from the fitted density.

        Parameters
        ----------
        n_samples : int, default=1
            Rows to draw.

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
            In the units and with the categories of the training data.
        labels : ndarray of shape (n_samples,)
            Component of each row.
        """
        check_is_fitted(self)
        if not isinstance(n_samples, Integral) or n_samples < 1:
            raise ValueError(f"n_samples={n_samples!r}. Give a whole number of at least 1.")
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))
        rows, labels = self._model.draw(n_samples, rng)
        return self._model.columns.table(rows), labels

    def fairness_report(
        self,
        X: Any,
        sensitive_features: Any,
        *,
        sample_weight: ArrayLike | None = None,
        n_boot: int = 200,
        confidence: float = 0.95,
    ) -> FairnessTable:
        """Counts, rates, balance and gaps of the labels of some rows, with bootstrap intervals.

        Groups with fewer of these rows than ``min_group_size`` are listed apart: gaps and balance
        are of the others.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            Columns as in ``fit``.
        sensitive_features : str, array-like or table
            Group of each row.
        sample_weight : array-like of shape (n_rows,), default=None
            Weights of at least 0.
        n_boot : int, default=200
            Bootstrap samples.
        confidence : float, default=0.95
            Of the intervals.

        Returns
        -------
        FairnessTable
            Prints as a table; ``to_pandas()``, ``to_polars()``, ``to_dict()``.
        """
        labels, groups = self._labels_and_groups(X, sensitive_features)
        return fairness_table(
            labels,
            groups,
            sample_weight=sample_weight,
            min_group_size=self.min_group_size,
            missing_groups=self.missing_groups,
            n_boot=n_boot,
            confidence=confidence,
            random_state=check_random_state(self.random_state).randint(2**31 - 1),
        )

    def certify(self, X: Any, sensitive_features: Any, *, confidence: float = 0.95) -> Certificate:
        """An upper bound on the population gap of this fitted map, and a verdict on fresh rows.

        With probability ``confidence`` over the draw of the rows, the criterion of this map in
        the population that the rows come from is at most ``upper_bound``. The statement is about
        the groups that ``fit`` has judged; where these are fewer than two, about all that it knew.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            Fresh rows: independent of each other and of those in ``fit``. Rows of the fit get a
            warning, where they are recognised.
        sensitive_features : str, array-like or table
            Group of each row.
        confidence : float, default=0.95
            Probability that the bound holds.

        Returns
        -------
        Certificate
            ``verdict`` says whether these rows meet ``max_gap``, for groups that ``fit`` has
            judged and that have ``min_group_size`` of these rows; ``chance`` how large a gap on
            them sampling explains.
        """
        check_is_fitted(self)
        if self._model.split:
            raise ValueError(
                "This model was fitted with ties='split': a label depends on the rows beside it, "
                "so these labels are no map of the row whose gap in a population could be bounded. "
                "Fit with ties='together'."
            )
        assignment, groups = self._labels_and_groups(X, sensitive_features)
        self._check_fresh(X)
        if self.gap_of == "probabilities":
            assignment = self.predict_proba(X, sensitive_features=sensitive_features)
        judged, known = self.groups_.tolist(), [*self.groups_.tolist(), *self.unjudged_groups_]
        if not known:
            known = list(encode_groups(groups, missing=self.missing_groups).names)
        codes = match_groups(groups, known, n_rows=len(assignment), missing=self.missing_groups)
        # Rows without a group say nothing, and neither do those of groups that are not judged.
        named = judged if len(judged) > 1 else known
        stated = np.flatnonzero((codes >= 0) & (codes < len(named)))
        if not len(stated):
            raise ValueError(f"X has no row of the groups that the model judges: {listed(named)}.")
        found = certify(
            assignment[stated],
            np.asarray(named)[codes[stated]],
            criterion=self.criterion,
            confidence=confidence,
            n_clusters=self.n_components,
            groups=named,
        )
        rows = np.flatnonzero(codes >= 0)
        verdict, chance = self._judge(assignment[rows], codes[rows], known)
        return replace(found, verdict=verdict, chance=chance)

    def _check_fresh(self, X: Any) -> None:
        """Warn of rows of the fit."""
        seen: TrainingRows | None = getattr(self, "_seen", None)
        if seen is None:
            return
        plain = replace(self._columns, mean=None, scale=None)
        if seen.hold(plain.rows(self._read(self._features(X), reset=False))):
            warnings.warn(
                "X holds rows that the model was fitted to. A certificate is valid for fresh rows "
                "only: the fit has made the gap of its own rows small. Hold rows out before you "
                "fit, and certify those.",
                UserWarning,
                stacklevel=3,
            )

    def _judge(
        self, assignment: NDArray[Any], codes: IntArray, known: list[str]
    ) -> tuple[Verdict, float]:
        """The verdict on fresh rows, and the gap on them that sampling explains."""
        judged = self.groups_.tolist()
        fair = bool(judged or self.unjudged_groups_)
        counts = np.zeros((len(known), self.n_components))
        if assignment.ndim == 1:
            np.add.at(counts, (codes, assignment), 1)
        else:
            np.add.at(counts, codes, assignment)
        verdict = judge_counts(
            counts,
            known,
            float(self.max_gap) if fair and self.fairness_strength == "auto" else np.inf,
            criterion=self.criterion,
            min_group_size=self.min_group_size,
            among=judged if fair else None,
            of=self.gap_of,
        )
        sizes = counts.sum(axis=1)
        named = enumerate(judged)
        where = [g for g, name in named if sizes[g] and name not in verdict.unjudged]
        if len(where) < 2:
            return verdict, np.nan
        if assignment.ndim == 1:
            shares = counts[where].sum(axis=0) / sizes[where].sum()
            covariance = np.diag(shares) - np.outer(shares, shares)
        else:
            covariance = np.cov(assignment[np.isin(codes, where)], rowvar=False, ddof=0)
        assert self.rates_ is not None
        chance = sampling_gap(
            self.rates_[where],
            self.group_sizes_[where],
            sizes[where],
            covariance,
            criterion=self.criterion,
        )
        return verdict, chance.quantile95

    def _labels_and_groups(self, X: Any, sensitive_features: Any) -> tuple[IntArray, Any]:
        labels = self._labels(X, sensitive_features)
        if isinstance(sensitive_features, str):
            sensitive_features = self._named_column(X, sensitive_features)
        return labels, sensitive_features


def _check_types(frame: nw.DataFrame[Any], categorical_features: object) -> None:
    """Refuse columns of dates, lists and the like that are not named as categories."""
    names = tuple(map(str, frame.columns))
    categorical = categorical_positions(categorical_features, frame, names)
    for j, dtype in enumerate(frame.schema.values()):
        odd = dtype.is_temporal() or dtype.is_nested() or dtype == nw.Binary
        if dtype == nw.Unknown:
            odd = getattr(frame[:, j].to_native().dtype, "kind", "") not in NUMBERS
        if odd and j not in categorical:
            raise ValueError(
                f"{column_title(names[j])} has type {dtype}, not numbers. Convert it, drop it, or "
                "name it in categorical_features."
            )


def _has_densities(model: Model, rows: Rows) -> bool:
    """Whether the logits of all rows are finite.

    Three corners of the box that holds the rows stand for them: the lowest, the highest and the
    one farthest from zero, where every square and product is at its largest.
    """
    assert rows.numeric is not None
    # What is missing counts for nothing; a column may have nothing else.
    low, high = np.fmin.reduce(rows.numeric, axis=0), np.fmax.reduce(rows.numeric, axis=0)
    corners = np.stack([low, high, np.where(np.abs(low) > np.abs(high), low, high)])
    codes = None if rows.codes is None else np.repeat(rows.codes[:1], len(corners), axis=0)
    groups = None if model.offsets is None else np.zeros(len(corners), dtype=np.intp)
    with np.errstate(over="ignore", invalid="ignore"):
        psi = model.probabilities(Rows(corners, codes), groups)
    propensity = model.propensity
    return bool(np.isfinite(psi).all()) and (propensity is None or propensity.is_finite(corners))
