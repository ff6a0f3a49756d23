"""The verdict: what was measured, in one sentence, and whether a bound holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fairmix.certificate import Certificate, chance_gap
from fairmix.profile import Profile, share_interval
from fairmix.report.figures import cut, gap_text, percent, value
from fairmix.report.suppression import SafeCounts
from fairmix.verdict import verdict_of

if TYPE_CHECKING:
    from fairmix.estimator import FairMixture

__all__ = ["MEASURES", "Verdict", "criterion_of", "is_bounded", "verdict"]

# How a sentence names each criterion.
MEASURES = {
    "gap": "the largest difference between the shares of the groups that fall into one cluster",
    "additive_gap": "the sum over clusters of the differences between the shares of the groups "
    "that fall into it",
    "worst_pair_gap": "the largest difference between the shares of any two groups that fall into "
    "one cluster",
}
UNEVEN = 0.8  # ratio of two groups' rates below which a cluster is worth a sentence
CLOSE = 1e-9  # two gaps of the same labels differ by rounding only


@dataclass(frozen=True)
class Verdict:
    """``state`` is ``"met"``, ``"missed"`` or ``"measured"``; the notes explain the sentence."""

    state: str
    sentence: str
    notes: tuple[str, ...]


def criterion_of(model: FairMixture | None) -> str:
    """The criterion of the report."""
    return "gap" if model is None else str(model.criterion)


def is_bounded(model: FairMixture | None) -> bool:
    """Whether the fit had a bound to meet."""
    return model is not None and len(model.groups_) > 1 and model.fairness_strength == "auto"


def verdict(
    profile: Profile,
    safe: SafeCounts,
    model: FairMixture | None = None,
    certificate: Certificate | None = None,
) -> Verdict:
    """The sentence at the top of the report.

    Examples
    --------
    >>> profile = Profile(groups=["f", "m"], n_clusters=2)
    >>> profile.add(np.zeros((40, 1)), [0, 1] * 20, ["f"] * 20 + ["m"] * 20)
    >>> verdict(profile, SafeCounts.of(profile.counts)).state
    'measured'
    """
    criterion = criterion_of(model)
    if len(profile.groups) < 2:
        only = cut(profile.groups[0]) if profile.groups else "none"
        return Verdict("measured", f"There is one group only ({only}): nothing to compare.", ())
    gap, exact = safe.gap(criterion)
    notes = (
        *_where(profile, safe, criterion),
        *_uneven(profile, safe),
        *_by_chance(safe, criterion),
        *_certified(certificate),
    )
    if model is None or not is_bounded(model):
        sentence = f"{_capital(MEASURES[criterion])} is {gap_text(gap, exact)}."
        return Verdict("measured", sentence, notes)
    return _against_bound(safe, model, (gap, exact), notes)


def _against_bound(
    safe: SafeCounts, model: FairMixture, shown: tuple[float, bool], notes: tuple[str, ...]
) -> Verdict:
    """The bound is met only if it is met at the fit and, for labels, on the rows of the report."""
    allowed = verdict_of(model).allowed
    here, measure = safe.exact_gap(model.criterion), MEASURES[model.criterion]
    met = bool(model.gap_ <= allowed)
    if model.gap_of == "labels":
        met = met and here <= allowed
        text = gap_text(*shown)
    else:
        measure += ", counted in probabilities,"
        text = value(model.gap_)
        notes = (f"For the labels it is {gap_text(*shown)}.", *notes)
    if abs(here - model.label_gap_) >= CLOSE:
        notes = (
            f"At the fit the gap of the labels was {value(model.label_gap_)}: it had other rows, "
            "or weights.",
            *notes,
        )
    bound = f"{model.max_gap:g}"
    if met and model.gap_ > model.max_gap:
        bound += f" (met within {allowed:.2g}, what whole rows can resolve)"
    word = "met" if met else "not met"
    sentence = f"The bound is {word}: {measure} is {text}, and the bound is {bound}."
    return Verdict("met" if met else "missed", sentence, notes)


def _where(profile: Profile, safe: SafeCounts, criterion: str) -> tuple[str, ...]:
    """Where the groups differ most, in words."""
    gaps = safe.cluster_gaps(criterion)
    k = int(gaps.argmax())
    if safe.hidden[:, k].any() or safe.hidden[:, -1].any() or not safe.group_sizes.all():
        return ()
    rates = safe.counts[:, k] / safe.group_sizes
    low, high = int(rates.argmin()), int(rates.argmax())
    if low == high:
        return ()
    first, second = sorted((low, high))
    pairs = ""
    if criterion != "worst_pair_gap" and len(profile.groups) > 2:
        pairs = " With more than two groups the gap is a mean over their pairs."
    return (
        f"The groups differ most in cluster {cut(profile.clusters[k])}, which holds "
        f"{percent(rates[first])} of {cut(profile.groups[first])} and "
        f"{percent(rates[second])} of {cut(profile.groups[second])}.{pairs}",
    )


def _uneven(profile: Profile, safe: SafeCounts) -> tuple[str, ...]:
    """The cluster with the least even shares: in a small one a small gap does not forbid them."""
    known = np.flatnonzero((safe.sizes > 0) & ~safe.hidden[:, :-1].any(axis=0))
    if not len(known) or safe.hidden[:, -1].any() or not safe.group_sizes.all():
        return ()
    rates = safe.counts[:, known] / safe.group_sizes[:, None]
    ratios = rates.min(axis=0) / rates.max(axis=0)
    k, g = known[ratios.argmin()], int(rates[:, ratios.argmin()].argmin())
    population = safe.group_sizes[g] / safe.counts.sum()
    _, highest = share_interval(safe.counts[g, k], safe.sizes[k])
    if ratios.min() >= UNEVEN or highest >= population:
        return ()
    return (
        f"Shares are least even in cluster {cut(profile.clusters[k])}, which has "
        f"{percent(safe.sizes[k] / safe.counts.sum())} of the rows: it is "
        f"{percent(safe.counts[g, k] / safe.sizes[k])} {cut(profile.groups[g])}, all rows are "
        f"{percent(population)}.",
    )


def _by_chance(safe: SafeCounts, criterion: str) -> tuple[str, ...]:
    """What chance alone would show."""
    whole = np.rint(safe.group_sizes).astype(np.int64)
    if whole.min() < 1:
        return ()
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
        f"For new rows, the certificate says at most {value(certificate.upper_bound)} "
        f"(confidence {100 * certificate.confidence:.4g}%; see below).",
    )


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
