"""``fairmix`` and ``python -m fairmix``."""

from fairmix.system.signals import listen, told


def main() -> None:
    """Run a command."""
    listen()
    with told():
        # Imported here: what it loads takes a moment, in which a signal may come.
        from fairmix.cli import app

        app(prog_name="fairmix")


if __name__ == "__main__":
    main()
