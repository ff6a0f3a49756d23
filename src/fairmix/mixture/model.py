"""A fitted model: what assigns new rows. Its size does not depend on the number of rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmix.input.columns import Columns
from fairmix.kernels import LogitMap, forward, hard_labels, label_masses, log_densities
from fairmix.kernels.totals import Block, FloatArray, IntArray, Logits, Membership, Rows
from fairmix.mixture.mixture import Mixture
from fairmix.mixture.propensity import Propensity
from fairmix.tables import MemoryStore, Store, Table, Ties


@dataclass(frozen=True, eq=False)
class Assignment:
    """What a map makes of a block: its labels, if asked for, and their and the soft masses."""

    logits: Logits
    offsets: FloatArray | None
    temperature: float
    labels: bool

    @cached_property
    def _maps(self) -> tuple[LogitMap, LogitMap]:
        """For labels, as `Model.labels` makes them, and for responsibilities."""
        # A temperature only scales logits, but rounding could then give labels that `predict` does
        # not give.
        return LogitMap(self.logits, self.offsets), LogitMap(
            self.logits, self.offsets, self.temperature
        )

    def __call__(self, block: Block) -> tuple[IntArray, FloatArray, FloatArray]:
        """Labels (n,) or none, and the masses (M, K)."""
        crisp, soft = self._maps
        labels = hard_labels(block, crisp)
        hard = label_masses(block, labels, len(self.logits.b))
        mass = forward(block, soft, likelihood=False).mass
        assert mass is not None
        return labels if self.labels else labels[:0], hard, mass


@dataclass(frozen=True, eq=False)
class Model:
    """Columns, a mixture with its parameters, and the tilt of its assignment.

    Attributes
    ----------
    columns : Columns
        How a table becomes rows.
    mixture : Mixture
        Maps theta to logits.
    theta : array
        Parameters.
    offsets : (M, K) array or None
        The tilt; None assigns by the mixture alone.
    propensity : Propensity or None
        P(group | x) of a blind tilt, and of an aware one for rows whose group is not judged.
    temperature : float
        Of the responsibilities.
    aware : bool
        Whether assignment needs the group of each row.
    split : bool
        Whether equal rows share labels out.
    membership : Membership or None
        The groups of several attributes, of each of which a row has one.
    """

    columns: Columns
    mixture: Mixture
    theta: FloatArray
    offsets: FloatArray | None = None
    propensity: Propensity | None = None
    temperature: float = 1.0
    aware: bool = False
    split: bool = False
    membership: Membership | None = None

    @cached_property
    def logits(self) -> Logits:
        """Of the components."""
        return self.mixture.logits(self.theta)

    @cached_property
    def _label_map(self) -> LogitMap:
        # Kept, so that predictions of few rows need not make its weights again.
        return LogitMap(self.logits, self.offsets)

    def __getstate__(self) -> dict[str, Any]:
        # What is made of it stays behind: a file must not depend on what the model was asked for,
        # and not every format takes the keys of the map.
        made = ("logits", "_label_map")
        return {name: value for name, value in vars(self).items() if name not in made}

    @property
    def places_aside(self) -> bool:
        """Whether an aware map can place rows of no group that is judged."""
        return self.aware and self.propensity is not None

    @property
    def n_codes(self) -> int:
        """Codes of the groups of rows, or of their cells, but for standing aside."""
        if self.offsets is None:
            return 1
        return len(self.offsets) if self.membership is None else self.membership.n_cells

    @property
    def ties(self) -> Ties | None:
        """What finds equal rows, if they share labels out."""
        return Ties(by_group=self.aware) if self.split else None

    def table(self, store: Store) -> Table:
        """Rows encoded for this model, for a single sweep."""
        return Table(
            store,
            self.mixture.family.encode,
            propensity=self.propensity,
            aware=self.aware,
            membership=self.membership,
            # Encoded rows that nobody visits again would only take memory.
            keep=False,
        )

    def _table(
        self, rows: Rows, groups: IntArray | None, n_jobs: int, first_run: int | None
    ) -> Table:
        store = MemoryStore(
            rows,
            # Without a tilt all rows are of one group, and codes of more must not reach the table.
            groups=None if self.offsets is None else groups,
            n_groups=self.n_codes,
            aside=self.places_aside and self.membership is None,
            n_jobs=n_jobs,
        )
        # Set afterwards, because the store fills in the groups of a map that needs none.
        if self.ties is not None and first_run is not None:
            store.ties = self.ties(rows, store.groups, first_run)
        return self.table(store)

    def _sweep(
        self,
        rows: Rows,
        work: Callable[[Block], NDArray[Any]],
        groups: IntArray | None,
        n_jobs: int,
        first_run: int | None = None,
    ) -> NDArray[Any]:
        return np.concatenate(list(self._table(rows, groups, n_jobs, first_run).each(work)))

    def assign(
        self, table: Table, *, labels: bool = True
    ) -> tuple[IntArray | None, FloatArray, FloatArray]:
        """Label of each row of a table encoded for this model, and the masses of the groups.

        The masses (M, K) are those of the labels and of the responsibilities. ``labels=False``
        leaves the labels out.
        """
        work = Assignment(self.logits, self.offsets, self.temperature, labels)
        out = np.empty(table.n_rows, dtype=np.int32) if labels else None
        hard = soft = np.zeros(())
        start = 0
        for found, hard_part, soft_part in table.each(work):
            hard, soft = hard + hard_part, soft + soft_part
            if out is not None:
                out[start : start + len(found)] = found
                start += len(found)
        return out, hard, soft

    def labels(
        self, rows: Rows, groups: IntArray | None = None, *, n_jobs: int = 1, first_run: int = 0
    ) -> IntArray:
        """Cluster of each row, (N,): the most probable one, unless equal rows share theirs out.

        ``first_run``: where in their table the rows begin, for `Ties`.
        """
        work = partial(hard_labels, logit_map=self._label_map)
        return self._sweep(rows, work, groups, n_jobs, first_run)

    def probabilities(
        self, rows: Rows, groups: IntArray | None = None, *, n_jobs: int = 1
    ) -> FloatArray:
        """Responsibilities, (N, K)."""
        return self._probabilities(rows, groups, self.offsets, self.temperature, n_jobs)

    def posterior(self, rows: Rows, *, n_jobs: int = 1) -> FloatArray:
        """Responsibilities of the untilted mixture, (N, K)."""
        return self._probabilities(rows, None, None, 1.0, n_jobs)

    def _probabilities(
        self,
        rows: Rows,
        groups: IntArray | None,
        offsets: FloatArray | None,
        temperature: float,
        n_jobs: int,
    ) -> FloatArray:
        logit_map = LogitMap(self.logits, offsets, temperature)

        def work(block: Block) -> FloatArray:
            return forward(block, logit_map, likelihood=False).psi.T

        return self._sweep(rows, work, groups, n_jobs)

    def log_densities(self, rows: Rows, *, n_jobs: int = 1) -> FloatArray:
        """Log-density of each row under the untilted mixture, (N,)."""
        logit_map = LogitMap(self.logits)
        return self._sweep(rows, lambda block: log_densities(block, logit_map), None, n_jobs)

    def has_densities(self, rows: Rows) -> bool:
        """Whether the logits of all rows are finite.

        Corners of a box that holds the rows stand for them: the lowest, the highest and the one
        farthest from zero, where every square and product is at its largest.
        """
        numeric = rows.numeric
        if numeric is None:
            return True
        with np.errstate(over="ignore", invalid="ignore"):
            # No number is farther from zero than all of them together: one product finds a box.
            reach = np.sqrt(np.vdot(numeric, numeric))
            corners = np.outer([-reach, reach], np.ones(numeric.shape[1])).astype(numeric.dtype)
            if np.isfinite(reach) and self._finite_at(corners):
                return True
            # What is missing counts for nothing; a column may have nothing else.
            low, high = np.fmin.reduce(numeric, axis=0), np.fmax.reduce(numeric, axis=0)
            return self._finite_at(
                np.stack([low, high, np.where(np.abs(low) > np.abs(high), low, high)])
            )

    def _finite_at(self, corners: FloatArray) -> bool:
        if np.isnan(corners).all():
            return True
        codes = None
        if self.columns.categorical:
            codes = np.zeros((len(corners), len(self.columns.categorical)), dtype=np.intp)
        dense = self.mixture.family.encode(Rows(corners, codes)).dense
        assert dense is not None
        # Offsets and weights of categories are finite.
        size = np.abs(self.logits.W[:, : dense.shape[1]]).astype(dense.dtype)
        largest = (size @ np.abs(dense).T) / self.temperature
        finite = bool(np.isfinite(largest).all())
        return finite and (self.propensity is None or self.propensity.is_finite(corners))

    def parameters(self) -> dict[str, FloatArray | list[FloatArray]]:
        """Fitted parameters by public name; category probabilities as one array per column."""
        found: dict[str, FloatArray | list[FloatArray]] = dict(self.mixture.unpack(self.theta))
        if "probabilities" in found:
            cuts = np.cumsum([len(names) for names in self.columns.levels])[:-1]
            found["probabilities"] = np.split(np.asarray(found["probabilities"]), cuts, axis=1)
        return found

    def theta_for(self, mixture: Mixture) -> FloatArray:
        """The parameters as a start for another fit."""
        old, new = self.mixture, mixture
        if (old.n_components, old.n_parameters) != (new.n_components, new.n_parameters):
            raise ValueError(
                "warm_start=True starts from the last fit, but n_components, covariance_type or "
                "the columns have changed since. Set warm_start=False for a new start."
            )
        # By way of the parameters, because theta counts from the centre of its own data.
        return new.pack(old.unpack(self.theta))

    def draw(self, n_rows: int, rng: np.random.Generator) -> tuple[Rows, IntArray]:
        """Random rows and the components that they come from, sorted by component."""
        counts = rng.multinomial(n_rows, self.mixture.weights(self.theta))
        labels = np.repeat(np.arange(self.mixture.n_components), counts)
        return self.mixture.draw(self.theta, labels, rng), labels
