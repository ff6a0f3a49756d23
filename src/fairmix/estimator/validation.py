"""Validation: what scikit-learn asks of the input of an estimator, and a little more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
from sklearn.utils.validation import check_array, validate_data

from fairmix.fitting.stream import Stream
from fairmix.input.columns import Tabular, as_frame, check_types, has_categories
from fairmix.input.floats import LARGEST, as_floats
from fairmix.input.sources import in_blocks
from fairmix.solvers import SOLVERS
from fairmix.tables import is_path

# scikit-learn turns other numbers into the first of these.
NUMERIC = (np.float64, np.float32)
# Parameters that count something.
COUNTS = (
    *("n_components", "n_init", "max_iter", "min_group_size"),
    *("batch_size", "subsample", "fairness_sample_size"),
)
# Parameters of `fit` alone, and the value at which they ask for nothing.
ONLY_FIT = {
    "batch_size": None,
    "subsample": None,
    "fairness_sample_replace": False,
    "checkpoint": None,
}


@dataclass(frozen=True)
class EstimatorCheck:
    """Compares features with those of the fit, or learns their names and number.

    Attributes
    ----------
    estimator : BaseEstimator
        Its ``n_features_in_`` and ``feature_names_in_`` are compared, or set.
    categorical_features : "from_dtype", None or array-like
        Which columns are categorical.
    reset : bool
        Whether this is a fit, which sets them.
    """

    estimator: Any
    categorical_features: object
    reset: bool

    def names(self, nothing: Any) -> None:
        """Compare the names, or the number of columns, of a table without rows."""
        validate_data(self.estimator, nothing, reset=self.reset, skip_check_array=True)

    def table(self, X: Any) -> Tabular:
        """X as a data frame or a checked array; nothing is read as other numbers in silence."""
        _refuse_silent_conversions(X)
        frame = as_frame(X)
        # Categories may be strings, so a table that holds some is checked column by column.
        categorical = has_categories(frame, self.categorical_features)
        how: dict[str, Any] = {"dtype": NUMERIC, "ensure_all_finite": "allow-nan"}
        if frame is None:
            if categorical:
                # Objects must stay as they are; `Columns` checks the numbers among them.
                how = {"dtype": None, "ensure_all_finite": False}
            with as_floats("X"):
                return np.asarray(validate_data(self.estimator, X, reset=self.reset, **how))
        check_types(frame, self.categorical_features)
        # The frame, because an array of its values has no names.
        self.names(frame.to_native())
        # A table without rows goes on, so that scikit-learn's own message refuses it.
        if categorical and len(frame):
            return frame
        # Single precision if all columns have it, as in a table with categories.
        single = all(dtype == nw.Float32 for dtype in set(frame.schema.values()))
        how["dtype"] = None if categorical else np.float32 if single else np.float64
        with as_floats("X"):
            values = frame.to_numpy()
            return np.asarray(check_array(values, input_name="X", estimator=self.estimator, **how))


def _refuse_silent_conversions(X: Any) -> None:
    if is_path(X):
        raise ValueError(f"X={X!r} names files, which this method does not read. Give a table.")
    if in_blocks(X):
        raise ValueError(
            f"X is a {type(X).__name__}, which this method does not take. Give a table: "
            "X.compute() of a Dask collection, X.collect() of a lazy frame, X.read_all() of a "
            "reader."
        )
    if isinstance(X, np.ma.MaskedArray) and np.ma.is_masked(X):
        masked = np.count_nonzero(np.ma.getmaskarray(X))
        raise ValueError(
            f"X is a masked array with {masked} masked values, which would "
            "count as numbers. Drop these rows, or fill the values: X.filled(...)."
        )
    if isinstance(X, np.ndarray) and X.dtype.kind in "mM":
        raise ValueError(
            f"X has type {X.dtype}, not numbers. Convert it, for example to days since a date."
        )


def check_parameters(estimator: Any) -> None:
    """Refuse parameters of a wrong type or value, and those that contradict each other."""
    estimator._validate_params()
    check_numbers(estimator.get_params(deep=False))
    if estimator.assignment == "aware" and not SOLVERS[estimator.solver].tilts:
        raise ValueError(
            f"assignment='aware' needs solver='dual', got solver={estimator.solver!r}: the paper's "
            "solvers have no tilt by group. Set solver='dual' or assignment='blind'."
        )
    _check_rule(estimator)
    if estimator.batch_size is not None and estimator.subsample is not None:
        raise ValueError(
            f"batch_size={estimator.batch_size} and subsample={estimator.subsample} are two ways "
            "to see fewer rows. Set one of them to None."
        )
    if estimator.ties == "split" and estimator.gap_of == "probabilities":
        raise ValueError(
            "ties='split' shares labels out so that they meet a bound, but "
            "gap_of='probabilities' sets none on them. Set gap_of='labels' or ties='together'."
        )
    if estimator.ties == "split" and estimator.fairness_strength not in ("auto", 0):
        raise ValueError(
            "ties='split' shares labels out so that they meet a bound, but "
            f"fairness_strength={estimator.fairness_strength!r} sets none. Set "
            "fairness_strength='auto' or ties='together'."
        )


def _check_rule(estimator: Any) -> None:
    """Refuse two rules at once, and a ratio where only a gap can be bounded."""
    ratios = [name for name in ("min_ratio", "min_balance") if getattr(estimator, name) is not None]
    given = ratios if estimator.max_gap == "auto" else ["max_gap", *ratios]
    for name in given:
        _check_bounds(name, getattr(estimator, name))
    if len(given) > 1:
        said = " and ".join(f"{name}={getattr(estimator, name)}" for name in given)
        raise ValueError(
            f"{said} are two rules, and a fit has one. Keep one of them; "
            "leave the others at max_gap='auto', min_ratio=None, min_balance=None."
        )
    if not ratios:
        return
    said = f"{ratios[0]}={getattr(estimator, ratios[0])}"
    if estimator.fairness_strength != "auto":
        raise ValueError(
            f"{said} is a bound, and fairness_strength={estimator.fairness_strength!r} weighs a "
            "gap instead. Set fairness_strength='auto'."
        )
    if estimator.solver == "gd":
        raise ValueError(f"{said} needs solver='dual' or 'em', got solver='gd'. Set solver='dual'.")


def _check_bounds(name: str, bounds: Any) -> None:
    """Refuse numbers by attribute that are out of range."""
    if not isinstance(bounds, dict):
        return
    if not bounds:
        raise ValueError(f"{name} is an empty dict. Give a number for each attribute.")
    for title, bound in bounds.items():
        number = isinstance(bound, Real) and not isinstance(bound, bool)
        if not number or not (bound >= 0 if name == "max_gap" else 0 < bound <= 1):
            allowed = "from 0" if name == "max_gap" else "above 0 and at most 1"
            raise ValueError(f"{name}[{title!r}]={bound!r}. Give a number {allowed}.")


def check_numbers(parameters: Mapping[str, Any]) -> None:
    """Refuse numbers that no float holds, and counts that are no numbers."""
    for name, value in parameters.items():
        # In Python a bool is a whole number, and so passes for a count of one.
        if isinstance(value, bool) and name in COUNTS:
            raise ValueError(f"{name}={value} is no number. Give a whole number of at least 1.")
        if isinstance(value, int) and abs(value) > LARGEST:
            raise ValueError(
                f"{name} is a whole number of about 2 to the power of {value.bit_length()}, too "
                "large for float64. Give a smaller one."
            )


def check_checkpoint(path: object) -> None:
    """Refuse a path that a checkpoint could not be written to: the first is written late."""
    if path is None:
        return
    given = Path(str(path))
    if not given.absolute().parent.is_dir():
        raise FileNotFoundError(
            f"checkpoint={str(path)!r}: there is no folder {str(given.absolute().parent)!r}. Make "
            "it, or give another path."
        )
    # A pipe would make the reader wait.
    if given.exists() and not given.is_file():
        raise ValueError(f"checkpoint={str(path)!r} is no regular file. Give another path.")


def check_stream(estimator: Any, stream: Stream | None) -> None:
    """Refuse parameters that a stream cannot have, or cannot change on its way."""
    for name, silent in ONLY_FIT.items():
        # Refused rather than ignored: the user would believe that it has an effect.
        if getattr(estimator, name) != silent:
            raise ValueError(
                f"{name}={getattr(estimator, name)!r} is for fit, which can see a row twice. Set "
                f"{name}={silent} for partial_fit."
            )
    if estimator.attributes == "each":
        raise ValueError(
            "attributes='each' needs the rows of all attributes at once, which a stream does not "
            "keep. Set attributes='intersect' for partial_fit."
        )
    if estimator.ties == "split":
        raise ValueError(
            "ties='split' shares the equal rows of a table out, and a stream keeps no table. "
            "Set ties='together' for partial_fit."
        )
    sample = estimator.fairness_sample_size
    if sample is not None and sample < 1:
        raise ValueError(
            f"fairness_sample_size={sample} is a share of all rows, and "
            "partial_fit does not know how many will come. Give a number of rows."
        )
    # After what only a stream refuses, whose messages say what to do here.
    check_parameters(estimator)
    if stream is None and hasattr(estimator, "fitted_") and estimator.fitted_.streamed:
        raise ValueError(
            "This model comes from a file and was learned from a stream. A file does not hold the "
            "sample of rows that partial_fit goes on with: pickle the estimator to go on with its "
            "stream, or begin a new one with sklearn.base.clone(model)."
        )
    known = {} if stream is None else stream.parameters
    for name, value in known.items():
        # Compared as text, because an array among the parameters has no single truth value.
        if repr(getattr(estimator, name)) != value:
            raise ValueError(
                f"{name}={getattr(estimator, name)!r}, but the stream began with {value}. Set it "
                "back, or clone the estimator for a new stream."
            )
