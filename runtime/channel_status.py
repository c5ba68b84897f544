"""How the sending side of a channel stands."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from ..actors.errors import Code

if TYPE_CHECKING:
    from .delivery import DeliveryActor


@attrs.frozen(kw_only=True)
class ChannelStatus:
    """One channel's sends.

    Attributes:
        running: Sends under way.
        waiting: Conversations whose next send waits for a slot or a rate limit.
        paused_s: What is left of a pause that the platform asked for, for all chats, seconds.
        paused_chats: Chats that are paused each by itself.
        limited_chats: Chats whose rate limit or pause is remembered.
        moved_chats: Chats that are known to have another address now.
        unreachable: Conversations whose sends are refused without a request.
        is_stopped: It sends nothing until the next start.
        code: Why it is stopped.
    """

    running: int
    waiting: int
    paused_s: float
    paused_chats: int
    limited_chats: int
    moved_chats: int
    unreachable: int
    is_stopped: bool
    code: Code | None


def channel_status(delivery: DeliveryActor) -> ChannelStatus:
    """How a channel stands now."""
    line = delivery.line
    return ChannelStatus(
        running=len(delivery.pool.running),
        waiting=line.waiting,
        paused_s=round(line.bot_pause_left_s, 3),
        paused_chats=line.paused_chats,
        limited_chats=line.known_chats,
        moved_chats=len(delivery.recipients.aliases),
        unreachable=len(delivery.recipients.unreachable),
        is_stopped=line.is_stopped,
        code=Code.BAD_TOKEN if line.is_stopped else None,
    )


__all__ = ["ChannelStatus", "channel_status"]
