"""Odd and wrong groups, weights and settings of ``fit``."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp

from fairmix import FairMixture
from fairmix.input.frames import MAX_LEVELS
from inputs import (
    FRAME,
    UNSETTLED,
    Bad,
    G,
    N,
    Odd,
    Row,
    X,
    assert_sound,
    frozen,
    matrix,
    refuse,
    warned,
)

HALF = N // 2


def names(*expected):
    """The check that these are the groups."""
    return lambda model: model.groups_.tolist() == list(expected)


GROUPS: dict[str, Row] = {
    "bools": Odd(lambda: G == 0, check=names("False", "True")),
    "tuple": Odd(lambda: tuple(G.tolist()), check=names("0", "1")),
    "floats": Odd(lambda: G.astype(float), check=names("0.0", "1.0")),
    "dates": Odd(
        lambda: np.array(["2020-01-01", "2021-01-01"] * HALF, "datetime64[D]"),
        check=names("2020-01-01", "2021-01-01"),
    ),
    "categories, one unused": Odd(
        lambda: pd.Categorical(["a", "b"] * HALF, categories=["z", "b", "a"]), check=names("a", "b")
    ),
    "an empty name": Odd(lambda: ["", "a"] * HALF, check=names("", "a")),
    "unicode names": Odd(lambda: ["é\u202e", "名\n"] * HALF, check=names("é\u202e", "名\n")),
    "infinity as a name": Odd(lambda: np.where(G == 0, np.inf, 1.0), check=names("1.0", "inf")),
    "two columns": Odd(
        lambda: np.c_[G, [0, 1] * HALF],
        check=names("0 & 0", "0 & 1", "1 & 0", "1 & 1"),
        settings={"fairness_strength": 0},
    ),
    "a group of one row": Odd(lambda: ["a"] * (N - 1) + ["b"]),
    "as many groups as clusters of three": Odd(lambda: np.arange(N) % 3),
    "one group": Bad(lambda: ["a"] * N, "one group only, 'a'"),
    "too few": Bad(lambda: G[:5], "has 5 rows, the data has 60"),
    "none at all": Bad(lambda: [], "has 0 rows"),
    "None in a label": Bad(lambda: [None, "a", "b"] * 20, "20 missing labels in 60 rows"),
    "NaN in a label": Bad(lambda: np.where(G == 0, np.nan, 1.0), "missing labels"),
    "a masked label": Bad(lambda: np.ma.masked_equal(G, 0), "missing labels"),
    "labels that read the same": Bad(lambda: [1, "1"] * HALF, "read the same: '1'"),
    "rows of several lengths": Bad(lambda: [[1, 2]] * (N - 1) + [[1]], "not in row 59"),
    "three dimensions": Bad(lambda: np.zeros((N, 2, 2)), "3 dimensions"),
    "a table without columns": Bad(lambda: pd.DataFrame(index=range(N)), "0 columns"),
    "sets as labels": Bad(lambda: [{1}, {2}] * HALF, "row 0, a set"),
    "a dict": Bad(lambda: {"a": 1}, "dict of 0 dimensions"),
    "a number": Bad(lambda: 3, "int of 0 dimensions"),
    "sparse": Bad(lambda: sp.csr_matrix(G), "0 dimensions"),
    "lazy": Bad(lambda: pl.DataFrame({"g": G}).lazy(), "collect a lazy one"),
    "a name beside an array": Bad(lambda: "sex", "'sex' names a column of X, but X is not a data"),
}

WEIGHTS: dict[str, Row] = {
    "whole numbers": Odd(lambda: np.ones(N, int)),
    "some of 0": Odd(lambda: (np.arange(N) % 3 > 0).astype(float)),
    "all of 1e-12": Odd(lambda: np.full(N, 1e-12), settings={"assignment": "aware"}),
    "one of 1e-12": Odd(lambda: np.where(np.arange(N) == 0, 1e-12, 1.0)),
    "negative": Bad(lambda: -np.ones(N), "Negative values in data passed to `sample_weight`"),
    "NaN": Bad(lambda: np.full(N, np.nan), "sample_weight contains NaN"),
    "infinity": Bad(lambda: np.full(N, np.inf), "sample_weight contains infinity"),
    "too few": Bad(lambda: np.ones(3), r"sample_weight.shape == \(3,\)"),
    "two columns": Bad(lambda: np.ones((N, 2)), "Sample weights must be 1D"),
    "1e300": Bad(lambda: np.full(N, 1e300), "adds up to inf|adds up to 6e"),
    "1e-300": Bad(lambda: np.full(N, 1e-300), "adds up to 6e-299"),
    "a name": Bad(lambda: "w", "names a column of X, but X is not a data frame"),
    "all of 0": Bad(lambda: np.zeros(N), "at least one non-zero number|adds up to 0"),
    "fewer rows than clusters": Bad(
        lambda: np.isin(np.arange(N), [np.argmin(G), np.argmax(G)]).astype(float),
        "n_components=3 clusters need at least as many rows, X has n_samples=2",
        settings={"n_components": 3},
    ),
    "none in one group": Bad(lambda: (G == 0).astype(float), "no row of '1' has a positive"),
}

SETTINGS: dict[str, Row] = {
    "more clusters than rows": Bad(lambda: {"n_components": N + 1}, "X has n_samples=60"),
    "no cluster": Bad(lambda: {"n_components": 0}, "'n_components' parameter"),
    "half a cluster": Bad(lambda: {"n_components": 2.5}, "'n_components' parameter"),
    "clusters by name": Bad(lambda: {"n_components": "2"}, "'n_components' parameter"),
    "a negative bound": Bad(lambda: {"max_gap": -0.1}, "'max_gap' parameter"),
    "a bound of NaN": Bad(lambda: {"max_gap": np.nan}, "'max_gap' parameter"),
    "a negative strength": Bad(lambda: {"fairness_strength": -1}, "'fairness_strength' parameter"),
    "an unknown strength": Bad(lambda: {"fairness_strength": "lots"}, "'fairness_strength'"),
    "an unknown solver": Bad(lambda: {"solver": "lbfgs"}, "'solver' parameter"),
    "an unknown covariance": Bad(lambda: {"covariance_type": "round"}, "'covariance_type'"),
    "aware by EM": Bad(lambda: {"assignment": "aware", "solver": "em"}, "needs solver='dual'"),
    "no iteration": Bad(lambda: {"max_iter": 0}, "'max_iter' parameter"),
    "a negative tolerance": Bad(lambda: {"tol": -1}, "'tol' parameter"),
    "a negative regularisation": Bad(lambda: {"reg_covar": -1}, "'reg_covar' parameter"),
    "a seed of text": Bad(lambda: {"random_state": "a"}, "'random_state' parameter"),
    "no batch": Bad(lambda: {"batch_size": 0}, "'batch_size' parameter"),
    "batches and a sub-sample": Bad(
        lambda: {"batch_size": 10, "subsample": 20}, "two ways to see fewer rows"
    ),
    "a mask of the wrong length": Bad(
        lambda: {"categorical_features": [True]}, "mask of 1 entries, X has 2 columns"
    ),
    "a category column that is not there": Bad(
        lambda: {"categorical_features": [5]}, "names 5, which is not a column"
    ),
    "an unknown word for categories": Bad(
        lambda: {"categorical_features": "all"}, "'categorical_features'"
    ),
    "one iteration": Odd(lambda: {"max_iter": 1}, (UNSETTLED,)),
    "a bound of 0": Odd(lambda: {"max_gap": 0}),
    "an infinite bound": Bad(lambda: {"max_gap": np.inf}, "'max_gap' parameter"),
    "a bound of 1": Odd(lambda: {"max_gap": 1}),
    "a huge strength": Odd(lambda: {"fairness_strength": 1e6}),
    "one cluster": Odd(
        lambda: {"n_components": 1}, check=lambda model: (model.gap_, model.balance_) == (0.0, 1.0)
    ),
    "as many clusters as rows": Odd(
        lambda: {"n_components": N, "fairness_strength": 0},
        check=lambda model: len(np.unique(model.labels_)) == N,
    ),
    "no regularisation": Odd(lambda: {"reg_covar": 0}),
    "a batch larger than the data": Odd(lambda: {"batch_size": 10 * N}),
    "a sub-sample larger than the data": Odd(lambda: {"subsample": 10 * N}),
    "numpy numbers": Odd(lambda: {"n_components": np.int64(2), "max_gap": np.float32(0.2)}),
}


def fit(groups=G, weight=None, table=X, **settings):
    # Rows are few here, and groups smaller still.
    usual = {"n_components": 2, "max_gap": 0.2, "random_state": 0, "min_group_size": 1}
    model = FairMixture(**usual | settings)
    return model.fit(table, sensitive_features=groups, sample_weight=weight)


def run(row, given, call):
    """The row's verdict on a call, and that what was given is as before."""
    before = frozen(given)
    if isinstance(row, Bad):
        refuse(call, row)
    else:
        with warned(*row.warns):
            model = call()
        assert_sound(model, N)
        assert row.check is None or row.check(model)
    assert frozen(given) == before


@matrix(GROUPS)
def test_groups(row):
    groups = row.make()
    run(row, groups, lambda: fit(groups, **row.settings))


@matrix(WEIGHTS)
def test_weights(row):
    weight = row.make()
    run(row, weight, lambda: fit(weight=weight, **row.settings))


@matrix(SETTINGS)
def test_settings(row):
    settings = row.make()
    run(row, settings, lambda: fit(**settings))


def test_a_named_group_that_is_not_there():
    with pytest.raises(ValueError, match=r"'sex' names a column of X, but X has \['a', 'b', 'c'\]"):
        fit("sex", table=FRAME)


def test_a_group_that_is_also_a_feature_is_told():
    with pytest.warns(UserWarning, match=r"The sensitive columns \['c'\] are also features"):
        model = fit(FRAME["c"], table=FRAME)
    assert_sound(model, N)


def test_five_thousand_groups():
    rng = np.random.default_rng(0)
    rows, groups = rng.normal(size=(6_000, 2)), np.arange(6_000) % 5_000
    with warned():
        model = fit(groups, table=rows, fairness_strength=0, max_iter=50, tol=1e-2)
    assert len(model.groups_) == 5_000
    assert model.rates_.shape == (5_000, 2)
    assert_sound(model, 6_000)


@pytest.mark.parametrize("share", [0.5, 1 / 64, 2.0**-30], ids="{:.1g}".format)
def test_equal_weights_below_one_change_nothing(share):
    # Powers of two, so that no digit differs.
    with warned():
        model = fit(weight=np.full(N, share))
    np.testing.assert_array_equal(model.labels_, fit().labels_)
    assert model.gap_ == fit().gap_


def test_weights_that_add_up_to_one_meet_the_bound():
    with warned():
        model = fit(weight=np.full(N, 1 / N))
    assert model.gap_ <= 0.2 + 1e-12


def test_a_hundred_thousand_categories():
    table = pd.DataFrame({"a": np.arange(100_000).astype(str)})
    with warned(UNSETTLED, "Of more than 256 categories each: 'a'"):
        model = fit(None, table=table, fairness_strength=0, max_iter=1)
    assert len(model.categories_[0]) == 100_000
    assert_sound(model, 100_000)


def test_more_categories_than_files_may_hold(tmp_path):
    path = tmp_path / "many.csv"
    path.write_text("a\n" + "\n".join(f"x{i}" for i in range(MAX_LEVELS + 1)))
    with (
        warned("Of more than 256 categories each: 'a'"),
        pytest.raises(ValueError, match=f"more than {MAX_LEVELS} categories"),
    ):
        fit(None, table=path)
