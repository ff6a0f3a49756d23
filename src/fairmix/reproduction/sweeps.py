"""Sweeps: the units of a method over its strengths or bounds, the same for every entry."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fairmix.reproduction import methods as m
from fairmix.reproduction.settings import Settings
from fairmix.reproduction.units import Unit, unit
from fairmix.reproduction.views import View

# How each swept method calls what is swept.
SWEPT = {
    m.FMC_EM: "fairness_strength",
    m.FMC_GD: "fairness_strength",
    m.VFC: "fairness_strength",
    m.FMC_BOUNDED: "max_gap",
    m.LABELS: "max_gap",
    m.AWARE: "max_gap",
    m.RATIO: "min_ratio",
    m.RATIO_AWARE: "min_ratio",
    m.BALANCE: "balance_share",
    m.BALANCE_AWARE: "balance_share",
    m.LP: "representation",
    m.REPAIRED: "balance_share",
}
EM_METHODS = (m.FMC_EM, m.FMC_BOUNDED)


def sweep(
    settings: Settings,
    view: View,
    method: str,
    values: Iterable[float] | None = None,
    *,
    clusters: int | None = None,
    seeds: Sequence[int] | None = None,
    extras: tuple[str, ...] = (),
    also: Mapping[str, Any] | None = None,
) -> list[Unit]:
    """Units of one method: each value of what it sweeps over, each seed.

    Parameters
    ----------
    settings : Settings
        Of the run; their strengths or bounds are the values where none are given.
    view : View
        Data.
    method : str
        Name of the method.
    values : iterable of float, default=None
        Strengths or bounds.
    clusters : int, default=None
        K; None for that of the settings.
    seeds : sequence of int, default=None
        None: those of the settings.
    extras : tuple of str
        Further measurements.
    also : mapping, default=None
        Parameters of the method besides.
    """
    # What an entry asks for wins over what the mode of the run says.
    fixed = {**_own(settings, method), **(also or {})}
    swept = SWEPT.get(method)
    found = default_values(settings, method) if values is None else values
    # A method that sweeps over nothing is still fitted, once per seed.
    points: list[dict[str, Any]] = [{swept: value} for value in found] if swept else [{}]
    return [
        unit(view, method, clusters or settings.clusters, seed, extras, **fixed, **point)
        for point in points
        for seed in (settings.seeds if seeds is None else seeds)
    ]


def default_values(settings: Settings, method: str) -> tuple[float, ...]:
    """Strengths or bounds of a method in this run."""
    # VFC has a scale of its own: its strengths are in units of the cost of K-means.
    if method == m.VFC:
        return settings.variational_strengths
    if method == m.FMC_BOUNDED:
        return settings.strict_bounds
    if method == m.BALANCE_AWARE:
        return settings.balances
    return {
        "max_gap": settings.bounds,
        "min_ratio": settings.ratios,
        "balance_share": settings.ratios,
        "representation": settings.representations,
    }.get(SWEPT.get(method, ""), settings.strengths)


def _own(settings: Settings, method: str) -> dict[str, Any]:
    if method in (m.FMC_GD, m.MM_GD):
        return settings.gd
    if method in EM_METHODS:
        return settings.em
    if method in (*m.BLIND_RULES, *m.AWARE_RULES):
        return settings.dual
    return settings.plain_em if method == m.MM_EM else {}
