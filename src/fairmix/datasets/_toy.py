"""Toy data with known components and groups."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

CANDIDATES = 20  # places that are tried for each centre; the one farthest from the others is kept


def make_grouped_blobs(
    n_rows: int = 1000,
    n_components: int = 4,
    n_features: int = 2,
    *,
    n_groups: int = 2,
    separation: float = 4.0,
    imbalance: float = 0.5,
    random_state: int | np.random.Generator | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
    """Draw round blobs that attract the groups unequally.

    Component k favours group ``k % n_groups``: a row of it belongs to that group with probability
    ``imbalance + (1 - imbalance) / n_groups``, to each other with ``(1 - imbalance) / n_groups``.

    Parameters
    ----------
    n_rows, n_components, n_features : int, default=1000, 4, 2
        Shape of the data. Components have equal probability and unit variance.
    n_groups : int, default=2
        Number of groups.
    separation : float, default=4.0
        Distance of the two nearest centres, in standard deviations.
    imbalance : float, default=0.5
        From 0 (groups independent of components) to 1 (each component has one group only).
    random_state : int, Generator or None
        Seed.

    Returns
    -------
    X : ndarray of shape (n_rows, n_features)
    groups : ndarray of shape (n_rows,), of 0 to ``n_groups - 1``
    components : ndarray of shape (n_rows,), of 0 to ``n_components - 1``

    Examples
    --------
    >>> X, groups, components = make_grouped_blobs(200, 3, random_state=0)
    >>> X.shape, set(groups.tolist()), set(components.tolist())
    ((200, 2), {0, 1}, {0, 1, 2})
    """
    sizes = {"n_rows": n_rows, "n_components": n_components, "n_features": n_features}
    for name, value in {**sizes, "n_groups": n_groups}.items():
        if value < 1:
            raise ValueError(f"{name}={value} is too small. Pass at least 1.")
    if not 0 <= imbalance <= 1:
        raise ValueError(f"imbalance={imbalance} is not a share. Pass a number from 0 to 1.")
    if not 0 <= separation < np.inf:
        raise ValueError(f"separation={separation} is not a distance. Pass a number of at least 0.")
    rng = np.random.default_rng(random_state)
    centres = _centres(n_components, n_features, separation, rng)
    components = rng.integers(n_components, size=n_rows)
    X = centres[components] + rng.standard_normal((n_rows, n_features))
    favoured = rng.random(n_rows) < imbalance
    # Drawn for all rows, favoured or not, so that a generator is left in
    # the same state for any imbalance.
    groups = np.where(favoured, components % n_groups, rng.integers(n_groups, size=n_rows))
    return X, groups, components


def _centres(
    n_components: int, n_features: int, separation: float, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Spread-out centres whose smallest distance is ``separation``."""
    centres = rng.standard_normal((1, n_features))
    nearest = np.inf
    for _ in range(n_components - 1):
        candidates = rng.standard_normal((CANDIDATES, n_features))
        distances = np.linalg.norm(candidates[:, None] - centres, axis=2).min(axis=1)
        # The candidate that is kept is the one with this distance, so the smallest of all is known
        # at the end and can be scaled to be exactly the separation.
        nearest = min(nearest, float(distances.max()))
        centres = np.vstack([centres, candidates[distances.argmax()]])
    scale = separation / nearest if n_components > 1 else 1.0
    return np.asarray((centres - centres.mean(axis=0)) * scale)
