"""Labels of rows that are not in memory: written to a file, or made when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmix.export.labels import LabelFile
from fairmix.input.frames import Frames, Reader, Roles
from fairmix.input.groups import Seats
from fairmix.input.opening import (
    FeatureCheck,
    Reading,
    check_feature_names,
    feature_names,
    named_columns,
    open_frames,
)
from fairmix.input.sources import CollectionSource, FileSource, Seated, open_source
from fairmix.kernels import LogitMap, hard_labels
from fairmix.kernels.totals import Block, Chunk, IntArray
from fairmix.mixture.model import Model
from fairmix.results.fitted import Fitted
from fairmix.system.files import replacing
from fairmix.system.threads import one_blas_thread
from fairmix.tables import Blocks, PathLike, Store, find_files


@dataclass(frozen=True, eq=False)
class Opened:
    """New rows that come block by block, for a fitted map.

    Attributes
    ----------
    frames : Frames
        The rows.
    reader : Reader
        Reads them as the map does: with their groups if it is aware.
    roles : Roles
        What their columns are for.
    """

    frames: Frames
    reader: Reader
    roles: Roles


@contextmanager
def open_new(
    fitted: Fitted,
    X: Any,
    reading: Reading,
    check: FeatureCheck,
    *,
    ignore_unknown: bool,
    sensitive_features: Any = None,
    sample_weight: Any = None,
    seated: bool = True,
    not_to: PathLike | None = None,
) -> Iterator[Opened]:
    """Open rows that are not in memory.

    ``seated=False`` is for densities, which no group has a part in. ``not_to`` is a file that must
    not be one of those that are read.
    """
    source, given = open_source(
        X, sensitive_features=sensitive_features, sample_weight=sample_weight
    )
    if not_to is not None and isinstance(source, FileSource):
        files = find_files(source.paths)
        if Path(not_to).exists() and any(Path(not_to).samefile(f) for f in files if not f.scheme):
            raise ValueError(f"output={str(not_to)!r} is one of the files of X. Give another path.")
    model, names = fitted.model, source.names
    aware = model.aware and seated
    if aware:
        check_groups_given(sensitive_features)
    sensitive = named_columns(given["sensitive_features"], "sensitive_features", names)
    weight = named_columns(given["sample_weight"], "sample_weight", names)
    # A column of groups may be a feature, too, where the fit had it as one.
    known = model.columns.names
    others = (*fitted.set_aside, *(name for name in (*sensitive, *weight) if name not in known))
    roles = Roles(feature_names(names, others), sensitive, weight[0] if weight else None)
    check_feature_names(roles.features, check, named=source.named)
    # Without batches: blocks must be the runs in which `Ties` looks for equal rows.
    whole = replace(reading, batch_size=None)
    with ExitStack() as end, one_blas_thread():
        frames = open_frames(source, roles, model.columns.categorical, whole, end)
        reader = Reader(
            # Weights are not for the map.
            replace(roles, weight=None),
            replace(model.columns, ignore_unknown=ignore_unknown),
            fitted.groups if aware else None,
            fitted.seats if aware else Seats(1, aside=False),
            frames.block_rows,
            reading.missing_groups,
            model.ties if seated else None,
        )
        yield Opened(frames, reader, roles)


def file_labels(
    fitted: Fitted, X: Any, sensitive_features: Any, output: PathLike | None, **how: Any
) -> Path:
    """Write the labels of rows that come block by block to a file; ``how`` is for `open_new`."""
    output = needed_output(X, output, "labels")
    # A blind map needs no groups.
    groups = sensitive_features if fitted.model.aware else None
    with open_new(fitted, X, sensitive_features=groups, not_to=output, **how) as opened:
        return write_labels(fitted.model, opened.frames.map(opened.reader, keep=0), output)


def needed_output(X: Any, output: PathLike | None, what: str) -> PathLike:
    """The file to write to, which rows that are not in memory need."""
    if output is None:
        raise ValueError(
            f"X={X!r} is not in memory, and its {what} need not fit there. Give output, a "
            "Parquet file to write them to."
        )
    return output


def check_groups_given(sensitive_features: Any) -> None:
    """An aware map needs groups."""
    if sensitive_features is None:
        raise ValueError(
            "assignment='aware': the map uses the group of each row, so this needs "
            "sensitive_features. Pass them, or fit with assignment='blind'."
        )


def collection_values(
    estimator: Any, fitted: Fitted, X: Any, sensitive_features: Any, method: str
) -> Any:
    """What a method makes of the rows of a Dask collection, as a Dask array, when asked for.

    ``method`` is ``"predict_proba"``, or ``"score_samples"``, which knows no groups.
    """
    tilted = method == "predict_proba"
    aware = tilted and fitted.model.aware
    apart = aware and CollectionSource.takes(sensitive_features)
    source = CollectionSource.of(X, {"sensitive_features": sensitive_features} if apart else {})
    named = sensitive_features if aware and not apart else None
    nothing = np.empty((0, fitted.n_components) if tilted else 0)
    return source.map_rows(partial(_part_values, estimator, named, method), nothing)


def collection_labels(estimator: Any, fitted: Fitted, X: Any, sensitive_features: Any) -> Any:
    """Labels of a Dask collection as a Dask array, made when they are asked for.

    ``estimator`` predicts the labels of a partition, so it goes to the workers.
    """
    aware = fitted.model.aware
    # A blind map needs no groups; a name is looked up in each partition.
    apart = aware and CollectionSource.takes(sensitive_features)
    source = CollectionSource.of(X, {"sensitive_features": sensitive_features} if apart else {})
    named = sensitive_features if aware and not apart else None
    if fitted.model.split:
        return source.map_run_labels(partial(_read_part, estimator, named), fitted.model.labels)
    nothing = np.empty(0, dtype=np.intp)
    return source.map_rows(partial(_part_values, estimator, named, "predict"), nothing)


def _groups_of(named: Any, beside: tuple[Any, ...]) -> Any:
    # `map_blocks` gives groups as a column beside the rows.
    return np.asarray(beside[0]).ravel() if beside else named


def _read_part(estimator: Any, named: Any, part: Any, *beside: Any) -> Seated:
    """A partition as `predict` sees it."""
    # Rows and no labels yet: a run of `Ties` may cross partitions.
    found: Seated = estimator._seated_rows(part, _groups_of(named, beside))
    return found


def _part_values(estimator: Any, named: Any, method: str, part: Any, *beside: Any) -> NDArray[Any]:
    groups = _groups_of(named, beside)
    given = {} if groups is None else {"sensitive_features": groups}
    values: NDArray[Any] = getattr(estimator, method)(part, **given)
    return values


def piece_labels(estimator: Any, X: Any, sensitive_features: Any, first_run: int) -> NDArray[Any]:
    """Labels of a piece of a table, which begins there at some run of `Ties`."""
    labels: NDArray[Any] = estimator._labels(X, sensitive_features, first_run)
    return labels


def write_labels(model: Model, blocks: Blocks[Chunk], output: PathLike) -> Path:
    """Write the cluster of each row to a Parquet file, which appears when it is complete."""
    path = Path(output)
    # Without the temperature, as `Model.labels`: the bits must be those of a table in memory.
    logit_map = LogitMap(model.mixture.logits(model.theta), model.offsets)
    aside = model.places_aside and model.membership is None
    store = Store(blocks, model.n_codes, aside=aside)

    def work(block: Block) -> IntArray:
        return hard_labels(block, logit_map)

    # In order and block by block, so that memory holds the labels of few blocks.
    with replacing(path) as part, LabelFile(part, every_row=True) as file:
        for labels in model.table(store).each(work):
            file.add(labels)
    return path
