"""The garbage collector's settings of a process that runs nothing but a bot."""

from __future__ import annotations

import gc

_YOUNG_OBJECTS = 50_000


def calm_collector() -> None:
    """Let the collector look at fewer objects, less often.

    A message is some thirty small objects that live for three commits. With the interpreter's defaults every 700 new
    objects start a search through those of all messages in flight, which costs a third of the time at 1,024 in flight
    (docs/explanation/performance.md). Only programs call this; a library leaves its host's collector alone.
    """
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS, 20, 50)
