"""A fitted model as one ONNX graph, from raw columns to labels and probabilities.

The graph repeats in double precision what ``predict_proba`` does: standardise, centre, build T(x),
multiply by the weights of the logits, add the tilt, take the softmax::

    softmax((b + W T(x) + sum_g rho_g v_g) / tau)

A look-up table has two rows more than there are categories: what a missing category adds, and NaN,
which is where an unknown one points. So what the model cannot judge comes out as NaN and never as a
cluster.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from fairmix._version import __version__
from fairmix.input.columns import Columns
from fairmix.kernels.totals import FloatArray, IntArray
from fairmix.mixture.families import RowNames
from fairmix.mixture.model import Model
from fairmix.mixture.propensity import Propensity

if TYPE_CHECKING:
    from onnx import ModelProto

    from fairmix.estimator import FairMixture

# Old enough for every runtime that the extra allows; 8 is the format of the time of opset 18.
OPSETS = {"": 18, "ai.onnx.ml": 3}
IR_VERSION = 8
TABLE, GROUP = "X", "sensitive_features"
LABEL, PROBABILITIES = "label", "probabilities"
INNER = "fairmix/"  # names in the graph that no column can have
UNKNOWN = -1  # as an index it is the last row of a table, which holds NaN
NO_TEXT = ""  # a missing category, as ONNX has no null
INT64 = np.iinfo(np.int64)


def to_onnx(model: FairMixture) -> ModelProto:
    """Turn a fitted model into an ONNX graph, which runs without fairmix.

    Needs ``pip install 'fairmix[onnx]'``.

    The inputs have the names of the columns in ``fit`` and the shape (n_rows, 1): double for
    numbers, int64 for categories that are all whole numbers, string for other categories
    (``"True"`` and ``"False"`` for bools). A model fitted on an array of numbers has one input,
    ``X``. An aware model has one more, ``sensitive_features``, with a name of ``groups_`` per row.

    The outputs are ``label`` (n_rows,) and ``probabilities`` (n_rows, n_components), which are
    those of ``predict`` and ``predict_proba`` up to rounding. NaN is a missing number, the empty
    text a missing category, unless it is one; with ``handle_unknown="ignore"`` so is every unknown
    category. Where fairmix raises an error (an unknown category or group, infinity, NaN for the
    covariance types ``"tied"`` and ``"full"``), the label is -1 and the probabilities are NaN.

    Parameters
    ----------
    model : FairMixture
        Fitted.

    Returns
    -------
    onnx.ModelProto
        For ``onnx.save``; ``SerializeToString()`` is for a session of onnxruntime.

    Examples
    --------
    >>> from fairmix import FairMixture, to_onnx
    >>> from fairmix.datasets import make_grouped_blobs
    >>> X, groups, _ = make_grouped_blobs(300, 3, 2, random_state=0)
    >>> model = FairMixture(3, max_gap=0.05, random_state=0).fit(X, sensitive_features=groups)
    >>> [output.name for output in to_onnx(model).graph.output]
    ['label', 'probabilities']
    """
    check_is_fitted(model)
    fitted: Model = model.fitted_.model
    if fitted.split:
        raise ValueError(
            "This model was fitted with ties='split': a label depends on the rows beside it, and a "
            "graph sees each row on its own. Fit with ties='together'."
        )
    if fitted.membership is not None:
        raise ValueError(
            "This model compares several attributes each by itself (attributes='each'), which the "
            "graph does not hold. Fit with attributes='intersect', or save the model with "
            "model.save."
        )
    graph = Graph()
    # Read from the estimator, because `set_params` may change it after the fit.
    columns = replace(fitted.columns, ignore_unknown=model.handle_unknown == "ignore")
    rows = _rows(graph, columns, getattr(model, "feature_names_in_", None))
    logits = _mixture(graph, fitted, rows)
    if fitted.offsets is not None:
        # All terms are divided here, once, rather than in the graph for every row.
        offsets = fitted.offsets / fitted.temperature
        if fitted.propensity is None:
            groups = graph.codes(GROUP, list(model.fitted_.groups.names))
            tilt = graph.look_up(offsets, groups)
        else:
            rho = _propensity(graph, fitted.propensity, fitted.columns, rows)
            tilt = graph.node("MatMul", rho, graph.constant(offsets))
        logits = graph.node("Add", logits, tilt)
    _answer(graph, logits)
    return graph.proto(fitted.mixture.n_components)


class Graph:
    """Nodes, constants and inputs, named as they come."""

    def __init__(self) -> None:
        self._onnx = _import_onnx()
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._inputs: list[Any] = []

    def input(self, name: str, kind: str, width: int) -> str:
        """An input of shape (n_rows, width); kind is DOUBLE, INT64 or STRING."""
        # Inputs, outputs and nodes share one set of names in ONNX.
        taken = {LABEL, PROBABILITIES, *(known.name for known in self._inputs)}
        if not name or name in taken or name.startswith(INNER):
            raise ValueError(
                f"The column name {name!r} is empty or stands for something else in the graph. "
                "Rename the column and fit again."
            )
        make = self._onnx.helper.make_tensor_value_info
        kinds = self._onnx.TensorProto
        self._inputs.append(make(name, getattr(kinds, kind), ["n_rows", width]))
        return name

    def constant(self, array: NDArray[Any]) -> str:
        """An array."""
        name = f"{INNER}constant_{len(self._constants)}"
        self._constants.append(self._onnx.numpy_helper.from_array(np.asarray(array), name))
        return name

    def node(self, kind: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        """The output of an operation."""
        name = f"{INNER}node_{len(self._nodes)}" if output is None else output
        made = self._onnx.helper.make_node(kind, inputs, [name], **attributes)
        self._nodes.append(made)
        return name

    def codes(
        self, name: str, levels: list[str], *, gaps: bool = False, unknown: int = UNKNOWN
    ) -> str:
        """An input of categories as codes (n,).

        With ``gaps`` an empty text is missing: the code after those of the categories.
        """
        # A caller who has whole numbers should not have to format them as we do.
        whole = all(_is_int64(level) for level in levels)
        texts = [*levels, NO_TEXT] if gaps and NO_TEXT not in levels else levels
        keys = {"keys_int64s": list(map(int, levels))} if whole else {"keys_strings": texts}
        column = self.input(name, "INT64" if whole else "STRING", 1)
        codes = self.node(
            "LabelEncoder",
            column,
            **keys,
            values_int64s=list(range(len(levels if whole else texts))),
            default_int64=unknown,
            domain="ai.onnx.ml",
        )
        # Since opset 13, axes are an input of Squeeze and ReduceSum, not an attribute.
        return self.node("Squeeze", codes, self.constant(np.array([1])))

    def known(self, numbers: str, absent: str | None) -> str:
        """Numbers with zero where they are missing."""
        return numbers if absent is None else self.node("Where", absent, self.zero, numbers)

    @property
    def zero(self) -> str:
        """The number."""
        return self.constant(np.array(0.0))

    def look_up(self, table: FloatArray, codes: str) -> str:
        """Rows of a table, NaN for the code -1: the index of the last row."""
        unknown = np.full((1, table.shape[1]), np.nan)
        return self.node("Gather", self.constant(np.vstack([table, unknown])), codes, axis=0)

    def products(self, x: str, i: IntArray, j: IntArray) -> str:
        """Products of columns i and j, (n, number of pairs)."""
        left, right = (self.node("Gather", x, self.constant(at), axis=1) for at in (i, j))
        return self.node("Mul", left, right)

    def flags(self, condition: str) -> str:
        """One where a condition holds, else zero."""
        return self.node("Cast", condition, to=self._onnx.TensorProto.DOUBLE)

    def proto(self, n_components: int) -> ModelProto:
        """The model."""
        helper, kinds = self._onnx.helper, self._onnx.TensorProto
        outputs = [
            helper.make_tensor_value_info(LABEL, kinds.INT64, ["n_rows"]),
            helper.make_tensor_value_info(PROBABILITIES, kinds.DOUBLE, ["n_rows", n_components]),
        ]
        graph = helper.make_graph(self._nodes, "fairmix", self._inputs, outputs, self._constants)
        opsets = [helper.make_opsetid(domain, number) for domain, number in OPSETS.items()]
        made: ModelProto = helper.make_model(
            graph,
            opset_imports=opsets,
            ir_version=IR_VERSION,
            producer_name="fairmix",
            producer_version=__version__,
        )
        # An invalid graph fails here and not in a runtime far away.
        self._onnx.checker.check_model(made)
        return made


def _import_onnx() -> Any:
    try:
        import onnx
    except ImportError as error:
        raise ImportError("to_onnx needs onnx. Install it: pip install 'fairmix[onnx]'.") from error
    return onnx


def _is_int64(text: str) -> bool:
    """Whether a category is a whole number, written as Python does."""
    # `int` accepts digits of other scripts, underscores and leading zeros, and would merge
    # categories; the length is checked first because it is slow for, or refuses, very long texts.
    digits = text.removeprefix("-")
    if not digits.isascii() or not digits.isdigit() or len(digits) > len(str(INT64.max)):
        return False
    return str(int(text)) == text and INT64.min <= int(text) <= INT64.max


def _rows(graph: Graph, columns: Columns, feature_names: NDArray[Any] | None) -> RowNames:
    """Inputs, and from them what ``Columns.rows`` gives."""
    names = columns.names if feature_names is None else tuple(feature_names.tolist())
    codes = []
    # What was fitted as one array stays one input; named columns keep their names.
    if feature_names is None and not columns.categorical:
        numbers: str | None = graph.input(TABLE, "DOUBLE", len(names))
    else:
        levels = dict(zip(columns.categorical, columns.levels, strict=True))
        parts = []
        for j, name in enumerate(names):
            if j in levels:
                unknown = len(levels[j]) if columns.ignore_unknown else UNKNOWN
                codes.append(graph.codes(name, list(levels[j]), gaps=True, unknown=unknown))
            else:
                parts.append(graph.input(name, "DOUBLE", 1))
        numbers = graph.node("Concat", *parts, axis=1) if parts else None
    if numbers is not None and columns.mean is not None and columns.scale is not None:
        numbers = graph.node("Sub", numbers, graph.constant(columns.mean))
        numbers = graph.node("Div", numbers, graph.constant(columns.scale))
    absent = None
    # For other families NaN stays in the numbers and reaches the answer, which turns it into -1.
    if numbers is not None and not columns.complete:
        absent = graph.node("IsNaN", numbers)
    return RowNames(numbers, absent, codes)


def _mixture(graph: Graph, model: Model, rows: RowNames) -> str:
    """Logits of the mixture over the temperature, (n, K)."""
    logits = model.mixture.logits(model.theta)
    b, W = logits.b / model.temperature, logits.W / model.temperature
    return model.mixture.family.add_scores(graph, rows, W, graph.constant(b))


def _propensity(graph: Graph, propensity: Propensity, columns: Columns, rows: RowNames) -> str:
    """P(group | x), (n, M)."""
    coefficients, start = propensity.coefficients, 0
    # What a missing value adds, for each column. `propensity.gaps` counts numeric columns first,
    # whatever their places in X.
    gaps = np.zeros((len(columns.names), len(coefficients)))
    gaps[list(propensity.gaps)] = coefficients[:, coefficients.shape[1] - len(propensity.gaps) :].T
    scores = graph.constant(propensity.intercepts)
    if propensity.numbers is not None:
        assert rows.numbers is not None
        d = len(propensity.numbers.mean)
        n_slots = sum(int(slot.max()) + 1 for slot in propensity.slots)
        start = coefficients.shape[1] - n_slots - len(propensity.gaps)
        z = graph.node("Sub", rows.numbers, graph.constant(propensity.numbers.mean))
        z = graph.node("Mul", z, graph.constant(1 / propensity.numbers.deviation))
        z = graph.known(z, rows.absent)
        # All products, or only the squares where there are too many.
        pairs = np.triu_indices(d) if start == d + d * (d + 1) // 2 else (np.arange(d),) * 2
        powers = graph.node("Concat", z, graph.products(z, *pairs), axis=1)
        weights = graph.constant(coefficients[:, :start].T)
        scores = graph.node("Add", graph.node("MatMul", powers, weights), scores)
        if rows.absent is not None:
            marks = graph.node("MatMul", graph.flags(rows.absent), graph.constant(gaps[:d]))
            scores = graph.node("Add", marks, scores)
    own = gaps[len(columns.numeric) :]
    parts = zip(rows.codes, columns.levels, propensity.slots, own, strict=True)
    for codes, levels, slot, absent in parts:
        width = int(slot.max()) + 1
        # A category that the sample did not hold counts as a rare one.
        slots = np.append(slot, np.full(len(levels) - len(slot), slot.max()))
        table = np.vstack([coefficients[:, start : start + width].T[slots], absent])
        scores = graph.node("Add", graph.look_up(table, codes), scores)
        start += width
    return graph.node("Softmax", scores, axis=1)


def _answer(graph: Graph, logits: str) -> None:
    """The outputs. A sum is NaN where anything in it is."""
    probabilities = graph.node("Softmax", logits, axis=1, output=PROBABILITIES)
    axes = graph.constant(np.array([1]))
    unknown = graph.node("IsNaN", graph.node("ReduceSum", probabilities, axes, keepdims=0))
    # Of the logits: probabilities may round to the same number where logits differ.
    largest = graph.node("ArgMax", logits, axis=1, keepdims=0)
    graph.node("Where", unknown, graph.constant(np.array(UNKNOWN)), largest, output=LABEL)
