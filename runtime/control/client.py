"""Decisions from another process than the owner's, or while there is no owner."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

import structlog
import trio

from ...actors.clock import SystemClock
from ...actors.errors import BusError, Code
from ...actors.identifiers import new_uuid7
from ...actors.names import canonical
from ...storage.records import ControlStatus, StoredControl
from ...storage.sqlite import open_sqlite
from ...storage.sqlite.control import ControlBox
from .actor import ControlActor
from .execute import ControlResult, result_of
from .hands import StoreHands
from .verbs import Verb, verb_args, verb_word

TIMEOUT_S: Final = 10.0
_POLL_S: Final = 0.05


def send_control(
    store: str | Path,
    verb: Verb,
    *,
    actor: str,
    control_id: str | None = None,
    timeout_s: float = TIMEOUT_S,
) -> ControlResult:
    """Have a decision carried out: by the process that owns the store, or here if nobody does.

    It blocks: inside a trio run call it in a thread.

    Args:
        store: The store's file.
        verb: The decision.
        actor: Who decides, for the record.
        control_id: The same id again gives the result of the first call; None makes a new one.
        timeout_s: Seconds to wait for the owner.
    Returns:
        What became of it; `waiting` if the owner has not come to it in that time. It then will, or the next owner.
    Raises:
        BusError: INVALID_MESSAGE, TOO_LARGE, the decision itself; IDENTITY_MISMATCH, the id is another decision's;
            NOT_FOUND, there is no such file; STORE_MISMATCH, SCHEMA_TOO_NEW, STORE_CORRUPT, STORE_BUSY, STORE_FULL,
            STORE_IO, UNSAFE_FILESYSTEM.
    """
    asked = StoredControl(
        id=new_uuid7() if control_id is None else canonical(control_id, "control_id"),
        verb=verb_word(verb),
        args=verb_args(verb),
        actor=canonical(actor, "actor"),
        created_at_us=SystemClock().wall_us(),
    )
    due_s = time.monotonic() + timeout_s
    with ControlBox(Path(store)) as box:
        control = box.leave(asked)
        while control.status is ControlStatus.WAITING:
            _work_off(box)
            control = box.read(control.id)
            if control.status is not ControlStatus.WAITING or time.monotonic() >= due_s:
                break
            # Somebody else is the owner, or the store cannot take it now.
            time.sleep(_POLL_S)
    return result_of(control)


def find_control(store: str | Path, control_id: str) -> ControlResult:
    """Ask what became of an earlier decision.

    Raises:
        BusError: NOT_FOUND, no decision has this id; else as `send_control`.
    """
    with ControlBox(Path(store)) as box:
        return result_of(box.read(control_id))


def _work_off(box: ControlBox) -> None:
    """Become the owner and carry out all that waits; nothing if somebody else is the owner."""
    try:
        trio.run(_own_and_work_off, box)
    except BusError as error:
        if error.code is not Code.STORE_LOCKED:
            raise


async def _own_and_work_off(box: ControlBox) -> None:
    clock = SystemClock()
    store = open_sqlite(
        box.path, shard_count=box.shard_count, lane_policy=box.lane_policy, clock=clock, recovers=False
    )
    try:
        async with trio.open_nursery() as nursery:
            await nursery.start(store.run)
            hands = StoreHands(store, clock)
            await ControlActor(hands, structlog.get_logger("shardline")).work_off()
            nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        # Whoever calls from outside matches on codes.
        first, _ = group.split(BusError)
        if first is not None:
            raise first.exceptions[0] from group
        raise


__all__ = ["TIMEOUT_S", "ControlResult", "find_control", "send_control"]
