"""Input: checks what users pass and splits it into a table and groups."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import (
    _check_sample_weight,
    _num_samples,
    check_array,
    check_is_fitted,
    validate_data,
)

from fairmix.estimator._frame_sources import in_blocks
from fairmix.input.columns import Columns, as_frame, has_categories
from fairmix.input.groups import (
    SHOWN,
    Groups,
    MissingGroups,
    Seats,
    encode_groups,
    judged_groups,
)
from fairmix.kernels.totals import FloatArray, IntArray, Rows
from fairmix.mixture.families import takes_missing
from fairmix.mixture.model import Model
from fairmix.results.verdict import listed_groups
from fairmix.tables import is_path

NUMERIC = (np.float64, np.float32)


class Input:
    """Reads X, groups and weights; for estimators with a fitted ``_model``."""

    categorical_features: object
    covariance_type: str
    handle_unknown: str
    min_group_size: int
    missing_groups: MissingGroups
    groups_: NDArray[Any]
    group_sizes_: IntArray
    unjudged_groups_: dict[str, int]
    _model: Model

    def _take_groups(self, X: Any, sensitive_features: Any) -> tuple[Any, Groups | None]:
        """Groups of the rows, and X without the column that only names them."""
        self._aside: tuple[str, ...] = ()
        if sensitive_features is None:
            return X, None
        frame = as_frame(X)
        if isinstance(sensitive_features, str):
            self._aside = (sensitive_features,)
            sensitive_features = self._named_column(X, sensitive_features)
        groups = encode_groups(
            sensitive_features, n_rows=_num_samples(X), missing=self.missing_groups
        )
        if frame is not None and not self._aside:
            _warn_of_sensitive_features(frame, groups)
        # Millions of rows have few groups.
        return self._features(X), groups.compact()

    def _features(self, X: Any) -> Any:
        """X without the columns that ``fit`` was told to be something else."""
        frame = as_frame(X)
        if not self._aside or frame is None:
            return X
        return frame.drop(*self._aside, strict=False).to_native()

    def _read(self, X: Any, *, reset: bool) -> nw.DataFrame[Any] | NDArray[Any]:
        """X as a data frame or a checked array, its width and names compared with the fit's."""
        if is_path(X):
            raise ValueError(f"X={X!r} names files, which only fit and predict read. Give a table.")
        if in_blocks(X):
            raise ValueError(
                f"X is a {type(X).__name__}, which only fit and predict take. Give a table: "
                "X.compute()."
            )
        frame = as_frame(X)
        # Categories may be strings, so a table that holds some is checked column by column.
        categorical = has_categories(frame, self.categorical_features)
        if frame is not None:
            validate_data(self, X, reset=reset, skip_check_array=True)
            if categorical and len(frame):
                return frame
            # Single precision if all columns have it, as in a table with categories.
            single = all(dtype == nw.Float32 for dtype in frame.schema.values())
            dtype = np.float32 if single else np.float64
            checked = check_array(
                frame.to_numpy(),
                dtype=None if categorical else dtype,
                ensure_all_finite="allow-nan",
                input_name="X",
                estimator=self,
            )
        elif categorical:
            checked = validate_data(self, X, dtype=None, reset=reset, ensure_all_finite=False)
        else:
            checked = validate_data(
                self, X, dtype=NUMERIC, reset=reset, ensure_all_finite="allow-nan"
            )
        return np.asarray(checked)

    def _weights(self, sample_weight: ArrayLike | None, X: Any) -> FloatArray | None:
        if sample_weight is None:
            return None
        weight: FloatArray = _check_sample_weight(
            sample_weight, X, dtype=np.float64, ensure_non_negative=True
        )
        return weight

    def _known_groups(self, X: Any, sensitive_features: Any) -> IntArray | None:
        """Group codes for an aware map; a blind one needs none."""
        if not self._model.aware:
            return None
        self._check_groups_given(sensitive_features)
        if isinstance(sensitive_features, str):
            sensitive_features = self._named_column(X, sensitive_features)
        codes = judged_groups(
            sensitive_features,
            self.groups_.tolist(),
            self.unjudged_groups_,
            n_rows=_num_samples(X),
            missing=self.missing_groups,
        )
        return self._seats.codes(codes)

    @property
    def _seats(self) -> Seats:
        """How new rows are seated."""
        model = self._model
        return Seats(len(self.groups_) if model.aware else 1, aside=model.places_aside)

    def _groups_of_fit(self) -> Groups:
        """The groups that the fit knew, without codes of rows."""
        none = np.zeros(0, dtype=np.intp)
        names, sizes = tuple(self.groups_.tolist()), self.group_sizes_.astype(np.intp)
        return Groups(none, names, sizes, "", self.unjudged_groups_)

    def _check_groups_given(self, sensitive_features: Any) -> None:
        if sensitive_features is None:
            raise ValueError(
                "assignment='aware': the map uses the group of each row, so this needs "
                "sensitive_features. Pass them, or fit with assignment='blind'."
            )

    def _named_column(self, X: Any, name: str) -> Any:
        frame = as_frame(X)
        if frame is None or name not in frame.columns:
            known = "X is no data frame" if frame is None else f"X has {frame.columns}"
            raise ValueError(
                f"sensitive_features={name!r} names a column of X, but {known}. "
                "Give an existing column, or one label per row."
            )
        return frame[name].to_native()

    def _rows(self, X: Any) -> Rows:
        """Rows of a fitted model's columns."""
        check_is_fitted(self)
        return self._columns.rows(self._read(self._features(X), reset=False))

    @property
    def _columns(self) -> Columns:
        """Columns of the fit, for new rows."""
        return replace(self._model.columns, ignore_unknown=self.handle_unknown == "ignore")

    @property
    def _complete(self) -> bool:
        """Whether the covariances need all numbers of a row."""
        return not takes_missing(self.covariance_type)


def _warn_of_sensitive_features(frame: nw.DataFrame[Any], groups: Groups) -> None:
    both = sorted(set(groups.titles) & set(frame.columns))
    if both:
        warnings.warn(
            f"The sensitive columns {both} are also features in X, so clusters may form along "
            "them. Drop them from X, or name the column: sensitive_features='...'.",
            UserWarning,
            stacklevel=4,
        )


def warn_of_unjudged_groups(groups: Groups, min_group_size: int) -> None:
    """Warn of groups that take no part in the bound."""
    if not groups.unjudged:
        return
    small = listed_groups({repr(name): size for name, size in groups.unjudged.items()}, SHOWN)
    left = ""
    if len(groups.names) < 2:
        which = f"Only {groups.names[0]!r}" if groups.names else "No group"
        left = f" {which} is left, so there is nothing to compare and no bound."
    warnings.warn(
        f"Not judged: {small}. Groups of fewer than min_group_size={min_group_size} rows "
        f"take no part in the bound.{left} Merge them with others, or lower min_group_size.",
        UserWarning,
        stacklevel=4,
    )
