"""Results: what an entry concludes from its records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from math import isnan
from typing import Any

from fairmix.reproduction.records import Records
from fairmix.reproduction.settings import Settings
from fairmix.reproduction.units import Unit


@dataclass(frozen=True)
class Table:
    """A table of text."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, and whether the figures of this run bear it out; None: not measured."""

    text: str
    # Three values, not two: what did not run neither confirms nor refutes a claim.
    holds: bool | None
    figures: str

    @property
    def verdict(self) -> str:
        """In words."""
        if self.holds is None:
            return "not measured here"
        return "holds here" if self.holds else "does not hold here"


@dataclass(frozen=True)
class Series:
    """A line or points of a panel, with half the width of a band if there is one.

    ``faint``: hollow, and not in the legend. ``guide``: a line to compare with, not a measurement.
    """

    label: str
    x: Sequence[float]
    y: Sequence[float]
    line: bool = True
    band: Sequence[float] | None = None
    faint: bool = False
    guide: bool = False


@dataclass(frozen=True)
class Panel:
    """One plot of a figure."""

    title: str
    x_name: str
    y_name: str
    series: Sequence[Series]
    log_x: bool = False
    log_y: bool = False


@dataclass(frozen=True)
class Result:
    """Tables, claims, notes and the panels of a figure."""

    tables: Sequence[Table] = ()
    claims: Sequence[Claim] = ()
    notes: Sequence[str] = ()
    panels: Sequence[Panel] = field(default=())

    def to_json(self) -> dict[str, Any]:
        """Tables, claims and notes as JSON has them; the panels become a picture."""
        claims = [{**asdict(claim), "verdict": claim.verdict} for claim in self.claims]
        tables = [asdict(table) for table in self.tables]
        return {"tables": tables, "claims": claims, "notes": list(self.notes)}


@dataclass(frozen=True)
class Entry:
    """A table or figure of the paper.

    Attributes
    ----------
    name : str
        What ``fairmix reproduce`` calls it.
    title : str
        A line about it.
    place : str
        Where in the paper it is.
    paper_says : str
        What the paper claims there.
    units : callable
        The units that it needs, for some settings.
    conclude : callable
        From settings and records to the result.
    """

    name: str
    title: str
    place: str
    paper_says: str
    units: Callable[[Settings], list[Unit]]
    conclude: Callable[[Settings, Records], Result]


def whole(value: float | None) -> str:
    """A cost."""
    return "" if value is None or isnan(value) else f"{value:,.0f}"


def decimals(value: float | None, digits: int = 3) -> str:
    """A gap, a balance or a likelihood."""
    return "" if value is None or isnan(value) else f"{value:.{digits}f}"


def shortfall(
    name: str, measures: Iterable[tuple[str, float, float, float]], why: str
) -> list[str]:
    """A sentence where ours is worse than the paper's, with the reason; else nothing.

    Parameters
    ----------
    name : str
        Row of the table.
    measures : iterable of (str, float, float, float)
        Name, ours, the paper's, and by how much ours may be higher; negative where higher is
        better, and it then may be lower by as much.
    why : str
        The reason.
    """
    worse = [
        f"{measure} ({_digits(ours)} against {_digits(theirs)})"
        for measure, ours, theirs, slack in measures
        # The sign of the slack says which direction is worse.
        if (ours - theirs > slack if slack >= 0 else theirs - ours > -slack)
    ]
    return [f"{name}: worse than the paper's in {' and '.join(worse)}. {why}"] if worse else []


def _digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3f}"
