"""A picture of the components: an ellipse for each, in two dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from fairmix.input.columns import Columns, as_frame
from fairmix.input.groups import encode_groups
from fairmix.plot._display import PALETTE, Display

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fairmix.estimator import FairMixture

FloatArray = NDArray[np.float64]

SHOWN = 2000  # points; more would only be a blot
REACH = 2.0  # standard deviations from the mean to the ellipse, which then holds 86% of its rows


class ComponentsDisplay(Display):
    """Picture of the components: an ellipse at two standard deviations around each mean.

    Parameters
    ----------
    means : array-like of shape (n_components, 2)
        Centres.
    covariances : array-like of shape (n_components, 2, 2)
        Their covariances.
    points : array-like of shape (n_points, 2)
        Rows to draw.
    labels : array-like of int of shape (n_points,)
        Their components.
    names : sequence of str
        Names of the components.
    axis_names : pair of str, default=("x", "y")
        Labels of the axes.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where it is drawn.
    ellipses_ : list of matplotlib Ellipse
        One per component.
    points_ : matplotlib PathCollection
        The rows.

    Examples
    --------
    >>> from fairmix.plot import ComponentsDisplay
    >>> display = ComponentsDisplay(
    ...     means=[[0, 0]], covariances=[[[4, 0], [0, 1]]], points=[[1, 1]], labels=[0], names=["0"]
    ... ).plot()
    >>> float(display.ellipses_[0].width), float(display.ellipses_[0].height)
    (8.0, 4.0)
    """

    def __init__(
        self,
        *,
        means: ArrayLike,
        covariances: ArrayLike,
        points: ArrayLike,
        labels: ArrayLike,
        names: Sequence[str],
        axis_names: tuple[str, str] = ("x", "y"),
    ) -> None:
        self.means = np.asarray(means, dtype=np.float64)
        self.covariances = np.asarray(covariances, dtype=np.float64)
        self.points = np.asarray(points, dtype=np.float64)
        self.labels = np.asarray(labels)
        self.names = list(names)
        self.axis_names = axis_names

    @classmethod
    def from_estimator(
        cls,
        estimator: FairMixture,
        X: Any,
        *,
        columns: Sequence[str | int] | None = None,
        sensitive_features: Any = None,
        ax: Axes | None = None,
    ) -> Self:
        """Draw the components of a fitted model over some rows.

        Parameters
        ----------
        estimator : FairMixture
            Fitted, with two numeric columns or more.
        X : array-like or data frame of shape (n_rows, n_features)
            Rows; up to 2,000 are drawn, in the colour of their cluster.
        columns : two names or positions, default=None
            Numeric columns to draw; None: the two there are, or else the two principal
            components of the standardised columns.
        sensitive_features : array-like or table, default=None
            Group of each row, needed by an aware model.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        ComponentsDisplay
        """
        check_is_fitted(estimator)
        roles: Columns = estimator.fitted_.model.columns
        table = as_frame(X)
        values = roles.numbers(np.asarray(X) if table is None else table).astype(np.float64)
        titles = getattr(estimator, "feature_names_in_", roles.names)
        names = [str(titles[j]) for j in roles.numeric]
        scale = np.ones(values.shape[1]) if roles.scale is None else roles.scale
        shift = np.zeros(values.shape[1]) if roles.mean is None else roles.mean
        # Parameters are in standardised units, the picture is in those of X.
        means = estimator.means_ * scale + shift
        full = _full(estimator.covariances_, estimator.covariance_type, *means.shape)
        covariances = full * np.outer(scale, scale)
        aware = estimator.assignment == "aware"
        known = {"sensitive_features": sensitive_features} if aware else {}
        labels = np.asarray(estimator.predict(X, **known))
        components = [str(k) for k in range(len(means))]
        return cls._project(values, labels, components, (means, covariances), names, columns, ax)

    @classmethod
    def from_predictions(
        cls,
        X: Any,
        labels: Any,
        *,
        columns: Sequence[str | int] | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Draw the means and covariances of clusters, of any tool.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            Rows; columns that are not numbers are left out.
        labels : array-like of shape (n_rows,)
            Cluster of each row.
        columns, ax
            As in `from_estimator`.

        Returns
        -------
        ComponentsDisplay
        """
        table = as_frame(X)
        roles = Columns.learn(np.asarray(X) if table is None else table, "from_dtype")
        values = roles.numbers(np.asarray(X) if table is None else table).astype(np.float64)
        names = [roles.names[j] for j in roles.numeric]
        found = encode_groups(labels, n_rows=len(values), argument="labels")
        parts = [values[found.codes == k] for k in range(len(found.names))]
        means = np.array([part.mean(axis=0) for part in parts])
        # bias=True: a cluster of one row has the covariance 0, not NaN. Of one column `np.cov` is a
        # number; the error about that comes later, in words.
        covariances = np.array(
            [np.atleast_2d(np.cov(part.T, bias=True)) for part in parts], dtype=np.float64
        )
        moments = means, covariances
        return cls._project(values, found.codes, found.names, moments, names, columns, ax)

    @classmethod
    def _project(
        cls,
        values: FloatArray,
        labels: NDArray[Any],
        components: Sequence[str],
        moments: tuple[FloatArray, FloatArray],
        names: list[str],
        columns: Sequence[str | int] | None,
        ax: Axes | None,
    ) -> Self:
        """Show all in two dimensions: ``(x - centre) @ plane``."""
        centre, plane, axis_names = _plane(values, names, columns)
        rng = np.random.default_rng(0)
        # The same rows at each call, and not the first ones, which may be sorted. Points only;
        # means and covariances are of all rows.
        few = rng.permutation(len(values))[:SHOWN]
        means, covariances = moments
        return cls(
            means=(means - centre) @ plane,
            covariances=plane.T @ covariances @ plane,
            points=(values[few] - centre) @ plane,
            labels=labels[few],
            names=components,
            axis_names=axis_names,
        ).plot(ax)

    def _draw(self, ax: Axes) -> None:
        # Here, because matplotlib is an extra.
        from matplotlib.patches import Ellipse

        colours = [PALETTE[k % len(PALETTE)] for k in range(len(self.means))]
        shades = [colours[k] for k in self.labels]
        x, y = self.points.T
        self.points_ = ax.scatter(x, y, s=6, c=shades, alpha=0.35, linewidths=0)
        self.ellipses_ = []
        for k, (mean, covariance) in enumerate(zip(self.means, self.covariances, strict=True)):
            # For symmetric matrices: real numbers, sorted, also where `eig` would round to complex
            # ones.
            variances, directions = np.linalg.eigh(covariance)
            # From small to large; the first axis of an ellipse is the long one.
            long, short = 2 * REACH * np.sqrt(np.maximum(variances[::-1], 0))
            # The last direction is the long one; arctan2 takes y before x.
            angle = np.degrees(np.arctan2(*directions[::-1, 1]))
            ellipse = Ellipse(mean, long, short, angle=angle, fill=False, lw=1.8, ec=colours[k])
            self.ellipses_.append(ax.add_patch(ellipse))
            box = {"boxstyle": "circle,pad=0.2", "fc": "white", "ec": colours[k]}
            ax.annotate(self.names[k], mean, ha="center", va="center", fontsize=8, bbox=box)
        ax.set(xlabel=self.axis_names[0], ylabel=self.axis_names[1])
        # Patches, unlike points, do not widen the axes by themselves.
        ax.autoscale_view()
        ax.grid(alpha=0.3)


def _full(covariances: NDArray[Any], kind: str, n_components: int, n_columns: int) -> FloatArray:
    """Covariances of all types as (n_components, n_columns, n_columns)."""
    given = np.asarray(covariances, dtype=np.float64)
    shape = (n_components, n_columns, n_columns)
    if kind.endswith("spherical"):
        return given.reshape(-1, 1, 1) * np.broadcast_to(np.eye(n_columns), shape)
    if kind.endswith("diag"):
        return np.broadcast_to(given.reshape(-1, 1, n_columns) * np.eye(n_columns), shape)
    # A tied matrix is the same one for all components.
    return np.broadcast_to(given, shape)


def _plane(
    values: FloatArray, names: list[str], columns: Sequence[str | int] | None
) -> tuple[FloatArray, FloatArray, tuple[str, str]]:
    """Centre and directions (n_columns, 2) of what is drawn, and the names of the axes."""
    if len(names) < 2:
        raise ValueError(f"A picture needs two numeric columns, the data have {len(names)}.")
    if columns is None and len(names) == 2:
        columns = names
    if columns is not None:
        chosen = [_position(column, names) for column in columns]
        if len(chosen) != 2:
            raise ValueError(f"columns={columns!r}. Give two numeric columns.")
        plane = np.eye(len(names))[:, chosen]
        return np.zeros(len(names)), plane, (names[chosen[0]], names[chosen[1]])
    centre, spread = values.mean(axis=0), values.std(axis=0)
    # A constant column has no direction to show.
    spread = np.where(spread > 0, spread, 1.0)
    _, lengths, directions = np.linalg.svd((values - centre) / spread, full_matrices=False)
    share = np.square(lengths) / np.square(lengths).sum()
    first, second = (f"principal component {j + 1} ({share[j]:.0%})" for j in range(2))
    # The scale goes into the directions, so that points, means and covariances are mapped alike.
    return centre, directions[:2].T / spread[:, None], (first, second)


def _position(column: str | int, names: list[str]) -> int:
    # Names first: a column may be called by a number.
    if column in names:
        return names.index(str(column))
    if isinstance(column, int) and 0 <= column < len(names):
        return column
    raise ValueError(f"columns names {column!r}. The numeric columns are {', '.join(names)}.")
