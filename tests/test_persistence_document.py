"""The document of a model file from strangers: every value of a wrong kind is one clear line."""

import copy
import json
import tempfile
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairmix import load
from fairmix.export.model_file import ModelFileError
from fairmix.export.model_file.archive import pack, unpack
from fairmix.export.model_file.members import array_bytes

KEPT = Path(__file__).parent / "models" / "schema-1" / "mixed-aware.fairmix"
MEMBERS = unpack(KEPT.read_bytes())
DOCUMENT: dict[str, Any] = json.loads(MEMBERS["model.json"])


def refuse(content: bytes | str, folder: Path, match: str) -> None:
    text = content.encode() if isinstance(content, str) else content
    path = folder / "model.fairmix"
    path.write_bytes(pack(MEMBERS | {"model.json": text}))
    with pytest.raises(ModelFileError, match=match) as caught:
        load(path)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600


def changed(place: str, value: Any) -> str:
    """The document with another value; ``...`` leaves it out."""
    document = copy.deepcopy(DOCUMENT)
    *outer, name = place.split(".")
    part = document
    for key in outer:
        part = part[key]
    if value is ...:
        del part[name]
    else:
        part[name] = value
    return json.dumps(document)


def _keys(name: str) -> list[str]:
    return list(DOCUMENT[name]) if isinstance(DOCUMENT[name], dict) else []


# ------------------------------------------------------------------ the text
DEEP = 100_000


@pytest.mark.parametrize(
    "text",
    ["[" * DEEP, '{"a":' * DEEP, "[" * DEEP + "]" * DEEP, '{"a":' * 200 + "1" + "}" * 200],
    ids=["lists", "objects", "closed", "moderate"],
)
def test_deep_documents(text, tmp_path):
    refuse(text, tmp_path, "nested too deeply|no object")


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "cannot be read"),
        ("[1]", "holds no object"),
        ("{}", "has no 'format'"),
        ("{]", "cannot be read"),
        ('{"format": NaN}', "NaN is no number"),
        ('{"format": -Infinity}', "-Infinity is no number"),
        ('{"format": 1e999}', "too large"),
        ('{"format": ' + "9" * 5000 + "}", "cannot be read"),
        ('{"format": 1, "format": 2}', "names a key twice"),
        (b'{"format": "\xff"}', "cannot be read"),
        ('{"format": "é"}', "cannot be read"),
    ],
)
def test_texts_that_are_no_document(text, match, tmp_path):
    refuse(text, tmp_path, match)


def test_a_document_of_too_many_containers_takes_little_memory(tmp_path):
    text = b"[" + b"[]," * 2_000_000 + b"[]]"
    tracemalloc.start()
    refuse(text, tmp_path, "more than 1,000,000 brackets")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 * len(text)


def test_a_document_that_is_too_long(tmp_path):
    refuse(b'{"a": "' + b"x" * 2**24 + b'"}', tmp_path, "is larger than")


# ------------------------------------------------------------------ the values
# Longer than any float, which JSON allows.
LONG = 10**400
RULE = {
    "parameter": "min_ratio",
    "bounds": {"": 0.8},
    "criterion": "gap",
    "gap_of": "labels",
    "min_group_size": 30,
    "missing_groups": "error",
}
WRONG = [
    ("format", "other", "format is 'other'"),
    ("format", ..., "has no 'format'"),
    ("schema", 4, "it has schema 4, written by fairmix .*reads up to schema 3. Update fairmix"),
    ("schema", 0, "schema is 0"),
    ("schema", True, "schema is True"),
    ("schema", "1", "schema is '1'"),
    ("estimator", "os.system", "estimator is 'os.system'"),
    ("code", "print()", "unknown field 'code'"),
    ("parameters", [], r"parameters is \[\], not an object"),
    ("parameters.n_components", -1, "n_components"),
    ("parameters.n_components", [2], "'n_components' has no place"),
    ("parameters.solver", "x" * 100, "'solver' has no place"),
    ("parameters.n_components", {"a": 1}, "'n_components' has no place"),
    ("parameters.max_gap", "a lot", "max_gap"),
    ("parameters.min_ratio", 1.5, "min_ratio"),
    ("parameters.min_ratio", "most", "min_ratio"),
    ("parameters.min_balance", 0, "min_balance"),
    ("parameters.margin", -0.1, "margin"),
    ("parameters.not\nknown", 1, r"parameters: 'not\\nknown' is unknown"),
    ("parameters.n_jobs", 10**9, "'n_jobs' has no place"),
    ("parameters.checkpoint", "/etc/passwd", "'checkpoint' has no place"),
    ("parameters.categorical_features", [["a"]], "'categorical_features' has no place"),
    ("rule", None, "rule is None, not an object"),
    ("rule", {}, "rule has no 'criterion'"),
    ("rule", RULE | {"criterion": "fair"}, "criterion is 'fair'"),
    ("rule", RULE | {"parameter": "solver"}, "parameter is 'solver'"),
    ("rule", RULE | {"bounds": {"": 1.5}}, "not a number of at least 0 and at most 1"),
    ("rule", RULE | {"bounds": {"": LONG}}, "not a number"),
    ("rule", RULE | {"bounds": {"sex": 0.8}}, "bounds are not those of the attributes"),
    ("rule", RULE | {"bounds": {}}, "bounds are not those of the attributes"),
    ("rule", RULE | {"min_group_size": 0}, "min_group_size is 0"),
    ("rule", RULE | {"code": 1}, "unknown field 'code'"),
    ("columns", None, "columns is None, not an object"),
    ("columns.names", "abc", "names is 'abc', not a list of texts"),
    ("columns.names", [1, 2], "not a list of texts"),
    ("columns.names", ["a"], "categor"),
    ("columns.names", [], "categorical is"),
    ("columns.categorical", [1, 1], "not sorted"),
    ("columns.categorical", [5], "not a list of whole numbers from 0 to 1"),
    ("columns.categorical", [-1], "not a list of whole numbers"),
    ("columns.categorical", [True], "not a list of whole numbers"),
    ("columns.categories", [], "not 1 lists of texts"),
    ("columns.categories", [[]], "not 1 lists of texts"),
    ("columns.categories", [["a", "a"]], "twice"),
    ("columns.categories", [["a"]], "theta.npy is float64 of shape"),
    ("columns.categories", [[None]], "not a list of texts"),
    ("columns.standardized", 1, "not true or false"),
    ("columns.standardized", False, r"mean\.npy has no place"),
    ("columns.feature_names", ["a"], "not as many feature_names"),
    ("columns.set_aside", None, "set_aside is None"),
    ("groups.names", ["a", "a"], "twice"),
    ("groups.names", ["a"], "not as many sizes"),
    ("groups.sizes", [1, -1], "not a list of whole numbers"),
    ("groups.sizes", [1, 2**63], "not a list of whole numbers"),
    ("groups.sizes", [1, 1.5], "not a list of whole numbers"),
    ("mixture.n_components", 0, "n_components is 0"),
    ("mixture.n_components", 3, r"theta\.npy is"),
    ("mixture.n_components", 10**15, "too large to be held"),
    ("mixture.covariance_type", "huge", "covariance_type is 'huge'"),
    ("mixture.covariance_type", "diag", r"theta\.npy is"),
    ("mixture.reg_covar", -1e-6, "reg_covar is -1e-06, not a number of at least 0"),
    ("mixture.reg_covar", False, "not a number"),
    ("mixture.temperature", 0.0, "not positive"),
    ("mixture.temperature", "cold", "not a number"),
    ("mixture.tilted", False, r"offsets\.npy has no place"),
    ("mixture.tilted", None, "not true or false"),
    ("propensity", {"slots": [3]}, r"propensity_deviation\.npy is missing"),
    ("propensity", {"slots": 3}, r"propensity_deviation\.npy is missing"),
    ("propensity", ..., "has no 'propensity'"),
    ("fitted.gap_", None, "gap_ is nan, not a number from 0"),
    ("fitted.gap_", ..., "has no 'gap_'"),
    ("fitted.n_iter_", -3, "n_iter_ is -3"),
    ("fitted.n_passes_", -0.5, "n_passes_ is -0.5, not a number of at least 0"),
    ("fitted.converged_", 1, "not true or false"),
    ("fitted.filled_clusters", 3, "from 0 to 2"),
    ("fitted.history", ["objective"], r"history\.npy is"),
    ("fitted.history", ["a", "b", "c", "d", "e"], "history names an unknown column"),
    ("fitted.labels_", [0, 1], "unknown field 'labels_'"),
    ("metadata", [1], "metadata is"),
    pytest.param("fitted.lower_bound_", LONG, "not a number", id="a number of 400 digits"),
    pytest.param("mixture.temperature", -LONG, "not a number", id="a negative one"),
]


@pytest.mark.parametrize(("place", "value", "match"), WRONG)
def test_values_that_no_model_has(place, value, match, tmp_path):
    refuse(changed(place, value), tmp_path, match)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)
PLACES = [f"{name}.{inner}" for name in DOCUMENT if name != "metadata" for inner in _keys(name)]


@given(st.sampled_from([*DOCUMENT, *PLACES]), JSON)
def test_any_value_in_any_place_is_a_model_or_one_error(place, value):
    text = changed(place, value).replace("Infinity", "1e999").encode()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.fairmix")
        path.write_bytes(pack(MEMBERS | {"model.json": text}))
        message = ""
        try:
            load(path)
        except ModelFileError as error:
            message = str(error)
        assert "\n" not in message


def test_the_kept_document_itself_loads(tmp_path):
    path = tmp_path / "model.fairmix"
    path.write_bytes(pack(MEMBERS | {"model.json": json.dumps(DOCUMENT).encode()}))
    assert load(path).n_components == DOCUMENT["mixture"]["n_components"]


def test_one_long_name_beside_many_is_refused_before_an_array_of_both(tmp_path):
    names = [str(i) for i in range(20_000)] + ["x" * 1_000_000]
    document = copy.deepcopy(DOCUMENT)
    document["groups"] = {"names": names, "sizes": [1] * len(names)}
    tracemalloc.start()
    refuse(json.dumps(document), tmp_path, "texts that are too long")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50_000_000


def test_a_wide_tied_covariance_is_refused_before_its_logits(tmp_path):
    # A few megabytes of theta, of which every component would need a copy.
    d, n_components = 1000, 2000
    n_theta = n_components * (1 + d) + d * (d + 1) // 2
    document = copy.deepcopy(DOCUMENT)
    document["columns"] |= {
        "names": ["a"] * d,
        "feature_names": None,
        "categorical": [],
        "categories": [],
        "standardized": False,
    }
    document["mixture"] |= {"n_components": n_components, "covariance_type": "tied"}
    members = {
        "model.json": json.dumps(document).encode(),
        "center.npy": array_bytes(np.zeros(d)),
        "theta.npy": array_bytes(np.zeros(n_theta)),
    }
    path = tmp_path / "model.fairmix"
    path.write_bytes(pack(members))
    with pytest.raises(ModelFileError, match="too large to be held"):
        load(path)


# ------------------------------------------------------------------ ranges, and fields that agree
FORGED: dict[str, tuple[str, Any, str]] = {
    "gap below 0": ("fitted.gap_", -1e308, "gap_ is -1e\\+308, not a number from 0"),
    "another gap": ("fitted.gap_", 0.5, "gap_ is not the gap of what gap_of names"),
    "balance above 1": ("fitted.balance_", 5.0, "balance_ is 5.0, above 1"),
    "strength below 0": ("fitted.fairness_strength_", -1.0, "fairness_strength_ is -1.0, not"),
    "no rows": ("groups.sizes", [0] * len(DOCUMENT["groups"]["sizes"]), "whole numbers from 1"),
    "components": (
        "parameters.n_components",
        10**18,
        "among the parameters, beside",
    ),
    "a long number": ("parameters.max_gap", 10**400, "max_gap is a whole number of about 2 to the"),
    "a long figure": ("fitted.gap_", 10**400, "gap_ is 1000000.*not a number"),
    "a rule by attributes": ("parameters.min_balance", {"a": 1}, "names the attributes \\['a'\\]"),
    "half a name": ("groups.names", ["\ud800", "b"], "groups: names has a name with half of a"),
    "half a column": (
        "columns.names",
        ["\udc00", *DOCUMENT["columns"]["names"][1:]],
        "columns: names has a name with half of a character",
    ),
}


@pytest.mark.parametrize("name", FORGED)
def test_values_that_no_fit_gives(tmp_path, name):
    place, value, match = FORGED[name]
    refuse(changed(place, value), tmp_path, match)


def test_gaps_of_other_rates(tmp_path):
    document = copy.deepcopy(DOCUMENT)
    document["fitted"] |= {"gap_": 0.25, "label_gap_": 0.25, "soft_gap_": 0.25}
    refuse(json.dumps(document), tmp_path, "gap_ is 0.25, but its rates have")


@pytest.mark.parametrize(
    ("rates", "match"),
    [([[2.0, -1.0]], "no shares"), ([[0.2, 0.2]], "do not add up to 1")],
)
def test_rates_that_are_no_shares(tmp_path, rates, match):
    shape = len(DOCUMENT["groups"]["names"]), DOCUMENT["mixture"]["n_components"]
    forged = np.zeros(shape)
    forged[:, :2] = rates
    path = tmp_path / "model.fairmix"
    path.write_bytes(pack(MEMBERS | {"rates.npy": array_bytes(forged)}))
    with pytest.raises(ModelFileError, match=match):
        load(path)
