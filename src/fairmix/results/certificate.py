"""A bound on the population value of a gap or a ratio, from fresh rows.

Symbols: M groups, K clusters, n rows, n_g of group g, r[g, k] = P(cluster k | group g) in the
population, and its mean on the rows. An *error* is the probability that a statement is false.

Three kinds of statement, each at an error that is fixed before the rows are seen:

- ``binomial`` (labels): the count of group g in cluster k is binomial, so Clopper and Pearson's
  exact interval holds each rate. It lies inside Hoeffding's: a rate that Hoeffding excludes has a
  binomial tail below the error, which is what the exact interval excludes.
- ``hoeffding``, ``bernstein`` (probabilities): Hoeffding's inequality in its relative entropy form
  and Maurer and Pontil's empirical Bernstein inequality hold each rate.
- bounds of the criterion's own: ``subsets`` (``additive_gap``) is Hoeffding's inequality for every
  union of clusters and pair of groups, because a sum of absolute differences is twice the largest
  difference over such unions.

The first two give a box that holds all rates at once, and the bound is the worst value in that box:
the largest gap, or the smallest ratio of one rate at its bottom to another at its top.

Balance compares rows, not rates, so it depends on how common the groups are, which a sample does
not tell exactly either. Its box is that of P(cluster k and group g), each a mean over all n rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv, rel_entr

from fairmix.criteria import CRITERIA, Criterion, SmallestRatio, smallest_ratio
from fairmix.input.groups import encode_groups, match_groups
from fairmix.metrics.assignment import Assignment, Labels, read_assignment
from fairmix.results.verdict import MISSED, NO_BOUND, Verdict, worst_of

__all__ = ["Certificate", "ChanceGap", "certify", "chance_gap", "sampling_gap"]

Array = NDArray[np.float64]
Box = tuple[Array, Array]  # smallest and largest rates, each (M, K)

# Measures of `fairmix.metrics` that are better when they are larger.
RATIOS = ("rate_ratio", "balance")
BISECTIONS = 40  # halvings of at most [0, 1], to 1e-12; what is left errs on the safe side


@dataclass(frozen=True)
class Certificate:
    """What `certify` found. ``str`` of it states the guarantee in one sentence.

    Attributes
    ----------
    value : float
        The criterion on the rows. A gap is also called ``gap``.
    lower_bound, upper_bound : float
        The population value is between them, with probability at least ``confidence``. The lower
        bound of a gap is 0, the upper bound of a ratio is 1: rows can prove that a map is good
        enough, in one direction.
    confidence : float
        Share of such samples for which the statement is true, at the least.
    criterion : str
        ``"gap"``, ``"additive_gap"``, ``"worst_pair_gap"``, ``"rate_ratio"`` or ``"balance"``.
    method : str
        The inequality that gave the bound: ``"binomial"``, ``"hoeffding"``, ``"bernstein"`` or
        ``"subsets"``.
    of : str
        ``"labels"`` or ``"probabilities"``.
    n_rows : int
        Rows used.
    n_clusters : int
        Clusters of the map, empty ones too.
    group_sizes : dict of str to int
        Rows of each group.
    verdict : Verdict
        Of `FairMixture.certify`: whether these rows meet the rule of the model.
    attributes : mapping of str to Certificate
        Of `FairMixture.certify` with several attributes: the certificate of each, by name. The
        figures here are those of the worst, and the verdict is on all. Else empty.
    chance : float
        Of `FairMixture.certify`: the value that sampling explains. Where a map meets its rule on
        the rows of the fit, 19 of 20 samples of fresh rows show a smaller gap, or a larger ratio.

    Examples
    --------
    >>> print(certify([0, 1] * 500, ["a"] * 600 + ["b"] * 400))
    With confidence 95%, the population gap of this map's labels is at most 0.1035 (observed
    0.0000 on 1,000 rows: a 600, b 400; 2 clusters; binomial).
    """

    value: float
    lower_bound: float
    upper_bound: float
    confidence: float
    criterion: str
    method: str
    of: str
    n_rows: int
    n_clusters: int
    group_sizes: dict[str, int]
    # `certify` knows labels and groups, but no bound to judge them by.
    verdict: Verdict = field(default_factory=lambda: Verdict(NO_BOUND, np.nan))
    chance: float = np.nan
    attributes: Mapping[str, Certificate] = field(default_factory=dict)

    @classmethod
    def of_attributes(cls, found: Mapping[str, Certificate], confidence: float) -> Certificate:
        """Of several attributes, whose statements all hold with this confidence together."""
        # The worst one stands for all; the others are beside it.
        at_least = next(iter(found.values())).at_least
        worst = (min if at_least else max)(found.values(), key=lambda one: one.bound)
        return replace(
            worst,
            confidence=confidence,
            verdict=worst_of([one.verdict for one in found.values()]),
            attributes=dict(found),
        )

    @property
    def gap(self) -> float:
        """The value of a gap."""
        if self.at_least:
            raise AttributeError(f"a certificate of {self.criterion!r} has no gap; read value.")
        return self.value

    @property
    def at_least(self) -> bool:
        """Whether the statement is that the value is at least a bound, or at most."""
        return self.criterion in RATIOS

    @property
    def bound(self) -> float:
        """The bound that the rows prove: the lower one of a ratio, the upper one of a gap."""
        return self.lower_bound if self.at_least else self.upper_bound

    @property
    def by_chance(self) -> bool:
        """Whether the rows miss the rule by no more than sampling explains."""
        found = self.verdict
        explained = found.value >= self.chance if found.at_least else found.value <= self.chance
        return found.word == MISSED and explained

    def __str__(self) -> str:
        if self.attributes:
            each = (f"{name}: {one}" for name, one in self.attributes.items())
            together = f"All of this together with confidence {100 * self.confidence:.4g}%."
            return "\n".join([*each, together])
        sizes = ", ".join(f"{name} {size:,}" for name, size in self.group_sizes.items())
        return (
            f"With confidence {100 * self.confidence:.4g}%, the population "
            f"{self.criterion.replace('_', ' ')} of this map's {self.of} is "
            f"{'at least' if self.at_least else 'at most'} {self.bound:.4f} "
            f"(observed {self.value:.4f} on {self.n_rows:,} rows: {sizes}; "
            f"{self.n_clusters} clusters; {self.method})."
        )


@dataclass(frozen=True)
class ChanceGap:
    """What a perfectly fair map shows by chance: see `chance_gap`.

    Attributes
    ----------
    mean : float
        Mean over the draws.
    quantile95 : float
        19 of 20 draws are below this; for a ratio, above it.

    Examples
    --------
    >>> ChanceGap(mean=0.01, quantile95=0.02).quantile95
    0.02
    """

    mean: float
    quantile95: float


@dataclass(frozen=True, eq=False)
class _Sample:
    """Means (M, K), the rows of each (M,), and for probabilities the sample variance (M, K).

    Over the rows of a group; ``joint``: over all rows, those of other groups being 0.
    """

    sizes: Array
    means: Array
    variances: Array | None
    joint: bool = False

    @property
    def n_intervals(self) -> int:
        """Means that need an interval; none where groups cannot differ."""
        n_groups, n_clusters = map(int, self.means.shape)
        if n_groups == 1 or (n_clusters == 1 and not self.joint):
            return 0
        # Of two clusters one is enough: the other rate is 1 minus it, and so is its interval.
        return n_groups * (1 if n_clusters == 2 and not self.joint else n_clusters)


def certify(
    assignment: object,
    sensitive_features: object,
    *,
    criterion: str = "gap",
    confidence: float = 0.95,
    n_clusters: int | None = None,
    groups: Sequence[str] | None = None,
) -> Certificate:
    """Bound the population value of a gap from above, or of a ratio from below.

    The rows must be fresh: drawn independently from the population and used neither to fit the map
    nor to choose it. Then the bound holds for the population value with probability at least
    ``confidence``, whatever the distribution of the rows and however many there are.

    For gaps and ``"rate_ratio"`` the group sizes are taken as given, so that rows may also be
    drawn group by group. ``"balance"`` depends on how common the groups are: the rows must be
    drawn from the population as a whole, and the bound allows for the error of the shares, too.

    Parameters
    ----------
    assignment : array-like of shape (n_rows,) or (n_rows, n_clusters)
        Hard labels, or probabilities whose rows sum to 1, that the map gives to the fresh rows.
    sensitive_features : array-like or table
        The group of each row. Several columns form their intersections.
    criterion : str, default="gap"
        ``"gap"``, ``"additive_gap"``, ``"worst_pair_gap"``, ``"rate_ratio"`` or ``"balance"``, as
        in `fairmix.metrics`.
    confidence : float, default=0.95
        Above 0 and below 1.
    n_clusters : int, optional
        Clusters of the map. Give it with labels, since a cluster may have none of these rows;
        None counts the labels that occur.
    groups : sequence of str, optional
        Groups that the statement is about; None takes those that occur. Nothing is known of a
        group without rows, so its rates may be anything.

    Returns
    -------
    Certificate

    Examples
    --------
    >>> certificate = certify([0, 1] * 500, ["a"] * 600 + ["b"] * 400)
    >>> certificate.gap, round(certificate.upper_bound, 3)
    (0.0, 0.104)
    >>> round(certify([0, 1] * 500, ["a"] * 600 + ["b"] * 400, criterion="rate_ratio").bound, 3)
    0.811
    """
    _check_criterion(criterion)
    if not 0 < confidence < 1:
        raise ValueError(f"confidence={confidence!r} is not between 0 and 1. Use 0.95, say.")
    clusters = read_assignment(assignment)
    # Names that are given are kept although they may have no rows: leaving a group out would turn
    # the statement into one about fewer groups.
    names = tuple(groups) if groups is not None else encode_groups(sensitive_features).names
    codes = match_groups(sensitive_features, names, n_rows=len(clusters))
    sizes = np.bincount(codes, minlength=len(names))
    sample = _summarize(clusters, codes, sizes, n_clusters, joint=criterion == "balance")
    # A group without rows has no observed rates; only the bound must allow for it.
    seen = sizes > 0
    if criterion in RATIOS:
        value = smallest_ratio(sample.means[seen])
        # Of means as they are: those of Balance are joint, with the sizes of the groups in them.
        above, method = _upper_bound(sample, _ratio_of(np.ones(len(names))), 1 - confidence)
        lower_bound, upper_bound = 1 - above, 1.0
    else:
        value = CRITERIA[criterion].value(sample.means[seen])
        lower_bound = 0.0
        upper_bound, method = _upper_bound(sample, CRITERIA[criterion], 1 - confidence)
    return Certificate(
        value=value,
        lower_bound=lower_bound,
        upper_bound=upper_bound,
        confidence=confidence,
        criterion=criterion,
        method=method,
        of="labels" if isinstance(clusters, Labels) else "probabilities",
        n_rows=len(clusters),
        n_clusters=sample.means.shape[1],
        group_sizes=dict(zip(names, sizes.tolist(), strict=True)),
    )


def chance_gap(
    rates: ArrayLike,
    group_sizes: ArrayLike,
    *,
    criterion: str = "gap",
    # A fixed seed, so that the same rows give the same figures each time.
    random_state: int | np.random.Generator = 0,
    # The 95 % quantile then has 100 draws above it.
    n_draws: int = 2000,
) -> ChanceGap:
    """Gap, or ratio, that the labels of a perfectly even map show on a sample, by chance alone.

    Such a map has the same rates in every group of the population, a gap of 0, and still not in a
    sample. A held-out gap below ``quantile95``, or a ratio above it, is no evidence against
    equal rates.

    Parameters
    ----------
    rates : array-like of shape (n_clusters,)
        Share of the population in each cluster; divided by its sum, so cluster sizes will do.
    group_sizes : array-like of shape (n_groups,)
        Rows of each group in the sample, at least 1.
    criterion : str, default="gap"
        As in `certify`.
    random_state : int or numpy.random.Generator, default=0
        Seed of the draws.
    n_draws : int, default=2000
        Simulated samples.

    Returns
    -------
    ChanceGap

    Examples
    --------
    >>> round(chance_gap([0.5, 0.3, 0.2], [1000, 2000]).quantile95, 2)
    0.04
    """
    _check_criterion(criterion)
    shares = np.asarray(rates, dtype=np.float64)
    if shares.ndim != 1 or not (shares >= 0).all() or not 0 < shares.sum() < np.inf:
        raise ValueError(
            f"rates has shape {shares.shape} and sum {shares.sum()}. Give one share of at least 0 "
            "per cluster, not all of them 0."
        )
    sizes = np.asarray(group_sizes)
    if sizes.ndim != 1 or sizes.dtype.kind not in "iu" or not (sizes >= 1).all():
        raise ValueError(f"group_sizes={group_sizes!r} must be whole numbers of at least 1.")
    rng = np.random.default_rng(random_state)
    counts = rng.multinomial(sizes, shares / shares.sum(), size=(n_draws, len(sizes)))
    return _spread(criterion, counts / sizes[:, None], sizes)


def sampling_gap(
    rates: ArrayLike,
    fit_sizes: ArrayLike,
    group_sizes: ArrayLike,
    covariance: ArrayLike,
    *,
    criterion: str = "gap",
    random_state: int | np.random.Generator = 0,
    n_draws: int = 2000,
) -> ChanceGap:
    """Gap, or ratio, that fresh rows show by chance, given the rates of the rows of a fit.

    Parameters
    ----------
    rates : array-like of shape (n_groups, n_clusters)
        Of the rows of the fit.
    fit_sizes, group_sizes : array-like of shape (n_groups,)
        Rows of each group in the fit, and fresh ones.
    covariance : array-like of shape (n_clusters, n_clusters)
        Of the indicators of the clusters, or of their probabilities, over rows.
    criterion, random_state, n_draws
        As in `chance_gap`.

    Returns
    -------
    ChanceGap

    Examples
    --------
    >>> even = np.full((2, 2), 0.5)
    >>> round(sampling_gap(even, [500, 500], [500, 500], [[0.25, -0.25], [-0.25, 0.25]]).mean, 2)
    0.04
    """
    _check_criterion(criterion)
    known = np.asarray(rates, dtype=np.float64)
    # Fresh rates are those of the population with the error of the fresh rows. Those of the fit are
    # those of the population with the error of its rows, to which the map was tuned. So fresh rates
    # differ from those of the fit by both errors: of a mean of n rows and of one of n_fit rows, or
    # sqrt(2) times one of them where n = n_fit. Groups differ little in a map that meets its bound,
    # so the covariance of all rows serves for each.
    reach = np.sqrt(1 / np.asarray(fit_sizes, float) + 1 / np.asarray(group_sizes, float))
    rng = np.random.default_rng(random_state)
    noise = rng.multivariate_normal(
        np.zeros(known.shape[1]),
        np.asarray(covariance, dtype=np.float64),
        size=(n_draws, len(known)),
        check_valid="ignore",  # singular, as the columns add up to one
        # Cholesky's method fails for a singular matrix.
        method="eigh",
    )
    return _spread(criterion, known + reach[:, None] * noise, np.asarray(group_sizes, float))


def _check_criterion(name: str) -> None:
    known = (*CRITERIA, *RATIOS)
    if name not in known:
        raise ValueError(f"criterion={name!r} is unknown. Choose one of {', '.join(known)}.")


def _ratio_of(scales: Array) -> SmallestRatio:
    """The ratio of means times scales (M,), of which one row moves nothing here."""
    return SmallestRatio(scales, scales, 0 * scales)


def _spread(criterion: str, draws: Array, sizes: Array) -> ChanceGap:
    """Mean and tail of a criterion over draws of the rates, (n, M, K)."""
    if criterion not in RATIOS:
        values = np.array([CRITERIA[criterion].value(draw) for draw in draws])
        return ChanceGap(float(np.mean(values)), float(np.quantile(values, 0.95)))
    scales = sizes[:, None] if criterion == "balance" else 1.0
    # A normal error may be larger than a small rate, and no ratio is below 0.
    values = np.array([smallest_ratio(draw) for draw in np.maximum(draws, 0.0) * scales])
    return ChanceGap(float(np.mean(values)), float(np.quantile(values, 0.05)))


def _summarize(
    clusters: Assignment,
    codes: NDArray[np.intp],
    group_sizes: NDArray[np.intp],
    n_clusters: int | None,
    *,
    joint: bool,
) -> _Sample:
    n_groups = len(group_sizes)
    found = clusters.n_clusters if isinstance(clusters, Labels) else clusters.values.shape[1]
    total = found if n_clusters is None else n_clusters
    if total < found or (total > found and not isinstance(clusters, Labels)):
        raise ValueError(
            f"n_clusters={n_clusters} but assignment has {found} clusters. Give the number of "
            "clusters of the map, or None."
        )
    n_rows = len(clusters)
    sizes = np.full(n_groups, float(n_rows)) if joint else group_sizes.astype(np.float64)
    means = np.zeros((n_groups, total))
    if isinstance(clusters, Labels):
        np.add.at(means, (codes, clusters.codes), 1.0)
        return _Sample(sizes, means / np.maximum(sizes, 1)[:, None], None, joint)
    # Without any variance the interval is [0, 1]; a group of one row has none.
    variances = np.full((n_groups, total), np.inf)
    for g in range(n_groups) if joint else np.flatnonzero(sizes):
        inside = codes == g
        rows = clusters.values * inside[:, None] if joint else clusters.values[inside]
        rows = rows.astype(np.float64)
        # A mean beyond 1 by rounding would have no relative entropy.
        means[g] = np.clip(rows.mean(axis=0), 0.0, 1.0)
        if len(rows) > 1:
            variances[g] = rows.var(axis=0, ddof=1)
    return _Sample(sizes, means, variances, joint)


def _upper_bound(sample: _Sample, criterion: Criterion, error: float) -> tuple[float, str]:
    """Smallest of the bounds that the methods give, and the name of its method."""
    methods: dict[str, Callable[[_Sample, float], Box]]
    if sample.variances is None:
        methods = {"binomial": _binomial}
    else:
        methods = {"hoeffding": _hoeffding, "bernstein": _bernstein}
    # No interval is needed: the criterion is 0 for any population.
    if not sample.n_intervals:
        return 0.0, next(iter(methods))
    # The smallest of several bounds is itself a bound only where all of them hold, so the methods
    # share the error; which of them take part depends on the arguments, never on the rows.
    own = criterion.own_bounds(sample.means.shape[1])
    share = error / (len(methods) + len(own))
    bounds = {
        name: criterion.largest(*box(sample, share / sample.n_intervals))
        for name, box in methods.items()
    }
    bounds |= {name: bound(sample.means, sample.sizes, share) for name, bound in own.items()}
    method = min(bounds, key=lambda name: bounds[name])
    return bounds[method], method


def _binomial(sample: _Sample, error: float) -> Box:
    """Clopper and Pearson's interval for each rate."""
    sizes = sample.sizes[:, None]
    # The counts that were divided by the sizes, without the rounding of the division.
    inside = np.rint(sample.means * sizes)

    def low(count: Array) -> Array:
        some = np.maximum(count, 1)  # with a count of 0 the lower end is 0
        return np.where(count > 0, betaincinv(some, sizes - some + 1, error / 2), 0.0)

    # The rows of a group outside the cluster are binomial too: the upper end is their lower end.
    empty = np.broadcast_to(sizes == 0, inside.shape)
    return np.where(empty, 0.0, low(inside)), np.where(empty, 1.0, 1 - low(sizes - inside))


def _hoeffding(sample: _Sample, error: float) -> Box:
    """Rates whose relative entropy to the mean is at most log(2 / error) / n.

    Hoeffding (1963), theorem 1, equation 2.1, once for each side; by Pinsker's inequality never
    wider than the usual ``mean +- sqrt(log(2 / error) / (2 n))``.
    """
    limit = np.log(2 / error) / np.maximum(sample.sizes, 1)[:, None]
    means = np.stack([sample.means, 1 - sample.means])  # the lower end is 1 - the other's upper end
    inner, outer = means, np.ones_like(means)
    for _ in range(BISECTIONS):
        middle = (inner + outer) / 2
        far = rel_entr(means, middle) + rel_entr(1 - means, 1 - middle) > limit
        inner, outer = np.where(far, inner, middle), np.where(far, middle, outer)
    empty = np.broadcast_to((sample.sizes == 0)[:, None], sample.means.shape)
    # The outer end of the last interval: what bisection leaves open only widens the box.
    return np.where(empty, 0.0, 1 - outer[1]), np.where(empty, 1.0, outer[0])


def _bernstein(sample: _Sample, error: float) -> Box:
    """Maurer and Pontil (2009), theorem 4, with half the error for each side."""
    assert sample.variances is not None
    # Only keeps the divisors from zero: with one row or none the variance is infinite, and so is
    # the reach.
    sizes = np.maximum(sample.sizes, 2)[:, None]
    log = np.log(4 / error)
    reach = np.sqrt(2 * sample.variances * log / sizes) + 7 * log / (3 * (sizes - 1))
    return np.maximum(sample.means - reach, 0.0), np.minimum(sample.means + reach, 1.0)
