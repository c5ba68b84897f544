"""Carries one control record out, once, and stores what became of it."""

from __future__ import annotations

from typing import Final

import attrs
import structlog

from ...actors.errors import BusError, Code, Permanence, error_code_of
from ...actors.plain import Plain
from ...actors.strict_json import dumps, loads
from ...actors.text import clean_text
from ...storage.commands import ControlDone
from ...storage.records import InboxStatus, OutboxState, StoredControl
from ..outbox_rules import Cancel as CancelSend
from ..outbox_rules import OutboxEvent, ResolveDead, ResolveResend, ResolveSent
from ..outbox_rules import Requeue as RequeueSend
from .hands import StoreHands
from .verbs import Cancel, Decision, PublishMessage, Purge, Requeue, Resolve, RowRef, Verb, read_verb

_PAGE_ROWS: Final = 200
"""Rows that one purge empties in a commit."""

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
        code: Why it was refused.
        values: What the verb answers; a refusal has its `text`.
    """

    id: str
    verb: str
    status: str
    code: str | None
    values: dict[str, Plain]


async def execute(control: StoredControl, hands: StoreHands, log: Log) -> bool:
    """Carry a waiting record out and end it.

    Returns:
        Whether it has ended. False: the store cannot take it now, or the runtime stops; it waits on.
    """
    try:
        done = await _carry_out(read_verb(control.verb, control.args), control, hands)
    except BusError as error:
        if error.code.permanence is Permanence.TRANSIENT or error.code is Code.BUS_CLOSED:
            log.warning("control.put_off", control_id=control.id, bus_error_code=str(error.code))
            return False
        done = _refusal(control.number, str(error.code), error.message)
    except Exception as error:
        # A record that nobody foresaw must not end the runtime each time it starts.
        code = error_code_of(error) or Code.HANDLER_FAILED
        log.error(
            "control.crashed", control_id=control.id, verb=control.verb, error_type=type(error).__name__,
            bus_error_code=str(code),
        )  # fmt: skip
        done = _refusal(control.number, str(code), f"{type(error).__name__}: {error}")
    if done is not None:
        try:
            await hands.end(done)
        except BusError as error:
            # Ended already: by the commit that carried it out, before the refusal that followed.
            if error.code is not Code.STALE_CLAIM:
                log.warning("control.put_off", control_id=control.id, bus_error_code=str(error.code))
                return False
    log.info("control.executed", control_id=control.id, verb=control.verb, actor=control.actor,
             bus_error_code=None if done is None else done.code)  # fmt: skip
    return True


def result_of(control: StoredControl) -> ControlResult:
    """A stored record as its caller sees it."""
    values: dict[str, Plain] = {}
    if control.result is not None:
        found = loads(control.result)
        values = found if isinstance(found, dict) else {}
    return ControlResult(control.id, control.verb, str(control.status), control.code, values)


async def _carry_out(verb: Verb, control: StoredControl, hands: StoreHands) -> ControlDone | None:
    """Do it; returns the end that is still to be stored, None where a commit has stored it already."""
    match verb:
        case Requeue(rows=(row,)):
            await _requeue(row, hands, _success(control.number, {"requeued": [str(row)], "refused": []}))
            return None
        case Requeue():
            return _success(control.number, await _requeue_all(verb, control, hands))
        case Purge():
            counts = await purge_dead(hands, verb.older_than_us)
            return _success(control.number, {"purged": sum(counts.values()), **counts})
        case Resolve():
            values: dict[str, Plain] = {"row": str(verb.row), "decision": verb.decision}
            await hands.move_send(verb.row.id, _DECISIONS[verb.decision], _success(control.number, values))
            return None
        case Cancel():
            event = CancelSend(str(Code.DELIVERY_PERMANENT), verb.reason)
            await hands.move_send(verb.row.id, event, _success(control.number, {"row": str(verb.row)}))
            return None
        case PublishMessage():
            receipt = await hands.publish(verb.message)
            return _success(control.number, dict(attrs.asdict(receipt)))


async def _requeue(row: RowRef, hands: StoreHands, control: ControlDone | None) -> None:
    if row.kind == "in":
        await hands.requeue_message(row.id, control)
    else:
        await hands.move_send(row.id, RequeueSend(), control)


async def _requeue_all(verb: Requeue, control: StoredControl, hands: StoreHands) -> dict[str, Plain]:
    done: list[Plain] = []
    refused: list[Plain] = []
    for row in verb.rows:
        try:
            if _died_since(row, control.created_at_us, hands):
                raise BusError(Code.INVALID_TRANSITION, f"{row} died again after it was to be requeued")
            await _requeue(row, hands, None)
        except BusError as error:
            if error.code.permanence is Permanence.TRANSIENT or error.code is Code.BUS_CLOSED:
                raise
            refused.append({"row": str(row), "code": str(error.code)})
        else:
            done.append(str(row))
    return {"requeued": done, "refused": refused}


def _died_since(row: RowRef, at_us: int, hands: StoreHands) -> bool:
    """Whether a row died after the record was made: then this very record may have requeued it, before a crash."""
    if row.kind == "in":
        message = hands.message(row.id).record
        return message.status is InboxStatus.DEAD and (message.dead_at_us or 0) > at_us
    send = hands.send(row.id).record
    return send.state is OutboxState.DEAD and (send.dead_at_us or 0) > at_us


async def purge_dead(hands: StoreHands, until_us: int) -> dict[str, int]:
    """Empty all that died at that time or before, a page a commit.

    Returns:
        How many `messages` and `sends`.
    """
    counts = {"messages": 0, "sends": 0}
    while True:
        messages = hands.reader.dead_messages(until_us, _PAGE_ROWS)
        sends = [] if messages else hands.reader.dead_sends(until_us, _PAGE_ROWS)
        if not messages and not sends:
            return counts
        try:
            await hands.purge(messages, sends)
        except BusError as error:
            # Somebody requeued one of them meanwhile: the next page is without it.
            if error.code is not Code.STALE_CLAIM:
                raise
            continue
        counts["messages"] += len(messages)
        counts["sends"] += len(sends)


def _success(number: int, values: dict[str, Plain]) -> ControlDone:
    return ControlDone(number, dumps(values))


def _refusal(number: int, code: str, text: str) -> ControlDone:
    # A foreign error may say anything; telling of it must not fail.
    return ControlDone(number, dumps({"text": clean_text(text)[:_MAX_TEXT_CHARS]}), code)
