"""A fit from the command line: rows in memory or in files, labels, profile and figures."""

from __future__ import annotations

import shlex
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from fairmix import FairMixture
from fairmix._version import __version__
from fairmix.cli.choosing import Choice, choose_number
from fairmix.cli.files import DROP_ROWS, INTEGRATE, InputFiles, MarkedBlock, fit_rows, held_rows
from fairmix.criteria import AnyLimit, ByAttribute, MinBalance, best_balance, limit_of
from fairmix.estimator.labels import piece_labels
from fairmix.export.labels import LabelFile
from fairmix.input.groups import encode_groups
from fairmix.kernels.totals import IntArray
from fairmix.results.certificate import Certificate
from fairmix.results.profile import Profile
from fairmix.results.proxies import Proxies, proxies_of
from fairmix.results.ratio import LeastRatio
from fairmix.results.verdict import MET, MET_FOR_JUDGED, NOT_JUDGED, Verdict, verdict_of
from fairmix.studies import ParetoFront
from fairmix.system.clean import clean
from fairmix.tables import BLOCK_ROWS
from fairmix.trials.walks import Trials

# Rows of the samples that a number of clusters is chosen on, and that other bounds are fitted to.
# Both take several fits, so each must be small beside the one fit that the user asks for.
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
# As in pareto_front, but the plain mixture, for comparison, in place of a bound of 0.005 or 0.95.
FRONT_GAPS = (0.0, 0.01, 0.02, 0.05, 0.1, np.inf)
FRONT_RATIOS = (1.0, 0.9, 0.8, 0.6, 0.4, 0.0)


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted model and what is known of it on the data."""

    model: FairMixture
    data: InputFiles
    profile: Profile
    certificate: Certificate | None
    front: ParetoFront | None
    choice: Choice | None
    proxies: dict[str, Proxies]
    seconds: float
    digest: str

    @property
    def verdict(self) -> Verdict:
        """Whether the bound is met on the rows of the fit."""
        return verdict_of(self.model)

    @property
    def least(self) -> LeastRatio | None:
        """The smallest ratio, of what the rule is on, and where it is."""
        return self.model.fitted_.least_ratio

    def facts(self) -> dict[str, str]:
        """What a report says of data and run."""
        # Late, as in `facts_of`.
        from fairmix.report.disclosure import FEWEST

        sizes = self.profile.counts.sum(axis=1)
        facts = facts_of(self.data, self.digest, [*sizes.tolist(), *self._held_sizes()])
        if self.profile.attributes:
            # Other attributes show all rows, so few in any group would follow from a sum.
            if sizes.min() >= FEWEST:
                facts["rows of the fit"] = f"{self.profile.n_rows:,}"
            return facts
        judged = np.isin(self.profile.groups, list(self.model.unjudged_groups_), invert=True)
        # As in the report, which shows all groups where fewer than two are judged.
        if judged.sum() < 2:
            judged[:] = True
        judged &= sizes >= FEWEST
        # As many as the report shows: what it does not show must not follow from a sum.
        facts["rows of the fit"] = f"{sizes[judged].sum():,}"
        if self.front is not None and self.front.models[0].fitted_.groups.sizes.min() >= FEWEST:
            facts["rows of the front"] = f"{self.front.models[0].fitted_.groups.sizes.sum():,}"
        return facts

    def _held_sizes(self) -> list[int]:
        """Held-out rows of each group."""
        if self.certificate is None:
            return []
        each = list(self.certificate.attributes.values()) or [self.certificate]
        return [n for one in each for n in (one.group_sizes | one.verdict.unjudged).values()]

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
                # Lists of columns are among the data above, and generators have no JSON.
                if name not in SILENT and isinstance(value, str | int | float | bool)
            },
            "n_clusters": model.n_components,
            "choice_of_k": None if self.choice is None else self.choice.to_dict(),
            "non_empty": int((self.profile.counts.sum(axis=0) > 0).sum()),
            "rule": _asked(model.fitted_.rule.limit),
            "max_gap": model.fitted_.rule.max_gap,
            **self.verdict.figures,
            "gap": float(model.gap_),
            "label_gap": float(model.label_gap_),
            "soft_gap": float(model.soft_gap_),
            "ratio": float(model.ratio_),
            "balance": float(model.balance_),
            "smallest_ratio": None if self.least is None else asdict(self.least),
            **({"attributes": attribute_figures(model)} if self.profile.attributes else {}),
            "proxies": {title: asdict(found) for title, found in self.proxies.items()},
            "held_out": self._held_out(),
            "certificate": self._certified(),
            "counts": dict(zip(self.profile.groups, self.profile.counts.tolist(), strict=True)),
            "seconds": round(self.seconds, 3),
        }

    def _held_out(self) -> dict[str, Any] | None:
        """The verdict on held-out rows."""
        if self.certificate is None:
            return None
        found = self.certificate
        return {
            **found.verdict.figures,
            "rows": found.n_rows,
            "chance": found.chance,
            "within_chance": found.by_chance,
        }

    def _certified(self) -> dict[str, Any] | None:
        if self.certificate is None:
            return None
        fields = asdict(self.certificate)
        # Both are in held_out already.
        return {name: fields[name] for name in fields if name not in ("verdict", "chance")}


def attribute_figures(model: FairMixture) -> dict[str, dict[str, Any]]:
    """The verdict on each attribute, and its figures."""
    found = {}
    for title, own in model.fitted_.by_attribute.items():
        least = own.least_ratio
        found[title] = {
            **own.verdict.figures,
            "gap": float(own.gap),
            "ratio": float(own.fairness.ratio),
            "balance": float(own.fairness.balance),
            "smallest_ratio": None if least is None else asdict(least),
        }
    return found


def _asked(limit: AnyLimit | None) -> dict[str, Any] | None:
    """The parameter of a rule and its number, or one for each attribute."""
    if limit is None:
        return None
    if isinstance(limit, ByAttribute):
        bounds = {title: one.bound for title, one in limit.limits.items()}
        return {"parameter": limit.parameter, "bound": bounds}
    return {"parameter": limit.parameter, "bound": limit.bound}


def command() -> str:
    """What the user typed."""
    # An argument may hold anything, and reports are for screens.
    return clean(shlex.join(["fairmix", *sys.argv[1:]]))


def facts_of(data: InputFiles, digest: str, sizes: Sequence[int]) -> dict[str, str]:
    """What a report says of its data, beside what it finds itself.

    ``sizes`` are the rows of all groups, in every part that the report tells apart.
    """
    # Late, because the report brings its template engine and most commands write none.
    from fairmix.report.disclosure import FEWEST

    # All rows less those of the report would tell how few the others are.
    others = [*sizes, *(data.lacking.values() if data.missing_groups == "drop" else ())]
    if data.needed:
        # At least as many rows are left out for want of a value.
        others.append(max(data.gaps[name] for name in data.needed))
    few = any(size < FEWEST for size in others)
    facts = {
        "data": data.name,
        "rows": f"about {round(data.n_rows, -2):,}" if few else f"{data.n_rows:,}",
        "SHA-256 of the data": digest,
        "command": command(),
    }
    if data.gaps:
        facts["missing values"] = MISSING[data.missing]
    return facts


def fit_data(
    estimator: FairMixture,
    data: InputFiles,
    folder: Path,
    labels: str,
    *,
    choose: bool,
    draw_front: bool,
    memory: int,
    probabilities: bool = False,
) -> Fit:
    """Fit, assign all rows and write their labels."""
    started = time.perf_counter()
    model = estimator.set_params(categorical_features=list(data.categorical) or None)
    choice = None
    if choose:
        X, _ = sampled(data, fit_rows, CHOICE_ROWS)
        choice = choose_number(model, X, shown=bool(model.verbose))
        model.set_params(n_components=choice.best)
    _learn(model, data, folder, in_memory=data.n_bytes <= memory)
    profile = _assign(model, data, folder / labels, probabilities=probabilities)
    certificate = None
    if data.hold_out:
        # The limit is on all rows, of which only this share is held out.
        at_most = min(CERTIFIED_ROWS / data.hold_out, data.n_rows)
        X, groups = sampled(data, held_rows, round(at_most))
        if not len(X):
            raise ValueError(
                f"--hold-out {data.hold_out:g}: no row of {data.n_rows:,} is held out. Give a "
                "larger share."
            )
        certificate = _certify(model, X, groups)
    # One sample for both, which is one more reading of large files.
    X, groups = sampled(data, fit_rows, FRONT_ROWS)
    proxies = proxies_of(
        model.fitted_, X, groups, title=profile.title, missing=model.missing_groups
    )
    front = None
    # A front compares gaps, and without two judged groups there is none.
    if draw_front and model.verdict_ != NOT_JUDGED:
        # The sample has fewer rows of every group, which must not change who is judged.
        sketch = _for_sample(model, groups, profile.n_rows)
        trials = Trials(sketch, X, groups, verbose=int(model.verbose))
        front = ParetoFront(*trials.around(model, *_front_bounds(sketch, groups)))
    seconds = time.perf_counter() - started
    # After the clock is read, because hashing the files is no part of the fit.
    digest = data.digest()
    return Fit(model, data, profile, certificate, front, choice, proxies, seconds, digest)


def _for_sample(model: FairMixture, groups: pa.Table, n_rows: int) -> FairMixture:
    """An estimator that judges those groups of a sample that are judged in all rows, about."""
    smallest = max(1, round(model.min_group_size * min(1.0, len(groups) / n_rows)))
    settings = {**model.get_params(), "min_group_size": smallest}
    if isinstance(model.min_balance, float):
        # Groups of a sample may be further apart in size, and then allow for less.
        best = _best_balance(groups, model, smallest)
        settings["min_balance"] = min(settings["min_balance"], best)
    return FairMixture(**settings)


def _best_balance(groups: pa.Table, model: FairMixture, min_group_size: int) -> float:
    """The largest Balance that the judged groups of some rows allow for, in every attribute."""
    each = model.attributes == "each"
    found = encode_groups(groups, missing=model.missing_groups, each=each)
    best = []
    for own in found.attributes or (found,):
        judged = own.sizes[own.sizes >= min_group_size].astype(np.float64)
        best.append(best_balance(judged) if len(judged) > 1 else 1.0)
    return min(best)


def _front_bounds(model: FairMixture, groups: pa.Table) -> tuple[str, list[float]]:
    """The rule of a model, and bounds of it, its own among them."""
    limit = limit_of(
        max_gap=model.max_gap, min_ratio=model.min_ratio, min_balance=model.min_balance
    )
    # The command line sets no strength, which would take the place of a rule, and one number.
    assert limit is not None
    limit = limit.of("")
    bounds: Sequence[float] = FRONT_RATIOS if limit.at_least else FRONT_GAPS
    if isinstance(limit, MinBalance):
        best = _best_balance(groups, model, model.min_group_size)
        # Three digits are enough for a name, and rounded down they can be reached.
        bounds = [np.floor(1000 * share * best) / 1000 for share in bounds]
    tight_first = sorted({*map(float, bounds), limit.bound}, reverse=limit.at_least)
    return limit.parameter, tight_first


def _certify(model: FairMixture, X: pa.Table, groups: pa.Table) -> Certificate:
    """Certify; a group may have so few rows that none of them was in the fit."""
    # The map knows no such group, so its rows would be an error; it is named as not judged instead.
    known = {*list(model.fitted_.groups.names), *model.unjudged_groups_}
    each = bool(model.fitted_.groups.attributes)
    new: dict[str, int] = {}
    rows = np.ones(len(X), dtype=bool)
    for title, column in (
        zip(groups.column_names, groups.columns, strict=True) if each else [("", groups)]
    ):
        found = encode_groups(column, missing=model.missing_groups)
        for g, name in enumerate(found.names):
            if (own := f"{title}: {name}" if each else name) not in known:
                new[own] = int(found.sizes[g])
                rows &= found.codes != g
    certificate = model.certify(X.filter(pa.array(rows)), groups.filter(pa.array(rows)))
    if not new:
        return certificate
    verdict = certificate.verdict
    small = verdict.unjudged | new
    # With a group that nobody has judged, a plain "met" would promise too much.
    word = MET_FOR_JUDGED if verdict.word == MET else verdict.word
    return replace(certificate, verdict=replace(verdict, word=word, unjudged=small))


def sampled(data: InputFiles, rows: Any, at_most: int) -> tuple[pa.Table, pa.Table]:
    """Features and groups of some rows, a random sample if they are many."""
    table = data.gather(rows, at_most)
    return table.select(data.features), table.select(data.sensitive)


def _learn(model: FairMixture, data: InputFiles, folder: Path, *, in_memory: bool) -> None:
    names = list(data.sensitive)
    if not in_memory:
        with data.source(folder) as source:
            model.fit(source, sensitive_features=names)
        return
    table = data.gather(fit_rows)
    model.fit(table, sensitive_features=names)


def _assign(model: FairMixture, data: InputFiles, path: Path, *, probabilities: bool) -> Profile:
    """Write the label of each row, and profile the clusters of the rows of the fit."""
    profile = Profile(
        numeric=data.numeric,
        categorical=data.categorical,
        # Judged groups first, so that a table cut to a few groups shows those that count.
        groups=_groups_of(model, data.sensitive),
        n_clusters=model.n_components,
        title=" & ".join(data.sensitive),
        missing_groups=model.missing_groups,
    )
    with label_file(path, model, data, probabilities=probabilities) as file:
        for block, table, labels in labelled_blocks(model, data, data.features):
            file.add(
                labels,
                block.kept,
                block.held if data.hold_out else None,
                **beside_labels(model, data, block, table, data.features, probabilities),
            )
            learned = block.fit[block.kept]
            if learned.any():
                rows = table.filter(pa.array(learned))
                profile.add(rows, labels[learned], rows.select(data.sensitive))
    return profile


def label_file(
    path: Path, model: FairMixture, data: InputFiles, *, probabilities: bool
) -> LabelFile:
    """A file of labels, and of what stands beside them."""
    empty = data.blocks.schema.empty_table().select(data.carried)
    return LabelFile(
        path,
        held_out=data.hold_out > 0,
        beside=data.typed(empty).schema if data.carried else None,
        n_probabilities=model.fitted_.n_components if probabilities else 0,
    )


def beside_labels(
    model: FairMixture,
    data: InputFiles,
    block: MarkedBlock,
    rows: pa.Table,
    features: Sequence[str],
    probabilities: bool,
) -> dict[str, Any]:
    """Columns of the table and probabilities, where they are asked for."""
    found: dict[str, Any] = {}
    if data.carried:
        found["beside"] = block.table.select(data.carried)
    if probabilities:
        aware = model.fitted_.model.aware
        groups = rows.select(data.sensitive) if aware else None
        found["probabilities"] = (
            model.predict_proba(rows.select(features), sensitive_features=groups)
            if len(rows)
            else np.zeros((0, model.fitted_.n_components))
        )
    return found


def _groups_of(model: FairMixture, titles: Sequence[str]) -> list[str] | dict[str, list[str]]:
    """All groups of a fit; by attribute, where there are several."""
    groups = model.fitted_.groups
    if model.attributes != "each" or len(titles) < 2:
        return list(groups.known)
    found = {own.title: list(own.known) for own in groups.attributes}
    # An attribute with too few groups to judge is not among them.
    for title in titles:
        before = f"{title}: "
        names = [name.removeprefix(before) for name in groups.unjudged if name.startswith(before)]
        found.setdefault(title, names)
    return {title: found[title] for title in titles}


def labelled_blocks(
    model: FairMixture, data: InputFiles, features: tuple[str, ...]
) -> Iterator[tuple[MarkedBlock, pa.Table, IntArray]]:
    """The blocks of files, the rows of each that are kept, and their labels.

    The labels are those of one table of all rows that are kept, in which equal ones are looked for
    in runs.
    """
    # Blocks of files hold rows that are left out, so the rows that are kept are
    # cut anew into the runs that a table of them would have. Otherwise ties
    # would be split differently than in memory.
    waiting: deque[tuple[MarkedBlock, pa.Table]] = deque()
    rows, labels, n_runs = [], np.empty(0, dtype=np.int32), 0
    # None marks the end, at which an incomplete run is labelled as well.
    for block in chain(data.marked_blocks(), [None]):
        if block is not None:
            waiting.append((block, block.table.filter(pa.array(block.kept))))
            rows.append(waiting[-1][1])
        have = sum(map(len, rows))
        ready = have if block is None else have // BLOCK_ROWS * BLOCK_ROWS
        if ready:
            table = pa.concat_tables(rows)
            groups = table.select(data.sensitive)[:ready] if model.fitted_.model.aware else None
            found = piece_labels(model, table.select(features)[:ready], groups, n_runs)
            rows, labels = [table[ready:]], np.concatenate([labels, found])
            n_runs += ready // BLOCK_ROWS
        while waiting and len(waiting[0][1]) <= len(labels):
            done, table = waiting.popleft()
            yield done, table, labels[: len(table)]
            labels = labels[len(table) :]
