"""The softmax pass against its floor: the matrix products and the ``exp`` that it must do."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import numpy as np

from benchmarks.harness import Array, Ratio, medians, quietly
from fairmix import FairMixture
from fairmix.datasets import make_census_like, paper_preprocessing
from fairmix.input.groups import encode_groups
from fairmix.kernels import LogitMap, Sweep, forward
from fairmix.kernels.totals import Block, Features, Logits, Rows
from fairmix.tables import MemoryStore, Table

ROWS = 16384  # of a block, as in a fit
# Blocks that are worked on in turn, so that rows come from memory as in a fit.
N_BLOCKS = 32
# Passes per repeat: one takes milliseconds, and a median of few would be noise.
PASSES = 5
# (columns, clusters, bound): the Census, Adult, and a wide table. What a pass does besides products
# and exp is a sum over clusters and a division, which weighs most where there are few columns.
SIZES = ((25, 20, 1.3), (5, 10, 1.6), (100, 50, 1.6))
OFFSETS_BOUND = 1.3  # of a pass: a tilt adds one column per group, and the masses of the groups
# Of a pass with curvature on rows of a fit, at the temperatures of responsibilities, of the E-step
# and of labels. Its floor has the product of the curvature, too.
CURVED_BOUND, TEMPERATURES = 1.3, (1.0, 0.3, 0.05)
CODES_BOUND = 1.5  # of the look-up alone, which has no exp and no division
COLUMNS, LEVELS, CLUSTERS = 20, 8, 10  # of the categorical pass


def run(repeats: int) -> list[Ratio]:
    """Gaussian passes of three sizes, with and without a tilt, curved and categorical ones."""
    with quietly(threads=1):
        out = [ratio for size in SIZES for ratio in _gaussian(*size, repeats)]
        return [*out, *_curved(repeats), _categorical(repeats)]


def _gaussian(d: int, K: int, bound: float, repeats: int) -> list[Ratio]:
    rng = np.random.default_rng(0)
    blocks, plain = [], []
    for number in range(N_BLOCKS):
        x = rng.normal(size=(ROWS, d)).astype(np.float32)
        # The last feature of a tied-spherical Gaussian is the square of the row.
        T = np.hstack([x, (x**2).sum(axis=1, keepdims=True)])
        groups = rng.integers(2, size=ROWS)
        blocks.append(Block(Features(T, None), groups, 2, T.dtype, number=number))
        plain.append(x)
    W = rng.normal(size=(K, d + 1)) / np.sqrt(d)
    logits = Logits(rng.normal(size=K), W)
    offsets, pull = rng.normal(size=(2, 2, K))
    weights = W[:, :d].astype(np.float32)

    def floor() -> None:
        for x in plain:
            _floor(x, weights)

    def sweep(offsets: Array | None = None, pull: Array | None = None) -> None:
        whole = Sweep(logits, offsets=offsets, pull=pull, likelihood=offsets is None)
        for block in blocks:
            whole(block)

    work = {"floor": floor, "pass": sweep, "tilted": lambda: sweep(offsets, pull)}
    seconds = medians(work, PASSES * repeats, time.process_time)
    name = f"d={d}, K={K}"
    return [
        Ratio(f"pass {name}", seconds["pass"], "floor", seconds["floor"], bound),
        Ratio(f"tilted pass {name}", seconds["tilted"], "pass", seconds["pass"], OFFSETS_BOUND),
    ]


def _floor(x: Array, weights: Array) -> None:
    psi = weights @ x.T
    np.exp(psi, out=psi)
    psi @ x


def _curved(repeats: int) -> list[Ratio]:
    """Passes of the dual over census-like rows, at the end of a fit of them."""
    data = make_census_like(ROWS)
    X = paper_preprocessing(data.X).astype(np.float32)
    codes = encode_groups(data.sex).codes
    fit = FairMixture(20, assignment="aware", random_state=0, n_jobs=1)
    model = fit.fit(X, sensitive_features=data.sex).fitted_.model
    store = MemoryStore(Rows(X, None), groups=codes, n_groups=2)
    (block,) = Table(store, model.mixture.family.encode).each(lambda block: block)
    contrasts = np.array([[1.0, -1.0]])
    out = []
    for temperature in TEMPERATURES:
        sweep = Sweep(
            model.logits,
            offsets=model.offsets,
            temperature=temperature,
            likelihood=False,
            contrasts=contrasts,
            rough=True,
        )
        weights = sweep.logit_map.weights(block, apart=True).dense
        # The floor's exp is of numbers like those of the pass: at most zero, and not denormal.
        logits = np.log(sweep.ahead(block).psi)
        work: dict[str, Callable[[], object]] = {
            "floor": partial(_curved_floor, block.design, weights, logits),
            "pass": partial(sweep, block),
        }
        seconds = medians(work, N_BLOCKS * PASSES * repeats, time.process_time)
        name = f"pass with curvature, temperature {temperature:g}"
        out.append(Ratio(name, seconds["pass"], "floor", seconds["floor"], CURVED_BOUND))
    return out


def _curved_floor(design: Array, weights: Array, logits: Array) -> None:
    weights @ design[:, : weights.shape[1]].T
    psi = np.exp(logits)
    psi @ design[:, 1:]
    psi @ psi.T


def _categorical(repeats: int) -> Ratio:
    rng = np.random.default_rng(0)
    table = rng.normal(size=(CLUSTERS, COLUMNS * LEVELS))
    starts = LEVELS * np.arange(COLUMNS)
    codes = [rng.integers(LEVELS, size=(ROWS, COLUMNS)) + starts for _ in range(N_BLOCKS // 4)]
    groups = np.zeros(ROWS, dtype=np.intp)
    blocks = [Block(Features(None, c), groups, 1, np.dtype(np.float64)) for c in codes]
    logits = Logits(np.zeros(CLUSTERS), table)

    def gather() -> None:
        for block in codes:
            _gather(block, table)

    def sweep() -> None:
        for block in blocks:
            forward(block, LogitMap(logits))

    work = {"gather": gather, "pass": sweep}
    seconds = medians(work, PASSES * repeats, time.process_time)
    return Ratio("categorical pass", seconds["pass"], "gather", seconds["gather"], CODES_BOUND)


def _gather(codes: Array, table: Array) -> None:
    out = np.zeros((len(table), len(codes)))
    for column in codes.T:
        out += table[:, column]
