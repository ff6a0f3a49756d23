"""Directions of gradient steps."""

from __future__ import annotations

import numpy as np

from fairmix.kernels.totals import FloatArray


class Adam:
    """Directions of Adam (Kingma and Ba 2015), to be multiplied by a learning rate.

    The paper prints plain gradient steps; its figures need steps that do not depend on the scale
    of each parameter's gradient, as in the authors' program.
    """

    def __init__(self, size: int) -> None:
        self.first = np.zeros(size)
        self.second = np.zeros(size)
        self.steps = 0

    def direction(self, gradient: FloatArray) -> FloatArray:
        """Ascent direction after one more gradient."""
        # The constants that Kingma and Ba give: means over 10 and 1000 steps, a floor of 1e-8.
        self.steps += 1
        self.first += 0.1 * (gradient - self.first)
        self.second += 0.001 * (gradient * gradient - self.second)
        mean = self.first / (1 - 0.9**self.steps)
        spread = np.sqrt(self.second / (1 - 0.999**self.steps))
        return np.asarray(mean / (spread + 1e-8))
