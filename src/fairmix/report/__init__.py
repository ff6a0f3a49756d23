"""The report: one HTML file to hand over, with aggregates only."""

from fairmix.report.document import render

__all__ = ["render"]
