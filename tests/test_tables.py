"""Tables: every kind does the same pass, to the last bit."""

from functools import cache

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from cases import (
    FAMILIES,
    TABLES,
    K,
    M,
    assert_close,
    assert_same_bits,
    block_totals,
    each,
    each_memory_table,
    each_table,
    memory_table,
    problem,
)
from fairmix.kernels import LogitMap, Sweep, hard_labels
from fairmix.kernels.totals import Block, Features, Logits, Rows, add_up
from fairmix.mixture.families import Gaussian
from fairmix.mixture.mixture import Mixture
from fairmix.tables import BLOCK_ROWS, MemoryStore, Table
from fairmix.tables.table import SINGLE_ROWS

N_ROWS = 3 * BLOCK_ROWS + 100
PASSES = {
    "e-step": {},
    "gradient": {"alpha": 0.0, "pull": "pull"},
    "dual": {"offsets": "offsets", "temperature": 0.3},
    "all": {"offsets": "offsets", "alpha": 0.5, "pull": "pull", "temperature": 0.3},
}

each_kind = each("case", FAMILIES, "gaussian-diag", "categorical", "product-full")


@pytest.fixture(autouse=True, scope="module")
def _one_blas_thread():
    """As in a fit: how many threads BLAS takes may change the last bits of a product."""
    with threadpool_limits(1, user_api="blas"):
        yield


def settings(names):
    """Names of matrices turned into matrices."""
    rng = np.random.default_rng(5)
    matrices = {"offsets": rng.normal(size=(M, K)), "pull": rng.normal(size=(M, K))}
    return {name: matrices.get(value, value) for name, value in names.items()}


def propensity(rows):
    """Some probability of each group given x, (M, n)."""
    x = rows.codes if rows.numeric is None else rows.numeric
    odds = np.exp(x[:, :2] / 4)
    return (np.column_stack([odds, np.ones(len(x))]) / (1 + odds.sum(axis=1, keepdims=True))).T


def columns(toy, *, blind=False):
    return {
        "groups": toy.groups,
        "n_groups": M,
        "weight": toy.weight,
        "propensity": propensity if blind else None,
    }


def by_blocks(rows, encode, logits, *, groups, n_groups, weight, propensity, **pass_settings):
    """The definition: the kernel on runs of BLOCK_ROWS, added up in their order."""
    totals = []
    for start in range(0, rows.n_rows, BLOCK_ROWS):
        part = slice(start, start + BLOCK_ROWS)
        some = rows.take(part)
        block = Block(
            encode(some),
            groups[part],
            n_groups,
            np.dtype(np.float64),
            weight[part],
            None if propensity is None else propensity(some),
        )
        # Nobody asks a pass with pull for masses, so it has none.
        how = {"masses": pass_settings.get("pull") is None, **pass_settings}
        totals.append(block_totals(block, logits, **how))
    return add_up(totals)


@cache
def definition(case, name, blind):
    """What a pass gives, by blocks, for all tables."""
    toy = problem(case, N_ROWS)
    encode, logits = toy.mixture.family.encode, toy.mixture.logits(toy.theta)
    return by_blocks(
        toy.rows, encode, logits, **columns(toy, blind=blind), **settings(PASSES[name])
    )


@each_table
@each_kind
@pytest.mark.parametrize("blind", [False, True], ids=["aware", "blind"])
def test_passes_have_the_bits_of_the_definition(make_table, case, blind):
    toy = problem(case, N_ROWS)
    logits = toy.mixture.logits(toy.theta)
    table = make_table(toy.rows, toy.mixture.family.encode, **columns(toy, blind=blind))
    for name in PASSES:
        found = table.softmax_pass(Sweep(logits, **settings(PASSES[name])))
        assert_same_bits(found, definition(case, name, blind))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_one_and_two_threads_give_the_same_bits(dtype):
    toy = problem(FAMILIES["product-full"], N_ROWS)
    rows = Rows(np.asarray(toy.rows.numeric, dtype=dtype), toy.rows.codes)
    logits = toy.mixture.logits(toy.theta)
    totals = [
        memory_table(rows, toy.mixture.family.encode, **columns(toy), n_jobs=n_jobs).softmax_pass(
            Sweep(logits, **settings(PASSES["all"]))
        )
        for n_jobs in (1, 2)
    ]
    assert_same_bits(*totals)


@each_table
@each_kind
def test_weights_equal_repetition(make_table, case):
    toy = problem(case, 500)
    times = np.random.default_rng(6).integers(4, size=500)
    encode, logits = toy.mixture.family.encode, toy.mixture.logits(toy.theta)
    weighted = make_table(
        toy.rows, encode, groups=toy.groups, n_groups=M, weight=times.astype(float)
    )
    again = np.repeat(np.arange(500), times)
    repeated = make_table(toy.rows.take(again), encode, groups=toy.groups[again], n_groups=M)
    np.testing.assert_array_equal(weighted.group_sizes, repeated.group_sizes)
    assert_close(
        weighted.softmax_pass(Sweep(logits, **settings(PASSES["all"]))),
        repeated.softmax_pass(Sweep(logits, **settings(PASSES["all"]))),
        rtol=1e-10,
        atol=1e-9,
    )


@each_table
def test_what_is_kept_between_passes_changes_no_bit(make_table):
    toy = problem(FAMILIES["product-diag"], N_ROWS)
    logits, other = toy.mixture.logits(toy.theta), toy.mixture.logits(toy.theta + 0.1)
    offsets, pull = np.ones((M, K)) * np.arange(K), settings(PASSES["all"])["pull"]
    used = toy.table(make_table)
    for passed, arguments in [
        (logits, {}),
        (logits, {"alpha": 0.0}),  # the same responsibilities: may be kept
        (logits, {"alpha": 0.0, "pull": pull}),
        (logits, {"alpha": 0.0, "pull": pull, "temperature": 0.3}),  # others from here on
        (logits, {"temperature": 0.3, "likelihood": False}),
        (logits, {"temperature": 0.3}),
        (logits, {"offsets": offsets, "pull": pull}),
        (logits, {"offsets": offsets + 1}),
        (other, {}),
        (logits, {}),
    ]:
        fresh = toy.table(make_table).softmax_pass(Sweep(passed, **arguments))
        if arguments.get("alpha") == 0 and "pull" not in arguments:
            assert not fresh.sums.W.any()
        assert_same_bits(used.softmax_pass(Sweep(passed, **arguments)), fresh)


@each_memory_table
def test_large_features_are_made_anew_with_the_same_bits(make_table, monkeypatch):
    # 12 columns have 78 products: too many to keep where memory is short.
    monkeypatch.setattr("fairmix.tables.table.KEPT_BYTES", 2**24)
    rng = np.random.default_rng(7)
    numeric = rng.normal(size=(N_ROWS, 12))
    rows, family = Rows(numeric, None), Gaussian(K, numeric.mean(axis=0), "full")
    logits = Logits(rng.normal(size=K), rng.normal(size=(K, family.n_features)) / 10)
    encoded = []

    def encode(some):
        encoded.append(some.n_rows)
        return family.encode(some)

    data = {"groups": rng.integers(M, size=N_ROWS), "n_groups": M, "weight": np.ones(N_ROWS)}
    table = make_table(rows, encode, **data)
    expected = by_blocks(rows, family.encode, logits, **data, propensity=None)
    for _ in range(2):
        encoded.clear()
        assert_same_bits(table.softmax_pass(Sweep(logits)), expected)
        assert sum(encoded) == N_ROWS


# The workers of a cluster keep all in their own memory.
@pytest.mark.parametrize("make_table", [t for t in TABLES if t != "dask"], indirect=True)
@pytest.mark.parametrize(("n_groups", "kept_bytes"), [(2, 2**20), (2, 2**23), (3, 2**21)])
def test_what_a_blind_map_knows_is_found_once(make_table, n_groups, kept_bytes, monkeypatch):
    # Rows beyond what is kept are encoded anew, with the same bits, but not asked again.
    monkeypatch.setattr("fairmix.tables.table.KEPT_BYTES", kept_bytes)
    rng = np.random.default_rng(8)
    rows = Rows(rng.normal(size=(N_ROWS, 20)), None)
    family = Gaussian(K, rows.numeric.mean(axis=0), "diag")
    logits = Logits(rng.normal(size=K), rng.normal(size=(K, family.n_features)) / 10)
    asked = []

    def known(some):
        asked.append(some.n_rows)
        odds = np.exp(some.numeric[:, :n_groups].T)
        rho = odds / odds.sum(axis=0)
        rho[-1] = 1 - rho[0] if n_groups == 2 else rho[-1]
        return rho

    groups = rng.integers(n_groups, size=N_ROWS)
    data = {"groups": groups, "n_groups": n_groups, "weight": np.ones(N_ROWS), "propensity": known}
    sweep = {"offsets": rng.normal(size=(n_groups, K)), "temperature": 0.3}
    table = make_table(rows, family.encode, **data)
    expected = by_blocks(rows, family.encode, logits, **data, **sweep)
    asked.clear()
    for _ in range(3):
        assert_same_bits(table.softmax_pass(Sweep(logits, **sweep)), expected)
    assert sum(asked) == N_ROWS


@each_table
def test_group_sizes_are_weights_per_group(make_table):
    groups, weight = np.array([0, 2, 2, 0, 2]), np.array([1.0, 2.0, 3.0, 0.5, 0.0])
    rows = Rows(np.zeros((5, 1)), None)
    table = make_table(rows, lambda r: Features(r.numeric, None), groups=groups, n_groups=4)
    np.testing.assert_array_equal(table.group_sizes, [2, 0, 3, 0])
    table = make_table(
        rows, lambda r: Features(r.numeric, None), groups=groups, n_groups=4, weight=weight
    )
    np.testing.assert_array_equal(table.group_sizes, [1.5, 0, 5, 0])
    assert table.n_rows == 5


@each_table
def test_each_keeps_the_order_of_the_rows(make_table):
    toy = problem(FAMILIES["gaussian-full"], N_ROWS)
    logits = toy.mixture.logits(toy.theta)
    labels = list(toy.table(make_table).each(lambda block: hard_labels(block, LogitMap(logits))))
    assert [len(part) for part in labels] == [BLOCK_ROWS] * 3 + [100]
    parameters = toy.mixture.unpack(toy.theta)
    density = FAMILIES["gaussian-full"].log_density(parameters, toy.rows)
    expected = (np.log(parameters["weights"])[:, None] + density).argmax(axis=0)
    np.testing.assert_array_equal(np.concatenate(labels), expected)


@each_table
def test_sample_keeps_rows_groups_and_weights_together(make_table):
    # Column 0 tells the group, column 1 the weight and column 2 is different in every row.
    n_rows = 1000
    groups = np.arange(n_rows) % M
    weight = 1.0 + np.arange(n_rows) % 7
    numeric = np.column_stack([groups, weight, 2.0 + np.arange(n_rows)])
    table = make_table(
        Rows(numeric, None),
        lambda r: Features(r.numeric, None),
        groups=groups,
        n_groups=M,
        weight=weight,
    )

    def rows_of(some):
        return np.concatenate(
            [
                np.column_stack([block.features.dense, block.groups, block.weight])
                for block in some.each(lambda block: block)
            ]
        )

    sample = table.sample(200, np.random.default_rng(8))
    found = rows_of(sample)
    assert sample.n_rows == len(found) == 200
    assert len(np.unique(found[:, 2])) == 200
    np.testing.assert_array_equal(found[:, 0], found[:, 3])
    np.testing.assert_array_equal(found[:, 1], found[:, 4])
    np.testing.assert_array_equal(
        sample.group_sizes, np.bincount(found[:, 3].astype(int), found[:, 4], M)
    )
    np.testing.assert_array_equal(rows_of(table.sample(200, np.random.default_rng(8))), found)
    assert not np.array_equal(rows_of(table.sample(200, np.random.default_rng(9))), found)
    everything = table.sample(2 * n_rows, np.random.default_rng(8))
    np.testing.assert_array_equal(rows_of(everything), rows_of(table))


def test_a_sample_in_single_precision_has_nearly_the_same_totals():
    rng = np.random.default_rng(0)
    numeric = rng.normal(size=(SINGLE_ROWS, 2))
    numeric[:, 1] += 1e6  # an offset costs no digits
    family = Gaussian(3, numeric.mean(axis=0), "tied-spherical")
    mixture = Mixture(family)
    logits = mixture.logits(rng.normal(size=3 + family.n_theta))
    store = MemoryStore(Rows(numeric, None), groups=rng.integers(2, size=SINGLE_ROWS), n_groups=2)
    whole = Table(store, family.encode)
    single = whole.sample(SINGLE_ROWS, rng, single=True)
    assert [block.dtype for block in single.each(lambda block: block)] == [np.float32]
    sweep = Sweep(logits, offsets=rng.normal(size=(2, 3)), temperature=0.3, likelihood=False)
    exact, rounded = whole.softmax_pass(sweep), single.softmax_pass(sweep)
    np.testing.assert_allclose(rounded.mass, exact.mass, rtol=1e-4)
    np.testing.assert_allclose(rounded.sums.W, exact.sums.W, rtol=1e-4, atol=0.05)
    np.testing.assert_allclose(rounded.normaliser, exact.normaliser, rtol=1e-5)
    # Passes over a sample count as those of the table that it is of.
    assert whole.passes == 3.0


def test_few_rows_and_huge_ones_stay_in_double_precision():
    rng = np.random.default_rng(0)
    for n_rows, scale in ((SINGLE_ROWS - 1, 1.0), (SINGLE_ROWS, 1e12)):
        numeric = scale * rng.normal(size=(n_rows, 2))
        family = Gaussian(2, np.zeros(2), "tied-spherical")
        table = Table(MemoryStore(Rows(numeric, None)), family.encode)
        sample = table.sample(n_rows, rng, single=True)
        assert {block.dtype for block in sample.each(lambda block: block)} == {np.dtype(np.float64)}
