"""What a notebook shows of a fitted model, below scikit-learn's picture of it."""

from __future__ import annotations

from html import escape
from typing import Any

# Names of groups before "and 3 more".
LISTED = 5


def measured(estimator: Any) -> str:
    """The gap and the ratio on the data of the fit, and of which groups; nothing before them."""
    if not hasattr(estimator, "gap_") or len(estimator.fitted_.groups.names) < 2:
        return ""
    groups = list(estimator.fitted_.groups.names)
    names = ", ".join(groups[:LISTED])
    if len(groups) > LISTED:
        names += f" and {len(groups) - LISTED} more"
    criterion = estimator.criterion.replace("_", " ")
    figures = {
        "max_gap": f"{criterion} of the {estimator.gap_of} {estimator.gap_:.4f}",
        "min_ratio": f"smallest ratio of rates {estimator.ratio_:.3f}",
        "min_balance": f"balance {estimator.balance_:.3f}",
    }
    rule = estimator.fitted_.rule
    # The rule stands beside what it is on.
    if rule.limit is not None:
        figures[rule.limit.parameter] += f" ({rule.text}: {estimator.verdict_})"
    said = ", ".join(figures.values())
    return f"<p>On the data of the fit: {said}. Groups: {escape(names)}.</p>"
