"""The page of the docs: tables and a picture from the files of a run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

Document = Mapping[str, Any]

HEAD = """\
# Speed and memory

What a fair fit costs compared with widely used programs. Every figure is a ratio within one run on
one machine, the median of repeats that take turns, and most figures have a target. Other machines
give different seconds and somewhat different ratios.

Written by `scripts/bench --page` from the files that `scripts/bench` writes to `docs/benchmarks`.
"""
SECTIONS = {
    "kernel": "One pass against the arithmetic it cannot avoid",
    "fits": "Fits of every size",
    "census": "Mini-batches and plain mixtures",
    "groups": "Many groups",
    "rules": "Ratios and Balance",
    "optima": "Costs of single fits",
    "kinds": "Other rules and columns",
    "predict": "Predictions",
    "passes": "Passes over the data",
    "memory": "Memory beyond the data",
    "startup": "Imports and help",
    "growth": "Growth",
    "em": "The paper's EM",
    "dual": "Many starts and a gap of zero",
    "files": "Files",
    "baselines": "Other fair methods",
    "repair": "Repairs",
    "dask": "Two workers",
}
NOTES = {
    "census": """\
K-means runs until it converges, with scikit-learn's defaults. The time of a fair fit includes
everything: starts, components, tilt and the labels of all rows; it meets `max_gap=0.01` on all of
them. The plain fits have no bound on the gap; both are timed until they reach the lower of their
two final likelihoods. Blind fits miss two targets: they also fit and evaluate P(group | x), and
their tilt takes about twice as many iterations.""",
    "fits": """\
Default fits with `max_gap=0.01`, one thread, in processor seconds; k-means runs to its own end, ten
times on up to 100,000 rows, as people do there, and once on more. Tables of up to 300,000 rows are
measured several times in turn, larger ones once. *Fresh* rows have another seed and 21 columns; no
constant was chosen on them. All cells are here, passed or missed. Other programs ran beside. Tables
of up to 100,000 rows, but for fresh ones, and larger ones are of two runs; the second machine was
slower.""",
    "groups": """\
Processor seconds on one thread, with `n_components=5`, `max_gap=0.01` and every group judged
(`min_group_size=1`). The exponents refer to a whole fit of 4,000 rows in 5 to 40 groups.""",
    "rules": """\
`n_components=10`, default fits, in processor seconds of one thread: the median over seeds, which
take turns. Adult, Bank and Credit as the paper prepares them; the others are made of six clumps.
The Balance is 0.8 of the best possible.""",
    "optima": """\
`n_components=10`, the paper's preparation, one default fit for each of the seeds 0 to 9. *Known*
are the lowest costs of any number of fits before a fit searched for its start, and for ratios those
of a prototype. The spread is a standard deviation; *rise* compares with the mean at the next
tighter rule. Policies were chosen on seeds 20 to 67, and earlier ones on 0 to 3 and 10 to 13.""",
    "kinds": """\
30,000 rows of 10 columns, `n_components=10`, in processor seconds. Categories are the same columns
in eight levels.""",
    "predict": """\
A million rows of 10 columns, and one row, K=10, double precision, in processor seconds.""",
    "passes": """\
`model.n_passes_` is this count, and `model.history_["passes"]` has it for every iteration. A pass
over some of the rows counts as their share. The bound is `max_gap=0.01` where no strength is named.
The budget is what the solver takes now, rounded up, and shows when a change makes it take more.""",
    "memory": """\
The most by which the process grows during a fit, including labels and codes of groups.""",
    "startup": "Processor seconds of a fresh interpreter.",
    "repair": """\
K-means with `n_clusters=10` and `n_init=1` on the paper's tables, repaired by `fair_labels`. The
linear program has all its columns; a repair has those of few rows. *Excess* is how far the labels
are above the lower bound. Figures of other methods on Adult are of runs of their own programs at
ten starts of K-means, not of this run.""",
    "growth": """\
Exponents of the time of one pass and of a whole fit, in rows (N), clusters (K) and columns (d), on
one thread. A method whose fit takes more than a minute is not given more rows. A table keeps 64 MB
of encoded rows between passes and encodes the others again, so that memory stays bounded; this, and
caches, explain the exponents of a pass in N.""",
}
PICTURE = "growth.svg"
# Okabe and Ito's colours, which people with colour blindness can tell apart.
COLORS = {
    "fairmix aware": "#0072b2",
    "fairmix blind": "#56b4e9",
    "KMeans": "#000000",
    "GaussianMixture": "#7f7f7f",
    "FairletKMeans": "#d55e00",
    "VariationalFairKMeans": "#cc79a7",
    "AlignedFairKMeans": "#009e73",
}
PANELS = (
    ("pass", "N", "rows"),
    ("fit", "N", "rows"),
    ("pass", "K", "clusters"),
    ("pass", "d", "columns"),
)


def read(folder: Path, names: Iterable[str]) -> dict[str, Document]:
    """The files of a run that are there, in the order of the benchmarks."""
    paths = {name: folder / f"{name}.json" for name in names}
    return {
        name: json.loads(path.read_text(encoding="utf-8"))
        for name, path in paths.items()
        if path.exists()
    }


def text(found: Mapping[str, Document]) -> str:
    """The page."""
    parts = [HEAD, _summary(found)]
    parts += [_section(name, document) for name, document in found.items()]
    return "\n".join(parts)


def _summary(found: Mapping[str, Document]) -> str:
    verdicts = [r["verdict"] for document in found.values() for r in document["ratios"]]
    lines = [f"Targets met: {verdicts.count('pass')}. Missed: {verdicts.count('MISS')}.\n"]
    absent = [name for name in SECTIONS if name not in found]
    if absent:
        lines.append(f"Not measured: {', '.join(absent)}.\n")
    return "\n".join(lines)


def _section(name: str, document: Document) -> str:
    lines = [f"## {SECTIONS[name]}\n", f"{document['title']}\n"]
    if name in NOTES:
        lines.append(f"{NOTES[name]}\n")
    if name == "growth":
        lines.append(f"![Seconds against rows, clusters and columns](benchmarks/{PICTURE})\n")
    lines += [
        "| what | takes | in units of | ratio | target | |",
        "|---|---:|---|---:|---:|---|",
        *map(_row, document["ratios"]),
        "",
        f"{_machine(document)}\n",
    ]
    return "\n".join(lines)


def _row(ratio: Mapping[str, Any]) -> str:
    unit = f" {ratio['unit']}" if ratio["unit"] else ""
    bound = "" if ratio["bound"] is None else f"{ratio['bound']:g}"
    cells = (
        ratio["name"],
        f"{_number(ratio['amount'])}{unit}",
        f"{ratio['floor']}: {_number(ratio['floor_amount'])}{unit}",
        _number(ratio["ratio"]),
        bound,
        ratio["verdict"],
    )
    return f"| {' | '.join(cells)} |"


def _number(value: float) -> str:
    if value >= 1000:
        return f"{value:,.0f}"
    # Near one, the fourth digit tells pass from miss.
    return f"{value:.4g}" if 0.9 < value < 1.1 else f"{value:.3g}"


def _machine(document: Document) -> str:
    machine = document["machine"]
    versions = ", ".join(f"{name} {machine[name]}" for name in ("numpy", "scipy", "sklearn"))
    repeats = "once" if document["repeats"] == 1 else f"{document['repeats']} times"
    threads = "1 thread" if machine["threads"] == 1 else f"{machine['threads']} threads"
    return (
        f"Measured {repeats} on {machine['cores']} cores, with {threads} unless stated otherwise; "
        f"Python {machine['python']}, {versions}."
    )


def draw(found: Mapping[str, Document], path: Path) -> None:
    """Seconds against sizes, on logarithmic axes."""
    if "growth" not in found:
        return
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import LogLocator, NullFormatter, NullLocator

    lines = [ratio["details"] | {"name": ratio["name"]} for ratio in found["growth"]["ratios"]]
    # Neither a date nor random names: the same figures are the same file.
    with plt.rc_context({"svg.hashsalt": "fairmix", "font.size": 9}):
        figure, axes = plt.subplots(2, 2, figsize=(8, 6.4), layout="constrained")
        for ax, (what, letter, label) in zip(axes.flat, PANELS, strict=True):
            shown = [e for e in lines if (e["what"], e["letter"]) == (what, letter)]
            sizes = max((entry["sizes"] for entry in shown), key=len)
            for entry in shown:
                method = entry["name"].split(", ", 1)[1]
                style = {"marker": "o", "markersize": 3.5, "color": COLORS[method]}
                ax.loglog(entry["sizes"], entry["seconds"], label=method, **style)
            ax.set(xlabel=label, ylabel=f"seconds per {what}")
            ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            ax.yaxis.set_major_formatter("{x:g}")
            ax.yaxis.set_minor_formatter(NullFormatter())
            if letter != "N":
                ax.set_xticks(sizes, sizes)
                ax.xaxis.set_minor_locator(NullLocator())
            ax.spines[["top", "right"]].set_visible(False)
            ax.grid(alpha=0.25, linewidth=0.5)
        # The panel of whole fits has every method.
        handles, labels = axes.flat[1].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
        figure.savefig(path, metadata={"Date": None})
        plt.close(figure)
