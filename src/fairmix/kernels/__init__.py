"""The softmax pass on one block of rows."""

from fairmix.kernels.softmax import (
    Forward,
    Tilt,
    backward,
    forward,
    hard_labels,
    log_densities,
    tilted,
)

__all__ = ["Forward", "Tilt", "backward", "forward", "hard_labels", "log_densities", "tilted"]
