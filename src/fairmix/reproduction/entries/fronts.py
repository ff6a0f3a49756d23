"""Fronts of fairness against cost on Adult, Bank and Credit, with and without L2 normalisation."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from fairmix.reproduction import methods as m
from fairmix.reproduction.records import Point, Records, cheapest, cost_at, front
from fairmix.reproduction.result import Claim, Entry, Panel, Result, Series, Table, decimals, whole
from fairmix.reproduction.settings import Settings
from fairmix.reproduction.sweeps import SWEPT, sweep
from fairmix.reproduction.units import Unit
from fairmix.reproduction.views import TITLES, View, sample_notes

DATA = ("adult", "bank", "credit")
SHOWN = (m.KMEANS, m.MM_EM, m.SFC_ONE, m.SFC, m.VFC, m.FMC_EM, m.FMC_BOUNDED, m.LABELS, m.AWARE)
# On fronts of Balance also the maps that bound it, and more rivals; methods that see the group have
# panels of their own there, or nobody could tell so many lines apart.
SEEING = (m.SFC_ONE, m.SFC, m.VFC, m.FCA, m.LP, m.REPAIRED, *m.AWARE_RULES)
MORE = (m.FCA, m.LP, m.REPAIRED, m.RATIO, m.RATIO_AWARE, m.BALANCE, m.BALANCE_AWARE)
NAMES = {"gap": "Delta (gap of the labels)", "balance": "Balance"}
# Near perfect fairness: what SFC reaches, or this.
NEAR = 0.0025
SFC_WORDS = {m.SFC_ONE: "SFC as published (one tree)", m.SFC: "our SFC (best of ten trees)"}
HOLLOW = (
    "Hollow points are dominated: another fit of the same method is as good in both "
    "respects and better in one."
)
VFC_FLOOR = 0.06  # the paper on Bank
# Methods that see the group, and that our aware maps are compared with at their Balance.
RIVALS = (m.SFC, m.VFC, m.FCA, m.LP, m.REPAIRED)
LP_NOTE = (
    "The linear program (LP) bounds shares from both sides, and K-means, repaired, Balance alone; "
    "both keep the centres of K-means. Balance is one-sided: it lets the smaller group be "
    "over-represented."
)


def units(settings: Settings, *, unit_length: bool) -> list[Unit]:
    """Every method on each data set."""
    return [
        task
        for data in DATA
        for method in (*SHOWN, *MORE)
        # With L2 normalisation these are the fits that several tables need too, so they run once.
        for task in sweep(settings, settings.front_view(data, unit_length), method)
    ]


def conclude(settings: Settings, records: Records, *, x: str, unit_length: bool) -> Result:
    """One panel and one table per data set, and the claims."""
    views = [settings.front_view(data, unit_length) for data in DATA]
    notes = [
        "The paper prints no numbers for this figure, so its claims are checked instead.",
        "A small gap is easier to reach with fewer clusters, so the figure and the claims cover "
        "only fits that kept all clusters; the tables list every fit.",
        HOLLOW,
        "SFC, VFC and our aware map see the group of each row; FMC, a map of x alone, does not. "
        "That explains the difference between blind and aware here, most of all on Credit.",
    ]
    claims = [claim for view in views for claim in front_claims(records, view)]
    panels = [front_panel(records, view, x) for view in views]
    if x == "balance":
        notes.append(LP_NOTE)
        claims += [_least_at_balance(records, view, rival) for view in views for rival in RIVALS]
        blind = [name for name in (*SHOWN, *MORE) if name not in SEEING]
        panels = [front_panel(records, view, x, blind, ", blind") for view in views]
        seeing = (m.KMEANS, *SEEING)
        panels += [front_panel(records, view, x, seeing, ", seeing the group") for view in views]
    return Result(
        tables=[front_table(records, view) for view in views],
        claims=claims,
        notes=[*notes, *sample_notes(views[0])],
        panels=panels,
    )


def front_panel(
    records: Records, view: View, x: str, methods: Sequence[str] = (), words: str = ""
) -> Panel:
    """Non-dominated points of each method on a line, the others faint; all methods for none."""
    series = []
    # In the order of the units: `set` would shuffle the legend.
    for method in methods or dict.fromkeys(point.unit.method for point in records):
        points = [point for point in records.points(method, view) if point.filled]
        kept = front(points, x)
        beaten = [point for point in points if point not in kept]
        series.append(Series(method, [p[x] for p in kept], [p["cost"] for p in kept]))
        if beaten:
            xs, ys = [p[x] for p in beaten], [p["cost"] for p in beaten]
            series.append(Series(method, xs, ys, line=False, faint=True))
    return Panel(TITLES[view.data] + words, NAMES[x], "Cost", series)


def front_table(records: Records, view: View) -> Table:
    """All points of a view."""
    rows = []
    for point in records:
        if point.unit.view == view:
            swept = SWEPT.get(point.unit.method)
            value = "" if swept is None else f"{swept.replace('_', ' ')} {point.setting(swept):g}"
            rows.append([point.unit.method, value, *_cells(point)])
    columns = ["method", "setting", "Delta", "soft Delta", "Balance", "Cost", "NLL", "clusters"]
    return Table(TITLES[view.data], columns, rows)


def _cells(point: Point) -> list[str]:
    return [
        decimals(point["gap"], 4),
        decimals(point["soft_gap"], 4),
        decimals(point["balance"]),
        whole(point["cost"]),
        decimals(point["nll"]),
        f"{point['clusters']:g}",
    ]


def front_claims(records: Records, view: View) -> list[Claim]:
    """What the paper reads off its fronts."""
    claims = [
        # Against both: a single random tree is what the paper ran, ten trees are the harder rival.
        _cheaper_than_sfc(records, view, m.BLIND_FMC, "FMC (blind)", m.SFC_ONE),
        _cheaper_than_sfc(records, view, m.BLIND_FMC, "FMC (blind)", m.SFC),
        _cheaper_than_sfc(records, view, (m.AWARE,), "FMC, aware (ours)", m.SFC),
        _covers_range(records, view),
        _variational_ahead(records, view),
    ]
    # The paper makes this claim about one data set only.
    if view.data == "bank" and view.unit_length:
        claims.append(_variational_floor(records, view))
    return claims


def _cheaper_than_sfc(
    records: Records, view: View, family: tuple[str, ...], words: str, rival: str
) -> Claim:
    text = f"{TITLES[view.data]}: {words} costs less than {SFC_WORDS[rival]} near perfect fairness"
    sfc = records.one(rival, view)
    if sfc is None:
        return Claim(text, None, "SFC did not run.")
    # SFC has one point, so the comparison is at its gap. Where it happens to be nearly 0, the
    # tightest bounds of ours would still count as less fair.
    allowed = max(sfc["gap"], NEAR)
    best = cheapest(records.points(family, view), lambda point: point["gap"] <= allowed)
    sfc_words = f"SFC costs {whole(sfc['cost'])} at Delta {decimals(sfc['gap'], 4)}"
    if best is None:
        return Claim(text, False, f"No such fit with Delta up to {allowed:.4f}; {sfc_words}.")
    figures = (
        f"{best.unit.method} costs {whole(best['cost'])} at Delta {decimals(best['gap'], 4)}; "
        f"{sfc_words}."
    )
    return Claim(text, best["cost"] < sfc["cost"], figures)


def _covers_range(records: Records, view: View) -> Claim:
    text = f"{TITLES[view.data]}: FMC covers the whole range of Delta, from plain to nearly 0"
    gaps = [point["gap"] for point in records.points(m.BLIND_FMC, view) if point.filled]
    plain = [point["gap"] for point in records.points((m.MM_EM, m.KMEANS), view)]
    if not gaps or not plain:
        return Claim(text, None, "No fit kept all clusters.")
    # Not all of the plain gap is asked for: the loosest bound, 0.1, is below it on Adult (0.105).
    holds = min(gaps) <= NEAR and max(gaps) >= 0.8 * min(plain)
    figures = (
        f"Delta from {min(gaps):.4f} to {max(gaps):.4f}; K-means and the plain mixture have "
        f"{' and '.join(f'{gap:.4f}' for gap in plain)}."
    )
    alone = [point["gap"] for point in records.points(m.FMC_EM, view) if point.filled]
    if alone:
        figures += f" FMC-EM with a strength alone reaches {min(alone):.4f} with all clusters."
    return Claim(text, holds, figures)


def _variational_ahead(records: Records, view: View) -> Claim:
    text = f"{TITLES[view.data]}: VFC costs less than FMC (blind) at the same Delta, where VFC runs"
    pairs = []
    for point in records.points(m.VFC, view):
        # FMC has no fit at exactly the gap of VFC, so its cost there is read off its front.
        cost = cost_at(records.points(m.BLIND_FMC, view), point["gap"])
        if cost is not None and point.filled:
            pairs.append((point["cost"], cost))
    if not pairs:
        return Claim(text, None, "No common Delta.")
    cheaper = sum(own < other for own, other in pairs)
    most = max(other / own for own, other in pairs)
    figures = f"At {cheaper} of {len(pairs)} points; FMC costs up to {most:.2f} times as much."
    return Claim(text, cheaper > len(pairs) / 2, figures)


def _least_at_balance(records: Records, view: View, rival: str) -> Claim:
    text = f"{TITLES[view.data]}: FMC, aware (ours) costs no more than {rival} at its Balance"
    pairs = []
    for point in records.points(rival, view):
        cost = cost_at(records.points(m.AWARE_RULES, view), point["balance"], "balance")
        if cost is not None and point.filled:
            pairs.append((cost, point["cost"]))
    if not pairs:
        return Claim(text, None, "No common Balance.")
    holds = sum(own <= other for own, other in pairs)
    ratios = [own / other for own, other in pairs]
    figures = f"At {holds} of {len(pairs)} points; ours costs {min(ratios):.3f} to "
    return Claim(text, holds == len(pairs), f"{figures}{max(ratios):.3f} times as much.")


def _variational_floor(records: Records, view: View) -> Claim:
    lowest = min((point["gap"] for point in records.points(m.VFC, view)), default=None)
    text = f"Bank: VFC gives no clustering with Delta below {VFC_FLOOR}"
    if lowest is None:
        return Claim(text, None, "VFC did not run.")
    return Claim(
        text,
        lowest >= VFC_FLOOR,
        f"Our VFC, which adapts its step, reaches {lowest:.4f}.",
    )


def _entry(x: str, unit_length: bool) -> Entry:
    measure = "Delta" if x == "gap" else "Balance"
    names = {("gap", True): "front-delta", ("balance", True): "front-balance"}
    name = names.get((x, unit_length), f"front-{measure.lower()}-raw")
    prepared = "with" if unit_length else "without"
    return Entry(
        name,
        f"{measure} against Cost on Adult, Bank and Credit, {prepared} L2 normalisation",
        f"Figure of the {'main text' if x == 'gap' and unit_length else 'appendix'}: Pareto "
        f"fronts between {measure} and Cost {'' if unit_length else 'without L2 normalisation'}",
        "FMC costs less than SFC near perfect fairness and covers the whole range of fairness; "
        "VFC costs slightly less than FMC but cannot reach every level, and without L2 "
        "normalisation it may fail.",
        partial(units, unit_length=unit_length),
        partial(conclude, x=x, unit_length=unit_length),
    )


ENTRIES = tuple(_entry(x, length) for length in (True, False) for x in ("gap", "balance"))
