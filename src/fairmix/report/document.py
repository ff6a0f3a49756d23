"""The document: puts the parts of a report into its template."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from numpy.typing import NDArray

from fairmix.criteria import CRITERIA, LIMITS, ByAttribute
from fairmix.input.groups import UNKNOWN_TITLE
from fairmix.input.guesses import Guess
from fairmix.input.naming import group_values
from fairmix.report.charts import convergence_charts, front_chart
from fairmix.report.columns import choice_rows, chosen_columns, proxy_rows
from fairmix.report.disclosure import (
    FEWEST,
    MANY,
    SMALLEST,
    SafeCounts,
    SaysOfAll,
    safe_tables,
)
from fairmix.report.facts import all_figures, data_facts, key_figures, model_facts
from fairmix.report.features import portraits
from fairmix.report.figures import HIDDEN, count, cut, value
from fairmix.report.moves import Moves, move_rows
from fairmix.report.parts import Part, overall, parts_of, said_of
from fairmix.report.ratios import down, group_ratios, smallest_ratio_text
from fairmix.report.shares import BARS, panel
from fairmix.report.verdict import (
    box,
    certified_text,
    criterion_of,
    fit_gap,
    held_sizes,
    is_bounded,
    label_gap,
    observed_text,
    soft_gap,
)
from fairmix.results.profile import Profile
from fairmix.results.proxies import Proxies, proxies_of
from fairmix.results.text import cell
from fairmix.results.verdict import Verdict

if TYPE_CHECKING:
    from fairmix.estimator import FairMixture
    from fairmix.results.certificate import Certificate
    from fairmix.studies import ParetoFront

__all__ = ["render", "report_of"]

# In the order in which they need each other.
LIBRARIES = ("vega.min.js", "vega-lite.min.js", "vega-interpreter.js")
# Clusters that are described; the smallest are left out, so that the page stays readable.
PORTRAITS = 60
# Figures that are the same for all attributes.
SHARED = ("clusters", "rows")
FRONT_BARS = 1600  # of all points of a front together: a browser draws them without a wait


def render(
    profile: Profile,
    *,
    model: FairMixture | None = None,
    front: ParetoFront | None = None,
    certificate: Certificate | None = None,
    verdict: Verdict | Mapping[str, Verdict] | None = None,
    criterion: str | None = None,
    facts: Mapping[str, str] | None = None,
    columns: Sequence[Guess] = (),
    proxies: Mapping[str, Proxies] | None = None,
    choice: Mapping[int, float] | None = None,
    why: str = "",
    moves: Moves | None = None,
) -> str:
    """The report as one HTML file that needs nothing else: no network, no other file.

    It holds aggregates only. Counts of fewer than 5 rows are hidden, and every other number is
    rounded or hidden as far as a small count could be computed from all that the page says. Groups
    that are not judged or have fewer than 10 rows are named, and are in no table.

    Parameters
    ----------
    profile : Profile
        The clusters, of any tool. Of several attributes each has a block of its own.
    model : FairMixture, default=None
        The fitted model that gave them: adds its bound, its two gaps, its convergence and its
        settings.
    front : ParetoFront, default=None
        Of `fairmix.pareto_front`: adds what other bounds would cost.
    certificate : Certificate, default=None
        Of `FairMixture.certify` on held-out rows: adds what holds in the population, and the
        verdict on these rows.
    verdict : Verdict, or mapping of str to Verdict, default=None
        On the clusters of the profile, of `fairmix.results.judge_counts`; one for each of several
        attributes. None: that of the model and of the profile; without a model there is no bound.
    criterion : {"gap", "additive_gap", "worst_pair_gap"}, default=None
        What the gaps are. None: that of the model, or ``"gap"``.
    facts : mapping of str to str, default=None
        More lines for the table of facts: file, digest, command.
    columns : sequence of Guess, default=()
        What the columns of a file were taken for, and why.
    proxies : mapping of str to Proxies, default=None
        How well columns tell the groups, by attribute; of `fairmix.results.proxies`.
    choice : mapping of int to float, default=None
        The criterion that the number of clusters was chosen by, lower is better, of each number.
    why : str, default=""
        Why that number was chosen, and how sure it is.
    moves : Moves, default=None
        Rows that a repair moved from each cluster to each other one.

    Returns
    -------
    str
        The same text for the same input.

    Examples
    --------
    >>> import numpy as np
    >>> from fairmix.results.profile import Profile
    >>> from fairmix.report import render
    >>> ages = np.arange(40.0).reshape(-1, 1)
    >>> profile = Profile.from_frame(ages, [0, 1] * 20, ["f"] * 20 + ["m"] * 20)
    >>> "is 0.0000." in render(profile)
    True
    """
    criterion = criterion_of(model) if criterion is None else criterion
    parts = parts_of(profile, model, certificate, verdict)
    of = "labels" if model is None else str(model.gap_of)
    says = said_of([p.profile.groups for p in parts], [p.verdict for p in parts], criterion, of)
    points = [] if front is None else _points(front)
    first, *tables = safe_tables([([p.counts for p in parts], says), *points])
    if front is not None:
        tables = _complete(front, tables)
    safes = _with_shown_groups(parts, first)
    every = [*safes, *(table for point in tables for table in point)]
    # Sums of squares and likelihoods tell how far the rows of such clusters are from the others.
    alone = any(((t.fewest < FEWEST) & (t.sizes > 0)).any() for t in every)
    # Stable, so that clusters of one size keep their order and the page repeats byte by byte.
    largest = np.argsort(-safes[0].estimate.sum(axis=0), kind="stable")[:PORTRAITS]
    described = portraits(parts[0].profile, safes, sorted(largest.tolist()))
    names = {portrait.cluster: portrait.name for portrait in described}
    blocks = [
        _block(p, safe, criterion, described=len(parts) == 1, names=names)
        for p, safe in zip(parts, safes, strict=True)
    ]
    shown, charts = parts[0].profile, dict[str, Any]()
    titles = [cut(p.profile.title) for p in parts if p.profile.title != UNKNOWN_TITLE]
    content = {
        "box": blocks[0]["box"] if len(parts) == 1 else overall(parts, blocks, safes, of),
        "blocks": blocks,
        "profile": profile,
        "titles": titles,
        "most_groups": max(len(p.profile.groups) for p in parts),
        "figures": blocks[0]["figures"] if len(parts) == 1 else all_figures(parts),
        "alone": alone,
        "portraits": described,
        "names": names,
        "choice": choice_rows(choice, alone=alone),
        "why": why,
        "moves": None if moves is None else move_rows(moves, profile.clusters, _hidden(safes)),
        "described": bool(profile.numbers or profile.categories),
        "front": None if front is None else _front(front, model, shown, tables, alone, charts),
        "data_facts": data_facts(parts, facts or {}),
        "model_facts": None if model is None else model_facts(model),
        "columns": chosen_columns(columns),
        "proxies": [told for found in (proxies or {}).values() if (told := proxy_rows(found))],
        "measure": CRITERIA[criterion].words,
        "criterion": criterion.replace("_", " "),
        "smallest": SMALLEST,
        "fewest": FEWEST,
    }
    if model is not None and len(model.history_) > 1:
        hidden = any(safe.pool.any() for safe in safes)
        drawn = convergence_charts(model, is_bounded(model), objective=not alone, gap=not hidden)
        for i, chart in enumerate(drawn):
            charts[f"convergence-{i}"] = chart
    return _fill(content, charts)


def hidden_clusters(
    profile: Profile, verdict: Verdict | Mapping[str, Verdict], criterion: str
) -> NDArray[np.bool_]:
    """Clusters, (K,), whose numbers a report of labels hides."""
    parts = parts_of(profile, None, None, verdict)
    verdicts = [p.verdict for p in parts]
    says = said_of([p.profile.groups for p in parts], verdicts, criterion, "labels")
    (safes,) = safe_tables([([p.counts for p in parts], says)])
    return _hidden(_with_shown_groups(parts, safes))


def _with_shown_groups(parts: Sequence[Part], tables: Sequence[SafeCounts]) -> list[SafeCounts]:
    """Tables of the groups that are shown."""
    # With the counts of the others, a verdict about groups that are not in the table tells theirs.
    return [
        SafeCounts.nothing(safe.first(len(p.profile.groups)).counts)
        if p.tiny or len(p.profile.groups) < 2
        else safe.first(len(p.profile.groups))
        for p, safe in zip(parts, tables, strict=True)
    ]


def _hidden(safes: Sequence[SafeCounts]) -> NDArray[np.bool_]:
    """Clusters whose numbers are in no table."""
    return np.asarray(np.any([safe.pool | safe.closed for safe in safes], axis=0))


def report_of(
    model: FairMixture,
    X: Any,
    sensitive_features: Any,
    *,
    front: ParetoFront | None = None,
    certificate: Certificate | None = None,
) -> str:
    """The report of a fitted model on some rows, as `FairMixture.report` writes it.

    Parameters
    ----------
    model : FairMixture
        The fitted model.
    X, sensitive_features
        Rows with the columns of the fit, and their groups.
    front, certificate
        As in `render`.

    Returns
    -------
    str

    Examples
    --------
    >>> from fairmix import FairMixture
    >>> from fairmix.datasets import make_grouped_blobs
    >>> X, groups, _ = make_grouped_blobs(300, 2, 2, separation=3.0, random_state=0)
    >>> model = FairMixture(2, max_gap=0.05, random_state=0).fit(X, sensitive_features=groups)
    >>> "The bound is met" in report_of(model, X, groups)
    True
    """
    fitted = model.fitted_
    columns, aware = fitted.model.columns, fitted.model.aware
    # A frame of numbers alone is read as an array.
    names = getattr(model, "feature_names_in_", columns.names)
    profile = Profile.from_frame(
        X,
        model.predict(X, sensitive_features=sensitive_features if aware else None),
        sensitive_features,
        numeric=[names[j] for j in columns.numeric],
        categorical=[names[j] for j in columns.categorical],
        clusters=[str(k) for k in range(fitted.n_components)],
        missing_groups=model.missing_groups,
        attributes="each" if fitted.groups.attributes else "intersect",
    )
    groups = group_values(X, sensitive_features)
    proxies = proxies_of(
        fitted, X, groups, title=profile.title, missing=model.missing_groups, names=list(names)
    )
    return render(profile, model=model, front=front, certificate=certificate, proxies=proxies)


def _block(
    part: Part, safe: SafeCounts, criterion: str, *, described: bool, names: Mapping[str, str]
) -> dict[str, Any]:
    """What is said of one attribute; ``described``: also what it says of the clusters."""
    profile, model, verdict = part.profile, part.model, part.verdict
    gap = "0.0000"
    if len(profile.groups) > 1:
        gap = label_gap(safe, verdict, criterion, model, part.tiny)
    figures = key_figures(profile, safe, criterion, verdict, gap, sizes=not part.sizes_hidden)
    if not described:
        figures = {name: figure for name, figure in figures.items() if name not in SHARED}
    held = part.certificate
    return {
        "title": cut(profile.title),
        "box": box(
            profile, safe, verdict, criterion, model, held, left_out=part.left_out, names=names
        ),
        "figures": figures,
        "is_part": profile is not part.whole,
        "rows": count(profile.n_rows),
        "shares": panel(safe, profile.clusters, profile.groups, criterion),
        "ratios": group_ratios(safe, profile.clusters, profile.groups)
        if len(profile.groups) > 1
        else None,
        "has_cells": safe.has_cells,
        "gaps": _gaps(model, safe, gap),
        "certificate": None if held is None else _certified(held),
    }


def _fill(content: dict[str, Any], charts: dict[str, Any]) -> str:
    # Nearly all of the page's bytes, so a page without charts does without them.
    scripts = [_library(name) for name in LIBRARIES] if charts else []
    scripts.append(_text("templates", "report.js"))
    hashes = " ".join(f"'sha256-{_digest(script)}'" for script in scripts)
    # Nothing is loaded, and no script runs but these: not even one that slipped past escaping.
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src {hashes}"
    page: str = _template().render(
        content,
        style=Markup(_text("templates", "report.css")),
        scripts=[Markup(script) for script in scripts],
        charts={name: _json(chart) for name, chart in charts.items()},
        policy=Markup(policy),
    )
    return page


@cache
def _template() -> Any:
    environment = Environment(
        loader=PackageLoader("fairmix.report"),
        autoescape=True,
        # A misspelt name in the template is an error, not a blank in somebody's report.
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html")


@cache
def _text(folder: str, name: str) -> str:
    return files("fairmix.report").joinpath(folder, name).read_text(encoding="utf-8")


@cache
def _library(name: str) -> str:
    # The page is handed on, and the licences ask that their text goes with the code.
    licence = _text("vendor", name.split(".", maxsplit=1)[0] + ".LICENSE.txt")
    return f"/*\n{licence}*/\n{_text('vendor', name)}"


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _json(chart: dict[str, Any]) -> Markup:
    """JSON that cannot end a script element; line separators are escaped as non-ASCII."""
    text = json.dumps(chart, allow_nan=False, separators=(",", ":"))
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)


def _gaps(model: FairMixture | None, safe: SafeCounts, gap: str) -> dict[str, Any] | None:
    """Soft against hard."""
    if model is None or len(model.fitted_.groups.names) < 2:
        return None
    return {
        "labels": fit_gap(model, safe, gap),
        "probabilities": soft_gap(model, safe),
        "bounded": model.gap_of if is_bounded(model) else None,
    }


def _points(front: ParetoFront) -> list[tuple[list[Any], SaysOfAll | None]]:
    """The counts of each point of a front by attribute, and the verdicts on it."""
    found = []
    for m in front.models:
        if m.rates_ is None:
            continue
        views = list(m.fitted_.by_attribute.values())
        counts = [np.asarray(v.fairness.rates) * v.groups.sizes[:, None] for v in views]
        names, verdicts = [list(v.groups.names) for v in views], [v.verdict for v in views]
        found.append((counts, said_of(names, verdicts, m.criterion, m.gap_of)))
    return found


def _complete(front: ParetoFront, tables: list[list[SafeCounts]]) -> list[list[SafeCounts]]:
    """Without the counts of several attributes, if one of them leaves rows out.

    The clusters of these rows are not known here, but would follow from the other attributes.
    """
    if not any(m.fitted_.groups.attributes and m.unjudged_groups_ for m in front.models):
        return tables
    return [[SafeCounts.nothing(table.counts) for table in point] for point in tables]


def _worst(texts: Sequence[str], *, at_least: bool) -> str:
    """The worst of the figures of several attributes, as they are printed."""
    if len(texts) == 1:
        return texts[0]
    if HIDDEN in texts:
        return HIDDEN
    known = [text for text in texts if text != "none"]
    pick = min if at_least else max
    return pick(known, key=lambda text: float(text.split()[-1])) if known else "none"


def _front(
    front: ParetoFront,
    model: FairMixture | None,
    profile: Profile,
    tables: list[list[SafeCounts]],
    alone: bool,
    charts: dict[str, Any],
) -> dict[str, Any] | None:
    """Rows of the table, the chart, and the clusters of each point."""
    if len(tables) < len(front.models):
        return None  # there are not two groups to compare
    criterion = front.models[0].criterion if front.models else "gap"
    gaps = [
        _worst(
            [table.gap(criterion, cap=cap) for table, cap in zip(p, _caps(m), strict=True)],
            at_least=False,
        )
        for p, m in zip(tables, front.models, strict=True)
    ] or [value(row.gap) for row in front.rows]
    silents = [any(t.silent for t in p) for p in tables] or [False] * len(front.rows)
    chosen = _chosen(front, model, silents)
    balances = [_worst([t.balance() for t in p], at_least=True) for p in tables] or [
        value(row.balance) for row in front.rows
    ]
    ratios = [_worst([smallest_ratio_text(t) for t in p], at_least=True) for p in tables] or [
        down(row.ratio) for row in front.rows
    ]
    noun = LIMITS[front.rows[0].rule].noun if front.rows else "gap"
    bounded = {"gap": gaps, "ratio": ratios, "balance": balances}[noun]
    if not alone and any(text != HIDDEN for text in bounded):
        charts["front"] = front_chart(front, bounded, chosen)
    rows = [
        {
            "bound": "none" if row.plain else f"{row.bound:g}",
            "gap": gap,
            "ratio": ratio,
            "balance": balance,
            "bounded": text,
            "cost": cell("cost", row.cost),
            "clusters": row.non_empty,
            "verdict": HIDDEN if silent else row.verdict,
        }
        for row, gap, ratio, balance, text, silent in zip(
            front.rows, gaps, ratios, balances, bounded, silents, strict=True
        )
    ]
    bars = min(BARS, FRONT_BARS // max(1, sum(map(len, tables))))
    panels = [
        [
            {
                "title": cut(title) if len(point) > 1 else "",
                "panel": panel(
                    table, range(m.n_components), list(own.groups.names), criterion, bars=bars
                ),
            }
            for table, (title, own) in zip(point, m.fitted_.by_attribute.items(), strict=True)
        ]
        for point, m in zip(tables, front.models, strict=True)
    ]
    # Said only where the front was fitted to other rows than those of the report.
    sizes = {
        int(own.groups.sizes.sum())
        for m in front.models
        # All attributes have the same rows, as long as none leaves some out.
        for own in list(m.fitted_.by_attribute.values())[:1]
        if own.groups.sizes.min() >= FEWEST
    }
    sizes -= {profile.n_rows}
    if any(m.fitted_.groups.attributes and m.unjudged_groups_ for m in front.models):
        sizes = set()
    return {
        "noun": noun,
        "rows": rows,
        "costs": not alone,
        "panels": panels,
        "chosen": chosen,
        "own": model is not None and any(m.fitted_ is model.fitted_ for m in front.models),
        "sample": ", ".join(count(size) for size in sizes),
    }


def _chosen(front: ParetoFront, model: FairMixture | None, silents: Sequence[bool]) -> int:
    """The point of the report's model, else the tightest bound that is said to be met."""
    if model is not None and model.fairness_strength == "auto":
        limit = model.fitted_.rule.limit
        if limit is not None and not isinstance(limit, ByAttribute):
            for i, row in enumerate(front.rows):
                if (row.rule, row.bound) == (limit.parameter, limit.bound):
                    return i
    return next((i for i, row in enumerate(front.rows) if row.met and not silents[i]), 0)


def _caps(model: FairMixture) -> list[float]:
    """What the gap of a fit is known to be at most, by attribute: its bound, if that is met."""
    verdicts = [own.verdict for own in model.fitted_.by_attribute.values()]
    return [
        max(found.bound, found.resolution) if found.holds and not found.at_least else inf
        for found in verdicts
    ]


def _certified(certificate: Certificate) -> dict[str, Any]:
    sizes = {cut(name): size for name, size in certificate.group_sizes.items() if size >= FEWEST}
    held = held_sizes(certificate)
    # Held-out rows are people too, and their counts are nowhere on the page.
    return {
        "confidence": f"{100 * certificate.confidence:.4g}%",
        "bound": certified_text(certificate),
        "observed": observed_text(certificate),
        "criterion": certificate.criterion.replace("_", " "),
        "of": certificate.of,
        "rows": count(sum(sizes.values())),
        "sizes": ", ".join(f"{name} {count(size)}" for name, size in sizes.items()),
        "method": "hoeffding" if min(held) < MANY else certificate.method,
        "hidden": len(sizes) < len(held),
    }
