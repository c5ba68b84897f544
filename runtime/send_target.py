"""Which message of the platform an edit or a deletion is about: looked up when its turn comes.

It is behind the send it names in the same lane, so that one has ended: what has no id by then gets none for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..actors.content import ref_of
from ..actors.errors import Code
from ..storage.commands import Committed
from ..storage.records import OutboxState
from .outbox_rules import Cancel, outbox_move
from .reports import report_send

if TYPE_CHECKING:
    from ..storage.port import Reader
    from .send import PendingRow
    from .services import Services
    from .shard import ShardActor
    from .shard_outbox import ShardOutbox
    from .turn_plan import OutboxLane


def lacks_target(row: PendingRow, reader: Reader) -> bool:
    """Find the platform's id for a row that needs one.

    Returns:
        True where the send it names is dead, unknown, of another conversation, or has no id that is known.
    """
    ref = ref_of(row.content.rich)
    if ref is None or row.target is not None:
        return False
    stored = reader.find_outbox(ref.channel, ref.idempotency_key, ref.part)
    if stored is not None and stored.record.conversation_key == row.record.conversation_key:
        row.target = stored.record.platform_message_id
    # An uncertain row had one when it went out.
    return row.target is None and row.record.state is not OutboxState.UNCERTAIN


def give_up(
    shard: ShardActor, outbox: ShardOutbox, lane: OutboxLane, row: PendingRow, services: Services
) -> None:
    """The head of a lane has no target: it is dead, and the next one goes on."""
    outbox.lanes.take(lane)
    lane.busy = True
    event = Cancel(str(Code.NOT_FOUND), "the send it is about has no message on the platform")
    move = outbox_move(row.record, event, now_us=services.clock.wall_us(), claim=None)
    report_send(move.after, move.code, services)

    def then(_: Committed) -> None:
        outbox.lanes.release(row)
        lane.busy = False
        outbox.look(lane)

    shard.submit_moves(outbox=(move,), then=then)


__all__ = ["give_up", "lacks_target"]
