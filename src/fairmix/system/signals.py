"""Interruption: SIGINT and SIGTERM end a command with one line and the code that shells expect.

It imports nothing slow, so that the signals are taken care of before the rest is loaded.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)
# A command that a signal ends has this code plus the number of the signal.
SIGNALLED = 128


class Interrupted(SystemExit):
    """The end of a command by a signal.

    It is no `Exception` and no `KeyboardInterrupt`, so what parses arguments lets it pass.
    """

    left = "no half-written file is left"


def listen() -> None:
    """Let the signals raise `Interrupted`; one that was switched off before stays so."""
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _stop)


# The ends that signals have raised.
_raised: list[Interrupted] = []


@contextmanager
def told() -> Iterator[None]:
    """Say in one line what an interrupted body leaves."""
    try:
        yield
    except Interrupted as end:
        sys.stderr.write(f"Interrupted: {end.left}.\n")
        raise
    except Exception:
        if not _raised:
            raise
        # Compiled modules that are being imported make errors of their own of what is raised there.
        sys.stderr.write(f"Interrupted: {_raised[0].left}.\n")
        raise _raised[0] from None


@contextmanager
def together() -> Iterator[None]:
    """Steps that belong together: a signal while they are taken comes too late and is ignored."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    # Without `listen` (a thread, a test) somebody else takes care of signals.
    heard = [number for number in SIGNALS if before[number] is _stop]
    if threading.current_thread() is not threading.main_thread():
        heard = []  # signals interrupt the main thread only
    for number in heard:
        signal.signal(number, signal.SIG_IGN)
    try:
        yield
    finally:
        for number in heard:
            signal.signal(number, before[number])


def _stop(number: int, frame: FrameType | None) -> None:
    _raised.append(Interrupted(SIGNALLED + number))
    raise _raised[-1]
