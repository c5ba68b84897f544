"""One text as the rows that send it: a row a part, in order, with one key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, cast

import attrs
import trio

from ..actors.errors import BusError, Code
from ..actors.value import changed
from ..storage.commands import Commit, Committed, Duplicate, NewOutbox, Outcome, Publish, Refused, Stored
from ..storage.records import OutboundContent, OutboxRecord
from .channel import Splits
from .defaults import MAX_PARTS
from .emits import publish_row, tell_arrival
from .split import split_text

if TYPE_CHECKING:
    from .delivery import DeliveryActor
    from .services import Services

PART_STEP: Final = 1_000
"""The parts of a text are numbered in steps of this: between two there is room for the pieces of a part."""

_LEASE_TRIES: Final = 10


def texts_of(delivery: DeliveryActor, text: str) -> list[str]:
    """Cut a text as its channel wants it: by the adapter's `split`, else by the length it declares.

    A part of white space alone is left out, for no channel shows it.

    Raises:
        BusError: INVALID_MESSAGE, the adapter's `split` raised or answered what can not be sent; TOO_LARGE, more than
            1,000 parts.
    """
    if delivery.splits is None:
        caps = delivery.adapter.caps
        parts = split_text(text, caps.max_text, caps.unit)
    else:
        parts = _own_parts(delivery.splits, text)
    if len(parts) > 1:
        parts = [part for part in parts if not part.isspace()]
    if len(parts) > MAX_PARTS:
        raise BusError(
            Code.TOO_LARGE, f"a text is sent in at most {MAX_PARTS} parts", parts=len(parts), limit=MAX_PARTS
        )
    return parts


def _own_parts(adapter: Splits, text: str) -> list[str]:
    try:
        answer = cast("object", adapter.split(text))
    except Exception as error:
        raise BusError(
            Code.INVALID_MESSAGE, f"the channel's split raised {type(error).__name__}", field="text"
        ) from error
    parts = cast("list[object]", answer) if isinstance(answer, list) else []
    if not parts or not all(isinstance(part, str) and part.strip() for part in parts):
        raise BusError(Code.INVALID_MESSAGE, "the channel's split made parts that show nothing", field="text")
    return cast("list[str]", parts)


def part_rows(
    record: OutboxRecord, content: OutboundContent, services: Services
) -> list[tuple[OutboxRecord, OutboundContent]]:
    """The rows of a send: its own, and one more for each further part of its text.

    Args:
        record: Of part 0.
        content: With the whole text.
        services: Of a runtime with the channel open.
    Raises:
        BusError: as `texts_of`.
    """
    if content.rich is not None:
        return [(record, content)]
    texts = texts_of(services.deliveries[record.channel], content.text)
    if len(texts) == 1:
        return [(record, content if texts[0] == content.text else attrs.evolve(content, text=texts[0]))]
    rows: list[tuple[OutboxRecord, OutboundContent]] = []
    for index, text in enumerate(texts):
        own = changed(record, id=services.store.next_outbox_id(), part=PART_STEP * index) if index else record
        rows.append((own, attrs.evolve(content, text=text, parts=len(texts))))
    return rows


async def publish_sends(
    rows: Sequence[tuple[OutboxRecord, OutboundContent]], services: Services
) -> tuple[Stored | Duplicate, ...]:
    """Store the rows of one send that no turn decided; return after the commit that holds them all.

    Returns:
        What became of each.
    Raises:
        BusError: the refusal, by its code.
    """
    new = tuple(NewOutbox(record=record, content=content) for record, content in rows)
    now_us = services.clock.wall_us()
    if len(new) == 1:
        return (await publish_row(Publish(row=new[0], at_us=now_us), services),)
    shard = services.shards[new[0].record.shard]
    for left in reversed(range(_LEASE_TRIES)):
        commit = Commit(shard=shard.number, epoch=shard.epoch, at_us=now_us, new_outbox=new)
        outcome = await _committed(commit, services)
        if isinstance(outcome, Committed):
            return outcome.outbox
        # A shard that restarts meanwhile has another lease.
        if isinstance(outcome, Refused) and (outcome.error.code is not Code.FENCED or not left):
            raise outcome.error
    raise AssertionError("the last try returns or raises")


async def _committed(commit: Commit, services: Services) -> Outcome:
    settled = trio.Event()
    outcomes: list[Outcome] = []

    def settle(outcome: Outcome) -> None:
        try:
            if isinstance(outcome, Committed):
                for row, stored in zip(commit.new_outbox, outcome.outbox, strict=True):
                    tell_arrival(row, stored, services)
        finally:
            outcomes.append(outcome)
            settled.set()

    await trio.lowlevel.checkpoint_if_cancelled()
    services.store.submit(commit, settle)
    # Handed over it cannot be taken back: whoever publishes learns what became of it.
    with trio.CancelScope(shield=True):
        await settled.wait()
    return outcomes[0]


__all__ = ["PART_STEP", "part_rows", "publish_sends", "texts_of"]
