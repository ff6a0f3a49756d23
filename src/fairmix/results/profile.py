"""What a report knows of clusters: sums over rows, gathered block by block, and no row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from itertools import pairwise
from typing import Any, Literal, Self

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from fairmix.input.columns import CATEGORICAL_DTYPES, as_frame
from fairmix.input.groups import (
    MissingGroups,
    encode_groups,
    label_columns,
    match_groups,
)
from fairmix.system.arrow import pa

__all__ = ["Categories", "Numbers", "Profile", "share_interval"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

NORMAL = 1.959964  # 97.5% quantile of the normal distribution: intervals of 95%
# Categories that a column keeps apart; later ones are counted together. A report shows a few of
# them, and a column of texts must not fill the memory.
LEVELS = 10_000


class Numbers:
    """Moments of one numeric column in each cluster.

    Values that are missing or infinite are counted apart.

    Attributes
    ----------
    counts, missing : ndarray of shape (n_clusters,)
        Rows of each cluster with a finite value, and without.
    means : ndarray of shape (n_clusters,)
        Mean of each cluster, 0 where it has no value.
    squares : ndarray of shape (n_clusters,)
        Sum of squared differences from that mean.

    Examples
    --------
    >>> column = Numbers(2)
    >>> column.add(np.array([1.0, 3.0, np.nan]), np.array([0, 0, 1]))
    >>> column.mean, column.std, column.missing.tolist()
    (2.0, 1.0, [0, 1])
    """

    def __init__(self, n_clusters: int) -> None:
        self.counts: IntArray = np.zeros(n_clusters, dtype=np.int64)
        self.missing: IntArray = np.zeros(n_clusters, dtype=np.int64)
        self.means: FloatArray = np.zeros(n_clusters)
        self.squares: FloatArray = np.zeros(n_clusters)
        # Asked for once per cluster, of which a wide table has many columns.
        self._moments: tuple[float, float] | None = None

    def add(self, values: FloatArray, labels: NDArray[np.intp]) -> None:
        """Add the rows of a block."""
        self._moments = None
        n_clusters = len(self.counts)
        # One infinite value would leave a cluster without mean and deviation.
        finite = np.isfinite(values)
        self.missing += np.bincount(labels[~finite], minlength=n_clusters)
        values, labels = values[finite], labels[finite]
        counts = np.bincount(labels, minlength=n_clusters)
        means = np.bincount(labels, values, n_clusters) / np.maximum(counts, 1)
        centred = values - means[labels]
        # The centred sum is 0 but for rounding: a second look at the mean removes that too.
        means += np.bincount(labels, centred, n_clusters) / np.maximum(counts, 1)
        squares = np.bincount(labels, np.square(values - means[labels]), n_clusters)
        # Chan, Golub and LeVeque: two sets of moments make one, without losing digits.
        total = self.counts + counts
        share = counts / np.maximum(total, 1)
        step = means - self.means
        self.squares += squares + np.square(step) * self.counts * share
        self.means += step * share
        self.counts = total

    @property
    def mean(self) -> float:
        """Mean over all clusters; NaN without values."""
        return self._overall[0]

    @property
    def std(self) -> float:
        """Standard deviation over all clusters, with divisor n; NaN without values."""
        return self._overall[1]

    @property
    def _overall(self) -> tuple[float, float]:
        if self._moments is None:
            mean = float(self.counts @ self.means / self._n)
            between = self.counts @ np.square(self.means - mean)
            self._moments = mean, float(np.sqrt((self.squares.sum() + between) / self._n))
        return self._moments

    @property
    def stds(self) -> FloatArray:
        """Standard deviation of each cluster, with divisor n; 0 where it has no value."""
        return np.sqrt(self.squares / np.maximum(self.counts, 1))

    @property
    def is_indicator(self) -> bool:
        """Whether all values are 0 or 1, so that a mean is a share of rows."""
        # Only such values have squares that add up to the same as the values.
        expected = self.counts * self.means * (1 - self.means)
        return bool(np.allclose(self.squares, expected, rtol=1e-9, atol=1e-9))

    @property
    def _n(self) -> float:
        # Division by NaN is silent, division by zero warns.
        return float(self.counts.sum()) or np.nan


class Categories:
    """Counts of one categorical column in each cluster.

    Attributes
    ----------
    counts : dict of str to ndarray of shape (n_clusters,)
        Rows of each cluster in each category.
    missing, rest : ndarray of shape (n_clusters,)
        Rows without a value, and rows in categories past the first 10,000.

    Examples
    --------
    >>> import pandas as pd
    >>> column = Categories(2)
    >>> column.add(pd.Series(["a", "b", None]), np.array([0, 1, 1]))
    >>> {name: counts.tolist() for name, counts in column.counts.items()}, column.missing.tolist()
    ({'a': [1, 0], 'b': [0, 1]}, [0, 1])
    """

    def __init__(self, n_clusters: int) -> None:
        self.counts: dict[str, IntArray] = {}
        self.missing: IntArray = np.zeros(n_clusters, dtype=np.int64)
        self.rest: IntArray = np.zeros(n_clusters, dtype=np.int64)

    def add(self, values: Any, labels: NDArray[np.intp]) -> None:
        """Add the rows of a block."""
        n_clusters = len(self.missing)
        column = nw.from_native(values, series_only=True)
        absent = column.is_null()
        # A float column may mark missing values by NaN, which is not null in Arrow and Polars.
        if column.dtype.is_float():
            absent = absent | column.is_nan()
        missing = absent.to_numpy().astype(bool)
        self.missing += np.bincount(labels[missing], minlength=n_clusters)
        if missing.all():
            return
        groups = encode_groups(column.filter(~absent), argument="a categorical column")
        table = _cross(groups.codes, labels[~missing], (len(groups.names), n_clusters))
        for name, row in zip(groups.names, table, strict=True):
            if name in self.counts:
                self.counts[name] += row
            elif len(self.counts) < LEVELS:
                self.counts[name] = row
            else:
                self.rest += row


class Profile:
    """What a report knows of a clustering: counts, moments and category counts; no row.

    Its size does not depend on the number of rows, so it is filled block by block from data
    larger than memory.

    Parameters
    ----------
    numeric, categorical : sequence of str, default=()
        Names of the columns to describe clusters by. Leave the sensitive columns out.
    groups : sequence of str, or mapping of str to sequence of str
        Names of the groups, as in ``FairMixture.groups_``. A mapping has those of several
        attributes by name, which are compared each by itself.
    n_clusters : int
        Number of clusters.
    clusters : sequence of str, default=None
        Names of the clusters; None: ``"0", "1", ...``, the labels of `FairMixture`.
    title : str, default="group"
        What the groups are of, such as ``"sex"``.
    missing_groups : {"error", "drop", "group"}, default="error"
        What a missing group is: an error, a row to leave out, or the group "missing".

    Attributes
    ----------
    groups : tuple of str
        Names of the groups; of several attributes those of all, with the attribute before them.
    attributes : dict of str to tuple of str
        Groups of each of several attributes; else empty.
    counts : ndarray of shape (n_groups, n_clusters)
        Rows of each group in each cluster.
    numbers : dict of str to Numbers
        Moments of each numeric column.
    categories : dict of str to Categories
        Counts of each categorical column.

    Examples
    --------
    >>> import pandas as pd
    >>> profile = Profile(numeric=["age"], groups=["f", "m"], n_clusters=2, title="sex")
    >>> profile.add(pd.DataFrame({"age": [30, 40, 50]}), [0, 1, 1], ["f", "m", "f"])
    >>> profile.counts.tolist(), profile.numbers["age"].means.tolist()
    ([[1, 1], [0, 1]], [30.0, 45.0])
    """

    def __init__(
        self,
        *,
        numeric: Sequence[str] = (),
        categorical: Sequence[str] = (),
        groups: Sequence[str] | Mapping[str, Sequence[str]],
        n_clusters: int,
        clusters: Sequence[str] | None = None,
        title: str = "group",
        missing_groups: MissingGroups = "error",
    ) -> None:
        # Names are texts throughout, since labels of other tools may be anything.
        names = range(n_clusters) if clusters is None else clusters
        self.clusters = tuple(str(name) for name in names)
        if len(self.clusters) != n_clusters:
            raise ValueError(
                f"clusters has {len(self.clusters)} names, n_clusters={n_clusters}. Give one name "
                "per cluster, or None."
            )
        each = groups if isinstance(groups, Mapping) else {}
        self.attributes = {title: tuple(map(str, names)) for title, names in each.items()}
        self.groups = tuple(
            [f"{title}: {name}" for title, names in self.attributes.items() for name in names]
            if each
            else map(str, groups)
        )
        self.title = title
        self.missing_groups: MissingGroups = missing_groups
        self.counts: IntArray = np.zeros((len(self.groups), n_clusters), dtype=np.int64)
        self.numbers = {str(name): Numbers(n_clusters) for name in numeric}
        self.categories = {str(name): Categories(n_clusters) for name in categorical}

    @property
    def n_clusters(self) -> int:
        """Number of clusters, empty ones too."""
        return len(self.clusters)

    @property
    def n_rows(self) -> int:
        """Rows seen so far."""
        # A row is in one group of each attribute.
        return int(self.counts[self._parts[0]].sum())

    @property
    def by_attribute(self) -> dict[str, Profile]:
        """The profile as if each of several attributes were the only one, by name; else this one.

        Columns are described from the same rows in all of them.

        Examples
        --------
        >>> profile = Profile(groups={"sex": ["f", "m"], "region": ["east", "west"]}, n_clusters=2)
        >>> profile.add(np.zeros((2, 1)), [0, 1], [("f", "west"), ("m", "west")])
        >>> profile.by_attribute["region"].counts.tolist()
        [[0, 0], [1, 1]]
        """
        if not self.attributes:
            return {self.title: self}
        found = {}
        for (title, names), part in zip(self.attributes.items(), self._parts, strict=True):
            own = found[title] = copy(self)
            own.title, own.groups, own.attributes = title, names, {}
            own.counts = self.counts[part]
        return found

    @property
    def _parts(self) -> list[slice]:
        """Where the groups of each attribute are among all."""
        lengths = [len(names) for names in self.attributes.values()] or [len(self.groups)]
        return [slice(*ends) for ends in pairwise(np.cumsum([0, *lengths]).tolist())]

    def add(self, block: Any, labels: Any, groups: Any) -> None:
        """Add a block of rows.

        Parameters
        ----------
        block : data frame, or array of shape (n_rows, n_columns)
            Any eager frame, with the columns by name; other columns are ignored. The columns of
            an array are called ``x0, x1, ...``.
        labels : array-like of shape (n_rows,)
            Cluster of each row, by name.
        groups : array-like or table
            Group of each row, by name; several columns form their intersections, or are
            attributes, where the profile has several.
        """
        columns = _columns(block)
        codes = match_groups(labels, self.clusters, argument="labels", noun="clusters")
        cells = self._cells(groups, len(codes))
        missing = [n for n in (*self.numbers, *self.categories) if n not in columns]
        if missing:
            raise ValueError(
                f"The block has no column {missing[0]!r}. It has {', '.join(map(repr, columns))}."
            )
        height = len(next(iter(columns.values()), codes))
        if height != len(codes):
            raise ValueError(
                f"labels has {len(codes)} rows, the block has {height}. Give one label per row."
            )
        # All is read before anything is added: a block counts as a whole or not at all.
        floats = {name: _floats(name, columns[name]) for name in self.numbers}
        # A row that lacks the group of one attribute counts for none, as in a fit.
        known = np.flatnonzero((cells >= 0).all(axis=0))
        if len(known) < len(codes):
            cells, codes = cells[:, known], codes[known]
            floats = {name: values[known] for name, values in floats.items()}
            columns = {name: values[known] for name, values in columns.items()}
        for name, column in self.numbers.items():
            column.add(floats[name], codes)
        for name, levels in self.categories.items():
            levels.add(columns[name].to_native(), codes)
        for part, own in zip(self._parts, cells, strict=True):
            self.counts[part] += _cross(own, codes, self.counts[part].shape)

    def _cells(self, groups: Any, n_rows: int) -> IntArray:
        """The group of each row, by attribute, (n_attributes, n_rows)."""
        how: dict[str, Any] = {"argument": "groups", "missing": self.missing_groups}
        if not self.attributes:
            return np.stack([match_groups(groups, self.groups, n_rows=n_rows, **how)])
        columns = label_columns(groups, list(self.attributes), argument="groups")
        return np.stack(
            [
                match_groups(columns[title], names, n_rows=n_rows, **how)
                for title, names in self.attributes.items()
            ]
        )

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        labels: Any,
        sensitive: Any,
        *,
        numeric: Sequence[str] | None = None,
        categorical: Sequence[str] | None = None,
        clusters: Sequence[str] | None = None,
        missing_groups: MissingGroups = "error",
        attributes: Literal["intersect", "each"] = "intersect",
    ) -> Self:
        """The profile of a table in memory.

        Parameters
        ----------
        frame : data frame, or array of shape (n_rows, n_columns)
            The rows.
        labels : array-like of shape (n_rows,)
            Cluster of each row, of any tool.
        sensitive : str, list of str, array-like or table
            Group of each row, or the names of columns of ``frame``.
        numeric, categorical : sequence of str, default=None
            Columns to describe clusters by; None takes them by type, without the sensitive ones.
            Dates and other types are left out.
        clusters : sequence of str, default=None
            Names of the clusters, empty ones too; None: the labels that occur.
        missing_groups : {"error", "drop", "group"}, default="error"
            As in the constructor.
        attributes : {"intersect", "each"}, default="intersect"
            What several sensitive columns are: groups by their intersections, or attributes that
            are compared each by itself.

        Returns
        -------
        Profile

        Examples
        --------
        >>> import pandas as pd
        >>> people = pd.DataFrame({"age": [30, 40, 50], "sex": ["f", "m", "f"]})
        >>> Profile.from_frame(people, [0, 1, 1], "sex").groups
        ('f', 'm')
        """
        columns = _columns(frame)
        if isinstance(sensitive, str) or _are_names(sensitive, columns):
            chosen = [sensitive] if isinstance(sensitive, str) else list(sensitive)
            sensitive = _named(frame, chosen)
            # Sensitive columns do not describe clusters: the report has tables of its own for them.
            columns = {name: values for name, values in columns.items() if name not in chosen}
        groups = encode_groups(
            sensitive, argument="sensitive", missing=missing_groups, each=attributes == "each"
        )
        if clusters is None:
            clusters = encode_groups(labels, argument="labels").names
        by_type = {name: _role(values) for name, values in columns.items()}
        if numeric is None:
            numeric = [name for name, role in by_type.items() if role == "numeric"]
        if categorical is None:
            categorical = [name for name, role in by_type.items() if role == "categorical"]
        out = cls(
            numeric=numeric,
            # A column that the user names as numeric is taken out of those found by type.
            categorical=[name for name in categorical if name not in numeric],
            groups={own.title: own.names for own in groups.attributes} or groups.names,
            n_clusters=len(clusters),
            clusters=clusters,
            title=groups.title,
            missing_groups=missing_groups,
        )
        out.add(frame, labels, sensitive)
        return out


def _cross(rows: NDArray[np.intp], columns: NDArray[np.intp], shape: tuple[int, ...]) -> IntArray:
    """How often each pair of codes occurs."""
    # One code per pair, because bincount takes one index.
    counts = np.bincount(rows * shape[1] + columns, minlength=shape[0] * shape[1])
    return counts.reshape(shape)


def _columns(block: Any) -> dict[str, nw.Series[Any]]:
    frame = as_frame(block)
    if frame is None:
        array = np.asarray(block)
        if array.ndim != 2:
            raise ValueError(
                f"The block is a {type(block).__name__} of {array.ndim} dimensions. Give a data "
                "frame, or an array of shape (n_rows, n_columns)."
            )
        # An Arrow table, so that arrays and frames go the same way from here on.
        table = pa.table({f"x{j}": pa.array(array[:, j]) for j in range(array.shape[1])})
        frame = nw.from_native(table, eager_only=True)
    return {str(column.name): column for column in frame.iter_columns()}


def _are_names(sensitive: Any, columns: dict[str, Any]) -> bool:
    listed = isinstance(sensitive, list | tuple) and len(sensitive) > 0
    # A list of texts may also be the groups of the rows: it names columns only if all of them
    # exist.
    return listed and all(isinstance(name, str) and name in columns for name in sensitive)


def _named(frame: Any, names: list[str]) -> Any:
    table = as_frame(frame)
    missing = [name for name in names if table is None or name not in table.columns]
    if table is None or missing:
        raise ValueError(f"sensitive={missing[0]!r} is not a column of the frame.")
    return table.select(names).to_native()


def _role(values: nw.Series[Any]) -> str | None:
    # The estimator's own list, so that a report describes columns as the model took them.
    if values.dtype in CATEGORICAL_DTYPES:
        return "categorical"
    return "numeric" if values.dtype.is_numeric() else None


def _floats(name: str, values: nw.Series[Any]) -> FloatArray:
    try:  # every library has an error of its own for a failed cast
        return np.asarray(values.cast(nw.Float64).to_numpy(), dtype=np.float64)
    except Exception as error:
        raise ValueError(
            f"Column {name!r} has type {values.dtype}, not numbers. Name it in categorical, or "
            "leave it out."
        ) from error


def share_interval(inside: FloatArray, total: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Wilson's 95% interval of a share.

    Parameters
    ----------
    inside, total : ndarray
        Rows that count, and all rows; where there are none the interval is NaN.

    Returns
    -------
    low, high : ndarray

    Examples
    --------
    >>> [end.round(3).tolist() for end in share_interval(np.array([30.0]), np.array([100.0]))]
    [[0.219], [0.396]]
    """
    total = np.where(total > 0, total, np.nan)
    share, spread = inside / total, NORMAL**2 / total
    middle = (share + spread / 2) / (1 + spread)
    # A share a rounding error outside [0, 1] would have no root.
    variance = np.clip(share * (1 - share), 0, None) / total
    reach = NORMAL / (1 + spread) * np.sqrt(variance + spread / (4 * total))
    return np.clip(middle - reach, 0, 1), np.clip(middle + reach, 0, 1)
