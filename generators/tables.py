"""Measure the tables within pages and write them there: scripts/generate tables [NAME ...].

A table stands between two comments with its name. Tests measure a part of each again, which
``few`` asks for: some of its rows and cells, or the first numbers of them. Bank and Credit are read
from the folder FAIRMIX_DATA.
"""

from __future__ import annotations

import argparse
import re
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

import numpy as np

from fairmix import FairMixture, metrics, pareto_front
from fairmix.datasets import make_grouped_blobs
from fairmix.fitting.starts import kmeans_labels
from fairmix.kernels.totals import FloatArray
from fairmix.reproduction.views import GROUPS, TITLES, View, prepare
from fairmix.results.certificate import certify, chance_gap
from generators.figures import ROOT

Assignment = Literal["blind", "aware"]
Lines = Iterator[list[str]]
MAPS: tuple[Assignment, ...] = ("blind", "aware")
N_COMPONENTS = 10


@dataclass(frozen=True)
class Table:
    """A table of a page: its titles, what measures its rows, and what tells the rows apart.

    ``within`` is how far a number of at most 1 may be off when it is measured again, which is what
    another processor may change; larger ones may be off by a hundredth of them.
    """

    page: str
    titles: tuple[str, ...]
    measure: Callable[[bool], Lines]
    keys: int = 1
    within: float = 0.005

    def text(self, *, few: bool = False) -> str:
        """As Markdown."""
        rule = ["---"] * self.keys + ["---:"] * (len(self.titles) - self.keys)
        lines = [list(self.titles), rule, *self.measure(few)]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)

    def shown(self, name: str) -> str:
        """As the page shows it."""
        found = block(name).search((ROOT / self.page).read_text("utf-8"))
        if found is None:
            raise SystemExit(f"{self.page} has no comments '<!-- begin {name} -->' and end.")
        return found[2]


def block(name: str) -> re.Pattern[str]:
    """What stands between the comments of a table."""
    return re.compile(rf"(<!-- begin {name} -->\n)(.*?)(\n<!-- end {name} -->)", re.DOTALL)


def joined(numbers: Any, digits: int) -> str:
    """Numbers of several seeds."""
    return ", ".join(f"{number:,.{digits}f}" for number in numbers)


def certified(criterion: str, few: bool) -> Lines:
    """An even map of 10 equal clusters, seen in samples."""
    for n_rows in (1000, 4000) if few else (1000, 4000, 16_281, 64_000, 256_000):
        rng = np.random.default_rng(0)
        groups = np.arange(n_rows) % 3 == 0
        sizes = np.bincount(groups)
        found = [
            certify(
                rng.integers(10, size=n_rows), groups, criterion=criterion, n_clusters=N_COMPONENTS
            )
            for _ in range(20)
        ]
        chance = chance_gap(np.full(10, 0.1), sizes, criterion=criterion).quantile95
        figures = np.mean([(one.value, chance, one.bound) for one in found], axis=0)
        yield [f"{n_rows:,}", *(f"{figure:.3f}" for figure in figures)]


def beyond_chance(few: bool) -> Lines:
    """How often held-out rows miss a bound that the fit meets, and by more than chance."""
    for assignment, number in product(MAPS[1:] if few else MAPS, (4,) if few else (4, 8)):
        met = missed = beyond = 0
        for n_groups, gap_of, share, seed in product(
            (2, 3), ("labels", "probabilities"), (0.1, 0.5), range(2)
        ):
            X, groups, _ = make_grouped_blobs(
                2000, number, 2, n_groups=n_groups, separation=2, imbalance=0.3, random_state=seed
            )
            held = np.random.default_rng(seed).random(len(X)) < share
            given: dict[str, Any] = {"gap_of": gap_of, "assignment": assignment}
            model = FairMixture(number, max_gap=0.02, random_state=0, **given)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model.fit(X[~held], sensitive_features=groups[~held])
                found = model.certify(X[held], groups[held])
            if model.verdict_ == "met":
                met += 1
                missed += found.verdict.word == "missed"
                beyond += found.verdict.word == "missed" and not found.by_chance
        yield [f"{assignment}, K = {number}", *map(str, (met, missed, beyond))]


def costs(few: bool) -> Lines:
    """What blind and aware maps cost at a bound of 0."""
    for (name, n_groups), column in GROUPS.items():
        if name not in ("adult", "bank", "credit") or (few and name != "adult"):
            continue
        data = prepare(View(name, groups=n_groups))
        cells = [f"{TITLES[name]}, {column} ({n_groups})"]
        for assignment in MAPS[::-1]:
            if few and assignment == "blind":
                cells.append("")
                continue
            model = FairMixture(
                N_COMPONENTS, max_gap=0, assignment=assignment, n_init=4, random_state=0
            )
            model.fit(data.X, sensitive_features=data.groups)
            cost = metrics.clustering_cost(data.X, model.labels_)
            cells.append(f"{cost:,.0f} ({model.label_gap_:.4f}, {model.balance_:.3f})")
        plain = metrics.clustering_cost(data.X, kmeans_labels(data.X, N_COMPONENTS, 0))
        yield [*cells, f"{plain:,.0f}"]


def held_out(few: bool) -> Lines:
    """A fit to a random half, measured on the other half, beside what chance would show there."""
    some = product(("adult",), MAPS[1:]) if few else product(("adult", "bank", "credit"), MAPS)
    for name, assignment in some:
        data = prepare(View(name))
        order = np.random.default_rng(0).permutation(len(data.X))
        fitted, held = np.array_split(order, [len(order) // 2])
        model = FairMixture(
            N_COMPONENTS, assignment=assignment, max_gap=0, n_init=4, random_state=0
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a bound of 0 is met up to whole rows
            model.fit(data.X[fitted], sensitive_features=data.groups[fitted])
        X, groups = data.X[held], data.groups[held]
        found = model.certify(X, groups)
        labels = model.predict(X, sensitive_features=groups)
        shares = np.bincount(labels, minlength=N_COMPONENTS) / len(labels)
        chance = chance_gap(shares, np.unique(groups, return_counts=True)[1])
        figures = (model.gap_, found.gap, chance.mean, chance.quantile95, found.upper_bound)
        yield [TITLES[name], assignment, *(f"{figure:.4f}" for figure in figures)]


def numbers_of_clusters(few: bool) -> Lines:
    """What BIC chooses for three blobs."""
    kinds: dict[str, FairMixture] = {
        "BIC of blind fits under the bound": FairMixture(max_gap=0.05),
        "BIC of aware fits under the bound": FairMixture(max_gap=0.05, assignment="aware"),
        "BIC of plain mixtures, as in the table": FairMixture(fairness_strength=0),
    }
    for title, model in kinds.items():
        cells = []
        for imbalance in (0.0, 0.3):
            seeds = range(1 if few else 6)
            cells.append(joined((_chosen(model, imbalance, seed) for seed in seeds), 0))
        yield [title, *cells]


def _chosen(model: FairMixture, imbalance: float, seed: int) -> int:
    X, groups, _ = make_grouped_blobs(
        600, 3, 2, separation=6.0, imbalance=imbalance, random_state=seed
    )
    bics = {}
    for number in range(2, 7):
        model.set_params(n_components=number, random_state=0)
        with warnings.catch_warnings():
            # A bound that some number cannot meet is no matter here.
            warnings.simplefilter("ignore")
            bics[number] = model.fit(X, sensitive_features=groups).bic(X)
    return min(bics, key=bics.__getitem__)


def missing(few: bool) -> Lines:
    """Models of complete rows, and of rows with missing values, on rows with missing values."""
    data = prepare(View("adult"))
    X, sex = data.X, data.groups

    def holes(seed: int) -> FloatArray:
        return np.where(np.random.default_rng(seed).random(X.shape) < 0.3, np.nan, X)

    for assignment, complete in product(MAPS, (True,) if few else (True, False)):
        model = FairMixture(5, max_gap=0.02, assignment=assignment, random_state=0)
        model.fit(X if complete else holes(3), sensitive_features=sex)
        kept: list[list[float]] = [[], []]
        gaps: list[list[float]] = [[], []]
        for rows in map(holes, range(1 if few else 3)):
            filled = np.where(np.isnan(rows), X.mean(axis=0), rows)
            for way, seen in enumerate((rows, filled)):
                labels = model.predict(seen, sensitive_features=sex)
                kept[way].append(100 * float((labels == model.labels_).mean()))
                gaps[way].append(metrics.gap(labels, sex))
        fitted = "complete rows" if complete else "rows with missing values"
        cells = [joined(own, 1) for own in kept] + [joined(own, 3) for own in gaps]
        yield [f"{assignment}, {fitted}", *cells]


def streams(few: bool) -> Lines:
    """Adult in batches of 2,000, beside one fit."""
    data = prepare(View("adult"))
    samples = {"": 50_000, ", a sample of 10,000 rows": 10_000}
    for assignment in MAPS[1:] if few else MAPS[::-1]:
        ways = {"`fit`": 0, **{f"stream{name}": size for name, size in samples.items()}}
        for way, size in list(ways.items())[: 2 if few else None]:
            figures: list[tuple[float, float, float]] = []
            for seed in range(1 if few else 2):
                model = FairMixture(
                    N_COMPONENTS, max_gap=0.01, assignment=assignment, random_state=seed
                )
                if size:
                    model.set_params(fairness_sample_size=size)
                    order = np.random.default_rng(seed).permutation(len(data.X))
                    for batch in np.array_split(order, -(-len(order) // 2000)):
                        model.partial_fit(data.X[batch], sensitive_features=data.groups[batch])
                else:
                    model.fit(data.X, sensitive_features=data.groups)
                labels = model.predict(data.X, sensitive_features=data.groups)
                gap = metrics.gap(labels, data.groups)
                figures.append((gap, metrics.clustering_cost(data.X, labels), model.score(data.X)))
            gaps, cost, likelihood = zip(*figures, strict=True)
            cells = joined(gaps, 4), joined(cost, 0), joined(likelihood, 3)
            yield [f"{assignment}, {way}", *cells]


def orders(few: bool) -> Lines:
    """Streams of blobs that are longer than their sample, in two orders."""
    some = product(("random",), MAPS[1:]) if few else product(("random", "by cluster"), MAPS)
    for order, assignment in some:
        gaps, losses = [], []
        for seed in range(1 if few else 4):
            X, groups, parts = make_grouped_blobs(
                20_000, 4, 2, separation=3, imbalance=0.3, random_state=seed
            )
            rows = np.argsort(parts, kind="stable") if order == "by cluster" else np.arange(len(X))
            # Every group and cluster is in the first batch, as a stream needs it.
            rows = np.concatenate([np.arange(200), rows[~np.isin(rows, np.arange(200))]])
            model = FairMixture(
                4, max_gap=0.01, assignment=assignment, fairness_sample_size=6000, random_state=0
            )
            for batch in np.array_split(rows, 10):
                model.partial_fit(X[batch], sensitive_features=groups[batch])
            labels = model.predict(X, sensitive_features=groups)
            gaps.append(metrics.gap(labels, groups))
            whole = FairMixture(4, max_gap=0.01, assignment=assignment, random_state=0)
            losses.append(whole.fit(X, sensitive_features=groups).score(X) - model.score(X))
        yield [order, assignment, joined(gaps, 3), joined(losses, 3)]


def front(few: bool) -> Lines:
    """The front of an aware map of Adult."""
    data = prepare(View("adult"))
    model = FairMixture(N_COMPONENTS, assignment="aware", random_state=0)
    # Each bound starts from the one before, so a part has to be a beginning.
    bounds = (0, 0.005) if few else (0, 0.005, 0.01, 0.02, 0.05, 0.1, np.inf)
    found = pareto_front(model, data.X, sensitive_features=data.groups, max_gaps=bounds)
    for row in found.rows:
        yield [
            "plain" if row.plain else f"{row.bound:g}",
            *(f"{number:.4f}" for number in (row.label_gap, row.soft_gap, row.ratio, row.balance)),
            f"{row.cost:,.0f}",
            f"{row.nll:.3f}",
            str(row.non_empty),
            row.verdict + (", dominated" if row.dominated else ""),
        ]


TABLES = {
    "certified-gap": Table(
        "docs/certificate.md",
        ("rows", "observed gap", "95 % quantile by chance", "certified"),
        lambda few: certified("gap", few),
    ),
    "certified-ratio": Table(
        "docs/certificate.md",
        ("rows", "observed ratio", "5 % quantile by chance", "certified"),
        lambda few: certified("rate_ratio", few),
    ),
    "beyond-chance": Table(
        "docs/certificate.md",
        ("fits", "met their bound", "missed it on held-out rows", "by more than chance explains"),
        beyond_chance,
        within=2,
    ),
    "costs": Table(
        "docs/theory/blind-and-aware.md",
        ("data, groups", "aware", "blind", "K-means"),
        costs,
    ),
    "held-out": Table(
        "docs/theory/blind-and-aware.md",
        ("data", "assignment", "fitted", "held out", "chance: mean", "chance: 95 %", "certified"),
        held_out,
        keys=2,
    ),
    "choice": Table(
        "docs/how-to/choose-the-number-of-clusters.md",
        (
            "",
            "groups spread evenly over the blobs",
            "blobs that attract one group (`imbalance=0.3`)",
        ),
        numbers_of_clusters,
        within=1,
    ),
    "missing": Table(
        "docs/how-to/missing-values.md",
        (
            "fitted to",
            "labels kept, %: integrated out",
            "mean instead",
            "gap: integrated out",
            "mean instead",
        ),
        missing,
        within=0.02,
    ),
    "streams": Table(
        "docs/how-to/streams.md",
        ("", "label gap", "cost", "log-likelihood per row"),
        streams,
    ),
    "orders": Table(
        "docs/how-to/streams.md",
        ("order", "assignment", "gap on all rows", "log-likelihood below that of `fit`"),
        orders,
        keys=2,
        within=0.02,
    ),
    "front": Table(
        "docs/how-to/choose-a-bound.md",
        (
            *("max_gap", "label gap", "soft gap", "ratio", "balance"),
            *("cost", "nll", "clusters", "verdict"),
        ),
        front,
        within=0.03,
    ),
}


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *TABLES], metavar="NAME")
    for name in parser.parse_args().names or TABLES:
        started = time.process_time()
        text = TABLES[name].text()
        print(f"{name}: {time.process_time() - started:.0f} s\n{text}", flush=True)
        page = ROOT / TABLES[name].page
        page.write_text(page.read_text("utf-8").replace(TABLES[name].shown(name), text), "utf-8")


if __name__ == "__main__":
    main()
