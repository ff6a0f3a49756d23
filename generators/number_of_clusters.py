"""Measure what BIC chooses for three blobs, and write the table into its page. About a minute."""

from __future__ import annotations

import argparse
import re
import warnings
from pathlib import Path

from fairmix import FairMixture
from fairmix.datasets import make_grouped_blobs

PAGE = Path(__file__).resolve().parents[1] / "docs/how-to/choose-the-number-of-clusters.md"
TABLE = re.compile(r"(\| \| groups spread evenly.*?\n\|---\|---\|---\|\n)(.*?)(\n\n)", re.DOTALL)
SEEDS, NUMBERS = range(6), range(2, 7)
KINDS: dict[str, dict[str, object]] = {
    "BIC of blind fits under the bound": {"max_gap": 0.05},
    "BIC of aware fits under the bound": {"max_gap": 0.05, "assignment": "aware"},
    "BIC of plain mixtures, as in the table": {"fairness_strength": 0},
}


def chosen(settings: dict[str, object], imbalance: float, seed: int) -> int:
    """The number of clusters with the lowest BIC."""
    X, groups, _ = make_grouped_blobs(
        600, 3, 2, separation=6.0, imbalance=imbalance, random_state=seed
    )
    bics = {}
    for number in NUMBERS:
        model = FairMixture(number, random_state=0, **settings)  # type: ignore[arg-type]
        with warnings.catch_warnings():
            # A bound that some number cannot meet is no matter here.
            warnings.simplefilter("ignore")
            bics[number] = model.fit(X, sensitive_features=groups).bic(X)
    return min(bics, key=bics.__getitem__)


def main() -> None:
    """Measure and write."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    lines = []
    for name, settings in KINDS.items():
        cells = [
            ", ".join(str(chosen(settings, imbalance, seed)) for seed in SEEDS)
            for imbalance in (0.0, 0.3)
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    text = PAGE.read_text("utf-8")
    found = TABLE.search(text)
    assert found is not None
    PAGE.write_text(text.replace(found[2], "\n".join(lines)), "utf-8")


if __name__ == "__main__":
    main()
