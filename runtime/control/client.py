"""Decisions from another process than the owner's, or while there is no owner."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, cast

import attrs
import structlog
import trio

from ...actors.clock import SystemClock
from ...actors.errors import BusError, Code, error_code_of
from ...actors.identifiers import new_uuid7
from ...actors.names import canonical
from ...storage.records import ControlStatus, StoredControl
from ...storage.sqlite import open_sqlite
from ...storage.sqlite.control import ControlBox
from .actor import ControlActor
from .execute import ControlResult, result_of
from .hands import StoreHands
from .steps import is_passing
from .verbs import Verb, ended_args, verb_args, verb_word

TIMEOUT_S: Final = 10.0
_POLL_S: Final = 0.05
_FIRST_PAUSE_S: Final = 0.5
_MAX_PAUSE_S: Final = 30.0
"""Between two openings of a store that could not take the decision; it doubles."""
_STUCK_S: Final = 2.0
"""Without a commit for so long the store counts as stuck."""


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
        What became of it; `waiting` if the owner has not come to it in that time, or if the store fails once the
        decision stands in it. The owner then will come to it, or the next one.
    Raises:
        BusError: the decision does not stand. INVALID_MESSAGE, TOO_LARGE, the decision itself; IDENTITY_MISMATCH, the
            id is another decision's; NOT_FOUND, there is no such file; STORE_MISMATCH, SCHEMA_TOO_NEW, STORE_CORRUPT,
            STORE_BUSY, STORE_FULL, STORE_IO, UNSAFE_FILESYSTEM.
    """
    named = new_uuid7() if control_id is None else control_id
    return send_controls(store, {named: verb}, actor=actor, timeout_s=timeout_s)[0]


def send_controls(
    store: str | Path, verbs: Mapping[str, Verb], *, actor: str, timeout_s: float = TIMEOUT_S
) -> list[ControlResult]:
    """Have several decisions carried out, in order; all of them stand before any is waited for, or none does.

    Args:
        store: The store's file.
        verbs: Decisions by their ids.
        actor: Who decides, for the record.
        timeout_s: Seconds to wait for all of them.
    Returns:
        What became of each.
    Raises:
        BusError: as `send_control`.
    """
    canonical(actor, "actor")
    now_us = SystemClock().wall_us()
    asked = [
        StoredControl(
            id=canonical(control_id, "control_id"),
            verb=verb_word(verb),
            args=verb_args(verb),
            actor=actor,
            created_at_us=now_us,
        )
        for control_id, verb in verbs.items()
    ]
    due_s = time.monotonic() + timeout_s
    with ControlBox(Path(store)) as box:
        return _wait(box, box.leave(asked, ended_args), due_s)


def find_control(store: str | Path, control_id: str) -> ControlResult:
    """Ask what became of an earlier decision.

    Raises:
        BusError: NOT_FOUND, no decision has this id; else as `send_control`.
    """
    with ControlBox(Path(store)) as box:
        return result_of(box.read(control_id))


def _wait(box: ControlBox, controls: Sequence[StoredControl], due_s: float) -> list[ControlResult]:
    """Wait for records that stand: from here on nothing is raised, because that would deny them."""
    found = list(controls)
    hindrance: BusError | None = None
    next_s, pause_s = time.monotonic(), _FIRST_PAUSE_S
    try:
        while True:
            if _is_waiting(found) and time.monotonic() >= next_s:
                hindrance = _work_off(box, due_s)
                if hindrance is not None and hindrance.code is not Code.STORE_LOCKED:
                    # Each opening leaves a row behind: not at the pace of looking.
                    next_s, pause_s = time.monotonic() + pause_s, min(2 * pause_s, _MAX_PAUSE_S)
            found = [box.read(one.id) if _is_waiting([one]) else one for one in found]
            is_over = hindrance is not None and not is_passing(hindrance)
            if is_over or not _is_waiting(found) or time.monotonic() >= due_s:
                break
            time.sleep(_POLL_S)
    except BusError as error:
        hindrance = error
    return [_held_up(result_of(one), hindrance) for one in found]


def _is_waiting(controls: Sequence[StoredControl]) -> bool:
    return any(control.status is ControlStatus.WAITING for control in controls)


def _held_up(result: ControlResult, hindrance: BusError | None) -> ControlResult:
    if result.status != ControlStatus.WAITING or hindrance is None or hindrance.code is Code.STORE_LOCKED:
        return result
    return attrs.evolve(result, code=str(hindrance.code), values={"text": hindrance.message})


def _work_off(box: ControlBox, due_s: float) -> BusError | None:
    """Become the owner and carry out all that waits.

    Returns:
        What kept something waiting: STORE_LOCKED, somebody else is the owner.
    """
    try:
        return trio.run(_own_and_work_off, box, due_s)
    except BusError as error:
        return error
    except Exception as error:
        # A bug, or a store that no bot has written: the decision stands all the same.
        return BusError(error_code_of(error) or Code.HANDLER_FAILED, f"{type(error).__name__}: {error}")


async def _until_stuck(box: ControlBox, due_s: float) -> None:
    """A full or busy store is offered a commit for ever; whoever has waited enough must not keep it from a bot."""
    before = box.version()
    while True:
        await trio.sleep(_STUCK_S)
        now = box.version()
        if now == before and time.monotonic() >= due_s:
            return
        before = now


def _errors_of(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _errors_of(cast("BaseExceptionGroup[BaseException]", error))
        else:
            yield error


def _rank(error: BaseException) -> int:
    """Which of several errors at once to tell: a key that was pressed first, bugs last."""
    if isinstance(error, KeyboardInterrupt):
        return 0
    if not isinstance(error, BusError):
        return 3
    # Who still worked when the store failed found it closed.
    return 2 if error.code is Code.BUS_CLOSED else 1


async def _own_and_work_off(box: ControlBox, due_s: float) -> BusError | None:
    clock = SystemClock()
    store = open_sqlite(
        box.path, shard_count=box.shard_count, lane_policy=box.lane_policy, clock=clock, recovers=False
    )
    actor = ControlActor(StoreHands(store, clock), structlog.get_logger("shardline"))
    left: BusError | None = None

    async def leave_when_stuck(scope: trio.CancelScope) -> None:
        nonlocal left
        await _until_stuck(box, due_s)
        code = store.condition.code or Code.STORE_BUSY
        left = BusError(code, f"{box.path} takes no commit: {code.meaning}")
        scope.cancel()

    try:
        async with trio.open_nursery() as nursery:
            await nursery.start(store.run)
            nursery.start_soon(leave_when_stuck, nursery.cancel_scope)
            await actor.work_off()
            nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        # Whoever calls from outside matches on codes, or has pressed a key.
        raise min(_errors_of(group), key=_rank) from group
    return left or actor.hindrance


__all__ = ["TIMEOUT_S", "ControlResult", "find_control", "send_control", "send_controls"]
