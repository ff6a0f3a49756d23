"""From a table with the columns of the source to a checked `Dataset`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fairmix.datasets._dataset import Dataset
from fairmix.input.groups import Groups, encode_groups


@dataclass(frozen=True)
class Recipe:
    """The paper's choice of columns, and the counts by which the right data is known.

    ``counts`` maps the name of a sensitive attribute or outcome to the rows of each of its labels.
    """

    name: str
    n_rows: int
    continuous: tuple[str, ...]
    cardinalities: Mapping[str, int]
    counts: Mapping[str, Mapping[str, int]]
    description: str

    def prepare(
        self,
        table: pa.Table,
        *,
        sensitive: Mapping[str, NDArray[Any]],
        outcomes: Mapping[str, NDArray[Any]],
    ) -> Dataset:
        """Pick the columns, code the categories and check every count."""
        coded = {
            name: encode_groups(table[name], argument=f"column {name!r}")
            for name in self.cardinalities
        }
        # By counts, not by a checksum: the bytes of a Parquet file depend
        # on the program that wrote it.
        self._check(len(table), coded, {**sensitive, **outcomes})
        return Dataset(
            name=self.name,
            X=np.column_stack([_float64(table, name) for name in self.continuous]),
            feature_names=self.continuous,
            categories=np.column_stack([codes.codes for codes in coded.values()]).astype(np.int64),
            category_names=tuple(coded),
            category_levels=tuple(codes.names for codes in coded.values()),
            sensitive=sensitive,
            outcomes=outcomes,
            table=table,
            description=self.description,
        )

    def _check(
        self, n_rows: int, coded: Mapping[str, Groups], labels: Mapping[str, NDArray[Any]]
    ) -> None:
        found = {name: len(codes.names) for name, codes in coded.items()}
        checks: list[tuple[str, object, object]] = [
            ("rows", n_rows, self.n_rows),
            ("values per categorical column", found, dict(self.cardinalities)),
        ]
        for name, expected in self.counts.items():
            groups = encode_groups(labels[name], argument=name)
            counts = dict(zip(groups.names, groups.sizes.tolist(), strict=True))
            checks.append((f"rows per {name}", counts, dict(expected)))
        for what, got, expected_value in checks:
            if got != expected_value:
                raise ValueError(
                    f"The {self.name} data is not the known version: {what} is {got}, not "
                    f"{expected_value}. Delete the downloaded file, or set FAIRMIX_DATA to the "
                    "right folder."
                )


def strings(table: pa.Table, name: str) -> NDArray[Any]:
    """Return a column as a NumPy array of str."""
    column = encode_groups(table[name], argument=f"column {name!r}")
    return np.array(column.names)[column.codes]


def _float64(table: pa.Table, name: str) -> NDArray[np.float64]:
    # Before any arithmetic: the file has unsigned bytes, whose differences wrap around.
    column: NDArray[np.float64] = table[name].to_numpy().astype(np.float64)
    return column
