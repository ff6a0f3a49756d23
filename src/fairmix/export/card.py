"""A model card: what a fitted model is, what was measured of it, and what it is not for.

Markdown with the sections of skops' cards and the front matter of Hugging Face. All figures are of
the data that the model was fitted on, and there are no rows.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from fairmix._version import __version__
from fairmix.export.model_file import LOCAL_PARAMETERS
from fairmix.input.groups import listed_groups
from fairmix.results.certificate import Certificate
from fairmix.results.verdict import MISSED, verdict_of

if TYPE_CHECKING:
    from fairmix.estimator import FairMixture

CITATION = "The method: J. Park, K. Kim, J. Lee and Y. Kim, Fair Model-Based Clustering, AAAI 2026."
TAGS = ("fairmix", "clustering", "mixture-model", "fairness", "tabular")
# A table shows so many groups and clusters; the rest is counted.
MAX_GROUPS, MAX_CLUSTERS, MAX_NAMES = 12, 50, 20
# What a rule says where it is met, by its parameter.
SAYS = {
    "max_gap": "A small gap says that the groups are spread over the clusters in nearly equal "
    "shares. A cluster of few rows can still hold hardly a member of one group: see the smallest "
    "ratio below.",
    "min_ratio": "A high ratio says that in every cluster the groups' shares are alike, in small "
    "clusters as in large ones.",
    "min_balance": "A high balance says that no group is short of rows in any cluster. It lets a "
    "small group be over-represented without limit.",
}
# Within a line these begin markup; the rest does so at the start of a line only.
MARKUP = re.compile(r"([\\`*_\[\]|~$])")


def model_card(
    model: FairMixture,
    *,
    certificate: Certificate | None = None,
    intended_use: str | None = None,
    license: str | None = None,
) -> str:
    """Describe a fitted model in Markdown, for people who decide whether to use it.

    Parameters
    ----------
    model : FairMixture
        Fitted. A ``metadata_`` is shown too.
    certificate : Certificate, default=None
        What ``model.certify`` said of fresh rows.
    intended_use : str, default=None
        Markdown. None leaves a place to fill in: a model does not know what it is for.
    license : str, default=None
        Of the model, for the front matter, such as ``"bsd-3-clause"``.

    Returns
    -------
    str
        The text of a ``README.md`` for a model hub.

    Examples
    --------
    >>> from fairmix import FairMixture, model_card
    >>> from fairmix.datasets import make_grouped_blobs
    >>> X, groups, _ = make_grouped_blobs(300, 3, 2, random_state=0)
    >>> model = FairMixture(3, max_gap=0.05, random_state=0).fit(X, sensitive_features=groups)
    >>> print(model_card(model).split("# ")[0])
    ---
    library_name: "fairmix"
    tags: ["fairmix", "clustering", "mixture-model", "fairness", "tabular"]
    ---
    """
    check_is_fitted(model)
    # Titles are those of skops, so that a card reads like others on a hub.
    sections = {
        "# Model description": _description(model),
        "## Intended uses & limitations": _uses(model, intended_use),
        "## Training Procedure": _data(model),
        "### Hyperparameters": _parameters(model),
        "## Evaluation Results": _evaluation(model, certificate),
        "# How to Get Started with the Model": _start(model),
        "# Citation": [CITATION],
    }
    parts = [_front_matter(license)]
    for title, paragraphs in sections.items():
        parts += [title, *paragraphs]
    return "\n\n".join(parts) + "\n"


def _front_matter(license: str | None) -> str:
    # JSON texts and lists are YAML.
    lines = [f"library_name: {json.dumps('fairmix')}", f"tags: {json.dumps(TAGS)}"]
    if license is not None:
        lines.append(f"license: {json.dumps(license)}")
    return "\n".join(["---", *lines, "---"])


def _description(model: FairMixture) -> list[str]:
    columns = model.fitted_.model.columns
    kinds = [
        "numbers" if columns.numeric else "",
        "categories" if columns.categorical else "",
    ]
    sees = (
        "the columns and the group of the row" if model.fitted_.model.aware else "the columns only"
    )
    n_components = model.fitted_.n_components
    text = (
        f"A mixture model of {' and '.join(filter(None, kinds))} with {n_components} clusters. "
        f"`predict` assigns a row to its most probable cluster; it sees {sees}."
    )
    if len(model.fitted_.groups.names) > 1:
        text += f" {_rule(model)}"
    return [text, f"Written by fairmix {__version__} from the fitted model."]


def _rule(model: FairMixture) -> str:
    """What the fit was asked for, as a sentence."""
    rule = model.fitted_.rule
    if rule.limit is not None:
        said = {
            "max_gap": "The fit limits how far apart the groups' shares of a cluster are (the gap)",
            "min_ratio": "The fit asks that in every cluster the rate of each group, its share "
            "that falls into the cluster, is at least this many times that of any other group",
            "min_balance": "The fit asks that in every cluster the rows of each group are at least "
            "this many times those of any other group (Balance)",
        }[rule.limit.parameter]
        return f"{said}: {rule.text} for the {rule.of}."
    said = "The fit limits how far apart the groups' shares of a cluster are (the gap)"
    if model.fairness_strength == 0:
        return f"{said}: no limit here, the strength of the constraint is 0."
    strength = float(model.fairness_strength)
    return f"{said}: by a penalty of strength {strength:g}, not by a fixed bound."


def _uses(model: FairMixture, intended_use: str | None) -> list[str]:
    limits = [
        f"{SAYS[verdict_of(model).parameter]} It does not say that the clusters are useful, that "
        "these groups are the right ones to look at, or that what is done with the clusters treats "
        "people well.",
        f"The figures below are of the training data. On new rows the {verdict_of(model).noun} "
        "differs, and more so when they come from another population.",
        "Groups that were not given to the fit are not considered.",
    ]
    if len(model.fitted_.groups.names) < 2:
        known = len(model.fitted_.groups.names) + len(model.unjudged_groups_)
        why = "Fewer than two groups are judged" if known else "No groups were given"
        limits[0] = f"{why}, so nothing is known of how groups spread over clusters."
        limits[1] = "The figures below are of the training data."
        # Without any groups, there are none that were left out.
        if not known:
            del limits[2]
    if model.unjudged_groups_:
        small = {_text(name): size for name, size in model.unjudged_groups_.items()}
        limits.append(
            f"Not judged, because they are small: {listed_groups(small, MAX_NAMES)}. They take no "
            "part in the bound."
        )
    if model.fitted_.model.aware:
        limits.append(
            "The map uses the group of each row: two rows that differ only in it can get different "
            "clusters. Check that this use of the attribute is allowed."
        )
    elif model.fitted_.model.propensity is not None:
        limits.append(
            "The map is not told the group, but it was fitted with estimates of P(group | x), so "
            "columns that tell much about the group have weight in it."
        )
    if model.fitted_.model.split:
        limits.append(
            "Rows that are equal are shared out between clusters, so that the bound holds: two "
            "equal people can get different clusters, by their place in the table alone. Labels "
            "depend on the table that `predict` is given, and on its order."
        )
    if not model.converged_:
        limits.append("The fit stopped before it converged.")
    if model.fitted_.filled < model.fitted_.n_components:
        limits.append(f"Only {model.fitted_.filled} clusters have members.")
    return [
        "[More Information Needed]" if intended_use is None else intended_use,
        "Limits:",
        "\n".join(f"- {limit}" for limit in limits),
    ]


def _data(model: FairMixture) -> list[str]:
    columns = model.fitted_.model.columns
    names = getattr(model, "feature_names_in_", columns.names)
    numeric = [_text(names[j]) for j in columns.numeric]
    categorical = [
        f"{_text(names[j])} ({len(levels)})"
        for j, levels in zip(columns.categorical, columns.levels, strict=True)
    ]
    facts = [
        ("numeric columns", f"{len(numeric)}: {_listed(numeric)}" if numeric else "none"),
        (
            "categorical columns (categories)",
            f"{len(categorical)}: {_listed(categorical)}" if categorical else "none",
        ),
        ("standardised", "yes" if columns.mean is not None else "no"),
        ("columns that are no features", _listed(map(_text, model.fitted_.set_aside)) or "none"),
        ("solver", f"{model.solver}, {model.n_iter_} iterations"),
    ]
    n_rows = int(model.fitted_.groups.sizes.sum()) + sum(model.unjudged_groups_.values())
    # Rows are counted by their groups, so without groups their number is not known.
    if n_rows:
        facts.insert(0, ("rows", f"{n_rows:,}"))
    facts += [(_text(name), _text(value)) for name, value in _metadata(model)]
    return [_table(("", ""), facts)]


def _metadata(model: FairMixture) -> Iterable[tuple[str, str]]:
    for name, value in getattr(model, "metadata_", {}).items():
        yield name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _parameters(model: FairMixture) -> list[str]:
    rows = [
        (f"`{name}`", _text(repr(value)))
        for name, value in model.get_params(deep=False).items()
        # As in model files: a card that is passed on names no path of a machine.
        if name not in LOCAL_PARAMETERS
    ]
    return [_table(("Hyperparameter", "Value"), rows)]


def _evaluation(model: FairMixture, certificate: Certificate | None) -> list[str]:
    if len(model.fitted_.groups.names) < 2:
        rows = [("lower bound of the log-likelihood per row", f"{model.lower_bound_:.4f}")]
        if model.unjudged_groups_:
            rows.insert(0, ("the bound", model.verdict_))
        return ["On the training data:", _table(("measure", "value"), rows)]
    sizes = model.fitted_.groups.sizes
    criterion = model.criterion.replace("_", " ")
    rows = [
        (f"{criterion} of the labels", _gap(model, "labels")),
        (f"{criterion} of the probabilities", _gap(model, "probabilities")),
        (f"smallest ratio of rates of the {model.gap_of}", _ratio(model)),
        (f"balance of the {model.gap_of}", _judged(model, "min_balance", model.balance_)),
        ("balance of all rows, the most that is possible", f"{sizes.min() / sizes.max():.4f}"),
        ("objective", f"{model.lower_bound_:.4f}"),
    ]
    found = ["On the training data:", _table(("measure", "value"), rows), *_shares(model)]
    if certificate is None:
        return [*found, "No certificate for new rows was given."]
    said = f"On fresh rows: {_text(str(certificate))}"
    fresh = certificate.verdict
    if fresh.met is not None:
        by_chance = ", within chance" if certificate.by_chance else ""
        bound = f"The bound {fresh.bound:g} on the {fresh.noun}"
        said += f" {bound} is {_bold(fresh.word)} on these rows{by_chance}."
    return [*found, said]


def _gap(model: FairMixture, of: str) -> str:
    value = model.label_gap_ if of == "labels" else model.soft_gap_
    # The bound is on one of the two gaps, and only that one is judged.
    return _judged(model, "max_gap", value) if of == model.gap_of else f"{value:.4f}"


def _ratio(model: FairMixture) -> str:
    """The smallest ratio, with its cluster and its group, as the rule of ratios or not."""
    least, said = model.fitted_.least_ratio, _judged(model, "min_ratio", model.ratio_)
    return said if least is None else f"{said} ({_text(least.group)}, cluster {least.cluster})"


def _judged(model: FairMixture, parameter: str, value: float) -> str:
    """A figure, with the verdict where the rule is on it."""
    verdict = verdict_of(model)
    if verdict.met is None or verdict.parameter != parameter:
        return f"{value:.4f}"
    said = f"{value:.4f}, the bound {verdict.bound:g} is {_bold(verdict.word)}"
    return said + (", as closely as whole rows can" if verdict.forgiven else "")


def _bold(word: str) -> str:
    return f"**{word}**" if word == MISSED else word


def _shares(model: FairMixture) -> list[str]:
    """Shares of the groups in all rows, and of each group in each cluster."""
    names, sizes = list(model.fitted_.groups.names), model.fitted_.groups.sizes
    rates = np.asarray(model.rates_)
    shown, clusters = names[:MAX_GROUPS], rates[:, :MAX_CLUSTERS]
    counts = [f"{size:,} rows" for size in sizes[:MAX_GROUPS].tolist()]
    rows = [["all", "", *counts]] + [
        [str(k), f"{model.weights_[k]:.1%}", *(f"{rate:.1%}" for rate in column)]
        for k, column in enumerate(clusters[:MAX_GROUPS].T)
    ]
    caption = (
        f"Share of each group in each cluster, by {model.gap_of}. In an even spread the shares in "
        "a row are equal. The weight is that of the mixture."
    )
    left = [
        f"{count - most} more {noun}"
        for count, most, noun in (
            (len(names), MAX_GROUPS, "groups"),
            (rates.shape[1], MAX_CLUSTERS, "clusters"),
        )
        if count > most
    ]
    if left:
        caption += f" Not shown: {' and '.join(left)}."
    return [caption, _table(("cluster", "weight", *map(_text, shown)), rows)]


def _start(model: FairMixture) -> list[str]:
    given = "X, sensitive_features=groups" if model.fitted_.model.aware else "X"
    lines = [
        "```python",
        "import fairmix",
        "",
        'model = fairmix.load("model.fairmix")  # what model.save("model.fairmix") wrote',
        f"labels = model.predict({given})",
        "```",
    ]
    return ["\n".join(lines)]


def _listed(names: Iterable[str]) -> str:
    given = list(names)
    shown = ", ".join(given[:MAX_NAMES])
    return shown if len(given) <= MAX_NAMES else f"{shown} and {len(given) - MAX_NAMES} more"


def _table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def _text(value: object) -> str:
    """What a user named, as plain text on one line: it can be neither markup nor HTML."""
    # One line, because a line break would end a row of a table.
    line = " ".join(str(value).split())
    # Quotes matter within attributes of HTML only, where no name is put.
    return MARKUP.sub(r"\\\1", html.escape(line, quote=False))
