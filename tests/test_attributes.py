"""Several attributes at once: ``attributes="each"``."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fairmix import FairMixture, load
from fairmix.criteria import CRITERIA, EachAttribute, MaxGap, MinBalance, MinRatio
from fairmix.criteria.bounds import within
from fairmix.kernels import LogitMap, hard_labels
from fairmix.kernels.totals import Membership, Rows
from fairmix.solvers.boundary import Search, gather
from fairmix.tables import MemoryStore, Table
from repetition import long

N_ROWS = 1200


def people(seed=0, n_rows=N_ROWS):
    """Rows whose columns tell something of both attributes."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 3))
    sex = np.where(X[:, 0] + rng.normal(size=n_rows) > 0.4, "f", "m")
    score = X[:, 1:2] * [1.0, 0.0, -1.0] + rng.gumbel(size=(n_rows, 3))
    region = np.array(["east", "north", "west"])[score.argmax(axis=1)]
    return X, pd.DataFrame({"sex": sex, "region": region})


def ratio(groups, labels):
    """Smallest ratio of rates, by counting."""
    rates = pd.crosstab(groups, labels, normalize="index").to_numpy()
    return (rates.min(axis=0) / rates.max(axis=0)).min()


def gap(groups, labels):
    """Mean over pairs of groups, largest cluster, by counting."""
    rates = pd.crosstab(groups, labels, normalize="index").to_numpy()
    pairs = [(a, b) for a in range(len(rates)) for b in range(a)]
    return np.mean([np.abs(rates[a] - rates[b]) for a, b in pairs], axis=0).max()


@pytest.mark.parametrize("assignment", ["blind", "aware"])
@pytest.mark.parametrize("rule", ["min_ratio", "max_gap"])
def test_every_attribute_keeps_the_rule(assignment, rule):
    X, groups = people()
    bound = 0.8 if rule == "min_ratio" else 0.02
    model = FairMixture(
        4, attributes="each", assignment=assignment, random_state=0, **{rule: bound}
    ).fit(X, sensitive_features=groups)
    found = {
        name: (ratio if rule == "min_ratio" else gap)(groups[name], model.labels_)
        for name in groups
    }
    assert model.verdict_ == "met"
    for name, value in found.items():
        assert value >= bound - 1e-12 if rule == "min_ratio" else value <= bound + 1e-12
        assert model.fitted_.verdicts[name].value == pytest.approx(value, abs=1e-12)
    worst = min(found.values()) if rule == "min_ratio" else max(found.values())
    published = model.ratio_ if rule == "min_ratio" else model.gap_
    assert published == pytest.approx(worst, abs=1e-12)
    assert [names.tolist() for names in model.groups_] == [["f", "m"], ["east", "north", "west"]]
    assert model.attributes_ == ["sex", "region"]
    assert model.rates_.shape == (5, 4)
    np.testing.assert_allclose(model.rates_.sum(axis=1), 1)
    given = {"sensitive_features": groups} if assignment == "aware" else {}
    assert (model.predict(X, **given) == model.labels_).all()


def test_one_column_has_the_bits_of_intersections():
    X, groups = people()
    fits = [
        FairMixture(3, attributes=how, random_state=0).fit(X, sensitive_features=groups["sex"])
        for how in ("each", "intersect")
    ]
    assert (fits[0].labels_ == fits[1].labels_).all()
    assert fits[0].means_.tobytes() == fits[1].means_.tobytes()
    assert fits[0].attributes_ == []


def test_a_bound_for_each_attribute():
    X, groups = people()
    bounds = {"sex": 0.95, "region": 0.6}
    model = FairMixture(
        4, attributes="each", assignment="aware", min_ratio=bounds, random_state=0
    ).fit(X, sensitive_features=groups)
    assert model.verdict_ == "met"
    for name, bound in bounds.items():
        assert ratio(groups[name], model.labels_) >= bound - 1e-12
    # The looser one is used.
    assert ratio(groups["region"], model.labels_) < 0.9
    with pytest.raises(ValueError, match="names the attributes"):
        model.set_params(min_ratio={"sex": 0.8}).fit(X, sensitive_features=groups)
    with pytest.raises(ValueError, match=r"min_ratio\['sex'\]=2"):
        model.set_params(min_ratio={"sex": 2, "region": 0.5}).fit(X, sensitive_features=groups)


def test_small_groups_are_counted_within_their_attribute():
    X, groups = people()
    groups.loc[:9, "region"] = "far"
    with pytest.warns(UserWarning, match="'region: far' \\(10 rows\\)"):
        model = FairMixture(
            3, attributes="each", assignment="aware", min_ratio=0.7, random_state=0
        ).fit(X, sensitive_features=groups)
    assert model.verdict_ == "met for the judged groups"
    assert model.unjudged_groups_ == {"region: far": 10}
    # Rows of the small group count for the other attribute.
    assert model.group_sizes_[0].sum() == N_ROWS
    assert model.group_sizes_[1].sum() == N_ROWS - 10
    assert ratio(groups["sex"], model.labels_) >= 0.7 - 1e-12
    assert (model.predict(X, sensitive_features=groups) == model.labels_).all()


def test_files_and_tables_agree(tmp_path):
    X, groups = people()
    frame = pd.DataFrame(X, columns=list("abc")).join(groups)
    pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), tmp_path / "rows.parquet")
    names = ["sex", "region"]
    how = {"attributes": "each", "assignment": "aware", "min_ratio": 0.8, "random_state": 0}
    here = FairMixture(3, **how).fit(frame, sensitive_features=names)
    there = FairMixture(3, **how).fit(str(tmp_path / "rows.parquet"), sensitive_features=names)
    assert here.means_.tobytes() == there.means_.tobytes()
    assert here.rates_.tobytes() == there.rates_.tobytes()
    labels = there.predict(
        str(tmp_path / "rows.parquet"), sensitive_features=names, output=tmp_path / "labels.parquet"
    )
    assert (pq.read_table(labels)["cluster"].to_numpy() == here.labels_).all()


@pytest.mark.parametrize("assignment", ["blind", "aware"])
def test_a_model_file_keeps_attributes(tmp_path, assignment):
    X, groups = people()
    bounds = {"sex": 0.8, "region": 0.7}
    model = FairMixture(
        3, attributes="each", assignment=assignment, min_ratio=bounds, random_state=0
    ).fit(X, sensitive_features=groups)
    again = load(model.save(tmp_path / "m.fairmix"))
    given = {"sensitive_features": groups} if assignment == "aware" else {}
    assert (again.predict(X, **given) == model.labels_).all()
    assert again.verdict_ == model.verdict_
    assert again.fitted_.verdicts == model.fitted_.verdicts
    assert again.ratio_ == model.ratio_
    assert again.min_ratio == bounds
    assert [names.tolist() for names in again.groups_] == [
        names.tolist() for names in model.groups_
    ]


def test_certificates_share_their_error():
    X, groups = people()
    fresh, fresh_groups = people(seed=1)
    model = FairMixture(3, attributes="each", min_ratio=0.8, random_state=0)
    model.fit(X, sensitive_features=groups)
    found = model.certify(fresh, fresh_groups, confidence=0.9)
    assert found.confidence == 0.9
    assert set(found.attributes) == {"sex", "region"}
    for name, one in found.attributes.items():
        assert one.confidence == pytest.approx(0.95)
        assert one.value == pytest.approx(ratio(fresh_groups[name], model.predict(fresh)))
    assert found.lower_bound == min(one.lower_bound for one in found.attributes.values())
    assert "All of this together with confidence 90%" in str(found)


def test_a_fairness_report_has_a_table_for_each():
    X, groups = people()
    model = FairMixture(3, attributes="each", min_ratio=0.8, random_state=0)
    report = model.fit(X, sensitive_features=groups).fairness_report(X, groups, n_boot=10)
    assert list(report) == ["sex", "region"]
    for name in groups:
        expected = ratio(groups[name], model.labels_)
        assert report[name].summary["rate_ratio"].value == pytest.approx(expected)
    frame = report.to_pandas()
    assert frame.columns[0] == "attribute"
    assert len(frame) == 3 * (2 + 3)
    assert report.to_polars().shape == frame.shape
    assert "sex\n" in str(report)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"fairness_strength": 2.0}, "has one for each attribute"),
        ({"min_balance": 0.95}, "is out of reach"),
    ],
)
def test_what_cannot_be_asked_for(how, message):
    X, groups = people()
    with pytest.raises(ValueError, match=message):
        FairMixture(3, attributes="each", random_state=0, **how).fit(X, sensitive_features=groups)
    with pytest.raises(ValueError, match="attributes='each' needs the rows"):
        FairMixture(3, attributes="each").partial_fit(X, sensitive_features=groups)


def test_the_criterion_of_attributes():
    rng = np.random.default_rng(0)
    membership = Membership((2, 3), ("a", "b"))
    criteria = [CRITERIA["gap"], CRITERIA["worst_pair_gap"]]
    each = EachAttribute.of(membership, criteria, [0.05, 0.02])
    rates = rng.dirichlet(np.ones(4), size=5)
    projected = each.project(rates, 0.05)
    assert criteria[0].value(projected[:2]) <= 0.05 + 1e-12
    assert criteria[1].value(projected[2:]) <= 0.02 + 1e-12
    assert each.value(projected) == pytest.approx(0.05)
    slope = each.project_slope(rates, projected).reshape(20, 20)
    step = 1e-6 * rng.normal(size=rates.shape)
    moved = each.project(rates + step, 0.05) - projected
    np.testing.assert_allclose(moved.ravel(), slope @ step.ravel(), atol=1e-10)


@pytest.mark.parametrize("bound", [0.0, 0.05, 0.3])
@pytest.mark.parametrize(
    "limit", [MinRatio(0.8), MinBalance(0.1), *(MaxGap(0.1, name) for name in CRITERIA)], ids=str
)
def test_edges_are_the_rules_of_an_integer_program(limit, bound):
    """Random counts are within all of them exactly where labels meet the bound."""
    rng = np.random.default_rng(0)
    sizes = np.array([40.0, 90.0, 60.0, 50.0, 20.0])
    membership = Membership((2, 3), ("sex", "race"))
    criteria = [limit.criterion(sizes[part], 1 / sizes[part]) for part in membership.parts]
    each = EachAttribute.of(membership, criteria, [bound, bound])
    edges = each.edges(bound, sizes, 1 / sizes, 4)
    if limit == MaxGap(0.1, "additive_gap"):
        assert edges is None  # no matter of one cluster
        return
    agreed = []
    for _ in range(300):
        even = rng.dirichlet([5.0] * 4)
        noise = rng.choice([0.0, 0.03, 0.3, 1.0]) * rng.dirichlet([1.0] * 4, size=5)
        counts = np.round(1000 * sizes[:, None] * (even + noise)) / 1000
        rates = counts / sizes[:, None]
        met = within(each.value(rates), each.enough(bound, rates, sizes, 1 / sizes))
        agreed.append(met)
        inside = (edges.rows @ rates <= edges.bounds[:, None] + 1e-12).all()
        # The row that a ratio of 1 forgives is one of the two groups that differ most.
        assert met == inside or (each.conic and bound == 0 and met)
    assert 0 < sum(agreed) < len(agreed)


@pytest.mark.parametrize("assignment", [long("blind"), "aware"])
@pytest.mark.parametrize("met", [False, True], ids=["towards the bound", "within it"])
def test_a_search_near_the_boundary_says_what_the_labels_become(assignment, met):
    """Offsets of a row add up over attributes, also those of a line that moves all groups."""
    X, groups = people(n_rows=400)
    model = FairMixture(3, attributes="each", assignment=assignment, max_gap=0.1, random_state=0)
    fitted = model.fit(X, sensitive_features=groups).fitted_
    membership = fitted.groups.membership
    codes = [pd.Categorical(groups[name]).codes for name in groups]
    cells = np.ravel_multi_index(codes, membership.shape)
    store = MemoryStore(Rows(X, None), groups=cells, n_groups=membership.n_cells)
    map_ = fitted.model
    encode, guess = map_.mixture.family.encode, map_.propensity
    table = Table(store, encode, propensity=guess, membership=membership)
    logits = map_.mixture.logits(map_.theta)

    def masses(offsets):
        placed = LogitMap(logits, offsets)
        labels = np.concatenate(list(table.each(lambda block: hard_labels(block, placed))))
        return np.vstack([pd.crosstab(groups[name], labels).to_numpy() for name in groups])

    mass = masses(map_.offsets).astype(float)
    near, limit = gather(table, logits, map_.offsets)
    worth = near.scores - near.rho @ map_.offsets if met else None
    criterion = EachAttribute.same(membership, CRITERIA["gap"])
    bound = 0.1 if met else 0.02
    search = Search(near, limit, mass, table.group_sizes, criterion, bound, worth)
    added = search.run()
    np.testing.assert_array_equal(search.mass, masses(map_.offsets + added))
    value = criterion.value(search.mass / table.group_sizes[:, None])
    before = criterion.value(mass / table.group_sizes[:, None])
    # Rates are quotients, and an integer program uses up all of a bound.
    assert value <= 0.1 + 1e-12 if met else value < before
    assert search.lost <= 0
