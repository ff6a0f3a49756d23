"""A fit from the command line: rows in memory or in files, labels, profile and figures."""

from __future__ import annotations

import shlex
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from fairmix import FairMixture, __version__, pareto_front, select_n_components
from fairmix.certificate import Certificate
from fairmix.cli.data import DROP_ROWS, INTEGRATE, Data, fit_rows, held_rows
from fairmix.cli.outputs import LabelFile
from fairmix.path_table import ParetoFront
from fairmix.profile import Profile
from fairmix.verdict import verdict_of

# Rows of the samples that a number of clusters is chosen on, and that a front is fitted to.
CHOICE_ROWS = 20_000
FRONT_ROWS = 10_000
# Rows that a certificate is from, at most: more tell hardly more and need not fit in memory.
CERTIFIED_ROWS = 1_000_000
# Settings that do not change a result.
SILENT = ("n_jobs", "verbose")
# What a report says of missing values.
MISSING = {
    INTEGRATE: "integrated out of the likelihood: a row counts with the values that it has",
    DROP_ROWS: "rows without a value are left out",
}
FRONT_GAPS = (0.0, 0.01, 0.02, 0.05, 0.1, np.inf)


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted model and what is known of it on the data."""

    model: FairMixture
    data: Data
    profile: Profile
    certificate: Certificate | None
    front: ParetoFront | None
    seconds: float
    digest: str

    @property
    def met(self) -> bool:
        """Whether the bound holds, within what labels can resolve."""
        return verdict_of(self.model).holds

    def facts(self) -> dict[str, str]:
        """What a report says of data and run."""
        facts = {
            **facts_of(self.data, self.digest),
            "rows of the fit": f"{self.profile.n_rows:,}",
        }
        if self.front is not None:
            facts["rows of the front"] = f"{self.front.models[0].group_sizes_.sum():,}"
        return facts

    def metrics(self) -> dict[str, Any]:
        """The figures, for programs."""
        model, data = self.model, self.data
        return {
            "fairmix": __version__,
            "command": command(),
            "data": {
                "name": data.name,
                "sha256": self.digest,
                "rows": data.n_rows,
                "rows_of_the_fit": self.profile.n_rows,
                "sensitive": data.sensitive,
                "numeric": data.numeric,
                "categorical": data.categorical,
                "left_out": data.left_out,
                "missing": data.gaps,
                "missing_values": data.missing,
            },
            "settings": {
                name: value
                for name, value in model.get_params().items()
                if name not in SILENT and isinstance(value, str | int | float | bool)
            },
            "n_clusters": model.n_components,
            "non_empty": int((self.profile.counts.sum(axis=0) > 0).sum()),
            "max_gap": model.max_gap,
            "met": self.met,
            "gap": float(model.gap_),
            "label_gap": float(model.label_gap_),
            "soft_gap": float(model.soft_gap_),
            "balance": float(model.balance_),
            "certificate": None if self.certificate is None else asdict(self.certificate),
            "counts": dict(zip(self.profile.groups, self.profile.counts.tolist(), strict=True)),
            "seconds": round(self.seconds, 3),
        }


def command() -> str:
    """What the user typed."""
    return shlex.join(["fairmix", *sys.argv[1:]])


def facts_of(data: Data, digest: str) -> dict[str, str]:
    """What a report says of its data, beside what it finds itself."""
    facts = {
        "data": data.name,
        "rows": f"{data.n_rows:,}",
        "SHA-256 of the data": digest,
        "command": command(),
    }
    if data.gaps:
        facts["missing values"] = MISSING[data.missing]
    return facts


def fit_data(
    estimator: FairMixture,
    data: Data,
    folder: Path,
    labels: str,
    *,
    choose: bool,
    draw_front: bool,
    memory: int,
) -> Fit:
    """Fit, assign all rows and write their labels."""
    started = time.perf_counter()
    model = estimator.set_params(categorical_features=list(data.categorical) or None)
    if choose:
        X, groups = sampled(data, fit_rows, CHOICE_ROWS)
        chosen = select_n_components(
            model, X, sensitive_features=groups, verbose=int(model.verbose)
        )
        model.set_params(n_components=chosen.best)
    _learn(model, data, folder, in_memory=data.n_bytes <= memory)
    profile = _assign(model, data, folder / labels)
    certificate = None
    if data.hold_out:
        X, groups = sampled(data, held_rows, round(CERTIFIED_ROWS / data.hold_out))
        certificate = model.certify(X, groups)
    front = None
    if draw_front:
        X, groups = sampled(data, fit_rows, FRONT_ROWS)
        bounds = sorted({*FRONT_GAPS, model.max_gap})
        front = pareto_front(
            model,
            X,
            sensitive_features=groups,
            max_gaps=bounds,
            verbose=int(model.verbose),
        )
    seconds = time.perf_counter() - started
    digest = data.digest(shown=bool(model.verbose))
    return Fit(model, data, profile, certificate, front, seconds, digest)


def sampled(data: Data, rows: Any, at_most: int) -> tuple[pa.Table, pa.Table]:
    """Features and groups of some rows, a random sample if they are many."""
    table = data.gather(rows, at_most)
    return table.select(data.features), table.select(data.sensitive)


def _learn(model: FairMixture, data: Data, folder: Path, *, in_memory: bool) -> None:
    names = list(data.sensitive)
    if not in_memory:
        with data.source(folder) as source:
            model.fit(source, sensitive_features=names)
        return
    table = data.gather(fit_rows)
    if len(names) == 1:
        model.fit(table, sensitive_features=names[0])
    else:
        model.fit(table.select(data.features), sensitive_features=table.select(names))
        # As a fit of files: predict may get a table with these columns.
        model._aside = data.sensitive


def _assign(model: FairMixture, data: Data, path: Path) -> Profile:
    """Write the label of each row, and profile the clusters of the rows of the fit."""
    profile = Profile(
        numeric=data.numeric,
        categorical=data.categorical,
        groups=model.groups_.tolist(),
        n_clusters=model.n_components,
        title=" & ".join(data.sensitive),
    )
    with LabelFile(path, held_out=data.hold_out > 0) as file:
        for part in data.parts():
            table = part.table.filter(pa.array(part.kept))
            labels = predict_block(model, table, data.features, data.sensitive)
            file.add(labels, part.kept, part.held if data.hold_out else None)
            learned = part.fit[part.kept]
            if learned.any():
                block = table.filter(pa.array(learned))
                profile.add(block, labels[learned], block.select(data.sensitive))
    return profile


def predict_block(
    model: FairMixture, table: pa.Table, features: tuple[str, ...], sensitive: tuple[str, ...]
) -> Any:
    """Labels of a few rows."""
    if len(table) == 0:
        return np.empty(0, dtype=np.int32)
    groups = table.select(sensitive) if model._model.aware else None
    return model.predict(table.select(features), sensitive_features=groups)
