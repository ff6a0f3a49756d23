"""What every loader returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """A data set with the paper's choice of rows, columns and groups.

    The entries of ``sensitive`` and ``outcomes`` are attributes too: ``adult.sex`` is
    ``adult.sensitive["sex"]``.

    Attributes
    ----------
    name : str
        Short name.
    X : ndarray of shape (n_rows, n_features), float64
        The continuous columns, as they are in the source.
    feature_names : tuple of str
        Names of the columns of X.
    categories : ndarray of shape (n_rows, n_categorical), int64
        The categorical columns as codes into ``category_levels``.
    category_names : tuple of str
        Names of the columns of ``categories``.
    category_levels : tuple of tuple of str
        The values that each code stands for, sorted by value.
    sensitive : mapping of str to ndarray of str
        Sensitive attributes: one label per row each.
    outcomes : mapping of str to ndarray of str
        Labels for evaluation only.
    table : pyarrow.Table
        All columns of the source, of the same rows.
    description : str
        Source, licence, citation and groups.

    Examples
    --------
    >>> from fairmix.datasets import load_adult
    >>> adult = load_adult()
    >>> adult
    Dataset('adult', 32561 rows, 5 continuous, 7 categorical, sensitive: sex)
    >>> adult.sex[:2].tolist()
    ['Male', 'Male']
    """

    name: str
    X: NDArray[np.float64]
    feature_names: tuple[str, ...]
    categories: NDArray[np.int64]
    category_names: tuple[str, ...]
    category_levels: tuple[tuple[str, ...], ...]
    sensitive: Mapping[str, NDArray[Any]]
    outcomes: Mapping[str, NDArray[Any]]
    table: pa.Table
    description: str

    def mixed(self) -> pa.Table:
        """Continuous columns as float64, then categorical columns as dictionaries of strings.

        Returns
        -------
        pyarrow.Table

        Examples
        --------
        >>> from fairmix.datasets import load_adult
        >>> load_adult().mixed().schema.field("race").type
        DictionaryType(dictionary<values=string, indices=int32, ordered=0>)
        """
        columns = {name: pa.array(self.X[:, j]) for j, name in enumerate(self.feature_names)}
        for j, name in enumerate(self.category_names):
            columns[name] = pa.DictionaryArray.from_arrays(
                # The width of indices that Arrow itself uses for dictionaries.
                pa.array(self.categories[:, j], pa.int32()),
                pa.array(self.category_levels[j], pa.string()),
            )
        return pa.table(columns)

    def __getattr__(self, name: str) -> NDArray[Any]:
        # Through __dict__, because copy and pickle ask for attributes before any is set.
        for labels in (self.__dict__.get("sensitive", {}), self.__dict__.get("outcomes", {})):
            if name in labels:
                found: NDArray[Any] = labels[name]
                return found
        known = [*self.__dict__.get("sensitive", {}), *self.__dict__.get("outcomes", {})]
        raise AttributeError(f"Dataset has no attribute {name!r}; its labels are {known}.")

    # So that completion in a shell or notebook offers adult.sex.
    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.sensitive, *self.outcomes]

    def __repr__(self) -> str:
        return (
            f"Dataset({self.name!r}, {len(self.X)} rows, {len(self.feature_names)} continuous, "
            f"{len(self.category_names)} categorical, sensitive: {', '.join(self.sensitive)})"
        )
