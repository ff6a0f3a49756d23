"""What a model file says: the parameters and the fitted attributes of an estimator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

FORMAT = "fairmix model"
# 2: groups that are not judged, and no figures of fairness where nothing is compared.
SCHEMA = 2
ESTIMATOR = "FairMixture"
# Parameters of a machine, not of a model: they come back with their defaults.
LOCAL_PARAMETERS = ("checkpoint", "n_jobs", "verbose")
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
    fitted : mapping
        Attributes, public and private, by name.
    metadata : mapping
        What the user adds; JSON values only.
    """

    version: str
    parameters: Mapping[str, Any]
    fitted: Mapping[str, Any]
    metadata: Mapping[str, Any]


class PastStream:
    """Stands for the stream of a saved model, whose rows a file does not hold."""

    @property
    def parameters(self) -> dict[str, str]:
        """What `partial_fit` asks first."""
        raise ValueError(
            "This model comes from a file and was learned from a stream. A file does not hold the "
            "sample of rows that partial_fit goes on with: pickle the estimator to go on with its "
            "stream, or begin a new one with sklearn.base.clone(model)."
        )
