"""The smallest ratio and where it is."""

import numpy as np
import pytest

from fairmix.metrics import rate_ratio
from fairmix.results.ratio import least_ratio


@pytest.mark.parametrize("n_groups", [2, 3, 8])
def test_it_is_the_rate_ratio_and_names_its_place(n_groups):
    rng = np.random.default_rng(n_groups)
    labels = rng.integers(5, size=4000)
    groups = rng.integers(n_groups, size=4000)
    counts = np.array([np.bincount(labels[groups == g], minlength=5) for g in range(n_groups)])
    rates = counts / counts.sum(axis=1, keepdims=True)
    names = [f"g{g}" for g in range(n_groups)]
    found = least_ratio(rates, names)
    assert found.value == pytest.approx(rate_ratio(labels, groups))
    k = int(found.cluster)
    assert found.rate == rates[names.index(found.group), k] == rates[:, k].min()
    assert found.other_rate == rates[names.index(found.other), k] == rates[:, k].max()
    assert found.value == found.rate / found.other_rate
    # No other cluster has a smaller one.
    assert found.value == (rates.min(axis=0) / rates.max(axis=0)).min()


def test_empty_clusters_and_equal_rates():
    rates = np.array([[0.5, 0.0, 0.5], [0.4, 0.0, 0.6]])
    found = least_ratio(rates, ["f", "m"], ["a", "b", "c"])
    assert (found.cluster, found.group, found.other, found.value) == ("a", "m", "f", 0.8)
    assert found.passes
    even = least_ratio([[0.5, 0.5], [0.5, 0.5]], ["f", "m"])
    assert (even.value, {even.group, even.other}) == (1.0, {"f", "m"})
    alone = least_ratio([[1.0, 0.0], [0.5, 0.5]], ["f", "m"])
    assert (alone.value, alone.group, alone.cluster) == (0.0, "f", "1")


def test_nothing_to_compare():
    assert least_ratio(None, []) is None
    assert least_ratio([[0.5, 0.5]], ["f"]) is None
    assert least_ratio(np.zeros((2, 0)), ["f", "m"]) is None
