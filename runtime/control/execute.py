"""Carries one control record out, once, and stores what became of it."""

from __future__ import annotations

from collections import Counter
from typing import Final

import attrs
import structlog

from ...actors.errors import BusError, Code, error_code_of
from ...actors.plain import Plain
from ...actors.strict_json import dumps
from ...actors.text import clean_text
from ...storage.commands import ControlDone
from ...storage.records import ControlStatus, StoredControl
from ..defaults import CONTROL_CRASHES
from ..outbox_rules import Cancel as CancelSend
from ..outbox_rules import OutboxEvent, ResolveDead, ResolveResend, ResolveSent
from .hands import StoreHands
from .steps import is_passing, progress_of, purge_dead, requeue_row, requeue_rows, stored_control
from .verbs import (
    Cancel,
    CancelTimer,
    Decision,
    Forget,
    PublishMessage,
    Purge,
    Requeue,
    Resolve,
    Verb,
    ended_args,
    read_verb,
)

_MAX_TEXT_CHARS: Final = 1_000

_DECISIONS: Final[dict[Decision, OutboxEvent]] = {
    "sent": ResolveSent(),
    "resend": ResolveResend(),
    "dead": ResolveDead(),
}

Log = structlog.typing.FilteringBoundLogger


@attrs.frozen
class ControlResult:
    """What became of a control record.

    Attributes:
        status: `done`, `refused`, or `waiting`: nobody has carried it out yet.
        code: Why it was refused, or what keeps it waiting; None where it waits for the owner alone.
        values: What the verb answers; what has a code has its `text`, a refusal also what was done before it.
    """

    id: str
    verb: str
    status: str
    code: str | None
    values: dict[str, Plain]


@attrs.define
class Tries:
    """What happened in this run to records that still wait, by number.

    Attributes:
        crashes: How often an actor ended while it carried the record out.
        told: Those whose waiting is in the log.
        hindrance: What the newest that was put off waits for.
    """

    crashes: Counter[int] = attrs.Factory(Counter[int])
    told: set[int] = attrs.Factory(set[int])
    hindrance: BusError | None = None


async def execute(control: StoredControl, hands: StoreHands, log: Log, tries: Tries) -> bool:
    """Carry a waiting record out and end it.

    Returns:
        Whether it has ended. False: the store cannot take it now, or the runtime stops; it waits on.
    """
    try:
        if tries.crashes[control.number] >= CONTROL_CRASHES:
            raise BusError(Code.HANDLER_FAILED, "what carries it out crashed each time")
        done = await _carry_out(read_verb(control.verb, control.args), control, hands)
    except BusError as error:
        if is_passing(error):
            if error.code is Code.BUS_CLOSED and isinstance(error.__cause__, Exception):
                tries.crashes[control.number] += 1
            return _put_off(control, error, log, tries)
        done = _refusal(control, hands, str(error.code), error.message)
    except Exception as error:
        # A record that nobody foresaw must not end the runtime each time it starts.
        code = error_code_of(error) or Code.HANDLER_FAILED
        log.error(
            "control.crashed", control_id=control.id, verb=control.verb, error_type=type(error).__name__,
            bus_error_code=str(code),
        )  # fmt: skip
        done = _refusal(control, hands, str(code), f"{type(error).__name__}: {error}")
    if done is not None:
        try:
            await hands.end(attrs.evolve(done, args=_args_to_keep(control)))
        except BusError as error:
            # Ended already: by the commit that carried it out, before the refusal that followed.
            if error.code is not Code.STALE_CLAIM:
                return _put_off(control, error, log, tries)
    del tries.crashes[control.number]
    tries.told.discard(control.number)
    log.info("control.executed", control_id=control.id, verb=control.verb, actor=control.actor,
             bus_error_code=None if done is None else done.code)  # fmt: skip
    return True


def result_of(control: StoredControl) -> ControlResult:
    """A stored record as its caller sees it."""
    values = {} if control.status is ControlStatus.WAITING else dict(progress_of(control))
    return ControlResult(control.id, control.verb, str(control.status), control.code, values)


async def _carry_out(verb: Verb, control: StoredControl, hands: StoreHands) -> ControlDone | None:
    """Do it; returns the end that is still to be stored, None where a commit has stored it already."""
    match verb:
        case Requeue(rows=(row,)):
            await requeue_row(row, hands, _success(control.number, {"requeued": [str(row)], "refused": []}))
            return None
        case Requeue():
            return _success(control.number, await requeue_rows(verb, control, hands))
        case Purge():
            counts = await purge_dead(hands, verb.older_than_us, control)
            return _success(control.number, {"purged": sum(counts.values()), **counts})
        case Resolve():
            values: dict[str, Plain] = {"row": str(verb.row), "decision": verb.decision}
            await hands.move_send(verb.row.id, _DECISIONS[verb.decision], _success(control.number, values))
            return None
        case Cancel():
            event = CancelSend(str(Code.DELIVERY_PERMANENT), verb.reason)
            await hands.move_send(verb.row.id, event, _success(control.number, {"row": str(verb.row)}))
            return None
        case CancelTimer():
            await hands.cancel_timer(verb.timer, _success(control.number, {"timer": verb.timer}))
            return None
        case Forget():
            told: dict[str, Plain] = {"what": verb.what, "channel": verb.channel, "name": verb.name}
            await hands.forget(verb.what, verb.channel, verb.name, _success(control.number, told))
            return None
        case PublishMessage():
            receipt = await hands.publish(verb.message)
            return _success(control.number, dict(attrs.asdict(receipt)))


def _success(number: int, values: dict[str, Plain]) -> ControlDone:
    return ControlDone(number, dumps(values))


def _refusal(control: StoredControl, hands: StoreHands, code: str, text: str) -> ControlDone:
    # A foreign error may say anything; telling of it must not fail.
    told = progress_of(stored_control(control, hands))
    return ControlDone(control.number, dumps({**told, "text": clean_text(text)[:_MAX_TEXT_CHARS]}), code)


def _args_to_keep(control: StoredControl) -> str | None:
    kept = ended_args(control.verb, control.args)
    return None if kept == control.args else kept


def _put_off(control: StoredControl, error: BusError, log: Log, tries: Tries) -> bool:
    tries.hindrance = error
    if control.number not in tries.told:
        tries.told.add(control.number)
        log.warning("control.put_off", control_id=control.id, bus_error_code=str(error.code))
    return False
