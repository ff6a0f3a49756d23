"""Ties: equal rows that share labels out, so that a bound holds which they cannot meet together."""

import json
import math
import warnings

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from sklearn.exceptions import ConvergenceWarning
from typer.testing import CliRunner

from fairmix import FairMixture, load, model_card, pareto_front, to_onnx
from fairmix.cli import app
from fairmix.kernels import LogitMap, forward, hard_labels, label_scores
from fairmix.kernels.labels import WIDTH
from fairmix.kernels.totals import Block, Features, Logits, Rows
from fairmix.metrics import clustering_cost, gap
from fairmix.report import render
from fairmix.results.profile import Profile
from fairmix.tables import BLOCK_ROWS, Ties, equal_rows
from repetition import every_other, long

KINDS = ["numeric", "categorical", "mixed"]
NAMES = np.array(["red", "green", "blue", "black"])


def people(kind="numeric", *, n_rows=2000, n_different=150, n_groups=2, seed=0):
    """Rows drawn from a few different ones, and groups that depend on them."""
    rng = np.random.default_rng(seed)
    which = rng.integers(n_different, size=n_rows)
    kinds = rng.normal(size=n_different)
    odds = np.outer(kinds[which], np.linspace(-0.7, 0.7, n_groups))
    groups = (odds + rng.gumbel(size=(n_rows, n_groups))).argmax(axis=1)
    numbers = np.round(rng.normal(size=(n_different, 3)) + kinds[:, None], 1)[which]
    columns = {"a": numbers[:, 0], "b": numbers[:, 1]}
    codes = np.digitize(numbers[:, 1:], [-0.7, 0.0, 0.7])
    colours = {"c": NAMES[codes[:, 0]], "d": NAMES[codes[:, 1]]}
    chosen = {"numeric": columns, "categorical": colours, "mixed": {**columns, "d": colours["d"]}}
    return pd.DataFrame(chosen[kind]), np.array(["v", "w", "x", "y"])[groups]


def fit(X, groups, n_components=3, *, missed=False, **settings):
    """A fit that splits; a bound may be missed, with the warning, only where that is said."""
    settings = {"ties": "split", "random_state": 0, **settings}
    model = FairMixture(n_components, **settings)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="`max_iter` was reached")
        if missed:
            warnings.filterwarnings("ignore", message="The gap of the labels|Only . of")
        return model.fit(X, sensitive_features=groups)


def known(model, groups):
    return {"sensitive_features": groups} if model.assignment == "aware" else {}


# ------------------------------------------------------------------------------ finding ties
def naive_sets(rows, groups):
    """Equal rows by comparing texts."""
    seen, out = {}, []
    for i in range(rows.n_rows):
        numbers = [] if rows.numeric is None else rows.numeric[i].tolist()
        key = [str(x + 0.0) for x in numbers]  # -0.0 + 0.0 is 0.0, and "nan" is "nan"
        key += [] if rows.codes is None else rows.codes[i].tolist()
        key += [] if groups is None else [groups[i]]
        out.append(seen.setdefault(tuple(key), len(seen)))
    return out


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("parts", ["numeric", "codes", "both"])
@pytest.mark.parametrize("by_group", [False, True])
def test_equal_rows_are_found(dtype, parts, by_group):
    rng = np.random.default_rng(0)
    numeric = rng.integers(-1, 2, size=(300, 3)).astype(dtype)
    numeric[rng.random(numeric.shape) < 0.1] = np.nan
    numeric[rng.random(numeric.shape) < 0.2] *= -1  # zeros of both signs, NaN of both signs
    codes = rng.integers(-1, 2, size=(300, 2))
    rows = Rows(None if parts == "codes" else numeric, None if parts == "numeric" else codes)
    groups = rng.integers(2, size=300) if by_group else None
    expected = naive_sets(rows, groups)
    assert 5 < len(set(expected)) < 280
    assert equal_rows(rows, groups).tolist() == expected


@pytest.mark.parametrize("by_group", [False, True])
def test_rows_with_equals_are_numbered_set_by_set_and_each_run_is_on_its_own(by_group):
    rng = np.random.default_rng(0)
    rows = Rows(None, rng.integers(80, size=(BLOCK_ROWS + 500, 2)))
    groups = rng.integers(3, size=rows.n_rows)
    found = Ties(by_group)(rows, groups)
    for start, run in ((0, slice(0, BLOCK_ROWS)), (BLOCK_ROWS, slice(BLOCK_ROWS, None))):
        sets = equal_rows(rows.take(run), groups[run] if by_group else None)
        members = [np.flatnonzero(sets == number).tolist() for number in range(sets.max() + 1)]
        tied = [row for own in members if len(own) > 1 for row in own]
        expected = np.full(len(sets), -1)
        expected[tied] = start + np.arange(len(tied))
        assert 0 < len(tied) < len(sets)
        np.testing.assert_array_equal(found[run], expected)
        # A run alone gets the same numbers when it is told its place.
        alone = Ties(by_group)(rows.take(run), groups[run], start // BLOCK_ROWS)
        np.testing.assert_array_equal(alone, expected)


def test_equal_rows_of_different_runs_have_different_numbers():
    """Else they would cross every boundary together, and counts would move in steps of two."""
    rows = Rows(None, np.tile(np.arange(BLOCK_ROWS) % 50, 3)[:, None])
    found = Ties(by_group=False)(rows, np.zeros(rows.n_rows, dtype=np.intp))
    assert (found >= 0).all()
    assert len(np.unique(found)) == rows.n_rows


# ------------------------------------------------------------------------------- the kernel
N_ROWS, K, M, LEVELS = 240, 4, 3, (2, 3)


def make_block(kind, *, blind, dtype=np.float64, seed=0):
    """Copies of a few rows, near each other in their logits, and a weight."""
    rng = np.random.default_rng(seed)
    which = rng.integers(40, size=N_ROWS)
    dense = rng.normal(size=(40, 2)).astype(dtype)[which] if kind != "categorical" else None
    codes = rng.integers(LEVELS, size=(40, 2))[which] if kind != "numeric" else None
    groups = rng.integers(M, size=N_ROWS)
    return Block(
        features=Features(dense, None if codes is None else np.add(codes, [0, LEVELS[0]])),
        groups=groups,
        n_groups=M,
        dtype=np.dtype(dtype),
        weight=rng.uniform(0.5, 2, size=N_ROWS).astype(dtype),
        propensity=rng.dirichlet(np.ones(M), size=40).T[:, which] if blind else None,
        ties=Ties(by_group=not blind)(Rows(dense, codes), groups),
    )


def naive_labels(block, logits, offsets):
    """One row at a time: the largest logit after small numbers were added to those of tied rows."""
    dense, codes = block.features
    order = sorted(range(K), key=lambda k: tuple(logits.W[k]))
    golden = (math.sqrt(5) - 1) / 2
    out = []
    for i, turn in enumerate(block.ties.tolist()):
        n_dense = 0 if dense is None else dense.shape[1]
        row = logits.b.copy()
        for p in range(n_dense):
            row += logits.W[:, p] * float(dense[i, p])
        for code in () if codes is None else codes[i]:
            row += logits.W[:, n_dense + code]
        rho = np.eye(M)[block.groups[i]]
        rho = rho if block.propensity is None else block.propensity[:, i].astype(block.dtype)
        row += rho.astype(np.float64) @ offsets
        for place, k in enumerate(order):
            if turn >= 0:
                row[k] += WIDTH * (math.fmod(turn * golden * (place + 1), 1) - 0.5)
        out.append(int(row.argmax()))
    return np.array(out)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("blind", [False, True], ids=["aware", "blind"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_labels_are_shared_out_as_in_a_naive_loop(kind, blind, dtype):
    block = make_block(kind, blind=blind, dtype=dtype)
    rng = np.random.default_rng(1)
    n_features = (0 if kind == "categorical" else 2) + (0 if kind == "numeric" else sum(LEVELS))
    logits = Logits(*(0.05 * rng.normal(size=shape) for shape in (K, (K, n_features))))
    offsets = 0.05 * rng.normal(size=(M, K))
    expected = naive_labels(block, logits, offsets)
    first = np.argmax(forward(block, LogitMap(logits, offsets)).psi, axis=0)
    assert (expected != first).mean() > 0.1  # there is something to share out
    mass = np.zeros((M, K))
    np.add.at(mass, (block.groups, expected), block.weight)
    for temperature in (1.0, 0.3, 0.05):
        logit_map = LogitMap(logits, offsets, temperature)
        np.testing.assert_array_equal(hard_labels(block, logit_map), expected)
        found = forward(block, logit_map, hard=True, rough=True).hard_mass
        np.testing.assert_allclose(found, mass, rtol=1e-6 if dtype == np.float32 else 1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_scores_are_what_labels_are_the_largest_of(kind, dtype):
    block = make_block(kind, blind=True, dtype=dtype)
    rng = np.random.default_rng(1)
    n_features = (0 if kind == "categorical" else 2) + (0 if kind == "numeric" else sum(LEVELS))
    logits = Logits(*(0.05 * rng.normal(size=shape) for shape in (K, (K, n_features))))
    logit_map = LogitMap(logits, 0.05 * rng.normal(size=(M, K)), 0.3)
    labels = hard_labels(block, logit_map)
    np.testing.assert_array_equal(label_scores(block, logit_map).argmax(axis=0), labels)
    some = np.array([3, 200, 7])
    np.testing.assert_array_equal(label_scores(block, logit_map, some).argmax(axis=0), labels[some])


def two_clusters(codes, lead):
    """Labels of rows that are all so far from the boundary between two clusters."""
    rows, groups = Rows(None, codes[:, None]), np.zeros(len(codes), dtype=np.intp)
    ties = Ties(by_group=False)(rows, groups)
    features = Features(np.zeros((len(codes), 1)), None)
    block = Block(features, groups, 1, np.dtype(np.float64), ties=ties)
    return hard_labels(block, LogitMap(Logits(np.array([lead, 0.0]), np.array([[0.0], [1.0]]))))


def test_equal_rows_cross_a_boundary_one_after_the_other():
    copies = np.zeros(37, dtype=np.intp)
    leads = np.linspace(-1.1 * WIDTH, 1.1 * WIDTH, 1000)
    counts = np.array([(two_clusters(copies, lead) == 0).sum() for lead in leads])
    assert (counts[0], counts[-1]) == (0, 37)
    assert set(np.diff(counts).tolist()) == {0, 1}
    # Alone, a row has its first choice.
    assert two_clusters(copies[:1], 1e-9).tolist() == [0]
    assert two_clusters(copies[:1], -1e-9).tolist() == [1]


@pytest.mark.parametrize("order", ["sorted", "in turn", "in threes"])
@pytest.mark.parametrize("size", [2, 3, 12, 600])
def test_groups_whose_order_is_regular_cross_alike(order, size):
    """A blind map would else give one group the first choices, and the other the rest."""
    codes = np.repeat(np.arange(12_000 // size), size)
    position = np.tile(np.arange(size), 12_000 // size)
    group = {
        "sorted": position >= size // 2,
        "in turn": position % 2 == 1,
        "in threes": position % 3 == 1,
    }[order]
    for lead in (-0.4 * WIDTH, 0.0, 0.2 * WIDTH):
        first = two_clusters(codes, lead) == 0
        assert 0.05 < first.mean() < 0.95
        assert first[group].mean() == pytest.approx(first[~group].mean(), abs=0.01)


# ------------------------------------------------------------------------------ the estimator
@pytest.mark.parametrize("kind", every_other(KINDS))
@pytest.mark.parametrize("assignment", ["aware", "blind"])
@pytest.mark.parametrize("n_groups", [2, long(3)])
@pytest.mark.parametrize("max_gap", [0.0, long(0.01)])
def test_splitting_meets_bounds_that_equal_rows_miss_together(kind, assignment, n_groups, max_gap):
    """Of 2,000 rows 30 are different."""
    X, groups = people(kind, n_different=30, n_groups=n_groups)
    settings = {"assignment": assignment, "max_gap": max_gap}
    model = fit(X, groups, **settings)
    labels = model.predict(X, **known(model, groups))
    np.testing.assert_array_equal(labels, model.labels_)
    assert model.gap_ == pytest.approx(gap(labels, groups), abs=1e-12)
    assert model.gap_ <= max(max_gap, model.resolution_) + 1e-12  # a quotient
    assert model.verdict_ == "met"
    assert len(np.unique(labels)) == 3
    if max_gap == 0:
        together = fit(X, groups, ties="together", missed=True, **settings)
        # Rows that stay together can only be even where a cluster is left empty.
        assert together.verdict_ == "missed" or len(np.unique(together.labels_)) < 3


@pytest.mark.parametrize("solver", ["em", "gd"])
def test_the_papers_solvers_split_too(solver):
    X, groups = people(n_rows=1000, n_different=40)
    X = (X - X.mean()) / X.std()
    settings = {"solver": solver, "max_gap": 0.03, "max_iter": 40 if solver == "em" else 400}
    model = fit(X, groups, 2, **settings)
    assert model.gap_ <= 0.03
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    first = model.predict_proba(X).argmax(axis=1)
    assert (first != model.labels_).any()


def test_a_table_like_a_real_one():
    """7,000 people, six rounded columns: the bound is met at no more cost than together."""
    rng = np.random.default_rng(0)
    n = 7000
    b = rng.random(n) < 0.4
    prior = np.minimum(np.floor(rng.exponential(2.2 + 1.5 * b)), 15)
    age = 3 * np.round(np.clip(rng.gamma(3, 5, n) + 18 - 2.5 * b, 18, 75) / 3)
    score = np.clip(np.round(5 + b + 0.35 * prior - 0.05 * age + rng.normal(0, 0.6, n)), 1, 10)
    juvenile, felony = np.minimum(rng.poisson(0.06 + 0.06 * b), 3), rng.random(n) < 0.3 + 0.1 * b
    days = np.where(rng.random(n) < 0.75, 0, 1 + np.minimum(np.floor(rng.exponential(1.2, n)), 5))
    X = np.column_stack([age, prior, score, juvenile, days, felony])
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    found = {}
    for ties in ("together", "split"):
        model = fit(X, b, 10, max_gap=0.01, assignment="aware", ties=ties)
        found[ties] = clustering_cost(X, model.labels_)
        assert model.gap_ <= 0.01
    assert found["split"] <= 1.01 * found["together"]


@pytest.mark.parametrize("assignment", ["aware", "blind"])
def test_a_row_alone_gets_its_first_choice(assignment):
    X, groups = people(n_rows=1500, n_different=1200)
    model = fit(X, groups, assignment=assignment)
    given = known(model, groups)
    first = model.predict_proba(X, **given).argmax(axis=1)
    sets = equal_rows(Rows(X.to_numpy(), None), (groups == "v") if given else None)
    alone = np.bincount(sets)[sets] == 1
    assert 100 < alone.sum() < 1400
    np.testing.assert_array_equal(model.labels_[alone], first[alone])
    assert (model.labels_ != first).any()
    for i in np.flatnonzero(model.labels_ != first)[:5]:
        one = {name: value[i : i + 1] for name, value in given.items()}
        assert model.predict(X.iloc[i : i + 1], **one).tolist() == [first[i]]


def test_labels_depend_on_the_order_of_the_table():
    X, groups = people("categorical", n_rows=900, n_different=25)
    model = fit(X, groups, max_gap=0.005)
    order = np.random.default_rng(3).permutation(len(X))
    moved = model.predict(X.iloc[order])
    assert (moved != model.labels_[order]).any()
    np.testing.assert_array_equal(moved, model.predict(X.iloc[order]))
    # Kinds of rows that are not near a boundary keep their label, whatever the order.
    whole = pd.Series(model.labels_).groupby([X["c"], X["d"]]).transform("nunique") == 1
    assert 0.5 < whole.mean() < 1
    assert (moved == model.labels_[order])[whole[order]].mean() > 0.9


def test_without_equal_rows_nothing_changes():
    rng = np.random.default_rng(0)
    X, groups = rng.normal(size=(600, 2)), rng.integers(2, size=600)
    split, together = (fit(X, groups, max_gap=0, ties=ties) for ties in ("split", "together"))
    np.testing.assert_array_equal(split.labels_, together.labels_)
    np.testing.assert_array_equal(split.means_, together.means_)


WAYS = {
    "standardised": {"standardize": True},
    "small batches": {"batch_size": 300},
    "a share as batch": {"batch_size": 0.3},
    "subsample": {"subsample": 900},
    "fairness sample": {"fairness_sample_size": 900},
    "threads": {"n_jobs": 2},
    "full": {"covariance_type": "full"},
}


@pytest.mark.parametrize("assignment", ["aware", "blind"])
@pytest.mark.parametrize("way", WAYS)
def test_predict_of_the_training_table_gives_its_labels(way, assignment):
    X, groups = people()
    model = fit(X, groups, assignment=assignment, **WAYS[way])
    np.testing.assert_array_equal(model.predict(X, **known(model, groups)), model.labels_)
    assert model.gap_ == pytest.approx(gap(model.labels_, groups), abs=1e-12)
    assert model.gap_ <= 0.01


@pytest.mark.parametrize("assignment", ["aware", "blind"])
def test_rows_without_weight_count_among_equals(assignment):
    """`predict` does not know of weights, so places are those in the whole table."""
    X, groups = people()
    weight = np.random.default_rng(0).choice([0.0, 1.0, 2.0], size=len(X))
    model = FairMixture(3, ties="split", assignment=assignment, random_state=0)
    model.fit(X, sensitive_features=groups, sample_weight=weight)
    np.testing.assert_array_equal(model.predict(X, **known(model, groups)), model.labels_)
    assert model.gap_ == pytest.approx(gap(model.labels_, groups, sample_weight=weight), abs=1e-12)
    assert model.gap_ <= 0.01


@pytest.mark.parametrize("assignment", ["aware", "blind"])
def test_rows_that_are_not_judged_share_labels_out_too(assignment):
    """Rows of a small group and of no group stand aside, in `predict` as in `fit`."""
    X, groups = people()
    groups = groups.astype(object)
    groups[:12], groups[12:400:9] = "few", None
    settings = {"assignment": assignment, "missing_groups": "drop", "min_group_size": 30}
    with pytest.warns(UserWarning, match="few"):
        model = fit(X, groups, **settings)
    np.testing.assert_array_equal(model.predict(X, **known(model, groups)), model.labels_)
    assert model.verdict_ == "met for the judged groups"
    judged = np.isin(groups.astype(str), ["v", "w"])
    assert gap(model.labels_[judged], groups[judged]) <= 0.01


def test_missing_values_are_equal_to_each_other():
    X, groups = people("mixed", n_different=20)
    X = X.mask(np.random.default_rng(0).random(X.shape) < 0.1)
    model = fit(X, groups)
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    assert model.gap_ <= 0.01
    sets = equal_rows(model.fitted_.rows(X))
    mixed = pd.Series(model.labels_).groupby(sets).nunique() > 1
    incomplete = X.isna().any(axis=1).to_numpy()
    assert set(np.flatnonzero(mixed)) & set(sets[incomplete])


def test_single_precision_labels_are_those_that_met_the_bound():
    X, groups = people()
    model = fit(X.astype(np.float32), groups, max_gap=0.005)
    assert model.gap_ <= 0.005
    np.testing.assert_array_equal(model.predict(X.astype(np.float32)), model.labels_)


TWO_BLOCKS = BLOCK_ROWS + 3000


@pytest.mark.parametrize("assignment", ["aware", "blind"])
def test_memory_files_and_threads_give_the_same_bits(assignment, tmp_path):
    X, groups = people("mixed", n_rows=TWO_BLOCKS)
    X["g"] = groups
    X.to_parquet(tmp_path / "rows.parquet", row_group_size=1000)
    settings = {"assignment": assignment, "max_gap": 0.002, "standardize": True}
    memory = fit(X, "g", **settings)
    files = fit(tmp_path / "rows.parquet", "g", n_jobs=2, **settings)
    assert memory.gap_ == files.gap_ <= 0.002
    for name in ("means_", "rates_", "weights_"):
        np.testing.assert_array_equal(getattr(memory, name), getattr(files, name))
    given = known(memory, "g")
    path = files.predict(tmp_path / "rows.parquet", output=tmp_path / "labels", **given)
    np.testing.assert_array_equal(pq.read_table(path)["cluster"], memory.labels_)
    np.testing.assert_array_equal(memory.predict(X, **given), memory.labels_)
    first = memory.predict_proba(X, **given).argmax(axis=1)
    assert (memory.labels_ != first).sum() > 10
    # What comes after a run does not change it.
    half = memory.predict(X[:BLOCK_ROWS], **given)
    np.testing.assert_array_equal(half, memory.labels_[:BLOCK_ROWS])


# ---------------------------------------------------------------- what it is not for, and around
REFUSED = {
    "probabilities": ({"gap_of": "probabilities"}, "gap_of='probabilities' sets none on them"),
    "strength": ({"fairness_strength": 2.0}, r"fairness_strength=2\.0 sets none"),
    "another word": ({"ties": "apart"}, "The 'ties' parameter"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_go_together_is_refused(case):
    settings, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        fit(*people(), **settings)


def test_batches_of_files_are_refused(tmp_path):
    X, groups = people()
    X.assign(g=groups).to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(ValueError, match=r"batch_size=300 cuts .* other blocks than"):
        fit(tmp_path / "rows.parquet", "g", batch_size=300)


def test_a_plain_mixture_has_nothing_to_share_out():
    X, groups = people()
    plain = FairMixture(3, ties="split", random_state=0).fit(X)
    np.testing.assert_array_equal(plain.labels_, plain.predict_proba(X).argmax(axis=1))
    unbounded = fit(X, groups, fairness_strength=0)
    np.testing.assert_array_equal(unbounded.labels_, unbounded.predict_proba(X).argmax(axis=1))


def test_streams_graphs_and_certificates_refuse_it():
    X, groups = people()
    model = fit(X, groups)
    with pytest.raises(ValueError, match=r"a stream keeps no table\. Set ties='together'"):
        model.partial_fit(X, sensitive_features=groups)
    with pytest.raises(ValueError, match="ties='split': a label depends on the rows beside it"):
        to_onnx(model)
    with pytest.raises(ValueError, match="no map of single rows whose gap"):
        model.certify(X, groups)


def test_the_warning_names_splitting_only_where_it_may_help():
    rng = np.random.default_rng(0)
    # Two rows cannot be spread over eight clusters.
    X, groups = rng.normal(size=(300, 2)), (np.arange(300) < 2).astype(int)
    # A seed whose gap is of many rows.
    settings = {"max_gap": 0, "max_iter": 2, "random_state": 1, "min_group_size": 1}
    alone = warnings_of(FairMixture(8, **settings), X, groups)
    assert "The gap of the labels" in alone
    assert "ties=" not in alone
    X[4] = X[3]  # two equal rows are no reason for a gap of many
    assert "ties=" not in warnings_of(FairMixture(8, **settings), X, groups)
    tied, groups = people("categorical", n_rows=300, n_different=6)
    most = tied.value_counts().max() / 300
    wanted = f"the most frequent one is {most:.1%} of all: ties='split' shares them out"
    assert wanted in warnings_of(FairMixture(4, **settings), tied, groups)
    settings["gap_of"] = "probabilities"
    assert "ties=" not in warnings_of(FairMixture(4, **settings), tied, groups)


def warnings_of(model, X, groups):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, sensitive_features=groups)
    assert {w.category for w in caught} <= {ConvergenceWarning}
    return " ".join(str(w.message) for w in caught)


def test_model_files_keep_it(tmp_path):
    X, groups = people()
    model = fit(X, groups)
    again = load(model.save(tmp_path / "a.fairmix"))
    assert again.ties == "split"
    np.testing.assert_array_equal(again.predict(X), model.labels_)
    # What was fitted stays, whatever the parameter says later.
    model.set_params(ties="together")
    again = load(model.save(tmp_path / "b.fairmix"))
    np.testing.assert_array_equal(again.predict(X), model.labels_)


def test_cards_and_reports_say_what_it_means():
    X, groups = people()
    split, together = fit(X, groups), fit(X, groups, ties="together", missed=True)
    words = "two equal people can get different clusters"
    assert words in model_card(split)
    assert words not in model_card(together)
    counted = Profile(groups=["v", "w"], n_clusters=3)
    counted.add(X, split.labels_, groups)
    page = render(counted, model=split)
    assert "cluster also depends on its position in the table" in page


def test_a_front_splits_down_to_the_plain_mixture():
    X, groups = people(n_rows=800, n_different=30)
    estimator = FairMixture(3, assignment="aware", ties="split", random_state=0)
    front = pareto_front(estimator, X, sensitive_features=groups, max_gaps=(0.005, 0.02, np.inf))
    assert [row.met for row in front.rows] == [True, True, None]
    assert front.rows[0].gap <= 0.005
    assert not front.models[-1].fitted_.model.split


# ---------------------------------------------------------------------------- the command line
def run(*words, code=0):
    found = CliRunner().invoke(app, list(map(str, words)))
    assert found.exit_code == code, found.output
    return found


def test_commands_give_the_labels_of_one_table(tmp_path, monkeypatch):
    """Rows that are left out shift the runs of the others."""
    monkeypatch.chdir(tmp_path)
    X, groups = people("mixed", n_rows=TWO_BLOCKS)
    X.loc[::9, "a"] = np.nan
    X.assign(g=groups).to_parquet("rows.parquet", row_group_size=5000)
    bound = ["--max-gap", 0.002, "-k", 3, "--ties", "split", "--missing", "drop-rows"]
    run("fit", "rows.parquet", "-s", "g", *bound, "--no-front", "--strict")
    model = load("results/model.fairmix")
    kept = X.notna().all(axis=1).to_numpy()
    labels = pq.read_table("results/labels.parquet")["cluster"].to_numpy(zero_copy_only=False)
    assert np.isnan(labels[~kept]).all()
    np.testing.assert_array_equal(labels[kept], model.predict(X[kept]))
    assert gap(labels[kept].astype(int), groups[kept]) <= 0.002
    figures = json.loads((tmp_path / "results/metrics.json").read_text())
    assert figures["settings"]["ties"] == "split"
    assert figures["gap"] == pytest.approx(gap(labels[kept].astype(int), groups[kept]), abs=1e-12)
    run("predict", "results/model.fairmix", "rows.parquet", "--missing", "drop-rows")
    again = pq.read_table("labels.parquet")["cluster"].to_numpy(zero_copy_only=False)
    np.testing.assert_array_equal(labels, again)
    assert "split" in run("info", "results/model.fairmix").output


def test_the_command_line_refuses_what_does_not_go_together(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, groups = people()
    X.assign(g=groups).to_csv("rows.csv", index=False)
    split = ["fit", "rows.csv", "-s", "g", "--ties", "split"]
    assert "Choose one" in run(*split, "--hold-out", 0.2, code=2).output
    assert "sets none on them" in run(*split, "--gap-of", "probabilities", code=2).output
