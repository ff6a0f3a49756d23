"""Facts of the data, the model and the software, as rows of a table."""

from __future__ import annotations

import inspect
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairmix.report.disclosure import SafeCounts, share_of
from fairmix.report.figures import HIDDEN, count, cut, value
from fairmix.report.parts import Part
from fairmix.report.ratios import smallest_ratio_text
from fairmix.report.verdict import unjudged_text
from fairmix.results.profile import Categories, Numbers, Profile
from fairmix.results.verdict import NOT_JUDGED, Verdict

if TYPE_CHECKING:
    from fairmix.estimator import FairMixture

__all__ = ["Facts", "all_figures", "data_facts", "key_figures", "model_facts"]

Facts = dict[str, str]
IntArray = NDArray[np.int64]

LISTED = 12  # names before "and 8 more"
SOFTWARE = ("fairmix", "numpy", "scipy", "scikit-learn")
# Said in words above, or without influence on the result.
UNSAID = {"verbose", "n_jobs", "checkpoint", "n_components", "random_state", "categorical_features"}


def key_figures(
    profile: Profile,
    safe: SafeCounts,
    criterion: str,
    verdict: Verdict,
    gap: str,
    *,
    sizes: bool = True,
) -> Facts:
    """The few numbers beside the verdict; ``gap`` as it is in the box.

    ``sizes`` is whether those of the groups may be told.

    Examples
    --------
    >>> profile = Profile(groups=["f", "m"], n_clusters=2)
    >>> profile.add(np.zeros((40, 1)), [0, 1] * 20, ["f"] * 20 + ["m"] * 20)
    >>> verdict = Verdict("no bound", 0.0)
    >>> key_figures(profile, SafeCounts.of(profile.counts), "gap", verdict, "0.0000")["balance"]
    '1.0000'
    """
    told = verdict.word != NOT_JUDGED
    return {
        criterion.replace("_", " "): gap.replace("at most", "≤") if told else NOT_JUDGED,
        "smallest ratio": smallest_ratio_text(safe)
        if told and len(profile.groups) > 1
        else NOT_JUDGED,
        "balance": safe.balance() if told and len(profile.groups) > 1 else NOT_JUDGED,
        "best balance": _best_balance(safe) if sizes else HIDDEN,
        "clusters": _filled(profile),
        "groups": str(len(profile.groups)),
        "rows": count(profile.n_rows),
    }


def all_figures(parts: Sequence[Part]) -> Facts:
    """What is the same for several attributes."""
    found = {"attributes": str(len(parts)), "clusters": _filled(parts[0].whole)}
    rows = _rows(parts)
    return found if rows is None else found | {"rows": rows}


def _filled(profile: Profile) -> str:
    """Clusters that have rows."""
    filled = int((profile.counts.sum(axis=0) > 0).sum())
    return f"{filled} of {profile.n_clusters}" if filled < profile.n_clusters else f"{filled}"


def _rows(parts: Sequence[Part]) -> str | None:
    """Rows of the page; None where they would tell how few rows are not shown."""
    if parts[0].alone:
        return count(parts[0].profile.n_rows)
    # One attribute that shows all rows gives them in any case.
    told = any(not part.others.any() for part in parts) or not any(p.sizes_hidden for p in parts)
    return count(parts[0].whole.n_rows) if told else None


def data_facts(parts: Sequence[Part], given: Mapping[str, str]) -> Facts:
    """What the data are. What the caller says goes before what is found here."""
    profile, rows = parts[0].whole, _rows(parts)
    found = {} if rows is None else {"rows": rows}
    found["groups by"] = _listed([part.profile.title for part in parts])
    for part in parts:
        before = "group" if part.alone else cut(part.profile.title)
        sizes = [] if part.sizes_hidden else part.profile.counts.sum(axis=1)
        for name, size in zip(part.profile.groups, sizes, strict=False):
            found[f"{before} {cut(name)}" if part.alone else f"{before}: {cut(name)}"] = count(size)
        if part.verdict.unjudged:
            where = "not judged" if part.alone else f"{before}: not judged"
            found[where] = unjudged_text(part.verdict.unjudged)
    if profile.numbers:
        found["numeric columns"] = _listed(list(profile.numbers))
    if profile.categories:
        found["categorical columns"] = _listed(list(profile.categories))
    described: dict[str, Numbers | Categories] = {**profile.numbers, **profile.categories}
    missing = {name: column.missing for name, column in described.items() if column.missing.any()}
    if missing:
        found["values missing"] = _listed(
            [f"{n}: {_part(m, profile.n_rows)}" for n, m in missing.items()]
        )
    versions = ", ".join(f"{name} {version(name)}" for name in SOFTWARE)
    software = {"versions": f"{versions}, Python {platform.python_version()}"}
    said = {str(name): str(fact) for name, fact in given.items()}
    # The caller may have rounded the rows, which the exact number would undo.
    return said | {name: fact for name, fact in (found | software).items() if name not in said}


def model_facts(model: FairMixture) -> Facts:
    """What the model is, and which settings differ from the defaults."""
    aware = model.assignment == "aware"
    facts = {
        "clusters": str(model.n_components),
        "assignment": "aware: a row's cluster depends on its columns and on its group"
        if aware
        else "blind: a row's cluster depends only on its columns, not on its group",
        "seed": str(model.random_state),
        "iterations": f"{model.n_iter_}" + ("" if model.converged_ else ", stopped by max_iter"),
    }
    # Of several attributes there is no single one.
    if isfinite(model.fairness_strength_):
        facts["fairness strength"] = f"{model.fairness_strength_:.4g}"
    if model.fitted_.model.split:
        facts["ties"] = (
            "split: equal rows may be divided between clusters, so a row's cluster also depends "
            "on its position in the table"
        )
    defaults = {
        name: parameter.default
        for name, parameter in inspect.signature(type(model).__init__).parameters.items()
    }
    # Only what differs: a reader looks for what somebody chose.
    for name, setting in model.get_params(deep=False).items():
        if name not in UNSAID | facts.keys() and _differs(setting, defaults[name]):
            facts[name] = str(setting)
    # The bound is named even if it is the default, because the report is about it.
    facts.setdefault("rule", model.fitted_.rule.text)
    return facts


def _differs(setting: Any, default: Any) -> bool:
    # By type too, because True equals 1, and a share of 1.0 is not one row.
    return type(setting) is not type(default) or bool(setting != default)


def _part(missing: IntArray, rows: int) -> str:
    """How many values are missing; both these rows and the others may be few."""
    share = share_of(float(missing.sum()), rows)
    return "some" if share is None else share.text


def _best_balance(safe: SafeCounts) -> str:
    sizes = safe.group_sizes
    return value(float(sizes.min() / sizes.max())) if len(sizes) else "none"


def _listed(names: list[str]) -> str:
    shown = ", ".join(cut(name) for name in names[:LISTED])
    return shown if len(names) <= LISTED else f"{shown} and {len(names) - LISTED} more"
