"""Make docs/images/front.png: the cost of a bound on Adult, blind and aware. Takes minutes."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Literal

import matplotlib
from matplotlib import pyplot as plt
from sklearn.cluster import KMeans

from fairmix import FairMixture, pareto_front
from fairmix.datasets import load_adult, paper_preprocessing
from fairmix.metrics import clustering_cost, gap

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "images" / "front.png"
N_COMPONENTS = 10


def main() -> None:
    """Fit both fronts and draw them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=PICTURE)
    parser.add_argument("--n-init", type=int, default=2, help="starts of each fit (2)")
    arguments = parser.parse_args()
    matplotlib.use("Agg")  # no screen needed
    adult = load_adult()
    X = paper_preprocessing(adult.X)
    figure, axes = plt.subplots(figsize=(6.4, 4.0), dpi=150)
    colours: dict[Literal["blind", "aware"], str] = {"blind": "tab:blue", "aware": "tab:green"}
    for assignment, colour in colours.items():
        model = FairMixture(
            N_COMPONENTS, assignment=assignment, n_init=arguments.n_init, random_state=0, n_jobs=-1
        )
        front = pareto_front(model, X, sensitive_features=adult.sex, verbose=1)
        print(front, flush=True)
        rows = [row for row in front.rows if not row.dominated]
        gaps, costs = [row.label_gap for row in rows], [row.cost for row in rows]
        axes.plot(gaps, costs, "o-", color=colour, label=f"FairMixture, {assignment}")
    labels = KMeans(N_COMPONENTS, n_init=10, random_state=0).fit(X).labels_
    point = gap(labels, adult.sex), clustering_cost(X, labels)
    axes.plot(*point, "k*", markersize=11, label="K-means", linestyle="none")
    axes.set_xlabel("gap: largest difference between women's and men's share of a cluster")
    axes.set_ylabel("cost: squared distance to cluster means")
    axes.set_title("Adult, 10 clusters: what a bound on the gap between the sexes costs")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.tight_layout()
    figure.savefig(arguments.out)


if __name__ == "__main__":
    main()
