"""Make docs/bounds.md: does the bound hold, and what does it cost? All data, modes and families.

Bank and Credit are read from the folder FAIRMIX_DATA.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from fairmix import FairMixture, pareto_front
from fairmix.reproduction.views import TITLES, View, prepare
from fairmix.studies import ParetoFront

PAGE = Path(__file__).resolve().parents[1] / "docs" / "bounds.md"
MAX_GAPS = (0.0, 0.005, 0.01, 0.02, 0.05, 0.1)
N_COMPONENTS = 10
DATA = ("adult", "bank", "credit")
COLUMNS = ("continuous", "categorical", "mixed")
HEAD = """\
# Does the bound hold?

Written by `scripts/generate bounds` with `pareto_front(FairMixture(10, ..., random_state=0), ...)`
for the bounds 0, 0.005, 0.01, 0.02, 0.05 and 0.1, two groups and K = 10. Continuous columns are
prepared as in the paper. Cost is the squared distance of the continuous columns to the cluster
means; NLL is the negative mean log-likelihood of the density. *filled* counts the clusters with
members. The verdict is that of the fit: a bound finer than whole rows can resolve (here less than
0.0001) counts as met within that resolution, and nothing is added to any other bound.

Bounds on labels are fitted with `ties="split"`, so that equal rows, which are common in purely
categorical data, may be in different clusters. For categorical columns, the page also shows a bound
on probabilities.

In fronts of continuous columns, the cost does not rise as the bound loosens. A mixed model weighs
all columns by their likelihood, so there the NLL is the yardstick: the cost of its continuous
columns alone may rise while the likelihood of all columns improves.
"""


def sections(view: View) -> Iterator[str]:
    """A section for every assignment and what is bounded."""
    for assignment in ("aware", "blind"):
        for gap_of in ["labels", "probabilities"] if view.columns == "categorical" else ["labels"]:
            title = f"{TITLES[view.data]}, {view.columns}, {assignment}, bound on {gap_of}"
            started = time.perf_counter()
            front = fit(view, assignment, gap_of)
            print(f"{title}: {time.perf_counter() - started:.0f} s\n{front}", flush=True)
            yield f"\n## {title}\n\n{table(front)}\n"


def fit(
    view: View, assignment: Any, gap_of: Any, bounds: tuple[float, ...] = MAX_GAPS
) -> ParetoFront:
    """The front of the bounds."""
    data = prepare(view)
    model = FairMixture(
        N_COMPONENTS,
        assignment=assignment,
        gap_of=gap_of,
        ties="split" if gap_of == "labels" else "together",
        random_state=0,
        n_jobs=-1,
    )
    return pareto_front(model, data.X, sensitive_features=data.groups, max_gaps=bounds)


def table(front: ParetoFront) -> str:
    """A Markdown table."""
    titles = "max_gap", "gap", "verdict", "balance", "cost", "NLL", "filled"
    out = [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    for row in front.rows:
        cost = "" if np.isnan(row.cost) else f"{row.cost:,.0f}"
        out.append(
            f"| {row.max_gap:g} | {row.gap:.5f} | {row.verdict} | {row.balance:.3f} | {cost} "
            f"| {row.nll:.3f} | {row.non_empty} |"
        )
    return "\n".join(out)


def main() -> None:
    """Fit every front and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=PAGE)
    parser.add_argument("--data", nargs="*", choices=DATA, default=DATA)
    parser.add_argument("--columns", nargs="*", choices=COLUMNS, default=COLUMNS)
    arguments = parser.parse_args()
    parts = [HEAD]
    for name in arguments.data:
        for columns in arguments.columns:
            for section in sections(View(name, columns)):
                parts.append(section)
                # After every section: a front takes minutes, and a run may be ended early.
                arguments.out.write_text("".join(parts), "utf-8")


if __name__ == "__main__":
    main()
