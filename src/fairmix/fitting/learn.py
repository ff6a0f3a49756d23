"""Learning: from settings and data to what a fit has found."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from fairmix._version import __version__
from fairmix.criteria import ByAttribute, MaxGap, MinBalance, best_balance, smallest_ratio
from fairmix.criteria.bounds import ROUNDING
from fairmix.fitting.schedule import Watch, drawn, make_propensity, solve
from fairmix.fitting.settings import Settings, make_family
from fairmix.fitting.starts import OwnStart
from fairmix.input.columns import Columns
from fairmix.input.data import Data
from fairmix.input.groups import Groups, Seats
from fairmix.kernels.totals import FloatArray
from fairmix.mixture.mixture import Mixture
from fairmix.mixture.model import Model
from fairmix.results.fitted import Fairness, Fitted
from fairmix.results.freshness import TrainingRows
from fairmix.results.verdict import MISSED, measure
from fairmix.solvers import Bound, Iteration, Solution, Status
from fairmix.system.notices import notify
from fairmix.system.threads import one_blas_thread
from fairmix.tables import Journal, MemoryStore, Store, Table, equal_rows, read_identity

HISTORY_DTYPE = [(name, np.float64) for name in Iteration._fields]
# Rows of which the most frequent one is looked for. The answer only words a warning, so a sample of
# the table is enough.
REPEAT_ROWS = 100_000
# How far below the largest number the sum of all squares must stay: solvers multiply it by weights,
# numbers of clusters and the like.
SPARE = 1e4


@dataclass(frozen=True)
class Checkpoint:
    """A file that keeps the passes of an unfinished fit.

    Attributes
    ----------
    path : Path
        The file.
    parameters : dict of str to str
        What the fit is of, beside its rows: a file of other parameters is refused.
    seeded : bool
        Whether the user gave a seed. If not, the seeds of the unfinished fit are as good as any.
    """

    path: Path
    parameters: dict[str, str]
    seeded: bool

    def open(
        self,
        store: Store,
        seeds: Sequence[int],
        warm: FloatArray | None,
        own: OwnStart | None,
    ) -> tuple[Journal, Sequence[int]]:
        """The journal, and the seeds of the fit that it is of."""
        if not self.seeded and self.path.exists():
            seeds = read_identity(self.path).get("seeds", seeds)
        identity = {
            # Other code or another NumPy may round differently, and old and new passes would mix.
            "version": __version__,
            "numpy": np.__version__,
            "data": store.summary.digest,
            "seeds": list(seeds),
            **self.parameters,
        }
        if warm is not None:
            identity["warm"] = warm.tolist()
        if own is not None:
            identity["start"] = own.digest
        return Journal(self.path, identity), seeds


def learn(
    settings: Settings,
    data: Data,
    seeds: Sequence[int],
    *,
    warm: Model | None = None,
    own: OwnStart | None = None,
    checkpoint: Checkpoint | None = None,
    watch: Watch = lambda _: nullcontext(),
    streamed: bool = False,
) -> Fitted:
    """Fit a mixture to data.

    Parameters
    ----------
    settings : Settings
        Choices of the user.
    data : Data
        The rows.
    seeds : sequence of two int
        Of the starts, and of the sample for P(group | x).
    warm : Model or None
        A model to start from.
    own : OwnStart or None
        A start of the user's, where there is no model to start from.
    checkpoint : Checkpoint or None
        Where an unfinished fit is kept.
    watch : callable
        Entered for each climb with the most iterations, if that is known; gets each iteration.
    streamed : bool
        Whether more rows will come, with which a Balance that is out of reach may come within it.

    Returns
    -------
    Fitted
    """
    with one_blas_thread():
        columns, store = data.columns, data.store(data.columns)
        _check_rows(store, settings)
        check_limit(settings, data.groups, store, streamed=streamed)
        # Before columns are standardised, because certificates compare rows as users give them.
        training_rows = TrainingRows.of(store) if isinstance(store, MemoryStore) else None
        moments = store.summary.moments
        columns.check_observed(moments.weight)
        if settings.standardize and columns.numeric:
            columns = columns.standardized(moments.mean, moments.variance)
            # The rest of the summary does not depend on the scale, so no second sweep is needed.
            summary = store.summary._replace(moments=moments.standardized())
            store = data.store(columns, summary)
        model, solution, table = _solve(
            settings, data, columns, store, seeds, warm, own, checkpoint, watch
        )
        fitted = describe(settings, data, model, solution, table, training_rows)
    warn_of(settings, fitted, solution.status, table)
    return fitted


def _solve(
    settings: Settings,
    data: Data,
    columns: Columns,
    store: Store,
    seeds: Sequence[int],
    warm: Model | None,
    own: OwnStart | None,
    checkpoint: Checkpoint | None,
    watch: Watch,
) -> tuple[Model, Solution, Table]:
    journal = None
    if checkpoint is not None:
        journal, seeds = checkpoint.open(store, seeds, None if warm is None else warm.theta, own)
    mixture = Mixture(make_family(settings, columns, store))
    seats = Seats.of(data.groups)
    propensity = make_propensity(settings, store, seeds[1], seats)
    aware = settings.assignment == "aware"
    table = Table(
        store,
        mixture.family.encode,
        propensity=propensity,
        aware=aware,
        membership=seats.membership,
        journal=journal,
    )
    start = None if warm is None else warm.theta_for(mixture)
    if own is not None and start is None:
        start = own.theta(
            mixture, columns, store, partial(drawn, settings, mixture, store, seeds[0])
        )
    try:
        solution = solve(settings, mixture, table, seeds[0], start, watch)
    except np.linalg.LinAlgError as error:
        raise ValueError(
            f"covariance_type={settings.covariance_type!r} meets a singular covariance ({error}), "
            f"with reg_covar={settings.reg_covar:g}. Raise reg_covar, or drop columns that others "
            "determine."
        ) from error
    if journal is not None:
        journal.remove()
        # Later passes must not bring the file back.
        table.journal = None
    order = np.arange(mixture.n_components)
    if own is None:
        # Numbered by decreasing weight, so that fits compare. Clusters of the user's keep theirs.
        order = np.argsort(-mixture.weights(solution.theta), kind="stable")
    offsets = None if solution.offsets is None else solution.offsets[:, order]
    model = Model(
        columns,
        mixture,
        mixture.reorder(solution.theta, order),
        offsets,
        # Without a tilt the propensity was only for the start.
        None if offsets is None else propensity,
        solution.temperature,
        aware and offsets is not None,
        data.splits_ties,
        None if offsets is None else seats.membership,
    )
    return model, solution, table


def describe(
    settings: Settings,
    data: Data,
    model: Model,
    solution: Solution,
    table: Table,
    training_rows: TrainingRows | None = None,
) -> Fitted:
    """What is known of a model on the rows of a table that is encoded for it."""
    everybody = data.everybody(model.columns)
    # Where the table lacks rows, the labels of all come from a prediction below.
    labels, hard, soft = model.assign(table, labels=data.in_memory and everybody is None)
    if everybody is not None:
        rows, codes = everybody
        labels = model.labels(rows, codes, n_jobs=store_jobs(table.store))
    groups = Groups.none() if data.groups is None else data.groups.without_rows()
    return Fitted(
        model=model,
        rule=settings.rule,
        groups=groups,
        fairness=_fairness(settings, groups, solution, table, hard, soft),
        lower_bound=solution.objective,
        history=history_of(solution.history, groups),
        converged=solution.status in (Status.CONVERGED, Status.STALLED),
        filled=int((hard.sum(axis=0) > 0).sum()),
        n_passes=table.passes,
        labels=labels,
        set_aside=data.set_aside,
        training_rows=training_rows,
    )


def history_of(rows: Sequence[Iteration], groups: Groups) -> NDArray[np.void]:
    """Iterations as a structured array; without groups to compare there is no gap to tell."""
    history = np.array([tuple(row) for row in rows], dtype=HISTORY_DTYPE)
    if len(groups.names) < 2:
        # Solvers see one group of all rows.
        history["gap"] = history["balance"] = np.nan
    return history


def _fairness(
    settings: Settings,
    groups: Groups,
    solution: Solution,
    table: Table,
    hard: FloatArray,
    soft: FloatArray,
) -> Fairness:
    criterion = settings.measure
    if solution.multipliers is not None:
        # The dual norm of the multipliers is the strength whose penalised fit this is. Those of a
        # cone have none.
        penalty = settings.limit is None or isinstance(settings.limit, MaxGap)
        penalty = penalty and table.membership is None
        # Where the last rows were counted, offsets of a group have moved on their own.
        centred = solution.multipliers - solution.multipliers.mean(axis=0)
        strength = criterion.support(centred) if penalty else np.nan
    else:
        penalised = len(groups.names) > 0 and settings.fairness_strength != "auto"
        strength = float(settings.fairness_strength) if penalised else 0.0
    if len(groups.names) < 2:
        return Fairness(strength=strength)
    membership = table.membership
    if membership is None:
        return _of_groups(settings, table, hard, soft, slice(None), "", strength)
    attributes = [
        _of_groups(settings, table, hard, soft, part, title, strength)
        for title, part in zip(membership.titles, membership.parts, strict=True)
    ]
    return Fairness.worst(attributes, strength)


def _of_groups(
    settings: Settings,
    table: Table,
    hard: FloatArray,
    soft: FloatArray,
    part: slice,
    title: str,
    strength: float,
) -> Fairness:
    """Of the groups of one attribute."""
    criterion, hard, soft = settings.measure, hard[part], soft[part]
    labels, mass = settings.on_labels, hard if settings.on_labels else soft
    rates, sizes, steps = _rates(mass), table.group_sizes[part], table.rate_steps[part]
    # Without a limit, what whole rows resolve of the gap.
    given = settings.limit
    limit = MaxGap(0.0, settings.criterion) if given is None else given.of(title)
    _, resolution = measure(limit, rates, sizes, steps, labels=labels)
    return Fairness(
        label_gap=criterion.value(_rates(hard)),
        soft_gap=criterion.value(_rates(soft)),
        ratio=smallest_ratio(rates),
        balance=smallest_ratio(mass),
        rates=rates,
        resolution=resolution,
        strength=strength,
    )


def _rates(mass: FloatArray) -> FloatArray:
    return np.asarray(mass / mass.sum(axis=1, keepdims=True))


def store_jobs(store: Store) -> int:
    """Threads of a store in memory."""
    return store.n_jobs if isinstance(store, MemoryStore) else 1


def warn_of(settings: Settings, fitted: Fitted, status: Status, table: Table) -> None:
    """Say what the user must know: empty clusters, a missed bound, an unfinished climb."""
    if fitted.filled < settings.n_components:
        notify(
            f"Only {fitted.filled} of n_components={settings.n_components} clusters have members. "
            f"Lower n_components, loosen {_asked(settings)}, or raise n_init.",
            ConvergenceWarning,
        )
    verdict = fitted.verdict
    if verdict.word == MISSED:
        # Enough digits to tell the two numbers apart.
        by = f", by about {verdict.rows} rows" if verdict.rows and settings.on_labels else ""
        side = "below" if verdict.at_least else "above"
        notify(
            f"The {verdict.noun} of the {settings.gap_of} is {verdict.value:.6g}, {side} "
            f"{verdict.parameter}={verdict.bound:g}{by}. {_repeats(settings, fitted, table)}"
            f"Loosen {verdict.parameter}, raise n_init or max_iter, lower n_components, or try "
            "gap_of='probabilities'.",
            ConvergenceWarning,
        )
    if status is Status.MAX_ITER:
        notify(status.value, ConvergenceWarning)


def _asked(settings: Settings) -> str:
    """The parameter that asks for fairness."""
    return "fairness_strength" if settings.limit is None else settings.limit.parameter


def _repeats(settings: Settings, fitted: Fitted, table: Table) -> str:
    """Why labels may miss a bound: equal rows move together, unless they are split."""
    if not settings.on_labels or settings.ties == "split":
        return ""
    assert fitted.fairness.rates is not None
    # A fixed seed: the same fit gives the same warning.
    sample = table.store.sample(REPEAT_ROWS, np.random.default_rng(0))
    # The largest share of a group that moves as one, and what a rate would have to move by.
    own = 1 / np.bincount(sample.groups)[sample.groups]
    equal = equal_rows(sample.rows)
    counts = np.bincount(equal)
    tied = own * (counts[equal] > 1)
    step = np.bincount(equal_rows(sample.rows, sample.groups), tied).max()
    missing = Bound(*settings.bounded(table)).missing(fitted.fairness.rates)
    most = counts.max()
    if most == 1 or step < missing:
        return ""
    return (
        f"Equal rows get equal labels, and the most frequent one is {most / sample.n_rows:.1%} "
        "of all: ties='split' shares them out between clusters. "
    )


def check_limit(
    settings: Settings, groups: Groups | None, store: Store, *, streamed: bool = False
) -> None:
    """Refuse what groups of these sizes cannot have, and numbers for attributes there are not.

    A stream, whose groups may grow, is warned of the former.
    """
    limit, membership = settings.limit, Seats.of(groups).membership
    if groups is None or len(groups.names) < 2:
        return
    if isinstance(limit, ByAttribute):
        limit.check(() if membership is None else membership.titles)
    if membership is not None and settings.fairness_strength not in ("auto", 0):
        raise ValueError(
            f"fairness_strength={settings.fairness_strength!r} weighs one gap, but "
            "attributes='each' has one for each attribute. Set fairness_strength='auto', or "
            "attributes='intersect'."
        )
    if limit is None or limit.parameter != MinBalance.parameter:
        return
    # The same as those of a table, which is not made yet.
    sizes = store.group_sizes if membership is None else membership.matrix @ store.group_sizes
    titles = ("",) if membership is None else membership.titles
    parts = [slice(None)] if membership is None else membership.parts
    for title, part in zip(titles, parts, strict=True):
        best, bound = best_balance(sizes[part]), limit.of(title).bound
        if bound > best + ROUNDING:
            among = f" of {title}" if title else ""
            # Rounded down: a number that is named here must be one that is accepted.
            said = (
                f"min_balance={bound:g} is out of reach: clusters cannot all have more than "
                f"{np.floor(best * 1e6) / 1e6:.6f}, the size of the smallest judged group{among} "
                "over that of the largest. Lower min_balance, or set min_ratio, whose best value "
                "is 1."
            )
            if not streamed:
                raise ValueError(said)
            notify(said)


def _check_rows(store: Store, settings: Settings) -> None:
    """Refuse too few rows, and numbers whose squares cannot be added up in their precision."""
    with np.errstate(over="ignore", invalid="ignore"):
        moments = store.summary.moments
    # Missing values are not numbers, so a sum of NaN says nothing about size.
    squares = np.where(np.isinf(moments.mean), np.inf, moments.squares)
    # The stricter limit first: the precision of the rows is known only after reading one.
    if not np.fmax.reduce(squares, initial=0.0) < np.finfo(np.float32).max / SPARE:
        numeric = store.sample(1, np.random.default_rng(0)).rows.numeric
        assert numeric is not None
        over = squares >= np.finfo(numeric.dtype).max / SPARE
        if over.any():
            raise ValueError(
                f"X holds numbers so large that their squares overflow in {numeric.dtype}, first "
                f"in numeric column {int(np.argmax(over))}. Divide them by a constant, or drop "
                "them."
            )
    if store.n_rows < settings.n_components:
        raise ValueError(
            f"n_components={settings.n_components} clusters need at least as many rows, X has "
            f"n_samples={store.n_rows}. Lower n_components or give more rows."
        )
