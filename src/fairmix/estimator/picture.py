"""What a notebook shows of a fitted model, below scikit-learn's picture of it."""

from __future__ import annotations

from html import escape
from typing import Any

# Names of groups before "and 3 more".
LISTED = 5


def measured(estimator: Any) -> str:
    """The gap on the data of the fit, and of which groups; nothing before there is one."""
    if not hasattr(estimator, "gap_") or len(estimator.groups_) < 2:
        return ""
    groups = estimator.groups_.tolist()
    names = ", ".join(groups[:LISTED])
    if len(groups) > LISTED:
        names += f" and {len(groups) - LISTED} more"
    asked = ""
    if estimator.fairness_strength == "auto":
        asked = f" ({estimator.fitted_.rule.text}: {estimator.verdict_})"
    criterion = estimator.criterion.replace("_", " ")
    return (
        f"<p>On the data of the fit: {criterion} of the {estimator.gap_of} "
        f"{estimator.gap_:.4f}{asked}, balance {estimator.balance_:.3f}. "
        f"Groups: {escape(names)}.</p>"
    )
