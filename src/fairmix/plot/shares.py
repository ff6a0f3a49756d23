"""A picture of the groups in each cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from fairmix.input.groups import encode_groups
from fairmix.metrics import group_counts
from fairmix.plot._display import PALETTE, Display
from fairmix.results.profile import share_interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fairmix.results.profile import Profile


class GroupSharesDisplay(Display):
    """Picture of the groups in each cluster.

    One bar per cluster, cut by the shares of the groups. Dashed lines stand at the shares in all
    rows: where the cuts are on the lines, the cluster holds the groups as the whole does. Thin
    lines are 95% intervals (Wilson).

    Parameters
    ----------
    counts : array-like of shape (n_groups, n_clusters)
        Rows of each group in each cluster.
    groups, clusters : sequence of str
        Their names.
    title : str, default="group"
        What the groups are of.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where it is drawn.
    bars_ : dict of str to matplotlib BarContainer
        The part of each group.
    lines_ : list of matplotlib Line2D
        At the shares in all rows.

    Examples
    --------
    >>> from fairmix.plot import GroupSharesDisplay
    >>> display = GroupSharesDisplay.from_predictions([0, 0, 1, 1], ["f", "m", "f", "f"])
    >>> [float(bar.get_height()) for bar in display.bars_["f"]]
    [0.5, 1.0]
    """

    def __init__(
        self,
        *,
        counts: ArrayLike,
        groups: Sequence[str],
        clusters: Sequence[str],
        title: str = "group",
    ) -> None:
        self.counts = np.asarray(counts, dtype=np.float64)
        self.groups = list(groups)
        self.clusters = list(clusters)
        self.title = title

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, *, sensitive_features: Any, ax: Axes | None = None
    ) -> Self:
        """Draw the clusters that a fitted model gives some rows.

        Parameters
        ----------
        estimator : FairMixture or another fitted clusterer
            Its ``predict`` is used; an aware one gets the groups too.
        X : array-like or data frame of shape (n_rows, n_features)
            The rows.
        sensitive_features : array-like or table
            Group of each row.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        GroupSharesDisplay
        """
        # Clusterers of other tools have no such parameter, and no `predict` that takes groups.
        aware = getattr(estimator, "assignment", "blind") == "aware"
        known = {"sensitive_features": sensitive_features} if aware else {}
        return cls.from_predictions(estimator.predict(X, **known), sensitive_features, ax=ax)

    @classmethod
    def from_predictions(
        cls, labels: Any, sensitive_features: Any, *, ax: Axes | None = None
    ) -> Self:
        """Draw clusters, of any tool.

        Parameters
        ----------
        labels : array-like of shape (n_rows,)
            Cluster of each row.
        sensitive_features, ax
            As in `from_estimator`.

        Returns
        -------
        GroupSharesDisplay
        """
        groups = encode_groups(sensitive_features)
        return cls(
            counts=group_counts(labels, sensitive_features),
            groups=groups.names,
            # Read as `group_counts` reads them, so that names and columns are in the same order.
            clusters=encode_groups(labels, argument="labels").names,
            title=groups.title,
        ).plot(ax)

    @classmethod
    def from_profile(cls, profile: Profile, *, ax: Axes | None = None) -> Self:
        """Draw a profile, for rows that do not fit into memory.

        Parameters
        ----------
        profile : fairmix.results.profile.Profile
            Counts of the rows.
        ax
            As in `from_estimator`.

        Returns
        -------
        GroupSharesDisplay
        """
        return cls(
            counts=profile.counts,
            groups=profile.groups,
            clusters=profile.clusters,
            title=profile.title,
        ).plot(ax)

    def _draw(self, ax: Axes) -> None:
        sizes = self.counts.sum(axis=0)
        # An empty cluster has a bar of no height.
        shares = self.counts / np.where(sizes > 0, sizes, 1)
        tops = shares.cumsum(axis=0)
        place = np.arange(len(self.clusters))
        self.bars_ = {
            group: ax.bar(
                place,
                shares[g],
                bottom=tops[g] - shares[g],
                # Colours repeat beyond seven groups; the order within a bar still tells them apart.
                color=PALETTE[g % len(PALETTE)],
                label=group,
                width=0.8,
            )
            for g, group in enumerate(self.groups)
        }
        self._draw_intervals(ax, place, sizes)
        # The last line would be the top of the axes.
        population = (self.counts.sum(axis=1) / max(self.counts.sum(), 1)).cumsum()[:-1]
        style: dict[str, Any] = {"color": "black", "linestyle": "--", "linewidth": 1}
        # Above the bars, which would hide them.
        self.lines_ = [ax.axhline(share, zorder=3, **style) for share in population]
        ax.set(xlabel="cluster", ylabel=f"share of each {self.title} in the cluster", ylim=(0, 1))
        ax.set_xticks(place, self.clusters)
        handles, names = ax.get_legend_handles_labels()
        if self.lines_:
            handles, names = [*handles, self.lines_[0]], [*names, "in all rows"]
        # Beside the bars, which fill the axes.
        ax.legend(handles, names, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)

    def _draw_intervals(self, ax: Axes, place: Any, sizes: Any) -> None:
        """At each cut: the groups below it together are a share too."""
        filled = sizes > 0
        for below in self.counts.cumsum(axis=0)[:-1, filled]:
            # Wilson's interval stays within 0 and 1, also for clusters of a few rows.
            low, high = share_interval(below, sizes[filled])
            ax.vlines(place[filled], low, high, color="black", linewidth=1.2, zorder=4)
