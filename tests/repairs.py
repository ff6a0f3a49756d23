"""The linear and the integer program of fair labels, written out in full."""

from __future__ import annotations

from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

Array = NDArray[np.float64]


class Problem(NamedTuple):
    """Costs (n, K), codes of each attribute (n, J), and a rule."""

    cost: Array
    codes: NDArray[np.intp]
    rule: dict[str, float]

    @property
    def arguments(self) -> dict[str, Any]:
        """For `fair_labels`, beside the costs."""
        one = self.codes.shape[1] == 1
        return {
            "sensitive_features": self.codes[:, 0] if one else self.codes,
            "attributes": "intersect" if one else "each",
            **self.rule,
        }


def problem(
    n_rows: int, n_clusters: int, counts: tuple[int, ...], rule: dict[str, float], seed: int
) -> Problem:
    """Squared distances to random centres, of groups that lie apart."""
    rng = np.random.default_rng(seed)
    codes = np.column_stack([rng.permutation(np.arange(n_rows) % count) for count in counts])
    return _problem(n_rows, n_clusters, counts, rule, codes, rng)


def uneven_problem(
    n_rows: int, n_clusters: int, counts: tuple[int, ...], rule: dict[str, float], seed: int
) -> Problem:
    """The same of groups of different sizes, of 100 rows at least."""
    rng = np.random.default_rng(seed)
    columns = []
    for count in counts:
        sizes = 100 + np.floor(rng.dirichlet(np.full(count, 2.0)) * (n_rows - 100 * count))
        sizes[0] += n_rows - sizes.sum()
        columns.append(rng.permutation(np.repeat(np.arange(count), sizes.astype(int))))
    return _problem(n_rows, n_clusters, counts, rule, np.column_stack(columns), rng)


def _problem(
    n_rows: int,
    n_clusters: int,
    counts: tuple[int, ...],
    rule: dict[str, float],
    codes: Any,
    rng: np.random.Generator,
) -> Problem:
    X = rng.normal(size=(n_rows, 3))
    for column, count in zip(codes.T, counts, strict=True):
        X += rng.normal(scale=0.8, size=(count, 3))[column]
    centres = X[rng.choice(n_rows, n_clusters, replace=False)]
    return Problem(((X[:, None] - centres) ** 2).sum(axis=2), codes, rule)


def solve(given: Problem, *, whole: bool, slack: float = 0.0) -> tuple[float, Array] | None:
    """Least cost and the shares of rows in clusters (n, K); None where nothing meets the rule."""
    cost, codes, rule = given
    n, K = cost.shape
    (name, bound), *_ = rule.items()
    left, right = [], []
    n_pairs = 0
    for column in codes.T:
        M = int(column.max()) + 1
        sizes = np.bincount(column).astype(float)
        if name == "max_gap":
            n_pairs += K * M * (M - 1) // 2
    first = n * K
    pair = 0
    for column in codes.T:
        M = int(column.max()) + 1
        sizes = np.bincount(column).astype(float)

        def shares(g: int, k: int, column=column, sizes=sizes) -> Any:
            rows = np.flatnonzero(column == g)
            return sparse.coo_array(
                (np.full(len(rows), 1 / sizes[g]), (np.zeros(len(rows), int), rows * K + k)),
                shape=(1, first + n_pairs),
            )

        if name == "max_gap":
            for k in range(K):
                mean = np.zeros(first + n_pairs)
                for g, h in combinations(range(M), 2):
                    unit = np.zeros(first + n_pairs)
                    unit[first + pair] = 1
                    unit = sparse.coo_array(unit[None])
                    left += [shares(g, k) - shares(h, k) - unit, shares(h, k) - shares(g, k) - unit]
                    right += [0, 0]
                    mean[first + pair] = 2 / (M * (M - 1))
                    pair += 1
                left.append(sparse.coo_array(mean[None]))
                right.append(bound)
            continue
        scale = sizes if name == "min_balance" else np.ones(M)
        for k in range(K):
            for g in range(M):
                for h in range(M):
                    if g != h:
                        left.append(bound * scale[h] * shares(h, k) - scale[g] * shares(g, k))
                        right.append(0)
    A = sparse.vstack(left).tocsr()
    each = sparse.hstack(
        [sparse.kron(sparse.eye_array(n), np.ones((1, K))), sparse.csr_array((n, n_pairs))]
    ).tocsr()
    found = milp(
        np.concatenate([cost.ravel(), np.zeros(n_pairs)]),
        integrality=np.concatenate([np.full(n * K, float(whole)), np.zeros(n_pairs)]),
        bounds=Bounds(0, 1),
        constraints=[
            LinearConstraint(A, -np.inf, np.array(right) + slack),
            LinearConstraint(each, np.ones(n), np.ones(n)),
        ],
    )
    if found.x is None:
        return None
    return float(found.fun), found.x[: n * K].reshape(n, K)


def least_of_whole_rows(given: Problem, filled: NDArray[np.bool_], known: float) -> float:
    """A bound on the cost of whole rows under a ratio or Balance of one attribute.

    Whole rows have whole counts, so with the largest scaled count of a cluster known, those of the
    other groups are between ends that are rounded inwards. Mixtures of such windows, of all levels
    that there are, are a linear program; ``filled`` (K,) clusters have none of zero rows. Where
    that leaves more than a thousandth of a ``known`` cost open, one window is chosen for each
    cluster, of all rows and windows that labels of this cost may have by their reduced costs.
    """
    cost, codes, rule = given
    n, K = cost.shape
    (name, bound), *_ = rule.items()
    column = codes[:, 0]
    sizes = np.bincount(column).astype(float)
    M = len(sizes)
    row = 1 / sizes if name == "min_ratio" else np.ones(M)
    levels = np.unique(np.concatenate([np.arange(int(sizes[g]) + 1) * row[g] for g in range(M)]))
    low = np.ceil(bound * levels[:, None] / row - 1e-9)
    high = np.minimum(np.floor(levels[:, None] / row + 1e-9), sizes)
    fits = (low <= high).all(axis=1)
    levels, low, high = levels[fits], low[fits], high[fits]
    choices = [
        (k, z) for k in range(K) for z in range(len(levels)) if levels[z] > 0 or not filled[k]
    ]
    cluster, level = np.array(choices).T
    Z = len(choices)
    cells = (np.arange(M) * K + cluster[:, None]).ravel()
    where = (cells, np.repeat(np.arange(Z), M))
    counts = sparse.csr_array(
        (np.ones(n * K), ((column[:, None] * K + np.arange(K)).ravel(), np.arange(n * K))),
        shape=(M * K, n * K),
    )
    ends = [
        sparse.csr_array((values[level].ravel(), where), shape=(M * K, Z)) for values in (low, high)
    ]
    one = sparse.csr_array((np.ones(Z), (cluster, np.arange(Z))), shape=(K, Z))
    each = sparse.kron(sparse.eye_array(n), np.ones((1, K)))
    left = sparse.block_array(
        [[counts, -ends[1]], [-counts, ends[0]]],
    )
    equal = sparse.block_array([[each, None], [None, one]])
    prices, sums = np.concatenate([cost.ravel(), np.zeros(Z)]), np.ones(n + K)
    found: Any = linprog(prices, left, np.zeros(2 * M * K), equal, sums, method="highs")
    value = float(found.fun)
    if known <= 1.001 * value:
        return value
    reduced = prices - left.T @ found.ineqlin.marginals - equal.T @ found.eqlin.marginals
    some = np.flatnonzero(reduced <= known - value + 1e-9)
    whole = milp(
        prices[some],
        integrality=some >= cost.size,
        bounds=Bounds(0, 1),
        constraints=[
            LinearConstraint(left.tocsc()[:, some], -np.inf, 0.0),
            LinearConstraint(equal.tocsc()[:, some], 1.0, 1.0),
        ],
        options={"mip_rel_gap": 2e-4, "node_limit": 1},
    )
    return value if whole.mip_dual_bound is None else max(value, float(whole.mip_dual_bound))
