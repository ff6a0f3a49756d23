"""Several attributes at once: each has groups of its own, and a bound of its own.

Rates are stacked, the groups of one attribute after those of the other. A row has one group of each
attribute, so groups of different attributes share rows and are never compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import block_diag

from fairmix.criteria._base import BoolArray, Criterion, Face, OwnBound
from fairmix.criteria.bounds import ROUNDING
from fairmix.criteria.ratios import forgiven_rows
from fairmix.kernels.totals import FloatArray, Membership


class Part(NamedTuple):
    """An attribute: where its groups are, its criterion, and how much tighter its bound is.

    ``tighter`` is the difference to the loosest bound of all attributes.
    """

    groups: slice
    criterion: Criterion
    tighter: float

    def bound(self, bound: float) -> float:
        """The bound of the attribute, given that of all."""
        return max(0.0, bound - self.tighter)


class Edges(NamedTuple):
    """What a rule asks of the rates r (M,) of each cluster: ``rows @ r <= bounds``."""

    rows: FloatArray
    bounds: FloatArray


@dataclass(frozen=True, eq=False)
class EachAttribute:
    """The worst attribute counts, by how far it is beyond its own bound.

    A value is that of the attribute plus how much tighter its bound is than the loosest, so that
    the value of all is within the loosest bound if that of each is within its own.
    """

    parts: tuple[Part, ...]

    @classmethod
    def of(
        cls, membership: Membership, criteria: Sequence[Criterion], levels: Sequence[float]
    ) -> EachAttribute:
        """Of criteria and bounds of the attributes."""
        loosest = max(levels)
        return cls(
            tuple(
                # Nothing is tighter than what is not bounded.
                Part(groups, criterion, 0.0 if np.isinf(loosest) else loosest - level)
                for groups, criterion, level in zip(membership.parts, criteria, levels, strict=True)
            )
        )

    @classmethod
    def same(cls, membership: Membership, criterion: Criterion) -> EachAttribute:
        """Of one criterion for all attributes."""
        n_attributes = len(membership.counts)
        return cls.of(membership, [criterion] * n_attributes, [0.0] * n_attributes)

    def _each(self, what: Callable[[Part], float]) -> FloatArray:
        return np.array([what(part) for part in self.parts])

    def _values(self, rates: FloatArray) -> FloatArray:
        return self._each(lambda part: part.criterion.value(rates[part.groups]) + part.tighter)

    def value(self, rates: FloatArray) -> float:
        """That of the worst attribute."""
        return float(self._values(rates).max())

    def gradient(self, rates: FloatArray) -> FloatArray:
        """That of the worst attribute."""
        worst = self.parts[int(self._values(rates).argmax())]
        out = np.zeros_like(rates)
        out[worst.groups] = worst.criterion.gradient(rates[worst.groups])
        return out

    def decisive(self, values: FloatArray) -> BoolArray:
        """The worst cluster, or several that are equally bad."""
        return np.asarray(values >= values.max())

    def resolution(self, rates: FloatArray, sizes: FloatArray, steps: FloatArray) -> float:
        """The coarsest."""
        return float(
            self._each(
                lambda part: part.criterion.resolution(
                    rates[part.groups], sizes[part.groups], steps[part.groups]
                )
            ).max()
        )

    def enough(
        self, bound: float, rates: FloatArray, sizes: FloatArray, steps: FloatArray
    ) -> float:
        """That of the worst attribute or, where one misses its own, of that one."""
        allowed = self._each(
            lambda part: (
                part.criterion.enough(
                    part.bound(bound), rates[part.groups], sizes[part.groups], steps[part.groups]
                )
                + part.tighter
            )
        )
        values = self._values(rates)
        beyond = values - allowed
        # Rates are quotients: what is beyond by rounding alone is not missed.
        return float(allowed[beyond.argmax() if beyond.max() > ROUNDING else values.argmax()])

    def noise(self, sizes: FloatArray, n_clusters: int) -> float:
        """The largest."""
        return float(
            self._each(lambda part: part.criterion.noise(sizes[part.groups], n_clusters)).max()
        )

    # ------------------------------------------------------------------------ the set of a bound
    def project(self, rates: FloatArray, bound: float) -> FloatArray:
        """Every attribute on its own."""
        out = np.empty_like(rates)
        for part in self.parts:
            out[part.groups] = part.criterion.project(rates[part.groups], part.bound(bound))
        return out

    def project_slope(self, rates: FloatArray, projected: FloatArray) -> FloatArray:
        """Every attribute on its own."""
        n_groups, n_clusters = rates.shape
        out = np.zeros((n_groups, n_clusters, n_groups, n_clusters))
        for groups, criterion, _ in self.parts:
            slope = criterion.project_slope(rates[groups], projected[groups])
            out[groups, :, groups] = slope
        return out

    def face(self, rates: FloatArray, projected: FloatArray) -> Face:
        """The pools of all attributes, numbered one after the other."""
        pools, directions = np.empty(rates.shape, dtype=np.intp), np.empty_like(rates)
        sizes, normals, first = [], [], 0
        for groups, criterion, _ in self.parts:
            face = criterion.face(rates[groups], projected[groups])
            pools[groups], directions[groups] = face.pools + first, face.directions
            wide = np.zeros((len(face.normals), *rates.shape))
            wide[:, groups] = face.normals
            sizes.append(face.sizes)
            normals.append(wide)
            first += len(face.sizes)
        return Face(pools, np.concatenate(sizes), np.concatenate(normals), directions)

    def excess(self, rates: FloatArray, bound: float) -> FloatArray:
        """Added up over attributes."""
        each = [
            part.criterion.excess(rates[:, part.groups], part.bound(bound)) for part in self.parts
        ]
        return np.asarray(np.sum(each, axis=0))

    @property
    def conic(self) -> bool:
        """As of its attributes, which have bounds of one kind."""
        return all(part.criterion.conic for part in self.parts)

    @property
    def contrasting(self) -> bool:
        """Multipliers add up to zero in each attribute at most."""
        return False

    def cone(self, bound: float) -> FloatArray | None:
        """The rows of all attributes."""
        cones = [part.criterion.cone(part.bound(bound)) for part in self.parts]
        found = [cone for cone in cones if cone is not None]
        return block_diag(*found) if len(found) == len(self.parts) else None

    def absolute(self, n_groups: int) -> None:
        """A largest value is no sum."""

    def edges(
        self, bound: float, sizes: FloatArray, steps: FloatArray, n_clusters: int
    ) -> Edges | None:
        """The rules of all attributes for labels; None where one is no matter of pairs of groups.

        ``sizes`` and ``steps`` (M,) are weights of the groups, and by how much one row moves the
        rate of its group.
        """
        found = [
            _edges_of(part, part.bound(bound), sizes[part.groups], steps[part.groups], n_clusters)
            for part in self.parts
        ]
        known = [edges for edges in found if edges is not None]
        if len(known) < len(found):
            return None
        return Edges(
            block_diag(*(edges.rows for edges in known)),
            np.concatenate([edges.bounds for edges in known]),
        )

    # ------------------------------------------------------------------ certificates and words
    def largest(self, low: FloatArray, high: FloatArray) -> float:
        """That of the worst attribute."""
        return float(
            self._each(
                lambda part: (
                    part.criterion.largest(low[part.groups], high[part.groups]) + part.tighter
                )
            ).max()
        )

    def own_bounds(self, n_clusters: int) -> dict[str, OwnBound]:
        """None."""
        return {}

    @property
    def words(self) -> str:
        """Those of the first attribute, whose rule all share."""
        return self.parts[0].criterion.words

    def note(self, n_groups: int) -> str:
        """What is compared."""
        return "Groups are compared within each attribute, and the worst attribute counts."


def _edges_of(
    part: Part, bound: float, sizes: FloatArray, steps: FloatArray, n_clusters: int
) -> Edges | None:
    """Those of one attribute, with what whole rows are forgiven."""
    cone = part.criterion.cone(bound)
    if cone is not None:
        spare = forgiven_rows(cone, sizes, steps) if bound <= ROUNDING else np.zeros(len(cone))
        return Edges(cone, spare)
    n_groups = len(sizes)
    factor = part.criterion.absolute(n_groups)
    if factor is None:
        return None
    # Half the sum of absolute multipliers is the dual norm of the range.
    even = np.full((n_groups, n_clusters), 1 / n_clusters)
    most = 2 * factor * part.criterion.enough(bound, even, sizes, steps)
    unit = np.eye(n_groups)
    g, h = np.nonzero(unit == 0)
    return Edges(unit[g] - unit[h], np.full(len(g), most))
