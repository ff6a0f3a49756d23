"""A selection: the same model with several numbers of clusters."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fairmix.estimator import FairMixture
from fairmix.plot import SelectionDisplay
from fairmix.studies.result import ResultTable, path_text
from fairmix.trials.rows import INFORMATION, SelectionRow, best_row
from fairmix.trials.walks import NUMBERS, Trials

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Selection", "select_n_components"]


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
        return best_row(self.rows, self.criterion)

    def __str__(self) -> str:
        names = ("n_components", *INFORMATION, "label_gap", "soft_gap", "ratio", "balance")
        # By identity, so that of two equal rows one is marked.
        marks = [
            f"best {self.criterion}" if row is self.rows[self._best] else "" for row in self.rows
        ]
        return path_text(self.rows, names, marks)

    def to_dict(self) -> dict[str, Any]:
        """``best``, ``criterion``, and the rows as dicts."""
        return {"best": self.best, "criterion": self.criterion, **super().to_dict()}

    def plot(self, ax: Axes | None = None) -> SelectionDisplay:
        """Draw the criteria: `fairmix.plot.SelectionDisplay.from_selection`."""
        return SelectionDisplay.from_selection(self, ax=ax)


def select_n_components(
    estimator: FairMixture,
    X: Any,
    *,
    sensitive_features: Any = None,
    n_components: Iterable[int] = NUMBERS,
    criterion: str = "bic",
    verbose: int = 0,
) -> Selection:
    """Fit the model with several numbers of clusters and compare information criteria.

    Under a rule of fairness each number is fitted twice: with the rule, which gives the model and
    its gap, ratio and balance, and without it, which gives the criteria. Their theory is about the
    free maximum of the likelihood, and of fits under a rule they often ask for more clusters than
    the data have.

    Parameters
    ----------
    estimator : FairMixture
        The model, with any rule; itself left as it is.
    X, sensitive_features
        As in `FairMixture.fit`.
    n_components : iterable of int, default=range(2, 11)
        Numbers of clusters to try.
    criterion : {"bic", "aic", "icl"}, default="bic"
        What ``best`` minimises. ``"icl"`` asks for separated clusters as well.
    verbose : int, default=0
        1 shows a progress bar on stderr.

    Returns
    -------
    Selection

    Examples
    --------
    >>> from fairmix import FairMixture, select_n_components
    >>> from fairmix.datasets import make_grouped_blobs
    >>> X, groups, _ = make_grouped_blobs(300, 2, separation=8.0, random_state=0)
    >>> select_n_components(FairMixture(random_state=0), X, n_components=range(1, 4)).best
    2
    """
    trials = Trials(estimator, X, sensitive_features, verbose=verbose)
    rows, models = trials.over_numbers(n_components, criterion)
    return Selection(rows, criterion, models)
