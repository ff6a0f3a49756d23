"""Views: results as text of at most 80 columns."""

from __future__ import annotations

from math import isnan

from fairmix.cli.data import DROP_ROWS, Data
from fairmix.cli.fitting import Fit
from fairmix.cli.screen import aligned, counted, wrapped
from fairmix.compare_table import HELD_OUT, Comparison
from fairmix.fairness_table import Figure
from fairmix.path_table import ParetoFront, figure
from fairmix.profile import Profile
from fairmix.roles import FEATURES

# Groups beside each other in a table.
SHOWN_GROUPS = 5
LONGEST_NAME = 14
MEASURES = ("cost", "gap", "balance")


def roles_text(data: Data) -> str:
    """What the columns of the data are."""
    title = f"{data.name}: {data.n_rows:,} rows, {len(data.blocks.sources[0].schema.names)} columns"
    lines = [title, wrapped(", ".join(data.sensitive), "  sensitive    ")]
    for kind in FEATURES:
        names = [
            r.name if r.n_values is None or kind == "numeric" else f"{r.name} ({r.n_values})"
            for r in data.roles
            if r.kind == kind
        ]
        if names:
            lines.append(wrapped(", ".join(names), f"  {kind:<13}"))
    left_out = [f"{name}: {reason}" for name, reason in data.left_out.items()]
    title = "  left out     "
    for entry in left_out:
        lines.append(wrapped(entry, title))
        title = " " * len(title)
    return "\n".join(lines) + "\n"


def gaps_text(data: Data) -> str:
    """What is done about missing values."""
    if data.missing == DROP_ROWS:
        return f"Rows without a value are left out: {counted(data.gaps)}."
    return (
        f"Values are missing: {counted(data.gaps)}. They are integrated out of the likelihood: a "
        "row counts with the values that it has. See --missing for other ways."
    )


def fit_text(found: Fit) -> str:
    """The verdict and the clusters."""
    model = found.model
    what = f"{model.criterion.replace('_', ' ')} of the {model.gap_of}"
    verdict = (
        f"{'Bound met' if found.met else 'BOUND MISSED'}: the {what} is {model.gap_:.4f}, at most "
        f"{model.max_gap:g} was asked for. Balance {model.balance_:.3f}."
    )
    lines = [wrapped(verdict), "", shares_text(found.profile)]
    if found.certificate is not None:
        lines += ["", wrapped(str(found.certificate))]
    return "\n".join([*lines, ""])


def figures_text(profile: Profile, figures: dict[str, Figure]) -> str:
    """The criteria and the balance, with their intervals."""
    counts = f"{profile.n_clusters} clusters, {len(profile.groups)} groups ({profile.title})"
    lines = [f"{counts}, {profile.n_rows:,} rows; 95% bootstrap intervals", ""]
    for name, found in figures.items():
        known = "" if isnan(found.low) else f"  [{found.low:.4f}, {found.high:.4f}]"
        lines.append(f"{name.replace('_', ' '):<14}  {found.value:.4f}{known}")
    return "\n".join([*lines, ""])


def front_text(front: ParetoFront) -> str:
    """One line per bound."""
    rows = [["max gap", "gap", "balance", "cost", "nll", "clusters", "met", "seconds", ""]]
    for row in front.rows:
        values = [figure(name, getattr(row, name)) for name in ("max_gap", "gap", "balance")]
        values += [_dash("cost", row.cost), _dash("nll", row.nll)]
        met = "yes" if row.met else "no"
        mark = "dominated" if row.dominated else ""
        rows.append([*values, str(row.non_empty), met, f"{row.seconds:.1f}", mark])
    return aligned(rows)


def comparison_text(found: Comparison) -> str:
    """One line per method; a second table of the held-out rows."""
    rows = [["method", *MEASURES, "clusters", "seconds", "unseen", "group"]]
    for row in found.rows:
        values = [_dash(name, getattr(row, name)) for name in MEASURES]
        unseen = "-" if row.assigns_unseen is None else "yes" if row.assigns_unseen else "no"
        run = [str(row.clusters), _dash("seconds", row.seconds), unseen, row.needs_group or "-"]
        rows.append([row.method, *values, *run])
    parts = [aligned(rows, left=1)]
    if found.n_test:
        held = [["method", *MEASURES]]
        for row in found.rows:
            if row.assigns_unseen:
                values = [_dash(name, getattr(row, f"{HELD_OUT}{name}")) for name in MEASURES]
                held.append([row.method, *values])
        title = f"On {found.n_test:,} held-out rows (above: {found.n_train:,} rows of the fit):"
        parts.append(f"{title}\n{aligned(held, left=1)}")
    beaten = [row.method for row in found.rows if row.dominated]
    if beaten:
        parts.append(wrapped(f"Dominated, in gap and cost, by another: {'; '.join(beaten)}."))
    for row in found.rows:
        notes = (*([row.error] if row.error else []), *row.warnings)
        parts += [wrapped(f"{row.method}: {note}") for note in notes]
    return "\n\n".join(parts)


def _dash(name: str, value: float) -> str:
    if isnan(value):
        return "-"
    return f"{value:.1f}" if name == "seconds" else figure(name, value)


def shares_text(profile: Profile) -> str:
    """Rows of each cluster, and the share that each group has in it."""
    groups = list(profile.groups)[:SHOWN_GROUPS]
    head = ["cluster", "rows", *(_cut(name) for name in groups)]
    rows = [head]
    for name, counts in zip(profile.clusters, profile.counts.T, strict=True):
        rows.append([_cut(name), *_shares(counts.tolist(), len(groups))])
    rows.append(["all", *_shares(profile.counts.sum(axis=1).tolist(), len(groups))])
    text = aligned(rows)
    hidden = len(profile.groups) - len(groups)
    return text + (f"\n({hidden} more groups)" if hidden else "")


def _shares(counts: list[int], n_groups: int) -> list[str]:
    total = sum(counts)
    return [f"{total:,}", *(f"{c / total:.1%}" if total else "-" for c in counts[:n_groups])]


def _cut(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"
