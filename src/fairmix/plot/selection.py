"""A picture of information criteria against the number of clusters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from fairmix.plot._display import BLUE, GREEN, GREY, ORANGE, RED, Display
from fairmix.results.verdict import MISSED
from fairmix.trials.rows import SelectionRow, best_row
from fairmix.trials.walks import NUMBERS, Trials

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fairmix.estimator import FairMixture
    from fairmix.studies import Selection

STYLES = {"bic": (BLUE, "o"), "aic": (ORANGE, "s"), "icl": (GREEN, "^")}


class SelectionDisplay(Display):
    """Picture of a choice of the number of clusters.

    One line per criterion, lower is better; a dashed line stands at the number chosen, and a
    cross marks fits that miss the bound or left a cluster empty.

    Parameters
    ----------
    n_components : array-like of int of shape (n_fits,)
        Numbers of clusters.
    values : mapping of str to array-like of shape (n_fits,)
        Each criterion, by name.
    best : int
        The number chosen.
    criterion : str, default="bic"
        By which criterion.
    doubtful : array-like of bool of shape (n_fits,), default=None
        Fits that miss the bound or left a cluster empty.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where it is drawn.
    lines_ : dict of str to matplotlib Line2D
        The line of each criterion.
    best_line_ : matplotlib Line2D
        At the number chosen.

    Examples
    --------
    >>> from fairmix.plot import SelectionDisplay
    >>> display = SelectionDisplay(n_components=[2, 3], values={"bic": [910.0, 900.0]}, best=3)
    >>> display.plot().lines_["bic"].get_ydata().tolist()
    [910.0, 900.0]
    """

    def __init__(
        self,
        *,
        n_components: ArrayLike,
        values: Mapping[str, ArrayLike],
        best: int,
        criterion: str = "bic",
        doubtful: ArrayLike | None = None,
    ) -> None:
        self.n_components = np.asarray(n_components)
        self.values = {name: np.asarray(column) for name, column in values.items()}
        self.best = best
        self.criterion = criterion
        none = np.zeros(len(self.n_components), dtype=bool)
        self.doubtful = none if doubtful is None else np.asarray(doubtful, dtype=bool)

    @classmethod
    def from_estimator(
        cls,
        estimator: FairMixture,
        X: Any,
        *,
        sensitive_features: Any = None,
        n_components: Iterable[int] = NUMBERS,
        criterion: str = "bic",
        ax: Axes | None = None,
    ) -> Self:
        """Fit a model with several numbers of clusters and draw the criteria.

        Parameters
        ----------
        estimator, X, sensitive_features, n_components, criterion
            As in `fairmix.select_n_components`, which keeps the models too.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        SelectionDisplay
        """
        rows, _ = Trials(estimator, X, sensitive_features).over_numbers(n_components, criterion)
        return cls._from_rows(rows, criterion, ax)

    @classmethod
    def from_selection(cls, selection: Selection, *, ax: Axes | None = None) -> Self:
        """Draw a selection.

        Parameters
        ----------
        selection : Selection
            Of `fairmix.select_n_components`.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        SelectionDisplay
        """
        return cls._from_rows(selection.rows, selection.criterion, ax)

    @classmethod
    def _from_rows(cls, rows: Sequence[SelectionRow], criterion: str, ax: Axes | None) -> Self:
        return cls(
            n_components=[row.n_components for row in rows],
            values={name: [getattr(row, name) for row in rows] for name in STYLES},
            # By the rule of `Selection` itself, so that picture and table name the same number.
            best=rows[best_row(rows, criterion)].n_components,
            criterion=criterion,
            # A criterion compares likelihoods; it knows neither of the bound nor of empty clusters.
            doubtful=[row.verdict == MISSED or row.non_empty < row.n_components for row in rows],
        ).plot(ax)

    def _draw(self, ax: Axes) -> None:
        self.lines_ = {}
        for name, values in self.values.items():
            color, marker = STYLES[name]
            (self.lines_[name],) = ax.plot(
                self.n_components, values, color=color, marker=marker, label=name.upper()
            )
        if self.doubtful.any():
            # On the line that decides; crosses on all three would only repeat it.
            chosen = self.values[self.criterion][self.doubtful]
            label = "bound missed or empty clusters"
            where = self.n_components[self.doubtful]
            ax.scatter(where, chosen, marker="x", s=90, color=RED, zorder=3, label=label)
        # Behind the lines, which it must not hide.
        self.best_line_ = ax.axvline(
            self.best,
            color=GREY,
            linestyle="--",
            zorder=0,
            label=f"chosen by {self.criterion.upper()}: {self.best}",
        )
        ax.set(xlabel="number of clusters", ylabel="criterion (lower is better)")
        # Numbers of clusters are whole; automatic ticks would show 2.5.
        ax.set_xticks(self.n_components)
        ax.grid(alpha=0.3)
        ax.legend()
