"""When the value of a criterion counts as within a bound."""

from __future__ import annotations

# Probabilities are not made of rows; their rates are sums of rounded numbers. Far above rounding,
# far below any bound that can be seen in a printed figure.
SOFT_RESOLUTION = 1e-6
# Rates are quotients of floats: two ways to compute the same one differ by this at most.
ROUNDING = 1e-12


def within(value: float, bound: float, resolution: float = 0.0) -> bool:
    """Whether a value is at most the bound, or at most what whole rows resolve. A NaN is not."""
    return value <= max(bound, resolution) + ROUNDING


def reaches(figure: float, bound: float, resolution: float = 0.0) -> bool:
    """Whether a figure is at least the bound, but for what whole rows resolve. A NaN is not."""
    return figure >= bound - resolution - ROUNDING
