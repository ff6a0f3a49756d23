"""Odd and wrong input to metrics, certificates and tables of fairness."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp

from fairmix import metrics
from fairmix.results.certificate import certify, chance_gap
from fairmix.results.fairness import fairness_table
from inputs import Bad, G, N, Odd, Row, X, frozen, matrix, refuse, warned

LABELS = np.arange(N) % 3
SOFT = np.random.default_rng(0).dirichlet(np.ones(3), size=N)
FIGURES = (
    metrics.gap,
    metrics.additive_gap,
    metrics.worst_pair_gap,
    metrics.balance,
    metrics.rate_ratio,
)

ASSIGNMENTS: dict[str, Row] = {
    "texts": Odd(lambda: LABELS.astype(str)),
    "labels far apart": Odd(lambda: LABELS * 10**15),
    "negative labels": Odd(lambda: LABELS - 5),
    "one cluster": Odd(lambda: np.zeros(N, int)),
    "a cluster for each row": Odd(lambda: np.arange(N)),
    "probabilities in single precision": Odd(lambda: SOFT.astype(np.float32)),
    "probabilities in half precision": Odd(lambda: SOFT.astype(np.float16)),
    "probabilities as a frame": Odd(lambda: pd.DataFrame(SOFT)),
    "one column of ones": Odd(lambda: np.ones((N, 1))),
    "read-only": Odd(lambda: np.frombuffer(LABELS.tobytes(), LABELS.dtype)),
    "not contiguous": Odd(lambda: np.repeat(SOFT, 2, axis=0)[::2]),
    "categories": Odd(lambda: pd.Categorical(LABELS)),
    "polars": Odd(lambda: pl.Series(LABELS)),
    "too few": Bad(lambda: LABELS[:5], "rows"),
    "none": Bad(lambda: [], "0 rows"),
    "missing labels": Bad(lambda: np.where(LABELS == 0, np.nan, 1.0), "missing labels"),
    "three dimensions": Bad(lambda: np.ones((N, 1, 1)), r"shape \(60, 1, 1\)"),
    "no dimension": Bad(lambda: 3, "dimensions"),
    "NaN": Bad(lambda: np.full((N, 2), np.nan), "probability nan"),
    "negative probabilities": Bad(lambda: np.c_[np.full(N, 2.0), -np.ones(N)], "probability -1"),
    "rows that do not sum to 1": Bad(lambda: np.ones((N, 2)), "do not sum to 1"),
    "infinity": Bad(lambda: np.full((N, 2), np.inf), "do not sum to 1"),
    "sparse": Bad(lambda: sp.csr_matrix(SOFT), r"shape \(\) and type object"),
    "texts in two dimensions": Bad(lambda: SOFT.astype(str), "type <U"),
    "ragged": Bad(lambda: [[0.5, 0.5]] * (N - 1) + [[1.0]], "."),
}

WEIGHTS: dict[str, Row] = {
    "1e-300": Odd(lambda: np.full(N, 1e-300)),
    "1e300": Odd(lambda: np.full(N, 1e300)),
    "0 in one cluster": Odd(lambda: (LABELS > 0).astype(float)),
    "0 in one group": Odd(lambda: (G > 0).astype(float)),
    "negative": Bad(lambda: -np.ones(N), "finite weights of at least 0"),
    "NaN": Bad(lambda: np.full(N, np.nan), "finite weights of at least 0"),
    "infinity": Bad(lambda: np.full(N, np.inf), "finite weights of at least 0"),
    "all of 0": Bad(lambda: np.zeros(N), "0 in every row"),
    "too few": Bad(lambda: np.ones(3), "the data has 60 rows"),
    "texts": Bad(lambda: np.array(["a"] * N), "could not convert string"),
}

DATA: dict[str, Row] = {
    "whole numbers": Odd(lambda: (100 * X).astype(np.int8)),
    "denormal": Odd(lambda: 1e-320 * X),
    "an offset of 1e12": Odd(lambda: X + 1e12),
    "read-only and strided": Odd(lambda: np.broadcast_to(X[:, None, 0], (N, 1))),
    "1e300": Bad(lambda: 1e300 * X, "squared distances overflow"),
    "infinity": Bad(lambda: np.where(X > 2, np.inf, X), "NaN or infinity, first in row"),
    "NaN": Bad(lambda: np.where(X > 2, np.nan, X), "NaN or infinity, first in row"),
    "masked": Bad(lambda: np.ma.masked_greater(X, 1), "masked"),
    "texts": Bad(lambda: X.astype(str), "type <U"),
    "dates": Bad(lambda: X.astype("datetime64[s]"), "type datetime64"),
    "no column": Bad(lambda: X[:, :0], r"shape \(60, 0\)"),
    "no row": Bad(lambda: X[:0], r"shape \(0, 2\)"),
    "sparse": Bad(lambda: sp.csr_matrix(X), r"shape \(\)"),
    "too few rows": Bad(lambda: X[:5], "the data has 5"),
}


def run(row, given, call):
    before = frozen(given)
    if isinstance(row, Bad):
        refuse(call, row)
    else:
        with warned():
            values = call()
        assert np.isfinite(values).all()
        assert (np.asarray(values) >= 0).all()
    assert frozen(given) == before


@matrix(ASSIGNMENTS)
def test_assignments(row):
    given = row.make()
    if isinstance(row, Odd):
        run(row, given, lambda: [figure(given, G) for figure in FIGURES])
        run(row, given, lambda: [metrics.clustering_cost(X, given)])
    for figure in FIGURES if isinstance(row, Bad) else ():
        run(row, given, lambda figure=figure: figure(given, G))
    if isinstance(row, Bad):
        run(row, given, lambda: certify(given, G))


@matrix(WEIGHTS)
def test_weights(row):
    given = row.make()
    run(row, given, lambda: [figure(LABELS, G, sample_weight=given) for figure in FIGURES])


@matrix(DATA)
def test_data_of_the_cost(row):
    given = row.make()
    run(row, given, lambda: metrics.clustering_cost(given, LABELS))


def test_five_thousand_groups_and_a_hundred_thousand_clusters():
    groups, labels = np.arange(100_000) % 5_000, np.arange(100_000)
    assert metrics.gap(labels % 3, groups) <= 1
    assert metrics.balance(labels % 3, groups) == pytest.approx(6 / 7)
    assert metrics.gap(labels, groups % 2) == pytest.approx(1 / 50_000)


OTHERS: dict[str, Row] = {
    "an unknown criterion": Bad(lambda: certify(LABELS, G, criterion="x"), "'x' is unknown"),
    "confidence 0": Bad(lambda: certify(LABELS, G, confidence=0), "confidence=0 is not between"),
    "confidence NaN": Bad(lambda: certify(LABELS, G, confidence=np.nan), "confidence=nan"),
    "fewer clusters than labels": Bad(lambda: certify(LABELS, G, n_clusters=2), "n_clusters=2"),
    "a group that is not named": Bad(lambda: certify(LABELS, G, groups=["0"]), "not seen: '1'"),
    "rates of NaN": Bad(lambda: chance_gap([np.nan], [3]), "rates has shape"),
    "no rate": Bad(lambda: chance_gap([], [3]), "rates has shape"),
    "a group of no rows": Bad(lambda: chance_gap([1.0], [0]), "group_sizes"),
    "half a row": Bad(lambda: chance_gap([1.0], [0.5]), "group_sizes"),
    "one draw of a bootstrap": Bad(lambda: fairness_table(LABELS, G, n_boot=1), "n_boot=1"),
    "groups of another length": Bad(lambda: fairness_table(LABELS, G[:3]), "has 3 rows"),
    "a group of one row": Odd(
        lambda: [certify(LABELS, ["a"] * (N - 1) + ["b"]).upper_bound],
    ),
    "one group": Odd(lambda: [certify(LABELS, ["a"] * N).upper_bound]),
    "a group without rows": Odd(lambda: [certify(LABELS, G, groups=["0", "1", "2"]).upper_bound]),
    "probabilities of one row": Odd(lambda: [certify(SOFT[:1], [0]).upper_bound]),
    "a table of one row per group": Odd(
        lambda: [figure.value for figure in fairness_table([0, 1], ["a", "b"]).summary.values()]
    ),
}


@matrix(OTHERS)
def test_certificates_and_tables(row):
    run(row, None, row.make)
