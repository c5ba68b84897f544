"""What `Runtime.open` is given: checked before anything is opened."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from ..actors.errors import BusError, Code
from ..actors.failpoints import FailPoints
from .argument_checks import check_kind, check_length, check_one_of, check_whole
from .breaker import Breaker
from .retention import Retention
from .retry import RetryPolicy
from .topology import Topology

MAX_SHARDS: Final = 1_024
"""Each is an actor with its own part of the window."""

_MAX_PATH_CHARS: Final = 4_096
_MAX_BOUND: Final = 1_000_000_000
_BOUNDS: Final = ("max_inflight", "max_lane_backlog", "max_backlog")
_WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "durability": ("full", "normal"),
    "mode": ("thread", "inline"),
    "unhandled": ("refuse", "park"),
    "unsafe_filesystem": ("refuse", "allow"),
}
_OPTIONS: Final[Mapping[str, tuple[type, str]]] = {
    "send_retry": (RetryPolicy, "a RetryPolicy"),
    "send_breaker": (Breaker, "a Breaker"),
    "retention": (Retention, "a Retention"),
    "seed": (int, "an integer"),
    "signals": (AsyncIterator, "what trio.open_signal_receiver opens"),
}
_VERBS: Final[Mapping[str, tuple[tuple[str, ...], str]]] = {
    "store": (("info", "reader", "commit", "close"), "a path, or an open store"),
    "clock": (("wall_us", "mono_s"), "a Clock"),
    "tracing": (("turn", "send"), "a Tracing"),
}


def check_opening(topology: object, store: object, adapters: object, **options: object) -> None:
    """Refuse what no runtime can be opened with.

    Args:
        topology, store, adapters: As for `Runtime.open`.
        options: Its other arguments by name.
    Raises:
        BusError: INVALID_MESSAGE.
    """
    check_kind(topology, Topology, "topology", "a Topology")
    if isinstance(store, str | Path):
        # What else is no path is refused where it is opened, with what to do about it.
        if len(str(store)) > _MAX_PATH_CHARS:
            raise BusError(
                Code.INVALID_MESSAGE,
                f"store: no path has more than {_MAX_PATH_CHARS} characters",
                field="store",
            )
    else:
        _check_verbs("store", store)
    check_kind(adapters, Sequence, "adapters", "a list of adapters")
    for what, value in options.items():
        _check_option(what, value)


def _check_option(what: str, value: object) -> None:
    if what in _WORDS:
        check_one_of(value, _WORDS[what], what)
    elif what in _BOUNDS:
        check_whole(value, what, lowest=1, highest=_MAX_BOUND)
    elif what == "shard_count":
        check_whole(value, what, lowest=1, highest=MAX_SHARDS)
    elif what == "grace_s":
        if value != math.inf:
            check_length(value, what, may_be_zero=True)
    elif what == "failpoints":
        check_kind(value, FailPoints, what, "FailPoints")
    elif value is None:
        return
    elif what in _VERBS:
        _check_verbs(what, value)
    else:
        kind, wanted = _OPTIONS[what]
        check_kind(value, kind, what, wanted)


def _check_verbs(what: str, value: object) -> None:
    # Protocols: whoever has the verbs is one. A class has them too, and is none.
    verbs, wanted = _VERBS[what]
    if isinstance(value, type) or not all(hasattr(value, verb) for verb in verbs):
        check_kind(value, (), what, wanted)


__all__ = ["MAX_SHARDS", "check_opening"]
