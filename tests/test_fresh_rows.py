"""Certificates: a verdict on fresh rows, what sampling explains, and a warning on training rows."""

import copy
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest

from fairmix import FairMixture, load, metrics
from fairmix.criteria import CRITERIA, smallest_ratio
from fairmix.datasets import make_grouped_blobs
from fairmix.kernels.totals import Rows
from fairmix.metrics import gap, group_counts
from fairmix.results.certificate import sampling_gap
from fairmix.results.freshness import TrainingRows, row_hashes
from fairmix.results.verdict import label_resolution
from fairmix.tables import MemoryStore

TRAINING = "rows that the model was fitted to"


def world(n_rows=800, seed=0, rare=0):
    X, groups, _ = make_grouped_blobs(
        n_rows, 3, 2, separation=1.5, imbalance=0.3, random_state=seed
    )
    names = np.array(["a", "b"], dtype="U4")[groups]
    names[:rare] = "rare"
    return X, names


def fitted(X, groups, **settings):
    model = FairMixture(3, **{"max_gap": 0.02, "random_state": 0, **settings})
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Not judged")
        return model.fit(X, sensitive_features=groups)


def quiet(model, X, groups):
    """Certify, and fail on a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return model.certify(X, groups)


@pytest.fixture(scope="module")
def split():
    X, groups = world()
    held = np.random.default_rng(0).random(len(X)) < 0.4
    return X[~held], groups[~held], X[held], groups[held]


@pytest.mark.parametrize("gap_of", ["labels", "probabilities"])
@pytest.mark.parametrize("criterion", sorted(CRITERIA))
def test_fresh_rows_are_judged(split, gap_of, criterion):
    X, groups, new, new_groups = split
    settings = {"gap_of": gap_of, "criterion": criterion, "assignment": "aware"}
    model = fitted(X, groups, max_gap=0.05, **settings)
    found = quiet(model, new, new_groups)
    how = {"sensitive_features": new_groups}
    rows = model.predict(new, **how) if gap_of == "labels" else model.predict_proba(new, **how)
    counts = group_counts(rows, new_groups)
    sizes = counts.sum(axis=1)
    assert found.verdict.value == pytest.approx(CRITERIA[criterion].value(counts / sizes[:, None]))
    assert found.gap == pytest.approx(found.verdict.value)
    assert found.verdict.bound == 0.05
    expected = label_resolution(criterion, sizes, 3) if gap_of == "labels" else 1e-6
    assert found.verdict.resolution == pytest.approx(expected)
    word = "met" if found.verdict.value <= 0.05 else "missed"
    assert found.verdict.word == word
    assert found.by_chance == (word == "missed" and found.gap <= found.chance)
    loose = model.set_params(max_gap=1.9)
    assert quiet(loose, new, new_groups).verdict.word == "met"
    assert not quiet(loose, new, new_groups).by_chance


RULES = {"min_ratio": ("rate_ratio", 0.8), "min_balance": ("balance", 0.3)}


@pytest.mark.parametrize("gap_of", ["labels", "probabilities"])
@pytest.mark.parametrize("parameter", RULES)
def test_fresh_rows_are_judged_by_the_ratio_of_the_fit(split, gap_of, parameter):
    X, groups, new, new_groups = split
    name, bound = RULES[parameter]
    settings = {parameter: bound, "gap_of": gap_of, "assignment": "aware"}
    model = fitted(X, groups, max_gap="auto", **settings)
    assert model.verdict_ == "met"
    found = quiet(model, new, new_groups)
    how = {"sensitive_features": new_groups}
    rows = model.predict(new, **how) if gap_of == "labels" else model.predict_proba(new, **how)
    value = getattr(metrics, name)(rows, new_groups)
    assert (found.criterion, found.of) == (name, gap_of)
    assert (found.value, found.verdict.value) == (pytest.approx(value), pytest.approx(value))
    assert (found.verdict.parameter, found.verdict.bound) == (parameter, bound)
    assert found.verdict.word == ("met" if value >= bound else "missed")
    assert 0 <= found.lower_bound < value < found.upper_bound
    assert found.chance < (model.ratio_ if name == "rate_ratio" else model.balance_)
    assert found.by_chance == (found.verdict.word == "missed" and value >= found.chance)
    assert "at least" in str(found)
    # Asked for more than these rows have, the same map misses it; it is the rule that changes.
    best = 1.0 if name == "rate_ratio" else min(1.0, 1.01 * value)
    stricter = quiet(model.set_params(**{parameter: best}), new, new_groups)
    assert (stricter.verdict.word, stricter.lower_bound) == ("missed", found.lower_bound)
    # By the rule of a gap, the same rows have a certificate of the gap.
    gap_rule = quiet(model.set_params(max_gap=0.5, **{parameter: None}), new, new_groups)
    assert (gap_rule.criterion, gap_rule.verdict.parameter) == ("gap", "max_gap")


def test_rare_groups_and_missing_ones_take_no_part():
    X, groups = world(rare=8)
    new, new_groups = world(seed=0, n_rows=1600)[0][800:], world(n_rows=1600)[1][800:]
    model = fitted(X, groups)
    plain = quiet(model, new, new_groups)
    with_rare = np.concatenate([new_groups, ["rare"] * 3])
    found = quiet(model, np.concatenate([new, new[:3]]), with_rare)
    assert found.verdict.unjudged == {"rare": 3}
    assert (found.gap, found.upper_bound, found.chance) == (
        plain.gap,
        plain.upper_bound,
        plain.chance,
    )
    assert found.group_sizes == plain.group_sizes
    assert list(found.group_sizes) == ["a", "b"]
    dropping = fitted(X, groups, missing_groups="drop")
    gone = np.array([*new_groups, None, None], dtype=object)
    dropped = quiet(dropping, np.concatenate([new, new[:2]]), gone)
    assert (dropped.gap, dropped.n_rows) == (plain.gap, len(new))
    with pytest.raises(ValueError, match="has not seen: 'c'"):
        model.certify(new, np.where(np.arange(len(new)) == 0, "c", new_groups))
    with pytest.raises(ValueError, match="no row of the groups that the model judges"):
        model.certify(new[:2], ["rare", "rare"])


def test_few_fresh_rows_are_not_judged(split):
    X, groups, new, new_groups = split
    model = fitted(X, groups)
    few = np.concatenate(
        [np.flatnonzero(new_groups == "a")[:29], np.flatnonzero(new_groups == "b")]
    )
    found = quiet(model, new[few], new_groups[few])
    assert (found.verdict.word, found.verdict.unjudged) == ("not judged", {"a": 29})
    assert np.isnan(found.chance)
    assert found.gap > 0, "the certificate itself is of all groups that the fit judged"
    assert quiet(model.set_params(min_group_size=29), new[few], new_groups[few]).verdict.word in (
        "met",
        "missed",
    )


def test_where_the_fit_judged_nothing_there_is_no_verdict(split):
    X, groups, new, new_groups = split
    found = quiet(fitted(X, groups, min_group_size=len(X)), new, new_groups)
    assert found.verdict.word == "not judged"
    assert list(found.group_sizes) == ["a", "b"]
    assert found.upper_bound > found.gap > 0
    plain = FairMixture(3, random_state=0).fit(X)
    assert quiet(plain, new, new_groups).verdict.word == "no bound"
    unbounded = fitted(X, groups, fairness_strength=0)
    assert quiet(unbounded, new, new_groups).verdict.word == "no bound"


@pytest.mark.parametrize("criterion", ["rate_ratio", "balance"])
def test_what_sampling_explains_of_a_ratio_is_that_of_two_samples(criterion):
    """As for gaps below, with a map that shows a ratio of 0.8 on the rows of the fit."""
    rng = np.random.default_rng(1)
    fit_sizes, sizes = np.array([400, 900]), np.array([300, 500])
    known = np.array([[0.4, 0.36, 0.24], [0.5, 0.3, 0.2]])
    shares = (known * fit_sizes[:, None]).sum(axis=0) / fit_sizes.sum()
    covariance = np.diag(shares) - np.outer(shares, shares)
    limit = sampling_gap(known, fit_sizes, sizes, covariance, criterion=criterion)
    below = []
    for _ in range(300):
        drawn = [rng.multinomial(n, r) / n for n, r in zip(fit_sizes, known, strict=True)]
        population = np.clip(2 * known - drawn, 0, 1)
        population /= population.sum(axis=1, keepdims=True)
        counts = np.array([rng.multinomial(n, r) for n, r in zip(sizes, population, strict=True)])
        value = smallest_ratio(counts if criterion == "balance" else counts / sizes[:, None])
        below.append(value < limit.quantile95)
    assert 0.01 < np.mean(below) < 0.11
    assert limit.quantile95 < limit.mean < smallest_ratio(known) or criterion == "balance"


@pytest.mark.parametrize("criterion", sorted(CRITERIA))
def test_what_sampling_explains_is_that_of_two_samples(criterion):
    """Tune rates to one sample, look at another: as often above the limit as it says."""
    rng = np.random.default_rng(1)
    shares, fit_sizes, sizes = np.array([0.5, 0.3, 0.2]), [300, 900], [200, 400]
    covariance = np.diag(shares) - np.outer(shares, shares)
    above = []
    for draw in range(300):
        noise = rng.multinomial(fit_sizes, shares) / np.array(fit_sizes)[:, None] - shares
        population = shares - noise  # a map that shows even rates on the rows of the fit
        fresh = rng.multinomial(sizes, np.clip(population, 0, 1)) / np.array(sizes)[:, None]
        if draw == 0:
            even = np.stack([shares, shares])
            limit = sampling_gap(even, fit_sizes, sizes, covariance, criterion=criterion)
        above.append(CRITERIA[criterion].value(fresh) > limit.quantile95)
    assert 0.01 < np.mean(above) < 0.11
    both = sampling_gap(even, sizes, sizes, covariance, criterion=criterion)
    one = sampling_gap(even, [10**9] * 2, sizes, covariance, criterion=criterion)
    assert both.mean == pytest.approx(np.sqrt(2) * one.mean, rel=1e-3)


def test_another_population_is_beyond_chance(split):
    X, groups, new, new_groups = split
    model = fitted(X, groups)
    shifted = new + np.where(new_groups == "a", 4.0, -4.0)[:, None]
    found = quiet(model, shifted, new_groups)
    assert found.verdict.word == "missed"
    assert not found.by_chance
    assert found.verdict.value > found.chance > 0.02


def test_training_rows_get_a_warning(split):
    X, groups, new, new_groups = split
    model = fitted(X, groups)
    order = np.random.default_rng(1).permutation(len(X))
    for rows in (np.arange(len(X)), order, order[:60], np.sort(order[:200])):
        with pytest.warns(UserWarning, match=TRAINING):
            model.certify(X[rows], groups[rows])
    with pytest.warns(UserWarning, match=TRAINING):
        model.certify(np.concatenate([X, new[:100]]), np.concatenate([groups, new_groups[:100]]))
    quiet(model, new, new_groups)
    quiet(model, np.concatenate([X[:60], new]), np.concatenate([groups[:60], new_groups]))


def test_training_rows_are_recognised_in_any_kind_of_table(split):
    X, groups, new, new_groups = split
    frame, later = (
        pd.DataFrame(part, columns=["x", "y"]).assign(town=np.where(part[:, 0] > 0, "A", "B"))
        for part in (X, new)
    )
    frame.loc[::7, "x"] = np.nan
    model = fitted(frame, groups, standardize=True, assignment="aware")
    with pytest.warns(UserWarning, match=TRAINING):
        model.certify(frame, groups)
    quiet(model, later, new_groups)
    named = fitted(frame.assign(group=groups), "group")
    with pytest.warns(UserWarning, match=TRAINING):
        named.certify(frame.assign(group=groups), "group")
    single = fitted(X.astype(np.float32), groups, standardize=True)
    with pytest.warns(UserWarning, match=TRAINING):
        single.certify(X.astype(np.float32).astype(np.float64), groups)


def test_rows_that_the_fit_gave_no_weight_are_fresh(split):
    X, groups, new, new_groups = split
    weight = np.repeat([1.0, 0.0], [len(X), len(new)])
    model = FairMixture(3, max_gap=0.02, random_state=0)
    both = np.concatenate([X, new]), np.concatenate([groups, new_groups])
    model.fit(both[0], sensitive_features=both[1], sample_weight=weight)
    quiet(model, new, new_groups)
    with pytest.warns(UserWarning, match=TRAINING):
        model.certify(X, groups)


def discrete(n_rows, levels, rng):
    return np.stack([rng.choice(len(p), n_rows, p=p) for p in levels], axis=1)


def remembered(codes):
    return TrainingRows.of(MemoryStore(Rows(None, codes)))


@pytest.mark.parametrize(
    ("sizes", "skew", "single"), [((2, 2), 5.0, 0.0), ((6,) * 5, 0.5, 0.1), ((10,) * 6, 0.3, 0.5)]
)
def test_fresh_rows_that_equal_training_rows_stay_silent(sizes, skew, single):
    rng = np.random.default_rng(2)
    levels = [rng.dirichlet(np.full(size, skew)) for size in sizes]
    for _ in range(20):
        rows = discrete(2000, levels, rng)
        seen = remembered(rows)
        assert seen.single == pytest.approx(single, abs=0.15)
        for n_rows in (1, 30, 500, 2000):
            assert not seen.hold(row_hashes(Rows(None, discrete(n_rows, levels, rng))))
        assert seen.hold(row_hashes(Rows(None, rows))) == (len(sizes) > 2), (
            "of 4 kinds, any table is like it"
        )
        assert seen.hold(row_hashes(Rows(None, rows[rng.permutation(2000)]))) == (len(sizes) > 2)
        assert seen.hold(row_hashes(Rows(None, rows[:500]))) == (single > 0)


def test_more_rows_than_are_kept(monkeypatch):
    monkeypatch.setattr("fairmix.results.freshness.KEPT", 100)
    monkeypatch.setattr("fairmix.tables.hashes.PART_ROWS", 300)
    rng = np.random.default_rng(3)
    X = rng.normal(size=(2000, 2))
    seen = TrainingRows.of(MemoryStore(Rows(X, None)))
    assert seen.kept.tolist() == sorted(row_hashes(Rows(X, None)))[:100]
    assert seen.single == 1.0
    assert seen.hold(row_hashes(Rows(X[:1000], None)))
    assert not seen.hold(row_hashes(Rows(rng.normal(size=(2000, 2)), None)))


@pytest.mark.parametrize(("n_kinds", "evidence"), [(3, False), (90, True), (110, True)])
def test_fewer_kinds_of_rows_than_are_kept(monkeypatch, n_kinds, evidence):
    monkeypatch.setattr("fairmix.results.freshness.KEPT", 100)
    rng = np.random.default_rng(4)
    codes = rng.integers(n_kinds, size=(2000, 1))
    seen = remembered(codes)
    assert seen.kept.tolist() == sorted(set(row_hashes(Rows(None, codes)).tolist()))[:100]
    assert seen.hold(row_hashes(Rows(None, codes[::-1]))) == evidence


def test_equal_rows_have_equal_hashes_and_others_do_not():
    values = np.array([[0.0, 1.0], [-0.0, 1.0], [1.0, 0.0], [np.nan, 1.0], [-np.nan, 1.0]])
    hashes = row_hashes(Rows(values, None))
    assert hashes[0] == hashes[1] != hashes[2]
    assert hashes[3] == hashes[4] != hashes[0]
    codes = np.array([[0, 1], [1, 0], [-1, 1]])
    assert len(set(row_hashes(Rows(None, codes)).tolist())) == 3


def test_neither_files_nor_pickles_hold_hashes(split, tmp_path):
    X, groups, _, _ = split
    model = fitted(X, groups)
    assert model.fitted_.training_rows is not None
    for other in (
        pickle.loads(pickle.dumps(model)),
        copy.deepcopy(model),
        load(model.save(tmp_path / "model.fairmix")),
    ):
        assert other.fitted_.training_rows is None
        assert quiet(other, X, groups).gap == pytest.approx(gap(model.labels_, groups))


def test_a_fit_of_files_remembers_nothing(split, tmp_path):
    X, groups, _, _ = split
    frame = pd.DataFrame(X, columns=["x", "y"])
    frame.assign(group=groups).to_parquet(tmp_path / "rows.parquet")
    model = fitted(X, groups)
    assert model.fitted_.training_rows is not None
    model.fit(tmp_path / "rows.parquet", sensitive_features="group")
    assert model.fitted_.training_rows is None
    quiet(model, frame, groups)
