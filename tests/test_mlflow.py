"""MLflow: nothing stray in it, FairMixture in it in numbers, and models that it can save."""

import re
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.cluster import AgglomerativeClustering, KMeans
from sklearn.mixture import GaussianMixture

from fairmix import FairAssignment, FairMixture, baselines, compare
from fairmix.datasets import make_grouped_blobs
from fairmix.export import LOCAL_PARAMETERS, SKOPS_TYPES
from fairmix.report import log_to_mlflow
from fairmix.results import Profile
from fairmix.system.autologging import without_autologging


@pytest.fixture(scope="module")
def people():
    X, groups, _ = make_grouped_blobs(300, 3, 2, separation=1.5, random_state=0)
    people = pd.DataFrame(X, columns=["age", "income"])
    half = np.where(np.arange(300) % 2, "east", "west")
    return people.assign(sex=np.where(groups == groups[0], "f", "m"), region=half)


@pytest.fixture(scope="module")
def model(people):
    model = FairMixture(3, max_gap=0.05, random_state=0)
    return model.fit(people[["age", "income", "sex"]], sensitive_features="sex")


# Without MLflow: what the package does with its autologging


@pytest.fixture
def autologging(monkeypatch):
    """The part of MLflow that is used, and what it was asked for."""

    @contextmanager
    def disable_autologging():
        utils._AUTOLOGGING_GLOBALLY_DISABLED = True
        yield
        utils._AUTOLOGGING_GLOBALLY_DISABLED = False

    utils = SimpleNamespace(
        _AUTOLOGGING_GLOBALLY_DISABLED=False, disable_autologging=disable_autologging
    )
    monkeypatch.setitem(sys.modules, "mlflow.utils.autologging_utils", utils)
    return utils


def test_autologging_is_on_again_when_the_last_fit_ends(autologging):
    inside, left = threading.Event(), threading.Event()

    def other():
        with without_autologging():
            inside.set()
            left.wait(60)

    thread = threading.Thread(target=other)
    with without_autologging():
        thread.start()
        assert inside.wait(60)
    assert autologging._AUTOLOGGING_GLOBALLY_DISABLED
    left.set()
    thread.join()
    assert not autologging._AUTOLOGGING_GLOBALLY_DISABLED


def test_what_a_user_has_turned_off_stays_off(autologging):
    with autologging.disable_autologging():
        with without_autologging():
            pass
        assert autologging._AUTOLOGGING_GLOBALLY_DISABLED


def test_autologging_is_on_again_after_an_error(autologging, people):
    with pytest.raises(ValueError, match="n_components"):
        FairMixture(301).fit(people[["age"]])
    assert not autologging._AUTOLOGGING_GLOBALLY_DISABLED


def test_without_mlflow_the_message_says_what_to_install(model, monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(ImportError, match="pip install mlflow"):
        log_to_mlflow(model)


# The types that a loader of skops is to trust


def test_trusted_types_are_all_that_estimators_hold(people):
    """No type is missing, and none is trusted that nothing holds."""
    skops_io = pytest.importorskip("skops.io", reason="skops is not installed")
    pytest.importorskip("ot", reason="the extra baselines is not installed")
    X, sex, both = people[["age", "income"]], people["sex"], people[["sex", "region"]]
    each = {"attributes": "each", "max_iter": 3, "tol": 1.0}
    fits = [
        FairMixture(2, random_state=0, max_gap=0.1),
        FairMixture(2, random_state=0, min_ratio=0.5, assignment="aware"),
        FairMixture(2, random_state=0, min_balance=0.1),
        *(getattr(baselines, name)(2, n_init=1, random_state=0) for name in baselines.__all__),
        FairAssignment(KMeans(2, n_init=1, random_state=0), max_gap=0.1),
        FairAssignment(GaussianMixture(2, random_state=0), max_gap=0.1, assignment="blind"),
        FairAssignment(AgglomerativeClustering(2), max_gap=0.1),
    ]
    fitted = [clusterer.fit(X, sensitive_features=sex) for clusterer in fits]
    bounds = {"sex": 0.2, "region": 0.3}
    fitted.append(FairMixture(2, max_gap=bounds, **each).fit(X, sensitive_features=both))
    mixed = people[["age", "region"]]
    fitted.append(FairMixture(2, max_gap=0.2, random_state=0).fit(mixed, sensitive_features=sex))
    stream = FairMixture(2, max_gap=0.2, random_state=0)
    fitted.append(stream.partial_fit(X, sensitive_features=sex))
    found = set()
    for estimator in fitted:
        found |= set(skops_io.get_untrusted_types(data=skops_io.dumps(estimator)))
    # Our own: those of other packages are theirs to publish.
    assert {name for name in found if name.startswith("fairmix.")} == set(SKOPS_TYPES)
    assert sorted(SKOPS_TYPES) == SKOPS_TYPES


def test_a_file_opens_with_these_types(model, people, tmp_path):
    skops_io = pytest.importorskip("skops.io", reason="skops is not installed")
    model.predict(people[["age", "income"]])  # a model that was used is no other
    skops_io.dump(model, tmp_path / "model.skops")
    again = skops_io.load(tmp_path / "model.skops", trusted=SKOPS_TYPES)
    X = people[["age", "income"]]
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    assert again.verdict_ == model.verdict_


# With the real MLflow: scripts/test --neighbours


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """One for all tests: MLflow takes seconds to make its tables."""
    module = pytest.importorskip("mlflow", reason="MLflow is not installed")
    folder = tmp_path_factory.mktemp("runs")
    module.set_tracking_uri(f"sqlite:///{folder}/runs.db")
    module.create_experiment("fairmix", artifact_location=(folder / "artifacts").as_uri())
    module.set_experiment("fairmix")
    return module


@pytest.fixture
def mlflow(store):
    yield store
    store.sklearn.autolog(disable=True)
    store.end_run()


@pytest.mark.filterwarnings("default")  # MLflow's own
def test_no_stray_runs(mlflow, people):
    X, sex = people[["age", "income"]], people["sex"]
    mlflow.sklearn.autolog(log_models=False, log_datasets=False)
    FairMixture(3, max_gap=0.05, random_state=0).fit(X, sensitive_features=sex)
    FairMixture(3, max_gap=0.05, random_state=0).partial_fit(X, sensitive_features=sex)
    FairAssignment(KMeans(3), assignment="blind").fit(X, sensitive_features=sex)
    baselines.FairletKMeans(2, random_state=0).fit(X, sensitive_features=sex)
    methods = {"K-means": KMeans(3), "fair": FairMixture(3, assignment="aware")}
    compare(methods, X, sensitive_features=sex)
    assert mlflow.active_run() is None
    assert len(mlflow.search_runs()) == 0
    # The user's own estimators are logged as before.
    KMeans(3).fit(X)
    assert mlflow.search_runs()["tags.estimator_name"].tolist() == ["KMeans"]


@pytest.mark.filterwarnings("default")
def test_a_run_says_what_was_asked_for_and_measured(mlflow, model, people):
    held_out = people[["age", "income"]] + 1e-3
    certificate = model.certify(held_out, people["sex"])
    profile = Profile.from_frame(people[["age", "income"]], model.labels_, people["sex"])
    with mlflow.start_run() as run:
        log_to_mlflow(model, profile, certificate=certificate)
    data = mlflow.get_run(run.info.run_id).data
    given = model.get_params()
    assert data.params == {
        name: str(value) for name, value in given.items() if name not in LOCAL_PARAMETERS
    }
    assert data.metrics == {
        "gap": model.gap_,
        "label_gap": model.label_gap_,
        "soft_gap": model.soft_gap_,
        "ratio": model.ratio_,
        "balance": model.balance_,
        "resolution": model.resolution_,
        "fairness_strength": model.fairness_strength_,
        "lower_bound": model.lower_bound_,
        "n_iter": model.n_iter_,
        "clusters_filled": 3,
        "held_out_gap": certificate.gap,
        "held_out_gap_bound": certificate.upper_bound,
    }
    assert data.tags["fairmix.rule"] == "max_gap=0.05"
    assert data.tags["fairmix.verdict"] == "met"
    assert data.tags["fairmix.held_out_verdict"] == certificate.verdict.word
    report = mlflow.artifacts.load_text(f"{run.info.artifact_uri}/report.html")
    assert re.match("<!doctype html>", report, re.IGNORECASE)


@pytest.mark.filterwarnings("default")
def test_a_plain_mixture_has_no_gap_to_log(mlflow, people):
    plain = FairMixture(2, random_state=0).fit(people[["age", "income"]])
    with mlflow.start_run() as run:
        log_to_mlflow(plain)
    data = mlflow.get_run(run.info.run_id).data
    assert set(data.metrics) == {"fairness_strength", "lower_bound", "n_iter", "clusters_filled"}
    assert data.tags["fairmix.verdict"] == "no bound"


@pytest.mark.filterwarnings("default")
def test_models_are_saved_with_the_default_format(mlflow, model, people, tmp_path):
    # Without the requirements MLflow installs the model's packages to find them.
    how = {"skops_trusted_types": SKOPS_TYPES, "pip_requirements": ["fairmix"]}
    mlflow.sklearn.save_model(model, tmp_path / "model", **how)
    again = mlflow.sklearn.load_model(str(tmp_path / "model"))
    assert np.array_equal(again.predict(people[["age", "income"]]), model.labels_)


@pytest.mark.filterwarnings("default")
def test_the_code_of_the_page_runs(mlflow, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    page = Path(__file__).parents[1] / "docs/how-to/mlflow.md"
    (code,) = re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    # The store of the other tests, because a new one takes MLflow long to make.
    exec(code.replace('mlflow.set_tracking_uri("sqlite:///runs.db")', ""), {})
    assert re.findall("True|False", capsys.readouterr().out) == ["True"] * 3
