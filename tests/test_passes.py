"""Passes over the data are counted, those over parts and samples by their share."""

import numpy as np
import pytest

from fairmix import FairMixture
from fairmix.datasets import make_grouped_blobs
from fairmix.kernels import Sweep
from fairmix.kernels.totals import Rows
from fairmix.mixture.families import Gaussian
from fairmix.mixture.mixture import Mixture
from fairmix.tables import Batches, MemoryStore, Table

N_ROWS = 1000
X, GROUPS, _ = make_grouped_blobs(N_ROWS, 3, 2, separation=1.5, random_state=0)
CODES = np.unique(GROUPS, return_inverse=True)[1]


def fitted(**settings):
    model = FairMixture(3, max_gap=0.05, random_state=0, **settings)
    return model.fit(X, sensitive_features=GROUPS)


@pytest.fixture
def mixture():
    return Mixture(Gaussian(3, X.mean(axis=0), "tied-spherical", 1e-6))


@pytest.fixture
def table(mixture):
    store = MemoryStore(Rows(X, None), groups=CODES, n_groups=2, block_rows=100)
    return Table(store, mixture.family.encode)


@pytest.fixture
def logits(mixture):
    theta = mixture.pack({"weights": np.full(3, 1 / 3), "means": X[:3], "covariances": 1.0})
    return mixture.logits(theta)


def test_every_sweep_counts(table, logits):
    assert table.passes == 0
    table.softmax_pass(Sweep(logits))
    table.softmax_pass(Sweep(logits, alpha=0.0))
    assert table.passes == 2
    list(table.each(lambda block: block.number))
    assert table.passes == 3


def test_parts_and_samples_count_by_their_share(table, logits):
    table.softmax_pass(Sweep(logits), [0, 3, 4])
    assert table.passes == pytest.approx(0.3)
    sample = table.sample(200, np.random.default_rng(0))
    sample.softmax_pass(Sweep(logits))
    assert table.passes == sample.passes == pytest.approx(0.5)
    batches = Batches(table, 2, np.random.default_rng(0))
    batches.softmax_pass(Sweep(logits))
    assert batches.passes == pytest.approx(1.5), "the first E-step visits all"
    batches.softmax_pass(Sweep(logits))
    assert batches.passes == batches.parts[0].passes == pytest.approx(2.0)


def test_a_plain_mixture_takes_one_pass_per_iteration_and_one_for_labels():
    model = fitted(fairness_strength=0)
    passes = model.history_["passes"]
    assert passes.tolist() == list(range(1, model.n_iter_ + 1))
    assert model.n_passes_ == model.n_iter_ + 1


@pytest.mark.parametrize(
    "settings",
    [
        {"assignment": "aware"},
        {"assignment": "blind"},
        {"solver": "em", "fairness_strength": 1.0},
        {"solver": "em", "max_iter": 20},
        {"solver": "gd", "fairness_strength": 1.0, "max_iter": 20},
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_history_counts_passes(settings):
    model = fitted(**settings)
    passes = model.history_["passes"]
    assert passes[0] >= 1
    assert np.diff(passes).min(initial=1) >= 1, "an iteration is at least one pass"
    assert model.n_passes_ > passes[-1]


def test_the_count_does_not_depend_on_threads():
    one, two = (fitted(n_jobs=n_jobs) for n_jobs in (1, 2))
    assert np.array_equal(one.history_["passes"], two.history_["passes"])
    assert one.n_passes_ == two.n_passes_


def test_a_stream_has_no_passes():
    model = fitted(assignment="aware")
    assert model.n_passes_ > 0
    model.partial_fit(X, sensitive_features=GROUPS)
    assert not hasattr(model, "n_passes_")
    assert np.isnan(model.history_["passes"]).all()
