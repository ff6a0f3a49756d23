"""Running: compute what is missing, store it as it finishes, and write what follows from it."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Collection, Generator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from fairmix.reproduction.methods import METHODS
from fairmix.reproduction.pictures import draw, require_matplotlib
from fairmix.reproduction.records import Records
from fairmix.reproduction.registry import ENTRIES
from fairmix.reproduction.result import Entry, Result
from fairmix.reproduction.settings import Settings
from fairmix.reproduction.store import Store
from fairmix.reproduction.units import Numbers, Unit, compute, only
from fairmix.system.progress import progress


def choose(names: Sequence[str]) -> list[Entry]:
    """Entries by name, in the order of the paper; all for no name."""
    unknown = [name for name in names if name not in ENTRIES]
    if unknown:
        raise ValueError(f"There is no entry {unknown[0]!r}. Choose from: {', '.join(ENTRIES)}.")
    return [entry for name, entry in ENTRIES.items() if not names or name in names]


def run(
    entries: Sequence[Entry],
    settings: Settings,
    folder: Path,
    *,
    jobs: int = 1,
    shown: bool = False,
    methods: Collection[str] = (),
    renew: bool = False,
    stop_after: int | None = None,
) -> dict[str, Result]:
    """Run entries, from where an earlier run stopped.

    Parameters
    ----------
    entries : sequence of Entry
        What to run.
    settings : Settings
        How much of it.
    folder : path
        For JSON and SVG; what is done there is not done again.
    jobs : int, default=1
        Processes.
    shown : bool, default=False
        Whether to show progress on stderr.
    methods : collection of str, default=()
        Only fits of these methods; all for none. Entries that need others stay incomplete.
    renew : bool, default=False
        Whether to compute again what another commit computed.
    stop_after : int, default=None
        Units after which to stop, as if interrupted; None for all.

    Returns
    -------
    dict of str to Result
        Of the entries that are complete.
    """
    unknown = [name for name in methods if name not in METHODS]
    if unknown:
        raise ValueError(f"There is no method {unknown[0]!r}. Choose from: {'; '.join(METHODS)}.")
    # Before the fits: a run of hours must not end for want of a library.
    require_matplotlib()
    store = Store(folder)
    # dict.fromkeys, not set: the order of units is the order of the views, whose data stay cached.
    tasks = {entry.name: list(dict.fromkeys(entry.units(settings))) for entry in entries}
    wanted = list(dict.fromkeys(task for own in tasks.values() for task in own))
    known = store.known(wanted)
    # Cut before bundling, because stop_after counts units, not fits.
    missing = [
        task
        for task in wanted
        if (task not in known or (renew and store.stale(task)))
        and (not methods or task.method in methods)
    ]
    bundles = bundle(missing[:stop_after])
    failed: dict[Unit, Numbers] = {}
    results: dict[str, Result] = {}

    def write(entry: Entry, result: Result | None = None) -> None:
        store.write(entry, settings, tasks[entry.name], result, failed)

    def conclude(entry: Entry) -> None:
        own = tasks[entry.name]
        found = {**store.known(own), **{task: failed[task] for task in own if task in failed}}
        result = None
        # Failures do not keep an entry from its conclusion, unless nothing is left to conclude
        # from.
        if len(found) == len(own) and not all(task in failed for task in own):
            result = entry.conclude(settings, Records(found))
            results[entry.name] = result
            if result.panels:
                draw(result.panels, folder / f"{entry.name}.svg")
        write(entry, result)

    left = set().union(*bundles.values())
    with (
        progress("reproduce", len(bundles), shown=shown) as tick,
        # Closed also on Ctrl-C, so that no process of the pool outlives the run.
        closing(_computed(list(bundles), jobs)) as stream,
    ):
        for fitted, numbers in stream:
            members = bundles[fitted]
            for task in members:
                # An error may be cured before the next run, so it is not stored.
                if "error" in numbers:
                    failed[task] = numbers
                else:
                    store.keep(task, only(numbers, task.extras))
            # An interrupted run loses no fit: each is written to the file of an entry, where all
            # others find it. Conclusions and pictures take longer than most fits, so they wait.
            left -= members
            unwritten = set(members)
            for entry in entries:
                if unwritten.isdisjoint(tasks[entry.name]):
                    continue
                if left.isdisjoint(tasks[entry.name]):
                    conclude(entry)
                else:
                    write(entry)
                unwritten.difference_update(tasks[entry.name])
            tick(f"{fitted.method}, {fitted.view.data}")
    # Entries that share their last fit with others, and those whose units were all known.
    for entry in entries:
        if entry.name not in results:
            conclude(entry)
    return results


def bundle(tasks: Sequence[Unit]) -> dict[Unit, set[Unit]]:
    """Units that differ by their extras only, under one unit that has the extras of all."""
    alike: dict[Unit, set[Unit]] = {}
    for task in tasks:
        alike.setdefault(replace(task, extras=()), set()).add(task)
    # Sorted, so that the same extras always make the same unit.
    return {
        replace(plain, extras=tuple(sorted({name for task in own for name in task.extras}))): own
        for plain, own in alike.items()
    }


def _computed(tasks: Sequence[Unit], jobs: int) -> Generator[tuple[Unit, Numbers], None, None]:
    """Units and their numbers, as they finish."""
    if jobs == 1:
        for task in tasks:
            yield task, compute(task)
        return
    # A forked child would inherit locks of libraries that have threads.
    context = multiprocessing.get_context("spawn")
    # Ctrl-C reaches the children too; they end without a word, the parent has one.
    quiet = (signal.SIGINT, signal.SIG_DFL)
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=signal.signal, initargs=quiet)
    try:
        futures = {pool.submit(compute, task): task for task in tasks}
        for future in as_completed(futures):
            yield futures[future], future.result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
