"""Run a target under atheris: ``python -m fuzz.run TARGET SECONDS CORPUS_FOLDER``.

A run goes on from the inputs that an earlier one left in the folder. What became of the inputs is
written beside the folder.
"""

from __future__ import annotations

import collections
import importlib
import json
import sys
import tempfile
import time
from pathlib import Path

import atheris

# Bytes of an input: all kept model files but one have fewer, and longer inputs only take longer.
LONGEST = 8192
# Inputs between two writings of the figures: libFuzzer ends the process itself, so the last ones
# would be lost.
EVERY = 20
# An input that takes more seconds of a processor or megabytes counts as a crash, as
# docs/reliability.md promises. By the clock, beside other programs, there is more time.
SECONDS, TIMEOUT, MEGABYTES = 60, 600, 1024


def main(target: str, seconds: str, corpus: str) -> None:
    """Fuzz a target for some seconds."""
    with atheris.instrument_imports(include=["fairmix"]):
        module = importlib.import_module(f"fuzz.{target}")
    folder, found = Path(tempfile.mkdtemp(prefix="fairmix-fuzz-")), Path(corpus)
    found.mkdir(parents=True, exist_ok=True)
    for name, content in module.seeds().items():
        (found / name).write_bytes(content)
    outcomes: collections.Counter[str] = collections.Counter()
    started = time.monotonic()

    def one(data: bytes) -> None:
        begun = time.process_time()
        outcomes[module.check(data, folder)] += 1
        assert time.process_time() - begun < SECONDS, "the input takes too long"
        if outcomes.total() % EVERY == 0:
            figures = {"seconds": round(time.monotonic() - started), **outcomes}
            (found.parent / f"{target}.json").write_text(json.dumps(figures))

    words = found.parent / f"{target}.dict"
    words.write_text("".join(f'"{_escaped(word)}"\n' for word in module.DICTIONARY))
    options = [
        f"-dict={words}",
        f"-max_total_time={seconds}",
        f"-max_len={LONGEST}",
        f"-timeout={TIMEOUT}",
        f"-rss_limit_mb={MEGABYTES}",
        f"-artifact_prefix={found.parent}/{target}-",
    ]
    atheris.Setup([sys.argv[0], *options, str(found)], one)
    atheris.Fuzz()


def _escaped(word: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in word)


if __name__ == "__main__":
    main(*sys.argv[1:])
