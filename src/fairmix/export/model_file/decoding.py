"""From a document and arrays to a fitted estimator's attributes. Every value is checked here."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from dataclasses import replace
from itertools import accumulate
from typing import Any, Literal, cast, get_args

import numpy as np

from fairmix.criteria import CRITERIA, LIMITS, ByAttribute, limit_of, smallest_ratio
from fairmix.criteria.bounds import SOFT_RESOLUTION
from fairmix.export.model_file.archive import MAX_BYTES, ModelFileError
from fairmix.export.model_file.fields import Arrays, Fields
from fairmix.export.model_file.members import Array
from fairmix.export.model_file.snapshot import (
    BY_ATTRIBUTE,
    ESTIMATOR,
    FAIRNESS,
    FORMAT,
    LOCAL_PARAMETERS,
    SCALARS,
    SCHEMA,
    STARTS,
    Snapshot,
    rule_of,
)
from fairmix.input.columns import Columns
from fairmix.input.groups import MOST_CELLS, Attribute, Groups, MissingGroups
from fairmix.kernels.totals import IntArray, Membership, Rows
from fairmix.mixture.families import FAMILIES, Categorical, Family, Stored, joined
from fairmix.mixture.mixture import Mixture
from fairmix.mixture.model import Model
from fairmix.mixture.propensity import Propensity, Scale
from fairmix.results.fitted import Fairness, Fitted, Rule
from fairmix.results.verdict import label_resolution
from fairmix.solvers import Iteration

# Parameters that may be lists, and the longest text that may be one: options are short words, and a
# long text would be one that a file wants to have shown in an error.
LISTED = ("categorical_features",)
LONGEST_OPTION = 80
# By how much figures may differ from those of the rates beside them: other versions may add up in
# another order.
ROUNDING = 1e-9
# No criterion exceeds 2, the sum of the differences of two distributions.
LARGEST_FIGURE = 2.0


def decode(document: dict[str, Any], given: Mapping[str, Array]) -> Snapshot:
    """The snapshot that a document and arrays describe."""
    fields, arrays = Fields(document, "model.json"), Arrays(given)
    version = _version(fields)
    # In the order in which sizes become known: columns and groups give the shapes of the arrays.
    parameters = _parameters(fields.mapping("parameters"))
    columns, set_aside, feature_names = _columns(fields.section("columns"), arrays)
    groups = _groups(fields.section("groups"))
    n_groups = max(1, len(groups.names))
    mixture = fields.section("mixture")
    slots = fields.section("propensity") if fields.has("propensity") else None
    model = _model(mixture, slots, arrays, columns, n_groups, groups.membership)
    _check_parameters(model)
    _check_agreement(parameters, model)
    n_components, compared = model.mixture.n_components, n_groups > 1
    # Files of schema 1 have rates of a single group, too.
    rates = None
    if compared or arrays.has("rates"):
        rates = arrays.floats("rates", n_groups, n_components)
        if not ((rates >= 0) & (rates <= 1 + ROUNDING)).all():
            raise ModelFileError("rates.npy holds numbers that are no shares.")
        if not np.allclose(rates.sum(axis=1), 1, atol=ROUNDING):
            raise ModelFileError("rates.npy holds rates of a group that do not add up to 1.")
    found = fields.section("fitted")
    figures = {name: _figure(found, name) for name in SCALARS}
    rule = rule_of(parameters)
    if fields.holds("rule"):
        rule = _rule(fields.section("rule"), groups)
    if isinstance(rule.limit, ByAttribute):
        try:
            rule.limit.check([own.title for own in groups.attributes])
        except ValueError as error:
            raise ModelFileError(f"model.json: parameters: {error}") from None
    history = _history(found, arrays, compared)
    # Both say the same, and two sources must not disagree.
    if found.whole("n_iter_") != len(history):
        raise ModelFileError("model.json: fitted: n_iter_ is not the length of the history.")
    fitted = Fitted(
        model=model,
        rule=rule,
        groups=groups,
        fairness=_all_fairness(found, figures, rates if compared else None, groups, rule),
        lower_bound=figures["lower_bound_"],
        history=history,
        converged=found.flag("converged_"),
        filled=found.whole("filled_clusters", 0, n_components),
        # Neither streams nor files of earlier versions have it.
        n_passes=found.number("n_passes_", 0) if found.holds("n_passes_") else None,
        set_aside=set_aside,
        streamed=found.flag("streamed"),
    )
    found.done()
    metadata = fields.mapping("metadata")
    fields.done()
    arrays.done()
    return Snapshot(version, parameters, fitted, feature_names, metadata)


def _version(fields: Fields) -> str:
    """The fairmix that wrote a document of a known schema."""
    fields.text("format", (FORMAT,))
    schema, version = fields.whole("schema", 1), fields.text("fairmix")
    if schema > SCHEMA:
        raise ModelFileError(
            f"it has schema {schema}, written by fairmix {version[:40]!r}, and this version reads "
            f"up to schema {SCHEMA}. Update fairmix."
        )
    fields.text("estimator", (ESTIMATOR,))
    return version


def _parameters(given: dict[str, Any]) -> dict[str, Any]:
    """Constructor parameters; the estimator checks their names and values."""
    for name, value in given.items():
        # `checkpoint` names a path that `fit` would write to: it must not come from a stranger's
        # file.
        wrong = name in LOCAL_PARAMETERS
        if isinstance(value, dict):
            numbers = all(type(entry) in (int, float) for entry in value.values())
            wrong = name not in BY_ATTRIBUTE or not numbers
        if isinstance(value, list):
            wrong = name not in LISTED or any(isinstance(entry, list | dict) for entry in value)
            if name in STARTS:
                wrong = not _numbers(value)
        if wrong or (isinstance(value, str) and len(value) > LONGEST_OPTION):
            raise ModelFileError(f"model.json: parameters: {name!r} has no place in a model file.")
    return given


def _numbers(value: list[Any]) -> bool:
    """Whether nested lists hold numbers alone; they are not deep, or the reader had refused."""
    return all(
        _numbers(entry) if isinstance(entry, list) else type(entry) in (int, float)
        for entry in value
    )


def _columns(roles: Fields, arrays: Arrays) -> tuple[Columns, tuple[str, ...], Array | None]:
    """Kinds of the columns, those that are not features, and the names that X had."""
    names = roles.texts("names")
    categorical = roles.wholes("categorical", high=len(names) - 1)
    # Levels go with these positions one by one, and code that joins the two relies on the order.
    if sorted(set(categorical)) != categorical:
        raise ModelFileError("model.json: columns: categorical is not sorted.")
    levels = roles.lists_of_texts("categories", len(categorical))
    n_numeric = len(names) - len(categorical)
    mean = scale = None
    if roles.flag("standardized"):
        mean, scale = arrays.floats("mean", n_numeric), arrays.floats("scale", n_numeric)
        if not (scale > 0).all():
            raise ModelFileError("scale.npy holds numbers that are not positive.")
    set_aside, feature_names = roles.texts("set_aside"), None
    if roles.has("feature_names"):
        found = roles.texts("feature_names")
        if len(found) != len(names):
            raise ModelFileError("model.json: columns: not as many feature_names as names.")
        # object, as scikit-learn has it for feature_names_in_.
        feature_names = np.array(found, dtype=object)
    roles.done()
    return Columns(names, tuple(categorical), levels, mean, scale), set_aside, feature_names


def _groups(groups: Fields) -> Groups:
    names, sizes = groups.texts("names", distinct=True), groups.wholes("sizes", 1)
    if len(names) != len(sizes):
        raise ModelFileError("model.json: groups: not as many sizes as names.")
    unjudged: dict[str, int] = {}
    if groups.holds("unjudged"):
        small = groups.section("unjudged")
        unjudged = {name: small.whole(name, 1) for name in small.names}
        small.done()
    if not unjudged.keys().isdisjoint(names):
        raise ModelFileError("model.json: groups: a group is judged and unjudged.")
    # Before the names of all attributes are compared with those of each.
    attributes = _attributes(groups.section("attributes")) if groups.holds("attributes") else ()
    groups.done()
    # No codes: the groups of rows never leave the process of the fit.
    found = replace(
        Groups.none(),
        names=names,
        sizes=np.array(sizes, dtype=np.intp),
        unjudged=unjudged,
        attributes=attributes,
    )
    if attributes:
        labelled = [own.labelled(name) for own in attributes for name in own.names]
        together = [size for own in attributes for size in own.sizes.tolist()]
        if labelled != list(names) or together != sizes:
            raise ModelFileError("model.json: groups: they are not those of the attributes.")
    return found


def _attributes(sections: Fields) -> tuple[Attribute, ...]:
    """Several attributes, each with its own groups."""
    found = []
    for title in sections.names:
        own = _groups(sections.section(title))
        if own.attributes or len(own.names) < 2:
            raise ModelFileError("model.json: groups: an attribute has fewer than two groups.")
        found.append(Attribute(title, own.names, own.sizes, own.unjudged))
    sections.done()
    cells = np.prod([float(len(own.names) + 1) for own in found])
    if not found or cells > MOST_CELLS:
        raise ModelFileError("model.json: groups: attributes with too many combinations, or none.")
    return tuple(found)


def _rule(rule: Fields, groups: Groups) -> Rule:
    """That of the fit, where the parameters were set anew since."""
    criterion = rule.text("criterion", tuple(CRITERIA))
    of = rule.text("gap_of", ("labels", "probabilities"))
    missing = rule.text("missing_groups", get_args(MissingGroups))
    small = rule.whole("min_group_size", 1)
    parameters: dict[str, Any] = {"criterion": criterion, "fairness_strength": 0.0}
    if rule.has("bounds"):
        parameter = rule.text("parameter", tuple(LIMITS))
        bounds = rule.section("bounds")
        highest = 1.0 if LIMITS[parameter].at_least else np.inf
        found = {title: bounds.number(title, 0, highest) for title in bounds.names}
        bounds.done()
        titles = [own.title for own in groups.attributes]
        if not found or sorted(found) not in ([""], sorted(titles)):
            raise ModelFileError("model.json: rule: bounds are not those of the attributes.")
        parameters = {"criterion": criterion, parameter: found.get("", found)}
    rule.done()
    return Rule(
        criterion,
        limit_of(**parameters),
        cast(Literal["labels", "probabilities"], of),
        small,
        cast(MissingGroups, missing),
    )


def _all_fairness(
    fitted: Fields,
    figures: Mapping[str, float],
    rates: Array | None,
    groups: Groups,
    rule: Rule,
) -> Fairness:
    """Of all groups, or of each of several attributes."""
    membership = groups.membership
    if membership is None or rates is None:
        return _fairness(figures, rates, groups, rule)
    sections = fitted.section("attributes")
    each = []
    for own, part in zip(groups.attributes, membership.parts, strict=True):
        section = sections.section(own.title)
        names = ("label_gap_", "soft_gap_", "balance_", "resolution_")
        found = {name: section.number(name, 0) for name in names}
        section.done()
        found["gap_"] = found["label_gap_" if rule.of == "labels" else "soft_gap_"]
        found["fairness_strength_"] = figures["fairness_strength_"]
        each.append(_fairness(found, rates[part], groups, rule))
    sections.done()
    worst = Fairness.worst(each, figures["fairness_strength_"])
    for name in ("label_gap_", "soft_gap_", "balance_", "resolution_"):
        if getattr(worst, name[:-1]) != figures[name]:
            raise ModelFileError(f"model.json: fitted: {name} is not that of the worst attribute.")
    return worst


def _fairness(
    figures: Mapping[str, float], rates: Array | None, groups: Groups, rule: Rule
) -> Fairness:
    """Figures that are there where groups are compared, and only there."""
    strength = figures["fairness_strength_"]
    if rates is None:
        # Files of schema 1 have figures of a single group, which say nothing.
        for name in FAIRNESS:
            if not (np.isnan(figures[name]) or 0 <= figures[name] <= LARGEST_FIGURE):
                raise ModelFileError(f"model.json: fitted: {name} is no figure of a single group.")
        return Fairness(strength=strength)
    found = {name: figures[name] for name in FAIRNESS}
    if np.isnan(found["resolution_"]):  # a file of schema 1
        found["resolution_"] = SOFT_RESOLUTION
        if rule.of != "probabilities" and rule.criterion in CRITERIA:
            sizes = np.maximum(groups.sizes, 1)
            found["resolution_"] = label_resolution(rule.criterion, sizes, rates.shape[1])
    for name, value in found.items():
        # Not `value < 0`, which a NaN would pass.
        if not value >= 0:
            raise ModelFileError(f"model.json: fitted: {name} is {value}, not a number from 0.")
    _check_figures(found, rates, rule)
    return Fairness(
        label_gap=found["label_gap_"],
        soft_gap=found["soft_gap_"],
        ratio=smallest_ratio(rates),
        balance=found["balance_"],
        rates=rates,
        resolution=found["resolution_"],
        strength=strength,
    )


def _check_figures(found: Mapping[str, float], rates: Array, rule: Rule) -> None:
    """Refuse figures that are not those of the rates beside them."""
    if found["balance_"] > 1 + ROUNDING:
        raise ModelFileError(f"model.json: fitted: balance_ is {found['balance_']}, above 1.")
    measured = found["label_gap_" if rule.of == "labels" else "soft_gap_"]
    if found["gap_"] != measured:
        raise ModelFileError("model.json: fitted: gap_ is not the gap of what gap_of names.")
    # A criterion that is not registered is refused with the other parameters.
    if rule.criterion in CRITERIA:
        value = float(CRITERIA[rule.criterion].value(rates))
        if not abs(value - found["gap_"]) <= ROUNDING * (1 + abs(value)):
            raise ModelFileError(
                f"model.json: fitted: gap_ is {found['gap_']}, but its rates have {value:.6g}."
            )


def _check_agreement(parameters: Mapping[str, Any], model: Model) -> None:
    """Refuse parameters that no fit with the columns of this mixture could have."""
    asked, found = parameters.get("n_components"), model.mixture.n_components
    # They need not be equal: parameters may be set anew after a fit, for the next one. Both must be
    # numbers of components that can be held.
    most = MAX_BYTES // (8 * max(1, model.mixture.family.n_features))
    if isinstance(asked, int) and asked > max(found, most):
        raise ModelFileError(
            f"model.json: n_components is {reprlib.repr(asked)} among the parameters, beside a "
            f"mixture of {found}; such a mixture is too large to be held."
        )


def _model(
    mixture: Fields,
    slots: Fields | None,
    arrays: Arrays,
    columns: Columns,
    n_groups: int,
    membership: Membership | None,
) -> Model:
    n_components = mixture.whole("n_components", 1)
    # Before theta is taken, whose length it decides.
    family = _family(mixture, arrays, columns, n_components)
    # Beside theta there are the logits of all components, and they may be far more.
    if n_components * family.n_features * 8 > MAX_BYTES:
        raise ModelFileError("it describes a mixture that is too large to be held.")
    theta = arrays.floats("theta", n_components + family.n_theta)
    offsets = propensity = None
    tilted = mixture.flag("tilted")
    if slots is not None and not tilted:
        raise ModelFileError("model.json: propensity without a tilted mixture.")
    if tilted:
        offsets = arrays.floats("offsets", n_groups, n_components)
        if slots is not None:
            propensity = _propensity(slots, arrays, columns, n_groups, membership)
    temperature = mixture.number("temperature")
    if temperature <= 0:
        raise ModelFileError(f"model.json: mixture: temperature is {temperature}, not positive.")
    # Not in the file, because it follows from the family.
    columns = replace(columns, complete=not family.takes_missing)
    aware = tilted and propensity is None
    # Files of earlier versions lack it. An aware map may have a propensity as well: it places rows
    # of groups that are not judged.
    if mixture.holds("aware"):
        aware = mixture.flag("aware")
        if aware is not (tilted and (aware or propensity is None)):
            raise ModelFileError("model.json: mixture: aware does not fit to its tilt.")
    # Files of earlier versions lack it.
    split = mixture.flag("split") if mixture.holds("split") else False
    mixture.done()
    known = membership if tilted else None
    return Model(
        columns, Mixture(family), theta, offsets, propensity, temperature, aware, split, known
    )


def _family(mixture: Fields, arrays: Arrays, columns: Columns, n_components: int) -> Family:
    """The family that the kinds of columns call for."""
    levels = tuple(map(len, columns.levels))
    if not columns.numeric:
        categorical = Categorical(n_components, levels)
        for name in categorical.document():
            if mixture.has(name):
                raise ModelFileError(f"model.json: mixture: {name}, but no column is numeric.")
        if not columns.levels:
            raise ModelFileError("model.json: columns: names is empty.")
        return categorical
    # From the register, so that a family of your own can be read back once it is registered.
    name = mixture.text("covariance_type", tuple(FAMILIES))
    stored = Stored(n_components, len(columns.numeric), name, mixture, arrays)
    return joined(FAMILIES[name].read(stored), levels)


def _propensity(
    slots: Fields,
    arrays: Arrays,
    columns: Columns,
    n_groups: int,
    membership: Membership | None,
) -> Propensity:
    n_numeric, numbers = len(columns.numeric), None
    if n_numeric:
        # The deviation of a constant column is infinite, so that it counts for nothing.
        deviation = arrays.floats("propensity_deviation", n_numeric, finite=False)
        if not (deviation > 0).all():
            raise ModelFileError("propensity_deviation.npy holds numbers that are not positive.")
        numbers = Scale(arrays.floats("propensity_mean", n_numeric), deviation)
    lengths = slots.wholes("slots", 1)
    gaps = slots.wholes("gaps", high=len(columns.names) - 1) if slots.holds("gaps") else []
    if sorted(set(gaps)) != gaps:
        raise ModelFileError("model.json: propensity: gaps is not sorted.")
    slots.done()
    if len(lengths) != len(columns.levels):
        raise ModelFileError("model.json: propensity: slots is not one for each category column.")
    codes: tuple[IntArray, ...] = ()
    if lengths:
        flat = arrays.integers("propensity_slots", sum(lengths))
        codes = tuple(np.split(flat.astype(np.intp), list(accumulate(lengths))[:-1]))
    # There are at most as many indicator columns as categories; a forged slot would make a huge
    # table of them.
    if any(slot.min() < 0 or slot.max() >= len(slot) for slot in codes):
        raise ModelFileError("propensity_slots.npy holds a slot that is not there.")
    propensity = Propensity(
        numbers,
        codes,
        arrays.floats("propensity_coefficients", n_groups, None),
        arrays.floats("propensity_intercepts", n_groups),
        tuple(gaps),
        membership,
    )
    _try_propensity(propensity, columns)
    return propensity


def _try_propensity(propensity: Propensity, columns: Columns) -> None:
    """Whether the coefficients fit to the columns shows in a row."""
    numbers = np.zeros((1, len(columns.numeric))) if columns.numeric else None
    codes = np.zeros((1, len(columns.levels)), dtype=np.intp) if columns.levels else None
    with np.errstate(all="ignore"):
        # If the sum of all is finite, so is the score of a row whose powers are at most 1.
        largest = np.abs(propensity.coefficients).sum(axis=1) + np.abs(propensity.intercepts)
        if not np.isfinite(largest).all():
            raise ModelFileError("propensity_coefficients.npy holds numbers that are too large.")
        try:
            # Any row will do: shapes do not depend on its values.
            propensity(Rows(numbers, codes))
        except ValueError:
            raise ModelFileError(
                "propensity_coefficients.npy does not fit to the columns of the model."
            ) from None


def _check_parameters(model: Model) -> None:
    """Refuse parameters without densities."""
    # What overflows is refused below, and a warning beside the error would only confuse.
    with np.errstate(all="ignore"):
        logits = model.mixture.logits(model.theta)
        try:
            found = model.parameters()
        except np.linalg.LinAlgError:
            raise ModelFileError("theta.npy holds a covariance that is singular.") from None
        # As assignment divides them.
        numbers = [part / model.temperature for part in (logits.b, logits.W)]
        if model.offsets is not None:
            numbers.append(model.offsets / model.temperature)
    for value in found.values():
        numbers += value if isinstance(value, list) else [value]
    if not all(np.isfinite(part).all() for part in numbers):
        raise ModelFileError("it holds parameters that are too large for a density.")


def _figure(fitted: Fields, name: str) -> float:
    """A number; NaN where there is none, or where a file of schema 1 lacks it."""
    if name == "resolution_" and not fitted.holds(name):
        return np.nan
    # A ratio is bounded without a strength.
    if name in (*FAIRNESS, "fairness_strength_") and not fitted.has(name):
        return np.nan
    return fitted.number(name, 0 if name == "fairness_strength_" else -np.inf)


def _history(fitted: Fields, arrays: Arrays, compared: bool) -> Array:
    """One row per iteration, with the columns that there are."""
    names = fitted.texts("history", distinct=True)
    if not set(names) <= set(Iteration._fields):
        raise ModelFileError("model.json: fitted: history names an unknown column.")
    table = arrays.floats("history", None, len(names), finite=False)
    history = np.empty(len(table), dtype=[(name, np.float64) for name in names])
    for name, column in zip(names, table.T, strict=True):
        # Files of schema 1 have the gap and the balance of a single group, too.
        history[name] = column if compared or name not in ("gap", "balance") else np.nan
    return history
