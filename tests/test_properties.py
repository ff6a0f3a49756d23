"""Properties that hold for any input: kernels, criteria, projections and metrics.

About 60 examples in all with those of ``test_properties_fits.py``; ``scripts/test --long`` runs
2,000 and more.
"""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from cases import assert_close, block_totals, each_criterion
from fairmix import metrics
from fairmix.kernels import LogitMap, forward, hard_labels
from fairmix.kernels.totals import Block, Features, Logits
from repetition import times


def examples(quick, long):
    """As many examples as the run is for."""
    return settings(max_examples=times(quick, long))


@st.composite
def passes(draw, largest=50.0):
    """A block of rows with groups and weights, logits, offsets and a temperature."""
    n, d, K, M = (draw(st.integers(1, high)) for high in (12, 3, 4, 3))
    number = st.floats(-largest, largest, allow_subnormal=False)
    dense = draw(arrays(float, (n, d), elements=number))
    groups = draw(arrays(np.intp, n, elements=st.integers(0, M - 1)))
    weight = draw(st.none() | arrays(float, n, elements=st.floats(0.01, 9.0)))
    block = Block(Features(dense, None), groups, M, np.dtype(float), weight=weight)
    logits = Logits(
        draw(arrays(float, K, elements=number)), draw(arrays(float, (K, d), elements=number))
    )
    offsets = draw(st.none() | arrays(float, (M, K), elements=number))
    return block, logits, offsets, draw(st.sampled_from([1.0, 0.3, 0.05]))


@examples(12, 600)
@given(passes())
def test_responsibilities_are_a_distribution_and_masses_their_sums(case):
    block, logits, offsets, temperature = case
    found = forward(block, LogitMap(logits, offsets, temperature), hard=True)
    psi = found.psi
    weight = np.ones(block.n_rows) if block.weight is None else block.weight
    assert np.isfinite(psi).all()
    assert (psi >= 0).all()
    np.testing.assert_allclose(psi.sum(axis=0), 1)
    assert np.isfinite([found.log_likelihood, found.normaliser]).all()
    for mass in (found.mass, found.hard_mass):
        np.testing.assert_allclose(
            mass.sum(axis=1), np.bincount(block.groups, weight, block.n_groups), atol=1e-9
        )
    expected = np.zeros_like(found.mass.T)
    for i, group in enumerate(block.groups):
        expected[:, group] += weight[i] * psi[:, i]
    np.testing.assert_allclose(found.mass.T, expected, atol=1e-9)
    # The label is a cluster of the largest probability.
    labels = hard_labels(block, LogitMap(logits, offsets))
    np.testing.assert_allclose(psi[labels, np.arange(block.n_rows)], psi.max(axis=0))


@examples(8, 250)
@given(passes(largest=5.0), st.randoms(use_true_random=False))
def test_names_of_clusters_and_the_order_of_rows_do_not_matter(case, random):
    block, logits, offsets, temperature = case
    rows = random.sample(range(block.n_rows), block.n_rows)
    clusters = random.sample(range(len(logits.b)), len(logits.b))
    weight = None if block.weight is None else block.weight[rows]
    dense = block.features.dense[rows]
    shuffled = Block(
        Features(dense, None), block.groups[rows], block.n_groups, block.dtype, weight=weight
    )
    how = {"temperature": temperature}
    expected = block_totals(block, logits, offsets=offsets, **how)
    found = block_totals(
        shuffled,
        Logits(logits.b[clusters], logits.W[clusters]),
        offsets=None if offsets is None else offsets[:, clusters],
        **how,
    )
    back = np.argsort(clusters)
    found = type(found)(
        weight=found.weight,
        log_likelihood=found.log_likelihood,
        normaliser=found.normaliser,
        mass=found.mass[:, back],
        model_mass=found.model_mass[:, back],
        sums=Logits(found.sums.b[back], found.sums.W[back]),
        hard_mass=found.hard_mass,
        curvature=found.curvature,
    )
    assert_close(found, expected, rtol=1e-9, atol=1e-7)


@st.composite
def rates_of(draw):
    """Rates of some groups in some clusters; each row sums to one."""
    M, K = draw(st.integers(2, 4)), draw(st.integers(1, 4))
    shares = draw(arrays(float, (M, K), elements=st.floats(0.001, 1.0)))
    return shares / shares.sum(axis=1, keepdims=True)


@each_criterion
@examples(5, 150)
@given(rates_of(), st.floats(0.0, 1.0), st.data())
def test_a_projection_is_allowed_nearest_and_never_expands(fairness, rates, bound, data):
    criterion = fairness.criterion
    near = criterion.project(rates, bound)
    assert criterion.value(near) <= bound + 1e-9
    if criterion.value(rates) <= bound:
        np.testing.assert_allclose(near, rates, atol=1e-9)
    # What all groups have in common is not the criterion's business.
    np.testing.assert_allclose(near.mean(axis=0), rates.mean(axis=0), atol=1e-8)
    other = data.draw(arrays(float, rates.shape, elements=st.floats(0.0, 1.0)))
    apart = np.linalg.norm(near - criterion.project(other, bound))
    assert apart <= np.linalg.norm(rates - other) + 1e-8


@each_criterion
@examples(4, 150)
@given(rates_of(), st.floats(0.0, 1.0), st.data())
def test_a_criterion_is_a_norm_of_differences(fairness, rates, share, data):
    criterion = fairness.criterion
    other = data.draw(arrays(float, rates.shape, elements=st.floats(0.0, 1.0)))
    value = criterion.value(rates)
    assert 0 <= value <= 2
    assert np.isclose(criterion.value(share * rates), share * value)
    mixed = share * rates + (1 - share) * other
    assert criterion.value(mixed) <= share * value + (1 - share) * criterion.value(other) + 1e-12
    # By the dual norm: <multipliers, rates> is at most support times value.
    multipliers = other - other.mean(axis=0)
    bound = criterion.support(multipliers) * value
    assert np.vdot(multipliers, rates) <= bound + 1e-9


@examples(15, 300)
@given(st.data(), st.integers(1, 30))
def test_metrics_of_any_labels(data, n):
    labels = data.draw(arrays(np.int64, n, elements=st.integers(-2, 3)))
    groups = data.draw(arrays(np.int64, n, elements=st.integers(0, 3)))
    repeats = data.draw(arrays(np.int64, n, elements=st.integers(1, 3)))
    weight = repeats.astype(float)
    many = np.repeat(labels, repeats), np.repeat(groups, repeats)
    for name in ("gap", "additive_gap", "worst_pair_gap", "balance", "rate_ratio"):
        metric = getattr(metrics, name)
        value = metric(labels, groups, sample_weight=weight)
        assert np.isclose(value, metric(*many))
        assert np.isclose(value, metric([f"c{k}" for k in labels], -groups, sample_weight=weight))
        assert 0 <= value <= (2 if name == "additive_gap" else 1)
    gaps = [getattr(metrics, name)(labels, groups) for name in ("gap", "worst_pair_gap")]
    assert gaps[0] <= gaps[1] + 1e-12
    assert gaps[0] <= metrics.additive_gap(labels, groups) + 1e-12
