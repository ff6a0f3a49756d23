"""The softmax pass on one block of rows."""

from fairmix.kernels.labels import hard_labels, label_masses, label_scores
from fairmix.kernels.logits import LogitMap, tilted
from fairmix.kernels.softmax import Forward, backward, forward, log_densities
from fairmix.kernels.sweep import Sweep

__all__ = [
    "Forward",
    "LogitMap",
    "Sweep",
    "backward",
    "forward",
    "hard_labels",
    "label_masses",
    "label_scores",
    "log_densities",
    "tilted",
]
