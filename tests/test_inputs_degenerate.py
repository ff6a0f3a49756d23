"""Degenerate fits: nothing becomes NaN, variances stay above their bound, and a fit says so."""

import warnings

import numpy as np
import pandas as pd
import pytest

from fairmix import FairMixture
from fairmix.mixture.families import COVARIANCE_TYPES
from inputs import EMPTY, G, N, X, assert_sound, warned
from repetition import every_other

FAIR = {"max_gap": 0.2, "random_state": 0}
SOLVERS = {
    "dual": {},
    "aware": {"assignment": "aware"},
    "em": {"solver": "em", "fairness_strength": 1.0},
    "gd": {"solver": "gd", "fairness_strength": 1.0, "max_iter": 200},
    "plain": {"fairness_strength": 0},
}


def fit(table, n_components, **settings):
    """A fit whose warnings are all about convergence or small groups, and its messages."""
    model = FairMixture(n_components, **FAIR | settings)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(table, sensitive_features=G)
    assert all(issubclass(warning.category, UserWarning) for warning in caught)
    assert_sound(model, len(table))
    return model, " ".join(str(warning.message) for warning in caught)


@pytest.mark.parametrize("covariance_type", COVARIANCE_TYPES)
def test_a_component_on_a_single_point(covariance_type):
    # Two rows far out, each far from the other: a component of its own has no variance there.
    table = X.copy()
    table[0], table[1] = 1e4, -1e4
    model, _ = fit(table, 3, covariance_type=covariance_type, fairness_strength=0)
    assert np.isfinite(model.score(table))
    psi = model.predict_proba(np.r_[table, [[1e8, -1e8]]])
    assert np.isfinite(psi).all()


@pytest.mark.parametrize("covariance_type", every_other(COVARIANCE_TYPES))
@pytest.mark.parametrize("solver", ["dual", "em", "plain"])
def test_three_different_rows_and_five_clusters(solver, covariance_type):
    table = np.repeat(X[:3], N // 3, axis=0)
    model, messages = fit(table, 5, covariance_type=covariance_type, **SOLVERS[solver])
    filled = len(np.unique(model.labels_))
    assert filled <= 3
    assert f"Only {filled} of n_components=5 clusters have members" in messages


@pytest.mark.parametrize("solver", SOLVERS)
def test_one_point_only(solver):
    model, messages = fit(np.ones((N, 2)), 2, **SOLVERS[solver])
    assert "Only 1 of n_components=2 clusters have members" in messages
    np.testing.assert_allclose(model.means_, 1.0)
    groups = G[:1] if solver == "aware" else None
    assert np.isfinite(model.predict_proba(np.ones((1, 2)), sensitive_features=groups)).all()


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_fit_that_is_cut_short_says_so(solver):
    settings = SOLVERS[solver] | {"max_iter": 1, "tol": 0.0}
    model, messages = fit(X, 2, **settings)
    assert "`max_iter` was reached" in messages
    assert not model.converged_
    assert np.isfinite(model.lower_bound_)


def test_a_column_of_one_category_and_one_number():
    table = pd.DataFrame({"a": np.ones(N), "b": ["u"] * N})
    with warned(EMPTY):
        model = FairMixture(2, **FAIR).fit(table, sensitive_features=G)
    assert_sound(model, N)
    assert model.probabilities_[0].shape == (2, 1)


def test_no_iteration_is_wasted_on_what_cannot_move():
    with warned(EMPTY):
        model = FairMixture(2, **FAIR).fit(np.ones((N, 2)), sensitive_features=G)
    assert model.converged_
