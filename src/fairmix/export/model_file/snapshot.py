"""What a model file says: the parameters and the fitted attributes of an estimator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from fairmix.results.fitted import Fitted

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
