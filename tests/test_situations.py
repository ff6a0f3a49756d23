"""Is a bound met? In many situations the verdict is compared with a count of the labels."""

import warnings
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fairmix import FairMixture
from repetition import every_other, long

MISSED = "above max_gap"
NOT_JUDGED = "Not judged"


@dataclass(frozen=True)
class Situation:
    """Group sizes, kind of columns, share of rows that repeat others, and settings of the fit."""

    sizes: tuple[int, ...]
    kind: str = "numeric"
    repeated: float = 0.0
    seed: int = 0
    weighted: bool = False
    settings: dict[str, Any] = field(default_factory=dict)


def situation(*sizes: int, kind="numeric", repeated=0.0, seed=0, weighted=False, **settings):
    return Situation(sizes, kind, repeated, seed, weighted, settings)


AWARE = {"assignment": "aware"}
SPLIT = {"ties": "split"}
SITUATIONS = [
    # Group sizes, two groups.
    situation(500, 500),
    situation(500, 500, **AWARE),
    situation(1, 600),
    situation(1, 600, **AWARE),
    situation(2, 1000),
    situation(2, 1000, **AWARE),
    situation(20, 2000),
    situation(20, 2000, **AWARE),
    situation(50, 4000),
    situation(50, 4000, max_gap=0, **AWARE),
    situation(29, 31, max_gap=0.05),
    situation(16_000, 100, max_gap=0.005),
    situation(16_000, 100, max_gap=0.005, **AWARE),
    # More groups, some of them rare.
    situation(1500, 1498, 2),
    situation(1500, 1498, 2, **AWARE),
    situation(700, 500, 40, 5, **AWARE),
    situation(700, 500, 40, 5),
    situation(300, 300, 300, 300),
    situation(300, 300, 300, 300, **AWARE),
    situation(*[30] * 10, max_gap=0.05),
    situation(*[30] * 10, max_gap=0.05, **AWARE),
    situation(*[100] * 50, max_gap=0.05, **AWARE),
    situation(*[1] * 300, max_gap=0.2, **AWARE),
    situation(400, 400, *[1] * 20),
    # Criteria.
    situation(600, 300, criterion="additive_gap", max_gap=0.03),
    situation(600, 300, 100, criterion="additive_gap", max_gap=0.03, **AWARE),
    situation(600, 300, 100, criterion="worst_pair_gap", max_gap=0.02),
    situation(600, 300, 100, criterion="worst_pair_gap", max_gap=0.02, **AWARE),
    situation(600, 300, gap_of="probabilities"),
    situation(600, 300, 30, gap_of="probabilities", max_gap=0.001, **AWARE),
    situation(600, 300, max_gap=0),
    situation(600, 300, max_gap=0, **AWARE),
    # The paper's solvers.
    situation(300, 200, solver="em", max_gap=0.02),
    situation(300, 200, solver="em", gap_of="probabilities", max_gap=0.02),
    situation(300, 3, solver="em", max_gap=0.02),
    situation(150, 120, solver="gd", max_gap=0.05, max_iter=2000),
    # Equal rows.
    situation(500, 300, repeated=0.5),
    situation(500, 300, repeated=0.5, **SPLIT),
    situation(900, 600, repeated=0.9, max_gap=0, **AWARE),
    situation(900, 600, repeated=0.9, max_gap=0, **AWARE, **SPLIT),
    situation(900, 600, repeated=0.99),
    situation(900, 600, repeated=0.99, **SPLIT),
    situation(900, 600, 200, repeated=0.99, **AWARE, **SPLIT),
    # Columns.
    situation(600, 400, kind="categorical"),
    situation(600, 400, kind="categorical", **SPLIT),
    situation(600, 400, 50, kind="categorical", max_gap=0, **AWARE, **SPLIT),
    situation(600, 400, kind="mixed"),
    situation(600, 400, 10, kind="mixed", **AWARE),
    situation(600, 400, kind="mixed", repeated=0.8, **SPLIT),
    # Weights.
    situation(500, 300, weighted=True, max_gap=0, **AWARE),
    situation(500, 300, 40, weighted=True),
]


def make(case: Situation):
    """Columns that depend on the group, so that clusters without a bound would be uneven."""
    rng = np.random.default_rng(case.seed)
    groups = rng.permutation(np.repeat(np.arange(len(case.sizes)), case.sizes))
    n_rows = len(groups)
    centre = rng.normal(size=(len(case.sizes), 3))
    X = rng.normal(size=(n_rows, 3)) + 0.6 * centre[groups]
    X[rng.random(n_rows) < 0.4] += 2.5
    if case.repeated:
        kept = max(5, round((1 - case.repeated) * n_rows))
        X = X[rng.integers(kept, size=n_rows)]
    table = pd.DataFrame(X, columns=list("abc"))
    if case.kind != "numeric":
        cuts = [-1, 0, 1]
        coded = {name: pd.Categorical(np.digitize(X[:, j], cuts)) for j, name in enumerate("xyz")}
        table = pd.DataFrame(coded) if case.kind == "categorical" else table[["a"]].assign(**coded)
    weight = rng.uniform(0.5, 2.0, n_rows) if case.weighted else None
    return table, np.array([f"g{g}" for g in groups]), weight


def value_of(criterion: str, rates: np.ndarray) -> float:
    """The criterion, pair by pair."""
    pairs = np.array([np.abs(a - b) for a, b in combinations(rates, 2)])
    if criterion == "worst_pair_gap":
        return float(pairs.max())
    clusters = pairs.mean(axis=0)
    return float(clusters.sum() if criterion == "additive_gap" else clusters.max())


def resolution_of(criterion: str, sizes: list[float], steps: list[float], n_clusters: int) -> float:
    """What whole rows resolve, pair by pair, as the documentation says it."""
    smallest = int(np.argmin(sizes))
    pairs = [
        steps[g] + steps[h] if smallest not in (g, h) else steps[h if g == smallest else g]
        for g, h in combinations(range(len(sizes)), 2)
    ]
    if criterion == "worst_pair_gap":
        return max(pairs)
    return float(np.mean(pairs)) * (n_clusters / 2 if criterion == "additive_gap" else 1)


def describe(case: Situation) -> str:
    sizes = "-".join(map(str, case.sizes[:4])) + ("..." if len(case.sizes) > 4 else "")
    parts = [sizes, *map(str, case.settings.values())]
    return "-".join([*parts, *([case.kind] if case.kind != "numeric" else [])])


def repeats(case: Situation, min_group_size: int) -> bool:
    """Where no group is small, its smallest size changes nothing; some situations take long."""
    slow = len(case.sizes) >= 50 or case.settings.get("solver") in ("em", "gd")
    return slow or (min_group_size == 1 and min(case.sizes) >= 30)


@pytest.mark.parametrize(
    ("case", "min_group_size"),
    [
        pytest.param(
            case,
            size,
            # Every other situation is for the long run.
            marks=pytest.mark.long if i % 2 or repeats(case, size) else (),
            id=f"{describe(case)}-{size}",
        )
        for i, case in enumerate(SITUATIONS)
        for size in (1, 30)
    ],
)
def test_met_is_what_the_labels_say(case, min_group_size):
    X, names, weight = make(case)
    settings = {"max_gap": 0.01, "criterion": "gap", "gap_of": "labels"} | case.settings
    model = FairMixture(3, min_group_size=min_group_size, random_state=0, **settings)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, sensitive_features=names, sample_weight=weight)
    messages = [str(warning.message) for warning in caught]
    rows = {name: int((names == name).sum()) for name in sorted(set(names))}
    judged = [name for name, count in rows.items() if count >= min_group_size]
    small = {name: count for name, count in rows.items() if count < min_group_size}
    assert model.unjudged_groups_ == small
    assert any(NOT_JUDGED in message for message in messages) == bool(small)
    if len(judged) < 2:
        assert (model.verdict_, np.isnan(model.gap_)) == ("not judged", True)
        return
    w = np.ones(len(names)) if weight is None else weight
    psi = np.eye(3)[model.labels_]
    if model.gap_of == "probabilities":
        given = {"sensitive_features": names} if model.assignment == "aware" else {}
        psi = model.predict_proba(X, **given)
    members = [names == name for name in judged]
    rates = np.stack([np.average(psi[rows_], axis=0, weights=w[rows_]) for rows_ in members])
    value = value_of(model.criterion, rates)
    assert model.gap_ == pytest.approx(value, abs=1e-9)
    resolution = 1e-6
    if model.gap_of == "labels":
        sizes = [w[rows_].sum() for rows_ in members]
        steps = [w[rows_].max() / w[rows_].sum() for rows_ in members]
        resolution = resolution_of(model.criterion, sizes, steps, 3)
    assert model.resolution_ == pytest.approx(resolution)
    met = value <= max(model.max_gap, resolution) + 1e-9
    word = ("met for the judged groups" if small else "met") if met else "missed"
    assert model.verdict_ == word
    assert any(MISSED in message for message in messages) == (not met)


# ------------------------------------------------------------------------- ratios and Balance
@dataclass(frozen=True)
class Rule:
    """A situation, what is asked of the labels, and of how many clusters.

    The bound of a Balance is a share of the best possible.
    """

    case: Situation
    parameter: str
    bound: float
    clusters: int

    def __str__(self) -> str:
        return f"{self.parameter}-{self.bound}-{describe(self.case)}-{self.clusters}"


def ratio(bound: float, *sizes: int, clusters: int = 3, **settings):
    return Rule(situation(*sizes, **settings), "min_ratio", bound, clusters)


def balance(bound: float, *sizes: int, clusters: int = 3, **settings):
    return Rule(situation(*sizes, **settings), "min_balance", bound, clusters)


RULES = [
    ratio(0.8, 500, 300, **AWARE),
    ratio(1, 500, 300),
    balance(0.9, 500, 300),
    ratio(1, 600, 300, 100, clusters=4, **AWARE),
    ratio(0.8, 700, 500, 40, 5),
    ratio(1, 900, 600, repeated=0.9, **AWARE),
    balance(1, 900, 600, repeated=0.9, **AWARE, **SPLIT),
    balance(0.9, 600, 400, 50, kind="mixed", **AWARE),
    balance(0.9, 500, 300, 60, weighted=True),
    ratio(0.9, 600, 300, gap_of="probabilities"),
    ratio(0.9, 1200, 600, subsample=0.5),
]
LONG_RULES = [
    *[ratio(bound, 500, 300, **AWARE) for bound in (0.5, 0.9, 0.99, 1)],
    *[ratio(bound, 500, 300) for bound in (0.5, 0.8, 0.9, 0.99)],
    *[balance(bound, 500, 300, **AWARE) for bound in (0.5, 0.9, 1)],
    *[balance(bound, 500, 300) for bound in (0.5, 1)],
    ratio(0.8, 35, 30, clusters=2, **AWARE),
    ratio(0.8, 35, 30, clusters=2),
    ratio(0.9, 5000, 300, clusters=20, **AWARE),
    ratio(1, 15_000, 5000, clusters=8),
    # More groups, some of them rare.
    ratio(0.8, 600, 300, 100, clusters=4, **AWARE),
    balance(0.9, 600, 300, 100, clusters=4),
    ratio(0.8, 400, 300, 200, 100, 60, **AWARE),
    ratio(0.9, *[300] * 12, **AWARE),
    ratio(0.8, *[300] * 12),
    ratio(0.8, *[150] * 40, **AWARE),
    ratio(0.8, *[150] * 40),
    ratio(0.8, 700, 500, 40, 5, **AWARE),
    ratio(0.8, 700, 500, 40, 5, min_group_size=1, **AWARE),
    balance(1, 700, 500, 40, 5),
    ratio(0.8, 600, 1),
    # Equal rows.
    ratio(1, 900, 600, repeated=0.9, **AWARE, **SPLIT),
    ratio(0.8, 900, 600, repeated=0.99),
    balance(0.9, 900, 600, repeated=0.99, **SPLIT),
    # Columns and covariances.
    ratio(0.9, 600, 400, kind="categorical", **SPLIT),
    *[ratio(0.8, 400, 200, covariance_type=c) for c in ("spherical", "tied-diag", "diag", "tied")],
    ratio(0.9, 400, 200, covariance_type="full", **AWARE),
    # Weights.
    ratio(0.9, 500, 300, weighted=True, **AWARE),
    ratio(1, 500, 300, weighted=True),
    # Probabilities, fewer rows at a time, the paper's solver.
    balance(1, 600, 300, 60, gap_of="probabilities", **AWARE),
    ratio(0.9, 1200, 600, batch_size=256, **AWARE),
    balance(0.9, 1200, 600, fairness_sample_size=300),
    ratio(0.8, 300, 200, solver="em"),
    balance(0.8, 300, 200, solver="em", gap_of="probabilities"),
]


def enough_in(counts: np.ndarray, values: np.ndarray, row: np.ndarray, rule: Rule, bound) -> bool:
    """Whether a cluster keeps the rule. ``counts`` and ``row`` are weights of groups, and of rows.

    At the best possible value one row more or less of the larger group would do, too.
    """
    low, high = int(values.argmin()), int(values.argmax())
    if values[low] >= bound * values[high] - 1e-12:
        return True
    larger = low if counts[low] > counts[high] else high
    step = row[larger]
    down, up = values[low] + step * (larger == low), values[high] - step * (larger == high)
    return rule.bound == 1 and down >= bound * up - 1e-12


@pytest.mark.parametrize("rule", [*every_other(RULES), *map(long, LONG_RULES)], ids=str)
def test_a_ratio_is_met_where_the_counts_say_so(rule):
    X, names, weight = make(rule.case)
    settings = {"min_group_size": 30, "gap_of": "labels"} | rule.case.settings
    w = np.ones(len(names)) if weight is None else weight
    rows = {name: int((names == name).sum()) for name in sorted(set(names))}
    judged = [name for name, count in rows.items() if count >= settings["min_group_size"]]
    sizes = np.array([w[names == name].sum() for name in judged])
    scaled = rule.parameter == "min_balance"
    bound = rule.bound * (sizes.min() / sizes.max() if scaled else 1.0)
    model = FairMixture(rule.clusters, random_state=0, **{rule.parameter: bound}, **settings)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, sensitive_features=names, sample_weight=weight)
    messages = [str(warning.message) for warning in caught]
    if len(judged) < 2:
        assert (model.verdict_, np.isnan(model.ratio_)) == ("not judged", True)
        return
    psi = np.eye(rule.clusters)[model.labels_]
    on_labels = settings["gap_of"] == "labels"
    if not on_labels:
        given = {"sensitive_features": names} if model.assignment == "aware" else {}
        psi = model.predict_proba(X, **given)
    counts = np.stack([w[names == name] @ psi[names == name] for name in judged])
    row = np.array([w[names == name].max() for name in judged])
    # Balance compares rows, a ratio shares of each group.
    values, row = (counts, row) if scaled else (counts / sizes[:, None], row / sizes)
    filled = np.flatnonzero(values.max(axis=0) > 0)
    smallest = min(values[:, k].min() / values[:, k].max() for k in filled)
    if on_labels:
        figure = model.balance_ if scaled else model.ratio_
        assert figure == pytest.approx(smallest, abs=1e-9)
        met = all(enough_in(sizes, values[:, k], row, rule, bound) for k in filled)
    else:
        met = smallest >= bound - 1e-6
    small = len(judged) < len(rows)
    word = ("met for the judged groups" if small else "met") if met else "missed"
    assert model.verdict_ == word
    assert any(f"below {rule.parameter}" in message for message in messages) == (not met)
    if met:
        assert len(filled) == rule.clusters
        assert (counts > 0).all()
    # An aware map can place each row alone, unless equal rows must stay together.
    if model.assignment == "aware" and not (rule.case.repeated and model.ties == "together"):
        assert met
