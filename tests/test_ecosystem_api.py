"""What is public: names, types and the policy that keeps them."""

import importlib
import inspect
import re
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

# A name that goes from here needs the steps of docs/deprecation-policy.md.
PUBLIC = {
    "fairmix": [
        "FairAssignment",
        "FairLabels",
        "FairMixture",
        "FileSource",
        "ColumnWarning",
        "IgnoredTargetWarning",
        "compare",
        "fair_labels",
        "load",
        "model_card",
        "pareto_front",
        "select_n_components",
        "to_onnx",
    ],
    "fairmix.baselines": [
        "AlignedFairKMeans",
        "FairletKMeans",
        "VariationalFairKMeans",
    ],
    "fairmix.datasets": [
        "CensusData",
        "Dataset",
        "fetch_bank",
        "fetch_census",
        "fetch_credit",
        "load_adult",
        "make_census_like",
        "make_grouped_blobs",
        "paper_preprocessing",
        "write_census_like",
    ],
    "fairmix.export": [
        "LOCAL_PARAMETERS",
        "SKOPS_TYPES",
        "ModelFileError",
        "Snapshot",
        "model_card",
        "read_model",
        "to_onnx",
        "write_model",
    ],
    "fairmix.metrics": [
        "additive_gap",
        "balance",
        "clustering_cost",
        "gap",
        "gap_scorer",
        "group_counts",
        "group_rates",
        "rate_ratio",
        "ratio_scorer",
        "worst_pair_gap",
    ],
    "fairmix.plot": [
        "ComparisonDisplay",
        "ComponentsDisplay",
        "ConvergenceDisplay",
        "GroupSharesDisplay",
        "ParetoFrontDisplay",
        "SelectionDisplay",
    ],
    "fairmix.report": [
        "log_to_mlflow",
        "render",
        "report_of",
    ],
    "fairmix.results": [
        "AttributeTables",
        "Categories",
        "Certificate",
        "ChanceGap",
        "ClusterRow",
        "FairnessTable",
        "Figure",
        "GroupRow",
        "Numbers",
        "Profile",
        "Verdict",
        "certify",
        "chance_gap",
        "fairness_table",
        "judge",
        "judge_counts",
        "label_resolution",
        "sampling_gap",
        "share_interval",
        "verdict_of",
    ],
    "fairmix.studies": [
        "Comparison",
        "FrontRow",
        "MethodRow",
        "ParetoFront",
        "Selection",
        "SelectionRow",
        "compare",
        "default_methods",
        "pareto_front",
        "select_n_components",
    ],
}
PARAMETERS = [
    "n_components",
    "max_gap",
    "min_ratio",
    "min_balance",
    "margin",
    "fairness_strength",
    "gap_of",
    "assignment",
    "ties",
    "solver",
    "criterion",
    "min_group_size",
    "missing_groups",
    "attributes",
    "covariance_type",
    "categorical_features",
    "handle_unknown",
    "standardize",
    "max_iter",
    "inner_iter",
    "learning_rate",
    "tol",
    "n_init",
    "init_params",
    "weights_init",
    "means_init",
    "precisions_init",
    "probabilities_init",
    "reg_covar",
    "random_state",
    "warm_start",
    "verbose",
    "n_jobs",
    "batch_size",
    "fairness_sample_size",
    "fairness_sample_replace",
    "subsample",
    "checkpoint",
]
METHODS = [
    "aic",
    "assign",
    "bic",
    "certify",
    "fairness_report",
    "fit",
    "fit_predict",
    "get_metadata_routing",
    "get_params",
    "icl",
    "partial_fit",
    "predict",
    "report",
    "responsibilities",
    "predict_proba",
    "sample",
    "save",
    "score",
    "score_samples",
    "set_params",
]


@pytest.mark.parametrize("name", PUBLIC)
def test_public_names_are_pinned(name):
    module = importlib.import_module(name)
    assert sorted(module.__all__) == sorted(PUBLIC[name])
    for public in PUBLIC[name]:
        assert getattr(module, public) is not None


@pytest.mark.parametrize("name", PUBLIC)
def test_public_functions_are_annotated(name):
    module = importlib.import_module(name)
    for public in PUBLIC[name]:
        found = getattr(module, public)
        if not inspect.isfunction(found):
            continue
        signature = inspect.signature(found)
        assert signature.return_annotation is not inspect.Signature.empty, public
        for parameter in signature.parameters.values():
            assert parameter.annotation is not inspect.Parameter.empty, (public, parameter.name)


def test_the_parameters_of_the_model_are_pinned():
    from fairmix import FairMixture

    signature = inspect.signature(FairMixture)
    assert list(signature.parameters) == PARAMETERS
    positional = inspect.Parameter.POSITIONAL_OR_KEYWORD
    kinds = [parameter.kind for parameter in signature.parameters.values()]
    assert kinds.count(positional) == 1, "only n_components may be given by position"
    documented = re.findall(r"^    (\w+) : .*default=", FairMixture.__doc__, re.MULTILINE)
    assert documented == PARAMETERS


def test_the_methods_of_the_model_are_pinned():
    from fairmix import FairMixture

    own = {
        n for n in dir(FairMixture) if not n.startswith("_") and callable(getattr(FairMixture, n))
    }
    requests = {n for n in own if re.fullmatch(r"set_\w+_request", n)}
    callbacks = {"set_callbacks"} if find_spec("sklearn.callback") else set()
    assert own - requests == {*METHODS, *callbacks}


def test_the_package_is_typed():
    assert files("fairmix").joinpath("py.typed").is_file()


def test_the_policy_names_the_public_modules():
    text = (ROOT / "docs" / "deprecation-policy.md").read_text("utf-8")
    named = set(re.findall(r"`(fairmix(?:\.\w+)?)`", text))
    assert named == set(PUBLIC)
