"""Fair model-based clustering: mixture models with a bound on how groups differ per cluster."""

from fairmix.card import model_card
from fairmix.compare import compare
from fairmix.estimator import FairMixture, load
from fairmix.onnx import to_onnx
from fairmix.path import pareto_front, select_n_components

__all__ = [
    "FairMixture",
    "compare",
    "load",
    "model_card",
    "pareto_front",
    "select_n_components",
    "to_onnx",
]

__version__ = "0.1.0.dev0"
