"""Make docs/theory/which-rule.md: what each rule bounds on Adult, and what it misses.

The figures are in docs/theory/which-rule.json. --text writes the page from them, without a fit.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from fairmix import FairMixture
from fairmix.criteria import best_balance
from fairmix.datasets import load_adult, paper_preprocessing
from fairmix.fitting.starts import kmeans_labels
from fairmix.kernels.totals import FloatArray, IntArray
from fairmix.metrics import balance, clustering_cost, gap, group_counts, rate_ratio
from fairmix.results.certificate import certify
from fairmix.results.fairness import FOUR_FIFTHS

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGE, FIGURES = DOCS / "theory" / "which-rule.md", DOCS / "theory" / "which-rule.json"
TEMPLATES = DOCS / "_templates"
N_COMPONENTS = 10
MAX_GAP = 0.01
BALANCE_SHARE = 0.8  # of the best possible Balance, as four fifths are of the best ratio
MAPS = ("blind", "aware")
RATIOS = ("ratio", "balance", "representation")


def rules(best: float) -> dict[str, dict[str, float]]:
    """Parameters of each rule."""
    # Three digits, as a person would type it, rounded up so that it is no less than asked for.
    least = float(np.ceil(BALANCE_SHARE * best * 1e3) / 1e3)
    return {
        f"max_gap={MAX_GAP:g}": {"max_gap": MAX_GAP},
        f"min_ratio={FOUR_FIFTHS:g}": {"min_ratio": FOUR_FIFTHS},
        f"min_balance={least:g}": {"min_balance": least},
    }


def representation(counts: FloatArray) -> float:
    """1 - d of Bera et al.: shares are between this times and one over this times those of all."""
    shares = counts / counts.sum(axis=0)
    overall = counts.sum(axis=1, keepdims=True) / counts.sum()
    relative = shares / overall
    return float(min(relative.min(), 1 / relative.max()))


def row(method: str, X: FloatArray, sex: Any, labels: IntArray) -> dict[str, Any]:
    """The figures of one clustering."""
    counts = group_counts(labels, sex)
    # Groups are sorted: Female is the first.
    women = counts[0] / counts.sum(axis=0)
    return {
        "method": method,
        "cost": clustering_cost(X, labels),
        "gap": gap(labels, sex),
        "ratio": rate_ratio(labels, sex),
        "balance": balance(labels, sex),
        "representation": representation(counts),
        "least_women": float(women.min()),
        "most_women": float(women.max()),
        "rows_of_least": int(counts[:, women.argmin()].sum()),
        "rows_of_most": int(counts[:, women.argmax()].sum()),
        "filled": int((counts.sum(axis=0) > 0).sum()),
    }


def measure(only: str = "") -> dict[str, Any]:
    """All figures, or those of the methods that begin so."""
    adult = load_adult()
    X, sex = paper_preprocessing(adult.X), np.asarray(adult.sex)
    sizes = group_counts(np.zeros(len(X), dtype=int), sex)[:, 0]
    best = best_balance(sizes)
    rows = []
    if not only:
        rows.append(row("K-means", X, sex, kmeans_labels(X, N_COMPONENTS, 0)))
    for rule, settings in {"plain mixture": {"fairness_strength": 0.0}, **rules(best)}.items():
        for assignment in MAPS if "=" in rule else MAPS[:1]:
            method = f"{rule}, {assignment}" if "=" in rule else rule
            if not method.startswith(only):
                continue
            given: dict[str, Any] = {**settings, "assignment": assignment, "n_jobs": -1}
            model = FairMixture(N_COMPONENTS, random_state=0, **given)
            model.fit(X, sensitive_features=sex)
            rows.append({**row(method, X, sex, model.labels_), "verdict": model.verdict_})
            print(rows[-1], flush=True)
    found: dict[str, Any] = {
        "rows": rows,
        "n_rows": len(X),
        "women": float(sizes[0] / sizes.sum()),
        "best_balance": best,
    }
    if not only:
        found["fresh"] = fresh(X, sex, best)
    return found


def fresh(X: FloatArray, sex: Any, best: float) -> list[dict[str, Any]]:
    """Fits to a random half, seen and certified on the other half."""
    order = np.random.default_rng(0).permutation(len(X))
    fit, held = order[: len(X) // 2], order[len(X) // 2 :]
    gaps, ratios, _ = rules(best).items()
    # The margin is for the rule that people promise to keep.
    stricter = (f"{ratios[0]}, margin=chance", {**ratios[1], "margin": "chance"})
    out = []
    for rule, settings in (gaps, ratios, stricter):
        for assignment in MAPS:
            given: dict[str, Any] = {**settings, "assignment": assignment, "n_jobs": -1}
            model = FairMixture(N_COMPONENTS, random_state=0, **given)
            model.fit(X[fit], sensitive_features=sex[fit])
            groups = {"sensitive_features": sex[held]} if assignment == "aware" else {}
            labels = model.predict(X[held], **groups)
            of_gap, of_ratio = (
                certify(labels, sex[held], criterion=criterion, n_clusters=N_COMPONENTS)
                for criterion in ("gap", "rate_ratio")
            )
            out.append(
                {
                    "method": f"{rule}, {assignment}",
                    "gap_of_fit": float(model.gap_),
                    "gap": of_gap.value,
                    "certified_gap": of_gap.bound,
                    "ratio_of_fit": float(model.ratio_),
                    "ratio": of_ratio.value,
                    "certified_ratio": of_ratio.bound,
                }
            )
            print(out[-1], flush=True)
    return out


def table(titles: list[str], lines: list[list[str]]) -> str:
    """A Markdown table, numbers at the right."""
    rule = ["---", *["---:"] * (len(titles) - 1)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [titles, rule, *lines])


def page(found: dict[str, Any]) -> str:
    """The page."""
    by_name = {line["method"]: line for line in found["rows"]}
    rules_table = table(
        ["", "cost", "gap", "ratio", "Balance", "representation", "women, by cluster"],
        [
            [
                f"`{line['method']}`" if "=" in line["method"] else line["method"],
                f"{line['cost']:,.0f}",
                f"{line['gap']:.4f}",
                *(f"{line[name]:.3f}" for name in RATIOS),
                f"{line['least_women']:.1%} to {line['most_women']:.1%}",
            ]
            for line in found["rows"]
        ],
    )
    fresh_table = table(
        ["", "gap", "unseen", "certified", "ratio", "unseen", "certified"],
        [
            [
                f"`{line['method']}`",
                *(f"{line[name]:.3f}" for name in ("gap_of_fit", "gap", "certified_gap")),
                *(f"{line[name]:.3f}" for name in ("ratio_of_fit", "ratio", "certified_ratio")),
            ]
            for line in found["fresh"]
        ],
    )
    small = by_name[f"max_gap={MAX_GAP:g}, blind"]
    crowded = next(v for k, v in by_name.items() if k.startswith("min_balance") and "aware" in k)
    templates = Environment(
        loader=FileSystemLoader(TEMPLATES),
        undefined=StrictUndefined,
        autoescape=False,  # the pages are Markdown
        keep_trailing_newline=True,
    )
    return templates.get_template("which-rule.md.jinja").render(
        n_rows=f"{found['n_rows']:,}",
        n_half=f"{found['n_rows'] - found['n_rows'] // 2:,}",
        women=f"{found['women']:.1%}",
        best=f"{found['best_balance']:.3f}",
        rules=rules_table,
        fresh=fresh_table,
        small_rows=f"{small['rows_of_least']:,}",
        small_share=f"{small['rows_of_least'] / found['n_rows']:.1%}",
        small_women=f"{small['least_women']:.1%}",
        small_gap=f"{small['gap']:.4f}",
        crowded_women=f"{crowded['most_women']:.1%}",
    )


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text", action="store_true", help="only write the text anew")
    if not parser.parse_args().text:
        FIGURES.write_text(json.dumps(measure(), indent=1) + "\n", "utf-8")
    PAGE.write_text(page(json.loads(FIGURES.read_text("utf-8"))), "utf-8")


if __name__ == "__main__":
    main()
