"""The table of a comparison: one row per method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isnan, nan
from typing import TYPE_CHECKING, Any, Literal

from fairmix.plot import ComparisonDisplay
from fairmix.results.verdict import listed_groups, met_of
from fairmix.studies.result import ResultTable, figure
from fairmix.trials.rows import dominated_points

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["FIGURES", "Comparison", "MethodRow", "mark_beaten"]

FIGURES = ("cost", "gap", "soft_gap", "balance", "nll")  # of the rows of the fit, and held-out ones
HELD_OUT = "test_"  # begins the names of figures of held-out rows


@dataclass(frozen=True)
class MethodRow:
    """One method of a `Comparison`. What is not defined is NaN or None.

    Attributes
    ----------
    method : str
        Its name.
    cost : float
        Squared distances of the rows to the means of their clusters.
    gap : float
        The criterion of the comparison, of the labels and of the groups that are judged.
    soft_gap : float
        The same of the probabilities, for methods that have some.
    balance : float
        Of the labels.
    nll : float
        Minus the mean log-likelihood, for mixtures.
    test_cost, test_gap, test_soft_gap, test_balance, test_nll : float
        The same of the held-out rows, for methods that assign unseen rows.
    max_gap : float
        The method's own bound; infinite where it has none.
    verdict, test_verdict : str or None
        Whether that is met, on the rows of the fit and on held-out rows: one of the five words of
        ``FairMixture.verdict_``.
    clusters : int
        Clusters with members.
    seconds : float
        Of ``fit``.
    peak_mb : float
        Most memory that ``fit`` added to the process, in MB of 10^6 bytes. Linux only.
    assigns_unseen : bool or None
        Whether rows that were not in ``fit`` get a label.
    needs_group : {"yes", "no", "never"} or None
        Whether such rows must come with their group. ``"never"``: ``fit`` takes no group either.
    dominated : bool
        Whether another method is at least as good in gap and cost, and better in one.
    error : str or None
        Why the method has no figures.
    warnings : tuple of str
        What it warned of.

    Examples
    --------
    >>> MethodRow("K-means", cost=120.0, gap=0.1).gap
    0.1
    """

    method: str
    cost: float = nan
    gap: float = nan
    soft_gap: float = nan
    balance: float = nan
    nll: float = nan
    test_cost: float = nan
    test_gap: float = nan
    test_soft_gap: float = nan
    test_balance: float = nan
    test_nll: float = nan
    max_gap: float = nan
    verdict: str | None = None
    test_verdict: str | None = None
    clusters: int = 0
    seconds: float = nan
    peak_mb: float = nan
    assigns_unseen: bool | None = None
    needs_group: Literal["yes", "no", "never"] | None = None
    dominated: bool = False
    error: str | None = None
    warnings: tuple[str, ...] = ()

    @property
    def met(self) -> bool | None:
        """Whether the bound is met; None where there is none, or nothing is judged."""
        return None if self.verdict is None else met_of(self.verdict)


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
    >>> row = MethodRow("mine", 12.0, 0.1, balance=0.7, clusters=3, assigns_unseen=True)
    >>> print(Comparison((row,)))
    method  cost     gap  soft gap  balance  nll  verdict  clusters  seconds  peak MB  unseen  group
    mine    12.0  0.1000         -   0.7000    -        -         3        -        -     yes      -
    """

    rows: tuple[MethodRow, ...]
    models: Mapping[str, Any] = field(default_factory=dict)
    criterion: str = "gap"
    n_train: int = 0
    n_test: int = 0
    unjudged: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        marks = [_mark(row) for row in self.rows]
        head = [*_titles(""), "clusters", "seconds", "peak MB", "unseen", "group", ""]
        lines = [[*_cells(row, ""), *_run(row), m] for row, m in zip(self.rows, marks, strict=True)]
        parts = [_aligned([head, *lines])]
        if self.n_test:
            held_out = [[*_cells(row, HELD_OUT), ""] for row in self.rows if row.assigns_unseen]
            title = f"On {self.n_test:,} held-out rows (above: {self.n_train:,} rows of the fit):"
            parts.append(f"{title}\n{_aligned([[*_titles(HELD_OUT), ''], *held_out])}")
        notes = [
            f"{row.method}: {note}"
            for row in self.rows
            for note in (*([row.error] if row.error else []), *row.warnings)
        ]
        if self.unjudged:
            notes.insert(0, f"not judged: {listed_groups(self.unjudged)}")
        return "\n\n".join([*parts, *(["\n".join(notes)] if notes else [])])

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
        found = [point for point in found if not isnan(point[1] + point[2])]
        beaten = dominated_points([(gap, cost) for _, gap, cost in found])
        return [(*point, below) for point, below in zip(found, beaten, strict=True)]


def mark_beaten(rows: Sequence[MethodRow]) -> tuple[MethodRow, ...]:
    """The rows with ``dominated`` set, by gap and cost of the rows of the fit.

    Examples
    --------
    >>> rows = [MethodRow("a", 9.0, 0.1), MethodRow("b", 9.5, 0.1), MethodRow("failed")]
    >>> [row.dominated for row in mark_beaten(rows)]
    [False, True, False]
    """
    beaten = dominated_points([(row.gap, row.cost) for row in rows])
    return tuple(replace(row, dominated=below) for row, below in zip(rows, beaten, strict=True))


def _mark(row: MethodRow) -> str:
    if row.error is not None:
        return "failed"
    return "dominated" if row.dominated else ""


def _titles(before: str) -> list[str]:
    titles = [name.replace("_", " ") for name in FIGURES]
    return ["held out" if before else "method", *titles, "verdict"]


def _cells(row: MethodRow, before: str) -> list[str]:
    values = [(name, getattr(row, before + name)) for name in FIGURES]
    figures = [figure(name, value) for name, value in values]
    return [row.method, *figures, getattr(row, f"{before}verdict") or "-"]


def _run(row: MethodRow) -> list[str]:
    unseen = {True: "yes", False: "no", None: "-"}[row.assigns_unseen]
    seconds = "-" if isnan(row.seconds) else f"{row.seconds:.1f}"
    peak = "-" if isnan(row.peak_mb) else f"{row.peak_mb:,.0f}"
    return [str(row.clusters or "-"), seconds, peak, unseen, row.needs_group or "-"]


def _aligned(lines: Sequence[Sequence[str]]) -> str:
    """Columns of equal width: the method and the mark at the left, figures at the right."""
    first, *widths, _ = [max(map(len, column)) for column in zip(*lines, strict=True)]
    out = []
    for method, *figures, mark in lines:
        cells = [cell.rjust(width) for cell, width in zip(figures, widths, strict=True)]
        out.append("  ".join([method.ljust(first), *cells, mark]).rstrip())
    return "\n".join(out)
