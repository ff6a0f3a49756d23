"""Fair model-based clustering: mixture models with a bound on how groups differ per cluster."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fairmix._version import __version__ as __version__

if TYPE_CHECKING:
    from fairmix import baselines as baselines
    from fairmix import datasets as datasets
    from fairmix import export as export
    from fairmix import metrics as metrics
    from fairmix import plot as plot
    from fairmix import report as report
    from fairmix import results as results
    from fairmix import studies as studies
    from fairmix.estimator import FairMixture, load
    from fairmix.export import model_card, to_onnx
    from fairmix.input.groups import IgnoredTargetWarning
    from fairmix.input.guard import ColumnWarning
    from fairmix.input.sources import FileSource
    from fairmix.repair import FairAssignment, FairLabels, fair_labels
    from fairmix.studies import compare, pareto_front, select_n_components

__all__ = [
    "ColumnWarning",
    "FairAssignment",
    "FairLabels",
    "FairMixture",
    "FileSource",
    "IgnoredTargetWarning",
    "compare",
    "fair_labels",
    "load",
    "model_card",
    "pareto_front",
    "select_n_components",
    "to_onnx",
]

# Where each name is. It is imported when first asked for, so that `import fairmix` costs nothing.
_HOMES = {
    "ColumnWarning": "fairmix.input.guard",
    "FairAssignment": "fairmix.repair",
    "FairLabels": "fairmix.repair",
    "FairMixture": "fairmix.estimator",
    "FileSource": "fairmix.input.sources",
    "IgnoredTargetWarning": "fairmix.input.groups",
    "compare": "fairmix.studies",
    "fair_labels": "fairmix.repair",
    "load": "fairmix.estimator",
    "model_card": "fairmix.export",
    "pareto_front": "fairmix.studies",
    "select_n_components": "fairmix.studies",
    "to_onnx": "fairmix.export",
}
_ROOMS = ("baselines", "datasets", "export", "metrics", "plot", "report", "results", "studies")

# Type checkers know the names from above, and report those that do not exist.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name in _ROOMS:
            return import_module(f"fairmix.{name}")
        if name not in _HOMES:
            raise AttributeError(f"module 'fairmix' has no attribute {name!r}")
        found = globals()[name] = getattr(import_module(_HOMES[name]), name)
        return found


def __dir__() -> list[str]:
    # What this file needs for itself is not for others.
    return sorted({*_HOMES, *_ROOMS, "__version__"})
