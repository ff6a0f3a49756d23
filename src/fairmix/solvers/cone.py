"""The small problem inside the dual solver where the allowed rates of each cluster are a cone.

Multipliers are then ``lambda = A' mu`` with mu >= 0, one mu for each row of A and each cluster, and
the support function is zero there. So the local model

    -<r, d> + <d, H d> / 2,    d = lambda - lambda_0

is least squares in mu that must not be negative: with ``H = L L'`` it is, up to a constant,
``|L' A' mu - L^-1 (H lambda_0 + r)|^2 / 2``. Its end is exact.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import nnls

from fairmix.kernels.totals import FloatArray
from fairmix.solvers.local_model import FewGroups, definite

# Steps of the active set at most, for each mu: SciPy's default of three is meant for random
# problems, and a start from zero may let some join and leave more often.
STEPS = 10


def cone_multipliers(model: FewGroups, cone: FloatArray) -> FloatArray:
    """Multipliers at the minimum; ``cone`` (J, M) are the rows A."""
    n_groups, n_clusters = model.rates.shape
    # In units of the curvature, so that the tolerance of SciPy, an absolute one, is the same for
    # all tables.
    unit = max(model.unit, 1e-12)
    H = definite(model.curvature / unit)
    L = np.linalg.cholesky(H)
    goal = H @ model.multipliers.ravel() + model.rates.ravel() / unit
    # The same in every step of a fit.
    rows = _of_each_cluster(cone.T.tobytes(), len(cone), n_clusters)
    mu = nnls(L.T @ rows, solve_triangular(L, goal, lower=True), maxiter=STEPS * rows.shape[1])[0]
    return np.asarray((rows @ mu).reshape(n_groups, n_clusters))


@lru_cache(maxsize=4)
def _of_each_cluster(cone: bytes, n_edges: int, n_clusters: int) -> FloatArray:
    """A' of all clusters, (M K, J K), from that of one."""
    return np.kron(np.frombuffer(cone).reshape(-1, n_edges), np.eye(n_clusters))
