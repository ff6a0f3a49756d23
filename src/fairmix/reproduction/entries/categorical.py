"""The tables for categorical columns, two and three groups."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from fairmix.reproduction import methods as m
from fairmix.reproduction import paper
from fairmix.reproduction.records import Point, Records, fairest
from fairmix.reproduction.result import Claim, Entry, Result, Table, decimals, shortfall
from fairmix.reproduction.settings import Settings
from fairmix.reproduction.sweeps import SWEPT, sweep
from fairmix.reproduction.units import Unit
from fairmix.reproduction.views import TITLES, View, best_balance, sample_notes

OURS = (m.LABELS, m.BALANCE, m.AWARE)
METHODS = (m.MM_GD, m.MM_EM, m.FMC_GD, m.FMC_EM, m.FMC_BOUNDED, *OURS)
# Equal rows are many in these columns, and together they cannot meet every bound.
SPLIT = {"ties": "split"}
# Just above the shares of the best possible Balance that the paper's rows have, 0.84 to 0.975.
SHARE = 0.98
STRENGTHS = (5.0, 20.0)
# The one of them at which FMC-EM has the higher Balance; a quick run has time for one.
BETTER = {"adult": 5.0, "bank": 20.0, "credit": 5.0}
# Maps of x alone, as in the paper; an aware fit would not bear out its claim.
FAMILY = (m.FMC_GD, *m.BLIND_FMC)
NEARLY = 0.002  # of Balance
CLOSE = 0.01  # of NLL
NOTES = (
    "The paper does not give lambda for this table. Of the strengths and bounds that ran, the "
    "fit with the highest Balance among those that kept all clusters is shown.",
    "Our Delta is the largest over clusters, as in the paper's formula. The paper's column is "
    "close to our mean over clusters, with two groups as well as with three, so compare it with "
    "that.",
    "Equal rows get equal labels, so the labels of categorical rows cannot meet every bound: on "
    "Credit the most frequent row makes up a tenth of all rows, and the four most frequent a "
    "third.",
    "FMC-EM, bounded maximises the likelihood, as the paper does. Our own methods fit the "
    "components to labels, which maximises the joint likelihood of rows and labels, so their NLL "
    "is higher.",
    "On all rows of Bank with two groups, FMC-EM, bounded from one start has Balance 0.635 and "
    "NLL 9.980: a higher Balance than in the paper's row, and a log-likelihood that is lower by "
    "0.04.",
    "The plain rows differ: the paper's categorical start is random, and its likelihoods belong "
    "to worse optima. A plain mixture with a better likelihood has a larger Delta.",
)


def units(settings: Settings, *, groups: int) -> list[Unit]:
    """Every row of the table; fair mixtures at a few strengths or bounds."""
    tasks = []
    for data in paper.CATEGORICAL[groups]:
        view = settings.categorical_view(data, groups)
        for method in METHODS:
            also = SPLIT if method in OURS else None
            tasks += sweep(settings, view, method, _values(settings, data, method), also=also)
    return tasks


def _values(settings: Settings, data: str, method: str) -> tuple[float, ...]:
    if method == m.BALANCE:
        return (SHARE,)
    if SWEPT.get(method) == "max_gap":
        return (settings.tight_bound,)
    return STRENGTHS if settings.mode == "full" else (BETTER[data],)


def conclude(settings: Settings, records: Records, *, groups: int) -> Result:
    """Ours beside the paper's."""
    rows, claims, notes = [], [], list(NOTES)
    for data, printed in paper.CATEGORICAL[groups].items():
        view = settings.categorical_view(data, groups)
        for method in METHODS:
            point = fairest(_with(records, view, method, settings.clusters))
            if point is None:
                continue
            theirs = printed.get(method)
            told = ["", "", ""]
            if theirs is not None:
                told = [decimals(theirs.balance), decimals(theirs.quality), decimals(theirs.delta)]
                notes += _difference(TITLES[data], method, point, theirs)
            rows.append([TITLES[data], method, *told, *_cells(point)])
        # The plain row has the largest Delta, so the two readings are farthest apart there.
        claims += _mean_claim(records, printed[m.MM_EM], view)
        claims += _claims(records, printed[m.FMC_EM], view, settings.clusters)
    columns = ["data", "method", "paper: Balance", "NLL", "Delta", "ours: Balance", "NLL"]
    if settings.categorical_rows:
        notes += sample_notes(view)
        tops = [
            f"{TITLES[data]} {_tops(settings, data, groups)}" for data in paper.CATEGORICAL[groups]
        ]
        notes.append(
            "The paper's numbers refer to all rows. The best possible Balance of these rows, and "
            f"of all rows: {'; '.join(tops)}."
        )
    columns += ["Delta", "mean over clusters", "soft Delta", "clusters", "setting"]
    return Result([Table(f"Categorical columns, {groups} groups", columns, rows)], claims, notes)


def _difference(title: str, method: str, ours: Point, theirs: paper.Three) -> list[str]:
    fair = method in (m.FMC_EM, m.FMC_GD)
    measures = [("NLL", ours["nll"], theirs.quality, CLOSE)]
    if fair:
        measures.append(("Balance", ours["balance"], theirs.balance, -0.005))
    why = (
        "The penalty applies to responsibilities; the labels of overlapping components have a "
        "larger gap. The row FMC-EM, bounded has the same objective with a bound on the labels."
        if fair
        else "Starts are random and lead to different optima."
    )
    # The table shows no warnings, so the note has to.
    if any("max_iter" in text for run in ours.runs for text in run["warnings"]):
        why += " It ran out of steps before it converged."
    return shortfall(f"{title}, {method}", measures, why)


def _cells(point: Point) -> list[str]:
    swept = SWEPT.get(point.unit.method)
    gaps = [decimals(point[name], 4) for name in ("gap", "mean_gap", "soft_gap")]
    setting = "" if swept is None else f"{swept.replace('_', ' ')} {point.setting(swept):g}"
    head = [decimals(point["balance"]), decimals(point["nll"])]
    return [*head, *gaps, f"{point['clusters']:g}", setting]


def _mean_claim(records: Records, theirs: paper.Three, view: View) -> list[Claim]:
    plain = records.one(m.MM_EM, view)
    if plain is None:
        return []
    mean, largest = plain["mean_gap"], plain["gap"]
    return [
        Claim(
            f"{TITLES[view.data]}: the paper's Delta of MM-EM ({theirs.delta}) is a mean over "
            "clusters, not the largest (our reading)",
            abs(mean - theirs.delta) < abs(largest - theirs.delta),
            f"Mean {mean:.4f}, largest {largest:.4f}.",
        )
    ]


def _tops(settings: Settings, data: str, groups: int) -> str:
    view = settings.categorical_view(data, groups)
    return f"{best_balance(view):.3f}, {best_balance(replace(view, rows=None)):.3f}"


def _with(
    records: Records, view: View, methods: str | tuple[str, ...], clusters: int
) -> list[Point]:
    return [p for p in records.points(methods, view) if p.unit.clusters == clusters]


def _claims(records: Records, theirs: paper.Three, view: View, clusters: int) -> list[Claim]:
    """Whether fits of ours are as fair and as likely as the paper's FMC-EM."""
    return [_claim(_with(records, view, FAMILY, clusters), theirs, view, f"{clusters} clusters")]


def _claim(points: list[Point], theirs: paper.Three, view: View, words: str) -> Claim:
    # A sample of rows has another best Balance: what counts is the share of it that is reached.
    least = theirs.balance / best_balance(replace(view, rows=None)) * best_balance(view) - NEARLY
    text = (
        f"{TITLES[view.data]}: a blind mixture that keeps {words} reaches the paper's FMC-EM "
        f"(Balance {theirs.balance}, which is {least + NEARLY:.3f} for the groups of these rows, "
        f"within {NEARLY:g}; NLL {theirs.quality}, within {CLOSE:g})"
    )
    own = [point for point in points if point.filled]
    kept = [point for point in own if point["balance"] >= least]
    # Where none is as fair, the fairest shows by how much it falls short.
    best = min(kept, key=lambda point: point["nll"], default=fairest(own))
    if best is None:
        return Claim(text, False, "No fit kept all clusters.")
    figures = (
        f"{best.unit.method} has Balance {decimals(best['balance'])}, NLL {decimals(best['nll'])} "
        f"and a mean Delta of {decimals(best['mean_gap'])} (the paper: {decimals(theirs.delta)})."
    )
    return Claim(text, bool(kept) and best["nll"] <= theirs.quality + CLOSE, figures)


def _entry(groups: int) -> Entry:
    return Entry(
        f"categorical-{groups}",
        f"Categorical columns, {groups} groups",
        f"Table of the appendix: categorical data, M = {groups}",
        "FMC gives fair clusters of categorical data.",
        partial(units, groups=groups),
        partial(conclude, groups=groups),
    )


ENTRIES = (_entry(2), _entry(3))
