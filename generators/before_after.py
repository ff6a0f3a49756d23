"""Make docs/images/before-after.png: the clusters of Adult before and after a rule. Seconds."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib import pyplot as plt

from fairmix import FairMixture
from fairmix.datasets import load_adult, paper_preprocessing
from fairmix.kernels.totals import FloatArray, IntArray
from generators.figures import record

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "images" / "before-after.png"
N_COMPONENTS = 10
BLUE, GREY = "#0072b2", "#8a8f98"


def clusters() -> Iterator[tuple[str, IntArray, FloatArray]]:
    """Sizes of the clusters and shares of women in them, before and after."""
    adult = load_adult()
    X, women = paper_preprocessing(adult.X), np.asarray(adult.sex) == "Female"
    fits = {
        "A plain mixture": FairMixture(N_COMPONENTS, fairness_strength=0, random_state=0),
        "With min_ratio=0.8": FairMixture(N_COMPONENTS, min_ratio=0.8, random_state=0),
    }
    for title, model in fits.items():
        labels = model.fit(X, sensitive_features=adult.sex).labels_
        sizes = np.bincount(labels, minlength=N_COMPONENTS)
        yield title, sizes, np.bincount(labels, women, N_COMPONENTS) / sizes


def figures() -> dict[str, float]:
    """The smallest and the largest share."""
    ends = {"least": np.min, "most": np.max}
    return {
        f"{title}, {name}": float(end(shares))
        for title, _, shares in clusters()
        for name, end in ends.items()
    }


def main() -> None:
    """Draw the share of women in each cluster."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    matplotlib.use("Agg")  # no screen needed
    overall = 100 * float((np.asarray(load_adult().sex) == "Female").mean())
    figure, axes = plt.subplots(1, 2, figsize=(8.4, 3.3), dpi=150, sharex=True)
    for ax, (title, sizes, shares) in zip(axes, clusters(), strict=True):
        order = np.argsort(shares)
        ax.barh(np.arange(N_COMPONENTS), 100 * shares[order], color=BLUE, height=0.7)
        ax.axvline(overall, color=GREY, linewidth=1.5)
        ax.set_yticks(np.arange(N_COMPONENTS), [f"{sizes[k]:,}" for k in order])
        ax.set_title(f"{title}: {100 * shares.min():.0f}% to {100 * shares.max():.0f}%", loc="left")
        ax.set_xlabel("women in the cluster, per cent")
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
    axes[0].set_ylabel("people in the cluster")
    axes[0].text(overall + 0.8, -0.2, "all rows", color=GREY, fontsize=8)
    figure.tight_layout()
    figure.savefig(PICTURE)
    record(PICTURE, "before_after", figures())


if __name__ == "__main__":
    main()
