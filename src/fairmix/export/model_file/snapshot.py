"""What a model file says: the parameters and the fitted attributes of an estimator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from fairmix.criteria import limit_of
from fairmix.results.fitted import Fitted, Rule
from fairmix.results.verdict import MIN_GROUP_SIZE

FORMAT = "fairmix model"
# 2: groups that are not judged, and no figures of fairness where nothing is compared.
# 3: rules other than a gap, and several attributes: an older reader would take a ratio for no
# bound, and attributes for one.
SCHEMA = 3
ESTIMATOR = "FairMixture"
# Parameters of a machine, not of a model: they come back with their defaults.
LOCAL_PARAMETERS = ("checkpoint", "n_jobs", "verbose")
# Parameters that may be arrays of numbers, as nested lists.
STARTS = ("weights_init", "means_init", "precisions_init", "probabilities_init")
# Parameters that may be a dict, of numbers by the name of an attribute.
BY_ATTRIBUTE = ("max_gap", "min_ratio", "min_balance")
# Parameters that say what was asked of the rates.
RULE_PARAMETERS = ("max_gap", "min_ratio", "min_balance", "criterion", "fairness_strength")
# Figures that are null where fewer than two groups are judged.
FAIRNESS = ("gap_", "label_gap_", "soft_gap_", "balance_", "resolution_")
SCALARS = (*FAIRNESS, "fairness_strength_", "lower_bound_")


@dataclass(frozen=True, eq=False)
class Snapshot:
    """What is kept of a fitted estimator.

    Attributes
    ----------
    version : str
        The fairmix that fitted or saved it.
    parameters : mapping
        Of the constructor, by name.
    fitted : Fitted
        What the fit has found, without labels.
    feature_names : array of str or None
        Names of the columns, where X had names.
    metadata : mapping
        What the user adds; JSON values only.
    """

    version: str
    parameters: Mapping[str, Any]
    fitted: Fitted
    feature_names: NDArray[Any] | None
    metadata: Mapping[str, Any]


def rule_of(parameters: Mapping[str, Any]) -> Rule:
    """What parameters ask for; the estimator then checks the values of all of them."""
    # The estimator's defaults, for what a file does not name; it is in a room above this one and
    # cannot be asked.
    try:
        limit = limit_of(
            **{name: parameters[name] for name in RULE_PARAMETERS if name in parameters}
        )
    except (TypeError, ValueError, OverflowError):
        # No error for a wrong type here: the estimator has the better words for it.
        limit = None
    return Rule(
        criterion=parameters.get("criterion", "gap"),
        limit=limit,
        of=parameters.get("gap_of", "labels"),
        min_group_size=parameters.get("min_group_size", MIN_GROUP_SIZE),
        missing_groups=parameters.get("missing_groups", "error"),
    )
