"""The certificate: coverage in simulated worlds, exact intervals, exact maxima, edges."""

import itertools

import numpy as np
import pytest
from scipy.stats import binomtest

from fairmix import metrics
from fairmix.criteria import CRITERIA
from fairmix.results import certificate as room
from fairmix.results.certificate import certify, chance_gap
from repetition import times

# Coverage is far above what is asked for, so that a few worlds would show a lack of it, too.
WORLDS = times(100, 1000)
NAMES = sorted(CRITERIA)


def sample_of(rows, sizes):
    """What `certify` keeps of rows of probabilities, or of counts (M, K)."""
    if isinstance(rows, np.ndarray):
        return room._Sample(np.asarray(sizes, float), rows / np.asarray(sizes)[:, None], None)
    means = np.stack([group.mean(axis=0) for group in rows])
    variances = np.stack([group.var(axis=0, ddof=1) for group in rows])
    return room._Sample(np.asarray(sizes, float), means, variances)


def covered(draw, truth, confidence):
    """Share of worlds in which the bound of each criterion is at least the true value."""
    hits = dict.fromkeys(NAMES, 0)
    for _ in range(WORLDS):
        sample = draw()
        for name in NAMES:
            bound, _ = room._upper_bound(sample, CRITERIA[name], 1 - confidence)
            hits[name] += bound >= CRITERIA[name].value(truth)
    return {name: count / WORLDS for name, count in hits.items()}


@pytest.mark.repeats
@pytest.mark.parametrize("confidence", [0.5, 0.95])
@pytest.mark.parametrize("sizes", [(60, 150), (40, 80, 200)], ids=["M=2", "M=3"])
@pytest.mark.parametrize("n_clusters", [2, 5])
def test_coverage_of_labels(n_clusters, sizes, confidence):
    rng = np.random.default_rng(0)
    rates = rng.dirichlet(np.full(n_clusters, 2.0), size=len(sizes))
    shares = covered(lambda: sample_of(rng.multinomial(sizes, rates), sizes), rates, confidence)
    assert min(shares.values()) >= confidence, shares


@pytest.mark.repeats
@pytest.mark.parametrize("concentration", [0.3, 30.0], ids=["nearly hard", "soft"])
@pytest.mark.parametrize("sizes", [(60, 150), (40, 80, 200)], ids=["M=2", "M=3"])
def test_coverage_of_probabilities(sizes, concentration):
    rng = np.random.default_rng(1)
    rates = rng.dirichlet(np.full(4, 2.0), size=len(sizes))

    def draw():
        pairs = zip(rates, sizes, strict=True)
        return sample_of([rng.dirichlet(concentration * r, size=n) for r, n in pairs], sizes)

    shares = covered(draw, rates, 0.95)
    assert min(shares.values()) >= 0.95, shares


@pytest.mark.repeats
@pytest.mark.parametrize("kind", ["labels", "probabilities"])
def test_coverage_of_the_public_function(kind):
    """The same as above from rows, for one case: nothing is lost on the way in."""
    rng = np.random.default_rng(2)
    rates = np.array([[0.5, 0.3, 0.2], [0.4, 0.4, 0.2]])
    groups = np.repeat(["a", "b"], [100, 200])
    sizes = [(rates[0], 100), (rates[1], 200)]
    hits = 0
    for _ in range(WORLDS):
        rows = np.concatenate([rng.dirichlet(r, size=n) for r, n in sizes])
        if kind == "labels":
            rows = (rows.cumsum(axis=1) > rng.random((300, 1))).argmax(axis=1)
        hits += certify(rows, groups, confidence=0.9).upper_bound >= 0.1
    assert hits / WORLDS >= 0.9


RATIOS = ["rate_ratio", "balance"]
# Few rows, and clusters that some groups hardly have: counts of zero in most worlds.
FEW = {
    "few": ((9, 21), [[0.5, 0.3, 0.2], [0.4, 0.2, 0.4]]),
    "zeros": ((25, 60), [[0.02, 0.5, 0.48], [0.1, 0.5, 0.4]]),
    "never": ((40, 60), [[0.0, 0.6, 0.4], [0.1, 0.5, 0.4]]),
    "even": ((60, 150), [[0.3, 0.7], [0.3, 0.7]]),
    "one cluster": ((30, 40), [[1.0], [1.0]]),
    "many rows": ((900, 2500), [[0.9, 0.1], [0.88, 0.12]]),
    "three groups": ((40, 80, 200), [[0.5, 0.3, 0.2], [0.4, 0.4, 0.2], [0.45, 0.4, 0.15]]),
}


def worlds(criterion, sizes, rates, soft, rng):
    """Bounds of many worlds; for Balance the groups of the rows are drawn, too."""
    names, shares = np.arange(len(sizes)), np.array(sizes) / np.sum(sizes)
    for _ in range(WORLDS):
        groups = np.repeat(names, sizes)
        if criterion == "balance":
            groups = rng.choice(names, size=len(groups), p=shares)
        if soft:
            rows = rng.dirichlet(np.full(rates.shape[1], 2.0), size=len(groups))
            # Of the mean that is asked for, in every group.
            rows = 0.5 * rates[groups] + 0.5 * rows
        else:
            chosen = rates.cumsum(axis=1)[groups] > rng.random((len(groups), 1))
            rows = chosen.argmax(axis=1)
        yield certify(
            rows,
            groups,
            criterion=criterion,
            n_clusters=rates.shape[1],
            groups=[str(name) for name in names],
        )


@pytest.mark.repeats
@pytest.mark.parametrize("criterion", RATIOS)
@pytest.mark.parametrize("case", FEW)
def test_coverage_of_ratios(case, criterion):
    sizes, rates = FEW[case][0], np.array(FEW[case][1])
    masses = rates * (np.array(sizes)[:, None] if criterion == "balance" else 1.0)
    truth = (masses.min(axis=0) / masses.max(axis=0)).min()
    found = list(worlds(criterion, sizes, rates, False, np.random.default_rng(6)))
    assert np.mean([world.lower_bound <= truth + 1e-12 for world in found]) >= 0.95
    assert all(world.lower_bound <= world.value for world in found)
    assert {world.upper_bound for world in found} == {1.0}
    if case == "many rows":
        # Not bought by a vacuous bound.
        assert np.mean([world.lower_bound for world in found]) > 0.6 * truth


@pytest.mark.repeats
@pytest.mark.parametrize("criterion", RATIOS)
@pytest.mark.parametrize("sizes", [(60, 150), (40, 80, 200)], ids=["M=2", "M=3"])
def test_coverage_of_ratios_of_probabilities(sizes, criterion):
    rates = np.array([[0.5, 0.3, 0.2], [0.4, 0.4, 0.2], [0.45, 0.4, 0.15]])[: len(sizes)]
    population = 0.5 * rates + 0.5 / 3
    masses = population * (np.array(sizes)[:, None] if criterion == "balance" else 1.0)
    truth = (masses.min(axis=0) / masses.max(axis=0)).min()
    found = list(worlds(criterion, sizes, rates, True, np.random.default_rng(7)))
    assert np.mean([world.lower_bound <= truth for world in found]) >= 0.95
    assert {world.of for world in found} == {"probabilities"}


def test_the_bound_of_a_ratio_is_a_bottom_over_a_top():
    """One case by hand: Clopper and Pearson's intervals at the shared error."""
    labels = np.repeat([0, 1, 2, 0, 1, 2], [60, 90, 50, 100, 120, 80])
    groups = np.repeat(["a", "b"], [200, 300])

    def ends(count, size, error):
        found = binomtest(count, size).proportion_ci(1 - error, method="exact")
        return found.low, found.high

    counts, sizes = [[60, 90, 50], [100, 120, 80]], [200, 300]
    rates = [[ends(c, n, 0.05 / 6) for c in row] for row, n in zip(counts, sizes, strict=True)]
    joint = [[ends(c, 500, 0.05 / 6) for c in row] for row in counts]
    for criterion, box in (("rate_ratio", rates), ("balance", joint)):
        pairs = [(x[k], y[k]) for x, y in (box, box[::-1]) for k in range(3)]
        expected = min(x[0] / y[1] for x, y in pairs)
        found = certify(labels, groups, criterion=criterion)
        assert found.lower_bound == pytest.approx(expected, rel=1e-9)
        assert found.value == pytest.approx(getattr(metrics, criterion)(labels, groups))
        assert found.bound == found.lower_bound
        assert f"is at least {found.bound:.4f} (observed {found.value:.4f}" in str(found)
        with pytest.raises(AttributeError, match="read value"):
            _ = found.gap


@pytest.mark.parametrize("soft", [False, True])
def test_a_ratio_without_evidence_is_not_bounded(soft):
    labels = np.arange(1000) % 3
    groups = np.where(labels == 2, "a", np.where(np.arange(1000) % 2, "a", "b"))
    rows = np.eye(3)[labels] if soft else labels
    for criterion in RATIOS:
        assert certify(rows, groups, criterion=criterion).lower_bound == 0
        none = certify(rows, groups, criterion=criterion, groups=["a", "b", "c"])
        assert (none.lower_bound, none.group_sizes["c"]) == (0, 0)
    assert certify(labels, ["a"] * 1000, criterion="balance").lower_bound == 1
    # One cluster has equal rates; its Balance is that of the shares, which a sample estimates.
    assert certify([0] * 1000, groups, criterion="rate_ratio").lower_bound == 1
    alone = certify([0] * 1000, groups, criterion="balance")
    assert 0.3 < alone.lower_bound < alone.value < 0.51


def test_coverage_is_not_bought_by_a_vacuous_bound():
    """Two groups, two clusters: one interval per group, so little is lost to the union bound."""
    rng = np.random.default_rng(3)
    rates = np.array([[0.5, 0.5], [0.5, 0.5]])
    sizes = (500, 100_000)  # nearly one sample: the bound is then one interval's
    bounds = [
        room._upper_bound(sample_of(rng.multinomial(sizes, rates), sizes), CRITERIA["gap"], 0.05)[0]
        for _ in range(200)
    ]
    by_chance = chance_gap([0.5, 0.5], sizes).quantile95
    assert np.mean(bounds) < 2 * by_chance


@pytest.mark.parametrize("size", [1, 7, 400])
def test_intervals_are_those_of_clopper_and_pearson(size):
    counts = np.unique(np.linspace(0, size, 8).astype(int))
    for count in counts:
        sample = sample_of(np.array([[count, size - count]]), [size])
        low, high = room._binomial(sample, 0.01)
        expected = binomtest(int(count), size).proportion_ci(0.99, method="exact")
        assert (low[0, 0], high[0, 0]) == pytest.approx((expected.low, expected.high), abs=1e-9)


@pytest.mark.parametrize("size", [2, 10, 50, 3000])
@pytest.mark.parametrize("error", [0.1, 1e-4])
def test_binomial_intervals_lie_inside_the_others(size, error):
    counts = np.unique(np.linspace(0, size, 60).astype(int))
    means = np.stack([counts, size - counts], axis=1) / size
    sizes = np.full(len(counts), float(size))
    variances = means * (1 - means) * size / (size - 1)
    sample = room._Sample(sizes, means, variances)
    low, high = room._binomial(sample, error)
    for wider in (room._hoeffding, room._bernstein):
        outer_low, outer_high = wider(sample, error)
        assert (outer_low <= low + 1e-9).all()
        assert (outer_high >= high - 1e-9).all()
    reach = np.sqrt(np.log(2 / error) / (2 * size))
    relative_low, relative_high = room._hoeffding(sample, error)
    assert (relative_high <= means + reach + 1e-9).all()
    assert (relative_low >= means - reach - 1e-9).all()


def test_the_error_is_shared_by_all_rates():
    """Coverage is so high that it would not notice a forgotten union bound; this does."""
    labels = np.repeat(np.arange(5), [300, 300, 200, 100, 100])
    groups = np.arange(1000) % 2
    intervals = [
        binomtest(count, 500).proportion_ci(1 - 0.05 / (2 * 5)) for count in (150, 150, 100, 50, 50)
    ]
    expected = max(interval.high - interval.low for interval in intervals)
    assert certify(labels, groups).upper_bound == pytest.approx(expected)


@pytest.mark.parametrize("criterion", NAMES)
@pytest.mark.parametrize("n_groups", [2, 3, 5])
def test_the_maximum_over_the_box_is_exact(criterion, n_groups):
    """A convex function is largest at a corner: try them all."""
    rng = np.random.default_rng(n_groups)
    for _ in range(20):
        ends = np.sort(rng.random((2, n_groups, 1)) * 0.5, axis=0)
        corners = itertools.product(*ends[..., 0].T)
        expected = max(CRITERIA[criterion].value(np.array([c]).T) for c in corners)
        assert CRITERIA[criterion].largest(ends[0], ends[1]) == pytest.approx(expected)


@pytest.mark.parametrize("criterion", NAMES)
@pytest.mark.parametrize("kind", ["labels", "probabilities"])
def test_bound_is_above_the_observed_value(criterion, kind):
    rng = np.random.default_rng(4)
    for n in (30, 300, 3000):
        rows = rng.dirichlet(np.ones(4), size=n)
        rows = rows.argmax(axis=1) if kind == "labels" else rows
        groups = np.arange(n) % 3
        found = certify(rows, groups, criterion=criterion)
        assert found.gap == pytest.approx(getattr(metrics, criterion)(rows, groups))
        assert found.upper_bound > found.gap


@pytest.mark.parametrize("criterion", NAMES)
@pytest.mark.parametrize("variance", [None, 0.2, 0.01], ids=["labels", "spread", "narrow"])
def test_bound_shrinks_like_one_over_root_n(criterion, variance):
    means = np.array([[0.5, 0.3, 0.2], [0.4, 0.4, 0.2]])
    variances = None if variance is None else np.full_like(means, variance)
    sizes = np.array([1e5, 1e6, 1e7])
    bounds = [
        room._upper_bound(
            room._Sample(np.array([n, 2 * n]), means, variances), CRITERIA[criterion], 0.05
        )[0]
        for n in sizes
    ]
    excess = np.array(bounds) - CRITERIA[criterion].value(means)
    assert np.polyfit(np.log(sizes), np.log(excess), 1)[0] == pytest.approx(-0.5, abs=0.05)


def test_subsets_sharpen_the_additive_gap():
    labels, groups = np.arange(4000) % 10, np.arange(4000) // 10 % 2
    found = certify(labels, groups, criterion="additive_gap")
    assert found.method == "subsets"
    sample = sample_of(np.full((2, 10), 200), [2000, 2000])
    box = room._binomial(sample, 0.05 / 20)
    assert found.upper_bound < 0.7 * CRITERIA["additive_gap"].largest(*box)


def test_states_the_guarantee_in_one_sentence():
    found = certify([0, 1, 1] * 400, ["Female", "Male"] * 600, n_clusters=3, confidence=0.9)
    assert found.group_sizes == {"Female": 600, "Male": 600}
    assert str(found) == (
        f"With confidence 90%, the population gap of this map's labels is at most "
        f"{found.upper_bound:.4f} (observed 0.0000 on 1,200 rows: Female 600, Male 600; "
        "3 clusters; binomial)."
    )


def test_an_empty_cluster_counts():
    labels, groups = [0, 1] * 200, [0, 0, 1, 1] * 100
    assert certify(labels, groups, n_clusters=9).upper_bound > certify(labels, groups).upper_bound


@pytest.mark.parametrize("criterion", NAMES)
@pytest.mark.parametrize("soft", [False, True])
def test_small_groups_say_little(criterion, soft):
    labels = np.arange(1001) % 3
    rows = np.eye(3)[labels] if soft else labels
    groups = ["a"] * 500 + ["b"] * 500 + ["c"]
    one = certify(rows, groups, criterion=criterion)
    none = certify(rows, groups, criterion=criterion, groups=["a", "b", "c", "d"])
    assert none.group_sizes == {"a": 500, "b": 500, "c": 1, "d": 0}
    assert 0.4 < one.upper_bound <= 2
    assert one.gap == none.gap
    if criterion == "worst_pair_gap":
        assert none.upper_bound == 1


@pytest.mark.parametrize("rows", [[0, 0, 0], [[1.0], [1.0], [1.0]]])
def test_one_cluster_or_one_group_has_no_gap(rows):
    assert certify(rows, ["a", "a", "b"]).upper_bound == 0
    assert certify([0, 1, 0], ["a", "a", "a"]).upper_bound == 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"criterion": "delta"}, r"criterion='delta' is unknown.*gap.*rate_ratio, balance"),
        ({"confidence": 95}, r"confidence=95 .*0\.95"),
        ({"n_clusters": 1}, "n_clusters=1 but assignment has 2"),
        ({"groups": ["a"]}, "'b'"),
    ],
)
def test_errors_name_argument_value_and_remedy(settings, message):
    with pytest.raises(ValueError, match=message):
        certify([0, 1], ["a", "b"], **settings)


def test_columns_of_probabilities_fix_the_clusters():
    with pytest.raises(ValueError, match="n_clusters=3 but assignment has 2"):
        certify([[0.5, 0.5]] * 2, ["a", "b"], n_clusters=3)


@pytest.mark.parametrize("criterion", [*NAMES, *RATIOS])
def test_chance_gap_is_that_of_simulated_labels(criterion):
    rng = np.random.default_rng(5)
    groups = np.repeat([0, 1, 2], [300, 200, 100])
    metric = getattr(metrics, criterion)
    values = [metric(rng.choice(3, size=600, p=[0.5, 0.3, 0.2]), groups) for _ in range(400)]
    found = chance_gap([5, 3, 2], [300, 200, 100], criterion=criterion)
    assert found.mean == pytest.approx(np.mean(values), rel=0.1)
    # The unlucky side: a large gap, or a small ratio.
    tail = np.quantile(values, 0.05 if criterion in RATIOS else 0.95)
    assert found.quantile95 == pytest.approx(tail, rel=0.15)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0.5, -0.5], [3, 3]), "rates"),
        (([0.5, 0.5], [3, 0]), "group_sizes"),
        (([0.5, 0.5], [3.5, 1]), "group_sizes"),
    ],
)
def test_chance_gap_errors(arguments, message):
    with pytest.raises(ValueError, match=message):
        chance_gap(*arguments)
