"""Opening: what the user says about columns and what their values say make data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import pyarrow as pa
import typer
from joblib import effective_n_jobs

from fairmix import FairMixture
from fairmix.cli.beside import LabelledBlocks, labels_beside
from fairmix.cli.files import DROP_ROWS, INTEGRATE, InputFiles
from fairmix.cli.screen import counted, listed
from fairmix.input.guesses import FEATURES, MAX_CATEGORIES, Guess, guess_columns
from fairmix.tables import FileBlocks, Frame, Seal, column_names, find_files
from fairmix.tables.locations import File

# What a command says about rows, beside the way to read them.
DATA_SETTINGS = (
    "hold_out",
    "seed",
    "gaps",
    "missing",
    "missing_groups",
    "seal",
    "marked",
    "carried",
    "frames",
)
# Bytes of values that are kept in memory after the first look at them, unless the user says else.
MEMORY = 512 * 2**20


@dataclass(frozen=True)
class Choice:
    """What the user says about columns, by name; the fields are options of commands."""

    sensitive: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    numeric: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()

    @classmethod
    def of(cls, **given: Sequence[str] | None) -> Choice:
        """From what options hold."""
        # A name given twice is harmless, unless for two roles, which check refuses.
        return cls(**{name: tuple(dict.fromkeys(names or ())) for name, names in given.items()})

    def check(self, path: str, names: Sequence[str]) -> None:
        """Refuse columns that do not exist or are named for two roles."""
        seen: dict[str, str] = {}
        known = set(names)
        for option in (field.name for field in fields(self)):
            for name in getattr(self, option):
                if name not in known:
                    raise ValueError(
                        f"--{option} {name}: {path} has no such column. It has {listed(names)}."
                    )
                if name in seen:
                    raise typer.BadParameter(
                        f"Column {name!r} is given as --{seen[name]} and as --{option}. Choose one."
                    )
                seen[name] = option

    def kind(self, name: str) -> str | None:
        """The kind that the user gives a column."""
        return next((option for option in FEATURES if name in getattr(self, option)), None)

    @property
    def text(self) -> tuple[str, ...]:
        """Columns that a text file holds as text, whatever they look like."""
        # Codes of groups are names: as numbers, 01 and 1 would be one
        # group, and 1 would be shown as 1.0.
        return (*self.sensitive, *self.labels, *self.categorical)


def open_to_fit(path: str, choice: Choice, *, missing: str, **how: Any) -> InputFiles:
    """Files to fit, with the kinds that their columns seem to have.

    Parameters
    ----------
    path : str
        A file, a folder or a pattern.
    choice : Choice
        What the user says.
    missing : {"integrate", "drop-rows", "error"}
        What to do with rows that lack a value.
    **how
        ``dialect``, ``n_jobs`` and ``verbose`` of reading, ``memory`` that rows may take,
        ``append`` to carry all columns to a file of labels,
        ``missing_groups``, ``hold_out`` and ``seed`` of `InputFiles`. With
        ``missing_groups="error"``, rows without a group can only be left out.
    """
    # Before the first look at the files, to be compared after the last.
    how |= {"files": _files(path, how)}
    how |= {"seal": Seal.of(how["files"], shown=how["verbose"])}
    blocks, guesses = _scan(path, choice, how)
    for name in choice.sensitive:
        _check_groups(guesses[name], alone=how.get("missing_groups") != "group")
    # A sensitive column is never a feature: a blind map must not see the group.
    others = {*choice.sensitive, *choice.drop}
    chosen = [_chosen(guess, choice) for name, guess in guesses.items() if name not in others]
    used = [guess for guess in chosen if guess.is_feature]
    if not used:
        raise ValueError(
            f"{path} has no column left to cluster by; it has {listed(list(guesses))}."
        )
    groups = [guesses[name] for name in choice.sensitive]
    how |= _gaps(path, used, groups, missing, how, blocks)
    return _data(path, blocks, choice, chosen, how)


def open_for_audit(
    path: str,
    choice: Choice,
    *,
    missing: str,
    all_columns: bool,
    id_column: str | None = None,
    **how: Any,
) -> InputFiles:
    """Files with labels; other columns describe the clusters, whatever is missing in them.

    The labels are a column, or in a file of their own. A column that tells rows apart describes
    no cluster.
    """
    if id_column is not None:
        known = column_names(find_files(path)[0], how["dialect"])
        if id_column not in known:
            raise ValueError(
                f"--id {id_column}: {path} has no such column. It has {listed(known)}."
            )
        if id_column not in (*choice.sensitive, *choice.labels, *choice.drop):
            choice = replace(choice, drop=(*choice.drop, id_column))
    beside = labels_beside(choice.labels[0], path, id_column, choice.drop, how["dialect"])
    if beside is not None:
        choice = replace(
            choice,
            labels=(beside[0],),
            # The column that gives way to it.
            drop=tuple(name for name in choice.drop if name != beside[0]),
        )
        how |= {"beside": beside}
    named = (*choice.sensitive, *choice.labels)
    how |= {"files": _files(path, how)}
    how |= {"seal": Seal.of(how["files"], shown=how["verbose"])}
    blocks, guesses = _scan(path, choice, how, None if all_columns else named)
    for name in named:
        # Unlike a fit, an audit also takes one cluster or one group,
        # which it can describe but not judge.
        if guesses[name].n_values is None or guesses[name].kind == "empty":
            _check_groups(guesses[name])
    groups = [guesses[name] for name in choice.sensitive]
    how |= _gaps(path, [guesses[name] for name in choice.labels], groups, missing, how, blocks)
    others = [guess for name, guess in guesses.items() if name not in named]
    return _data(path, blocks, choice, others, how)


def open_for_model(
    path: str, model: FairMixture, sensitive: Sequence[str], *, missing: str, **how: Any
) -> InputFiles:
    """Files with the columns that a fitted model was fitted on."""
    columns = model.fitted_.model.columns
    # A frame of numbers is learned as an array, whose columns have no names of their own.
    names = tuple(model.feature_names_in_.tolist())
    # From the first file's header alone, so that the wrong file is refused before a pass over all.
    how |= {"files": _files(path, how)}
    known = column_names(how["files"][0], how["dialect"])
    lacking = [name for name in (*names, *sensitive) if name not in known]
    if lacking:
        raise ValueError(f"{path} lacks columns of the model: {listed(lacking)}. Add them.")
    categorical = tuple(names[j] for j in columns.categorical)
    numeric = tuple(names[j] for j in columns.numeric)
    choice = Choice(sensitive=tuple(sensitive), numeric=numeric, categorical=categorical)
    blocks, guesses = _scan(path, choice, how, (*names, *sensitive))
    for name in (*names, *sensitive):
        if guesses[name].kind == "empty":
            raise ValueError(f"Column {name!r}: {guesses[name].reason}.")
    chosen = [_chosen(guesses[name], choice) for name in names]
    # New rows without a group are what such rows were in the fit.
    how |= {"missing_groups": model.missing_groups}
    how |= _gaps(path, chosen, [guesses[name] for name in sensitive], missing, how, blocks)
    return _data(path, blocks, choice, chosen, how)


def _scan(
    path: str, choice: Choice, how: dict[str, Any], names: Sequence[str] | None = None
) -> tuple[FileBlocks, dict[str, Guess]]:
    """The files, and the kinds of their columns or of some; ``how`` learns their marks."""
    blocks = _blocks(choice.text, how)
    known = blocks.schema.names
    choice.check(path, known)
    # In the order of the file, whatever the order of the options, so that
    # results do not depend on it.
    everything = bool(how.get("append"))
    named = None if names is None or everything else {*names, *how.get("identifier", ())}
    wanted = [
        n for n in known if everything or (n not in choice.drop and (named is None or n in named))
    ]
    # As if all were float64, as `InputFiles.n_bytes` has it.
    small = 8 * blocks.n_rows * len(wanted) <= how.get("memory", MEMORY)
    kept: list[Frame] | None = [] if small else None
    guesses = {guess.name: guess for guess in guess_columns(blocks, wanted, kept)}
    how["frames"] = kept
    how["marked"] = {name: guess.marks for name, guess in guesses.items() if guess.marks}
    return blocks, guesses


def _files(path: str, how: dict[str, Any]) -> list[File]:
    """The files; read into memory, once, if they are small enough for it."""
    files = find_files(path)
    small = sum(file.n_bytes for file in files) <= how.get("memory", MEMORY)
    return [file.loaded() for file in files] if small else files


def _blocks(text: Sequence[str], how: dict[str, Any]) -> FileBlocks:
    """The rows, with labels from a file of their own, if there are such."""
    blocks = FileBlocks(
        how["files"],
        text=text,
        dialect=how["dialect"],
        n_jobs=effective_n_jobs(how["n_jobs"]),
        verbose=how["verbose"],
    )
    beside = how.get("beside")
    return blocks if beside is None else LabelledBlocks(blocks, *beside)


def _data(
    path: str,
    blocks: FileBlocks,
    choice: Choice,
    guesses: Sequence[Guess],
    how: dict[str, Any],
) -> InputFiles:
    used = [guess for guess in guesses if guess.is_feature]
    categorical = tuple(guess.name for guess in used if guess.kind == "categorical")
    how["labels"] = choice.labels
    how["carried"] = _carried(blocks, guesses, how)
    used_names = [*(guess.name for guess in used), *choice.sensitive, *choice.labels]
    used_names = list(dict.fromkeys([*used_names, *how["carried"]]))
    frames = how.pop("frames")
    if frames is not None:
        frames = [Frame(frame.number, frame.table.select(used_names)) for frame in frames]
    # Codes such as 0 and 1 in a text file are names of categories, not 0.0 and 1.0.
    coded = [name for name in categorical if blocks.schema.field(name).type == pa.float64()]
    spelled = blocks.as_text(coded) if coded else blocks
    if coded and spelled.schema != blocks.schema and frames is not None:
        texts = spelled.select(coded).each(lambda frame: frame)
        frames = [_with(frame, text) for frame, text in zip(frames, texts, strict=True)]
    how["frames"] = None if frames is None else tuple(frames)
    # The rows are in memory by now, or too many for it.
    for file in how["files"]:
        file.release()
    return InputFiles(
        name=path,
        blocks=spelled,
        features=tuple(guess.name for guess in used),
        categorical=categorical,
        sensitive=choice.sensitive,
        labels=choice.labels,
        guesses=tuple(guesses),
        **{name: how[name] for name in DATA_SETTINGS if name in how},
    )


def _carried(blocks: FileBlocks, guesses: Sequence[Guess], how: dict[str, Any]) -> tuple[str, ...]:
    """Columns that go into a file of labels: all, or what tells the rows apart."""
    if how.get("append"):
        return tuple(blocks.schema.names)
    if (known := how.get("identifier")) is not None:
        return tuple(name for name in known if name in blocks.schema.names)
    # Labels of another clustering are audited, and no file of labels is written.
    found = (g.name for g in guesses if g.kind == "identifier-like" and g.all_different)
    return () if how["labels"] else tuple(found)[:1]


def _with(frame: Frame, other: Frame) -> Frame:
    """A frame with the columns of another in place of its own."""
    table = frame.table
    for field, column in zip(other.table.schema, other.table.columns, strict=True):
        table = table.set_column(table.column_names.index(field.name), field, column)
    return Frame(frame.number, table)


def _chosen(guess: Guess, choice: Choice) -> Guess:
    """The kind that the user or the values give a column."""
    kind = choice.kind(guess.name)
    if guess.kind == "empty":
        raise ValueError(
            f"Column {guess.name!r}: {guess.reason}. Leave it out: --drop {guess.name}"
        )
    if kind == "numeric" and not guess.numbers:
        raise ValueError(f"Column {guess.name!r} cannot be read as numbers: {guess.reason}.")
    # What the user says comes before the refusal of mixed columns: it is the remedy named there.
    if kind is not None:
        return replace(guess, kind=kind, reason="as you say")
    if guess.kind == "mixed":
        raise ValueError(
            f"Column {guess.name!r} holds {guess.reason}. Correct the file, or say what it is: "
            f"--categorical {guess.name}, or leave it out: --drop {guess.name}"
        )
    return guess


def _check_groups(guess: Guess, *, alone: bool = True) -> None:
    """Refuse a column without groups; ``alone``: rows without a value make none."""
    if guess.kind == "empty":
        raise ValueError(f"Column {guess.name!r}: {guess.reason}.")
    if guess.kind == "constant" and (alone or not guess.missing):
        raise ValueError(
            f"--sensitive {guess.name}: it is {guess.reason}. Fairness compares two groups or more."
        )
    if guess.n_values is None:
        raise ValueError(
            f"Column {guess.name!r} has more than {MAX_CATEGORIES} different values, too many for "
            "groups or clusters. Put them into a few classes first."
        )


def _gaps(
    path: str,
    others: Sequence[Guess],
    groups: Sequence[Guess],
    missing: str,
    how: dict[str, Any],
    blocks: FileBlocks,
) -> dict[str, Any]:
    """Columns that lack values, unless nothing can be done about it."""
    gaps = {guess.name: guess.missing for guess in (*others, *groups) if guess.missing}
    told = how.get("missing_groups", "error") != "error"
    # A feature can be integrated out, a group cannot: its row must be dropped or told what to be.
    refusing = [*({INTEGRATE: (), DROP_ROWS: ()}.get(missing, others))]
    if not told and (missing != DROP_ROWS or how.get("needs_groups")):
        refusing += groups
    refused = {guess.name: guess.missing for guess in refusing if guess.missing}
    if refused:
        also = any(guess.name in refused for guess in groups)
        raise ValueError(
            f"{path} has missing or infinite values among its {blocks.n_rows:,} rows: "
            f"{counted(refused)}. Leave these rows out with --missing drop-rows"
            + (", or say what a row without a group is with --missing-groups." if also else ".")
        )
    return {"gaps": gaps, "missing": missing}
