"""The ONNX graph says what predict and predict_proba say, in onnxruntime."""

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fairmix import FairMixture, load, to_onnx
from fairmix.mixture.families import COVARIANCE_TYPES
from fairmix.mixture.propensity import CATEGORIES, PRODUCT_COLUMNS
from repetition import every_other

onnx = pytest.importorskip("onnx", reason="the extra onnx is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")

NUMBERS, CATEGORICAL = ["age", "hours", "pay"], ["job", "code", "own"]
LEVELS = np.array(["naïve", "b & c", "[0, 10)", ""])


def people(n_rows: int, seed: int, offset: float = 0.0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    group, part = rng.integers(3, size=n_rows), rng.integers(3, size=n_rows)
    return pd.DataFrame(
        {
            "age": rng.normal(3 * part) + group + offset,
            "hours": rng.normal(size=n_rows) + 2 * part - offset,
            "pay": rng.normal(size=n_rows) * (1 + part) + offset,
            "job": LEVELS[(group + rng.integers(2, size=n_rows)) % 4],
            "code": rng.integers(3, size=n_rows) * 7 - 7 + part,
            "own": rng.random(n_rows) < 0.2 + 0.3 * part,
            "group": np.array(["x", "y", "z"])[group],
        }
    )


def fitted(X: Any, groups: Any, **settings: Any) -> FairMixture:
    settings = {"max_gap": 0.1, "max_iter": 15, "random_state": 0} | settings
    model = FairMixture(3, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # small data: bounds missed, few iterations
        return model.fit(X, sensitive_features=groups)


def run(model: FairMixture, inputs: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Labels and probabilities by onnxruntime."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    content = to_onnx(model).SerializeToString()
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    kinds = {"tensor(double)": np.float64, "tensor(int64)": np.int64, "tensor(string)": object}
    given = {}
    for wanted in session.get_inputs():
        values = np.asarray(inputs[wanted.name])
        if wanted.type == "tensor(string)":
            values = values.astype(str)
        values = values.astype(kinds[wanted.type])
        given[wanted.name] = values if values.ndim == 2 else values[:, None]
    assert set(given) == set(inputs)
    label, probabilities = session.run(["label", "probabilities"], given)
    assert (label.dtype, probabilities.dtype) == (np.int64, np.float64)
    return label, probabilities


def assert_agrees(model: FairMixture, table: pd.DataFrame, columns: list[str]) -> None:
    aware = model.assignment == "aware"
    groups = {"sensitive_features": table["group"]} if aware else {}
    expected = model.predict_proba(table[columns], **groups)
    inputs = {name: table[name] for name in columns} | groups
    label, probabilities = run(model, inputs)
    np.testing.assert_allclose(probabilities, expected, rtol=0, atol=1e-6)
    # Labels agree unless two clusters are as good as tied.
    best = np.sort(expected, axis=1)[:, -2:]
    clear = best[:, 1] - best[:, 0] > 1e-6
    assert clear.mean() > 0.9
    assert (label == model.predict(table[columns], **groups))[clear].all()


@pytest.mark.parametrize("assignment", ["blind", "aware"])
@pytest.mark.parametrize("covariance_type", every_other(COVARIANCE_TYPES))
@pytest.mark.parametrize("columns", [NUMBERS, ["job", *NUMBERS, "own"]], ids=["gaussian", "mixed"])
def test_every_family_and_covariance(columns, covariance_type, assignment):
    # An offset of a million must not cost digits.
    table = people(400, 0, offset=1e6)
    model = fitted(
        table[columns],
        table["group"],
        covariance_type=covariance_type,
        assignment=assignment,
        standardize=covariance_type in ("full", "spherical"),
    )
    assert (model.fitted_.model.propensity is not None) == (assignment == "blind")
    assert_agrees(model, people(200, 1, offset=1e6), columns)


@pytest.mark.parametrize("assignment", ["blind", "aware"])
def test_categories(assignment):
    table = people(400, 0)
    columns = ["code", "job", "own"]
    settings = {"assignment": assignment, "categorical_features": columns}
    model = fitted(table[columns], table["group"], gap_of="probabilities", **settings)
    kinds = {put.name: put.type.tensor_type.elem_type for put in to_onnx(model).graph.input}
    text, whole = onnx.TensorProto.STRING, onnx.TensorProto.INT64
    expected = {"code": whole, "job": text, "own": text}
    assert kinds == expected | ({"sensitive_features": text} if assignment == "aware" else {})
    assert_agrees(model, people(200, 1), columns)


@pytest.mark.parametrize("rule", [{"min_ratio": 0.8}, {"min_balance": 0.4}], ids=["ratio", "Bal"])
@pytest.mark.parametrize("assignment", ["blind", "aware"])
def test_a_ratio(assignment, rule):
    """Multipliers of a cone need not add up to zero over the groups, as those of a gap do."""
    table, columns = people(400, 0), [*NUMBERS, "job"]
    settings = {"max_gap": "auto", "assignment": assignment, "max_iter": 60, **rule}
    model = fitted(table[columns], table["group"], **settings)
    assert model.verdict_ == "met"
    assert np.abs(model.fitted_.model.offsets.sum(axis=0)).max() > 1e-3
    assert_agrees(model, people(200, 1), columns)
    labels, _ = run(
        model,
        {name: table[name] for name in columns}
        | ({"sensitive_features": table["group"]} if assignment == "aware" else {}),
    )
    # The rows of the fit, where the rule was met: the labels of the graph keep it.
    assert (labels == model.labels_).all()


def test_plain_mixture_and_paper_solver():
    table = people(400, 0)
    plain = fitted(table[NUMBERS], table["group"], fairness_strength=0, covariance_type="tied")
    assert plain.fitted_.model.offsets is None
    assert_agrees(plain, people(200, 1), NUMBERS)
    em = fitted(table[NUMBERS], table["group"], fairness_strength=2.0, solver="em")
    assert_agrees(em, people(200, 1), NUMBERS)


def test_an_array_is_one_input(tmp_path):
    table, new = people(400, 0), people(200, 1)
    groups = table["group"].map({"x": 0, "y": 1, "z": 2}).to_numpy()
    model = fitted(table[NUMBERS].to_numpy(), groups, assignment="aware")
    model = load(model.save(tmp_path / "model.fairmix"))
    X, new_groups = new[NUMBERS].to_numpy(), new["group"].map({"x": 0, "y": 1, "z": 2})
    label, probabilities = run(model, {"X": X, "sensitive_features": new_groups})
    expected = model.predict_proba(X, sensitive_features=new_groups)
    np.testing.assert_allclose(probabilities, expected, rtol=0, atol=1e-9)
    assert (label == model.predict(X, sensitive_features=new_groups)).mean() > 0.99
    kinds = {put.name: put.type.tensor_type.elem_type for put in to_onnx(model).graph.input}
    assert kinds == {"X": onnx.TensorProto.DOUBLE, "sensitive_features": onnx.TensorProto.INT64}


def test_many_columns_and_many_categories():
    # Above these numbers the propensity keeps squares only, and joins rare categories.
    rng = np.random.default_rng(0)
    n_rows, width = 1500, PRODUCT_COLUMNS + 1
    table = pd.DataFrame(rng.normal(size=(n_rows, width)), columns=[f"c{j}" for j in range(width)])
    table["many"] = rng.integers(CATEGORIES + 20, size=n_rows).astype(str)
    groups = np.where(table["c0"] + rng.normal(size=n_rows) > 0, "a", "b")
    model = fitted(table, groups)
    assert model.fitted_.model.propensity.slots[0].max() == CATEGORIES
    table["group"] = groups
    assert_agrees(model, table, [*table.columns[:-1]])


def test_unknown_rows_have_no_cluster():
    table = people(400, 0)
    columns = ["age", "job"]
    model = fitted(table[columns], table["group"], assignment="aware")
    inputs = {
        "age": np.array([1.0, 1.0, -np.inf, np.inf, 1.0]),
        "job": np.array(["naïve", "never seen", "naïve", "naïve", "naïve"]),
        "sensitive_features": np.array(["x", "x", "x", "x", "w"]),
    }
    label, probabilities = run(model, inputs)
    assert label[1:].tolist() == [-1] * 4
    assert np.isnan(probabilities[1:]).all()
    assert label[0] in range(3)
    np.testing.assert_allclose(probabilities[0].sum(), 1.0)


@pytest.mark.parametrize("name", ["label", "probabilities", "", "fairmix/node_0"])
def test_names_that_mean_something_else_in_the_graph(name):
    table = people(100, 0)[["age", "hours"]].rename(columns={"age": name})
    model = fitted(table, people(100, 0)["group"])
    with pytest.raises(ValueError, match=r"Rename the column"):
        to_onnx(model)


def test_an_unfitted_model_has_no_graph():
    with pytest.raises(ValueError, match="not fitted"):
        to_onnx(FairMixture())


def test_the_graph_is_the_same_every_time_and_holds_no_rows():
    sizes = []
    for n_rows in (300, 3000):
        table = people(n_rows, 0)
        model = fitted(table[NUMBERS], table["group"])
        content = to_onnx(model).SerializeToString()
        assert content == to_onnx(model).SerializeToString()
        sizes.append(len(content))
    assert abs(sizes[0] - sizes[1]) < 10
