"""The paper's tables, of which two need FAIRMIX_DATA, and fits of them in units of k-means."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from sklearn.cluster import KMeans

from benchmarks.harness import Array, Ratio, medians, quietly
from fairmix import FairMixture
from fairmix.datasets import Dataset, fetch_bank, fetch_credit, load_adult, paper_preprocessing

K = 10  # as in the paper's tables
# How to load a table, and its columns of groups: two groups first, then three where there are such.
DATA: dict[str, tuple[Callable[[], Dataset], tuple[str, ...]]] = {
    "Adult": (load_adult, ("sex",)),
    "Bank": (fetch_bank, ("married", "marital")),
    "Credit": (fetch_credit, ("education2", "education")),
}


def names() -> list[str]:
    """The tables at hand: all with FAIRMIX_DATA, else the bundled one."""
    return list(DATA) if os.environ.get("FAIRMIX_DATA") else ["Adult"]


def fair_fits(
    name: str,
    bounds: Mapping[str, float],
    settings: Mapping[str, Any],
    n_init: int,
    repeats: int,
    n_rows: int | None = None,
    *,
    blind_columns: int | None = None,
) -> list[Ratio]:
    """Fits of one table, blind (to the first columns of groups) and aware, in units of k-means."""
    load, columns = DATA[name]
    data = load()
    X = paper_preprocessing(data.X)[:n_rows]
    found: dict[str, FairMixture] = {}

    def fit(key: str, groups: Array, assignment: Any) -> None:
        model = FairMixture(K, assignment=assignment, random_state=0, **settings)
        with quietly(threads=1):
            found[key] = model.fit(X, sensitive_features=groups)

    def kmeans() -> None:
        with quietly(threads=1):
            KMeans(K, n_init=n_init, random_state=0).fit(X)

    work: dict[str, Callable[[], None]] = {"k-means": kmeans}
    for column in columns:
        for assignment in bounds:
            if assignment == "blind" and column not in columns[:blind_columns]:
                continue
            key = f"{assignment} {column}"
            work[key] = partial(fit, key, data.sensitive[column][:n_rows], assignment)
    seconds = medians(work, repeats)
    floor = seconds.pop("k-means")
    return [
        Ratio(
            f"{name}, {key}",
            value,
            f"KMeans(n_init={n_init})",
            floor,
            bounds[key.split()[0]],
            details={"gap": found[key].gap_, "iterations": found[key].n_iter_},
        )
        for key, value in seconds.items()
    ]
