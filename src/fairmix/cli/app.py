"""The application: its commands and what they have in common.

The module of a command imports what it works with inside the command, so that ``--help`` need not
wait for scikit-learn.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from fairmix._version import __version__
from fairmix.cli.audit import audit
from fairmix.cli.compare import compare
from fairmix.cli.demo import demo
from fairmix.cli.fit import fit
from fairmix.cli.info import info
from fairmix.cli.options import expanded
from fairmix.cli.pareto import pareto
from fairmix.cli.predict import predict
from fairmix.cli.repair import repair
from fairmix.cli.reproduce import reproduce
from fairmix.system.clean import clean

if TYPE_CHECKING:
    from typer.models import CommandInfo

# By name, in the order of the help. It is read at each call, so a command of your own counts from
# the line that adds it.
COMMANDS: dict[str, Callable[..., None]] = {
    command.__name__: command
    for command in (fit, predict, audit, repair, pareto, compare, reproduce, info, demo)
}


class Commands(TyperGroup):
    """The commands; what they say of a wrong option cannot give orders to a terminal."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for."""
        try:
            return super().invoke(ctx)
        except Exception as error:
            # Typer repeats an option that it does not know as it was typed.
            if isinstance(said := vars(error).get("message"), str):
                vars(error)["message"] = clean(said)
            raise


class Application(typer.Typer):
    """An application whose commands are those of the register."""

    @property
    def registered_commands(self) -> list[CommandInfo]:
        """What Typer makes its commands from, at each call."""
        # A throw-away application, because only Typer knows how to describe a command to itself.
        made = typer.Typer()
        for name, command in COMMANDS.items():
            made.command(name)(expanded(command))
        return made.registered_commands

    @registered_commands.setter
    def registered_commands(self, none: list[CommandInfo]) -> None:
        """Typer begins with an empty list, which nothing is added to."""


# Plain help: the panels of Rich do not fit 80 columns.
app = Application(
    name="fairmix",
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


# --version stands alone, and Typer would ask for a command before it looks at it.
@app.callback(invoke_without_command=True)
def main(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Clustering by mixture models, under a rule on how groups are spread.

    The rule is a bound on a gap, a ratio or a Balance, on the rows of the fit.

    Exit codes: 0 done, 1 bound not met under --strict, 2 wrong usage, 3 bad data.
    """
    if version:
        typer.echo(f"fairmix {__version__}")
        raise typer.Exit
