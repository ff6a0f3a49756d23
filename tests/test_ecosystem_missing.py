"""Missing values and unknown categories as users meet them."""

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.special import logsumexp

from fairmix import FairMixture, load, metrics, pareto_front
from fairmix.datasets import make_grouped_blobs
from fairmix.mixture.families import FAMILIES, takes_missing

INDEPENDENT = tuple(filter(takes_missing, FAMILIES))
CENTERS = np.array([[0.0, 0.0, 0.0], [4.0, 1.0, -2.0], [-3.0, 4.0, 2.0]])
WEIGHTS = np.array([0.5, 0.3, 0.2])
COLOURS = np.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]])
PLAIN = {"fairness_strength": 0, "random_state": 0}


def draw(n_rows, seed, share=0.25):
    """A complete table of known parameters, the same with gaps at random, and groups."""
    rng = np.random.default_rng(seed)
    part = rng.choice(3, size=n_rows, p=WEIGHTS)
    deviations = np.array([1.0, 0.5, 1.5])
    numbers = CENTERS[part] + deviations * rng.normal(size=(n_rows, 3))
    below = rng.random((n_rows, 1)) >= COLOURS[part].cumsum(axis=1)
    complete = pd.DataFrame(numbers, columns=list("abc"))
    complete["colour"] = np.array(["blue", "green", "red"])[below[:, :-1].sum(axis=1)]
    with_gaps = complete.mask(rng.random(complete.shape) < share)
    groups = np.where(rng.random(n_rows) < 0.35 + 0.15 * part, "x", "y")
    return complete, with_gaps, groups


@pytest.fixture(scope="module")
def table():
    return draw(3000, 0)


@pytest.mark.parametrize("covariance_type", INDEPENDENT)
def test_parameters_are_recovered(covariance_type):
    _, with_gaps, _ = draw(20_000, 1)
    model = FairMixture(3, covariance_type=covariance_type, tol=1e-7, **PLAIN).fit(with_gaps)
    np.testing.assert_allclose(model.weights_, WEIGHTS, atol=0.015)
    np.testing.assert_allclose(model.means_, CENTERS, atol=0.12)
    np.testing.assert_allclose(model.probabilities_[0], COLOURS, atol=0.03)
    if covariance_type == "tied-diag":
        np.testing.assert_allclose(np.sqrt(model.covariances_), [1.0, 0.5, 1.5], atol=0.03)
    if covariance_type == "tied-spherical":
        assert model.covariances_ == pytest.approx((1.0 + 0.25 + 2.25) / 3, abs=0.04)
    assert np.diff(model.history_["objective"]).min() > -1e-9


def test_score_is_the_density_of_what_is_seen(table):
    complete, with_gaps, _ = table
    model = FairMixture(3, covariance_type="diag", **PLAIN).fit(complete)
    found = model.score_samples(with_gaps[:200])
    for row, value in zip(with_gaps[:200].itertuples(index=False), found, strict=True):
        log_density = np.log(model.weights_)
        for j, x in enumerate(row[:3]):
            if not np.isnan(x):
                variance = model.covariances_[:, j]
                z = (x - model.means_[:, j]) ** 2 / variance
                log_density = log_density - 0.5 * (z + np.log(2 * np.pi * variance))
        if isinstance(row[3], str):
            k = model.categories_[0].tolist().index(row[3])
            log_density = log_density + np.log(model.probabilities_[0][:, k])
        assert value == pytest.approx(logsumexp(log_density), abs=1e-9)
    nothing = with_gaps[:1].assign(a=np.nan, b=np.nan, c=np.nan, colour=None)
    assert model.score_samples(nothing)[0] == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_allclose(model.predict_proba(nothing)[0], model.weights_, atol=1e-12)


@pytest.mark.parametrize("assignment", ["blind", "aware"])
def test_the_bound_holds_and_is_measured(table, assignment):
    _, with_gaps, groups = table
    model = FairMixture(3, max_gap=0.02, assignment=assignment, random_state=0)
    model.fit(with_gaps, sensitive_features=groups)
    assert model.gap_ <= 0.02
    assert model.gap_ == pytest.approx(metrics.gap(model.labels_, groups), abs=1e-12)
    assert len(np.unique(model.labels_)) == 3
    known = {"sensitive_features": groups} if assignment == "aware" else {}
    assert np.array_equal(model.predict(with_gaps, **known), model.labels_)
    assert np.array_equal(model.predict_proba(with_gaps, **known).argmax(axis=1), model.labels_)
    report = model.fairness_report(with_gaps, groups, n_boot=20)
    assert report.summary["gap"].value == pytest.approx(model.gap_, abs=1e-12)
    with pytest.warns(UserWarning, match="rows that the model was fitted to"):
        assert model.gap_ < model.certify(with_gaps, groups).upper_bound < 1


def test_the_papers_solvers_take_gaps(table):
    _, with_gaps, groups = table
    fits = [
        FairMixture(
            3, solver="em", fairness_strength=s, gap_of="probabilities", standardize=True,
            init_params="kmeans", random_state=0,
        ).fit(with_gaps, sensitive_features=groups)
        for s in (0, 20)
    ]  # fmt: skip
    assert fits[1].gap_ < 0.8 * fits[0].gap_
    assert np.diff(fits[1].history_["objective"]).min() >= 0


def test_all_kinds_of_tables_and_files_give_the_same_fit(table, tmp_path):
    _, with_gaps, groups = table
    whole = with_gaps.assign(group=groups)
    arrow = pa.Table.from_pandas(whole, preserve_index=False)
    pq.write_table(arrow, tmp_path / "rows.parquet")
    whole.to_csv(tmp_path / "rows.csv", index=False)
    kinds = {
        "pandas": whole,
        "polars": pl.from_pandas(whole),
        "arrow": arrow,
        "parquet": tmp_path / "rows.parquet",
        "csv": tmp_path / "rows.csv",
    }
    fits = {
        name: FairMixture(3, max_gap=0.05, standardize=True, random_state=0).fit(
            X, sensitive_features="group"
        )
        for name, X in kinds.items()
    }
    for name, model in fits.items():
        assert np.array_equal(model.fitted_.model.theta, fits["pandas"].fitted_.model.theta), name
        assert np.array_equal(model.predict(with_gaps), fits["pandas"].labels_), name
    fits["csv"].predict(kinds["csv"], output=tmp_path / "labels.parquet")
    written = pq.read_table(tmp_path / "labels.parquet")["cluster"].to_numpy()
    assert np.array_equal(written, fits["pandas"].labels_)


def test_standardisation_uses_the_values_that_are_there(table):
    _, with_gaps, _ = table
    numbers = with_gaps[["a", "b", "c"]]
    inside = FairMixture(3, standardize=True, **PLAIN).fit(numbers)
    by_hand = (numbers - numbers.mean()) / numbers.std(ddof=0)
    outside = FairMixture(3, **PLAIN).fit(by_hand)
    np.testing.assert_allclose(inside.means_, outside.means_, atol=1e-9)
    assert inside.score(numbers) == pytest.approx(outside.score(by_hand))


def test_arrays_take_nan(table):
    _, with_gaps, _ = table
    numbers = with_gaps[["a", "b", "c"]]
    from_array = FairMixture(3, **PLAIN).fit(numbers.to_numpy())
    from_frame = FairMixture(3, **PLAIN).fit(numbers)
    assert np.array_equal(from_array.labels_, from_frame.labels_)
    mixed = with_gaps.to_numpy(dtype=object)
    from_objects = FairMixture(3, categorical_features=[3], **PLAIN).fit(mixed)
    assert np.array_equal(from_objects.labels_, FairMixture(3, **PLAIN).fit(with_gaps).labels_)
    single = FairMixture(3, **PLAIN).fit(numbers.to_numpy(np.float32))
    assert single.predict_proba(numbers.to_numpy(np.float32)).dtype == np.float32
    assert np.mean(single.labels_ == from_array.labels_) > 0.99


def test_weights_count_as_repeated_rows(table):
    _, with_gaps, _ = table
    numbers = with_gaps[["a", "b", "c"]][:900]
    times = 1 + np.arange(900) % 3
    model = FairMixture(3, covariance_type="diag", tol=1e-9, **PLAIN)
    weighted = model.fit(numbers, sample_weight=times).means_
    repeated = FairMixture(3, covariance_type="diag", tol=1e-9, **PLAIN)
    repeated.fit(numbers.loc[numbers.index.repeat(times)])
    np.testing.assert_allclose(weighted, repeated.means_, atol=1e-3)
    assert model.score(numbers, sample_weight=times) == pytest.approx(
        model.score(numbers.loc[numbers.index.repeat(times)])
    )


@pytest.mark.parametrize("settings", [{"subsample": 800}, {"batch_size": 0.25}])
def test_fewer_rows_at_a_time(table, settings):
    _, with_gaps, groups = table
    model = FairMixture(3, max_gap=0.05, random_state=0, **settings)
    model.fit(with_gaps, sensitive_features=groups)
    assert model.gap_ <= 0.05
    assert np.isfinite(model.score(with_gaps))
    assert len(np.unique(model.labels_)) == 3


def test_a_stream_may_begin_without_gaps(table):
    complete, with_gaps, groups = table
    model = FairMixture(3, max_gap=0.05, random_state=0)
    for first in range(0, 3000, 1000):
        source = with_gaps if first else complete
        batch = source[first : first + 1000]
        model.partial_fit(batch, sensitive_features=groups[first : first + 1000])
    assert model.gap_ <= 0.05
    plain = FairMixture(3, max_gap=0.05, random_state=0).fit(complete, sensitive_features=groups)
    assert model.score(complete) > plain.score(complete) - 0.2


def test_a_row_alone_gets_the_label_that_it_gets_among_others(table):
    complete, with_gaps, groups = table
    model = FairMixture(3, max_gap=0.05, random_state=0).fit(complete, sensitive_features=groups)
    together = model.predict_proba(with_gaps)
    alone = np.concatenate([model.predict_proba(with_gaps[i : i + 1]) for i in range(40)])
    np.testing.assert_allclose(alone, together[:40], atol=1e-9)


def test_models_with_gaps_survive_a_file(table, tmp_path):
    _, with_gaps, groups = table
    model = FairMixture(3, max_gap=0.05, handle_unknown="ignore", random_state=0)
    model.fit(with_gaps, sensitive_features=groups)
    assert model.fitted_.model.propensity.gaps == (0, 1, 2, 3)
    for again in (load(model.save(tmp_path / "m.fairmix")), pickle.loads(pickle.dumps(model))):
        assert np.array_equal(again.predict_proba(with_gaps), model.predict_proba(with_gaps))
        assert again.handle_unknown == "ignore"
    full = FairMixture(3, covariance_type="full", **PLAIN).fit(with_gaps.dropna())
    with pytest.raises(ValueError, match=r"'a' of X has \d+ values that are missing"):
        load(full.save(tmp_path / "full.fairmix")).predict(with_gaps)


def test_samples_are_complete(table):
    _, with_gaps, _ = table
    drawn, _ = FairMixture(3, **PLAIN).fit(with_gaps).sample(50)
    assert not pd.isna(drawn).any()


def test_a_front_of_rows_with_gaps_has_the_cost_of_what_is_known(table):
    _, with_gaps, groups = table
    front = pareto_front(
        FairMixture(3, random_state=0),
        with_gaps,
        sensitive_features=groups,
        max_gaps=(0.02, 0.2),
    )
    for row, model in zip(front.rows, front.models, strict=True):
        cost = 0.0
        for _, own in with_gaps.groupby(model.labels_):
            numbers = own[["a", "b", "c"]]
            cost += ((numbers - numbers.mean()) ** 2).sum().sum()
            counts = own["colour"].value_counts()
            cost += counts.sum() - (counts**2).sum() / counts.sum()
        assert row.cost == pytest.approx(cost)
        assert np.isfinite(row.nll)


@pytest.mark.parametrize("covariance_type", ["tied", "full"])
def test_a_full_matrix_needs_complete_numbers(table, tmp_path, covariance_type):
    complete, with_gaps, _ = table
    message = (
        r"Column 'a' of X has \d+ values that are missing .*this covariance_type needs complete"
    )
    with pytest.raises(ValueError, match=message):
        FairMixture(3, covariance_type=covariance_type).fit(with_gaps)
    with_gaps.to_csv(tmp_path / "rows.csv", index=False)
    with pytest.raises(ValueError, match=message):
        FairMixture(3, covariance_type=covariance_type).fit(tmp_path / "rows.csv")
    model = FairMixture(3, covariance_type=covariance_type, **PLAIN).fit(complete)
    with pytest.raises(ValueError, match=message):
        model.predict(with_gaps)
    # A missing category has a sum of its own, which any covariance allows.
    some = complete.assign(colour=with_gaps["colour"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.mean(model.predict(some) == model.labels_) > 0.9


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"a": np.nan}, r"Column 'a' of X has no value, all are missing \(NaN\). Drop it"),
        ({"colour": None}, r"Column 'colour' of X has no value, all are missing"),
        ({"a": np.inf}, r"Column 'a' of X has 3000 values that are infinity"),
    ],
)
def test_what_is_no_data(table, tmp_path, changed, message):
    complete, _, _ = table
    wrong = complete.assign(**changed).astype({"colour": object})
    with pytest.raises(ValueError, match=message):
        FairMixture(3).fit(wrong)
    pl.from_pandas(wrong.astype({"colour": "string"})).write_parquet(tmp_path / "rows.parquet")
    with pytest.raises(ValueError, match=message):
        FairMixture(3).fit(tmp_path / "rows.parquet")


def test_a_missing_group_stays_an_error(table):
    _, with_gaps, groups = table
    with pytest.raises(ValueError, match=r"sensitive_features has 1 missing labels in 3000 rows"):
        FairMixture(3).fit(with_gaps, sensitive_features=[None, *groups[1:]])


def test_unknown_categories(table, tmp_path):
    complete, _, groups = table
    model = FairMixture(3, max_gap=0.05, random_state=0).fit(complete, sensitive_features=groups)
    unknown = complete.assign(colour=["pink"] * 10 + complete["colour"].tolist()[10:])
    absent = complete.assign(colour=[None] * 10 + complete["colour"].tolist()[10:])
    with pytest.raises(ValueError, match=r"not seen: 'pink'.* or set handle_unknown='ignore'"):
        model.predict(unknown)
    model.set_params(handle_unknown="ignore")
    assert np.array_equal(model.predict_proba(unknown), model.predict_proba(absent))
    assert model.score(unknown) == model.score(absent)
    assert not np.array_equal(model.predict_proba(unknown), model.predict_proba(complete))
    unknown.to_csv(tmp_path / "rows.csv", index=False)
    model.predict(tmp_path / "rows.csv", output=tmp_path / "labels.parquet")
    written = pq.read_table(tmp_path / "labels.parquet")["cluster"].to_numpy()
    assert np.array_equal(written, model.predict(unknown))
    with pytest.raises(ValueError, match="'handle_unknown' parameter"):
        FairMixture(3, handle_unknown="use_encoded_value").fit(complete)


def test_unknown_categories_of_a_stream(table):
    complete, _, groups = table
    model = FairMixture(3, max_gap=0.05, handle_unknown="ignore", random_state=0)
    model.partial_fit(complete[:1500], sensitive_features=groups[:1500])
    later = complete[1500:].assign(colour="pink")
    model.partial_fit(later, sensitive_features=groups[1500:])
    assert model.categories_[0].tolist() == ["blue", "green", "red"]
    assert model.n_iter_ == 2


@pytest.mark.parametrize("covariance_type", [*INDEPENDENT, "full"])
@pytest.mark.parametrize("assignment", ["blind", "aware"])
def test_graphs_integrate_out_too(table, covariance_type, assignment):
    pytest.importorskip("onnx", reason="the extra onnx is not installed")
    runtime = pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")
    from fairmix import to_onnx

    complete, with_gaps, groups = (part[:800] for part in table)
    if covariance_type == "full":
        with_gaps = complete.assign(colour=with_gaps["colour"])
    model = FairMixture(
        3, max_gap=0.1, covariance_type=covariance_type, assignment=assignment, random_state=0,
        standardize=True,
    ).fit(with_gaps, sensitive_features=groups)  # fmt: skip
    session = runtime.InferenceSession(to_onnx(model).SerializeToString())
    inputs = {name: with_gaps[[name]].to_numpy(np.float64) for name in "abc"}
    inputs["colour"] = with_gaps[["colour"]].fillna("").to_numpy(object, copy=True)
    known = {}
    if assignment == "aware":
        inputs["sensitive_features"] = groups[:, None].astype(object)
        known = {"sensitive_features": groups}
    label, probabilities = session.run(["label", "probabilities"], inputs)
    expected = model.predict_proba(with_gaps, **known)
    np.testing.assert_allclose(probabilities, expected, rtol=0, atol=1e-6)
    # A row that lies on a boundary to the last digits may fall to the other side.
    assert np.mean(label == model.labels_) > 0.995
    inputs["colour"][:5] = "pink"
    assert session.run(["label"], inputs)[0][:5].tolist() == [-1] * 5
    model.set_params(handle_unknown="ignore")
    session = runtime.InferenceSession(to_onnx(model).SerializeToString())
    found = session.run(["probabilities"], inputs)[0]
    unknown = with_gaps.assign(colour=[None] * 5 + with_gaps["colour"].tolist()[5:])
    np.testing.assert_allclose(found, model.predict_proba(unknown, **known), rtol=0, atol=1e-6)


def test_what_is_seen_says_more_than_a_guess():
    X, _, _ = make_grouped_blobs(2000, 3, 4, separation=5, random_state=0)
    rng = np.random.default_rng(0)
    with_gaps = np.where(rng.random(X.shape) < 0.3, np.nan, X)
    model = FairMixture(3, **PLAIN).fit(X)
    imputed = np.where(np.isnan(with_gaps), np.nanmean(with_gaps, axis=0), with_gaps)
    integrated = np.mean(model.predict(with_gaps) == model.labels_)
    assert integrated > np.mean(model.predict(imputed) == model.labels_) + 0.02
