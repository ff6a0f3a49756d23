"""How time grows with rows, clusters and columns, compared with other programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from statistics import median
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.mixture import GaussianMixture

from benchmarks.harness import Array, Ratio, Tiny, exponent, quietly, timed
from fairmix import FairMixture
from fairmix.baselines import AlignedFairKMeans, FairletKMeans, VariationalFairKMeans
from fairmix.datasets import make_grouped_blobs
from fairmix.input.groups import encode_groups
from fairmix.kernels import Sweep
from fairmix.kernels.totals import Rows
from fairmix.tables import MemoryStore, Table

# Steps of half a power of ten.
ROWS = (100_000, 316_228, 1_000_000, 3_162_278, 10_000_000)
FIT_ROWS = (1_000, 3_162, 10_000, 31_623, 100_000, 316_228, 1_000_000)
WIDTHS = (5, 10, 20, 40, 80)
FIXED_ROWS = 200_000  # while clusters or columns grow: more than the caches hold
COLUMNS = K = 10  # while rows grow
# In proportion, and a few per cent for caches.
BOUNDS = {"N": 1.03, "K": 1.1, "d": 1.1}
# A tilt is learned from so many rows: it only has to be there. The median of some passes counts.
SAMPLE_ROWS, PASSES = 20_000, 3
TEMPERATURE = 0.3  # of a blind fit's E-step
# Iterations of the others, each a pass; seconds after which a method gets no more rows.
ITERATIONS, LONGEST_FIT = 8, 60.0
TINY: Tiny = {
    "rows": (200, 400),
    "fit_rows": (200, 400),
    "widths": (2, 4),
    "fixed_rows": 200,
    "n_clusters": 2,
}

# Work that takes data and the number of clusters, and gives seconds.
Timed = Callable[[Array, Array, int], float]


def run(
    repeats: int,
    rows: Sequence[int] = ROWS,
    fit_rows: Sequence[int] = FIT_ROWS,
    widths: Sequence[int] = WIDTHS,
    fixed_rows: int = FIXED_ROWS,
    n_clusters: int = K,
) -> Iterator[Ratio]:
    """Exponents of a pass, with their bounds, and of whole fits; all on one thread."""
    shapes = {
        "N": [(n, COLUMNS, n_clusters) for n in rows],
        "K": [(fixed_rows, COLUMNS, k) for k in widths],
        "d": [(fixed_rows, d, n_clusters) for d in widths],
    }
    with quietly(threads=1):
        for letter, sizes in shapes.items():
            yield from _growth("pass", letter, sizes, _passes(), repeats)
        sizes = [(n, COLUMNS, n_clusters) for n in fit_rows]
        yield from _growth("fit", "N", sizes, _fits(), repeats)


def _growth(
    what: str, letter: str, sizes: list[tuple[int, int, int]], work: dict[str, Timed], repeats: int
) -> Iterator[Ratio]:
    """The exponent of each method over the sizes that it gets to."""
    seconds: dict[str, list[float]] = {name: [] for name in work}
    for n, d, k in sizes:
        X, groups, _ = make_grouped_blobs(n, k, d, random_state=0)
        X = X.astype(np.float32)
        able = [name for name, times in seconds.items() if max(times, default=0) < LONGEST_FIT]
        taken: dict[str, list[float]] = {name: [] for name in able}
        for _ in range(repeats):
            for name in able:
                taken[name].append(work[name](X, groups, k))
        for name in able:
            seconds[name].append(median(taken[name]))
    position = "NdK".index(letter)
    for name, times in seconds.items():
        reached = [size[position] for size in sizes[: len(times)]]
        bound = BOUNDS[letter] if what == "pass" and name.startswith("fairmix") else None
        details = {"what": what, "letter": letter, "sizes": reached, "seconds": times}
        title = f"{what} in {letter}, {name}"
        slope = exponent(reached, times)
        yield Ratio(title, slope, "in proportion", 1, bound, unit="", details=details)


def _passes() -> dict[str, Timed]:
    return {
        "fairmix aware": partial(_our_pass, "aware"),
        "fairmix blind": partial(_our_pass, "blind"),
        "KMeans": _kmeans_pass,
        "GaussianMixture": _gaussian_pass,
    }


def _our_pass(assignment: Any, X: Array, groups: Array, k: int) -> float:
    """An E-step over all rows with the tilt of a fit of some."""
    few = slice(0, SAMPLE_ROWS)
    fit = FairMixture(k, assignment=assignment, random_state=0)
    model = fit.fit(X[few], sensitive_features=groups[few]).fitted_.model
    assert model.offsets is not None
    codes = encode_groups(groups).codes
    store = MemoryStore(Rows(X, None), groups=codes, n_groups=len(model.offsets))
    table = Table(store, model.mixture.family.encode, propensity=model.propensity)

    def once() -> None:
        table.softmax_pass(
            Sweep(
                model.mixture.logits(model.theta),
                offsets=model.offsets,
                temperature=TEMPERATURE,
                likelihood=False,
                rough=True,
            )
        )

    once()  # keeps what tables keep between passes
    return median(timed(once) for _ in range(PASSES))


def _kmeans_pass(X: Array, groups: Array, k: int) -> float:
    return _iteration(KMeans(k, init=X[:k], n_init=1, tol=0, max_iter=ITERATIONS), X)


def _gaussian_pass(X: Array, groups: Array, k: int) -> float:
    model = GaussianMixture(
        k,
        covariance_type="spherical",
        tol=0,
        max_iter=ITERATIONS,
        init_params="random_from_data",
        reg_covar=1e-3,  # single precision and few rows
        random_state=0,
    )
    return _iteration(model, X)


def _iteration(model: Any, X: Array) -> float:
    """Seconds of an iteration, of those that a fit makes."""
    seconds = timed(lambda: model.fit(X))
    return seconds / float(model.n_iter_)


def _fits() -> dict[str, Timed]:
    def fair(make: Callable[..., Any], **settings: Any) -> Timed:
        def fit(X: Array, groups: Array, k: int) -> float:
            model = make(k, random_state=0, **settings)
            return timed(lambda: model.fit(X, sensitive_features=groups))

        return fit

    def plain(make: Callable[..., Any], **settings: Any) -> Timed:
        return lambda X, groups, k: timed(
            lambda: make(k, random_state=0, n_init=1, **settings).fit(X)
        )

    return {
        "fairmix aware": fair(FairMixture, assignment="aware"),
        "fairmix blind": fair(FairMixture),
        "KMeans": plain(KMeans),
        "GaussianMixture": plain(GaussianMixture, covariance_type="spherical"),
        "FairletKMeans": fair(FairletKMeans),
        "VariationalFairKMeans": fair(VariationalFairKMeans),
        "AlignedFairKMeans": fair(AlignedFairKMeans),
    }
