"""A comparison: several clustering methods on the same rows, by the same measures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isnan
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.utils import check_array

from fairmix.criteria import criterion_named
from fairmix.estimator import FairMixture
from fairmix.estimator.validation import check_parameters
from fairmix.input.groups import MissingGroups, listed_groups
from fairmix.input.opening import take_groups
from fairmix.plot import ComparisonDisplay
from fairmix.results.text import rows_text
from fairmix.results.verdict import MIN_GROUP_SIZE
from fairmix.studies.methods import (
    HELD_OUT,
    GroupedRows,
    MethodRow,
    mark_beaten,
    measure,
    read_methods,
)
from fairmix.studies.result import ResultTable
from fairmix.system.progress import progress
from fairmix.trials.rows import dominated_points

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Comparison", "compare"]

# Of the rows of the fit, and of held-out ones.
FIGURES = ("cost", "gap", "soft_gap", "ratio", "balance", "nll")
RUN = ("clusters", "seconds", "peak_mb", "assigns_unseen", "needs_group")  # of the fit itself


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(ResultTable):
    """Result of `fairmix.compare`; prints as a table.

    Attributes
    ----------
    rows : tuple of MethodRow
        Figures of each method.
    models : mapping of str to estimator
        The fitted methods, by name, without those that failed.
    criterion : str
        What ``gap`` is.
    n_train, n_test : int
        Rows of the fit, and rows held out.
    unjudged : dict of str to int
        Groups with too few rows of the fit to be judged, and these rows.

    Examples
    --------
    >>> row = MethodRow("mine", 12.0, 0.1, ratio=0.8, balance=0.7, clusters=3)
    >>> table = Comparison((row,))
    >>> print(table.tables(("cost", "gap", "ratio", "balance"), ("clusters",))[0])
    method  cost     gap   ratio  balance  clusters
    mine    12.0  0.1000  0.8000   0.7000         3
    """

    rows: tuple[MethodRow, ...]
    models: Mapping[str, Any] = field(default_factory=dict)
    criterion: str = "gap"
    n_train: int = 0
    n_test: int = 0
    unjudged: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        marks = [_mark(row) for row in self.rows]
        parts = self.tables((*FIGURES, "verdict"), RUN, marks)
        notes = self.notes()
        if self.unjudged:
            # First, because it changes how every gap above is to be read.
            notes.insert(0, f"not judged: {listed_groups(self.unjudged)}")
        return "\n\n".join([*parts, *(["\n".join(notes)] if notes else [])])

    def tables(
        self, figures: Sequence[str], run: Sequence[str], marks: Sequence[str] | None = None
    ) -> list[str]:
        """The rows as text, and a second text of the held-out rows where there are some.

        Parameters
        ----------
        figures : sequence of str
            Columns that are of rows, and so of held-out rows too.
        run : sequence of str
            Columns that are of the fit.
        marks : sequence of str, default=None
            A word behind each row.

        Returns
        -------
        list of str
        """
        parts = [rows_text(self.rows, ("method", *figures, *run), marks=marks)]
        if self.n_test:
            # A method without labels for new rows would be a line of dashes.
            able = [row for row in self.rows if row.assigns_unseen]
            title = f"On {self.n_test:,} held-out rows (above: {self.n_train:,} rows of the fit):"
            parts.append(f"{title}\n{rows_text(able, ('method', *figures), before=HELD_OUT)}")
        return parts

    def notes(self) -> list[str]:
        """Why methods have no figures, and what they warned of.

        Returns
        -------
        list of str
        """
        return [
            f"{row.method}: {note}"
            for row in self.rows
            for note in (*([row.error] if row.error else []), *row.warnings)
        ]

    def to_dict(self) -> dict[str, Any]:
        """``criterion``, ``n_train``, ``n_test``, ``unjudged``, and the rows as dicts."""
        sizes = {"n_train": self.n_train, "n_test": self.n_test, "unjudged": dict(self.unjudged)}
        return {"criterion": self.criterion, **sizes, **super().to_dict()}

    def plot(self, ax: Axes | None = None, *, held_out: bool = False) -> ComparisonDisplay:
        """Draw cost against gap; see `fairmix.plot.ComparisonDisplay`.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; None makes a new figure.
        held_out : bool, default=False
            Figures of the held-out rows.

        Returns
        -------
        ComparisonDisplay
        """
        return ComparisonDisplay.from_comparison(self, ax=ax, held_out=held_out)

    def points(self, *, held_out: bool = False) -> list[tuple[str, float, float, bool]]:
        """Method, gap, cost and whether it is dominated, of the methods that have both figures.

        Parameters
        ----------
        held_out : bool, default=False
            Figures of the held-out rows.

        Returns
        -------
        list of tuple
        """
        if held_out and not self.n_test:
            raise ValueError("held_out=True, but no rows were held out. Set test_size in compare.")
        before = HELD_OUT if held_out else ""
        found = [
            (row.method, getattr(row, f"{before}gap"), getattr(row, f"{before}cost"))
            for row in self.rows
        ]
        # A method that failed can neither be drawn nor dominate another.
        found = [point for point in found if not isnan(point[1] + point[2])]
        beaten = dominated_points([(gap, cost) for _, gap, cost in found])
        return [(*point, below) for point, below in zip(found, beaten, strict=True)]


def compare(
    methods: Mapping[str, Any] | None,
    X: Any,
    *,
    sensitive_features: Any,
    n_clusters: int | None = None,
    test_size: float | None = None,
    criterion: str = "gap",
    min_group_size: int = MIN_GROUP_SIZE,
    missing_groups: MissingGroups = "error",
    random_state: int = 0,
    verbose: int = 0,
) -> Comparison:
    """Fit several clustering methods to the same rows and measure them alike.

    A method that fails on the data has a row that says why; the others go on.

    Parameters
    ----------
    methods : mapping of str to clusterer, or None
        Unfitted scikit-learn clusterers by name, which are themselves left as they are. Those
        whose ``fit`` has a parameter ``sensitive_features`` get the groups. None: those of
        `default_methods`, with ``n_clusters``.
    X : array-like or data frame of shape (n_rows, n_features)
        Finite numbers; every method gets the same array.
    sensitive_features : str, array-like or table
        As in `FairMixture.fit`: the group of each row, or the name of a column of X.
    n_clusters : int, default=None
        Clusters of the default methods; only for ``methods=None``.
    test_size : float or int, default=None
        Share or number of random rows that no method learns from. Methods that assign unseen rows
        are measured on them too, without rows of a group that no row of the fit has.
    criterion : {"gap", "additive_gap", "worst_pair_gap"}, default="gap"
        What the gaps are; see `fairmix.metrics`.
    min_group_size : int, default=30
        Groups of fewer rows of the fit, or of the held-out rows, are not judged: gaps, balances
        and verdicts are of the others. Every method gets all rows.
    missing_groups : {"error", "drop", "group"}, default="error"
        What a missing value in ``sensitive_features`` is: an error, a row that no method gets, or
        the group "missing".
    random_state : int, default=0
        Seed of the split and of the default methods.
    verbose : int, default=0
        1 shows a progress bar on stderr.

    Returns
    -------
    Comparison

    Notes
    -----
    The verdict of a method is on its own bound: the rule of a `FairMixture` with
    ``fairness_strength="auto"`` (``max_gap`` by its own criterion, ``min_ratio`` or
    ``min_balance``), and ``max_gap`` of `AlignedFairKMeans`, which is for every pair of groups.
    Other methods have no bound. Ratio and balance are measured of all methods; no baseline takes
    a bound on them or is judged by one.

    ``peak_mb`` is the highest resident memory of the process during ``fit`` less that right before
    it, as the kernel counts it: memory of compiled code is in it, that of other processes is not.
    It is an estimate: pages that an allocator kept from earlier work are used again unseen, and
    libraries loaded during ``fit`` count. It is NaN where the kernel does not tell, that is, other
    than on Linux. ``seconds`` are of one run, with the threads that each method uses.

    Examples
    --------
    >>> from sklearn.cluster import KMeans
    >>> from fairmix import FairMixture, compare
    >>> from fairmix.datasets import make_grouped_blobs
    >>> X, groups, _ = make_grouped_blobs(300, 2, separation=3.0, random_state=0)
    >>> methods = {
    ...     "K-means": KMeans(2, n_init=1, random_state=0),
    ...     "fair mixture": FairMixture(2, assignment="aware", random_state=0),
    ... }
    >>> table = compare(methods, X, sensitive_features=groups)
    >>> [(row.method, row.needs_group) for row in table.rows]
    [('K-means', 'never'), ('fair mixture', 'yes')]
    """
    # Wrong arguments are told before any data are read.
    criterion_named(criterion)
    chosen = read_methods(methods, n_clusters, criterion, min_group_size, random_state)
    # The same door as that of the model, which takes names of columns.
    check_parameters(FairMixture(min_group_size=min_group_size, missing_groups=missing_groups))
    X, groups, _ = take_groups(X, sensitive_features, missing_groups)
    if groups is None:
        raise ValueError(
            "sensitive_features=None: a comparison tells how groups fare under several methods. "
            "Give the group of each row."
        )
    # One array for all methods: what they differ in must not be how they read a table.
    data = check_array(X, dtype=(np.float64, np.float32), order="C", input_name="X")
    # A dropped row has the code -1.
    known = groups.codes >= 0
    names = np.asarray(groups.names)[groups.codes[known]]
    train = GroupedRows(data[known], names, criterion, min_group_size)
    test = None
    if test_size is not None:
        # Of row numbers, so that rows and their groups are divided alike.
        parts = train_test_split(
            np.arange(len(train.X)), test_size=test_size, random_state=random_state
        )
        train, test = train.take(parts[0]), train.take(parts[1])
        # A group may be so small that none of its rows is in the fit: no map can place it.
        test = test.take(np.flatnonzero(np.isin(test.groups, train.groups)))
        # The verdict on held-out rows is about the groups that the fit was judged by.
        test = replace(test, among=train.judged)
    rows, models = [], {}
    with progress("compare", len(chosen), shown=bool(verbose)) as tick:
        for name, method in chosen.items():
            row, model = measure(name, method, train, test)
            rows.append(row)
            if model is not None:
                models[name] = model
            tick(f"{name}  gap {row.gap:.4f}")
    n_test = 0 if test is None else len(test.X)
    return Comparison(mark_beaten(rows), models, criterion, len(train.X), n_test, train.unjudged)


def _mark(row: MethodRow) -> str:
    if row.error is not None:
        return "failed"
    return "dominated" if row.dominated else ""
