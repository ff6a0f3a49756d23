"""The box at the top: what was measured, in one sentence, and whether a bound is met."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fairmix.criteria import CRITERIA, SmallestRatio, smallest_ratio
from fairmix.report.disclosure import (
    FEWEST,
    MANY,
    SafeCounts,
    certified,
    rounded_down,
    rounded_up,
)
from fairmix.report.figures import HIDDEN, at_most, count, cut, percent, value
from fairmix.report.ratios import down, ratio_notes
from fairmix.results.certificate import Certificate, chance_gap
from fairmix.results.profile import Profile
from fairmix.results.verdict import (
    MET,
    MET_FOR_JUDGED,
    MISSED,
    NO_BOUND,
    NOT_JUDGED,
    Verdict,
    judge_counts,
    verdict_of,
)

if TYPE_CHECKING:
    from fairmix.estimator import FairMixture

__all__ = [
    "NOT_TOLD",
    "Box",
    "box",
    "certified_text",
    "compared",
    "criterion_of",
    "fit_gap",
    "held_sizes",
    "is_bounded",
    "judged",
    "label_gap",
    "observed_text",
    "soft_gap",
    "unjudged_text",
]

FloatArray = NDArray[np.float64]

# What each rule on a ratio compares, and the figure whose chance is told beside it.
RATIOS = {"min_ratio": "shares", "min_balance": "rows"}
CHANCE_OF = {"min_ratio": "rate_ratio", "min_balance": "balance"}
CLOSE = 1e-9  # two gaps of the same labels differ by rounding only
LISTED = 12  # names before "and 8 more"
NOT_TOLD = (
    "Whether the bound is met is not told: the groups have so few rows that it would tell how many "
    "of them are in which cluster."
)


@dataclass(frozen=True)
class Box:
    """What stands at the top of the report.

    ``state`` is its colour: ``"met"``; ``"partly"`` (met for the judged groups); ``"chance"``
    (held-out rows are above the bound, within chance); ``"missed"``; or ``"measured"``, where
    nothing is judged. The headline says it as a person would, with the cluster and the groups that
    it is about; the sentence has the definition, and the notes explain it.
    """

    state: str
    sentence: str
    notes: tuple[str, ...]
    headline: str = ""


def criterion_of(model: FairMixture | None) -> str:
    """The criterion of the report."""
    return "gap" if model is None else str(model.criterion)


def is_bounded(model: FairMixture | None) -> bool:
    """Whether the fit had a bound to meet."""
    return (
        model is not None
        and len(model.fitted_.groups.names) > 1
        and model.fairness_strength == "auto"
    )


def judged(profile: Profile, model: FairMixture | None) -> Verdict:
    """The verdict on the clusters of a profile.

    A bound of a fit is met only if it is met at the fit and, for labels, on these rows.

    Examples
    --------
    >>> profile = Profile(groups=["f", "m"], n_clusters=2)
    >>> profile.add(np.zeros((40, 1)), [0, 1] * 20, ["f"] * 20 + ["m"] * 20)
    >>> judged(profile, None).word
    'no bound'
    """
    if model is None or not (len(model.fitted_.groups.names) or model.unjudged_groups_):
        return judge_counts(profile.counts, profile.groups, np.inf, min_group_size=1)
    fit = verdict_of(model)
    here = judge_counts(
        profile.counts,
        profile.groups,
        fit.bound if (limit := model.fitted_.rule.limit) is None else limit.of(""),
        criterion=model.criterion,
        min_group_size=model.min_group_size,
        # What the fit did not judge has no bound to keep, however many rows of it are here.
        among=list(model.fitted_.groups.names),
    )
    # A missed fit stays missed, and counts of labels say nothing about a bound on probabilities.
    if model.gap_of == "labels" and fit.word != MISSED:
        return here
    return replace(fit, unjudged=here.unjudged)


def compared(profile: Profile, verdict: Verdict) -> Profile:
    """The part of a profile whose groups are shown.

    These are the judged ones, or all where fewer than two are judged, and of them those with at
    least 10 rows. Other groups are left out as a whole: neither the few rows that they have nor
    sums with them are in the tables, so nothing can be subtracted.
    """
    names = [name for name in profile.groups if name not in verdict.unjudged]
    if len(names) < 2:
        names = list(profile.groups)
    sizes = profile.counts.sum(axis=1)
    rows = [g for g, n in enumerate(profile.groups) if n in names and sizes[g] >= FEWEST]
    if len(rows) == len(profile.groups):
        return profile
    # Columns are described from all rows still; only groups and counts are cut.
    part = copy(profile)
    part.groups = tuple(profile.groups[g] for g in rows)
    part.counts = profile.counts[rows]
    return part


def box(
    profile: Profile,
    safe: SafeCounts,
    verdict: Verdict,
    criterion: str,
    model: FairMixture | None = None,
    certificate: Certificate | None = None,
    *,
    left_out: Sequence[str] = (),
    names: Mapping[str, str] | None = None,
) -> Box:
    """What stands at the top of the report.

    ``left_out`` are groups that are not in the profile, because they have too few rows to show;
    ``names`` says what makes some clusters.

    Examples
    --------
    >>> profile = Profile(groups=["f", "m"], n_clusters=2)
    >>> profile.add(np.zeros((40, 1)), [0, 1] * 20, ["f"] * 20 + ["m"] * 20)
    >>> box(profile, SafeCounts.of(profile.counts), judged(profile, None), "gap").state
    'measured'
    """
    left = unjudged_text(verdict.unjudged)
    unjudged: tuple[str, ...] = (f"Not judged: {left}.",) if left else ()
    hidden = [name for name in left_out if name not in verdict.unjudged]
    if hidden:
        unjudged += (f"Not shown: {unjudged_text(dict.fromkeys(hidden, 0))}.",)
    # Without a bound the groups that are shown are compared, with one all that are judged.
    n_groups = len(profile.groups) + (len(hidden) if verdict.met is not None else 0)
    if n_groups < 2:
        only = cut(profile.groups[0]) if profile.groups else "none"
        said = f"There is only one group ({only}), so there is nothing to compare."
        if left_out:
            said = f"Fewer than two groups have {FEWEST} rows, so nothing is compared."
        if verdict.word == NOT_JUDGED:
            said = "The bound is not judged: fewer than two groups have enough rows."
        return Box("measured", said, unjudged, said)
    on_ratio = verdict.at_least or verdict.met is None
    worst = _worst(safe, criterion, on_ratio=on_ratio)
    place = _spoken(profile, safe, worst, names or {})
    if verdict.word == NOT_JUDGED:
        said = "The bound is not judged: fewer than two groups have enough rows."
        headline = f"{said[:-1]}; those that are shown are least even in {place}."
        return Box("measured", said, (*unjudged, *_certified(certificate)), headline)
    notes = (
        *unjudged,
        # Beside a bound on a ratio, the largest difference would only distract.
        *(() if verdict.at_least else _where(profile, safe, criterion, worst)),
        *ratio_notes(profile, safe, verdict, worst),
        *_by_chance(safe, verdict, criterion),
        *_certified(certificate),
    )
    measure = _measured(verdict, criterion)
    if verdict.word == NO_BOUND:
        said = f"No bound is set. {_capital(measure)} is {safe.gap(criterion)}."
        headline = f"No bound is set: the groups are least even in {place}."
        return Box("measured", said, notes, headline)
    if safe.silent:
        return Box("measured", NOT_TOLD, unjudged, NOT_TOLD)
    text = _label_figure(safe, verdict, criterion, model, bool(hidden))
    if model is not None and model.gap_of == "probabilities":
        notes = (f"For the labels it is {text}.", *notes)
        measure += ", measured by probabilities,"
        text = _soft_figure(model, safe, verdict)
    if model is not None and not hidden and not _same_rows(model, safe):
        notes = (_of_the_fit(model, safe, verdict, text), *notes)
    # A certificate of a plain model has no bound to be compared with.
    held = None if certificate is None or certificate.verdict.bound == np.inf else certificate
    allowed = _allowed(verdict, safe, shows_sizes=not hidden)
    state, title, fresh, more = _against_bound(verdict, held)
    asked = f"the bound is {verdict.bound:g}"
    if verdict.at_least:
        asked = f"at least {verdict.bound:g} is asked for"
    both = f"{text} on the rows of the fit and {fresh} on held-out rows" if fresh else text
    sentence = f"{_capital(measure)} is {both}, and {asked}{allowed}."
    headline = _headline(title, place, text, fresh, verdict, model)
    return Box(state, sentence, (*more, *notes), headline)


def _headline(
    title: str, place: str, text: str, fresh: str, verdict: Verdict, model: FairMixture | None
) -> str:
    """The verdict, the worst cluster, and what was asked for, in one sentence."""
    # The cluster is one of the rows of the fit, which held-out rows are not.
    fit = "on the rows of the fit"
    here = "the groups"
    if fresh:
        here = f"{'there' if title.endswith(fit) else fit} the groups"
    if model is not None and model.gap_of == "probabilities":
        return f"{title}, for probabilities; by labels {here} differ most in {place}."
    figures = "" if verdict.parameter == "min_ratio" else f"{verdict.noun} {text}"
    if fresh:
        figures += f"{', ' if figures else ''}{verdict.noun} on held-out rows {fresh}"
    told = f" ({figures})" if figures else ""
    if verdict.at_least:
        asked = f"at least {verdict.bound:g} was asked for"
        return f"{title}: {here} are least even in {place}{told}; {asked}."
    return f"{title}: {here} differ most in {place}{told}; at most {verdict.bound:g} was asked for."


def _worst(safe: SafeCounts, criterion: str, *, on_ratio: bool) -> tuple[int, int, int] | None:
    """The cluster in which groups differ most, and the groups with the smallest and largest rate.

    None where that is hidden.
    """

    def where(table: FloatArray) -> tuple[int, int, int]:
        rates = _rates(table)
        filled = np.flatnonzero(table.sum(axis=0) > 0)
        if on_ratio:
            uneven = 1 - rates[:, filled].min(axis=0) / rates[:, filled].max(axis=0)
        else:
            uneven = np.array([CRITERIA[criterion].value(rates[:, [k]]) for k in filled])
        k = int(filled[uneven.argmax()])
        return k, int(rates[:, k].argmin()), int(rates[:, k].argmax())

    found = safe.tell(where)
    return None if found is None or safe.pool[found[0]] else found


def _spoken(
    profile: Profile,
    safe: SafeCounts,
    worst: tuple[int, int, int] | None,
    names: Mapping[str, str],
) -> str:
    """A cluster, with both rates and their ratio."""
    if worst is None:
        return "a cluster whose counts are hidden"
    k, low, high = worst
    rates = safe.counts[:, k] / safe.group_sizes
    cluster = str(profile.clusters[k])
    name = f" ({names[cluster]})" if names.get(cluster) else ""
    each = " and ".join(
        f"{_rate(rates[g])} of the group {cut(profile.groups[g])}" for g in (low, high)
    )
    ratio = down(rates[low] / rates[high])
    return f"cluster {cut(cluster)}{name}, which holds {each}, a ratio of {ratio}"


def _rate(share: float) -> str:
    # Of less than a hundredth, one decimal is not enough to compare two.
    return percent(share) if share >= 0.01 or share == 0 else f"{100 * share:.2f}%"


def _measured(verdict: Verdict, criterion: str) -> str:
    """What the rule is on, in words."""
    if verdict.parameter not in RATIOS:
        return CRITERIA[criterion].words
    none = np.ones(0)
    return SmallestRatio(none, none, none, what=RATIOS[verdict.parameter]).words


def _label_figure(
    safe: SafeCounts, verdict: Verdict, criterion: str, model: FairMixture | None, tiny: bool
) -> str:
    """What the rule is on, of the labels."""
    if not verdict.at_least:
        return label_gap(safe, verdict, criterion, model, tiny)
    said = safe.tell(lambda table: down(_figure(table, verdict, criterion)))
    judged_here = model is None or model.gap_of == "labels"
    return said or (_known(verdict) if judged_here else HIDDEN)


def _soft_figure(model: FairMixture, safe: SafeCounts, verdict: Verdict) -> str:
    """What the rule is on, of the probabilities; near labels, so hidden where they are."""
    if not verdict.at_least:
        return soft_gap(model, safe)
    return _known(verdict) if safe.pool.any() else down(verdict.value)


def _known(verdict: Verdict) -> str:
    """What the verdict on a ratio says in any case."""
    # How many rows are forgiven depends on the counts of one cluster.
    if verdict.forgiven:
        return HIDDEN
    return f"{'at least' if verdict.holds else 'below'} {verdict.bound:g}"


def label_gap(
    safe: SafeCounts, verdict: Verdict, criterion: str, model: FairMixture | None, tiny: bool
) -> str:
    """The gap of the labels on these rows; ``tiny``: a judged group is too small to show."""
    cap = np.inf
    on_gap = not verdict.at_least
    if verdict.holds and on_gap and (model is None or model.gap_of == "labels"):
        # That it is at most this is what the verdict says.
        cap = max(verdict.bound, 0.0 if tiny else verdict.resolution)
    if not tiny:
        return safe.gap(criterion, cap=cap)
    # The resolution depends on the size of a group that is hidden.
    known = on_gap and verdict.holds and verdict.value <= verdict.bound
    return at_most(cap) if known else HIDDEN


def _of_the_fit(model: FairMixture, safe: SafeCounts, verdict: Verdict, here: str) -> str:
    """What holds of the rows of the fit, which are not those of the report."""
    if not verdict.at_least:
        return (
            f"In the fit, the gap of the labels was {fit_gap(model, safe, here)}, because the fit "
            "used other rows or weights."
        )
    # A bound on a ratio says more of hidden counts than whether it was met.
    word = HIDDEN if safe.pool.any() else model.verdict_
    return f"In the fit, which used other rows or weights, the verdict was: {word}."


def fit_gap(model: FairMixture, safe: SafeCounts, here: str) -> str:
    """The gap of the labels in the fit, which is ``here`` if it used the rows of the report."""
    if _same_rows(model, safe):
        return here
    # Most rows are the same, so it says much of the counts that are hidden here.
    if safe.pool.any():
        return HIDDEN
    return rounded_up(model.label_gap_, model.fitted_.groups.sizes)


def _same_rows(model: FairMixture, safe: SafeCounts) -> bool:
    rates = safe.counts / safe.group_sizes[:, None]
    return bool(abs(CRITERIA[model.criterion].value(rates) - model.label_gap_) < CLOSE)


def soft_gap(model: FairMixture, safe: SafeCounts) -> str:
    """The gap of the probabilities; near labels, so it is hidden where counts of labels are."""
    if not safe.pool.any():
        return value(model.soft_gap_)
    met = model.gap_of == "probabilities" and model.verdict_ in (MET, MET_FOR_JUDGED)
    return at_most(max(model.fitted_.rule.max_gap, float(model.resolution_))) if met else HIDDEN


def _against_bound(
    verdict: Verdict, held: Certificate | None
) -> tuple[str, str, str, tuple[str, ...]]:
    """The verdict on the rows of the report and, where some were held out, on those.

    The state of the box, the verdict in words, the figure of the held-out rows where it is judged,
    and notes on them.
    """
    state = {MET: "met", MET_FOR_JUDGED: "partly", MISSED: "missed"}[verdict.word]
    title = f"The bound is {verdict.word}"
    if held is None:
        return state, title, "", ()
    fresh = held.verdict
    if verdict.holds and held.by_chance:
        state = "chance"
        side = "below" if verdict.at_least else "above"
        title += f" on the rows of the fit; held-out rows are {side} it, within chance"
    elif verdict.holds and fresh.word == MISSED:
        state = "missed"
        title = (
            "The bound is missed on held-out rows, by more than chance explains, and "
            f"{verdict.word} on the rows of the fit"
        )
    elif verdict.holds and fresh.word == NOT_JUDGED:
        state = "measured"
        title += " on the rows of the fit; held-out rows are too few to judge"
    seen = ""
    notes: tuple[str, ...] = ()
    if fresh.met is not None:
        cap = max(fresh.bound, fresh.resolution) if fresh.holds else np.inf
        seen = (
            rounded_down(fresh.value, held_sizes(held))
            if fresh.at_least
            else rounded_up(fresh.value, held_sizes(held), cap=cap)
        )
        notes = _explained(held)
    # Those of the fit have been named already.
    left = unjudged_text({n: k for n, k in fresh.unjudged.items() if n not in verdict.unjudged})
    if left:
        notes = (f"Not judged among the held-out rows: {left}.", *notes)
    return state, title, seen, notes


def _allowed(verdict: Verdict, safe: SafeCounts, *, shows_sizes: bool) -> str:
    """That a bound is met only as closely as whole rows allow, or may be."""
    # What they allow of a ratio follows from the counts of a cluster, so nothing of it is told but
    # whether a bound needed it. That of a gap follows from the sizes of the groups.
    if verdict.at_least or not shows_sizes:
        return " (met as closely as whole rows allow)" if verdict.forgiven else ""
    # Whether a gap needed it would say much of counts that are hidden.
    if safe.pool.any() and verdict.holds and verdict.resolution > verdict.bound:
        return f" (or as close to it as whole rows allow, which is {verdict.resolution:.2g})"
    allowed = f" (met as closely as whole rows allow, to within {verdict.resolution:.2g})"
    return allowed if verdict.forgiven else ""


def held_sizes(held: Certificate) -> list[int]:
    """Held-out rows of each group."""
    return list(held.group_sizes.values())


def _explained(held: Certificate) -> tuple[str, ...]:
    at_least, noun = held.verdict.at_least, held.verdict.noun
    sizes = held_sizes(held)
    # It rests on the counts of the held-out rows.
    if min(sizes) < MANY:
        return ()
    if at_least:
        chance = rounded_down(held.chance, sizes).replace("at least", "down to")
    else:
        chance = rounded_up(held.chance, sizes, rows=5).replace("at most", "up to")
    return (
        f"Chance explains a {noun} of {chance} on these held-out rows: the map was tuned to other "
        f"rows, and samples differ. 19 of 20 samples would show {'more' if at_least else 'less'}.",
    )


def unjudged_text(unjudged: Mapping[str, int]) -> str:
    """Groups that are not judged; how few rows the smallest have stays hidden.

    Examples
    --------
    >>> unjudged_text({"x": 2, "y": 12})
    'x (fewer than 10 rows), y (12 rows)'
    """
    named = [
        f"{cut(name)} ({f'fewer than {FEWEST}' if rows < FEWEST else count(rows)} rows)"
        for name, rows in unjudged.items()
    ]
    left = f" and {len(named) - LISTED} more" if len(named) > LISTED else ""
    return ", ".join(named[:LISTED]) + left


def _where(
    profile: Profile, safe: SafeCounts, criterion: str, told: tuple[int, int, int] | None
) -> tuple[str, ...]:
    """Where the groups differ most, in words, unless the headline has told of that cluster."""

    def most(table: FloatArray) -> int:
        rates = _rates(table)
        gaps = [CRITERIA[criterion].value(rates[:, [k]]) for k in range(rates.shape[1])]
        return int(np.argmax(gaps)) if max(gaps) > 0 else -1

    k = safe.tell(most)
    if k is None or (k >= 0 and safe.pool[k]):
        return ("The groups differ most in a cluster whose counts are hidden.",)
    if k < 0:
        return ()
    note = CRITERIA[criterion].note(len(profile.groups))
    if told is not None and told[0] == k:
        return (note,) if note else ()
    rates = safe.counts[:, k] / safe.group_sizes
    # In the order of the tables, not by size: the sentence takes no side.
    first, second = sorted((int(rates.argmin()), int(rates.argmax())))
    return (
        f"The groups differ most in cluster {cut(profile.clusters[k])}, which holds "
        f"{percent(rates[first])} of {cut(profile.groups[first])} and "
        f"{percent(rates[second])} of {cut(profile.groups[second])}.{note and f' {note}'}",
    )


def _by_chance(safe: SafeCounts, verdict: Verdict, criterion: str) -> tuple[str, ...]:
    """What chance alone would show of what the rule is on."""
    if not safe.has_cells:
        return ()
    # Sums of probabilities are whole only up to rounding.
    whole = np.rint(safe.group_sizes).astype(np.int64)
    # Of what the page shows: the same draws from exact counts would give hidden ones away. With 500
    # draws the level of the quantile has a standard error of one point, sqrt(0.95 * 0.05 / 500),
    # which is enough for a sentence.
    sizes = safe.estimate.sum(axis=0)
    name = CHANCE_OF.get(verdict.parameter, criterion)
    usual = chance_gap(sizes, whole, criterion=name, n_draws=500).quantile95
    below = safe.tell(lambda table: _figure(table, verdict, criterion) <= usual)
    word = "" if below is None else f"; this one is {'below' if below else 'above'} that"
    side = "above" if verdict.at_least else "below"
    return (
        f"By chance alone, 19 of 20 samples of this size from an even population would show a "
        f"{verdict.noun} {side} {value(usual)}{word}.",
    )


def _figure(table: FloatArray, verdict: Verdict, criterion: str) -> float:
    """What the rule is on, of counts."""
    if verdict.parameter == "min_balance":
        return smallest_ratio(table)
    rates = _rates(table)
    return smallest_ratio(rates) if verdict.at_least else CRITERIA[criterion].value(rates)


def _rates(table: FloatArray) -> FloatArray:
    return np.asarray(table / table.sum(axis=1, keepdims=True))


def certified_text(certificate: Certificate) -> str:
    """What the held-out rows prove, as far as it may be told."""
    sizes = held_sizes(certificate)
    if certificate.at_least:
        return rounded_down(certificate.bound, sizes)
    return certified(certificate)


def observed_text(certificate: Certificate) -> str:
    """What they show."""
    sizes = held_sizes(certificate)
    if certificate.at_least:
        return rounded_down(certificate.value, sizes)
    return rounded_up(certificate.value, sizes)


def _certified(certificate: Certificate | None) -> tuple[str, ...]:
    if certificate is None:
        return ()
    bound = certified_text(certificate)
    if bound == HIDDEN:
        return ()
    return (
        f"For new rows, the certificate gives {bound} "
        f"(confidence {100 * certificate.confidence:.4g}%; see below).",
    )


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
