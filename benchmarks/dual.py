"""Fair fits of the dual solver against k-means, on the paper's data (two need FAIRMIX_DATA)."""

from __future__ import annotations

import warnings
from functools import partial

from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

from benchmarks.harness import Ratio, medians
from benchmarks.tabular import DATA, names
from fairmix import FairMixture
from fairmix.datasets import paper_preprocessing

BOUNDS = {"aware": 30, "blind": 60}


def run(repeats: int) -> list[Ratio]:
    """Aware and blind fits with four starts and a gap of 0, in units of KMeans(10, n_init=4)."""
    out = []
    for name in names():
        load, columns = DATA[name]
        data = load()
        X = paper_preprocessing(data.X)
        work = {"K-means": partial(_kmeans, X)}
        for column in columns:
            groups = data.sensitive[column]
            modes = BOUNDS if column == columns[0] else ["aware"]
            for mode in modes:
                work[f"{mode} {column}"] = partial(_fit, X, groups, mode)
        seconds = medians(work, repeats)
        floor = seconds.pop("K-means")
        out += [
            Ratio(f"{name} {key}", value, "KMeans(n_init=4)", floor, BOUNDS[key.split()[0]])
            for key, value in seconds.items()
        ]
    return out


def _kmeans(X) -> None:
    with threadpool_limits(1):
        KMeans(10, n_init=4, random_state=0).fit(X)


def _fit(X, groups, assignment: str) -> None:
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        FairMixture(10, assignment=assignment, max_gap=0, n_init=4, random_state=0).fit(
            X, sensitive_features=groups
        )
