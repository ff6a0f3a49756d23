"""The table for three groups, continuous columns."""

from __future__ import annotations

from fairmix.reproduction import methods as m
from fairmix.reproduction import paper
from fairmix.reproduction.records import Point, Records, cheapest
from fairmix.reproduction.result import (
    Claim,
    Entry,
    Gain,
    Result,
    Table,
    decimals,
    measured,
    shortfall,
    whole,
)
from fairmix.reproduction.settings import Settings
from fairmix.reproduction.sweeps import SWEPT, sweep
from fairmix.reproduction.units import Unit
from fairmix.reproduction.views import TITLES

DATA = ("bank", "credit")
# Those of the paper's rows.
STRENGTHS = (4.0, 10.0)
# At which VFC has about the Delta of the paper's row.
VARIATIONAL = {"bank": 1.0, "credit": 2.0}
ALIKE = 0.01  # of the cost
NOTES = (
    "The paper's formula takes the largest cluster, but its K-means rows match the mean over "
    "clusters. Both are shown; compare the mean with the paper's Delta.",
    "The paper calls Credit's column NLL; its K-means entry, 4901, is the cost.",
    "Here lambda is on the scale of the mean log-likelihood; the paper does not say which scale "
    "its 4 and 10 are on, so those rows need not agree.",
    "The paper's fair solutions keep little structure: a single cluster costs 40,204 on Bank and "
    "29,166 on Credit.",
)


def units(settings: Settings) -> list[Unit]:
    """The rows of the table, and ours."""
    tasks = []
    for data in DATA:
        view = settings.view(data, groups=3)
        tasks += sweep(settings, view, m.KMEANS)
        tasks += sweep(settings, view, m.MM_EM)
        tasks += sweep(settings, view, m.VFC, [VARIATIONAL[data]])
        tasks += sweep(settings, view, m.FMC_EM, STRENGTHS)
        for method in (m.LABELS, m.AWARE):
            tasks += sweep(
                settings,
                view,
                method,
                # The tightest that there is, nearly perfect, and loose: the paper claims that the
                # level can be chosen.
                (settings.bounds[0], settings.tight_bound, 10 * settings.tight_bound),
            )
    return tasks


def conclude(settings: Settings, records: Records) -> Result:
    """Ours beside the paper's, with both readings of Delta."""
    rows, claims, gains, notes = [], [], [], list(NOTES)
    for data in DATA:
        view, printed = settings.view(data, groups=3), paper.THREE_GROUPS[data]
        own = [point for point in records if point.unit.view == view]
        for point in own:
            # VFC has a strength too, but the paper's row of it names none.
            strength = point.setting("fairness_strength") if point.unit.method == m.FMC_EM else None
            theirs = printed.get((point.unit.method, strength))
            told = ["", "", ""]
            if theirs is not None:
                told = [decimals(theirs.balance), whole(theirs.quality), decimals(theirs.delta)]
                notes += _difference(TITLES[data], point, theirs) + _lost(
                    TITLES[data], point, theirs
                )
            rows.append([TITLES[data], _name(point), *told, *_cells(point)])
        notes += _readings(TITLES[data], own, printed[m.KMEANS, None])
        claims += _claims(TITLES[data], own, printed)
        gains.append(_gain(TITLES[data], own, printed[m.FMC_EM, 10.0]))
    columns = ["data", "method", "paper: Balance", "Cost", "Delta", "ours: Balance", "Cost"]
    columns += ["mean over clusters", "Delta as printed (max)", "soft Delta", "clusters"]
    return Result([Table("Three groups", columns, rows)], claims, notes, gains=gains)


def _readings(title: str, own: list[Point], theirs: paper.Three) -> list[str]:
    plain = next((point for point in own if point.unit.method == m.KMEANS), None)
    if plain is None:
        return []
    return [
        f"{title}: the paper's Delta of K-means is {theirs.delta}; ours is "
        f"{plain['mean_gap']:.4f} as a mean over clusters and {plain['gap']:.4f} in the largest."
    ]


def _difference(title: str, ours: Point, theirs: paper.Three) -> list[str]:
    measures = [
        # Slack for Balance and Delta of a few units of the last printed digit, and 1 % of the cost.
        ("Balance", ours["balance"], theirs.balance, -0.005),
        ("Cost", ours["cost"], theirs.quality, 0.01 * theirs.quality),
        ("Delta (mean over clusters)", ours["mean_gap"], theirs.delta, 0.005),
    ]
    why = {
        m.FMC_EM: (
            "On our scale this strength is weaker than on the paper's; see our own rows, "
            "which meet their bound."
        ),
        m.VFC: "A stronger or weaker VFC moves along its front.",
    }
    return shortfall(f"{title}, {_name(ours)}", measures, why.get(ours.unit.method, ""))


def _lost(title: str, ours: Point, theirs: paper.Three) -> list[str]:
    """A sentence where ours has the paper's cost because clusters are empty."""
    # A cost as high as the paper's with fewer clusters hints at how it came about.
    if ours.filled or abs(ours["cost"] / theirs.quality - 1) > ALIKE:
        return []
    return [
        f"{title}, {_name(ours)}: ours keeps {ours['clusters']:g} clusters and has about the "
        f"paper's cost ({whole(ours['cost'])} against {whole(theirs.quality)}), so the paper's "
        "fit may have lost as many; it does not say."
    ]


def _name(point: Point) -> str:
    swept = SWEPT.get(point.unit.method)
    if swept is None:
        return point.unit.method
    return f"{point.unit.method} ({swept.replace('_', ' ')} {point.setting(swept):g})"


def _cells(point: Point) -> list[str]:
    head = [measured(point, "balance"), measured(point, "cost")]
    gaps = [measured(point, name, 4) for name in ("mean_gap", "gap", "soft_gap")]
    return [*head, *gaps, f"{point['clusters']:g}"]


def _as_fair(own: list[Point], family: tuple[str, ...], balance: float) -> Point | None:
    return cheapest(
        [point for point in own if point.unit.method in family],
        # Half a unit of the last printed digit.
        lambda point: point["balance"] >= balance - 0.0005,
    )


def _told(name: str, point: Point | None) -> str:
    if point is None:
        return f"{name} has no such fit"
    return f"{name} has Balance {decimals(point['balance'])}, cost {whole(point['cost'])}"


def _claims(
    title: str, own: list[Point], printed: dict[tuple[str, float | None], paper.Three]
) -> list[Claim]:
    fair = printed[m.FMC_EM, 10.0]
    families = {"FMC-EM": (m.FMC_EM,), "our blind map": (m.LABELS,), "our aware map": (m.AWARE,)}
    best = {name: _as_fair(own, family, fair.balance) for name, family in families.items()}
    reached = {
        name: point is not None and point["cost"] <= fair.quality for name, point in best.items()
    }
    weak, strong = (
        next((point for point in own if point.setting("fairness_strength") == strength), None)
        for strength in STRENGTHS
    )
    claims = [
        Claim(
            "FMC reaches nearly perfect fairness for three groups, at the printed Balance and cost",
            reached.pop("FMC-EM"),
            f"Printed: {fair.balance} at {whole(fair.quality)}; "
            f"{'; '.join(_told(name, point) for name, point in best.items())}.",
            title,
            ours=any(reached.values()),
        )
    ]
    variational = next((point for point in own if point.unit.method == m.VFC), None)
    if weak is None or strong is None or variational is None:
        return claims
    ours = [point for point in own if point.unit.method == m.LABELS]
    levels = ", ".join(f"{point['gap']:.4f}" for point in sorted(ours, key=lambda p: p["gap"]))
    return [
        *claims,
        Claim(
            "FMC controls the level of fairness for three groups",
            weak.filled and strong.filled and strong["gap"] < weak["gap"],
            f"FMC-EM at lambda {STRENGTHS[0]:g} and {STRENGTHS[1]:g} has Delta {weak['gap']:.4f} "
            f"and {strong['gap']:.4f} with {weak['clusters']:g} and {strong['clusters']:g} "
            f"clusters; our blind map has Delta {levels}.",
            title,
            ours=all(point.filled for point in ours) and len({p["gap"] for p in ours}) > 1,
        ),
        Claim(
            f"VFC costs less than FMC (lambda = {STRENGTHS[0]:g})",
            variational["cost"] < weak["cost"],
            f"VFC costs {whole(variational['cost'])} at Delta {variational['gap']:.4f}, FMC-EM "
            f"{whole(weak['cost'])} at {weak['gap']:.4f}.",
            title,
        ),
    ]


def _gain(title: str, own: list[Point], theirs: paper.Three) -> Gain:
    blind, aware = (_as_fair(own, family, theirs.balance) for family in ((m.LABELS,), (m.AWARE,)))
    return Gain(
        f"{title}, three groups, Balance {theirs.balance}",
        "Cost",
        theirs.quality,
        None if blind is None else blind["cost"],
        None if aware is None else aware["cost"],
    )


ENTRY = Entry(
    "three-groups",
    "Three groups, continuous columns, Bank and Credit",
    "Table of the appendix: continuous data, M = 3",
    "FMC reaches nearly perfect fairness for three groups and controls its level; VFC costs less.",
    units,
    conclude,
)
