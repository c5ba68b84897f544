"""What a context asks of the runtime round it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from .effects import TimerPlace
from .state import StateShape
from .turn_now import EarlyCommits

if TYPE_CHECKING:
    import structlog.typing

    from ..actors.content import Action
    from .channel import ChannelCaps
    from .context import Context


class Surroundings(EarlyCommits, Protocol):
    """What a context asks of the runtime: who is where."""

    @property
    def store_uuid(self) -> str:
        """Which store this is: part of the keys that turns make."""
        ...

    @property
    def state_shape(self) -> StateShape:
        """How the topology declares the state."""
        ...

    def channel_of(self, conversation_key: str) -> str:
        """The channel that a conversation key's prefix names; UNKNOWN_CHANNEL if none does."""
        ...

    def check_channel(self, channel: str, conversation_key: str) -> ChannelCaps:
        """What a channel can do; one that is not open, or does not own the key's prefix, is refused."""
        ...

    def act(self, channel: str, conversation_key: str, action: Action) -> None:
        """Begin an ephemeral call; INVALID_MESSAGE where the channel has none."""
        ...

    def is_event_topic(self, topic: str) -> bool:
        """Whether a topic is an event topic; INVALID_TOPIC or NO_SUBSCRIBER where it is nothing usable."""
        ...

    def timer_place(self, topic: str, key: str | None, *, spread: str) -> TimerPlace:
        """Where a timer of this topic and key fires into; the errors of `is_event_topic`.

        `spread` chooses the partition of an event without a key.
        """
        ...

    def has_timer(self, timer_id: str) -> bool:
        """Whether a timer of this id is set."""
        ...

    def logger(self, context: Context) -> structlog.typing.FilteringBoundLogger:
        """A logger bound to the turn's ids."""
        ...
