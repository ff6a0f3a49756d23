"""A progress bar on stderr, for whoever waits: ``verbose`` and the command line."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

# The bars that are shown: an inner one joins the outer one, because a terminal has one bottom.
_shown: list[Any] = []


class Tick(Protocol):
    """Tells that some more steps are done, with a short note about it."""

    def __call__(self, note: str = "", *, steps: int = 1) -> None:
        """Advance."""


@contextmanager
def progress(
    title: str, total: int | None, *, shown: bool, unit: str | None = None
) -> Iterator[Tick]:
    """Show a bar while the body runs; a bar that is not shown costs nothing.

    Parameters
    ----------
    title : str
        What is going on.
    total : int or None
        Steps, None when nobody knows.
    shown : bool
        Whether to show it.
    unit : str or None
        What a step is; the bar then tells how many there are per second.

    Examples
    --------
    >>> with progress("fit", 3, shown=False) as tick:
    ...     tick("gap 0.1")
    """
    if not shown:
        yield lambda note="", *, steps=1: None
        return
    with _bars() as bars:
        task = bars.add_task(title, total=total, note="")
        done, started = 0, time.monotonic()

        def tick(note: str = "", *, steps: int = 1) -> None:
            nonlocal done
            done += steps
            if unit is not None:
                # A first tick may come before the clock has moved.
                rate = done / max(time.monotonic() - started, 1e-9)
                note = f"{rate:,.0f} {unit}/s  {note}".rstrip()
            bars.update(task, advance=steps, note=note)

        try:
            yield tick
        finally:
            # The last state is shown even if the work was too short for a redraw.
            bars.refresh()
            bars.remove_task(task)


@contextmanager
def _bars() -> Iterator[Any]:
    """The display of the outermost bar."""
    if _shown:
        yield _shown[-1]
        return
    # Imported late: a silent fit needs no terminal library.
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    bars = Progress(
        TextColumn("{task.description}"),
        # Narrow: the note behind it tells more than the bar.
        BarColumn(bar_width=16),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(compact=True),
        TextColumn("{task.fields[note]}"),
        console=Console(stderr=True),
        transient=True,
    )
    with bars:
        _shown.append(bars)
        try:
            yield bars
        finally:
            _shown.pop()
