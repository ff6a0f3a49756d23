"""Print the evidence of decision record 0009: fixed batches against batches drawn anew.

Both ways are incremental EM of a tied-spherical mixture, written plainly: what the last visit of a
row said of it counts until its next visit. They differ only in the rows that a step visits.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.cluster import KMeans

from fairmix.datasets import load_adult, paper_preprocessing

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]

N_CLUSTERS = 10
SHARES = (0.1, 0.01)  # the paper's batches, and much smaller ones
ROUNDS = (1, 2, 5, 10)  # as many visits of each row, on average


@dataclass(frozen=True)
class Components:
    """A mixture of Gaussians with one variance."""

    weights: Floats
    means: Floats
    variance: float

    @classmethod
    def fitted(cls, counts: Floats, sums: Floats, mean_square: float) -> Components:
        """The M-step, from sums over rows and the mean squared length of a row."""
        means = sums / counts[:, None]
        weights = counts / counts.sum()
        variance = (mean_square - weights @ (means**2).sum(axis=1)) / means.shape[1]
        return cls(weights, means, float(variance))

    def log_joint(self, X: Floats) -> Floats:
        """Log-probability of each row together with each component, (N, K)."""
        distances = ((X[:, None] - self.means) ** 2).sum(axis=2)
        scale = X.shape[1] / 2 * np.log(2 * np.pi * self.variance)
        out: Floats = np.log(self.weights) - distances / (2 * self.variance) - scale
        return out


def fixed(n_rows: int, n_batches: int, rng: np.random.Generator) -> Iterator[Rows]:
    """Runs of neighbouring rows, every one once in each round, in a new order."""
    batches = np.array_split(np.arange(n_rows), n_batches)
    while True:
        for number in rng.permutation(n_batches):
            yield batches[number]


def drawn(n_rows: int, n_batches: int, rng: np.random.Generator) -> Iterator[Rows]:
    """Rows drawn anew for every step, as in the paper's Algorithm 3."""
    while True:
        yield rng.choice(n_rows, n_rows // n_batches, replace=False)


WAYS: dict[str, Callable[[int, int, np.random.Generator], Iterator[Rows]]] = {
    "fixed": fixed,
    "random": drawn,
}


def responsibilities(log_joint: Floats) -> Floats:
    """Probability of each component given the row, (N, K)."""
    out: Floats = np.exp(log_joint - logsumexp(log_joint, axis=1, keepdims=True))
    return out


def course(X: Floats, visits: Iterator[Rows], n_batches: int, seed: int) -> list[float]:
    """Mean log-likelihood per row after each number of rounds."""
    labels = KMeans(N_CLUSTERS, n_init=1, random_state=seed).fit(X).labels_
    mean_square = float((X**2).sum(axis=1).mean())

    def components() -> Components:
        return Components.fitted(counts, sums, mean_square)

    kept = np.eye(N_CLUSTERS)[labels]
    counts, sums = kept.sum(axis=0), kept.T @ X
    # The first E-step visits all rows, as in the library.
    kept = responsibilities(components().log_joint(X))
    counts, sums = kept.sum(axis=0), kept.T @ X
    out = []
    for step in range(1, max(ROUNDS) * n_batches + 1):
        rows = next(visits)
        new = responsibilities(components().log_joint(X[rows]))
        change = new - kept[rows]
        kept[rows] = new
        counts, sums = counts + change.sum(axis=0), sums + change.T @ X[rows]
        if step in [rounds * n_batches for rounds in ROUNDS]:
            out.append(float(logsumexp(components().log_joint(X), axis=1).mean()))
    return out


def main() -> None:
    """Print the mean log-likelihood of both ways over some starts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=4, help="starts of each way (4)")
    arguments = parser.parse_args()
    X = paper_preprocessing(load_adult().X)
    titles = [f"{rounds} round{'s' * (rounds > 1)}" for rounds in ROUNDS]
    print(f"| batch | way | {' | '.join(titles)} |\n|---|---{'|---' * len(ROUNDS)}|")
    for share in SHARES:
        n_batches = round(1 / share)
        for name, way in WAYS.items():
            found = [
                course(X, way(len(X), n_batches, np.random.default_rng(seed)), n_batches, seed)
                for seed in range(arguments.seeds)
            ]
            cells = [f"{mean:.5f}" for mean in np.mean(found, axis=0)]
            print(f"| {share * 100:g} % | {name} | {' | '.join(cells)} |", flush=True)
    print(f"deviation between starts, at the end: {np.std(found, axis=0)[-1]:.3f}")


if __name__ == "__main__":
    main()
