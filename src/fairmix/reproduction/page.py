"""The page: Markdown from the JSON files of the entries, without computing anything."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from fairmix.reproduction.methods import METHODS
from fairmix.reproduction.registry import ENTRIES
from fairmix.reproduction.result import FAILS, FOR_US, HOLDS, OPEN
from fairmix.system.files import replace_file

HEAD = """\
# The paper, reproduced

Written by `fairmix reproduce`; do not edit. This page has every table and figure of "Fair
Model-Based Clustering" (AAAI 2026), with the paper's printed numbers next to ours. Where the paper
prints none, its claim is stated and checked against the numbers of this run. The
[notes on the paper](paper-notes.md) say where it is ambiguous and what we do.
"""
WORDS = """\
## Words

*Delta* is the gap of the hard labels: the largest difference between the shares of two groups in a
cluster; *soft Delta* is that of the responsibilities. *Balance* is the smallest ratio of two groups
within a cluster. *Cost* is the sum of squared distances to the cluster means. *NLL* is the negative
mean log-likelihood. *clusters* counts the clusters with members. K = 10 unless a table says
otherwise. Numbers are means over the seeds of an entry, with ± one standard deviation. A *full* run
has the paper's strengths, iterations and all rows; a *quick* run has fewer strengths, fewer and
longer steps of FMC-GD, and fewer rows where an entry says so. A smaller gap is a measurement on
these data, not a promise of fairness.
"""
VERDICTS = """\
*Holds*: for the paper's own methods and settings. *Holds for us, not as printed*: those fail, and
methods of fairmix do what is claimed. A claim about several data sets has the verdict of the worst,
and the figures are those of the first data set with that verdict; the sections below have all.
"""
# From worst to best.
RANKS = (FAILS, FOR_US, OPEN, HOLDS)
# What a unit was swept over, and the words for its values.
SWEPT_WORDS = {
    "fairness_strength": "strengths",
    "max_gap": "bounds",
    "min_ratio": "ratios",
    "balance_share": "shares of the best Balance",
    "representation": "representations",
}


def write_page(folder: Path, page: Path) -> None:
    """Write the page from what a folder holds.

    Parameters
    ----------
    folder : path
        JSON and SVG of the entries.
    page : path
        The Markdown file; its folder is where links start.
    """
    replace_file(page, render(documents(folder), link=_link(folder, page.parent)).encode())


def documents(folder: Path) -> list[dict[str, Any]]:
    """The entries of a folder, in the order of the page."""
    found = {}
    for path in sorted(folder.glob("*.json")):
        document = json.loads(path.read_text(encoding="utf-8"))
        found[document["entry"]] = document
    return [found[name] for name in ENTRIES if name in found]


def render(found: Sequence[dict[str, Any]], *, link: str) -> str:
    """The text of the page.

    Parameters
    ----------
    found : sequence of dict
        Documents of the entries, in their order on the page.
    link : str
        Where their files are, from the page.
    """
    lines = [HEAD, *_summary(found), *_claims(found), *_beyond(found)]
    lines += [WORDS, *_methods()]
    for document in found:
        lines += _section(document, link)
    return "\n".join(lines).rstrip() + "\n"


def _link(folder: Path, start: Path) -> str:
    folder, start = folder.resolve(), start.resolve()
    # Beside the page where the folder is not below it: a link must not name a path of a machine.
    return folder.relative_to(start).as_posix() if folder.is_relative_to(start) else "."


def _methods() -> list[str]:
    rows = [[method.name, method.words] for method in METHODS.values()]
    return ["## Methods", "", *table(["name", "what it is"], rows), ""]


def _statements(found: Iterable[dict[str, Any]]) -> list[tuple[str, list[dict[str, Any]]]]:
    """The claims of the paper, each with the checks of its parts, and the entry that it is from."""
    by_text: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for document in found:
        # An entry that is not complete has no claims yet.
        for claim in document.get("claims", []):
            if not claim["beyond"]:
                by_text.setdefault((document["entry"], claim["text"]), []).append(claim)
    return [(entry, checks) for (entry, _), checks in by_text.items()]


def _worst(checks: Iterable[dict[str, Any]]) -> str:
    return RANKS[min(RANKS.index(check["verdict"]) for check in checks)]


def _summary(found: Sequence[dict[str, Any]]) -> list[str]:
    verdicts = [_worst(checks) for _, checks in _statements(found)]
    counts = {rank: verdicts.count(rank) for rank in RANKS}
    lines = [
        "## Summary",
        "",
        f"- Of {len(verdicts)} claims of the paper, {counts[HOLDS]} hold as printed, "
        f"{counts[FOR_US]} hold for our methods but not as printed, {counts[FAILS]} do not hold"
        + (f", and {counts[OPEN]} could not be measured." if counts[OPEN] else "."),
    ]
    gains = [gain for document in found for gain in document.get("gains", [])]
    lines += [f"- {sentence}" for sentence in _gained(gains)]
    claims = [claim for document in found for claim in document.get("claims", [])]
    beyond = [claim["verdict"] for claim in claims if claim["beyond"]]
    if beyond:
        lines.append(
            f"- Beyond the paper, {beyond.count(HOLDS)} of {len(beyond)} claims about our methods "
            "hold: see the table below."
        )
    runs: dict[str, list[str]] = {}
    for document in found:
        # Some methods may have more.
        seeds = len(document["settings"]["seeds"])
        words = f"{document['settings']['mode']}, {seeds} seed{'s' if seeds > 1 else ''}"
        runs.setdefault(words, []).append(document["entry"])
    lines += [f"- Run {words}: {', '.join(entries)}." for words, entries in runs.items()]
    if any(document["settings"]["mode"] == "quick" for document in found):
        lines.append(
            "- A quick run has fewer strengths, fewer steps of FMC-GD or fewer rows than the "
            "paper: see [Words](#words)."
        )
    missing = [document["entry"] for document in found if not document["complete"]]
    if missing:
        lines.append(f"- Not complete: {', '.join(missing)}.")
    return [*lines, "", *_better(gains)]


def _gained(gains: Sequence[dict[str, Any]]) -> list[str]:
    """A sentence for cost and one for NLL: by how much ours are ahead of the printed FMC-EM."""
    sentences = []
    for measure, unit in (("Cost", "%"), ("NLL", "")):
        told = []
        for kind in ("blind", "aware"):
            changes = [_change(gain, kind) for gain in gains if gain["measure"] == measure]
            known = [change for change in changes if change is not None]
            if known:
                ends = (min(known), max(known))
                words = (f"{value:.0%}" if unit else f"{value:.2f}" for value in ends)
                # Once, where both ends are the same.
                span = " to ".join(dict.fromkeys(words))
                told.append(f"{kind} maps have {span} less {measure}")
        if told:
            sentences.append(
                f"At the Balance that the paper prints for FMC-EM, our {' and our '.join(told)} "
                "than it prints (a minus: more)."
            )
    return sentences


def _change(gain: dict[str, Any], kind: str) -> float | None:
    """How much less than the paper's: a share of a cost, a difference of likelihoods."""
    if gain[kind] is None:
        return None
    less: float = gain["printed"] - gain[kind]
    return less / gain["printed"] if gain["measure"] == "Cost" else less


def _better(gains: Iterable[dict[str, Any]]) -> list[str]:
    rows = []
    for gain in gains:
        cost = gain["measure"] == "Cost"
        cells = [_number(gain["printed"], cost)]
        for kind in ("blind", "aware"):
            change = _change(gain, kind)
            if change is None:
                cells.append("no such fit")
                continue
            words = f"{-change:+.1%}" if cost else f"{-change:+.3f}"
            cells.append(f"{_number(gain[kind], cost)} ({words})")
        rows.append([gain["what"], gain["measure"], *cells])
    if not rows:
        return []
    columns = ["at", "measure", "the paper's FMC-EM", "ours, blind", "ours, aware"]
    return [*table(columns, rows), ""]


def _number(value: float, cost: bool) -> str:
    return f"{value:,.0f}" if cost else f"{value:.3f}"


def _claims(found: Iterable[dict[str, Any]]) -> list[str]:
    rows = []
    for entry, checks in _statements(found):
        worst = _worst(checks)
        first = next(check for check in checks if check["verdict"] == worst)
        verdict = f"**{worst}**" if worst != HOLDS else worst
        others = [check["part"] for check in checks if check["verdict"] == HOLDS]
        if worst != HOLDS and others:
            verdict += f"; {HOLDS} for {'; '.join(others)}"
        figures = f"{first['part']}: {first['figures']}" if first["part"] else first["figures"]
        rows.append([f"[{first['text']}](#{entry})", verdict, figures])
    columns = ["claim of the paper", "verdict", "figures"]
    return ["## Claims", "", VERDICTS, *table(columns, rows), ""]


def _beyond(found: Iterable[dict[str, Any]]) -> list[str]:
    """Claims about our methods that the paper does not make."""
    rows = [
        [f"[{claim['text']}](#{document['entry']})", *_cells(claim)]
        for document in found
        for claim in document.get("claims", [])
        if claim["beyond"]
    ]
    if not rows:
        return []
    columns = ["claim about fairmix", "data", "verdict", "figures"]
    return ["## Beyond the paper", "", *table(columns, rows), ""]


def _cells(claim: dict[str, Any]) -> list[str]:
    return [claim["part"], claim["verdict"], claim["figures"]]


def _folded(title: str, lines: Sequence[str]) -> list[str]:
    return [f"<details><summary>{title}</summary>", "", *lines, "", "</details>", ""]


def _section(document: dict[str, Any], link: str) -> list[str]:
    name = document["entry"]
    # An anchor of its own: one made from the title would break links when the title changes.
    lines = [f'<a id="{name}"></a>', "", f"## {document['title']}", ""]
    lines += [f"*{document['place'].rstrip()}.* The paper: {document['paper_says']}", ""]
    lines += [_run(document, link), ""]
    if not document["complete"]:
        return [*lines, f"{len(document['units'])} units are done; run it again to continue.", ""]
    for failure in document["errors"]:
        lines += [f"**{failure['unit']['method']} failed:** {failure['error']}", ""]
    if document["figure"]:
        lines += [f"![{document['title']}]({link}/{document['figure']})", ""]
    if document["claims"]:
        rows = [[claim["text"], *_cells(claim)] for claim in document["claims"]]
        lines += [*table(["claim", "for", "verdict", "figures"], rows), ""]
    lines += [*(f"- {note}" for note in document["notes"]), ""]
    for own in document["tables"]:
        lines += _table_section(own)
    return lines


def _table_section(own: dict[str, Any]) -> list[str]:
    lines = table(own["columns"], own["rows"])
    if any("paper" in column for column in own["columns"]):
        return [f"**{own['title']}**", "", *lines, ""]
    # Long tables without a printed number to compare with are there for whoever opens them.
    return _folded(own["title"], lines)


def _run(document: dict[str, Any], link: str) -> str:
    """What ran, in one line."""
    settings = document["settings"]
    units = [record["unit"] for record in document["units"]]
    seeds = sorted({unit["seed"] for unit in units})
    seconds = sum(record["numbers"]["cpu_seconds"] for record in document["units"])
    words = [f"Run: {settings['mode']}", f"seeds {_listed(seeds)}", f"{len(units)} fits"]
    words.append(f"{seconds:,.0f} processor seconds")
    for key, name in SWEPT_WORDS.items():
        values = sorted({u["settings"][key] for u in units if key in u["settings"]})
        if values:
            words.append(f"{name} {_listed(values)}")
    data = "; ".join(document["data"])
    return (
        f"{', '.join(words)}. Data: {data}. By {_origin(document)}. "
        f"[All numbers]({link}/{document['entry']}.json)."
    )


def _origin(document: dict[str, Any]) -> str:
    """The version and the commits that computed the units, with their methods where they differ."""
    methods: dict[str, dict[str, None]] = {}
    for record in document["units"]:
        methods.setdefault(record["commit"] or "", {})[record["unit"]["method"]] = None
    named = []
    for commit, own in methods.items():
        if commit:
            # One commit for all needs no list.
            named.append(f"{commit} ({'; '.join(own)})" if len(methods) > 1 else commit)
    words = f"fairmix {document['versions']['fairmix']}"
    return f"{words} at {', '.join(named)}" if named else words


def _listed(values: Iterable[float]) -> str:
    return " ".join(f"{value:g}" for value in values)


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Lines of a Markdown table."""
    lines = [_line(columns), "|" + "---|" * len(columns)]
    return lines + [_line(row) for row in rows]


def _line(cells: Sequence[str]) -> str:
    # Claims contain absolute values, and a bare bar would end the cell.
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
