"""Starts of the user's own: parameters, labels or a clusterer, in the units of X."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.cluster import HDBSCAN, BisectingKMeans, KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.mixture import GaussianMixture
from sklearn.utils._testing import ignore_warnings

from fairmix import FairAssignment, FairMixture, load
from fairmix.datasets import make_grouped_blobs

K, D = 3, 4
X, GROUPS, _ = make_grouped_blobs(600, K, D, separation=1.5, imbalance=0.3, random_state=0)
PRECISION = np.eye(D) * 0.5 + 0.1
PRECISIONS = {
    "full": np.stack([PRECISION, 2 * PRECISION, PRECISION]),
    "tied": PRECISION,
    "diag": np.linspace(0.2, 0.8, K * D).reshape(K, D),
    "spherical": np.array([0.3, 0.5, 0.4]),
    "tied-diag": np.array([0.3, 0.5, 0.4, 0.2]),
    "tied-spherical": 0.5,
}
START = {"weights_init": [0.5, 0.3, 0.2], "means_init": X[[3, 300, 500]]}
# Columns of very different units.
UNITS, SHIFT = np.array([100.0, 0.01, 1.0, 5.0]), np.array([1e4, 0.0, -3.0, 10.0])


def plain(**parameters):
    return FairMixture(K, fairness_strength=0, **parameters)


def started(**parameters):
    """Where a fit begins: one M-step from there would be its first iteration."""
    with ignore_warnings(category=ConvergenceWarning):
        model = plain(max_iter=1, **parameters).fit(X)
    return model


# ------------------------------------------------------------------- the same as scikit-learn
@pytest.mark.parametrize("kind", ["full", "tied", "diag", "spherical"])
@pytest.mark.parametrize("max_iter", [1, 20])
def test_gaussian_mixture_from_the_same_start(kind, max_iter):
    same = {"covariance_type": kind, "precisions_init": PRECISIONS[kind], **START}
    same |= {"tol": 0, "max_iter": max_iter}
    with ignore_warnings(category=ConvergenceWarning):
        theirs = GaussianMixture(K, **same).fit(X)
        ours = plain(**same).fit(X)
    for name in ("weights_", "means_", "covariances_", "precisions_", "precisions_cholesky_"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(ours.lower_bounds_, theirs.lower_bounds_, rtol=1e-10)
    assert ours.n_iter_ == max_iter
    assert (ours.predict(X) == theirs.predict(X)).all()


@pytest.mark.parametrize("kind", PRECISIONS)
def test_precisions_have_the_shape_that_they_are_given_in(kind):
    model = started(covariance_type=kind, precisions_init=PRECISIONS[kind], **START)
    assert np.shape(model.precisions_) == np.shape(PRECISIONS[kind])
    assert np.shape(model.precisions_cholesky_) == np.shape(PRECISIONS[kind])
    factor = model.precisions_cholesky_
    matrix = kind in ("full", "tied")
    square = factor @ np.swapaxes(factor, -1, -2) if matrix else factor**2
    np.testing.assert_allclose(square, model.precisions_, rtol=1e-9)
    assert not matrix or np.array_equal(factor, np.triu(factor))


# ------------------------------------------------------------------------------- units of X
@pytest.mark.parametrize("kind", ["full", "tied", "diag", "tied-diag"])
def test_standardised_fits_start_from_the_units_of_x(kind):
    # Full or separate variances: the likelihood does not know the units, so fits agree.
    rows = X * UNITS + SHIFT
    scale = rows.std(axis=0)
    matrix = kind in ("full", "tied")
    precisions = PRECISIONS[kind] / (np.outer(UNITS, UNITS) if matrix else UNITS**2)
    same = {"covariance_type": kind, "weights_init": START["weights_init"], "max_iter": 5}
    same |= {"tol": 0, "reg_covar": 0, "precisions_init": precisions}
    same |= {"means_init": START["means_init"] * UNITS + SHIFT}
    with ignore_warnings(category=ConvergenceWarning):
        model = plain(**same).fit(rows)
        scaled = plain(standardize=True, **same).fit(rows)
    mean = rows.mean(axis=0)
    np.testing.assert_allclose(scaled.means_ * scale + mean, model.means_, rtol=1e-8)
    np.testing.assert_allclose(scaled.weights_, model.weights_, rtol=1e-8)
    assert (scaled.labels_ == model.labels_).all()


def test_one_variance_of_columns_in_several_units_is_their_mean():
    rows = X * UNITS
    scale = rows.std(axis=0)
    given = {"precisions_init": 0.5, **START, "means_init": START["means_init"] * UNITS}
    in_units = {**START, "means_init": (START["means_init"] * UNITS - rows.mean(0)) / scale}
    by_hand = {"precisions_init": 0.5 / np.mean(scale**-2.0), **in_units}
    with ignore_warnings(category=ConvergenceWarning):
        first = plain(standardize=True, max_iter=1, **given).fit(rows)
        second = plain(max_iter=1, **by_hand).fit((rows - rows.mean(0)) / scale)
    np.testing.assert_allclose(first.means_, second.means_, atol=1e-9)


# -------------------------------------------------------------------- what a start leaves open
def test_means_alone_take_the_rest_from_the_rows_around_them():
    means = KMeans(K, n_init=3, random_state=0).fit(X).cluster_centers_
    weights = np.bincount(started(means_init=means).labels_, minlength=K) / len(X)
    assert np.abs(started(means_init=means).weights_ - weights).max() < 0.05
    # No chance has a part in it.
    again = [started(means_init=means, random_state=seed).means_ for seed in (0, 1)]
    assert np.array_equal(*again)


def test_weights_alone_take_the_rest_from_init_params():
    model = plain(weights_init=[0.2, 0.3, 0.5], random_state=0).fit(X)
    other = plain(weights_init=[0.2, 0.3, 0.5], random_state=0, init_params="random").fit(X)
    assert model.converged_
    assert other.converged_
    assert not np.array_equal(model.lower_bounds_[:1], other.lower_bounds_[:1])


def test_categories_start_from_probabilities():
    rng = np.random.default_rng(0)
    label = rng.integers(2, size=400)
    first = np.where(rng.random(400) < np.where(label, 0.9, 0.2), "a", "b")
    second = np.where(rng.random(400) < np.where(label, 0.1, 0.7), "u", "v")
    table = pd.DataFrame({"first": first, "second": second, "x": rng.normal(3.0 * label)})
    chosen = [np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([[0.1, 0.9], [0.7, 0.3]])]
    for swap in (False, True):
        given = [own[::-1] for own in chosen] if swap else chosen
        model = FairMixture(2, fairness_strength=0, probabilities_init=given).fit(table)
        # Clusters keep the numbers of the start.
        cluster = (model.labels_ == 0) != swap
        assert (cluster == (label == 1)).mean() > 0.9
        assert (model.probabilities_[0][0, 0] > 0.5) != swap
    only = FairMixture(2, fairness_strength=0, probabilities_init=chosen)
    assert (only.fit(table[["first", "second"]]).probabilities_[0].argmax(axis=1) == [0, 1]).all()


# -------------------------------------------------------------------------- labels, clusterers
def test_labels_start_from_the_means_of_their_rows():
    kmeans = KMeans(K, n_init=3, random_state=0).fit(X)
    labels = kmeans.labels_.copy()
    noise = np.arange(len(X)) % 10 == 0
    labels[noise] = -1
    model = started(init_params=labels)
    sizes = np.bincount(labels[~noise])
    means = np.stack([X[labels == k].mean(axis=0) for k in range(K)])
    spread = sum(((X[labels == k] - means[k]) ** 2).sum() for k in range(K)) / (sizes.sum() * D)
    same = {"weights_init": sizes / sizes.sum(), "means_init": means}
    by_hand = started(precisions_init=1 / (spread + 1e-6), **same)
    np.testing.assert_allclose(model.means_, by_hand.means_, rtol=1e-9, atol=1e-9)
    # Rows without weight have labels that count for nothing.
    weight = np.where(noise, 0.0, 1.0)
    with ignore_warnings(category=ConvergenceWarning):
        weighted = plain(max_iter=1, init_params=kmeans.labels_).fit(X, sample_weight=weight)
        fewer = plain(max_iter=1, init_params=kmeans.labels_[~noise]).fit(X[~noise])
    np.testing.assert_allclose(weighted.means_, fewer.means_, rtol=1e-9)


def test_a_fitted_mixture_is_gone_on_with():
    gaussian = GaussianMixture(K, tol=1e-10, max_iter=2000, random_state=0).fit(X)
    model = plain(covariance_type="full", init_params=gaussian).fit(X)
    # It is at its optimum already, so nothing moves, not even a number.
    np.testing.assert_allclose(model.means_, gaussian.means_, atol=1e-3)
    assert (model.labels_ == gaussian.predict(X)).mean() > 0.99


@pytest.mark.parametrize("assignment", ["blind", "aware"])
def test_bounded_fits_from_clusterers(assignment):
    kmeans = KMeans(K, n_init=3, random_state=0).fit(X)
    clusterers = {"kmeans": kmeans}
    if assignment == "aware":
        clusterers["bisecting"] = BisectingKMeans(K, random_state=0).fit(X)
        fair = FairAssignment(kmeans, prefit=True, max_gap=0.05).fit(X, sensitive_features=GROUPS)
        aware = FairMixture(K, max_gap=0.1, assignment="aware", init_params=kmeans)
        clusterers |= {"repaired": fair, "fair": aware.fit(X, sensitive_features=GROUPS)}
    for clusterer in clusterers.values():
        model = FairMixture(K, max_gap=0.05, assignment=assignment, init_params=clusterer)
        model.fit(X, sensitive_features=GROUPS)
        assert model.verdict_ == "met"
        # Clusters are those of the start, by number.
        own = [X[kmeans.labels_ == k].mean(axis=0) for k in range(K)]
        if clusterer is kmeans:
            far = ((model.means_[:, None] - np.array(own)) ** 2).sum(axis=2)
            assert (far.argmin(axis=1) == np.arange(K)).all()


def test_nothing_is_drawn():
    given = {"max_gap": 0.05, "means_init": START["means_init"], "n_init": 3}
    fits = [
        FairMixture(K, random_state=seed, **given).fit(X, sensitive_features=GROUPS).means_
        for seed in (0, 1)
    ]
    # P(group | x) is fitted to all of so few rows, so no seed has an effect.
    assert np.array_equal(*fits)


def test_hdbscan_has_labels_only():
    far, _, _ = make_grouped_blobs(400, K, 2, separation=8, random_state=0)
    found = HDBSCAN(min_cluster_size=30, copy=True).fit(far)
    assert found.labels_.max() == K - 1
    model = FairMixture(K, fairness_strength=0, init_params=found).fit(far)
    there = found.labels_ >= 0
    assert (model.labels_[there] == found.labels_[there]).mean() > 0.99


# ------------------------------------------------------------------------ parameters, files
def test_clones_parameters_and_model_files(tmp_path):
    given = {"precisions_init": 0.5, **START}
    model = plain(**given).fit(X)
    copy = clone(model)
    assert np.array_equal(copy.means_init, START["means_init"])
    assert np.array_equal(copy.fit(X).means_, model.means_)
    again = load(model.save(tmp_path / "own.fairmix"))
    np.testing.assert_allclose(again.means_init, START["means_init"])
    assert np.array_equal(again.precisions_, model.precisions_)
    assert np.array_equal(again.lower_bounds_, model.lower_bounds_)
    assert np.array_equal(clone(again).fit(X).means_, model.means_)
    kmeans = KMeans(K, n_init=1, random_state=0).fit(X)
    # Labels of rows, and code, have no place in a file.
    for own in (kmeans, kmeans.labels_):
        kept = load(plain(init_params=own).fit(X).save(tmp_path / "rows.fairmix"))
        assert kept.init_params is None
    model.set_params(means_init=None, weights_init=None, precisions_init=None)
    assert model.fit(X).converged_
    frozen = clone(plain(init_params=FrozenEstimator(kmeans)))
    assert frozen.fit(X).converged_
    with pytest.raises(ValueError, match=r"init_params=KMeans is not fitted.*FrozenEstimator"):
        clone(plain(init_params=kmeans)).fit(X)


def test_files_streams_and_checkpoints(tmp_path):
    table = pd.DataFrame(X, columns=list("abcd"))
    table.to_parquet(tmp_path / "rows.parquet")
    given = {"means_init": START["means_init"]}
    in_files = plain(**given).fit(tmp_path / "rows.parquet")
    np.testing.assert_allclose(in_files.means_, plain(**given).fit(table).means_, rtol=1e-12)
    with pytest.raises(ValueError, match="X is not in memory"):
        plain(init_params=np.zeros(600, dtype=int)).fit(tmp_path / "rows.parquet")
    stream = plain(**given).partial_fit(X[:300]).partial_fit(X[300:])
    assert stream.means_.shape == (K, D)
    kept = plain(checkpoint=tmp_path / "own.checkpoint", **given).fit(X)
    assert np.array_equal(kept.means_, plain(**given).fit(X).means_)
    # A warm start goes on from the last fit.
    warm = plain(warm_start=True, **given).fit(X)
    assert warm.fit(X).n_iter_ < plain(**given).fit(X).n_iter_


LABELS = np.arange(600) % K
MIXED = pd.DataFrame({"x": X[:, 0], "c": np.where(X[:, 1] > 0, "a", "b")})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"weights_init": [0.5, 0.5]}, r"weights_init has shape \(2,\).*give shape \(3,\)"),
        ({"weights_init": [0.5, 0.6, 0.1]}, "weights_init must be shares.*a sum is 1.2"),
        ({"weights_init": [1.5, -0.6, 0.1]}, "weights_init must be shares.*smallest is -0.6"),
        ({"means_init": np.zeros((3, 2))}, r"means_init has shape \(3, 2\).*give shape \(3, 4\)"),
        ({"means_init": np.full((3, 4), np.nan)}, "means_init holds NaN"),
        ({"means_init": [["a"] * 4] * 3}, "means_init is no array of numbers"),
        ({"precisions_init": np.ones(3)}, r"precisions_init has shape \(3,\).*give shape \(\)"),
        (
            {"precisions_init": np.ones(3), "covariance_type": "tied-diag"},
            r"covariance_type='tied-diag': give shape \(4,\)",
        ),
        (
            {"precisions_init": np.zeros((3, 4)), "covariance_type": "diag"},
            "precisions_init must be above 0",
        ),
        (
            {"precisions_init": -np.eye(4), "covariance_type": "tied"},
            "precisions_init must be symmetric",
        ),
        (
            {"precisions_init": np.triu(np.ones((4, 4))), "covariance_type": "tied"},
            "precisions_init must be symmetric",
        ),
        ({"precisions_init": -1.0}, "precisions_init"),
        (
            {"probabilities_init": [np.ones((3, 2))]},
            "model has no probabilities.*probabilities_init=None",
        ),
        ({"init_params": LABELS[:5]}, r"init_params has shape \(5,\), X has 600 rows"),
        ({"init_params": LABELS * 1.0}, "init_params has labels of type float64"),
        ({"init_params": LABELS % 2}, r"labels \[0, 1\].*n_components=2"),
        ({"init_params": LABELS + 1}, r"labels \[1, 2, 3\]"),
        ({"init_params": LABELS.astype(str)}, "init_params has labels of type"),
        ({"init_params": "means"}, "init_params"),
        ({"init_params": KMeans(2)}, "init_params=KMeans is not fitted"),
        ({"init_params": KMeans(2, n_init=1).fit(X)}, r"labels of init_params=KMeans has the"),
        ({"init_params": GaussianMixture(2).fit(X)}, "GaussianMixture has 2 clusters"),
    ],
)
def test_wrong_starts_are_refused(given, said):
    with pytest.raises(ValueError, match=said):
        plain(**given).fit(X)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"probabilities_init": []}, "Give a list of 1 arrays"),
        (
            {"probabilities_init": [np.ones((3, 3))]},
            r"probabilities_init\[0\] has shape \(3, 3\).*column 'c' has 2 categories: give shape "
            r"\(3, 2\)",
        ),
        ({"probabilities_init": [np.ones((3, 2))]}, r"probabilities_init\[0\] must be shares"),
    ],
)
def test_wrong_probabilities_are_refused(given, said):
    with pytest.raises(ValueError, match=said):
        plain(**given).fit(MIXED)


def test_categories_have_no_means():
    model = FairMixture(2, fairness_strength=0, means_init=np.zeros((2, 1)))
    with pytest.raises(ValueError, match="means_init is given, but the model has no means"):
        model.fit(MIXED[["c"]])
    fitted = FairMixture(2, fairness_strength=0, random_state=0).fit(MIXED[["c"]])
    assert not hasattr(fitted, "precisions_")
