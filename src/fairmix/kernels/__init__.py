"""The softmax pass on one block of rows."""

from fairmix.kernels.labels import hard_labels, label_scores
from fairmix.kernels.logits import Tilt, tilted
from fairmix.kernels.softmax import Forward, backward, forward, log_densities

__all__ = [
    "Forward",
    "Tilt",
    "backward",
    "forward",
    "hard_labels",
    "label_scores",
    "log_densities",
    "tilted",
]
