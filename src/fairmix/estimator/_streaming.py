"""Streaming: learning from batches of rows that never come back."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import ArrayLike
from scipy.optimize import linear_sum_assignment
from sklearn.utils import check_random_state
from sklearn.utils.validation import _num_samples

from fairmix.estimator._data import Assigned, Data, MemoryData
from fairmix.estimator._learning import Learning
from fairmix.fitting.schedule import (
    FAIRNESS_ROWS,
    SHARPNESS,
    Settings,
    make_climber,
    make_dual,
    make_propensity,
    resolution,
    solve,
)
from fairmix.input.columns import Columns, as_frame
from fairmix.input.groups import Groups, Seats, encode_groups, match_groups, warn_of_target
from fairmix.kernels.totals import FloatArray, IntArray, Rows
from fairmix.mixture.mixture import Mixture
from fairmix.mixture.model import Model
from fairmix.mixture.propensity import Propensity
from fairmix.results.verdict import within
from fairmix.solvers import EM, Iteration, Solution, Status
from fairmix.solvers.objective import Scaled
from fairmix.solvers.online import Online, Place, Reservoir, look
from fairmix.system.threads import one_blas_thread
from fairmix.tables import MemoryStore, Summary, Table, is_path

# Iterations of EM and gradient steps at each batch.
EM_STEPS = 3
GRADIENT_STEPS = 30
# The sample is fitted anew when the rows so far are this many times those of the last fit: a start
# from few rows is not the last word. And sooner, when its log-likelihood per row has fallen by so
# much since: a sorted stream brings rows of another kind.
GROWTH = 2.0
SURPRISING_GROWTH = 1.1
SURPRISE = 0.1
# Parameters that a stream cannot change on its way.
FIXED = (
    "n_components",
    "covariance_type",
    "reg_covar",
    "categorical_features",
    "standardize",
    "solver",
    "assignment",
    "fairness_sample_size",
)
# Parameters of `fit` alone, and the value at which they ask for nothing.
ALONE = {
    "batch_size": None,
    "subsample": None,
    "fairness_sample_replace": False,
    "checkpoint": None,
}


@dataclass(eq=False)
class Stream:
    """What is left of the rows so far; also the `Data` of what is published.

    The reservoir holds rows, so a pickled estimator does, too.
    """

    columns: Columns
    # All groups, also those that are too small to be judged so far.
    group_names: tuple[str, ...]
    min_group_size: int
    aware: bool
    mixture: Mixture
    propensity: Propensity | None
    reservoir: Reservoir
    rng: np.random.Generator
    parameters: dict[str, str]
    place: Place | None = None
    # Rows so far, and the call, when the sample was last fitted.
    fitted_rows: int = 0
    fitted_call: int = 0
    # The groups that were judged then.
    fitted_groups: tuple[str, ...] = ()
    history: list[Iteration] = field(default_factory=list)

    @property
    def groups(self) -> Groups | None:
        """The groups, judged by their rows so far; codes are those of the reservoir."""
        return self._judged(self.reservoir.groups) if self.group_names else None

    def _judged(self, codes: IntArray) -> Groups:
        groups = Groups(codes.astype(np.intp), self.group_names, self.reservoir.counts, "")
        return groups.judged(self.min_group_size)

    def store(self, columns: Columns, summary: Summary | None = None) -> MemoryStore:
        """The rows of the reservoir."""
        return self.seated(self.reservoir.store())

    def seated(self, store: MemoryStore) -> MemoryStore:
        """The same rows in the groups that are judged now."""
        if not self.group_names:
            return store
        groups = self._judged(store.groups)
        seats = Seats.of(groups)
        return MemoryStore(
            store.rows,
            groups=seats.codes(groups.codes),
            n_groups=seats.n_groups,
            aside=seats.aside,
            weight=store.weight,
            n_jobs=store.n_jobs,
        )

    def assign(self, model: Model, table: Table) -> Assigned:
        """No labels: the rows are gone."""
        return model.assign(table, labels=False)

    def table(self, store: MemoryStore) -> Table:
        """Rows as solvers see them."""
        encode, propensity = self.mixture.family.encode, self.propensity
        return Table(store, encode, propensity=propensity, aware=self.aware)

    def seed(self) -> int:
        """A new one."""
        return int(self.rng.integers(2**31 - 1))


class Streaming(Learning):
    """Learns from a stream."""

    __metadata_request__partial_fit = {"sensitive_features": True}  # noqa: RUF012

    assignment: str
    fairness_sample_size: float | None
    tol: float
    _stream: Stream
    _validate_params: Any

    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        *,
        sensitive_features: Any = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn from one more batch of a stream.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            NumPy array, pandas, Polars or Arrow table. The first batch of a stream must hold
            every category and every group, and at least ``n_components`` rows.
        y : ignored
            For scikit-learn's conventions. Groups are ``sensitive_features``: a ``y`` without them
            is an `IgnoredTargetWarning`.
        sensitive_features : str, array-like or table, default=None
            Group of each row, as in ``fit``: with every batch of a stream, or with none.
        sample_weight : array-like of shape (n_rows,), default=None
            Weights of at least 0. A weight of 2 counts as two equal rows.

        Returns
        -------
        FairMixture
            The model of all rows so far. The gaps, rates and the balance are those of a sample
            of ``fairness_sample_size`` rows (None: 50,000). There are no ``labels_``;
            ``history_`` has a row and ``n_iter_`` a count for each call.
        """
        started = time.perf_counter()
        warn_of_target(y, sensitive_features)
        if is_path(X):
            raise ValueError(
                f"X={X!r} names files, a batch of a stream is a table. Read it first, or use fit, "
                "which reads files in constant memory."
            )
        self._validate_params()
        self._check_stream()
        X, sensitive_features, sample_weight = self._grouped_rows(
            X, sensitive_features, sample_weight
        )
        if not hasattr(self, "_stream"):
            data = self._data(X, sensitive_features, sample_weight)
            self._check_groups(data)
            groups = None
            if sensitive_features is not None:
                groups = self._take_groups(X, sensitive_features)[1]
            self._begin(data, groups)
        else:
            self._go_on(self._batch(X, sensitive_features, sample_weight))
        self._record(time.perf_counter() - started)
        return self

    def _grouped_rows(
        self, X: Any, sensitive_features: Any, sample_weight: ArrayLike | None
    ) -> tuple[Any, Any, ArrayLike | None]:
        """A batch without the rows whose group is missing, where they are to be dropped."""
        if sensitive_features is None or self.missing_groups != "drop":
            return X, sensitive_features, sample_weight
        given = sensitive_features
        if isinstance(given, str):
            given = self._named_column(X, given)
        groups = encode_groups(given, n_rows=_num_samples(X), missing="drop")
        if not groups.n_missing:
            return X, sensitive_features, sample_weight
        kept = np.flatnonzero(groups.codes >= 0)
        names: Any = np.array(groups.names)[groups.codes[kept]]
        if isinstance(sensitive_features, str):
            names = sensitive_features
        weight = None if sample_weight is None else np.asarray(sample_weight)[kept]
        frame = as_frame(X)
        rows = np.asarray(X)[kept] if frame is None else frame[kept].to_native()
        return rows, names, weight

    def _learn(self, data: Data) -> None:
        """Fit anew; a stream ends here."""
        if hasattr(self, "_stream"):
            del self._stream
        super()._learn(data)

    def _check_stream(self) -> None:
        for name, silent in ALONE.items():
            if getattr(self, name) != silent:
                raise ValueError(
                    f"{name}={getattr(self, name)!r} is for fit, which can see a row twice. Set "
                    f"{name}={silent} for partial_fit."
                )
        if self.ties == "split":
            raise ValueError(
                "ties='split' shares the equal rows of a table out, and a stream keeps no table. "
                "Set ties='together' for partial_fit."
            )
        if self.fairness_sample_size is not None and self.fairness_sample_size < 1:
            raise ValueError(
                f"fairness_sample_size={self.fairness_sample_size} is a share of all rows, and "
                "partial_fit does not know how many will come. Give a number of rows."
            )
        self._check_settings()
        known = self._stream.parameters if hasattr(self, "_stream") else {}
        for name, value in known.items():
            if repr(getattr(self, name)) != value:
                raise ValueError(
                    f"{name}={getattr(self, name)!r}, but the stream began with {value}. Set it "
                    "back, or clone the estimator for a new stream."
                )

    def _check_groups(self, data: MemoryData) -> None:
        """What a first batch must bring."""
        if data.groups is None:
            return
        if self.solver != "dual" and self.fairness_strength == "auto":
            raise ValueError(
                f"solver={self.solver!r} with fairness_strength='auto' meets max_gap in many "
                "rounds over all rows, which a stream does not allow. Set fairness_strength to a "
                "number, or solver='dual'."
            )

    def _begin(self, data: MemoryData, groups: Groups | None) -> None:
        """Fit the first batch: columns, groups, scale and a start come from there.

        ``groups`` are all of them, also those that are not judged.
        """
        self._learn(data)
        model = self._model
        n_groups = 1 if groups is None else len(groups.names)
        codes = None if groups is None else groups.codes.astype(np.intp)
        store = self._counted(model.columns.rows(data.table), codes, data.weight, n_groups)
        # Two seeds before it are those of the fit.
        seed = check_random_state(self.random_state).randint(2**31 - 1, size=3)[2]
        rng = np.random.default_rng(seed)
        size = int(self.fairness_sample_size or FAIRNESS_ROWS)
        self._stream = Stream(
            model.columns,
            () if groups is None else groups.names,
            self.min_group_size,
            self.assignment == "aware",
            model.mixture,
            model.propensity,
            Reservoir(size, store.n_groups, rng),
            rng,
            {name: repr(getattr(self, name)) for name in FIXED},
        )
        self._stream.reservoir.add(store)
        with one_blas_thread():
            self._settle(self._sample(), model.theta, None)

    def _batch(
        self, X: Any, sensitive_features: Any, sample_weight: ArrayLike | None
    ) -> MemoryStore:
        """The rows of a later batch that count."""
        names = self._stream.group_names
        if (sensitive_features is None) == bool(names):
            here, before = ("no", "some") if names else ("some", "none")
            raise ValueError(
                f"This batch has {here} sensitive_features, the stream began with {before}. Give "
                "them with every batch of a stream, or with none."
            )
        groups = None
        if names:
            if isinstance(sensitive_features, str):
                sensitive_features = self._named_column(X, sensitive_features)
            groups = match_groups(
                sensitive_features, names, n_rows=_num_samples(X), missing=self.missing_groups
            )
        weight = self._weights(sample_weight, X)
        return self._counted(self._rows(X), groups, weight, max(1, len(names)))

    def _counted(
        self, rows: Rows, groups: IntArray | None, weight: FloatArray | None, n_groups: int
    ) -> MemoryStore:
        """The rows with a positive weight."""
        if weight is not None:
            counted = np.flatnonzero(weight)
            rows, weight = rows.take(counted), weight[counted]
            groups = None if groups is None else groups[counted]
        n_jobs = effective_n_jobs(self.n_jobs)
        return MemoryStore(rows, groups=groups, n_groups=n_groups, weight=weight, n_jobs=n_jobs)

    def _go_on(self, batch: MemoryStore) -> None:
        stream = self._stream
        stream.reservoir.add(batch)
        stream.min_group_size = self.min_group_size
        self._check_judged(stream.groups)
        with one_blas_thread():
            sample = self._sample()
            if self._outgrown(sample):
                solution = self._fit_sample()
            else:
                assert stream.place is not None
                stream.place, solution = self._online().advance(
                    stream.mixture, sample, stream.table(stream.seated(batch)), stream.place
                )
            self._model = self._model_of(solution)
            self._publish(solution, self._model.table(sample.store), stream)
        self._warn(solution, sample.store)

    def _sample(self) -> Table:
        stream = self._stream
        return stream.table(stream.seated(stream.reservoir.store(effective_n_jobs(self.n_jobs))))

    def _outgrown(self, sample: Table) -> bool:
        """Whether the sample says so much more than at its last fit that it needs another."""
        stream = self._stream
        if stream.groups is not None and stream.groups.names != stream.fitted_groups:
            return True  # others are judged now
        growth = stream.reservoir.n_seen / stream.fitted_rows
        if growth < SURPRISING_GROWTH:
            return False
        expected = stream.history[stream.fitted_call].log_likelihood
        return growth >= GROWTH or self._look(sample).log_likelihood < expected - SURPRISE

    def _model_of(self, solution: Solution) -> Model:
        stream = self._stream
        # Without a tilt the propensity was only for the start.
        propensity = None if solution.offsets is None else stream.propensity
        return Model(
            stream.columns,
            stream.mixture,
            solution.theta,
            solution.offsets,
            propensity,
            solution.temperature,
            stream.aware and solution.offsets is not None,
        )

    def _stream_settings(self) -> Settings:
        # The sample of a stream is all that there is.
        return replace(self._settings(), fairness_sample_size=None)

    def _online(self) -> Online:
        """The solver, for a few steps at a batch."""
        settings, stream = self._stream_settings(), self._stream
        n_groups = Seats.of(stream.groups).n_groups
        fair = settings.fairness_strength != 0 and n_groups > 1
        if fair and settings.solver == "dual":
            return Online(make_dual(settings, 1, n_groups))
        climber = make_climber(settings, 1)
        steps = EM_STEPS if isinstance(climber, EM) else GRADIENT_STEPS
        few = replace(climber, max_iter=steps, tol=0.0)
        if not fair:
            return Online(few)
        strength = float(settings.fairness_strength)
        zeros = np.zeros((n_groups, stream.mixture.n_components))
        return Online(few, Scaled(settings.measure, strength, SHARPNESS * strength, zeros))

    def _settle(self, sample: Table, theta: FloatArray, multipliers: FloatArray | None) -> None:
        """Go on from the fit of a sample."""
        stream = self._stream
        stream.fitted_rows, stream.fitted_call = stream.reservoir.n_seen, len(stream.history)
        stream.fitted_groups = () if stream.groups is None else stream.groups.names
        stream.place = self._online().begin(
            stream.mixture, sample, stream.reservoir.seen_weight, theta, multipliers
        )

    def _fit_sample(self) -> Solution:
        """Fit the sample, from where the stream has come to and from new starts."""
        stream, settings = self._stream, self._stream_settings()
        store = stream.seated(stream.reservoir.store(effective_n_jobs(self.n_jobs)))
        stream.propensity = make_propensity(settings, store, stream.seed())
        sample, seed = stream.table(store), stream.seed()
        bound, finest = np.inf, 0.0
        if settings.fairness_strength == "auto" and sample.n_groups > 1:
            bound, finest = settings.max_gap, resolution(settings, sample)
        assert stream.place is not None
        here = solve(settings, stream.mixture, sample, seed, stream.place.theta)
        new = solve(settings, stream.mixture, sample, seed)

        def rank(found: Solution, gain: float = 0.0) -> tuple[bool, int, float]:
            return within(found.gap, bound, finest), found.filled, found.objective + gain

        # A new solution that is no better would only change what the clusters are.
        solution = new if rank(new) > rank(here, settings.tol) else here
        solution = self._numbered(solution, store)
        self._settle(sample, solution.theta, solution.multipliers)
        # Iterations that were not enough go on with the stream.
        return replace(solution, status=Status.CONVERGED)

    def _numbered(self, solution: Solution, store: MemoryStore) -> Solution:
        """Clusters with the numbers of those before that share most rows with them."""
        groups = self._stream.groups
        same = groups is None or groups.names == self._stream.fitted_groups
        before, after = (
            # An aware map cannot place rows where it was made for other groups; its mixture can.
            model.labels(store.rows, store.groups)
            if same or not model.aware
            else model.posterior(store.rows).argmax(axis=1)
            for model in (self._model, self._model_of(solution))
        )
        shared = np.zeros((self.n_components, self.n_components))
        np.add.at(shared, (before, after), 1.0)
        order: IntArray = linear_sum_assignment(shared, maximize=True)[1]
        multipliers, offsets = (
            None if part is None else part[:, order]
            for part in (solution.multipliers, solution.offsets)
        )
        theta = self._stream.mixture.reorder(solution.theta, order)
        return replace(solution, theta=theta, multipliers=multipliers, offsets=offsets)

    def _look(self, sample: Table) -> Iteration:
        """How the model does on the sample."""
        model = self._model
        return look(
            model.mixture.logits(model.theta),
            sample,
            self.lower_bound_,
            self._settings().measure,
            model.offsets,
            model.temperature,
        )

    def _record(self, seconds: float) -> None:
        """Attributes about the stream, after a call of some seconds."""
        stream = self._stream
        with one_blas_thread():
            row = self._look(self._sample())
        before = stream.history[-1] if stream.history else None
        stream.history.append(row._replace(seconds=seconds + (before.seconds if before else 0.0)))
        self._publish_history(stream.history)
        self.n_iter_ = len(stream.history)
        self.converged_ = before is not None and abs(row.objective - before.objective) < self.tol
        for name in ("labels_", "n_passes_"):
            if hasattr(self, name):
                delattr(self, name)
