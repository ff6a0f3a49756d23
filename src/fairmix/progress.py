"""A progress bar on stderr, for whoever waits: ``verbose`` and the command line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Tick(Protocol):
    """Tells that one more step is done, with a short note about it."""

    def __call__(self, note: str = "") -> None:
        """Advance by one step."""


@contextmanager
def progress(title: str, total: int | None, *, shown: bool) -> Iterator[Tick]:
    """Show a bar while the body runs; a bar that is not shown costs nothing.

    Examples
    --------
    >>> with progress("fit", 3, shown=False) as tick:
    ...     tick("gap 0.1")
    """
    if not shown:
        yield lambda note="": None
        return
    # Imported late: a silent fit needs no terminal library.
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[note]}"),
        console=Console(stderr=True),
        transient=True,
    )
    with bar:
        task = bar.add_task(title, total=total, note="")

        def tick(note: str = "") -> None:
            bar.update(task, advance=1, note=note)

        yield tick
