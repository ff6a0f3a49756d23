"""Outputs: files that appear when all of them are complete, and never over others unasked."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import typer

from fairmix.export.labels import LABEL_SUFFIXES
from fairmix.system.clean import clean
from fairmix.system.files import exists, refuse_special, replacing, temporary_path
from fairmix.system.signals import together
from fairmix.tables import find_files


def refuse_existing(paths: Sequence[Path], force: bool) -> None:
    """Refuse to write over files unless told to, and over what is no file at all."""
    for path in paths:
        try:
            refuse_special(path)
        except ValueError as error:
            raise typer.BadParameter(clean(str(error))) from error
    existing = [path for path in paths if exists(path)]
    if existing and not force:
        raise typer.BadParameter(
            f"{clean(str(existing[0]))} exists. Give --force to write over it, or another --out."
        )


def refuse_inputs(outputs: Sequence[Path], data: str, *others: Path | str) -> None:
    """Refuse to write over what is read, whatever --force says and however it is spelled.

    ``others`` are read beside the data, if there are such files.
    """
    # What is on another machine cannot be the same file.
    inputs = [Path(file.path) for file in find_files(data) if not file.scheme]
    inputs += map(Path, others)
    for out in outputs:
        # By identity: links, hard links and ./ name the same file in other words.
        if exists(out) and any(exists(file) and out.samefile(file) for file in inputs):
            raise typer.BadParameter(
                f"{clean(str(out))} is read by this command, so it is not written over. Give "
                "another --out."
            )


@contextmanager
def folder_of(target: Path) -> Iterator[Path]:
    """A temporary folder beside the target, whose files move there at the end."""
    if exists(target) and not target.is_dir():
        raise typer.BadParameter(f"{clean(str(target))} is a file. Give --out a folder.")
    target = target.absolute()
    part = temporary_path(target)
    try:
        # Inside of try: a signal right after it would otherwise leave the folder.
        part.mkdir(parents=True)
        yield part
        # A signal between two of the files would leave a folder of old and new ones, and one after
        # them the temporary folder.
        with together():
            _move(part, target)
            shutil.rmtree(part, ignore_errors=True)
    # Signals raise a SystemExit, which is no Exception.
    except BaseException:
        with together():
            shutil.rmtree(part, ignore_errors=True)
        raise


def _move(part: Path, target: Path) -> None:
    """The files of a folder to their place."""
    if not target.exists():
        part.rename(target)
        return
    # File by file: the folder may hold other files of the user, which stay.
    for path in sorted(part.iterdir()):
        path.replace(target / path.name)


@contextmanager
def file_of(target: Path) -> Iterator[Path]:
    """A temporary file beside the target, which takes its place at the end."""
    target.absolute().parent.mkdir(parents=True, exist_ok=True)
    with replacing(target) as part:
        yield part


def check_label_suffix(path: Path) -> None:
    """Refuse names of label files that tell no format."""
    if path.suffix not in LABEL_SUFFIXES:
        said = clean(str(path))
        raise typer.BadParameter(f"--out {said}: give a name that ends in .parquet or .csv.")
