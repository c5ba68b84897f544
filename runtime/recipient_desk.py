"""What a person may look at and decide over recipients, as an API on a live runtime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..actors.errors import BusError, Code

if TYPE_CHECKING:
    from .control.hands import StoreHands
    from .recipients import Recipients
    from .services import Services


class RecipientDesk:
    """Chats that moved, and conversations that are sent nothing for a while.

    Args:
        services: The runtime's parts.
        hands: What forgets.
    """

    def __init__(self, services: Services, hands: StoreHands) -> None:
        self._services = services
        self._hands = hands

    def moves(self, channel: str) -> Mapping[str, str]:
        """The chats of a channel that moved: the address of each before, and the next one.

        Raises:
            BusError: UNKNOWN_CHANNEL.
        """
        return dict(self._of(channel).aliases.moves)

    def unreachable(self, channel: str) -> Mapping[str, Code]:
        """The conversations that a channel sends nothing to for a while, and why.

        Raises:
            BusError: UNKNOWN_CHANNEL.
        """
        now_us = self._services.clock.wall_us()
        return {
            key: code
            for key, (until_us, code) in self._of(channel).unreachable.marks.items()
            if until_us > now_us
        }

    async def forget_unreachable(self, channel: str, key: str) -> None:
        """Try a conversation again: the next send to it goes out.

        Raises:
            BusError: NOT_FOUND, it is not marked.
        """
        await self._hands.forget("unreachable", channel, key, None)

    async def forget_move(self, channel: str, address: str) -> None:
        """Undo a move: the conversation's sends go to this address again, until the platform names a move anew.

        What comes in from the address behind it is a conversation of its own from now on.

        Raises:
            BusError: NOT_FOUND, no move away from this address is known.
        """
        await self._hands.forget("alias", channel, address, None)

    def _of(self, channel: str) -> Recipients:
        delivery = self._services.deliveries.get(channel)
        if delivery is None:
            raise BusError(Code.UNKNOWN_CHANNEL, f"no channel {channel[:80]} is open", channel=channel[:80])
        return delivery.recipients


__all__ = ["RecipientDesk"]
