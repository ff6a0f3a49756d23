"""Measurements of a fitted model beyond those of every unit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmix import metrics
from fairmix.reproduction.views import Prepared

Extra = Callable[[Any, Prepared], Any]

# Equal steps on the logarithmic axis of the figure.
SAMPLE_SIZES = (100, 300, 1_000, 3_000, 10_000)
DRAWS = 30


def history(model: Any, data: Prepared) -> dict[str, list[float]]:
    """Log-likelihood, gap, balance and objective of each iteration."""
    names = ("objective", "log_likelihood", "gap", "balance")
    return {name: model.history_[name].tolist() for name in names}


def accuracy(model: Any, data: Prepared) -> dict[str, float]:
    """Accuracy of two clusters as a guess of the outcome, the better of both ways to name them."""
    assert data.outcome is not None
    first = data.outcome == np.unique(data.outcome)[0]
    # Clusters have no names: 0 is as good a guess of one outcome as of the other.
    share = float(np.mean((np.asarray(model.labels_) == 0) == first))
    constant = float(first.mean())
    return {"accuracy": max(share, 1 - share), "constant": max(constant, 1 - constant)}


def sampling_error(model: Any, data: Prepared) -> dict[str, list[float]]:
    """Error of the soft gap on sub-samples drawn with replacement, by their size."""
    soft = model.predict_proba(data.X)
    whole = metrics.gap(soft, data.groups)
    rng = np.random.default_rng(0)
    found: dict[str, list[float]] = {"n": [], "mean": [], "largest": []}
    for n in (size for size in SAMPLE_SIZES if size < len(soft)):
        errors = []
        for _ in range(DRAWS):
            # With replacement, as Proposition 1 has it.
            rows = rng.integers(len(soft), size=n)
            errors.append(abs(metrics.gap(soft[rows], data.groups[rows]) - whole))
        found["n"].append(n)
        found["mean"].append(float(np.mean(errors)))
        found["largest"].append(float(np.max(errors)))
    return found


def sharpness(model: Any, data: Prepared) -> dict[str, float]:
    """How near the responsibilities are to hard labels, and the paper's bound on that.

    The bound is 1 / (1 + (K - 1) exp(-D / (2 sigma^2))), where D is the squared distance to the
    second nearest centre less that to the nearest. It is for equal weights.
    """
    assert data.numeric is not None
    soft = model.predict_proba(data.X)
    squares = _squared_distances(data.numeric, np.asarray(model.means_))
    # The bound needs the two smallest only, so a sort would be wasted.
    nearest = np.partition(squares, 1, axis=1)
    # One number for all components: the mixtures that ask for this are isotropic and tied.
    variance = float(np.mean(model.covariances_))
    ahead = (nearest[:, 1] - nearest[:, 0]) / (2 * variance)
    bound = 1 / (1 + (len(model.means_) - 1) * np.exp(-ahead))
    # The bound is on the responsibility of the nearest centre, which need not be the largest one
    # when weights differ.
    own = soft[np.arange(len(soft)), squares.argmin(axis=1)]
    return {
        "mean_largest": float(soft.max(axis=1).mean()),
        "share_above_0.9": float(np.mean(soft.max(axis=1) > 0.9)),
        "share_within_bound": float(np.mean(own >= bound - 1e-9)),
        "mean_bound": float(bound.mean()),
    }


def _squared_distances(X: NDArray[np.float64], centers: NDArray[np.float64]) -> NDArray[Any]:
    return np.stack([((X - center) ** 2).sum(axis=1) for center in centers], axis=1)


EXTRAS: dict[str, Extra] = {
    "history": history,
    "accuracy": accuracy,
    "sampling_error": sampling_error,
    "sharpness": sharpness,
}
