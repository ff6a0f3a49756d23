"""Fitted models for others: model files, ONNX graphs, model cards."""

from fairmix.export.card import model_card
from fairmix.export.model_file import (
    LOCAL_PARAMETERS,
    ModelFileError,
    Snapshot,
    read_model,
    write_model,
)
from fairmix.export.onnx import to_onnx
from fairmix.export.trusted import SKOPS_TYPES

__all__ = [
    "LOCAL_PARAMETERS",
    "SKOPS_TYPES",
    "ModelFileError",
    "Snapshot",
    "model_card",
    "read_model",
    "to_onnx",
    "write_model",
]
