"""Fits with a rule on ratios: labels against a linear program, errors, margins, places of rows."""

import warnings
from collections.abc import Sequence
from itertools import permutations
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog
from sklearn.exceptions import ConvergenceWarning

from cases import solved
from fairmix import FairMixture
from fairmix.criteria import CRITERIA, EachAttribute, Limit, MaxGap, MinBalance, MinRatio
from fairmix.datasets import make_grouped_blobs
from fairmix.kernels import LogitMap, hard_labels
from fairmix.kernels.totals import FloatArray, IntArray, Membership, Rows
from fairmix.mixture.families import Gaussian
from fairmix.mixture.mixture import Mixture
from fairmix.solvers import Bound, Dual
from fairmix.solvers.objective import Objective
from fairmix.tables import MemoryStore, Table
from repetition import long, times


# ------------------------------------------------------- fixed components, by a linear program
class Attribute(NamedTuple):
    """The group of each row and, of two groups g, h, ``a_g r_g >= least a_h r_h - slack``."""

    groups: IntArray
    scales: FloatArray
    least: float
    slack: float = 0.0


def attribute_of(groups: IntArray, limit: Limit) -> Attribute:
    """What a limit asks of an attribute; of two groups if it is a gap."""
    sizes = np.bincount(groups).astype(float)
    if isinstance(limit, MaxGap):
        return Attribute(groups, np.ones(len(sizes)), 1.0, limit.bound)
    scales = sizes if isinstance(limit, MinBalance) else np.ones(len(sizes))
    return Attribute(groups, scales, limit.bound)


def cheapest(costs: FloatArray, attributes: Sequence[Attribute]) -> float:
    """The least cost of an assignment of rows to clusters (n, K) that keeps every rule."""
    n_rows, n_clusters = costs.shape
    rules, slack = [], []
    for groups, scales, least, allowed in attributes:
        # The weight of a row in the scaled rate of its group, then pairs of groups.
        scaled = scales / np.bincount(groups)
        for g, h in permutations(range(len(scales)), 2):
            row = least * scaled[h] * (groups == h) - scaled[g] * (groups == g)
            rules.append(sp.kron(sp.csr_array(row[None]), sp.eye_array(n_clusters)))
            slack += n_clusters * [allowed]
    one_each = sp.kron(sp.eye_array(n_rows), np.ones((1, n_clusters)))
    found = linprog(costs.ravel(), sp.vstack(rules).tocsr(), slack, one_each, np.ones(n_rows))
    assert found.status == 0
    return float(found.fun)


N_ROWS, K = 3000, 4
SHARES = {"two groups": ([0.67, 0.33],), "three groups": ([0.6, 0.3, 0.1],)}
SHARES["two attributes"] = SHARES["two groups"] + SHARES["three groups"]


class Layout(NamedTuple):
    """Rows, the groups of each attribute (n,), and where the means of the components are."""

    X: FloatArray
    groups: list[IntArray]
    means: FloatArray


def layout(shape: str, seed: int) -> Layout:
    """Groups that lie apart, and components that no fit has found: some far from most rows."""
    rng = np.random.default_rng([seed, list(SHARES).index(shape)])
    groups = [rng.choice(len(shares), size=N_ROWS, p=shares) for shares in SHARES[shape]]
    X = rng.normal(size=(N_ROWS, 2)) + sum(
        rng.normal(size=(own.max() + 1, 2))[own] for own in groups
    )
    return Layout(X, groups, X[rng.choice(N_ROWS, size=K, replace=False)])


def correlated(seed: int) -> Layout:
    """Two attributes that half of the rows have in common, of groups of any sizes."""
    rng = np.random.default_rng([seed, 99])
    counts = [(2, 2), (2, 3), (3, 3)][seed % 3]
    groups = [rng.choice(m, size=N_ROWS, p=0.2 / m + 0.8 * rng.dirichlet(m * [2])) for m in counts]
    groups[1] = np.where(rng.random(N_ROWS) < 0.5, groups[0] % counts[1], groups[1])
    X = rng.normal(size=(N_ROWS, 2)) + sum(
        rng.normal(size=(m, 2))[own] for m, own in zip(counts, groups, strict=True)
    )
    return Layout(X, groups, X[rng.choice(N_ROWS, size=K, replace=False)])


def tilted_labels(at: Layout, limits: Sequence[Limit]) -> IntArray:
    """Labels of an aware map with these components, one limit for each attribute."""
    mixture = Mixture(Gaussian(K, np.zeros(2)))
    parts = {"weights": np.full(K, 1 / K), "means": at.means, "covariances": np.array(0.5)}
    counts = [int(own.max()) + 1 for own in at.groups]
    cells, n_cells, membership = at.groups[0], counts[0], None
    if len(counts) > 1:
        membership = Membership(tuple(counts), ("first", "second"))
        cells = np.ravel_multi_index(at.groups, membership.shape)
        n_cells = membership.n_cells
    store = MemoryStore(Rows(at.X, None), groups=cells, n_groups=n_cells)
    table = Table(store, mixture.family.encode, membership=membership)
    where = [slice(None)] if membership is None else membership.parts
    sizes = [table.group_sizes[part] for part in where]
    criteria = [one.criterion(own, 1 / own) for one, own in zip(limits, sizes, strict=True)]
    levels = [one.level(own) for one, own in zip(limits, sizes, strict=True)]
    criterion, level = criteria[0], levels[0]
    if membership is not None:
        criterion, level = EachAttribute.of(membership, criteria, levels), max(levels)
    dual = Dual(CRITERIA["gap"], Bound(criterion, level), max_iter=0)
    found = solved(dual, Objective(mixture, table), mixture.pack(parts))
    placed = LogitMap(mixture.logits(found.theta), found.offsets)
    return np.concatenate(list(table.each(lambda block: hard_labels(block, placed))))


def limits_of(at: Layout, limit: Limit) -> list[Limit]:
    """The limit of each attribute; a Balance is a share of the best possible."""
    if not isinstance(limit, MinBalance):
        return [limit] * len(at.groups)
    each = [np.bincount(own) for own in at.groups]
    return [MinBalance(limit.bound * sizes.min() / sizes.max()) for sizes in each]


def assert_labels_cost_what_a_linear_program_costs(at: Layout, limit: Limit) -> None:
    """Labels meet the rule, and cost no more than the optimum of parts of rows by 0.3 %."""
    limits = limits_of(at, limit)
    labels = tilted_labels(at, limits)
    for own, one in zip(at.groups, limits, strict=True):
        rule = attribute_of(own, one)
        rates = pd.crosstab(own, labels, normalize="index").to_numpy() * rule.scales[:, None]
        assert rates.shape[1] == K
        assert (rates.min(axis=0) >= rule.least * rates.max(axis=0) - rule.slack - 1e-12).all()
        if isinstance(one, MinRatio):
            # Bounded representation (Bera et al. 2019): shares within a factor of those of all.
            share = pd.crosstab(own, labels, normalize="columns").to_numpy()
            overall = np.bincount(own)[:, None] / N_ROWS
            assert (share >= one.bound * overall).all()
            assert (share <= overall / one.bound).all()
    costs = ((at.X[:, None] - at.means) ** 2).sum(axis=2)
    cost = costs[np.arange(N_ROWS), labels].sum()
    best = cheapest(costs, [attribute_of(*pair) for pair in zip(at.groups, limits, strict=True)])
    # The rule costs something.
    assert 1.005 * costs.min(axis=1).sum() < best
    assert best * (1 - 1e-7) <= cost <= 1.003 * best


@pytest.mark.parametrize("shape", SHARES)
@pytest.mark.parametrize("seed", [0, *map(long, range(1, 6)), long(13)])
@pytest.mark.parametrize(
    "limit",
    [
        long(MaxGap(0.02, "worst_pair_gap")),
        MinRatio(0.8),
        long(MinRatio(0.95)),
        long(MinBalance(0.8)),
        long(MinBalance(0.95)),
    ],
    ids=str,
)
def test_labels_of_fixed_components_cost_what_a_linear_program_costs(shape, seed, limit: Limit):
    """The last layout has a component so far away that a single row of it costs 0.2 %."""
    assert_labels_cost_what_a_linear_program_costs(layout(shape, seed), limit)


@pytest.mark.parametrize("seed", [0, *map(long, range(1, 8))])
@pytest.mark.parametrize(
    "limit",
    [
        MaxGap(0.01, "worst_pair_gap"),
        long(MaxGap(0.02, "worst_pair_gap")),
        long(MinRatio(0.8)),
        long(MinRatio(0.9)),
        MinBalance(0.8),
        long(MinBalance(0.95)),
    ],
    ids=str,
)
def test_so_do_those_of_attributes_that_tell_of_each_other(seed, limit: Limit):
    assert_labels_cost_what_a_linear_program_costs(correlated(seed), limit)


@pytest.mark.parametrize("seed", [0, *map(long, range(1, 8))])
def test_equal_rates_of_two_attributes_are_met_to_the_last_row(seed):
    at = correlated(seed)
    labels = tilted_labels(at, [MaxGap(0.0, "worst_pair_gap")] * 2)
    for own in at.groups:
        rates = pd.crosstab(own, labels, normalize="index").to_numpy()
        steps = np.sort(1 / np.bincount(own))[::-1]
        # Two groups that each follow the smallest one to within a row of their own.
        most = steps[1] if len(steps) == 2 else steps[1] + steps[2]
        assert (rates.max(axis=0) - rates.min(axis=0) <= most + 1e-12).all()


# ------------------------------------------------------------------------------------- errors
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"min_ratio": 0.8, "max_gap": 0.01}, "max_gap=0.01 and min_ratio=0.8 are two rules"),
        ({"min_ratio": 0.8, "min_balance": 0.3}, "min_ratio=0.8 and min_balance=0.3 are two rules"),
        ({"min_ratio": 0.8, "solver": "gd"}, "min_ratio=0.8 needs solver='dual' or 'em'"),
        ({"min_balance": 0.2, "fairness_strength": 1.0}, "Set fairness_strength='auto'"),
        ({"min_ratio": 0.0}, "'min_ratio' parameter"),
        ({"min_ratio": 1.01}, "'min_ratio' parameter"),
        ({"min_balance": -0.1}, "'min_balance' parameter"),
        ({"min_ratio": 0.8, "margin": -0.1}, "'margin' parameter"),
        ({"min_ratio": 0.8, "margin": "luck"}, "'margin' parameter"),
        # 30 of 100 rows: the best possible is 30 / 70, rounded down.
        (
            {"min_balance": 0.43},
            r"min_balance=0.43 is out of reach.*more than 0.428571,.*min_ratio",
        ),
    ],
)
def test_rules_that_cannot_be_kept_are_refused_in_words(settings, words):
    X, groups = np.random.default_rng(0).normal(size=(100, 2)), np.repeat([0, 1], [30, 70])
    with pytest.raises(ValueError, match=words):
        FairMixture(2, **settings).fit(X, sensitive_features=groups)


def test_the_best_balance_that_an_error_names_is_accepted():
    X, groups = np.random.default_rng(0).normal(size=(100, 2)), np.repeat([0, 1], [30, 70])
    FairMixture(2, min_balance=0.428571, assignment="aware", random_state=0).fit(
        X, sensitive_features=groups
    )


# ------------------------------------------------------------------- where rows are, and streams
def smallest_ratio_of(labels, groups, n_clusters=3) -> float:
    """By counting."""
    names = sorted(set(groups))
    counts = [np.bincount(labels[groups == g], minlength=n_clusters) for g in names]
    rates = np.stack([count / count.sum() for count in counts])
    return float((rates.min(axis=0) / rates.max(axis=0)).min())


@pytest.fixture(scope="module")
def blobs():
    X, groups, _ = make_grouped_blobs(1500, 3, 2, separation=2.0, random_state=0)
    return X, groups


@pytest.mark.parametrize("assignment", ["aware", "blind"])
def test_files_and_memory_have_the_same_labels(blobs, tmp_path, assignment):
    X, groups = blobs
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(group=groups)
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=400)
    model = FairMixture(3, min_ratio=0.9, assignment=assignment, random_state=0)
    model.fit(tmp_path / "rows.parquet", sensitive_features="group")
    given = {"sensitive_features": groups} if assignment == "aware" else {}
    far = model.predict(frame.drop(columns="group"), **given)
    near = model.fit(frame, sensitive_features="group").labels_
    np.testing.assert_array_equal(far, near)
    assert smallest_ratio_of(near, groups) == pytest.approx(model.ratio_)
    assert model.ratio_ >= 0.9


def test_a_warm_start_keeps_a_stricter_rule(blobs):
    X, groups = blobs
    model = FairMixture(3, min_ratio=0.5, warm_start=True, random_state=0)
    model.fit(X, sensitive_features=groups)
    model.set_params(min_ratio=0.95).fit(X, sensitive_features=groups)
    assert smallest_ratio_of(model.labels_, groups) >= 0.95
    assert model.verdict_ == "met"


@pytest.mark.parametrize("assignment", ["aware", long("blind")])
def test_a_stream_keeps_a_ratio_on_its_sample(blobs, assignment):
    X, groups = blobs
    model = FairMixture(3, min_ratio=0.8, assignment=assignment, random_state=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for rows in np.array_split(np.arange(len(X)), 3):
            model.partial_fit(X[rows], sensitive_features=groups[rows])
    given = {"sensitive_features": groups} if assignment == "aware" else {}
    # The sample of so short a stream is all of it.
    ratio = smallest_ratio_of(model.predict(X, **given), groups)
    assert model.ratio_ == pytest.approx(ratio)
    assert (model.verdict_ == "met") == (ratio >= 0.8)
    missed = any("below min_ratio" in str(one.message) for one in caught)
    assert missed or model.verdict_ == "met"


def test_a_stream_warns_of_a_balance_out_of_reach(blobs):
    X, groups = blobs
    keep = (groups == 0) | (np.arange(len(X)) % 3 == 0)
    model = FairMixture(3, min_balance=0.99, assignment="aware", random_state=0)
    with (
        pytest.warns(ConvergenceWarning, match="below min_balance=0.99"),
        pytest.warns(UserWarning, match=r"out of reach.* more than 0\.25"),
    ):
        model.partial_fit(X[keep], sensitive_features=groups[keep])
    assert model.verdict_ == "missed"


# ------------------------------------------------------------------------------------ margins
def test_a_margin_makes_the_fit_stricter(blobs):
    X, groups = blobs
    kept = {
        margin: FairMixture(3, min_ratio=0.8, margin=margin, assignment="aware", random_state=0)
        .fit(X, sensitive_features=groups)
        .ratio_
        for margin in (0.0, 0.1, 0.5)
    }
    assert 0.8 <= kept[0.0] < 0.85
    assert 0.9 <= kept[0.1] < 0.95
    assert kept[0.5] > 0.99


@pytest.mark.repeats
@pytest.mark.parametrize("margin", [0.0, "chance"])
def test_a_margin_of_chance_lets_fresh_rows_keep_the_rule(margin):
    """Of fresh tables of the same size, 95 in 100 keep it where clusters are about even."""
    n_rows, tables = 4000, times(40, 200)
    rng = np.random.default_rng(0)

    def drawn(n):
        groups = rng.integers(2, size=n)
        return rng.normal(size=(n, 2)) + 0.8 * groups[:, None], groups

    X, groups = drawn(n_rows)
    model = FairMixture(3, min_ratio=0.8, margin=margin, assignment="aware", random_state=0)
    model.fit(X, sensitive_features=groups)
    kept = []
    for _ in range(tables):
        X, groups = drawn(n_rows)
        kept.append(smallest_ratio_of(model.predict(X, sensitive_features=groups), groups) >= 0.8)
    if margin == "chance":
        assert np.mean(kept) >= 0.9
    else:
        # About half of them: the map is just within the rule.
        assert np.mean(kept) < 0.8
