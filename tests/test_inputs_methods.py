"""Odd and wrong input to baselines, comparisons, paths and data sets."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.cluster import KMeans

from fairmix import FairMixture, compare, pareto_front, select_n_components
from fairmix.baselines import AlignedFairKMeans, FairletKMeans, VariationalFairKMeans
from fairmix.datasets import make_census_like, make_grouped_blobs, paper_preprocessing
from inputs import FRAME, Bad, G, N, Odd, Row, X, frozen, matrix, refuse, warned

BASELINES = {
    "fairlets": FairletKMeans,
    "variational": VariationalFairKMeans,
    "aligned": AlignedFairKMeans,
}
LEFT = r"Only \d+ of n_clusters=2 clusters have members"

ROWS: dict[str, Row] = {
    "list": Odd(lambda: (X.tolist(), G)),
    "read-only and strided": Odd(lambda: (np.repeat(X, 2, axis=0)[::2], G)),
    "a frame": Odd(lambda: (pd.DataFrame(X), G)),
    "no groups": Odd(lambda: (X, None)),
    "a constant column": Odd(lambda: (np.c_[X, np.ones(N)], G)),
    "infinity": Bad(lambda: (np.where(X > 2, np.inf, X), G), "infinity"),
    "NaN": Bad(lambda: (np.where(X > 2, np.nan, X), G), "NaN"),
    "1e300": Bad(lambda: (1e300 * X, G), "squared distances overflow"),
    "texts": Bad(lambda: (np.array([["a"]] * N), G), "could not convert string"),
    "sparse": Bad(lambda: (sp.csr_matrix(X), G), "Sparse data", TypeError),
    "one dimension": Bad(lambda: (X[:, 0], G), "Expected 2D"),
    "no row": Bad(lambda: (X[:0], []), r"0 sample\(s\)"),
    "fewer rows than clusters": Bad(lambda: (X[:1], G[:1]), "need at least as many rows"),
    "groups of another length": Bad(lambda: (X, G[:3]), "has 3 rows, the data has 60"),
    "missing groups": Bad(lambda: (X, [None, 0] * (N // 2)), "missing labels"),
}


@pytest.mark.parametrize("name", BASELINES)
@matrix(ROWS)
def test_baselines(name, row):
    table, groups = row.make()
    before = frozen((table, groups))
    model = BASELINES[name](2, random_state=0)
    if isinstance(row, Bad):
        refuse(lambda: model.fit(table, sensitive_features=groups), row)
    else:
        with warned():
            model.fit(table, sensitive_features=groups)
        assert model.labels_.shape == (N,)
        assert set(model.labels_) == {0, 1}
        assert np.isfinite(model.cluster_centers_).all()
        compared = len(model.groups_) > 1
        assert np.isfinite([model.gap_, model.balance_]).tolist() == [compared] * 2
    assert frozen((table, groups)) == before


@pytest.mark.parametrize("name", BASELINES)
def test_baselines_on_one_row_many_times(name):
    with warned(LEFT):
        model = BASELINES[name](2, random_state=0).fit(np.ones((N, 2)))
    assert set(model.labels_) == {0}


PLAIN = FairMixture(2, fairness_strength=0, random_state=0)
FAIR = FairMixture(2, assignment="aware", random_state=0)
METHODS = {"K-means": KMeans(2, n_init=1, random_state=0), "plain": PLAIN}

CALLS: dict[str, Row] = {
    "front without groups": Bad(
        lambda: pareto_front(FAIR, X, sensitive_features=None), "sensitive_features=None"
    ),
    "front of no bound": Bad(
        lambda: pareto_front(FAIR, X, sensitive_features=G, max_gaps=[]), "one or more bounds"
    ),
    "front of a negative bound": Bad(
        lambda: pareto_front(FAIR, X, sensitive_features=G, max_gaps=[-1]), "one or more bounds"
    ),
    "front of NaN": Bad(
        lambda: pareto_front(FAIR, X, sensitive_features=G, max_gaps=[np.nan]), "one or more bounds"
    ),
    "front of texts": Bad(
        lambda: pareto_front(FAIR, X, sensitive_features=G, max_gaps=["a"]), "could not convert"
    ),
    "front of a strength": Bad(
        lambda: pareto_front(PLAIN, X, sensitive_features=G), "leaves max_gap unused"
    ),
    "front of another estimator": Bad(
        lambda: pareto_front(KMeans(2), X, sensitive_features=G), "not a FairMixture", TypeError
    ),
    "front of an empty table": Bad(
        lambda: pareto_front(FAIR, X[:0], sensitive_features=[]), "0 rows"
    ),
    "no number of clusters": Bad(
        lambda: select_n_components(PLAIN, X, n_components=[]), "one or more whole numbers"
    ),
    "a number of 0 clusters": Bad(
        lambda: select_n_components(PLAIN, X, n_components=[0]), "one or more whole numbers"
    ),
    "half a cluster": Bad(
        lambda: select_n_components(PLAIN, X, n_components=[1.5]), "one or more whole numbers"
    ),
    "an unknown information criterion": Bad(
        lambda: select_n_components(PLAIN, X, criterion="dic"), "criterion='dic'"
    ),
    "more clusters than rows": Bad(
        lambda: select_n_components(PLAIN, X, n_components=[N + 1]), "n_samples=60"
    ),
    "comparison without groups": Bad(
        lambda: compare(METHODS, X, sensitive_features=None), "sensitive_features=None"
    ),
    "comparison of nothing": Bad(
        lambda: compare({}, X, sensitive_features=G), "Give a dict", TypeError
    ),
    "comparison of a class": Bad(
        lambda: compare({"a": object()}, X, sensitive_features=G), "not a scikit-learn", TypeError
    ),
    "comparison without a number": Bad(
        lambda: compare(None, X, sensitive_features=G), "need n_clusters"
    ),
    "comparison with two numbers": Bad(
        lambda: compare(METHODS, X, sensitive_features=G, n_clusters=2), "is for methods=None"
    ),
    "comparison by an unknown criterion": Bad(
        lambda: compare(METHODS, X, sensitive_features=G, criterion="x"), "criterion='x'"
    ),
    "comparison of NaN": Bad(
        lambda: compare(METHODS, np.where(X > 2, np.nan, X), sensitive_features=G), "NaN"
    ),
    "comparison of categories": Bad(
        lambda: compare(METHODS, FRAME, sensitive_features=G), "could not convert string"
    ),
    "no blob": Bad(lambda: make_grouped_blobs(0), "n_rows=0 is too small"),
    "blobs of no group": Bad(lambda: make_grouped_blobs(5, n_groups=0), "n_groups=0"),
    "imbalance above 1": Bad(lambda: make_grouped_blobs(5, imbalance=2), "imbalance=2"),
    "separation of NaN": Bad(lambda: make_grouped_blobs(5, separation=np.nan), "separation=nan"),
    "no person": Bad(lambda: make_census_like(0), "n_rows=0"),
    "a negative seed": Bad(lambda: make_census_like(5, seed=-1), "seed=-1"),
    "preparation of NaN": Bad(lambda: paper_preprocessing([[np.nan]]), "NaN or infinity in 1 rows"),
    "preparation of one dimension": Bad(lambda: paper_preprocessing(X[:, 0]), "shape"),
}


@matrix(CALLS)
def test_paths_comparisons_and_data_sets(row):
    before = frozen((X, G))
    refuse(row.make, row)
    assert frozen((X, G)) == before


def test_a_method_that_fails_has_a_row_that_says_why():
    methods = METHODS | {"too many": KMeans(10 * N)}
    with warned():
        table = compare(methods, X, sensitive_features=G)
    assert [row.method for row in table.rows] == ["K-means", "plain", "too many"]
    assert "n_clusters=600" in str(table)
    assert set(table.models) == {"K-means", "plain"}


def test_preparation_of_a_constant_column_has_no_nan():
    out = paper_preprocessing(np.c_[X, np.ones(N)])
    assert np.isfinite(out).all()
    assert (out[:, 2] == 0).all()
