"""`publish(wait="handled")`: what became of a message, told to whoever published it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Literal, cast

import attrs

from ..actors.errors import BusError, Code
from ..actors.given import shown
from ..actors.message import Direction
from ..actors.storable import check_storable
from ..storage.records import Failure, InboxRecord, InboxStatus, OutboxRecord, OutboxState
from .ends import has_ended, send_has_ended
from .parts import PART_STEP
from .receipt import Receipt
from .send import place_of
from .topic_handler import turn_here

if TYPE_CHECKING:
    from ..actors.event import Event
    from ..actors.message import BusMessage
    from .services import Services

Outcome = Literal["done", "dead", "parked"]


@attrs.frozen(kw_only=True)
class Handled:
    """What became of a message.

    Attributes:
        status: `done`, its turn is committed (an outbound one: it is sent); `dead`, it gave up; `parked`, nobody
            handles it (an outbound one: nobody knows whether it went out, and a person has to decide).
        receipt: Its place.
        code: Why it is dead or parked.
        own_code: The handler's own code, where `code` is HANDLER_FAILED.
        text: The same for people; never the message's text.
    """

    status: Outcome
    receipt: Receipt
    code: Code | None = None
    own_code: str | None = None
    text: str = ""


async def publish_handled(
    publish: Callable[[], Awaitable[Receipt]], message: BusMessage | Event, wait: object, services: Services
) -> Handled:
    """Publish and wait for the end.

    Args:
        publish: Stores the message.
        message: What it stores.
        wait: What the caller asks to wait for.
        services: The runtime's parts.
    Raises:
        BusError: what `publish` raises; INVALID_MESSAGE, `wait` is another word or the message an event;
            WOULD_DEADLOCK, nothing is stored then; BUS_CLOSED, the runtime stops first.
    """
    direction = getattr(message, "direction", None)
    if wait != "handled" or not isinstance(direction, Direction):
        raise BusError(
            Code.INVALID_MESSAGE,
            'a publish waits for nothing or "handled", an event for nothing',
            given=shown(wait),
        )
    check_storable(cast("BusMessage", message))
    key = getattr(message, "conversation_key", "")
    if direction is Direction.OUTBOUND:
        # A send waits for no turn, so a turn can wait for it, also for one of its own conversation.
        receipt = await publish()
        return _sent(await end_of_text(receipt.event_id, services), receipt)
    with _held(key, services):
        receipt = await publish()
        return _handled(await _end_of_message(receipt.event_id, services), receipt)


async def _end_of_message(row_id: int, services: Services) -> InboxRecord:
    # Asked first: it may have ended already, for a repeat long ago.
    stored = services.store.reader.inbox(row_id)
    if stored is not None and has_ended(stored.record):
        return stored.record
    return await services.ends.wait_message(row_id)


async def _end_of_send(row_id: int, services: Services) -> OutboxRecord:
    """Wait until a stored send is sent, dead or left to a person.

    Raises:
        BusError: BUS_CLOSED, the runtime stops first.
    """
    stored = services.store.reader.outbox(row_id)
    if stored is not None:
        record = stored.record
        if send_has_ended(record) or (
            record.state is OutboxState.UNCERTAIN and not _is_to_be_asked(record, services)
        ):
            return record
    return await services.ends.wait_send(row_id)


def _is_to_be_asked(record: OutboxRecord, services: Services) -> bool:
    """Whether the channel is asked, or sends again, what became of an uncertain send.

    On disk one that the channel could not tell of looks the same; its conversation has gone past it.
    """
    delivery = services.deliveries.get(record.channel)
    if delivery is None or not delivery.can_look_up:
        return True
    outbox = services.shards[record.shard].outbox
    if record.id in outbox.sends:
        return True
    lane = outbox.lanes.find(record.conversation_key)
    return lane is not None and (
        (lane.more and lane.last_seq < place_of(record))
        or any(row.record.id == record.id and not row.is_parked for row in lane.queue)
    )


async def end_of_text(row_id: int, services: Services) -> OutboxRecord:
    """Wait until all parts of a stored text are sent, pieces of them too, or one of them has ended otherwise.

    Args:
        row_id: Of its first part.
        services: The runtime's parts.
    Returns:
        The part that is not sent, for what is behind it is held; the first one where all are.
    Raises:
        BusError: BUS_CLOSED, the runtime stops first.
    """
    first = part = await _end_of_send(row_id, services)
    while part.state is OutboxState.SENT:
        following = _part_behind(part, services)
        if following is None:
            return first
        part = await _end_of_send(following, services)
    return part


def _part_behind(record: OutboxRecord, services: Services) -> int | None:
    """The row behind a part that was sent: the next piece of it, if it was cut once more, or the next part."""
    for part in (record.part + 1, record.part // PART_STEP * PART_STEP + PART_STEP):
        stored = services.store.reader.find_outbox(record.channel, record.idempotency_key, part)
        if stored is not None:
            return stored.record.id
    return None


def _held(key: str, services: Services) -> AbstractContextManager[None]:
    caller = turn_here(services)
    return nullcontext() if caller is None else services.turn_waits.waiting(caller, key)


def _handled(record: InboxRecord, receipt: Receipt) -> Handled:
    last = record.errors[-1] if record.errors else None
    match record.status:
        case InboxStatus.DONE:
            return Handled(status="done", receipt=receipt)
        case InboxStatus.PARKED:
            return _ended("parked", receipt, last, Code.NO_SUBSCRIBER)
        case _:
            return _ended("dead", receipt, last, Code.HANDLER_FAILED)


def _sent(record: OutboxRecord, receipt: Receipt) -> Handled:
    last = record.errors[-1] if record.errors else None
    match record.state:
        case OutboxState.SENT:
            return Handled(status="done", receipt=receipt)
        case OutboxState.UNCERTAIN:
            return _ended("parked", receipt, last, Code.DELIVERY_UNCERTAIN)
        case _:
            return _ended("dead", receipt, last, Code.DELIVERY_PERMANENT)


def _ended(status: Outcome, receipt: Receipt, last: Failure | None, otherwise: Code) -> Handled:
    if last is None:
        return Handled(status=status, receipt=receipt, code=otherwise)
    return Handled(
        status=status,
        receipt=receipt,
        code=code_of(last, otherwise),
        own_code=last.own_code,
        text=last.text,
    )


def code_of(last: Failure | None, otherwise: Code) -> Code:
    """The code of a row's newest error; `otherwise` where there is none that is ours."""
    return Code(last.code) if last is not None and last.code in Code.__members__ else otherwise


__all__ = ["Handled", "code_of", "end_of_text", "publish_handled"]
