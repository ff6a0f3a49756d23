"""Scorers: fairness of held-out labels, for cross-validation and searches of scikit-learn."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairmix.input.groups import Groups, encode_groups, label_columns
from fairmix.input.naming import group_values, weight_values
from fairmix.metrics._fairness import Metric, gap, rate_ratio

# With metadata routing: groups come without a request, weights as everywhere in scikit-learn.
REQUESTS = {"sensitive_features": True, "sample_weight": None}


@dataclass(frozen=True)
class FairnessScorer:
    """Scores the labels that a fitted clusterer gives to some rows; greater is better.

    Groups are those that the fit has judged; with ``attributes="each"`` the worst attribute counts.
    Where fewer than two of them are among the rows, the score is NaN.

    Attributes
    ----------
    figure : function
        One of `fairmix.metrics`.
    sign : int
        -1 for a figure that is to be small.
    requests : mapping
        What metadata routing is asked for.

    Examples
    --------
    >>> from sklearn.cluster import KMeans
    >>> from fairmix.metrics import gap_scorer, ratio_scorer
    >>> X, groups = [[0.0], [0.1], [5.0], [5.1]], ["a", "b", "a", "a"]
    >>> model = KMeans(2, n_init=1, random_state=0).fit(X)
    >>> round(gap_scorer(model, X, groups), 3), round(ratio_scorer(model, X, groups), 3)
    (-0.667, 0.0)
    """

    figure: Metric
    sign: int
    requests: Mapping[str, bool | str | None] = field(default_factory=lambda: dict(REQUESTS))

    def __call__(
        self,
        estimator: Any,
        X: Any,
        y: Any = None,
        *,
        sensitive_features: Any = None,
        sample_weight: ArrayLike | str | None = None,
    ) -> float:
        """The score.

        Parameters
        ----------
        estimator : clusterer, pipeline or search
            Fitted; has ``predict``.
        X : array-like or data frame of shape (n_rows, n_features)
            Columns as in ``fit``.
        y : array-like of shape (n_rows,), default=None
            The groups, where ``sensitive_features`` is None: without metadata routing, ``y`` is
            what scikit-learn hands to a scorer.
        sensitive_features : str, array-like or table, default=None
            Group of each row, or the names of columns of X.
        sample_weight : array-like of shape (n_rows,) or str, default=None
            Weights of the rows.

        Returns
        -------
        float
        """
        # The best of a search, whose own predict takes no groups.
        estimator = getattr(estimator, "best_estimator_", estimator)
        last = _last(estimator)
        if sensitive_features is None:
            sensitive_features = y
        if sensitive_features is None:
            raise ValueError(
                f"{self!r} was given no groups. Give sensitive_features with metadata routing on "
                "(sklearn.set_config(enable_metadata_routing=True)). Without it, give them as y, "
                "too, or name a column of X: "
                f"scoring=functools.partial({self!r}, sensitive_features='sex')."
            )
        groups = group_values(X, sensitive_features)
        given = {"sensitive_features": sensitive_features} if _is_aware(last) else {}
        labels = np.asarray(estimator.predict(X, **given))
        weight = weight_values(X, sample_weight)
        weights = None if weight is None else np.asarray(weight, dtype=np.float64)
        values = [
            self._value(labels, own, judged, weights)
            for own, judged in _compared(last, groups, len(labels))
        ]
        # The worst counts, whichever way the figure goes.
        return min(self.sign * value for value in values) if values else math.nan

    def _value(
        self,
        labels: NDArray[Any],
        groups: Groups,
        judged: set[str],
        weights: NDArray[np.float64] | None,
    ) -> float:
        names = np.array([*groups.names, ""])
        rows = np.isin(names[groups.codes], list(judged)) & (groups.codes >= 0)
        own = names[groups.codes[rows]]
        if len(np.unique(own)) < 2:
            return math.nan
        weight = None if weights is None else weights[rows]
        return self.figure(labels[rows], own, sample_weight=weight)

    def set_score_request(self, **requests: bool | str | None) -> FairnessScorer:
        """A scorer that asks metadata routing for more: ``set_score_request(sample_weight=True)``.

        This scorer stays as it is, because everybody shares it.
        """
        unknown = sorted(requests.keys() - REQUESTS.keys())
        if unknown:
            raise TypeError(f"{unknown[0]!r} is no metadata of a scorer. Give {list(REQUESTS)}.")
        return replace(self, requests={**self.requests, **requests})

    def get_metadata_routing(self) -> Any:
        """What scikit-learn's metadata routing is to pass on."""
        # Imported late, because metrics of labels need no scikit-learn.
        from sklearn.utils.metadata_routing import MetadataRequest

        wanted = MetadataRequest(owner=repr(self))
        for name, alias in self.requests.items():
            wanted.score.add_request(param=name, alias=alias)
        return wanted

    def __repr__(self) -> str:
        return f"fairmix.metrics.{'gap' if self.figure is gap else 'ratio'}_scorer"


def _last(estimator: Any) -> Any:
    """The clusterer itself, at the end of pipelines."""
    return _last(estimator.steps[-1][1]) if hasattr(estimator, "steps") else estimator


def _is_aware(clusterer: Any) -> bool:
    """Whether ``predict`` needs groups; a blind map must not see them."""
    takes = "sensitive_features" in signature(clusterer.predict).parameters
    return takes and getattr(clusterer, "assignment", "aware") == "aware"


def _compared(clusterer: Any, values: Any, n_rows: int) -> list[tuple[Groups, set[str]]]:
    """The groups of rows, of each attribute, and the names of those that the fit has judged."""
    how: dict[str, Any] = {
        "n_rows": n_rows,
        "missing": getattr(clusterer, "missing_groups", "error"),
    }
    each = getattr(clusterer, "attributes", "intersect") == "each"
    attributes = encode_groups(values, each=each, **how).attributes
    known = getattr(clusterer, "groups_", None)
    if not attributes:
        groups = encode_groups(values, **how)
        return [(groups, set(groups.names if known is None or not len(known) else known))]
    # An attribute with too few groups was not compared by the fit.
    titles = getattr(clusterer, "attributes_", None) or [a.title for a in attributes]
    columns = label_columns(values, titles)
    found = [encode_groups(column, **how) for column in columns.values()]
    judged = [groups.names for groups in found] if known is None else known
    return [(groups, set(names)) for groups, names in zip(found, judged, strict=True)]


gap_scorer = FairnessScorer(gap, -1)
ratio_scorer = FairnessScorer(rate_ratio, 1)
