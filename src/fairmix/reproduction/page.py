"""The page: Markdown from the JSON files of the entries, without computing anything."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from fairmix.reproduction.methods import METHODS
from fairmix.reproduction.registry import ENTRIES
from fairmix.system.files import replace_file

HEAD = """\
# The paper, reproduced

Written by `fairmix reproduce`; do not edit. This page has every table and figure of "Fair
Model-Based Clustering" (AAAI 2026), with the paper's printed numbers next to ours. Where the paper
prints none, its claim is stated and checked against the numbers of this run. The
[notes on the paper](paper-notes.md) say where it is ambiguous and what we do.

*Delta* is the gap of the hard labels: the largest difference between the shares of two groups in a
cluster; *soft Delta* is that of the responsibilities. *Balance* is the smallest ratio of two groups
within a cluster. *Cost* is the sum of squared distances to the cluster means. *NLL* is the negative
mean log-likelihood. *clusters* counts the clusters with members. K = 10 unless a table says
otherwise. A smaller gap is a measurement on these data, not a promise of fairness.
"""
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
    documents = {}
    for path in sorted(folder.glob("*.json")):
        document = json.loads(path.read_text(encoding="utf-8"))
        documents[document["entry"]] = document
    ordered = [documents[name] for name in ENTRIES if name in documents]
    replace_file(page, render(ordered, link=_link(folder, page.parent)).encode())


def render(documents: Sequence[dict[str, Any]], *, link: str) -> str:
    """The text of the page.

    Parameters
    ----------
    documents : sequence of dict
        Of the entries, in their order on the page.
    link : str
        Where their files are, from the page.
    """
    lines = [HEAD, *_methods(), *_summary(documents), *_not_borne_out(documents)]
    for document in documents:
        lines += _section(document, link)
    return "\n".join(lines).rstrip() + "\n"


def _link(folder: Path, start: Path) -> str:
    folder, start = folder.resolve(), start.resolve()
    # Beside the page where the folder is not below it: a link must not name a path of a machine.
    return folder.relative_to(start).as_posix() if folder.is_relative_to(start) else "."


def _methods() -> list[str]:
    rows = [[method.name, method.words] for method in METHODS.values()]
    return ["## Methods", "", *table(["name", "what it is"], rows), ""]


def _summary(documents: Iterable[dict[str, Any]]) -> list[str]:
    lines = ["## Claims", ""]
    rows = []
    for document in documents:
        # An entry that is not complete has no claims yet.
        verdicts = [claim["holds"] for claim in document.get("claims", [])]
        counts = [str(verdicts.count(verdict)) for verdict in (True, False, None)]
        place = f"[{document['title']}](#{document['entry']})"
        rows.append([place, *counts, "" if document["complete"] else "not complete"])
    columns = ["entry", "hold here", "do not", "not measured", ""]
    return [*lines, *table(columns, rows), ""]


def _not_borne_out(documents: Iterable[dict[str, Any]]) -> list[str]:
    """Claims that do not hold here, together."""
    rows = [
        [f"[{document['entry']}](#{document['entry']})", claim["text"], claim["figures"]]
        for document in documents
        for claim in document.get("claims", [])
        if claim["holds"] is False
    ]
    if not rows:
        return []
    return _folded("Claims that do not hold here", table(["entry", "claim", "figures"], rows))


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
        rows = [[c["text"], c["verdict"], c["figures"]] for c in document["claims"]]
        lines += [*table(["claim", "verdict", "figures"], rows), ""]
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
    return f"{', '.join(words)}. Data: {data}. [All numbers]({link}/{document['entry']}.json)."


def _listed(values: Iterable[float]) -> str:
    return " ".join(f"{value:g}" for value in values)


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Lines of a Markdown table."""
    lines = [_line(columns), "|" + "---|" * len(columns)]
    return lines + [_line(row) for row in rows]


def _line(cells: Sequence[str]) -> str:
    # Claims contain absolute values, and a bare bar would end the cell.
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
