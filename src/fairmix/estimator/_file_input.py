"""Input from files: names of columns instead of values, and labels that go to a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from joblib import effective_n_jobs
from sklearn.utils.validation import check_is_fitted, validate_data

from fairmix.estimator._frame_sources import FileSource, Source, frames_of, in_blocks
from fairmix.estimator._frames import FrameData, Reader, Roles, learn_frames, write_labels
from fairmix.estimator._input import Input
from fairmix.input.columns import categorical_positions
from fairmix.input.groups import warn_of_target
from fairmix.system.threads import one_blas_thread
from fairmix.tables import FileBlocks, PathLike, find_files

if TYPE_CHECKING:
    from fairmix.tables.dask import DaskFrames


class FileInput(Input):
    """Reads X, groups and weights from files."""

    batch_size: float | None
    n_jobs: int | None
    verbose: int

    def _learn_files(self, X: Any, sensitive_features: Any, sample_weight: Any) -> FrameData:
        """Columns and groups of files or of a Dask collection to learn from."""
        source, sensitive_features, sample_weight = frames_of(X, sensitive_features, sample_weight)
        names = source.names
        sensitive = _named(sensitive_features, "sensitive_features", names)
        weight = _named(sample_weight, "sample_weight", names)
        if len(weight) > 1:
            raise ValueError(f"sample_weight={sample_weight!r} names several columns. Name one.")
        self._aside = (*sensitive, *weight)
        features = self._feature_names(names, reset=True, named=source.named)
        chosen = categorical_positions(self.categorical_features, None, features)
        roles = Roles(features, sensitive, weight[0] if weight else None)
        frames = self._open(source, roles, chosen, self.batch_size)
        return learn_frames(
            frames,
            roles,
            self.categorical_features,
            complete=self._complete,
            missing=self.missing_groups,
            min_group_size=self.min_group_size,
        )

    def fit_predict(self, X: Any, y: Any = None, **settings: Any) -> Any:
        """Fit, then the cluster of each row; X is a table.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            As in ``fit``.
        y : ignored
            For scikit-learn's conventions. Groups are ``sensitive_features``: a ``y`` without them
            is an `IgnoredTargetWarning`.
        **settings
            ``sensitive_features`` and ``sample_weight``, as in ``fit``.

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        if in_blocks(X):
            raise ValueError(
                "fit_predict gives the labels in memory, but X is not in memory. Call fit, then "
                "predict (for files with output, a Parquet file to write)."
            )
        warn_of_target(y, settings.get("sensitive_features"))
        return super().fit_predict(X, **settings)  # type: ignore[misc]

    def _predict_files(self, X: Any, sensitive_features: Any, output: PathLike | None) -> Path:
        """Write the labels of files to a file."""
        check_is_fitted(self)
        source, _, _ = frames_of(X)
        assert isinstance(source, FileSource)
        if output is None:
            raise ValueError(
                f"X={X!r} names files, whose labels need not fit in memory. Give output, a Parquet "
                "file to write them to."
            )
        files = find_files(source.paths)
        if Path(output).exists() and any(Path(output).samefile(file) for file in files):
            raise ValueError(f"output={str(output)!r} is one of the files of X. Give another path.")
        names = source.names
        sensitive: tuple[str, ...] = ()
        if self._model.aware:
            self._check_groups_given(sensitive_features)
            sensitive = _named(sensitive_features, "sensitive_features", names)
        roles = Roles(self._feature_names(names, sensitive, reset=False), sensitive)
        frames = self._open(source, roles, self._model.columns.categorical, None)
        groups = self._groups_of_fit() if sensitive else None
        reader = Reader(
            roles,
            self._columns,
            groups,
            self._seats,
            frames.block_rows,
            self.missing_groups,
            self._model.ties,
        )
        with one_blas_thread():
            return write_labels(self._model, frames.map(reader, keep=False), output)

    def _feature_names(
        self, names: list[str], sensitive: tuple[str, ...] = (), *, reset: bool, named: bool = True
    ) -> tuple[str, ...]:
        """Columns that are features, compared with the fit's."""
        known = () if reset else getattr(self, "feature_names_in_", ())
        other = {*self._aside, *(name for name in sensitive if name not in known)}
        features = tuple(name for name in names if name not in other)
        if not features:
            raise ValueError(f"X has the columns {names}, none of which is left as a feature.")
        nothing: Any = np.empty((0, len(features)))
        if named:
            nothing = pa.schema([(name, pa.null()) for name in features]).empty_table()
        validate_data(self, nothing, reset=reset, skip_check_array=True)
        return features

    def _open(
        self, source: Source, roles: Roles, categorical: tuple[int, ...], batch_size: float | None
    ) -> FileBlocks | DaskFrames:
        """Frames of the columns that have a role."""
        return source.open(
            roles.used,
            text=[*(roles.features[j] for j in categorical), *roles.sensitive],
            batch_size=batch_size,
            n_jobs=effective_n_jobs(self.n_jobs),
            verbose=bool(self.verbose),
        )


def _named(value: Any, argument: str, names: list[str]) -> tuple[str, ...]:
    """Columns that an argument names."""
    if value is None:
        return ()
    named = [value] if isinstance(value, str) else value
    if not isinstance(named, list | tuple) or not all(isinstance(name, str) for name in named):
        raise ValueError(
            f"{argument} is a {type(value).__name__}, but X is not in memory. Give the name of a "
            f"column of X, which has {names}; beside a Dask collection, another collection."
        )
    unknown = [name for name in named if name not in names]
    if unknown:
        raise ValueError(
            f"{argument}={value!r} names {unknown[0]!r}, which is no column of X. It has {names}."
        )
    return tuple(dict.fromkeys(named))
