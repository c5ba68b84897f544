"""What a handler may do in its turn."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Protocol

from ..actors.codec import pack_plain, unpack_plain
from ..actors.errors import BusError, Code
from ..actors.idempotency import turn_key
from ..actors.keys import check_conversation_key
from ..actors.message import BusMessage
from ..actors.names import canonical
from ..actors.plain import Plain, check_plain
from ..storage.records import InboxRecord, OnUncertain
from .context_schedule import ScheduleVerbs, check_text
from .defaults import MAX_EFFECTS, MAX_HOPS, STATE_BYTES
from .effects import Effect, EventEffect, MessageEffect, SendEffect, SendRef, TimerPlace

if TYPE_CHECKING:
    import structlog.typing


class Surroundings(Protocol):
    """What a context asks of the runtime: who is where."""

    @property
    def store_uuid(self) -> str:
        """Which store this is: part of the keys that turns make."""
        ...

    def channel_of(self, conversation_key: str) -> str:
        """The channel that a conversation key's prefix names; UNKNOWN_CHANNEL if none does."""
        ...

    def check_channel(self, channel: str, conversation_key: str) -> None:
        """Refuse a channel that is not open, or that does not own the key's prefix."""
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


class Context(ScheduleVerbs):
    """One turn of a handler: the message, the conversation's state, and what it may decide.

    `reply`, `send`, `publish`, `schedule` and `cancel` buffer; everything is stored in one commit with "this message
    is done", or not at all. Once the turn has ended every call is STALE_CLAIM.

    Attributes:
        message: The message.
        claim: The number of this run of it: a fence for systems outside.
        failures: Turns of it that failed before, in this generation.
        generation: How often it was requeued.
    """

    __slots__ = (
        "_deadline_s",
        "_effects",
        "_ended",
        "_record",
        "_replies",
        "_sends",
        "_state",
        "_stored_state",
        "_surroundings",
        "_timers",
        "message",
    )

    def __init__(
        self,
        message: BusMessage,
        record: InboxRecord,
        *,
        stored_state: bytes | None,
        deadline_s: float,
        surroundings: Surroundings,
    ) -> None:
        self.message = message
        self._record = record
        self._stored_state = stored_state
        self._state: dict[str, Plain] | None = None
        self._effects: list[Effect] = []
        self._replies = 0
        self._sends = 0
        self._timers = 0
        self._ended = False
        self._deadline_s = deadline_s
        self._surroundings = surroundings

    @property
    def claim(self) -> int:
        """The number of this run of the message."""
        return self._record.claim

    @property
    def failures(self) -> int:
        """Turns of this message that failed before, in this generation."""
        return self._record.failures

    @property
    def generation(self) -> int:
        """How often the message was requeued."""
        return self._record.generation

    @property
    def deadline_s(self) -> float:
        """When the turn's time is over, in seconds of `trio.current_time()`."""
        return self._deadline_s

    @property
    def log(self) -> structlog.typing.FilteringBoundLogger:
        """A logger bound to the message's ids."""
        return self._surroundings.logger(self)

    @property
    def state(self) -> MutableMapping[str, Plain]:
        """The conversation's own state: plain values, at most 256 KiB packed. Stored if it changed."""
        self._check_active()
        if self._state is None:
            loaded = unpack_plain(self._stored_state, limit_bytes=STATE_BYTES) if self._stored_state else {}
            if not isinstance(loaded, dict):
                raise BusError(
                    Code.STORE_CORRUPT, "the stored state is not a mapping", key=self.message.conversation_key
                )
            self._state = loaded
        return self._state

    def reply(self, text: str, *, on_uncertain: OnUncertain | str | None = None) -> SendRef:
        """Answer in the conversation the message came from.

        Args:
            text: At least one visible character, no lone surrogates.
            on_uncertain: `park`, `resend` or `drop`, where this send's own policy differs from the channel's.
        Returns:
            The name of the send.
        Raises:
            BusError: INVALID_MESSAGE; UNKNOWN_CHANNEL; STALE_CLAIM after the turn.
        """
        key = self.message.conversation_key
        channel = self.message.channel or self._surroundings.channel_of(key)
        name = self._turn_key("reply", self._replies, key)
        effect = self._send_effect(
            channel, key, text, name, on_uncertain, self.message.extensions.platform_message_id
        )
        self._replies += 1
        return effect.ref

    def send(
        self,
        channel: str,
        key: str,
        text: str,
        *,
        idempotency_key: str | None = None,
        on_uncertain: OnUncertain | str | None = None,
    ) -> SendRef:
        """Send to any conversation of any open channel.

        Args:
            channel: The channel's name.
            key: The conversation key; its prefix must be the channel's.
            text: As in `reply`.
            idempotency_key: A key of your own: the same key is sent once, however often it is asked for. The same key
                for another conversation or text fails the turn with IDENTITY_MISMATCH.
            on_uncertain: As in `reply`.
        Raises:
            BusError: INVALID_MESSAGE; UNKNOWN_CHANNEL; STALE_CLAIM after the turn.
        """
        self._check_active()
        check_conversation_key(key)
        if idempotency_key is None:
            name = self._turn_key("send", self._sends, key)
        else:
            name = canonical(idempotency_key, "idempotency_key")
        effect = self._send_effect(channel, key, text, name, on_uncertain, None)
        self._sends += 1
        return effect.ref

    def publish(
        self,
        topic: str,
        payload: Plain,
        *,
        key: str | None = None,
        headers: dict[str, str] | None = None,
        idem_key: str | None = None,
    ) -> None:
        """Publish to an event topic, or a text to a conversation topic.

        Args:
            topic: An event topic, or a conversation topic with a handler.
            payload: Plain values for an event; the text for a conversation topic.
            key: The event's key; the conversation for a conversation topic (default: this one).
            headers: Of an event.
            idem_key: An event with the same one is stored once.
        Raises:
            BusError: INVALID_TOPIC, NO_SUBSCRIBER, INVALID_MESSAGE, HOP_LIMIT, STALE_CLAIM after the turn.
        """
        self._check_active()
        self._check_hops()
        if self._surroundings.is_event_topic(topic):
            check_plain(payload)
            self._add(EventEffect(topic, payload, key, dict(headers or {}), idem_key))
            return
        if not isinstance(payload, str):
            raise BusError(Code.INVALID_MESSAGE, "a conversation topic takes a text", topic=topic)
        target = self.message.conversation_key if key is None else key
        check_conversation_key(target)
        check_text(payload)
        self._add(MessageEffect(topic, target, payload))

    def end(self) -> None:
        """The turn is over: every later call is STALE_CLAIM."""
        self._ended = True

    @property
    def is_ended(self) -> bool:
        """Whether the turn is over."""
        return self._ended

    @property
    def record(self) -> InboxRecord:
        """Where the message stands in this turn."""
        return self._record

    @property
    def effects(self) -> list[Effect]:
        """What was decided so far, in order."""
        return self._effects

    def changed_state(self) -> bytes | None:
        """The packed state if this turn changed it, else None.

        Raises:
            BusError: INVALID_MESSAGE for a value that cannot be stored, with its path; TOO_LARGE.
        """
        if self._state is None:
            return None
        packed = pack_plain(self._state, limit_bytes=STATE_BYTES, what="state")
        unchanged = packed == self._stored_state or (self._stored_state is None and not self._state)
        return None if unchanged else packed

    def _turn_key(self, verb: str, index: int, key: str) -> str:
        record = self._record
        return turn_key(
            inbound_id=record.id,
            generation=record.generation,
            verb=verb,
            name=str(index),
            conversation_key=key,
            store_uuid=self._surroundings.store_uuid,
        )

    def _send_effect(
        self,
        channel: str,
        key: str,
        text: str,
        name: str,
        on_uncertain: OnUncertain | str | None,
        reply_to: str | None,
    ) -> SendEffect:
        self._check_active()
        self._surroundings.check_channel(channel, key)
        check_text(text)
        effect = SendEffect(SendRef(channel, name), key, text, reply_to, _policy(on_uncertain))
        self._add(effect)
        return effect

    def _add(self, effect: Effect) -> None:
        if len(self._effects) >= MAX_EFFECTS:
            raise BusError(Code.TOO_LARGE, f"a turn has at most {MAX_EFFECTS} effects", limit=MAX_EFFECTS)
        self._effects.append(effect)

    def _count_timer(self) -> int:
        index, self._timers = self._timers, self._timers + 1
        return index

    def _check_hops(self) -> None:
        if self.message.hops + 1 > MAX_HOPS:
            raise BusError(
                Code.HOP_LIMIT, f"more than {MAX_HOPS} messages caused one another", hops=self.message.hops
            )

    def _check_active(self) -> None:
        if self._ended:
            raise BusError(
                Code.STALE_CLAIM,
                "this turn has ended; what it decides now has no effect",
                claim=self._record.claim,
            )


def _policy(value: OnUncertain | str | None) -> OnUncertain | None:
    if value is None:
        return None
    try:
        return OnUncertain(value)
    except ValueError as error:
        raise BusError(
            Code.INVALID_MESSAGE, "on_uncertain is one of park, resend, drop", given=str(value)
        ) from error
