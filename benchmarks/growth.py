"""How time grows with rows, clusters and columns, compared with other programs."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from statistics import median
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.mixture import GaussianMixture
from threadpoolctl import threadpool_limits

from benchmarks.harness import Ratio
from fairmix import FairMixture
from fairmix.baselines import AlignedFairKMeans, FairletKMeans, VariationalFairKMeans
from fairmix.datasets import make_grouped_blobs
from fairmix.input.groups import encode_groups
from fairmix.kernels.totals import Rows
from fairmix.tables import MemoryStore, Table

ROWS = (100_000, 316_228, 1_000_000, 3_162_278, 10_000_000)
FIT_ROWS = (1_000, 3_162, 10_000, 31_623, 100_000, 316_228, 1_000_000)
WIDTHS = (5, 10, 20, 40, 80)
FIXED_ROWS = 200_000
COLUMNS = K = 10
BOUNDS = {"N": 1.02, "K": 1.1, "d": 1.1}
# Rows that a tilt is learned from, and passes of which the median counts.
SAMPLE_ROWS = 20_000
PASSES = 3
# Iterations of the others, each a pass; seconds after which a method gets no more rows.
ITERATIONS = 8
LONGEST_FIT = 60.0
TINY = {"rows": (500, 1_000), "fit_rows": (1_000, 2_000), "widths": (2, 4), "fixed_rows": 500}

# Work that takes data and the number of clusters, and gives seconds.
Timed = Callable[[np.ndarray, np.ndarray, int], float]


def run(
    repeats: int,
    rows: Sequence[int] = ROWS,
    fit_rows: Sequence[int] = FIT_ROWS,
    widths: Sequence[int] = WIDTHS,
    fixed_rows: int = FIXED_ROWS,
) -> Iterator[Ratio]:
    """Exponents of a pass, with their bounds, and of whole fits; all on one thread."""
    shapes = {
        "N": [(n, COLUMNS, K) for n in rows],
        "K": [(fixed_rows, COLUMNS, k) for k in widths],
        "d": [(fixed_rows, d, K) for d in widths],
    }
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")  # a few iterations are not the end
        for letter, sizes in shapes.items():
            yield from _growth("pass", letter, sizes, _passes(), repeats)
        sizes = [(n, COLUMNS, K) for n in fit_rows]
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
        exponent = float(np.polyfit(np.log(reached), np.log(times), 1)[0])
        bound = BOUNDS[letter] if what == "pass" and name.startswith("fairmix") else None
        details = {"what": what, "letter": letter, "sizes": reached, "seconds": times}
        title = f"{what} in {letter}, {name}"
        yield Ratio(title, exponent, "in proportion", 1, bound, unit="", details=details)


def _passes() -> dict[str, Timed]:
    return {
        "fairmix aware": partial(_our_pass, "aware"),
        "fairmix blind": partial(_our_pass, "blind"),
        "KMeans": _kmeans_pass,
        "GaussianMixture": _gaussian_pass,
    }


def _our_pass(assignment: str, X, groups, k: int) -> float:
    """An E-step over all rows with the tilt of a fit of some."""
    few = slice(0, SAMPLE_ROWS)
    fit = FairMixture(k, assignment=assignment, random_state=0)
    model = fit.fit(X[few], sensitive_features=groups[few])._model
    codes = encode_groups(groups).codes
    store = MemoryStore(Rows(X, None), groups=codes, n_groups=len(model.offsets))
    table = Table(store, model.mixture.family.encode, propensity=model.propensity)
    sweep = {"offsets": model.offsets, "temperature": 0.3, "likelihood": False, "rough": True}

    def once() -> None:
        table.softmax_pass(model.mixture.logits(model.theta), **sweep)

    once()  # keeps what tables keep between passes
    return median(_timed(once) for _ in range(PASSES))


def _kmeans_pass(X, groups, k: int) -> float:
    model = KMeans(k, init=X[:k], n_init=1, tol=0, max_iter=ITERATIONS)
    return _timed(lambda: model.fit(X)) / model.n_iter_


def _gaussian_pass(X, groups, k: int) -> float:
    model = GaussianMixture(
        k,
        covariance_type="spherical",
        tol=0,
        max_iter=ITERATIONS,
        init_params="random_from_data",
        reg_covar=1e-3,  # single precision and few rows
        random_state=0,
    )
    return _timed(lambda: model.fit(X)) / model.n_iter_


def _fits() -> dict[str, Timed]:
    def fair(make: Callable[..., Any], **settings: Any) -> Timed:
        def fit(X, groups, k: int) -> float:
            model = make(k, random_state=0, **settings)
            return _timed(lambda: model.fit(X, sensitive_features=groups))

        return fit

    def plain(make: Callable[..., Any], **settings: Any) -> Timed:
        return lambda X, groups, k: _timed(
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


def _timed(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started
