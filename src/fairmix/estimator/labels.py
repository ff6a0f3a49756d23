"""Labels of rows that are not in memory: written to a file, or made when they are asked for."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmix.export.labels import LabelFile
from fairmix.input.frames import Reader, Roles
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


def file_labels(
    fitted: Fitted,
    X: Any,
    sensitive_features: Any,
    output: PathLike | None,
    reading: Reading,
    check: FeatureCheck,
    *,
    ignore_unknown: bool,
) -> Path:
    """Write the labels of rows that come block by block to a file."""
    source, given = open_source(X, sensitive_features=sensitive_features)
    if output is None:
        raise ValueError(
            f"X={X!r} is not in memory, and its labels need not fit there. Give output, a "
            "Parquet file to write them to."
        )
    # The output replaces a file of its name, which must not be one that is read.
    if isinstance(source, FileSource):
        files = find_files(source.paths)
        if Path(output).exists() and any(Path(output).samefile(f) for f in files if not f.scheme):
            raise ValueError(f"output={str(output)!r} is one of the files of X. Give another path.")
    model, names = fitted.model, source.names
    sensitive: tuple[str, ...] = ()
    if model.aware:
        check_groups_given(sensitive_features)
        sensitive = named_columns(given["sensitive_features"], "sensitive_features", names)
    # A column of groups may be a feature, too, where the fit had it as one.
    others = (*fitted.set_aside, *(name for name in sensitive if name not in model.columns.names))
    roles = Roles(feature_names(names, others), sensitive)
    check_feature_names(roles.features, check, named=source.named)
    # Without batches: blocks must be the runs in which `Ties` looks for equal rows.
    whole = replace(reading, batch_size=None)
    with ExitStack() as end, one_blas_thread():
        frames = open_frames(source, roles, model.columns.categorical, whole, end)
        reader = Reader(
            roles,
            replace(model.columns, ignore_unknown=ignore_unknown),
            fitted.groups if sensitive else None,
            fitted.seats,
            frames.block_rows,
            reading.missing_groups,
            model.ties,
        )
        return write_labels(model, frames.map(reader, keep=0), output)


def check_groups_given(sensitive_features: Any) -> None:
    """An aware map needs groups."""
    if sensitive_features is None:
        raise ValueError(
            "assignment='aware': the map uses the group of each row, so this needs "
            "sensitive_features. Pass them, or fit with assignment='blind'."
        )


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
    return source.map_labels(partial(_part_labels, estimator, named))


def _groups_of(named: Any, beside: tuple[Any, ...]) -> Any:
    # `map_blocks` gives groups as a column beside the rows.
    return np.asarray(beside[0]).ravel() if beside else named


def _read_part(estimator: Any, named: Any, part: Any, *beside: Any) -> Seated:
    """A partition as `predict` sees it."""
    # Rows and no labels yet: a run of `Ties` may cross partitions.
    found: Seated = estimator._seated_rows(part, _groups_of(named, beside))
    return found


def _part_labels(estimator: Any, named: Any, part: Any, *beside: Any) -> NDArray[Any]:
    labels: NDArray[Any] = estimator.predict(part, sensitive_features=_groups_of(named, beside))
    return labels


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
