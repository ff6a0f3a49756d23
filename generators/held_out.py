"""Print the table of held-out gaps of docs/theory/blind-and-aware.md.

A fit on a random half is measured on the other half, beside the gap that a perfectly fair map would
show there by chance. Bank and Credit are read from the folder FAIRMIX_DATA.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np

from fairmix import FairMixture
from fairmix.reproduction.views import TITLES, View, prepare
from fairmix.results import chance_gap

DATA = ("adult", "bank", "credit")
N_COMPONENTS = 10
COLUMNS = ("data", "assignment", "fitted", "held out", "chance: mean", "chance: 95 %", "certified")


def row(name: str, assignment: Any, n_init: int) -> list[str]:
    """Cells of one fit."""
    data = prepare(View(name))
    order = np.random.default_rng(0).permutation(len(data.X))
    fitted, held = np.array_split(order, [len(order) // 2])
    model = FairMixture(
        N_COMPONENTS, assignment=assignment, max_gap=0, n_init=n_init, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a bound of 0 is met up to whole rows
        model.fit(data.X[fitted], sensitive_features=data.groups[fitted])
    X, groups = data.X[held], data.groups[held]
    certificate = model.certify(X, groups)
    labels = model.predict(X, sensitive_features=groups)
    shares = np.bincount(labels, minlength=N_COMPONENTS) / len(labels)
    chance = chance_gap(shares, np.unique(groups, return_counts=True)[1])
    figures = (
        model.gap_,
        certificate.gap,
        chance.mean,
        chance.quantile95,
        certificate.upper_bound,
    )
    return [TITLES[name], assignment, *(f"{figure:.4f}" for figure in figures)]


def main() -> None:
    """One line per data set and assignment."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="*", choices=DATA, default=DATA)
    parser.add_argument("--n-init", type=int, default=4, help="starts of each fit (4)")
    arguments = parser.parse_args()
    print(f"| {' | '.join(COLUMNS)} |\n{'|---' * len(COLUMNS)}|")
    for name in arguments.data:
        for assignment in ("blind", "aware"):
            print(f"| {' | '.join(row(name, assignment, arguments.n_init))} |", flush=True)


if __name__ == "__main__":
    main()
