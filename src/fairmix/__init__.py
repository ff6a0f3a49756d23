"""Fair model-based clustering: mixture models with a bound on how groups differ per cluster."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairmix import baselines as baselines
    from fairmix import datasets as datasets
    from fairmix import metrics as metrics
    from fairmix import plot as plot
    from fairmix.card import model_card
    from fairmix.comparison import compare
    from fairmix.estimator import FairMixture, load
    from fairmix.groups import IgnoredTargetWarning
    from fairmix.onnx import to_onnx
    from fairmix.path import pareto_front, select_n_components

__all__ = [
    "FairMixture",
    "IgnoredTargetWarning",
    "compare",
    "load",
    "model_card",
    "pareto_front",
    "select_n_components",
    "to_onnx",
]

__version__ = "0.1.0.dev0"

# Where each name is. It is imported when first asked for, so that `import fairmix` costs nothing.
_HOMES = {
    "FairMixture": "fairmix.estimator",
    "IgnoredTargetWarning": "fairmix.groups",
    "compare": "fairmix.comparison",
    "load": "fairmix.estimator",
    "model_card": "fairmix.card",
    "pareto_front": "fairmix.path",
    "select_n_components": "fairmix.path",
    "to_onnx": "fairmix.onnx",
}
_ROOMS = ("baselines", "datasets", "metrics", "plot")

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
    return sorted({*globals(), *_HOMES, *_ROOMS})
