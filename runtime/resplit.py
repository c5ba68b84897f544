"""A text that a platform finds too long although it is not, as declared: cut smaller, once.

The row keeps the first piece and its place; the others are new rows behind it, all in one commit. So a send has one
identity from its first attempt on, and nothing that is to go out ever stands in two rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from ..actors.errors import Code
from ..storage.commands import Commit, Committed, NewOutbox, OutboxRewrite
from ..storage.records import OutboundContent, OutboxRecord
from .channel import ChannelCaps, NotSent, SendOutcome
from .outbox_rules import Resplit, outbox_move
from .parts import PART_STEP
from .split import length_of, split_text

if TYPE_CHECKING:
    from .send import Send
    from .services import Services
    from .shard import ShardActor
    from .shard_outbox import ShardOutbox

_NOTHING: Final[list[str]] = []


def pieces_of(content: OutboundContent, outcome: SendOutcome | None, caps: ChannelCaps) -> list[str]:
    """What a send that was too long is cut into: by what the platform says it takes, else into halves.

    Returns:
        Two pieces or more; none where it was something else, or the text is a piece already. Pure.
    """
    if (
        not isinstance(outcome, NotSent)
        or outcome.code is not Code.TOO_LARGE
        or content.is_piece
        or content.rich
    ):
        return _NOTHING
    half = -(-length_of(content.text, caps.unit) // 2)
    limit = half if outcome.max_text is None else min(outcome.max_text, caps.max_text)
    pieces = [piece for piece in split_text(content.text, limit, caps.unit) if not piece.isspace()]
    return pieces if 1 < len(pieces) <= PART_STEP else _NOTHING


def resplit(
    shard: ShardActor, outbox: ShardOutbox, send: Send, pieces: list[str], services: Services
) -> None:
    """Commit a send's pieces in place of its text, and let its lane go on with them."""
    row, lane = send.row, send.lane
    record, now_us = row.record, services.clock.wall_us()
    move = outbox_move(record, Resplit(), now_us=now_us, claim=record.claim)
    first, *rest = (attrs.evolve(row.content, text=piece, is_piece=True) for piece in pieces)
    new = tuple(
        NewOutbox(record=_piece_record(record, number, services, now_us), content=content)
        for number, content in enumerate(rest, 1)
    )
    send.free_slot()

    def then(_: Committed) -> None:
        outbox.sends.pop(record.id, None)
        send.outcome_message = None  # it holds the send: a cycle
        row.record, row.content = move.after, first
        services.log.info("send.resplit", outbox_id=record.id, pieces=len(pieces))
        # All of them are on disk alone, in front of what the lane has in memory: it reads them again.
        outbox.lanes.release(row)
        lane.busy = False
        outbox.back_off(lane, row, 0)

    commit = Commit(
        shard=shard.number,
        epoch=shard.epoch,
        at_us=now_us,
        new_outbox=new,
        rewrites=(OutboxRewrite(move, first),),
    )
    shard.submit(commit, then)


def _piece_record(record: OutboxRecord, number: int, services: Services, now_us: int) -> OutboxRecord:
    return OutboxRecord(
        id=services.store.next_outbox_id(),
        shard=record.shard,
        seq=record.seq,
        channel=record.channel,
        idempotency_key=record.idempotency_key,
        part=record.part + number,
        conversation_key=record.conversation_key,
        created_at_us=now_us,
        updated_at_us=now_us,
        generation=record.generation,
    )


__all__ = ["pieces_of", "resplit"]
