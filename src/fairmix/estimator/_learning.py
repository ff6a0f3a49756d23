"""Learning: from data to a fitted model and what is published of it."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from fairmix._version import __version__
from fairmix.criteria import CRITERIA, smallest_ratio
from fairmix.estimator._callbacks import Callbacks
from fairmix.estimator._data import Data, MemoryData
from fairmix.estimator._frame_sources import in_blocks
from fairmix.estimator._freshness import TrainingRows
from fairmix.estimator._input import warn_of_unjudged_groups
from fairmix.estimator._prediction import Prediction
from fairmix.fitting.schedule import Settings, make_family, make_propensity, resolution, solve
from fairmix.input.columns import Columns
from fairmix.input.groups import Groups, Seats
from fairmix.kernels.totals import FloatArray, IntArray
from fairmix.mixture.mixture import Mixture
from fairmix.mixture.model import Model
from fairmix.results.verdict import MISSED, verdict_of
from fairmix.solvers import Bound, Iteration, Solution, Status
from fairmix.system.threads import one_blas_thread
from fairmix.tables import Journal, MemoryStore, Store, Table, Ties, equal_rows, read_identity

HISTORY_DTYPE = [(name, np.float64) for name in Iteration._fields]
# Rows of which the most frequent one is looked for.
REPEAT_ROWS = 100_000
# How far below the largest number the sum of all squares must stay.
SPARE = 1e4
# Weights of all rows together are less than this, and more than its inverse.
LARGEST_WEIGHT = 1e100
# Parameters of a fit that do not change its result.
SILENT = {"verbose", "n_jobs", "checkpoint", "random_state"}


class Learning(Callbacks, Prediction):
    """Fits a model and publishes its attributes."""

    max_gap: float
    fairness_strength: float | str
    solver: str
    assignment: str
    ties: str
    subsample: float | None
    standardize: bool
    covariance_type: str
    reg_covar: float
    warm_start: bool
    checkpoint: str | os.PathLike[str] | None
    get_params: Any

    def _check_settings(self) -> None:
        if self.assignment == "aware" and self.solver != "dual":
            raise ValueError(
                f"assignment='aware' needs solver='dual', got solver={self.solver!r}: the paper's "
                "solvers have no tilt by group. Set solver='dual' or assignment='blind'."
            )
        if self.batch_size is not None and self.subsample is not None:
            raise ValueError(
                f"batch_size={self.batch_size} and subsample={self.subsample} are two ways to see "
                "fewer rows. Set one of them to None."
            )
        if self.ties == "split" and self.gap_of == "probabilities":
            raise ValueError(
                "ties='split' shares labels out so that they meet a bound, but "
                "gap_of='probabilities' sets none on them. Set gap_of='labels' or ties='together'."
            )
        if self.ties == "split" and self.fairness_strength not in ("auto", 0):
            raise ValueError(
                "ties='split' shares labels out so that they meet a bound, but "
                f"fairness_strength={self.fairness_strength!r} sets none. Set "
                "fairness_strength='auto' or ties='together'."
            )

    def _source(self, X: Any, sensitive_features: Any, sample_weight: Any) -> Data:
        """Data of files, of a Dask collection or of a table."""
        if not in_blocks(X):
            return self._data(X, sensitive_features, sample_weight)
        if self.ties == "split" and self.batch_size is not None:
            raise ValueError(
                f"batch_size={self.batch_size} cuts what is not in memory into other blocks than "
                "those in which ties='split' looks for equal rows. Set batch_size=None (subsample "
                "also sees fewer rows), or give a table in memory."
            )
        data = self._learn_files(X, sensitive_features, sample_weight)
        self._check_judged(data.groups)
        return replace(data, ties=self._ties(Seats.of(data.groups).n_groups))

    def _data(self, X: Any, sensitive_features: Any, sample_weight: ArrayLike | None) -> MemoryData:
        X, groups = self._take_groups(X, sensitive_features)
        weight = self._weights(sample_weight, X)
        if weight is not None:
            _check_weights(weight, groups)
        if groups is not None:
            groups = groups.counted(weight).judged(self.min_group_size)
        self._check_judged(groups)
        table = self._read(X, reset=True)
        columns = Columns.learn(table, self.categorical_features, complete=self._complete)
        return MemoryData(
            table,
            columns,
            groups,
            weight,
            effective_n_jobs(self.n_jobs),
            self.batch_size,
            self._ties(Seats.of(groups).n_groups),
        )

    def _ties(self, n_groups: int) -> Ties | None:
        """What finds equal rows, where they share labels out to meet a bound."""
        bounded = n_groups > 1 and self.fairness_strength == "auto"
        split = self.ties == "split" and bounded
        return Ties(by_group=self.assignment == "aware") if split else None

    def _check_judged(self, groups: Groups | None) -> None:
        """Refuse a single group, and warn of groups that are too small to be judged."""
        if groups is None:
            return
        if len(groups.known) == 1 and self.fairness_strength:
            raise ValueError(
                f"sensitive_features holds one group only, {groups.known[0]!r}. Fairness compares "
                "groups: give labels with two or more, or leave sensitive_features out."
            )
        warn_of_unjudged_groups(groups, self.min_group_size)

    def _settings(self) -> Settings:
        return Settings(**{field.name: getattr(self, field.name) for field in fields(Settings)})

    def _learn(self, data: Data) -> None:
        with one_blas_thread():
            columns, store = data.columns, data.store(data.columns)
            _check_squares(store)
            if store.n_rows < self.n_components:
                raise ValueError(
                    f"n_components={self.n_components} clusters need at least as many rows, X has "
                    f"n_samples={store.n_rows}. Lower n_components or give more rows."
                )
            seen = TrainingRows.of(store) if isinstance(store, MemoryStore) else None
            moments = store.summary.moments
            columns.check_observed(moments.weight)
            if self.standardize and columns.numeric:
                columns = columns.standardized(moments.mean, moments.variance)
                summary = store.summary._replace(moments=moments.standardized())
                store = data.store(columns, summary)
            solution, table = self._solve(columns, store)
            self._publish(solution, table, data)
        self._seen = seen
        self._warn(solution, store)

    def _solve(self, columns: Columns, store: Store) -> tuple[Solution, Table]:
        settings = self._settings()
        journal, seed, propensity_seed = self._journal(store)
        mixture = Mixture(make_family(settings, columns, store))
        propensity = make_propensity(settings, store, propensity_seed)
        aware = self.assignment == "aware"
        table = Table(
            store, mixture.family.encode, propensity=propensity, aware=aware, journal=journal
        )
        warm = self._model.theta_for(mixture) if self.warm_start and self._is_fitted() else None
        try:
            solution = solve(settings, mixture, table, seed, warm, self._climb)
        except np.linalg.LinAlgError as error:
            raise ValueError(
                f"covariance_type={self.covariance_type!r} meets a singular covariance ({error}), "
                f"with reg_covar={self.reg_covar:g}. Raise reg_covar, or drop columns that others "
                "determine."
            ) from error
        order = np.argsort(-mixture.weights(solution.theta), kind="stable")
        offsets = None if solution.offsets is None else solution.offsets[:, order]
        theta = mixture.reorder(solution.theta, order)
        # Without a tilt the propensity was only for the start.
        kept = None if offsets is None else propensity
        aware = aware and offsets is not None
        split = self._ties(store.n_groups) is not None
        self._model = Model(
            columns, mixture, theta, offsets, kept, solution.temperature, aware, split
        )
        if journal is not None:
            journal.remove()
            table.journal = None
        return solution, table

    def _journal(self, store: Store) -> tuple[Journal | None, int, int]:
        """The checkpoint, if there is to be one, and the two seeds of the fit."""
        seeds = check_random_state(self.random_state).randint(2**31 - 1, size=2).tolist()
        if self.checkpoint is None:
            return None, *seeds
        path = Path(self.checkpoint)
        parameters = {k: repr(v) for k, v in sorted(self.get_params().items()) if k not in SILENT}
        if self.random_state is None or not isinstance(self.random_state, int | np.integer):
            # No seed was given, so those of the unfinished fit are as good as any.
            seeds = read_identity(path).get("seeds", seeds) if path.exists() else seeds
        identity = {
            "version": __version__,
            "numpy": np.__version__,
            "data": store.summary.digest,
            "seeds": seeds,
            **parameters,
        }
        if self.warm_start and self._is_fitted():
            identity["warm"] = self._model.theta.tolist()
        return Journal(path, identity), *seeds

    def _is_fitted(self) -> bool:
        return hasattr(self, "_model")

    def _publish(self, solution: Solution, table: Table, data: Data) -> None:
        for name, value in self._model.parameters().items():
            setattr(self, f"{name}_", value)
        self.categories_ = [np.array(names) for names in self._model.columns.levels]
        groups = data.groups
        self.groups_ = np.array(() if groups is None else groups.names, dtype=str)
        none: IntArray = np.array((), dtype=np.intp)
        self.group_sizes_ = none if groups is None else groups.sizes
        self.unjudged_groups_ = {} if groups is None else dict(groups.unjudged)
        labels, hard, soft = data.assign(self._model, table)
        if labels is not None:
            self.labels_ = labels
        elif hasattr(self, "labels_"):
            del self.labels_
        self._publish_fairness(hard, soft, solution, table)
        self.lower_bound_ = solution.objective
        self._publish_history(solution.history)
        self.n_iter_ = len(solution.history)
        self.n_passes_ = table.passes
        self.converged_ = solution.status in (Status.CONVERGED, Status.STALLED)

    def _publish_history(self, rows: Sequence[Iteration]) -> None:
        self.history_ = np.array([tuple(row) for row in rows], dtype=HISTORY_DTYPE)
        if len(self.groups_) < 2:
            # Solvers see one group of all rows.
            self.history_["gap"] = self.history_["balance"] = np.nan

    def _publish_fairness(
        self, hard: FloatArray, soft: FloatArray, solution: Solution, table: Table
    ) -> None:
        criterion, on_labels = CRITERIA[self.criterion], self.gap_of == "labels"
        if len(self.groups_) > 1:
            self.label_gap_ = criterion.value(_rates(hard))
            self.soft_gap_ = criterion.value(_rates(soft))
            mass = hard if on_labels else soft
            self.rates_: FloatArray | None = _rates(mass)
            self.balance_ = smallest_ratio(mass)
            self.resolution_ = resolution(self._settings(), table)
        else:
            self.label_gap_ = self.soft_gap_ = self.balance_ = self.resolution_ = np.nan
            self.rates_ = None
        self.gap_ = self.label_gap_ if on_labels else self.soft_gap_
        self.verdict_ = verdict_of(self).word
        self._filled = int((hard.sum(axis=0) > 0).sum())
        if solution.multipliers is not None:
            self.fairness_strength_ = criterion.support(solution.multipliers)
        else:
            fair = len(self.groups_) > 0 and self.fairness_strength != "auto"
            self.fairness_strength_ = float(self.fairness_strength) if fair else 0.0

    def _warn(self, solution: Solution, store: Store) -> None:
        if self._filled < self.n_components:
            _warn(
                f"Only {self._filled} of n_components={self.n_components} clusters have members. "
                "Lower n_components, loosen max_gap (or fairness_strength), or raise n_init."
            )
        verdict = verdict_of(self)
        if verdict.word == MISSED:
            # Enough digits to tell the two numbers apart.
            by = f", by about {verdict.rows} rows" if self.gap_of == "labels" else ""
            _warn(
                f"The gap of the {self.gap_of} is {self.gap_:.6g}, above max_gap={self.max_gap:g}"
                f"{by}. {self._repeats(store)}Loosen max_gap, raise n_init or max_iter, lower "
                "n_components, or try gap_of='probabilities'."
            )
        if solution.status is Status.MAX_ITER:
            _warn(solution.status.value)

    def _repeats(self, store: Store) -> str:
        """Why labels may miss a bound: equal rows move together, unless they are split."""
        if self.gap_of != "labels" or self.ties == "split":
            return ""
        assert self.rates_ is not None
        sample = store.sample(REPEAT_ROWS, np.random.default_rng(0))
        # The largest share of a group that moves as one, and what a rate would have to move by.
        own = 1 / np.bincount(sample.groups)[sample.groups]
        equal = equal_rows(sample.rows)
        counts = np.bincount(equal)
        tied = own * (counts[equal] > 1)
        step = np.bincount(equal_rows(sample.rows, sample.groups), tied).max()
        missing = Bound(CRITERIA[self.criterion], self.max_gap).missing(self.rates_)
        most = counts.max()
        if most == 1 or step < missing:
            return ""
        return (
            f"Equal rows get equal labels, and the most frequent one is {most / sample.n_rows:.1%} "
            "of all: ties='split' shares them out between clusters. "
        )


def _check_weights(weight: FloatArray, groups: Groups | None) -> None:
    """Refuse weights that leave a group without rows, or sums without digits."""
    total = float(weight.sum())
    if not 1 / LARGEST_WEIGHT < total < LARGEST_WEIGHT:
        raise ValueError(
            f"sample_weight adds up to {total:.3g}. Scale the weights, for example to a mean of 1."
        )
    if groups is not None:
        sizes = np.bincount(groups.codes, weight, len(groups.names))
        if not sizes.all():
            raise ValueError(
                "sensitive_features: no row of "
                f"{groups.names[int(np.argmin(sizes))]!r} has a positive sample_weight. Leave "
                "these rows out."
            )


def _check_squares(store: Store) -> None:
    """Refuse numbers whose squares cannot be added up in their precision."""
    with np.errstate(over="ignore", invalid="ignore"):
        moments = store.summary.moments
    # Missing values are no numbers, so a sum of NaN says nothing about size.
    squares = np.where(np.isinf(moments.mean), np.inf, moments.squares)
    if np.fmax.reduce(squares, initial=0.0) < np.finfo(np.float32).max / SPARE:
        return
    numeric = store.sample(1, np.random.default_rng(0)).rows.numeric
    assert numeric is not None
    over = squares >= np.finfo(numeric.dtype).max / SPARE
    if over.any():
        raise ValueError(
            f"X holds numbers so large that their squares overflow in {numeric.dtype}, first in "
            f"numeric column {int(np.argmax(over))}. Divide them by a constant, or drop them."
        )


def _warn(message: str) -> None:
    warnings.warn(message, ConvergenceWarning, stacklevel=4)


def _rates(mass: FloatArray) -> FloatArray:
    return np.asarray(mass / mass.sum(axis=1, keepdims=True))
