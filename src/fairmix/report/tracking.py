"""Tracking: a fitted model as a run of MLflow, in numbers and with its report."""

from __future__ import annotations

import math
from importlib import import_module
from typing import TYPE_CHECKING, Any

from sklearn.utils.validation import check_is_fitted

from fairmix._version import __version__
from fairmix.export import LOCAL_PARAMETERS
from fairmix.report.document import render

if TYPE_CHECKING:
    from fairmix.estimator import FairMixture
    from fairmix.results import Certificate, Profile

# Attributes that are logged, without their underscore.
FIGURES = (
    *("gap", "label_gap", "soft_gap", "ratio", "balance", "resolution"),
    *("fairness_strength", "lower_bound", "n_iter"),
)


def log_to_mlflow(
    model: FairMixture, profile: Profile | None = None, *, certificate: Certificate | None = None
) -> None:
    """Log a fitted model to the active run of MLflow, or to a new one.

    Parameters are those of the constructor; metrics are ``gap``, ``ratio``, ``balance`` and other
    figures of the rows of the fit, where they exist; the tags ``fairmix.rule``,
    ``fairmix.verdict`` and ``fairmix.version`` say what was asked for and whether it is met. With a
    profile, ``report.html`` is an artifact of the run. No row and no row's group is logged.

    The model itself is for ``mlflow.sklearn.log_model``, with
    ``skops_trusted_types=fairmix.export.SKOPS_TYPES``.

    Parameters
    ----------
    model : FairMixture
        Fitted.
    profile : Profile, default=None
        The clusters of the rows, for the report. None logs no report.
    certificate : Certificate, default=None
        Of `FairMixture.certify` on held-out rows: its value and its bound are metrics
        (``held_out_gap`` and ``held_out_gap_bound``, or of the ratio or Balance), and its verdict
        is the tag ``fairmix.held_out_verdict``.

    Examples
    --------
    ::

        with mlflow.start_run():
            model.fit(people, sensitive_features="sex")
            log_to_mlflow(model, Profile.from_frame(people, model.labels_, "sex"))
    """
    check_is_fitted(model)
    try:
        mlflow: Any = import_module("mlflow")
    except ImportError as error:
        raise ImportError(
            "log_to_mlflow needs MLflow, which is not installed: pip install mlflow."
        ) from error
    rule = model.fitted_.rule
    given = model.get_params(deep=False)
    mlflow.log_params({name: given[name] for name in given if name not in LOCAL_PARAMETERS})
    figures = {name: float(getattr(model, f"{name}_")) for name in FIGURES}
    figures["clusters_filled"] = float(model.fitted_.filled)
    tags = {
        "fairmix.version": __version__,
        "fairmix.rule": rule.text,
        "fairmix.verdict": model.verdict_,
    }
    if certificate is not None:
        figures[f"held_out_{certificate.criterion}"] = certificate.value
        figures[f"held_out_{certificate.criterion}_bound"] = certificate.bound
        tags["fairmix.held_out_verdict"] = certificate.verdict.word
    # A gap is NaN without two groups, and servers do not agree on what NaN is.
    mlflow.log_metrics({name: value for name, value in figures.items() if math.isfinite(value)})
    mlflow.set_tags(tags)
    if profile is not None:
        text = render(profile, model=model, certificate=certificate)
        mlflow.log_text(text, "report.html")
