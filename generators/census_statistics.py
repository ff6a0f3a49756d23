"""Make the statistics from which `make_census_like` draws.

They are those of census_sample.parquet in the folder FAIRMIX_DATA, 3,000 rows of UCI id 116. No row
of the sample is in the file, nor can one be made from it. It has, all rounded: shares of components
of at least 30 rows; per component and column shares of values that at least 10 rows of the sample
have (5 in a column of few codes), or of intervals that hold as many, pulled towards those of a
larger part; and the latent correlation of each pair of columns in each of 12 cells.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray
from scipy.special import ndtr
from sklearn.cluster import KMeans

from fairmix.datasets import paper_preprocessing
from fairmix.datasets._census import FEATURES
from fairmix.datasets._census_like import GATES, Sampler, Statistics, finish, gates

OUTPUT = Path(__file__).resolve().parents[1] / "src/fairmix/datasets/data/census_statistics.npz"
# Values of fewer rows than this are merged, so that none of them tells of one person. A code of a
# column with few codes says little, so there fewer rows are enough.
LEVEL_ROWS, CODE_ROWS, FEW_CODES = 10, 5, 20
# Smaller components would follow the noise of the sample (and single persons); more rows per
# component would wash out how columns depend on each other.
COMPONENT_ROWS, ROWS_PER_COMPONENT = 30, 100
# Rare values that are farther apart than this share of the range are not in one interval: drawn
# values would fall where the sample has none.
WIDEST = 0.1
# Rows that the larger part counts for in a component's shares, and rows of no correlation that are
# added to each cell. Half of the smallest component: what it says itself still counts most.
PULL = SHRINK = 15
# Rows per cell by which the latent correlation is fitted: the correlation of as many has a standard
# error of 0.005, which is far below that of the sample.
DRAWS = 40_000
# Steps of that fit, and the share of the difference that each takes: not all of it, because a
# latent correlation moves those of other columns, too. In the last ten steps none moves by more
# than 0.01.
ROUNDS, STEP = 40, 0.6
# Latent correlations beyond this, or eigenvalues below, make a factor that is nearly singular.
LARGEST_CORRELATION, LEAST_EIGENVALUE = 0.98, 0.02
# Draws of a follower with its gate open from which its quantiles are taken.
LEAST_SEEN = 50
DIGITS = 4  # of what is written; a share of the sample has no more

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Integers = NDArray[np.int64]
Columns = dict[str, Floats]


def levels(values: Floats) -> Floats:
    """Frequent values, and intervals of rare ones, from low to high: (low, high) per row."""
    found, counts = np.unique(values, return_counts=True)
    least = CODE_ROWS if len(found) <= FEW_CODES else LEVEL_ROWS
    often = counts >= least
    far = np.diff(found, prepend=found[0]) > WIDEST * (found[-1] - found[0])
    out = [(value, value) for value in found[often]]
    # Rare values of one run have no frequent value and no wide gap between them.
    starts = often | far | np.concatenate([[False], often[:-1]])
    for run in np.split(np.arange(len(found)), np.flatnonzero(starts)):
        if len(run) > 0 and not often[run[0]]:
            out += intervals(found[run], counts[run], least)
    return np.array(sorted(out))


def intervals(found: Floats, counts: Integers, least: int) -> list[tuple[float, float]]:
    """Cut a run of rare values into intervals with rounded ends and at least that many rows."""
    firsts, rows = [], least
    for j, count in enumerate(counts):
        # What is left at the end joins the last interval.
        if rows >= least and counts[j:].sum() >= least:
            firsts.append(j)
            rows = 0
        rows += count
    # A run of too few rows has no interval: they move to the nearest level.
    lasts = [*(j - 1 for j in firsts[1:]), len(found) - 1]
    return [
        (two_digits(found[first]), two_digits(found[last]))
        for first, last in zip(firsts, lasts[: len(firsts)], strict=True)
    ]


def two_digits(value: float) -> float:
    """Round large numbers towards 0, so that no single income stands out."""
    if abs(value) < 1000:
        return float(value)
    unit = 10.0 ** (np.floor(np.log10(abs(value))) - 1)
    return float(np.trunc(value / unit) * unit)


def nearest_level(values: Floats, bounds: Floats) -> NDArray[np.intp]:
    """Level that holds a value or is nearest to it; the narrowest, if several hold it."""
    low, high = bounds.T
    distance = np.maximum(low - values[:, None], values[:, None] - high).clip(min=0)
    distance += 1e-9 * (high - low)  # only decides between levels that are equally near
    # 0 stands for "not asked", so no rare code may become 0.
    distance[:, (low == 0) & (high == 0)] += np.where(values == 0, 0.0, np.inf)[:, None]
    found: NDArray[np.intp] = np.argmin(distance, axis=1)
    return found


def cells(sex: Integers, X: Columns) -> Integers:
    """Sex by status: infant, child, no work since 1985, works, worked before 1989, in 1989."""
    status = np.select(
        [X["SCHOOL"] == 0, X["AGE"] < 16, X["CLASS"] == 0, X["HOURS"] > 0, X["WEEK89"] == 0],
        [0, 1, 2, 3, 4],
        default=5,
    )
    return np.unique(np.column_stack([sex, status]), axis=0, return_inverse=True)[1].ravel()


def components(Z: Floats, cell: Integers) -> Integers:
    """Clusters within each cell, of at least COMPONENT_ROWS rows."""
    out = np.zeros(len(Z), dtype=int)
    for c in np.unique(cell):
        own = np.flatnonzero(cell == c)
        k = max(1, round(len(own) / ROWS_PER_COMPONENT))
        while True:
            labels = KMeans(k, n_init=10, random_state=0).fit_predict(Z[own])
            if np.bincount(labels).min() >= COMPONENT_ROWS:
                break
            k -= 1
        out[own] = out.max() + 1 + labels
    return np.unique(out, return_inverse=True)[1]


def pulled_shares(level: NDArray[np.intp], parts: list[NDArray[np.bool]], n_levels: int) -> Floats:
    """Shares in the last part, pulled towards those of the parts before it."""
    shares = np.zeros(n_levels)
    for rows in parts:
        counts = np.bincount(level[rows], minlength=n_levels).astype(float)
        pull = PULL if shares.any() else 0.0
        if counts.sum() + pull > 0:
            shares = (counts + pull * shares) / (counts.sum() + pull)
    return shares


def correlation_of(values: Floats) -> Floats:
    """Correlation of rows; 0 with a constant one."""
    centred = values - values.mean(axis=1, keepdims=True)
    deviation = centred.std(axis=1)
    scaled = centred / np.where(deviation > 1e-9, deviation, np.inf)[:, None]
    out: Floats = scaled @ scaled.T / values.shape[1]
    np.fill_diagonal(out, 1.0)
    return out


def nearest_correlation(R: Floats) -> Floats:
    """Positive definite, with diagonal 1."""
    value, vector = np.linalg.eigh((R + R.T) / 2)
    raised = (vector * value.clip(min=LEAST_EIGENVALUE)) @ vector.T
    scale = np.sqrt(np.diag(raised))
    out: Floats = raised / scale / scale[:, None]
    return out


def fit_cell(statistics: Statistics, c: int, target: Floats, plain: Floats) -> None:
    """Move the latent correlation of a cell until draws have the target's, in place.

    A follower is seen only where its gate is open, so its levels are placed among the latent
    normals that it has there: ``plain`` are the shares, ``upper`` what makes them come out.
    """
    own = np.flatnonzero(statistics.cell == c)
    rng = np.random.default_rng(c)
    label = rng.choice(own, DRAWS, p=statistics.share[own] / statistics.share[own].sum())
    normals = rng.standard_normal((len(FEATURES), DRAWS), dtype=np.float32)
    for _ in range(ROUNDS):
        factor = np.linalg.cholesky(statistics.correlation[c]).astype(np.float32)
        latent = factor @ normals
        drawn = draw(statistics, own, label, latent)
        place_followers(statistics, own, label, latent, gates(drawn), plain)
        drawn = draw(statistics, own, label, latent)
        finish(drawn)
        drawn[FEATURES.index("REARNING")] -= drawn[FEATURES.index("INCOME1")]
        step = STEP * (target - correlation_of(drawn.astype(float)))
        moved = (statistics.correlation[c] + step).clip(-LARGEST_CORRELATION, LARGEST_CORRELATION)
        np.fill_diagonal(moved, 1.0)
        statistics.correlation[c] = nearest_correlation(moved)


def draw(
    statistics: Statistics, own: NDArray[np.intp], label: NDArray[np.intp], latent: Singles
) -> Singles:
    """Values of latent normals, before the gates."""
    part = dataclasses.replace(statistics, share=statistics.share[own], upper=statistics.upper[own])
    # Values are looked up in the curves; nothing else of a sampler is needed.
    nothing = np.empty(0)
    sampler = Sampler(nothing, nothing.astype(np.int64), nothing.astype(np.float32), part.curves())
    out = np.empty_like(latent)
    for number, s in enumerate(own):
        out[:, label == s] = sampler.values(number, latent[:, label == s])
    return out


def place_followers(
    statistics: Statistics,
    own: NDArray[np.intp],
    label: NDArray[np.intp],
    latent: Singles,
    opened: dict[str, NDArray[np.bool]],
    plain: Floats,
) -> None:
    """Set the ``upper`` of gated columns by the latent normals in open rows."""
    for name in GATES:
        column = FEATURES.index(name)
        of_column = np.flatnonzero(statistics.level_column == column)
        for s in own:
            seen = latent[column, (label == s) & opened[name]]
            if len(seen) >= LEAST_SEEN:
                cumulative = np.cumsum(plain[s, of_column]).clip(0, 1)
                upper = ndtr(np.quantile(seen, cumulative))
                upper[cumulative <= 0] = 0.0
                upper[cumulative >= 1 - 1e-9] = 1.0
                statistics.upper[s, of_column] = upper


def component_shares(
    values: Floats, bounds: list[Floats], cell: Integers, component: Integers
) -> Floats:
    """Shares of the levels of all columns, side by side, per component."""
    opened = gates(values.astype(np.float32))
    rows = []
    for s in range(component.max() + 1):
        in_part = component == s
        in_cell = cell == cell[in_part][0]
        row = []
        for column, name in enumerate(FEATURES):
            level = nearest_level(values[column], bounds[column])
            on = opened.get(name, np.ones(len(cell), dtype=bool))
            # In a cell few gates may be open; elsewhere, only values of the cell are possible.
            parts = [on] * (name in GATES) + [in_cell & on, in_part & on]
            row.append(pulled_shares(level, parts, len(bounds[column])))
        rows.append(np.concatenate(row))
    return np.array(rows)


def make(sex: Integers, X: Columns) -> Statistics:
    """All statistics of the sample."""
    cell = cells(sex, X)
    component = components(paper_preprocessing(np.column_stack(list(X.values()))), cell)
    values = np.array(list({**X, "REARNING": X["REARNING"] - X["INCOME1"]}.values()))
    bounds = [levels(row) for row in values]
    level_column = np.repeat(np.arange(len(FEATURES)), [len(b) for b in bounds])
    plain = component_shares(values, bounds, cell, component)
    first = np.unique(component, return_index=True)[1]
    of_columns = [plain[:, level_column == column] for column in range(len(FEATURES))]
    statistics = Statistics(
        share=np.bincount(component) / len(sex),
        sex=sex[first],
        cell=cell[first],
        correlation=np.empty((cell.max() + 1, len(FEATURES), len(FEATURES))),
        level_column=level_column,
        level_low=np.concatenate(bounds)[:, 0],
        level_high=np.concatenate(bounds)[:, 1],
        step=np.array([np.gcd.reduce(row.astype(int)) for row in values], dtype=float),
        upper=np.hstack([np.cumsum(shares, axis=1) for shares in of_columns]),
    )
    for c in range(cell.max() + 1):
        n = (cell == c).sum()
        target = correlation_of(values[:, cell == c]) * (n / (n + SHRINK))
        np.fill_diagonal(target, 1.0)
        statistics.correlation[c] = nearest_correlation(target)
        fit_cell(statistics, c, target, plain)
    return statistics


def save(statistics: Statistics, out: Path) -> None:
    """Write rounded numbers in small types."""
    arrays = {}
    for field in dataclasses.fields(statistics):
        array = getattr(statistics, field.name)
        small = np.int16 if array.dtype.kind == "i" else np.float32
        arrays[field.name] = np.round(array, DIGITS).astype(small)
    arrays["share"] = statistics.share  # rounded shares would not add up to those of the sexes
    np.savez_compressed(out, **arrays)


def main() -> None:
    """Read the sample and write its statistics."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=OUTPUT)
    arguments = parser.parse_args()
    folder = os.environ.get("FAIRMIX_DATA")
    if not folder:
        raise SystemExit("Set FAIRMIX_DATA to the folder with census_sample.parquet.")
    with pq.ParquetFile(Path(folder) / "census_sample.parquet") as file:
        table = file.read()
    X = {name: table[name].to_numpy().astype(float) for name in FEATURES}
    statistics = make(table["SEX"].to_numpy().astype(int), X)
    save(statistics, arguments.out)
    print(
        f"{arguments.out.name}: {len(statistics.share)} components in "
        f"{len(statistics.correlation)} cells, {len(statistics.level_column)} levels, "
        f"{arguments.out.stat().st_size} bytes"
    )


if __name__ == "__main__":
    main()
