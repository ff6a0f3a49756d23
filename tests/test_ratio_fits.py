"""Fits with a rule on ratios: labels against a linear program, errors, margins, places of rows."""

from collections.abc import Sequence
from itertools import permutations
from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog

from cases import memory_table, solved
from fairmix.criteria import CRITERIA, Limit, MinBalance, MinRatio
from fairmix.kernels import LogitMap, hard_labels
from fairmix.kernels.totals import FloatArray, IntArray, Rows
from fairmix.mixture.families import Gaussian
from fairmix.mixture.mixture import Mixture
from fairmix.solvers import Bound, Dual
from fairmix.solvers.objective import Objective
from repetition import long


# ------------------------------------------------------- fixed components, by a linear program
class Attribute(NamedTuple):
    """The group of each row, and ``scales``: of two groups g, h, a_g r_g >= least a_h r_h."""

    groups: IntArray
    scales: FloatArray
    least: float


def cheapest(costs: FloatArray, attributes: Sequence[Attribute]) -> float:
    """The least cost of an assignment of rows to clusters (n, K) that keeps every rule."""
    n_rows, n_clusters = costs.shape
    rules = []
    for groups, scales, least in attributes:
        # The weight of a row in the scaled rate of its group, then pairs of groups.
        scaled = scales / np.bincount(groups)
        for g, h in permutations(range(len(scales)), 2):
            row = least * scaled[h] * (groups == h) - scaled[g] * (groups == g)
            rules.append(sp.kron(sp.csr_array(row[None]), sp.eye_array(n_clusters)))
    one_each = sp.kron(sp.eye_array(n_rows), np.ones((1, n_clusters)))
    A = sp.vstack(rules).tocsr()
    found = linprog(costs.ravel(), A, np.zeros(A.shape[0]), one_each, np.ones(n_rows))
    assert found.status == 0
    return float(found.fun)


N_ROWS, K = 3000, 4


def fixed_components(n_groups: int, seed: int) -> tuple[FloatArray, IntArray, Mixture, FloatArray]:
    """Rows of groups that lie apart, and components that are not those of a fit."""
    rng = np.random.default_rng(seed)
    groups = np.repeat([0, 0, 1] if n_groups == 2 else [0, 0, 0, 0, 0, 0, 1, 1, 1, 2], 3000)
    groups = rng.permutation(groups)[:N_ROWS]
    X = rng.normal(size=(N_ROWS, 2)) + rng.normal(size=(n_groups, 2))[groups]
    mixture = Mixture(Gaussian(K, np.zeros(2)))
    means = X[rng.choice(N_ROWS, size=K, replace=False)]
    parts = {"weights": np.full(K, 1 / K), "means": means, "covariances": np.array(0.5)}
    return X, groups, mixture, mixture.pack(parts)


@pytest.mark.parametrize("n_groups", [2, 3])
@pytest.mark.parametrize("seed", [0, long(3), long(4)])
@pytest.mark.parametrize(
    "limit", [MinRatio(0.8), long(MinRatio(0.95)), MinBalance(0.8), long(MinBalance(0.95))], ids=str
)
def test_labels_of_fixed_components_cost_what_a_linear_program_costs(n_groups, seed, limit: Limit):
    X, groups, mixture, theta = fixed_components(n_groups, seed)
    sizes = np.bincount(groups).astype(float)
    balance = isinstance(limit, MinBalance)
    if balance:  # a share of the best possible
        limit = MinBalance(limit.bound * sizes.min() / sizes.max())
    table = memory_table(Rows(X, None), mixture.family.encode, groups=groups, n_groups=n_groups)
    criterion = limit.criterion(sizes, 1 / sizes)
    dual = Dual(CRITERIA["gap"], Bound(criterion, limit.level(sizes)), max_iter=0)
    found = solved(dual, Objective(mixture, table), theta)
    placed = LogitMap(mixture.logits(found.theta), found.offsets)
    labels = np.concatenate(list(table.each(lambda block: hard_labels(block, placed))))
    counts = np.stack([np.bincount(labels[groups == g], minlength=K) for g in range(n_groups)])
    rates = counts / sizes[:, None]
    values = counts if balance else rates
    assert (values.min(axis=0) >= limit.bound * values.max(axis=0)).all()
    if not balance:
        # Bounded representation (Bera et al. 2019) follows: shares within a factor of those of all.
        share, overall = counts / counts.sum(axis=0), sizes / N_ROWS
        assert (share >= limit.bound * overall[:, None]).all()
        assert (share <= overall[:, None] / limit.bound).all()
    means = mixture.unpack(theta)["means"]
    costs = ((X[:, None] - means) ** 2).sum(axis=2)
    cost = costs[np.arange(N_ROWS), labels].sum()
    scales = sizes if balance else np.ones(n_groups)
    best = cheapest(costs, [Attribute(groups, scales, limit.bound)])
    free = costs.min(axis=1).sum()
    # The rule costs something, and labels no more than the optimum of shares of rows by 0.3 %.
    assert 1.005 * free < best
    assert best * (1 - 1e-7) <= cost <= 1.003 * best
