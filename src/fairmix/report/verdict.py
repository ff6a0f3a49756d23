"""The box at the top: what was measured, in one sentence, and whether a bound is met."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from fairmix.criteria import CRITERIA
from fairmix.report.figures import count, cut, gap_text, percent, value
from fairmix.report.suppression import SMALLEST, SafeCounts
from fairmix.results.certificate import Certificate, chance_gap
from fairmix.results.profile import Profile, share_interval
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
    "Box",
    "box",
    "compared",
    "criterion_of",
    "is_bounded",
    "judged",
    "unjudged_text",
]

# Ratio of two groups' rates below which a cluster is worth a sentence: the four fifths that
# guidelines on selection name, as a reason to look, not as a verdict.
UNEVEN = 0.8
CLOSE = 1e-9  # two gaps of the same labels differ by rounding only
LISTED = 12  # names before "and 8 more"


@dataclass(frozen=True)
class Box:
    """What stands at the top of the report.

    ``state`` is its colour: ``"met"``; ``"partly"`` (met for the judged groups); ``"chance"``
    (held-out rows are above the bound, within chance); ``"missed"``; or ``"measured"``, where
    nothing is judged. The notes explain the sentence.
    """

    state: str
    sentence: str
    notes: tuple[str, ...]


def criterion_of(model: FairMixture | None) -> str:
    """The criterion of the report."""
    return "gap" if model is None else str(model.criterion)


def is_bounded(model: FairMixture | None) -> bool:
    """Whether the fit had a bound to meet."""
    return model is not None and len(model.groups_) > 1 and model.fairness_strength == "auto"


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
    if model is None or not (len(model.groups_) or model.unjudged_groups_):
        return judge_counts(profile.counts, profile.groups, np.inf, min_group_size=1)
    fit = verdict_of(model)
    here = judge_counts(
        profile.counts,
        profile.groups,
        fit.bound if (limit := model.fitted_.rule.limit) is None else limit,
        criterion=model.criterion,
        min_group_size=model.min_group_size,
        # What the fit did not judge has no bound to keep, however many rows of it are here.
        among=model.groups_.tolist(),
    )
    # A missed fit stays missed, and counts of labels say nothing about a bound on probabilities.
    if model.gap_of == "labels" and fit.word != MISSED:
        return here
    return replace(fit, unjudged=here.unjudged)


def compared(profile: Profile, verdict: Verdict) -> Profile:
    """The part of a profile whose groups are judged; all of it where these are fewer than two.

    Groups that are not judged are left out as a whole: neither the few rows that they have nor
    sums with them are in the tables, so nothing can be subtracted.
    """
    rows = [g for g, name in enumerate(profile.groups) if name not in verdict.unjudged]
    if len(rows) < 2 or len(rows) == len(profile.groups):
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
) -> Box:
    """What stands at the top of the report.

    Examples
    --------
    >>> profile = Profile(groups=["f", "m"], n_clusters=2)
    >>> profile.add(np.zeros((40, 1)), [0, 1] * 20, ["f"] * 20 + ["m"] * 20)
    >>> box(profile, SafeCounts.of(profile.counts), judged(profile, None), "gap").state
    'measured'
    """
    left = unjudged_text(verdict.unjudged)
    unjudged = (f"Not judged: {left}.",) if left else ()
    if len(profile.groups) < 2:
        only = cut(profile.groups[0]) if profile.groups else "none"
        said = f"There is only one group ({only}), so there is nothing to compare."
        return Box("measured", said, unjudged)
    if verdict.word == NOT_JUDGED:
        said = "The bound is not judged: fewer than two groups have enough rows."
        return Box("measured", said, (*unjudged, *_certified(certificate)))
    notes = (
        *unjudged,
        *_where(profile, safe, criterion),
        *_uneven(profile, safe),
        *_by_chance(safe, criterion),
        *_certified(certificate),
    )
    gap, exact = safe.gap(criterion)
    measure, text = CRITERIA[criterion].words, gap_text(gap, exact)
    if verdict.word == NO_BOUND:
        return Box("measured", f"No bound is set. {_capital(measure)} is {text}.", notes)
    if verdict.holds and not exact:
        # That it is at most this is what the verdict says.
        text = gap_text(min(gap, max(verdict.bound, verdict.resolution)), exact)
    if model is not None and model.gap_of == "probabilities":
        notes = (f"For the labels it is {text}.", *notes)
        measure += ", measured by probabilities,"
        text = value(model.gap_)
    if model is not None and abs(safe.exact_gap(criterion) - model.label_gap_) >= CLOSE:
        notes = (
            f"In the fit, the gap of the labels was {value(model.label_gap_)}, because the fit "
            "used other rows or weights.",
            *notes,
        )
    # A certificate of a plain model has no bound to be compared with.
    held = None if certificate is None or certificate.verdict.bound == np.inf else certificate
    return _against_bound(verdict, measure, text, held, notes)


def _against_bound(
    verdict: Verdict,
    measure: str,
    text: str,
    held: Certificate | None,
    notes: tuple[str, ...],
) -> Box:
    """The verdict on the rows of the report and, where some were held out, on those."""
    state = {MET: "met", MET_FOR_JUDGED: "partly", MISSED: "missed"}[verdict.word]
    title = f"The bound is {verdict.word}"
    bound = f"{verdict.bound:g}"
    if verdict.holds and verdict.value > verdict.bound:
        bound += f" (met as closely as whole rows allow, to within {verdict.resolution:.2g})"
    if held is None:
        return Box(state, f"{title}: {measure} is {text}, and the bound is {bound}.", notes)
    fresh = held.verdict
    if verdict.holds and held.by_chance:
        state = "chance"
        title += " on the rows of the fit; held-out rows are above it, within chance"
    elif verdict.holds and fresh.word == MISSED:
        state = "missed"
        title = (
            "The bound is missed on held-out rows, by more than chance explains, and "
            f"{verdict.word} on the rows of the fit"
        )
    elif verdict.holds and fresh.word == NOT_JUDGED:
        state = "measured"
        title += " on the rows of the fit; held-out rows are too few to judge"
    if fresh.met is not None:
        text += f" on the rows of the fit and {value(fresh.value)} on held-out rows"
        notes = (_explained(held), *notes)
    # Those of the fit have been named already.
    left = unjudged_text({n: k for n, k in fresh.unjudged.items() if n not in verdict.unjudged})
    if left:
        notes = (f"Not judged among the held-out rows: {left}.", *notes)
    return Box(state, f"{title}: {measure} is {text}, and the bound is {bound}.", notes)


def _explained(held: Certificate) -> str:
    return (
        f"Chance explains a gap of up to {value(held.chance)} on {count(held.n_rows)} held-out "
        "rows: the map was tuned to other rows, and samples differ. 19 of 20 samples would show "
        "less."
    )


def unjudged_text(unjudged: Mapping[str, int]) -> str:
    """Groups that are not judged; how few rows the smallest have stays hidden.

    Examples
    --------
    >>> unjudged_text({"x": 2, "y": 12})
    'x (fewer than 5 rows), y (12 rows)'
    """
    named = [
        f"{cut(name)} ({f'fewer than {SMALLEST}' if rows < SMALLEST else count(rows)} rows)"
        for name, rows in unjudged.items()
    ]
    left = f" and {len(named) - LISTED} more" if len(named) > LISTED else ""
    return ", ".join(named[:LISTED]) + left


def _where(profile: Profile, safe: SafeCounts, criterion: str) -> tuple[str, ...]:
    """Where the groups differ most, in words."""
    gaps = safe.cluster_gaps(criterion)
    k = int(gaps.argmax())
    if gaps[k] == 0 or not safe.group_sizes.all():
        return ()
    if safe.hidden[:, k].any() or safe.hidden[:, -1].any():
        return ("The groups differ most in a cluster whose counts are hidden.",)
    rates = safe.counts[:, k] / safe.group_sizes
    # In the order of the tables, not by size: the sentence takes no side.
    first, second = sorted((int(rates.argmin()), int(rates.argmax())))
    note = CRITERIA[criterion].note(len(profile.groups))
    return (
        f"The groups differ most in cluster {cut(profile.clusters[k])}, which holds "
        f"{percent(rates[first])} of {cut(profile.groups[first])} and "
        f"{percent(rates[second])} of {cut(profile.groups[second])}.{note and f' {note}'}",
    )


def _uneven(profile: Profile, safe: SafeCounts) -> tuple[str, ...]:
    """The cluster with the least even shares: in a small one a small gap does not forbid them."""
    filled = np.flatnonzero(safe.sizes > 0)
    if not len(filled) or not safe.group_sizes.all():
        return ()
    rates = safe.counts[:, filled] / safe.group_sizes[:, None]
    ratios = rates.min(axis=0) / rates.max(axis=0)
    k, g = filled[ratios.argmin()], int(rates[:, ratios.argmin()].argmin())
    population = safe.group_sizes[g] / safe.counts.sum()
    _, highest = share_interval(safe.counts[g, k], safe.sizes[k])
    # Where the interval reaches the overall share, chance may have made the cluster uneven.
    if ratios.min() >= UNEVEN or highest >= population:
        return ()
    if safe.hidden[:, k].any() or safe.hidden[:, -1].any():
        return ("Shares are least even in a cluster whose counts are hidden.",)
    return (
        f"Shares are least even in cluster {cut(profile.clusters[k])}, which has "
        f"{percent(safe.sizes[k] / safe.counts.sum())} of the rows: it is "
        f"{percent(safe.counts[g, k] / safe.sizes[k])} {cut(profile.groups[g])}, against "
        f"{percent(population)} in all rows.",
    )


def _by_chance(safe: SafeCounts, criterion: str) -> tuple[str, ...]:
    """What chance alone would show."""
    # Sums of probabilities are whole only up to rounding.
    whole = np.rint(safe.group_sizes).astype(np.int64)
    if whole.min() < 1:
        return ()
    # With 500 draws the level of the quantile has a standard error of one point,
    # sqrt(0.95 * 0.05 / 500), which is enough for a sentence.
    usual = chance_gap(safe.sizes, whole, criterion=criterion, n_draws=500).quantile95
    word = "below" if safe.exact_gap(criterion) <= usual else "above"
    return (
        f"By chance alone, 19 of 20 samples of this size from an even population would show a gap "
        f"below {value(usual)}; this one is {word} that.",
    )


def _certified(certificate: Certificate | None) -> tuple[str, ...]:
    if certificate is None:
        return ()
    return (
        f"For new rows, the certificate gives at most {value(certificate.upper_bound)} "
        f"(confidence {100 * certificate.confidence:.4g}%; see below).",
    )


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
