"""The one list of cases that drives the tests of the numerical core.

A new family, criterion, solver or place of the rows is one line in FAMILIES, CRITERIA, SOLVERS or
TABLES.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats

from fairmix import criteria
from fairmix.criteria import Criterion
from fairmix.kernels import LogitMap, backward, forward
from fairmix.kernels.totals import Block, Chunk, FloatArray, IntArray, Logits, Rows, Totals
from fairmix.mixture.families import COVARIANCE_TYPES, Categorical, Family, Gaussian, Product
from fairmix.mixture.mixture import Mixture
from fairmix.solvers import (
    EM,
    Beginning,
    Bound,
    Callback,
    Dual,
    GradientDescent,
    Solution,
    Solver,
)
from fairmix.solvers.objective import Objective, Scaled
from fairmix.tables import Blocks, FileBlocks, Frame, MemoryStore, Store, Table

# All different, so that no array has the right shape by chance; three columns are the fewest for
# which the upper and the lower triangle of a matrix are stored in different orders.
K, D, M, LEVELS = 4, 3, 3, (2, 4)


# ---------------------------------------------------------------------------------- families
def numeric_rows(n_rows: int, rng: np.random.Generator) -> Rows:
    """Correlated columns away from the origin."""
    mixing = np.array([[1.0, 0.5, 0.0], [0.0, 0.8, -0.3], [0.0, 0.0, 1.5]])
    return Rows(rng.normal(size=(n_rows, D)) @ mixing + [5.0, -2.0, 1.0], None)


def coded_rows(n_rows: int, rng: np.random.Generator) -> Rows:
    """Category codes."""
    return Rows(None, rng.integers(LEVELS, size=(n_rows, len(LEVELS))))


def mixed_rows(n_rows: int, rng: np.random.Generator) -> Rows:
    """Both."""
    return Rows(numeric_rows(n_rows, rng).numeric, coded_rows(n_rows, rng).codes)


def gaussian(rows: Rows, reg_covar: float, covariance_type: str) -> Gaussian:
    """K Gaussians, centred as the estimator does it."""
    assert rows.numeric is not None
    return Gaussian(K, rows.numeric.mean(axis=0), covariance_type, reg_covar)


def categorical(rows: Rows, reg_covar: float) -> Categorical:
    """K multinoullis."""
    return Categorical(K, LEVELS)


def product(rows: Rows, reg_covar: float, covariance_type: str) -> Product:
    """Both."""
    return Product(gaussian(rows, reg_covar, covariance_type), categorical(rows, reg_covar))


def covariance_matrices(covariances: FloatArray) -> list[FloatArray]:
    """One D x D matrix per component from any of the six shapes."""
    shared = covariances.shape in [(), (D,), (D, D)]
    each = np.broadcast_to(covariances, (K, *covariances.shape)) if shared else covariances
    return [c if np.ndim(c) == 2 else np.diag(np.broadcast_to(c, D)) for c in each]


def gaussian_log_density(parameters: dict[str, FloatArray], rows: Rows) -> FloatArray:
    """(K, n), by SciPy."""
    assert rows.numeric is not None
    x, matrices = rows.numeric, covariance_matrices(parameters["covariances"])
    components = zip(parameters["means"], matrices, strict=True)
    return np.stack([stats.multivariate_normal.logpdf(x, *c) for c in components])


def categorical_log_density(parameters: dict[str, FloatArray], rows: Rows) -> FloatArray:
    """(K, n): logarithm of a product of probabilities."""
    assert rows.codes is not None
    starts = np.cumsum([0, *LEVELS[:-1]])
    return np.asarray(np.log(parameters["probabilities"][:, rows.codes + starts].prod(axis=2)))


def product_log_density(parameters: dict[str, FloatArray], rows: Rows) -> FloatArray:
    """(K, n): the columns of both kinds are independent."""
    return gaussian_log_density(parameters, rows) + categorical_log_density(parameters, rows)


@dataclass(frozen=True)
class FamilyCase:
    """A family, rows for it, and what is known of it from elsewhere."""

    make: Callable[[Rows, float], Family]
    rows: Callable[[int, np.random.Generator], Rows]
    log_density: Callable[[dict[str, FloatArray], Rows], FloatArray]
    n_parameters: int
    numeric: bool = True
    scale_free: bool = False  # column scaling does not change responsibilities


# Free numbers in the covariances of 4 components on 3 columns, counted by hand.
COVARIANCE_NUMBERS = {
    "tied-spherical": 1,
    "spherical": 4,
    "tied-diag": 3,
    "diag": 12,
    "tied": 6,
    "full": 24,
}
SCALE_FREE = {"tied-diag", "diag", "tied", "full"}
FAMILIES: dict[str, FamilyCase] = {
    **{
        f"gaussian-{c}": FamilyCase(
            partial(gaussian, covariance_type=c),
            numeric_rows,
            gaussian_log_density,
            n_parameters=12 + COVARIANCE_NUMBERS[c],
            scale_free=c in SCALE_FREE,
        )
        for c in COVARIANCE_TYPES
    },
    "categorical": FamilyCase(
        categorical, coded_rows, categorical_log_density, n_parameters=16, numeric=False
    ),
    **{
        f"product-{c}": FamilyCase(
            partial(product, covariance_type=c),
            mixed_rows,
            product_log_density,
            n_parameters=12 + COVARIANCE_NUMBERS[c] + 16,
            scale_free=c in SCALE_FREE,
        )
        for c in COVARIANCE_TYPES
    },
}


# ---------------------------------------------------------------------------------- criteria
def clusters_alone(n_pairs: int, n_clusters: int) -> FloatArray:
    """Mean over pairs, cluster by cluster."""
    return np.kron(np.eye(n_clusters), np.full((1, n_pairs), 1 / n_pairs))


def clusters_together(n_pairs: int, n_clusters: int) -> FloatArray:
    """Mean over pairs, added up over clusters."""
    return np.full((1, n_pairs * n_clusters), 1 / n_pairs)


def pairs_alone(n_pairs: int, n_clusters: int) -> FloatArray:
    """Every pair in every cluster."""
    return np.eye(n_pairs * n_clusters)


@dataclass(frozen=True)
class CriterionCase:
    """A criterion and its definition.

    The value is the largest entry of ``averages(pairs, clusters) @ differences``, where
    differences are ``|r_a - r_b|``, for all pairs of the first cluster, then of the second...
    """

    criterion: Criterion
    averages: Callable[[int, int], FloatArray]

    def value(self, rates: FloatArray) -> float:
        """Brute force over pairs."""
        pairs = list(itertools.combinations(range(len(rates)), 2))
        if not pairs:
            return 0.0
        differences = [abs(column[a] - column[b]) for column in rates.T for a, b in pairs]
        return float((self.averages(len(pairs), rates.shape[1]) @ differences).max())


CRITERIA: dict[str, CriterionCase] = {
    "gap": CriterionCase(criteria.CRITERIA["gap"], clusters_alone),
    "additive_gap": CriterionCase(criteria.CRITERIA["additive_gap"], clusters_together),
    "worst_pair_gap": CriterionCase(criteria.CRITERIA["worst_pair_gap"], pairs_alone),
}


# ---------------------------------------------------------------------------------- solvers
# What the dual bounds the rates by; the others pay for them in the objective.
BOUND = 0.02


def dual(criterion: Criterion, **settings: Any) -> Dual:
    """With a bound on responsibilities, which are smooth in the rows, as those of the others."""
    return Dual(criterion, Bound(criterion, BOUND), labels=False, **settings)


# Settings under which a solver settles on toy data within a second.
SOLVERS: dict[str, Callable[..., Solver]] = {
    "em": partial(EM, max_iter=120, tol=1e-6),
    "gd": partial(GradientDescent, max_iter=800, learning_rate=1e-2, tol=1e-6),
    "dual": partial(dual, max_iter=120, tol=1e-6),
}


def solved(
    solver: Solver, objective: Objective, theta: FloatArray, callback: Callback | None = None
) -> Solution:
    """A climb from theta, finished on the same rows."""
    rough = solver.climb(objective, Beginning(theta), callback)
    return solver.finish(objective.mixture, rough, objective.table, objective.table)


# Those that climb the objective with its penalty; the dual tilts the responsibilities instead.
CLIMBERS = ("em", "gd")


# ---------------------------------------------------------------------------------- tables
def memory_table(rows: Rows, encode: Any, *, propensity: Any = None, **columns: Any) -> Table:
    """Rows in memory as a table."""
    return Table(MemoryStore(rows, **columns), encode, propensity=propensity)


def write_rows(path: Path, rows: Rows, groups: IntArray, weight: FloatArray | None) -> FileBlocks:
    """Rows in a Parquet file, whose row groups are no blocks."""
    columns = {"group": groups} if weight is None else {"group": groups, "weight": weight}
    for kind, part in (("numeric", rows.numeric), ("code", rows.codes)):
        if part is not None:
            columns |= {f"{kind} {j}": column for j, column in enumerate(part.T)}
    pq.write_table(pa.table(columns), path, row_group_size=5000)
    return FileBlocks(path)


def read_rows(frame: Frame) -> Chunk:
    """A block of such a file."""
    found = {name: frame.table[name].to_numpy() for name in frame.table.column_names}

    def part(kind: str) -> Any:
        columns = [column for name, column in found.items() if name.startswith(kind)]
        return np.column_stack(columns) if columns else None

    rows = Rows(part("numeric"), part("code"))
    return Chunk(frame.number, rows, found["group"], found.get("weight"))


def far_table(
    frames: Callable[[FileBlocks], Blocks[Frame]],
    folder: Path,
    rows: Rows,
    encode: Any,
    *,
    groups: IntArray,
    n_groups: int,
    weight: FloatArray | None = None,
    propensity: Any = None,
) -> Table:
    """Rows that come from a file for every pass, or are kept on the workers of a cluster."""
    path = folder / f"{len(list(folder.iterdir()))}.parquet"
    blocks = frames(write_rows(path, rows, groups, weight)).map(read_rows, keep=0)
    return Table(Store(blocks, n_groups), encode, propensity=propensity)


# Where rows live, given the fixtures of the test that asks.
TABLES: dict[str, Callable[[pytest.FixtureRequest], Callable[..., Table]]] = {
    "memory": lambda _: memory_table,
    "memory-2-threads": lambda _: partial(memory_table, n_jobs=2),
    "files": lambda request: partial(
        far_table, lambda files: files, request.getfixturevalue("tmp_path")
    ),
    "dask": lambda request: partial(
        far_table, request.getfixturevalue("to_dask"), request.getfixturevalue("tmp_path")
    ),
}


# ---------------------------------------------------------------------------------- helpers
def each(argument: str, cases: dict[str, Any], *names: str) -> pytest.MarkDecorator:
    """Parametrise over all cases of a list, or over the named ones."""
    chosen = names or tuple(cases)
    return pytest.mark.parametrize(argument, [cases[name] for name in chosen], ids=chosen)


each_family = each("case", FAMILIES)
each_numeric_family = each("case", {n: c for n, c in FAMILIES.items() if c.numeric})
each_criterion = each("fairness", CRITERIA)
each_solver = each("make_solver", SOLVERS)
each_climber = each("make_solver", SOLVERS, *CLIMBERS)
each_table = pytest.mark.parametrize("make_table", TABLES, indirect=True)
each_memory_table = pytest.mark.parametrize(
    "make_table", [name for name in TABLES if name.startswith("memory")], indirect=True
)


def random_sums(family: Family, rows: Rows, rng: np.random.Generator) -> Logits:
    """Sums of an E-step with random responsibilities."""
    return soft_sums(family, rows, rng.dirichlet(np.ones(K), size=rows.n_rows).T)


def soft_sums(family: Family, rows: Rows, psi: FloatArray) -> Logits:
    """Sums of an E-step with given responsibilities (K, n)."""
    return backward(whole_block(family, rows), psi, family.n_features)


def whole_block(family: Family, rows: Rows) -> Block:
    """All rows as one block without groups."""
    features = family.encode(rows)
    return Block(features, np.zeros(rows.n_rows, dtype=np.intp), 1, np.dtype(np.float64))


def random_theta(family: Family, rows: Rows, rng: np.random.Generator) -> FloatArray:
    """Parameters of the size of the data, different in every component."""
    theta = family.maximize(random_sums(family, rows, rng))
    return np.asarray(theta + rng.normal(scale=0.3, size=theta.shape))


def block_totals(
    block: Block,
    logits: Logits,
    *,
    offsets: FloatArray | None = None,
    alpha: float = 1.0,
    pull: FloatArray | None = None,
    temperature: float = 1.0,
    masses: bool = True,
) -> Totals:
    """The kernel's two halves on one block."""
    ahead = forward(block, LogitMap(logits, offsets, temperature), masses=masses)
    how = (alpha, pull, temperature, ahead.linear)
    return ahead.totals(backward(block, ahead.psi, logits.W.shape[1], *how))


def numbers(totals: Totals) -> dict[str, FloatArray]:
    """All fields as arrays."""
    values = {f.name: getattr(totals, f.name) for f in fields(totals)}
    sums = values.pop("sums")
    return {name: np.asarray(value) for name, value in values.items()} | {
        "sums.b": sums.b,
        "sums.W": sums.W,
    }


def assert_same_bits(actual: Totals, expected: Totals) -> None:
    """Every field is equal to the last bit."""
    reference = numbers(expected)
    for name, value in numbers(actual).items():
        assert np.array_equal(value, reference[name], equal_nan=True), name


def assert_close(actual: Totals, expected: Totals, rtol: float, atol: float) -> None:
    """Every field is equal up to rounding."""
    reference = numbers(expected)
    for name, value in numbers(actual).items():
        np.testing.assert_allclose(value, reference[name], rtol=rtol, atol=atol, err_msg=name)


def central_differences(
    function: Callable[[FloatArray], float], point: FloatArray, step: float = 1e-5
) -> FloatArray:
    """Numerical gradient, of the shape of ``point``."""
    gradient = np.empty(point.size)
    for i in range(point.size):
        move = np.zeros(point.shape)
        move.flat[i] = step
        gradient[i] = (function(point + move) - function(point - move)) / (2 * step)
    return gradient.reshape(point.shape)


def assert_slopes(
    function: Callable[[FloatArray], float], point: FloatArray, gradient: FloatArray
) -> None:
    """A gradient agrees with central differences along random directions.

    As telling as one difference per entry, for a function that is slow: an error in any entry
    shows in every direction.
    """
    rng = np.random.default_rng(0)
    for _ in range(4):
        direction = rng.normal(size=point.shape)
        step = 1e-5 * direction
        slope = (function(point + step) - function(point - step)) / 2e-5
        np.testing.assert_allclose(gradient @ direction, slope, rtol=1e-6, atol=1e-6)


class Problem(NamedTuple):
    """Rows with groups and weights, a mixture for them, and parameters."""

    mixture: Mixture
    rows: Rows
    groups: IntArray
    weight: FloatArray
    theta: FloatArray

    def table(self, make: Callable[..., Table] = memory_table) -> Table:
        """A weighted table."""
        return make(
            self.rows,
            self.mixture.family.encode,
            groups=self.groups,
            n_groups=M,
            weight=self.weight,
        )

    def objective(
        self, criterion: Criterion | None = None, *, temperature: float = 1.0
    ) -> Objective:
        """With a penalty so sharp that its gradient is that of the criterion."""
        penalty = None if criterion is None else Scaled(criterion, 2.0, 1e9, np.zeros((M, K)))
        return Objective(self.mixture, self.table(), penalty, temperature)


def problem(case: FamilyCase, n_rows: int = 60, seed: int = 0) -> Problem:
    """A small problem whose groups differ."""
    rng = np.random.default_rng(seed)
    rows = case.rows(n_rows, rng)
    family = case.make(rows, 0.0)
    theta = np.concatenate([rng.normal(scale=0.3, size=K), random_theta(family, rows, rng)])
    groups = rng.integers(M, size=n_rows)
    return Problem(Mixture(family), rows, groups, rng.uniform(0.5, 2.0, size=n_rows), theta)


def count_calls(work: Callable[[], object]) -> int:
    """Calls of functions, in Python or in C, that some work makes once it is warm.

    A measure of speed that a busy machine does not change: work on arrays makes as many calls for
    a million rows as for a thousand.
    """
    work()
    calls = 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls
