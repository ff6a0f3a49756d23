"""Model files: what is saved comes back with the same bits, and rows and labels never go out."""

import copy
import io
import json
import pickle
import warnings
import zipfile
from dataclasses import fields, is_dataclass, replace
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone

import fairmix
from fairmix import FairMixture, load
from fairmix.export.model_file.snapshot import SCHEMA
from fairmix.mixture.families import COVARIANCE_TYPES

MODELS = Path(__file__).parent / "models"
N_ROWS = 240
GROUPS = np.array(["Ünïted", "b & c", "plain"])
LEVELS = np.array(["[0, 10)", "naïve", 'quo"te', "\N{GRINNING FACE}"])


def people(n_rows: int = N_ROWS, seed: int = 0) -> pd.DataFrame:
    """Two numbers, two categories and a group that they depend on."""
    rng = np.random.default_rng(seed)
    group = rng.integers(3, size=n_rows)
    part = rng.integers(2, size=n_rows)
    return pd.DataFrame(
        {
            "age": rng.normal(40 + 5 * part, 4) + group,
            "paid hours": rng.normal(size=n_rows) * 3 + 8 * part,
            "job": LEVELS[(group + rng.integers(3, size=n_rows)) % 4],
            "own": pd.Series(rng.random(n_rows) < 0.3 + 0.2 * part),
            "group": GROUPS[group],
        }
    )


NUMBERS, CATEGORIES = ["age", "paid hours"], ["job", "own"]


def fitted(columns: list[str], *, fair: bool = True, **settings: object) -> FairMixture:
    model = FairMixture(2, **{"max_gap": 0.1, "max_iter": 20, "random_state": 0} | settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # small data: bounds missed, few iterations
        table = people()
        return model.fit(table[columns], sensitive_features=table["group"] if fair else None)


def assert_same(actual: object, expected: object, name: str) -> None:
    """Equal in type and to the last bit."""
    assert type(actual) is type(expected), name
    if isinstance(expected, np.ndarray):
        assert actual.dtype == expected.dtype, name
        assert actual.shape == expected.shape, name
        assert actual.tobytes() == expected.tobytes() or actual.tolist() == expected.tolist(), name
    elif is_dataclass(expected):
        for field in fields(expected):
            place = f"{name}.{field.name}"
            assert_same(getattr(actual, field.name), getattr(expected, field.name), place)
    elif isinstance(expected, list | tuple):
        assert len(actual) == len(expected), name
        for i, pair in enumerate(zip(actual, expected, strict=True)):
            assert_same(*pair, f"{name}[{i}]")
    else:
        assert actual == expected or (actual != actual and expected != expected), name


def assert_same_model(actual: FairMixture, expected: FairMixture) -> None:
    """Every attribute that a file holds."""
    left = {"labels_", "_stream", "metadata_", "checkpoint", "n_jobs", "verbose"}
    assert set(vars(actual)) - left == set(vars(expected)) - left
    for name in sorted(set(vars(expected)) - left - {"fitted_"}):
        assert_same(getattr(actual, name), getattr(expected, name), name)
    # Neither is in a file: it holds no row, and nothing that tells one.
    found, kept = (
        replace(model.fitted_, labels=None, training_rows=None) for model in (actual, expected)
    )
    assert_same(found, kept, "fitted_")


def round_trip(model: FairMixture, folder: Path) -> FairMixture:
    return load(model.save(folder / "model.fairmix"))


def document_of(model: FairMixture, folder: Path) -> dict[str, object]:
    with zipfile.ZipFile(model.save(folder / "model.fairmix")) as archive:
        return json.loads(archive.read("model.json"))


AUTO = {"max_gap": "auto"}
CASES = {
    **{f"gaussian-{c}": (NUMBERS, {"covariance_type": c}) for c in COVARIANCE_TYPES},
    "categorical": (CATEGORIES, {}),
    "mixed-full": (NUMBERS + CATEGORIES, {"covariance_type": "full", "standardize": True}),
    "mixed-reordered": (["job", "age"], {"standardize": True}),
    "aware": (NUMBERS + CATEGORIES, {"assignment": "aware"}),
    "split": (CATEGORIES, {"ties": "split"}),
    "probabilities": (NUMBERS, {"gap_of": "probabilities", "criterion": "additive_gap"}),
    "ratio": (NUMBERS, {**AUTO, "min_ratio": 0.8, "margin": "chance"}),
    "ratio, aware": (NUMBERS, {**AUTO, "min_ratio": 0.9, "assignment": "aware"}),
    "ratio of 1": (NUMBERS, {**AUTO, "min_ratio": 1, "assignment": "aware"}),
    "Balance": (NUMBERS, {**AUTO, "min_balance": 0.5, "gap_of": "probabilities"}),
    "auto": (NUMBERS, AUTO),
    "em": (NUMBERS, {"solver": "em", "fairness_strength": 2.0}),
    "gd": (NUMBERS, {"solver": "gd", "fairness_strength": 2}),
    "no groups": (NUMBERS, {"fair": False}),
    "names": (NUMBERS + CATEGORIES, {"categorical_features": np.array(CATEGORIES)}),
}


@pytest.mark.parametrize("case", list(CASES))
def test_round_trip_keeps_every_bit(case, tmp_path):
    columns, settings = CASES[case]
    model = fitted(columns, **settings)
    again = round_trip(model, tmp_path)
    if case == "names":  # arrays of names come back as lists
        model.set_params(categorical_features=CATEGORIES)
    assert_same_model(again, model)

    new = people(seed=1)
    X, aware = new[columns], {"sensitive_features": new["group"]}
    assert_same(again.predict(X, **aware), model.predict(X, **aware), "predict")
    probabilities = model.predict_proba(X, **aware)
    assert_same(again.predict_proba(X, **aware), probabilities, "predict_proba")
    assert_same(again.score_samples(X), model.score_samples(X), "score_samples")
    assert (again.score(X), again.bic(X), again.icl(X)) == (
        model.score(X),
        model.bic(X),
        model.icl(X),
    )
    assert_same(again.sample(5)[0], model.sample(5)[0], "sample")
    report = model.fairness_report(X, new["group"], n_boot=5).to_dict()
    assert again.fairness_report(X, new["group"], n_boot=5).to_dict() == report


@pytest.mark.parametrize("kind", ["array", "float32", "polars", "arrow", "parquet"])
def test_round_trip_of_every_kind_of_table(kind, tmp_path):
    table = people()[[*NUMBERS, "group"]]
    X, groups = table[NUMBERS], table["group"].tolist()
    path = tmp_path / "people.parquet"
    table.to_parquet(path)
    X = {
        "array": X.to_numpy(),
        "float32": X.to_numpy(np.float32),
        "polars": pl.from_pandas(table),
        "arrow": pa.Table.from_pandas(X, preserve_index=False),
        "parquet": path,
    }[kind]
    named = kind in ("polars", "parquet")
    model = FairMixture(2, max_gap=0.1, random_state=0)
    model.fit(X, sensitive_features="group" if named else groups)
    again = round_trip(model, tmp_path)
    assert_same_model(again, model)
    if kind == "parquet":
        found = again.predict(X, output=tmp_path / "labels.parquet")
        expected = model.predict(X, output=tmp_path / "expected.parquet")
        assert found.read_bytes() == expected.read_bytes()
    else:
        assert_same(again.predict_proba(X), model.predict_proba(X), "predict_proba")


def test_a_saved_model_can_be_saved_again_to_the_same_bytes(tmp_path):
    model = fitted(NUMBERS + CATEGORIES)
    first = model.save(tmp_path / "first.fairmix", metadata={"k": 1})
    again = load(first)
    second = again.save(tmp_path / "second.fairmix", metadata=again.metadata_)
    assert first.read_bytes() == second.read_bytes()


def test_zip_tools_can_read_the_file(tmp_path):
    path = fitted(NUMBERS).save(tmp_path / "model.fairmix")
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        document = json.loads(archive.read("model.json"))
        theta = np.load(io.BytesIO(archive.read("theta.npy")), allow_pickle=False)
        stored = {info.compress_type for info in archive.infolist()}
    assert document["format"] == "fairmix model"
    assert (document["schema"], document["fairmix"]) == (3, fairmix.__version__)
    assert theta.shape == (2 + 2 * 2 + 1,)
    assert stored == {zipfile.ZIP_STORED}


def test_no_rows_no_labels_no_groups_of_rows_and_no_paths(tmp_path):
    sizes = {}
    for n_rows in (240, 2400):
        table = people(n_rows)
        model = FairMixture(
            2, fairness_strength=0, max_iter=1, random_state=0, checkpoint=tmp_path / "state"
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(table[NUMBERS], sensitive_features=table["group"])
        path = model.save(tmp_path / "model.fairmix")
        with zipfile.ZipFile(path) as archive:
            sizes[n_rows] = {
                info.filename: info.file_size
                for info in archive.infolist()
                if info.filename != "model.json"
            }
        assert str(tmp_path).encode() not in path.read_bytes()
    assert sizes[240] == sizes[2400]
    assert not hasattr(load(path), "labels_")


def test_parameters_of_the_machine_stay_behind(tmp_path):
    model = fitted(NUMBERS, n_jobs=2, verbose=0, checkpoint=tmp_path / "state")
    again = round_trip(model, tmp_path)
    assert (again.n_jobs, again.checkpoint) == (None, None)
    same = set(model.get_params()) - {"n_jobs", "checkpoint", "verbose"}
    for name in same:
        assert getattr(again, name) == getattr(model, name), name


def test_parameters_changed_after_the_fit_do_not_change_the_model(tmp_path):
    model = fitted(NUMBERS, covariance_type="diag")
    proba = model.predict_proba(people()[NUMBERS])
    model.set_params(n_components=7, covariance_type="full", reg_covar=np.float64(1))
    again = round_trip(model, tmp_path)
    assert (again.n_components, again.covariance_type) == (7, "full")
    assert type(again.reg_covar) is float
    assert_same(again.predict_proba(people()[NUMBERS]), proba, "predict_proba")


@pytest.mark.parametrize(
    "other",
    [
        {"max_gap": "auto", "min_ratio": 0.5},
        {"max_gap": 0.001, "criterion": "additive_gap"},
        {"max_gap": "auto", "gap_of": "probabilities", "min_group_size": 5},
        {"max_gap": "auto", "fairness_strength": 1.0, "missing_groups": "drop"},
    ],
)
def test_a_rule_set_after_the_fit_does_not_change_the_verdict_of_a_file(other, tmp_path):
    model = fitted(NUMBERS, max_gap=0.05)
    plain = round_trip(model, tmp_path)
    assert "rule" not in document_of(model, tmp_path)
    rule, verdict = model.fitted_.rule, model.fitted_.verdict
    again = round_trip(model.set_params(**other), tmp_path)
    assert (again.fitted_.rule, again.fitted_.verdict) == (rule, verdict)
    assert again.fitted_.verdict == plain.fitted_.verdict
    assert {name: getattr(again, name) for name in other} == other
    # What was fitted without a bound has none after a bound is set, either.
    free = fitted(NUMBERS, fairness_strength=0.0)
    assert round_trip(free.set_params(fairness_strength="auto"), tmp_path).verdict_ == "no bound"


def test_a_rule_by_attribute_comes_back_after_another_is_set(tmp_path):
    table = people().assign(side=lambda found: np.where(found.index % 2, "left", "right"))
    bounds = {"group": 0.3, "side": 0.4}
    model = FairMixture(2, attributes="each", max_gap=bounds, random_state=0)
    model.fit(table[["age"]], sensitive_features=table[["group", "side"]])
    rule = model.fitted_.rule
    again = round_trip(model.set_params(max_gap=0.2), tmp_path)
    assert again.fitted_.rule == rule
    assert document_of(model, tmp_path)["rule"]["bounds"] == bounds


def test_metadata_comes_back(tmp_path):
    metadata = {"data": "Adult", "rows": 3, "tags": ["a", {"ß": None}], "ok": True, "x": 0.1}
    model = fitted(NUMBERS)
    assert load(model.save(tmp_path / "a.fairmix", metadata=metadata)).metadata_ == metadata
    assert round_trip(model, tmp_path).metadata_ == {}
    assert not hasattr(model, "metadata_")


@pytest.mark.parametrize(
    "metadata",
    [{1: "a"}, {"a": (1, 2)}, {"a": np.nan}, {"a": {1}}, [1], {"a": pd.Timestamp(0)}],
    ids=["key", "tuple", "nan", "set", "list", "timestamp"],
)
def test_metadata_that_json_cannot_hold_is_refused(metadata, tmp_path):
    with pytest.raises(ValueError, match=r"^metadata "):
        fitted(NUMBERS).save(tmp_path / "a.fairmix", metadata=metadata)
    assert list(tmp_path.iterdir()) == []


def test_metadata_that_is_too_deep_is_refused_before_a_file_is_written(tmp_path):
    deep: dict = {}
    for _ in range(40):
        deep = {"a": deep}
    with pytest.raises(ValueError, match=r"cannot be saved: model.json is nested too deeply"):
        fitted(NUMBERS).save(tmp_path / "a.fairmix", metadata=deep)
    assert list(tmp_path.iterdir()) == []


def test_a_random_state_object_cannot_be_saved(tmp_path):
    model = fitted(NUMBERS).set_params(random_state=np.random.RandomState(0))
    with pytest.raises(ValueError, match=r"random_state=.*model\.set_params\(random_state=None\)"):
        model.save(tmp_path / "a.fairmix")


def test_a_wrong_parameter_is_refused_before_a_file_is_written(tmp_path):
    with pytest.raises(ValueError, match="'max_gap' parameter"):
        fitted(NUMBERS).set_params(max_gap=-1).save(tmp_path / "a.fairmix")
    assert list(tmp_path.iterdir()) == []


def test_an_unfitted_model_cannot_be_saved(tmp_path):
    with pytest.raises(ValueError, match="not fitted"):
        FairMixture().save(tmp_path / "a.fairmix")


def test_saving_replaces_and_leaves_nothing_beside(tmp_path):
    path = tmp_path / "model.fairmix"
    path.write_bytes(b"old")
    fitted(NUMBERS).save(str(path))
    assert load(str(path)).n_components == 2
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_saving_leaves_the_old_file(tmp_path):
    path = tmp_path / "model.fairmix"
    model = fitted(NUMBERS)
    model.save(path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="metadata"):
        model.save(path, metadata={"a": np.inf})
    assert path.read_bytes() == before
    with pytest.raises(FileNotFoundError):
        model.save(tmp_path / "missing" / "model.fairmix")


def test_a_stream_ends_in_the_file(tmp_path):
    table = people()
    model = FairMixture(2, max_gap=0.1, random_state=0)
    for part in np.array_split(np.arange(N_ROWS), 2):
        model.partial_fit(table[NUMBERS].iloc[part], sensitive_features=table["group"].iloc[part])
    again = round_trip(model, tmp_path)
    assert_same_model(again, model)
    assert_same(again.predict(table[NUMBERS]), model.predict(table[NUMBERS]), "predict")
    with pytest.raises(ValueError, match=r"stream.*clone"):
        again.partial_fit(table[NUMBERS], sensitive_features=table["group"])
    # The same goes for the file of a loaded model; fit starts anew.
    with pytest.raises(ValueError, match="stream"):
        round_trip(again, tmp_path).partial_fit(table[NUMBERS], sensitive_features=table["group"])
    again.fit(table[NUMBERS], sensitive_features=table["group"])
    again.partial_fit(table[NUMBERS], sensitive_features=table["group"])
    assert again.n_iter_ == 1


def test_a_loaded_model_learns_on(tmp_path):
    table = people()
    again = round_trip(fitted(NUMBERS), tmp_path).set_params(warm_start=True)
    again.fit(table[NUMBERS], sensitive_features=table["group"])
    assert again.labels_.shape == (N_ROWS,)


@pytest.mark.parametrize("path", sorted(MODELS.glob("*/*.fairmix")), ids=lambda path: path.name)
def test_kept_files_of_every_schema_load(path):
    model = load(path)
    kept = model.metadata_
    X = pd.DataFrame(kept["rows"]) if isinstance(kept["rows"], dict) else np.array(kept["rows"])
    given = {"sensitive_features": kept["groups"]}
    assert model.predict(X, **given).tolist() == kept["labels"]
    np.testing.assert_allclose(model.predict_proba(X, **given), kept["probabilities"], atol=1e-12)
    np.testing.assert_allclose(model.score_samples(X), kept["log_densities"], rtol=1e-12)
    # Files of schema 1 and 2 know of no rule but the gap.
    if "verdict" in kept:
        ratio = None if np.isnan(model.ratio_) else model.ratio_
        assert (model.verdict_, ratio) == (kept["verdict"], kept["ratio"])
    else:
        assert (model.min_ratio, model.min_balance, model.margin) == (None, None, 0.0)
        assert model.verdict_ in ("met", "no bound")


def test_files_of_the_schema_in_use_are_kept():
    assert len(list((MODELS / f"schema-{SCHEMA}").glob("*.fairmix"))) == 9


def test_files_from_before_equal_rows_could_share_labels_out_keep_them_together():
    found = {path.stem: load(path) for path in MODELS.glob("*/*.fairmix")}
    assert {name for name, model in found.items() if model.ties == "split"} == {"categorical-split"}
    assert [name for name, model in found.items() if model.fitted_.model.split] == [
        "categorical-split"
    ]
    labels = pd.Series(found["categorical-split"].metadata_["labels"])
    rows = found["categorical-split"].metadata_["rows"]["job"]
    assert labels.groupby(rows).nunique().max() == 2


# ------------------------------------------------------------------ other ways to keep a model
WAYS = {
    "pickle": lambda model, folder: pickle.loads(pickle.dumps(model)),
    "joblib": lambda model, folder: joblib.load(joblib.dump(model, folder / "a.joblib")[0]),
    "deepcopy": lambda model, folder: copy.deepcopy(model),
}


@pytest.mark.parametrize("way", list(WAYS))
@pytest.mark.parametrize("loaded", [False, True], ids=["fitted", "loaded"])
def test_pickle_joblib_and_deepcopy_keep_every_bit(way, loaded, tmp_path):
    model = fitted(NUMBERS + CATEGORIES, standardize=True)
    again = WAYS[way](round_trip(model, tmp_path) if loaded else model, tmp_path)
    assert_same_model(again, model)
    X = people(seed=1)[NUMBERS + CATEGORIES]
    assert_same(again.predict_proba(X), model.predict_proba(X), "predict_proba")


def test_clone_of_a_loaded_model_is_unfitted(tmp_path):
    model = fitted(NUMBERS)
    again = clone(round_trip(model, tmp_path))
    assert again.get_params() == model.get_params()
    assert not hasattr(again, "means_")
    assert not hasattr(again, "metadata_")


def test_skops_with_our_types_trusted(tmp_path):
    pytest.importorskip("skops", reason="skops is not installed")
    import skops.io

    model = fitted(NUMBERS + CATEGORIES)
    path = tmp_path / "model.skops"
    skops.io.dump(model, path)
    types = skops.io.get_untrusted_types(file=path)
    assert all(name.startswith("fairmix.") for name in types), types
    again = skops.io.load(path, trusted=types)
    X = people(seed=1)[NUMBERS + CATEGORIES]
    assert_same(again.predict_proba(X), model.predict_proba(X), "predict_proba")
