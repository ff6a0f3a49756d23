"""The command line: argument parsing over the public API, and the only place that prints."""

from fairmix.cli.app import COMMANDS, app

__all__ = ["COMMANDS", "app"]
