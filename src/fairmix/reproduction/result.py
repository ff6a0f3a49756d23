"""Results: what an entry concludes from its records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from math import isnan
from typing import Any

from fairmix.reproduction.records import Point, Records
from fairmix.reproduction.settings import Settings
from fairmix.reproduction.units import Unit


@dataclass(frozen=True)
class Table:
    """A table of text."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


HOLDS, FOR_US = "holds", "holds for us, not as printed"
FAILS, OPEN = "does not hold", "not measured"


@dataclass(frozen=True)
class Claim:
    """A claim, and whether the figures of this run bear it out.

    Attributes
    ----------
    text : str
        What is claimed.
    holds : bool or None
        Whether it holds for the methods and settings of the paper; None: not measured.
    figures : str
        The numbers, in a sentence.
    part : str
        Data set, method or setting that the figures are about; empty for all.
    ours : bool
        Whether it holds for methods of fairmix.
    beyond : bool
        Whether it is a claim about fairmix that the paper does not make.
    """

    text: str
    # Three values, not two: what did not run neither confirms nor refutes a claim.
    holds: bool | None
    figures: str
    part: str = ""
    ours: bool = False
    beyond: bool = False

    @property
    def verdict(self) -> str:
        """In words."""
        if self.holds:
            return HOLDS
        if self.ours:
            return FOR_US
        return OPEN if self.holds is None else FAILS


@dataclass(frozen=True)
class Gain:
    """What the paper's FMC-EM reached at its Balance, and what ours do there.

    Attributes
    ----------
    what : str
        Data and Balance.
    measure : {"Cost", "NLL"}
        What is less.
    printed : float
        The paper's.
    blind, aware : float or None
        Ours, None where no fit has that Balance.
    """

    what: str
    measure: str
    printed: float
    blind: float | None
    aware: float | None


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
    """Tables, claims, notes, the panels of a figure, and where ours are ahead of the paper."""

    tables: Sequence[Table] = ()
    claims: Sequence[Claim] = ()
    notes: Sequence[str] = ()
    panels: Sequence[Panel] = ()
    gains: Sequence[Gain] = ()

    def to_json(self) -> dict[str, Any]:
        """Tables, claims and notes as JSON has them; the panels become a picture."""
        claims = [{**asdict(claim), "verdict": claim.verdict} for claim in self.claims]
        tables = [asdict(table) for table in self.tables]
        gains = [asdict(gain) for gain in self.gains]
        return {"tables": tables, "claims": claims, "notes": list(self.notes), "gains": gains}


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


def measured(point: Point, name: str, digits: int = 3) -> str:
    """A measure in a table: its mean, and its standard deviation where there are several seeds."""

    def told(value: float) -> str:
        return whole(value) if name == "cost" else decimals(value, digits)

    mean = told(point[name])
    return f"{mean} ± {told(point.spread(name))}" if mean and len(point.runs) > 1 else mean


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
