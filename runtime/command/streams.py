"""The process's own streams: whatever they are, a command must be able to print."""

from __future__ import annotations

import io
import os
import sys


def set_up_streams() -> None:
    """Make standard output and error usable: what they cannot show becomes an escape, what is closed leads nowhere."""
    # Also so that no file of a store gets the number of a closed one, and is printed into.
    if sys.stdout is None:
        sys.stdout = _nowhere()
    if sys.stderr is None:
        sys.stderr = _nowhere()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _nowhere() -> io.TextIOWrapper:
    return open(os.devnull, "w", encoding="utf-8")


__all__ = ["set_up_streams"]
