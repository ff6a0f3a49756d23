"""What a user writes; type checkers must agree with what is asserted here."""

from pathlib import Path
from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

import fairmix
from fairmix import FairAssignment, FairMixture, metrics
from fairmix.input.sources import DaskArray, DaskCollection
from fairmix.results import AttributeTables, Certificate, FairnessTable

X = np.zeros((90, 2))
groups = ["a", "b"] * 45


def use(collection: DaskCollection) -> None:
    model = FairMixture(3, max_gap="auto", assignment="aware", solver="dual", ties="together")
    assert_type(model.fit(X, sensitive_features=groups), FairMixture)
    assert_type(model.gap_, float)
    assert_type(model.verdict_, str)
    assert_type(model.n_iter_, int)
    assert_type(model.rates_, NDArray[Any] | None)
    assert_type(model.unjudged_groups_, dict[str, int])

    labels = model.predict(X, sensitive_features=groups)
    assert_type(labels, NDArray[np.integer[Any]])
    assert_type(model.predict(X, output="labels.parquet"), Path)
    assert_type(model.predict(collection), DaskArray)
    assert_type(model.predict_proba(collection), DaskArray)
    assert_type(model.predict_proba(X), NDArray[Any])
    assert_type(model.score_samples("people.parquet", output=Path("d.parquet")), Path)
    assert_type(model.score(X), float)
    assert_type(model.fairness_report(X, groups), FairnessTable | AttributeTables)
    assert_type(model.certify(X, groups), Certificate)
    assert_type(metrics.gap(labels, groups), float)
    assert_type(metrics.gap_scorer(model, X, groups), float)
    assert_type(fairmix.load(model.save("a.fairmix")), FairMixture)
    assert_type(FairAssignment(model, min_ratio=0.8).fit(X), FairAssignment)


def misuse() -> None:
    # Each line is an error for a type checker, or the comment would be one.
    FairMixture(3, assignment="blnd")  # type: ignore[arg-type]
    FairMixture(3, solver="newton")  # type: ignore[arg-type]
    FairMixture(3, gap_of="label")  # type: ignore[arg-type]
    FairMixture(3, max_gap="automatic")  # type: ignore[arg-type]
    print(fairmix.FairMixtures)  # type: ignore[attr-defined]
