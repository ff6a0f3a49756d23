"""Texts: what a command found, in lines of at most 80 columns."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import isnan, nan

from fairmix import FairMixture
from fairmix.cli.auditing import judged_counts
from fairmix.cli.choosing import Choice
from fairmix.cli.files import DROP_ROWS, InputFiles
from fairmix.cli.fitting import Fit
from fairmix.cli.screen import LISTED, WIDTH, counted, in_options, listed, wrapped
from fairmix.criteria import LIMITS, Limit, MinBalance, MinRatio, best_balance
from fairmix.input.groups import listed_groups
from fairmix.input.guesses import FEATURES
from fairmix.results.certificate import Certificate
from fairmix.results.fairness import FOUR_FIFTHS, Figure
from fairmix.results.profile import Profile
from fairmix.results.proxies import Proxies
from fairmix.results.ratio import LeastRatio
from fairmix.results.text import aligned, cell, rows_text, shortened
from fairmix.results.verdict import MISSED, NO_BOUND, NOT_JUDGED, Verdict
from fairmix.studies import Comparison, ParetoFront

# Columns of one kind, which are a screen.
SHOWN_COLUMNS = 100
# Groups in tables, and characters of their names.
SHOWN_GROUPS = 24
LONGEST_NAME = 14
# Columns of tables, as many as 80 characters hold; the results themselves print more.
FRONT_COLUMNS = ("gap", "ratio", "balance")
MEASURES = ("cost", "gap", "balance")
RUN_COLUMNS = ("clusters", "seconds", "assigns_unseen", "needs_group")
# What a rule is on; a gap has the name of its criterion.
NOUNS = {"min_ratio": "smallest ratio", "min_balance": "balance"}
# What a row without a group is.
GROUPS = {
    "drop": "Rows without a group count for nothing",
    "group": "Rows without a group are the group 'missing'",
}


def columns_text(data: InputFiles) -> str:
    """What the columns of the data are taken for, and why."""
    title = f"{data.name}: {data.n_rows:,} rows, {len(data.blocks.sources[0].schema.names)} columns"
    lines = [title, wrapped(", ".join(data.sensitive), "  sensitive    ")]
    for kind in FEATURES:
        by_reason: dict[str, list[str]] = {}
        for guess in data.guesses:
            if guess.kind == kind:
                counted = kind == "categorical" and guess.n_values is not None
                name = f"{guess.name} ({guess.n_values})" if counted else guess.name
                by_reason.setdefault(guess.reason, []).append(name)
        said = [f"{listed(names, SHOWN_COLUMNS)}: {reason}" for reason, names in by_reason.items()]
        lines += _under(f"  {kind:<13}", said)
    by_reason = {}
    for name, reason in data.left_out.items():
        by_reason.setdefault(reason, []).append(name)
    left_out = [f"{listed(names, SHOWN_COLUMNS)}: {reason}" for reason, names in by_reason.items()]
    lines += _under("  left out     ", left_out)
    lines.append("  (to change: --numeric, --categorical or --drop, each with a NAME)")
    return "\n".join(lines) + "\n"


def _under(title: str, entries: list[str]) -> list[str]:
    """Entries below each other, the title beside the first."""
    return [
        wrapped(entry, title if i == 0 else " " * len(title)) for i, entry in enumerate(entries)
    ]


def gaps_text(data: InputFiles) -> str:
    """What is done about missing values."""
    said = []
    if data.lacking:
        said.append(f"{GROUPS[data.missing_groups]}: {counted(data.lacking)}.")
    # A column of groups is told about once, by what its rows are.
    gaps = {name: n for name, n in data.gaps.items() if name not in data.lacking}
    if gaps and data.missing == DROP_ROWS:
        said.append(f"Rows without a value are left out: {counted(gaps)}.")
    elif gaps:
        said.append(
            f"Values are missing: {counted(gaps)}. They are integrated out of the likelihood: a "
            "row counts with the values that it has. See --missing for other ways."
        )
    marks = {mark for name, found in data.marked.items() if name in data.used for mark in found}
    if marks:
        said.append(f"{', '.join(map(repr, sorted(marks)))}: read as missing.")
    return " ".join(said)


def model_text(model: FairMixture, n_clusters: int | None) -> str:
    """What is fitted, and the options that change it."""
    scale = "standardised" if model.standardize else "as they are"
    clusters = f"{n_clusters} clusters" if n_clusters else "Number of clusters: to be chosen"
    given = "-k N, -k auto" if n_clusters else "-k N"
    change = f"to change: {given}, --no-standardize" if model.standardize else f"to change: {given}"
    return (
        wrapped(f"{clusters}, numbers {scale}, {model.assignment} ({change}, --assignment)") + "\n"
    )


def choice_text(choice: Choice) -> str:
    """The number of clusters, and why."""
    least = choice.totals[choice.best]
    rows = [["clusters", "BIC", "above the best", ""]]
    for number, total in choice.totals.items():
        mark = "chosen" if number == choice.best else ""
        rows.append([str(number), f"{total:,.0f}", f"{total - least:,.0f}", mark])
    head = f"Plain mixtures of {choice.n_rows:,} rows"
    return f"{head}\n{aligned(rows, words=(3,))}\n{wrapped(choice.reason)}\n"


def proxies_text(proxies: Mapping[str, Proxies]) -> list[str]:
    """Which columns say most about the groups."""
    said = []
    for title, found in proxies.items():
        if not found.columns:
            continue
        named = ", ".join(f"{name} ({right:.0%})" for name, right in found.columns.items())
        said.append(
            wrapped(
                f"These columns say most about {title}: {named}; all together {found.together:.0%}."
                f" So often a guess of {title} from them is right, where chance is right in "
                f"{found.chance:.0%}."
            )
        )
        for name in found.given_away:
            said.append(wrapped(f"{name} nearly gives {title} away. Leave it out: --drop {name}"))
    return said


def fit_text(found: Fit) -> str:
    """The verdicts and the clusters."""
    model = found.model
    lines = [] if found.choice is None else [choice_text(found.choice)]
    lines += [verdict_text(found.verdict, model.criterion, of=model.gap_of)]
    if found.profile.attributes:
        for title, own in model.fitted_.by_attribute.items():
            lines.append(attribute_text(title, own.verdict, own.least_ratio, own.fairness.balance))
    else:
        lines.append(ratio_text(found.verdict, found.least, model.balance_))
    if found.certificate is not None:
        lines.append(held_out_text(found.certificate))
    lines += ["", shares_text(found.profile)]
    told = proxies_text(found.proxies)
    lines += ["", *told] if told else []
    if found.certificate is not None:
        lines += ["", *map(wrapped, str(found.certificate).split("\n"))]
    return "\n".join([*lines, ""])


def verdict_text(verdict: Verdict, criterion: str, *, of: str = "") -> str:
    """A verdict in a sentence, and the groups that it leaves out."""
    what = NOUNS.get(verdict.parameter, criterion.replace("_", " "))
    what += f" of the {of}" if of else ""
    side = "at least" if verdict.at_least else "at most"
    asked = f"{side} {verdict.bound:g} was asked for"
    if verdict.word == NOT_JUDGED:
        said = f"Bound not judged: fewer than two groups have enough rows; {asked}."
    elif verdict.word == NO_BOUND:
        known = not isnan(verdict.value)
        said = f"No bound: the {what} is {verdict.value:.4f}." if known else "No bound."
    else:
        title = "BOUND MISSED" if verdict.word == MISSED else f"Bound {verdict.word}"
        said = f"{title}: the {what} is {_told(verdict)}, {asked}."
        # Otherwise the two numbers would seem to contradict the word.
        if verdict.forgiven:
            said += " Whole rows come no closer."
    lines = [wrapped(said)]
    if verdict.unjudged:
        lines.append(wrapped(f"not judged: {listed_groups(verdict.unjudged, LISTED)}"))
    return "\n".join(lines)


def _told(verdict: Verdict) -> str:
    """The value, with as many digits as tell on which side of the bound it is."""
    for digits in range(4, 10):
        text = f"{verdict.value:.{digits}f}"
        said, bound = float(text), verdict.bound
        if (said > bound, said < bound) == (verdict.value > bound, verdict.value < bound):
            break
        # On the bound is good enough for a value that keeps it.
        if said == bound and verdict.holds and not verdict.forgiven:
            break
    return text


def ratio_text(verdict: Verdict, least: LeastRatio | None, balance: float = nan) -> str:
    """The smallest ratio, where it is, and whether the rule allows it to be small."""
    if least is None:
        return wrapped("No ratio: fewer than two groups are judged.")
    said = (
        f"Smallest ratio {least.value:.3f}: cluster {least.cluster} has "
        f"{least.rate:.2%} of {least.group} and {least.other_rate:.2%} of {least.other}."
    )
    if not isnan(balance):
        said += f" Balance {balance:.3f}."
    lines = [wrapped(said)]
    if verdict.holds and verdict.parameter != MinRatio.parameter and not least.passes:
        lines.append(
            wrapped(
                f"A bound on the {verdict.noun} allows that; --min-ratio {FOUR_FIFTHS:g}, the "
                "four-fifths rule, does not."
            )
        )
    return "\n".join(lines)


def attribute_text(
    title: str, verdict: Verdict, least: LeastRatio | None, balance: float = nan
) -> str:
    """The verdict on one of several attributes, and its smallest ratio."""
    told = "" if isnan(verdict.value) else f", the {verdict.noun} is {_told(verdict)}"
    said = " ".join(ratio_text(verdict, least, balance).split())
    return wrapped(f"{title}: {verdict.word}{told}.") + "\n" + wrapped(said, "  ")


def reach_text(limit: Limit | None, profile: Profile, verdict: Verdict) -> str:
    """That no clusters of these groups have the Balance that is asked for."""
    counts, _ = judged_counts(profile, verdict)
    if not isinstance(limit, MinBalance) or len(counts) < 2:
        return ""
    best = best_balance(counts.sum(axis=1))
    if limit.bound <= best:
        return ""
    return (
        f"--min-balance {limit.bound:g} is out of reach: clusters cannot all have more than "
        f"{best:.4g}, the size of the smallest judged group over that of the largest."
    )


def held_out_text(certificate: Certificate) -> str:
    """The verdict on held-out rows."""
    verdict = certificate.verdict
    word = f"{verdict.word}, within chance" if certificate.by_chance else verdict.word
    said = f"On {certificate.n_rows:,} held-out rows: {word}."
    if verdict.met is not None:
        said += (
            f" The {verdict.noun} is {_told(verdict)}, sampling explains "
            f"{'down' if verdict.at_least else 'up'} to {certificate.chance:.4f}."
        )
    lines = [wrapped(said)]
    if verdict.unjudged:
        lines.append(wrapped(f"not judged: {listed_groups(verdict.unjudged, LISTED)}"))
    return "\n".join(lines)


def figures_text(profile: Profile, figures: dict[str, Figure]) -> str:
    """The criteria, the balance and the ratio, with their intervals."""
    counts = f"{profile.n_clusters} clusters, {len(profile.groups)} groups ({profile.title})"
    head = f"{counts}, {profile.n_rows:,} rows; 95% bootstrap intervals"
    lines = [[name.replace("_", " "), str(found)] for name, found in figures.items()]
    return f"{head}\n\n{aligned(lines, words=(0, 1))}\n"


def front_text(front: ParetoFront) -> str:
    """One line per bound."""
    rule = front.rows[0].rule
    # Without a cost, as of categories, the likelihood is what a bound costs.
    price = "nll" if isnan(front.rows[0].cost) else "cost"
    parts = [rows_text(front.rows, (rule, *FRONT_COLUMNS, price, "non_empty", "verdict"))]
    beaten = [cell(rule, row.bound) for row in front.rows if row.dominated]
    if beaten:
        what = f"{LIMITS[rule].noun} and {price}"
        parts.append(wrapped(f"Dominated, in {what}, by another: {', '.join(beaten)}."))
    # The same for every bound: groups are judged by their sizes alone.
    small = front.models[0].unjudged_groups_ if front.models else {}
    if small:
        parts.append(wrapped(f"not judged: {listed_groups(small, LISTED)}"))
    return "\n\n".join(parts)


def comparison_text(found: Comparison) -> str:
    """One line per method; a second table of the held-out rows."""
    parts = found.tables(MEASURES, RUN_COLUMNS)
    # A column more would not fit.
    ratios = [f"{row.method} {row.ratio:.3f}" for row in found.rows if not isnan(row.ratio)]
    if ratios:
        parts.append(wrapped(f"Smallest ratio: {'; '.join(ratios)}."))
    if found.unjudged:
        parts.append(wrapped(f"not judged: {listed_groups(found.unjudged, LISTED)}"))
    parts += [wrapped(text) for text in _verdicts(found)]
    beaten = [row.method for row in found.rows if row.dominated]
    if beaten:
        parts.append(wrapped(f"Dominated, in gap and cost, by another: {'; '.join(beaten)}."))
    for row in found.rows:
        # A remedy would name parameters that this command does not set.
        happened = [re.split(r"(?<=[a-z\d])[.;] ", warning)[0] + "." for warning in row.warnings]
        if row.error:
            happened.insert(0, re.sub(r"^\w+: ", "", row.error))
        parts += [wrapped(f"{row.method}: {in_options(text)}") for text in happened]
    return "\n\n".join(parts)


def _verdicts(found: Comparison) -> list[str]:
    """Of the methods that have a bound."""
    bounded = [row for row in found.rows if row.verdict not in (None, NO_BOUND)]
    texts = [f"{row.method} {row.verdict} ({row.max_gap:g})" for row in bounded]
    held = [f"{row.method} {row.test_verdict}" for row in bounded if row.test_verdict]
    said = [f"Each by its own bound: {'; '.join(texts)}."] if texts else []
    return said + ([f"On held-out rows: {'; '.join(held)}."] if held else [])


def shares_text(profile: Profile) -> str:
    """Rows of each cluster, and the share that each group has in it, by attribute."""
    if profile.attributes:
        tables = (f"{title}\n{shares_text(own)}" for title, own in profile.by_attribute.items())
        return "\n\n".join(tables)
    names = [shortened(name, LONGEST_NAME) for name in profile.groups[:SHOWN_GROUPS]]
    parts: list[str] = []
    start = 0
    while start < len(names):
        # As many groups beside each other as a line holds, and the others in tables below.
        stop = start + 1
        while stop < len(names) and _width(names[start : stop + 1]) <= WIDTH:
            stop += 1
        parts.append(_shares_table(profile, names, start, stop))
        start = stop
    hidden = len(profile.groups) - len(names)
    return "\n\n".join(parts) + (f"\n({hidden} more groups)" if hidden else "")


def _width(names: Sequence[str]) -> int:
    """Of a line with these groups: cluster, rows, and a share of up to six signs for each."""
    return LONGEST_NAME + 11 + sum(2 + max(6, len(name)) for name in names)


def _shares_table(profile: Profile, names: Sequence[str], start: int, stop: int) -> str:
    rows = [["cluster", "rows", *names[start:stop]]]
    every = profile.counts.sum(axis=1)
    for name, counts in zip(profile.clusters, profile.counts.T, strict=True):
        rows.append([shortened(name, LONGEST_NAME), *_shares(counts.tolist(), start, stop)])
    rows.append(["all", *_shares(every.tolist(), start, stop)])
    return aligned(rows)


def _shares(counts: list[int], start: int, stop: int) -> list[str]:
    total = sum(counts)
    return [f"{total:,}", *(f"{c / total:.1%}" if total else "-" for c in counts[start:stop])]
