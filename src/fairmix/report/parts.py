"""Parts: what a report says of each attribute by itself. One set of groups makes one part."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from math import inf, isinf
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairmix.criteria import LIMITS, MaxGap
from fairmix.input.groups import Groups
from fairmix.report.disclosure import FEWEST, SafeCounts, SaysOfAll
from fairmix.report.figures import cut
from fairmix.report.verdict import NOT_TOLD, Box, compared, judged
from fairmix.results.fitted import Fairness, Fitted
from fairmix.results.profile import Profile
from fairmix.results.verdict import NO_BOUND, Verdict, farthest, judge_counts

if TYPE_CHECKING:
    from fairmix.estimator import FairMixture
    from fairmix.results.certificate import Certificate

__all__ = ["Part", "overall", "parts_of", "said_of"]

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Part:
    """One attribute: its groups in the clusters, the verdict on them, and the fit as it sees them.

    Attributes
    ----------
    profile, whole : Profile
        With the groups that are shown, and with all.
    verdict : Verdict
        On these clusters.
    model : FairMixture or None
        The fit as if the attribute were the only one.
    certificate : Certificate or None
        That of the attribute.
    alone : bool
        Whether it is the only one of the page.
    """

    profile: Profile
    whole: Profile
    verdict: Verdict
    model: FairMixture | None
    certificate: Certificate | None
    alone: bool

    @property
    def left_out(self) -> list[str]:
        """Groups that are not shown."""
        return [name for name in self.whole.groups if name not in self.profile.groups]

    @property
    def tiny(self) -> bool:
        """Whether a judged group is too small to show."""
        unjudged = self.verdict.unjudged
        return self.verdict.met is not None and any(n not in unjudged for n in self.left_out)

    @property
    def others(self) -> FloatArray:
        """Rows of the groups that are not shown in each cluster."""
        shown = self.profile.counts.sum(axis=0)
        return np.asarray(self.whole.counts.sum(axis=0) - shown, dtype=np.float64)

    @property
    def sizes_hidden(self) -> bool:
        """Whether the sizes of its groups would tell how few rows the others have.

        Another attribute shows all rows, so that these are the difference.
        """
        return not self.alone and 0 < self.others.sum() < FEWEST

    @property
    def counts(self) -> FloatArray:
        """Rows of each group in each cluster; beside other attributes also those of no group."""
        table = self.profile.counts.astype(np.float64)
        if self.alone or not self.others.any():
            return table
        return np.vstack([table, self.others])


def parts_of(
    profile: Profile,
    model: FairMixture | None,
    certificate: Certificate | None,
    verdict: Verdict | Mapping[str, Verdict] | None,
) -> list[Part]:
    """A part for each attribute of a profile."""
    profiles = profile.by_attribute
    if model is not None and model.fitted_.groups.attributes and not profile.attributes:
        raise ValueError(
            "The model compares several attributes each by itself, the profile has one set of "
            "groups. Make the profile with attributes='each' as well."
        )
    found = []
    for title, whole in profiles.items():
        own = model if model is None or not profile.attributes else view(model, title, whole.groups)
        given = verdict.get(title) if isinstance(verdict, Mapping) else verdict
        on = judged(whole, own) if given is None else given
        held = certificate
        if certificate is not None and profile.attributes:
            held = certificate.attributes.get(title)
        # Before anything is counted: sums with groups that are not shown would tell how few they
        # are.
        found.append(Part(compared(whole, on), whole, on, own, held, alone=len(profiles) == 1))
    return found


def view(model: FairMixture, title: str, groups: Sequence[str]) -> FairMixture:
    """A fit as if one of its attributes were the only one."""
    fitted = model.fitted_.by_attribute.get(title)
    if fitted is None or not model.fitted_.groups.attributes:
        fitted = _set_aside(model.fitted_, title, groups)
    found = copy(model)
    found.__dict__.update(fitted.attributes(), fitted_=fitted)
    return found


def _set_aside(fitted: Fitted, title: str, groups: Sequence[str]) -> Fitted:
    """Of an attribute with fewer than two groups to judge."""
    sizes = {name: fitted.groups.unjudged.get(f"{title}: {name}", 0) for name in groups}
    own = replace(Groups.none(), title=title, unjudged={n: k for n, k in sizes.items() if k})
    limit = fitted.rule.limit
    # A rule by attribute has no number for it.
    bound = MaxGap(inf) if limit is None or isinstance(limit.bound, dict) else limit.of(title)
    return replace(fitted, groups=own, fairness=Fairness(), rule=replace(fitted.rule, limit=bound))


def said_of(
    groups: Sequence[Sequence[str]], verdicts: Sequence[Verdict], criterion: str, of: str
) -> SaysOfAll | None:
    """What the page says of tables of counts in any case: verdicts, and which is the worst."""
    # Labels say nothing about a bound on probabilities.
    if of != "labels" or (len(verdicts) == 1 and verdicts[0].met is None):
        return None

    def said(tables: Sequence[FloatArray]) -> Hashable:
        found = [
            _again(table[: len(names)], names, verdict, criterion)
            for table, names, verdict in zip(tables, groups, verdicts, strict=True)
        ]
        # A gap is at most its bound or what whole rows allow, and the page does not say which of
        # them where a count is hidden. What they allow of a ratio depends on the counts.
        words = tuple((one.word, one.at_least and one.forgiven) for one in found)
        return words, farthest(found)

    return said


def _again(counts: FloatArray, groups: Sequence[str], verdict: Verdict, criterion: str) -> Verdict:
    """The verdict on other counts."""
    if verdict.met is None and not isinf(verdict.bound):
        return verdict
    # All groups of the table are judged: the others have been left out of it.
    made = LIMITS[verdict.parameter](verdict.bound)
    limit = replace(made, name=criterion) if isinstance(made, MaxGap) else made
    return judge_counts(counts, groups, limit, min_group_size=1)


# From good to bad: the colour of the box of several attributes is that of the worst.
STATES = ("met", "partly", "measured", "chance", "missed")
WORDS = {
    "met": "met",
    "partly": "met for the judged groups",
    "measured": "not judged",
    "chance": "met on the rows of the fit, and held-out rows are beyond it within chance,",
    "missed": "missed",
}


def overall(
    parts: Sequence[Part], blocks: Sequence[Mapping[str, Any]], safes: Sequence[SafeCounts], of: str
) -> Box:
    """The box of several attributes: the verdicts on all, and which is the worst."""
    states = {cut(p.profile.title): b["box"].state for p, b in zip(parts, blocks, strict=True)}
    state = max(states.values(), key=STATES.index)
    if any(safe.silent for safe in safes):
        return Box(state, NOT_TOLD, ())
    if all(part.verdict.word == NO_BOUND for part in parts):
        said = f"No bound is set. {len(parts)} attributes are measured, each by itself."
    else:
        # The worst first.
        told = [
            f"{WORDS[s]} for {' and '.join(name for name in states if states[name] == s)}"
            for s in reversed(STATES)
            if s in states.values()
        ]
        said = f"The bound is {', and '.join(told)}. Each attribute is judged by itself."
    # By states, where one is worse than all others; else by figures, if none of them is hidden or
    # the room has kept the answer the same for all that a reader must hold possible.
    worst = [i for i, s in enumerate(states.values()) if s == state]
    if len(worst) > 1:
        known = of == "labels" or not any(safe.pool.any() for safe in safes)
        found = farthest([part.verdict for part in parts])
        worst = [found] if known and found in worst else []
    notes = tuple(
        f"{'Farthest from it' if state == 'missed' else 'The least even'} is "
        f"{cut(parts[i].profile.title)}. {blocks[i]['box'].sentence}"
        for i in worst
    )
    headline = said
    if worst and blocks[worst[0]]["box"].headline:
        place = blocks[worst[0]]["box"].headline.removeprefix("The bound is met: ")
        headline = f"{cut(parts[worst[0]].profile.title).capitalize()}, the least even attribute: "
        headline += place[:1].lower() + place[1:]
        if len({*states.values()}) == 1 and state == "met":
            headline = f"The bound is met for {' and '.join(states)}. {headline}"
    return Box(state, said, notes, headline)
