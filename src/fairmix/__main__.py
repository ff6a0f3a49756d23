"""``fairmix`` and ``python -m fairmix``."""

import os
import sys

from fairmix.system.signals import listen, told

# As of bad data: what was asked for cannot be done here.
UNWRITTEN = 3


def main() -> None:
    """Run a command."""
    listen()
    with told():
        # Imported here: what it loads takes a moment, in which a signal may come.
        from fairmix.cli import app

        try:
            app(prog_name="fairmix")
        # Those of files and data have been told by then: what is left is the output itself.
        except OSError as error:
            _give_up(error)


def _give_up(error: OSError) -> None:
    """Say that the output cannot be written, if that can be written, and end."""
    # Python writes what is left in its buffers at the end, which would fail again, at length.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    try:
        sys.stderr.write(f"Error: the output cannot be written: {error.strerror or error}.\n")
        sys.stderr.flush()
    except OSError:
        os.dup2(nowhere, sys.stderr.fileno())
    sys.exit(UNWRITTEN)


if __name__ == "__main__":
    main()
