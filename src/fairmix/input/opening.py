"""Opening: from what users pass to data to learn from, and to groups of new rows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import _check_sample_weight, _num_samples

from fairmix.input.columns import Columns, Tabular, as_frame, categorical_positions
from fairmix.input.data import MemoryData
from fairmix.input.floats import as_floats
from fairmix.input.frames import FrameData, Frames, Roles, learn_frames
from fairmix.input.groups import (
    SHOWN,
    Groups,
    MissingGroups,
    Seats,
    encode_groups,
    listed,
    listed_groups,
)
from fairmix.input.guard import guard_columns
from fairmix.input.naming import group_columns, group_values, weight_values
from fairmix.input.sources import FileSource, Opening, Source, in_blocks, open_source
from fairmix.kernels.totals import FloatArray
from fairmix.system.arrow import pa
from fairmix.system.notices import notify
from fairmix.tables import Frame, Seal, Ties, find_files

# Weights of all rows together are less than this, and more than its inverse: sums of their
# products with squares of numbers must stay far from the largest and the smallest float.
LARGEST_WEIGHT = 1e100


class FeatureCheck(Protocol):
    """What an estimator asks of features: their number, names and values."""

    def table(self, X: object) -> Tabular:
        """X as a data frame or a checked array."""

    def names(self, nothing: object) -> None:
        """Compare the names, or the number of columns, of a table without rows."""


@dataclass(frozen=True)
class Reading:
    """How input is read: the choices of the user that concern it.

    Attributes
    ----------
    categorical_features : "from_dtype", None or array-like
        Which columns are categorical.
    complete : bool
        Whether numbers must not be missing.
    missing_groups : {"error", "drop", "group"}
        What a missing group is.
    min_group_size : int
        Groups of fewer rows are not judged.
    compares : bool
        Whether groups are compared at all, so that a single one is an error.
    each : bool
        Whether several columns are attributes with groups of their own, not intersections.
    ties : Ties or None
        Finds equal rows, where they may share labels out to meet a bound.
    batch_size : float or None
        Rows of a batch, or their share of all.
    n_jobs : int
        Threads.
    verbose : bool
        Show bars.
    """

    categorical_features: object
    complete: bool
    missing_groups: MissingGroups
    min_group_size: int
    compares: bool = True
    each: bool = False
    ties: Ties | None = None
    batch_size: float | None = None
    n_jobs: int = 1
    verbose: bool = False


@contextmanager
def open_data(
    X: Any, sensitive_features: Any, sample_weight: Any, reading: Reading, check: FeatureCheck
) -> Iterator[MemoryData | FrameData]:
    """Data to learn from: a table in memory, files, a Dask collection, or any other source.

    Files that a source needs for the time being are gone at the end.
    """
    if not in_blocks(X):
        yield open_table(X, sensitive_features, sample_weight, reading, check)
        return
    if reading.ties is not None and reading.batch_size is not None:
        raise ValueError(
            f"batch_size={reading.batch_size} cuts what is not in memory into other blocks than "
            "those in which ties='split' looks for equal rows. Set batch_size=None (subsample "
            "also sees fewer rows), or give a table in memory."
        )
    with ExitStack() as end:
        data = _open_frames(X, sensitive_features, sample_weight, reading, check, end)
        groups = _judged(data.groups, reading)
        yield replace(data, groups=groups, ties=_shared(groups, reading))


def open_table(
    X: Any,
    sensitive_features: Any,
    sample_weight: ArrayLike | str | None,
    reading: Reading,
    check: FeatureCheck,
) -> MemoryData:
    """Data of a table in memory."""
    X, groups, aside = take_groups(X, sensitive_features, reading.missing_groups, each=reading.each)
    weight = read_weights(sample_weight, X)
    if isinstance(sample_weight, str):
        X, aside = _without(X, sample_weight), (*aside, sample_weight)
    if weight is not None:
        _check_weights(weight, groups)
    # Rows without weight do not help a group to be large enough.
    groups = _judged(None if groups is None else groups.counted(weight), reading)
    # After the groups, whose columns have left X by now and are no features.
    for name in guard_columns(as_frame(X), reading.categorical_features):
        X, aside = _without(X, name), (*aside, name)
    table = check.table(X)
    columns = Columns.learn(table, reading.categorical_features, complete=reading.complete)
    return MemoryData(
        table,
        columns,
        groups,
        weight,
        reading.n_jobs,
        reading.batch_size,
        _shared(groups, reading),
        aside,
    )


def take_groups(
    X: Any, sensitive_features: Any, missing: MissingGroups, *, each: bool = False
) -> tuple[Any, Groups | None, tuple[str, ...]]:
    """X without the columns that only name groups, the groups, and the names of these columns."""
    if sensitive_features is None:
        return X, None, ()
    frame, names = as_frame(X), group_columns(X, sensitive_features)
    values = group_values(X, sensitive_features)
    groups = encode_groups(values, n_rows=_num_samples(X), missing=missing, each=each)
    if frame is not None and names:
        X = frame.drop(*names).to_native()
    elif frame is not None:
        _warn_of_sensitive_features(frame.columns, groups)
    # Millions of rows have few groups.
    return X, groups.compact(), names


def _without(X: Any, name: str) -> Any:
    """A data frame without a column, which may be one of the groups and gone already."""
    frame = as_frame(X)
    return X if frame is None else frame.drop(name, strict=False).to_native()


def read_weights(sample_weight: ArrayLike | str | None, X: Any) -> FloatArray | None:
    """Weights of the rows of a table."""
    sample_weight = weight_values(X, sample_weight)
    if sample_weight is None:
        return None
    with as_floats("sample_weight"):
        weight: FloatArray = _check_sample_weight(
            sample_weight, X, dtype=np.float64, ensure_non_negative=True
        )
    return weight


def drop_missing_groups(
    X: Any, sensitive_features: Any, sample_weight: ArrayLike | str | None
) -> tuple[Any, Any, ArrayLike | str | None]:
    """A batch without the rows whose group is missing."""
    if sensitive_features is None:
        return X, sensitive_features, sample_weight
    values = group_values(X, sensitive_features)
    groups = encode_groups(values, n_rows=_num_samples(X), missing="drop")
    if not groups.n_missing:
        return X, sensitive_features, sample_weight
    kept = np.flatnonzero(groups.codes >= 0)
    if not group_columns(X, sensitive_features):
        # By name, because what was given may be of any type, with no common way to take rows.
        sensitive_features = np.array(groups.names)[groups.codes[kept]]
    weight = sample_weight
    if sample_weight is not None and not isinstance(sample_weight, str):
        weight = np.asarray(sample_weight)[kept]
    frame = as_frame(X)
    rows = np.asarray(X)[kept] if frame is None else frame[kept].to_native()
    return rows, sensitive_features, weight


def check_judged(groups: Groups, reading: Reading) -> None:
    """Refuse a single group, and warn of groups that are too small to be judged."""
    if len(groups.known) == 1 and reading.compares:
        raise ValueError(
            f"sensitive_features holds one group only, {groups.known[0]!r}. Fairness compares "
            "groups: give labels with two or more, or leave sensitive_features out."
        )
    if not groups.unjudged:
        return
    small = listed_groups({repr(name): size for name, size in groups.unjudged.items()}, SHOWN)
    left = ""
    if len(groups.names) < 2:
        which = f"Only {groups.names[0]!r}" if groups.names else "No group"
        left = f" {which} is left, so there is nothing to compare and no bound."
    notify(
        f"Not judged: {small}. Groups of fewer than min_group_size={reading.min_group_size} rows "
        f"take no part in the bound.{left} Merge them with others, or lower min_group_size."
    )


def feature_names(names: list[str], roles_of_others: tuple[str, ...]) -> tuple[str, ...]:
    """The columns that are left as features."""
    features = tuple(name for name in names if name not in roles_of_others)
    if not features:
        raise ValueError(f"X has the columns {listed(names)}, none of which is left as a feature.")
    return features


def open_frames(
    source: Source,
    roles: Roles,
    categorical: tuple[int, ...],
    reading: Reading,
    end: ExitStack,
) -> Frames:
    """Frames of the columns that have a role; ``categorical`` are positions among the features.

    ``end`` undoes what is needed while they are read.
    """
    # Codes such as 01 would lose their zero as numbers.
    text = (*(roles.features[j] for j in categorical), *roles.sensitive)
    return source.open(
        Opening(tuple(roles.used), text, reading.batch_size, reading.n_jobs, reading.verbose, end)
    )


def check_feature_names(
    features: tuple[str, ...], check: FeatureCheck, *, named: bool = True
) -> None:
    """Let an estimator see the names of features that are not in memory, or their number."""
    nothing: Any = np.empty((0, len(features)))
    if named:
        # scikit-learn takes names from a table, so it gets one without rows.
        nothing = pa.schema([(name, pa.null()) for name in features]).empty_table()
    check.names(nothing)


def named_columns(value: Any, argument: str, names: list[str]) -> tuple[str, ...]:
    """Columns that an argument names, of rows that are not in memory."""
    if value is None:
        return ()
    named = [value] if isinstance(value, str) else value
    if not isinstance(named, list | tuple) or not all(isinstance(name, str) for name in named):
        raise ValueError(
            f"{argument} is a {type(value).__name__}, but X is not in memory. Give the name of a "
            f"column of X, which has {listed(names)}; beside a Dask collection, another collection."
        )
    unknown = [name for name in named if name not in names]
    if unknown:
        raise ValueError(
            f"{argument}={value!r} names {unknown[0]!r}, which is not a column of X. "
            f"It has {listed(names)}."
        )
    # A name given twice would make each group its own intersection with itself.
    return tuple(dict.fromkeys(named))


def _open_frames(
    X: Any,
    sensitive_features: Any,
    sample_weight: Any,
    reading: Reading,
    check: FeatureCheck,
    end: ExitStack,
) -> FrameData:
    """Columns and groups of rows that come block by block."""
    source, given = open_source(
        X, sensitive_features=sensitive_features, sample_weight=sample_weight
    )
    # Before the first look at the files, to be compared after the last.
    seal = Seal.of(find_files(source.paths)) if isinstance(source, FileSource) else None
    names = source.names
    sensitive = named_columns(given["sensitive_features"], "sensitive_features", names)
    weight = named_columns(given["sample_weight"], "sample_weight", names)
    if len(weight) > 1:
        raise ValueError(f"sample_weight={sample_weight!r} names several columns. Name one.")
    features = feature_names(names, (*sensitive, *weight))
    roles = Roles(features, sensitive, weight[0] if weight else None)
    # By name only: types are known after the files are open, which needs to know these columns.
    chosen = categorical_positions(reading.categorical_features, None, features)
    frames = open_frames(source, roles, chosen, reading, end)
    if seal is not None:
        # By the first rows of files: a look at others would be one more pass.
        first = next(iter(frames.select(features).each(_table, [0])))
        left_out = guard_columns(as_frame(first), reading.categorical_features)
        features = tuple(name for name in features if name not in left_out)
        roles = replace(roles, features=features, left_out=left_out)
    check_feature_names(features, check, named=source.named)
    data = learn_frames(
        frames,
        roles,
        reading.categorical_features,
        complete=reading.complete,
        missing=reading.missing_groups,
        each=reading.each,
    )
    return replace(data, seal=seal)


def _table(frame: Frame) -> pa.Table:
    return frame.table


def _judged(groups: Groups | None, reading: Reading) -> Groups | None:
    """The groups, the small ones set aside and told."""
    if groups is None:
        return None
    groups = groups.judged(reading.min_group_size)
    check_judged(groups, reading)
    return groups


def _shared(groups: Groups | None, reading: Reading) -> Ties | None:
    """What finds equal rows, if there are groups to compare."""
    return reading.ties if Seats.of(groups).n_groups > 1 else None


def _check_weights(weight: FloatArray, groups: Groups | None) -> None:
    """Refuse weights that leave a group without rows, or sums without digits."""
    total = float(weight.sum())
    # The sum, because single weights may be zero.
    if not 1 / LARGEST_WEIGHT < total < LARGEST_WEIGHT:
        raise ValueError(
            f"sample_weight adds up to {total:.3g}. Scale the weights, for example to a mean of 1."
        )
    if groups is not None:
        # All have rows, so those without any here have no weight.
        counted = groups.counted(weight).sizes
        if not counted.all():
            raise ValueError(
                "sensitive_features: no row of "
                f"{groups.names[int(np.argmin(counted))]!r} has a positive sample_weight. Leave "
                "these rows out."
            )


def _warn_of_sensitive_features(columns: list[str], groups: Groups) -> None:
    both = sorted(set(groups.titles) & set(columns))
    if both:
        notify(
            f"The sensitive columns {both} are also features in X, so clusters may form along "
            "them. Drop them from X, or name the column: sensitive_features='...'."
        )
