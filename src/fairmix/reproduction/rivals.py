"""Rivals at the centres of K-means: the cheapest labels there that represent the groups."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import linprog
from sklearn.cluster import KMeans

from fairmix import fair_labels

Labels = NDArray[Any]


@dataclass
class AtCentres:
    """K-means, the best of ten starts, with other labels.

    Parameters
    ----------
    n_clusters, random_state : int
        Of K-means.
    labels : callable
        From the squared distances to the centres and the groups of the rows to labels.
    """

    n_clusters: int
    random_state: int
    labels: Callable[[NDArray[np.float64], Labels], Labels]

    def fit(self, X: NDArray[np.float64], *, sensitive_features: Labels) -> Self:
        """Find centres, then labels."""
        model = KMeans(self.n_clusters, n_init=10, random_state=self.random_state).fit(X)
        self.n_iter_ = model.n_iter_
        self.labels_ = self.labels(model.transform(X) ** 2, sensitive_features)
        return self


def repaired(cost: NDArray[np.float64], groups: Labels, *, min_balance: float) -> Labels:
    """The cheapest labels of a Balance."""
    return fair_labels(cost, groups, min_balance=min_balance).labels


def represented(cost: NDArray[np.float64], groups: Labels, *, representation: float) -> Labels:
    """The linear program of bounded representation (Bera et al. 2019).

    In every cluster, the share of each group is at least ``representation`` times its share of all
    rows, and at most that over ``representation``. The solution splits few rows, at most one for
    each of these bounds; they get the cluster of their largest part.
    """
    n_rows, n_clusters = cost.shape
    names, codes = np.unique(groups, return_inverse=True)
    bounds = []
    for group in range(len(names)):
        own = (codes == group).astype(float)
        for times, sign in ((representation, -1.0), (1 / representation, 1.0)):
            weights = sparse.csr_array(sign * (own - times * own.mean())[None])
            bounds.append(sparse.kron(weights, sparse.eye_array(n_clusters)))
    once: Any = sparse.kron(sparse.eye_array(n_rows), np.ones((1, n_clusters)), format="csr")
    left: Any = sparse.vstack(bounds, format="csr")
    prices: Any = cost.ravel()
    limits, ones = np.zeros(left.shape[0]), np.ones(n_rows)
    found: Any = linprog(prices, left, limits, once, ones, method="highs")
    return np.asarray(found.x.reshape(cost.shape).argmax(axis=1))
