"""Records: what the units of an entry gave, averaged over seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from fairmix.reproduction.units import Numbers, Unit
from fairmix.reproduction.views import View


@dataclass(frozen=True, eq=False)
class Point:
    """Units that differ by the seed only."""

    unit: Unit
    runs: tuple[Numbers, ...]

    def __getitem__(self, name: str) -> float:
        """Mean over seeds; NaN where a seed has none."""
        # A mean over some of the seeds would look like one over all.
        known = [float(value) for run in self.runs if (value := run.get(name)) is not None]
        return float(np.mean(known)) if len(known) == len(self.runs) else float("nan")

    def spread(self, name: str) -> float:
        """Standard deviation over seeds."""
        return float(np.std([run[name] for run in self.runs]))

    def setting(self, name: str) -> Any:
        """A parameter of the method, None without it."""
        return dict(self.unit.settings).get(name)

    @property
    def filled(self) -> bool:
        """Whether every seed kept all clusters."""
        return all(run["clusters"] == self.unit.clusters for run in self.runs)

    def extras(self, name: str) -> list[Any]:
        """An extra of each seed."""
        return [run[name] for run in self.runs]


class Records:
    """Numbers of finished units; failed ones are left out."""

    def __init__(self, found: Mapping[Unit, Numbers]) -> None:
        groups: dict[Unit, list[Numbers]] = {}
        for task, numbers in found.items():
            if "error" not in numbers:
                # The seed 0 stands for all seeds.
                same = Unit(task.view, task.method, task.clusters, 0, task.settings, task.extras)
                groups.setdefault(same, []).append(numbers)
        self._points = [Point(task, tuple(runs)) for task, runs in groups.items()]

    def __iter__(self) -> Iterator[Point]:
        return iter(self._points)

    def points(
        self,
        method: str | Sequence[str],
        view: View | None = None,
        having: Mapping[str, Any] | None = None,
    ) -> list[Point]:
        """Points of one method or several, by what their parameters are."""
        wanted = (having or {}).items()
        methods = (method,) if isinstance(method, str) else method
        return [
            point
            for point in self._points
            if point.unit.method in methods
            and (view is None or point.unit.view == view)
            and all(point.setting(name) == value for name, value in wanted)
        ]

    def one(
        self, method: str, view: View | None = None, having: Mapping[str, Any] | None = None
    ) -> Point | None:
        """The first such point, None if there is none."""
        found = self.points(method, view, having)
        return found[0] if found else None


def fairest(points: Iterable[Point]) -> Point | None:
    """The highest balance among fits that kept all clusters, else among all."""
    found = list(points)
    # A high balance is easier to reach with fewer clusters, so a fit that lost some must not win by
    # that.
    kept = [point for point in found if point.filled] or found
    return max(kept, key=lambda point: point["balance"], default=None)


def cheapest(
    points: Iterable[Point], allowed: Callable[[Point], bool], measure: str = "cost"
) -> Point | None:
    """The least cost among allowed fits that kept all clusters."""
    kept = [point for point in points if point.filled and allowed(point)]
    return min(kept, key=lambda point: point[measure], default=None)


def front(points: Iterable[Point], x: str, y: str = "cost") -> list[Point]:
    """Points that no other beats in both, by increasing x; balance is better when higher."""
    sign = -1 if x == "balance" else 1
    # From the fairest on, ties by cost: a point is on the front if it is cheaper than all before.
    ordered = sorted(points, key=lambda point: (sign * point[x], point[y]))
    kept: list[Point] = []
    for point in ordered:
        if not kept or point[y] < kept[-1][y]:
            kept.append(point)
    # Reversed for balance, whose fairest points have the largest x.
    return kept[::sign]


def cost_at(points: Iterable[Point], value: float, x: str = "gap") -> float | None:
    """Cost of a front at a gap or Balance, on the line between its neighbours; None beyond it."""
    kept = front([point for point in points if point.filled], x)
    for left, right in pairwise(kept):
        if left[x] <= value <= right[x]:
            # Two fits may have the same gap: the floor keeps the quotient finite.
            part = (value - left[x]) / max(right[x] - left[x], 1e-12)
            return left["cost"] + part * (right["cost"] - left["cost"])
    if not kept:
        return None
    # Looser than the loosest, which has the largest gap or the least Balance: it is allowed, too.
    loosest = kept[0] if x == "balance" else kept[-1]
    looser = value < loosest[x] if x == "balance" else value > loosest[x]
    return loosest["cost"] if looser else None
