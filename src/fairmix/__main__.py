"""``python -m fairmix``."""

from fairmix.cli import app

app(prog_name="fairmix")
