"""Fitting: from rows and settings to a solution. Wires families, tables, starts and solvers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fairmix.columns import Columns
from fairmix.criteria import CRITERIA
from fairmix.families import Categorical, Family, Gaussian, Product
from fairmix.initialization import Start, start
from fairmix.mixture import Mixture
from fairmix.objective import Objective, Scaled
from fairmix.progress import progress
from fairmix.solvers import EM, GradientDescent, Solution
from fairmix.tables import ArrayTable
from fairmix.totals import FloatArray, Rows

# How sharply the multipliers of a penalty follow the rates, in units of the strength: the value
# at which fits of the paper's data sets neither stall nor lose clusters.
SHARPNESS = 100.0


@dataclass(frozen=True)
class Settings:
    """Choices of the user that shape a fit; `FairMixture` documents each."""

    n_components: int
    solver: str
    fairness_strength: float
    criterion: str
    covariance_type: str
    max_iter: int | None
    inner_iter: int
    learning_rate: float | None
    tol: float
    init_params: Start
    reg_covar: float
    verbose: int


def make_family(
    settings: Settings, columns: Columns, rows: Rows, weight: FloatArray | None
) -> Family:
    """The family that the kinds of columns call for."""
    levels = tuple(len(names) for names in columns.levels)
    categorical = Categorical(settings.n_components, levels)
    if rows.numeric is None:
        return categorical
    gaussian = Gaussian(
        settings.n_components,
        np.average(rows.numeric.astype(np.float64), axis=0, weights=weight),
        settings.covariance_type,
        settings.reg_covar,
    )
    return Product(gaussian, categorical) if levels else gaussian


def make_solver(settings: Settings) -> EM | GradientDescent:
    """The solver with its own defaults where the user set none."""
    given = {"max_iter": settings.max_iter, "learning_rate": settings.learning_rate}
    chosen: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    criterion = CRITERIA[settings.criterion]
    if settings.solver == "em":
        return EM(criterion, tol=settings.tol, inner_iter=settings.inner_iter, **chosen)
    # One of EM's iterations is ten steps of ten times the length.
    return GradientDescent(criterion, tol=settings.tol / 100, **chosen)


def make_objective(settings: Settings, mixture: Mixture, table: ArrayTable) -> Objective:
    """Mean log-likelihood, penalised when there are groups and a strength."""
    strength = float(settings.fairness_strength)
    if table.n_groups < 2 or not strength:
        return Objective(mixture, table)
    zeros = np.zeros((table.n_groups, mixture.n_components))
    penalty = Scaled(CRITERIA[settings.criterion], strength, SHARPNESS * strength, zeros)
    return Objective(mixture, table, penalty)


def solve(settings: Settings, mixture: Mixture, table: ArrayTable, theta: FloatArray) -> Solution:
    """Climb from theta, with a progress bar when asked for."""
    solver = make_solver(settings)
    title = f"fit {settings.solver}"
    with progress(title, solver.max_iter, shown=bool(settings.verbose)) as tick:
        return solver.solve(
            make_objective(settings, mixture, table),
            theta,
            callback=lambda row: tick(f"objective {row.objective:.4f}  gap {row.gap:.4f}"),
        )


def solve_best(
    settings: Settings, mixture: Mixture, table: ArrayTable, seeds: list[int]
) -> Solution:
    """The best solution of several starts."""
    best: Solution | None = None
    for seed in seeds:
        rng = np.random.default_rng(seed)
        theta = start(mixture, table.rows, how=settings.init_params, rng=rng, weight=table.weight)
        solution = solve(settings, mixture, table, theta)
        if best is None or solution.objective > best.objective:
            best = solution
    assert best is not None
    return best
