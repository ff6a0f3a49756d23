"""Peak memory of this process, where the system tells it."""

from __future__ import annotations

import ctypes
import gc
from contextlib import suppress
from math import isnan, nan
from pathlib import Path

STATUS = Path("/proc/self/status")
RESET_PEAK = Path("/proc/self/clear_refs"), "5"  # see proc(5)


class PeakMemory:
    """Watches the resident memory of this process from now on."""

    def __init__(self) -> None:
        gc.collect()
        # Where there is glibc: free pages that stay with the process would hide what a fit takes.
        with suppress(AttributeError, OSError, TypeError):
            ctypes.CDLL(None).malloc_trim(0)
        self._before = nan
        with suppress(OSError):
            path, reset = RESET_PEAK
            path.write_text(reset)
            self._before = _megabytes("VmRSS")

    def growth(self) -> float:
        """Most that it has grown by, in MB; NaN where the system does not tell."""
        if isnan(self._before):
            return nan
        return max(_megabytes("VmHWM") - self._before, 0.0)


def _megabytes(name: str) -> float:
    """A line of the status."""
    lines = dict(line.split(":", 1) for line in STATUS.read_text().splitlines())
    return int(lines[name].split()[0]) * 1024 / 1e6
