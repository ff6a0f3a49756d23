"""Odd and wrong rows for a fitted model: labels and probabilities are sound, or one clear error."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError

from fairmix import FairMixture
from inputs import FRAME, NUMBERS, Bad, G, N, Odd, Row, X, frozen, matrix, refuse, warned


def fitted(table, **settings):
    model = FairMixture(2, max_gap=0.2, random_state=0, **settings)
    return model.fit(table, sensitive_features=G)


@pytest.fixture(scope="module")
def models():
    """One fit for each kind of table, and an aware one."""
    return {
        "array": fitted(X),
        "numbers": fitted(NUMBERS),
        "mixed": fitted(FRAME),
        "aware": fitted(X, assignment="aware"),
    }


def changed(**columns):
    return FRAME.assign(**columns)


# By the model that gets the rows. What works gives the labels of the rows that the fit saw.
ARRAY: dict[str, Row] = {
    "list": Odd(lambda: X.tolist()),
    "one row": Odd(lambda: X[:1]),
    "read-only": Odd(lambda: np.asarray(memoryview(X.tobytes())).view(float).reshape(X.shape)),
    "Fortran order": Odd(lambda: np.asfortranarray(X)),
    "rows backwards and back": Odd(lambda: np.ascontiguousarray(X[::-1])[::-1]),
    "texts that are numbers": Odd(lambda: X.astype(str)),
    "no row": Bad(lambda: X[:0], r"0 sample\(s\)"),
    "more columns": Bad(lambda: np.c_[X, X], "X has 4 features, but FairMixture is expecting 2"),
    "fewer columns": Bad(lambda: X[:, :1], "X has 1 features, but FairMixture is expecting 2"),
    "one dimension": Bad(lambda: X[0], "Expected 2D array"),
    "infinity": Bad(lambda: np.where(X > 2, np.inf, X), "infinity"),
    "1e300": Bad(lambda: 1e300 * X, r"densities overflow; the largest is .*e\+300"),
    "one value of -1e200": Bad(
        lambda: np.where(np.arange(2 * N).reshape(N, 2) == 7, -1e200, X), "densities overflow"
    ),
    "1e30 in single precision": Bad(lambda: (1e30 * X).astype(np.float32), "densities overflow"),
    "masked values": Bad(lambda: np.ma.masked_greater(X, 1), "masked"),
    "dates": Bad(lambda: X.astype("datetime64[s]"), "not numbers"),
    "complex": Bad(lambda: X.astype(complex), "Complex data not supported"),
    "sparse": Bad(lambda: sp.csr_matrix(X), "Sparse data was passed", TypeError),
    "None": Bad(lambda: None, ".", (TypeError, ValueError)),
}

MIXED: dict[str, Row] = {
    "polars": Odd(lambda: pl.from_pandas(FRAME)),
    "arrow": Odd(lambda: pa.Table.from_pandas(FRAME, preserve_index=False)),
    "categories by dtype": Odd(lambda: changed(c=pd.Categorical(FRAME["c"]))),
    "numbers as objects": Odd(lambda: changed(a=FRAME["a"].astype(object))),
    "one row of one category": Odd(lambda: FRAME[:1]),
    "another order of columns": Bad(
        lambda: FRAME[["b", "a", "c"]], "feature names should match|same order"
    ),
    "a missing column": Bad(lambda: FRAME[["a", "c"]], "yet now missing|feature names should"),
    "one column more": Bad(lambda: changed(z=1), "unseen at fit time|feature names should"),
    "an unknown category": Bad(
        lambda: changed(c="w"), "'c' of X holds categories that the model has not seen: 'w'"
    ),
    "words for numbers": Bad(lambda: changed(a="x"), "'a' of X has type .*not numbers"),
    "dates for numbers": Bad(
        lambda: changed(a=pd.date_range("2020", periods=N)), "'a' of X has type .*not numbers"
    ),
    "infinity": Bad(lambda: changed(a=np.inf), "'a' of X has 60 values that are"),
    "1e300": Bad(lambda: changed(a=1e300), "densities overflow"),
    "no row": Bad(lambda: FRAME[:0], r"0 sample|0 rows"),
}

NAMED: dict[str, Row] = {
    "another order of columns": Bad(lambda: NUMBERS[["b", "a"]], "same order"),
    "other names": Bad(lambda: NUMBERS.set_axis(["a", "z"], axis=1), "- z"),
    "words": Bad(lambda: NUMBERS.assign(a="x"), "could not convert string to float|not numbers"),
    "an index that repeats": Odd(lambda: NUMBERS.set_axis([3] * N)),
}


def try_rows(model, row, labels, **more):
    table = row.make()
    before = frozen(table)
    if isinstance(row, Bad):
        for method in (model.predict, model.predict_proba):
            refuse(lambda method=method: method(table, **more), row)
        refuse(lambda: model.score_samples(table), row)
    else:
        with warned():
            found, psi = model.predict(table, **more), model.predict_proba(table, **more)
            densities = model.score_samples(table)
        np.testing.assert_array_equal(found, labels[: len(found)])
        assert np.isfinite(psi).all()
        np.testing.assert_allclose(psi.sum(axis=1), 1)
        np.testing.assert_array_equal(psi.argmax(axis=1), found)
        assert np.isfinite(densities).all()
    assert frozen(table) == before


@matrix(ARRAY)
def test_rows_for_a_model_of_an_array(row, models):
    try_rows(models["array"], row, models["array"].labels_)


@matrix(MIXED)
def test_rows_for_a_model_of_a_frame_with_categories(row, models):
    try_rows(models["mixed"], row, models["mixed"].labels_)


@matrix(NAMED)
def test_rows_for_a_model_of_a_frame_of_numbers(row, models):
    try_rows(models["numbers"], row, models["numbers"].labels_)


def test_an_array_for_a_model_of_a_frame_is_told(models):
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        labels = models["numbers"].predict(X)
    np.testing.assert_array_equal(labels, models["numbers"].labels_)


AWARE: dict[str, Row] = {
    "as texts": Odd(lambda: G.astype(str)),
    "none": Bad(lambda: None, "the map uses the group of each row"),
    "unknown": Bad(lambda: ["9"] * N, "groups that the model has not seen: '9'"),
    "too few": Bad(lambda: G[:3], "has 3 rows, the data has 60"),
    "missing labels": Bad(lambda: np.where(G == 0, np.nan, 1.0), "missing labels"),
    "a name beside an array": Bad(lambda: "g", "X is not a data frame"),
}


@matrix(AWARE)
def test_groups_for_an_aware_model(row, models):
    model, groups = models["aware"], row.make()
    before = frozen(groups)
    if isinstance(row, Bad):
        refuse(lambda: model.predict(X, sensitive_features=groups), row)
    else:
        found = model.predict(X, sensitive_features=groups)
        np.testing.assert_array_equal(found, model.labels_)
    assert frozen(groups) == before


@pytest.mark.parametrize("scale", [1e6, 1e50, 1e120], ids="{:g}".format)
@pytest.mark.parametrize("name", ["array", "aware", "mixed"])
def test_rows_far_away_have_sound_probabilities(name, scale, models):
    model = models[name]
    table = changed(a=scale, b=-scale) if name == "mixed" else scale * X
    groups = {"sensitive_features": G} if name == "aware" else {}
    with warned():
        psi = model.predict_proba(table, **groups)
        found = model.predict(table, **groups)
    assert np.isfinite(psi).all()
    np.testing.assert_allclose(psi.sum(axis=1), 1)
    assert (psi[np.arange(N), found] == psi.max(axis=1)).all()


@pytest.mark.parametrize("name", ["array", "aware", "mixed"])
def test_rows_with_gaps_have_sound_probabilities(name, models):
    model = models[name]
    table = changed(a=np.nan, c=None) if name == "mixed" else np.where(X > 1, np.nan, X)
    groups = {"sensitive_features": G} if name == "aware" else {}
    with warned():
        psi = model.predict_proba(table, **groups)
    assert np.isfinite(psi).all()
    np.testing.assert_allclose(psi.sum(axis=1), 1)


CALLS: dict[str, Row] = {
    "unfitted": Bad(lambda: FairMixture().predict(X), "not fitted", NotFittedError),
    "unfitted sample": Bad(lambda: FairMixture().sample(), "not fitted", NotFittedError),
    "unfitted save": Bad(lambda: FairMixture().save("a"), "not fitted", NotFittedError),
}


@matrix(CALLS)
def test_calls_before_a_fit(row):
    refuse(row.make, row)


METHODS: dict[str, Row] = {
    "sample 0": Bad(lambda: ("sample", (0,), {}), "n_samples=0"),
    "sample half a row": Bad(lambda: ("sample", (2.5,), {}), "n_samples=2.5"),
    "sample a text": Bad(lambda: ("sample", ("2",), {}), "n_samples='2'"),
    "assign by another rule": Bad(lambda: ("assign", (X,), {"how": "best"}), "how='best'"),
    "assign files": Bad(lambda: ("assign", ("x.csv",), {}), "names files, assign needs a table"),
    "probabilities of files": Bad(lambda: ("predict_proba", ("x.csv",), {}), "Give output"),
    "predict with an output": Bad(lambda: ("predict", (X,), {"output": "a"}), "output='a' is for"),
    "score with negative weights": Bad(
        lambda: ("score", (X,), {"sample_weight": -np.ones(N)}), "Negative values"
    ),
    "score with too few weights": Bad(
        lambda: ("score", (X,), {"sample_weight": np.ones(3)}), "sample_weight.shape"
    ),
    "report of one bootstrap": Bad(lambda: ("fairness_report", (X, G), {"n_boot": 1}), "n_boot=1"),
    "report beyond certainty": Bad(
        lambda: ("fairness_report", (X, G), {"confidence": 1.5}), "confidence=1.5"
    ),
    "report of too few groups": Bad(lambda: ("fairness_report", (X, G[:3]), {}), "has 3 rows"),
    "certificate of certainty": Bad(lambda: ("certify", (X, G), {"confidence": 1}), "confidence=1"),
    "certificate of unknown groups": Bad(lambda: ("certify", (X, ["9"] * N), {}), "has not seen"),
    "partial fit of files": Bad(lambda: ("partial_fit", ("x.csv",), {}), "names files, a batch"),
    "metadata that is no JSON": Bad(
        lambda: ("save", ("never.fairmix",), {"metadata": {"a": {1}}}), "metadata cannot be written"
    ),
}


@matrix(METHODS)
def test_wrong_arguments_of_methods(row, models, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name, given, more = row.make()
    refuse(lambda: getattr(models["array"], name)(*given, **more), row)
    assert list(tmp_path.iterdir()) == []
