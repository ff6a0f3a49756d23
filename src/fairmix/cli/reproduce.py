"""``fairmix reproduce``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from fairmix.cli.screen import Screen
from fairmix.system.signals import Interrupted


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Entries to run; see --list.", show_default=False),
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the entries and exit.")] = False,
    every: Annotated[bool, typer.Option("--all", help="Run all entries.")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Few strengths and seeds, and fewer rows.")
    ] = False,
    seeds: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Seeds of each fit: 5, or 1 with --quick.", show_default=False
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option(help="Folder for JSON and SVG; the page is next to it, with .md.")
    ] = Path("reproduction"),
    jobs: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Processes; one per core if left out."),
    ] = None,
    methods: Annotated[
        list[str] | None,
        typer.Option(
            "--method",
            metavar="METHOD",
            help="Only fits of this method; may be repeated.",
            show_default=False,
        ),
    ] = None,
    renew: Annotated[
        bool, typer.Option("--renew", help="Compute again what another commit computed.")
    ] = False,
    page: Annotated[
        bool, typer.Option("--page", help="Only write the page, from the JSON files there.")
    ] = False,
) -> None:
    """Reproduce tables and figures of the paper.

    The paper's numbers appear next to ours. Results in the folder are not computed again, so an
    interrupted run continues where it stopped.
    """
    from fairmix.reproduction import ENTRIES, Settings, choose, run, write_page

    screen = Screen()
    if listed:
        width = max(map(len, ENTRIES))
        screen.say("\n".join(f"{name:{width}}  {e.title}" for name, e in ENTRIES.items()))
        return
    if not (names or every or page):
        raise typer.BadParameter("Name entries (see --list), or give --all.")
    with screen.guarded():
        if not page:
            entries = choose([] if every else names or [])
            counts = {} if seeds is None else {"seeds": seeds}
            settings = Settings.quick(**counts) if quick else Settings.full(**counts)
            cores = jobs or os.cpu_count() or 1
            try:
                results = run(
                    entries,
                    settings,
                    out,
                    jobs=cores,
                    shown=bool(screen.bars),
                    methods=methods or (),
                    renew=renew,
                )
            except ImportError as error:
                # A missing extra is for the user to install; it is no fault of the data.
                raise typer.BadParameter(str(error)) from error
            except Interrupted as end:
                end.left = f"what is done is in {out}; run again to go on"
                raise
            for name, result in results.items():
                verdicts = [claim.holds for claim in result.claims]
                screen.say(
                    f"{name}: {verdicts.count(True)} of {len(verdicts)} claims hold here "
                    f"({out / f'{name}.json'})"
                )
        # Always, and from the files alone: the page is of all entries
        # there, not only of this run's.
        write_page(out, out.with_name(f"{out.name}.md"))
        screen.say(f"Written: {out.with_name(f'{out.name}.md')}")
