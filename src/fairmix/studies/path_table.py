"""Tables of a path: one row per bound, or per number of clusters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from math import inf, isnan
from typing import TYPE_CHECKING, Any

from fairmix.results.verdict import MISSED, met_of

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    from matplotlib.axes import Axes

    from fairmix.estimator import FairMixture
    from fairmix.plot import ParetoFrontDisplay, SelectionDisplay

__all__ = [
    "INFORMATION",
    "FrontRow",
    "ParetoFront",
    "Selection",
    "SelectionRow",
    "mark_dominated",
]

INFORMATION = ("bic", "aic", "icl")  # the criteria of a Selection, and its columns


@dataclass(frozen=True)
class FrontRow:
    """One bound of a `ParetoFront`.

    Attributes
    ----------
    max_gap : float
        The bound; ``inf`` is the plain mixture.
    gap, label_gap, soft_gap, balance : float
        As in `FairMixture`: ``gap`` is the one that ``gap_of`` names.
    cost : float
        Squared distances of the numeric columns (standardised if the model does so) to the means
        of the hard clusters; NaN where there are other columns, or numbers are missing.
    nll : float
        Minus the mean log-likelihood of the untilted mixture.
    non_empty : int
        Clusters with members.
    verdict : str
        Whether the bound is met: one of the five words of ``FairMixture.verdict_``.
    dominated : bool
        Whether another point is at least as good in gap and cost (NLL without one), and better in
        one of them.
    seconds : float
        Of all fits for this bound.
    warnings : tuple of str
        What the kept fit warned of.

    Examples
    --------
    >>> FrontRow(0.01, 0.009, 0.009, 0.02, 0.7, 120.0, 2.5, 3, "met").met
    True
    """

    max_gap: float
    gap: float
    label_gap: float
    soft_gap: float
    balance: float
    cost: float
    nll: float
    non_empty: int
    verdict: str
    dominated: bool = False
    seconds: float = 0.0
    warnings: tuple[str, ...] = ()

    @property
    def met(self) -> bool | None:
        """Whether the bound is met; None where there is none, or nothing is judged."""
        return met_of(self.verdict)


@dataclass(frozen=True)
class SelectionRow:
    """One number of clusters of a `Selection`; fields as in `FrontRow`, criteria as in the model.

    Examples
    --------
    >>> SelectionRow(3, 900.0, 880.0, 950.0, 0.01, 0.01, 0.02, 0.7, 3, "met").bic
    900.0
    """

    n_components: int
    bic: float
    aic: float
    icl: float
    gap: float
    label_gap: float
    soft_gap: float
    balance: float
    non_empty: int
    verdict: str
    seconds: float = 0.0
    warnings: tuple[str, ...] = ()

    @property
    def met(self) -> bool | None:
        """As in `FrontRow`."""
        return met_of(self.verdict)


class ResultTable:
    """What both tables share: rows that convert and print."""

    rows: tuple[Any, ...]

    def __repr__(self) -> str:
        return str(self)

    def to_dict(self) -> dict[str, Any]:
        """The rows as dicts, under ``"rows"``."""
        return {"rows": [asdict(row) | {"met": row.met} for row in self.rows]}

    def to_pandas(self) -> pd.DataFrame:
        """The rows as a pandas DataFrame; warnings joined to one text."""
        frame: pd.DataFrame = _library("pandas").DataFrame(self._records())
        return frame

    def to_polars(self) -> pl.DataFrame:
        """The rows as a Polars DataFrame; warnings joined to one text."""
        frame: pl.DataFrame = _library("polars").DataFrame(self._records())
        return frame

    def _records(self) -> list[dict[str, Any]]:
        return [
            asdict(row) | {"met": row.met, "warnings": " ".join(row.warnings)} for row in self.rows
        ]


@dataclass(frozen=True, eq=False, repr=False)
class ParetoFront(ResultTable):
    """Result of `pareto_front`, from the tightest bound to the loosest; prints as a table.

    Attributes
    ----------
    rows : tuple of FrontRow
        Figures of each bound.
    models : tuple of FairMixture
        The fitted model of each row.

    Examples
    --------
    >>> front = ParetoFront((FrontRow(0.0, 0.0, 0.0, 0.001, 0.7, 120.0, 2.5, 3, "met"),))
    >>> print(front)
    max_gap     gap  label gap  soft gap  balance   cost     nll  clusters  verdict  seconds
          0  0.0000     0.0000    0.0010   0.7000  120.0  2.5000         3      met      0.0
    >>> front.to_pandas()["cost"].tolist()
    [120.0]
    """

    rows: tuple[FrontRow, ...]
    models: tuple[FairMixture, ...] = ()

    def __str__(self) -> str:
        names = ("max_gap", "gap", "label_gap", "soft_gap", "balance", "cost", "nll")
        return _text(self.rows, names, ["dominated" if row.dominated else "" for row in self.rows])

    def dominated(self, x: str = "gap", y: str = "cost") -> list[bool]:
        """Whether another row is at least as good in both columns, and better in one.

        Parameters
        ----------
        x, y : str, default="gap", "cost"
            Columns of the table; lower is better, except for ``balance``.

        Returns
        -------
        list of bool, one for each row
        """
        sign = {"balance": -1}
        return dominated_points(
            [
                (sign.get(x, 1) * getattr(row, x), sign.get(y, 1) * getattr(row, y))
                for row in self.rows
            ]
        )

    def plot(
        self, ax: Axes | None = None, *, x: str = "gap", y: str | None = None
    ) -> ParetoFrontDisplay:
        """Draw the front: `fairmix.plot.ParetoFrontDisplay.from_front`."""
        from fairmix.plot import ParetoFrontDisplay

        return ParetoFrontDisplay.from_front(self, ax=ax, x=x, y=y)


@dataclass(frozen=True, eq=False, repr=False)
class Selection(ResultTable):
    """Result of `select_n_components`; prints as a table, the best row marked.

    Attributes
    ----------
    rows : tuple of SelectionRow
        Figures of each number of clusters.
    criterion : {"bic", "aic", "icl"}
        What ``best`` minimises.
    models : tuple of FairMixture
        The fitted model of each row.

    Examples
    --------
    >>> rows = [
    ...     SelectionRow(k, bic, bic, bic, 0.0, 0.0, 0.0, 0.7, k, "met")
    ...     for k, bic in [(2, 910.0), (3, 900.0)]
    ... ]
    >>> Selection(tuple(rows)).best
    3
    """

    rows: tuple[SelectionRow, ...]
    criterion: str = "bic"
    models: tuple[FairMixture, ...] = ()

    @property
    def best(self) -> int:
        """Number of clusters with the lowest criterion among those that do not miss the bound.

        If all miss it, among all.
        """
        return self.rows[self._best].n_components

    @property
    def best_estimator(self) -> FairMixture:
        """The fitted model with ``best`` clusters."""
        return self.models[self._best]

    @property
    def _best(self) -> int:
        ranks = [(row.verdict == MISSED, getattr(row, self.criterion)) for row in self.rows]
        return ranks.index(min(ranks))

    def __str__(self) -> str:
        names = ("n_components", *INFORMATION, "gap", "label_gap", "soft_gap", "balance")
        marks = [
            f"best {self.criterion}" if row is self.rows[self._best] else "" for row in self.rows
        ]
        return _text(self.rows, names, marks)

    def to_dict(self) -> dict[str, Any]:
        """``best``, ``criterion``, and the rows as dicts."""
        return {"best": self.best, "criterion": self.criterion, **super().to_dict()}

    def plot(self, ax: Axes | None = None) -> SelectionDisplay:
        """Draw the criteria: `fairmix.plot.SelectionDisplay.from_selection`."""
        from fairmix.plot import SelectionDisplay

        return SelectionDisplay.from_selection(self, ax=ax)


def mark_dominated(rows: Sequence[FrontRow]) -> tuple[FrontRow, ...]:
    """The rows with ``dominated`` set: by gap and cost, or likelihood where there is no cost.

    Examples
    --------
    >>> rows = [FrontRow(g, g, g, g, 1.0, c, 0.0, 3, "met") for g, c in [(0.0, 9.0), (0.1, 9.5)]]
    >>> [row.dominated for row in mark_dominated(rows)]
    [False, True]
    """
    points = [(row.gap, row.nll if isnan(row.cost) else row.cost) for row in rows]
    return tuple(
        replace(row, dominated=found)
        for row, found in zip(rows, dominated_points(points), strict=True)
    )


def dominated_points(points: Sequence[tuple[float, float]]) -> list[bool]:
    """Whether another point is nowhere higher and somewhere lower, for each."""
    return [any(a <= x and b <= y and (a, b) != (x, y) for a, b in points) for x, y in points]


def _text(rows: Sequence[FrontRow | SelectionRow], names: Sequence[str], marks: list[str]) -> str:
    """Aligned columns, one line per row, and the warnings below."""
    head = [name.replace("_gap", " gap") if name != "max_gap" else name for name in names]
    lines = [[*head, "clusters", "verdict", "seconds", ""]]
    for row, mark in zip(rows, marks, strict=True):
        figures = [figure(name, getattr(row, name)) for name in names]
        lines.append([*figures, str(row.non_empty), row.verdict, f"{row.seconds:.1f}", mark])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    # The last column holds words, all others numbers.
    out = [
        "  ".join([*(c.rjust(w) for c, w in zip(line, widths[:-1], strict=False)), line[-1]])
        for line in lines
    ]
    first = names[0]
    notes = [
        f"{first} {figure(first, getattr(row, first))}: {warning}"
        for row in rows
        for warning in row.warnings
    ]
    return "\n".join([line.rstrip() for line in out] + ([""] if notes else []) + notes)


def figure(name: str, value: float) -> str:
    """A figure as text; a dash where there is none, as a gap without groups."""
    if isnan(value):
        return "-"
    if name in ("max_gap", "n_components"):
        return "plain" if value == inf else f"{value:g}"
    if name == "cost" or name in INFORMATION:
        return f"{value:,.1f}" if abs(value) < 1000 else f"{value:,.0f}"
    return f"{value:.4f}"


def _library(name: str) -> Any:
    """Import late: neither library is needed for anything else."""
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(
            f"to_{name}() needs {name}, which is not installed. Install it or use to_dict()."
        ) from error
