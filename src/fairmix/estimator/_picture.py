"""The picture of a fitted model in a notebook: scikit-learn's, and what was measured below it."""

from __future__ import annotations

from html import escape
from typing import Any

from numpy.typing import NDArray

# Names of groups before "and 3 more".
LISTED = 5


class Pictured:
    """Adds a line to scikit-learn's picture, once there is something to say."""

    max_gap: float
    gap_of: str
    criterion: str
    fairness_strength: float | str
    gap_: float
    balance_: float
    groups_: NDArray[Any]
    verdict_: str

    def _repr_html_inner(self) -> str:
        return f"{super()._repr_html_inner()}{self._measured()}"  # type: ignore[misc]

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] += self._measured()
        return bundle

    def _measured(self) -> str:
        """The gap on the data of the fit, and of which groups."""
        if not hasattr(self, "gap_") or len(self.groups_) < 2:
            return ""
        names = ", ".join(self.groups_[:LISTED].tolist())
        if len(self.groups_) > LISTED:
            names += f" and {len(self.groups_) - LISTED} more"
        asked = ""
        if self.fairness_strength == "auto":
            asked = f" (max_gap={self.max_gap:g}: {self.verdict_})"
        return (
            f"<p>On the data of the fit: {self.criterion.replace('_', ' ')} of the {self.gap_of} "
            f"{self.gap_:.4f}{asked}, balance {self.balance_:.3f}. Groups: {escape(names)}.</p>"
        )
