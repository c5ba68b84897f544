"""The rows of one transaction."""

from __future__ import annotations

import attrs

from ...actors.errors import BusError, Code
from ..pruning import Prune
from .rows import Row

TimerStep = tuple[str, Row, bool]
"""Statement, what it binds, whether it must change exactly one row."""
PruneStep = tuple[Prune, int, int]
"""What to prune, the change number before those of its emptied rows, when."""
Transition = tuple[int, tuple[str, int, str, str, str, int, int, str | None, int]]
"""shard; kind, identity, from, to, event, claim, at, code, instance."""


@attrs.define
class Plan:
    """The rows of one transaction by kind, in the order the kinds are written; timers in the order of their parts."""

    new_inbox: list[Row] = attrs.Factory(list[Row])
    inbox: list[Row] = attrs.Factory(list[Row])
    events: list[Row] = attrs.Factory(list[Row])
    inbox_moves: list[Row] = attrs.Factory(list[Row])
    failed_inbox_moves: list[Row] = attrs.Factory(list[Row])
    inbox_tails: list[Row] = attrs.Factory(list[Row])
    running: list[Row] = attrs.Factory(list[Row])
    steps: list[Row] = attrs.Factory(list[Row])
    states: dict[str, Row | None] = attrs.Factory(dict[str, Row | None])
    new_outbox: list[Row] = attrs.Factory(list[Row])
    outbox: list[Row] = attrs.Factory(list[Row])
    outbox_moves: list[Row] = attrs.Factory(list[Row])
    failed_outbox_moves: list[Row] = attrs.Factory(list[Row])
    outbox_tails: list[Row] = attrs.Factory(list[Row])
    outbox_rewrites: list[Row] = attrs.Factory(list[Row])
    emits: list[Row] = attrs.Factory(list[Row])
    relayed: list[Row] = attrs.Factory(list[Row])
    facts: dict[tuple[str, str], Row | None] = attrs.Factory(dict[tuple[str, str], Row | None])
    inbox_purges: list[Row] = attrs.Factory(list[Row])
    purged_steps: list[Row] = attrs.Factory(list[Row])
    outbox_purges: list[Row] = attrs.Factory(list[Row])
    controls: list[Row] = attrs.Factory(list[Row])
    timers: list[TimerStep] = attrs.Factory(list[TimerStep])
    history: list[Row] = attrs.Factory(list[Row])
    anchors: list[Row] = attrs.Factory(list[Row])
    prunes: list[PruneStep] = attrs.Factory(list[PruneStep])
    shards: set[int] = attrs.Factory(set[int])


def check_home(row_id: int, home: int, shard: int) -> None:
    """Refuse a row of another shard.

    Raises:
        BusError: IDENTITY_MISMATCH.
    """
    if home != shard:
        raise BusError(
            Code.IDENTITY_MISMATCH,
            f"row {row_id} belongs to shard {home}, not to {shard}",
            row_id=row_id,
            shard=shard,
        )
