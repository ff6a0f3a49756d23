"""The paper's preprocessing of continuous columns."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def paper_preprocessing(X: ArrayLike) -> NDArray[np.float64]:
    """Standardise each column, then scale each row to length 1.

    Parameters
    ----------
    X : array-like of shape (n_rows, n_features)
        Finite numbers.

    Returns
    -------
    ndarray of shape (n_rows, n_features), float64
        Columns are centred and divided by their population standard deviation; a constant column
        becomes 0. A row that is then all 0 stays 0.

    Examples
    --------
    >>> paper_preprocessing([[0.0, 5.0], [2.0, 5.0]])
    array([[-1.,  0.],
           [ 1.,  0.]])
    """
    # A copy always, because all that follows is done in place.
    data = np.array(X, dtype=np.float64)
    if data.ndim != 2 or 0 in data.shape:
        raise ValueError(
            f"X has shape {data.shape}. Pass numbers of shape (n_rows, n_features), both at least "
            "1."
        )
    if not np.isfinite(data).all():
        n_bad = int((~np.isfinite(data).all(axis=1)).sum())
        raise ValueError(f"X contains NaN or infinity in {n_bad} rows. Drop or fill them first.")
    # By comparison, not by a deviation of 0: the rounded mean of a constant is not the constant.
    constant = data.min(axis=0) == data.max(axis=0)
    data -= data.mean(axis=0)
    data[:, constant] = 0.0
    deviation = data.std(axis=0)
    data /= np.where(deviation > 0, deviation, 1.0)
    length = np.linalg.norm(data, axis=1, keepdims=True)
    data /= np.where(length > 0, length, 1.0)
    return data
