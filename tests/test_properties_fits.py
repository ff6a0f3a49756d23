"""Properties of fits on random small data: the bound is met or warned of, and files keep all bits.

See ``test_properties.py`` for the number of examples.
"""

import json
import re
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from fairmix import FairMixture, load
from fairmix.metrics import balance, gap
from fairmix.mixture.families import COVARIANCE_TYPES
from inputs import EMPTY, MISSED, UNSETTLED, assert_sound
from repetition import times

SETTINGS = st.fixed_dictionaries(
    {
        "n_components": st.integers(1, 4),
        "max_gap": st.sampled_from([0.0, 0.01, 0.1, 0.5]),
        "assignment": st.sampled_from(["blind", "aware"]),
        "gap_of": st.sampled_from(["labels", "labels", "probabilities"]),
        "criterion": st.sampled_from(["gap", "additive_gap", "worst_pair_gap"]),
        "covariance_type": st.sampled_from(list(COVARIANCE_TYPES)),
        "standardize": st.booleans(),
        "max_iter": st.sampled_from([1, 30, 200]),
        "random_state": st.integers(0, 5),
    }
)


@st.composite
def tables(draw):
    """A few rows of a few columns, and their groups: round blobs, ties, and large offsets."""
    n, d = draw(st.integers(8, 50)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    X = rng.normal(size=(n, d)) + 3 * rng.integers(3, size=(n, 1))
    if draw(st.booleans()):
        X = np.round(X)
    X = X * draw(st.sampled_from([1e-3, 1.0, 1e4])) + draw(st.sampled_from([0.0, 1e6]))
    groups = np.where(rng.random(n) < 1 / (1 + np.exp(-X[:, 0] / np.ptp(X[:, 0]).clip(1e-9))), 1, 0)
    groups[:2] = 0, 1
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(d)])
    if draw(st.booleans()):
        frame["kind"] = rng.choice(["u", "v", "w"], n)
    return frame, groups


def fit(frame, groups, chosen):
    """The model, and the texts of its warnings; none of them is about arithmetic."""
    model = FairMixture(**chosen, min_group_size=1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(frame, sensitive_features=groups)
    assert all(issubclass(w.category, UserWarning) for w in caught), [str(w) for w in caught]
    return model, [str(warning.message) for warning in caught]


def told(pattern, messages):
    return any(re.search(pattern, message) for message in messages)


@settings(max_examples=times(12, 60))
@given(tables(), SETTINGS)
def test_a_fit_meets_its_bound_or_warns(table, chosen):
    frame, groups = table
    model, messages = fit(frame, groups, chosen)
    assert_sound(model, len(frame))
    allowed = max(model.fitted_.rule.max_gap, model.resolution_) + 1e-12
    assert (model.gap_ > allowed) == told(MISSED, messages)
    filled = len(np.unique(model.labels_))
    assert (filled < model.n_components) == told(EMPTY, messages)
    assert model.converged_ or told(UNSETTLED, messages) or told(MISSED, messages)
    if chosen["criterion"] == "gap":
        assert np.isclose(model.label_gap_, gap(model.labels_, groups), atol=1e-12)
    if chosen["gap_of"] == "labels":
        assert np.isclose(model.balance_, balance(model.labels_, groups), atol=1e-12)
    given_groups = {"sensitive_features": groups} if model.fitted_.model.aware else {}
    np.testing.assert_array_equal(model.predict(frame, **given_groups), model.labels_)
    psi = model.predict_proba(frame, **given_groups)
    assert np.isfinite(psi).all()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


@settings(max_examples=times(6, 40))
@given(tables(), SETTINGS, st.dictionaries(st.text(max_size=8), JSON, max_size=3))
def test_a_file_keeps_every_bit(table, chosen, metadata):
    frame, groups = table
    model, _ = fit(frame, groups, chosen | {"max_iter": 5})
    with tempfile.TemporaryDirectory() as folder:
        path = model.save(Path(folder, "model.fairmix"), metadata=metadata)
        again = load(path)
        assert again.save(Path(folder, "again.fairmix"), metadata=metadata).read_bytes() == (
            path.read_bytes()
        )
    assert again.metadata_ == json.loads(json.dumps(metadata))
    given_groups = {"sensitive_features": groups} if model.fitted_.model.aware else {}
    for method in ("predict", "predict_proba"):
        found, expected = (getattr(m, method)(frame, **given_groups) for m in (again, model))
        assert found.tobytes() == expected.tobytes()
    assert again.score_samples(frame).tobytes() == model.score_samples(frame).tobytes()
    for name in ("gap_", "soft_gap_", "balance_", "lower_bound_", "n_iter_", "converged_"):
        assert getattr(again, name) == getattr(model, name)
