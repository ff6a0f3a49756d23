"""A fitted model: what assigns new rows. Its size does not depend on the number of rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairmix.columns import Columns
from fairmix.kernels import forward, hard_labels, log_densities
from fairmix.mixture import Mixture
from fairmix.tables import ArrayTable
from fairmix.totals import FloatArray, IntArray, Rows


@dataclass(frozen=True, eq=False)
class Model:
    """Columns and a mixture with its parameters."""

    columns: Columns
    mixture: Mixture
    theta: FloatArray

    def _sweep(self, rows: Rows, n_jobs: int) -> ArrayTable:
        return ArrayTable(rows, self.mixture.family.encode, n_jobs=n_jobs, keep=False)

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
        return new.pack(old.unpack(self.theta))

    def mass(
        self, rows: Rows, groups: IntArray, weight: FloatArray | None, *, n_jobs: int = 1
    ) -> FloatArray:
        """Responsibilities summed over each group, (M, K)."""
        table = ArrayTable(
            rows,
            self.mixture.family.encode,
            groups=groups,
            n_groups=int(groups.max()) + 1,
            weight=weight,
            n_jobs=n_jobs,
            keep=False,
        )
        return table.softmax_pass(self.mixture.logits(self.theta), alpha=0.0).mass

    def labels(self, rows: Rows, *, n_jobs: int = 1) -> IntArray:
        """Most probable cluster of each row, (N,)."""
        logits = self.mixture.logits(self.theta)
        sweep = self._sweep(rows, n_jobs)
        return np.concatenate(list(sweep.each(lambda block: hard_labels(block, logits))))

    def probabilities(self, rows: Rows, *, n_jobs: int = 1) -> FloatArray:
        """Responsibilities, (N, K)."""
        logits = self.mixture.logits(self.theta)
        sweep = self._sweep(rows, n_jobs)
        return np.concatenate(list(sweep.each(lambda block: forward(block, logits).psi.T)))

    def log_densities(self, rows: Rows, *, n_jobs: int = 1) -> FloatArray:
        """Log-density of each row under the mixture, (N,)."""
        logits = self.mixture.logits(self.theta)
        sweep = self._sweep(rows, n_jobs)
        return np.concatenate(list(sweep.each(lambda block: log_densities(block, logits))))

    def draw(self, n_rows: int, rng: np.random.Generator) -> tuple[Rows, IntArray]:
        """Random rows and the components that they come from, sorted by component."""
        counts = rng.multinomial(n_rows, self.mixture.weights(self.theta))
        labels = np.repeat(np.arange(self.mixture.n_components), counts)
        return self.mixture.draw(self.theta, labels, rng), labels
