"""The report: one HTML file to hand over, with aggregates only, also in a run of MLflow."""

from fairmix.report.document import render, report_of
from fairmix.report.tracking import log_to_mlflow

__all__ = ["log_to_mlflow", "render", "report_of"]
