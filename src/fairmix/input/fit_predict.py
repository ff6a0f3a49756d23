"""Fit and label in one call, for the estimator and the baselines alike."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

from fairmix.input.groups import warn_of_target
from fairmix.kernels.totals import IntArray


class FitPredict:
    """What clusters rows can give their clusters at once."""

    labels_: IntArray

    @abstractmethod
    def fit(
        self, X: Any, y: object = None, *, sensitive_features: Any = None, sample_weight: Any = None
    ) -> Self:
        """Cluster the rows."""

    def fit_predict(self, X: Any, y: object = None, **settings: Any) -> IntArray:
        """Cluster the rows, then the cluster of each.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            As in ``fit``.
        y : ignored
            As in ``fit``.
        **settings
            ``sensitive_features`` and ``sample_weight``, as in ``fit``.

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        warn_of_target(y, settings.get("sensitive_features"))
        # Without y, of which `fit` would warn a second time.
        return self.fit(X, **settings).labels_
