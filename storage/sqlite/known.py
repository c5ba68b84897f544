"""What stands under the keys of a batch already."""

from __future__ import annotations

from typing import Final

import attrs

from ...actors.content import Rich
from ...actors.errors import BusError, Code
from ...actors.event import Event
from ...actors.message import BusMessage
from ..commands import EmitNumber
from ..records import OutboundContent, OutboxRecord

FirstInbox = tuple[int, int, int, BusMessage | None]
"""id, partition, offset, message of the row that stands under a key already; None, what it said is gone."""
FirstEvent = tuple[int, int, int, Event | None]
"""The same of an event."""
Said = tuple[str, int, Rich | None]
"""What a send says, how many parts it has, and what it is beside a text: one key sends one thing."""
FirstOutbox = tuple[int, int, int, str, OutboundContent | None]
"""id, shard, seq, conversation key, content of the send that has an identity already; None, nobody knows that."""
Identity = tuple[str, str, int]
"""channel, idempotency key, part."""


@attrs.define
class Known:
    """First rows by key, and ids of claimed inbox rows that are not in the store."""

    inbox: dict[str, FirstInbox] = attrs.Factory(dict[str, FirstInbox])
    events: dict[str, FirstEvent] = attrs.Factory(dict[str, FirstEvent])
    outbox: dict[Identity, FirstOutbox] = attrs.Factory(dict[Identity, FirstOutbox])
    missing: set[int] = attrs.Factory(set[int])


NOTHING_KNOWN: Final = Known()
"""Before anything is looked up; not to be changed."""


def said(content: OutboundContent) -> Said | None:
    """What two sends under one identity have to agree in; of a piece nobody knows what it was cut from."""
    return None if content.is_piece else (content.text, content.parts, content.rich)


def check_same_send(first: FirstOutbox, record: OutboxRecord, content: OutboundContent) -> None:
    """Refuse a second send under an identity that says something else, or to somebody else.

    Raises:
        BusError: IDENTITY_MISMATCH.
    """
    first_said = None if first[4] is None else said(first[4])
    is_other = first_said is not None and first_said != said(content)
    if is_other or first[3] != record.conversation_key:
        raise BusError(
            Code.IDENTITY_MISMATCH,
            "another send stands under this channel, key and part",
            row_id=first[0],
            channel=record.channel,
            idempotency_key=record.idempotency_key,
            part=record.part,
        )


def is_other_message(first: BusMessage | None, message: BusMessage) -> bool:
    """Whether a second message under the same key is another message; of a purged one nobody knows."""
    return first is not None and (
        first.payload.text != message.payload.text
        or first.extensions.kind is not message.extensions.kind
        or first.conversation_key != message.conversation_key
    )


def is_other_event(first: Event | None, event: Event) -> bool:
    """Whether a second event under the same key is another event; of one that is emptied nobody knows."""
    return first is not None and (first.payload, first.type, first.key) != (
        event.payload,
        event.type,
        event.key,
    )


def emit_key(number: EmitNumber) -> str:
    """The dedupe key of an emitted message."""
    return f"emit:{number.shard}:{number.seq}:{number.index}"
