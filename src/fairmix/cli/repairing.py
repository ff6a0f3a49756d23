"""A repair: new labels for the rows of files, and what they cost."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from fairmix.cli.auditing import least_of, profile_of, verdict_on_all, write_report
from fairmix.cli.files import InputFiles
from fairmix.cli.screen import wrapped
from fairmix.cli.texts import attribute_text, verdict_text
from fairmix.criteria import Limit
from fairmix.input.groups import encode_labels, match_groups
from fairmix.kernels.totals import Rows
from fairmix.repair import FairLabels, fair_labels
from fairmix.repair.clusters import Described
from fairmix.results.profile import Profile
from fairmix.results.text import aligned
from fairmix.results.verdict import Verdict, judge_counts

NOISE_NAME = "-1"


@dataclass(frozen=True, eq=False)
class Stand:
    """Who is in the clusters, and the verdict on each attribute."""

    profile: Profile
    verdicts: dict[str, Verdict]

    @classmethod
    def of(
        cls, profile: Profile, placed: NDArray[np.intp], limit: Limit, min_group_size: int
    ) -> Stand:
        """Judged without noise, which is no cluster."""
        verdicts = {
            title: judge_counts(
                own.counts[:, placed], own.groups, limit, min_group_size=min_group_size
            )
            for title, own in profile.by_attribute.items()
        }
        return cls(profile, verdicts)

    @property
    def verdict(self) -> Verdict:
        """On all attributes."""
        return verdict_on_all(self.verdicts) if self.profile.attributes else self._only

    @property
    def _only(self) -> Verdict:
        (only,) = self.verdicts.values()
        return only

    @property
    def figures(self) -> dict[str, Any]:
        """For a program."""
        figures = self.verdict.figures
        if not self.profile.attributes:
            return figures
        each = {title: verdict.figures for title, verdict in self.verdicts.items()}
        return {**figures, "attributes": each}

    def lines(self, when: str) -> list[str]:
        """For a person."""
        if not self.profile.attributes:
            return [f"{when} {verdict_text(self.verdict, 'gap')}"]
        own = [
            attribute_text(title, self.verdicts[title], least_of(one, self.verdicts[title]))
            for title, one in self.profile.by_attribute.items()
        ]
        return [f"{when} {verdict_text(self.verdict, 'gap')}", *own]


@dataclass(frozen=True, eq=False)
class Repaired:
    """Labels before and after, by the name of the cluster.

    Attributes
    ----------
    rows : InputFiles
        The files.
    kept : (N,) bool array
        Rows that have labels.
    ids : tuple of str and Arrow column, or None
        What is copied beside the labels, of all rows, and its name.
    names : list of str
        Clusters.
    old, new : (n,) int array
        Cluster of each row that is kept.
    people : (n,) int array
        A number for those that belong to the same groups.
    found : FairLabels
        What the labels cost.
    before, after : Stand
        Who was in the clusters and who is, and whether the rule was and is met.
    """

    rows: InputFiles
    kept: NDArray[np.bool_]
    ids: tuple[str, pa.ChunkedArray] | None
    names: list[str]
    old: NDArray[np.intp]
    new: NDArray[np.intp]
    people: NDArray[np.intp]
    found: FairLabels
    before: Stand
    after: Stand

    def write_labels(self, path: Path) -> None:
        """All rows in the order of the files; those that are left out have no labels."""
        columns: dict[str, Any] = {}
        if self.ids is not None:
            columns[self.ids[0]] = self.ids[1]
        for name, codes in (("old", self.old), ("new", self.new)):
            text = np.full(len(self.kept), None, dtype=object)
            text[self.kept] = np.array(self.names, dtype=object)[codes]
            columns[name] = pa.array(text, type=pa.string())
        moved = np.full(len(self.kept), False)
        moved[self.kept] = self.old != self.new
        columns["moved"] = pa.array(moved)
        table = pa.table(columns)
        pcsv.write_csv(table, path) if path.suffix == ".csv" else pq.write_table(table, path)

    def write_reports(self, before: Path, after: Path) -> None:
        """What the clusters were made of, and are, with the moves between them."""
        from fairmix.report.document import hidden_clusters
        from fairmix.report.moves import Moves

        n_clusters = len(self.names)
        moved = np.zeros((self.people.max() + 1, n_clusters, n_clusters), dtype=np.intp)
        np.add.at(moved, (self.people, self.old, self.new), 1)
        was = self.before
        moves = Moves(moved, hidden_clusters(was.profile, was.verdicts, "gap"))
        write_report(self.rows, was.profile, was.verdicts, "gap", before)
        write_report(self.rows, self.after.profile, self.after.verdicts, "gap", after, moves)

    def moves(self) -> list[tuple[str, str, int]]:
        """From where, to where and how many rows, the most first."""
        pairs, counts = np.unique(
            np.column_stack([self.old, self.new])[self.old != self.new], axis=0, return_counts=True
        )
        order = np.argsort(-counts, kind="stable")
        return [(self.names[pairs[i, 0]], self.names[pairs[i, 1]], int(counts[i])) for i in order]

    def _shown(self) -> tuple[list[tuple[str, str, int]], int]:
        """Moves of enough rows to be shown, and how many are not."""
        from fairmix.report.disclosure import SMALLEST

        moves = self.moves()
        shown = [move for move in moves if move[2] >= SMALLEST]
        return shown, len(moves) - len(shown)

    def text(self) -> str:
        """Moves and costs, for a person."""
        from fairmix.report.disclosure import SMALLEST

        shown, hidden = self._shown()
        n_moved = int((self.old != self.new).sum())
        lines = [f"{n_moved:,} of {len(self.old):,} rows moved ({n_moved / len(self.old):.1%})."]
        if shown:
            table = [["from", "to", "rows"], *([a, b, f"{n:,}"] for a, b, n in shown)]
            lines.append(aligned(table, words=(0, 1)))
        if hidden:
            lines.append(f"({hidden} more moves of fewer than {SMALLEST} rows each)")
        found = self.found
        price = (
            f"Price: {found.price:.6g} in negative log-density, {found.price / len(self.old):.4g} "
            "a row."
        )
        if found.met:
            price += f" No labels under this rule are cheaper by more than {found.excess:.3g}."
        lines.append(wrapped(price))
        lines += ["", *self.before.lines("Before:"), *self.after.lines("After: ")]
        return "\n".join(lines)

    def metrics(self) -> dict[str, Any]:
        """For a program."""
        shown, hidden = self._shown()
        found = self.found
        return {
            "data": self.rows.name,
            "rows": len(self.old),
            "moved": int((self.old != self.new).sum()),
            "moves": [{"from": a, "to": b, "rows": n} for a, b, n in shown],
            "moves_hidden": hidden,
            "cost": found.cost,
            "lower_bound": found.lower_bound,
            "excess": found.excess,
            "price": found.price,
            "rule": {
                "parameter": self.after.verdict.parameter,
                "bound": self.after.verdict.bound,
            },
            "before": self.before.figures,
            "after": self.after.figures,
        }


def repair_data(
    rows: InputFiles,
    limit: Limit,
    *,
    attributes: Literal["intersect", "each"],
    min_group_size: int,
    ties: Literal["split", "together"],
    id_column: str | None,
    n_jobs: int,
) -> Repaired:
    """Find labels for the rows of files."""
    before = profile_of(rows, each=attributes == "each")
    blocks = list(rows.marked_blocks())
    kept = np.concatenate([block.kept for block in blocks])
    table = pa.concat_tables([block.table for block in blocks]).filter(pa.array(kept))
    ids = None
    if id_column is not None:
        parts = list(rows.blocks.each(lambda frame: frame.table[id_column]))
        ids = id_column, pa.chunked_array([chunk for part in parts for chunk in part.chunks])
    names = list(before.clusters)
    old = match_groups(table[rows.labels[0]], names, argument="labels", noun="clusters")
    placed = np.array([k for k, name in enumerate(names) if name != NOISE_NAME], dtype=np.intp)
    if len(placed) < 2:
        raise ValueError(
            f"Column {rows.labels[0]!r} has {len(placed)} clusters beside noise, and a repair "
            "needs two to choose from."
        )
    # Numbers of the clusters without that of noise.
    number = np.full(len(names), -1, dtype=np.intp)
    number[placed] = np.arange(len(placed))
    codes = number[old]
    counted = codes >= 0
    columns = _columns(table, rows)
    clusters = Described.of(columns, codes, np.ones(len(codes)), len(placed))
    rule: dict[str, Any] = {limit.parameter: limit.bound}
    found = fair_labels(
        clusters.cost(None, columns),
        table.select(rows.sensitive),
        **rule,
        attributes=attributes,
        min_group_size=min_group_size,
        missing_groups=rows.missing_groups,
        sample_weight=None if counted.all() else counted.astype(np.float64),
        ties=ties,
        n_jobs=n_jobs,
    )
    new = np.where(counted, placed[found.labels], old)
    after = Profile(
        numeric=rows.numeric,
        categorical=rows.categorical,
        groups=before.attributes or before.groups,
        clusters=before.clusters,
        n_clusters=len(names),
        title=before.title,
        missing_groups=rows.missing_groups,
    )
    after.add(table, np.array(names)[new], table.select(rows.sensitive))
    stands = [Stand.of(own, placed, limit, min_group_size) for own in (before, after)]
    return Repaired(rows, kept, ids, names, old, new, _people(table, rows), found, *stands)


def _people(table: pa.Table, rows: InputFiles) -> NDArray[np.intp]:
    """A number for rows that belong to the same groups, also where these are missing."""
    codes = [encode_labels(table[name], name, "group")[0] for name in rows.sensitive]
    return np.asarray(np.unique(np.column_stack(codes), axis=0, return_inverse=True)[1].ravel())


def _columns(table: pa.Table, rows: InputFiles) -> Rows:
    """Features; a category that is missing is one of its own."""
    numbers = []
    for name in rows.numeric:
        values = table[name].cast(pa.float64()).to_numpy()
        absent = int((~np.isfinite(values)).sum())
        if absent:
            raise ValueError(
                f"Column {name!r} lacks {absent} values, and a repair needs them all. Leave it "
                f"out with --drop {name}, or fill them in."
            )
        numbers.append(values)
    codes = [encode_labels(table[name], name, "group")[0] for name in rows.categorical]
    return Rows(
        np.column_stack(numbers) if numbers else None,
        np.column_stack(codes).astype(np.intp) if codes else None,
    )
