"""What a turn may ask of its channel at once, without a word of it on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..actors.content import Action
from ..actors.message import BusMessage
from .content_checks import checked_action

if TYPE_CHECKING:
    from .context_surroundings import Surroundings


class EphemeralVerbs:
    """The part of a `Context` that leaves no trace. It has no state of its own."""

    __slots__ = ()

    if TYPE_CHECKING:
        message: BusMessage
        _surroundings: Surroundings

    def ephemeral(self, action: Action) -> None:
        """Let the conversation's channel do something now: show that somebody types, answer a button.

        Best effort, once, within 5 s, whatever becomes of the turn: nothing is stored, nothing is tried again, and
        the turn does not wait for it. What is lost is counted.

        Raises:
            BusError: INVALID_MESSAGE, the channel can do nothing of the kind; UNKNOWN_CHANNEL; STALE_CLAIM after the
                turn.
        """
        self.check_active()
        key = self.message.conversation_key
        channel = self.message.channel or self._surroundings.channel_of(key)
        self._surroundings.check_channel(channel, key)
        self._surroundings.act(channel, key, checked_action(action))

    if TYPE_CHECKING:

        def check_active(self) -> None: ...


__all__ = ["EphemeralVerbs"]
