"""A text under a key that stands in the outbox already: it keeps the parts that it was cut into then.

The length that a channel takes changes with its versions, and a platform may have had a part cut once more. Cut anew, a
repeat would not be known as one, or its tail would go out a second time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..actors.errors import BusError, Code
from ..actors.value import changed
from .parts import PART_STEP, part_rows
from .split import length_of

if TYPE_CHECKING:
    from ..storage.records import OutboundContent, OutboxRecord, StoredOutbox
    from .services import Services


def rows_of_send(
    record: OutboxRecord, content: OutboundContent, services: Services
) -> list[tuple[OutboxRecord, OutboundContent]]:
    """The rows of a send: of each part of its text, as it is cut now, or as it was when it was stored first.

    Args:
        record: Of part 0.
        content: With the whole text.
        services: Of a runtime with the channel open.
    Raises:
        BusError: as `part_rows` and `known_rows`.
    """
    rows = part_rows(record, content, services)
    if len(rows) == 1 and (content.rich is not None or _was_one_part(record, content, services)):
        return rows
    return known_rows(record, content, services) or rows


def _was_one_part(record: OutboxRecord, content: OutboundContent, services: Services) -> bool:
    """Whether a text that is one part now was one ever since: nobody then looks what is stored.

    A channel's length changes by no more than half; of a shorter text one part is all there can be.
    """
    caps = services.deliveries[record.channel].adapter.caps
    return 2 * length_of(content.text, caps.unit) <= caps.max_text


def known_rows(
    record: OutboxRecord, content: OutboundContent, services: Services
) -> list[tuple[OutboxRecord, OutboundContent]]:
    """The rows of a send as they are stored under its key; none where nothing is.

    What was said and is gone (retention, a purge) counts as the same.

    Args:
        record: Of part 0.
        content: With the whole text.
        services: Of a runtime with the channel open.
    Raises:
        BusError: IDENTITY_MISMATCH, another text or another conversation stands there.
    """
    stored = services.store.reader.text_parts(record.channel, record.idempotency_key)
    if not stored:
        return []
    if stored[0].record.conversation_key != record.conversation_key or _is_other(stored, content.text):
        raise BusError(
            Code.IDENTITY_MISMATCH,
            "another send stands under this channel and key",
            row_id=stored[0].record.id,
            channel=record.channel,
            idempotency_key=record.idempotency_key,
        )
    store = services.store
    return [
        (changed(record, id=store.next_outbox_id(), part=row.record.part), row.content)
        for row in stored
        if row.record.part % PART_STEP == 0
    ]


def _is_other(stored: Sequence[StoredOutbox], text: str) -> bool:
    texts = [row.content.text for row in stored]
    if any(row.content.rich for row in stored):
        return True
    # A part that shows nothing was left out.
    return all(texts) and _bare("".join(texts)) != _bare(text)


def _bare(text: str) -> str:
    return "".join(text.split())


__all__ = ["known_rows", "rows_of_send"]
