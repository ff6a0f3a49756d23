"""Starts: where solvers begin."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.sparse import csr_array
from sklearn.exceptions import ConvergenceWarning

from fairmix.input.columns import Columns
from fairmix.kernels import LogitMap, hard_labels
from fairmix.kernels.totals import FEW_GROUPS, FloatArray, IntArray, Logits, Rows
from fairmix.mixture.families import Family, shape_of
from fairmix.mixture.mixture import Mixture
from fairmix.system.threads import one_thread
from fairmix.tables import MemoryStore, Store, Table

if TYPE_CHECKING:
    from sklearn.cluster import KMeans

Start = Literal["paper", "kmeans", "random"]

# k-means keeps the best of this many runs, because single ones often end in a poor optimum.
KMEANS_RUNS = 10
# Rows whose features are added up at once: the products of many columns take memory.
SUMMED_ROWS = 16_384
# Rows that starts are found on, at most: this bounds their time, whatever the number of rows.
START_ROWS = 100_000
# Columns that k-means sees of 0/1 columns, times the clusters, and steps towards those of most
# variance. The K means differ along K - 1 directions, which are mostly among the first ones.
SEEN_COLUMNS, SEEN_STEPS = 2, 3
# By how much shares may miss a sum of one, and a matrix its transpose: digits lost in a text file.
INEXACT = 1e-6


@dataclass(frozen=True, eq=False)
class Level:
    """Takes from points a share of what a map knows of the groups tells of them.

    Clusters of what is left are about as frequent in each group, which is what a bound asks for:
    all of it for a bound of zero, less for a looser one.

    Attributes
    ----------
    known : (M, n) array
        rho of the rows.
    share : float
        Zero leaves the points as they are; with one, the groups tell nothing of them any more.
    """

    known: FloatArray
    share: float

    def __call__(
        self, points: FloatArray | csr_array, weight: FloatArray | None
    ) -> FloatArray | csr_array:
        """The points less this share of their regression on rho."""
        # Sparse ones would not stay so.
        if self.share == 0 or isinstance(points, csr_array):
            return points
        # Of few groups also by squares: where groups are hard to tell apart a line is not enough.
        parts = [self.known, self.known**2] if len(self.known) <= FEW_GROUPS else [self.known]
        columns = np.vstack(parts)
        weighted = columns if weight is None else columns * weight
        # Columns depend on each other: rho adds up to one, and that of an aware map is its square.
        told = np.linalg.lstsq(weighted @ columns.T, weighted @ points, rcond=1e-9)[0]
        return np.asarray(points - self.share * (columns.T @ told))


def start(
    mixture: Mixture,
    rows: Rows,
    *,
    how: Start,
    rng: np.random.Generator,
    weight: FloatArray | None = None,
    runs: int = KMEANS_RUNS,
    level: Level | None = None,
    seen: int = START_ROWS,
) -> FloatArray:
    """Initial theta.

    Parameters
    ----------
    mixture : Mixture
        Whose theta it is.
    rows : Rows
        Training rows, or a sample of them.
    how : {"paper", "kmeans", "random"}
        ``"paper"``: equal weights, k-means centres, unit variances, category probabilities from
        the softmax of uniform numbers. ``"kmeans"``: the maximum-likelihood parameters of the
        k-means clusters (numbers and indicators of categories side by side). ``"random"``: the
        same for rows assigned at random to the nearest of K random rows.
    rng : Generator
        Source of randomness.
    weight : (N,) array or None
        Row weights.
    runs : int
        k-means runs of which the best counts.
    level : Level or None
        Takes from the points what the groups tell of them, for ``"kmeans"``.
    seen : int
        Rows that k-means sees, at most; the others go to the nearest centre, for ``"kmeans"``.
    """
    if how == "paper":
        return _paper_start(mixture, rows, weight, rng, runs)
    points = mixture.family.points(rows)
    if how == "kmeans" and level is not None:
        points = level(points, weight)
    runs = runs if how == "kmeans" else 1
    n_rows, few, own = rows.n_rows, points, weight
    if how == "kmeans" and n_rows > seen:
        drawn = rng.choice(n_rows, seen, replace=False)
        few, own = points[drawn], None if weight is None else weight[drawn]
        width = SEEN_COLUMNS * mixture.n_components
        if rows.codes is not None and not isinstance(points, csr_array) and few.shape[1] > width:
            axes = _main_axes(np.asarray(few), own, width, rng)
            points, few = points @ axes, few @ axes
    kmeans = _kmeans(few, mixture.n_components, rng, own, runs, how == "random")
    labels = kmeans.labels_ if few is points else kmeans.predict(points)
    return mixture.maximize(_label_sums(mixture.family, rows, labels, weight))


@dataclass(frozen=True, eq=False)
class OwnStart:
    """A start of the user's own, in the units of X.

    Attributes
    ----------
    parameters : dict of str to array-like
        What is given of ``weights``, ``means``, ``precisions`` and ``probabilities``.
    shares : (n_rows, K) array or None
        How much of each row is in each cluster, of all rows of the table.
    """

    parameters: dict[str, Any]
    shares: FloatArray | None = None

    @property
    def digest(self) -> str:
        """Tells starts apart."""
        parts = [self.shares, *(self.parameters.get(name) for name in CHECKS)]
        found = hashlib.sha256()
        for part in parts:
            found.update(repr(part if part is None else _plain(part)).encode())
        return found.hexdigest()

    def theta(
        self, mixture: Mixture, columns: Columns, store: Store, draw: Callable[[], FloatArray]
    ) -> FloatArray:
        """The parameters as a mixture has them; ``draw`` gives those of which nothing is known."""
        known = mixture.unpack(np.zeros(mixture.n_components + mixture.family.n_theta))
        given: dict[str, FloatArray] = {}
        for name, value in self.parameters.items():
            own = {"precisions": "covariances"}.get(name, name)
            if own not in known:
                kind = "categorical" if name == "probabilities" else "numeric"
                raise ValueError(
                    f"{name}_init is given, but the model has no {name}: X has no {kind} columns, "
                    f"or covariance_type knows none. Set {name}_init=None."
                )
            given[own] = CHECKS[name](value, mixture, columns)
        if known.keys() <= given.keys():
            return mixture.pack(given)
        return mixture.pack(mixture.unpack(self._rest(mixture, store, given, draw)) | given)

    def _rest(
        self,
        mixture: Mixture,
        store: Store,
        given: dict[str, FloatArray],
        draw: Callable[[], FloatArray],
    ) -> FloatArray:
        """What is not given: that of the clusters that the given parameters make."""
        family = mixture.family
        if self.shares is not None:
            rows = store.sample(store.n_rows, np.random.default_rng(0))
            return mixture.maximize(_share_sums(family, rows.rows, self.shares.T, rows.weight))
        if "means" not in given and "probabilities" not in given:
            # Weights and covariances alone say nothing about which rows belong together.
            return draw()
        # A sample, as for k-means; always the same, as nothing else here depends on chance.
        sample = store.sample(START_ROWS, np.random.default_rng(0))
        even = np.full((mixture.n_components, sample.n_rows), 1 / mixture.n_components)
        # Else all components are alike, so the given parameters alone decide.
        alike = mixture.maximize(_share_sums(family, sample.rows, even, sample.weight))
        logits = LogitMap(mixture.logits(mixture.pack(mixture.unpack(alike) | given)))
        nearest = Table(MemoryStore(sample.rows), family.encode, keep=False).each(
            partial(hard_labels, logit_map=logits)
        )
        labels = np.concatenate(list(nearest))
        return mixture.maximize(_label_sums(family, sample.rows, labels, sample.weight))


def _plain(value: Any) -> Any:
    """Numbers as nested lists."""
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return np.asarray(value).tolist()


def _numbers(name: str, value: Any, shape: tuple[int, ...], because: str) -> FloatArray:
    """An array of finite numbers of a shape, or an error that says which."""
    try:
        found = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"{name} is no array of numbers: {value!r:.80}. Give one of shape {shape}."
        ) from None
    if found.shape != shape:
        raise ValueError(f"{name} has shape {found.shape}. {because}: give shape {shape}.")
    if not np.isfinite(found).all():
        raise ValueError(f"{name} holds NaN or infinity. Give finite numbers.")
    return found


def _check_shares(name: str, shares: FloatArray) -> FloatArray:
    """Refuse what are no shares of a whole, and divide by the whole."""
    total = shares.sum(axis=-1, keepdims=True)
    if (shares < 0).any() or (np.abs(total - 1) > INEXACT).any():
        worst = float(total.ravel()[np.abs(total - 1).argmax()])
        raise ValueError(
            f"{name} must be shares from 0 that add up to 1; the smallest is {shares.min():.3g}, "
            f"and a sum is {worst:.6g}. Divide by the sum."
        )
    return np.asarray(shares / total)


def _weights(value: Any, mixture: Mixture, columns: Columns) -> FloatArray:
    K = mixture.n_components
    found = _numbers("weights_init", value, (K,), f"n_components={K}")
    return _check_shares("weights_init", found)


def _means(value: Any, mixture: Mixture, columns: Columns) -> FloatArray:
    K, d = mixture.n_components, len(columns.numeric)
    found = _numbers("means_init", value, (K, d), f"n_components={K}, and {d} columns are numeric")
    if columns.mean is None or columns.scale is None:
        return found
    return np.asarray((found - columns.mean) / columns.scale)


def _covariances(value: Any, mixture: Mixture, columns: Columns) -> FloatArray:
    """Covariances of given precisions, as the mixture has them."""
    K, d = mixture.n_components, len(columns.numeric)
    shape, tied = shape_of(mixture.family)
    kind = mixture.family.document()["covariance_type"]
    one = {"one": (), "columns": (d,), "matrix": (d, d)}[shape]
    because = f"n_components={K}, {d} columns are numeric, and covariance_type={kind!r}"
    found = _numbers("precisions_init", value, one if tied else (K, *one), because)
    scale: FloatArray = np.ones(d) if columns.scale is None else columns.scale
    if shape != "matrix":
        if (found <= 0).any():
            raise ValueError(
                f"precisions_init must be above 0, the smallest is {found.min():.3g}. Give "
                "inverses of variances."
            )
        # One variance for columns of several scales: the mean of theirs.
        return np.asarray(
            1 / found / scale**2 if shape == "columns" else np.mean(scale**-2.0) / found
        )
    turned = np.swapaxes(found, -1, -2)
    close = INEXACT * np.abs(found).max()
    if (np.abs(found - turned) > close).any() or np.linalg.eigvalsh(found).min() <= 0:
        raise ValueError(
            "precisions_init must be symmetric matrices with eigenvalues above 0. Give inverses "
            "of covariances."
        )
    return np.asarray(np.linalg.inv((found + turned) / 2) / np.outer(scale, scale))


def _probabilities(value: Any, mixture: Mixture, columns: Columns) -> FloatArray:
    K, levels = mixture.n_components, columns.levels
    if not isinstance(value, list | tuple) or len(value) != len(levels):
        raise ValueError(
            f"probabilities_init is {value!r:.60}. Give a list of {len(levels)} arrays, one for "
            "each categorical column."
        )
    found = []
    for j, (own, names) in enumerate(zip(value, levels, strict=True)):
        title = f"probabilities_init[{j}]"
        column = columns.names[columns.categorical[j]]
        because = f"n_components={K}, and column {column!r} has {len(names)} categories"
        found.append(_check_shares(title, _numbers(title, own, (K, len(names)), because)))
    return np.hstack(found)


# What is given, and what makes it the mixture's: `theta` reads them in this order.
CHECKS: dict[str, Callable[[Any, Mixture, Columns], FloatArray]] = {
    "weights": _weights,
    "means": _means,
    "precisions": _covariances,
    "probabilities": _probabilities,
}


def kmeans_labels(X: FloatArray, n_clusters: int, seed: int) -> IntArray:
    """Labels of plain k-means, for comparison."""
    return np.asarray(
        _kmeans(X, n_clusters, np.random.default_rng(seed), None, KMEANS_RUNS).labels_
    )


def _kmeans(
    points: FloatArray | csr_array,
    n_clusters: int,
    rng: np.random.Generator,
    weight: FloatArray | None,
    runs: int,
    random: bool = False,
) -> KMeans:
    # Late, because who loads a model has no need of it, and it loads half of scikit-learn.
    from sklearn.cluster import KMeans

    # A seed, because scikit-learn takes no Generator.
    seed = int(rng.integers(2**31 - 1))
    kmeans = KMeans(
        n_clusters,
        n_init=runs,
        init="random" if random else "k-means++",
        # 300 is the default of scikit-learn. One is the least that it allows: centres are to stay
        # near the random rows.
        max_iter=1 if random else 300,
        random_state=seed,
    )
    # One thread: on the few rows of a start, more of them only wait for each other.
    with warnings.catch_warnings(), one_thread():
        # Fewer distinct rows than clusters: the estimator reports what is left at the end.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return kmeans.fit(points, sample_weight=weight)


def _main_axes(
    points: FloatArray, weight: FloatArray | None, width: int, rng: np.random.Generator
) -> FloatArray:
    """Directions (d, width) along which points vary most, or nearly: by subspace iteration."""
    apart = points - np.average(points, axis=0, weights=weight)
    weighted = apart if weight is None else apart * weight[:, None]
    axes = rng.normal(size=(points.shape[1], width))
    for _ in range(SEEN_STEPS):
        axes = np.linalg.qr(weighted.T @ (apart @ axes))[0]
    return axes


def _paper_start(
    mixture: Mixture,
    rows: Rows,
    weight: FloatArray | None,
    rng: np.random.Generator,
    runs: int,
) -> FloatArray:
    n_components = mixture.n_components

    def centers(points: FloatArray) -> FloatArray:
        return np.asarray(_kmeans(points, n_components, rng, weight, runs).cluster_centers_)

    weights = {"weights": np.full(n_components, 1 / n_components)}
    return mixture.pack(weights | mixture.family.initial(rows, centers, rng))


def _label_sums(family: Family, rows: Rows, labels: IntArray, weight: FloatArray | None) -> Logits:
    """Sufficient statistics of hard labels, softened so that every component has some mass."""
    one_hot = (labels == np.arange(family.n_components)[:, None]).astype(np.float64)
    # A cluster without rows would have no covariance. The hundredth that is spread evenly gives it
    # that of all rows, and hardly moves the others.
    q = 0.99 * one_hot + 0.01 / family.n_components
    if weight is not None:
        q *= weight
    return Logits(q.sum(axis=1), _feature_sums(family, rows, q))


def _share_sums(family: Family, rows: Rows, q: FloatArray, weight: FloatArray | None) -> Logits:
    """Sufficient statistics of all rows of a table that are shared out, q (K, n)."""
    q = q if weight is None else q * weight
    W = np.zeros((len(q), family.n_features))
    for start in range(0, rows.n_rows, SUMMED_ROWS):
        own = np.arange(start, min(start + SUMMED_ROWS, rows.n_rows))
        part = _feature_sums(family, rows.take(own), q[:, own])
        # Columns that mark missing numbers are there only where there are any.
        W[:, : part.shape[1]] += part
    return Logits(q.sum(axis=1), W)


def row_sums(family: Family, row: Rows, width: int) -> FloatArray:
    """T(x) of one row, as a vector of a given width."""
    out = np.zeros(width)
    sums = _feature_sums(family, row, np.ones((1, 1)))[0, :width]
    # Columns that mark missing numbers are there only where there are any.
    out[: len(sums)] = sums
    return out


def _feature_sums(family: Family, rows: Rows, q: FloatArray) -> FloatArray:
    """Sums of T(x), weighted by each row of q."""
    features = family.encode(rows)
    parts = []
    # Summed by hand and not by a pass, which knows only the responsibilities of a mixture.
    if features.dense is not None:
        parts.append(q @ features.dense.astype(np.float64))
    if features.codes is not None:
        width = family.n_features - (0 if features.dense is None else features.dense.shape[1])
        sums = np.zeros((len(q), width))
        for column in features.codes.T:
            for k, share in enumerate(q):
                sums[k] += np.bincount(column, weights=share, minlength=width)
        parts.append(sums)
    return np.hstack(parts)
